"""Looks up a past moment in a snapshot: which of its rows are from then or later.

It answers for rows that have left the log what the log answers for the records it still holds.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

from pyiceberg.table import Table as PyTable

from seamline.connectors.iceberg.expressions import to_iceberg
from seamline.errors import OFFSETS_NOT_STORED, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.encoding import Encoding
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import fields_to
from seamline.seam.table import TableState
from seamline.sql.columns import BATCH
from seamline.sql.predicates import Comparison, Or, Predicate, conjunction, of_offsets
from seamline.sql.types import TIMESTAMP_TZ


@dataclasses.dataclass(frozen=True, slots=True)
class MomentColumns:
    """The names of the columns that a lookup reads."""

    partition: str
    offset: str
    timestamp: str

    @classmethod
    def of(cls, state: TableState) -> MomentColumns:
        """Returns the lookup columns of a table.

        Raises:
            SeamlineError: OFFSETS_NOT_STORED if it lacks one that can be looked up.
        """
        binding = TopicBinding.from_properties(state.properties)
        encoding = binding.encoding if binding is not None else Encoding()
        found = []
        for part in ("partition", "offset", "timestamp"):
            path = fields_to(part, encoding, state.schema.columns)
            is_known = part != "timestamp" or (path is not None and path[0].type == TIMESTAMP_TZ)
            if path is None or len(path) > 1 or not is_known:
                raise SeamlineError(
                    OFFSETS_NOT_STORED,
                    f"a past moment cannot be looked up in {state.display_name}: none of its "
                    f"columns holds the {part} of each record",
                    hint="Read a snapshot with FOR VERSION AS OF.",
                )
            found.append(path[0].name)
        return cls(*found)

    @property
    def names(self) -> tuple[str, str, str]:
        """All three names."""
        return self.partition, self.offset, self.timestamp


_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)


def later_rows(
    columns: MomentColumns, first_ms: int, ranges: Sequence[OffsetRange], first_batch: int
) -> Predicate:
    """Returns the predicate for rows of the ranges with a record time at or past a moment."""
    first = _EPOCH + datetime.timedelta(milliseconds=first_ms)
    names = (columns.partition, columns.offset)
    later = conjunction(
        Comparison(columns.timestamp, ">=", first),
        Or(tuple(of_offsets(names, r.partition, r.start, r.end_exclusive) for r in ranges)),
    )
    return conjunction(later, Comparison(BATCH, ">=", first_batch)) if first_batch else later


def first_offsets(
    table: PyTable, state: TableState, columns: MomentColumns, snapshot_id: int, wanted: Predicate
) -> Offsets:
    """Returns, per partition, the first offset of the snapshot's rows that match the predicate."""
    rows = table.scan(
        row_filter=to_iceberg(wanted, {f.name: f for f in state.schema.columns}),
        selected_fields=(columns.partition, columns.offset),
        snapshot_id=snapshot_id,
    ).to_arrow()
    first = rows.group_by(columns.partition).aggregate([(columns.offset, "min")])
    return Offsets(
        zip(
            first[columns.partition].to_pylist(),
            first[f"{columns.offset}_min"].to_pylist(),
            strict=True,
        )
    )
