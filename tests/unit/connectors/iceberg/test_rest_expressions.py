"""Goal: a planned scan's filter keeps the rows it is true of, or is refused by name.

Method: every comparison with values of every kind that JSON has, over rows of every type; what
they are true of is computed by Python's own exact numbers, texts and times.
"""

from __future__ import annotations

import datetime
import decimal
import operator
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, NestedField, TimeType
from support.conditions import VALUES

from seamline.connectors.iceberg import rest_expressions
from seamline.connectors.iceberg.row_filters import matching
from seamline.connectors.iceberg.type_conversion import to_schema
from seamline.errors import INVALID_REQUEST, SeamlineError
from seamline.sql import types
from seamline.sql.types import Field, arrow_field

SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt,
    "lt-eq": operator.le,
    "gt": operator.gt,
    "gt-eq": operator.ge,
    "eq": operator.eq,
}
NUMBERS: Sequence[Any] = [
    *(0, 2, -3, 2**31, -(2**31) - 1, 2**63, 10**38, 2.5, -2.25, 1e300, 0.1),
    *("2", "2.5", "2.50", "2.5649", "-0.001", "1" * 28 + ".1111111112", "2E+0"),
]
OTHERS: Sequence[Any] = [
    *(None, True, float("nan"), float("inf"), "", "a", "z" * 20, "\ud800", "1e999999999", "_", {}),
    *("2024-05-01", "2024-05-01T12:00:00", "2024-05-01T12:00:00+00:00", "23:59:59", "61", "0g"),
    *(str(uuid.UUID(int=0)), [], {"type": "literal", "value": 2}, {"type": "literal"}),
]
NAMES = [name for name in VALUES if "array" not in name]


def iceberg_type(name: str) -> IcebergType:
    type_ = types.parse(name)
    return (
        TimeType() if type_ == types.TIME else to_schema((Field("c", type_),)).fields[0].field_type
    )


def schema_of(name: str) -> Schema:
    return Schema(NestedField(1, "c", iceberg_type(name)))


def rows_of(name: str) -> pa.Table:
    field = Field("c", types.parse(name), 1)
    rows = [{"c": value} for value in [*VALUES[name], None]]
    return pa.Table.from_pylist(rows, pa.schema([arrow_field(field)]))


def kept(name: str, body: Any) -> list[Any]:
    """The values that a filter keeps."""
    schema = schema_of(name)
    expression = rest_expressions.parse(body, schema, case_sensitive=True)
    bound = rest_expressions.bound(expression, schema, case_sensitive=True)
    found: list[Any] = matching(rows_of(name), bound, schema).column("c").to_pylist()
    return found


def filters(value: Any) -> Iterator[Any]:
    for kind in (*SIGNS, "not-eq", "starts-with", "not-starts-with"):
        yield {"type": kind, "term": "c", "value": value}
        yield {"type": "not", "child": {"type": kind, "term": "c", "value": value}}
    for kind in ("in", "not-in"):
        yield {"type": kind, "term": "c", "values": [value, 2]}


def exact(value: Any) -> decimal.Decimal:
    return decimal.Decimal(str(value))


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("name", [n for n in NAMES if "decimal" in n or n in {"integer", "bigint"}])
def test_exact_numbers_are_compared_exactly_whatever_their_scale(name: str) -> None:
    values = VALUES[name]
    for number in NUMBERS:
        for kind, holds in SIGNS.items():
            wanted = [value for value in values if holds(value, exact(number))]
            body = {"type": kind, "term": "c", "value": number}
            assert kept(name, body) == wanted, (body, name)
            negated = [value for value in values if value not in wanted]
            found = kept(name, {"type": "not", "child": body})
            assert [value for value in found if value is not None] == negated, (body, name)
        equal = [value for value in values if value == exact(number)]
        assert kept(name, {"type": "in", "term": "c", "values": [number]}) == equal
        unequal = [value for value in values if value not in equal]
        for body in (
            {"type": "not-eq", "term": "c", "value": number},
            {"type": "not-in", "term": "c", "values": [number]},
        ):
            assert kept(name, body) == [*unequal, None], (body, name)


@pytest.mark.one_in(test=5)
@pytest.mark.parametrize("name", NAMES)
def test_whatever_json_holds_is_read_or_refused_by_name(name: str) -> None:
    read = 0
    for value in [*NUMBERS, *OTHERS]:
        for body in filters(value):
            try:
                kept(name, body)
            except SeamlineError as error:
                assert error.code is INVALID_REQUEST, (body, name)
            else:
                read += 1
    assert read


TEXTS: Mapping[str, Callable[[Any], Any]] = {
    "varchar": str,
    "varbinary": lambda value: value.hex(),
    "date": datetime.date.isoformat,
    "time(6)": datetime.time.isoformat,
    "timestamp": datetime.datetime.isoformat,
    "timestamp with time zone": datetime.datetime.isoformat,
    "boolean": bool,
    "real": float,
    "double": float,
}


@pytest.mark.parametrize("name", TEXTS)
def test_no_row_of_the_answer_is_left_out(name: str) -> None:
    values = [value for value in VALUES[name] if value == value]
    for literal in values:
        for kind, holds in SIGNS.items():
            body = {"type": kind, "term": "c", "value": TEXTS[name](literal)}
            wanted = [value for value in values if holds(value, literal)]
            found = kept(name, body)
            assert all(value in found for value in wanted), (body, name)
