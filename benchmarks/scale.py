"""Growth laws: what one thing costs at a small and at a large size, as one table.

Costs are processor time or counts, so that a busy machine changes little. A goal bounds either the
ratio of both costs or the cost at the large size, whichever the law states.

python benchmarks/scale.py [LAW …]
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import datetime
import functools
import gc
import json
import math
import pathlib
import resource
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import large_tables
import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from harness import timed, verdict_of, write
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from stand import say

from seamline.connectors.config import ClusterConfig
from seamline.connectors.kafka.cluster import Cluster
from seamline.connectors.kafka.continuity import check_not_truncated
from seamline.connectors.kafka.formats.fit import misfits
from seamline.connectors.kafka.formats.infer import infer_json
from seamline.connectors.kafka.log import KafkaLog
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.gateway.access.rights import Principal
from seamline.gateway.app.wiring import Gateway
from seamline.gateway.config.load import load
from seamline.gateway.deadline import no_deadline
from seamline.gateway.dev.local.stack import LocalStack
from seamline.gateway.memory import settle_memory
from seamline.gateway.names import TableName
from seamline.gateway.statements.statement import StatementRequest
from seamline.gateway.system.system_tables import information_schema
from seamline.gateway.tail.follower import QUIET_S
from seamline.gateway.tail.followers import Budget, Followers
from seamline.gateway.tail.source import FollowedTable, RowSource
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.records import DecoderSpec
from seamline.sql import types
from seamline.sql.binder.qualify import qualify
from seamline.sql.columns import METADATA_FIELDS
from seamline.sql.parsing import parse
from seamline.sql.types import Field

REPEATS = 5
ASKS = 20


@dataclasses.dataclass(frozen=True)
class Growth:
    """What a law costs at two sizes.

    Attributes:
        size: What is counted, such as `rows`.
        sizes: The small size and the large one.
        costs: The cost at each.
        unit: The costs' unit.
    """

    size: str
    sizes: tuple[int, int]
    costs: tuple[float, float]
    unit: str

    @property
    def ratio(self) -> float:
        """Cost at the large size to the cost at the small one."""
        return self.costs[1] / self.costs[0]


@dataclasses.dataclass(frozen=True)
class Law:
    """A bound on how a cost grows.

    Attributes:
        measure: Measures it.
        ratio_max: The greatest acceptable ratio; None if the law bounds the cost.
        cost_max: The greatest acceptable cost at the large size; None if the law bounds the ratio.
    """

    measure: Callable[[], Growth]
    ratio_max: float | None = None
    cost_max: float | None = None

    def is_met(self, growth: Growth) -> bool:
        """Whether the measured growth is within the law's bounds."""
        return (self.ratio_max is None or growth.ratio <= self.ratio_max) and (
            self.cost_max is None or growth.costs[1] <= self.cost_max
        )

    def goal(self, growth: Growth) -> str:
        """The bounds as text."""
        bounds = []
        if self.ratio_max is not None:
            bounds.append(f"ratio ≤ {self.ratio_max:g}")
        if self.cost_max is not None:
            bounds.append(f"≤ {self.cost_max:g} {growth.unit}")
        return ", ".join(bounds)


def cpu_ms(work: Callable[[], object], *, repeats: int = REPEATS) -> float:
    """Median milliseconds of processor time of a piece of work in this process."""
    work()
    return 1000 * statistics.median(timed(work)[1] for _ in range(repeats))


def understanding(text: str) -> float:
    """Milliseconds that parsing and binding a query takes."""

    def understand() -> None:
        parsed = parse.parse(text)
        assert isinstance(parsed, parse.Query)
        qualify(parsed.tree, [], now=datetime.datetime.now(datetime.UTC))

    return cpu_ms(understand)


def values() -> Growth:
    """Understanding a `VALUES` of many rows."""

    def cost(rows: int) -> float:
        return understanding("VALUES " + ", ".join(f"({i}, 'row {i}', {i}.5)" for i in range(rows)))

    sizes = (200, 2_000)
    return Growth("rows", sizes, (cost(sizes[0]), cost(sizes[1])), "ms")


