"""Columns as Flight SQL describes them: Arrow's fields, with what JDBC's metadata says in addition.

Arrow has no name for `uuid` or `json`, and drivers do not derive sizes from Arrow's types: the JDBC
driver says that a decimal has no digits unless it is told how many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from seamline.gateway.system.jdbc import digits_of, size_of
from seamline.sql import types
from seamline.sql.binder.scope import Output
from seamline.sql.types import Char, Type

_PREFIX = "ARROW:FLIGHT:SQL:"


def columns_of(output: Iterable[Output]) -> pa.Schema:
    """Returns the columns of a result."""
    return pa.schema(column(each.name, each.type) for each in output)


def column(name: str, type_: Type) -> pa.Field:
    """Returns a column of a result."""
    scale, _ = digits_of(type_)
    metadata = {
        "TYPE_NAME": str(type_),
        "PRECISION": size_of(type_),
        "SCALE": scale,
        "IS_CASE_SENSITIVE": int(type_ == types.VARCHAR or isinstance(type_, Char)),
        "IS_SEARCHABLE": 1,
    }
    return with_metadata(types.result_field(name, type_), metadata)


def parameter(name: str, type_: Type) -> pa.Field:
    """Returns a parameter, whose times are in milliseconds; a client may bind finer ones.

    The JDBC driver writes milliseconds into a vector of whatever unit it is told.
    """
    field = column(name, type_)
    if pa.types.is_timestamp(field.type):
        return field.with_type(pa.timestamp("ms", field.type.tz))
    return field.with_type(pa.time32("ms")) if pa.types.is_time(field.type) else field


def is_uuid(field: pa.Field) -> bool:
    """Returns whether a column or parameter holds UUIDs, which Arrow carries as texts."""
    return (field.metadata or {}).get(f"{_PREFIX}TYPE_NAME".encode()) == str(types.UUID).encode()


def with_metadata(field: pa.Field, metadata: Mapping[str, Any]) -> pa.Field:
    """Returns a field with Flight SQL's metadata; values of None are left out."""
    texts = {f"{_PREFIX}{name}": str(v) for name, v in metadata.items() if v is not None}
    return field.with_metadata({**(field.metadata or {}), **texts})
