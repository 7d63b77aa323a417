"""The types of the SQL language, and their names in Arrow, DuckDB, Spark and sqlglot.

The types are Trino's, with microsecond precision: `timestamp` is timestamp(6). A timestamp with
time zone is an instant; the zone in which its fields are read belongs to its type, not to its
value. Nested types carry Iceberg's field ids, which take no part in comparison: two rows with equal
fields are the same type wherever they are stored.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from seamline.errors import INVALID_LITERAL, NOT_SUPPORTED, STATEMENT_TOO_LARGE, SeamlineError
from seamline.sql.absent_types import absent_type
from seamline.sql.quoting import spark_name

MAX_DECIMAL_PRECISION = 38
NO_FIELD_ID = -1


class Type:
    """A type. Instances of subclasses are frozen and compare by structure."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Simple(Type):
    name: str
    arrow: pa.DataType
    duckdb: str
    spark: str

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name.upper()


BOOLEAN = _Simple("boolean", pa.bool_(), "BOOLEAN", "BOOLEAN")
TINYINT = _Simple("tinyint", pa.int8(), "TINYINT", "TINYINT")
SMALLINT = _Simple("smallint", pa.int16(), "SMALLINT", "SMALLINT")
INTEGER = _Simple("integer", pa.int32(), "INTEGER", "INT")
BIGINT = _Simple("bigint", pa.int64(), "BIGINT", "BIGINT")
REAL = _Simple("real", pa.float32(), "FLOAT", "FLOAT")
DOUBLE = _Simple("double", pa.float64(), "DOUBLE", "DOUBLE")
VARCHAR = _Simple("varchar", pa.string(), "VARCHAR", "STRING")
DATE = _Simple("date", pa.date32(), "DATE", "DATE")
UUID = _Simple("uuid", pa.string(), "VARCHAR", "STRING")
UNKNOWN = _Simple("unknown", pa.null(), "INTEGER", "VOID")
"""The type of a bare NULL, which coerces to every other type."""


@dataclasses.dataclass(frozen=True, slots=True)
class Json(_Simple):
    """JSON as text.

    Attributes:
        is_variant: Whether a table stores it as Iceberg's `variant`, which has no text of its own.
    """

    is_variant: bool = dataclasses.field(default=False, compare=False)

    def __repr__(self) -> str:
        return "JSON"


JSON = Json("json", pa.string(), "VARCHAR", "STRING")
VARIANT = dataclasses.replace(JSON, is_variant=True)
"""JSON that a table stores as Iceberg's `variant`."""

INTEGERS = (TINYINT, SMALLINT, INTEGER, BIGINT)
FLOATS = (REAL, DOUBLE)


@dataclasses.dataclass(frozen=True, slots=True)
class Timestamp(Type):
    """A local date and time or, if zoned, an instant.

    Columns have six fractional digits of a second. CAST to fewer digits rounds to them; the value
    then equals one of six digits that ends in zeros.

    Attributes:
        precision: Fractional digits of a second.
        zoned: Whether it is an instant.
        zone: The time zone in which fields of an instant are read; instants of all zones compare.
        in_nanoseconds: Whether a table stores nine digits; values that need them cannot be read.
    """

    precision: int
    zoned: bool
    zone: str = dataclasses.field(default="UTC", compare=False)
    in_nanoseconds: bool = dataclasses.field(default=False, compare=False)

    def __str__(self) -> str:
        return f"timestamp({self.precision}){' with time zone' if self.zoned else ''}"

    def __repr__(self) -> str:
        return str(self).upper() + (f" {self.zone}" if self.zone != "UTC" else "")


@dataclasses.dataclass(frozen=True, slots=True)
class Time(Type):
    """A time of day; if zoned, it is kept as UTC, which is what comparison compares.

    Attributes:
        precision: Fractional digits of a second; it takes no part in comparison.
        zoned: Whether it is at an offset from UTC.
        zone: That offset, in which its fields are read.
    """

    precision: int = dataclasses.field(default=6, compare=False)
    zoned: bool = False
    zone: str = dataclasses.field(default="UTC", compare=False)

    def __str__(self) -> str:
        return f"time({self.precision}){' with time zone' if self.zoned else ''}"


