"""Goal: the client has what PEP 249 says a driver has, and errors keep what they are.

Method: the module and connections that never reach a gateway; a gateway without a broker answers
the statements.
"""

from __future__ import annotations

import copy
import datetime
import pickle
from collections.abc import Iterator

import pytest
from support.gateway import Gateway

import seamline
from seamline.dbapi import errors
from seamline.errors import ERRORS, Location

EXCEPTIONS = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, errors.Error)
]


@pytest.fixture
def connection(offline_gateway: Gateway) -> Iterator[seamline.Connection]:
    with offline_gateway.connect() as connection:
        yield connection


# --- The module ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        (seamline.STRING, ["varchar", "varchar(20)", "char(3)"]),
        (seamline.BINARY, ["varbinary"]),
        (seamline.NUMBER, ["tinyint", "bigint", "double", "real", "decimal(10,2)"]),
        (seamline.DATETIME, ["date", "time(6)", "timestamp(6)", "timestamp(6) with time zone"]),
        (seamline.ROWID, []),
    ],
)
def test_a_type_object_equals_the_types_of_its_kind(kind: object, types: list[str]) -> None:
    kinds = {seamline.STRING, seamline.BINARY, seamline.NUMBER, seamline.DATETIME, seamline.ROWID}
    for type_ in types:
        assert type_ == kind
        assert [other for other in kinds if other == type_] == [kind]
    for type_ in ("boolean", "uuid", "array(varchar)", "map(varchar, bigint)", "row(a date)"):
        assert type_ != kind


def test_constructors() -> None:
    at = datetime.datetime(2024, 2, 29, 13, 45, 30)
    ticks = at.timestamp()
    assert seamline.Date(2024, 2, 29) == seamline.DateFromTicks(ticks) == at.date()
    assert seamline.Time(13, 45, 30) == seamline.TimeFromTicks(ticks) == at.time()
    assert seamline.Timestamp(2024, 2, 29, 13, 45, 30) == seamline.TimestampFromTicks(ticks) == at
    assert seamline.Binary(b"\x00x") == b"\x00x"


@pytest.mark.parametrize("class_", EXCEPTIONS)
def test_an_exception_keeps_its_class_and_fields(class_: type[errors.Error]) -> None:
    error = class_(
        ERRORS["SYNTAX_ERROR"],
        "what happened",
        hint="what to do",
        location=Location(3, 14),
        query_id="q1",
        details={"partition": 1},
    )
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is class_
        assert other.to_json() == error.to_json()
        assert other.code is error.code
    warning = pickle.loads(pickle.dumps(seamline.Warning("w")))
    assert (type(warning), warning.args) == (seamline.Warning, ("w",))


# --- Connections ---------------------------------------------------------------------------------


def test_exceptions_are_attributes_of_connections(connection: seamline.Connection) -> None:
    for class_ in (*EXCEPTIONS, seamline.Warning):
        assert getattr(connection, class_.__name__) is class_


def test_a_closed_connection_commits_nothing(connection: seamline.Connection) -> None:
    connection.commit()
    connection.rollback()
    connection.close()
    connection.close()
    for use in (connection.commit, connection.rollback, connection.cursor):
        with pytest.raises(seamline.InterfaceError, match="the connection is closed"):
            use()


# --- Cursors -------------------------------------------------------------------------------------


def test_where_a_cursor_is(connection: seamline.Connection) -> None:
    cursor = connection.cursor()
    assert cursor.connection is connection
    assert (cursor.arraysize, cursor.rownumber, cursor.rowcount) == (1, None, -1)
    cursor.execute("SELECT x FROM (VALUES 1, 2, 3, 4, 5) AS t(x) ORDER BY x")
    assert (cursor.rownumber, cursor.rowcount) == (0, 5)
    assert iter(cursor) is cursor
    assert next(cursor) == (1,)
    assert cursor.fetchmany() == [(2,)]
    assert cursor.fetchmany(2) == [(3,), (4,)]
    assert cursor.rownumber == 4
    assert cursor.fetchall() == [(5,)]
    assert (cursor.fetchone(), cursor.rownumber) == (None, 5)
    cursor.setinputsizes([1])
    cursor.setoutputsize(1)
    cursor.setoutputsize(1, 0)
    assert not hasattr(cursor, "callproc")
    assert not hasattr(cursor, "nextset")