def alternatives() -> Growth:
    """Understanding a filter of many conditions with OR between them."""

    def cost(arms: int) -> float:
        condition = " OR ".join(f"(a = {i} AND b = 'row {i}')" for i in range(arms))
        return understanding(f"SELECT * FROM (VALUES (1, 'x')) AS t (a, b) WHERE {condition}")

    sizes = (40, 400)
    return Growth("conditions", sizes, (cost(sizes[0]), cost(sizes[1])), "ms")


def pivot() -> Growth:
    """Understanding a sum for each of many values of a column."""

    def cost(columns: int) -> float:
        sums = ", ".join(
            f"sum(CASE WHEN a = {i} THEN 1 ELSE 0 END) AS c{i}" for i in range(columns)
        )
        return understanding(f"SELECT b, {sums} FROM (VALUES (1, 'x')) AS t (a, b) GROUP BY b")

    sizes = (30, 300)
    return Growth("columns", sizes, (cost(sizes[0]), cost(sizes[1])), "ms")


def sample() -> Growth:
    """Inferring columns from 200 records, checking them, and checking columns of another type."""

    def cost(count: int) -> float:
        record = {
            f"c{i}": i / 7 if i % 2 else f"2024-11-22T10:00:{i % 60:02d}" for i in range(count)
        }
        values: list[bytes | None] = [json.dumps(record).encode()] * 200

        def examine() -> None:
            columns = infer_json(values).columns
            assert misfits(columns, values, "fail") == []
            others = [dataclasses.replace(column, type=types.BOOLEAN) for column in columns]
            assert len(misfits(others, values, "fail")) == count

        return cpu_ms(examine, repeats=3)

    sizes = (100, 1_000)
    return Growth("columns", sizes, (cost(sizes[0]), cost(sizes[1])), "ms")


def heads() -> Growth:
    """Reading a table whose head is new, by the number of its snapshots."""

    def cost(snapshots: int) -> float:
        with large_tables.warehouse() as tables:
            commits = large_tables.Heads(tables, snapshots)
            spent = []
            for _ in range(REPEATS + 2):
                commits.commit()
                spent.append(timed(tables.read)[1])
        return 1000 * statistics.median(spent[2:])

    sizes = (1, 10_000)
    return Growth("snapshots", sizes, (cost(sizes[0]), cost(sizes[1])), "ms")


def heads_memory() -> Growth:
    """Memory that stays taken after commits to a table with 2,000 snapshots, by their number."""

    def cost(commits: int) -> float:
        with large_tables.warehouse() as tables:
            heads = large_tables.Heads(tables, 2_000)
            heads.commit()
            tracemalloc.start()
            for _ in range(commits):
                heads.commit()
                tables.read()
            gc.collect()
            taken = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
        return taken / 2**20

    sizes = (1, 60)
    return Growth("commits", sizes, (cost(sizes[0]), cost(sizes[1])), "MiB")


# --- What statements ask of Kafka -----------------------------------------------------------------


