"""Finds the newest decoded rows of an upsert table: in Arrow, which is faster, or with a window."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamline.errors import UPSERT_ORDER_UNKNOWN, SeamlineError
from seamline.seam.upserts import Newest
from seamline.sql.columns import DELETED
from seamline.sql.predicates import Comparison, In, IsNull, Or, Predicate, Value, conjuncts


def newest_rows(rows: pa.Table, newest: Newest) -> pa.Table:
    """Returns the newest row of each key, including deletes, in no particular order.

    If there are truncates, these are the rows from the last one on, and it is among them.

    Args:
        rows: Decoded rows, with the columns that determine which is the newest.
        newest: How to determine the newest.

    Raises:
        SeamlineError: UPSERT_ORDER_UNKNOWN when a key has rows in several partitions, unless the
            owner has declared that none has.
    """
    return rows.take(pa.array(newest_places(rows, newest)))


def without_deletes(newest: pa.Table) -> pa.Table:
    """Returns the newest rows that are not deletes, without the column that marks deletes."""
    deleted = newest.column(DELETED)
    return newest.filter(pc.invert(deleted)).drop_columns([DELETED])


def newest_places(rows: pa.Table, newest: Newest) -> np.ndarray:
    """Returns the positions of the rows of `newest_rows`, ascending.

    Args:
        rows: Decoded rows, with the columns that determine which is the newest.
        newest: How to determine the newest.

    Raises:
        SeamlineError: UPSERT_ORDER_UNKNOWN.
    """
    first = rows.column(newest.key_names[0])
    # an entry that is not a row has no key
    indexes = np.flatnonzero(first.is_valid().to_numpy()) if first.null_count else None
    truncate = _last_truncate(rows, newest) if indexes is not None else None
    if truncate is not None:
        assert indexes is not None
        offsets = rows.column(newest.offset.name).to_numpy()
        indexes = indexes[offsets[indexes] > offsets[truncate]]
        left = newest_places(rows.take(pa.array(indexes)), newest)
        return np.sort(np.append(indexes[left], truncate))
    keyed = rows if indexes is None else rows.take(pa.array(indexes))
    if not keyed.num_rows:
        return np.empty(0, dtype=np.int64)
    codes, count = _codes(keyed, newest.key_names)
    offsets = keyed.column(newest.offset.name).to_numpy()
    order = np.argsort(offsets, kind="stable")
    last = np.full(count, -1)
    last[codes[order]] = order  # for repeated indices, the last assignment stays
    if not newest.is_settled:
        partitions = keyed.column(newest.partition.name).to_numpy()
        if (partitions != partitions[last[codes]]).any():
            raise SeamlineError(UPSERT_ORDER_UNKNOWN, newest.moved_key.partition(": ")[2])
    last = np.sort(last[last >= 0])
    return last if indexes is None else indexes[last]


def is_truncated(newest: pa.Table, told_by: Newest) -> bool:
    """Whether there is a truncate among the newest rows, so that older rows do not count."""
    return bool(newest.column(told_by.key_names[0]).null_count)


def _last_truncate(rows: pa.Table, newest: Newest) -> int | None:
    """Returns the position of the last truncate; None if there is none."""
    if not newest.takes_truncates:
        return None
    keyless = pc.is_null(rows.column(newest.key_names[0]))
    indexes = np.flatnonzero(pc.fill_null(pc.and_(keyless, rows.column(DELETED)), False).to_numpy())
    if not len(indexes):
        return None
    offsets = rows.column(newest.offset.name).to_numpy()
    return int(indexes[offsets[indexes].argmax()])


def of_keys(rows: pa.Table, predicate: Predicate | None, newest: Newest) -> pa.Table:
    """Returns the rows whose keys match a predicate's key values, and truncates.

    Returns all rows if it names no values.

    Args:
        rows: Decoded rows.
        predicate: The predicate; only its conditions on keys are used.
        newest: The columns of the key.
    """
    match predicate:
        case Or((of_key, IsNull(column))) if newest.takes_truncates and column in newest.key_names:
            predicate = of_key
    for part in conjuncts(predicate):
        match part:
            case Comparison(column, "=", value) if column in newest.key_names:
                in_: tuple[Value, ...] = (value,)
            case In(column, in_) if column in newest.key_names:
                pass
            case _:
                continue
        values = rows.column(column)
        is_wanted = pc.is_in(values, pa.array(in_, values.type))
        if newest.takes_truncates:
            is_wanted = pc.or_(is_wanted, pc.is_null(values))
        rows = rows.filter(is_wanted)
    return rows


def _codes(rows: pa.Table, names: tuple[str, ...]) -> tuple[np.ndarray, int]:
    """Returns a number for each row, equal for equal keys, and one that is above all of them."""
    codes, count = _encoded(rows.column(names[0]).combine_chunks())
    for name in names[1:]:
        more, size = _encoded(rows.column(name).combine_chunks())
        codes, count = _encoded(pa.array(codes * size + more))
    return codes, count


_SPREAD_MAX = 4
"""Integers are numbers for themselves while there are at most this many of them for each row."""


def _encoded(values: pa.Array) -> tuple[np.ndarray, int]:
    if pa.types.is_integer(values.type):
        numbers = values.to_numpy().astype(np.int64)
        least, greatest = int(numbers.min()), int(numbers.max())
        if greatest - least < _SPREAD_MAX * len(numbers):
            return numbers - least, greatest - least + 1
        distinct, codes = np.unique(numbers, return_inverse=True)
        return codes, len(distinct)
    encoded = pc.dictionary_encode(values)
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def newest_condition(newest: Newest, quote: Callable[[str], str], moved: str) -> str:
    """Returns SQL for whether a row is the newest of its key, deletes included.

    Args:
        newest: How to determine the newest.
        quote: Writes the name of a column.
        moved: SQL that raises an error, for a key with rows in several partitions.
    """
    of_key = f"PARTITION BY {', '.join(map(quote, newest.key_names))}"
    is_last = f"row_number() OVER ({of_key} ORDER BY {quote(newest.offset.name)} DESC) = 1"
    if newest.is_settled:
        return is_last
    partition = f"({quote(newest.partition.name)}) OVER ({of_key})"
    return f"CASE WHEN min{partition} <> max{partition} THEN {moved} ELSE {is_last} END"
