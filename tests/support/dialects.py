"""What a table of a database may hold: columns of every common type, at their limits.

A column has its type there and here, random values in the database's SQL, and the way from what the
database says of a value to the value of our column.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import pathlib
import random
from collections.abc import Callable, Mapping
from typing import Any

from support.databases import Database, MariaDB, Postgres

Draw = Callable[[random.Random], str]


@dataclasses.dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        there: Its type in the database.
        here: Its type here.
        draw: A value in the database's SQL.
        value: Makes our value of what the database says.
        read: What is read of it: SQL with `{}` for its name.
    """

    there: str
    here: str
    draw: Draw
    value: Callable[[Any], Any] = lambda said: said
    read: str = "{}"


@dataclasses.dataclass(frozen=True)
class Dialect:
    """A database, its columns and its SQL.

    Attributes:
        program: What must be installed.
        start: Starts a server.
        columns: The columns of a table besides `id`.
        id: The type of `id`, in the database and here.
        setup: What else a table needs.
        upsert: What makes an upsert of an INSERT.
        assign: An assignment of it, with `{}` for the column's name.
    """

    program: str
    start: Callable[[pathlib.Path], Database]
    columns: Mapping[str, Column]
    id: tuple[str, str]
    upsert: str
    assign: str
    setup: tuple[str, ...] = ()

    def literal(self, name: str, dice: random.Random) -> str:
        """A value of a column in the database's SQL."""
        return "NULL" if dice.random() < 0.15 else self.columns[name].draw(dice)


# --- Values --------------------------------------------------------------------------------------


def _among(*texts: str) -> Draw:
    return lambda dice: dice.choice(texts)


def _whole(low: int, high: int) -> Draw:
    return lambda dice: str(dice.choice([low, high, 0, dice.randint(max(low, -9), 9)]))


def _text(dice: random.Random) -> str:
    return "".join(dice.choice("aé漢😀\"\\\n\t'{}[]:, ") for _ in range(dice.randrange(20)))


def _moment(low: int, high: int, *others: str) -> Callable[[random.Random], datetime.datetime]:
    """Moments between two years, and some others."""

    def draw(dice: random.Random) -> datetime.datetime:
        span = datetime.datetime(high, 1, 1) - datetime.datetime(low, 1, 1)
        random_ = datetime.datetime(low, 1, 1) + dice.random() * span
        return dice.choice([random_, *map(datetime.datetime.fromisoformat, others)])

    return draw


def _hex(of: Callable[[random.Random], bytes], form: str) -> Draw:
    return lambda dice: form.format(of(dice).hex())


def _bytes(dice: random.Random) -> bytes:
    return dice.randbytes(dice.randrange(9))


def _money(said: Any) -> decimal.Decimal:
    return decimal.Decimal(str(said)).quantize(decimal.Decimal("0.01"))


# --- Postgres ------------------------------------------------------------------------------------

