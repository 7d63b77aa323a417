"""Goal: what a query gives is what a plain table then holds, in one snapshot, or nothing is.

Method: a gateway over a catalog in one file; every type through CREATE TABLE … AS and INSERT INTO,
read back by the gateway and by PyIceberg alone.
"""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table
from support import offline
from support.clients import refused, rows
from support.gateway import Gateway

import seamline

EVERY_TYPE = (
    "SELECT CAST(1 AS bigint) AS i, 2 AS n, 1.50 AS d, 2.5e0 AS f, 'é' AS s, true AS b,"
    " DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 01:02:03.000004' AS at,"
    " TIMESTAMP '2024-02-29 01:02:03 UTC' AS instant, X'00ff' AS raw,"
    " UUID '123e4567-e89b-12d3-a456-426614174000' AS id, ARRAY[1, NULL] AS a,"
    " CAST(ROW(1, 'x') AS row(p integer, q varchar)) AS r, MAP(ARRAY['k'], ARRAY[1.5]) AS m"
)
ROW = (
    1,
    2,
    decimal.Decimal("1.50"),
    2.5,
    "é",
    True,
    datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
    datetime.datetime(2024, 2, 29, 1, 2, 3, tzinfo=datetime.UTC),
    b"\x00\xff",
    uuid.UUID("123e4567-e89b-12d3-a456-426614174000"),
    [1, None],
    {"p": 1, "q": "x"},
    {"k": decimal.Decimal("1.5")},
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    running = Gateway(offline.config(tmp_path_factory.mktemp("writes")))
    yield running
    running.close()


def loaded(gateway: Gateway, name: str) -> Table:
    return gateway.parts.connections.catalog("lake").pyiceberg.load_table(("default", name))


def test_every_type_is_kept(gateway: Gateway, connection: seamline.Connection) -> None:
    assert rows(connection, f"CREATE TABLE kept AS {EVERY_TYPE}") == [(1,)]
    assert rows(connection, f"INSERT INTO kept {EVERY_TYPE} UNION ALL {EVERY_TYPE}") == [(2,)]
    assert rows(connection, "SELECT * FROM kept") == [ROW] * 3
    assert len(loaded(gateway, "kept").metadata.snapshots) == 2, "one commit each"
    assert loaded(gateway, "kept").scan().to_arrow().num_rows == 3


def test_nulls_of_every_nesting_are_kept(connection: seamline.Connection) -> None:
    """PyIceberg makes empty lists and maps of nulls where their members are structs."""
    types = "array(row(a integer))", "map(varchar, row(a integer))", "array(array(row(a integer)))"
    columns = ", ".join(f"c{place} {type_}" for place, type_ in enumerate(types))
    rows(connection, f"CREATE TABLE nested_nulls ({columns})")
    one, two = "ARRAY[ROW(1 AS a)]", "MAP(ARRAY['k'], ARRAY[ROW(2 AS a)])"
    three = "ARRAY[NULL, ARRAY[], ARRAY[ROW(CAST(NULL AS integer) AS a), NULL]]"
    for row in ("NULL, NULL, NULL", f"{one}, {two}, {three}", "ARRAY[], MAP(), ARRAY[]"):
        rows(connection, f"INSERT INTO nested_nulls SELECT {row}")
    assert rows(connection, "SELECT * FROM nested_nulls ORDER BY cardinality(c0)") == [
        ([], {}, []),
        ([{"a": 1}], {"k": {"a": 2}}, [None, [], [{"a": None}, None]]),
        (None, None, None),
    ]
    rows(connection, "DROP TABLE nested_nulls")


@pytest.mark.parametrize(
    "type_",
    ["map(varchar, integer)", "array(integer)", "map(varchar, row(a integer))", "row(a integer)"],
)
def test_fields_keep_their_ids_beside_nulls(type_: str, connection: seamline.Connection) -> None:
    """Whatever has none is not read by DuckDB."""
    rows(connection, f"CREATE TABLE with_ids (id integer, x {type_})")
    rows(connection, "INSERT INTO with_ids VALUES (1, NULL)")
    assert str(rows(connection, "EXPLAIN SELECT * FROM with_ids")[0][0]).startswith(
        "Engine: duckdb"
    )
    assert rows(connection, "SELECT * FROM with_ids") == [(1, None)]
    rows(connection, "DROP TABLE with_ids")


def test_a_table_may_be_made_without_rows(
    gateway: Gateway, connection: seamline.Connection
) -> None:
    rows(connection, "CREATE TABLE bare COMMENT 'x' AS SELECT 1 AS a WITH NO DATA")
    assert rows(connection, "SELECT * FROM bare") == []
    assert rows(connection, "CREATE TABLE IF NOT EXISTS bare AS SELECT 2 AS b") == [(0,)]
    assert rows(connection, "DESCRIBE bare")[0][0] == "a"
    assert loaded(gateway, "bare").properties["comment"] == "x"
    rows(connection, "CREATE TABLE full AS SELECT 1 AS a WITH DATA")
    assert rows(connection, "SELECT * FROM full") == [(1,)]
    assert rows(connection, "SELECT count(*) FROM full TABLESAMPLE BERNOULLI (100)") == [(1,)]
    assert rows(connection, "SELECT f.a FROM full AS f TABLESAMPLE SYSTEM (0)") == []
    assert rows(connection, "SELECT try(a / (a - 1)) FROM full WHERE try(1 / a) = 1") == [(None,)]
    assert rows(
        connection,
        "WITH RECURSIVE t(n) AS (SELECT a FROM full UNION ALL SELECT n + a FROM t JOIN full"
        " ON n < 5) SELECT max(n) FROM t",
    ) == [(5,)]


def test_a_table_of_columns_is_made(gateway: Gateway, connection: seamline.Connection) -> None:
    definition = (
        "CREATE TABLE orders (id bigint NOT NULL, at timestamp(3), tags array(varchar), day date)"
        " COMMENT 'what was ordered' WITH (partitioning = ARRAY['day'])"
    )
    rows(connection, definition)
    assert rows(connection, "SELECT * FROM orders") == []
    found = loaded(gateway, "orders")
    assert [field.name for field in found.spec().fields] == ["day"]
    assert found.schema().find_field("id").required
    assert found.properties["comment"] == "what was ordered"
    assert refused(connection, definition).code.name == "TABLE_EXISTS"
    rows(connection, "CREATE TABLE IF NOT EXISTS orders (other integer)")
    rows(connection, "INSERT INTO orders (id, day) VALUES (1, DATE '2024-02-29')")
    assert rows(connection, "SELECT id, at FROM orders WHERE day > DATE '2024-02-01'") == [
        (1, None)
    ]
    assert rows(connection, "SELECT o.k FROM orders AS o(k, at, t, d) WHERE d IS NOT NULL") == [
        (1,)
    ]
    assert refused(connection, "SELECT k FROM orders AS o(k)").code.name == "TYPE_MISMATCH"
    assert "NOT NULL" in str(refused(connection, "INSERT INTO orders (at) VALUES (NULL)"))
    rows(connection, "DROP TABLE orders")
    rows(connection, "CREATE TABLE orders (id bigint) WITH (partitioning = 'bucket(4, id)')")
    assert [field.name for field in loaded(gateway, "orders").spec().fields] == ["id_bucket"]
    rows(connection, "INSERT INTO orders VALUES 1")
    assert rows(connection, "SELECT id FROM orders") == [(1,)]


def test_a_partitioned_table_gets_its_rows(
    gateway: Gateway, connection: seamline.Connection
) -> None:
    rows(
        connection,
        "CREATE TABLE parted WITH (partitioning = ARRAY['s'], sorted_by = 'x') AS"
        " SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (3, 'a')) AS t(x, s)",
    )
    rows(connection, "INSERT INTO parted VALUES (4, 'b')")
    assert rows(connection, "SELECT sum(x) FROM parted WHERE s = 'b'") == [(6,)]
    assert len(list(loaded(gateway, "parted").scan(row_filter="s = 'b'").plan_files())) == 2


TRANSFORMS = {
    "bucket(3, {})": ["i", "l", "s", "d", "dec", "t", "z", "b", "u"],
    "truncate(2, {})": ["i", "l", "s", "dec"],
    "year({})": ["d", "t", "z"],
    "month({})": ["d", "t", "z"],
    "day({})": ["d", "t", "z"],
    "hour({})": ["t", "z"],
}
VALUES = """
    (1, 1, 'a', DATE '1969-12-31', 0.25, TIMESTAMP '1969-12-31 23:59:59.999999',
     TIMESTAMP '2024-03-10 01:30:00 America/Los_Angeles', X'00',
     UUID '00000000-0000-0000-0000-000000000001'),
    (-1, -9223372036854775808, 'été', DATE '2024-02-29', -0.25, TIMESTAMP '2024-02-29 00:00:00',
     TIMESTAMP '1969-12-31 23:00:00 UTC', X'ff00', UUID 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
    (-3, 9223372036854775807, '', DATE '1900-01-01', -10.01, TIMESTAMP '1900-01-01 00:00:00.000001',
     TIMESTAMP '9999-12-31 23:59:59 UTC', X'', UUID '12345678-1234-1234-1234-123456789abc'),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
"""


@pytest.mark.one_in(test=6, prove=3)
@pytest.mark.parametrize(
    ("transform", "column"), [(t, c) for t, columns in TRANSFORMS.items() for c in columns]
)
def test_a_table_partitioned_in_any_way_gets_its_rows(
    gateway: Gateway, connection: seamline.Connection, transform: str, column: str
) -> None:
    """Each row is in the partition that PyIceberg computes of it in Python, and is found there."""
    name = f"by_{transform.partition('(')[0]}_{column}"
    rows(
        connection,
        f"CREATE TABLE {name} (i integer, l bigint, s varchar, d date, dec decimal(9, 2),"
        " t timestamp(6), z timestamp(6) with time zone, b varbinary, u uuid)"
        f" WITH (partitioning = '{transform.format(column)}')",
    )
    rows(connection, f"INSERT INTO {name} SELECT * FROM (VALUES {VALUES})")
    every = rows(connection, f"SELECT {column} FROM {name}")
    assert len(every) == 4
    for (value,) in every:
        found = connection.execute(
            f"SELECT {column} FROM {name} WHERE {column} = ?", [value]
        ).fetchall()
        assert found == ([] if value is None else [(value,)])
    assert rows(connection, f"SELECT {column} FROM {name} WHERE {column} IS NULL") == [(None,)]
    table = loaded(gateway, name)
    (field,) = table.spec().fields
    source = table.schema().find_field(field.source_id)
    compute = field.transform.transform(source.field_type)
    for task in table.scan().plan_files():
        held = pq.read_table(task.file.file_path.removeprefix("file://"), columns=[source.name])
        for value in held.column(0).to_pylist():
            assert compute(_raw(value)) == task.file.partition[0]


def _raw(value: Any) -> Any:
    """A value as Iceberg's transforms take it: times as numbers."""
    match value:
        case datetime.datetime() if value.tzinfo is not None:
            return (value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // _MICROSECOND
        case datetime.datetime():
            return (value - datetime.datetime(1970, 1, 1)) // _MICROSECOND
        case datetime.date():
            return (value - datetime.date(1970, 1, 1)).days
    return value


_MICROSECOND = datetime.timedelta(microseconds=1)


def test_what_pyiceberg_does_not_partition_is_partitioned(connection: seamline.Connection) -> None:
    fields = "ARRAY['truncate(b, 2)', 'day(at)', 'hour(at)', 'x']"
    columns = "b varbinary, at timestamp(6), x double"
    rows(connection, f"CREATE TABLE cut ({columns}) WITH (partitioning = {fields})")
    at = "TIMESTAMP '1969-12-31 23:30:00'"
    sql = f"INSERT INTO cut VALUES (X'0102', {at}, 0e0), (X'0103', {at}, -0e0), (NULL, NULL, nan())"
    rows(connection, sql)
    assert rows(connection, "SELECT count(*), count(b) FROM cut") == [(3, 2)]
    assert rows(connection, "SELECT count(*) FROM cut WHERE x = 0e0 AND b > X'0102'") == [(1,)]
    assert rows(connection, "SELECT count(*) FROM cut WHERE is_nan(x) AND at IS NULL") == [(1,)]


def test_a_partition_that_no_number_is_for_has_a_name(connection: seamline.Connection) -> None:
    rows(connection, "CREATE TABLE low (n bigint) WITH (partitioning = ARRAY['truncate(n, 10)'])")
    error = refused(connection, f"INSERT INTO low VALUES ({-(2**63)})")
    assert error.code.name == "NUMERIC_OVERFLOW"
    assert "truncate[10] of n_trunc" in error.message
    assert rows(connection, "SELECT count(*) FROM low") == [(0,)]


def test_a_session_that_drops_a_table_forgets_it(
    gateway: Gateway, connection: seamline.Connection
) -> None:
    """As a tool does that recreates its tables; another session is told."""
    rows(connection, "CREATE TABLE remade AS SELECT 1 AS a")
    rows(connection, "CREATE TABLE stays AS SELECT 1 AS a")
    with gateway.connect() as other:
        for each in (connection, other):
            assert rows(each, "SELECT * FROM remade, stays") == [(1, 1)]
        rows(connection, "DROP TABLE Default.REMADE")
        rows(connection, "CREATE TABLE remade AS SELECT 2 AS a")
        assert rows(connection, "SELECT * FROM remade, stays") == [(2, 1)]
        assert refused(other, "SELECT * FROM remade").code.name == "HISTORY_CHANGED"
        gateway.rows("DROP TABLE stays")
        gateway.rows("CREATE TABLE stays AS SELECT 3 AS a")
        assert refused(connection, "SELECT * FROM stays").code.name == "HISTORY_CHANGED"


def test_columns_are_chosen_and_values_widened(connection: seamline.Connection) -> None:
    rows(
        connection,
        "CREATE TABLE wide AS SELECT CAST(1 AS bigint) AS i, CAST(1 AS decimal(12, 2)) AS d,"
        " 1e0 AS f, 'x' AS s WITH NO DATA",
    )
    rows(connection, "INSERT INTO wide (S, d, i) VALUES ('a', 1.5, 7), (NULL, NULL, NULL)")
    rows(connection, "INSERT INTO wide SELECT i, d, d, s FROM wide WHERE i = 7")
    assert rows(connection, "SELECT i, d, f, s FROM wide ORDER BY i, f") == [
        (7, decimal.Decimal("1.50"), 1.5, "a"),
        (7, decimal.Decimal("1.50"), None, "a"),
        (None, None, None, None),
    ]
    assert connection.execute("INSERT INTO wide (i) VALUES (?)", [9]).rowcount == 1
    connection.execute("PREPARE more FROM INSERT INTO wide (i) VALUES (?)")
    assert rows(connection, "EXECUTE more USING 10") == [(1,)]
    assert rows(connection, "SELECT max(i), count(*) FROM wide") == [(10, 5)]


def test_narrow_types_are_widened_beside_those_that_files_store_otherwise(
    connection: seamline.Connection,
) -> None:
    """pitfall: a uuid has every column converted, and a smallint stayed what it was."""
    values = (
        "UUID '123e4567-e89b-12d3-a456-426614174000' AS u, SMALLINT '1' AS s, TINYINT '2' AS t,"
        " ARRAY[SMALLINT '3', NULL] AS a, MAP(ARRAY[TINYINT '4'], ARRAY[SMALLINT '5']) AS m,"
        " CAST(ROW(6, NULL) AS row(p smallint, q uuid)) AS r"
    )
    connection.execute(f"CREATE TABLE narrow AS SELECT {values}")
    connection.execute(f"INSERT INTO narrow SELECT {values}")
    row = (ROW[10], 1, 2, [3, None], {4: 5}, {"p": 6, "q": None})
    assert rows(connection, "SELECT * FROM narrow") == [row, row]
    types = {name: type_ for name, type_, *_ in rows(connection, "DESCRIBE narrow")}
    assert (types["s"], types["a"]) == ("integer", "array(integer)")


def test_what_was_made_here_may_be_dropped(
    gateway: Gateway, connection: seamline.Connection
) -> None:
    rows(connection, "CREATE TABLE mine AS SELECT 1 AS a")
    rows(connection, "DROP TABLE mine")
    assert refused(connection, "SELECT * FROM mine").code.name == "TABLE_NOT_FOUND"
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    catalog.create_table("default.theirs", pa.schema([("a", pa.int64())]))
    assert refused(connection, "DROP TABLE theirs").code.name == "NOT_A_UNIFIED_TABLE"
    assert rows(connection, "INSERT INTO theirs VALUES 1, 2") == [(2,)]
    assert rows(connection, "SELECT sum(a) FROM theirs") == [(3,)]


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("CREATE TABLE there AS SELECT 1 AS a", "TABLE_EXISTS"),
        ("CREATE TABLE bad AS SELECT 1", "INVALID_TABLE_DEFINITION"),
        ("CREATE TABLE bad AS SELECT NULL AS a", "INVALID_TABLE_DEFINITION"),
        ("CREATE TABLE bad AS SELECT 1 AS a, 2 AS A", "INVALID_TABLE_DEFINITION"),
        ("CREATE TABLE bad AS SELECT nope FROM there", "COLUMN_NOT_FOUND"),
        ("CREATE TABLE bad AS SELECT 1 / 0 AS a", "DIVISION_BY_ZERO"),
        ("CREATE TABLE bad", "INVALID_TABLE_DEFINITION"),
        ("CREATE TABLE bad (a integer, A integer)", "INVALID_TABLE_DEFINITION"),
        ("CREATE TABLE bad (a integer) WITH (key = 'a')", "INVALID_TABLE_DEFINITION"),
        ("CREATE TABLE bad (a integer) WITH (partitioning = 'b')", "INVALID_TABLE_DEFINITION"),
        ("CREATE TABLE bad WITH (topic = 'x') AS SELECT 1 AS a", "INVALID_TABLE_DEFINITION"),
        ("CREATE TABLE bad WITH (format = 'ORC') AS SELECT 1 AS a", "INVALID_TABLE_DEFINITION"),
        ("CREATE TABLE bad (a bigint) AS SELECT 1 AS a", "NOT_SUPPORTED"),
        ("CREATE OR REPLACE TABLE there AS SELECT 1 / 0 AS a", "DIVISION_BY_ZERO"),
        ("CREATE OR REPLACE TABLE there AS SELECT nope FROM there", "COLUMN_NOT_FOUND"),
        (
            "CREATE OR REPLACE TABLE there WITH (partitioning = 'b') AS SELECT 1 AS a",
            "INVALID_TABLE_DEFINITION",
        ),
        ("CREATE OR REPLACE TABLE there (a bigint) WITH (topic = 'x')", "STATEMENT_NOT_ALLOWED"),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS there (a bigint)", "SYNTAX_ERROR"),
        ("INSERT INTO there VALUES ('x')", "TYPE_MISMATCH"),
        ("INSERT INTO there VALUES (1, 2)", "TYPE_MISMATCH"),
        ("INSERT INTO there (b) VALUES (1)", "COLUMN_NOT_FOUND"),
        ("INSERT INTO there (a, A) VALUES (1, 2)", "COLUMN_NOT_FOUND"),
        ("INSERT INTO there SELECT a / 0 FROM there", "DIVISION_BY_ZERO"),
        ("INSERT INTO ther VALUES (1)", "TABLE_NOT_FOUND"),
        ('INSERT INTO "there$cold" VALUES (1)', "STATEMENT_NOT_ALLOWED"),
        ("INSERT INTO there", "SYNTAX_ERROR"),
    ],
)
def test_what_fails_writes_nothing(
    gateway: Gateway, connection: seamline.Connection, sql: str, code: str
) -> None:
    rows(connection, "CREATE TABLE IF NOT EXISTS there AS SELECT 1 AS a")
    error = refused(connection, sql)
    assert error.code.name == code, error
    assert rows(connection, "SELECT * FROM there") == [(1,)]
    assert rows(connection, "SHOW TABLES LIKE 'bad'") == []
    assert len(loaded(gateway, "there").metadata.snapshots) == 1


