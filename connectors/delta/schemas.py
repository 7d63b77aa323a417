"""Converts Delta schemas to ours. Columns go by their names: Delta's files have no field ids.

Each path of names still gets a number here, since all code that reads files finds columns by field
id. The number means nothing elsewhere, and is the same in every version of a table's schema.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from pyiceberg.table.name_mapping import MappedField, NameMapping

from seamline.seam.table import TableSchema
from seamline.sql import types
from seamline.sql.types import Field, Type

_SIMPLE: Mapping[str, Type] = {
    "boolean": types.BOOLEAN,
    "byte": types.INTEGER,
    "short": types.INTEGER,
    "integer": types.INTEGER,
    "long": types.BIGINT,
    "float": types.REAL,
    "double": types.DOUBLE,
    "string": types.VARCHAR,
    "binary": types.VARBINARY,
    "date": types.DATE,
    "timestamp": types.TIMESTAMP_TZ,
    "timestamp_ntz": types.TIMESTAMP,
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
ELEMENT, KEY, VALUE = "element", "key", "value"
"""The names that name mappings use for the contents of arrays and maps."""


class FieldIds:
    """The numbers of one table's fields, by path. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._by_path: dict[tuple[str, ...], int] = {}

    def of(self, path: tuple[str, ...]) -> int:
        """Returns the number of a field."""
        with self._lock:
            if path not in self._by_path:
                self._by_path[path] = next(self._numbers)
            return self._by_path[path]


def table_schema(text: str, ids: FieldIds) -> TableSchema:
    """Parses a schema of the log (`schemaString`); its id is a digest of its contents.

    Raises:
        ValueError, TypeError, LookupError: The text is not a schema.
    """
    columns = _fields(json.loads(text)["fields"], (), ids)
    contents = json.dumps([[field.name, str(field.type), field.required] for field in columns])
    return TableSchema(int(hashlib.sha256(contents.encode()).hexdigest()[:7], 16), columns)


def _fields(
    fields: Iterable[Mapping[str, Any]], above: tuple[str, ...], ids: FieldIds
) -> tuple[Field, ...]:
    columns = []
    for field in fields:
        path = (*above, field["name"])
        type_ = _type(field["type"], path, ids)
        comment = (field.get("metadata") or {}).get("comment")
        columns.append(
            Field(
                field["name"],
                type_,
                ids.of(path),
                required=not field["nullable"],
                comment=str(comment) if comment else None,
            )
        )
    return tuple(columns)


def _type(declared: Any, path: tuple[str, ...], ids: FieldIds) -> Type:
    match declared:
        case str():
            decimal = _DECIMAL.fullmatch(declared)
            if decimal is not None:
                return types.Decimal(int(decimal[1]), int(decimal[2]))
            return _SIMPLE.get(declared) or types.Unsupported(declared)
        case {"type": "struct", "fields": fields}:
            row = types.Row(_fields(fields, path, ids))
            if len({field.name.lower() for field in row.fields}) < len(row.fields):
                return types.Unsupported(f"{row}, whose fields differ only in case")
            return row
        case {"type": "array", "elementType": element, "containsNull": nulls}:
            inside = (*path, ELEMENT)
            return types.Array(_type(element, inside, ids), ids.of(inside), not nulls)
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nulls}:
            keys, values = (*path, KEY), (*path, VALUE)
            return types.Map(
                _type(key, keys, ids),
                _type(value, values, ids),
                ids.of(keys),
                ids.of(values),
                not nulls,
            )
    return types.Unsupported(str(declared))


def name_mapping(schema: TableSchema) -> NameMapping:
    """Returns the mapping from the names of columns in files to a schema's field ids."""
    return NameMapping(_mapped(schema.columns))


def _mapped(fields: Iterable[Field]) -> list[MappedField]:
    return [_mapped_field(field.name, field.field_id, field.type) for field in fields]


def _mapped_field(name: str, number: int, type_: Type) -> MappedField:
    match type_:
        case types.Row(fields):
            inside = _mapped(fields)
        case types.Array(element):
            inside = [_mapped_field(ELEMENT, type_.element_id, element)]
        case types.Map(key, value):
            inside = [
                _mapped_field(KEY, type_.key_id, key),
                _mapped_field(VALUE, type_.value_id, value),
            ]
        case _:
            inside = []
    return MappedField(**{"field-id": number, "names": [name], "fields": inside})
