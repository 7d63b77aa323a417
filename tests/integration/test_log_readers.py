"""No reader of the log returns a row of a log that turned out to be another one.

Goal: a topic that is recreated, trimmed or cut between planning and reading is a named error of
every reader, never fewer or other rows.
Method: each reader of the product reads a table's tail, and something happens under it just before
its first record is read. A test over the sources holds the list of readers complete.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import datetime
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from support.gateway import Gateway
from support.meddling import Event, MeddledEngine, MeddledLog, MeddledSources
from support.odd_records import OddRecord, produce
from support.sources import ROOT, python_files
from support.stack import Stack
from support.tierers import At, Interrupted
from support.waiting import wait_until

from seamline.connectors.chunks import ResultFile
from seamline.connectors.duckdb.workers import DuckDBWorkers
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.spark.engine import SparkEngine
from seamline.connectors.spark.source import _BatchReader, _StreamReader
from seamline.connectors.spark.splits import Options, Table
from seamline.errors import READ_CONFLICT, SeamlineError
from seamline.gateway.catalogs import resolution
from seamline.gateway.query.gather import Gatherer
from seamline.gateway.query.queries import Queries, QueryRequest
from seamline.gateway.query.run import Executor
from seamline.gateway.query.tokens import NOTHING
from seamline.gateway.statements.spool import ResultSpool, SpoolMemory
from seamline.gateway.tail.followers import Budget, Followers
from seamline.gateway.tail.own_consumers import OwnConsumers
from seamline.gateway.tail.tails import Tails
from seamline.gateway.tiering.step import tier_once
from seamline.planners.plan.physical import TailRead
from seamline.planners.plan.route import DUCKDB, SPARK, Limits
from seamline.seam.log import READ_COMMITTED
from seamline.seam.offsets import OffsetRange
from seamline.sql.parsing import parse

pytestmark = [pytest.mark.integration, pytest.mark.spark]
COLUMNS = "id bigint"
NOW = NoDeadline()
LARGE = 1 << 40


@dataclasses.dataclass(frozen=True)
class Bench:
    """What readers are made of.

    Attributes:
        stack: The stack.
        gateway: A gateway over it.
        directory: A folder of the test's own.
    """

    stack: Stack
    gateway: Gateway
    directory: pathlib.Path


Reader = Callable[[Bench, str, Event], list[int]]
"""(what to read with, the table, what happens before the first record is read) to the ids read."""


def _statement(bench: Bench, name: str, event: Event, engine: str, **settings: Any) -> list[int]:
    sources = MeddledSources(bench.stack.connections, event)
    spark = SparkEngine(
        lambda: bench.stack.spark_url, lambda: None, bench.stack.config.clusters, tail_partitions=2
    )
    duckdb = DuckDBWorkers(
        memory_bytes=1 << 30,
        threads=2,
        spill_directory=str(bench.directory / "spill"),
        spill_bytes=1 << 30,
    )
    with contextlib.closing(duckdb), contextlib.closing(spark):
        file = ResultFile(str(bench.directory / "held.arrow"), LARGE)
        executor = Executor(
            sources,
            {DUCKDB: duckdb, SPARK: MeddledEngine(spark, event)},
            tail_bytes_max=LARGE,
            spool=lambda schema: ResultSpool(schema, file, SpoolMemory()),
            **settings,
        )
        limits = Limits(duckdb_cold_bytes_max=LARGE, duckdb_tail_rows_max=LARGE)
        parsed = parse.parse(f"SELECT id FROM {name}")
        assert isinstance(parsed, parse.Query)
        now = datetime.datetime.now(datetime.UTC)
        session = resolution.session(bench.stack.config)
        request = QueryRequest(parsed.tree, session, engine, (), NOTHING, now)
        running = Queries(Gatherer(sources, executor.tails), executor, limits).start(
            request, NOW, lambda _: None
        )
        with contextlib.closing(running.batches):
            return [i for batch in running.batches for i in batch.column(0).to_pylist()]


def here(bench: Bench, name: str, event: Event) -> list[int]:
    """A statement that reads the log itself."""
    return _statement(bench, name, event, DUCKDB, tail_rows_max=LARGE)


def follower(
    bench: Bench, name: str, event: Event, consumers: OwnConsumers | None = None
) -> list[int]:
    """A statement that takes what a follower has read."""
    log = bench.stack.connections.log
    budget = Budget(1 << 30, 0, 60.0)
    followers = Followers(
        lambda cluster: MeddledLog(log(cluster), event),
        budget,
        bench.directory / "tail",
        consumers=consumers,
    )
    with contextlib.closing(followers):
        return _statement(bench, name, event, DUCKDB, tail_rows_max=LARGE, followers=followers)


def sharing_follower(bench: Bench, name: str, event: Event) -> list[int]:
    """A statement that takes what a follower has read that shares a consumer with others."""
    return follower(bench, name, event, OwnConsumers(count_max=0, resting_max=0))


def spark_workers(bench: Bench, name: str, event: Event) -> list[int]:
    """A statement whose tail Spark's workers read."""
    return _statement(bench, name, event, SPARK, tail_rows_max=0)


