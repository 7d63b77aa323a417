"""The clients, each behind the same few methods. What a client has no way to do is None."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import csv
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar
from urllib.parse import urlsplit

import adbc_driver_flightsql.dbapi as adbc
import pandas as pd
import polars as pl
import sqlalchemy as sa
import trino
import urllib3
from py4j.protocol import Py4JJavaError
from support import programs
from support.java_library import java_library
from support.waiting import wait_until

import seamline
import seamline.aio
from seamline.connectors.jvm.jars import JarSet, cache_directory, fetch
from seamline.connectors.jvm.java import find_java

CLI = JarSet("trino-cli", ("io.trino:trino-cli:476:executable",), transitive=False)
JDBC = JarSet("trino-jdbc", ("io.trino:trino-jdbc:476",), transitive=False)
_BEGUN_S = 2.0
_END_S = 300.0
_COLUMNS = (
    "SELECT column_name FROM information_schema.columns WHERE table_name = '{table}'"
    " ORDER BY ordinal_position"
)

Rows = list[Sequence[Any]]


class Client(abc.ABC):
    """A client of a gateway.

    Args:
        url: The gateway's address.
        flight_url: That of its Flight SQL.
    """

    name: ClassVar[str]

    def __init__(self, url: str, flight_url: str) -> None:
        self.url = url
        address = urlsplit(url)
        self.host, self.port = address.hostname or "", address.port or 0

    @abc.abstractmethod
    def rows(self, sql: str) -> Rows:
        """All rows of a statement. Every failure is an exception whose text says why."""

    def count(self, sql: str) -> tuple[int, int]:
        """How many rows a large result has, and the first value of the last one."""
        found = self.rows(sql)
        return len(found), int(found[-1][0])

    def parameters(self, sql: str, values: Sequence[Any]) -> Rows | None:
        """Rows of a statement with `?`."""
        return None

    def columns(self, table: str) -> list[str] | None:
        """The names of a table's columns, asked for as this client's users do."""
        return None

    def cancel(self, sql: str) -> str | None:
        """Begins a statement that does not end, ends it, and returns what was said of that."""
        return None

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Ends it."""


def _told(work: Callable[[], Any]) -> str:
    try:
        work()
    except Exception as error:  # noqa: BLE001 - every client has errors of its own
        return f"{type(error).__name__}: {error}"
    return "no error"


class DbApi(Client):
    """Our DB-API."""

    name = "seamline (DB-API)"

    def __init__(self, url: str, flight_url: str) -> None:
        super().__init__(url, flight_url)
        self._connection = seamline.connect(url, catalog="lake", schema="default")

    def rows(self, sql: str) -> Rows:
        return list(self._connection.execute(sql).fetchall())

    def parameters(self, sql: str, values: Sequence[Any]) -> Rows | None:
        return list(self._connection.execute(sql, values).fetchall())

    def columns(self, table: str) -> list[str] | None:
        found = self._connection.execute(f"SELECT * FROM {table} LIMIT 0")
        return [column[0] for column in found.description or ()]

    def cancel(self, sql: str) -> str | None:
        cursor = self._connection.cursor()
        timer = threading.Timer(_BEGUN_S, cursor.cancel)
        timer.start()
        return _told(lambda: cursor.execute(sql).fetchall())

    def close(self) -> None:
        self._connection.close()


class Asyncio(Client):
    """The same for asyncio."""

    name = "seamline.aio (asyncio)"

    def rows(self, sql: str) -> Rows:
        return asyncio.run(self._rows(sql, None))

    def parameters(self, sql: str, values: Sequence[Any]) -> Rows | None:
        return asyncio.run(self._rows(sql, values))

    def cancel(self, sql: str) -> str | None:
        async def ended() -> None:
            await asyncio.wait_for(self._rows(sql, None), _BEGUN_S)

        return _told(lambda: asyncio.run(ended()))

    async def _rows(self, sql: str, values: Any) -> Rows:
        async with seamline.aio.connect(self.url, catalog="lake", schema="default") as connection:
            cursor = await connection.execute(sql, values)
            return list(await cursor.fetchall())