def test_whole_numbers_of_any_type_are_written_where_they_fit(
    gateway: Gateway, connection: seamline.Connection
) -> None:
    rows(connection, "CREATE TABLE whole (n integer, b bigint)")
    rows(connection, "INSERT INTO whole VALUES (DECIMAL '7', DECIMAL '8'), (BIGINT '9', 10)")
    assert rows(connection, "SELECT * FROM whole ORDER BY n") == [(7, 8), (9, 10)]
    for too_large in ("BIGINT '2147483648', 1", "1, DECIMAL '9223372036854775808'"):
        found = refused(connection, f"INSERT INTO whole VALUES ({too_large})")
        assert found.code.name == "NUMERIC_OVERFLOW"
        assert found.message.startswith(("column n is integer", "column b is bigint"))
    assert len(loaded(gateway, "whole").metadata.snapshots) == 2, "of CREATE, and of one INSERT"


def test_doubles_become_the_nearest_real(connection: seamline.Connection) -> None:
    """As clients write floats: a parameter is a double, whatever the column."""
    rows(connection, "CREATE TABLE halves (r real, a array(real))")
    connection.execute("INSERT INTO halves VALUES (?, ?)", [0.1, [16777217.0, 1e300]])
    rows(connection, "INSERT INTO halves SELECT 2 * avg(r), NULL FROM halves")
    rows(connection, "INSERT INTO halves (r) VALUES (nan()), (-infinity()), (1e-50), (NULL)")
    assert rows(connection, "SELECT CAST(r AS varchar) FROM halves ORDER BY r") == [
        ("-Infinity",), ("0E0",), ("1.0E-1",), ("2.0E-1",), ("NaN",), (None,)
    ]  # fmt: skip
    assert rows(connection, "SELECT a FROM halves WHERE a IS NOT NULL") == [
        ([16777216.0, math.inf],)
    ]


