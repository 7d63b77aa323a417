"""Goal: published drivers work as they are over Trino's protocol and over Flight SQL, and agree.

Method: the drivers themselves, those of Java in processes of their own, on a table whose rows are
in Iceberg and in Kafka, every type with a value and a null; with passwords and tokens over TLS, on
a gateway that is a process of its own. What every driver does is asked of each; what only one
protocol or driver has follows below.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import pathlib
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import adbc_driver_flightsql.dbapi as adbc
import bcrypt
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import trino
from py4j.protocol import Py4JJavaError
from support import flight, trino_clients
from support.certificates import Authority
from support.gateway import Gateway
from support.java_library import java_library
from support.served import serving
from support.stack import Stack
from support.trino_clients import cli, jar_of, query, texts
from support.waiting import wait_until

from seamline.gateway.statements.statement import State

pytestmark = pytest.mark.integration

COLUMNS = """
    id bigint, ok boolean, small integer, price decimal(20, 4), ratio double, single real,
    name varchar, data varbinary, uid uuid, day date, at timestamp with time zone, then timestamp,
    tags array(varchar), nested row(a bigint, b varchar), counts map(varchar, bigint)
"""
RECORD: dict[str, Any] = {
    "ok": True, "small": -7, "price": "12345.6789", "ratio": 0.1, "single": 0.1, "name": "ü😀\n'",
    "data": "AAH/", "uid": "6f9619ff-8b86-d011-b42d-00c04fc964ff", "day": "2024-02-29",
    "at": "2024-02-29T01:02:03.123456Z", "then": "2024-02-29T01:02:03.000001",
    "tags": ["x", None], "nested": {"a": 1, "b": "y"}, "counts": {"k": 1},
}  # fmt: skip
AS_PYTHON = (
    True, -7, decimal.Decimal("12345.6789"), 0.1, 0.1, "ü😀\n'", b"\x00\x01\xff",
    uuid.UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff"), datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 123456, datetime.UTC),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 1), ["x", None], (1, "y"), {"k": 1},
)  # fmt: skip
AS_ADBC = (
    *AS_PYTHON[:4], pa.scalar(0.1, pa.float32()).as_py(), *AS_PYTHON[5:7], str(AS_PYTHON[7]),
    *AS_PYTHON[8:12], {"a": 1, "b": "y"}, [("k", 1)],
)  # fmt: skip
"""The same, as Arrow has it."""
PLAIN = "id, ok, small, price, ratio, single, name, uid, day"
AS_JDBC = (
    "true", "-7", "12345.6789", "0.1", "0.1", "ü😀\n'",
    "6f9619ff-8b86-d011-b42d-00c04fc964ff", "2024-02-29",
)  # fmt: skip
ENDLESS = (
    "SELECT count(*) FROM "
    + " CROSS JOIN ".join(f"UNNEST(sequence(1, 10000)) {t}({t})" for t in "uvwx")
    + " WHERE u + v + w + x = -1"
)
MANY = 100_000


@dataclasses.dataclass(frozen=True)
class PythonDriver:
    """A driver of the DB-API.

    Attributes:
        values: What it makes of the record.
        error: What it raises for a statement that is wrong.
        code: The name of our error, of one that it raised.
        cursor: Its cursor.
    """

    values: Sequence[Any]
    error: type[Exception]
    code: Callable[[Any], str]
    cursor: Any

    def rows(self, sql: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        found = self.cursor.execute(sql, *(() if values is None else (values,))).fetchall()
        return [tuple(row) for row in found]

    def write(self, sql: str, values: Sequence[Any] | None = None) -> int:
        """The number of rows that a statement wrote."""
        self.cursor.execute(sql, *(() if values is None else (values,)))
        if isinstance(self.cursor, trino.dbapi.Cursor):
            self.cursor.fetchall()
            assert self.cursor.update_type == sql.split()[0]
        count: int = self.cursor.rowcount
        return count


@dataclasses.dataclass(frozen=True)
class JdbcDriver:
    """A driver of JDBC.

    Attributes:
        connect: Connects it to an address, with its properties.
        open: Connects it to a gateway, in the schema that has the table, in plain text.
        not_there: What it says of a column that does not exist.
        too_long: What it says of a statement that ran for too long.
    """

    connect: Callable[..., Any]
    open: Callable[[Gateway], Any]
    not_there: str
    too_long: str


@pytest.fixture(scope="module")
def table(stack: Stack) -> str:
    """A tiered row of values and one of nulls, and the same two in the log."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    stack.produce(name, [{"id": 1, **RECORD}, {"id": 2}])
    stack.tier(name)
    stack.produce(name, [{"id": 3, **RECORD}, {"id": 4}])
    return name