class SqlAlchemy(Client):
    """SQLAlchemy with our dialect."""

    name = "SQLAlchemy"

    def __init__(self, url: str, flight_url: str) -> None:
        super().__init__(url, flight_url)
        self._engine = sa.create_engine(f"seamline://{self.host}:{self.port}/lake/default")

    def rows(self, sql: str) -> Rows:
        with self._engine.connect() as connection:
            return list(connection.exec_driver_sql(sql).fetchall())

    def parameters(self, sql: str, values: Sequence[Any]) -> Rows | None:
        named = {f"p{number}": value for number, value in enumerate(values)}
        numbers = iter(named)
        text = re.sub(r"\?", lambda _: f":{next(numbers)}", sql)
        with self._engine.connect() as connection:
            return list(connection.execute(sa.text(text), named).fetchall())

    def columns(self, table: str) -> list[str] | None:
        return [str(column["name"]) for column in sa.inspect(self._engine).get_columns(table)]

    def cancel(self, sql: str) -> str | None:
        with self._engine.connect() as connection:
            cursor: Any = connection.connection.cursor()
            threading.Timer(_BEGUN_S, cursor.cancel).start()
            return _told(lambda: cursor.execute(sql).fetchall())

    def close(self) -> None:
        self._engine.dispose()


class Pandas(SqlAlchemy):
    """pandas over SQLAlchemy."""

    name = "pandas"

    def rows(self, sql: str) -> Rows:
        with self._engine.connect() as connection:
            found = pd.read_sql(sql, connection)
        return [tuple(row) for row in found.astype(object).itertuples(index=False)]

    def parameters(self, sql: str, values: Sequence[Any]) -> Rows | None:
        with self._engine.connect() as connection:
            found = pd.read_sql(sql, connection, params=tuple(values))
        return [tuple(row) for row in found.itertuples(index=False)]

    def columns(self, table: str) -> list[str] | None:
        with self._engine.connect() as connection:
            return list(pd.read_sql(f"SELECT * FROM {table} LIMIT 0", connection).columns)

    def cancel(self, sql: str) -> str | None:
        return None


class Polars(Client):
    """Polars, by Arrow from our DB-API."""

    name = "Polars"

    def rows(self, sql: str) -> Rows:
        return list(self._frame(sql).rows())

    def count(self, sql: str) -> tuple[int, int]:
        found = self._frame(sql)
        return found.height, int(found.to_series(0)[-1])

    def parameters(self, sql: str, values: Sequence[Any]) -> Rows | None:
        return list(self._frame(sql, values).rows())

    def columns(self, table: str) -> list[str] | None:
        return list(self._frame(f"SELECT * FROM {table} LIMIT 0").columns)

    def _frame(self, sql: str, values: Sequence[Any] | None = None) -> pl.DataFrame:
        with seamline.connect(self.url, catalog="lake", schema="default") as connection:
            found = pl.from_arrow(connection.execute(sql, values).fetch_arrow_table())
        assert isinstance(found, pl.DataFrame)
        return found


class Adbc(Client):
    """ADBC's driver for Flight SQL."""

    name = "ADBC (Flight SQL)"

    def __init__(self, url: str, flight_url: str) -> None:
        super().__init__(url, flight_url)
        self._connection = adbc.connect(flight_url, autocommit=True)

    def rows(self, sql: str) -> Rows:
        with self._connection.cursor() as cursor:
            return list(cursor.execute(sql).fetchall())

    def count(self, sql: str) -> tuple[int, int]:
        with self._connection.cursor() as cursor:
            found = cursor.execute(sql).fetch_arrow_table()
        return found.num_rows, found.column(0)[-1].as_py()

    def parameters(self, sql: str, values: Sequence[Any]) -> Rows | None:
        with self._connection.cursor() as cursor:
            return list(cursor.execute(sql, tuple(values)).fetchall())

    def columns(self, table: str) -> list[str] | None:
        found = self._connection.adbc_get_table_schema(
            table, catalog_filter="lake", db_schema_filter="default"
        )
        return list(found.names)

    def cancel(self, sql: str) -> str | None:
        with self._connection.cursor() as cursor:
            threading.Timer(_BEGUN_S, cursor.adbc_cancel).start()
            return _told(lambda: cursor.execute(sql).fetchall())

    def close(self) -> None:
        self._connection.close()


