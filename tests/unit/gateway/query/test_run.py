"""Goal: a plan is run with exactly what it names, and whatever was taken is let go.

Method: statements over topics in memory, planned by the product; the engine, the reader of tails
and the spool are given by the test, so that each may fail at any moment.
"""

from __future__ import annotations

import datetime
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from support.named import NamedSources

from seamline.connectors.kafka.tail import Tail, read_tail
from seamline.connectors.protocols.deadlines import Deadline, NoDeadline
from seamline.connectors.protocols.engine_tails import TailSource
from seamline.connectors.protocols.engines import EngineQuery, ResultStream
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.errors import (
    INTERNAL_ERROR,
    LOG_TRIMMED,
    MEMORY_LIMIT,
    NOT_SUPPORTED,
    SPARK_FAILED,
    STATEMENT_TOO_LARGE,
    TOPIC_RECREATED,
    ErrorCode,
    SeamlineError,
)
from seamline.gateway.catalogs import resolution
from seamline.gateway.query.gather import Gatherer
from seamline.gateway.query.queries import Planned, Queries, QueryRequest
from seamline.gateway.query.run import Executor
from seamline.gateway.query.tokens import NOTHING
from seamline.gateway.statements.spool import SpoolDirectory
from seamline.planners.plan.route import AUTO, DUCKDB, SPARK, Limits
from seamline.seam.offsets import OffsetRange
from seamline.seam.records import DecoderSpec
from seamline.sql.parsing import parse

TOPICS = ("a", "b", "c")
SQL = " UNION ALL ".join(f"SELECT value FROM main.{topic}" for topic in TOPICS)
LIMITS = Limits(duckdb_cold_bytes_max=2**60, duckdb_tail_rows_max=2**60, spark=True)
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ROWS = pa.table({"value": pa.array([b"x", b"y"])})


def _nothing() -> None:
    pass


class Engine:
    """An engine that gives the same rows whatever it is asked, and remembers what that was."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[EngineQuery] = []
        self.closed = 0
        self.fails: SeamlineError | None = None
        self.before_the_last: Callable[[], None] = _nothing

    def run(self, query: EngineQuery, deadline: Deadline) -> ResultStream:
        """See `Engine.run`."""
        self.asked.append(query)
        if self.fails is not None:
            raise self.fails
        return ResultStream(ROWS.schema, self._batches(), self._close)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        first, last = (ROWS.slice(n, 1).to_batches()[0] for n in range(2))
        yield first
        self.before_the_last()
        yield last

    def _close(self) -> None:
        self.closed += 1


class World:
    """Three topics of three records, and an executor over them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.sources = NamedSources({"lake": []}, {"main": TOPICS})
        self.log = self.sources.log("main")
        for topic in TOPICS:
            for number in range(3):
                self.log.produce(topic, 0, f"{topic}{number}".encode())
        self.engines = {name: Engine(name) for name in (DUCKDB, SPARK)}
        self.read: list[tuple[str, tuple[OffsetRange, ...]]] = []
        self.released: list[str] = []
        self.fails: str | None = None
        self.folder = folder

    def executor(self, tail_rows_max: int = 2**60) -> Executor:
        """An executor; longer tails are left to Spark."""
        return Executor(
            self.sources,
            self.engines,
            tail_bytes_max=2**60,
            tail_rows_max=tail_rows_max,
            spool=SpoolDirectory(self.folder, size_bytes_max=2**30).open_unnamed,
            read_tail=self._read_tail,
        )

    def planned(self, executor: Executor, engine: str) -> Planned:
        """The statement, planned."""
        return self.queries(executor).plan(self.request(engine), NoDeadline())

    def queries(self, executor: Executor, limits: Limits = LIMITS) -> Queries:
        """What plans and starts it."""
        return Queries(Gatherer(self.sources, executor.tails), executor, limits)

    def request(self, engine: str) -> QueryRequest:
        """The statement."""
        parsed = parse.parse(SQL)
        assert isinstance(parsed, parse.Query)
        session = resolution.session(self.sources.config)
        return QueryRequest(parsed.tree, session, engine, (), NOTHING, NOW)

    def _read_tail(
        self,
        log: HotLog,
        ranges: Sequence[OffsetRange],
        isolation: str,
        spec: DecoderSpec,
        *wanted: Any,
        **limits: Any,
    ) -> Tail:
        """Implements `TailReader`: `read_tail`, noted and released."""
        topic = spec.topic
        if topic == self.fails:
            raise SeamlineError(LOG_TRIMMED, "gone")
        self.read.append((topic, tuple(ranges)))
        found = read_tail(log, ranges, isolation, spec, *wanted, **limits)
        return Tail(found.rows, found.records, 0, 0, release=lambda: self.released.append(topic))


@pytest.fixture
def world(tmp_path: pathlib.Path) -> World:
    return World(tmp_path)


