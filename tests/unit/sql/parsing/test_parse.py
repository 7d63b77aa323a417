"""Goal: one statement of an allowed kind comes out; all else is refused by its name and place.

Method: statements and what they become; limits at their edges.
"""

from __future__ import annotations

import pytest
from sqlglot import exp

from seamline.errors import Location, SeamlineError
from seamline.sql.parsing import parse
from seamline.sql.parsing.statements import (
    ColumnDefinition,
    CreateSchema,
    CreateTable,
    DropSchema,
    DropTable,
    Explain,
    LikeTable,
    Query,
    SetRole,
    SetSession,
    SetTimeZone,
    Show,
    Use,
)


def refused(sql: str, dialect: str | None = None) -> SeamlineError:
    with pytest.raises(SeamlineError) as caught:
        parse.parse(sql, dialect=dialect)
    return caught.value


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        ";; SELECT 1 ;;",
        "SELECT ';' -- ; \n",
        "(SELECT 1)",
        "TABLE t",
        "VALUES (1, 'a'), (2, 'b')",
        "WITH t AS (SELECT 1) SELECT * FROM t",
        "SELECT 1 UNION SELECT 2",
    ],
)
def test_queries(sql: str) -> None:
    statement = parse.parse(sql)
    assert isinstance(statement, Query)
    assert isinstance(statement.tree, exp.Query)


def test_a_token_belongs_to_the_query() -> None:
    statement = parse.parse("SELECT 1 AT TOKEN 'abc'")
    assert isinstance(statement, Query)
    assert statement.token == "abc"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SHOW CATALOGS", Show("catalogs")),
        ("SHOW SCHEMAS FROM lake LIKE 'a%'", Show("schemas", ("lake",), "a%")),
        ("SHOW TABLES IN lake.default", Show("tables", ("lake", "default"))),
        ("SHOW COLUMNS FROM t", Show("columns", ("t",))),
        ("DESCRIBE a.b.c", Show("columns", ("a", "b", "c"))),
        ('DESC "t$seam"', Show("columns", ("t$seam",))),
        ("SHOW CREATE TABLE t", Show("create table", ("t",))),
        ("SHOW FUNCTIONS", Show("functions")),
        ("SHOW FUNCTIONS FROM a.s LIKE 'x%'", Show("functions", ("a", "s"), "x%")),
        ("SHOW CREATE SCHEMA a.s", Show("create schema", ("a", "s"))),
        ("SET TIME ZONE 'Etc/UTC'", SetTimeZone("UTC")),
        ("SET TIME ZONE 'europe/berlin'", SetTimeZone("Europe/Berlin")),
        ("set time zone local", SetTimeZone(None)),
        ("SET TIME ZONE INTERVAL '2' HOUR", SetTimeZone("+02:00")),
        ("SET TIME ZONE INTERVAL '-10' HOUR", SetTimeZone("-10:00")),
        ("SET TIME ZONE INTERVAL -'03:30' HOUR TO MINUTE", SetTimeZone("-03:30")),
        ("SHOW TABLES FROM a LIKE 'x!_%' ESCAPE '!'", Show("tables", ("a",), "x!_%", "!")),
        ("SHOW SESSION LIKE 'e%'", Show("session", (), "e%")),
        ("SHOW ROLES", Show("roles")),
        ("show current roles from lake", Show("current roles", ("lake",))),
        ("SHOW ROLE GRANTS IN lake", Show("role grants", ("lake",))),
        ("SHOW GRANTS", Show("grants")),
        ("SHOW GRANTS ON TABLE s.t", Show("grants", ("s", "t"))),
        ("SHOW GRANTS ON t", Show("grants", ("t",))),
        ("SET ROLE ALL", SetRole(None)),
        ("set role none in lake", SetRole("lake")),
        ("SHOW STATS FOR a.b", Show("stats", ("a", "b"))),
        ("set session engine = 'spark'", SetSession("engine", "spark")),
        ("SET SESSION row_limit = 10", SetSession("row_limit", "10")),
        ("RESET SESSION engine", SetSession("engine", None)),
        ("USE lake.shop", Use(("lake", "shop"))),
        ("CREATE SCHEMA s", CreateSchema(("s",))),
        ("create schema if not exists a.s", CreateSchema(("a", "s"), if_not_exists=True)),
        ("DROP SCHEMA s", DropSchema(("s",))),
        ("DROP SCHEMA IF EXISTS a.s RESTRICT", DropSchema(("a", "s"), if_exists=True)),
        ("drop schema s cascade", DropSchema(("s",), cascade=True)),
        (
            "CREATE TABLE x (LIKE s.t INCLUDING PROPERTIES, LIKE u EXCLUDING PROPERTIES, LIKE v)",
            CreateTable(
                ("x",),
                (
                    LikeTable(("s", "t"), takes_properties=True),
                    LikeTable(("u",)),
                    LikeTable(("v",)),
                ),
                (),
            ),
        ),
        ("DROP TABLE t", DropTable(("t",))),
        ("drop table if exists a.b", DropTable(("a", "b"), if_exists=True)),
    ],
)
def test_statements_that_have_a_grammar_of_words(sql: str, expected: parse.Statement) -> None:
    assert parse.parse(sql) == expected


