"""Live tables in other engines while everything moves.

Goal: what was acknowledged before a statement is in it, one statement sees one cut, a write is
refused and changes nothing, and what was given out can be read for as long as its lease.
Method: real producers, tiering, Spark with only the printed configuration, and PyIceberg, over a
gateway whose every answer is checked against the specification's models.
"""

from __future__ import annotations

import json
import pathlib
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.types import LongType
from support.live import FILES, PLANNED, LiveReaders, watched
from support.stack import Stack
from support.waiting import wait_until

from seamline.connectors.iceberg.virtual import END_KEY
from seamline.gateway.iceberg_rest.routes import SESSIONS_HEADER

pytestmark = [pytest.mark.integration, pytest.mark.spark]
COLUMNS = "id bigint, text varchar"
MODES = pytest.mark.parametrize("mode", [FILES, PLANNED])


@pytest.fixture(scope="module")
def readers(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveReaders]:
    with watched(LiveReaders(stack, tmp_path_factory.mktemp("live"))) as running:
        yield running


def records(*ids: int) -> list[dict[str, Any]]:
    return [{"id": i, "text": f"t{i % 5}"} for i in ids]


def unified(stack: Stack, name: str, cold: int, hot: int, **options: Any) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS, **options)
    if cold:
        stack.produce(name, records(*range(cold)))
        stack.tier(name)
    stack.produce(name, records(*range(cold, cold + hot)))


class Producer:
    """Produces a few records at a time until the block ends."""

    def __init__(self, stack: Stack, name: str, start: int) -> None:
        self._stop = threading.Event()
        self._failure: BaseException | None = None

        def work() -> None:
            number = start
            try:
                while not self._stop.is_set():
                    stack.produce(name, records(*range(number, number + 10)))
                    number += 10
            except BaseException as error:  # noqa: BLE001 - reported when the block ends
                self._failure = error

        self._thread = threading.Thread(target=work)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._failure is None, self._failure


# --- Fresh -------------------------------------------------------------------------------------


@pytest.mark.one_in(prove=2)
@MODES
def test_spark_counts_what_was_acknowledged_a_moment_before(
    stack: Stack, readers: LiveReaders, name: str, mode: str
) -> None:
    unified(stack, name, cold=20, hot=0)
    for expected in range(21, 26):
        stack.produce(name, records(expected))
        assert readers.sql(f"SELECT count(*) FROM {mode}.default.{name}") == [(expected,)]


def test_pyiceberg_counts_what_was_acknowledged_a_moment_before(
    stack: Stack, readers: LiveReaders, name: str
) -> None:
    unified(stack, name, cold=0, hot=0)
    for expected in range(1, 20):
        stack.produce(name, records(expected))
        assert readers.load(name).scan().count() == expected


# --- One cut -----------------------------------------------------------------------------------


@pytest.mark.soak
@MODES
def test_a_self_join_sees_one_cut(stack: Stack, readers: LiveReaders, name: str, mode: str) -> None:
    unified(stack, name, cold=50, hot=50)
    table = f"{mode}.default.{name}"
    sql = f"""
        SELECT count(*), count(a.id), count(b.id), (SELECT count(*) FROM {table})
        FROM {table} AS a FULL OUTER JOIN {table} AS b
        ON a._kafka_partition = b._kafka_partition AND a._kafka_offset = b._kafka_offset
    """
    counts: list[int] = []
    with Producer(stack, name, 100):
        while len(counts) < 4 or counts[-1] == counts[0]:  # until some that came meanwhile are seen
            ((rows, left, right, alone),) = readers.sql(sql)
            assert rows == left == right == alone
            counts.append(rows)
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]


def test_every_load_is_exact_while_everything_moves(
    stack: Stack, readers: LiveReaders, name: str
) -> None:
    """Each load's rows are the offsets below its own end, once each."""
    unified(stack, name, cold=50, hot=50)
    tierer = threading.Thread(target=lambda: [stack.tier(name) for _ in range(3)])
    seen: set[int] = set()
    with Producer(stack, name, 100):
        tierer.start()
        while tierer.is_alive() or len(seen) < 10:
            table = readers.load(name)
            snapshot = table.current_snapshot()
            assert snapshot is not None
            assert snapshot.summary is not None
            seen.add(snapshot.snapshot_id)
            end = snapshot.summary.additional_properties.get(END_KEY)
            if end is None:
                continue  # everything happened to be tiered
            fields = ("_kafka_partition", "_kafka_offset")
            found = table.scan(selected_fields=fields).to_arrow()
            rows = sorted(zip(*(found[f].to_pylist() for f in fields), strict=True))
            ends = {int(p): e for p, e in json.loads(end).items()}
            assert rows == [(p, o) for p, e in sorted(ends.items()) for o in range(e)]
        tierer.join()


