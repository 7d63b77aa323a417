"""Tiering on Spark: exact ranges, decoded in its workers, committed by compare-and-swap.

A batch is written as an overwrite of the rows whose `_kafka_batch` is at least its own id. There
are none, unless another batch from the same boundary has landed since the snapshot the batch
started from; then Iceberg's serializable validation refuses the commit. Foreign appends,
compaction and deletes that replace files pass. Deletes that name positions or values do not, since
Iceberg cannot know that they leave the batch alone.

In that case, the batch is written to a branch, which then lands on `main` whatever others have done
there to their rows (`landing.py`). So is a batch from the start if a foreign file may already hold
rows of such ids (it has greater ones, or no statistics of them), which an overwrite would remove.
So is every batch of an upsert table, since it changes existing rows; it starts again only if others
have changed the same rows, or moved them to other files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import pyarrow as pa
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import TruncateTransform
from pyiceberg.types import IntegerType, LongType

from seamline.connectors.config import ClusterConfig
from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog, IcebergTable
from seamline.connectors.iceberg.tables.landing import Landing
from seamline.connectors.iceberg.tables.tiering import PATIENCE_S, IcebergTierTable
from seamline.connectors.iceberg.transforms import path_to
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.connectors.spark.errors import named_error
from seamline.connectors.spark.merging import merge
from seamline.connectors.spark.sessions import Sessions, functions_for
from seamline.connectors.spark.tail import decoded_tail, has_odd_time
from seamline.errors import (
    COMMIT_CONFLICT,
    INVALID_TABLE_DEFINITION,
    NOT_SUPPORTED,
    SNAPSHOT_GONE,
    SPARK_FAILED,
    SeamlineError,
)
from seamline.seam.boundary import SUMMARY_KEY, Boundary, decode, encode
from seamline.seam.files import ScanRequest
from seamline.seam.history_checks import require
from seamline.seam.records import DecoderSpec
from seamline.seam.table import Snapshot
from seamline.seam.tiering import Batch, overtaken
from seamline.seam.upserts import Newest
from seamline.sql import columns
from seamline.sql.predicates import Comparison
from seamline.sql.quoting import spark_name, spark_text

_BRANCH_MS = 24 * 60 * 60 * 1000
"""How long a branch that a killed batch leaves behind is kept."""
_Result = TypeVar("_Result")


class SparkTierTable(IcebergTierTable):
    """`TierTable` over Spark and PyIceberg.

    Args:
        sessions: Spark's sessions; a batch without rows needs none.
        catalog: The table's catalog.
        identifier: Its name there.
        log: The cluster its topic is in.
        cluster: The same cluster, as Spark reaches it.
        tasks_min: The least number of tasks that share a batch.
        opened: The table, if it has just been loaded; the first `load` returns it.
    """

    def __init__(
        self,
        sessions: Sessions | None,
        catalog: IcebergCatalog,
        identifier: tuple[str, ...],
        log: HotLog,
        cluster: ClusterConfig,
        *,
        tasks_min: int,
        opened: IcebergTable | None = None,
    ) -> None:
        super().__init__(catalog, identifier, log, opened=opened)
        self._sessions = sessions
        self._cluster = cluster
        self._tasks_min = tasks_min

    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`."""
        self._write_dead_letters(batch)
        with self._session(batch) as spark:
            _whatever_times(lambda any_time: self._commit_rows(spark, batch, any_time))

    def _commit_rows(self, spark: Any, batch: Batch, any_time: bool) -> None:
        table = self._table()
        spec = self._spec(table, batch)
        # the boundary counts what the policy `skip` leaves out, and is written with the rows
        skipped = self._count(spark, batch, spec, any_time) if spec.on_error == "skip" else 0
        boundary = batch.boundary_with(skipped)
        if spec.primary_key:
            self._merge_aside(spark, spec, batch, boundary, any_time)
            return
        rows = self._decoded(spark, batch, spec, any_time, batch.batch_id)
        rows = _with_partitions(rows, table)
        if _may_hold_batch(table, batch) or not self._overwrite(rows, batch, boundary):
            self._write_aside(rows, batch, boundary)

    def _overwrite(self, rows: Any, batch: Batch, boundary: Boundary) -> bool:
        """Writes the batch to the table; returns False if commits of others prevented it."""
        functions = functions_for(rows.sparkSession)
        try:
            (
                self._writer(rows, boundary)
                .option("isolation-level", "serializable")
                .option("validate-from-snapshot-id", str(batch.snapshot_id))
                .overwrite(functions.col(columns.BATCH) >= functions.lit(batch.batch_id))
            )
        except Exception as error:
            if named_error(error).code is not COMMIT_CONFLICT:
                raise
            return False
        return True

    def _write_aside(self, rows: Any, batch: Batch, boundary: Boundary) -> None:
        """Writes the batch to a branch of its own and moves `main` there.

        It is an overwrite of nothing, since an append could be cherry-picked into the table again.
        """
        functions = functions_for(rows.sparkSession)
        with self._branch(batch) as branch:
            self._writer(rows, boundary, f"branch_{branch}").overwrite(functions.lit(False))

    def _merge_aside(
        self, spark: Any, spec: DecoderSpec, batch: Batch, boundary: Boundary, any_time: bool
    ) -> None:
        """Merges the newest record of each key into a branch, and moves `main` there."""
        newest = Newest.of(batch.binding, spec)
        assert newest is not None
        with self._branch(batch) as branch:
            rows = self._decoded(spark, batch, spec, any_time, batch.batch_id)
            rows = _with_partitions(rows, self._table())
            table = (self._catalog.name, *self._identifier, f"branch_{branch}")
            merge(spark, rows, table, newest, spec, {SUMMARY_KEY: encode(boundary)})
            landed = decode(self._head_of(branch))
            if landed is None or landed.next != boundary.next:
                raise SeamlineError(
                    NOT_SUPPORTED,
                    "this Spark's Iceberg does not write a session's properties into a snapshot's "
                    "summary, which tiering an upsert table requires",
                    hint="Use Iceberg 1.11 or newer.",
                )

    @contextlib.contextmanager
    def _branch(self, batch: Batch) -> Iterator[str]:
        """Yields a branch from the batch's own snapshot; then lands on `main` what is there."""
        branch = f"seamline_batch_{uuid.uuid4().hex}"

        def create() -> SeamlineError | None:
            table = self._table()
            error = overtaken(table.state, batch)
            if error is None:
                commits.create_branch(table, branch, batch.snapshot_id, _BRANCH_MS)
            return error

        require(commits.insist(create, patience_s=PATIENCE_S))
        try:
            yield branch
            landing = Landing(self._table, branch, batch)
            require(commits.insist(landing.attempt, patience_s=PATIENCE_S))
        except BaseException:
            with contextlib.suppress(SeamlineError):
                commits.insist(lambda: commits.remove_refs(self._table(), [branch]))
            raise

    def _head_of(self, branch: str) -> Snapshot:
        state = self._table().state
        return state.snapshots[state.refs[branch].snapshot_id]

    def _writer(self, rows: Any, boundary: Boundary, *branch: str) -> Any:
        name = spark_name(self._catalog.name, *self._identifier, *branch)
        return (
            rows.writeTo(name)
            .option(f"snapshot-property.{SUMMARY_KEY}", encode(boundary))
            .option("check-nullability", "false")
        )

    def _decoded(
        self,
        session: Any,
        batch: Batch,
        spec: DecoderSpec,
        any_time: bool,
        batch_id: int | None = None,
    ) -> Any:
        return decoded_tail(
            session,
            cluster=self._cluster,
            ranges=batch.ranges,
            isolation=batch.boundary.isolation,
            spec=spec,
            batch_id=batch_id,
            min_partitions=self._tasks_min,
            any_time=any_time,
        )

    def _count_skipped(self, batch: Batch, spec: DecoderSpec) -> int:
        with self._session(batch) as spark:
            return _whatever_times(lambda any_time: self._count(spark, batch, spec, any_time))

    def _bad_records(self, batch: Batch, spec: DecoderSpec) -> Iterator[pa.RecordBatch]:
        with self._session(batch) as spark:
            bad = _whatever_times(
                lambda any_time: self._decoded(spark, batch, spec.errors, any_time).toArrow()
            )
        yield from bad.to_batches()

    def _count(self, spark: Any, batch: Batch, spec: DecoderSpec, any_time: bool) -> int:
        """Counts the bad records in the batch, with the decoder that leaves them out."""
        lenient = dataclasses.replace(spec, on_error="null")
        rows = self._decoded(spark, batch, lenient, any_time)
        return int(rows.filter(f"`{columns.ERROR}` IS NOT NULL").count())

    @contextlib.contextmanager
    def _session(self, batch: Batch) -> Iterator[Any]:
        """Yields a session of Spark, and names its failures.

        Rows that no longer fit a changed table are a COMMIT_CONFLICT.
        """
        assert self._sessions is not None, "the batch has rows"
        try:
            with self._sessions.session() as spark:
                yield spark
        except SeamlineError:
            raise
        except Exception as error:
            named = named_error(error)
            is_unfit = named.code in (NOT_SUPPORTED, SPARK_FAILED)
            if is_unfit and self.load().current_schema_id != batch.schema_id:
                name = ".".join((self._catalog.name, *self._identifier))
                raise SeamlineError(
                    COMMIT_CONFLICT, f"the schema of table {name} changed while a batch was written"
                ) from error
            raise named from error


