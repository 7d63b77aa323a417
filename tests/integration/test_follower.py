"""Statements over followers, on a real broker, a real catalog and both engines.

Goal: whatever a follower has done with the tail, a statement answers what it would answer without.
Method: a gateway that follows, mostly with a budget so small that almost everything is spilled, and
one that follows nothing. The first one's token is given to the second: rows must be equal cell by
cell. What happens in between is what each test is named after.
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from integration.test_types import COLUMNS as EVERY_TYPE
from integration.test_types import RECORDS
from support.gateway import Gateway, statement_rows
from support.stack import Stack
from support.waiting import wait_until

from seamline.errors import TAIL_TOO_LARGE, TOPIC_RECREATED, SeamlineError
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.commands import tables
from seamline.gateway.config.load import load
from seamline.gateway.config.model import Config
from seamline.gateway.deadline import no_deadline
from seamline.gateway.dev.local.stack import LocalStack
from seamline.gateway.tail.follower import Follower, State
from seamline.gateway.tail.own_consumers import OwnConsumers

COLUMNS = "id bigint, text varchar"
PLACES = "_kafka_partition, _kafka_offset"
SHARED = {"tokens.secret": "one secret for all gateways of these tests"}


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    made = tmp_path_factory.mktemp("gateways")
    yield made
    shutil.rmtree(made, ignore_errors=True)


def gateway_of(stack: Stack, directory: pathlib.Path, **settings: str) -> Gateway:
    flags = {name.replace("__", "."): value for name, value in settings.items()}
    state = {"state_directory": str(directory)}
    return Gateway(stack.configured({**stack.flags, **SHARED, **state, **flags}))


@pytest.fixture(scope="module")
def roomy(stack: Stack, directories: pathlib.Path) -> Iterator[Gateway]:
    """Follows with shared consumers, and holds everything in memory."""
    made = gateway_of(stack, directories / "roomy")
    assert made.parts.followers is not None
    made.parts.followers.consumers = OwnConsumers(count_max=1, resting_max=0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def tiny(stack: Stack, directories: pathlib.Path) -> Iterator[Gateway]:
    """Follows, with no memory to speak of."""
    made = gateway_of(stack, directories / "tiny", tail__memory_bytes="20000")
    yield made
    made.close()


@pytest.fixture(scope="module")
def direct(stack: Stack, directories: pathlib.Path) -> Iterator[Gateway]:
    """Follows nothing."""
    made = gateway_of(stack, directories / "direct", tail__follow="false")
    yield made
    made.close()


def follower_of(gateway: Gateway, name: str) -> Follower:
    followers = gateway.parts.followers
    assert followers is not None
    *_, newest = (f for f in followers.all() if f.table.name[-1] == name)
    return newest


def tail_of(statement: Any) -> dict[str, Any]:
    found: dict[str, Any] = statement.receipt["tables"][0]["tail"]
    return found


def check(
    sql: str, gateway: Gateway, direct: Gateway, *, engine: str = "duckdb"
) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    """The rows a follower gives, after making sure that they are the right ones."""
    statement = gateway.statement(sql, engine)
    assert statement.error is None, statement.error
    rows = sorted(statement_rows(statement), key=repr)
    expected = direct.rows(sql, token=statement.receipt["token"])
    assert repr(rows) == repr(sorted(expected, key=repr))
    return rows, tail_of(statement)


def rows_of(ids: range, text: str = "x") -> list[dict[str, Any]]:
    return [{"id": i, "text": f"{text}{i % 7}"} for i in ids]


# --- What is in the log --------------------------------------------------------------------------


@pytest.mark.integration
def test_transactions(stack: Stack, roomy: Gateway, direct: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    sql = f"SELECT id, {PLACES} FROM {name}"
    producer = stack.producer(**{"transactional.id": name})
    producer.init_transactions(30)
    seen: list[int] = []
    for number, commit in enumerate([True, False, True, True, False]):
        producer.begin_transaction()
        for i in range(5):
            producer.produce(name, f'{{"id": {number * 10 + i}}}'.encode(), partition=0)
        producer.flush(30)
        rows, tail = check(sql, roomy, direct)  # the transaction is open
        assert tail["offsets_read"] == 0
        assert [row[0] for row in sorted(rows)] == seen
        if commit:
            producer.commit_transaction(30)
            seen += [number * 10 + i for i in range(5)]
        else:
            producer.abort_transaction(30)
        stack.wait_for_markers(name)
        rows, tail = check(sql, roomy, direct)  # it ends in a marker
        assert tail["offsets_read"] == 0
        assert [row[0] for row in sorted(rows)] == seen
    assert follower_of(roomy, name).partitions[0].position == 5 * 6


@pytest.mark.integration
@pytest.mark.parametrize("policy", ["null", "skip"])
def test_every_type_and_bad_records_from_files(
    stack: Stack, tiny: Gateway, direct: Gateway, name: str, policy: str
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, EVERY_TYPE, on_error=policy)
    bad = [b"{", b"[1]", b'{"i":"text"}', b"\xff"]
    stack.produce(name, [*RECORDS, *bad, *RECORDS])
    sql = f"SELECT *, {PLACES}, _kafka_timestamp, _kafka_key, _kafka_error FROM {name}"
    rows, _ = check(sql, tiny, direct)
    assert len(rows) == 2 * len(RECORDS) + (len(bad) if policy == "null" else 0)
    stack.produce(name, [{"i": number} for number in range(2000)])
    wait_until(lambda: any(s.file for s in follower_of(tiny, name).partitions[0].segments))
    statement = tiny.statement(sql, "duckdb")
    assert tail_of(statement)["segments_on_disk"] > 0
    assert statement.receipt["tables"][0]["skipped_hot"] == (len(bad) if policy == "skip" else 0)
    check(sql, tiny, direct)
    check(f"{sql} WHERE _kafka_offset BETWEEN 3 AND 1900", tiny, direct)
    check(f"SELECT count(*) FROM {name}", tiny, direct)


@pytest.mark.integration
def test_a_bad_record_fails_where_it_lies(
    stack: Stack, roomy: Gateway, tiny: Gateway, name: str
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "a bigint")
    stack.produce(name, [{"a": 1}, b'{"a":"poison"}', {"a": 3}])
    for gateway in (roomy, tiny):
        for sql in (f"SELECT count(*) FROM {name}", f"SELECT a FROM {name} WHERE a > 2"):
            error = gateway.statement(sql).error
            assert error is not None
            assert "partition 0, offset 1" in error.message
        assert gateway.rows(f"SELECT a FROM {name} WHERE _kafka_offset > 1") == [(3,)]


@pytest.mark.soak
@pytest.mark.integration
@pytest.mark.spark
def test_much_more_than_fits_into_memory(
    stack: Stack, tiny: Gateway, direct: Gateway, name: str
) -> None:
    stack.create_topic(name, 3)
    stack.create_table(name, COLUMNS)
    sql = f"SELECT text, count(*), sum(id) FROM {name} GROUP BY text"
    followers = tiny.parts.followers
    assert followers is not None
    for first in range(0, 30_000, 10_000):
        stack.produce(name, rows_of(range(first, first + 10_000), "some text "))
        rows, _ = check(sql, tiny, direct)
        assert sum(row[1] for row in rows) == first + 10_000
        wait_until(lambda: followers.usage.memory_bytes <= 20_000)  # what the statement held, too
        _, tail = check(sql, tiny, direct)
        assert tail["segments_on_disk"] > 0
        assert tail["offsets_read"] == 0
    check(sql, tiny, direct, engine="spark")
    statement = tiny.statement(f"SELECT id FROM {name} WHERE id = 15000", "duckdb")
    assert statement_rows(statement) == [(15_000,)]
    assert tail_of(statement)["segments_pruned"] > 0


# --- What happens to the topic and the table -----------------------------------------------------


@pytest.mark.integration
def test_new_partitions(stack: Stack, roomy: Gateway, direct: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    stack.produce(name, rows_of(range(100)))
    sql = f"SELECT id, {PLACES} FROM {name}"
    check(sql, roomy, direct)
    for future in stack.admin.create_partitions([NewPartitions(name, 3)]).values():
        future.result(30)
    wait_until(lambda: len(stack.admin.list_topics(name).topics[name].partitions) == 3)
    for partition in (1, 2):
        stack.produce(name, rows_of(range(100, 150)), partition=partition)
    rows, tail = check(sql, roomy, direct)
    assert len(rows) == 200
    assert tail["offsets_read"] == 0
    assert set(follower_of(roomy, name).partitions) == {0, 1, 2}


@pytest.mark.integration
def test_a_topic_created_again(stack: Stack, roomy: Gateway, direct: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    stack.produce(name, rows_of(range(10)))
    sql = f"SELECT id, {PLACES} FROM {name}"
    check(sql, roomy, direct)
    first = follower_of(roomy, name)
    stack.recreate_topic(name, 1)
    stack.produce(name, rows_of(range(1000, 1050)))
    with pytest.raises(SeamlineError) as caught:
        roomy.rows(sql)
    assert caught.value.code is TOPIC_RECREATED
    wait_until(lambda: first.state is State.FAILED)
    roomy.rows(f"DROP TABLE {name}")
    stack.create_table(name, COLUMNS)
    rows, _ = check(sql, roomy, direct)
    assert [row[0] for row in sorted(rows)] == list(range(1000, 1050))
    assert follower_of(roomy, name) is not first


@pytest.mark.integration
def test_a_name_that_stands_on_another_topic(
    stack: Stack, roomy: Gateway, direct: Gateway, name: str
) -> None:
    """What a gateway remembers of the table names a topic that is gone."""
    other = f"{name}_other"
    for topic in (name, other):
        stack.create_topic(topic, 1)
    stack.create_table(name, COLUMNS)
    stack.produce(name, rows_of(range(10)))
    stack.produce(other, rows_of(range(20, 25)))
    sql = f"SELECT id, {PLACES} FROM {name}"
    check(sql, roomy, direct)
    stack.connections.catalog("lake").drop(("default", name), purge=False)
    stack.create_table(name, COLUMNS, topic=other)
    for future in stack.admin.delete_topics([name]).values():
        future.result(30)
    wait_until(lambda: name not in stack.admin.list_topics(timeout=10).topics)
    rows, _ = check(sql, roomy, direct)
    assert sorted(row[0] for row in rows) == list(range(20, 25))


@pytest.mark.integration
@pytest.mark.spark
def test_another_schema(stack: Stack, tiny: Gateway, direct: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    stack.produce(name, [{"id": i, "text": "t", "more": i * 2} for i in range(500)])
    check(f"SELECT * FROM {name}", tiny, direct)
    stack.spark.sql(f"ALTER TABLE lake.default.{name} ADD COLUMN more int")
    rows, _ = check(f"SELECT id, more FROM {name}", tiny, direct)
    assert sorted(rows) == [(i, i * 2) for i in range(500)]
    stack.spark.sql(f"ALTER TABLE lake.default.{name} RENAME COLUMN text TO label")
    stack.produce(name, [{"id": 500, "label": "new"}, {"id": 501, "text": "old"}])
    rows, _ = check(f"SELECT id, label FROM {name} WHERE id >= 500", tiny, direct)
    assert sorted(rows) == [(500, "new"), (501, "old")]


@pytest.mark.integration
@pytest.mark.spark
def test_reads_while_it_is_tiered(stack: Stack, tiny: Gateway, direct: Gateway, name: str) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    sql = f"SELECT id, {PLACES} FROM {name}"
    produced = 0
    for _ in range(4):
        stack.produce(name, rows_of(range(produced, produced + 1500)))
        produced += 1500
        before = tiny.statement(sql, "duckdb")
        assert sorted(row[0] for row in statement_rows(before)) == list(range(produced))
        stack.tier(name, records_max=2000)
        rows, _ = check(sql, tiny, direct)
        assert len(rows) == produced
        # the cut of before, of which the follower holds nothing any more
        again = tiny.rows(sql, "duckdb", token=before.receipt["token"])
        assert sorted(again) == sorted(statement_rows(before))
    wait_until(lambda: not any(h.segments for h in follower_of(tiny, name).partitions.values()))


@pytest.mark.soak
@pytest.mark.integration
def test_a_broker_that_restarts(scratch: pathlib.Path, name: str) -> None:
    local = LocalStack(scratch / "stack")
    local.up(lambda _: None)
    try:
        configuration = load(local.status().config_file, environment={}).config
        gateway = Gateway(configuration)
        try:
            _read_around_a_restart(local, configuration, gateway, name)
        finally:
            gateway.close()
    finally:
        local.down(lambda _: None)


def _read_around_a_restart(
    local: LocalStack, configuration: Config, gateway: Gateway, name: str
) -> None:
    servers = configuration.clusters["kafka"].bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, 2)]).values():
        future.result(30)
    connections = Connections(configuration)
    definition = tables.TableDefinition(
        name=resolution.resolve((name,), resolution.session(configuration), connections),
        topic=name,
        cluster=configuration.default_cluster,
        columns=tables.parse_fields(COLUMNS),
    )
    tables.create(connections, definition, no_deadline())
    sql = f"SELECT count(*), count(DISTINCT id) FROM {name}"
    for round_ in range(3):
        producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
        for i in range(500):
            producer.produce(name, f'{{"id": {round_ * 500 + i}}}'.encode())
        assert producer.flush(60) == 0
        statement = gateway.statement(sql, "duckdb")
        assert statement.error is None, statement.error
        assert statement_rows(statement) == [((round_ + 1) * 500,) * 2]
        first = follower_of(gateway, name)
        local.down(lambda _: None)
        local.up(lambda _: None)
        assert follower_of(gateway, name) is first
    assert gateway.rows(sql) == [(1500, 1500)]
    assert follower_of(gateway, name) is first
    assert first.state is State.FOLLOWING


# --- Limits ---------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.integration
@pytest.mark.spark
def test_a_tail_that_cannot_be_held_goes_to_spark(
    stack: Stack, directories: pathlib.Path, name: str
) -> None:
    limits = {"tail__memory_bytes": "50000", "tail__disk_bytes": "0"}
    gateway = gateway_of(
        stack, directories / "limited", limits__duckdb_tail_rows_max="1000", **limits
    )
    try:
        stack.create_topic(name, 1)
        stack.create_table(name, COLUMNS)
        stack.produce(name, rows_of(range(3000)))
        sql = f"SELECT count(*), sum(id) FROM {name}"
        statement = gateway.statement(sql)
        assert statement.error is None, statement.error
        assert statement_rows(statement) == [(3000, sum(range(3000)))]
        assert statement.receipt["engine"] == "spark"
        reason = statement.receipt["engine_reason"]
        assert "3,000 offsets of tail that are not cached here" in reason
        error = gateway.statement(sql, "duckdb").error
        assert error is not None
        assert error.code is TAIL_TOO_LARGE
    finally:
        gateway.close()


@pytest.mark.soak
@pytest.mark.integration
@pytest.mark.spark
def test_what_turns_out_too_large_goes_to_spark_at_the_same_offsets(
    stack: Stack, directories: pathlib.Path, name: str
) -> None:
    gateway = gateway_of(stack, directories / "unfollowed", tail__follow="false")
    gateway.parts.executor.tails._size_bytes_max = 1000
    try:
        stack.create_topic(name, 1)
        stack.create_table(name, COLUMNS)
        stack.produce(name, rows_of(range(300)))
        statement = gateway.statement(f"SELECT count(*), sum(id) FROM {name}")
        assert statement.error is None, statement.error
        assert statement_rows(statement) == [(300, sum(range(300)))]
        assert statement.receipt["engine"] == "spark"
        assert "larger than 1,000 bytes" in statement.receipt["engine_reason"]
        assert statement.receipt["tables"][0]["end"] == {"0": 300}
        counted = gateway.statement(f"SELECT count(*) FROM {name}")
        assert counted.error is None, counted.error
        assert statement_rows(counted) == [(300,)]
        assert counted.receipt["engine"] == "spark"
        error = gateway.statement(f"SELECT count(*) FROM {name}", "duckdb").error
        assert error is not None
        assert error.code is TAIL_TOO_LARGE
    finally:
        gateway.close()


# --- Freshness, and what is shown ----------------------------------------------------------------


@pytest.mark.integration
def test_freshness(stack: Stack, roomy: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    stack.produce(name, rows_of(range(10)))
    sql = f"SELECT count(*) FROM {name}"
    first = roomy.statement(sql, freshness="cached")  # nothing is held yet: the log is asked
    assert statement_rows(first) == [(10,)]
    assert first.receipt["freshness"] == "cached"
    stack.produce(name, rows_of(range(10, 30)))
    assert roomy.rows(sql, freshness="latest") == [(30,)]
    bounded = roomy.statement(sql, freshness="bounded '60s'")
    cached = roomy.statement(sql, freshness="cached")
    assert statement_rows(bounded) == statement_rows(cached) == [(30,)]
    for weaker in (bounded, cached):
        assert first.receipt["as_of"] < weaker.receipt["as_of"]
        assert weaker.receipt["as_of"] < roomy.statement(sql).receipt["as_of"]
    assert tail_of(cached)["offsets_read"] == 0
    stack.produce(name, rows_of(range(30, 40)))
    assert roomy.rows(sql, freshness="bounded '0ms'") == [(40,)]
    wait_until(lambda: roomy.rows(sql, freshness="cached") == [(40,)])
    error = roomy.statement(sql, freshness="soon").error
    assert error is not None
    assert error.code.name == "INVALID_REQUEST"


@pytest.mark.integration
def test_a_session_never_goes_back_whatever_freshness_it_asks_for(
    stack: Stack, roomy: Gateway, name: str
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    with roomy.connect() as connection, connection.cursor() as cursor:
        for expected in range(1, 60):
            stack.produce(name, [{"id": expected}])
            freshness = "cached" if expected % 3 else "latest"
            cursor.execute(f"SELECT count(*) FROM {name}", freshness=freshness)
            (count,) = cursor.fetchone() or (0,)
            assert count <= expected
            if freshness == "latest":
                assert count == expected
                seen = count
                cursor.execute(f"SELECT count(*) FROM {name}", freshness="cached")
                assert cursor.fetchall() >= [(seen,)]
                assert cursor.receipt["freshness"] == "cached"


@pytest.mark.integration
def test_what_is_held_is_shown(stack: Stack, tiny: Gateway, direct: Gateway, name: str) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    stack.produce(name, rows_of(range(5000)))
    about = f'SELECT * FROM "{name}$tail" ORDER BY "partition"'
    assert [row[1] for row in direct.rows(about)] == ["not followed"] * 2
    assert tiny.rows(f"SELECT count(*) FROM {name}", "duckdb") == [(5000,)]
    totals = (
        f'SELECT sum("rows"), sum(lag), max(state), sum(segments_on_disk) > 0,'
        f' sum(disk_bytes) > 0 FROM "{name}$tail"'
    )
    wait_until(lambda: tiny.rows(totals) == [(5000, 0, "following", True, True)])
    client = tiny.app.test_client()
    text = client.get("/metrics").get_data(as_text=True)
    table = f'table="lake.default.{name}"'
    assert f"seamline_tail_rows{{{table}}} 5000" in text
    assert f"seamline_tail_lag_offsets{{{table}}} 0" in text
    assert f'seamline_tail_state{{state="following",{table}}} 1' in text
    assert "seamline_tail_budget_memory_bytes 20000" in text
    plan = "\n".join(row[0] for row in tiny.rows(f"EXPLAIN SELECT id FROM {name}"))
    assert "5,000 cached here" in plan
