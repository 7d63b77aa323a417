"""Goal: the DB-API and the command do what they promise on a real gateway, with all that it runs.

Method: the real client over HTTP, also in an interpreter that has nothing but the base install; the
real command in a process of its own, ended by real signals. A statement that was ended must be gone
from its engine, too: a short one that follows gets the engine's cores.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import decimal
import importlib.util
import io
import json
import os
import pathlib
import runpy
import signal
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import programs
from support.gateway import Gateway
from support.sources import ROOT
from support.stack import Stack
from support.waiting import wait_until

import seamline
from seamline.connectors.spark.sessions import open_session
from seamline.errors import (
    CANCELED,
    DEADLINE_EXCEEDED,
    INVALID_PARAMETERS,
    MISSING_EXTRA,
    TYPE_MISMATCH,
)
from seamline.gateway.access.rights import Principal
from seamline.gateway.statements.statement import State, Statement, StatementRequest

pytestmark = pytest.mark.integration

COLUMNS = """
    id bigint, ok boolean, price decimal(20, 4), ratio double, name varchar, data varbinary,
    uid uuid, day date, at timestamp with time zone, then timestamp,
    tags array(varchar), nested row(a bigint, b varchar), counts map(varchar, bigint)
"""
RECORD = {
    "id": 1, "ok": True, "price": "12345.6789", "ratio": 0.5, "name": "a,\"b\"\nc", "data": "AAH/",
    "uid": "6f9619ff-8b86-d011-b42d-00c04fc964ff", "day": "2024-02-29",
    "at": "2024-02-29T01:02:03.123456Z", "then": "2024-02-29T01:02:03", "tags": ["x", None],
    "nested": {"a": 1, "b": "y"}, "counts": {"k": 1},
}  # fmt: skip
ROW = (
    1, True, decimal.Decimal("12345.6789"), 0.5, "a,\"b\"\nc", b"\x00\x01\xff",
    uuid.UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff"), datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 123456, datetime.UTC),
    datetime.datetime(2024, 2, 29, 1, 2, 3), ["x", None], {"a": 1, "b": "y"}, {"k": 1},
)  # fmt: skip
ROWS = 400
"""Statements here never end by themselves; how busy this machine is must not matter."""


@pytest.fixture(scope="module")
def table(stack: Stack) -> str:
    """A table of one row with a value of each kind, one of nulls, and rows with an id alone."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    stack.produce(name, [RECORD, {"id": 2}, *({"id": i} for i in range(3, ROWS + 1))])
    return name


@pytest.fixture
def connection(gateway: Gateway) -> Iterator[seamline.Connection]:
    with gateway.connect() as connection:
        yield connection


@pytest.fixture
def cursor(connection: seamline.Connection) -> Iterator[seamline.Cursor]:
    with connection.cursor() as cursor:
        yield cursor


def endless(table: str) -> str:
    """A statement that takes far longer than any test.

    One row of its outermost scan does not: only between those does Spark look for a cancel.
    """
    return (
        f"SELECT count(*) FROM {table} a, {table} b, {table} c, {table} d"
        " WHERE a.id + b.id + c.id + d.id = -1 AND d.id <= 200"
    )


# --- DB-API 2.0 ----------------------------------------------------------------------------------


def test_description_and_rows(cursor: seamline.Cursor, table: str) -> None:
    before: object = cursor.description
    assert (before, cursor.rowcount) == (None, -1)
    assert cursor.execute(f"SELECT * FROM {table} WHERE id < 3 ORDER BY id") is cursor
    assert cursor.description is not None
    assert [column[:2] for column in cursor.description] == [
        ("id", "bigint"), ("ok", "boolean"), ("price", "decimal(20,4)"), ("ratio", "double"),
        ("name", "varchar"), ("data", "varbinary"), ("uid", "uuid"), ("day", "date"),
        ("at", "timestamp(6) with time zone"), ("then", "timestamp(6)"), ("tags", "array(varchar)"),
        ("nested", "row(a bigint, b varchar)"), ("counts", "map(varchar, bigint)"),
    ]  # fmt: skip
    assert all(len(column) == 7 for column in cursor.description)
    assert cursor.rowcount == 2
    assert cursor.fetchall() == [ROW, (2, *[None] * 12)]
    assert cursor.fetchall() == []


