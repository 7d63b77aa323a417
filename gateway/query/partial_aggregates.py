"""Partial aggregates of files: an aggregation reads only the files that it has not read before.

A file of a table never changes. So what an aggregation needs of the files of a snapshot is computed
once, kept in memory, and merged with that of the files which later commits add, and of the tail.
It is of use to exactly those plans that aggregate in the same way and read all of these files, with
the same deletes, whatever snapshot or branch they read. It follows compaction, too, if the commits
since are rewrites and then appends. If anything else has become of one of these files, all is
computed anew.

The way of aggregating is the text of the query's first stage, with every row filter and mask in it,
the columns with their ids, the schema, the table's properties, and the zone. As with results, who
may not see all of a table takes nothing that was computed for others.

Nothing is computed for a statement that is seen for the first time, nor for one whose groups are
many beside its rows. If computing it fails, the statement runs as always.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from seamline.connectors.cache import Cache
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import Compute, Deadline
from seamline.connectors.protocols.engines import ResultStream
from seamline.errors import ErrorKind, SeamlineError
from seamline.gateway.deadline import wait_until
from seamline.gateway.query.meanings import storage
from seamline.planners.plan.aggregates import PartialFiles, StagedAggregation
from seamline.planners.plan.estimate import estimate
from seamline.planners.plan.logical import LogicalPlan, Scan, TableFacts
from seamline.planners.plan.physical import PhysicalPlan
from seamline.planners.plan.route import DUCKDB
from seamline.seam.files import ColdPlan, DataFile
from seamline.seam.rewrites import last_rewrite
from seamline.seam.seam import Seam
from seamline.seam.table import TableState
from seamline.sql import types
from seamline.sql.binder.qualify import BoundQuery
from seamline.sql.binder.scope import Output
from seamline.sql.engines import render

BYTES_MAX = 64 << 20
"""Bytes that all partial aggregates may take."""
PARTIALS_BYTES_MAX = 4 << 20
"""Bytes that those of one aggregation may take."""
ROWS_MIN = 100_000
"""Files with fewer rows are read each time."""
ROWS_PER_GROUP_MIN = 10
"""More groups than one for so many rows are computed each time."""
KEPT_PER_NEW_ROW = 20
"""New files with more rows than one for so many are merged at once."""
_KEYS_MAX = 4_096
_REFUSED_S = 600.0
_FILES_MAX = 100_000
_TEXT_MAX = 100_000
_TEXTS_MAX = 1_000_000
_BYTES_PER_FILE = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Aggregating:
    """What is aggregated, and for whom, apart from which files.

    Attributes:
        text: The first stage, in the engine's SQL.
        zone: The session's time zone.
        reader: The user, if they may not see all of the table; else empty.
        table_uuid: The table.
        schema_id: The schema that its files are read with.
        columns: The columns that are read, and how they are stored.
        properties: The table's properties, which may say how its files are read.
    """

    text: str
    zone: str
    reader: str
    table_uuid: str
    schema_id: int
    columns: tuple[object, ...]
    properties: frozenset[tuple[str, str]]


@dataclasses.dataclass(frozen=True, slots=True)
class Partials:
    """The partial aggregates of some files.

    Attributes:
        rows: One row for each group, with the columns of the aggregation.
        snapshot_id: A snapshot whose files these are, as far as they are read.
        files: Digests of the files and of the deletes that apply to each.
        files_rows: How many rows the files have.
    """

    rows: pa.Table
    snapshot_id: int | None
    files: frozenset[bytes]
    files_rows: int

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes, about."""
        return int(self.rows.nbytes) + _BYTES_PER_FILE * len(self.files)


@dataclasses.dataclass(frozen=True, slots=True)
class Staged:
    """The second stage of a plan.

    Attributes:
        plan: What is run: the query over the partial aggregates of all files, and the tail.
        files: The files that were not read for it.
    """

    plan: PhysicalPlan
    files: PartialFiles


Start = Callable[[PhysicalPlan], ResultStream]
"""Starts a plan; raises as `Executor.start`."""


