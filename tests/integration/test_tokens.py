"""Tokens, sessions, write tokens and time travel, on real parts.

Goal: a token gives the same rows again or says why not; a session never goes back; a write is seen
once it is acknowledged; a past moment is cut exactly, wherever its rows are by now.
Method: the rows of the first read are kept and compared after the log and the table have moved on
in the way each test is named after.
"""

from __future__ import annotations

import datetime
import itertools
import threading
import time
from typing import Any

import pytest
from support.gateway import Gateway
from support.odd_records import OddRecord, produce
from support.stack import Stack
from support.waiting import wait_until

import seamline
from seamline.connectors.iceberg.tables import commits
from seamline.errors import SeamlineError
from seamline.gateway.deadline import no_deadline

pytestmark = [pytest.mark.integration, pytest.mark.spark]
COLUMNS = "id bigint, text varchar"


def rows_of(ids: range, text: str = "x") -> list[dict[str, Any]]:
    return [{"id": i, "text": text} for i in ids]


def table_of(stack: Stack, name: str, partitions: int = 2) -> None:
    stack.create_topic(name, partitions)
    stack.create_table(name, COLUMNS)


def spark_sql(stack: Stack, name: str, text: str) -> None:
    stack.spark.sql(text.format(t=f"lake.default.{name}")).collect()


def failure(gateway: Gateway, sql: str, **options: Any) -> SeamlineError:
    with pytest.raises(SeamlineError) as caught:
        gateway.rows(sql, **options)
    return caught.value


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.prove)])
def test_a_later_snapshot_serves_a_token(
    stack: Stack, gateway: Gateway, name: str, engine: str
) -> None:
    """Its own snapshot expired and its tail left the log, but nobody else has changed rows."""
    table_of(stack, name)
    stack.produce(name, rows_of(range(300)))
    stack.tier(name)
    stack.produce(name, rows_of(range(300, 500)))
    sql = f"SELECT id, text, _kafka_partition, _kafka_offset FROM {name}"
    first = gateway.statement(sql, engine)
    for partition in (0, 1):  # whatever the producer would choose: each continues past its end
        late = range(500 + 200 * partition, 700 + 200 * partition)
        stack.produce(name, rows_of(late, "late"), partition=partition)
    stack.tier(name)
    stack.maintain(name, rewrite_manifests=False)
    end = {int(p): e for p, e in first.receipt["tables"][0]["end"].items()}
    stack.trim(name, {p: e + 1 for p, e in end.items()})
    again = gateway.rows(f"{sql} AT TOKEN '{first.receipt['token']}'", engine)
    assert sorted(row[0] for row in again) == list(range(500))
    assert gateway.rows(f"SELECT count(*) FROM {name}", engine) == [(900,)]
    hot = failure(gateway, f'SELECT * FROM "{name}$hot"', token=first.receipt["token"])
    assert hot.code.name == "TOKEN_EXPIRED"


@pytest.mark.soak
@pytest.mark.prove
def test_a_token_whose_rows_were_changed_expires(stack: Stack, gateway: Gateway, name: str) -> None:
    table_of(stack, name)
    stack.produce(name, rows_of(range(100)))
    stack.tier(name)
    token = gateway.statement(f"SELECT * FROM {name}").receipt["token"]
    spark_sql(stack, name, "DELETE FROM {t} WHERE id < 10")
    kept = gateway.rows(f"SELECT count(*) FROM {name}", token=token)
    assert kept == [(100,)], "its own snapshot still serves it"
    stack.produce(name, rows_of(range(100, 110)))
    stack.tier(name)
    stack.maintain(name, rewrite_manifests=False)
    error = failure(gateway, f"SELECT count(*) FROM {name}", token=token)
    assert error.code.name == "TOKEN_EXPIRED"
    assert "changed" in error.message


