"""Converts Iceberg's types and schemas to ours, and back.

Iceberg has no type json: such a column is a string there, and a property of the table lists the ids
of these fields.
"""

from __future__ import annotations

import dataclasses
import itertools
import uuid
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping

from seamline.connectors.iceberg.foreign_metadata import VariantType
from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.seam.encoding import Path
from seamline.seam.table import TableSchema
from seamline.sql import types
from seamline.sql.types import Field, Type

_SIMPLE: Mapping[type[iceberg.IcebergType], Type] = {
    iceberg.BooleanType: types.BOOLEAN,
    iceberg.IntegerType: types.INTEGER,
    iceberg.LongType: types.BIGINT,
    iceberg.FloatType: types.REAL,
    iceberg.DoubleType: types.DOUBLE,
    iceberg.StringType: types.VARCHAR,
    iceberg.BinaryType: types.VARBINARY,
    iceberg.UUIDType: types.UUID,
    iceberg.DateType: types.DATE,
    iceberg.TimeType: types.TIME,
    iceberg.TimestampType: types.TIMESTAMP,
    iceberg.TimestamptzType: types.TIMESTAMP_TZ,
}
_READ_ONLY: Mapping[type[iceberg.IcebergType], Type] = {
    iceberg.TimestampNanoType: dataclasses.replace(types.TIMESTAMP, in_nanoseconds=True),
    iceberg.TimestamptzNanoType: dataclasses.replace(types.TIMESTAMP_TZ, in_nanoseconds=True),
    iceberg.UnknownType: types.UNKNOWN,
    VariantType: types.VARIANT,
}
"""Types that only tables of other writers have."""
_TO_ICEBERG: Mapping[Type, iceberg.IcebergType] = {
    **{ours: theirs() for theirs, ours in _SIMPLE.items()},
    types.TINYINT: iceberg.IntegerType(),
    types.SMALLINT: iceberg.IntegerType(),
}


JSON_FIELDS = "seamline.json-fields"
"""The property that lists the ids of fields of type json, in a table over a topic."""


