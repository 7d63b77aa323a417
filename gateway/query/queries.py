"""Queries: from a parsed statement to a running engine, with its seam.

Planning is pure; this is where facts go in. When a fact goes stale before the first row is out (a
file expired, the log trimmed past the boundary because it has just been tiered), everything is
read afresh and planned again; a few times, then the error stands.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sqlglot import exp

from seamline.connectors.protocols import ColdTable, Deadline
from seamline.errors import (
    COLD_FILE_MISSING,
    LOG_TRIMMED,
    LOG_TRUNCATED,
    READ_CONFLICT,
    SNAPSHOT_GONE,
    TAIL_TOO_LARGE,
    TOPIC_RECREATED,
    SeamlineError,
)
from seamline.gateway.connections import Sources
from seamline.gateway.query.batches import Batches
from seamline.gateway.query.executor import Execution, Executor
from seamline.gateway.query.freshness import LATEST, Freshness
from seamline.gateway.query.leases import Lease, Leases
from seamline.gateway.query.names import Session
from seamline.gateway.query.pinning import Pinned, Pinner
from seamline.gateway.query.tokens import NOTHING, After
from seamline.planners.bind import bind
from seamline.planners.logical import LogicalPlan, Scan, ScanFacts
from seamline.planners.physical import PhysicalPlan
from seamline.planners.pipeline import finish, optimize
from seamline.planners.route import AUTO, DUCKDB, SPARK, Limits, Route
from seamline.planners.rules.prune_tail_by_time import moments, prune_tail_by_time
from seamline.seam.files import ColdPlan, ScanRequest
from seamline.seam.offsets import Offsets
from seamline.seam.seam import Seam
from seamline.sql.qualify import (
    BoundQuery,
    Relation,
    TableReference,
    qualify,
    references,
)

ATTEMPTS_MAX = 4
_MAY_HAVE_GONE_STALE = frozenset(
    {COLD_FILE_MISSING, SNAPSHOT_GONE, LOG_TRIMMED, LOG_TRUNCATED, TOPIC_RECREATED, READ_CONFLICT}
)
"""A topic created again while it is read may look like any of the three of the log at first; asked
once more, it has its right name."""


def may_have_gone_stale(error: SeamlineError) -> bool:
    """Whether the facts a read was planned with may be what is wrong, so that fresh ones help."""
    return error.code in _MAY_HAVE_GONE_STALE


@dataclasses.dataclass(frozen=True, slots=True)
class QueryRequest:
    """A query and what it is to be run with.

    Attributes:
        tree: Syntax tree, parameters filled in.
        session: What its names leave unsaid.
        engine: `auto`, `duckdb` or `spark`.
        token: Seams to place again.
        after: What it must not fall behind.
        now: The moment it was asked.
        freshness: How fresh the rows must be.
        row_limit: Rows after which its result is cut off.
    """

    tree: exp.Expr
    session: Session
    engine: str
    token: Sequence[Seam]
    after: After
    now: datetime.datetime
    freshness: Freshness = LATEST
    row_limit: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Planned:
    """A physical plan and the tables it was made for."""

    plan: PhysicalPlan
    pinned: Mapping[str, Pinned]
    as_of: datetime.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class Running:
    """A query that has started: its first batch is there, or it has ended without one."""

    planned: Planned
    execution: Execution
    batches: Batches
    retries: int
    lease: Lease


class Pins(Protocol):
    """Pins the tables of a statement; `Pinner` is the one."""

    def pin(
        self,
        references: Sequence[TableReference],
        session: Session,
        deadline: Deadline,
        *,
        token: Sequence[Seam] = (),
        after: After = NOTHING,
        freshness: Freshness = LATEST,
    ) -> list[Pinned]:
        """See `Pinner.pin`."""


class Qualify(Protocol):
    """Binds a statement to its tables; `qualify` is the one."""

    def __call__(
        self, tree: exp.Expr, relations: Sequence[Relation], *, now: datetime.datetime
    ) -> BoundQuery:
        """See `qualify`."""


class Queries:
    """Plans and starts queries.

    Args:
        connections: Clusters and catalogs.
        executor: Runs plans.
        limits: What is large.
        pinner: Pins tables; the one over `connections` when left out.
        qualify: Binds statements.
        leases: Keeps what Spark reads from expiring; nothing does when left out.
    """

    def __init__(
        self,
        connections: Sources,
        executor: Executor,
        limits: Limits,
        *,
        pinner: Pins | None = None,
        qualify: Qualify = qualify,
        leases: Leases | None = None,
    ) -> None:
        self._connections = connections
        self._pinner = pinner or Pinner(connections, executor.tails)
        self._executor = executor
        self._limits = limits
        self._qualify = qualify
        self._leases = leases

    def plan(self, request: QueryRequest, deadline: Deadline) -> Planned:
        """Pins the tables and plans the query.

        Raises:
            SeamlineError: named after the cause.
        """
        found = references(request.tree)
        as_of = datetime.datetime.now(datetime.UTC)
        pinned = self._pinner.pin(
            found,
            request.session,
            deadline,
            token=request.token,
            after=request.after,
            freshness=request.freshness,
        )
        as_of = min([as_of, *(t.facts.as_of for t in pinned if t.facts.as_of is not None)])
        query = self._qualify(request.tree, [table.relation for table in pinned], now=request.now)
        by_id = {scan.scan_id: table for scan, table in zip(query.scans, pinned, strict=True)}
        logical = optimize(bind(query, {s: table.facts for s, table in by_id.items()}))
        logical = self._prune_by_time(logical, deadline)
        cold = self._cold_plans(logical, by_id)
        plan = finish(logical, cold, engine=request.engine, limits=self._limits)
        if plan.route.engine == DUCKDB:
            inspected = {s: _cold(by_id[s]).inspect(files) for s, files in cold.items()}
            plan = finish(logical, inspected, engine=request.engine, limits=self._limits)
        return Planned(plan, by_id, as_of)

    def pin(
        self,
        reference: TableReference,
        session: Session,
        token: Sequence[Seam],
        deadline: Deadline,
    ) -> Pinned:
        """One table pinned, for a reader of its own.

        Raises:
            SeamlineError: named after the cause.
        """
        (pinned,) = self._pinner.pin([reference], session, deadline, token=token)
        return pinned

    def start(
        self, request: QueryRequest, deadline: Deadline, planned: Callable[[Planned], None]
    ) -> Running:
        """Plans the query and starts it, again with fresh facts while these go stale.

        Args:
            request: The query.
            deadline: The statement's.
            planned: Called with each plan before it is run.

        Raises:
            SeamlineError: named after the cause.
        """
        for attempt in range(ATTEMPTS_MAX):
            try:
                plan = self.plan(request, deadline)
                planned(plan)
                try:
                    return self._run(plan, request, attempt, deadline)
                except SeamlineError as error:
                    plan = self._on_spark(plan, request, error)
                planned(plan)
                return self._run(plan, request, attempt, deadline)
            except SeamlineError as error:
                last = attempt == ATTEMPTS_MAX - 1
                if not may_have_gone_stale(error) or last:
                    raise
                deadline.check()
        raise AssertionError("the last attempt returns or raises")

    def _run(
        self, planned: Planned, request: QueryRequest, retries: int, deadline: Deadline
    ) -> Running:
        with contextlib.ExitStack() as held:
            lease = self._leases.take(planned.plan, deadline) if self._leases else Lease()
            held.callback(lease.release)
            execution = self._executor.start(
                planned.plan, planned.pinned, deadline, row_limit=request.row_limit
            )
            held.callback(execution.stream.close)
            stream = dataclasses.replace(execution.stream, close=held.pop_all().close)
        batches = Batches(stream)
        return Running(planned, execution, batches, retries, lease)

    def _on_spark(self, plan: Planned, request: QueryRequest, error: SeamlineError) -> Planned:
        """The same plan, at the same offsets, for Spark, when a tail could not be held here.

        Raises:
            SeamlineError: the same one, when that is not what is wrong or not possible.
        """
        is_free = request.engine == AUTO and self._limits.spark
        if error.code is not TAIL_TOO_LARGE or plan.plan.route.engine == SPARK or not is_free:
            raise error
        route = Route(SPARK, error.message, reads_log=True)
        return dataclasses.replace(plan, plan=dataclasses.replace(plan.plan, route=route))

    def _prune_by_time(self, plan: LogicalPlan, deadline: Deadline) -> LogicalPlan:
        """Looks up the moments that would cut a tail, and cuts it."""
        if not any(moments(scan) for scan in plan.scans):
            return plan
        scans = tuple(
            dataclasses.replace(scan, facts=self._with_moments(scan, deadline))
            for scan in plan.scans
        )
        return prune_tail_by_time(dataclasses.replace(plan, scans=scans))

    def _with_moments(self, scan: Scan, deadline: Deadline) -> ScanFacts:
        offsets: dict[int, Offsets] = {}
        for moment in moments(scan):
            seam, log = scan.seam, self._connections.log(scan.seam.cluster)
            offsets[moment] = log.offsets_at(seam.topic, seam.topic_id, seam.end, moment, deadline)
        return dataclasses.replace(scan.facts, offsets_at=offsets)

    def _cold_plans(self, plan: LogicalPlan, pinned: Mapping[str, Pinned]) -> dict[str, ColdPlan]:
        plans = {}
        for scan in plan.scans:
            if scan.reads_cold:
                request = ScanRequest(
                    scan.seam.schema_id, tuple(c.name for c in scan.columns), scan.predicate
                )
                plans[scan.scan_id] = _cold(pinned[scan.scan_id]).plan(
                    scan.seam.snapshot_id, request
                )
        return plans


def _cold(table: Pinned) -> ColdTable:
    assert table.cold is not None
    return table.cold