class TrinoPython(Client):
    """Trino's Python client."""

    name = "Trino's Python client"

    def __init__(self, url: str, flight_url: str) -> None:
        super().__init__(url, flight_url)
        connect: Any = trino.dbapi.connect
        self._connection = connect(
            host=self.host, port=self.port, user="ann", catalog="lake", schema="default"
        )

    def rows(self, sql: str) -> Rows:
        return list(self._connection.cursor().execute(sql).fetchall())

    def parameters(self, sql: str, values: Sequence[Any]) -> Rows | None:
        return list(self._connection.cursor().execute(sql, list(values)).fetchall())

    def columns(self, table: str) -> list[str] | None:
        return [row[0] for row in self.rows(_COLUMNS.format(table=table))]

    def cancel(self, sql: str) -> str | None:
        cursor = self._connection.cursor()
        threading.Timer(_BEGUN_S, cursor.cancel).start()
        return _told(lambda: cursor.execute(sql).fetchall())


class Jdbc(Client):
    """Trino's JDBC driver."""

    name = "Trino's JDBC driver"

    def __init__(self, url: str, flight_url: str) -> None:
        super().__init__(url, flight_url)
        self._block = contextlib.ExitStack()
        jvm = self._jvm = self._block.enter_context(java_library(_jar(JDBC)))
        properties = jvm.java.util.Properties()
        properties.setProperty("user", "ann")
        address = f"jdbc:trino://{self.host}:{self.port}/lake/default"
        self._connection = jvm.io.trino.jdbc.TrinoDriver().connect(address, properties)

    def rows(self, sql: str) -> Rows:
        with _java_errors():
            return _rows_of(self._connection.createStatement().executeQuery(sql))

    def count(self, sql: str) -> tuple[int, int]:
        """Counted on Java's side: a row at a time is slow from here."""
        held = self._jvm.javax.sql.rowset.RowSetProvider.newFactory().createCachedRowSet()
        held.populate(self._connection.createStatement().executeQuery(sql))
        return int(held.size()), int(self._last(held))

    def _last(self, held: Any) -> Any:
        """The first value of the last row; by its interface, since its class is Java's own."""
        java = self._jvm.java.lang
        result = java.Class.forName("java.sql.ResultSet")

        def array(kind: str, *values: Any) -> Any:
            made = java.reflect.Array.newInstance(java.Class.forName(kind), len(values))
            for place, value in enumerate(values):
                java.reflect.Array.set(made, place, value)
            return made

        method = result.getMethod("last", array("java.lang.Class"))
        method.invoke(held, array("java.lang.Object"))
        method = result.getMethod("getString", array("java.lang.Class", java.Integer.TYPE))
        return method.invoke(held, array("java.lang.Object", 1))

    def parameters(self, sql: str, values: Sequence[Any]) -> Rows | None:
        prepared = self._connection.prepareStatement(sql)
        for place, value in enumerate(values, 1):
            prepared.setObject(place, value)
        return _rows_of(prepared.executeQuery())

    def columns(self, table: str) -> list[str] | None:
        found = self._connection.getMetaData().getColumns("lake", "default", table, "%")
        return [str(row[3]) for row in _rows_of(found)]

    def cancel(self, sql: str) -> str | None:
        statement = self._connection.createStatement()
        threading.Timer(_BEGUN_S, statement.cancel).start()

        def ended() -> None:
            with _java_errors():
                statement.executeQuery(sql).next()

        return _told(ended)

    def close(self) -> None:
        self._connection.close()
        self._block.close()


@contextlib.contextmanager
def _java_errors() -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        raise RuntimeError(error.java_exception.getMessage()) from error


def _rows_of(result: Any) -> Rows:
    places = range(1, result.getMetaData().getColumnCount() + 1)
    rows: Rows = []
    while result.next():
        rows.append([result.getString(place) for place in places])
    return rows


