"""Finds the keys of an upsert table's tail, before its records are read in parts.

Records of a key may be in any part of the log, and its row in any file, so no part alone shows
which record is the newest. So the log is read once to find that out. Only the keys are kept, and
where the newest record of each is, never a value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamline.connectors.newest import is_truncated, newest_rows
from seamline.seam.offsets import OffsetRange
from seamline.seam.upserts import Newest
from seamline.sql.columns import DELETED, DELETED_FIELD
from seamline.sql.types import arrow_field

_ROWS_MIN = 250_000


@dataclasses.dataclass(frozen=True, slots=True)
class KeysFound:
    """The keys of a tail.

    Attributes:
        keys: All keys, each once; also its partition, where a key may be in several.
        newest: By partition, the offsets of the records that are rows of the table, ascending.
        is_truncated: Whether no row of the snapshot counts.
    """

    keys: pa.Table
    newest: Mapping[int, np.ndarray]
    is_truncated: bool

    def within(self, part: OffsetRange) -> pa.Array:
        """Returns the offsets of a part of the log whose records are rows of the table."""
        offsets = self.newest.get(part.partition, np.empty(0, np.int64))
        first, end = offsets.searchsorted([part.start, part.end_exclusive])
        return pa.array(offsets[first:end].copy())  # a slice would be sent with all the others


class HotKeys:
    """Finds the newest record of each key among rows that come batch by batch.

    Memory is bounded by the keys, not by the records.
    """

    def __init__(self, newest: Newest) -> None:
        self._newest = newest
        fields = (*newest.key, newest.partition, newest.offset, DELETED_FIELD)
        self._names = list(dict.fromkeys(field.name for field in fields))
        by_name = {field.name: arrow_field(field) for field in fields}
        self._known = pa.schema([by_name[name] for name in self._names]).empty_table()
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds decoded records.

        Raises:
            SeamlineError: UPSERT_ORDER_UNKNOWN.
        """
        self._waiting.append(rows.select(self._names))
        self._rows += rows.num_rows
        if self._rows > max(_ROWS_MIN, self._known.num_rows):
            self._reduce()

    def found(self) -> KeysFound:
        """Returns what has been found.

        Raises:
            SeamlineError: UPSERT_ORDER_UNKNOWN.
        """
        self._reduce()
        newest, rows = self._newest, self._known
        own = newest.key if newest.is_settled else (*newest.key, newest.partition)
        left = rows.filter(pc.invert(rows.column(DELETED)))
        partitions, offsets = (left.column(f.name) for f in (newest.partition, newest.offset))
        return KeysFound(
            rows.select(list(dict.fromkeys(field.name for field in own))),
            {
                partition: np.sort(offsets.filter(pc.equal(partitions, partition)).to_numpy())
                for partition in pc.unique(partitions).to_pylist()
            },
            is_truncated(rows, newest),
        )

    def _reduce(self) -> None:
        waiting = pa.Table.from_batches(self._waiting, self._known.schema)
        rows = pa.concat_tables([self._known, waiting])
        self._known = newest_rows(rows, self._newest).combine_chunks()
        self._waiting, self._rows = [], 0