def test_fetching(cursor: seamline.Cursor, table: str) -> None:
    sql = f"SELECT id FROM {table} ORDER BY id"
    cursor.execute(sql)
    assert cursor.rowcount == ROWS
    assert cursor.fetchone() == (1,)
    assert cursor.fetchmany(0) == []
    assert cursor.fetchmany(2) == [(2,), (3,)]
    cursor.arraysize = 5
    assert cursor.fetchmany() == [(i,) for i in range(4, 9)]
    assert next(cursor) == (9,)
    assert [row[0] for row in cursor] == [*range(10, ROWS + 1)]
    assert cursor.fetchone() is None
    assert cursor.fetchmany(10) == []
    assert cursor.execute(sql).fetchone() == (1,)  # a cursor can be used again


def test_a_result_of_many_chunks(cursor: seamline.Cursor, table: str) -> None:
    cursor.execute(f"SELECT a.id, b.id FROM {table} a, {table} b")
    assert cursor.rowcount == ROWS * ROWS
    pairs = {(i, j) for i in range(1, ROWS + 1) for j in range(1, ROWS + 1)}
    rows = cursor.fetchmany(70_000) + cursor.fetchall()
    assert len(rows) == len(pairs)
    assert set(rows) == pairs


def test_parameters(cursor: seamline.Cursor, table: str) -> None:
    values = [v for v in ROW if not isinstance(v, list | dict)] + [None, -7, float("nan")]
    cursor.execute(f"SELECT {', '.join('?' * len(values))}", values)
    assert repr(cursor.fetchone()) == repr(tuple(values))
    where = "id = :id AND name = :name AND at >= :at AND contains(:tags, 'q')"
    named = {"id": 1, "name": ROW[4], "at": ROW[8], "tags": ["p", "q"]}
    assert cursor.execute(f"SELECT id FROM {table} WHERE {where}", named).fetchall() == [(1,)]
    injected = "x' OR 'a' = 'a"
    cursor.execute(f"SELECT id FROM {table} WHERE name = ?", [injected])
    assert cursor.fetchall() == []
    assert cursor.executemany("SELECT ? + 1", [[1], [2]]).fetchall() == [(3,)]


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT ?", []),
        ("SELECT ?", [1, 2]),
        ("SELECT ?", {"a": 1}),
        ("SELECT :a", {"b": 1}),
        ("SELECT :a", [1]),
        ("SELECT :a, ?", {"a": 1}),
        ("SELECT 1", [1]),
        ("SELECT ?", [object()]),
    ],
)
def test_parameters_that_do_not_fit(cursor: seamline.Cursor, sql: str, parameters: Any) -> None:
    with pytest.raises(seamline.ProgrammingError) as caught:
        cursor.execute(sql, parameters)
    assert caught.value.code is INVALID_PARAMETERS


def test_a_failed_statement_leaves_a_usable_cursor_without_a_result(
    cursor: seamline.Cursor, table: str
) -> None:
    cursor.execute("SELECT 1")
    with pytest.raises(seamline.ProgrammingError) as caught:
        cursor.execute(f"SELECT id + name FROM {table}")
    assert caught.value.code is TYPE_MISMATCH
    assert caught.value.query_id
    assert cursor.description is None
    with pytest.raises(seamline.InterfaceError):
        cursor.fetchone()
    assert cursor.execute("SELECT 2").fetchone() == (2,)