def _jar(jars: JarSet) -> pathlib.Path:
    (jar,) = fetch(jars, cache_directory(os.environ), print).glob("*.jar")
    return jar


class Command(Client):
    """A program: a statement in, texts out, and Ctrl-C."""

    @abc.abstractmethod
    def command(self, sql: str) -> list[str]:
        """What is run."""

    @abc.abstractmethod
    def read(self, text: str) -> Rows:
        """The rows of its output."""

    def rows(self, sql: str) -> Rows:
        done = self._run(self.command(sql))
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        return self.read(done.stdout)

    def cancel(self, sql: str) -> str | None:
        process = subprocess.Popen(
            self.command(sql), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        _until_running(self.url)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=_END_S)
        return said

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, timeout=_END_S, check=False)


class OurCommand(Command):
    """`seamline query`."""

    name = "seamline query"

    def command(self, sql: str) -> list[str]:
        own = ("--url", self.url, "--catalog", "lake", "--schema", "default")
        return programs.seamline("query", sql, *own, "--format", "ndjson")

    def read(self, text: str) -> Rows:
        return [list(json.loads(line).values()) for line in text.splitlines()]

    def parameters(self, sql: str, values: Sequence[Any]) -> Rows | None:
        return None

    def columns(self, table: str) -> list[str] | None:
        return [str(row[0]) for row in self.rows(_COLUMNS.format(table=table))]


class TrinoCommand(Command):
    """Trino's command line."""

    name = "Trino's command line"

    def command(self, sql: str) -> list[str]:
        java = str(find_java(os.environ).path)
        own = ["--server", self.url, "--user", "ann", "--catalog", "lake", "--schema", "default"]
        form = ["--output-format", "CSV", "--execute", sql]
        return [java, "-jar", str(_jar(CLI)), *own, *form]

    def read(self, text: str) -> Rows:
        found = csv.reader(io.StringIO(text, newline=""))
        return [[cell or None for cell in row] for row in found]  # it writes nulls as empty texts

    def columns(self, table: str) -> list[str] | None:
        return [str(row[0]) for row in self.rows(_COLUMNS.format(table=table))]


class Curl(Command):
    """curl, with nothing of ours."""

    name = "curl"

    def command(self, sql: str) -> list[str]:
        return self._asked(sql, "ndjson")

    def read(self, text: str) -> Rows:
        return [list(json.loads(line).values()) for line in text.splitlines()]

    def columns(self, table: str) -> list[str] | None:
        done = self._run(self._asked(f"SELECT * FROM {table} LIMIT 0", "csv"))
        return done.stdout.strip().split(",")

    def _asked(self, sql: str, form: str) -> list[str]:
        program = shutil.which("curl") or "curl"
        address = f"{self.url}/api/v1/query?catalog=lake&schema=default&format={form}&timeout=120"
        return [program, "-sS", "--fail-with-body", address, "--data-binary", sql]

    def cancel(self, sql: str) -> str | None:
        thread_said: list[str] = []
        thread = threading.Thread(target=lambda: thread_said.append(_told(lambda: self.rows(sql))))
        thread.start()
        running = _until_running(self.url)
        cancel = f"{self.url}/api/v1/statements/{running}/cancel"
        self._run([shutil.which("curl") or "curl", "-sS", "-X", "POST", cancel])
        thread.join(_END_S)
        return thread_said[0]


def _until_running(url: str) -> str:
    """The statement that runs, once one does."""

    def found() -> str | None:
        answer = urllib3.request("GET", f"{url}/api/v1/statements?state=RUNNING")
        return next((str(each["statement_id"]) for each in answer.json()["statements"]), None)

    return str(wait_until(found, _END_S, "a statement that runs"))


CLIENTS: tuple[type[Client], ...] = (
    DbApi,
    Asyncio,
    SqlAlchemy,
    Pandas,
    Polars,
    OurCommand,
    Curl,
    Adbc,
    TrinoPython,
    TrinoCommand,
    Jdbc,
)