@pytest.fixture
def trino_cursor(gateway: Gateway) -> Iterator[Any]:
    address = urlsplit(gateway.url)
    connect: Any = trino.dbapi.connect
    with connect(
        host=address.hostname, port=address.port, user="ann", catalog="lake", schema="default"
    ) as connection:
        yield connection.cursor()


@pytest.fixture
def adbc_cursor(gateway: Gateway) -> Iterator[Any]:
    connection = adbc.connect(gateway.flight_url, autocommit=True)
    with connection, connection.cursor() as made:
        yield made


@pytest.fixture(params=["trino", "adbc"])
def python(request: pytest.FixtureRequest) -> PythonDriver:
    """Each driver of the DB-API."""
    cursor = request.getfixturevalue(f"{request.param}_cursor")
    if request.param == "trino":
        wrong = trino.exceptions.TrinoUserError
        return PythonDriver(AS_PYTHON, wrong, lambda error: str(error.error_name), cursor)
    return PythonDriver(AS_ADBC, adbc.ProgrammingError, _code, cursor)


def _code(error: Any) -> str:
    """The name of our error, of one that ADBC raised."""
    return dict(error.details)[b"seamline-code"].decode()  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def trino_jvm() -> Iterator[Any]:
    """Java, with Trino's driver."""
    with java_library(jar_of(trino_clients.JDBC)) as jvm:
        yield jvm


@pytest.fixture(scope="module")
def flight_jvm() -> Iterator[Any]:
    """Java, with the driver of Flight SQL."""
    with java_library(jar_of(flight.JDBC), options=flight.JAVA_OPTIONS) as jvm:
        yield jvm


@pytest.fixture(scope="module")
def trino_driver(trino_jvm: Any) -> JdbcDriver:
    def connect(url: str, **options: str) -> Any:
        return trino_clients.connected(trino_jvm, url, **options)

    return JdbcDriver(
        connect,
        lambda gateway: connect(gateway.url),
        "line 2:7: Column 'nothing' cannot be resolved",
        "did not end within 1",
    )


@pytest.fixture(scope="module")
def flight_driver(flight_jvm: Any) -> JdbcDriver:
    def connect(url: str, **options: str) -> Any:
        return flight.connected(flight_jvm, url, **options)

    return JdbcDriver(
        connect,
        lambda gateway: connect(gateway.flight_url, useEncryption="false"),
        "COLUMN_NOT_FOUND: column nothing does not exist (line 2:7)",
        "timed out after 1 SECONDS",
    )


@pytest.fixture(scope="module")
def trino_jdbc(gateway: Gateway, trino_driver: JdbcDriver) -> Iterator[Any]:
    with contextlib.closing(trino_driver.open(gateway)) as connection:
        yield connection


@pytest.fixture
def flight_jdbc(gateway: Gateway, flight_driver: JdbcDriver) -> Iterator[Any]:
    with contextlib.closing(flight_driver.open(gateway)) as connection:
        yield connection


@pytest.fixture(scope="module", params=["trino", "flight"])
def driver(request: pytest.FixtureRequest) -> JdbcDriver:
    """Each driver of JDBC."""
    found: JdbcDriver = request.getfixturevalue(f"{request.param}_driver")
    return found


@pytest.fixture
def jdbc(gateway: Gateway, driver: JdbcDriver) -> Iterator[Any]:
    """A connection of each driver of JDBC."""
    with contextlib.closing(driver.open(gateway)) as connection:
        yield connection


# --- Every driver of Python ----------------------------------------------------------------------


def test_python_reads_both_tiers(python: PythonDriver, table: str) -> None:
    nulls = (None,) * len(AS_PYTHON)
    assert python.rows(f"SELECT * FROM {table} ORDER BY id") == [
        (1, *python.values), (2, *nulls), (3, *python.values), (4, *nulls)
    ]  # fmt: skip


def test_python_takes_parameters(python: PythonDriver, table: str) -> None:
    sql = f"SELECT id FROM {table} WHERE name = ? AND id > ?"
    assert python.rows(sql, [RECORD["name"], 1]) == [(3,)]
    assert python.rows(sql, ["' OR 1 = 1 --", 1]) == []


