"""`format("seamline")`: a unified table as a Spark data source whose executors read both tiers.

For tails too large for a gateway, and for streams. The gateway places the seam and nothing else;
executors read the snapshot's files as the gateway's DuckDB does, and the log with the one decoder.
A stream's offset is how far each partition has been read, so a batch is the same records whether
they are hot or cold by the time it runs, or runs again: it goes from cold into hot and stays
exactly once. Rows that did not come from the log have no offset: batches hold them, streams do not.
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

from seamline.connectors.base import (
    OffsetRange,
    Offsets,
)
from seamline.connectors.spark.splits import Options, Table
from seamline.connectors.spark.tail import spark_schema
from seamline.sql.errors import (
    HISTORY_CHANGED,
    SeamlineError,
)


class SeamlineDataSource(DataSource):
    """The data source; `spark.dataSource.register` takes it."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return "seamline"

    def schema(self) -> str:
        """The table's columns, metadata columns included."""
        return spark_schema(Table.place(Options.of(self.options)).columns)

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """A batch."""
        return _BatchReader(Table.place(Options.of(self.options)))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """A stream from the table's beginning."""
        return _StreamReader(Options.of(self.options))


class _BatchReader(DataSourceReader):
    """The whole table at one seam."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def partitions(self) -> Sequence[InputPartition]:
        table = self._table
        ranges = [
            OffsetRange(partition, table.boundary[partition], end)
            for partition, end in table.end.items()
            if end > table.boundary[partition]
        ]
        # Spark runs no task without a partition, and then wants none
        return [*table.cold_splits(None), *table.hot_splits(ranges)] or [_Nothing()]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return partition.read()  # type: ignore[no-any-return]


@dataclasses.dataclass
class _Nothing(InputPartition):
    """An empty table."""

    def read(self) -> Iterator[pa.RecordBatch]:
        return iter(())


class _StreamReader(DataSourceStreamReader):
    """The records of the table, from its beginning on."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self._offset({})

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802
        table = Table.place(self._options)
        return self._offset(table.end.to_json(), table)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        table = Table.place(self._options)
        for known in (start, end):
            self._check_same(known, table)
        first, last = Offsets.from_json(start["end"]), Offsets.from_json(end["end"])
        window, ranges = {}, []
        for partition, stop in last.items():
            begin, boundary = first.get(partition, 0), table.boundary.get(partition, 0)
            if begin < min(stop, boundary):
                window[partition] = (begin, min(stop, boundary))
            if max(begin, boundary) < stop:
                ranges.append(OffsetRange(partition, max(begin, boundary), stop))
        return [*table.cold_splits(window), *table.hot_splits(ranges)] or [_Nothing()]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return partition.read()  # type: ignore[no-any-return]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept anywhere but in Spark's own checkpoint."""

    def stop(self) -> None:
        """Nothing was started."""

    def _offset(self, end: dict[str, int], table: Table | None = None) -> dict[str, Any]:
        body = (table or Table.place(self._options)).body
        return {"end": end, "table_uuid": body["table_uuid"], "topic_id": body["topic_id"]}

    def _check_same(self, known: dict[str, Any], table: Table) -> None:
        for field in ("table_uuid", "topic_id"):
            if known[field] != table.body[field]:
                raise SeamlineError(
                    HISTORY_CHANGED,
                    f"table {self._options.table} or its topic was created again since the stream "
                    "began",
                )