def table_schema(
    schema: Schema,
    mapping: NameMapping | None = None,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> TableSchema:
    """Converts an Iceberg schema to ours.

    Args:
        schema: The schema.
        mapping: The table's name mapping; the further names of a field become its aliases, under
            which records written before a rename still reach it.
        properties: The table's properties, which say which of its strings are JSON.
    """
    names = {} if mapping is None else _names_by_id(mapping.root)
    fields = tuple(_field(f, names) for f in schema.fields)
    jsons = frozenset(properties.get(JSON_FIELDS, "").split(",")) - {""}
    return TableSchema(schema.schema_id, tuple(_with_json(f, jsons) for f in fields))


def json_fields(schema: Schema, added: Mapping[Path, Type], before: str = "") -> dict[str, str]:
    """Returns the property that tells fields of type json from strings; none if there are none.

    Args:
        schema: The table's schema, in which they are strings.
        added: The types of the new columns and fields, by path.
        before: The value of the property before.
    """
    ids = [before] if before else []
    for path, type_ in added.items():
        if types.contains(type_, types.JSON):
            field = schema.find_field(".".join(path))
            ids += _json_ids(type_, field.field_type, field.field_id)
    return {JSON_FIELDS: ",".join(ids)} if ids else {}


def _json_ids(type_: Type, stored: iceberg.IcebergType, field_id: int) -> Iterator[str]:
    """Yields the ids of what is json in a type, at any depth."""
    match type_, stored:
        case types.JSON, _:
            yield str(field_id)
        case types.Row(fields), iceberg.StructType():
            inside = {field.name: field for field in stored.fields}
            for field in fields:
                own = inside[field.name]
                yield from _json_ids(field.type, own.field_type, own.field_id)
        case types.Array(element), iceberg.ListType():
            yield from _json_ids(element, stored.element_type, stored.element_id)
        case types.Map(key, value), iceberg.MapType():
            yield from _json_ids(key, stored.key_type, stored.key_id)
            yield from _json_ids(value, stored.value_type, stored.value_id)


def _with_json(field: Field, ids: Collection[str]) -> Field:
    return dataclasses.replace(field, type=_json_at(field.type, field.field_id, ids))


def _json_at(type_: Type, field_id: int, ids: Collection[str]) -> Type:
    """Returns a type whose strings with these ids are JSON."""
    match type_:
        case _ if not ids:
            return type_
        case types.VARCHAR if str(field_id) in ids:
            return types.JSON
        case types.Row(fields):
            return types.Row(tuple(_with_json(field, ids) for field in fields))
        case types.Array(element, element_id):
            return dataclasses.replace(type_, element=_json_at(element, element_id, ids))
        case types.Map(key, value, key_id, value_id):
            key, value = _json_at(key, key_id, ids), _json_at(value, value_id, ids)
            return dataclasses.replace(type_, key=key, value=value)
    return type_


def _names_by_id(fields: list[MappedField]) -> dict[int, list[str]]:
    names: dict[int, list[str]] = {}
    for field in fields:
        if field.field_id is not None:
            names[field.field_id] = list(field.names)
        names.update(_names_by_id(field.fields))
    return names


def _field(field: iceberg.NestedField, names: Mapping[int, list[str]]) -> Field:
    aliases = tuple(n for n in reversed(names.get(field.field_id, [])) if n != field.name)
    return Field(
        name=field.name,
        type=from_iceberg(field.field_type, names),
        field_id=field.field_id,
        required=field.required,
        aliases=aliases,
        initial_default=_default(field.initial_default),
        write_default=_default(field.write_default),
        comment=field.doc or None,
    )


def _default(value: Any) -> Any:
    """Converts a default to the form that columns hold: a UUID becomes a string."""
    return str(value) if isinstance(value, uuid.UUID) else value


def from_iceberg(type_: iceberg.IcebergType, names: Mapping[int, list[str]]) -> Type:
    """Converts an Iceberg type to ours; one that we cannot read becomes `Unsupported`."""
    match type_:
        case iceberg.DecimalType():
            return types.Decimal(type_.precision, type_.scale)
        case iceberg.FixedType():
            return types.Varbinary(len(type_))
        case iceberg.StructType():
            return _row(tuple(_field(field, names) for field in type_.fields))
        case iceberg.ListType():
            return types.Array(
                from_iceberg(type_.element_type, names), type_.element_id, type_.element_required
            )
        case iceberg.MapType():
            return types.Map(
                from_iceberg(type_.key_type, names),
                from_iceberg(type_.value_type, names),
                type_.key_id,
                type_.value_id,
                type_.value_required,
            )
        case _:
            simple = _SIMPLE.get(type(type_)) or _READ_ONLY.get(type(type_))
            return simple or types.Unsupported(str(type_))


def _row(fields: tuple[Field, ...]) -> Type:
    """Returns a row type, or `Unsupported` if DuckDB would confuse its fields."""
    row = types.Row(fields)
    if len({field.name.lower() for field in fields}) < len(fields):
        return types.Unsupported(f"{row}, whose fields differ only in case")
    return row


def to_schema(
    columns: tuple[Field, ...], key: Collection[str] = (), *, is_written: bool = True
) -> Schema:
    """Builds an Iceberg schema for new columns; assigns ids to columns first, then inside them.

    Args:
        columns: The columns.
        key: Names of the columns that identify a row.
        is_written: Whether rows will be written, which Spark cannot do for every type.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION for a type that Iceberg or its writer cannot hold.
    """
    if is_written:
        for column in columns:
            _require_writable(column.type, column.name)
    ids = itertools.count(len(columns) + 1)
    fields = [
        iceberg.NestedField(
            field_id=position,
            name=column.name,
            field_type=_to_iceberg(column.type, ids, column.name),
            required=column.required,
            doc=column.comment,
        )
        for position, column in enumerate(columns, start=1)
    ]
    return Schema(*fields, identifier_field_ids=[f.field_id for f in fields if f.name in key])


def storable(type_: Type) -> Type:
    """Returns the column type that stores values of a query's type: times to the microsecond."""
    return types.changed(type_, _to_the_microsecond)


def stored_as_text(columns: Collection[Field]) -> tuple[Field, ...]:
    """Returns the columns of a table over a topic as Iceberg has them: json is a string."""
    return tuple(dataclasses.replace(c, type=types.changed(c.type, _text)) for c in columns)


def _text(type_: Type) -> Type:
    return types.VARCHAR if type_ == types.JSON else type_


def representable(type_: Type) -> Type:
    """Returns the nearest type that an Iceberg schema can hold; text, where there is none nearer.

    It describes a computed column, such as a view's, and is never written.
    """
    return types.changed(type_, _nearest)


def _to_the_microsecond(type_: Type) -> Type:
    if isinstance(type_, types.Timestamp):
        return types.TIMESTAMP_TZ if type_.zoned else types.TIMESTAMP
    return type_


def _nearest(type_: Type) -> Type:
    match type_:
        case types.TINYINT | types.SMALLINT:
            return types.INTEGER
        case types.Timestamp():
            return _to_the_microsecond(type_)
        case types.Decimal() | types.Varbinary():
            return type_
        case _:
            return type_ if type_ in _TO_ICEBERG else types.VARCHAR


def _to_iceberg(type_: Type, ids: Any, path: str) -> iceberg.IcebergType:
    match type_:
        case types.Decimal(precision, scale):
            return iceberg.DecimalType(precision, scale)
        case types.Varbinary(length):
            return iceberg.BinaryType() if length is None else iceberg.FixedType(length)
        case types.Array(element):
            return iceberg.ListType(next(ids), _to_iceberg(element, ids, path), False)
        case types.Map(key, value):
            return iceberg.MapType(
                next(ids),
                _to_iceberg(key, ids, path),
                next(ids),
                _to_iceberg(value, ids, path),
                False,
            )
        case types.Row(fields):
            return iceberg.StructType(
                *(
                    iceberg.NestedField(
                        next(ids), f.name, _to_iceberg(f.type, ids, f"{path}.{f.name}"), False
                    )
                    for f in fields
                )
            )
    iceberg_type = _TO_ICEBERG.get(type_)
    if iceberg_type is None:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"{path}: Iceberg has no type for {type_}",
            hint="Use varchar, and cast it in queries.",
        )
    return iceberg_type


def _require_writable(type_: Type, path: str) -> None:
    if isinstance(type_, types.Row):
        for field in type_.fields:
            _require_writable(field.type, f"{path}.{field.name}")
    elif type_ == types.TIME:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"{path}: Spark cannot write Iceberg's type time",
            hint="declare it as varchar, or as bigint (microseconds)",
        )
    else:
        for inside in types.children(type_):
            _require_writable(inside, path)
