"""Goal: ADBC and the JDBC driver of Flight SQL work as they are, and agree with our own client.

Method: the published drivers, that of Java in a process of its own, on a table whose rows are in
Iceberg and in Kafka, every type with a value and a null; and with passwords and tokens over TLS, on
a gateway that is a process of its own.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import os
import pathlib
import re
import threading
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import adbc_driver_flightsql.dbapi as adbc
import bcrypt
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from support.certificates import Authority
from support.gateway import Gateway
from support.java_library import java_library
from support.served import serving
from support.stack import Stack
from support.waiting import wait_until

from seamline.connectors.jvm.jars import JarSet, cache_directory, fetch
from seamline.gateway.statements.statement import State

pytestmark = pytest.mark.integration

JDBC = JarSet(
    "flight-sql-jdbc", ("org.apache.arrow:flight-sql-jdbc-driver:18.3.0",), transitive=False
)
JAVA_OPTIONS = ("--add-opens=java.base/java.nio=ALL-UNNAMED",)
COLUMNS = """
    id bigint, ok boolean, small integer, price decimal(20, 4), ratio double, single real,
    name varchar, data varbinary, uid uuid, day date, at timestamp with time zone, then timestamp,
    tags array(varchar), nested row(a bigint, b varchar), counts map(varchar, bigint)
"""
RECORD: dict[str, Any] = {
    "ok": True, "small": -7, "price": "12345.6789", "ratio": 0.1, "single": 0.5, "name": "ü😀\n'",
    "data": "AAH/", "uid": "6f9619ff-8b86-d011-b42d-00c04fc964ff", "day": "2024-02-29",
    "at": "2024-02-29T01:02:03.123456Z", "then": "2024-02-29T01:02:03.000001",
    "tags": ["x", None], "nested": {"a": 1, "b": "y"}, "counts": {"k": 1},
}  # fmt: skip
AS_PYTHON = (
    True, -7, decimal.Decimal("12345.6789"), 0.1, 0.5, "ü😀\n'", b"\x00\x01\xff",
    "6f9619ff-8b86-d011-b42d-00c04fc964ff", datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 123456, datetime.UTC),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 1), ["x", None], {"a": 1, "b": "y"}, [("k", 1)],
)  # fmt: skip
AS_JDBC = (
    "true", "-7", "12345.6789", "0.1", "0.5", "ü😀\n'",
    "6f9619ff-8b86-d011-b42d-00c04fc964ff", "2024-02-29",
)  # fmt: skip
ENDLESS = (
    "SELECT count(*) FROM "
    + " CROSS JOIN ".join(f"UNNEST(sequence(1, 10000)) {t}({t})" for t in "uvwx")
    + " WHERE u + v + w + x = -1"
)


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
def cursor(gateway: Gateway) -> Iterator[Any]:
    connection = adbc.connect(gateway.flight_url, autocommit=True)
    with connection, connection.cursor() as made:
        yield made


@pytest.fixture(scope="module")
def driver_jvm() -> Iterator[Any]:
    """Java, with the JDBC driver."""
    (jar,) = fetch(JDBC, cache_directory(os.environ), print).glob("*.jar")
    with java_library(jar, options=JAVA_OPTIONS) as jvm:
        yield jvm


@pytest.fixture(scope="module")
def driver(driver_jvm: Any) -> Any:
    """Connects the JDBC driver to an address."""

    def connect(url: str, **options: str) -> Any:
        properties = driver_jvm.java.util.Properties()
        for name, value in options.items():
            properties.setProperty(name, value)
        address = f"jdbc:arrow-flight-sql://{urlsplit(url).netloc}/"
        return driver_jvm.org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver().connect(
            address, properties
        )

    return connect


@pytest.fixture
def jdbc(gateway: Gateway, driver: Any) -> Iterator[Any]:
    with contextlib.closing(driver(gateway.flight_url, useEncryption="false")) as connection:
        yield connection


def texts(result: Any) -> list[tuple[str | None, ...]]:
    """The rows of a result of the driver, as the driver's texts."""
    count = result.getMetaData().getColumnCount()
    rows = []
    while result.next():
        rows.append(tuple(result.getString(place) for place in range(1, count + 1)))
    result.close()
    return rows


def query(jdbc: Any, sql: str) -> list[tuple[str | None, ...]]:
    with contextlib.closing(jdbc.createStatement()) as statement:
        return texts(statement.executeQuery(sql))


# --- ADBC ----------------------------------------------------------------------------------------


