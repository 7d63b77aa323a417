"""A long query's snapshot outlives expiry, and nothing is left of that.

Method: a snapshot is held as a Spark query holds it, and meanwhile replaced, expired and its files
removed: it must read as before. Gateways that may not write, and one that never came to removing
its tags, are there as well.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import threading
import time
from collections.abc import Iterator

import pytest
from support.checker import failure, finished, multiset
from support.gateway import Gateway, statement_rows
from support.stack import Stack
from support.waiting import wait_until

from seamline.connectors.iceberg.tables import commits
from seamline.errors import COMMIT_CONFLICT, TOKEN_EXPIRED, SeamlineError
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.query.snapshot_tags import TAG_PREFIX, SnapshotTags

pytestmark = [pytest.mark.integration, pytest.mark.spark]
COLUMNS = "id bigint, text varchar"
ROWS = 2000
STATEMENTS = 50


@pytest.fixture
def table(stack: Stack, name: str) -> str:
    """A table with a snapshot of so many rows and a short tail."""
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    stack.produce(name, [{"id": i, "text": "cold"} for i in range(ROWS)])
    stack.tier(name)
    stack.produce(name, [{"id": i, "text": "hot"} for i in range(ROWS, ROWS + 10)])
    return name


def tags(stack: Stack, name: str) -> list[str]:
    return [ref for ref in stack.load(name).state.refs if ref.startswith(TAG_PREFIX)]


def let_go(gateway: Gateway) -> None:
    """What the gateway does when no statement has come for a while."""
    gateway.parts.snapshot_tags.close()


def replace_and_expire(stack: Stack, name: str) -> None:
    """Rewrites every row, and expires every snapshot that nothing protects."""
    stack.spark.sql(f"UPDATE lake.default.{name} SET text = 'changed'").collect()
    stack.maintain(name)


@pytest.mark.soak
def test_what_is_held_does_not_expire(stack: Stack, gateway: Gateway, table: str) -> None:
    sql = f"SELECT id, text FROM {table}"
    first = finished(gateway.statement(sql, "spark"))
    expected = multiset(statement_rows(first))
    (receipt,) = first.receipt["tables"]
    assert receipt["snapshot_tag"].startswith(TAG_PREFIX)
    assert receipt["snapshot_tag_problem"] is None
    assert tags(stack, table) == [receipt["snapshot_tag"]], "kept for the next statement"
    let_go(gateway)
    assert tags(stack, table) == []
    files = stack.data_files(table)
    pin = (("lake", "default", table), receipt["snapshot_id"])
    with contextlib.closing(StatementDeadline(600)) as deadline:
        own = SnapshotTags(stack.connections, idle_s=0.0)
        held = own.hold([pin], deadline)
        replace_and_expire(stack, table)
        assert stack.data_files(table) > files
        for engine in ("spark", "duckdb"):
            again = gateway.statement(sql, engine, token=first.receipt["token"])
            assert multiset(statement_rows(finished(again))) == expected
        held.release()
        own.sweep()
        let_go(gateway)
    assert tags(stack, table) == []
    replace_and_expire(stack, table)
    assert receipt["snapshot_id"] not in stack.load(table).state.snapshots
    assert not stack.data_files(table) & files
    assert failure(gateway, sql, token=first.receipt["token"]).code is TOKEN_EXPIRED


def test_small_reads_and_failed_ones_hold_nothing(
    stack: Stack, gateway: Gateway, table: str
) -> None:
    location = stack.load(table).state.metadata_location
    receipt = finished(gateway.statement(f"SELECT * FROM {table}", "duckdb")).receipt
    assert receipt["tables"][0]["snapshot_tag"] is None
    assert stack.load(table).state.metadata_location == location, "nothing was committed"
    nothing = finished(gateway.statement(f"SELECT * FROM {table} WHERE id < 0 - id", "spark"))
    assert statement_rows(nothing) == []
    assert nothing.receipt["tables"][0]["snapshot_tag"].startswith(TAG_PREFIX), (
        "held until it was known"
    )
    failed = gateway.statement(f"SELECT 1 / (id - id) FROM {table}", "spark").error
    assert failed is not None
    assert failed.code.name == "DIVISION_BY_ZERO"
    let_go(gateway)
    assert tags(stack, table) == []


@pytest.mark.soak
def test_what_a_killed_gateway_leaves_goes_with_the_next_expiry(stack: Stack, table: str) -> None:
    """Its age counts from the snapshot's time, which is before the tag was made."""
    state = stack.load(table).state
    head = state.current_snapshot_id
    deadline = StatementDeadline(600)
    name = ("lake", "default", table)
    SnapshotTags(stack.connections).hold([(name, head)], deadline)  # and never released
    deadline.close()
    commits.create_tag(stack.load(table), f"{TAG_PREFIX}old", head, 0)
    (held,) = set(tags(stack, table)) - {f"{TAG_PREFIX}old"}
    ref = stack.load(table).iceberg.metadata.refs[held]
    age_ms = time.time() * 1000 - state.snapshots[head].timestamp_ms
    assert 0 < (ref.max_ref_age_ms or 0) - age_ms <= 3_660_000
    wait_until(lambda: time.time() * 1000 > state.snapshots[head].timestamp_ms + age_ms + 1000)
    replace_and_expire(stack, table)
    assert tags(stack, table) == [held]
    assert head in stack.load(table).state.snapshots


