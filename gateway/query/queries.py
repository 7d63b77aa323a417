"""Queries: from a parsed statement to a running engine, with its seam.

Planning is pure; this module supplies the facts. If a fact goes stale before the first row is out
(a file has expired, or the log was trimmed past the boundary because it has just been tiered), all
facts are read afresh and the query is planned again, a few times; then the error is final. A query
that one engine refuses goes to the other, if the request leaves the engine open.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sqlglot import exp

from seamline.connectors.chunks import ResultFile
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import Compute, Deadline, at_once
from seamline.connectors.protocols.engines import ResultStream
from seamline.errors import (
    COLD_FILE_MISSING,
    INTERNAL_ERROR,
    LOG_TRIMMED,
    LOG_TRUNCATED,
    NOT_SUPPORTED,
    READ_CONFLICT,
    SCHEMA_NOT_FOUND,
    SNAPSHOT_GONE,
    SPARK_FAILED,
    STATEMENT_TOO_LARGE,
    TABLE_NOT_FOUND,
    TAIL_TOO_LARGE,
    TOPIC_RECREATED,
    SeamlineError,
)
from seamline.gateway.access.rights import Sight, told_as_seen
from seamline.gateway.catalogs.resolution import Session
from seamline.gateway.query.batches import Batches
from seamline.gateway.query.gather import Gatherer, ReadToken, no_tokens
from seamline.gateway.query.meanings import Meaning
from seamline.gateway.query.partial_aggregates import Aggregating, PartialAggregates, Staged
from seamline.gateway.query.result_cache import CachedResult, ResultCache, SharedRun
from seamline.gateway.query.run import Execution, Executor
from seamline.gateway.query.snapshot_tags import SnapshotTags, TaggedSnapshots
from seamline.gateway.query.tokens import After
from seamline.gateway.query.views import ViewExpander
from seamline.gateway.statements.aggregates import ALL, OFF
from seamline.gateway.statements.freshness import LATEST, Freshness
from seamline.planners.pipeline import asked, plan
from seamline.planners.plan.logical import LogicalPlan
from seamline.planners.plan.physical import PhysicalPlan
from seamline.planners.plan.route import AUTO, DUCKDB, GATEWAY, SPARK, Limits, Route
from seamline.seam.seam import Seam
from seamline.seam.table import TableState
from seamline.sql.binder.qualify import (
    BoundQuery,
    Relation,
    qualify,
    references,
)
from seamline.sql.binder.scope import Output
from seamline.sql.session_zone import UTC

ATTEMPTS_MAX = 4
_MAY_HAVE_GONE_STALE = frozenset(
    {COLD_FILE_MISSING, SNAPSHOT_GONE, LOG_TRIMMED, LOG_TRUNCATED, TOPIC_RECREATED, READ_CONFLICT}
)
"""A topic that is recreated while it is read may at first cause any of the log's three errors; when
asked again, the log gives the right one."""

_REFUSED = frozenset({NOT_SUPPORTED, STATEMENT_TOO_LARGE, INTERNAL_ERROR, SPARK_FAILED})
"""Errors of an engine on a bound query that the other engine may well run."""


def may_have_gone_stale(error: SeamlineError) -> bool:
    """Whether a read may have failed because its facts were stale, so that fresh ones help."""
    return error.code in _MAY_HAVE_GONE_STALE


Fit = Callable[[exp.Expr, Sequence[Output]], exp.Expr]
"""Returns a query adapted to its use, given a query and its columns."""


def as_it_is(tree: exp.Expr, _: Sequence[Output]) -> exp.Expr:
    """Leaves a query unchanged."""
    return tree


@dataclasses.dataclass(frozen=True, slots=True)
class QueryRequest:
    """A query and how it is to be run.

    Attributes:
        tree: Syntax tree, parameters filled in.
        session: Default catalog and schema of its names, and its time zone.
        engine: `auto`, `duckdb` or `spark`.
        token: Seams to pin again.
        after: The reads and writes that it must not fall behind.
        now: The moment it was submitted.
        freshness: How fresh the rows must be.
        row_limit: Rows after which its result is cut off.
        read_token: Returns the seams of tokens in its text.
        meaning: What its text means, if the tree is that text's.
        fit: Adapts the tree once its columns are known.
        file: Where the engine may write all but the first rows, if the rows are kept.
        is_shared: Whether its result may be that of another statement, and be given to others.
        needs_engine: Whether an engine must run it, whatever its row consists of.
        aggregates: Which aggregates may be merged from partial ones: `off`, `exact` or `all`.
    """

    tree: exp.Expr
    session: Session
    engine: str
    token: Sequence[Seam]
    after: After
    now: datetime.datetime
    freshness: Freshness = LATEST
    row_limit: int | None = None
    read_token: ReadToken = no_tokens
    meaning: Meaning | None = None
    fit: Fit = as_it_is
    file: ResultFile | None = None
    is_shared: bool = False
    needs_engine: bool = False
    aggregates: str = OFF


@dataclasses.dataclass(frozen=True, slots=True)
class Planned:
    """A physical plan, ready to be run.

    Attributes:
        plan: The plan.
        tables: The tables it reads, by scan id.
        as_of: The moment it reflects.
        sees_all: Whether its reader may see all of every table.
    """

    plan: PhysicalPlan
    tables: Mapping[str, ColdTable]
    as_of: datetime.datetime
    sees_all: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Running:
    """A query that has started: its first batch is computed, or it has ended without one.

    Attributes:
        planned: Its plan.
        execution: The run of the plan.
        batches: Its rows.
        retries: How often it was planned anew.
        held: The snapshots that it keeps from expiring.
        computed_at: When its result was computed, if that was for another statement.
        shared: The run, if others may wait for it; whoever started it ends it.
    """

    planned: Planned
    execution: Execution
    batches: Batches
    retries: int
    held: TaggedSnapshots
    computed_at: datetime.datetime | None = None
    shared: SharedRun | None = None


class Qualify(Protocol):
    """Binds a statement to its tables; implemented by `qualify`."""

    def __call__(
        self,
        tree: exp.Expr,
        relations: Sequence[Relation],
        *,
        now: datetime.datetime,
        user: str = "",
        session: tuple[str, str] = ("", ""),
        zone: str = UTC,
        groups: Sequence[str] = (),
    ) -> BoundQuery:
        """See `qualify`."""


class Queries:
    """Plans and starts queries.

    Args:
        gatherer: Gathers facts.
        executor: Runs plans.
        limits: What counts as large.
        qualify: Binds statements.
        snapshot_tags: Keeps what Spark reads from expiring; by default, nothing does.
        views: Replaces views by their queries; by default, there are no views.
        user: The name of the user.
        groups: The user's groups.
        scan_bytes_max: Bytes that a query may read, from files and from tails that are read here; 0
            sets no limit.
        compute: Runs pure computations.
        results: The results that are given again; None computes every one.
        partials: The partial aggregates of files; None reads all files each time.
    """

    def __init__(
        self,
        gatherer: Gatherer,
        executor: Executor,
        limits: Limits,
        *,
        qualify: Qualify = qualify,
        snapshot_tags: SnapshotTags | None = None,
        views: ViewExpander | None = None,
        user: str = "",
        groups: Sequence[str] = (),
        scan_bytes_max: int = 0,
        compute: Compute = at_once,
        results: ResultCache | None = None,
        partials: PartialAggregates | None = None,
    ) -> None:
        self._compute = compute
        self._results = results
        self._partials = partials
        self._scan_bytes_max = scan_bytes_max
        self._gatherer = gatherer
        self._executor = executor
        self._limits = limits
        self._qualify = qualify
        self._snapshot_tags = snapshot_tags
        self._views = views
        self._user = user
        self._groups = groups

    def plan(self, request: QueryRequest, deadline: Deadline) -> Planned:
        """Gathers the facts of a query, and plans it as it would run now.

        Raises:
            SeamlineError: named after the cause.
        """
        planned = self._planned(request, deadline)
        aggregating = self._aggregating(planned, request, deadline)
        if self._partials is None or aggregating is None:
            return planned
        state = _state(planned)
        partial = self._partials.files_to_leave_out(aggregating, planned.plan, state)
        return dataclasses.replace(planned, plan=dataclasses.replace(planned.plan, partial=partial))

    def _planned(self, request: QueryRequest, deadline: Deadline) -> Planned:
        try:
            return self._plan(request, deadline)
        except SeamlineError as error:
            if self._views is None or error.code not in (TABLE_NOT_FOUND, SCHEMA_NOT_FOUND):
                raise
            expanded = self._views.expand(request.tree, request.session)
            if expanded is None:
                raise
        return self._plan(dataclasses.replace(request, tree=expanded, meaning=None), deadline)

    def _plan(self, request: QueryRequest, deadline: Deadline) -> Planned:
        as_of = datetime.datetime.now(datetime.UTC)
        zone, meaning = request.session.time_zone, request.meaning
        if meaning is not None and request.engine == AUTO and meaning.literal is not None:
            session, physical = meaning.literal
            if session == request.session:
                return Planned(physical, {}, as_of, sees_all=True)
        tables = self._gatherer.pin(
            references(request.tree, zone) if meaning is None else meaning.references(zone),
            request.session,
            deadline,
            token=request.token,
            after=request.after,
            freshness=request.freshness,
            read_token=request.read_token,
            may_lack_records=True,
        )
        as_of = min([as_of, *(t.facts.as_of for t in tables if t.facts.as_of is not None)])
        relations = [
            dataclasses.replace(table.relation, name=table.facts.seam.table) for table in tables
        ]
        facts = [table.facts for table in tables]

        def reads() -> tuple[BoundQuery, LogicalPlan]:
            query = self._qualified(request, relations)
            logical = asked(query, facts)
            if request.needs_engine:
                logical = dataclasses.replace(logical, row=None)
            return query, logical

        query, logical = self._compute(reads, deadline)
        with told_as_seen(lambda: Sight.common(table.sight for table in tables)):
            logical = self._gatherer.scans(
                logical,
                tables,
                engine=request.engine,
                limits=self._limits,
                deadline=deadline,
            )
            physical = self._compute(
                lambda: plan(logical, engine=request.engine, limits=self._limits), deadline
            )
        if meaning is not None and physical.route.engine == GATEWAY and not tables:
            meaning.literal = None if query.holds_moment else (request.session, physical)
        cold = {
            scan.scan_id: table.cold
            for scan, table in zip(query.scans, tables, strict=True)
            if table.cold is not None
        }
        return Planned(physical, cold, as_of, Sight.common(t.sight for t in tables).all)

    def _qualified(self, request: QueryRequest, relations: Sequence[Relation]) -> BoundQuery:
        """Binds the query, unless its binding to the same relations is known."""
        own = request.session
        catalog, schema, zone = own.catalog, own.schema, own.time_zone

        def qualified(tree: exp.Expr) -> BoundQuery:
            return self._qualify(
                tree,
                relations,
                now=request.now,
                user=self._user,
                session=(catalog, schema),
                zone=zone,
                groups=self._groups,
            )

        def fitted() -> BoundQuery:
            query = qualified(request.tree)
            tree = request.fit(request.tree, query.output)
            return query if tree is request.tree else qualified(tree)

        if request.meaning is None:
            return fitted()
        return request.meaning.bound(relations, (catalog, schema, zone), fitted)

    def start(
        self, request: QueryRequest, deadline: Deadline, on_plan: Callable[[Planned], None]
    ) -> Running:
        """Plans and starts the query; if facts go stale, plans and starts it again with fresh ones.

        Args:
            request: The query.
            deadline: The statement's deadline.
            on_plan: Called with each plan before it is run.

        Raises:
            SeamlineError: named after the cause.
        """
        for attempt in range(ATTEMPTS_MAX):
            try:
                return self._start_once(request, attempt, deadline, on_plan)
            except SeamlineError as error:
                if not may_have_gone_stale(error) or attempt == ATTEMPTS_MAX - 1:
                    raise
                deadline.check()
                # a follower may still know only the stale ends
                request = dataclasses.replace(request, freshness=LATEST)
        raise AssertionError("the last attempt returns or raises")

    def _start_once(
        self,
        request: QueryRequest,
        attempt: int,
        deadline: Deadline,
        on_plan: Callable[[Planned], None],
    ) -> Running:
        planned = self._planned(request, deadline)
        on_plan(planned)
        shared = self._shared(planned, request, deadline)
        if isinstance(shared, CachedResult):
            return self._given_again(planned, shared, attempt)
        with contextlib.ExitStack() as failed:
            if shared is not None:
                failed.callback(shared.abandon)
            running = self._run_on_either(planned, request, attempt, deadline, on_plan)
            failed.pop_all()
        return dataclasses.replace(running, shared=shared)

    def _shared(
        self, planned: Planned, request: QueryRequest, deadline: Deadline
    ) -> CachedResult | SharedRun | None:
        """Returns the result of an equal run, or a run that others may wait for; None for neither.

        Raises:
            SeamlineError: why the statement has ended while it waited.
        """
        if self._results is None or not request.is_shared or request.token:
            return None
        if planned.plan.route.engine == GATEWAY:
            return None
        run = self._results.request(
            planned.plan,
            planned.as_of,
            reader="" if planned.sees_all else self._user,
            zone=request.session.time_zone,
            aggregates=request.aggregates,
            freshness=request.freshness,
            after=request.after,
            compute=self._compute,
            deadline=deadline,
        )
        return None if run is None else self._results.join(run, deadline)

    def _given_again(self, planned: Planned, result: CachedResult, retries: int) -> Running:
        """Returns a result as if it had been computed at the seams that it reflects."""
        self._executor.follow(planned.plan)
        if [s.end for s in planned.plan.seams] != [s.end for s in result.plan.seams]:
            planned = dataclasses.replace(planned, plan=result.plan, as_of=result.as_of)
        stream = result.stream()
        return Running(
            planned,
            Execution(stream, result.tails),
            Batches(stream),
            retries,
            TaggedSnapshots(),
            result.computed_at,
        )

    def _run_on_either(
        self,
        planned: Planned,
        request: QueryRequest,
        attempt: int,
        deadline: Deadline,
        on_plan: Callable[[Planned], None],
    ) -> Running:
        """Runs a plan on the engine that it was made for or, if that refuses it, on the other."""
        try:
            return self._run(planned, request, attempt, deadline)
        except SeamlineError as error:
            first, planned = error, self._rerouted(planned, request, error, deadline)
        on_plan(planned)
        try:
            return self._run(planned, request, attempt, deadline)
        except SeamlineError as error:
            if error.code in _REFUSED and first.code in _REFUSED:
                raise first from error
            raise

    def _run(
        self, planned: Planned, request: QueryRequest, retries: int, deadline: Deadline
    ) -> Running:
        with contextlib.ExitStack() as opened:
            tags = self._snapshot_tags
            held = tags.take(planned.plan, deadline) if tags else TaggedSnapshots()
            opened.callback(held.release)
            staged = self._second_stage(planned, request, deadline)
            execution = self._executor.start(
                planned.plan if staged is None else staged.plan,
                planned.tables,
                deadline,
                row_limit=request.row_limit,
                scan_bytes_max=self._scan_bytes_max,
                owner=self._user,
                file=request.file,
            )
            opened.callback(execution.stream.close)
            stream = dataclasses.replace(execution.stream, close=opened.pop_all().close)
        if staged is not None:
            plan = dataclasses.replace(planned.plan, partial=staged.files)
            planned = dataclasses.replace(planned, plan=plan)
        batches = Batches(stream, has_file=request.file is not None)
        return Running(planned, execution, batches, retries, held)

    def _second_stage(
        self, planned: Planned, request: QueryRequest, deadline: Deadline
    ) -> Staged | None:
        """Returns what is left to be run of a plan whose files' partial aggregates are there.

        Raises:
            SeamlineError: as `Executor.start`.
        """
        aggregating = self._aggregating(planned, request, deadline)
        if self._partials is None or aggregating is None:
            return None

        def start(plan: PhysicalPlan) -> ResultStream:
            execution = self._executor.start(
                plan,
                planned.tables,
                deadline,
                scan_bytes_max=self._scan_bytes_max,
                owner=self._user,
            )
            return execution.stream

        state = _state(planned)
        return self._partials.staged(aggregating, planned.plan, state, start, deadline)

    def _aggregating(
        self, planned: Planned, request: QueryRequest, deadline: Deadline
    ) -> Aggregating | None:
        """Returns what a plan aggregates, if partial aggregates of its files may be used."""
        staged = planned.plan.logical.aggregation
        if self._partials is None or staged is None or request.token:
            return None
        if request.aggregates == OFF or not (staged.is_exact or request.aggregates == ALL):
            return None
        return self._partials.aggregating(
            planned.plan,
            planned.tables,
            reader="" if planned.sees_all else self._user,
            zone=request.session.time_zone,
            compute=self._compute,
            deadline=deadline,
        )

    def _rerouted(
        self, planned: Planned, request: QueryRequest, error: SeamlineError, deadline: Deadline
    ) -> Planned:
        """Returns the query for the other engine, as this one refused it or cannot hold its tail.

        Raises:
            SeamlineError: the given one, if something else is wrong or the other engine cannot run
                it.
        """
        plan = planned.plan
        if plan.route.engine == GATEWAY and error.code is TAIL_TOO_LARGE:
            planned = self._planned(dataclasses.replace(request, needs_engine=True), deadline)
            plan = planned.plan
            if plan.route.engine == SPARK:
                return planned
        is_bound = any(files.only_duckdb for files in plan.logical.files.values())
        if request.engine != AUTO or not self._limits.spark or is_bound:
            raise error
        if error.code is TAIL_TOO_LARGE and plan.route.engine == DUCKDB:
            route = Route(SPARK, error.message, reads_log=True)
        elif error.code not in _REFUSED:
            raise error
        else:
            reason = f"{plan.route.engine} refused it: {error.code.name}: {error.message[:200]}"
            route = Route(SPARK if plan.route.engine == DUCKDB else DUCKDB, reason)
        if route.engine == DUCKDB:
            try:  # DuckDB needs more information about the files
                planned = self._planned(dataclasses.replace(request, engine=DUCKDB), deadline)
            except SeamlineError:
                raise error from None
        return dataclasses.replace(planned, plan=dataclasses.replace(planned.plan, route=route))


def _state(planned: Planned) -> TableState:
    """Returns the only table of a plan in stages."""
    (table,) = planned.tables.values()
    return table.state
