"""Goal: whatever goes wrong is ONE named error with a hint, the same by every road.

Method: each failure is provoked for real, on a real gateway, three times: by a bare HTTP request,
by the DB-API, and by the command in a process of its own. All three must give the same name and
hint, with the status and the class of that name, exit code 1, and two lines on standard error.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import socket
import sqlite3
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import urllib3
from support import programs
from support.gateway import Gateway
from support.stack import Stack
from support.waiting import wait_until

import seamline
from seamline.dbapi.errors import class_of
from seamline.errors import ERRORS, INTERNAL_ERROR, SeamlineError
from seamline.gateway.config.model import AccessToken, AuthConfig

pytestmark = pytest.mark.integration

ROWS = 300
SECRET = "a-secret-of-the-test"


@dataclasses.dataclass(frozen=True)
class Failure:
    """The failure as one route reports it."""

    code: str
    message: str
    hint: str


# --- Three roads ---------------------------------------------------------------------------------


def by_http(url: str, sql: str, options: Mapping[str, Any], credential: str | None) -> Failure:
    """A bare request, waited for to the end."""
    headers = {"Authorization": f"Bearer {credential}"} if credential else {}
    body = {"statement": sql, "wait_timeout": 60, **options}
    answer = urllib3.request(
        "POST", f"{url}/api/v1/statements", json=body, headers=headers, retries=False, timeout=90
    )
    error = answer.json()["error"]
    code = ERRORS[error["code"]]
    assert answer.status == code.http_status
    assert (error["kind"], error["retriable"]) == (code.kind.value, code.retriable)
    return Failure(error["code"], error["message"], error["hint"])


def by_dbapi(url: str, sql: str, options: Mapping[str, Any], credential: str | None) -> Failure:
    with seamline.connect(url, access_token=credential) as connection:
        with pytest.raises(seamline.Error) as caught:
            connection.execute(sql, **options)
        assert class_of(caught.value) is type(caught.value)
        return Failure(caught.value.code.name, caught.value.message, caught.value.hint)


def by_command(url: str, sql: str, options: Mapping[str, Any], credential: str | None) -> Failure:
    arguments = [part for key, value in options.items() for part in (f"--{key}", str(value))]
    environment = {**command_environment(), "SEAMLINE_URL": url}
    if credential is not None:
        environment["SEAMLINE_TOKEN"] = credential
    return printed(programs.run(programs.seamline("query", sql, *arguments), environment))


def command_environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("SEAMLINE_", "SPARK_"))}


def printed(done: subprocess.CompletedProcess[str]) -> Failure:
    """The failure a command printed: what, the place if there is one, the hint; no rows."""
    assert done.returncode in {1, 3}, done
    assert done.stdout == ""
    first, *place, second = done.stderr.splitlines()
    assert place == [] or (place[0].startswith("line ") and place[1:] == [place[1].rstrip()])
    assert first.startswith("error: ")
    assert second.startswith("hint: ")
    code, _, message = first.removeprefix("error: ").partition(": ")
    assert (done.returncode == 3) == (code == "GATEWAY_UNAVAILABLE")
    return Failure(code, message, second.removeprefix("hint: "))


ROADS = (by_http, by_dbapi, by_command)


def fails(
    gateway: Gateway | str,
    sql: str,
    code: str,
    *parts: str,
    credential: str | None = None,
    **options: Any,
) -> None:
    """By each road, at the same time, the statement fails with that name and says those parts."""
    url = gateway if isinstance(gateway, str) else gateway.url
    roads = ROADS if isinstance(gateway, Gateway) else ROADS[1:]
    with concurrent.futures.ThreadPoolExecutor(len(roads)) as pool:
        futures = [pool.submit(road, url, sql, options, credential) for road in roads]
        found = [future.result() for future in futures]
    assert {failure.code for failure in found} == {code}, found
    (hint,) = {failure.hint for failure in found}
    assert hint
    for failure in found:
        assert "\n" not in failure.message
        assert "Traceback" not in failure.message
        for part in parts:
            assert part in failure.message, failure


# --- The statement -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(stack: Stack) -> str:
    name = f"t_{uuid.uuid4().hex[:12]}"
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint, text varchar")
    stack.produce(name, [{"id": i, "text": "x"} for i in range(ROWS)])
    return name


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize(
    ("sql", "code", "part"),
    [
        ("SELEC 1", "SYNTAX_ERROR", "SELEC"),
        ("ATTACH '/tmp/other.db'", "STATEMENT_NOT_ALLOWED", "ATTACH"),
        ("SELECT (1", "SYNTAX_ERROR", ""),
        ("SELECT 1; SELECT 2", "MULTIPLE_STATEMENTS", ""),
        ("SELECT * FROM nowhere", "TABLE_NOT_FOUND", "lake.default.nowhere"),
        ("SELECT * FROM other.nowhere", "TABLE_NOT_FOUND", "lake.other.nowhere"),
        ("SELECT * FROM no.such.table_", "CATALOG_NOT_FOUND", "no"),
        ('SELECT * FROM "{t}$odd"', "TABLE_NOT_FOUND", "odd"),
        ("SELECT nope FROM {t}", "COLUMN_NOT_FOUND", "nope"),
        ("SELECT a.id FROM {t} a, {t} b WHERE text = 'x'", "COLUMN_AMBIGUOUS", "text"),
        ("SELECT id + text FROM {t}", "TYPE_MISMATCH", ""),
        ("SELECT no_such(id) FROM {t}", "FUNCTION_NOT_FOUND", "no_such"),
        ("SELECT 1 / (id - id) FROM {t}", "DIVISION_BY_ZERO", ""),
        ("SELECT CAST(text AS bigint) FROM {t}", "INVALID_CAST", ""),
        ("SELECT id FROM {t} GROUP BY text", "GROUPING_ERROR", "id"),
        ("SELECT ?", "INVALID_PARAMETERS", ""),
    ],
)
def test_a_wrong_statement(gateway: Gateway, table: str, sql: str, code: str, part: str) -> None:
    fails(gateway, sql.format(t=table), code, part)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM {t}",
        "UPDATE {t} SET id = 1",
        "TRUNCATE TABLE {t}",
        "COPY {t} TO '/tmp/out.csv'",
        "SET memory_limit = '1TB'",
        "CALL system.rollback_to_snapshot('{t}', 1)",
        "GRANT SELECT ON {t} TO somebody",
    ],
)
def test_a_write_that_is_not_allowed(gateway: Gateway, table: str, sql: str) -> None:
    fails(gateway, sql.format(t=table), "STATEMENT_NOT_ALLOWED")
    assert gateway.rows(f"SELECT count(*) FROM {table}") == [(ROWS,)]


def test_a_file_is_no_table(gateway: Gateway) -> None:
    for sql in ("SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM '/etc/passwd'"):
        with gateway.connect() as connection, pytest.raises(seamline.DatabaseError) as caught:
            connection.execute(sql)
        assert caught.value.code is not INTERNAL_ERROR
        assert "root:" not in str(caught.value)


def test_a_forged_token(gateway: Gateway, table: str) -> None:
    fails(gateway, f"SELECT * FROM {table}", "INVALID_TOKEN", token="forged")


def test_a_deadline(gateway: Gateway, table: str) -> None:
    fails(gateway, endless(table), "DEADLINE_EXCEEDED", "within 0.5 s", timeout=0.5)


def endless(table: str) -> str:
    return (
        f"SELECT count(*) FROM {table} a, {table} b, {table} c, {table} d, {table} e"
        " WHERE a.id + b.id + c.id + d.id + e.id = -1"
    )


@pytest.mark.one_in(test=2)
@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_canceled_by_somebody_else(
    gateway: Gateway, table: str, road: Callable[..., Failure]
) -> None:
    """Whoever waits for the statement is told, by whichever route they wait."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(road, gateway.url, endless(table), {}, None)
        gateway.running(about=table).cancel()
        failure = waiting.result(60)
    assert (failure.code, bool(failure.hint)) == ("CANCELED", True)