@contextlib.contextmanager
def broker() -> Iterator[LocalStack]:
    """A running broker in a folder of its own, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="seamline-bench-") as folder:
        stack = LocalStack(pathlib.Path(folder))
        stack.up(say)
        try:
            yield stack
        finally:
            stack.down(say)


@contextlib.contextmanager
def log_of(stack: LocalStack, **partitions: int) -> Iterator[KafkaLog]:
    """The topics of a broker, with new ones of so many partitions, each of which holds a record."""
    servers = stack.status().bootstrap_servers
    assert servers is not None
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for name, count in partitions.items():
        admin.create_topics([NewTopic(name, count)])[name].result(120)
        for partition in range(count):
            producer.produce(name, b"{}", partition=partition)
    assert producer.flush(300) == 0
    cluster = Cluster(ClusterConfig(name="local", bootstrap_servers=servers))
    try:
        yield KafkaLog(cluster)
    finally:
        cluster.close()


def ends_of(log: KafkaLog, topic: str) -> LogBounds:
    """What a statement asks of a topic."""
    return log.bounds([topic], READ_COMMITTED, NoDeadline())[topic]


def partitions() -> Growth:
    """The ends of a topic of many partitions, in this process with its client."""
    sizes = (10, 1_000)
    with broker() as stack, log_of(stack, small=sizes[0], large=sizes[1]) as log:
        costs = [cpu_ms(functools.partial(ends_of, log, topic)) for topic in ("small", "large")]
    return Growth("partitions", sizes, (costs[0], costs[1]), "ms")


def elections() -> Growth:
    """Reads of the log that statements at an end cost together after a change of leader."""
    sizes, costs = (1, 100), []
    with broker() as stack:
        with log_of(stack, bids=1) as log:
            before = ends_of(log, "bids")
        stack.down(say)
        stack.up(say)
        for statements in sizes:
            with log_of(stack) as log:
                reads = CountedReads(log)
                for _ in range(statements):
                    bounds = ends_of(log, "bids")
                    assert bounds.leader_epochs != before.leader_epochs
                    epochs = before.leader_epochs
                    check_not_truncated(reads, bounds, before.end, epochs, NoDeadline())
                costs.append(reads.count)
    return Growth("statements", sizes, (costs[0], costs[1]), "reads")


class CountedReads:
    """A log that counts how often it is read."""

    def __init__(self, inner: KafkaLog) -> None:
        self.count = 0
        self._inner = inner
        self.confirmed_ends = inner.confirmed_ends
        self.topics, self.bounds, self.offsets_at = inner.topics, inner.bounds, inner.offsets_at

    def read(self, *args: Any, **how: Any) -> Iterator[RawBatch]:
        """See `HotLog.read`."""
        self.count += 1
        return self._inner.read(*args, **how)


@dataclasses.dataclass(frozen=True)
class Rest:
    """What followers of tables that nobody asks for cost.

    Attributes:
        core_percent: Processor time, in hundredths of a core.
        threads: Threads of the process.
        files: Files and sockets that it has open.
        kib: Memory for each table, in KiB.
    """

    core_percent: float
    threads: float
    files: float
    kib: float


_FOLLOWED = (10, 1_000)
_REST_S = 20.0


def spec_of(topic: str) -> DecoderSpec:
    """How the records of a topic of two columns are decoded."""
    columns = Field("id", types.BIGINT, 1), Field("text", types.VARCHAR, 2)
    return DecoderSpec(topic, "json", "fail", (*columns, *METADATA_FIELDS))


def follow(followers: Followers, log: KafkaLog, topics: Sequence[str]) -> None:
    """Follows tables over topics, one table for each, until nobody has asked for them lately."""
    for topic, bounds in log.bounds(topics, READ_COMMITTED, NoDeadline()).items():
        source = RowSource(bounds.topic_id, READ_COMMITTED, spec_of(topic), 0)
        table = FollowedTable(("lake", "default", topic), topic, source)
        followers.follow(table, "local", Offsets({0: 0}), {}, time.monotonic())
    for follower in followers.all():
        while not follower.wait({0: 1}, NoDeadline()):
            assert not follower.over, follower.error
        follower.last_used -= QUIET_S


@functools.cache
def at_rest() -> tuple[Rest, Rest]:
    """What few followers cost at rest, and what many do, in this process with its clients."""
    costs: list[Rest] = []
    with contextlib.ExitStack() as started:
        stack = started.enter_context(broker())
        topics = [f"t{number}" for number in range(_FOLLOWED[1])]
        log = started.enter_context(log_of(stack, **dict.fromkeys(topics, 1)))
        folder = pathlib.Path(started.enter_context(tempfile.TemporaryDirectory()))
        made = Followers(lambda _: log, Budget(1 << 30, 0, math.inf), folder)
        followers = started.enter_context(contextlib.closing(made))
        before = _resident_kib()
        for count in _FOLLOWED:
            follow(followers, log, topics[len(followers.all()) : count])
            time.sleep(_REST_S)
            percent = 100 * timed(lambda: time.sleep(_REST_S))[1] / _REST_S
            threads, files = (_count_of(f"/proc/self/{of}") for of in ("task", "fd"))
            costs.append(Rest(percent, threads, files, (_resident_kib() - before) / count))
    return costs[0], costs[1]


def _count_of(folder: str) -> int:
    return sum(1 for _ in pathlib.Path(folder).iterdir())


def _resident_kib() -> float:
    gc.collect()
    pa.default_memory_pool().release_unused()
    pages = int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1024


def followers_at_rest(of: str, unit: str) -> Growth:
    """A cost of followers of tables that nobody asks for."""
    few, many = (getattr(rest, of) for rest in at_rest())
    return Growth("followed tables", _FOLLOWED, (few, many), unit)


def waiting() -> Growth:
    """Requests for the ends of one topic per statement, of clients that ask at once."""

    class Counted(KafkaLog):
        requests = 0

        def _stable_bounds(self, *how: Any) -> dict[str, LogBounds]:
            Counted.requests += 1  # in one thread at a time, but for requests that are slow
            return super()._stable_bounds(*how)

    def cost(log: Counted, clients: int) -> float:
        Counted.requests = 0
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            list(pool.map(lambda _: ends_of(log, "bids"), range(clients * ASKS)))
        return Counted.requests / (clients * ASKS)

    sizes = (1, 32)
    with broker() as stack, log_of(stack, bids=1) as plain:
        log = Counted(plain._cluster)
        costs = [cost(log, clients) for clients in sizes]
    return Growth("clients", sizes, (costs[0], costs[1]), "requests")


def files() -> Growth:
    """Planning a scan with a constant that is new, by the number of the table's files."""

    def cost(number: int) -> float:
        with large_tables.warehouse() as tables:
            large_tables.add_files(tables, number)
            constants = iter(range(0, 1000 * number, 1000 * number // (REPEATS + 2)))
            tables.read(at=0)
            return cpu_ms(lambda: tables.read(at=next(constants)))

    sizes = (1_000, 100_000)
    return Growth("files", sizes, (cost(sizes[0]), cost(sizes[1])), "ms")


def counts() -> Growth:
    """Counting the rows of a table of which nothing is cached, by the number of its files."""

    def cost(number: int) -> float:
        with large_tables.warehouse() as tables:
            large_tables.add_files(tables, number)
            fresh = [tables.reopened() for _ in range(REPEATS + 1)]
            return cpu_ms(lambda: fresh.pop().count())

    sizes = (1_000, 100_000)
    return Growth("files", sizes, (cost(sizes[0]), cost(sizes[1])), "ms")


def files_cold() -> Growth:
    """Planning a scan of many files for the first time, by PyIceberg and here."""
    number = 100_000
    with large_tables.warehouse() as tables:
        large_tables.add_files(tables, number)

        def ours() -> None:
            tables.reopened().read()

        def theirs() -> None:
            table = tables.reopened().catalog.load(large_tables.NAME).iceberg
            collections.deque(table.scan().plan_files(), maxlen=0)

        pairs = [(timed(theirs)[1], timed(ours)[1]) for _ in range(3)]
        costs = [1000 * statistics.median(side) for side in zip(*pairs, strict=True)]
    return Growth("files (PyIceberg, here)", (number, number), (costs[0], costs[1]), "ms")


_OFFLINE = """
catalogs: {{lake: {{type: sql, uri: "sqlite:///{folder}/c.db", warehouse: "file://{folder}/w"}}}}
clusters: {{default: {{bootstrap_servers: "127.0.0.1:1"}}}}
limits: {{duckdb_threads: 1, memory_bytes: 256MiB}}
"""


@contextlib.contextmanager
def offline_gateway() -> Iterator[Gateway]:
    """A gateway over a catalog in one file, whose tables have no topics."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "seamline.yaml"
        file.write_text(_OFFLINE.format(folder=folder), encoding="utf-8")
        with contextlib.closing(Gateway(load(file, environment={}).config)) as gateway:
            yield gateway


def run(gateway: Gateway, sql: str) -> None:
    """Runs a statement to its end."""
    request = StatementRequest(sql)
    statement = gateway.service.submit(request, Principal("bench"))
    statement.wait(600)
    if statement.error is not None:
        raise statement.error


def panels() -> Growth:
    """Runs of the engine for one panel of a dashboard, which many browsers ask for at once."""

    def cost(looks: int) -> float:
        with offline_gateway() as gateway:
            run(gateway, "CREATE SCHEMA IF NOT EXISTS default")
            made = "SELECT n, n % 7 AS k FROM UNNEST(sequence(1, 10000)) t(n)"
            run(gateway, f"CREATE TABLE sales AS {made}")
            panel = "SELECT k, count(*), sum(n) FROM sales GROUP BY k"
            with concurrent.futures.ThreadPoolExecutor(8) as browsers:
                for _ in browsers.map(lambda _: run(gateway, panel), range(looks)):
                    pass
            return looks - gateway.results.hits

    sizes = (1, 100)
    return Growth("looks", sizes, (cost(sizes[0]), cost(sizes[1])), "runs")


def listing() -> Growth:
    """Listing `information_schema.columns` again, of tables of which none has changed."""
    schema = Schema(*(NestedField(i, f"c{i}", LongType()) for i in range(1, 11)))
    name = TableName("lake", "", ("information_schema", "columns"), is_system=True)
    costs = []
    sizes = (200, 2_000)
    with offline_gateway() as gateway:
        connections = gateway.connections
        catalog = connections.catalog("lake").pyiceberg
        catalog.create_namespace("default")
        for count in sizes:
            for number in range(len(catalog.list_tables("default")), count):
                catalog.create_table(("default", f"t{number}"), schema)
            costs.append(cpu_ms(lambda: information_schema(name, connections, no_deadline())))
    return Growth("tables", sizes, (costs[0], costs[1]), "ms")


LAWS: Mapping[str, Law] = {
    "listing": Law(listing, cost_max=100),
    "sample": Law(sample, ratio_max=15),
    "files": Law(files, cost_max=50),
    "counts": Law(counts, cost_max=50),
    "files-cold": Law(files_cold, ratio_max=1.2),
    "heads": Law(heads, ratio_max=3),
    "heads-memory": Law(heads_memory, ratio_max=1.5),
    "panels": Law(panels, ratio_max=1),
    "values": Law(values, ratio_max=12),
    "alternatives": Law(alternatives, ratio_max=12),
    "pivot": Law(pivot, ratio_max=12),
    "partitions": Law(partitions, ratio_max=50),
    "elections": Law(elections, ratio_max=1),
    "waiting": Law(waiting, cost_max=0.25),
    "followers": Law(lambda: followers_at_rest("core_percent", "% of a core"), cost_max=5),
    "followers-threads": Law(lambda: followers_at_rest("threads", "threads"), cost_max=100),
    "followers-files": Law(lambda: followers_at_rest("files", "files"), cost_max=200),
    "followers-memory": Law(lambda: followers_at_rest("kib", "KiB a table"), cost_max=100),
}


def main() -> None:
    """Measures the named laws, or all of them, and prints and writes the table."""
    names = sys.argv[1:] or list(LAWS)
    unknown = [name for name in names if name not in LAWS]
    if unknown:
        sys.exit(f"error: no law {', '.join(unknown)}; there are {', '.join(LAWS)}")
    settle_memory()
    lines = ["| law | small | large | ratio | goal |", "|---|---|---|---|---|"]
    body = {}
    for name in names:
        law = LAWS[name]
        print(f"measuring {name}", file=sys.stderr, flush=True)
        growth = law.measure()
        sides = [
            f"{size:,} {growth.size}: {cost:,.1f} {growth.unit}"
            for size, cost in zip(growth.sizes, growth.costs, strict=True)
        ]
        verdict = verdict_of(law.is_met(growth))
        lines.append(
            f"| {name} | {sides[0]} | {sides[1]} | {growth.ratio:.1f} "
            f"| {law.goal(growth)} {verdict} |"
        )
        body[name] = {**dataclasses.asdict(growth), "met": law.is_met(growth)}
    print("\n".join(lines))
    if names == list(LAWS):
        write("scale", body, "\n".join(lines))


if __name__ == "__main__":
    main()
