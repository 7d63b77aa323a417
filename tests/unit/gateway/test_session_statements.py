"""Goal: what a client sets once holds for its later statements, and for nobody else's.

Method: a gateway over a catalog in one file and a cluster nobody answers for; its clients talk to
it over HTTP with the DB-API, as users do.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

import pyarrow as pa
import pytest
from support import offline
from support.clients import refused, rows
from support.gateway import Gateway

import seamline
from seamline.errors import Location
from seamline.seam.options import OPTIONS, CreateOptions


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    world = offline.MemoryWorld(folder)
    _make_tables(world.gateway)
    world.memory.create_topic("events", 1)
    yield world.gateway
    world.gateway.close()


def _make_tables(gateway: Gateway) -> None:
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    catalog.create_namespace("shop")
    catalog.create_namespace("default")
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3, None], pa.int64()),
            "name": ["a", "b", None, None],
            "day": pa.array([0, 1, 2, 3], pa.date32()),
        }
    )
    for name in ("shop.a_b", "shop.axb", "default.other"):
        catalog.create_table(name, rows.schema).append(rows)


# --- SET SESSION ---------------------------------------------------------------------------------


def test_a_property_holds_until_it_is_reset(connection: seamline.Connection) -> None:
    values = "SELECT * FROM (VALUES 1, 2, 3) AS t(x) ORDER BY x"
    connection.execute("SET SESSION row_limit = 2")
    assert rows(connection, values) == [(1,), (2,)]
    assert connection.execute(values, row_limit=1).fetchall() == [(1,)], "a request wins"
    shown = {row[0]: row[1] for row in rows(connection, "SHOW SESSION")}
    assert shown == {
        "after": "",
        "aggregates": "exact",
        "dialect": "trino",
        "engine": "auto",
        "freshness": "latest",
        "query_max_run_time": "",
        "result_cache": "on",
        "row_limit": "2",
        "time_zone_id": "",
        "timeout": "",
        "token": "",
    }
    assert rows(connection, "SHOW SESSION LIKE 'row!_%' ESCAPE '!'")[0][:3] == (
        "row_limit",
        "2",
        "",
    )
    connection.execute("RESET SESSION row_limit")
    assert len(rows(connection, values)) == 3


def test_trinos_word_for_a_timeout(connection: seamline.Connection) -> None:
    connection.execute("SET SESSION query_max_run_time = '1.5m'")
    assert rows(connection, "SELECT 1") == [(1,)]
    connection.execute("SET SESSION query_max_run_time = '1ns'")
    assert refused(connection, "SELECT 1").code.name == "DEADLINE_EXCEEDED"
    connection.execute("RESET SESSION query_max_run_time", timeout=60)
    for wrong in ("5", "0s", "5 weeks", ""):
        said = refused(connection, f"SET SESSION query_max_run_time = '{wrong}'")
        assert said.code.name == "INVALID_SESSION_PROPERTY"


def test_a_property_is_its_connections_alone(
    gateway: Gateway, connection: seamline.Connection
) -> None:
    connection.execute("SET SESSION row_limit = 0")
    with gateway.connect() as other:
        assert rows(other, "SELECT 1") == [(1,)]


def test_engine_is_the_connections_own_setting(connection: seamline.Connection) -> None:
    connection.execute("SET SESSION engine = 'duckdb'")
    assert connection.engine == "duckdb"
    assert connection.execute("SELECT 1").receipt["engine"] == "duckdb"
    connection.engine = "auto"
    assert connection.properties == {}


@pytest.mark.parametrize(
    ("sql", "column", "hint"),
    [
        ("SET SESSION engin = 'spark'", 13, "Did you mean engine?"),
        ("SET SESSION engine = 'trino'", 13, "It must be one of: auto, duckdb, spark."),
        ("SET SESSION row_limit = 'many'", 13, "It must be a whole number of rows."),
        ("SET SESSION timeout = -1", 13, "It must be a number of seconds greater than 0."),
        ("RESET SESSION timeot", 15, "Did you mean timeout?"),
    ],
)
def test_what_cannot_be_set_says_why_and_where(
    connection: seamline.Connection, sql: str, column: int, hint: str
) -> None:
    error = refused(connection, sql)
    assert error.code.name == "INVALID_SESSION_PROPERTY"
    assert error.hint == hint
    assert error.location is not None
    assert (error.location.line, error.location.column) == (1, column)
    assert connection.properties == {}


def test_a_request_may_carry_properties_itself(gateway: Gateway) -> None:
    with gateway.app.test_client() as client:
        body: dict[str, object] = {"statement": "SELECT 1", "properties": {"row_limit": "x"}}
        answer = client.post("/api/v1/statements", json=body, headers={"Host": "127.0.0.1"})
        assert answer.status_code == 400
        assert answer.get_json()["error"]["code"] == "INVALID_SESSION_PROPERTY"
        body["properties"] = {"row_limit": 1}
        answer = client.post("/api/v1/statements", json=body, headers={"Host": "127.0.0.1"})
        assert answer.get_json()["error"]["code"] == "INVALID_REQUEST"


# --- USE -----------------------------------------------------------------------------------------


def test_use_is_the_connections_own_setting(connection: seamline.Connection) -> None:
    connection.execute("USE shop")
    assert (connection.catalog, connection.schema) == ("lake", "shop")


def test_use_of_what_is_not_there(connection: seamline.Connection) -> None:
    error = refused(connection, "USE lake.shopp")
    assert (error.code.name, error.hint) == ("SCHEMA_NOT_FOUND", "Did you mean shop?")
    assert error.location is not None
    assert error.location.column == 5
    assert refused(connection, "USE nope.shop").code.name == "CATALOG_NOT_FOUND"
    assert connection.schema is None


# --- SHOW ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SHOW TABLES FROM shop LIKE 'a_b'", ["a_b", "axb"]),
        ("SHOW TABLES FROM shop LIKE 'a!_b' ESCAPE '!'", ["a_b"]),
        ("SHOW TABLES FROM lake.shop LIKE 'x%'", []),
        ("SHOW SCHEMAS LIKE 's%'", ["shop"]),
        ("SHOW CATALOGS LIKE 'l_ke'", ["lake"]),
        ("SHOW COLUMNS FROM shop.a_b LIKE '%a%'", ["name", "day"]),
        ("SHOW FUNCTIONS LIKE 'row!_n%' ESCAPE '!'", ["row_number"]),
    ],
)
def test_patterns(connection: seamline.Connection, sql: str, expected: list[str]) -> None:
    assert list(dict.fromkeys(row[0] for row in rows(connection, sql))) == expected


@pytest.mark.parametrize("escape", ["'!!'", "''"])
def test_an_escape_is_one_character(connection: seamline.Connection, escape: str) -> None:
    error = refused(connection, f"SHOW TABLES LIKE 'a' ESCAPE {escape}")
    assert error.code.name == "INVALID_ARGUMENT"


def test_an_escape_stands_before_a_wildcard(connection: seamline.Connection) -> None:
    for pattern in ("a!b", "a!"):
        error = refused(connection, f"SHOW TABLES LIKE '{pattern}' ESCAPE '!'")
        assert error.code.name == "INVALID_ARGUMENT"


def test_statistics_are_those_of_the_metadata(connection: seamline.Connection) -> None:
    cursor = connection.execute("SHOW STATS FOR shop.a_b")
    assert cursor.description is not None
    assert [column[0] for column in cursor.description] == [
        "column_name",
        "data_size",
        "distinct_values_count",
        "nulls_fraction",
        "row_count",
        "low_value",
        "high_value",
    ]
    found = {row[0]: row for row in cursor.fetchall()}
    assert found["id"][3:] == (0.25, None, "1", "3")
    assert found["name"][3:] == (0.5, None, None, None)
    assert found["name"][1] > 0
    assert found["day"][3:] == (0.0, None, "1970-01-01", "1970-01-04")
    assert found[None][4] == 4.0


def test_branches_are_listed(gateway: Gateway, connection: seamline.Connection) -> None:
    rows(connection, "CREATE TABLE branched AS SELECT 1 AS x")
    table = gateway.parts.connections.catalog("lake").pyiceberg.load_table("default.branched")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    changes = table.manage_snapshots().create_branch(snapshot.snapshot_id, "audit")
    changes.create_tag(snapshot.snapshot_id, "first").commit()
    for sql in (
        "SHOW BRANCHES FROM TABLE branched",
        "SHOW BRANCHES IN TABLE lake.default.branched",
    ):
        assert rows(connection, sql) == [("audit",), ("main",)]
    error = refused(connection, "SHOW BRANCHES IN TABLE branche")
    assert (error.code.name, error.location) == ("TABLE_NOT_FOUND", Location(1, 24))
    rows(connection, "DROP TABLE branched")


@pytest.mark.parametrize(
    ("sql", "code", "message"),
    [
        ("DELETE FROM shop.a_b @ audit", "NOT_SUPPORTED", "a branch cannot be written to"),
        ("DELETE FROM shop.a_b @ audit WHERE id = 1", "NOT_SUPPORTED", "a branch"),
        ("UPDATE shop.a_b @ audit SET id = 1", "NOT_SUPPORTED", "a branch"),
        (
            "MERGE INTO shop.a_b @ audit USING shop.axb AS b ON false WHEN MATCHED THEN DELETE",
            "NOT_SUPPORTED",
            "a branch",
        ),
        ("INSERT INTO shop.a_b @ audit SELECT 1", "NOT_SUPPORTED", "writing to a branch"),
        ("CREATE BRANCH audit IN TABLE shop.a_b", "STATEMENT_NOT_ALLOWED", "CREATE BRANCH is"),
        ("DROP BRANCH audit IN TABLE shop.a_b", "STATEMENT_NOT_ALLOWED", "DROP BRANCH is"),
        ("ALTER TABLE shop.a_b ADD COLUMN x bigint FIRST", "NOT_SUPPORTED", "column x: FIRST"),
        ("ALTER TABLE shop.a_b ADD COLUMN x bigint AFTER id", "NOT_SUPPORTED", "column x: AFTER"),
        ("CREATE TABLE n (a bigint, b bigint FIRST)", "NOT_SUPPORTED", "column b: FIRST"),
        ("SET SESSION AUTHORIZATION bob", "STATEMENT_NOT_ALLOWED", "SET SESSION AUTHORIZATION"),
        ("RESET SESSION AUTHORIZATION", "STATEMENT_NOT_ALLOWED", "RESET SESSION AUTHORIZATION"),
    ],
)
def test_what_would_be_taken_for_something_else_is_refused(
    connection: seamline.Connection, sql: str, code: str, message: str
) -> None:
    before = rows(connection, "SELECT * FROM shop.a_b ORDER BY day")
    error = refused(connection, sql)
    assert error.code.name == code
    assert message in error.message
    assert error.location is not None
    assert rows(connection, "SELECT * FROM shop.a_b ORDER BY day") == before


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT day, id AS i, id + 1 AS next FROM shop.a_b",
            {
                "day": (0.0, None, "1970-01-01", "1970-01-04"),
                "i": (0.25, None, "1", "3"),
                "next": (None, None, None, None),
                None: (None, 4.0, None, None),
            },
        ),
        (
            "WITH w AS (SELECT id FROM shop.a_b) SELECT * FROM (TABLE w) AS u ORDER BY 1",
            {"id": (0.25, None, "1", "3"), None: (None, 4.0, None, None)},
        ),
        (
            "SELECT id FROM shop.a_b WHERE id > 1",
            {"id": (None, None, "1", "3"), None: (None, None, None, None)},
        ),
        (
            "SELECT a.id FROM shop.a_b AS a JOIN shop.axb AS b USING (id) LIMIT 1",
            {"id": (None, None, "1", "3"), None: (None, None, None, None)},
        ),
        (
            "SELECT count(*) AS n FROM shop.a_b",
            {"n": (None, None, None, None), None: (None, None, None, None)},
        ),
        ("VALUES 1", {"_col0": (None, None, None, None), None: (None, None, None, None)}),
        (
            "SELECT id FROM shop.a_b UNION ALL SELECT id FROM shop.axb",
            {"id": (None, None, None, None), None: (None, None, None, None)},
        ),
        (
            "SELECT table_name FROM information_schema.tables",
            {"table_name": (None, None, None, None), None: (None, None, None, None)},
        ),
    ],
)
def test_statistics_of_a_query_are_those_of_its_tables(
    connection: seamline.Connection, query: str, expected: dict[str | None, object]
) -> None:
    """Nulls, rows, low and high, as far as it passes them on."""
    found = rows(connection, f"SHOW STATS FOR ({query})")
    assert {row[0]: row[3:] for row in found} == expected


def test_statistics_of_a_query_are_the_tables_own(connection: seamline.Connection) -> None:
    own = rows(connection, "SHOW STATS FOR shop.a_b")
    assert rows(connection, "SHOW STATS FOR (SELECT * FROM shop.a_b)") == own
    rows(connection, "CREATE VIEW all_of_it AS SELECT * FROM shop.a_b")
    assert rows(connection, "SHOW STATS FOR (TABLE all_of_it)") == own
    rows(connection, "DROP VIEW all_of_it")
    assert connection.execute("SHOW STATS FOR (SELECT ? AS x)", [1]).fetchall()[0][0] == "x"
    assert refused(connection, "SHOW STATS FOR (SELECT nope FROM shop.a_b)").code.name == (
        "COLUMN_NOT_FOUND"
    )
    for wrong in ("()", "(SELECT 1", "(SELECT 1) UNION (SELECT 2)", "(SELECT 1) x"):
        assert refused(connection, f"SHOW STATS FOR {wrong}").code.name == "SYNTAX_ERROR"


@pytest.mark.parametrize("variant", ["errors", "hot", "files"])
def test_what_has_no_files_has_no_statistics(connection: seamline.Connection, variant: str) -> None:
    error = refused(connection, f'SHOW STATS FOR shop."a_b${variant}"')
    assert error.code.name == "NOT_SUPPORTED"
    assert "Name lake.shop.a_b, or a query" in (error.hint or "")
    missing = refused(connection, f'SHOW STATS FOR shop."nope${variant}"')
    assert missing.code.name == "TABLE_NOT_FOUND"


@pytest.mark.parametrize(
    ("table", "missing"),
    [
        ("system.runtime.nodes", "TABLE_NOT_FOUND"),
        ("lake.information_schema.tables", "TABLE_NOT_FOUND"),
        ('"default".information_schema.tables', "TABLE_NOT_FOUND"),
        ('"default"."default".events', "TOPIC_NOT_FOUND"),
    ],
)
def test_topics_and_tables_of_the_gateway_have_no_statistics(
    connection: seamline.Connection, table: str, missing: str
) -> None:
    error = refused(connection, f"SHOW STATS FOR {table}")
    assert (error.code.name, error.hint) == ("NOT_SUPPORTED", "Name a query in parentheses.")
    assert rows(connection, f"SHOW STATS FOR (TABLE {table})")
    assert refused(connection, f"SHOW STATS FOR {table}s").code.name == missing


def test_statistics_of_a_query_over_metadata(connection: seamline.Connection) -> None:
    assert rows(connection, 'SHOW STATS FOR (TABLE shop."a_b$files")')[-1] == (None,) * 7


# --- Prepared statements -------------------------------------------------------------------------


def test_a_prepared_statement_is_run_with_values(connection: seamline.Connection) -> None:
    connection.execute(
        "PREPARE Counted FROM SELECT count(*) FROM shop.a_b WHERE id > ? OR name = ?"
    )
    assert rows(connection, "EXECUTE counted USING 2, 'a'") == [(2,)]
    assert rows(connection, "EXECUTE counted USING 1 + 1, 'A' || ''") == [(1,)]
    assert connection.execute("EXECUTE counted USING ?, ?", [0, "x"]).fetchall() == [(3,)]
    connection.execute("PREPARE counted FROM SHOW TABLES FROM shop;")
    assert rows(connection, "EXECUTE counted") == [("a_b",), ("axb",)]
    connection.execute("DEALLOCATE PREPARE counted")
    error = refused(connection, "EXECUTE IMMEDIATE 'SELECT 1,\n ? + ?' USING 1, 'x'")
    assert error.location == Location(2, 2)  # in the statement, and not in what executes it
    error = refused(connection, "EXECUTE counted")
    assert error.code.name == "PREPARED_STATEMENT_NOT_FOUND"


def test_a_misspelt_statement_is_hinted_at(connection: seamline.Connection) -> None:
    connection.execute("PREPARE totals FROM SELECT 1")
    error = refused(connection, "EXECUTE total")
    assert error.hint == "Did you mean totals?"
    assert error.location is not None
    assert error.location.column == 9


def test_describe_input_and_output(connection: seamline.Connection) -> None:
    connection.execute(
        "PREPARE d FROM SELECT id, name AS called, count(*) OVER () AS n, ? AS free FROM shop.a_b"
        " WHERE id = ? AND name LIKE ? AND day > CAST(? AS date)"
    )
    assert rows(connection, "DESCRIBE INPUT d") == [
        (0, "unknown"),
        (1, "bigint"),
        (2, "varchar"),
        (3, "date"),
    ]
    assert rows(connection, "DESCRIBE OUTPUT d") == [
        ("id", "lake", "shop", "a_b", "bigint", 8, False),
        ("called", "lake", "shop", "a_b", "varchar", 0, True),
        ("n", "", "", "", "bigint", 8, True),
        ("free", "", "", "", "unknown", 0, True),
    ]
    connection.execute("PREPARE sized FROM SELECT 1.5, now(), CAST('1' AS decimal(19, 0)) AS d")
    assert rows(connection, "DESCRIBE OUTPUT sized") == [
        ("_col0", "", "", "", "decimal(2,1)", 8, False),
        ("_col1", "", "", "", "timestamp(3) with time zone", 8, False),
        ("d", "", "", "", "decimal(19,0)", 16, True),
    ]
    connection.execute("PREPARE none FROM SHOW TABLES")
    assert rows(connection, "DESCRIBE INPUT none") == []
    assert rows(connection, "DESCRIBE OUTPUT none") == []


def test_describe_input_of_statements_that_write(connection: seamline.Connection) -> None:
    """Drivers that describe parameters bind values by it, that of Flight SQL no others."""

    def inputs(sql: str) -> list[object]:
        connection.execute(f"PREPARE w FROM {sql}")
        return [type_ for _, type_ in rows(connection, "DESCRIBE INPUT w")]

    connection.execute(
        "CREATE TABLE shop.inputs (id bigint, name varchar, price decimal(10, 2), uid uuid)"
    )
    into = "INSERT INTO shop.inputs"
    assert inputs(f"{into} VALUES (?, ?, ?, ?), (1, lower(?), NULL, ?)") == [
        "bigint", "varchar", "decimal(10,2)", "uuid", "varchar", "uuid",
    ]  # fmt: skip
    assert inputs(f"{into} (uid, id) SELECT ?, id + ? FROM shop.a_b WHERE name = ?") == [
        "uuid", "bigint", "varchar",
    ]  # fmt: skip
    assert inputs(f"{into} (id) (SELECT ? UNION ALL SELECT ?)") == ["bigint", "bigint"]
    assert inputs(f"{into} (id, name) SELECT *, ? FROM (VALUES ?) t(n)") == ["unknown", "unknown"]
    assert inputs("UPDATE shop.inputs SET price = ?, name = name || ? WHERE uid = ?") == [
        "decimal(10,2)", "varchar", "uuid",
    ]  # fmt: skip
    assert inputs("DELETE FROM shop.inputs WHERE id > ?") == ["bigint"]
    assert inputs(
        "MERGE INTO shop.inputs t USING (VALUES 1) s(id) ON t.id = s.id AND t.name = ?"
        " WHEN MATCHED THEN UPDATE SET price = ?"
        " WHEN NOT MATCHED THEN INSERT (id, uid) VALUES (s.id, ?)"
    ) == ["varchar", "decimal(10,2)", "uuid"]
    assert inputs("CREATE TABLE shop.made AS SELECT * FROM shop.a_b WHERE id = ?") == ["bigint"]
    assert inputs("EXPLAIN SELECT * FROM shop.a_b WHERE id = ?") == ["bigint"]
    assert inputs("ALTER TABLE shop.a_b EXECUTE optimize WHERE name = ?") == ["varchar"]
    assert inputs("ALTER TABLE shop.a_b EXECUTE optimize") == []


# --- EXPLAIN -------------------------------------------------------------------------------------


def test_explain_in_every_form(connection: seamline.Connection) -> None:
    query = "SELECT name FROM shop.a_b WHERE id > 1"
    assert rows(connection, f"EXPLAIN (TYPE VALIDATE) {query}") == [(True,)]
    (document,) = rows(connection, f"EXPLAIN (FORMAT JSON) {query}")
    found = json.loads(str(document[0]))
    assert found["engine"] == "duckdb"
    assert found["scans"][0]["condition"] == "id > 1"
    (document,) = rows(connection, f"EXPLAIN (TYPE IO, FORMAT JSON) {query}")
    found = json.loads(str(document[0]))
    table = found["inputTableColumnInfos"][0]
    assert table["table"] == {"catalog": "lake", "schemaTable": {"schema": "shop", "table": "a_b"}}
    assert found["estimate"].keys() == table["estimate"].keys()
    assert found["estimate"]["outputRowCount"] == "NaN"
    logical = [row[0] for row in rows(connection, f"EXPLAIN (TYPE LOGICAL) {query}")]
    assert logical[0] == "Output: name varchar"
    assert not any(str(line).startswith("Engine") for line in logical)
    assert rows(connection, f"EXPLAIN {query}") == rows(
        connection, f"EXPLAIN (TYPE DISTRIBUTED, FORMAT TEXT) {query}"
    )
    lines = [str(row[0]) for row in rows(connection, f"EXPLAIN ANALYZE VERBOSE {query}")]
    assert "Bound query:" in lines
    assert "2 rows" in lines[-1]


# --- Names that are not there --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "code", "column", "hint"),
    [
        ("SELECT nam FROM shop.a_b", "COLUMN_NOT_FOUND", 8, "Did you mean name"),
        ("SELECT a.nope FROM shop.a_b a, other", "COLUMN_NOT_FOUND", 10, "DESCRIBE"),
        ("SELECT 1 FROM shop.a_b, shop.axx", "TABLE_NOT_FOUND", 25, "Did you mean axb"),
        ("SELECT 1 FROM shopp.axb", "TABLE_NOT_FOUND", 15, "Did you mean shop?"),
        ("SELECT 1 FROM lakee.shop.axb", "CATALOG_NOT_FOUND", 15, "Did you mean lake?"),
        ("SELECT 1, uper('a')", "FUNCTION_NOT_FOUND", 11, "Did you mean upper"),
        ("DESCRIBE shop.axbb", "TABLE_NOT_FOUND", 10, "Did you mean axb?"),
        ("SHOW COLUMNS FROM shop.axbb", "TABLE_NOT_FOUND", 19, "Did you mean axb?"),
        ("SHOW STATS FOR lakee.shop.axb", "CATALOG_NOT_FOUND", 16, "Did you mean lake?"),
    ],
)
def test_the_nearest_name_is_hinted_at(
    connection: seamline.Connection, sql: str, code: str, column: int, hint: str
) -> None:
    error = refused(connection, sql)
    assert error.location is not None
    assert (error.code.name, error.location.line, error.location.column) == (code, 1, column)
    assert hint in error.hint


def test_the_properties_of_tables_are_those_that_with_accepts(
    connection: seamline.Connection,
) -> None:
    listed = rows(
        connection,
        "SELECT catalog_name, property_name, default_value, type, description"
        " FROM system.metadata.table_properties",
    )
    assert {row[0] for row in listed} == {"lake"}
    assert {row[1] for row in listed} == {option.name for option in OPTIONS}
    defaults = {field.name: field.default for field in dataclasses.fields(CreateOptions)}
    for _, name, default, type_, description in listed:
        own = defaults[str(name)]
        expected = "" if own in (None, dataclasses.MISSING) else str(own)
        assert default == ("[]" if own == () else expected), name
        assert (default == "[]") == (type_ == "array(varchar)"), name
        assert description


def test_a_statement_sees_itself_running(connection: seamline.Connection) -> None:
    """With the columns that Trino has, in its order, and the gateway's own after them."""
    cursor = connection.execute("SELECT * FROM system.runtime.queries WHERE state <> 'FINISHED'")
    (found,) = (
        row for row in cursor.fetchall() if "runtime.queries" in row[4]
    )  # every other statement of the tests has ended
    assert cursor.description is not None
    shown = dict(zip((column[0] for column in cursor.description), found, strict=True))
    assert list(shown)[:15] == [
        *("query_id", "state", "user", "source", "query", "resource_group_id"),
        *("queued_time_ms", "analysis_time_ms", "planning_time_ms"),
        *("created", "started", "last_heartbeat", "end", "error_type", "error_code"),
    ]
    assert shown["queued_time_ms"] >= 0
    assert shown["created"] <= shown["started"]
    assert shown["created"] <= shown["last_heartbeat"]
    assert shown["end"] is None
    assert rows(connection, "SELECT DISTINCT state FROM system.metadata.catalogs") == [
        ("OPERATIONAL",)
    ]