@pytest.fixture
def reader(stack: Stack, tmp_path: pathlib.Path) -> Iterator[Gateway]:
    """A gateway whose catalog takes no commits from it."""
    lake = stack.config.catalogs["lake"]
    path = stack.directory / "catalog.db"
    changed = {
        "uri": f"sqlite:///file:{path}?mode=ro&uri=true",
        "properties": {**lake.properties, "init_catalog_tables": "false"},
    }
    catalogs = {**stack.config.catalogs, "lake": lake.model_copy(update=changed)}
    gateway = Gateway(
        stack.config.model_copy(update={"catalogs": catalogs, "state_directory": str(tmp_path)})
    )
    yield gateway
    gateway.close()


def test_without_the_right_to_write_the_receipt_says_so(
    stack: Stack, reader: Gateway, table: str
) -> None:
    statement = finished(reader.statement(f"SELECT count(*) FROM {table}", "spark"))
    assert statement_rows(statement) == [(ROWS + 10,)]
    receipt = statement.receipt["tables"][0]
    assert receipt["snapshot_tag"] is None
    assert "readonly" in receipt["snapshot_tag_problem"]
    assert tags(stack, table) == []


@pytest.mark.soak
def test_fifty_statements_let_the_pipeline_commit(
    stack: Stack, gateway: Gateway, table: str
) -> None:
    """All of them together tag each snapshot once, while batches land one after the other."""
    sql = f"SELECT count(*), sum(id) FROM {table}"
    token = finished(gateway.statement(sql, "duckdb")).receipt["token"]
    expected = gateway.rows(sql, "duckdb")
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(gateway.rows(sql, "spark", token=token)))
        for _ in range(STATEMENTS)
    ]
    for thread in threads:
        thread.start()
    for number in range(3):
        stack.produce(table, [{"id": i, "text": "more"} for i in range(20)])
        stack.tier(table)
        wait_until(functools.partial(_set, stack, table, {"note": str(number)}))
    for thread in threads:
        thread.join()
    assert found == [expected] * STATEMENTS
    assert len(tags(stack, table)) <= 1 + 3, "one of each snapshot"
    let_go(gateway)
    assert tags(stack, table) == []


def _set(stack: Stack, name: str, properties: dict[str, str]) -> bool:
    try:
        commits.set_properties(stack.load(name), properties)
    except SeamlineError as error:
        assert error.code is COMMIT_CONFLICT
        return False
    return True