TIME = Time()
TIME_TZ = Time(zoned=True)
TIMESTAMP = Timestamp(6, zoned=False)
TIMESTAMP_TZ = Timestamp(6, zoned=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Varbinary(Type):
    """Bytes; `length` is set for Iceberg's `fixed(n)` and does not change what SQL may do."""

    length: int | None = dataclasses.field(default=None, compare=False)

    def __str__(self) -> str:
        return "varbinary"


VARBINARY = Varbinary()


@dataclasses.dataclass(frozen=True, slots=True)
class Char(Type):
    """Text of `length` characters, padded with spaces, which do not count beside a varchar."""

    length: int

    def __str__(self) -> str:
        return f"char({self.length})"

    def __repr__(self) -> str:
        return str(self).upper()


CHAR_LENGTH_MAX = 65536


@dataclasses.dataclass(frozen=True, slots=True)
class Decimal(Type):
    """An exact number of `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclasses.dataclass(frozen=True, slots=True)
class Array(Type):
    """A list of `element`."""

    element: Type
    element_id: int = dataclasses.field(default=NO_FIELD_ID, compare=False)
    element_required: bool = dataclasses.field(default=False, compare=False)

    def __str__(self) -> str:
        return f"array({self.element})"


@dataclasses.dataclass(frozen=True, slots=True)
class Map(Type):
    """A map of `key` to `value`; keys are never null.

    Raises:
        SeamlineError: STATEMENT_TOO_LARGE.
    """

    key: Type
    value: Type
    key_id: int = dataclasses.field(default=NO_FIELD_ID, compare=False)
    value_id: int = dataclasses.field(default=NO_FIELD_ID, compare=False)
    value_required: bool = dataclasses.field(default=False, compare=False)
    parts: int = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _parts(self.key, self.value))

    def __str__(self) -> str:
        return f"map({self.key}, {self.value})"


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One field of a row type.

    Attributes:
        name: Its name in the table.
        type: Its type.
        field_id: Its Iceberg field id.
        required: Whether null is refused.
        aliases: Its other names in records (Iceberg's name mapping), newest first.
        initial_default: The value in rows written before it existed, as a Python value.
        write_default: The value for a record that omits it.
        comment: The owner's comment on it.
        is_nameless: Whether SQL gives it no name, and its name is that of its place, for engines.
    """

    name: str
    type: Type
    field_id: int = dataclasses.field(default=NO_FIELD_ID, compare=False)
    required: bool = dataclasses.field(default=False, compare=False)
    aliases: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    initial_default: Any = dataclasses.field(default=None, compare=False)
    write_default: Any = dataclasses.field(default=None, compare=False)
    comment: str | None = dataclasses.field(default=None, compare=False)
    is_nameless: bool = dataclasses.field(default=False, compare=False)

    def __str__(self) -> str:
        return str(self.type) if self.is_nameless else f"{quote(self.name)} {self.type}"


@dataclasses.dataclass(frozen=True, slots=True)
class Row(Type):
    """A struct.

    Raises:
        SeamlineError: STATEMENT_TOO_LARGE.
    """

    fields: tuple[Field, ...]
    parts: int = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _parts(*(field.type for field in self.fields)))

    def __str__(self) -> str:
        return f"row({', '.join(map(str, self.fields))})"

    def field(self, name: str) -> Field | None:
        """Returns the field of that name, ignoring case; an exact match wins."""
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        folded = name.lower()
        return next((f for f in self.fields if f.name.lower() == folded), None)


@dataclasses.dataclass(frozen=True, slots=True)
class Interval(Type):
    """A length of time, in milliseconds or in months."""

    unit: str

    def __str__(self) -> str:
        return f"interval {self.unit}"


INTERVAL_DAY = Interval("day to second")
INTERVAL_YEAR = Interval("year to month")


@dataclasses.dataclass(frozen=True, slots=True)
class Function(Type):
    """A lambda, which only functions take."""

    parameters: tuple[Type, ...]
    returns: Type

    def __str__(self) -> str:
        return f"function({', '.join(map(str, (*self.parameters, self.returns)))})"


@dataclasses.dataclass(frozen=True, slots=True)
class Unsupported(Type):
    """A type of a stored column that SQL here cannot handle; using the column is an error."""

    stored: str

    def __str__(self) -> str:
        return self.stored


def delimited(type_: Type) -> str:
    """Returns the type as `typeof` shows it: with every name delimited."""
    match type_:
        case Array(element):
            return f"array({delimited(element)})"
        case Map(key, value):
            return f"map({delimited(key)}, {delimited(value)})"
        case Row(fields):
            names = ("" if field.is_nameless else f"{quoted(field.name)} " for field in fields)
            inner = (delimited(field.type) for field in fields)
            return f"row({', '.join(map(str.__add__, names, inner))})"
    return str(type_)


def nameless(position: int) -> str:
    """Returns the name of an unnamed row field, by its position from 0."""
    return f"field{position}"