def test_python_reads_what_it_writes(python: PythonDriver, stack: Stack, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint, name varchar")
    assert python.write(f"INSERT INTO {name} VALUES (1, 'ü'), (2, NULL)") == 2
    assert python.rows(f"SELECT name FROM {name} ORDER BY id") == [("ü",), (None,)]


def test_python_changes_rows(python: PythonDriver, name: str) -> None:
    made = f"CREATE TABLE {name} AS SELECT n AS id, 'x' AS v FROM UNNEST(sequence(1, 5)) t(n)"
    python.cursor.execute(made).fetchall()
    assert python.write(f"DELETE FROM {name} WHERE id > ?", [4]) == 1
    assert python.write(f"UPDATE {name} SET v = ? WHERE id = ?", ["ü", 2]) == 1
    found = python.rows(f"SELECT id, v FROM {name} ORDER BY id")
    assert found == [(1, "x"), (2, "ü"), (3, "x"), (4, "x")]
    python.cursor.execute(f"DROP TABLE {name}")


def test_python_is_told_what_is_wrong(python: PythonDriver, table: str) -> None:
    with pytest.raises(python.error) as caught:
        python.rows(f"SELECT id FROM {table} WHERE nothing = 1")
    assert python.code(caught.value) == "COLUMN_NOT_FOUND"
    assert "line 1:" in str(caught.value)


# --- Every driver of JDBC ------------------------------------------------------------------------


def test_jdbc_reads_both_tiers(jdbc: Any, table: str) -> None:
    nulls = [None] * len(AS_JDBC)
    found = query(jdbc, f"SELECT {PLAIN} FROM {table} ORDER BY id")
    assert found == [("1", *AS_JDBC), ("2", *nulls), ("3", *AS_JDBC), ("4", *nulls)]


def test_jdbc_takes_parameters(jdbc: Any, table: str) -> None:
    sql = f"SELECT id FROM {table} WHERE name = ? AND id > ? AND ok"
    with contextlib.closing(jdbc.prepareStatement(sql)) as prepared:
        assert prepared.getParameterMetaData().getParameterCount() == 2
        assert prepared.getMetaData().getColumnTypeName(1).lower() == "bigint"
        prepared.setString(1, RECORD["name"])
        prepared.setLong(2, 1)
        assert texts(prepared.executeQuery()) == [("3",)]
        prepared.setString(1, "' OR 1 = 1 --")
        assert texts(prepared.executeQuery()) == []


def test_jdbc_counts_what_it_writes(jdbc: Any, stack: Stack, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint")
    with contextlib.closing(jdbc.createStatement()) as statement:
        assert statement.executeUpdate(f"INSERT INTO {name} VALUES 1, 2, 3") == 3
        assert query(jdbc, f"SELECT sum(id) FROM {name}") == [("6",)]
        assert statement.executeUpdate(f"DROP TABLE {name}") == 0


def test_jdbc_limits_how_long_a_statement_runs(jdbc: Any, driver: JdbcDriver, table: str) -> None:
    with contextlib.closing(jdbc.createStatement()) as statement:
        statement.setQueryTimeout(60)
        assert statement.execute(f"SELECT count(*) FROM {table}")
        statement.setQueryTimeout(1)
        with pytest.raises(Py4JJavaError) as caught:
            statement.executeQuery(ENDLESS).next()  # Trino's columns come before rows
        assert driver.too_long in caught.value.java_exception.getMessage()


def test_jdbc_is_told_what_is_wrong(jdbc: Any, driver: JdbcDriver, table: str) -> None:
    with pytest.raises(Py4JJavaError) as caught:
        query(jdbc, f"SELECT id FROM {table}\nWHERE nothing = 1")
    assert driver.not_there in caught.value.java_exception.getMessage()


def test_jdbc_finds_what_there_is(jdbc: Any, table: str) -> None:
    found = jdbc.getMetaData()
    assert texts(found.getCatalogs()) == [("default",), ("lake",), ("system",)]
    assert ("default", "lake") in texts(found.getSchemas())
    (own,) = texts(found.getTables("lake", "default", table, None))
    assert own[:4] == ("lake", "default", table, "TABLE")
    columns = texts(found.getColumns("lake", "default", table, "%"))
    assert [row[3] for row in columns] == ["id", *RECORD]
    assert [(row[3], *row[5:7], *row[8:9]) for row in columns[3:4]] == [
        ("price", "decimal(20,4)", "20", "4")
    ]
    assert texts(found.getTableTypes()) == [("TABLE",), ("VIEW",)]
    assert texts(found.getPrimaryKeys("lake", "default", table)) == []


# --- Trino's clients -----------------------------------------------------------------------------


def test_trino_python_describes_columns_as_ours(
    gateway: Gateway, trino_cursor: Any, table: str
) -> None:
    sql = f"SELECT * FROM {table} ORDER BY id"
    trino_cursor.execute(sql).fetchall()
    with gateway.connect() as connection:
        ours = connection.execute(sql)
        assert [(c[0], c[1].replace(", ", ",")) for c in trino_cursor.description] == [
            (c[0], str(c[1]).replace(", ", ",")) for c in ours.description or ()
        ]
        assert ours.receipt is not None
        assert (ours.receipt["rows_cold"], ours.receipt["rows_hot"]) == (2, 2)


def test_trino_python_places_an_error_first(trino_cursor: Any, table: str) -> None:
    with pytest.raises(trino.exceptions.TrinoUserError) as caught:
        trino_cursor.execute(f"SELECT id FROM {table} WHERE nothing = 1").fetchall()
    assert caught.value.message.startswith("line 1:")


def test_trino_jdbc_names_every_type(trino_jdbc: Any, table: str) -> None:
    result = trino_jdbc.createStatement().executeQuery(f"SELECT * FROM {table} ORDER BY id")
    described = result.getMetaData()
    names = [described.getColumnTypeName(place) for place in range(1, 16)]
    assert names == [
        "bigint", "boolean", "integer", "decimal(20,4)", "double", "real", "varchar", "varbinary",
        "uuid", "date", "timestamp(6) with time zone", "timestamp(6)", "array(varchar)",
        "row(a bigint,b varchar)", "map(varchar,bigint)",
    ]  # fmt: skip
    others = (
        "2024-02-29 01:02:03.123456 UTC", "2024-02-29 01:02:03.000001", "[x, null]", "{a=1, b=y}",
        "{k=1}",
    )  # fmt: skip
    values = (*AS_JDBC[:6], "0x0001FF", *AS_JDBC[6:], *others)
    nulls = [None] * len(values)
    assert texts(result) == [("1", *values), ("2", *nulls), ("3", *values), ("4", *nulls)]


def test_trino_jdbc_changes_rows(trino_jdbc: Any, name: str) -> None:
    statement = trino_jdbc.createStatement()
    assert statement.executeUpdate(f"CREATE TABLE {name} AS SELECT 1 AS id, 'x' AS v") == 1
    merge = (
        f"MERGE INTO {name} AS t USING (VALUES (1), (2)) AS s(id) ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = ? WHEN NOT MATCHED THEN INSERT VALUES (s.id, ?)"
    )
    prepared = trino_jdbc.prepareStatement(merge)
    prepared.setString(1, "old")
    prepared.setString(2, "new")
    assert prepared.executeUpdate() == 2
    assert query(trino_jdbc, f"SELECT v FROM {name} ORDER BY id") == [("old",), ("new",)]
    assert statement.executeUpdate(f"DELETE FROM {name}") == 2
    assert statement.executeUpdate(f"TRUNCATE TABLE {name}") == 0
    assert statement.executeUpdate(f"DROP TABLE {name}") == 0


def test_trino_jdbc_keeps_its_session(trino_jdbc: Any, table: str) -> None:
    statement = trino_jdbc.createStatement()
    statement.execute("USE lake.information_schema")
    assert (trino_jdbc.getCatalog(), trino_jdbc.getSchema()) == ("lake", "information_schema")
    statement.execute("USE lake.default")
    statement.execute("SET SESSION row_limit = 1")
    assert len(query(trino_jdbc, f"SELECT id FROM {table}")) == 1
    statement.execute("RESET SESSION row_limit")
    assert len(query(trino_jdbc, f"SELECT id FROM {table}")) == 4
    trino_jdbc.setAutoCommit(False)
    assert query(trino_jdbc, f"SELECT count(*) FROM {table}") == [("4",)]
    trino_jdbc.commit()
    trino_jdbc.setAutoCommit(True)
    assert trino_jdbc.isValid(5)


def test_trino_jdbc_is_in_the_zone_of_its_jvm_or_another(
    trino_driver: JdbcDriver, gateway: Gateway
) -> None:
    noon = "CAST(TIMESTAMP '2024-07-01 12:00' AS timestamp(0) with time zone)"
    sql = f"SELECT current_timezone(), {noon}, to_unixtime({noon}) / 3600"
    ((_, _, in_utc),) = gateway.rows(sql)
    with contextlib.closing(
        trino_driver.connect(gateway.url, timezone="Europe/Berlin")
    ) as connection:
        (found,) = query(connection, sql)
        assert found == ("Europe/Berlin", "2024-07-01 12:00:00 Europe/Berlin", str(in_utc - 2))
        connection.createStatement().execute("SET TIME ZONE INTERVAL -'03:30' HOUR TO MINUTE")
        (found,) = query(connection, sql)
        assert found == ("-03:30", "2024-07-01 12:00:00 -03:30", str(in_utc + 3.5))


@pytest.mark.soak
def test_trino_jdbc_fetches_many_rows(trino_jdbc: Any, table: str) -> None:
    """Counted on Java's side: a row at a time is slow from here."""
    sql = (
        f"SELECT t.name, a.n FROM {table} t CROSS JOIN UNNEST(sequence(1, 250)) a(n)"
        " CROSS JOIN UNNEST(sequence(1, 200)) b(n) WHERE t.ok"
    )
    result = trino_jdbc.createStatement().executeQuery(sql)
    count = 0
    while result.next():
        count += 1
    assert count == MANY


def test_trino_jdbc_finds_nothing_of_what_there_is_not(trino_jdbc: Any, table: str) -> None:
    found = trino_jdbc.getMetaData()
    assert texts(found.getSchemas("lake", "def%")) == [("default", "lake")]
    columns = texts(found.getColumns("lake", "default", table, "%"))
    assert columns[3][4] == "3"
    assert {row[0] for row in texts(found.getTypeInfo())} >= {"bigint", "varchar", "row"}
    for nothing in (
        found.getProcedures(None, None, None),
        found.getImportedKeys("lake", "default", table),
        found.getUDTs(None, None, None, None),
        found.getSuperTypes(None, None, None),
        found.getSuperTables(None, None, None),
        found.getAttributes(None, None, None, None),
        found.getPseudoColumns(None, None, None, None),
    ):
        assert texts(nothing) == []
    assert found.getDatabaseProductVersion() == "seamline"


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW CATALOGS",
        'SHOW SCHEMAS FROM "lake"',
        'SHOW TABLES FROM "lake"."default"',
        'DESCRIBE "lake"."default"."{table}"',
        'SHOW CREATE TABLE "lake"."default"."{table}"',
        'SELECT TRUE AS "_" FROM "lake"."default"."{table}" WHERE 1 <> 1 LIMIT 0',
        "SELECT current_catalog, current_schema",
        "SELECT * FROM system.metadata.materialized_views",
        "SELECT * FROM lake.information_schema.table_privileges",
        "SELECT table_name, column_name, column_default, comment"
        " FROM lake.information_schema.columns",
    ],
)
def test_trino_jdbc_asks_as_tools_do(trino_jdbc: Any, table: str, sql: str) -> None:
    """Statements of DBeaver, Metabase and dbt."""
    query(trino_jdbc, sql.format(table=table))