@pytest.mark.soak
def test_a_tagged_snapshot_outlives_what_says_its_boundary(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    """The snapshot is kept, but those it builds on are not: a later one serves, or nothing does."""
    table_of(stack, name)
    stack.produce(name, rows_of(range(100)))
    stack.tier(name)
    spark_sql(stack, name, "DELETE FROM {t} WHERE id = 0")
    stack.produce(name, rows_of(range(100, 150)))
    sql = f"SELECT id FROM {name}"
    first = gateway.statement(sql)
    own = first.receipt["tables"][0]["snapshot_id"]
    spark_sql(stack, name, f"ALTER TABLE {{t}} CREATE TAG kept AS OF VERSION {own}")
    stack.produce(name, rows_of(range(150, 200)))
    stack.tier(name)
    stack.maintain(name, compact=False, rewrite_manifests=False)
    snapshots = stack.load(name).state.snapshots
    assert int(own) in snapshots
    assert snapshots[int(own)].parent_id not in snapshots
    again = gateway.rows(sql, token=first.receipt["token"])
    assert sorted(row[0] for row in again) == list(range(1, 150))
    spark_sql(stack, name, "DELETE FROM {t} WHERE id = 1")
    error = failure(gateway, sql, token=first.receipt["token"])
    assert error.code.name == "TOKEN_EXPIRED"
    assert "lost the snapshots before it" in error.message


@pytest.mark.prove
def test_a_session_does_not_go_back(stack: Stack, gateway: Gateway, name: str) -> None:
    table_of(stack, name)
    stack.produce(name, rows_of(range(10)))
    stack.tier(name)
    before = stack.load(name).state.current_snapshot_id
    stack.produce(name, rows_of(range(10, 20)))
    stack.tier(name)
    sql = f"SELECT count(*) FROM {name}"
    with gateway.connect() as connection:
        assert connection.execute(sql).fetchall() == [(20,)]
        table = stack.load(name)
        commits.move_head(table, table.state.current_snapshot_id, before)
        with pytest.raises(seamline.Error) as caught:
            connection.execute(sql)
        assert caught.value.code.name == "HISTORY_CHANGED"
        assert connection.execute(sql).fetchall() == [(20,)], "said once, then read on"


@pytest.mark.prove
def test_a_session_reads_the_whole_and_its_parts_in_any_order(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    table_of(stack, name)
    stack.produce(name, rows_of(range(10)))
    stack.tier(name)
    stack.produce(name, rows_of(range(10, 13)))
    counts = {name: 13, f'"{name}$cold"': 10, f'"{name}$hot"': 3}
    for order in itertools.permutations(counts):
        with gateway.connect() as connection:
            for part in (*order, *order):
                found = connection.execute(f"SELECT count(*) FROM {part}").fetchall()
                assert found == [(counts[part],)], (order, part)
    cold = gateway.statement(f'SELECT * FROM "{name}$cold"').receipt["token"]
    error = failure(gateway, f"SELECT * FROM {name}", token=cold)
    assert error.code.name == "INVALID_TOKEN"
    assert gateway.rows(f'SELECT count(*) FROM "{name}$cold"', token=cold) == [(10,)]


def test_a_write_is_waited_for(stack: Stack, gateway: Gateway, name: str) -> None:
    table_of(stack, name, 1)
    producer = stack.producer(**{"transactional.id": name})
    producer.init_transactions()
    producer.begin_transaction()
    acknowledged: list[int] = []
    producer.produce(
        name, b'{"id": 1, "text": "t"}', on_delivery=lambda _, m: acknowledged.append(m.offset())
    )
    assert producer.flush(30) == 0
    token = seamline.write_token({0: acknowledged[0]}, table=name)
    with gateway.connect() as connection:
        sql = f"SELECT id FROM {name}"
        # what the session has seen of the snapshot alone does not stand for the log
        assert connection.execute(f'SELECT count(*) FROM "{name}$cold"').fetchall() == [(0,)]
        with pytest.raises(seamline.Error) as caught:
            connection.execute(sql, after=token, timeout=4)
        assert caught.value.code.name == "WRITE_NOT_VISIBLE"
        assert "transaction" in caught.value.message
        started = threading.Event()

        def commit() -> None:
            started.wait(60)
            producer.commit_transaction()

        thread = threading.Thread(target=commit)
        thread.start()
        cursor = connection.cursor()
        started.set()
        assert cursor.execute(sql, after=token, timeout=60).fetchall() == [(1,)]
        thread.join()
        beyond = seamline.write_token({0: 999})
        with pytest.raises(seamline.Error) as caught:
            connection.execute(sql, after=beyond, timeout=4)
        assert caught.value.code.name == "WRITE_NOT_VISIBLE"
        with pytest.raises(seamline.Error) as caught:
            connection.execute(sql, after="w1.broken")
        assert caught.value.code.name == "INVALID_TOKEN"


@pytest.mark.prove
def test_a_past_moment_is_cut_where_it_lies(stack: Stack, gateway: Gateway, name: str) -> None:
    table_of(stack, name)
    stack.produce(name, rows_of(range(50)))
    stack.tier(name)
    stack.produce(name, rows_of(range(50, 80)))
    moment = datetime.datetime.now(datetime.UTC)
    wait_until(lambda: time.time() > moment.timestamp() + 0.01)
    stack.produce(name, rows_of(range(80, 120)))
    then = f"SELECT id FROM {name} FOR TIMESTAMP AS OF TIMESTAMP '{moment.isoformat(' ')}'"
    both = f"SELECT (SELECT count(*) FROM {name}), (SELECT count(*) FROM ({then}))"

    def check() -> None:
        assert sorted(row[0] for row in gateway.rows(then)) == list(range(80))
        assert gateway.rows(both) == [(120, 80)], "two moments of one table in one statement"

    check()  # cut in the log
    stack.tier(name)
    check()  # the log still reaches back to the snapshot of the moment
    end = stack.connections.log("default").bounds([name], "read_committed", no_deadline())[name].end
    stack.trim(name, dict(end))
    check()  # cut in a later snapshot
    assert sorted(gateway.rows(then, "spark")) == [(i,) for i in range(80)]
    spark_sql(stack, name, "DELETE FROM {t} WHERE id = 3")
    assert failure(gateway, then).code.name == "LOG_TRIMMED"


@pytest.mark.prove
def test_a_fast_clock_ends_a_moment_at_the_same_record_for_ever(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    table_of(stack, name)
    stack.produce(name, rows_of(range(10)))
    ahead = OddRecord(b'{"id":10}', timestamp_ms=round(time.time() * 1000) + 1_800_000)
    produce(stack.bootstrap_servers, name, [ahead])
    stack.produce(name, rows_of(range(11, 20)), partition=0)
    moment = datetime.datetime.now(datetime.UTC)
    wait_until(lambda: time.time() > moment.timestamp() + 0.01)
    stack.produce(name, rows_of(range(20, 30)))
    then = f"SELECT id FROM {name} FOR TIMESTAMP AS OF TIMESTAMP '{moment.isoformat(' ')}'"

    def check() -> None:
        assert sorted(row[0] for row in gateway.rows(then)) == list(range(10))

    check()
    stack.tier(name)
    check()
    end = stack.connections.log("default").bounds([name], "read_committed", no_deadline())[name].end
    stack.trim(name, dict(end))
    check()


@pytest.mark.soak
@pytest.mark.one_in(test=2)
@pytest.mark.parametrize("policy", ["null", "skip"])
@pytest.mark.prove
def test_a_token_outlives_a_change_of_policy(
    stack: Stack, gateway: Gateway, name: str, policy: str
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS, on_error=policy)
    stack.produce(name, [*rows_of(range(3)), b"bad", *rows_of(range(3, 6))])
    sql = f"SELECT id, _kafka_offset, _kafka_error FROM {name} ORDER BY 2"
    first = gateway.statement(sql)
    token, rows = first.receipt["token"], gateway.rows(sql)
    assert len(rows) == (7 if policy == "null" else 6)
    other = "skip" if policy == "null" else "null"
    commits.set_properties(stack.load(name), {"seamline.on-error": other})
    assert len(gateway.rows(sql)) != len(rows)
    for engine in ("duckdb", "spark"):
        assert gateway.rows(sql, engine, token=token) == rows
    stack.tier(name)
    assert gateway.rows(sql, token=token) == rows, "of the snapshot of then, and the log"
    stack.trim(name, {0: 7})
    with pytest.raises(SeamlineError) as caught:
        gateway.rows(sql, token=token)
    assert caught.value.code.name == "TOKEN_EXPIRED"
