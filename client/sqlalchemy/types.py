# ruff: noqa: ARG002, N802, N815 - the names and signatures are SQLAlchemy's
"""SQL's types as SQLAlchemy has them, from the names a gateway gives and back to those.

Maps and rows are types of their own, whose values are dicts. A value of `json` is text that
SQLAlchemy parses.
"""

from __future__ import annotations

import datetime
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
    """A type whose literals are its name and a text."""

    literal_name: str

    def literal_processor(self, dialect: Dialect) -> Any:
        """`DATE '2024-02-29'`, for one."""
        return lambda value: f"{self.literal_name} '{self.literal_text(value)}'"

    def literal_text(self, value: Any) -> str:
        """The text of a value."""
        return str(value)


class _Date(_Literal, types.Date):
    """Dates; of a datetime the date is taken, as other databases do."""

    literal_name = "DATE"

    def bind_processor(self, dialect: Dialect) -> Any:
        """A date."""
        return lambda value: value.date() if isinstance(value, datetime.datetime) else value

    def literal_text(self, value: Any) -> str:
        """A date's text."""
        found = value.date() if isinstance(value, datetime.datetime) else value
        return str(found.isoformat())


class _DateTime(_Literal, types.DateTime):
    """Moments, with a zone or without one."""

    literal_name = "TIMESTAMP"

    def literal_text(self, value: Any) -> str:
        """A moment's text."""
        return str(value.isoformat(" "))


class _Time(_Literal, types.Time):
    """Times of a day."""

    literal_name = "TIME"


class _Uuid(_Literal, types.Uuid[Any]):
    """UUIDs; where they are kept as text, SQLAlchemy's own type does everything."""

    literal_name = "UUID"

    def bind_processor(self, dialect: Dialect) -> Any:
        """A UUID, also of a text."""
        if not self.native_uuid:
            return types.Uuid.bind_processor(self, dialect)
        return lambda value: uuid.UUID(value) if isinstance(value, str) else value

    def literal_processor(self, dialect: Dialect) -> Any:
        """`UUID '…'`, or the text."""
        if not self.native_uuid:
            own: Any = types.Uuid.literal_processor
            return own(self, dialect)
        return super().literal_processor(dialect)


class _Binary(_Literal, types.LargeBinary):
    """Bytes."""

    literal_name = "X"

    def literal_processor(self, dialect: Dialect) -> Any:
        """`X'00FF'`."""
        return lambda value: f"X'{value.hex()}'"


OWN: Mapping[type[Type], type[Type]] = {
    types.Date: _Date,
    types.DateTime: _DateTime,
    types.Time: _Time,
    types.LargeBinary: _Binary,
    types.Uuid: _Uuid,
}
"""What stands for SQLAlchemy's types where they are bound, or written out."""

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
    """The type that a gateway calls so; NullType for one that SQLAlchemy has no match for."""
    bare, inside = split_type(name)
    found = _NUMBERS.search(name)
    length, scale = (int(n) if n else None for n in found.groups()) if found else (None, None)
    match bare:
        case "array":
            return types.ARRAY(from_name(inside[0]))
        case "map":
            return MAP(from_name(inside[0]), from_name(inside[1]))
        case "row":
            fields = (row_field(part) for part in inside)
            return ROW(*((field, from_name(type_)) for field, type_ in fields))
        case "varchar" | "char":
            return (types.VARCHAR if bare == "varchar" else types.CHAR)(length)
        case "decimal":
            return types.DECIMAL(length, scale)
        case "timestamp" | "timestamp with time zone":
            return types.TIMESTAMP(timezone=bare != "timestamp")
    return _PLAIN.get(bare, types.NullType)()


class TypeCompiler(compiler.GenericTypeCompiler):
    """SQL's name of a type."""

    dialect: Dialect

    def visit_FLOAT(self, type_: Any, **_: Any) -> str:
        """Double, unless 24 bits are enough."""
        return "real" if type_.precision is not None and type_.precision <= 24 else "double"

    def visit_DOUBLE(self, type_: Any, **_: Any) -> str:
        """As SQL calls it here."""
        return "double"

    visit_DOUBLE_PRECISION = visit_DOUBLE

    def visit_DECIMAL(self, type_: Any, **_: Any) -> str:
        """With a precision; of one that says none there is room for 20 digits on both sides."""
        if type_.precision is None:
            return "decimal(38,18)"
        return f"decimal({type_.precision},{type_.scale or 0})"

    visit_NUMERIC = visit_DECIMAL

    def visit_TEXT(self, type_: Any, **_: Any) -> str:
        """Text of any length."""
        return "varchar"

    visit_CLOB = visit_NCLOB = visit_TEXT

    def visit_VARCHAR(self, type_: Any, **_: Any) -> str:
        """Text; a length belongs to casts alone, where it cuts."""
        return f"varchar({type_.length})" if type_.length else "varchar"

    visit_CHAR = visit_NCHAR = visit_NVARCHAR = visit_VARCHAR

    def visit_BLOB(self, type_: Any, **_: Any) -> str:
        """Bytes of any length."""
        return "varbinary"

    visit_BINARY = visit_VARBINARY = visit_BLOB

    def visit_TIMESTAMP(self, type_: Any, **_: Any) -> str:
        """In microseconds."""
        return "timestamp(6) with time zone" if type_.timezone else "timestamp(6)"

    visit_DATETIME = visit_TIMESTAMP

    def visit_TIME(self, type_: Any, **_: Any) -> str:
        """In microseconds, without a zone."""
        return "time(6)"

    def visit_JSON(self, type_: Any, **_: Any) -> str:
        """As SQL calls it here."""
        return "json"

    def visit_UUID(self, type_: Any, **_: Any) -> str:
        """As SQL calls it here."""
        return "uuid"

    def visit_uuid(self, type_: Any, **arguments: Any) -> str:
        """UUIDs; those that are to be kept as text are texts of 32 digits."""
        return self.visit_UUID(type_, **arguments) if type_.native_uuid else "varchar(32)"

    def visit_large_binary(self, type_: Any, **arguments: Any) -> str:
        """Bytes."""
        return self.visit_BLOB(type_, **arguments)

    def visit_ARRAY(self, type_: types.ARRAY[Any], **arguments: Any) -> str:
        """As many arrays in one another as it has dimensions."""
        name = self.process(type_.item_type, **arguments)
        for _ in range(type_.dimensions or 1):
            name = f"array({name})"
        return name

    def visit_MAP(self, type_: MAP, **arguments: Any) -> str:
        """Key and value."""
        key, value = (self.process(t, **arguments) for t in (type_.key_type, type_.value_type))
        return f"map({key}, {value})"

    def visit_ROW(self, type_: ROW, **arguments: Any) -> str:
        """Names and types of its fields."""
        quote = self.dialect.identifier_preparer.quote
        fields = (f"{quote(n)} {self.process(t, **arguments)}" for n, t in type_.fields)
        return f"row({', '.join(fields)})"