def test_a_statement_is_ended_by_another_client(
    gateway: Gateway, trino_jdbc: Any, trino_cursor: Any
) -> None:
    client: Any = gateway.app.test_client()
    answer = client.post("/v1/statement", data=ENDLESS).json
    answer = client.get(answer["nextUri"]).json  # from then on it runs
    kill = f"CALL system.runtime.kill_query(query_id => '{answer['id']}', message => 'enough')"
    assert trino_jdbc.createStatement().executeUpdate(kill) == 0
    while "nextUri" in answer:
        answer = client.get(answer["nextUri"]).json
    assert answer["error"]["errorName"] == "USER_CANCELED"
    assert re.match("the statement was ended by .+: enough\n", answer["error"]["message"])
    sql = "SELECT state, error_code FROM system.runtime.queries WHERE query_id = ?"
    assert trino_cursor.execute(sql, [answer["id"]]).fetchall() == [["FAILED", "CANCELED"]]


def test_trino_jdbc_cancels_a_statement_that_has_no_rows_yet(
    trino_jdbc: Any, trino_cursor: Any
) -> None:
    sql = ENDLESS.replace("count(*)", "count(*) AS canceled_by_jdbc")
    statement = trino_jdbc.createStatement()
    result = statement.executeQuery(sql)
    assert result.getMetaData().getColumnName(1) == "canceled_by_jdbc"
    statement.cancel()
    assert result.isClosed()
    states = "SELECT state, error_code FROM system.runtime.queries WHERE query = ?"
    wait_until(lambda: trino_cursor.execute(states, [sql]).fetchall() == [["FAILED", "CANCELED"]])