@pytest.mark.parametrize("analyze", [False, True])
def test_explain(analyze: bool) -> None:
    statement = parse.parse(f"EXPLAIN {'ANALYZE ' if analyze else ''}SELECT 1")
    assert isinstance(statement, Explain)
    assert statement.analyze is analyze


@pytest.mark.parametrize(
    ("sql", "query"),
    [
        ("INSERT INTO t (a) SELECT b FROM u", "SELECT b FROM u"),
        ("CREATE TABLE t AS SELECT b FROM u", "SELECT b FROM u"),
        ("DELETE FROM t WHERE a = ?", 'SELECT t."$path", t."$pos", 1 FROM t WHERE a = ?'),
    ],
)
def test_explain_of_a_statement_that_writes_is_of_the_query_that_it_reads(
    sql: str, query: str
) -> None:
    statement = parse.parse(f"EXPLAIN (TYPE IO) {sql}")
    assert isinstance(statement, Explain)
    assert statement.query.tree.sql("trino") == query
    assert statement.query.placeholders == sql.count("?")


def test_create_table() -> None:
    statement = parse.parse(
        "CREATE TABLE IF NOT EXISTS lake.default.t"
        " (a bigint NOT NULL, b row(c varchar) COMMENT 'x') COMMENT 'y'"
        " WITH (topic = 'bids', partitioning = ARRAY['day(a)'], format_version = 3)"
    )
    assert isinstance(statement, CreateTable)
    assert (statement.name, statement.if_not_exists) == (("lake", "default", "t"), True)
    assert [
        (c.name, c.required, c.comment)
        for c in statement.columns
        if isinstance(c, ColumnDefinition)
    ] == [
        ("a", True, None),
        ("b", False, "x"),
    ]
    assert dict(statement.properties) == {
        "comment": "y",
        "topic": "bids",
        "partitioning": ("day(a)",),
        "format_version": 3,
    }


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE OR REPLACE TABLE IF NOT EXISTS t (a int)",
        "INSERT OVERWRITE t SELECT 1",
        "INSERT INTO t DELETE FROM u",
        "CREATE TABLE t AS DROP TABLE u",
        "ALTER TABLE t EXECUTE vacuum",
        "ALTER VIEW v SET AUTHORIZATION w",
        "CREATE MATERIALIZED VIEW v AS SELECT 1",
        "GRANT SELECT ON t TO x",
        "CALL p()",
        "COPY t TO 'x'",
        "PRAGMA x",
        "LOAD 'x'",
        "BEGIN",
        "SHOW PRIVILEGES",
        "EXPLAIN DROP TABLE t",
        "EXPLAIN TRUNCATE TABLE t",
        "EXPLAIN CREATE TABLE t (a bigint)",
        "EXPLAIN ANALYZE DELETE FROM t",
        "EXPLAIN ANALYZE INSERT INTO t VALUES 1",
        "WITH x AS (DELETE FROM t) SELECT 1",
        "WITH x AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM x",
        "SELECT * FROM (DELETE FROM t) AS x",
        "SELECT 1 INTO t",
    ],
)
def test_whatever_could_change_something_is_refused(sql: str) -> None:
    assert refused(sql).code.name in {
        "NOT_SUPPORTED",
        "STATEMENT_NOT_ALLOWED",
        "SYNTAX_ERROR",
    }


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("CREATE OR REPLACE FUNCTION f() RETURNS bigint", "CREATE OR REPLACE FUNCTION"),
        ("create materialized view v as select 1", "CREATE MATERIALIZED VIEW"),
        ("ALTER SCHEMA s RENAME TO w", "ALTER SCHEMA"),
        ("SET PATH a", "SET PATH"),
        ("ANALYZE t", "ANALYZE"),
    ],
)
def test_what_is_not_allowed_has_a_name(sql: str, what: str) -> None:
    found = refused(sql)
    assert (found.code.name, found.message) == ("STATEMENT_NOT_ALLOWED", f"{what} is not allowed")


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        ("SELECT CAST(1 AS varchr(3))", "there is no type varchr", "Did you mean varchar"),
        ("SELECT TRY_CAST(1 AS Bigit)", "there is no type Bigit", "Did you mean bigint"),
        ("SELECT CAST(1 AS foo)", "there is no type foo", "Types are boolean, tinyint"),
        ("CREATE TABLE x (a foo)", "there is no type foo", "Types are boolean, tinyint"),
        ('CREATE TABLE x (a int, "b c" varchr(3))', "there is no type varchr(3)", "Did you"),
        ("CREATE TABLE x (a int, b row(c foo))", "there is no type row(c foo)", "Types are"),
        ("SELECT 1 FROM", "the table name is missing near 'FROM'", "Check the statement"),
        (
            "CREATE TABLE x AS SELECT f(a b) FROM t",
            "')' is missing near 'b'",
            "Check the statement",
        ),
    ],
)
def test_a_type_that_there_is_not_has_a_name(sql: str, message: str, hint: str) -> None:
    found = refused(sql)
    assert (found.code.name, found.message) == ("SYNTAX_ERROR", message)
    assert (found.hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("sql", "code", "place"),
    [
        ("", "SYNTAX_ERROR", Location(1, 1)),
        (" ; -- x", "SYNTAX_ERROR", Location(1, 1)),
        ("SELECT 1;\n SELECT 2", "MULTIPLE_STATEMENTS", Location(1, 9)),
        ("SELECT 1; DROP TABLE t", "MULTIPLE_STATEMENTS", Location(1, 9)),
        ("SELECT\n 1 +", "SYNTAX_ERROR", Location(2, 4)),
        ("SELECT a b c", "SYNTAX_ERROR", Location(1, 12)),
        ("  foo", "SYNTAX_ERROR", Location(1, 3)),
        ("'a'", "SYNTAX_ERROR", Location(1, 1)),
        ("SELECT 'a", "SYNTAX_ERROR", Location(1, 8)),
        ("SHOW TABLES LIKE x", "SYNTAX_ERROR", Location(1, 18)),
        ("SET SESSION engine TO 'x'", "SYNTAX_ERROR", Location(1, 20)),
        ("SET SESSION engine = spark", "SYNTAX_ERROR", Location(1, 22)),
        ("USE a.b.c", "SYNTAX_ERROR", Location(1, 5)),
        ("SHOW PRIVILEGES", "STATEMENT_NOT_ALLOWED", Location(1, 6)),
        ("DROP TABLE", "SYNTAX_ERROR", Location(1, 11)),
        ("DELETE t FROM t USING u", "NOT_SUPPORTED", Location(1, 8)),
        ("UPDATE t SET a = 1 FROM u", "NOT_SUPPORTED", Location(1, 8)),
        ("UPDATE t SET t.a = 1", "SYNTAX_ERROR", Location(1, 14)),
        ("SELECT 'a\0b'", "SYNTAX_ERROR", Location(1, 10)),
        ("SELECT '\ud800'", "SYNTAX_ERROR", Location(1, 9)),
        ("CREATE TABLE t (a int PRIMARY KEY)", "NOT_SUPPORTED", Location(1, 17)),
        ("CREATE TABLE t LIKE u", "SYNTAX_ERROR", Location(1, 21)),
    ],
)
def test_the_error_says_where(sql: str, code: str, place: Location | None) -> None:
    error = refused(sql)
    assert (error.code.name, error.location) == (code, place)