def anonymous_row(members: Sequence[Type]) -> Row:
    """Returns a row type with unnamed fields."""
    return Row(tuple(itertools.starmap(nameless_field, enumerate(members))))


def nameless_field(position: int, type_: Type) -> Field:
    """Returns an unnamed row field, by its position from 0."""
    return Field(nameless(position), type_, is_nameless=True)


def is_numeric(type_: Type) -> bool:
    """Whether arithmetic is defined on the type."""
    return type_ in INTEGERS or type_ in FLOATS or isinstance(type_, Decimal)


def children(type_: Type) -> Iterator[Type]:
    """Yields the types directly inside a nested type."""
    match type_:
        case Array(element):
            yield element
        case Map(key, value):
            yield key
            yield value
        case Row(fields):
            for field in fields:
                yield field.type
        case _:
            return


PARTS_MAX = 20_000


def _parts(*types: Type) -> int:
    """Counts the types that make up a type with these members.

    A short text may describe a large type: a row of two columns that are rows of two columns.

    Raises:
        SeamlineError: STATEMENT_TOO_LARGE when there are too many to visit all of them.
    """
    count = 1
    for type_ in types:
        while isinstance(type_, Array):
            count, type_ = count + 1, type_.element
        count += type_.parts if isinstance(type_, Map | Row) else 1
    if count > PARTS_MAX:
        raise SeamlineError(
            STATEMENT_TOO_LARGE, f"a type has {count:,} parts; at most {PARTS_MAX:,} are allowed"
        )
    return count


def changed(type_: Type, change: Callable[[Type], Type]) -> Type:
    """Returns a type in which each innermost type is changed."""
    match type_:
        case Array(element):
            return Array(changed(element, change))
        case Map(key, value):
            return Map(changed(key, change), changed(value, change))
        case Row(fields):
            return Row(
                tuple(
                    Field(f.name, changed(f.type, change), is_nameless=f.is_nameless)
                    for f in fields
                )
            )
    return change(type_)


def contains(type_: Type, part: Type | type[Type]) -> bool:
    """Whether the type is `part` or contains it at any depth."""
    here = isinstance(type_, part) if isinstance(part, type) else type_ == part
    return here or any(contains(child, part) for child in children(type_))


def holds_variant(type_: Type) -> bool:
    """Whether a table stores the type, or a type inside it, as a variant."""
    is_variant = isinstance(type_, Json) and type_.is_variant
    return is_variant or any(map(holds_variant, children(type_)))


def holds_nanoseconds(type_: Type) -> bool:
    """Whether a table stores the type, or a type inside it, in nanoseconds."""
    is_fine = isinstance(type_, Timestamp) and type_.in_nanoseconds
    return is_fine or any(map(holds_nanoseconds, children(type_)))


def quoted(name: str) -> str:
    """Returns the name as a delimited identifier of standard SQL."""
    return '"' + name.replace('"', '""') + '"'


