# ruff: noqa: ARG002, N802, N815 - the names and signatures are SQLAlchemy's
"""Converts between the gateway's SQL type names and SQLAlchemy's types, in both directions.

Maps and rows have their own types here, and their values are dicts. A `json` value is text that
SQLAlchemy parses.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
import uuid
from collections.abc import Mapping
from typing import Any

from sqlalchemy import types
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql import compiler

from seamline.dbapi.values import row_field, split_type

Type = types.TypeEngine[Any]


class MAP(types.UserDefinedType[dict[Any, Any]]):
    """`map(key, value)`."""

    __visit_name__ = "MAP"
    cache_ok = True

    def __init__(self, key_type: Type, value_type: Type) -> None:
        self.key_type = key_type
        self.value_type = value_type


class ROW(types.UserDefinedType[dict[str, Any]]):
    """`row(name type, …)`; fields are pairs of a name and a type."""

    __visit_name__ = "ROW"
    cache_ok = True

    def __init__(self, *fields: tuple[str, Type]) -> None:
        self.fields = fields


class _Literal(types.TypeEngine[Any]):
    """A type whose literals consist of its name and a quoted text."""

    literal_name: str

    def literal_processor(self, dialect: Dialect) -> Any:
        """Returns a function that writes a literal, such as `DATE '2024-02-29'`."""
        return lambda value: f"{self.literal_name} '{self.literal_text(value)}'"

    def literal_text(self, value: Any) -> str:
        """Returns the text of a value."""
        return str(value)


class _Date(_Literal, types.Date):
    """Dates; a datetime is reduced to its date, as in other databases."""

    literal_name = "DATE"

    def bind_processor(self, dialect: Dialect) -> Any:
        """Returns a function that converts datetimes to dates."""
        return lambda value: value.date() if isinstance(value, datetime.datetime) else value

    def literal_text(self, value: Any) -> str:
        """Returns the text of a date."""
        date = value.date() if isinstance(value, datetime.datetime) else value
        return str(date.isoformat())


class _DateTime(_Literal, types.DateTime):
    """Timestamps, with or without a time zone."""

    literal_name = "TIMESTAMP"

    def literal_text(self, value: Any) -> str:
        """Returns the text of a timestamp."""
        return str(value.isoformat(" "))


class _Time(_Literal, types.Time):
    """Times of day."""

    literal_name = "TIME"


class _Uuid(_Literal, types.Uuid[Any]):
    """UUIDs; if they are stored as text, SQLAlchemy's own type does everything."""

    literal_name = "UUID"

    def bind_processor(self, dialect: Dialect) -> Any:
        """Returns a function that converts text to a UUID; SQLAlchemy's own if stored as text."""
        if not self.native_uuid:
            return types.Uuid.bind_processor(self, dialect)
        return lambda value: uuid.UUID(value) if isinstance(value, str) else value

    def literal_processor(self, dialect: Dialect) -> Any:
        """Returns a function that writes `UUID '…'`; SQLAlchemy's own if stored as text."""
        if not self.native_uuid:
            base: Any = types.Uuid.literal_processor
            return base(self, dialect)
        return super().literal_processor(dialect)


class _Binary(_Literal, types.LargeBinary):
    """Bytes."""

    literal_name = "X"

    def literal_processor(self, dialect: Dialect) -> Any:
        """Returns a function that writes a literal such as `X'00FF'`."""
        return lambda value: f"X'{value.hex()}'"


class _Numeric(types.Numeric[Any]):
    """Decimals; a float is bound as the decimal it is written as; nothing is guessed."""

    def bind_processor(self, dialect: Dialect) -> Any:
        """Returns a function that converts finite floats to decimals."""

        def bound(value: Any) -> Any:
            is_finite = isinstance(value, float) and math.isfinite(value)
            return decimal.Decimal(repr(value)) if is_finite else value

        return bound


OWN: Mapping[type[Type], type[Type]] = {
    types.Float: types.Float,  # which SQLAlchemy 2.0 counts among Numeric
    types.Numeric: _Numeric,
    types.Date: _Date,
    types.DateTime: _DateTime,
    types.Time: _Time,
    types.LargeBinary: _Binary,
    types.Uuid: _Uuid,
}
"""Replacements for SQLAlchemy's types when values are bound or written as literals."""

_PLAIN: Mapping[str, type[Type]] = {
    "boolean": types.BOOLEAN,
    "tinyint": types.SMALLINT,
    "smallint": types.SMALLINT,
    "integer": types.INTEGER,
    "bigint": types.BIGINT,
    "real": types.REAL,
    "double": types.DOUBLE,
    "varbinary": types.VARBINARY,
    "date": types.DATE,
    "time": types.TIME,
    "uuid": types.UUID,
    "json": types.JSON,
}
_NUMBERS = re.compile(r"\((\d+)(?:,\s*(\d+))?\)")