class PartialAggregates(Collector):
    """The partial aggregates of files. Safe to share between threads.

    Attributes:
        files_kept: Files that statements did not read, because their partial aggregates were there.
        files_read: Files that were read for partial aggregates.

    Args:
        bytes_max: Bytes that all may take.
        rows_min: Files with fewer rows are read each time.
        repeats_min: How often a statement must have been seen before.
        rows_per_group_min: How many rows of files there must be for each group.
        kept_per_new_row: New files are read with the tail at first if there are so many rows that
            are not read for each of theirs.
    """

    def __init__(
        self,
        bytes_max: int = BYTES_MAX,
        *,
        rows_min: int = ROWS_MIN,
        repeats_min: int = 1,
        rows_per_group_min: int = ROWS_PER_GROUP_MIN,
        kept_per_new_row: int = KEPT_PER_NEW_ROW,
    ) -> None:
        self._kept_per_new_row = kept_per_new_row
        self._read_with_tail: Cache[Aggregating, int | None] = Cache(_KEYS_MAX)
        self._rows_min = rows_min
        self._rows_per_group_min = rows_per_group_min
        self._repeats_min = repeats_min
        self._changed = threading.Condition()
        self._partials: Cache[Aggregating, Partials] = Cache(
            bytes_max, weight=lambda partials: partials.size_bytes
        )
        self._seen: Cache[Aggregating, int] = Cache(_KEYS_MAX)
        self._refused: Cache[Aggregating, bool] = Cache(_KEYS_MAX, ttl_s=_REFUSED_S)
        self._texts: Cache[int, tuple[StagedAggregation, str]] = Cache(
            _TEXTS_MAX, weight=lambda text: len(text[1])
        )
        self._computing: set[Aggregating] = set()
        self.files_kept = 0
        self.files_read = 0

    def aggregating(
        self,
        plan: PhysicalPlan,
        tables: Mapping[str, ColdTable],
        *,
        reader: str,
        zone: str,
        compute: Compute,
        deadline: Deadline,
    ) -> Aggregating | None:
        """Returns what a plan aggregates; None if its files are to be read.

        Args:
            plan: The plan.
            tables: The tables of the scans that have a cold side, by scan id.
            reader: See `Aggregating.reader`.
            zone: See `Aggregating.zone`.
            compute: Runs pure computations.
            deadline: The statement's deadline.

        Raises:
            SeamlineError: as `compute` and as rendering the query.
        """
        staged = plan.logical.aggregation
        if staged is None or plan.route.engine != DUCKDB:
            return None
        scan = _scan_of(plan, staged)
        files, table = scan.files, tables.get(staged.scan_id)
        if files is None or table is None or not files.files or len(files.files) > _FILES_MAX:
            return None
        if files.rows < self._rows_min:
            return None
        rendered = self._texts.get(id(staged))
        if rendered is None:
            rendered = staged, compute(lambda: render.to_duckdb(staged.merged), deadline)
            self._texts.put(id(staged), rendered)
        if len(rendered[1]) > _TEXT_MAX:
            return None
        columns = (*scan.columns, *storage(scan.columns))
        return Aggregating(
            rendered[1],
            zone,
            reader,
            scan.seam.table_uuid,
            scan.seam.schema_id,
            columns,
            frozenset(table.state.properties.items()),
        )

    def staged(
        self,
        what: Aggregating,
        plan: PhysicalPlan,
        state: TableState,
        start: Start,
        deadline: Deadline,
    ) -> Staged | None:
        """Returns a query's second stage, computing what its first stage lacks.

        Args:
            what: What the plan aggregates.
            plan: The plan.
            state: The table that it reads.
            start: Starts a plan over files.
            deadline: The statement's deadline.

        Returns:
            The second stage; None if the plan itself is to be run.

        Raises:
            SeamlineError: why the statement has ended, or as `start` where facts are stale.
        """
        staged = plan.logical.aggregation
        assert staged is not None
        files = _files_of(plan, staged)
        if self._refused.get(what) or not self._is_repeated(what):
            return None
        partials, lacking = self._there(what, files, state)
        if partials is not None and self._may_be_read_again(what, partials, files, lacking):
            return self._second_stage(plan, partials, lacking, lacking)
        with self._computing_alone(what, deadline):
            partials, lacking = self._there(what, files, state)
            if lacking or partials is None or partials.snapshot_id != files.snapshot_id:
                partials = self._extended(partials, lacking, plan, start, deadline)
                if partials is None:
                    self._refused.put(what, True)
                    return None
                self._partials.put(what, partials)
        return self._second_stage(plan, partials, (), lacking)

    def files_to_leave_out(
        self, what: Aggregating, plan: PhysicalPlan, state: TableState
    ) -> PartialFiles | None:
        """Returns which files a plan would not read; None if it would read all."""
        staged, partials = plan.logical.aggregation, self._partials.get(what)
        if staged is None or partials is None:
            return None
        files = _files_of(plan, staged)
        lacking = self.lacking(partials, files, state)
        if lacking is None:
            return None
        return PartialFiles(len(files.files) - len(lacking), len(lacking))

    @property
    def count(self) -> int:
        """The number of aggregations whose partial aggregates are kept."""
        return len(self._partials.values())

    @property
    def size_bytes(self) -> int:
        """Bytes that the partial aggregates take."""
        return sum(partials.size_bytes for partials in self._partials.values())

    def lacking(
        self, partials: Partials, files: ColdPlan, state: TableState
    ) -> tuple[DataFile, ...] | None:
        """Returns the files that partial aggregates lack; None if they have rows of others."""
        if partials.snapshot_id == files.snapshot_id and len(partials.files) == len(files.files):
            return ()
        digests = {self.digest(files, file): file for file in files.files}
        if len(digests) < len(files.files):
            return None  # a file is listed twice
        if partials.files <= digests.keys():
            return tuple(file for digest, file in digests.items() if digest not in partials.files)
        rewritten = last_rewrite(state, partials.snapshot_id, files.snapshot_id)
        if rewritten is None or any(file.has_deletes for file in files.files):
            return None
        return tuple(file for file in files.files if file.sequence > rewritten)

    def digest(self, plan: ColdPlan, file: DataFile) -> bytes:
        """Returns what identifies a file and the rows of it that count."""
        deletes = sorted((d.path, getattr(d, "offset", None) or 0) for d in plan.deletes_of(file))
        identity = (file.path, file.sequence, file.record_count, file.partition, deletes)
        return hashlib.blake2b(repr(identity).encode(), digest_size=16).digest()

    def _there(
        self, what: Aggregating, files: ColdPlan, state: TableState
    ) -> tuple[Partials | None, tuple[DataFile, ...]]:
        """Returns partial aggregates of some of the files, and the other files."""
        partials = self._partials.get(what)
        lacking = None if partials is None else self.lacking(partials, files, state)
        return (None, files.files) if lacking is None else (partials, lacking)

    def _may_be_read_again(
        self,
        what: Aggregating,
        partials: Partials,
        files: ColdPlan,
        lacking: tuple[DataFile, ...],
    ) -> bool:
        """Whether new files are read with the tail, and perhaps again, instead of merged now.

        That takes one run instead of two, and pays if the same snapshot is not read again.
        """
        if partials.snapshot_id == files.snapshot_id:
            return not lacking
        rows = sum(file.record_count for file in lacking)
        if not lacking or rows * self._kept_per_new_row > partials.files_rows:
            return False
        last = self._read_with_tail.get(what)
        self._read_with_tail.put(what, files.snapshot_id)
        return last != files.snapshot_id

    def _is_repeated(self, what: Aggregating) -> bool:
        count = self._seen.get(what) or 0
        self._seen.put(what, count + 1)
        return count >= self._repeats_min

    @contextlib.contextmanager
    def _computing_alone(self, what: Aggregating, deadline: Deadline) -> Iterator[None]:
        """Waits until nobody else computes the same, and keeps others waiting.

        Raises:
            SeamlineError: why the statement has ended while it waited.
        """

        def is_taken() -> bool:
            if what in self._computing:
                return False
            self._computing.add(what)
            return True

        wait_until(self._changed, is_taken, deadline)
        try:
            yield
        finally:
            with self._changed:
                self._computing.discard(what)
                self._changed.notify_all()

    def _extended(
        self,
        partials: Partials | None,
        lacking: tuple[DataFile, ...],
        plan: PhysicalPlan,
        start: Start,
        deadline: Deadline,
    ) -> Partials | None:
        """Returns partial aggregates of all of a plan's files; None if they cannot be kept.

        Raises:
            SeamlineError: why the statement has ended, or that a file is gone.
        """
        staged = plan.logical.aggregation
        assert staged is not None
        files = _files_of(plan, staged)
        digests = frozenset(self.digest(files, file) for file in files.files)
        if len(digests) < len(files.files):
            return None  # a file is listed twice
        if partials is not None and not lacking:
            return Partials(partials.rows, files.snapshot_id, digests, files.rows)
        try:
            stream = start(_first_stage(plan, staged, partials, lacking))
            with contextlib.closing(stream):
                rows = self._collected(stream, deadline, files.rows)
        except SeamlineError as error:
            deadline.check()
            if error.code.kind is ErrorKind.EXTERNAL:
                raise
            return None  # if that was no accident, the plan itself ends with it, too
        return None if rows is None else Partials(rows, files.snapshot_id, digests, files.rows)

    def _collected(
        self, stream: ResultStream, deadline: Deadline, files_rows: int
    ) -> pa.Table | None:
        """Returns the rows of a first stage; None if they are too many to be kept."""
        batches: list[pa.RecordBatch] = []
        rows = size_bytes = 0
        for batch in stream.batches:
            deadline.check()
            batches.append(batch)
            rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
            is_large = size_bytes > PARTIALS_BYTES_MAX
            if is_large or rows * self._rows_per_group_min > files_rows:
                return None
        return pa.Table.from_batches(batches, stream.schema)

    def _second_stage(
        self,
        plan: PhysicalPlan,
        partials: Partials,
        unmerged: tuple[DataFile, ...],
        lacking: tuple[DataFile, ...],
    ) -> Staged:
        """Returns the query over partial aggregates, files that are not in them, and the tail."""
        staged = plan.logical.aggregation
        assert staged is not None
        scan = _scan_of(plan, staged)
        count, read = len(_files_of(plan, staged).files), len(lacking)
        rest = dataclasses.replace(scan, files=_part_of(_files_of(plan, staged), unmerged))
        scans = (rest, _scan_of_partials(staged, partials.rows))
        query = dataclasses.replace(plan.logical.query, tree=staged.final)
        logical = dataclasses.replace(plan.logical, query=query, scans=scans, aggregation=None)
        self.files_kept += count - read
        self.files_read += read
        return Staged(
            dataclasses.replace(plan, logical=logical, estimate=estimate(logical)),
            PartialFiles(count - read, read),
        )

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics of partial aggregates."""
        for name, says, number in (
            ("kept", "Files whose partial aggregates were there.", self.files_kept),
            ("read", "Files that were read for partial aggregates.", self.files_read),
        ):
            yield CounterMetricFamily(f"seamline_partial_aggregates_files_{name}", says, number)
        for name, says, number in (
            ("aggregations", "Aggregations whose partial aggregates are kept.", self.count),
            ("bytes", "Memory that partial aggregates take.", self.size_bytes),
        ):
            yield GaugeMetricFamily(f"seamline_partial_aggregates_{name}", says, number)


def _scan_of(plan: PhysicalPlan, staged: StagedAggregation) -> Scan:
    return next(scan for scan in plan.logical.scans if scan.scan_id == staged.scan_id)


def _files_of(plan: PhysicalPlan, staged: StagedAggregation) -> ColdPlan:
    files = _scan_of(plan, staged).files
    assert files is not None
    return files


def _part_of(plan: ColdPlan, files: tuple[DataFile, ...]) -> ColdPlan:
    """Returns the plan of some of a plan's files."""
    deletes = tuple(d for d in plan.equality_deletes if any(map(d.applies_to, files)))
    return dataclasses.replace(plan, files=files, equality_deletes=deletes)