def _whatever_times(work: Callable[[bool], _Result]) -> _Result:
    """Does work that reads a batch; repeats it, slower, if Spark cannot represent a time in it.

    Args:
        work: Called with whether there may be such times.
    """
    try:
        return work(False)
    except Exception as error:
        if not has_odd_time(error):
            raise
    return work(True)


def _may_hold_batch(table: IcebergTable, batch: Batch) -> bool:
    """Whether a file of the batch's own snapshot may hold what its overwrite would remove."""
    reached = Comparison(columns.BATCH, ">=", batch.batch_id)
    request = ScanRequest(batch.schema_id, (columns.BATCH,), reached)
    try:
        return bool(table.plan(batch.snapshot_id, request).files)
    except SeamlineError as error:
        if error.code is not SNAPSHOT_GONE:
            raise
        raise SeamlineError(
            COMMIT_CONFLICT, f"the batch's own snapshot has expired: {error.message}"
        ) from error


def _with_partitions(rows: Any, table: IcebergTable) -> Any:
    """Returns rows that fail if Iceberg's Java library would give one a wrong partition value."""
    for condition in partition_conditions(table.state.display_name, table.iceberg.metadata):
        rows = rows.filter(condition)
    return rows


def partition_conditions(name: str, metadata: TableMetadata) -> Iterator[str]:
    """Yields conditions that raise INVALID_TABLE_DEFINITION for a row without a partition value.

    What `truncate` makes of a number may be less than the least one of its type. The library wraps
    it around, and its readers then no longer find the row.
    """
    schema = metadata.schema()
    for field in metadata.spec().fields:
        bits = _BITS.get(type(schema.find_type(field.source_id)))
        if bits is None or not isinstance(field.transform, TruncateTransform):
            continue
        width, least = field.transform.width, -(1 << (bits - 1))
        if least % width:
            first = least - least % width + width
            column = spark_name(*path_to(schema.fields, field.source_id))
            problem = (
                f"{INVALID_TABLE_DEFINITION.name}: a row of {name} has a {column} below {first}, "
                f"for which truncate({width}) has no value; partition the table by another width, "
                "such as a power of two"
            )
            raised = f"CAST(raise_error({spark_text(problem)}) AS BOOLEAN)"
            yield f"CASE WHEN {column} < {first}L THEN {raised} ELSE TRUE END"


_BITS: Mapping[type, int] = {IntegerType: 32, LongType: 64}