def test_a_statement_without_a_result_has_no_description(connection: seamline.Connection) -> None:
    cursor = connection.cursor()
    for sql, rowcount in (
        ("CREATE TABLE described (a integer)", -1),
        ("INSERT INTO described VALUES 1, 2", 2),
        ("CREATE TABLE copied AS SELECT a FROM described", 2),
        ("PREPARE more FROM INSERT INTO described VALUES (?)", -1),
        ("EXECUTE more USING 3", 1),
        ("SET SESSION row_limit = 7", -1),
        ("USE lake.default", -1),
        ("CREATE VIEW viewed AS SELECT a FROM described", -1),
        ("DROP VIEW viewed", -1),
        ("DROP TABLE copied", -1),
        ("DROP TABLE described", -1),
    ):
        cursor.execute("SELECT 1")
        cursor.execute(sql)
        assert (cursor.description, cursor.rowcount, cursor.rownumber) == (None, rowcount, None)
        for fetch in (cursor.fetchone, cursor.fetchall, cursor.fetch_arrow_table):
            with pytest.raises(seamline.InterfaceError, match="no result"):
                fetch()
    for sql in ("SHOW TABLES", "EXPLAIN SELECT 1", "SELECT 1 LIMIT 0"):
        assert [len(column) for column in cursor.execute(sql).description or ()] == [7]


def test_executemany_counts_what_it_has_written(connection: seamline.Connection) -> None:
    cursor = connection.execute("CREATE TABLE many (a integer, b varchar)")
    rows = [(1, "a"), (2, None), (3, "c")]
    cursor.executemany("INSERT INTO many VALUES (?, ?)", iter(rows))
    assert (cursor.rowcount, cursor.description) == (3, None)
    cursor.executemany("INSERT INTO many VALUES (:a, :b)", [{"a": 4, "b": "d"}])
    assert cursor.rowcount == 1
    assert cursor.execute("SELECT * FROM many ORDER BY a").fetchall() == [*rows, (4, "d")]
    cursor.close()
    assert cursor.rowcount == 4
    cursor = connection.cursor()
    cursor.executemany("INSERT INTO many VALUES (?, ?)", [])
    assert (cursor.rowcount, cursor.description) == (0, None)
    with pytest.raises(errors.Error) as caught:
        cursor.executemany("INSERT INTO many VALUES (?, 'x')", [[5], [6], ["no"], [7]])
    assert caught.value.__notes__ == ["before it, 2 sets of parameters had succeeded"]
    assert cursor.execute("SELECT count(*) FROM many WHERE a > 4").fetchall() == [(2,)]
    cursor.execute("DROP TABLE many")


def test_tables_of_arrow_go_on_where_the_last_one_ended(connection: seamline.Connection) -> None:
    cursor = connection.execute("SELECT x FROM UNNEST(sequence(1, 10)) AS t(x) ORDER BY x")
    found: list[list[int]] = []
    while (table := cursor.fetchmany_arrow(4)).num_rows:
        found.append(table.column("x").to_pylist())
    assert found == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    assert cursor.fetchmany_arrow(4).schema == cursor.fetch_arrow_table().schema
    cursor.execute("SELECT 1 AS x")
    assert cursor.fetchmany_arrow().column("x").to_pylist() == [1]


def test_every_constructor_makes_a_parameter(connection: seamline.Connection) -> None:
    given = (
        seamline.Date(2024, 2, 29),
        seamline.Time(13, 45, 30, 5),
        seamline.Timestamp(2024, 2, 29, 13, 45, 30),
        seamline.Binary(b"\x00x"),
    )
    cursor = connection.execute("SELECT ?, ?, ?, ?", given)
    assert cursor.fetchone() == given
    kinds = [seamline.DATETIME] * 3 + [seamline.BINARY]
    assert [column[1] for column in cursor.description or ()] == kinds