# --- What tools ask ------------------------------------------------------------------------------


def test_comments_of_columns_are_shown(connection: seamline.Connection) -> None:
    rows(connection, "CREATE TABLE said AS SELECT 1 AS a, 2 AS b")
    rows(connection, "COMMENT ON COLUMN said.a IS 'the first'")
    assert [row[3] for row in rows(connection, "DESCRIBE said")] == ["the first", ""]
    for listed in (
        "SELECT comment FROM information_schema.columns WHERE table_name = 'said'"
        " ORDER BY ordinal_position",
        "SELECT remarks FROM system.jdbc.columns WHERE table_name = 'said'"
        " ORDER BY ordinal_position",
    ):
        assert rows(connection, listed) == [("the first",), (None,)]
    ((shown,),) = rows(connection, "SHOW CREATE TABLE said")
    assert "a integer COMMENT 'the first',\n" in str(shown)
    rows(connection, "DROP TABLE said")


def test_columns_are_described_as_in_trino(connection: seamline.Connection) -> None:
    """PyHive and others look columns up by these names, and a partition key in `Extra`."""
    rows(
        connection,
        "CREATE TABLE told (id bigint NOT NULL, day date NOT NULL, name varchar COMMENT 'who')"
        " WITH (partitioning = ARRAY['day', 'bucket(4, id)'])",
    )
    cursor = connection.execute("SHOW COLUMNS FROM told")
    assert cursor.description is not None
    assert [column[0] for column in cursor.description] == ["Column", "Type", "Extra", "Comment"]
    expected = [
        ("id", "bigint", "not null", ""),
        ("day", "date", "partition key, not null", ""),
        ("name", "varchar", "", "who"),
    ]
    assert cursor.fetchall() == expected
    assert rows(connection, 'DESCRIBE "told$cold"') == expected
    rows(connection, "DROP TABLE told")


