"""Predicates on the columns of one table, which a scan may use to skip rows.

Predicates are a small language of their own because tiers prune with them in different ways:
Iceberg by partition and file statistics, the log by partition, offset, time and key. A predicate
keeps a row when it is true; false and unknown both drop it. It always comes in addition to the
statement's own filter, so a tier may use as much of it as it can guarantee and ignore the rest.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from seamline.sql.quoting import quoted_text

Value: TypeAlias = (
    bool
    | int
    | float
    | str
    | bytes
    | decimal.Decimal
    | datetime.date
    | datetime.time
    | datetime.datetime
)
"""A literal, already of the column's type. Datetimes with a zone are instants in UTC."""


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """`column operator value`; the operator is one of `= <> < <= > >=`."""

    column: str
    operator: str
    value: Value


@dataclasses.dataclass(frozen=True, slots=True)
class In:
    """`column IN (values)`; the values contain no null."""

    column: str
    values: tuple[Value, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`, or `IS NOT NULL` when negated."""

    column: str
    negated: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class StartsWith:
    """`column LIKE 'prefix%'`."""

    column: str
    prefix: str


@dataclasses.dataclass(frozen=True, slots=True)
class And:
    """Every part holds; no parts means true."""

    parts: tuple[Predicate, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Or:
    """Some part holds; no parts means false."""

    parts: tuple[Predicate, ...]


Predicate: TypeAlias = Comparison | In | IsNull | StartsWith | And | Or

FALSE = Or(())


def conjunction(*parts: Predicate | None) -> Predicate:
    """Returns the conjunction of the parts, flattened and without parts that are None."""
    flat: list[Predicate] = []
    for part in parts:
        if part is not None:
            flat.extend(part.parts if isinstance(part, And) else (part,))
    unique = tuple(dict.fromkeys(flat))
    return unique[0] if len(unique) == 1 else And(unique)


def conjuncts(predicate: Predicate | None) -> Iterator[Predicate]:
    """Yields the parts that must all hold."""
    if isinstance(predicate, And):
        yield from predicate.parts
    elif predicate is not None:
        yield predicate


def columns(predicate: Predicate | None) -> frozenset[str]:
    """Returns the columns that a predicate mentions."""
    match predicate:
        case None:
            return frozenset()
        case And(parts) | Or(parts):
            return frozenset().union(*(columns(part) for part in parts))
        case _:
            return frozenset({predicate.column})


def about(predicate: Predicate | None, column: str) -> Predicate | None:
    """Returns what a predicate says of one column alone; None if it says nothing of it.

    Wherever the predicate is true, this one is, too.
    """
    match predicate:
        case None:
            return None
        case And(parts):
            said = [part for part in (about(part, column) for part in parts) if part is not None]
            return conjunction(*said) if said else None
        case Or(parts):
            ways = tuple(way for way in (about(part, column) for part in parts) if way is not None)
            return Or(ways) if len(ways) == len(parts) else None
        case _:
            return predicate if predicate.column == column else None


def holds(predicate: Predicate, value: Value | None) -> bool:
    """Whether a predicate about one column is true of a value of that column's type, or of null."""
    match predicate:
        case And(parts):
            return all(holds(part, value) for part in parts)
        case Or(parts):
            return any(holds(part, value) for part in parts)
        case IsNull(_, negated):
            return negated is (value is not None)
        case In(_, values):
            return value in values
        case StartsWith(_, prefix):
            return isinstance(value, str) and value.startswith(prefix)
        case Comparison(_, symbol, other):
            return value is not None and _COMPARED[symbol](value, other)


_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def of_offsets(names: tuple[str, str], partition: int, start: int, end: int) -> And:
    """Returns the predicate that rows of the offsets [start, end) of a partition meet.

    Args:
        names: The columns with the partition and the offset.
        partition: The partition.
        start: The first offset.
        end: Where they end, exclusive.
    """
    return And(
        (
            Comparison(names[0], "=", partition),
            Comparison(names[1], ">=", start),
            Comparison(names[1], "<", end),
        )
    )


def negation(predicate: Predicate) -> Predicate | None:
    """Returns a predicate that is true where this one is false, or None if none is expressible."""
    match predicate:
        case Comparison(column, operator, value):
            return Comparison(column, _NEGATED[operator], value)
        case In(column, values):
            return And(tuple(Comparison(column, "<>", value) for value in values))
        case IsNull(column, negated):
            return IsNull(column, not negated)
        case And(parts) | Or(parts):
            negated_parts = [negation(part) for part in parts]
            if any(part is None for part in negated_parts):
                return None
            flipped = tuple(part for part in negated_parts if part is not None)
            return Or(flipped) if isinstance(predicate, And) else And(flipped)
        case _:
            return None


def describe(predicate: Predicate | None) -> str:
    """Returns the predicate as human-readable text, for EXPLAIN."""
    match predicate:
        case None | And(()):
            return "true"
        case Or(()):
            return "false"
        case Comparison(column, operator, value):
            return f"{column} {operator} {_describe_value(value)}"
        case In(column, values):
            return f"{column} IN ({', '.join(_describe_value(value) for value in values)})"
        case IsNull(column, negated):
            return f"{column} IS {'NOT ' if negated else ''}NULL"
        case StartsWith(column, prefix):
            return f"{column} LIKE {_describe_value(prefix + '%')}"
        case And(parts):
            return " AND ".join(_describe_part(part) for part in parts)
        case Or(parts):
            return " OR ".join(_describe_part(part) for part in parts)


def _describe_part(part: Predicate) -> str:
    return f"({describe(part)})" if isinstance(part, And | Or) else describe(part)


def _describe_value(value: Value) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return quoted_text(value)
        case bytes():
            return f"X'{value.hex().upper()}'"
        case datetime.date() | datetime.time():
            return f"'{value}'"
        case _:
            return str(value)
