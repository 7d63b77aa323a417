"""Tiering on Spark: exact ranges, decoded in its workers, committed by compare-and-swap.

A batch is written as an overwrite of the rows whose `_kafka_batch` is at least its own mark. There
are none, unless another batch from the same boundary has landed since the snapshot the batch
started from; then Iceberg's serializable validation refuses the commit. Foreign appends,
compaction and deletes pass.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from seamline.connectors.base import Deadline, HotLog, TableState
from seamline.connectors.iceberg import commits
from seamline.connectors.iceberg.boundary import SUMMARY_KEY, encode
from seamline.connectors.iceberg.catalog import IcebergCatalog, IcebergTable
from seamline.connectors.kafka.cluster import ClusterConfig
from seamline.connectors.kafka.decode import Decoder, DecoderSpec
from seamline.connectors.spark.engine import named_error
from seamline.connectors.spark.settings import quoted_name
from seamline.connectors.spark.tail import decoded_tail
from seamline.connectors.tiering import Batch
from seamline.sql import columns
from seamline.sql.errors import COMMIT_CONFLICT, SPARK_FAILED, SeamlineError

_PROBE_RECORDS = 500


class SparkTierTable:
    """`TierTable` over Spark and PyIceberg.

    Args:
        spark: A Spark session.
        catalog: The table's catalog.
        identifier: Its name there.
        log: The cluster its topic is in.
        cluster: The same cluster, as Spark reaches it.
        tasks_min: Tasks that share a batch at least.
    """

    def __init__(
        self,
        spark: Any,
        catalog: IcebergCatalog,
        identifier: tuple[str, ...],
        log: HotLog,
        cluster: ClusterConfig,
        *,
        tasks_min: int,
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._identifier = identifier
        self._log = log
        self._cluster = cluster
        self._tasks_min = tasks_min

    def load(self) -> TableState:
        """See `TierTable.load`."""
        return self._table().state

    def has_rows(self, batch: Batch, deadline: Deadline) -> bool:
        """See `TierTable.has_rows`: reads until the first record that gives a row."""
        decoder = Decoder(self._spec(self._table().state, batch))
        topic, isolation = batch.binding.topic, batch.boundary.isolation
        for raw in self._log.read(
            topic,
            batch.ranges,
            isolation,
            deadline,
            epochs=batch.base_epochs,
            max_records=_PROBE_RECORDS,
        ):
            if batch.binding.on_error != "skip" or decoder.decode(raw).rows.num_rows:
                return len(raw) > 0
        if batch.binding.on_error != "skip":
            return False
        records = self._log.read(topic, batch.ranges, isolation, deadline)
        return any(decoder.decode(raw).rows.num_rows for raw in records)

    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`."""
        spec = self._spec(self._table().state, batch)
        with self._named_errors(batch), self._rows(batch, spec) as (rows, skipped):
            boundary = dataclasses.replace(batch.boundary, skipped=batch.boundary.skipped + skipped)
            from pyspark.sql import functions

            mark = functions.col(columns.BATCH) >= functions.lit(batch.mark)
            (
                rows.writeTo(quoted_name((self._catalog.name, *self._identifier)))
                .option(f"snapshot-property.{SUMMARY_KEY}", encode(boundary))
                .option("isolation-level", "serializable")
                .option("validate-from-snapshot-id", str(batch.snapshot_id))
                .option("check-nullability", "false")
                .overwrite(mark)
            )

    def commit_mark(self, batch: Batch) -> None:
        """See `TierTable.commit_mark`."""
        table = self._table()
        if table.state.current_snapshot_id != batch.snapshot_id:
            raise SeamlineError(
                COMMIT_CONFLICT, f"table {table.state.display_name} has changed since it was read"
            )
        skipped = 0
        if batch.ranges and batch.binding.on_error == "skip":
            skipped = self._count_skipped(batch)
        boundary = dataclasses.replace(batch.boundary, skipped=batch.boundary.skipped + skipped)
        commits.commit_mark(table, boundary)

    def keep(self, snapshot_id: int) -> None:
        """See `TierTable.keep`. Whoever moves the tag meanwhile moves it further: as good."""
        with contextlib.suppress(SeamlineError):
            commits.tag_boundary(self._table(), snapshot_id)

    def take_back(self, snapshot_id: int, to: int) -> None:
        """See `TierTable.take_back`."""
        commits.move_head(self._table(), snapshot_id, to)

    def _table(self) -> IcebergTable:
        return self._catalog.load(self._identifier)

    def _spec(self, state: TableState, batch: Batch) -> DecoderSpec:
        binding = batch.binding
        schema = state.schemas[batch.schema_id]
        return DecoderSpec(binding.topic, binding.format, binding.on_error, schema.columns)

    @contextlib.contextmanager
    def _rows(self, batch: Batch, spec: DecoderSpec) -> Iterator[tuple[Any, int]]:
        """The batch's rows, and how many records are left out of them.

        The boundary counts what the policy `skip` leaves out, and is written with the rows: so
        they are counted first, from rows that are kept until they are written.
        """
        rows = decoded_tail(
            self._spark,
            bootstrap_servers=self._cluster.bootstrap_servers,
            properties=self._cluster.java_properties,
            ranges=batch.ranges,
            isolation=batch.boundary.isolation,
            spec=spec,
            batch_mark=batch.mark,
            min_partitions=self._tasks_min,
        )
        if spec.on_error != "skip":
            yield rows, 0
            return
        yield rows, self._count_skipped(batch)

    def _count_skipped(self, batch: Batch) -> int:
        """Bad records in the batch, counted by the decoder that leaves them out."""
        state = self._table().state
        spec = dataclasses.replace(self._spec(state, batch), on_error="null")
        rows = decoded_tail(
            self._spark,
            bootstrap_servers=self._cluster.bootstrap_servers,
            properties=self._cluster.java_properties,
            ranges=batch.ranges,
            isolation=batch.boundary.isolation,
            spec=spec,
            min_partitions=self._tasks_min,
        )
        return int(rows.filter(f"`{columns.ERROR}` IS NOT NULL").count())

    @contextlib.contextmanager
    def _named_errors(self, batch: Batch) -> Iterator[None]:
        """Spark's failures by name; rows that no longer fit a changed table have lost a race."""
        try:
            yield
        except SeamlineError:
            raise
        except Exception as error:
            named = named_error(error)
            if named.code is SPARK_FAILED and self.load().current_schema_id != batch.schema_id:
                name = ".".join((self._catalog.name, *self._identifier))
                raise SeamlineError(
                    COMMIT_CONFLICT, f"the schema of table {name} changed while a batch was written"
                ) from error
            raise named from error