def test_what_is_closed_is_closed(gateway: Gateway) -> None:
    connection = gateway.connect()
    closed, open_ = connection.cursor(), connection.cursor()
    for cursor in (closed, open_):
        cursor.execute("SELECT 1")
    closed.close()
    closed.close()
    connection.commit()
    connection.rollback()
    assert open_.fetchone() == (1,)
    connection.close()
    assert connection.closed
    for use in (
        closed.fetchone, closed.fetchall, closed.fetchmany, closed.fetch_arrow_table,
        lambda: next(closed), lambda: iter(closed), lambda: closed.execute("SELECT 1"),
        open_.fetchone, lambda: open_.execute("SELECT 1"), connection.cursor,
        lambda: connection.execute("SELECT 1"),
    ):  # fmt: skip
        with pytest.raises(seamline.InterfaceError, match="closed"):
            use()
    open_.close()


def test_receipt_and_token(stack: Stack, connection: seamline.Connection, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint")
    stack.produce(name, [{"id": 1}])
    sql = f"SELECT count(*) FROM {name}"
    first = connection.execute(sql)
    assert first.fetchone() == (1,)
    (table,) = first.receipt["tables"]
    assert table["table"] == ["lake", "default", name]
    assert (table["boundary"], table["end"], table["rows_hot"]) == ({"0": 0}, {"0": 1}, 1)
    assert datetime.datetime.fromisoformat(first.receipt["as_of"]).tzinfo is not None
    stack.produce(name, [{"id": 2}])
    assert connection.execute(sql).fetchone() == (2,)
    again = connection.execute(sql, token=first.token)
    assert again.fetchone() == (1,)
    assert connection.execute(f"{sql} AT TOKEN '{first.token}'").fetchone() == (1,)
    acknowledged = seamline.write_token({0: 1}, name)
    assert connection.execute(sql, after=acknowledged).fetchone() == (2,)


# --- Arrow ---------------------------------------------------------------------------------------


def test_arrow(cursor: seamline.Cursor, table: str) -> None:
    sql = f"SELECT * FROM {table} ORDER BY id"
    whole = cursor.execute(sql).fetch_arrow_table()
    assert whole.num_rows == ROWS
    assert whole.column("price").type == pa.decimal128(20, 4)
    assert whole.column("at").type == pa.timestamp("us", "UTC")
    assert whole.column("id").to_pylist() == [*range(1, ROWS + 1)]
    assert cursor.fetch_arrow_table().equals(whole)  # from the first row, whatever was fetched
    assert cursor.fetchall_arrow().equals(whole)
    assert cursor.fetchmany_arrow(3).equals(whole.slice(0, 3))
    assert pa.table(cursor).equals(whole)
    batches = list(cursor.fetch_record_batch())
    assert pa.Table.from_batches(batches).equals(whole)
    assert list(cursor.fetch_df()["id"]) == [*range(1, ROWS + 1)]
    empty = cursor.execute(f"{sql} LIMIT 0").fetch_arrow_table()
    assert (empty.num_rows, empty.schema) == (0, whole.schema)
    chunks = cursor.execute(f"SELECT a.id FROM {table} a, {table} b").fetch_arrow_table()
    assert chunks.num_rows == ROWS * ROWS


# --- Without pyarrow -----------------------------------------------------------------------------

WITHOUT_ARROW = """
import sys
sys.path.insert(0, {folder!r})
import importlib.util, seamline
assert importlib.util.find_spec("pyarrow") is None
connection = seamline.connect({url!r})
cursor = connection.cursor()
print(repr(cursor.execute({sql!r}).fetchall()))
print(cursor.execute({many!r}).rowcount, len(cursor.fetchall()))
try:
    cursor.fetch_arrow_table()
except seamline.InterfaceError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def base_install(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the client and the two libraries of the base install."""
    folder = tmp_path_factory.mktemp("base") / "site"
    runpy.run_path(str(ROOT / "tests" / "packaging" / "link_farm.py"))["link"](folder)
    for library in ("click", "urllib3"):
        spec = importlib.util.find_spec(library)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        (folder / library).symlink_to(spec.submodule_search_locations[0])
    return folder


def test_without_pyarrow_the_same_values(
    gateway: Gateway, connection: seamline.Connection, table: str, base_install: pathlib.Path
) -> None:
    sql = f"SELECT *, _kafka_timestamp, _kafka_key FROM {table} ORDER BY id LIMIT 3"
    many = f"SELECT a.id FROM {table} a, {table} b"
    script = WITHOUT_ARROW.format(folder=str(base_install), url=gateway.url, sql=sql, many=many)
    done = programs.run([sys.executable, "-I", "-S", "-c", script], {})
    assert done.returncode == 0, done.stderr
    rows, counts, error, hint = done.stdout.splitlines()
    assert rows == repr(connection.execute(sql).fetchall())
    assert counts == f"{ROWS * ROWS} {ROWS * ROWS}"
    assert error == "MISSING_EXTRA: this needs pyarrow"
    assert hint == "hint: pip install 'seamline[arrow]'"


# --- The command ---------------------------------------------------------------------------------


def query(gateway: Gateway, stack: Stack, *arguments: str, **options: Any) -> Any:
    environment = {**stack.environment, "SEAMLINE_URL": gateway.url}
    return programs.run(programs.seamline("query", *arguments), environment, **options)


def test_command_formats(gateway: Gateway, stack: Stack, table: str, scratch: pathlib.Path) -> None:
    sql = f"SELECT * FROM {table} WHERE id < 3 ORDER BY id"
    text = query(gateway, stack, sql)
    assert (text.returncode, text.stdout.count("\n")) == (0, 6)
    lines = text.stdout.splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[3].startswith('│  1 │ true │ 12345.6789 │   0.5 │ a,"b"·c │ 0x0001ff │ 6f9619ff')
    assert lines[4].startswith("│  2 │ ∅    │          ∅ │")
    assert text.stderr.startswith("2 rows · 0 cold + 400 hot read · duckdb · as of ")
    assert text.stderr.count("\n") == 1
    table_csv = query(gateway, stack, sql, "--format", "csv", "--quiet")
    head, first, second = csv.reader(io.StringIO(table_csv.stdout))
    assert head[:5] == ["id", "ok", "price", "ratio", "name"]
    assert first[:6] == ["1", "true", "12345.6789", "0.5", 'a,"b"\nc', "AAH/"]
    assert first[8:] == [
        "2024-02-29T01:02:03.123456Z", "2024-02-29T01:02:03.000000",
        '["x", null]', '{"a": 1, "b": "y"}', '{"k": 1}',
    ]  # fmt: skip
    assert second == ["2", *[""] * 12]
    assert table_csv.stderr == ""
    records = query(gateway, stack, sql, "--format", "ndjson").stdout.splitlines()
    assert json.loads(records[0])["nested"] == {"a": 1, "b": "y"}
    assert json.loads(records[0])["price"] == "12345.6789"
    assert json.loads(records[1]) == {**dict.fromkeys(head), "id": 2}
    file = scratch / "result.parquet"
    done = query(gateway, stack, sql, "--format", "parquet", "--output", str(file))
    assert (done.returncode, done.stdout) == (0, "")
    with gateway.connect() as connection:
        assert pq.read_table(file).equals(connection.execute(sql).fetch_arrow_table())


def test_command_options(gateway: Gateway, stack: Stack, table: str, scratch: pathlib.Path) -> None:
    file = scratch / "out.csv"
    sql = f"SELECT id FROM {table} WHERE name = ? ORDER BY id"
    arguments = ("-p", str(ROW[4]), "--format", "csv", "-o", str(file))
    done = query(gateway, stack, sql, *arguments)
    assert (done.returncode, done.stdout, file.read_text()) == (0, "", "id\n1\n"), done.stderr
    limited = query(gateway, stack, f"SELECT id FROM {table}", "--limit", "2", "--format", "ndjson")
    assert limited.stdout.count("\n") == 2
    assert "cut off" in limited.stderr
    bare = query(gateway, stack, table, "--schema", "default", "--format", "csv")
    assert bare.returncode == 1  # a table's name is not a statement
    other = query(gateway, stack, "SELECT 7/2 AS x", "--dialect", "mysql", "--format", "csv", "-q")
    assert other.stdout == "x\n3.5\n"


@pytest.mark.parametrize("format_", ["parquet", "csv"])
def test_command_that_cannot_write(
    gateway: Gateway, stack: Stack, scratch: pathlib.Path, format_: str
) -> None:
    path = str(scratch / "missing" / "out")
    done = query(gateway, stack, "SELECT 1", "--format", format_, "-o", path)
    assert done.returncode == 1
    message = f"error: INVALID_ARGUMENT: {path} cannot be written: No such file or directory"
    assert done.stderr.splitlines()[0] == message


def test_command_reads_the_statement_from_standard_input(
    gateway: Gateway, stack: Stack, scratch: pathlib.Path
) -> None:
    file = scratch / "statement.sql"
    file.write_text("SELECT 1 AS a\n;\n")
    with file.open() as source:
        done = query(gateway, stack, "-", "--format", "csv", "-q", stdin=source)
    assert (done.stdout, done.stderr) == ("a\n1\n", "")


def test_command_without_pyarrow(gateway: Gateway, base_install: pathlib.Path) -> None:
    start = (
        f"import sys; sys.path.insert(0, {str(base_install)!r}); from seamline.cli import main; "
    )

    def run(*arguments: str) -> Any:
        code = f"{start} main({['query', 'SELECT 1 AS a', '--url', gateway.url, *arguments]!r})"
        return programs.run([sys.executable, "-I", "-S", "-c", code], {})

    assert run("--format", "csv", "-q").stdout == "a\n1\n"
    done = run("--format", "parquet", "-o", os.devnull)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"error: {MISSING_EXTRA.name}: this needs pyarrow",
        "hint: pip install 'seamline[arrow]'",
    ]