def quote(name: str) -> str:
    """Returns the name as an identifier, delimited only where necessary."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else quoted(name)


# --- Names in other systems --------------------------------------------------------------------


def to_arrow(type_: Type) -> pa.DataType:
    """Returns the Arrow type that carries values of `type_` between all parts of Seamline.

    Iceberg's field ids are attached as Parquet field metadata where they are known.
    """
    match type_:
        case _Simple():
            return type_.arrow
        case Timestamp():
            return pa.timestamp("us", "UTC" if type_.zoned else None)
        case Time():
            return pa.time64("us")
        case Char():
            return pa.string()
        case Varbinary():
            return pa.binary()
        case Interval():
            return pa.int64()
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Array(element):
            return pa.list_(
                _arrow_field("element", element, type_.element_id, type_.element_required)
            )
        case Map(key, value):
            key_type = VARCHAR if key == UNKNOWN else key  # Arrow has no keys that can only be null
            return pa.map_(
                _arrow_field("key", key_type, type_.key_id, required=True),
                _arrow_field("value", value, type_.value_id, type_.value_required),
            )
        case Row(fields):
            return pa.struct([arrow_field(field) for field in fields])
        case _:
            raise SeamlineError(NOT_SUPPORTED, f"the type {type_} cannot be read")


def arrow_field(field: Field) -> pa.Field:
    """Returns the Arrow field of a column or row field, with its Iceberg id."""
    return _arrow_field(field.name, field.type, field.field_id, field.required)


def result_field(name: str, type_: Type) -> pa.Field:
    """Returns the Arrow field of a result column; intervals and times with zone become text.

    Raises:
        SeamlineError: NOT_SUPPORTED for such a value inside an array, a map or a row.
    """
    if isinstance(type_, Interval):
        return pa.field(name, pa.string(), metadata={INTERVAL_OF: type_.unit.encode()})
    if isinstance(type_, Time) and type_.zoned:
        form = f"{type_.precision} {type_.zone}"
        return pa.field(name, pa.string(), metadata={TIME_AT: form.encode()})
    if contains(type_, Interval) or contains(type_, TIME_TZ):
        raise SeamlineError(
            NOT_SUPPORTED,
            f"{type_} cannot be the type of a result",
            hint="Take the intervals and the times with time zone out of it, or make them varchar.",
        )
    return pa.field(name, to_arrow(type_))


INTERVAL_OF = b"seamline.interval"
"""Metadata key for the unit of a field that holds intervals as text."""
TIME_AT = b"seamline.time"
"""Metadata key for the digits and the offset of a field that holds times with zone as text."""


def _arrow_field(name: str, type_: Type, field_id: int, required: bool) -> pa.Field:
    metadata = {b"PARQUET:field_id": str(field_id).encode()} if field_id != NO_FIELD_ID else None
    return pa.field(name, to_arrow(type_), nullable=not required, metadata=metadata)


def to_duckdb(type_: Type) -> str:
    """Returns the type's name in DuckDB's SQL."""
    match type_:
        case _Simple():
            return type_.duckdb
        case Timestamp():
            return "TIMESTAMP WITH TIME ZONE" if type_.zoned else "TIMESTAMP"
        case Time():
            return "TIME"
        case Char():
            return "VARCHAR"
        case Varbinary():
            return "BLOB"
        case Interval():
            return "BIGINT"
        case Decimal(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case Array(element):
            return f"{to_duckdb(element)}[]"
        case Map(key, value):
            return f"MAP({to_duckdb(key)}, {to_duckdb(value)})"
        case Row(fields):
            return f"STRUCT({', '.join(f'{quoted(f.name)} {to_duckdb(f.type)}' for f in fields)})"
        case _:
            raise SeamlineError(NOT_SUPPORTED, f"DuckDB has no type for {type_}")


def to_spark(type_: Type) -> str:
    """Returns the type's name in Spark's SQL."""
    match type_:
        case _Simple():
            return type_.spark
        case Timestamp():
            return "TIMESTAMP" if type_.zoned else "TIMESTAMP_NTZ"
        case Char():
            return "STRING"
        case Varbinary():
            return "BINARY"
        case Interval():
            return "BIGINT"
        case Decimal(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case Array(element):
            return f"ARRAY<{to_spark(element)}>"
        case Map(key, value):
            return f"MAP<{to_spark(key)}, {to_spark(value)}>"
        case Row(fields):
            inner = ", ".join(f"{spark_name(f.name)}: {to_spark(f.type)}" for f in fields)
            return f"STRUCT<{inner}>"
        case _:
            raise SeamlineError(NOT_SUPPORTED, f"Spark has no type for {type_}")


_FROM_SQLGLOT: dict[exp.DType, Type] = {
    exp.DType.BOOLEAN: BOOLEAN,
    exp.DType.TINYINT: TINYINT,
    exp.DType.SMALLINT: SMALLINT,
    exp.DType.INT: INTEGER,
    exp.DType.BIGINT: BIGINT,
    exp.DType.FLOAT: REAL,
    exp.DType.DOUBLE: DOUBLE,
    exp.DType.VARCHAR: VARCHAR,
    exp.DType.TEXT: VARCHAR,
    exp.DType.VARBINARY: VARBINARY,
    exp.DType.DATE: DATE,
    exp.DType.TIME: TIME,
    exp.DType.TIMETZ: TIME_TZ,
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.TIMESTAMPTZ: TIMESTAMP_TZ,
    exp.DType.TIMESTAMPNTZ: TIMESTAMP,
    exp.DType.UUID: UUID,
    exp.DType.JSON: JSON,
}


def from_sqlglot(data_type: exp.DataType) -> Type:
    """Returns the type that a type name in a statement denotes.

    Raises:
        SeamlineError: NOT_SUPPORTED for a type, length or precision that both engines do not share.
    """
    kind = data_type.this
    arguments = data_type.expressions
    if isinstance(kind, exp.Interval):
        return _interval(kind)
    if kind == exp.DType.DECIMAL:
        numbers = [_whole_number(argument) for argument in arguments]
        precision = numbers[0] if numbers else MAX_DECIMAL_PRECISION
        return decimal(precision, numbers[1] if len(numbers) > 1 else 0)
    if kind in {exp.DType.ARRAY, exp.DType.LIST} and len(arguments) == 1:
        return Array(from_sqlglot(arguments[0]))
    if kind == exp.DType.MAP and len(arguments) == 2:
        return Map(from_sqlglot(arguments[0]), from_sqlglot(arguments[1]))
    if kind == exp.DType.STRUCT:
        return row(tuple(itertools.starmap(_row_field, enumerate(arguments))))
    if kind == exp.DType.CHAR and len(arguments) < 2:
        return _char(_whole_number(arguments[0]) if arguments else 1)
    simple = _FROM_SQLGLOT.get(kind)
    if simple is None:
        raise absent_type(data_type.sql("trino").lower())
    return _with_precision(simple, data_type) if arguments else simple


def row(fields: tuple[Field, ...]) -> Row:
    """Returns a row type after checking that its fields' names differ, ignoring case.

    Raises:
        SeamlineError: NOT_SUPPORTED, since DuckDB has no other rows.
    """
    names = [field.name.lower() for field in fields]
    twice = next((field.name for field in fields if names.count(field.name.lower()) > 1), None)
    if twice is not None:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"a row has two fields named {twice}",
            hint="Give each field a different name; case is ignored.",
        )
    return Row(fields)


def _char(length: int) -> Char:
    if not 0 <= length <= CHAR_LENGTH_MAX:
        raise SeamlineError(INVALID_LITERAL, f"char({length}) is not a type", hint="")
    return Char(length)


def decimal(precision: int, scale: int) -> Decimal:
    """Returns a decimal type after checking its precision and scale.

    Raises:
        SeamlineError: INVALID_LITERAL when precision or scale is outside what Iceberg stores.
    """
    if not 1 <= precision <= MAX_DECIMAL_PRECISION or not 0 <= scale <= precision:
        raise SeamlineError(
            INVALID_LITERAL,
            f"decimal({precision},{scale}) is not a type",
            hint="precision is 1 to 38 and scale 0 to precision",
        )
    return Decimal(precision, scale)


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> Type:
    """Parses a Trino type name, such as `row(a bigint, b array(varchar))`.

    Raises:
        SeamlineError: NOT_SUPPORTED when it is not one of our types.
    """
    try:
        data_type = exp.DataType.build(text, dialect="trino")
    except Exception as error:  # sqlglot raises several kinds here
        raise SeamlineError(NOT_SUPPORTED, f"{text!r} is not a type") from error
    return from_sqlglot(data_type)


def _with_precision(simple: Type, data_type: exp.DataType) -> Type:
    numbers = [_whole_number(argument) for argument in data_type.expressions]
    if isinstance(simple, Timestamp) and len(numbers) == 1 and 0 <= numbers[0] <= 6:
        return Timestamp(numbers[0], simple.zoned)
    if simple == VARCHAR and len(numbers) == 1 and numbers[0] >= 0:
        return simple  # CAST truncates longer text; no engine keeps the length of a column
    if isinstance(simple, Time) and len(numbers) == 1 and 0 <= numbers[0] <= 6:
        return Time(numbers[0], simple.zoned)
    raise SeamlineError(
        NOT_SUPPORTED,
        f"the type {data_type.sql('trino').lower()} is not supported",
        hint="timestamps and times have at most 6 digits; rpad(x, n) pads text",
    )


def _interval(node: exp.Interval) -> Interval:
    unit = node.args["unit"]
    span = f"{unit.this.name} to {unit.expression.name}" if unit.expression else unit.name
    for interval in (INTERVAL_DAY, INTERVAL_YEAR):
        if span.lower() == interval.unit:
            return interval
    raise SeamlineError(NOT_SUPPORTED, f"the type interval {span.lower()} is not supported")


def _whole_number(argument: exp.Expr) -> int:
    try:
        return int(argument.name)
    except ValueError as error:
        raise SeamlineError(NOT_SUPPORTED, f"{argument.sql()!r} is not a length") from error


def _row_field(position: int, argument: exp.Expr) -> Field:
    """Parses a field of a row type; an unnamed field is named by its position."""
    if isinstance(argument, exp.ColumnDef) and isinstance(argument.kind, exp.DataType):
        return Field(argument.name, from_sqlglot(argument.kind))
    if isinstance(argument, exp.DataType):
        return nameless_field(position, from_sqlglot(argument))
    raise SeamlineError(
        NOT_SUPPORTED, f"{argument.sql()} is not a field of a row", hint="Write row(name type, …)."
    )
