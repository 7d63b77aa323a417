"""Goal: rows are counted without an engine only where metadata proves how many there are.

Method: tables as other writers leave them, with deletes of every kind, and metadata that states too
little or contradicts itself. Each is counted as the gateway chooses and by DuckDB: they must agree.
Histories of tables with a tail are counted by `test_warm_gateways.py`.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

import pyarrow as pa
import pytest
from support import offline
from support.gateway import Gateway, statement_rows
from support.handmade import EQUALITY, POSITIONS, File, Handmade, column, with_ids

from seamline.errors import COLD_FILE_MISSING, SeamlineError
from seamline.gateway.access.rights import Principal
from seamline.gateway.statements.statement import State, StatementRequest

COLUMNS = [column(1, "id", "long"), column(2, "name", "string")]
IDS = {"id": 1, "name": 2}


@pytest.fixture
def gateway(tmp_path: pathlib.Path) -> Iterator[Gateway]:
    with offline.running(tmp_path) as running:
        yield running


def counted(gateway: Gateway, table: str) -> tuple[str, int]:
    """What counted a table's rows, and how many there are."""
    sql = f"SELECT count(*) FROM {table}"
    statement = gateway.statement(sql)
    assert statement.error is None, statement.error
    rows = statement_rows(statement)
    assert rows == gateway.rows(sql, "duckdb")
    assert statement.receipt["rows_cold"] + statement.receipt["rows_hot"] >= rows[0][0]
    return statement.receipt["engine"], rows[0][0]


def rows(count: int, first: int = 0) -> pa.Table:
    """Rows whose ids go up."""
    ids = pa.array(range(first, first + count), pa.int64())
    return with_ids(pa.table({"id": ids, "name": ids.cast(pa.string())}), IDS)


def test_rows_are_counted_by_metadata_that_agrees(gateway: Gateway, tmp_path: pathlib.Path) -> None:
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    for number, (stated, what) in enumerate(
        [(5, "gateway"), (None, "duckdb"), (4, "duckdb"), (6, "duckdb"), (0, "duckdb")]
    ):
        for version in (1, 2, 3):
            name = f"t{number}_{version}"
            made = Handmade(
                tmp_path / "warehouse/default" / name, [COLUMNS], version, stated_rows=stated
            )
            location = made.write([File(rows(3)), File(rows(2, 3), snapshot=2)])
            catalog.register_table(("default", name), location)
            assert counted(gateway, name) == (what, 5)


def test_manifests_without_a_list_are_counted_by_their_entries(
    gateway: Gateway, tmp_path: pathlib.Path
) -> None:
    made = Handmade(tmp_path / "warehouse/default/t", [COLUMNS], 1, embedded=True, stated_rows=3)
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    catalog.register_table(("default", "t"), made.write([File(rows(3))]))
    assert counted(gateway, "t") == ("gateway", 3)


@pytest.mark.parametrize("kind", ["position", "vector", "equality"])
def test_deletes_are_applied(gateway: Gateway, tmp_path: pathlib.Path, kind: str) -> None:
    made = Handmade(
        tmp_path / "warehouse/default/t", [COLUMNS], 3 if kind == "vector" else 2, stated_rows=4
    )
    data = made.new_path()
    keys = with_ids(pa.table({"id": pa.array([1, 2], pa.int64())}), IDS)
    at = pa.table({"pos": pa.array([0, 2], pa.int64())})
    if kind == "equality":
        gone = File(keys, EQUALITY, equality_ids=(1,), snapshot=2)
    else:
        gone = File(at, POSITIONS, snapshot=2, of=str(data))
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    catalog.register_table(("default", "t"), made.write([File(rows(4), path=str(data)), gone]))
    assert counted(gateway, "t") == ("duckdb", 2)


def test_commits_of_other_writers_are_counted(gateway: Gateway) -> None:
    gateway.rows("CREATE TABLE t (id bigint, name varchar)")
    assert counted(gateway, "t") == ("gateway", 0)
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    for number in range(3):
        table = catalog.load_table(("default", "t"))
        table.append(rows(4, 4 * number).cast(table.schema().as_arrow()))
    assert counted(gateway, "t") == ("gateway", 12)
    first = catalog.load_table(("default", "t")).metadata.snapshots[1].snapshot_id
    assert counted(gateway, f"t FOR VERSION AS OF {first}")[1] in {4, 8}
    catalog.load_table(("default", "t")).delete("id < 2")  # rewrites a file
    assert counted(gateway, "t") == ("gateway", 10)
    catalog.load_table(("default", "t")).delete("id < 4")
    assert counted(gateway, "t") == ("gateway", 8)


def test_rows_of_a_tail_are_those_decoded(tmp_path: pathlib.Path) -> None:
    world = offline.MemoryWorld(tmp_path)
    with contextlib.closing(world.gateway) as gateway:
        world.memory.create_topic("one", 2)
        world.rows("CREATE TABLE t (id bigint) WITH (topic = 'one', on_error = 'skip')")
        for number, value in enumerate([b'{"id": 1}', b"bad", b'{"id": null}', None, b'{"id": 4}']):
            world.memory.produce("one", number % 2, value)
        assert counted(gateway, "t")[0] == "gateway"
        assert counted(gateway, "t")[1] == counted(gateway, '"t$hot"')[1]
        upsert = "mode = 'upsert', primary_key = ARRAY['id'], key = 'id'"
        world.rows(f"CREATE TABLE u (id bigint) WITH (topic = 'one', on_error = 'skip', {upsert})")
        assert counted(gateway, "u")[0] == "duckdb"


def test_who_asks_for_an_engine_gets_it(gateway: Gateway) -> None:
    gateway.rows("CREATE TABLE t (id bigint)")
    for sql in ("SELECT count(*) FROM t", "SELECT 1", "SELECT 'a' AS x, NULL, 1.5, -1, TRUE"):
        chosen, other = gateway.statement(sql), gateway.statement(sql, "duckdb")
        assert chosen.receipt["engine"] == "gateway"
        assert other.receipt["engine"] == "duckdb"
        assert chosen.output == other.output
        assert statement_rows(chosen) == statement_rows(other)
        assert chosen.spool is not None
        assert other.spool is not None
        assert chosen.spool.schema == other.spool.schema


def test_no_process_counts(gateway: Gateway, tmp_path: pathlib.Path) -> None:
    gateway.rows("CREATE TABLE t (id bigint)")
    table = gateway.parts.connections.catalog("lake").pyiceberg.load_table(("default", "t"))
    table.append(pa.table({"id": pa.array([1, 2, 3], pa.int64())}))
    for file in (tmp_path / "warehouse").rglob("*.parquet"):
        file.unlink()
    assert gateway.rows("SELECT count(*) FROM t") == [(3,)]
    with pytest.raises(SeamlineError) as missing:
        gateway.rows("SELECT max(id) FROM t")
    assert missing.value.code is COLD_FILE_MISSING


def test_literals_that_come_again_are_answered_by_the_thread_that_asks(gateway: Gateway) -> None:
    asked = [("SELECT 7", "auto"), ("SELECT 7", "auto"), ("SELECT 7", "duckdb")]
    states = []
    for sql, engine in asked:
        request = StatementRequest(sql, engine=engine)
        statement = gateway.service.submit(request, Principal("tests"))
        states.append(statement.state is State.SUCCEEDED)
        statement.wait(60)
        assert statement.receipt["engine"] == ("duckdb" if engine == "duckdb" else "gateway")
        assert statement_rows(statement) == [(7,)]
    assert states[1]