@pytest.mark.parametrize(
    "command", [["doctor"], ["audit", "t"], ["query", "--embedded", "SELECT 1"]]
)
def test_what_needs_the_gateway_says_how_to_get_it(
    command: list[str], base_install: pathlib.Path
) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(base_install)!r}); from seamline.cli import main; "
        f"main({command!r})"
    )
    done = programs.run([sys.executable, "-I", "-S", "-c", code], {})
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {MISSING_EXTRA.name}: "), done.stderr
    assert done.stderr.endswith("hint: pip install 'seamline[gateway]'\n")


# --- Cancel and deadline -------------------------------------------------------------------------

ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.spark)]


def assert_cores_are_free(gateway: Gateway, engine: str, table: str) -> None:
    """A short statement gets through; Spark has two cores, which the one before has had.

    A cancel that meets Spark between two stages leaves the one that was about to begin: it runs to
    its end, which takes half a minute here.
    """
    assert gateway.rows(f"SELECT count(*) FROM {table}", engine, timeout_s=120.0) == [(ROWS,)]


@pytest.fixture
def warm(gateway: Gateway, table: str, engine: str) -> None:
    """The engine has run a statement over the table."""
    gateway.rows(f"SELECT count(*) FROM {table}", engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_cancel_from_another_thread(
    gateway: Gateway, connection: seamline.Connection, table: str, engine: str, warm: None
) -> None:
    cursor = connection.cursor()
    ended: list[seamline.Error] = []

    def execute() -> None:
        try:
            cursor.execute(endless(table), engine=engine)
        except seamline.Error as error:
            ended.append(error)

    thread = threading.Thread(target=execute)
    thread.start()
    statement = gateway.running(about=table)
    cursor.cancel()
    thread.join()
    (error,) = ended
    assert error.code is CANCELED
    assert statement.state is State.CANCELED
    assert_cores_are_free(gateway, engine, table)
    assert cursor.execute("SELECT 1").fetchone() == (1,)
    cursor.cancel()  # of what has ended, does nothing
    assert cursor.fetchall() == []


@pytest.mark.parametrize(
    "engine", ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.prove])]
)
def test_deadline(
    gateway: Gateway, connection: seamline.Connection, table: str, engine: str, warm: None
) -> None:
    with pytest.raises(seamline.ProgrammingError) as caught:
        connection.execute(endless(table), engine=engine, timeout=1.5)
    assert caught.value.code is DEADLINE_EXCEEDED
    assert "1.5 s" in caught.value.message
    assert_cores_are_free(gateway, engine, table)


