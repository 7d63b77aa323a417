"""Finds the few rows of a segment that a condition needs, without comparing all of them.

A condition becomes intervals in the order of a column's values (`Statistics.order`); rows outside
of them do not meet it. Nothing is found, and all rows are handed over where they are, in a column
without an order, for conditions that many rows may meet, and the first time a column is looked up.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from seamline.gateway.tail.statistics import Order, Statistics
from seamline.sql.predicates import And, Comparison, In, IsNull, Or, Predicate, StartsWith

POSITIONS_MAX = 1024
"""More rows are not copied."""
_VALUES_MAX = 64
"""A longer list of values is not looked up."""

_Leaf: TypeAlias = Comparison | In | IsNull | StartsWith
_Interval: TypeAlias = tuple[int, int]
"""Places in an order, [first, end)."""


def positions(statistics: Statistics, predicate: Predicate | None) -> np.ndarray | None:
    """Returns the positions of rows, ascending, among them all for which a predicate is true.

    Args:
        statistics: The statistics of the rows.
        predicate: The predicate; None is true for all rows.

    Returns:
        At most `POSITIONS_MAX` positions; None if there may be more, or nothing is known.
    """
    matching = _positions(statistics, predicate)
    if matching is None or len(matching) > POSITIONS_MAX:
        return None
    return np.unique(matching)


def _positions(statistics: Statistics, predicate: Predicate | None) -> np.ndarray | None:
    match predicate:
        case None:
            return None
        case Or(parts):
            of_parts = [_positions(statistics, part) for part in parts]
            some = [matching for matching in of_parts if matching is not None]
            return np.concatenate([_NONE, *some]) if len(some) == len(parts) else None
        case And(parts):
            any_part = (_of_column(statistics, leaves) for leaves in _by_column(parts))
            nested = (_positions(statistics, p) for p in parts if isinstance(p, And | Or))
            return next((f for f in itertools.chain(any_part, nested) if f is not None), None)
    return _of_column(statistics, [predicate])


_NONE = np.empty(0, np.uint32)


def _by_column(parts: Sequence[Predicate]) -> Iterator[Sequence[_Leaf]]:
    """Yields the conditions on each column; first those that few rows meet."""
    leaves: dict[str, list[_Leaf]] = {}
    for part in parts:
        if not isinstance(part, And | Or):
            leaves.setdefault(part.column, []).append(part)
    yield from sorted(leaves.values(), key=lambda of_column: not any(map(_is_value, of_column)))


def _is_value(leaf: _Leaf) -> bool:
    return isinstance(leaf, In) or (isinstance(leaf, Comparison) and leaf.operator == "=")


def _of_column(statistics: Statistics, leaves: Sequence[_Leaf]) -> np.ndarray | None:
    """Returns the positions of the rows that meet all conditions on one column; None if many."""
    order = statistics.order(leaves[0].column)
    if order is None:
        return None
    kept: list[_Interval] = [(0, len(order.rows))]
    try:
        for leaf in leaves:
            kept = [
                (max(low, first), min(high, end))
                for first, end in _intervals(order, leaf)
                for low, high in kept
            ]
    except TypeError:  # a literal of another kind than the column proves nothing
        return None
    kept = [(first, end) for first, end in kept if first < end]
    if sum(end - first for first, end in kept) > min(POSITIONS_MAX, len(order.rows) // 2):
        return None
    return np.concatenate([_NONE, *(order.rows[first:end] for first, end in kept)])


def _intervals(order: Order, leaf: _Leaf) -> list[_Interval]:
    match leaf:
        case Comparison(_, "=", value):
            return [(order.below(value), order.up_to(value))]
        case Comparison(_, "<", value):
            return [(0, order.below(value))]
        case Comparison(_, "<=", value):
            return [(0, order.up_to(value))]
        case Comparison(_, ">", value):
            return [(order.up_to(value), order.count)]
        case Comparison(_, ">=", value):
            return [(order.below(value), order.count)]
        case In(_, values) if len(values) <= _VALUES_MAX:
            return [(order.below(value), order.up_to(value)) for value in values]
        case IsNull(_, False):
            return [(order.count, len(order.rows))]
        case StartsWith(_, prefix):
            return [(order.below(prefix), order.up_to(prefix, len(prefix)))]
    return [(0, len(order.rows))]
