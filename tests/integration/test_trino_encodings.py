"""Goal: Trino's clients get the same rows in each encoding that they can ask for.

Method: the published programs, with each of their encodings and with none, ask one gateway for
every type and its null, for a million rows, and for a result that they cancel in its middle.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import trino
from py4j.protocol import Py4JJavaError
from support import offline
from support.gateway import Gateway
from support.java_library import java_library
from support.trino_clients import JDBC, VALUES, cli, command, connected, jar_of, query, texts
from support.waiting import wait_until

from seamline.gateway.statements.statement import State, Statement

pytestmark = [pytest.mark.integration, pytest.mark.prove]

ENCODINGS = ("json+zstd", "json+lz4", "json")
MILLION = (
    "SELECT a.n * 1000 + b.n AS id, 'row' AS text FROM UNNEST(sequence(0, 999)) AS a(n)"
    " CROSS JOIN UNNEST(sequence(0, 999)) AS b(n) ORDER BY 1"
)
LONG = (
    "SELECT a.n, b.n FROM UNNEST(sequence(1, 10000)) AS a(n)"
    " CROSS JOIN UNNEST(sequence(1, 10000)) AS b(n) CROSS JOIN UNNEST(sequence(1, 100)) AS c(n)"
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with contextlib.closing(Gateway(offline.config(tmp_path_factory.mktemp("spool")))) as running:
        yield running


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with java_library(jar_of(JDBC)) as running:
        yield running


def every_type(count: int) -> str:
    """Rows of values, and rows of nulls."""
    values = ", ".join(f"if(n % 2 = 1, {sql}) AS c{i}" for i, (sql, *_) in enumerate(VALUES))
    return f"SELECT n, {values} FROM UNNEST(sequence(1, {count})) AS t(n) ORDER BY n"


def by_python(gateway: Gateway, encoding: Any) -> Any:
    address = urlsplit(gateway.url)
    connect: Any = trino.dbapi.connect
    connection = connect(
        host=address.hostname, port=address.port, user="ann", catalog="lake", encoding=encoding
    )
    return connection.cursor()


def by_jdbc(jvm: Any, gateway: Gateway, encoding: str | None) -> Any:
    options = {} if encoding is None else {"encoding": encoding}
    return contextlib.closing(connected(jvm, gateway.url, **options))


def ended(statement: Statement) -> None:
    wait_until(lambda: statement.state is State.CANCELED, what="the end of a canceled statement")


def without_identities(rows: list[tuple[str | None, ...]]) -> list[list[str | None]]:
    """The driver's texts; those of bytes in arrays say where they are in memory, and not which."""
    return [[text and re.sub(r"\[B@[0-9a-f]+", "[B", text) for text in row] for row in rows]


# --- Python --------------------------------------------------------------------------------------

OF_PYTHON = (None, *ENCODINGS, ["unheard-of", "json+lz4", "json"])


@pytest.mark.parametrize("count", [2, 40])
def test_python_reads_every_type(gateway: Gateway, count: int) -> None:
    """In few rows, which are not compressed, and in many."""
    sql = every_type(count)
    plain = by_python(gateway, "unheard-of").execute(sql).fetchall()
    assert [row[0] for row in plain] == list(range(1, count + 1))
    assert all(value is None for value in plain[1][1:])
    for encoding in OF_PYTHON:
        found = by_python(gateway, encoding).execute(sql).fetchall()
        assert repr(found) == repr(plain), encoding


@pytest.mark.soak
@pytest.mark.parametrize("encoding", [*OF_PYTHON, "unheard-of"], ids=str)
def test_python_reads_a_million_rows(gateway: Gateway, encoding: Any) -> None:
    found = by_python(gateway, encoding).execute(MILLION).fetchall()
    assert found == [[number, "row"] for number in range(1_000_000)]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_python_cancels_in_the_middle(gateway: Gateway, encoding: str) -> None:
    cursor = by_python(gateway, encoding)
    assert len(cursor.execute(LONG).fetchmany(10)) == 10
    statement = gateway.running()
    cursor.cancel()
    ended(statement)
    with pytest.raises(trino.exceptions.TrinoUserError, match="was canceled"):
        cursor.fetchall()
    statement.close()


# --- JDBC ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 40])
def test_jdbc_reads_every_type(gateway: Gateway, jvm: Any, count: int) -> None:
    sql = every_type(count)
    found = {}
    for encoding in (None, *ENCODINGS):
        with by_jdbc(jvm, gateway, encoding) as connection:
            found[encoding] = without_identities(query(connection, sql))
    assert [row[0] for row in found[None]] == [str(number) for number in range(1, count + 1)]
    assert all(rows == found[None] for rows in found.values())


@pytest.mark.soak
@pytest.mark.parametrize("encoding", [None, *ENCODINGS])
def test_jdbc_reads_a_million_rows(gateway: Gateway, jvm: Any, encoding: str | None) -> None:
    """Held on Java's side: a row at a time is slow from here."""
    with by_jdbc(jvm, gateway, encoding) as connection:
        held = jvm.javax.sql.rowset.RowSetProvider.newFactory().createCachedRowSet()
        held.populate(connection.createStatement().executeQuery(MILLION))
        assert held.size() == 1_000_000


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_jdbc_cancels_in_the_middle(gateway: Gateway, jvm: Any, encoding: str) -> None:
    with by_jdbc(jvm, gateway, encoding) as connection:
        asked = connection.createStatement()
        result = asked.executeQuery(LONG)
        assert result.next()
        statement = gateway.running()
        asked.cancel()
        ended(statement)
        with pytest.raises(Py4JJavaError):
            texts(result)
    statement.close()


# --- The command line ----------------------------------------------------------------------------


def test_the_command_line_reads_every_type(gateway: Gateway) -> None:
    found = [cli(gateway.url, every_type(20), "--encoding", each) for each in ENCODINGS]
    assert [done.returncode for done in found] == [0, 0, 0], found[0].stderr
    assert len({done.stdout for done in found}) == 1
    assert len(found[0].stdout.splitlines()) == 20


@pytest.mark.soak
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_command_line_reads_a_million_rows(gateway: Gateway, encoding: str) -> None:
    found = cli(gateway.url, MILLION, "--encoding", encoding)
    assert found.stdout.splitlines() == [f"{number},row" for number in range(1_000_000)]


@pytest.mark.parametrize(
    "encoding",
    [ENCODINGS[0], *(pytest.param(each, marks=pytest.mark.soak) for each in ENCODINGS[1:])],
)
def test_the_command_line_cancels_in_the_middle(gateway: Gateway, encoding: str) -> None:
    asked = command(gateway.url, LONG, "--encoding", encoding)
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1,1\n"
        statement = gateway.running()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    ended(statement)
    statement.close()