def test_decimals_become_the_nearest_double(connection: seamline.Connection) -> None:
    rows(connection, "CREATE TABLE nearest (d double, r real, a array(double))")
    rows(
        connection,
        "INSERT INTO nearest VALUES (1.2345, 0.3333, ARRAY[1.2345, NULL]), (NULL, 1, NULL)",
    )
    rows(connection, "UPDATE nearest SET d = -0.3333 WHERE d IS NULL")
    found = "SELECT d, r = REAL '0.3333', a FROM nearest ORDER BY d DESC"
    assert rows(connection, found) == [(1.2345, True, [1.2345, None]), (-0.3333, False, None)]


def test_an_instant_becomes_the_local_time_of_its_zone(connection: seamline.Connection) -> None:
    rows(connection, "CREATE TABLE local_times (id integer, x timestamp(6))")
    instant = "TIMESTAMP '2024-07-01 12:00:00.5 Europe/Berlin'"
    rows(connection, f"INSERT INTO local_times VALUES (1, {instant}), (2, NULL)")
    rows(connection, f"UPDATE local_times SET x = {instant} AT TIME ZONE 'UTC' WHERE id = 2")
    assert rows(connection, "SELECT x FROM local_times ORDER BY id") == [
        (datetime.datetime(2024, 7, 1, 12, 0, 0, 500_000),),
        (datetime.datetime(2024, 7, 1, 10, 0, 0, 500_000),),
    ]