_ANY_TIME = _moment(1, 9999, "1970-01-01", "9999-12-31")
_FLOATS = ("'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "0.1", "-1.5e30")


def _quoted(dice: random.Random) -> str:
    return _text(dice).replace("'", "''")


POSTGRES = Dialect(
    program="initdb",
    start=Postgres,
    id=("integer", "integer"),
    setup=("ALTER TABLE t REPLICA IDENTITY FULL",),
    upsert="ON CONFLICT (id) DO UPDATE SET",
    assign="{0} = excluded.{0}",
    columns={
        "whole": Column("bigint", "bigint", _whole(-(2**63), 2**63 - 1)),
        "price": Column(
            "numeric(10, 2)",
            "decimal(10, 2)",
            lambda dice: f"{dice.choice([99999999, -99999999, 0])}.{dice.randrange(100):02}",
            _money,
        ),
        "ratio": Column(
            "double precision",
            "double",
            _among(*_FLOATS, "5e-324", "1.7976931348623157e308"),
            float,
        ),
        "single": Column("real", "real", _among(*_FLOATS, "1e-40", "3.4028234e38"), float),
        "flag": Column("boolean", "boolean", _among("true", "false")),
        "note": Column("text", "varchar", lambda dice: f"'{_quoted(dice)}'"),
        "body": Column(
            "bytea",
            "varbinary",
            _hex(_bytes, "'\\x{}'"),
            lambda said: bytes.fromhex(said.removeprefix("\\x")),
        ),
        "day": Column(
            "date",
            "date",
            lambda dice: f"'{_ANY_TIME(dice).date().isoformat()}'",
            datetime.date.fromisoformat,
        ),
        "at": Column(
            "timestamp",
            "timestamp(6)",
            lambda dice: f"'{_ANY_TIME(dice).isoformat()}'",
            datetime.datetime.fromisoformat,
        ),
        "zoned": Column(
            "timestamptz",
            "timestamp(6) with time zone",
            lambda dice: f"'{_ANY_TIME(dice).isoformat()}Z'",
            lambda said: datetime.datetime.fromisoformat(said).astimezone(datetime.UTC),
        ),
        "uid": Column("uuid", "uuid", lambda dice: f"'{dice.randbytes(16).hex()}'"),
        "numbers": Column(
            "int[]", "array(integer)", lambda dice: f"ARRAY[NULL, {dice.randrange(9)}]::int[]"
        ),
        "words": Column(
            "text[]", "array(varchar)", lambda dice: f"ARRAY['', NULL, '{_quoted(dice)}']::text[]"
        ),
    },
)

# --- MariaDB -------------------------------------------------------------------------------------

_FROM_1000 = _moment(1000, 9999, "1970-01-01", "9999-12-31T23:59:59")
_OF_32_BITS = _moment(1971, 2038, "1970-01-01T00:00:01", "2038-01-19T03:14:07.999999")


def _or_zero(draw: Draw, zero: str) -> Draw:
    """A value, or a date that does not exist, which is null in what is captured."""
    return lambda dice: f"'{zero}'" if dice.random() < 0.1 else draw(dice)


def _none_if_zero(value: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda said: None if said.startswith("0000-00-00") else value(said)


def _datetime(digits: int) -> Column:
    type_ = f"datetime({digits})"
    draw = _or_zero(lambda dice: f"'{_FROM_1000(dice)}'", "0000-00-00 00:00:00")
    return Column(type_, "timestamp(6)", draw, _none_if_zero(datetime.datetime.fromisoformat))


def _span(dice: random.Random) -> str:
    """A time, which may be negative or longer than a day."""
    seconds = dice.choice([838 * 3600 + 59 * 60 + 58, dice.randrange(10**6), 0])
    sign = dice.choice(["", "-"])
    digits = dice.randrange(10**6)
    return f"'{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{digits:06}'"


def _micros(said: str) -> int:
    whole, _, digits = said.removeprefix("-").partition(".")
    hours, minutes, seconds = map(int, whole.split(":"))
    micros = ((hours * 60 + minutes) * 60 + seconds) * 10**6 + int(digits.ljust(6, "0") or 0)
    return -micros if said.startswith("-") else micros


def _of_text(dice: random.Random) -> bytes:
    return _text(dice).encode()


MARIADB = Dialect(
    program="mariadbd",
    start=MariaDB,
    id=("int unsigned", "bigint"),
    upsert="ON DUPLICATE KEY UPDATE",
    assign="{0} = VALUES({0})",
    columns={
        "tiny": Column("tinyint", "integer", _whole(-128, 127), int),
        "one": Column("tinyint(1)", "integer", _whole(-128, 127), int),
        "small": Column("smallint unsigned", "integer", _whole(0, 2**16 - 1), int),
        "medium": Column("mediumint unsigned", "integer", _whole(0, 2**24 - 1), int),
        "whole": Column("int unsigned", "bigint", _whole(0, 2**32 - 1), int),
        "big": Column("bigint", "bigint", _whole(-(2**63), 2**63 - 1), int),
        "huge": Column("bigint unsigned", "decimal(20, 0)", _whole(0, 2**64 - 1), decimal.Decimal),
        "price": Column(
            "decimal(10, 2)",
            "decimal(10, 2)",
            lambda dice: f"{dice.choice([99999999, -99999999, 0])}.{dice.randrange(100):02}",
            _money,
        ),
        "single": Column(
            "float", "real", _among("0.1", "-1.5e30", "3.4028234e38"), float, "CAST({} AS DOUBLE)"
        ),
        "ratio": Column(
            "double", "double", _among("0.1", "-1.5e30", "1.7976931348623157e308"), float
        ),
        "flag": Column("bit(1)", "boolean", _among("0", "1"), lambda said: said == "1", "{} + 0"),
        "bits": Column(
            "bit(12)",
            "varbinary",
            _whole(0, 2**12 - 1),
            lambda said: int(said).to_bytes(2, "little"),
            "{} + 0",
        ),
        "word": Column("char(5)", "varchar", _among("'a'", "''", "'é漢'")),
        "note": Column("varchar(40)", "varchar", _hex(_of_text, "X'{}'")),
        "latin": Column("varchar(9) CHARACTER SET latin1", "varchar", _among("'é'", "'äö'")),
        "essay": Column("longtext", "varchar", _hex(_of_text, "X'{}'")),
        "fixed": Column(
            "binary(4)", "varbinary", _hex(_bytes, "LEFT(X'{}', 4)"), bytes.fromhex, "HEX({})"
        ),
        "body": Column("blob", "varbinary", _hex(_bytes, "X'{}'"), bytes.fromhex, "HEX({})"),
        "choice": Column("enum('a', 'é b')", "varchar", _among("'a'", "'é b'")),
        "several": Column("set('p', 'q', 'r')", "varchar", _among("''", "'p'", "'p,r'")),
        "year": Column("year", "integer", _among("1901", "1970", "2155"), int),
        "day": Column(
            "date",
            "date",
            _or_zero(lambda dice: f"'{_FROM_1000(dice).date()}'", "0000-00-00"),
            _none_if_zero(datetime.date.fromisoformat),
        ),
        "span": Column("time(6)", "bigint", _span, _micros),
        "seconds": Column("time", "bigint", _span, _micros),
        "at": _datetime(6),
        "at_millis": _datetime(3),
        "at_seconds": _datetime(0),
        "zoned": Column(
            "timestamp(6) NULL",
            "timestamp(6) with time zone",
            _or_zero(lambda dice: f"'{_OF_32_BITS(dice)}'", "0000-00-00 00:00:00"),
            _none_if_zero(
                lambda said: datetime.datetime.fromisoformat(said).replace(tzinfo=datetime.UTC)
            ),
        ),
        "document": Column("json", "varchar", _among("'{\"a\": [1, null]}'", "'[]'", "'\"é\"'")),
        "place": Column(
            "geometry",
            "row(wkb varbinary, srid integer)",
            _among("POINT(1, 2)", "ST_GeomFromText('LINESTRING(0 0, 1 1.5)')"),
            lambda said: (bytes.fromhex(said), None),
            "HEX(ST_AsWKB({}))",
        ),
    },
)
DIALECTS = {"postgres": POSTGRES, "mariadb": MARIADB}