# --- The records and the files --------------------------------------------------------------------


def test_a_poison_record(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint")
    stack.produce(name, [{"id": 1}, b"poison"])
    fails(gateway, f"SELECT count(*) FROM {name}", "BAD_RECORD", name, "partition 0, offset 1")


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.prove)])
def test_a_cold_file_deleted_by_hand(
    stack: Stack, gateway: Gateway, name: str, engine: str
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint")
    stack.produce(name, [{"id": 1}])
    stack.tier(name)
    sql = f"SELECT count(id), sum(id) FROM {name}"
    assert gateway.rows(sql, engine) == [(1, 1)]  # whatever is remembered of the file
    (path,) = stack.data_files(name)
    pathlib.Path(path).unlink()
    sql = sql.replace("sum(id)", "max(id)")  # the result of the other one is cached
    fails(gateway, sql, "COLD_FILE_MISSING", pathlib.Path(path).name, engine=engine)


# --- The outside world ----------------------------------------------------------------------------


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port that is taken and where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@contextlib.contextmanager
def another(stack: Stack, folder: pathlib.Path, **flags: str) -> Iterator[Gateway]:
    """A gateway with other settings; `a__b` sets `a.b`."""
    settings = {key.replace("__", "."): value for key, value in flags.items()}
    state = {"state_directory": str(folder / "state")}
    running = Gateway(stack.configured({**stack.flags, **state, **settings}))
    try:
        yield running
    finally:
        running.close()


def test_kafka_is_down(stack: Stack, table: str, scratch: pathlib.Path, dead_port: int) -> None:
    servers = f"127.0.0.1:{dead_port}"
    with another(stack, scratch, clusters__default__bootstrap_servers=servers) as gateway:
        fails(gateway, f"SELECT count(*) FROM {table}", "KAFKA_UNAVAILABLE", table)
        assert gateway.rows(f'SELECT count(*) FROM "{table}$cold"') == [(0,)]


def copied_catalog(stack: Stack, folder: pathlib.Path) -> pathlib.Path:
    """A copy of the stack's catalog, which can be held without holding others back."""
    path = folder / "catalog.db"
    with (
        contextlib.closing(sqlite3.connect(stack.directory / "catalog.db")) as source,
        contextlib.closing(sqlite3.connect(path)) as copy,
    ):
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
    return path


@contextlib.contextmanager
def held(path: pathlib.Path) -> Iterator[None]:
    """Keeps everybody else from reading a catalog."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        yield
        holder.execute("ROLLBACK")


def test_the_catalog_is_gone(stack: Stack, table: str, scratch: pathlib.Path) -> None:
    folder = scratch / "catalog"
    folder.mkdir()
    uri = f"sqlite:///{copied_catalog(stack, folder)}?timeout=1"
    with another(stack, scratch, catalogs__lake__uri=uri) as gateway:
        shutil.rmtree(folder)
        fails(gateway, f"SELECT count(*) FROM {table}", "CATALOG_UNAVAILABLE", "catalog lake")
        assert gateway.rows("SELECT 1") == [(1,)]


def test_the_catalog_does_not_answer(stack: Stack, table: str, scratch: pathlib.Path) -> None:
    """Somebody holds it for longer than anyone waits; then it is released and answers."""
    path = copied_catalog(stack, scratch)
    uri = f"sqlite:///{path}?timeout=1"
    with another(stack, scratch, catalogs__lake__uri=uri) as gateway:
        assert gateway.rows(f"SELECT count(*) FROM {table}") == [(ROWS,)]
        with held(path):
            fails(gateway, f"SELECT count(*) FROM {table}", "CATALOG_UNAVAILABLE", "locked")
        counted = wait_until(lambda: unless_unavailable(gateway, table), what="the catalog's count")
        assert counted == [(ROWS,)]


def unless_unavailable(gateway: Gateway, table: str) -> list[tuple[Any, ...]]:
    """The number of rows of a table; nothing while its catalog is left alone."""
    try:
        return gateway.rows(f"SELECT count(*) FROM {table}")
    except SeamlineError as error:
        assert error.code.name == "CATALOG_UNAVAILABLE"
        return []


def test_a_statement_ends_by_its_deadline_though_the_catalog_hangs(
    stack: Stack, table: str, scratch: pathlib.Path
) -> None:
    path = copied_catalog(stack, scratch)
    uri = f"sqlite:///{path}?timeout=3600"
    with another(stack, scratch, catalogs__lake__uri=uri) as gateway:
        assert gateway.rows(f"SELECT count(*) FROM {table}") == [(ROWS,)]
        with held(path):
            statement = gateway.statement(f"SELECT count(*) FROM {table}", timeout_s=1.0)
            assert statement.error is not None
            assert statement.error.code.name == "DEADLINE_EXCEEDED"


@pytest.mark.spark
def test_spark_is_down(stack: Stack, table: str, scratch: pathlib.Path, dead_port: int) -> None:
    with another(stack, scratch, spark__remote=f"sc://127.0.0.1:{dead_port}") as gateway:
        sql = f"SELECT count(*) FROM {table}"
        fails(gateway, sql, "SPARK_UNAVAILABLE", engine="spark")
        assert gateway.rows(sql) == [(ROWS,)]


def test_the_gateway_is_down(dead_port: int) -> None:
    url = f"http://127.0.0.1:{dead_port}"
    fails(url, "SELECT 1", "GATEWAY_UNAVAILABLE", url, "nothing listens there")


# --- Who asks -------------------------------------------------------------------------------------


@pytest.fixture
def guarded(stack: Stack, tmp_path: pathlib.Path) -> Iterator[Gateway]:
    """A gateway that knows one credential."""
    plain = stack.configured({**stack.flags, "state_directory": str(tmp_path / "state")})
    known = AccessToken(name="somebody", sha256=hashlib.sha256(SECRET.encode()).hexdigest())
    running = Gateway(plain.model_copy(update={"auth": AuthConfig(tokens=(known,))}))
    try:
        yield running
    finally:
        running.close()


def test_who_is_not_known(guarded: Gateway) -> None:
    fails(guarded, "SELECT 1", "UNAUTHENTICATED", "carries no credentials")
    fails(guarded, "SELECT 1", "UNAUTHENTICATED", "not known", credential="wrong")
    with guarded.connect(access_token=SECRET) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_request_that_is_none(gateway: Gateway) -> None:
    """What only a bare request can get wrong is named as well."""
    address = f"{gateway.url}/api/v1/statements"
    for body, code in (
        (b"not json", "INVALID_REQUEST"),
        (b"[]", "INVALID_REQUEST"),
        (b"{}", "INVALID_REQUEST"),
        (json.dumps({"statement": 1}).encode(), "INVALID_REQUEST"),
        (json.dumps({"statement": "SELECT 1", "odd": 1}).encode(), "INVALID_REQUEST"),
        (json.dumps({"statement": "SELECT 1", "engine": "odd"}).encode(), "INVALID_REQUEST"),
    ):
        headers = {"Content-Type": "application/json"}
        answer = urllib3.request("POST", address, body=body, headers=headers, retries=False)
        error = answer.json()["error"]
        assert (answer.status, error["code"], bool(error["hint"])) == (400, code, True)
    missing = urllib3.request("GET", f"{address}/unknown", retries=False)
    assert (missing.status, missing.json()["error"]["code"]) == (404, "STATEMENT_NOT_FOUND")