@pytest.mark.parametrize(
    ("type_", "value", "found"),
    [
        ("row(a varchar, b integer)", "ROW('x', 1)", {"a": "x", "b": 1}),
        ("row(a varchar, b integer)", "ROW(NULL, 1)", {"a": None, "b": 1}),
        ("row(b integer, a integer)", "CAST(ROW(1, 2) AS row(a integer, b integer))",
         {"b": 1, "a": 2}),
        ("row(a row(b double), c bigint)", "ROW(ROW(1.5), 2)", {"a": {"b": 1.5}, "c": 2}),
        ("array(row(a bigint))", "ARRAY[ROW(1), NULL]", [{"a": 1}, None]),
        ("map(bigint, decimal(3, 1))", "MAP(ARRAY[1], ARRAY[1.5])", {1: decimal.Decimal("1.5")}),
        ("row(a varchar)", "NULL", None),
    ],
)  # fmt: skip
def test_rows_are_stored_by_the_places_of_their_fields(
    type_: str, value: str, found: Any, connection: seamline.Connection
) -> None:
    rows(connection, "DROP TABLE IF EXISTS by_place")
    rows(connection, f"CREATE TABLE by_place (id integer, x {type_})")
    rows(connection, f"INSERT INTO by_place VALUES (1, {value}), (2, NULL)")
    rows(connection, f"INSERT INTO by_place (x, id) SELECT {value}, 3 ORDER BY 2")
    assert rows(connection, "SELECT x FROM by_place ORDER BY id") == [(found,), (None,), (found,)]


@pytest.mark.parametrize(
    ("type_", "value", "code"),
    [
        ("row(a integer)", "ROW('x')", "TYPE_MISMATCH"),
        ("row(a integer)", "ROW(1, 2)", "TYPE_MISMATCH"),
        ("array(integer)", "ARRAY['1']", "TYPE_MISMATCH"),
        ("array(integer)", "ARRAY[3000000000]", "NUMERIC_OVERFLOW"),
        ("array(integer)", "ARRAY[true]", "TYPE_MISMATCH"),
        ("decimal(3, 1)", "'1.5'", "TYPE_MISMATCH"),
    ],
)
def test_what_is_no_value_of_a_column_is_refused(
    type_: str, value: str, code: str, connection: seamline.Connection
) -> None:
    rows(connection, "DROP TABLE IF EXISTS refusing")
    rows(connection, f"CREATE TABLE refusing (x {type_})")
    assert refused(connection, f"INSERT INTO refusing VALUES ({value})").code.name == code
    assert rows(connection, "SELECT count(*) FROM refusing") == [(0,)]
