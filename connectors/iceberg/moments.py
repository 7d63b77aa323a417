"""A past moment in a snapshot: which of its rows are from then or later.

Answers for rows that have left the log what the log answers for those that it still holds.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from pyiceberg.table import Table as PyTable

from seamline.connectors.iceberg.expressions import to_iceberg
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.sql import columns as names
from seamline.sql.predicates import And, Comparison, Or, Predicate, conjunction

COLUMNS = (names.PARTITION, names.OFFSET, names.TIMESTAMP)
"""What a look-up reads."""

_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)


def wanted_of(first_ms: int, last_ms: int, ranges: Sequence[OffsetRange]) -> Predicate:
    """What is true of the rows of the ranges whose record time lies between two moments."""
    first, last = (_EPOCH + datetime.timedelta(milliseconds=ms) for ms in (first_ms, last_ms))
    return conjunction(
        Comparison(names.TIMESTAMP, ">=", first),
        Comparison(names.TIMESTAMP, "<=", last),
        Or(tuple(_lies_in(r) for r in ranges)),
    )


def first_offsets(table: PyTable, snapshot_id: int, wanted: Predicate) -> Offsets:
    """Per partition the first offset of the rows of a snapshot for which the predicate is true."""
    rows = table.scan(
        row_filter=to_iceberg(wanted, {f.name: f for f in names.METADATA_FIELDS}),
        selected_fields=(names.PARTITION, names.OFFSET),
        snapshot_id=snapshot_id,
    ).to_arrow()
    first = rows.group_by(names.PARTITION).aggregate([(names.OFFSET, "min")])
    return Offsets(
        zip(
            first[names.PARTITION].to_pylist(),
            first[f"{names.OFFSET}_min"].to_pylist(),
            strict=True,
        )
    )


def _lies_in(wanted: OffsetRange) -> And:
    return And(
        (
            Comparison(names.PARTITION, "=", wanted.partition),
            Comparison(names.OFFSET, ">=", wanted.start),
            Comparison(names.OFFSET, "<", wanted.end_exclusive),
        )
    )
