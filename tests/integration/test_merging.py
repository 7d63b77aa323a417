"""Upsert tables over a real broker, real Spark and a real catalog.

Goal: wherever a batch ends, and whoever reads, the table is the newest record of each key.
Method: random writes and deletes, tiered batch by batch by Spark, are read between any two batches
on both engines, and compared with a dictionary's content. Rivals and lost replies are as for
append tables: the table is the only checkpoint.
"""

from __future__ import annotations

import contextlib
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from support.captured import CapturedUsers
from support.foreign import delete_where_equal
from support.gateway import Gateway
from support.live import FILES, LiveReaders, canonical, watched
from support.stack import Stack
from support.waiting import wait_until

from seamline.connectors.spark.sessions import Sessions
from seamline.connectors.spark.tiering import SparkTierTable
from seamline.errors import (
    COMMIT_CONFLICT,
    NOT_SUPPORTED,
    TOKEN_EXPIRED,
    UPSERT_ORDER_UNKNOWN,
    SeamlineError,
)
from seamline.gateway.deadline import no_deadline
from seamline.gateway.tiering.step import tier_once
from seamline.seam.boundary import boundary_of
from seamline.seam.tiering import Outcome

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.usefixtures("tier_engine"),
    pytest.mark.one_in(test=2, prove=1),
]

COLUMNS = "id bigint, text varchar, tags row(a integer, b array(varchar))"
Model = dict[int, Any]