def test_every_tail_is_read_once_and_let_go_with_the_result(world: World) -> None:
    executor = world.executor()
    planned = world.planned(executor, DUCKDB)
    execution = executor.start(planned.plan, planned.tables, NoDeadline())
    assert sorted(world.read) == [(t, (OffsetRange(0, 0, 3),)) for t in TOPICS]
    (query,) = world.engines[DUCKDB].asked
    tails = [query.tails[str(scan.tail)] for scan in query.scans]
    assert [t.num_rows for t in tails if isinstance(t, pa.Table)] == [3, 3, 3]
    assert list(execution.stream.batches) == ROWS.to_batches(max_chunksize=1)
    assert not world.released, "the engine may still look at them"
    execution.stream.close()
    assert sorted(world.released) == list(TOPICS)
    assert world.engines[DUCKDB].closed == 1


def test_when_one_tail_cannot_be_read_the_others_are_let_go(world: World) -> None:
    executor = world.executor()
    planned = world.planned(executor, DUCKDB)
    world.fails = "b"
    with pytest.raises(SeamlineError) as caught:
        executor.start(planned.plan, planned.tables, NoDeadline())
    assert caught.value.code is LOG_TRIMMED
    assert sorted(world.released) == sorted(topic for topic, _ in world.read)
    assert not world.engines[DUCKDB].asked


def test_when_the_engine_refuses_every_tail_is_let_go(world: World) -> None:
    executor = world.executor()
    planned = world.planned(executor, DUCKDB)
    world.engines[DUCKDB].fails = SeamlineError(MEMORY_LIMIT, "no")
    with pytest.raises(SeamlineError) as caught:
        executor.start(planned.plan, planned.tables, NoDeadline())
    assert caught.value.code is MEMORY_LIMIT
    assert sorted(world.released) == list(TOPICS)


def test_long_tails_are_left_to_spark_with_their_exact_ranges(world: World) -> None:
    executor = world.executor(tail_rows_max=2)
    planned = world.planned(executor, SPARK)
    execution = executor.start(planned.plan, planned.tables, NoDeadline())
    assert not world.read
    (query,) = world.engines[SPARK].asked
    for topic, scan in zip(TOPICS, query.scans, strict=True):
        source = query.tails[str(scan.tail)]
        assert isinstance(source, TailSource)
        assert (source.topic, source.ranges) == (topic, (OffsetRange(0, 0, 3),))
    assert sum(batch.num_rows for batch in execution.stream.batches) == 2
    execution.stream.close()


def test_no_row_is_given_of_a_tail_that_spark_read_from_another_topic(world: World) -> None:
    executor = world.executor(tail_rows_max=2)
    planned = world.planned(executor, SPARK)

    def recreate() -> None:
        world.log.delete_topic("b")
        world.log.create_topic("b", 1)

    world.engines[SPARK].before_the_last = recreate
    execution = executor.start(planned.plan, planned.tables, NoDeadline())
    with pytest.raises(SeamlineError) as caught:
        next(iter(execution.stream.batches))
    assert caught.value.code is TOPIC_RECREATED
    execution.stream.close()
    assert world.engines[SPARK].closed == 1


REFUSED = [NOT_SUPPORTED, STATEMENT_TOO_LARGE, INTERNAL_ERROR, SPARK_FAILED]


@pytest.mark.parametrize("code", REFUSED, ids=lambda code: code.name)
@pytest.mark.parametrize(("first", "other"), [(DUCKDB, SPARK), (SPARK, DUCKDB)])
def test_what_one_engine_refuses_runs_on_the_other(
    world: World, first: str, other: str, code: ErrorCode
) -> None:
    limits = LIMITS if first == DUCKDB else Limits(-1, 2**60)
    queries = world.queries(world.executor(), limits)
    world.engines[first].fails = SeamlineError(code, "what is this?")
    seen: list[str] = []

    def planned(plan: Planned) -> None:
        seen.append(plan.plan.route.engine)

    running = queries.start(world.request(AUTO), NoDeadline(), planned)
    assert seen == [first, other]
    assert sum(batch.num_rows for batch in running.batches) == 2
    route = running.planned.plan.route
    assert (route.engine, route.reason) == (
        other,
        f"{first} refused it: {code.name}: what is this?",
    )
    assert sorted(world.released) == sorted(topic for topic, _ in world.read)


@pytest.mark.parametrize(
    ("engine", "limits", "code"),
    [
        (DUCKDB, LIMITS, NOT_SUPPORTED),
        (AUTO, Limits(2**60, 2**60, spark=False), NOT_SUPPORTED),
        (AUTO, LIMITS, MEMORY_LIMIT),
    ],
)
def test_the_other_engine_is_asked_only_where_it_may_be_and_can_help(
    world: World, engine: str, limits: Limits, code: ErrorCode
) -> None:
    world.engines[DUCKDB].fails = SeamlineError(code, "no")
    with pytest.raises(SeamlineError) as caught:
        world.queries(world.executor(), limits).start(
            world.request(engine), NoDeadline(), lambda _: None
        )
    assert caught.value.code is code
    assert not world.engines[SPARK].asked


def test_when_both_refuse_the_first_is_heard(world: World) -> None:
    for name, engine in world.engines.items():
        engine.fails = SeamlineError(NOT_SUPPORTED, name)
    with pytest.raises(SeamlineError) as caught:
        world.queries(world.executor()).start(world.request(AUTO), NoDeadline(), lambda _: None)
    assert caught.value.message == DUCKDB
    assert sorted(world.released) == sorted(topic for topic, _ in world.read)