@pytest.mark.parametrize("number", ["1", "10", "1_000", "0b101", "0o17", "1e5"])
@pytest.mark.parametrize("letters", ["x", "_", "é", "AND", "e", "__0", "g5"])
def test_letters_that_follow_a_number_at_once_are_no_name(number: str, letters: str) -> None:
    error = refused(f"SELECT\n {number}{letters} FROM t")
    assert (error.code.name, error.location) == ("SYNTAX_ERROR", Location(2, 2))
    assert error.message.startswith(number)
    apart = parse.parse(f'SELECT {number} "{letters}" FROM t')
    assert isinstance(apart, Query)
    assert apart.tree.selects[0].alias == letters


@pytest.mark.parametrize(
    "text", ["0x", "0xg", "0b2", "0o8", "1e+", "1.5e", "1.e-", ".5e", "7" * 99 + "x"]
)
def test_what_only_begins_as_a_number_is_refused(text: str) -> None:
    error = refused(f"SELECT {text}")
    assert error.code.name == "SYNTAX_ERROR"
    assert len(error.message) < 70


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT '" + "x" * parse.LENGTH_MAX + "'",
        "SELECT 1" + ",1" * (parse.TOKENS_MAX // 2),
        "SELECT " + "(" * (parse.DEPTH_MAX + 1) + "1" + ")" * (parse.DEPTH_MAX + 1),
        "SELECT " + "CASE WHEN true THEN " * 61 + "1" + " END" * 61,
        "SELECT " + "NOT " * 5000 + "true",
        "SELECT " + "- " * 5000 + "1",
    ],
    ids=["characters", "words", "brackets", "cases", "nots", "signs"],
)
def test_a_statement_that_is_too_large_is_refused_before_it_costs_much(sql: str) -> None:
    assert refused(sql).code.name == "STATEMENT_TOO_LARGE"


