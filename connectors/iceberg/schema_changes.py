"""Applies evolution's decisions through PyIceberg: adds, widens and renames columns by field id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import IcebergType

from seamline.connectors.iceberg.type_conversion import to_schema
from seamline.seam.evolution import (
    AddColumn,
    Change,
    KnowColumn,
    RenameColumn,
    WidenColumn,
    former_names,
)
from seamline.sql.types import Field, Row, Type


def apply_changes(update: UpdateSchema, changes: Sequence[Change]) -> None:
    """Adds changes to a PyIceberg schema update; paths are those from before any of the changes.

    Raises:
        ValueError, ValidationError: PyIceberg rejects a change.
    """
    for change in changes:
        match change:
            case AddColumn(path, type_):
                update.add_column(path, _iceberg_type(type_))
            case WidenColumn(path, _, type_):
                update.update_column(path, field_type=_iceberg_type(type_))
            case RenameColumn(path, name):
                update.rename_column(path, name)


def with_former_names(
    mapping: NameMapping, schema: Schema, changes: Sequence[Change]
) -> NameMapping:
    """Returns a table's name mapping with the further names that changes give its columns.

    Args:
        mapping: The name mapping, after the columns have changed.
        schema: The schema, after the columns have changed.
        changes: The changes; paths are those from before any of them.
    """
    renamed = {change.path: change.name for change in changes if isinstance(change, RenameColumn)}

    def field_id(path: tuple[str, ...]) -> int:
        now = (renamed.get(path[: place + 1], name) for place, name in enumerate(path))
        return schema.find_field(".".join(now)).field_id

    further = {field_id(c.path): c.names for c in changes if isinstance(c, KnowColumn)}
    return NameMapping(_named(mapping.root, further))


def named_mapping(schema: Schema, columns: Sequence[Field]) -> NameMapping:
    """Returns the name mapping of a new table, including the former names of its columns."""
    known = tuple(former_names((), Row(tuple(columns))))
    return with_former_names(schema.name_mapping, schema, known)


def text_of(mapping: NameMapping) -> str:
    """Returns a name mapping as the value of a table property."""
    return mapping.model_dump_json()


def _named(
    fields: Sequence[MappedField], further: Mapping[int, Sequence[str]]
) -> list[MappedField]:
    """Returns the fields of a mapping with further names in front, the oldest of these first."""
    return [
        MappedField.model_validate(
            {
                "field-id": field.field_id,
                "names": [
                    *(
                        n
                        for n in reversed(further.get(field.field_id or 0, ()))
                        if n not in field.names
                    ),
                    *field.names,
                ],
                "fields": _named(field.fields, further),
            }
        )
        for field in fields
    ]


def _iceberg_type(type_: Type) -> IcebergType:
    return to_schema((Field("column", type_),)).fields[0].field_type
