"""Conditions on a column of every type, with constants of every type in every form."""

from __future__ import annotations

import datetime
import decimal
import itertools
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from seamline.errors import ErrorKind, SeamlineError
from seamline.sql import coercion, types
from seamline.sql.binder.qualify import Relation, qualify
from seamline.sql.comparisons import widens
from seamline.sql.expressions.calls import Call
from seamline.sql.parsing import parameters, parse
from seamline.sql.types import Field

NOW = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)

NAN, INFINITY = float("nan"), float("inf")
D = decimal.Decimal


def moments(**zone: Any) -> list[datetime.datetime]:
    """At the edges of days, years and hours."""
    return [
        datetime.datetime(*parts, **zone)
        for parts in ((1, 1, 1), (1969, 12, 31, 23, 59, 59, 999999), (2024, 5, 1), (2024, 5, 1, 12))
    ]


DAYS = [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(2024, 5, 1)]
VALUES: Mapping[str, Sequence[Any]] = {
    "boolean": [True, False],
    "integer": [-(2**31), -3, 0, 2, 3, 2**31 - 1],
    "bigint": [-(2**63), -3, 0, 2, 3, 2**53 + 1, 2**63 - 1],
    "real": [-INFINITY, -1.5, -0.0, 0.0, 0.10000000149011612, 2.0, 2.5, INFINITY, NAN],
    "double": [-INFINITY, -1.5, -0.0, 0.0, 0.1, 2.0, 2.5, 1e300, INFINITY, NAN],
    "decimal(5, 2)": [D("-999.99"), D("-2.25"), D("0.00"), D("2.00"), D("2.50"), D("999.99")],
    "decimal(12, 2)": [D("-2.25"), D("2.00"), D("2.50"), D("2.56"), D("2.57"), D("9999999999.99")],
    "decimal(38, 0)": [D(-(10**38) + 1), D(2), D(3), D(2**63), D(10**38 - 1)],
    "decimal(38, 10)": [D("2.0000000000"), D("2.5000000001"), D("1" * 28 + ".1111111112")],
    "varchar": ["", "2", "a", "a%", "ab", "a\\b", "é", "z" * 15 + "😀a", "z" * 40, "\U0010ffff"],
    "varbinary": [b"", b"a", b"ab", b"\x7f", b"\xff" * 20],
    "date": DAYS,
    "time(6)": [datetime.time(0), datetime.time(23, 59, 59, 999999)],
    "timestamp": moments(),
    "timestamp with time zone": moments(tzinfo=datetime.UTC),
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "array(integer)": [[1], []],
}  # fmt: skip

CONSTANTS: Mapping[str, Sequence[Any]] = {
    "whole": ["0", "2", "-3", "2147483648", "-2147483648", "9007199254740993"],
    "large": ["9223372036854775807", "-9223372036854775808", "9223372036854775808", "1" + "0" * 37],
    "decimal": ["2.5", "2.50", "2.000", "-2.25", "0.001", "2.5649", "99999999999999999999.5"],
    "many digits": ["2.5000000001", "-" + "9" * 38, "1" * 28 + ".1111111112", "0." + "1" * 20],
    "double": ["2e0", "2.5e0", "-0e0", "0.1e0", "1e300", "nan()", "-infinity()"],
    "text": ["''", "'2'", "'a'", "'é'", "'a\\b'", f"'{'z' * 40}'", "'\U0010ffff'"],
    "bytes": ["X''", "X'61'", "X'FF'"],
    "date": [f"DATE '{day}'" for day in DAYS],
    "timestamp": [f"TIMESTAMP '{moment}'" for moment in moments()],
    "instant": [f"TIMESTAMP '{moment} UTC'" for moment in moments()] + ["CURRENT_TIMESTAMP"],
    "truth": ["true", "false"],
    "null": ["NULL"],
    "other": ["CAST('00000000-0000-0000-0000-000000000000' AS uuid)", "ARRAY[1]", "1 + 1"],
    "cast": [
        *("CAST(2.564 AS decimal(10, 2))", "CAST(2.5 AS integer)", "CAST(2 AS double)"),
        *("CAST(0.1 AS real)", "CAST(0.1 AS double)", "CAST(16777217 AS real)", "- (-3)"),
        *("CAST(DATE '2024-05-01' AS timestamp)", "CAST(CURRENT_TIMESTAMP AS date)"),
        "CAST(9007199254740993 AS double)",
    ],
    "parameter": [
        *(0, -3, 2**63 - 1, 2.5, -0.0, NAN, D("2.50"), D("-2.5"), D("1" * 28 + ".1111111112")),
        *(-D("1" * 28 + ".1111111112"), "a", b"\xff", True, None, DAYS[0], *moments()),
        *(*moments(tzinfo=datetime.UTC), uuid.UUID(int=0)),
    ],
}  # fmt: skip