def test_columns_of_views_have_comments_too(connection: seamline.Connection) -> None:
    """As dbt writes them, whatever a model is made as; a new query begins without."""
    rows(connection, "CREATE VIEW spoken COMMENT 'all' AS SELECT 1 AS a, 'x' AS B")
    rows(connection, "COMMENT ON COLUMN spoken.b IS 'the second'")
    listed = (
        "SELECT comment FROM information_schema.columns WHERE table_name = 'spoken'"
        " ORDER BY ordinal_position"
    )
    assert rows(connection, listed) == [(None,), ("the second",)]
    assert [row[3] for row in rows(connection, "DESCRIBE spoken")] == ["", "the second"]
    assert rows(connection, "SELECT * FROM spoken") == [(1, "x")]
    ((shown,),) = rows(connection, "SHOW CREATE VIEW spoken")
    assert "COMMENT 'all'" in str(shown)
    found = refused(connection, "COMMENT ON COLUMN spoken.c IS 'x'")
    assert found.message == "view lake.default.spoken has no column c"
    rows(connection, "COMMENT ON COLUMN spoken.B IS NULL")
    assert rows(connection, listed) == [(None,), (None,)]
    rows(connection, "DROP VIEW spoken")


@pytest.mark.parametrize(
    "table",
    [
        "information_schema.applicable_roles",
        "information_schema.enabled_roles",
        "information_schema.roles",
        "information_schema.table_privileges",
        "system.metadata.analyze_properties",
        "system.metadata.column_properties",
        "system.metadata.functions_authorization",
        "system.metadata.materialized_view_properties",
        "system.metadata.materialized_views",
        "system.metadata.schema_properties",
        "system.metadata.schemas_authorization",
        "system.metadata.tables_authorization",
        "system.runtime.optimizer_rule_stats",
        "system.runtime.tasks",
        "system.runtime.transactions",
    ],
)
def test_what_there_never_is_has_no_rows(connection: seamline.Connection, table: str) -> None:
    assert rows(connection, f"SELECT * FROM {table}") == []


def test_a_schema_shows_how_it_is_made_and_has_no_functions(
    connection: seamline.Connection,
) -> None:
    assert rows(connection, "SHOW CREATE SCHEMA lake.shop") == [("CREATE SCHEMA lake.shop",)]
    assert rows(connection, "SHOW FUNCTIONS FROM lake.shop") == []
    built_in = rows(connection, "SHOW FUNCTIONS FROM system.builtin LIKE 'ab%'")
    assert built_in == rows(connection, "SHOW FUNCTIONS LIKE 'ab%'") != []
    for sql in ("SHOW CREATE SCHEMA lake.shopp", "SHOW FUNCTIONS FROM lake.shopp"):
        assert refused(connection, sql).code.name == "SCHEMA_NOT_FOUND"