def _scan_of_partials(staged: StagedAggregation, rows: pa.Table | None) -> Scan:
    """Returns the scan of partial aggregates, as of a table that the gateway has generated."""
    if rows is None:
        rows = _schema(staged).empty_table()
    facts = TableFacts("system", Seam((), "", 0), rows=rows)
    return Scan(staged.partials_id, facts, staged.columns)


def _schema(staged: StagedAggregation) -> pa.Schema:
    return pa.schema([types.result_field(c.name, c.type) for c in staged.columns])


def _first_stage(
    plan: PhysicalPlan,
    staged: StagedAggregation,
    partials: Partials | None,
    files: tuple[DataFile, ...],
) -> PhysicalPlan:
    """Returns the plan that merges partial aggregates with those of further files."""
    scan = _scan_of(plan, staged)
    cold = _part_of(_files_of(plan, staged), files)
    facts = dataclasses.replace(scan.facts, kind="cold")
    of_files = dataclasses.replace(scan, facts=facts, files=cold, hot_ranges=())
    of_partials = _scan_of_partials(staged, None if partials is None else partials.rows)
    output = tuple(Output(column.name, column.type) for column in staged.columns)
    logical = LogicalPlan(BoundQuery(staged.merged, (), output), (of_files, of_partials))
    return PhysicalPlan(logical, {}, estimate(logical), plan.route)
