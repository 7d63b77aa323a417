"""Goal: what real writers fill is read with its topic as one, exactly, on both engines, meanwhile.

Method: Iceberg's sink in Kafka Connect, a streaming query of Spark, and PyIceberg copy a topic; the
producer knows what it sent, so each answer is checked against the offsets that its receipt names.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from support.gateway import Gateway, statement_rows
from support.stack import Stack
from support.waiting import wait_until

from seamline.connectors.jvm import jars
from seamline.connectors.jvm.java import find_java
from seamline.gateway.commands import adopting, auditing, handing_over
from seamline.gateway.commands.adopting import Adoption
from seamline.gateway.deadline import no_deadline
from seamline.gateway.dev.local.connect import POSITIONS, ConnectWorker, Sink
from seamline.seam.boundary import boundary_of
from seamline.seam.tiering import Outcome

pytestmark = [pytest.mark.integration, pytest.mark.spark]

COLUMNS = ("partition=k_partition", "offset=k_offset")
ENGINES = ("duckdb", "spark")


class Sent:
    """Records sent to a topic of two partitions, by their places.

    Args:
        stack: The stack.
        topic: The topic; it is made.
    """

    def __init__(self, stack: Stack, topic: str) -> None:
        self.stack, self.topic = stack, topic
        self.places: dict[tuple[int, int], int] = {}
        stack.create_topic(topic, 2)

    def send(self, count: int) -> None:
        """Sends records, and waits for their acknowledgements."""
        first = len(self.places)
        for partition in (0, 1):
            ids = range(first + partition, first + count, 2)
            self.stack.produce(
                self.topic, [{"id": i, "amount": i * 0.5} for i in ids], partition=partition
            )
            begin = sum(p == partition for p, _ in self.places)
            self.places |= {(partition, begin + n): i for n, i in enumerate(ids)}

    def rows(self, end: Mapping[str, int]) -> list[tuple[int, float]]:
        """The rows of every record below some ends."""
        below = (i for (p, o), i in self.places.items() if o < end.get(str(p), 0))
        return sorted((i, i * 0.5) for i in below)


def check(gateway: Gateway, sent: Sent, engine: str, **options: Any) -> dict[str, Any]:
    """A read must give each record below its ends once; returns its receipt."""
    statement = gateway.statement(f"SELECT id, amount FROM {sent.topic}", engine, **options)
    if statement.error is not None:
        raise statement.error
    assert statement.receipt is not None
    (part,) = statement.receipt["tables"]
    assert sorted(statement_rows(statement)) == sent.rows(part["end"])
    return {**part, "token": statement.receipt["token"]}


def adopt(stack: Stack, name: str, **wanted: Any) -> adopting.Findings:
    """Adopts a table over the topic of its name."""
    asked = Adoption("default", name, name=stack.resolve(name), **wanted)
    found = adopting.examine(stack.connections, asked, no_deadline())
    adopting.adopt(stack.connections, found)
    return found


def audit(stack: Stack, name: str) -> auditing.Audit:
    return auditing.audit(stack.connections, stack.resolve(name), no_deadline(), lambda _: None)


def boundary(stack: Stack, name: str) -> dict[int, int]:
    state = stack.load(name).state
    return dict(boundary_of(state, state.current_snapshot_id).next)


# --- Kafka Connect -------------------------------------------------------------------------------


@contextlib.contextmanager
def sink(stack: Stack, *sinks: Sink, folder: str = "connect") -> Iterator[ConnectWorker]:
    """A worker with these connectors, until the block ends."""
    worker = ConnectWorker(stack.directory, stack.bootstrap_servers, folder)
    worker.start(find_java(os.environ), jars.connect_jars(lambda _: None), sinks)
    try:
        yield worker
    finally:
        worker.stop()


def has_rows(stack: Stack, name: str, worker: ConnectWorker) -> bool:
    assert worker.is_running
    catalog = stack.connections.catalog("lake").pyiceberg
    if not catalog.table_exists(("default", name)):
        return False
    return catalog.load_table(("default", name)).current_snapshot() is not None


def test_the_iceberg_sink_is_read_exactly_while_it_commits(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    positions, plain = Sent(stack, name), Sent(stack, f"{name}_plain")
    both = (positions, plain)
    sinks = [
        Sink(name, f"default.{name}", POSITIONS, commit_ms=500),
        Sink(plain.topic, f"default.{plain.topic}", commit_ms=500),
    ]
    for sent in both:
        sent.send(400)
    with sink(stack, *sinks) as worker:
        for sent in both:
            wait_until(functools.partial(has_rows, stack, sent.topic, worker), seconds=120)
        found = adopt(stack, name, columns=COLUMNS)
        assert (found.boundary.provider, found.boundary.trust) == ("kafka-connect", "exact")
        assert not adopt(stack, plain.topic).problems
        seen: set[int] = set()
        while len(seen) < 4:
            for sent in both:
                sent.send(60)
                part = check(gateway, sent, "duckdb")
            seen.add(part["snapshot_id"])
        before = check(gateway, positions, "spark")
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)  # in the middle of whatever it does
        wait_until(lambda: not worker.is_running, seconds=30)
        for sent in both:
            sent.send(100)
            check(gateway, sent, "duckdb")
    with sink(stack, *sinks):
        wait_until(
            lambda: (
                boundary(stack, name) == _ends(positions)
                and boundary(stack, plain.topic) == _ends(plain)
            ),
            seconds=180,
        )
        for sent in both:
            check(gateway, sent, "duckdb")
        again = gateway.rows(f"SELECT id, amount FROM {name}", "spark", token=before["token"])
        assert sorted(again) == positions.rows(before["end"])
    assert audit(stack, name).is_clean


def _ends(sent: Sent) -> dict[int, int]:
    return {p: 1 + max(o for q, o in sent.places if q == p) for p in (0, 1)}


@pytest.mark.soak
def test_partitions_of_a_sink_move_and_its_commits_are_partial(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    """Two workers share a sink; one of them is held up until a commit continues without it."""
    sent = Sent(stack, name)
    table = f"default.{name}"

    def part(client: str) -> Sink:
        hurried = {"tasks.max": "1", "iceberg.control.commit.timeout-ms": "2000"}
        named = {"consumer.override.client.id": client}
        return Sink(name, table, {**POSITIONS, **hurried, **named}, commit_ms=500)

    def holds(*wanted: str) -> bool:
        sent.send(20)
        check(gateway, sent, "duckdb")
        return holders(stack, f"connect-iceberg-{name}") == dict(enumerate(wanted))

    sent.send(100)
    with sink(stack, part("first")) as first:
        wait_until(functools.partial(has_rows, stack, name, first), seconds=120)
        assert adopt(stack, name, columns=COLUMNS).boundary.provider == "kafka-connect"
        wait_until(lambda: holds("first", "first"), seconds=60)
        with sink(stack, part("second"), folder="second") as second:
            wait_until(lambda: holds("first", "second"), seconds=120)
            wait_until(lambda: boundary(stack, name) == _ends(sent), seconds=60)
            assert second.pid is not None
            os.kill(second.pid, signal.SIGSTOP)
            try:
                held_up = boundary(stack, name)[1]
                sent.send(50)
                wait_until(lambda: boundary(stack, name)[0] == _ends(sent)[0], seconds=60)
                assert boundary(stack, name)[1] == held_up < _ends(sent)[1]
                read = [check(gateway, sent, engine) for engine in ENGINES]
                assert [of["boundary"]["1"] for of in read] == [held_up, held_up]
            finally:
                os.kill(second.pid, signal.SIGCONT)
            wait_until(lambda: boundary(stack, name) == _ends(sent), seconds=60)
            check(gateway, sent, "spark")
        wait_until(lambda: holds("first", "first"), seconds=120)
        wait_until(lambda: boundary(stack, name) == _ends(sent), seconds=60)
    check(gateway, sent, "spark")
    assert audit(stack, name).is_clean


def holders(stack: Stack, group: str) -> dict[int, str]:
    """Who has which partition of the topic that a consumer group reads."""
    (found,) = stack.admin.describe_consumer_groups([group]).values()
    return {
        partition.partition: member.client_id
        for member in found.result(30).members
        for partition in member.assignment.topic_partitions
    }


# --- Spark Structured Streaming ------------------------------------------------------------------


@pytest.mark.soak
def test_a_streaming_query_of_spark_is_read_exactly(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    sent = Sent(stack, name)
    table = stack.connections.catalog("lake").pyiceberg.create_table(
        ("default", name), pa.schema([("id", pa.int64()), ("amount", pa.float64())])
    )
    checkpoint = f"{table.location()}/checkpoint"

    def stream() -> None:
        """Copies what there is now."""
        records = (
            stack.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", stack.bootstrap_servers)
            .option("subscribe", name)
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr("from_json(CAST(value AS STRING), 'id BIGINT, amount DOUBLE') AS r")
            .selectExpr("r.id", "r.amount")
        )
        query = (
            records.writeStream.format("iceberg")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .toTable(f"lake.default.{name}")
        )
        assert query.awaitTermination(120)

    sent.send(200)
    stream()
    found = adopt(stack, name, boundary_options=(f"checkpoint={checkpoint}",))
    assert (found.writer.name, found.boundary.trust) == ("Spark Structured Streaming", "exact")
    sent.send(50)
    for engine in ENGINES:
        assert check(gateway, sent, engine)["rows_hot"] == 50
    stream()
    assert boundary(stack, name) == _ends(sent)
    for engine in ENGINES:
        assert check(gateway, sent, engine)["rows_hot"] == 0


# --- PyIceberg, and the pipeline after it --------------------------------------------------------

PLACE = pa.struct([("partition", pa.int32()), ("offset", pa.int64())])


def test_a_table_in_redpandas_shape_is_the_same_on_both_engines_and_is_taken_over(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    sent = Sent(stack, name)
    catalog = stack.connections.catalog("lake").pyiceberg
    catalog.create_table(
        ("default", name),
        pa.schema([("redpanda", PLACE), ("id", pa.int64()), ("amount", pa.float64())]),
    )
    copied: set[tuple[int, int]] = set()

    def copy(end: int) -> None:
        """Commits what is below an end in both partitions."""
        places = sorted(p for p in sent.places if p[1] < end and p not in copied)
        rows = [
            {
                "redpanda": {"partition": p, "offset": o},
                "id": sent.places[p, o],
                "amount": sent.places[p, o] * 0.5,
            }
            for p, o in places
        ]
        table = catalog.load_table(("default", name))
        table.append(pa.Table.from_pylist(rows, schema=schema_to_pyarrow(table.schema())))
        copied.update(places)

    sent.send(100)
    copy(30)
    adopt(stack, name)
    first = [check(gateway, sent, engine) for engine in ENGINES]
    assert [part["rows_hot"] for part in first] == [40, 40]
    whole = sorted(map(repr, gateway.rows(f"SELECT * FROM {name}", "spark")))
    sent.send(40)
    copy(60)
    stack.trim(name, {0: 60, 1: 60})
    wait_until(lambda: stack.bounds(name).start.get(0) == 60)
    for engine in ENGINES:  # the log no longer has them: a later snapshot must stand in
        again = gateway.rows(f"SELECT * FROM {name}", engine, token=first[0]["token"])
        assert sorted(map(repr, again)) == whole
        changes = f"SELECT id FROM TABLE(changes('{name}', '{first[0]['token']}'))"
        assert sorted(gateway.rows(changes, engine)) == [(i,) for i in range(100, 140)]
    taken = handing_over.take_over(
        stack.connections, stack.resolve(name), no_deadline(), lambda _: None
    )
    assert dict(taken.next) == {0: 60, 1: 60}
    assert Outcome.ROWS in {step.outcome for step in stack.tier(name)}
    assert boundary(stack, name) == _ends(sent)
    sent.send(20)
    for engine in ENGINES:
        assert check(gateway, sent, engine)["rows_hot"] == 20
    assert stack.tier(name)[-1].lag == 0
    assert audit(stack, name).is_clean
    assert json.loads(json.dumps(audit(stack, name).to_json()))["rows"] == len(sent.places)
