"""Statistics: "no row can match" is never said wrongly.

Method: for small batches and a grid of predicates, the answer is compared with a look at every
value; may be too cautious only where the module says so.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
from typing import Any

import pyarrow as pa
import pytest

from seamline.gateway.tail.statistics import Statistics
from seamline.sql.predicates import And, Comparison, In, IsNull, Or, Predicate, StartsWith


def statistics(values: list[Any], type_: pa.DataType) -> Statistics:
    return Statistics(pa.record_batch({"c": pa.array(values, type_)}))


def matches(value: Any, predicate: Predicate) -> bool:
    match predicate:
        case And(parts):
            return all(matches(value, part) for part in parts)
        case Or(parts):
            return any(matches(value, part) for part in parts)
        case IsNull(_, negated):
            return (value is None) != negated
    if value is None:
        return False
    match predicate:
        case In(_, values):
            return value in values
        case StartsWith(_, prefix):
            return str(value).startswith(prefix)
        case Comparison(_, sign, other):
            compare = {
                "=": value == other,
                "<>": value != other,
                "<": value < other,
                "<=": value <= other,
                ">": value > other,
                ">=": value >= other,
            }
            return bool(compare[sign])
    raise AssertionError(predicate)


DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
COLUMNS: list[tuple[pa.DataType, list[list[Any]], list[Any]]] = [
    (pa.int64(), [[1, 5], [3, 3], [None, 2], [None], [], [-7, None, 9]], [-8, 1, 2, 3, 5, 9, 10]),
    (pa.string(), [["b", "c"], ["bb", "bz"], [None], ["", "é"]], ["", "a", "b", "bb", "c", "é"]),
    (pa.decimal128(9, 2), [[decimal.Decimal("1.10")], [decimal.Decimal(0), None]], [0, 1, 2]),
    (pa.bool_(), [[True], [False, True], [None, False]], [True, False]),
    (pa.binary(), [[b"a", b"b"], [b""]], [b"", b"a", b"ab", b"c"]),
    (pa.date32(), [[DAY], [None]], [DAY, DAY + datetime.timedelta(days=1)]),
    (pa.timestamp("us", "UTC"), [[NOON, NOON + HOUR]], [NOON - HOUR, NOON, NOON + 2 * HOUR]),
    (pa.float64(), [[1.5, -0.0], [None, 2.5]], [0.0, 1.5, 3.0]),
]


@pytest.mark.parametrize(("type_", "batches", "literals"), COLUMNS, ids=lambda v: str(v)[:20])
def test_a_match_is_never_ruled_out(
    type_: pa.DataType, batches: list[list[Any]], literals: list[Any]
) -> None:
    leaves: list[Predicate] = [IsNull("c"), IsNull("c", negated=True), In("c", tuple(literals[:2]))]
    for literal in literals:
        leaves += [Comparison("c", sign, literal) for sign in ("=", "<>", "<", "<=", ">", ">=")]
        if isinstance(literal, str):
            leaves.append(StartsWith("c", literal))
    pairs = [kind((a, b)) for kind in (And, Or) for a, b in itertools.pairwise(leaves)]
    ruled_out = 0
    for values in batches:
        known = statistics(values, type_)
        for predicate in [*leaves, *pairs]:
            found = any(matches(value, predicate) for value in values)
            assert known.may_match(predicate) or not found, (values, predicate)
            ruled_out += not known.may_match(predicate)
            settled = known.settled()
            assert settled.may_match(predicate) == known.may_match(predicate)
    assert ruled_out > 0


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([1.0, float("nan")], pa.float64()),
        ([[1], [2]], pa.list_(pa.int64())),
        ([{"x": 1}], pa.struct([("x", pa.int64())])),
    ],
)
def test_nothing_is_said_of_values_that_do_not_compare(
    values: list[Any], type_: pa.DataType
) -> None:
    known = statistics(values, type_)
    assert known.may_match(Comparison("c", ">", 100.0))
    assert known.may_match(IsNull("c"))


def test_literals_of_another_kind_and_unknown_columns_prove_nothing() -> None:
    known = statistics([1, 2], pa.int64())
    assert known.may_match(Comparison("c", "=", "text"))
    assert known.may_match(StartsWith("c", "1"))
    assert known.may_match(Comparison("other", "=", 7))
    assert known.may_match(None)
    assert not known.may_match(Or(()))