class Upserts:
    """A topic, the upsert table over it, and what it must be."""

    def __init__(self, stack: Stack, gateway: Gateway, name: str, **options: Any) -> None:
        self.stack, self.gateway, self.name = stack, gateway, name
        self.model: Model = {}
        stack.create_topic(name, 2)
        given: dict[str, Any] = {"mode": "upsert", "primary_key": ("id",), "key": "id", **options}
        stack.create_table(name, COLUMNS, **given)

    def happen(self, dice: random.Random, count: int, keys: int = 12) -> None:
        """That many writes and deletes."""
        for partition in (0, 1):
            ids, values = [], []
            for _ in range(count // 2):
                id_ = dice.randrange(keys) * 2 + partition
                text = f"t{dice.randrange(1000)}"
                value = {"id": id_, "text": text, "tags": {"a": id_, "b": [text, None]}}
                gone = dice.random() < 0.25
                ids.append(str(id_))
                values.append(None if gone else value)
                self.model.pop(id_, None)
                if not gone:
                    self.model[id_] = (id_, text, {"a": id_, "b": [text, None]})
            self.stack.produce(self.name, values, partition=partition, keys=ids)

    def check(self, *engines: str) -> None:
        """It is what it must be, whoever reads it."""
        wanted = sorted(map(repr, self.model.values()))
        for engine in engines or ("duckdb", "spark"):
            sql = f"SELECT id, text, tags FROM {self.name}"
            assert sorted(map(repr, self.gateway.rows(sql, engine))) == wanted, engine
            count = self.gateway.rows(f"SELECT count(*) FROM {self.name}", engine)
            assert count == [(len(self.model),)], engine


@pytest.mark.soak
@pytest.mark.parametrize("version", [2, 3])
def test_batches_are_merged(stack: Stack, gateway: Gateway, name: str, version: int) -> None:
    dice = random.Random(version)
    table = Upserts(stack, gateway, name, format_version=version)
    table.happen(dice, 40)
    table.check()
    for _ in range(2):
        table.happen(dice, 20)
        tier_a_batch(stack, name, 30)
        table.check()
    stack.tier(name)
    table.check()
    assert gateway.rows(f"SELECT count(DISTINCT id) FROM {name}") == [(len(table.model),)]
    state = stack.load(name).state
    assert dict(boundary_of(state, state.current_snapshot_id).next) == dict(stack.bounds(name).end)


def tier_a_batch(stack: Stack, name: str, records_max: int) -> Outcome:
    log = stack.connections.log("default")
    step = tier_once(stack.tier_table(name), log, no_deadline(), records_max=records_max)
    return step.outcome


@pytest.mark.prove
def test_deletes_of_what_is_not_there_are_progress(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    table = Upserts(stack, gateway, name)
    stack.produce(name, [None, None], partition=0, keys=["2", "4"])
    assert tier_a_batch(stack, name, 100) is Outcome.ROWS
    assert tier_a_batch(stack, name, 100) is Outcome.IDLE
    table.check()


@pytest.mark.soak
def test_of_two_tierers_at_once_one_has_to_start_again(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    dice = random.Random(7)
    table = Upserts(stack, gateway, name)
    table.happen(dice, 20)
    first, second = stack.tier_table(name), stack.tier_table(name)

    class Overtaken:
        """A tierer that another overtakes between what it reads and what it commits."""

        def __getattr__(self, what: str) -> Any:
            return getattr(first, what)

        def commit_rows(self, batch: Any) -> None:
            second.commit_rows(batch)
            first.commit_rows(batch)

    log = stack.connections.log("default")
    with pytest.raises(SeamlineError) as caught:
        tier_once(Overtaken(), log, no_deadline(), records_max=100)
    assert caught.value.code is COMMIT_CONFLICT
    table.check()
    table.happen(dice, 10)
    stack.tier(name)
    table.check()
    assert not [ref for ref in stack.load(name).state.refs if ref.startswith("seamline_batch_")]


@pytest.mark.soak
@pytest.mark.prove
def test_a_key_that_moves_is_not_merged(stack: Stack, gateway: Gateway, name: str) -> None:
    table = Upserts(stack, gateway, name)
    stack.produce(name, [{"id": 1, "text": "here"}], partition=0, keys=["1"])
    stack.tier(name)
    stack.produce(name, [{"id": 1, "text": "there"}], partition=1, keys=["1"])
    for engine in ("duckdb", "spark"):
        with pytest.raises(SeamlineError) as caught:
            gateway.rows(f"SELECT * FROM {name}", engine)
        assert caught.value.code is UPSERT_ORDER_UNKNOWN
    with pytest.raises(SeamlineError) as caught:
        stack.tier(name)
    assert caught.value.code is UPSERT_ORDER_UNKNOWN
    assert gateway.rows(f'SELECT text FROM "{table.name}$cold"') == [("here",)]


@pytest.mark.soak
@pytest.mark.prove
def test_a_remote_spark_merges_too(stack: Stack, gateway: Gateway, name: str) -> None:
    dice = random.Random(4)
    table = Upserts(stack, gateway, name)
    sessions = Sessions.on_server(lambda: stack.spark_url)
    log = stack.connections.log("default")
    for _ in range(2):
        table.happen(dice, 12)
        remote = SparkTierTable(
            sessions,
            stack.connections.catalog("lake"),
            ("default", name),
            log,
            stack.connections.cluster("default").config,
            tasks_min=2,
        )
        assert tier_once(remote, log, no_deadline(), records_max=8).outcome is Outcome.ROWS
        table.check()
    assert sessions.idle == 1
    sessions.close()


@pytest.mark.soak
@pytest.mark.prove
def test_sparks_workers_read_long_tails_themselves(
    stack: Stack, name: str, tmp_path: pathlib.Path
) -> None:
    flags = {"limits.duckdb_tail_rows_max": "1", "state_directory": str(tmp_path)}
    with contextlib.closing(Gateway(stack.configured(flags))) as small:
        table = Upserts(stack, small, name)
        table.happen(random.Random(6), 20)
        stack.tier(name)
        table.happen(random.Random(7), 20)
        table.check("spark")


@pytest.mark.soak
@pytest.mark.prove
def test_maintenance_changes_no_row(stack: Stack, gateway: Gateway, name: str) -> None:
    dice = random.Random(3)
    table = Upserts(stack, gateway, name)
    for _ in range(3):
        table.happen(dice, 12)
        stack.tier(name)
    table.happen(dice, 6)
    stack.maintain(name)
    table.check()
    stack.tier(name)
    table.check()


@pytest.mark.prove
def test_the_past_of_a_compacted_topic_is_not_guessed(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    table = Upserts(stack, gateway, name)
    stack.produce(name, [{"id": 2, "text": "a"}], partition=0, keys=["2"])
    sql = f"SELECT text FROM {table.name}"
    token = gateway.statement(sql, "duckdb").receipt["token"]
    assert gateway.rows(sql, "duckdb", token=token) == [("a",)]
    policy = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[policy])
    for future in stack.admin.incremental_alter_configs([resource]).values():
        future.result(30)
    log = stack.connections.log("default")
    wait_until(lambda: log.is_compacted(name, no_deadline()), what="the policy")
    with pytest.raises(SeamlineError) as caught:
        gateway.rows(sql, "duckdb", token=token)
    assert caught.value.code is TOKEN_EXPIRED
    assert gateway.rows(sql, "duckdb") == [("a",)]


@pytest.mark.prove
def test_who_would_read_it_wrongly_is_refused(stack: Stack, gateway: Gateway, name: str) -> None:
    table = Upserts(stack, gateway, name)
    table.happen(random.Random(1), 10)
    for part in ("hot", "changes"):
        body = {"table": f'"{name}${part}"'}
        answer = gateway.app.test_client().post("/api/v1/seams", json=body)
        assert (answer.json or {})["error"]["code"] == NOT_SUPPORTED.name


# --- Virtual snapshots ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def readers(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveReaders]:
    with watched(LiveReaders(stack, tmp_path_factory.mktemp("live-upserts"))) as running:
        yield running


@pytest.mark.soak
@pytest.mark.prove
@pytest.mark.parametrize(
    "options", [{}, {"format_version": 3, "partitioning": ("truncate(2, text)",)}]
)
def test_virtual_snapshots_hide_what_was_replaced(
    stack: Stack, gateway: Gateway, readers: LiveReaders, name: str, options: dict[str, Any]
) -> None:
    dice = random.Random(11)
    table = Upserts(stack, gateway, name, **options)
    for _ in range(3):
        table.happen(dice, 24)
        wanted = canonical([(id_, text) for id_, text, _ in table.model.values()])
        assert canonical(readers.sql(f"SELECT id, text FROM {FILES}.default.{name}")) == wanted
        snapshot_id = readers.load(name).metadata.current_snapshot_id
        assert snapshot_id is not None
        ways = readers.every_way(name, snapshot_id, ["id", "text"])
        assert all(rows == wanted for rows in ways.values()), ways
        tier_a_batch(stack, name, 20)
    table.check()


@pytest.mark.soak
@pytest.mark.prove
def test_another_writer_deletes_by_key(
    stack: Stack, gateway: Gateway, readers: LiveReaders, name: str
) -> None:
    """What it deletes of the cold rows is gone; what the tail brings afterwards is there."""
    dice = random.Random(3)
    table = Upserts(stack, gateway, name)
    table.happen(dice, 40)
    tier_a_batch(stack, name, 1000)
    gone = sorted(table.model)[::3]
    delete_where_equal(stack.load(name).iceberg, "id", [*gone, 999])
    for id_ in gone:
        del table.model[id_]
    table.check()
    table.happen(dice, 6)
    table.check()
    wanted = canonical([(id_, text) for id_, text, _ in table.model.values()])
    assert canonical(readers.sql(f"SELECT id, text FROM {FILES}.default.{name}")) == wanted
    tier_a_batch(stack, name, 1000)
    table.check()


# --- Change streams ------------------------------------------------------------------------------


@pytest.mark.prove
@pytest.mark.parametrize(
    ("envelope", "partitions", "seams"),
    [
        ("debezium", 1, 2),
        *(
            pytest.param(*each, 2, marks=pytest.mark.soak)
            for each in (("debezium", 2), ("canal", 1))
        ),
        *(
            pytest.param(*each, 200, marks=pytest.mark.soak)
            for each in (("debezium", 1), ("debezium", 2), ("maxwell", 2))
        ),
    ],
)
@pytest.mark.timeout(3600)
def test_a_change_log_is_its_database_for_every_reader(
    stack: Stack,
    gateway: Gateway,
    readers: LiveReaders,
    name: str,
    envelope: str,
    partitions: int,
    seams: int,
) -> None:
    dice = random.Random(5)
    encoding = "wrapped" if envelope == "debezium" else "json"
    captured = CapturedUsers(dice, envelope, encoding=encoding, partitions=partitions)
    stack.create_topic(name, partitions)
    stack.create_table(
        name,
        "id bigint, name varchar, score integer",
        mode="changelog",
        envelope=envelope,
        primary_key=("id",),
        spellings=("text_numbers",),
    )
    for seam in range(seams):
        changes = list(captured.happen(20 if seams == 2 else dice.randrange(8)))
        for partition in range(partitions):
            own = [change for change in changes if change[2] % partitions == partition]
            keys = [(key or b"").decode() for key, _, _ in own]
            values = [value for _, value, _ in own]
            stack.produce(name, values, partition=partition, keys=keys)
        wanted = canonical(captured.rows())
        sql = f"SELECT id, name, score FROM {name}"
        for engine in ("duckdb", "spark"):
            assert canonical(gateway.rows(sql, engine)) == wanted, (engine, seam)
        live = f"SELECT id, name, score FROM {FILES}.default.{name}"
        assert canonical(readers.sql(live)) == wanted, seam
        if seams == 2 or dice.random() < 0.3:
            tier_a_batch(stack, name, 15)
