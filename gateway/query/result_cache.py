"""Results that are given again: the same query at the same seams is computed once.

Every statement is authorized, pinned, bound and planned as always. Only its run is left out, if the
result of an equal plan at the same seams is cached, or is being computed for another statement. The
seams are its own, so they are as new as any: if the log or the table was recreated, truncated or
rolled back, they differ. A plan is equal if its text for the engine is, with every row filter, mask
and moment in it, and if each scan reads the same columns of the same snapshot and offsets.

A statement with freshness `bounded` also takes the result of earlier ends, if that is recent
enough, nothing but the ends has moved since, and its session has not seen later ones.

Not cached: results of functions that return something else on every call, of tables that the
gateway generates, of tokens and past moments of a log, of logs that do not report leader epochs,
and results that were cut off or are not small. Who may not see all of a table only takes results of
their own statements. A run that fails or is canceled concerns nobody else: those who waited for it
run their own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlglot import exp

from seamline.connectors.cache import Cache
from seamline.connectors.chunks import read_chunk
from seamline.connectors.kafka.tail import Tail
from seamline.connectors.protocols.deadlines import Compute, Deadline
from seamline.connectors.protocols.engines import ResultStream
from seamline.gateway.deadline import wait_until
from seamline.gateway.query.meanings import storage
from seamline.gateway.query.tokens import NOTHING, After
from seamline.gateway.statements.aggregates import OFF
from seamline.gateway.statements.freshness import LATEST, Freshness
from seamline.planners.plan.logical import Scan, TableFacts
from seamline.planners.plan.physical import PhysicalPlan
from seamline.planners.plan.route import DUCKDB
from seamline.seam.offsets import Offsets
from seamline.seam.seam import Seam, SeamKey
from seamline.sql import types
from seamline.sql.binder.scope import Output
from seamline.sql.engines import render
from seamline.sql.expressions.calls import is_repeatable
from seamline.sql.kernels.kernel import Use

BYTES_MAX = 64 << 20
"""Bytes that all cached results may take, with their plans."""
RESULT_BYTES_MAX = 4 << 20
"""Bytes that one of them may take."""
_AGE_S_MAX = 600.0
_WAITING_MAX = 128
"""Statements that may wait for the runs of others; fewer than may wait for everything outside."""
_FILES_MAX = 10_000
_TEXT_MAX = 100_000
_TEXTS_MAX = 1_000_000
_BYTES_PER_CHARACTER = 100
_BYTES_PER_FILE = 500


@dataclasses.dataclass(frozen=True, slots=True)
class PlanKey:
    """What is computed, and for whom, apart from what it is computed from.

    Attributes:
        text: The bound query in the engine's SQL.
        engine: The engine.
        zone: The session's time zone.
        reader: The user, if they may not see all of every table; else empty.
        aggregates: Which aggregates are merged from partial ones.
    """

    text: str
    engine: str
    zone: str
    reader: str
    aggregates: str = OFF


@dataclasses.dataclass(frozen=True, slots=True)
class ScanInput:
    """What the rows of one scan depend on.

    Attributes:
        scan_id: Its name in the query.
        facts: The facts of its table, without those that do not change its rows.
        columns: The columns it reads, with how they are stored.
    """

    scan_id: str
    facts: TableFacts
    columns: tuple[object, ...]

    @property
    def seam(self) -> Seam:
        """The seam that it reads."""
        return self.facts.seam

    def is_earlier(self, other: ScanInput) -> bool:
        """Whether it differs only by ends that are at or before those of another one."""
        ends, later = self.seam.end, other.seam.end
        if ends.keys() != later.keys() or any(end > later[p] for p, end in ends.items()):
            return False
        epochs, epochs_later = self.seam.log.end_epochs, other.seam.log.end_epochs
        if any(epochs_later.get(p) != epoch for p, epoch in epochs.items()):
            return False  # the log may have lost records since, and grown again
        return self._without_ends() == other._without_ends()

    def _without_ends(self) -> ScanInput:
        log = dataclasses.replace(self.seam.log, end_epochs=Offsets())
        seam = dataclasses.replace(self.seam, end=Offsets(), log=log)
        return dataclasses.replace(self, facts=dataclasses.replace(self.facts, seam=seam))


@dataclasses.dataclass(frozen=True, slots=True)
class RunRequest:
    """A run that a statement needs.

    Attributes:
        key: What is computed.
        scans: What it is computed from.
        kernels: The kernels that its text calls, by name.
        output: Name and type of each column of the result.
        reflects_at: Every record committed before this moment is read; on the monotonic clock.
        age_s_max: How long before now that moment may be; None if only these seams will do.
        after: What the statement must not fall behind.
    """

    key: PlanKey
    scans: tuple[ScanInput, ...]
    kernels: Mapping[str, Use]
    output: tuple[Output, ...]
    reflects_at: float
    age_s_max: float | None = None
    after: After = NOTHING

    def accepts(self, other: RunRequest, now: float) -> bool:
        """Whether the result of another statement's run is one of this statement, too."""
        if (self.kernels, self.output) != (other.kernels, other.output):
            return False
        if self.scans == other.scans:
            return True
        if self.age_s_max is None or now - other.reflects_at > self.age_s_max or self.after.writes:
            return False
        pairs = list(zip(other.scans, self.scans, strict=True))
        return all(
            theirs == own or (theirs.is_earlier(own) and self._has_not_seen_past(theirs.seam))
            for theirs, own in pairs
        )

    def _has_not_seen_past(self, seam: Seam) -> bool:
        return all(
            end <= seam.end.get(partition, 0)
            for seen in self.after.seen
            if seen.identity == seam.identity
            for partition, end in seen.end.items()
        )


