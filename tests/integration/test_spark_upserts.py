"""Upsert tables through the Spark data source: parts that know nothing of each other.

Goal: the parts together are the newest row of each key, each once, wherever the seam is; the
changes are every record.
Method: random histories, judged by a dictionary or by SQLite, are read part by part as executors
get them, pickled, in parts of a few offsets and one file each; the gateway's own answer is compared
as well. `test_spark_source.py` has a Spark read them.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from confluent_kafka import OFFSET_END
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from support.captured import CapturedUsers
from support.gateway import Gateway
from support.live import canonical
from support.source_parts import parts, read
from support.stack import Stack
from support.waiting import wait_until

from seamline.connectors.spark import splits
from seamline.errors import (
    INVALID_ARGUMENT,
    LOG_TRIMMED,
    NOT_SUPPORTED,
    UPSERT_ORDER_UNKNOWN,
    SeamlineError,
)
from seamline.gateway.deadline import no_deadline
from seamline.gateway.tiering.step import tier_once

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "SPLIT_OFFSETS", 5)
    monkeypatch.setattr(splits, "SPLIT_BYTES", 1)
    monkeypatch.setattr(splits, "_KEYS_SHARE", 0)


class History:
    """An upsert table of two partitions, and what it must be."""

    def __init__(self, stack: Stack, name: str, **options: Any) -> None:
        self.stack, self.name = stack, name
        self.rows: dict[int, str] = {}
        marked = [{"__deleted": "true"}, {"__deleted": True, "id": "of no type"}]
        self._deletes = [None, *(marked if "deleted_by" in options else ())]
        stack.create_topic(name, 2)
        given = {"mode": "upsert", "primary_key": ("id",), "key": "id", **options}
        stack.create_table(name, "id bigint, text varchar", **given)

    def happen(self, dice: random.Random, count: int) -> None:
        """That many writes and deletes, of few keys."""
        for partition in (0, 1):
            keys, values = [], []
            for _ in range(count // 2):
                id_, text = dice.randrange(8) * 2 + partition, f"t{dice.randrange(1000)}"
                is_gone = dice.random() < 0.3
                keys.append(str(id_))
                row = {"id": id_, "text": text, "__deleted": "false"}
                values.append(dice.choice(self._deletes) if is_gone else row)
                self.rows.pop(id_, None)
                if not is_gone:
                    self.rows[id_] = text
            self.stack.produce(self.name, values, partition=partition, keys=keys)

    def tier_some(self) -> None:
        """Half of what there is."""
        log = self.stack.connections.log("default")
        tier_once(self.stack.tier_table(self.name), log, no_deadline(), records_max=16)


@pytest.mark.soak
@pytest.mark.parametrize(("version", "options"), [(2, {}), (3, {"deleted_by": "__deleted"})])
def test_the_parts_are_the_table_wherever_the_seam_is(
    stack: Stack, gateway: Gateway, name: str, version: int, options: dict[str, str]
) -> None:
    dice = random.Random(version)
    table = History(stack, name, format_version=version, **options)

    def check() -> None:
        found = sorted(read(gateway, name, "id, text"))
        assert found == sorted(table.rows.items())
        assert found == gateway.rows(f"SELECT id, text FROM {name} ORDER BY id", "duckdb")

    table.happen(dice, 40)
    check()
    for _ in range(2):
        table.tier_some()
        check()
        table.happen(dice, 16)
        check()
    stack.tier(name)
    check()
    table.happen(dice, 30)
    kinds = [type(part).__name__ for part in parts(gateway, name)]
    assert kinds.count("ColdSplit") > 1
    assert kinds.count("HotSplit") > 2
    check()
    answer = gateway.app.test_client().post("/api/v1/seams", json={"table": name})
    token = (answer.json or {})["token"]
    then = sorted(table.rows.items())
    table.happen(dice, 20)
    assert sorted(read(gateway, name, "id, text", token=token)) == then
    check()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("envelope", "partitions"),
    [
        ("maxwell", 2),
        ("debezium", 1),
        *(pytest.param(*each, marks=pytest.mark.prove) for each in (("debezium", 2), ("canal", 1))),
    ],
)
def test_captured_changes_are_their_database(
    stack: Stack, gateway: Gateway, name: str, envelope: str, partitions: int
) -> None:
    captured = CapturedUsers(random.Random(9), envelope, partitions=partitions)
    stack.create_topic(name, partitions)
    columns = "id, name, score"
    stack.create_table(
        name,
        "id bigint, name varchar, score integer",
        mode="changelog",
        envelope=envelope,
        primary_key=("id",),
        spellings=("text_numbers",),
    )
    for _ in range(2):
        changes = list(captured.happen(30))
        for partition in range(partitions):
            own = [change for change in changes if change[2] % partitions == partition]
            keys = [(key or b"").decode() for key, _, _ in own]
            stack.produce(name, [value for _, value, _ in own], partition=partition, keys=keys)
        assert canonical(read(gateway, name, columns)) == canonical(captured.rows())
        stack.tier(name)
    assert canonical(read(gateway, name, columns)) == canonical(captured.rows())
    every = f"{columns}, _kafka_deleted, _kafka_partition, _kafka_offset"
    raw = gateway.rows(f'SELECT {every} FROM "{name}$changes"', "duckdb")
    assert canonical(read(gateway, name, every, changes="true")) == canonical(raw)


def test_what_may_be_wrong_is_refused(stack: Stack, gateway: Gateway, name: str) -> None:
    def refused(read_name: str = name, **options: str) -> Any:
        with pytest.raises(SeamlineError) as caught:
            read(gateway, read_name, "id", **options)
        return caught.value.code

    History(stack, name)
    stack.produce(name, [{"id": 1, "text": "here"}], partition=0, keys=["1"])
    stack.produce(name, [{"id": 2, "text": "two"}], partition=0, keys=["2"])
    late = parts(gateway, name)
    assert refused(f'"{name}$hot"') is NOT_SUPPORTED
    assert refused(f'"{name}$changes"') is NOT_SUPPORTED
    assert read(gateway, f'"{name}$cold"', "id") == []
    assert refused(f'"{name}$cold"', changes="true") is INVALID_ARGUMENT
    assert refused(changes="perhaps") is INVALID_ARGUMENT
    stack.tier(name)
    stack.produce(name, [{"id": 1, "text": "there"}], partition=1, keys=["1"])
    assert refused() is UPSERT_ORDER_UNKNOWN

    stack.trim(name, {0: OFFSET_END})
    for part in late:
        with pytest.raises(SeamlineError) as caught:
            list(part.read())
        assert caught.value.code is LOG_TRIMMED
    policy = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[policy])
    for future in stack.admin.incremental_alter_configs([resource]).values():
        future.result(30)
    log = stack.connections.log("default")
    wait_until(lambda: log.is_compacted(name, no_deadline()), what="the policy")
    assert refused(changes="true") is LOG_TRIMMED