def test_the_command_line_keeps_its_session(gateway: Gateway, table: str) -> None:
    found = cli(
        gateway.url,
        "SET SESSION row_limit = 1; PREPARE p FROM SELECT id, name FROM "
        f"{table} WHERE id >= ? ORDER BY id; EXECUTE p USING 3; RESET SESSION row_limit;"
        f" USE lake.information_schema; SELECT table_name FROM tables WHERE table_name = '{table}';"
        f" SELECT sum(id) FROM lake.default.{table}",
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout == f"3,{RECORD['name']}\n{table}\n10\n"


def test_the_command_line_shows_the_place_of_an_error(gateway: Gateway, table: str) -> None:
    found = cli(gateway.url, f"SELECT id,\n  nothing FROM {table}")
    assert found.returncode == 1
    assert "line 2:3: Column 'nothing' cannot be resolved" in found.stderr
    assert f"LINE 2:   nothing FROM {table}\n          ^" in found.stderr


@pytest.mark.soak
def test_trinos_clients_log_in_with_a_password(
    trino_driver: JdbcDriver, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)  # they would win over what a client is told
    authority = Authority(tmp_path, "authority")
    pair = authority.sign("gateway")
    hashed = bcrypt.hashpw(b"apple", bcrypt.gensalt(4)).decode()
    (tmp_path / "passwords").write_text(f"ann:{hashed}\n", encoding="utf-8")
    more = (
        f"http: {{tls: {{certificate: {pair.certificate}, key: {pair.key}}}}}\n"
        f"auth: {{passwords: {tmp_path / 'passwords'}}}\n"
    )
    long = "x" * 20_000
    with serving(tmp_path, more) as (url, _):
        options = {"SSL": "true", "SSLTrustStorePath": str(authority.file)}
        with contextlib.closing(
            trino_driver.connect(url, password="apple", **options)
        ) as connection:
            assert query(connection, "SELECT current_user") == [("ann",)]
            prepared = connection.prepareStatement(f"SELECT length('{long}') + ?")
            prepared.setInt(1, 1)
            assert texts(prepared.executeQuery()) == [(str(len(long) + 1),)]
        with (
            contextlib.closing(trino_driver.connect(url, password="pear", **options)) as connection,
            pytest.raises(Py4JJavaError, match="Authentication failed"),
        ):
            query(connection, "SELECT 1")

        address = urlsplit(url)
        connect: Any = trino.dbapi.connect
        basic: Any = trino.auth.BasicAuthentication
        with connect(
            host=address.hostname,
            port=address.port,
            user="ann",
            http_scheme="https",
            auth=basic("ann", "apple"),
            verify=str(authority.file),
        ) as connection:
            cursor = connection.cursor()
            assert cursor.execute("SELECT current_user, ?", (long,)).fetchall() == [["ann", long]]

        trusted = ("--truststore-path", str(authority.file), "--password")
        found = cli(url, "SELECT current_user", *trusted, TRINO_PASSWORD="apple")
        assert (found.returncode, found.stdout) == (0, "ann\n"), found.stderr


# --- Flight SQL ----------------------------------------------------------------------------------


def test_adbc_has_the_same_arrow_as_ours(gateway: Gateway, adbc_cursor: Any, table: str) -> None:
    sql = f"SELECT * FROM {table} ORDER BY id"
    found = adbc_cursor.execute(sql).fetch_arrow_table()
    with gateway.connect() as connection:
        ours = connection.execute(sql)
        assert ours.receipt is not None
        assert (ours.receipt["rows_cold"], ours.receipt["rows_hot"]) == (2, 2)
        assert found == ours.fetch_arrow_table()


def test_adbc_writes_many_rows_at_once(adbc_cursor: Any, stack: Stack, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint, name varchar")
    adbc_cursor.executemany(f"INSERT INTO {name} VALUES (?, ?)", [(3, "c"), (4, None)])
    assert adbc_cursor.rowcount == 2
    assert adbc_cursor.execute(f"SELECT sum(id) FROM {name}").fetchall() == [(7,)]
    adbc_cursor.execute(f"DROP TABLE {name}")


def test_adbc_is_told_code_and_hint(adbc_cursor: Any, table: str) -> None:
    with pytest.raises(adbc.ProgrammingError) as caught:
        adbc_cursor.execute(f"SELECT id FROM {table} WHERE nothing = 1")
    assert "COLUMN_NOT_FOUND: column nothing does not exist (line 1:" in str(caught.value)
    assert "hint: " in str(caught.value)
    assert (b"seamline-code", b"COLUMN_NOT_FOUND") in list[Any](caught.value.details)
    with pytest.raises(adbc.NotSupportedError):
        adbc_cursor.adbc_ingest(table, pa.table({"id": [1]}), mode="append")


def test_adbc_ends_a_statement(gateway: Gateway, adbc_cursor: Any) -> None:
    told: list[BaseException] = []

    def ask() -> None:
        with pytest.raises(adbc.Error) as caught:
            adbc_cursor.execute(ENDLESS)
        told.append(caught.value)

    thread = threading.Thread(target=ask)
    thread.start()
    running = gateway.running()
    adbc_cursor.adbc_cancel()
    thread.join(60)
    assert "CANCELLED" in str(told[0])
    wait_until(lambda: running.state is State.CANCELED, 30, "the end of the statement")


def test_adbc_finds_what_there_is(gateway: Gateway, table: str) -> None:
    with adbc.connect(gateway.flight_url, autocommit=True) as connection:
        assert connection.adbc_get_info()["vendor_name"] == "Seamline"
        assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]
        place: dict[str, Any] = {"catalog_filter": "lake", "db_schema_filter": "default"}
        schema = connection.adbc_get_table_schema(table, **place)
        assert schema.names == ["id", *RECORD]
        assert schema.field("price").type == pa.decimal128(20, 4)
        found = connection.adbc_get_objects(table_name_filter=table, **place).read_all()
        (catalog,) = [c for c in found.to_pylist() if c["catalog_name"] == "lake"]
        (listed,) = catalog["catalog_db_schemas"]
        (own,) = listed["db_schema_tables"]
        assert (own["table_name"], own["table_type"]) == (table, "TABLE")
        names = [column["xdbc_type_name"] for column in own["table_columns"]]
        assert names[:4] == ["bigint", "boolean", "integer", "decimal(20,4)"]


def test_adbc_keeps_a_session_with_cookies(gateway: Gateway, table: str) -> None:
    cookies = {"adbc.flight.sql.rpc.with_cookie_middleware": "true"}
    with (
        adbc.connect(gateway.flight_url, db_kwargs=cookies, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SET SESSION row_limit = 1")
        assert len(cursor.execute(f"SELECT id FROM {table}").fetchall()) == 1
        cursor.execute("RESET SESSION row_limit")
        assert len(cursor.execute(f"SELECT id FROM {table}").fetchall()) == 4
        assert connection.adbc_current_db_schema == "default"
        connection.adbc_current_db_schema = "information_schema"
        sql = "SELECT table_name FROM tables WHERE table_name = ?"
        assert cursor.execute(sql, (table,)).fetchall() == [(table,)]


def test_adbc_sends_options_as_headers(gateway: Gateway, table: str) -> None:
    header = "adbc.flight.sql.rpc.call_header.seamline-"
    options = {f"{header}schema": "information_schema", f"{header}row_limit": "1"}
    with (
        adbc.connect(gateway.flight_url, db_kwargs=options, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        assert len(cursor.execute("SELECT table_name FROM tables").fetchall()) == 1


def test_polars_and_pandas_read_over_adbc(gateway: Gateway, table: str) -> None:
    sql = f"SELECT id, price FROM {table} ORDER BY id"
    with adbc.connect(gateway.flight_url, autocommit=True) as connection:
        frame = pl.read_database(sql, connection)
        assert frame["id"].to_list() == [1, 2, 3, 4]
        assert frame["price"].dtype == pl.Decimal(20, 4)
        assert pd.read_sql(sql, connection)["id"].tolist() == [1, 2, 3, 4]


def test_flight_jdbc_reads_nested_values(flight_jdbc: Any, table: str) -> None:
    others = query(flight_jdbc, f'SELECT tags, nested, counts, "then" FROM {table} WHERE id = 3')
    assert others == [('["x",null]', '{"a":1,"b":"y"}', '{"k":1}', "2024-02-29 01:02:03.000001")]
    assert flight_jdbc.getMetaData().getDatabaseProductName() == "Seamline"


def test_flight_jdbc_binds_what_columns_take(flight_jdbc: Any, flight_jvm: Any, name: str) -> None:
    """The driver refuses a value that is not of the described type, and knows milliseconds."""
    sql = flight_jvm.java.sql
    with contextlib.closing(flight_jdbc.createStatement()) as statement:
        statement.executeUpdate(
            f"CREATE TABLE {name} (id bigint, name varchar, price decimal(10, 2), uid uuid,"
            " day date, at timestamp(6), ok boolean, data varbinary)"
        )
    opened = contextlib.ExitStack()

    def prepared(text: str) -> Any:
        return opened.enter_context(contextlib.closing(flight_jdbc.prepareStatement(text)))

    insert = prepared(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
    uid, at = RECORD["uid"], sql.Timestamp.valueOf("2024-02-29 01:02:03.123")
    for id_ in (1, 2):
        insert.setLong(1, id_)
        insert.setString(2, RECORD["name"])
        insert.setBigDecimal(3, flight_jvm.java.math.BigDecimal("1.25"))
        insert.setString(4, uid)
        insert.setDate(5, sql.Date.valueOf("2024-02-29"))
        insert.setTimestamp(6, at)
        insert.setBoolean(7, True)
        insert.setBytes(8, b"\x00\xff")
        insert.addBatch()
    insert.executeBatch()
    found = query(flight_jdbc, f"SELECT id, name, price, uid, day, at, ok FROM {name} ORDER BY id")
    same = (RECORD["name"], "1.25", uid, "2024-02-29", "2024-02-29 01:02:03.123", "true")
    assert [(row[0], *row[1:5], str(row[5]).rstrip("0"), row[6]) for row in found] == [
        ("1", *same), ("2", *same)
    ]  # fmt: skip
    update = prepared(f"UPDATE {name} SET price = ? WHERE uid = ? AND at = ? AND id = ?")
    update.setBigDecimal(1, flight_jvm.java.math.BigDecimal("2.50"))
    update.setString(2, uid)
    update.setTimestamp(3, at)
    update.setLong(4, 2)
    assert update.executeUpdate() == 1
    described = prepared(f"SELECT price, name FROM {name}").getMetaData()
    assert (described.getPrecision(1), described.getScale(1)) == (10, 2)
    opened.close()
    with contextlib.closing(flight_jdbc.createStatement()) as statement:
        statement.executeUpdate(f"DROP TABLE {name}")


def test_flight_jdbc_answers_every_question_about_the_gateway(flight_jdbc: Any) -> None:
    """But for those that the driver has no code for."""
    found = flight_jdbc.getMetaData()
    asked = 0
    for method in found.getClass().getMethods():
        name = method.getName()
        is_asked = name.startswith(("supports", "getMax", "getDefault", "get", "stores", "nulls"))
        is_own = not method.getDeclaringClass().isInterface() and name != "getClass"
        if is_asked and is_own and not method.getParameterCount():
            answer = getattr(found, name)()
            if method.getReturnType().getSimpleName() == "ResultSet":
                answer.close()
            asked += 1
    assert asked > 100
    assert found.supportsFullOuterJoins()
    assert "LISTAGG" in found.getSQLKeywords()
    assert found.getMaxColumnNameLength() == 0


def test_flight_jdbc_keeps_its_session(
    gateway: Gateway, flight_driver: JdbcDriver, table: str
) -> None:
    options = {"useEncryption": "false", "seamline-catalog": "lake"}
    with contextlib.closing(flight_driver.connect(gateway.flight_url, **options)) as connection:
        with contextlib.closing(connection.createStatement()) as statement:
            statement.execute("USE information_schema")
            statement.execute("SET SESSION row_limit = 1")
        assert query(connection, f"SELECT table_name FROM tables WHERE table_name = '{table}'")
        assert len(query(connection, f"SELECT id FROM lake.default.{table}")) == 1


def test_flights_clients_log_in_with_a_password_or_a_token_over_tls(
    flight_driver: JdbcDriver, tmp_path: pathlib.Path
) -> None:
    authority = Authority(tmp_path, "authority")
    pair = authority.sign("gateway")
    hashed = bcrypt.hashpw(b"apple", bcrypt.gensalt(4)).decode()
    (tmp_path / "passwords").write_text(f"ann:{hashed}\n", encoding="utf-8")
    audit = tmp_path / "audit.log"
    more = (
        f"http: {{tls: {{certificate: {pair.certificate}, key: {pair.key}}}}}\n"
        f"auth: {{passwords: {tmp_path / 'passwords'}, tokens: [{{name: bob, sha256: "
        "81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9}]}\n"
        f"flight: {{port: 0}}\naudit: {{file: {audit}}}\n"
    )
    with serving(tmp_path, more):
        told = re.search(r"and grpc\+tls://(\S+)", (tmp_path / "stderr").read_text())
        assert told is not None
        url, trusted = f"grpc+tls://{told[1]}", authority.file.read_text()
        password = {"username": "ann", "password": "apple"}
        token = {"adbc.flight.sql.authorization_header": "Bearer bob"}
        for who, options in (("ann", password), ("bob", token)):
            assert asked(url, trusted, options) == [(who,)]
        for wrong in (
            {"username": "ann", "password": "pear"},
            {"adbc.flight.sql.authorization_header": "Bearer rob"},
            {},
        ):
            with pytest.raises(adbc.Error, match="UNAUTHENTICATED"):
                asked(url, trusted, wrong)
        with pytest.raises(adbc.Error, match="certificate"):
            asked(url, Authority(tmp_path, "other").file.read_text(), token)

        store = {"trustStore": "", "tlsRootCerts": str(authority.file)}
        for who, proof in (
            ("ann", {"user": "ann", "password": "apple"}),
            ("bob", {"token": "bob"}),
        ):
            with contextlib.closing(flight_driver.connect(url, **store, **proof)) as connection:
                assert query(connection, "SELECT current_user") == [(who,)]
        with pytest.raises(Py4JJavaError):
            flight_driver.connect(url, **store, user="ann", password="pear")
        (tmp_path / "passwords").write_text(f"eve:{hashed}\n", encoding="utf-8")
        with pytest.raises(adbc.Error, match="UNAUTHENTICATED"):
            asked(url, trusted, password)
    events = audit.read_text()
    assert '"event":"login","id"' in events
    assert '"method":"password"' in events


def asked(url: str, trusted: str, options: dict[str, str]) -> list[tuple[str, ...]]:
    """Whom the gateway takes somebody for."""
    known = {"adbc.flight.sql.client_option.tls_root_certs": trusted, **options}
    with (
        adbc.connect(url, db_kwargs=known, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        return list(cursor.execute("SELECT current_user").fetchall())