@dataclasses.dataclass(frozen=True, slots=True)
class CachedResult:
    """A result, and what its receipt needs.

    Attributes:
        request: The run that computed it.
        plan: The plan that was run.
        as_of: Every record committed before this moment is reflected.
        computed_at: When it was computed.
        tails: The tails that were read for it, without their rows.
        chunks: Its rows, as Arrow IPC streams.
    """

    request: RunRequest
    plan: PhysicalPlan
    as_of: datetime.datetime
    computed_at: datetime.datetime
    tails: Mapping[SeamKey, Tail]
    chunks: tuple[bytes, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes, about."""
        files = sum(len(plan.files) for plan in self.plan.logical.files.values())
        of_plan = _BYTES_PER_CHARACTER * len(self.request.key.text) + _BYTES_PER_FILE * files
        return sum(map(len, self.chunks)) + of_plan

    def stream(self) -> ResultStream:
        """Returns its rows."""
        fields = [types.result_field(c.name, c.type) for c in self.request.output]
        return ResultStream(pa.schema(fields), self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for chunk in self.chunks:
            yield from read_chunk(chunk)


class SharedRun:
    """A run of one statement, for which others may wait.

    Args:
        request: What is run.
        forget: Called when it has ended, with its result if there is one to be cached.
    """

    def __init__(
        self,
        request: RunRequest,
        forget: Callable[[SharedRun, CachedResult | None], None] = lambda _run, _result: None,
    ) -> None:
        self.request = request
        self._forget = forget
        self._changed = threading.Condition()
        self._has_ended = False
        self._result: CachedResult | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nobody needs to wait for it any more."""
        return self._has_ended

    def publish(
        self,
        plan: PhysicalPlan,
        as_of: datetime.datetime,
        tails: Mapping[SeamKey, Tail],
        chunks: Sequence[bytes] | None,
    ) -> None:
        """Ends it with its result; with none that others may have, if there are no chunks."""
        result = None
        if chunks is not None:
            result = CachedResult(
                self.request,
                plan,
                as_of,
                datetime.datetime.now(datetime.UTC),
                {key: _without_rows(tail) for key, tail in tails.items()},
                tuple(chunks),
            )
        self._end(result)

    def abandon(self) -> None:
        """Ends it without a result for others; does nothing if it has ended."""
        self._end(None)

    def wait(self, deadline: Deadline) -> CachedResult | None:
        """Waits until it has ended; returns its result, if it has one for others.

        Raises:
            SeamlineError: why the statement that waits has ended.
        """
        wait_until(self._changed, lambda: self._has_ended, deadline)
        return self._result

    def _end(self, result: CachedResult | None) -> None:
        with self._changed:
            if self._has_ended:
                return
            self._has_ended, self._result = True, result
        self._forget(self, result)
        with self._changed:
            self._changed.notify_all()


@dataclasses.dataclass(frozen=True, slots=True)
class _Text:
    """The text of a tree, which is kept with it: while it is, no other tree has its id."""

    tree: exp.Expr
    text: str
    kernels: Mapping[str, Use]


class ResultCache(Collector):
    """The latest results, and the runs that will be. Safe to share between threads.

    Attributes:
        waiting: Statements that wait for the run of another one.
        hits: Statements that were given the result of another one.
        misses: Statements that computed a result that others may have.

    Args:
        bytes_max: Bytes that results may take.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self, bytes_max: int = BYTES_MAX, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._results: Cache[PlanKey, CachedResult] = Cache(
            bytes_max, weight=lambda result: result.size_bytes, ttl_s=_AGE_S_MAX, clock=clock
        )
        self._texts: Cache[int, _Text] = Cache(_TEXTS_MAX, weight=lambda text: len(text.text))
        self._running: dict[PlanKey, SharedRun] = {}
        self.waiting = 0
        self.hits = 0
        self.misses = 0

    @property
    def size_bytes(self) -> int:
        """Bytes that the results take."""
        return sum(result.size_bytes for result in self._results.values())

    @property
    def count(self) -> int:
        """The number of results."""
        return len(self._results.values())

    def collect(self) -> Iterator[Metric]:
        """Yields the cache's metrics."""
        for name, says, number in (
            ("hits", "Statements that were given the result of another one.", self.hits),
            ("misses", "Statements that computed a result that others may have.", self.misses),
        ):
            yield CounterMetricFamily(f"seamline_result_cache_{name}", says, number)
        for name, says, number in (
            ("results", "Results that are cached.", self.count),
            ("bytes", "Memory that cached results take.", self.size_bytes),
        ):
            yield GaugeMetricFamily(f"seamline_result_cache_{name}", says, number)

    def request(
        self,
        plan: PhysicalPlan,
        as_of: datetime.datetime,
        *,
        reader: str,
        zone: str,
        aggregates: str = OFF,
        freshness: Freshness = LATEST,
        after: After = NOTHING,
        compute: Compute,
        deadline: Deadline,
    ) -> RunRequest | None:
        """Returns the run of a plan; None if its result cannot be shared.

        Args:
            plan: The plan.
            as_of: Every record committed before this moment is reflected.
            reader: See `PlanKey.reader`.
            zone: See `PlanKey.zone`.
            aggregates: See `PlanKey.aggregates`.
            freshness: The freshness that the statement asks for.
            after: What the statement must not fall behind.
            compute: Runs pure computations.
            deadline: The statement's deadline.

        Raises:
            SeamlineError: as `compute` and as rendering the plan.
        """
        query, engine = plan.logical.query, plan.route.engine
        scans = [_input_of(scan) for scan in plan.logical.scans]
        inputs = tuple(scan for scan in scans if scan is not None)
        files = sum(len(each.files) for each in plan.logical.files.values())
        if not inputs or len(inputs) < len(scans) or files > _FILES_MAX:
            return None
        text = self._texts.get(id(query.tree))
        if text is None:
            text = compute(lambda: _text_of(query.tree, engine), deadline)
            self._texts.put(id(query.tree), text)
        if not text.text or len(text.text) > _TEXT_MAX:
            return None
        lag = datetime.datetime.now(datetime.UTC) - as_of
        return RunRequest(
            PlanKey(text.text, engine, zone, reader, aggregates),
            inputs,
            text.kernels,
            tuple(query.output),
            self._clock() - max(0.0, lag.total_seconds()),
            None if freshness.asks_log else freshness.age_s_max,
            after,
        )

    def join(self, request: RunRequest, deadline: Deadline) -> CachedResult | SharedRun:
        """Returns a result, waiting for the run of another statement, or a run to be made.

        Whoever gets a run must make it, and end it whatever happens.

        Raises:
            SeamlineError: why the statement has ended while it waited.
        """
        with self._lock:
            now = self._clock()
            result = self._results.get(request.key)
            if result is not None and request.accepts(result.request, now):
                self.hits += 1
                return result
            running = self._running.get(request.key)
            if running is None or not request.accepts(running.request, now):
                run = self._running[request.key] = SharedRun(request, self._ended)
                self.misses += 1
                return run
            waits = self.waiting < _WAITING_MAX
            self.waiting += waits
        if waits:
            try:
                result = running.wait(deadline)
            finally:
                with self._lock:
                    self.waiting -= 1
        with self._lock:
            self.hits += result is not None
            self.misses += result is None
        return result or SharedRun(request)

    def _ended(self, run: SharedRun, result: CachedResult | None) -> None:
        with self._lock:
            if self._running.get(run.request.key) is run:
                del self._running[run.request.key]
            if result is None or result.size_bytes > RESULT_BYTES_MAX:
                return
            latest = self._results.get(run.request.key)
            if latest is None or latest.request.reflects_at <= run.request.reflects_at:
                self._results.put(run.request.key, result)


def _input_of(scan: Scan) -> ScanInput | None:
    """Returns what a scan's rows depend on; None if they depend on more than is known."""
    facts, seam = scan.facts, scan.seam
    hot = {r.partition for r in seam.hot_ranges} if facts.reads_hot else set()
    epochs = Offsets({p: e for p, e in seam.log.end_epochs.items() if p in hot})
    if facts.kind != "cold" and not (facts.present and len(epochs) == len(hot)):
        return None
    log = dataclasses.replace(seam.log, pending=0, end_epochs=epochs)
    facts = dataclasses.replace(
        facts,
        seam=dataclasses.replace(seam, log=log),
        cached=Offsets(),
        fits_cache=False,
        as_of=None,
        known_at=0.0,
        asked_at=None,
    )
    stored = (scan.columns, *storage(scan.columns), *storage(facts.stored))
    return ScanInput(scan.scan_id, facts, stored)


def _text_of(tree: exp.Expr, engine: str) -> _Text:
    """Returns a query's text; an empty one if another run may return something else."""
    if not is_repeatable(tree):
        return _Text(tree, "", {})
    text = render.to_duckdb(tree) if engine == DUCKDB else render.to_spark(tree)
    return _Text(tree, text, render.kernels(tree, engine))


def _without_rows(tail: Tail) -> Tail:
    return Tail(pa.table({}), tail.records, tail.size_bytes, tail.skipped, origin=tail.origin)


@contextlib.contextmanager
def ending(run: SharedRun | None) -> Iterator[None]:
    """Ends a run that the block makes, unless the block has."""
    try:
        yield
    finally:
        if run is not None:
            run.abandon()
