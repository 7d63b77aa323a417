"""`format("seamline")`: a unified table as a Spark data source whose executors read both tiers.

It is for tails too large for a gateway, and for streams. The gateway pins the seam and nothing
else; executors read the snapshot's files as the gateway's DuckDB does, and the log with the same
decoder. A stream's offset is how far each partition has been read. So a micro-batch holds the same
records, whether they are hot or cold when it runs, or runs again: the stream passes from cold to
hot and stays exactly once. Rows that did not come from the log have no offset: batches hold them,
streams do not. A batch of an upsert table is the newest row of each key or, with the option
`changes`, every record. A stream of an upsert table is its changes, all of them from the log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from seamline.connectors.spark.splits import Options, Table
from seamline.connectors.spark.tail import spark_schema
from seamline.errors import (
    HISTORY_CHANGED,
    NOT_SUPPORTED,
    SeamlineError,
)
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.seam import ColdSpan


class SeamlineDataSource(DataSource):
    """The data source; `spark.dataSource.register` takes it."""

    @classmethod
    def name(cls) -> str:
        """Returns the name that `format` takes."""
        return "seamline"

    def schema(self) -> str:
        """Returns the table's columns, metadata columns included."""
        return spark_schema(Table.place(Options.of(self.options)).columns)

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """Returns the reader of a batch."""
        return _BatchReader(Table.place(Options.of(self.options)))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Returns the reader of a stream from the table's beginning."""
        return _StreamReader(Options.of(self.options))


class _BatchReader(DataSourceReader):
    """The whole table at one seam, or every change up to it."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def partitions(self) -> Sequence[InputPartition]:
        table, seam = self._table, self._table.seam
        # for an empty list, Spark would read a partition of None
        if table.gives_changes:
            table.require_every_change(begins_first=True)
            ranges = [OffsetRange(p, 0, end) for p, end in seam.end.items() if end]
            return [*table.hot_splits(ranges, {}, seam.end, seam.log.end_epochs)] or [_Nothing()]
        table, keys = table.find_keys()
        seam = table.seam
        hot = table.hot_splits(
            seam.hot_ranges, seam.cold.epochs, seam.end, seam.log.end_epochs, keys
        )
        return [*table.cold_splits(None, keys), *hot] or [_Nothing()]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return partition.read()  # type: ignore[no-any-return]


@dataclasses.dataclass
class _Nothing(InputPartition):
    """The only partition of an empty read."""

    def read(self) -> Iterator[pa.RecordBatch]:
        return iter(())


class _StreamReader(DataSourceStreamReader):
    """The records of the table, from its beginning on."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self._offset(self._place(), Offsets(), Offsets())

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802
        table = self._place()
        return self._offset(table, table.seam.end, table.seam.log.end_epochs)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        table = self._place()
        for seam in (start, end):
            self._check_same(seam, table)
        first, last = Offsets.from_json(start["end"]), Offsets.from_json(end["end"])
        first_epochs = Offsets.from_json(start.get("epochs", {}))
        boundaries = table.seam.boundary
        if table.gives_changes:
            table.require_every_change(begins_first=not first)
            boundaries = Offsets()  # a snapshot no longer has what was replaced
        cold_start, cold_end, ranges, epochs = {}, {}, [], {}
        for partition, stop in last.items():
            begin, boundary = first.get(partition, 0), boundaries.get(partition, 0)
            if begin < min(stop, boundary):
                cold_start[partition], cold_end[partition] = begin, min(stop, boundary)
            if max(begin, boundary) < stop:
                ranges.append(OffsetRange(partition, max(begin, boundary), stop))
                epochs_there = first_epochs if begin >= boundary else table.seam.cold.epochs
                if partition in epochs_there:
                    epochs[partition] = epochs_there[partition]
        hot = table.hot_splits(ranges, epochs, last, Offsets.from_json(end.get("epochs", {})))
        # the first batch of a stream from the beginning brings the rows of earlier logs
        takes_earlier = not first and not table.gives_changes
        span = ColdSpan(
            Offsets(cold_start), Offsets(cold_end), table.seam.cold.first_batch, takes_earlier
        )
        return [*table.cold_splits(span), *hot] or [_Nothing()]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return partition.read()  # type: ignore[no-any-return]

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: state is kept only in Spark's own checkpoint."""

    def stop(self) -> None:
        """Does nothing: nothing was started."""

    def _place(self) -> Table:
        table = Table.place(self._options)
        if table.newest is not None:
            raise SeamlineError(
                NOT_SUPPORTED,
                f"{self._options.table} is an upsert table: a stream only adds rows, but here "
                "later ones replace earlier ones",
                hint='Read its changes: option("changes", "true").',
            )
        return table

    def _offset(self, table: Table, end: Offsets, epochs: Offsets) -> dict[str, Any]:
        """Returns how far a stream has read: the end offsets, and the leader epochs there."""
        return {
            "end": end.to_json(),
            "epochs": epochs.to_json(),
            "table_uuid": table.seam.table_uuid,
            "topic_id": table.seam.log.topic_id,
        }

    def _check_same(self, earlier: dict[str, Any], table: Table) -> None:
        seam = table.seam
        if (earlier["table_uuid"], earlier["topic_id"]) != (seam.table_uuid, seam.log.topic_id):
            raise SeamlineError(
                HISTORY_CHANGED,
                f"table {self._options.table} or its topic was recreated since the stream began",
            )