def test_other_dialects_are_translated_and_only_queries_of_them() -> None:
    statement = parse.parse("SELECT a::int FROM `t`", dialect="databricks")
    assert isinstance(statement, Query)
    assert statement.tree.sql("trino") == 'SELECT CAST(a AS INTEGER) FROM "t"'
    assert refused("DELETE FROM t", "postgres").code.name == "STATEMENT_NOT_ALLOWED"
    assert refused("SELECT 1; SELECT 2", "postgres").code.name == "MULTIPLE_STATEMENTS"
    assert refused("SELECT 1", "nope").code.name == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("ALTER TABLE t ADD COLUMN a bigint DEFAULT 1", "DEFAULT"),
        ("INSERT INTO t @ audit SELECT 1", "@"),
        ("ALTER TABLE t EXECUTE add_files", "add_files"),
        ("SELECT * FROM JSON_TABLE(x, 'lax $' COLUMNS (a bigint))", "JSON_TABLE"),
        ("SELECT CASE x WHEN > 0 THEN 1 END FROM t", "WHEN"),
        ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1", "CREATE"),
    ],
)
def test_what_is_absent_is_marked_where_it_is(sql: str, word: str) -> None:
    assert refused(sql).location == Location(1, sql.index(word) + 1)


@pytest.mark.parametrize("text", ["'JSON_TABLE ('", '"JSON_TABLE ("', "'@'", "-- RETURNING\n"])
def test_texts_quoted_names_and_comments_are_not_what_is_absent(text: str) -> None:
    error = refused(f"SELECT {text} FROM WHERE")
    assert error.code.name == "SYNTAX_ERROR"


@pytest.mark.parametrize("dialect", [None, "duckdb", "postgres", "clickhouse"])
def test_brackets_after_a_field_are_a_subscript(dialect: str | None) -> None:
    sql = 'SELECT r.array[1], t.r.list[1], "array"[1], array[2, 3] FROM t'
    parsed = parse.parse(sql, dialect=dialect)
    assert isinstance(parsed, Query)
    kinds = [type(column) for column in parsed.tree.selects]
    assert kinds == [exp.Bracket, exp.Bracket, exp.Bracket, exp.Array]