@pytest.mark.one_in(test=3, prove=3)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "delay_s",
    [0.0, 0.05, 0.15, 0.3, *(pytest.param(late, marks=pytest.mark.prove) for late in (0.6, 1.0))],
)
def test_cancel_at_any_moment(
    gateway: Gateway, table: str, engine: str, delay_s: float, warm: None
) -> None:
    """While it is planned, prepared, sent, started: none is too early to be heard."""
    request = StatementRequest(endless(table), engine=engine)
    statement = gateway.service.submit(request, Principal("tests"))
    statement.wait(delay_s)
    statement.cancel()
    assert statement.wait(60) is State.CANCELED
    assert_cores_are_free(gateway, engine, table)


@pytest.mark.spark
def test_what_is_canceled_on_spark_is_canceled_again_under_the_same_id(stack: Stack) -> None:
    """Jobs that a statement begins a moment after it was interrupted have its id, too."""
    from pyspark.errors.exceptions.connect import ParseException, SparkConnectException

    session = open_session(stack.spark_url)
    session.range(1).collect()
    session.client.is_repeating = True

    def fails_as_it_must() -> bool:
        """Not for its id, which is free once what had it was released."""
        try:
            session.sql("CANCEL")
        except ParseException:
            return True
        except SparkConnectException as error:
            assert "OPERATION_ALREADY_EXISTS" in str(error)
        return False

    before = session.client.operation_id
    for _ in range(2):
        wait_until(fails_as_it_must, what="the operation to run, and to fail")
    assert session.client.operation_id == before
    session.client.close()


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("early", [True, False])
def test_ctrl_c(
    gateway: Gateway, stack: Stack, table: str, engine: str, early: bool, warm: None,
    scratch: pathlib.Path,
) -> None:  # fmt: skip
    """SIGINT as soon as the gateway has the statement, and once the client waits for it."""
    environment = {**stack.environment, "SEAMLINE_URL": gateway.url}
    command = programs.seamline("query", endless(table), "--engine", engine)
    log = scratch / "log"
    with programs.running(command, environment, log) as process:
        statement = gateway.running(about=table)
        if not early:
            statement.wait(1.0)
        process.send_signal(signal.SIGINT)
        assert statement.wait(60) is State.CANCELED
        assert process.wait(60) == 130
    assert log.read_text().strip() == "canceled"
    assert_cores_are_free(gateway, engine, table)


def test_ctrl_c_in_the_middle_of_a_program(
    gateway: Gateway, connection: seamline.Connection, table: str
) -> None:
    """`execute` in the main thread of a notebook: KeyboardInterrupt, and nothing goes on."""

    def interrupt() -> None:
        statement = gateway.running(about=table)
        found.append(statement)
        signal.raise_signal(signal.SIGINT)

    found: list[Statement] = []
    cursor = connection.cursor()
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        cursor.execute(endless(table))
    thread.join()
    assert found[0].wait(60) is State.CANCELED
    with contextlib.closing(cursor):
        assert cursor.execute("SELECT 1").fetchone() == (1,)