def literals(kind: str) -> list[str]:
    """The constants of a kind as they appear in a statement."""
    return [
        one if kind != "parameter" else parameters.literal(one).sql("trino")
        for one in CONSTANTS[kind]
    ]


def fitting(type_: str, column: str = "c") -> list[str]:
    """Conditions of every form on a column, with every constant its type is compared with."""
    fields = (Field(column, types.parse(type_)),)
    wanted = [_common(column)]
    for kind in CONSTANTS:
        known = [one for one in literals(kind) if is_fitting(fields, [f"{column} = {one}"])]
        wanted += map(_forms, itertools.repeat(column), known, known[1:] + known[:1])
    found = (
        some if is_fitting(fields, some) else [sql for sql in some if is_fitting(fields, [sql])]
        for some in wanted
    )
    return list(dict.fromkeys(itertools.chain.from_iterable(found)))


def is_fitting(fields: tuple[Field, ...], conditions: Sequence[str]) -> bool:
    """Whether the language has the conditions on these columns, and they hold or not for any value.

    What it lacks is refused. Where no decimal has room for both sides, a value may overflow.
    """
    parsed = parse.parse(f"SELECT {', '.join(f'({sql})' for sql in conditions)} FROM t")
    assert isinstance(parsed, parse.Query)
    try:
        bound = qualify(parsed.tree, [Relation(fields)], now=NOW)
    except SeamlineError as error:
        assert error.code.kind is ErrorKind.USER, conditions
        return False
    return not any(map(_may_overflow, bound.tree.find_all(Call)))


def _may_overflow(node: Call) -> bool:
    spec = node.spec
    if spec.overload.name != "cast" or not isinstance(spec.returns, types.Decimal):
        return False
    (source,) = spec.parameters
    return coercion.as_decimal(source) is not None and not widens(source, spec.returns)


def _forms(c: str, one: str, other: str) -> list[str]:
    return [
        *(f"{c} {sign} {one}" for sign in ("=", "<>", "<", "<=", ">", ">=")),
        *(f"{one} {sign} {c}" for sign in ("<", ">=")),
        *(f"NOT ({c} {sign} {one})" for sign in ("=", "<>", "<", ">=")),
        *(f"{c} IN ({one}, {other})", f"{c} NOT IN ({one}, {other})", f"{c} IN ({one}, NULL)"),
        *(f"{c} BETWEEN {one} AND {other}", f"{c} NOT BETWEEN {one} AND {other}"),
        *(f"{c} < {one} OR {c} > {other}", f"{c} IS NULL OR {c} = {one}", f"{c} LIKE {one}"),
    ]


def _common(c: str) -> list[str]:
    patterns = ("a%", "é%", "z%", "%", "a\\%")
    return [
        *(f"{c} IS NULL", f"{c} IS NOT NULL", f"NOT ({c} IS NULL)"),
        *(f"NOT {c}", f"NOT (NOT {c})"),
        *(f"{c} {word} '{p}'" for word in ("LIKE", "NOT LIKE") for p in patterns),
    ]
