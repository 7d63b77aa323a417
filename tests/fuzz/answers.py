"""Answers in a form in which those of two engines are the same when they mean the same.

Zeros of both signs are one; numbers are equal by value, floating ones to twelve digits, because a
sum depends on its order; entries of a map have none.
"""

from __future__ import annotations

import dataclasses
import decimal
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from fuzz.queries import Query

SKIPPABLE = frozenset(
    {"DIVISION_BY_ZERO", "NUMERIC_OVERFLOW", "INVALID_CAST", "INVALID_ARGUMENT", "INVALID_LITERAL",
     "SUBQUERY_MULTIPLE_ROWS"}
)  # fmt: skip
"""Errors of a value: an engine need not compute what no row of the answer needs."""
UNNAMED = frozenset({"INTERNAL_ERROR", "SPARK_FAILED", "EVALUATION_FAILED"})
"""Errors that are not the statement's fault."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What was answered.

    Attributes:
        rows: Rows in canonical form, sorted unless their order was asked for; None for an error.
        error: The error's name.
        message: What it says.
    """

    rows: tuple[Any, ...] | None
    error: str = ""
    message: str = ""

    @property
    def outcome(self) -> str:
        """`rows`, or the name of the error."""
        return self.error or "rows"

    def text(self) -> str:
        """For a person."""
        if self.rows is None:
            return f"{self.error}: {self.message[:600]}"
        lines = [" | ".join(map(str, row)) for row in self.rows[:12]]
        return "\n".join([f"{len(self.rows)} rows", *lines])


def answer_of(query: Query, table: pa.Table) -> Answer:
    """The rows of a table as an answer to a query."""
    columns = [column.cast(_plain(column.type)) for column in table.columns]
    kinds = [column.type for column in columns]
    rows = [
        tuple(_cell(value, type_) for value, type_ in zip(row, kinds, strict=True))
        for row in zip(*(column.to_pylist() for column in columns), strict=True)
    ]
    return Answer(tuple(rows if query.is_sorted else sorted(rows)))


def disagreement(one: Answer, other: Answer) -> str:
    """How two answers differ; empty when they may both be right."""
    if one.rows is not None and other.rows is not None:
        return "" if _close(one.rows, other.rows) else "other rows"
    if one.rows is None and other.rows is None:
        return ""
    failed = one if one.rows is None else other
    return "" if failed.error in SKIPPABLE or failed.error == "NOT_SUPPORTED" else failed.error


def _plain(type_: pa.DataType) -> pa.DataType:
    """Moments as numbers: Python has no year 10000."""
    if pa.types.is_timestamp(type_):
        return pa.int64()
    if pa.types.is_time(type_):
        return pa.int64()
    if pa.types.is_date32(type_):
        return pa.int32()
    if pa.types.is_map(type_):
        return pa.map_(_plain(type_.key_type), _plain(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(_plain(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _plain(f.type)) for f in type_])
    return type_


def _cell(value: Any, type_: pa.DataType) -> tuple[Any, ...]:
    """A value that sorts among its like."""
    if value is None:
        return ("9null",)
    if pa.types.is_list(type_):
        return ("list", *(_cell(item, type_.value_type) for item in value))
    if pa.types.is_map(type_):
        pairs = ((_cell(k, type_.key_type), _cell(v, type_.item_type)) for k, v in value)
        return ("map", *sorted(pairs))
    if pa.types.is_struct(type_):
        cells = zip(value.values(), type_, strict=True)
        return ("row", *(_cell(member, field.type) for member, field in cells))
    match value:
        case bool():
            return ("boolean", value)
        case float():
            return _floating(value)
        case int() | decimal.Decimal():
            return ("number", decimal.Decimal(value))
    return (type(value).__name__, value)


def _floating(value: float) -> tuple[Any, ...]:
    if math.isnan(value):
        return ("float", math.inf, "nan")
    if value == 0:
        return ("float", 0.0, "0")
    return ("float", float(f"{value:.9g}"), repr(value))


def _close(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(
        a == b or _near(a, b) for a, b in zip(one, other, strict=True)
    )


def _near(one: Any, other: Any) -> bool:
    if not isinstance(one, tuple) or not isinstance(other, tuple) or len(one) != len(other):
        return bool(one == other)
    if one[:1] == ("float",) and other[:1] == ("float",):
        return math.isclose(float(one[2]), float(other[2]), rel_tol=1e-9)
    return all(_near(a, b) for a, b in zip(one, other, strict=True))