def test_adbc_reads_both_tiers_as_our_client_does(
    gateway: Gateway, cursor: Any, table: str
) -> None:
    sql = f"SELECT * FROM {table} ORDER BY id"
    found = cursor.execute(sql).fetch_arrow_table()
    with gateway.connect() as connection:
        ours = connection.execute(sql)
        assert (ours.receipt["rows_cold"], ours.receipt["rows_hot"]) == (2, 2)
        assert found == ours.fetch_arrow_table()
    nulls = (None,) * len(AS_PYTHON)
    rows = cursor.execute(sql).fetchall()
    assert [tuple(row) for row in rows] == [
        (1, *AS_PYTHON), (2, *nulls), (3, *AS_PYTHON), (4, *nulls)
    ]  # fmt: skip


def test_adbc_takes_parameters(cursor: Any, table: str) -> None:
    sql = f"SELECT id FROM {table} WHERE name = ? AND id > ?"
    assert cursor.execute(sql, (RECORD["name"], 1)).fetchall() == [(3,)]
    assert cursor.execute(sql, ("' OR 1 = 1 --", 1)).fetchall() == []


def test_adbc_reads_what_it_writes(cursor: Any, stack: Stack, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint, name varchar")
    cursor.execute(f"INSERT INTO {name} VALUES (1, 'ü'), (2, NULL)")
    assert cursor.rowcount == 2
    assert cursor.execute(f"SELECT name FROM {name} ORDER BY id").fetchall() == [("ü",), (None,)]
    cursor.executemany(f"INSERT INTO {name} VALUES (?, ?)", [(3, "c"), (4, None)])
    assert cursor.rowcount == 2
    assert cursor.execute(f"SELECT sum(id) FROM {name}").fetchall() == [(10,)]
    cursor.execute(f"DROP TABLE {name}")


def test_adbc_changes_rows(cursor: Any, name: str) -> None:
    cursor.execute(
        f"CREATE TABLE {name} AS SELECT n AS id, 'x' AS v FROM UNNEST(sequence(1, 5)) t(n)"
    )
    cursor.execute(f"DELETE FROM {name} WHERE id > ?", (4,))
    assert cursor.rowcount == 1
    cursor.execute(f"UPDATE {name} SET v = ? WHERE id = ?", ("ü", 2))
    assert cursor.rowcount == 1
    found = cursor.execute(f"SELECT id, v FROM {name} ORDER BY id").fetchall()
    assert found == [(1, "x"), (2, "ü"), (3, "x"), (4, "x")]
    cursor.execute(f"DROP TABLE {name}")


def test_adbc_is_told_what_is_wrong(cursor: Any, table: str) -> None:
    with pytest.raises(adbc.ProgrammingError) as caught:
        cursor.execute(f"SELECT id FROM {table} WHERE nothing = 1")
    assert "COLUMN_NOT_FOUND: column nothing does not exist (line 1:" in str(caught.value)
    assert "hint: " in str(caught.value)
    assert (b"seamline-code", b"COLUMN_NOT_FOUND") in list[Any](caught.value.details)
    with pytest.raises(adbc.NotSupportedError):
        cursor.adbc_ingest(table, pa.table({"id": [1]}), mode="append")


def test_adbc_ends_a_statement(gateway: Gateway, cursor: Any) -> None:
    told: list[BaseException] = []

    def ask() -> None:
        with pytest.raises(adbc.Error) as caught:
            cursor.execute(ENDLESS)
        told.append(caught.value)

    thread = threading.Thread(target=ask)
    thread.start()
    running = gateway.running()
    cursor.adbc_cancel()
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


# --- JDBC ----------------------------------------------------------------------------------------


def test_jdbc_reads_both_tiers(jdbc: Any, table: str) -> None:
    plain = "id, ok, small, price, ratio, single, name, uid, day"
    nulls = [None] * len(AS_JDBC)
    found = query(jdbc, f"SELECT {plain} FROM {table} ORDER BY id")
    assert found == [("1", *AS_JDBC), ("2", *nulls), ("3", *AS_JDBC), ("4", *nulls)]
    others = query(jdbc, f'SELECT tags, nested, counts, "then" FROM {table} WHERE id = 3')
    assert others == [('["x",null]', '{"a":1,"b":"y"}', '{"k":1}', "2024-02-29 01:02:03.000001")]


def test_jdbc_takes_parameters(jdbc: Any, table: str) -> None:
    sql = f"SELECT id FROM {table} WHERE name = ? AND id > ? AND ok"
    with contextlib.closing(jdbc.prepareStatement(sql)) as prepared:
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


def test_jdbc_binds_what_columns_take(jdbc: Any, driver_jvm: Any, name: str) -> None:
    """The driver refuses a value that is not of the described type, and knows milliseconds."""
    sql = driver_jvm.java.sql
    with contextlib.closing(jdbc.createStatement()) as statement:
        statement.executeUpdate(
            f"CREATE TABLE {name} (id bigint, name varchar, price decimal(10, 2), uid uuid,"
            " day date, at timestamp(6), ok boolean, data varbinary)"
        )
    opened = contextlib.ExitStack()

    def prepared(text: str) -> Any:
        return opened.enter_context(contextlib.closing(jdbc.prepareStatement(text)))

    insert = prepared(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
    uid, at = RECORD["uid"], sql.Timestamp.valueOf("2024-02-29 01:02:03.123")
    for id_ in (1, 2):
        insert.setLong(1, id_)
        insert.setString(2, RECORD["name"])
        insert.setBigDecimal(3, driver_jvm.java.math.BigDecimal("1.25"))
        insert.setString(4, uid)
        insert.setDate(5, sql.Date.valueOf("2024-02-29"))
        insert.setTimestamp(6, at)
        insert.setBoolean(7, True)
        insert.setBytes(8, b"\x00\xff")
        insert.addBatch()
    insert.executeBatch()
    found = query(jdbc, f"SELECT id, name, price, uid, day, at, ok FROM {name} ORDER BY id")
    same = (RECORD["name"], "1.25", uid, "2024-02-29", "2024-02-29 01:02:03.123", "true")
    assert [(row[0], *row[1:5], str(row[5]).rstrip("0"), row[6]) for row in found] == [
        ("1", *same), ("2", *same)
    ]  # fmt: skip
    update = prepared(f"UPDATE {name} SET price = ? WHERE uid = ? AND at = ? AND id = ?")
    update.setBigDecimal(1, driver_jvm.java.math.BigDecimal("2.50"))
    update.setString(2, uid)
    update.setTimestamp(3, at)
    update.setLong(4, 2)
    assert update.executeUpdate() == 1
    described = prepared(f"SELECT price, name FROM {name}").getMetaData()
    assert (described.getPrecision(1), described.getScale(1)) == (10, 2)
    opened.close()
    with contextlib.closing(jdbc.createStatement()) as statement:
        statement.executeUpdate(f"DROP TABLE {name}")


def test_jdbc_answers_every_question_about_the_gateway(jdbc: Any) -> None:
    """But for those that the driver has no code for."""
    found = jdbc.getMetaData()
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


def test_jdbc_limits_how_long_a_statement_runs(jdbc: Any) -> None:
    statement = jdbc.createStatement()
    statement.setQueryTimeout(1)
    with pytest.raises(Py4JJavaError) as caught:
        statement.executeQuery(ENDLESS)
    assert "timed out after 1 SECONDS" in caught.value.java_exception.getMessage()
    statement.close()


def test_jdbc_keeps_its_session(gateway: Gateway, driver: Any, table: str) -> None:
    options = {"useEncryption": "false", "seamline-catalog": "lake"}
    with contextlib.closing(driver(gateway.flight_url, **options)) as connection:
        with contextlib.closing(connection.createStatement()) as statement:
            statement.execute("USE information_schema")
            statement.execute("SET SESSION row_limit = 1")
        assert query(connection, f"SELECT table_name FROM tables WHERE table_name = '{table}'")
        assert len(query(connection, f"SELECT id FROM lake.default.{table}")) == 1


def test_jdbc_is_told_what_is_wrong(jdbc: Any, table: str) -> None:
    with pytest.raises(Py4JJavaError) as caught:
        query(jdbc, f"SELECT id FROM {table}\nWHERE nothing = 1")
    message = caught.value.java_exception.getMessage()
    assert "COLUMN_NOT_FOUND: column nothing does not exist (line 2:7)" in message


def test_jdbc_finds_what_there_is(jdbc: Any, table: str) -> None:
    found = jdbc.getMetaData()
    assert texts(found.getCatalogs()) == [("default",), ("lake",), ("system",)]
    assert ("default", "lake") in texts(found.getSchemas())
    (own,) = texts(found.getTables("lake", "default", table, None))
    assert own[:4] == ("lake", "default", table, "TABLE")
    columns = texts(found.getColumns("lake", "default", table, "%"))
    assert [row[3] for row in columns] == ["id", *RECORD]
    assert [row[5:7] + row[8:9] for row in columns[3:4]] == [("decimal(20,4)", "20", "4")]
    assert texts(found.getTableTypes()) == [("TABLE",), ("VIEW",)]
    assert texts(found.getPrimaryKeys("lake", "default", table)) == []
    assert found.getDatabaseProductName() == "Seamline"


# --- Over TLS ------------------------------------------------------------------------------------


def test_both_log_in_with_a_password_or_a_token_over_tls(
    driver: Any, tmp_path: pathlib.Path
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
            with contextlib.closing(driver(url, **store, **proof)) as connection:
                assert query(connection, "SELECT current_user") == [(who,)]
        with pytest.raises(Py4JJavaError):
            driver(url, **store, user="ann", password="pear")
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