def test_a_statement_that_asks_again_gets_the_same_cut(
    stack: Stack, readers: LiveReaders, name: str
) -> None:
    """What an engine does in one statement, request by request."""
    unified(stack, name, cold=0, hot=5)
    client = readers.gateway.app.test_client()
    path = f"/iceberg/v1/lake/namespaces/default/tables/{name}"

    def get(query: str = "", token: str | None = None) -> Any:
        headers = {SESSIONS_HEADER: "1"} | ({"Authorization": f"Bearer {token}"} if token else {})
        answer = client.get(path + query, base_url="http://127.0.0.1", headers=headers)
        assert answer.status_code == 200
        return answer.json

    def cut(answer: Any) -> Any:
        return answer["metadata"]["current-snapshot-id"]

    first = get("?snapshots=all")
    stack.produce(name, records(6))
    again = get(token=first["config"]["token"])
    assert again["metadata-location"] == first["metadata-location"]
    fresh = get("?snapshots=all")
    assert cut(fresh) != cut(first)
    # the first statement still gets its own, and the second its own
    assert cut(get(token=first["config"]["token"])) == cut(first)
    assert cut(get(token=fresh["config"]["token"])) == cut(fresh)


# --- Planned scans -----------------------------------------------------------------------------


def written_bytes(readers: LiveReaders) -> int:
    return sum(path.stat().st_size for path in live_folder(readers).rglob("*.parquet"))


def test_only_what_is_asked_of_the_tail_is_written(
    stack: Stack, readers: LiveReaders, name: str
) -> None:
    unified(stack, name, cold=10, hot=3000)
    start = written_bytes(readers)
    found = readers.sql(f"SELECT sum(id) FROM {PLANNED}.default.{name} WHERE id = 1500")
    assert found == [(1500,)]
    planned = written_bytes(readers) - start
    assert readers.sql(f"SELECT sum(id) FROM {FILES}.default.{name} WHERE id = 1500") == found
    files = written_bytes(readers) - start - planned
    assert 0 < planned < files / 10


def test_a_plan_in_pages(stack: Stack, readers: LiveReaders, name: str) -> None:
    unified(stack, name, cold=60, hot=10, partitioning=("bucket(8, id)",))
    planning = readers.gateway.parts.iceberg.plans
    usual, planning._page_size = planning._page_size, 3
    try:
        table = readers.pyiceberg_planned.load_table(("default", name))
        found = table.scan(selected_fields=("id",)).to_arrow()
        assert readers.sql(f"SELECT count(*) FROM {PLANNED}.default.{name}") == [(70,)]
    finally:
        planning._page_size = usual
    assert sorted(found["id"].to_pylist()) == list(range(70))
    assert any(route.endswith("tasks") for _, route, _ in readers.watch.seen)


# --- Nothing changes ---------------------------------------------------------------------------


def live_folder(readers: LiveReaders) -> pathlib.Path:
    return pathlib.Path(readers.gateway.config.state_directory) / "live"


def data_files(folders: list[pathlib.Path]) -> set[pathlib.Path]:
    return {path for folder in folders for path in folder.rglob("*.parquet")}


@pytest.mark.soak
@MODES
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {t} SELECT * FROM {t}",
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} ADD COLUMN more bigint",
        "DROP TABLE {t}",
        "CREATE TABLE {t}_more (id bigint) USING iceberg",
    ],
)
def test_a_write_through_spark_is_refused(
    stack: Stack, readers: LiveReaders, name: str, mode: str, statement: str
) -> None:
    unified(stack, name, cold=5, hot=5)
    before = stack.load(name).state
    folders = [pathlib.Path(before.location.removeprefix("file://")), live_folder(readers)]
    assert readers.sql(f"SELECT count(*) FROM {mode}.default.{name}") == [(10,)]
    files = data_files(folders)
    with pytest.raises(Exception, match=r"does not support endpoint|read-only|only-reads"):
        readers.sql(statement.format(t=f"{mode}.default.{name}"))
    assert stack.load(name).state == before
    # with planned scans Spark does not get as far as asking, and then keeps what it has written
    assert data_files(folders) == files or (mode == PLANNED and data_files(folders) > files)
    assert readers.sql(f"SELECT count(*) FROM {mode}.default.{name}") == [(10,)]


