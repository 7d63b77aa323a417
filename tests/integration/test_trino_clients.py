"""Goal: Trino's JDBC driver, Python client and command line work as they are, and agree with ours.

Method: the published programs, those of Java in processes of their own, on a table whose rows are
in Iceberg and in Kafka, every type with a value and a null; and with a password over TLS, on a
gateway that is a process of its own.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import functools
import pathlib
import re
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import bcrypt
import pytest
import trino
from py4j.protocol import Py4JJavaError
from support.certificates import Authority
from support.gateway import Gateway
from support.java_library import java_library
from support.served import serving
from support.stack import Stack
from support.trino_clients import JDBC, cli, connected, jar_of, query, texts
from support.waiting import wait_until

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
AS_JDBC = (
    "true", "-7", "12345.6789", "0.1", "0.1", "ü😀\n'", "0x0001FF",
    "6f9619ff-8b86-d011-b42d-00c04fc964ff", "2024-02-29",
    "2024-02-29 01:02:03.123456 UTC", "2024-02-29 01:02:03.000001", "[x, null]", "{a=1, b=y}",
    "{k=1}",
)  # fmt: skip
MANY = 100_000


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


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    """Java, with the driver."""
    with java_library(jar_of(JDBC)) as running:
        yield running


@pytest.fixture(scope="module")
def driver(jvm: Any) -> Any:
    """Connects the driver to an address."""
    return functools.partial(connected, jvm)


@pytest.fixture(scope="module")
def jdbc(gateway: Gateway, driver: Any) -> Iterator[Any]:
    """A connection of the driver."""
    with contextlib.closing(driver(gateway.url)) as connection:
        yield connection


@pytest.fixture
def cursor(gateway: Gateway) -> Iterator[Any]:
    address = urlsplit(gateway.url)
    connect: Any = trino.dbapi.connect
    with connect(
        host=address.hostname, port=address.port, user="ann", catalog="lake", schema="default"
    ) as connection:
        yield connection.cursor()


# --- Python --------------------------------------------------------------------------------------


def test_python_reads_both_tiers(gateway: Gateway, cursor: Any, table: str) -> None:
    found = cursor.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()
    nulls = [None] * len(AS_PYTHON)
    assert [tuple(row) for row in found] == [
        (1, *AS_PYTHON), (2, *nulls), (3, *AS_PYTHON), (4, *nulls)
    ]  # fmt: skip
    with gateway.connect() as connection:
        ours = connection.execute(f"SELECT * FROM {table} ORDER BY id")
        assert [(c[0], c[1].replace(", ", ",")) for c in cursor.description] == [
            (c[0], str(c[1]).replace(", ", ",")) for c in ours.description or ()
        ]
        assert ours.receipt is not None
        assert (ours.receipt["rows_cold"], ours.receipt["rows_hot"]) == (2, 2)


def test_python_reads_what_it_writes(cursor: Any, stack: Stack, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint, name varchar")
    cursor.execute(f"INSERT INTO {name} VALUES (1, 'ü'), (2, NULL)").fetchall()
    assert (cursor.update_type, cursor.rowcount) == ("INSERT", 2)
    assert cursor.execute(f"SELECT name FROM {name} ORDER BY id").fetchall() == [["ü"], [None]]


def test_python_changes_rows(cursor: Any, name: str) -> None:
    made = f"CREATE TABLE {name} AS SELECT n AS id, 'x' AS v FROM UNNEST(sequence(1, 5)) t(n)"
    cursor.execute(made).fetchall()
    cursor.execute(f"DELETE FROM {name} WHERE id > ?", [4]).fetchall()
    assert (cursor.update_type, cursor.rowcount) == ("DELETE", 1)
    cursor.execute(f"UPDATE {name} SET v = ? WHERE id = ?", ["ü", 2]).fetchall()
    assert (cursor.update_type, cursor.rowcount) == ("UPDATE", 1)
    found = cursor.execute(f"SELECT id, v FROM {name} ORDER BY id").fetchall()
    assert found == [[1, "x"], [2, "ü"], [3, "x"], [4, "x"]]


def test_python_is_told_what_is_wrong(cursor: Any, table: str) -> None:
    with pytest.raises(trino.exceptions.TrinoUserError) as caught:
        cursor.execute(f"SELECT id FROM {table} WHERE nothing = 1").fetchall()
    assert caught.value.error_name == "COLUMN_NOT_FOUND"
    assert caught.value.message.startswith("line 1:")


# --- JDBC ----------------------------------------------------------------------------------------


def test_jdbc_reads_both_tiers(jdbc: Any, table: str) -> None:
    statement = jdbc.createStatement()
    result = statement.executeQuery(f"SELECT * FROM {table} ORDER BY id")
    described = result.getMetaData()
    names = [described.getColumnTypeName(place) for place in range(1, 16)]
    assert names == [
        "bigint", "boolean", "integer", "decimal(20,4)", "double", "real", "varchar", "varbinary",
        "uuid", "date", "timestamp(6) with time zone", "timestamp(6)", "array(varchar)",
        "row(a bigint,b varchar)", "map(varchar,bigint)",
    ]  # fmt: skip
    nulls = [None] * len(AS_JDBC)
    assert texts(result) == [("1", *AS_JDBC), ("2", *nulls), ("3", *AS_JDBC), ("4", *nulls)]


def test_jdbc_takes_parameters(jdbc: Any, table: str) -> None:
    prepared = jdbc.prepareStatement(f"SELECT id FROM {table} WHERE name = ? AND id > ? AND ok")
    assert prepared.getParameterMetaData().getParameterCount() == 2
    assert prepared.getMetaData().getColumnTypeName(1) == "bigint"
    prepared.setString(1, RECORD["name"])
    prepared.setLong(2, 1)
    assert texts(prepared.executeQuery()) == [("3",)]
    prepared.setString(1, "' OR 1 = 1 --")
    assert texts(prepared.executeQuery()) == []
    prepared.close()


def test_jdbc_counts_what_it_writes(jdbc: Any, stack: Stack, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint")
    statement = jdbc.createStatement()
    assert statement.executeUpdate(f"INSERT INTO {name} VALUES 1, 2, 3") == 3
    assert query(jdbc, f"SELECT sum(id) FROM {name}") == [("6",)]
    assert statement.executeUpdate(f"DROP TABLE {name}") == 0


def test_jdbc_changes_rows(jdbc: Any, name: str) -> None:
    statement = jdbc.createStatement()
    assert statement.executeUpdate(f"CREATE TABLE {name} AS SELECT 1 AS id, 'x' AS v") == 1
    merge = (
        f"MERGE INTO {name} AS t USING (VALUES (1), (2)) AS s(id) ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = ? WHEN NOT MATCHED THEN INSERT VALUES (s.id, ?)"
    )
    prepared = jdbc.prepareStatement(merge)
    prepared.setString(1, "old")
    prepared.setString(2, "new")
    assert prepared.executeUpdate() == 2
    assert query(jdbc, f"SELECT v FROM {name} ORDER BY id") == [("old",), ("new",)]
    assert statement.executeUpdate(f"DELETE FROM {name}") == 2
    assert statement.executeUpdate(f"TRUNCATE TABLE {name}") == 0
    assert statement.executeUpdate(f"DROP TABLE {name}") == 0


def test_jdbc_keeps_its_session(jdbc: Any, table: str) -> None:
    statement = jdbc.createStatement()
    statement.execute("USE lake.information_schema")
    assert (jdbc.getCatalog(), jdbc.getSchema()) == ("lake", "information_schema")
    statement.execute("USE lake.default")
    statement.execute("SET SESSION row_limit = 1")
    assert len(query(jdbc, f"SELECT id FROM {table}")) == 1
    statement.execute("RESET SESSION row_limit")
    assert len(query(jdbc, f"SELECT id FROM {table}")) == 4
    jdbc.setAutoCommit(False)
    assert query(jdbc, f"SELECT count(*) FROM {table}") == [("4",)]
    jdbc.commit()
    jdbc.setAutoCommit(True)
    assert jdbc.isValid(5)


def test_jdbc_is_in_the_zone_of_its_jvm_or_another(driver: Any, gateway: Gateway) -> None:
    noon = "CAST(TIMESTAMP '2024-07-01 12:00' AS timestamp(0) with time zone)"
    sql = f"SELECT current_timezone(), {noon}, to_unixtime({noon}) / 3600"
    ((_, _, in_utc),) = gateway.rows(sql)
    with contextlib.closing(driver(gateway.url, timezone="Europe/Berlin")) as connection:
        (found,) = query(connection, sql)
        assert found == ("Europe/Berlin", "2024-07-01 12:00:00 Europe/Berlin", str(in_utc - 2))
        connection.createStatement().execute("SET TIME ZONE INTERVAL -'03:30' HOUR TO MINUTE")
        (found,) = query(connection, sql)
        assert found == ("-03:30", "2024-07-01 12:00:00 -03:30", str(in_utc + 3.5))


def test_jdbc_limits_how_long_a_statement_runs(jdbc: Any, table: str) -> None:
    statement = jdbc.createStatement()
    statement.setQueryTimeout(60)
    assert statement.execute(f"SELECT count(*) FROM {table}")
    statement.setQueryTimeout(1)
    endless = " CROSS JOIN ".join(f"UNNEST(sequence(1, 10000)) {t}({t})" for t in "uvwx")
    sql = f"SELECT count(*) FROM {endless} WHERE u + v + w + x = -1"
    with pytest.raises(Py4JJavaError) as caught:
        statement.executeQuery(sql).next()  # columns come before rows
    assert "did not end within 1" in caught.value.java_exception.getMessage()


def test_jdbc_is_told_what_is_wrong(jdbc: Any, table: str) -> None:
    with pytest.raises(Py4JJavaError) as caught:
        query(jdbc, f"SELECT id FROM {table}\nWHERE nothing = 1")
    message = caught.value.java_exception.getMessage()
    assert "line 2:7: Column 'nothing' cannot be resolved" in message


@pytest.mark.soak
def test_jdbc_fetches_many_rows(jdbc: Any, table: str) -> None:
    """Counted on Java's side: a row at a time is slow from here."""
    sql = (
        f"SELECT t.name, a.n FROM {table} t CROSS JOIN UNNEST(sequence(1, 250)) a(n)"
        " CROSS JOIN UNNEST(sequence(1, 200)) b(n) WHERE t.ok"
    )
    result = jdbc.createStatement().executeQuery(sql)
    count = 0
    while result.next():
        count += 1
    assert count == MANY


