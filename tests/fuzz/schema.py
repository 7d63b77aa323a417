"""Random tables: columns of every type, and the values that most often go wrong."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import itertools
import json
import math
import random
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from seamline.sql import types
from seamline.sql.types import Array, Decimal, Field, Map, Row, Type

PLACES = ("cold", "hot", "split")
NAMES = ("a", "b", "c", "d", "e", "f", "g", "h", "Mixed", "order", "ü x", "X", "m", "i", "v", "s",
         "l", "r", "q0", "c0", "l0_0", "scan_0", "$x", "field0", "key", "value")  # fmt: skip
"""Names that are quoted, and names that templates and the renderer make."""
_NULL = 0.15
_NASTY = 0.4
_ROWS_MAX = 24

BERLIN_CHANGES = (
    datetime.datetime(2024, 3, 31, 1, 0),
    datetime.datetime(2024, 3, 31, 2, 30),
    datetime.datetime(2024, 10, 27, 0, 59, 59, 999999),
    datetime.datetime(2024, 10, 27, 2, 30),
)
"""Where clocks of Berlin are changed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        name: Its name.
        columns: Its columns; the first is `id`, unique and never null; the second is `k`, of few
            values.
        rows: Its rows as Python values.
        cold: How many of them are tiered.
    """

    name: str
    columns: tuple[Field, ...]
    rows: tuple[tuple[Any, ...], ...]
    cold: int

    @property
    def definition(self) -> str:
        """Its columns as CREATE TABLE has them."""
        return ", ".join(f"{types.quoted(c.name)} {c.type}" for c in self.columns)

    def records(self) -> list[bytes]:
        """Its rows as records of a topic."""
        return [
            json.dumps({c.name: _json(v, c.type) for c, v in zip(self.columns, row, strict=True)})
            .encode()
            for row in self.rows
        ]  # fmt: skip


def tables(seed: object, count: int = 3) -> tuple[Table, ...]:
    """Random tables."""
    chance = random.Random(f"tables {seed}")
    return tuple(_table(f"t{number}", chance) for number in range(count))


def _table(name: str, chance: random.Random) -> Table:
    names = ["id", "k", *chance.sample(NAMES, chance.randint(4, 8))]
    kinds: list[Type] = [types.BIGINT, chance.choice((types.INTEGER, types.BIGINT))]
    kinds += [any_type(chance, stored=True) for _ in names[2:]]
    ids = itertools.count(1)
    columns = tuple(
        Field(n, with_ids(t, ids), next(ids)) for n, t in zip(names, kinds, strict=True)
    )
    size = chance.choice((0, 1, 7, 12, 16, _ROWS_MAX))
    rows = tuple(
        (number, chance.choice((None, 0, 1, 1, 2, 3)), *(value(chance, t) for t in kinds[2:]))
        for number in range(size)
    )
    place = chance.choice(PLACES)
    cold = {"cold": size, "hot": 0, "split": chance.randint(0, size)}[place]
    return Table(name, columns, rows, cold)


def with_ids(type_: Type, ids: Iterator[int]) -> Type:
    """The type with ids of what is in it, by which columns of files are found."""
    match type_:
        case Array(element):
            return Array(with_ids(element, ids), next(ids))
        case Map(key, inner):
            return Map(with_ids(key, ids), with_ids(inner, ids), next(ids), next(ids))
        case Row(fields):
            return Row(tuple(Field(f.name, with_ids(f.type, ids), next(ids)) for f in fields))
    return type_


SCALARS: tuple[Type, ...] = (
    types.BOOLEAN, types.INTEGER, types.BIGINT, types.REAL, types.DOUBLE, types.VARCHAR,
    types.VARBINARY, types.DATE, types.TIMESTAMP, types.TIMESTAMP_TZ, types.UUID,
)  # fmt: skip
DECIMALS = tuple(
    Decimal(p, s) for p, s in ((1, 0), (3, 3), (9, 2), (18, 0), (18, 6), (19, 4), (38, 0), (38, 9),
                               (38, 38), (20, 10), (5, 1))
)  # fmt: skip


def any_type(chance: random.Random, *, stored: bool = False, depth: int = 0) -> Type:
    """A random type; a column has no tinyint or smallint."""
    roll = chance.random()
    if roll < 0.14 and depth < 2:
        inner = any_type(chance, stored=stored, depth=depth + 1)
        return Array(inner)
    if roll < 0.19 and depth < 2:
        parts = [any_type(chance, stored=stored, depth=depth + 1) for _ in range(2)]
        return Row(tuple(Field("xy"[place], part) for place, part in enumerate(parts)))
    if roll < 0.23 and depth < 2:
        key = chance.choice((types.VARCHAR, types.BIGINT, types.INTEGER))
        return Map(key, any_type(chance, stored=stored, depth=depth + 1))
    if roll < 0.42:
        return chance.choice(DECIMALS)
    if not stored and roll < 0.5:
        return chance.choice((types.TINYINT, types.SMALLINT, types.TIME))
    return chance.choice(SCALARS)


_USUAL_TEXTS = ("a", "b", "ab", "abc", "x,y,z", "2024-02-29", "12", "-7.50", "true")
_NASTY_TEXTS = (
    "", " ", "  a ", "ß", "İ", "ǆ", "é", "e\u0301", "日本語",
    "👩‍👩‍👧", "a\tb\nc", "%", "_", "\\", "'", '"',
    "NaN", "1e400", "null", "[1, 2]", '{"a": {"b": [1, null]}}', "\u0000x", "a b", "A",
)  # fmt: skip


_JSON_TEXTS = ("[1,2.5,null]", '{"a":{"b":[1,null,"x"]}}', "1", '"t"', "null", "true")


def value(chance: random.Random, type_: Type) -> Any:
    """A random value of a type as Python has it, or None."""
    if chance.random() < _NULL:
        return None
    match type_:
        case Array(element):
            return [value(chance, element) for _ in range(chance.choice((0, 1, 2, 3)))]
        case Row(fields):
            return {field.name: value(chance, field.type) for field in fields}
        case Map(key, inner):
            keys: list[Any] = []
            for _ in range(2):
                found = value(chance, key)
                if found is not None and found not in keys:
                    keys.append(found)
            return [(k, value(chance, inner)) for k in keys]
    nasty = chance.random() < _NASTY
    match type_:
        case types.BOOLEAN:
            return chance.random() < 0.5
        case Decimal(precision, scale):
            digits = chance.choice((1, precision)) if nasty else min(2, precision)
            unscaled = chance.choice((10**digits - 1, chance.randrange(10**digits), 0, 5))
            sign = chance.choice((0, 1))
            digits_of = tuple(int(d) for d in str(unscaled % 10**precision))
            return decimal.Decimal((sign if unscaled else 0, digits_of, -scale))
        case types.REAL | types.DOUBLE:
            return _floating(chance, type_, nasty=nasty)
        case types.VARCHAR:
            return chance.choice(_NASTY_TEXTS if nasty else _USUAL_TEXTS)
        case types.JSON:
            return chance.choice(_JSON_TEXTS)
        case types.Varbinary():
            return chance.choice((b"", b"\x00", b"\xff\xfe", b"abc", b"a", b"\xc3\xa4"))
        case types.UUID:
            last = chance.choice((0, 1, 2, 2**128 - 1))
            return str(uuid.UUID(int=last))
    if type_ in types.INTEGERS:
        bits = 8 << types.INTEGERS.index(type_)
        ends = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, -1)
        return chance.choice(ends) if nasty else chance.randint(0, 5)
    return _moment(chance, type_, nasty=nasty)


def _floating(chance: random.Random, type_: Type, *, nasty: bool) -> float:
    if not nasty:
        return chance.choice((0.0, 1.0, 2.0, 0.5, -1.5, 3.0))
    least = 1.401298464324817e-45 if type_ == types.REAL else 5e-324
    most = 3.4028234663852886e38 if type_ == types.REAL else 1.7976931348623157e308
    return chance.choice(
        (
            -0.0,
            -0.0,
            math.nan,
            math.nan,
            math.inf,
            -math.inf,
            least,
            most,
            -most,
            16777216.0,
            1e-5,
            123456792.0,
        )
    )


def _moment(chance: random.Random, type_: Type, *, nasty: bool) -> Any:
    if nasty:
        found = chance.choice(
            (
                datetime.datetime(1, 1, 1),
                datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
                datetime.datetime(1582, 10, 10, 1, 2, 3),
                datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
                datetime.datetime(1900, 2, 28),
                *BERLIN_CHANGES,
            )
        )
    else:
        found = datetime.datetime(2024, chance.choice((1, 2)), chance.choice((1, 29)), 12)
    if type_ == types.DATE:
        return found.date()
    if isinstance(type_, types.Time):
        return found.time()
    zoned = isinstance(type_, types.Timestamp) and type_.zoned
    return found.replace(tzinfo=datetime.UTC) if zoned else found


def _json(value_: Any, type_: Type) -> Any:
    """The value as a record has it."""
    if value_ is None:
        return None
    match type_, value_:
        case Array(element), _:
            return [_json(item, element) for item in value_]
        case Map(_, inner), _:
            return {str(k): _json(v, inner) for k, v in value_}
        case Row(fields), _:
            return {field.name: _json(value_[field.name], field.type) for field in fields}
        case _, bytes():
            return base64.b64encode(value_).decode()
        case _, decimal.Decimal():
            return f"{value_:f}"
        case _, datetime.datetime():
            text = value_.isoformat()
            return text.replace("+00:00", "Z")
        case _, datetime.date() | datetime.time():
            return value_.isoformat()
    return value_


def literal(value_: Any, type_: Type) -> str:
    """The value in Trino's SQL."""
    if value_ is None:
        return f"CAST(NULL AS {type_})"
    match type_, value_:
        case Array(element), _:
            inner = ", ".join(literal(item, element) for item in value_)
            return f"CAST(ARRAY[{inner}] AS {type_})"
        case Map(key, inner_type), _:
            keys = ", ".join(literal(k, key) for k, _ in value_)
            values = ", ".join(literal(v, inner_type) for _, v in value_)
            return f"CAST(MAP(ARRAY[{keys}], ARRAY[{values}]) AS {type_})"
        case Row(fields), _:
            inner = ", ".join(literal(value_[f.name], f.type) for f in fields)
            return f"CAST(ROW({inner}) AS {type_})"
        case _, bool():
            return str(value_).lower()
        case _, bytes():
            return f"X'{value_.hex()}'"
        case types.TINYINT | types.SMALLINT | types.BIGINT, _:
            return f"CAST({value_} AS {type_})"
        case types.INTEGER, _:
            return str(value_) if value_ >= 0 else f"({value_})"
        case Decimal(), _:
            return f"CAST('{value_:f}' AS {type_})"
    return _text_literal(value_, type_)


def _text_literal(value_: Any, type_: Type) -> str:
    match value_:
        case float():
            special = {math.inf: "infinity()", -math.inf: "-infinity()"}.get(value_, "nan()")
            text = f"{value_!r}e0" if "e" not in repr(value_) else repr(value_)
            number = text if math.isfinite(value_) else special
            return f"CAST({number} AS {type_})"
        case datetime.datetime():
            zone = " UTC" if value_.tzinfo else ""
            return f"TIMESTAMP '{value_.replace(tzinfo=None).isoformat(' ')}{zone}'"
        case datetime.date():
            return f"DATE '{value_.isoformat()}'"
        case datetime.time():
            return f"TIME '{value_.isoformat()}'"
    text = str(value_).replace("'", "''").replace("\0", "")  # which no statement may hold
    if type_ == types.JSON:
        return f"JSON '{text}'"
    return f"'{text}'" if type_ == types.VARCHAR else f"CAST('{text}' AS {type_})"


def rows_of(tables_: Sequence[Table]) -> int:
    """How many rows there are in all."""
    return sum(len(table.rows) for table in tables_)