def virtual_snapshot(bench: Bench, name: str, event: Event) -> list[int]:
    """The tail of a table that is given to other engines as files."""
    sources = MeddledSources(bench.stack.connections, event)
    tails = Tails(sources, None, size_bytes_max=LARGE, offsets_max=LARGE)
    pinned = Gatherer(sources, tails).pin_table(bench.stack.resolve(name), NOW)
    seam, decoder = pinned.facts.seam, pinned.facts.decoder
    assert decoder is not None
    tail = tails.read(TailRead(seam, seam.hot_ranges, decoder, ("id",)), NOW)
    return [int(i.as_py()) for i in tail.rows.column("id")]


def _ids(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [int(i) for batch in batches for i in batch.column("id").to_pylist()]


def data_source(bench: Bench, name: str, event: Event) -> list[int]:
    """Spark's executors, reading the data source as a batch."""
    reader = _BatchReader(Table.place(Options.of({"url": bench.gateway.url, "table": name})))
    parts = reader.partitions()
    event()
    return [i for part in parts for i in _ids(part.read())]


def stream(bench: Bench, name: str, event: Event) -> list[int]:
    """Spark's executors, reading the data source as a stream."""
    reader = _StreamReader(Options.of({"url": bench.gateway.url, "table": name}))
    parts = reader.partitions(reader.initialOffset(), reader.latestOffset())
    event()
    return [i for part in parts for i in _ids(part.read())]


def pipeline(bench: Bench, name: str, event: Event) -> list[int]:
    """A batch of the pipeline; what it wrote is taken back, so the table is what it was."""
    table = Interrupted(bench.stack.tier_table(name), {At.PROBED: event})
    before = bench.stack.load(name).state.current_snapshot_id
    try:
        tier_once(table, bench.stack.connections.log("default"), NOW, records_max=LARGE)
    except SeamlineError:
        assert bench.stack.load(name).state.current_snapshot_id == before
        raise
    return [row[0] for row in bench.gateway.rows(f'SELECT id FROM "{name}$cold"')]


def local_pipeline(bench: Bench, name: str, event: Event) -> list[int]:
    """A batch that the pipeline writes without Spark."""
    bench.stack.tier_engine = "local"
    try:
        return pipeline(bench, name, event)
    finally:
        bench.stack.tier_engine = "spark"


READERS: tuple[Reader, ...] = (
    here,
    follower,
    sharing_follower,
    spark_workers,
    virtual_snapshot,
    data_source,
    stream,
    pipeline,
    local_pipeline,
)


# --- What happens under them ---------------------------------------------------------------------

EARLIER = range(-5, 0)
"""Below the boundary; no row of the table, as if all of them had been skipped."""
RECORDS = range(20)
OTHERS = range(1000, 1040)


def _produce(stack: Stack, name: str, ids: range) -> None:
    stack.produce(name, [{"id": i} for i in ids])


def nothing(stack: Stack, name: str) -> None:
    """The log stays as it is."""


def grown(stack: Stack, name: str) -> None:
    """Records come that are past the seam."""
    _produce(stack, name, OTHERS)


def created_again(stack: Stack, name: str) -> None:
    """The topic is another one, and has grown past the old one's end."""
    stack.recreate_topic(name, 1)
    _produce(stack, name, OTHERS)


def trimmed(stack: Stack, name: str) -> None:
    """The first half of what is to be read is deleted."""
    stack.trim(name, {0: 15})


def cut(stack: Stack, name: str) -> None:
    """The broker loses the log, and others are written in its place."""
    stack.restart_broker(without_log_of=name)
    _produce(stack, name, OTHERS)


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose broker may be ended."""
    with contextlib.closing(Stack(tmp_path_factory.mktemp("readers"))) as stack:
        yield stack


@pytest.fixture(scope="module")
def bench(own_stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with contextlib.closing(Gateway(own_stack.config)) as gateway:
        yield Bench(own_stack, gateway, tmp_path_factory.mktemp("bench"))


@pytest.mark.one_in(prove=8)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("event", [nothing, grown])
def test_readers_give_the_records_of_the_seam(
    bench: Bench, name: str, reader: Reader, event: Callable[[Stack, str], None]
) -> None:
    """Without these, the test below would show nothing."""
    found, happened = _read_with(bench, name, reader, event)
    assert sorted(found) == list(RECORDS)
    assert happened


@pytest.mark.one_in(prove=12)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("event", "code"),
    [(created_again, "TOPIC_RECREATED"), (trimmed, "LOG_TRIMMED"), (cut, "LOG_TRUNCATED")],
)
def test_no_reader_gives_rows_of_another_log(
    bench: Bench, name: str, reader: Reader, event: Callable[[Stack, str], None], code: str
) -> None:
    with pytest.raises(SeamlineError) as caught:
        pytest.fail(f"read {_read_with(bench, name, reader, event)}")
    assert caught.value.code.name == code


@pytest.mark.one_in(prove=4)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_gives_records_of_any_time(bench: Bench, name: str, reader: Reader) -> None:
    """Spark's own reader of Kafka ends at a time that Spark has no instant for."""
    bench.stack.create_topic(name, 1, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    bench.stack.create_table(name, COLUMNS)
    times = [1, 2**63 - 1, -(2**63), 1_700_000_000_123_456_789, 253_402_300_800_000]
    headers = [(b"\xff", b"1")]
    records = [OddRecord(b'{"id":%d}' % i, None, headers, ms) for i, ms in enumerate(times)]
    produce(bench.stack.bootstrap_servers, name, records)
    found = reader(bench, name, Event(lambda: None))
    assert sorted(found) == list(range(len(times)))


@pytest.mark.soak
def test_a_stream_goes_on_in_the_log_that_it_has_read(bench: Bench, name: str) -> None:
    """Between two batches, with nothing but Spark's checkpoint to remember the first by."""
    bench.stack.create_topic(name, 1)
    bench.stack.create_table(name, COLUMNS)
    _produce(bench.stack, name, RECORDS)
    options = Options.of({"url": bench.gateway.url, "table": name})
    first = _StreamReader(options)
    checkpoint = json.loads(json.dumps(first.latestOffset()))
    assert sorted(_between(first, first.initialOffset(), checkpoint)) == list(RECORDS)
    cut(bench.stack, name)
    again = _StreamReader(options)
    with pytest.raises(SeamlineError) as caught:
        _between(again, checkpoint, again.latestOffset())
    assert caught.value.code.name == "LOG_TRUNCATED"


def _between(reader: _StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return [i for part in reader.partitions(start, end) for i in _ids(part.read())]


def _read_with(
    bench: Bench, name: str, reader: Reader, work: Callable[[Stack, str], None]
) -> tuple[list[int], bool]:
    stack = bench.stack
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    _produce(stack, name, EARLIER)
    stack.move_boundary(name)
    _produce(stack, name, RECORDS)
    event = Event(lambda: work(stack, name))
    return reader(bench, name, event), event.happened


# --- Compaction under them -----------------------------------------------------------------------

COMPACTION = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0",
}
FILLER = 1000


def keys_of_data_source(bench: Bench, name: str, event: Event) -> list[int]:
    """The driver of the data source, which finds the keys of the tail before anybody reads it."""
    reader = _BatchReader(Table.place(Options.of({"url": bench.gateway.url, "table": name})))
    event()
    return [i for part in reader.partitions() for i in _ids(part.read())]


@pytest.fixture(scope="module")
def eager(bench: Bench) -> Bench:
    """The bench, its broker's cleaner always at work."""
    often = ConfigEntry("log.cleaner.backoff.ms", "50", incremental_operation=AlterConfigOpType.SET)
    brokers = bench.stack.admin.list_topics(timeout=30).brokers
    for broker in brokers:
        resource = ConfigResource(
            ConfigResource.Type.BROKER, str(broker), incremental_configs=[often]
        )
        for future in bench.stack.admin.incremental_alter_configs([resource]).values():
            future.result(30)
    return bench


def compacted(stack: Stack, name: str) -> None:
    """Every record of the seam is replaced by one past it, and removed."""
    _put(stack, name, RECORDS)
    log = stack.connections.log("default")
    below = [OffsetRange(0, 0, len(RECORDS))]

    def gone() -> bool:
        _put(stack, name, range(FILLER, FILLER + 1))  # it begins a segment
        return not list(log.read(name, below, READ_COMMITTED, NOW))

    wait_until(gone, what="compaction")


def _put(stack: Stack, name: str, ids: range) -> None:
    stack.produce(name, [{"id": i} for i in ids], partition=0, keys=[str(i) for i in ids])


def _states(stack: Stack, name: str, **settings: str) -> None:
    stack.create_topic(name, 1, {**COMPACTION, **settings})
    stack.create_table(name, COLUMNS, mode="upsert", primary_key=("id",), key="id")
    _put(stack, name, RECORDS)


@pytest.mark.one_in(prove=3)
@pytest.mark.prove
@pytest.mark.parametrize(
    "reader",
    [here, follower, sharing_follower, spark_workers, virtual_snapshot, keys_of_data_source],
)
def test_no_reader_misses_a_key_whose_record_is_compacted_away(
    eager: Bench, name: str, reader: Reader
) -> None:
    _states(eager.stack, name)
    event = Event(lambda: compacted(eager.stack, name))
    try:
        found = reader(eager, name, event)
    except SeamlineError as error:
        assert reader is virtual_snapshot, "whoever makes one of it tries again"
        assert error.code is READ_CONFLICT
        found = reader(eager, name, event)
    assert event.happened
    assert sorted(i for i in found if i != FILLER) == list(RECORDS)


TRUNCATE = {"op": "t", "before": None, "after": None}


@pytest.mark.soak
@pytest.mark.prove
@pytest.mark.parametrize(
    "reader", [here, follower, spark_workers, keys_of_data_source, pipeline, local_pipeline]
)
def test_every_reader_sees_a_truncate(bench: Bench, name: str, reader: Reader) -> None:
    stack = bench.stack
    stack.create_topic(name, 1)
    said = {"mode": "changelog", "envelope": "debezium", "key_format": "json"}
    stack.create_table(name, COLUMNS, primary_key=("id",), **said)
    before, between, after = (
        [{"op": "c", "before": None, "after": {"id": i}} for i in ids]
        for ids in (range(4), range(2, 6), range(5, 7))
    )
    stack.produce(name, before)
    stack.tier(name)
    stack.produce(name, [TRUNCATE, *between, TRUNCATE, *after])
    assert sorted(reader(bench, name, Event(lambda: None))) == [5, 6]
    stack.produce(name, [TRUNCATE])
    assert reader(bench, name, Event(lambda: None)) == []


@pytest.mark.prove
def test_what_compaction_has_not_come_to_is_known_by_its_lag(eager: Bench, name: str) -> None:
    stack, log = eager.stack, eager.stack.connections.log("default")
    _states(stack, name, **{"min.compaction.lag.ms": "60000"})
    bounds = stack.bounds(name)

    def untouched() -> dict[int, int]:
        return dict(log.untouched_from(name, bounds.topic_id, bounds.end, NOW))

    assert untouched() == {0: 0}
    _alter(stack, name, "min.compaction.lag.ms", "0")
    wait_until(lambda: not untouched(), what="the lag")
    _alter(stack, name, "cleanup.policy", "delete")
    wait_until(lambda: untouched() == {0: 0}, what="the policy")


def _alter(stack: Stack, name: str, setting: str, value: str) -> None:
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    for future in stack.admin.incremental_alter_configs([resource]).values():
        future.result(30)


# --- That these are all --------------------------------------------------------------------------

KNOWN = {
    ("connectors/kafka/continuity.py", "read"): "asks about epochs, takes no row",
    ("gateway/query/moments.py", "read"): "looks up a moment, takes no row; checked all the same",
    ("gateway/tail/reader.py", "follow"): follower,
    ("gateway/tail/reader.py", "share"): sharing_follower,
    ("gateway/tail/compaction.py", "read"): "looks which records are there, takes no row; checked",
    ("connectors/kafka/tail.py", "read"): here,
    ("connectors/spark/engine.py", "decoded_tail"): spark_workers,
    ("connectors/spark/splits.py", "read"): data_source,
    ("connectors/spark/tail.py", "read"): "a part of `decoded_tail`, whose callers check it",
    ("connectors/spark/tiering.py", "decoded_tail"): pipeline,
    ("connectors/duckdb/tiering.py", "read"): local_pipeline,
    ("connectors/iceberg/tables/tiering.py", "read"): "looks for a row and for schemas; checked",
    ("gateway/commands/inferring.py", "read"): "a sample, from which columns are guessed and shown",
    ("gateway/commands/comparison.py", "read"): "a sample, shown beside the table's; checked",
    ("gateway/tiering/backlog.py", "read"): "asks for a record's time, takes no row",
    ("gateway/commands/aborted.py", "read"): "finds offsets, takes no row; its callers check it",
    ("gateway/commands/auditing.py", "read"): "counts, takes no row; checked all the same",
    ("connectors/iceberg/boundaries/kafka_connect.py", "read"): "another's control topic; checked",
}
"""Which of the readers above stands for a place that reads the log, or why none has to."""


def test_every_place_that_reads_the_log_is_one_of_them() -> None:
    found = set()
    for folder in ("connectors", "gateway", "planners"):
        for path in python_files(folder):
            if path.name in {"memory.py", "faulty.py"}:
                continue
            for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and (how := _reads_log(node)):
                    found.add((str(path), how))
    assert found == set(KNOWN)


def _reads_log(node: ast.Call) -> str:
    """How a call reads the log; empty when it does not."""
    match node.func:
        case ast.Name("decoded_tail"):
            return "decoded_tail"
        case ast.Attribute(
            ast.Name("log") | ast.Attribute(attr="_log"), "read" | "follow" | "share" as how
        ):
            return how
    return ""