def test_a_write_through_pyiceberg_is_refused(
    stack: Stack, readers: LiveReaders, name: str
) -> None:
    unified(stack, name, cold=5, hot=5)
    before = stack.load(name).state
    table = readers.load(name)
    update = table.update_schema().add_column("more", LongType())
    with pytest.raises(ForbiddenError, match="read-only"):
        update.commit()
    assert stack.load(name).state == before


def test_no_client_collects_garbage_among_the_files_of_others(
    stack: Stack, readers: LiveReaders, name: str
) -> None:
    """The files of the tails are in one folder, and a virtual snapshot names only some of them."""
    unified(stack, name, cold=5, hot=5)
    held = readers.load(name)
    stack.produce(name, records(10, 11))
    with pytest.raises(Exception, match="GC is disabled"):
        readers.sql(f"CALL {FILES}.system.remove_orphan_files(table => 'default.{name}')")
    assert held.scan().to_arrow().num_rows == 10


def test_metadata_is_where_readers_look_for_it(
    stack: Stack, readers: LiveReaders, name: str
) -> None:
    """Under the location the table has there, and named as a version, though not in the table."""
    unified(stack, name, cold=5, hot=5)
    table = readers.load(name)
    location = table.location()
    assert not location.startswith(stack.load(name).state.location)
    folder, _, file = table.metadata_location.rpartition("/")
    assert folder == f"{location}/metadata"
    version, _, rest = file.partition("-")
    assert version.isdigit()
    assert uuid.UUID(rest.removesuffix(".metadata.json")).hex in rest.replace("-", "")


# --- For as long as the lease ------------------------------------------------------------------


def test_tail_files_are_written_once(stack: Stack, readers: LiveReaders, name: str) -> None:
    unified(stack, name, cold=0, hot=200)
    first = {row["file_path"] for row in readers.load(name).inspect.files().to_pylist()}
    stack.produce(name, records(*range(200, 210)))
    second = readers.load(name)
    paths = {row["file_path"] for row in second.inspect.files().to_pylist()}
    assert first < paths
    assert second.scan().count() == 210
    for i in range(12):  # many small ones are merged
        stack.produce(name, records(300 + i))
        last = readers.load(name)
    assert len(last.inspect.files()) <= 9
    assert last.scan().count() == 222


@pytest.mark.soak
def test_a_cut_outlives_tiering_and_a_restart_of_the_gateway(
    stack: Stack, tmp_path: pathlib.Path, name: str
) -> None:
    unified(stack, name, cold=10, hot=10)
    first = LiveReaders(stack, tmp_path)
    try:
        snapshot = first.load(name).current_snapshot()
        assert snapshot is not None
    finally:
        first.close()
    stack.tier(name)
    stack.produce(name, records(*range(20, 30)))
    second = LiveReaders(stack, tmp_path)
    try:
        ways = second.every_way(name, snapshot.snapshot_id, ["id", "text"])
        assert {way: len(rows) for way, rows in ways.items()} == dict.fromkeys(ways, 20)
        assert second.load(name).scan().count() == 30
    finally:
        second.close()


def test_what_nobody_asks_for_is_removed(stack: Stack, tmp_path: pathlib.Path, name: str) -> None:
    unified(stack, name, cold=10, hot=10)
    readers = LiveReaders(stack, tmp_path, lease_seconds=2)
    try:
        tables = readers.gateway.parts.iceberg.catalog.tables
        old = readers.load(name).current_snapshot()
        assert old is not None
        live = tmp_path / "live"
        assert list(live.rglob("*.parquet"))
        wait_until(lambda: tables.collect() or not list(live.rglob("*.parquet")), 30, "collected")
        wait_until(
            lambda: tables.collect() == 0 and not list(live.rglob("*.parquet")), 30, "all removed"
        )
        assert not list(live.rglob("*.avro"))
        table = readers.load(name)
        assert table.scan().count() == 20
        new = table.current_snapshot()
        assert new is not None
        assert new.snapshot_id == old.snapshot_id  # the same rows have the same id
        assert not readers.watch.wrong, readers.watch.wrong
    finally:
        readers.close()