def test_jdbc_finds_what_there_is(jdbc: Any, table: str) -> None:
    found = jdbc.getMetaData()
    assert texts(found.getCatalogs()) == [("default",), ("lake",), ("system",)]
    assert ("default", "lake") in texts(found.getSchemas())
    assert texts(found.getSchemas("lake", "def%")) == [("default", "lake")]
    (own,) = texts(found.getTables("lake", "default", table, None))
    assert own[:4] == ("lake", "default", table, "TABLE")
    columns = texts(found.getColumns("lake", "default", table, "%"))
    assert [row[3] for row in columns] == ["id", *RECORD]
    assert [row[3:7] + row[8:9] for row in columns[3:4]] == [
        ("price", "3", "decimal(20,4)", "20", "4")
    ]
    assert {row[0] for row in texts(found.getTypeInfo())} >= {"bigint", "varchar", "row"}
    assert texts(found.getTableTypes()) == [("TABLE",), ("VIEW",)]
    for nothing in (
        found.getProcedures(None, None, None),
        found.getPrimaryKeys("lake", "default", table),
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
def test_jdbc_asks_as_tools_do(jdbc: Any, table: str, sql: str) -> None:
    """Statements of DBeaver, Metabase and dbt."""
    query(jdbc, sql.format(table=table))


def test_a_statement_is_ended_by_another_client(gateway: Gateway, jdbc: Any, cursor: Any) -> None:
    endless = " CROSS JOIN ".join(f"UNNEST(sequence(1, 10000)) {t}({t})" for t in "uvwx")
    client: Any = gateway.app.test_client()
    sql = f"SELECT count(*) FROM {endless} WHERE u + v + w + x = -1"
    answer = client.post("/v1/statement", data=sql).json
    answer = client.get(answer["nextUri"]).json  # from then on it runs
    kill = f"CALL system.runtime.kill_query(query_id => '{answer['id']}', message => 'enough')"
    assert jdbc.createStatement().executeUpdate(kill) == 0
    while "nextUri" in answer:
        answer = client.get(answer["nextUri"]).json
    assert answer["error"]["errorName"] == "USER_CANCELED"
    assert re.match("the statement was ended by .+: enough\n", answer["error"]["message"])
    sql = "SELECT state, error_code FROM system.runtime.queries WHERE query_id = ?"
    assert cursor.execute(sql, [answer["id"]]).fetchall() == [["FAILED", "CANCELED"]]


def test_jdbc_cancels_a_statement_that_has_no_rows_yet(jdbc: Any, cursor: Any) -> None:
    endless = " CROSS JOIN ".join(f"UNNEST(sequence(1, 10000)) {t}({t})" for t in "uvwx")
    sql = f"SELECT count(*) AS canceled_by_jdbc FROM {endless} WHERE u + v + w + x = -1"
    statement = jdbc.createStatement()
    result = statement.executeQuery(sql)
    assert result.getMetaData().getColumnName(1) == "canceled_by_jdbc"
    statement.cancel()
    assert result.isClosed()
    states = "SELECT state, error_code FROM system.runtime.queries WHERE query = ?"
    wait_until(lambda: cursor.execute(states, [sql]).fetchall() == [["FAILED", "CANCELED"]])


# --- The command line ----------------------------------------------------------------------------


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


# --- Over TLS ------------------------------------------------------------------------------------


@pytest.mark.soak
def test_all_of_them_log_in_with_a_password(
    driver: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
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
        with contextlib.closing(driver(url, password="apple", **options)) as connection:
            assert query(connection, "SELECT current_user") == [("ann",)]
            prepared = connection.prepareStatement(f"SELECT length('{long}') + ?")
            prepared.setInt(1, 1)
            assert texts(prepared.executeQuery()) == [(str(len(long) + 1),)]
        with (
            contextlib.closing(driver(url, password="pear", **options)) as connection,
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