def from_name(name: str) -> Type:
    """Returns the type for a gateway's type name; NullType if SQLAlchemy has no match."""
    bare, inside = split_type(name)
    match = _NUMBERS.search(name)
    length, scale = (int(n) if n else None for n in match.groups()) if match else (None, None)
    match bare:
        case "array":
            return types.ARRAY(from_name(inside[0]))
        case "map":
            return MAP(from_name(inside[0]), from_name(inside[1]))
        case "row":
            fields = (row_field(part, position) for position, part in enumerate(inside))
            return ROW(*((field, from_name(type_)) for field, type_ in fields))
        case "varchar" | "char":
            return (types.VARCHAR if bare == "varchar" else types.CHAR)(length)
        case "decimal":
            return types.DECIMAL(length, scale)
        case "timestamp" | "timestamp with time zone":
            return types.TIMESTAMP(timezone=bare != "timestamp")
        case "time with time zone":
            return types.TIME(timezone=True)
    return _PLAIN.get(bare, types.NullType)()


class TypeCompiler(compiler.GenericTypeCompiler):
    """Compiles types to their SQL names."""

    dialect: Dialect

    def visit_FLOAT(self, type_: Any, **_: Any) -> str:
        """Returns `double`, or `real` if 24 bits of precision are enough."""
        return "real" if type_.precision is not None and type_.precision <= 24 else "double"

    def visit_DOUBLE(self, type_: Any, **_: Any) -> str:
        """Returns `double`."""
        return "double"

    visit_DOUBLE_PRECISION = visit_DOUBLE

    def visit_DECIMAL(self, type_: Any, **_: Any) -> str:
        """Returns a decimal with a precision; by default, `decimal(38,18)`."""
        if type_.precision is None:
            return "decimal(38,18)"
        return f"decimal({type_.precision},{type_.scale or 0})"

    visit_NUMERIC = visit_DECIMAL

    def visit_TEXT(self, type_: Any, **_: Any) -> str:
        """Returns `varchar`, for text of any length."""
        return "varchar"

    visit_CLOB = visit_NCLOB = visit_TEXT

    def visit_VARCHAR(self, type_: Any, **_: Any) -> str:
        """Returns `varchar`; a length matters only in casts, which truncate to it."""
        return f"varchar({type_.length})" if type_.length else "varchar"

    visit_CHAR = visit_NCHAR = visit_NVARCHAR = visit_VARCHAR

    def visit_BLOB(self, type_: Any, **_: Any) -> str:
        """Returns `varbinary`, for bytes of any length."""
        return "varbinary"

    visit_BINARY = visit_VARBINARY = visit_BLOB

    def visit_TIMESTAMP(self, type_: Any, **_: Any) -> str:
        """Returns a timestamp type with microseconds."""
        return "timestamp(6) with time zone" if type_.timezone else "timestamp(6)"

    visit_DATETIME = visit_TIMESTAMP

    def visit_TIME(self, type_: Any, **_: Any) -> str:
        """Returns a time type with microseconds, without a time zone."""
        return "time(6)"

    def visit_JSON(self, type_: Any, **_: Any) -> str:
        """Returns `json`."""
        return "json"

    def visit_UUID(self, type_: Any, **_: Any) -> str:
        """Returns `uuid`."""
        return "uuid"

    def visit_uuid(self, type_: Any, **arguments: Any) -> str:
        """Returns `uuid`, or a text type of 32 digits if UUIDs are stored as text."""
        return self.visit_UUID(type_, **arguments) if type_.native_uuid else "varchar(32)"

    def visit_large_binary(self, type_: Any, **arguments: Any) -> str:
        """Returns `varbinary`, as `visit_BLOB` does."""
        return self.visit_BLOB(type_, **arguments)

    def visit_ARRAY(self, type_: types.ARRAY[Any], **arguments: Any) -> str:
        """Returns nested arrays, one per dimension."""
        name = self.process(type_.item_type, **arguments)
        for _ in range(type_.dimensions or 1):
            name = f"array({name})"
        return name

    def visit_MAP(self, type_: MAP, **arguments: Any) -> str:
        """Returns a map type with its key and value types."""
        key, value = (self.process(t, **arguments) for t in (type_.key_type, type_.value_type))
        return f"map({key}, {value})"

    def visit_ROW(self, type_: ROW, **arguments: Any) -> str:
        """Returns a row type with the names and types of its fields."""
        quote = self.dialect.identifier_preparer.quote
        fields = (f"{quote(n)} {self.process(t, **arguments)}" for n, t in type_.fields)
        return f"row({', '.join(fields)})"
