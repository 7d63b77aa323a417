"""Goal: nobody does, sees or learns more than the rules say, whichever way they ask.

Method: one table of principals, objects and actions, and every route by which an action can be
asked for: statements of each kind, listings, the Iceberg catalog in both modes, seams and feeds.
Each cell is tried on a gateway over a real catalog. What is denied looks as if it were not there.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest
from support.ruled import Ruled

from seamline.errors import SeamlineError
from seamline.gateway.access.control import AccessControl
from seamline.gateway.access.rights import Principal
from seamline.gateway.names import METADATA_TABLES
from seamline.gateway.statements.statement import StatementRequest

RULES = r"""
catalogs:
- {user: boss, allow: all}
- {group: readers, catalog: lake, allow: read-only}
- {catalog: lake|default, allow: all}
tables:
- {user: boss, privileges: [SELECT, INSERT, DELETE, UPDATE, OWNERSHIP]}
- {table: secret.*, privileges: []}
- {schema: 'hr|a\.b', privileges: []}
- user: ann
  table: orders
  privileges: [SELECT, INSERT]
  filter: region = 'eu' AND id < 100
  columns:
  - {name: card, mask: "'****' || substr(card, -2)"}
  - {name: note, allow: false}
- user: ann
  table: mine_in_part
  privileges: [SELECT, INSERT, DELETE, UPDATE, OWNERSHIP]
  columns: [{name: note, allow: false}, {name: card, mask: "'*'"}]
- {user: ann, table: mine.*, privileges: [SELECT, INSERT, OWNERSHIP]}
- {user: mat, table: orders|mine_.*, privileges: [SELECT], columns: [{name: card, mask: 'NULL'}]}
- {user: own, table: plain, privileges: [SELECT], filter: region = current_user}
- {user: own, table: loose_rows, privileges: [DELETE, SELECT]}
- {user: own, table: loose_values, privileges: [UPDATE, SELECT]}
- {user: own, table: loose_more, privileges: [INSERT, SELECT]}
- {user: own, table: loose_unseen, privileges: [DELETE, UPDATE, INSERT]}
- {user: own, table: loose_in_part, privileges: [DELETE, UPDATE, INSERT, SELECT], filter: id > 1}
- {group: readers, catalog: lake, privileges: [SELECT, OWNERSHIP, INSERT]}
functions:
- {user: boss|own, privileges: [GRANT_EXECUTE]}
- {user: ann, catalog: lake, schema: system, function: changes, privileges: [EXECUTE]}
- {catalog: lake, schema: system, function: changes, privileges: [OWNERSHIP]}
topics:
- {user: boss}
- {user: ann, topic: mine.*}
queries:
- {user: boss, allow: [execute, view, kill]}
- {user: mute, allow: []}
- {allow: [execute]}
system_information:
- {user: eve, allow: []}
- {user: own, allow: [write]}
- {user: boss|eve, allow: [read]}
- {group: readers, allow: [read, write]}
system_session_properties:
- {user: ann, property: timeout, allow: false}
- {allow: true}
"""
PEOPLE = {
    "boss": (),
    "ann": (),
    "mat": (),
    "rea": ("readers",),
    "own": (),
    "mute": (),
    "eve": (),
}
ABSENT = {"TABLE_NOT_FOUND", "CATALOG_NOT_FOUND", "TOPIC_NOT_FOUND", "SCHEMA_NOT_FOUND"}
COLUMNS = "id bigint, region varchar, card varchar, note varchar"
ROWS = [
    (i, ("eu", "us", "own")[i % 3], f"4000-{i:04}", f"note {i}") for i in (*range(9), 150, 151, 153)
]


class World(Ruled):
    """A gateway with rules, its catalog and its topics."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder, RULES, PEOPLE)
        for topic in ("orders", "secret", "mine"):
            self.memory.create_topic(topic, 2)
        for name, topic in (("orders", "orders"), ("secret", "secret")):
            self.do("boss", f"CREATE TABLE {name} ({COLUMNS}) WITH (topic = '{topic}')")
            for id_, region, card, note in ROWS:
                value = {"id": id_, "region": region, "card": card, "note": note}
                self.memory.produce(topic, id_ % 2, json.dumps(value).encode(), key=card.encode())
        values = ", ".join(str(row) for row in ROWS)
        self.do(
            "boss",
            f"CREATE TABLE plain AS SELECT * FROM (VALUES {values}) t(id, region, card, note)",
        )
        self.do("boss", "CREATE VIEW eu AS SELECT id, card FROM orders WHERE region = 'eu'")
        self.do("boss", "CREATE VIEW secrets AS SELECT id FROM secret")
        for schema in ("hr", '"a.b"'):
            self.do("boss", f"CREATE TABLE {schema}.salaries AS SELECT 1 AS id")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("rights"))
    with contextlib.closing(made.gateway):
        yield made


# --- Statements ----------------------------------------------------------------------------------

READS = (
    "SELECT count(*) FROM {t}",
    'SELECT count(*) FROM "{t}$cold"',
    "SELECT * FROM (SELECT * FROM {t}) LIMIT 1",
    "WITH x AS (SELECT id FROM {t}) SELECT count(*) FROM x",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM {t})",
    "EXPLAIN SELECT * FROM {t}",
    "EXPLAIN ANALYZE SELECT * FROM {t}",
    "EXPLAIN (TYPE IO) SELECT * FROM {t}",
    "SELECT id FROM {t} FOR TIMESTAMP AS OF TIMESTAMP '2100-01-01 00:00:00 UTC'",
    'SELECT * FROM "{t}$snapshots"',
    'SELECT * FROM "{t}$history"',
    'SELECT * FROM "{t}$properties"',
    'SELECT * FROM "{t}$partitions"',
    "EXECUTE IMMEDIATE 'SELECT count(*) FROM {t}'",
)
CHANGES = (
    "DROP TABLE {t}",
    "ALTER TABLE {t} ADD COLUMN x bigint",
    "ALTER TABLE {t} RENAME COLUMN note TO y",
    "ALTER TABLE {t} SET PROPERTIES on_error = 'skip'",
    "ALTER TABLE {t} SET PROPERTIES topic = 'orders'",
    "ALTER TABLE {t} ALTER COLUMN id SET DATA TYPE bigint",
    "ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL",
    "ALTER TABLE {t} RENAME TO moved",
    "COMMENT ON TABLE {t} IS 'x'",
    "COMMENT ON COLUMN {t}.id IS 'x'",
)
ROW_CHANGES = {
    "DELETE FROM {t} WHERE id = 1": {"DELETE"},
    "TRUNCATE TABLE {t}": {"TRUNCATE"},
    "UPDATE {t} SET id = 1 WHERE id = 1": {"UPDATE"},
    "MERGE INTO {t} AS t USING (VALUES 1) AS s(x) ON t.id = s.x WHEN MATCHED THEN DELETE": {
        "DELETE"
    },
    "MERGE INTO {t} AS t USING (VALUES 1) AS s(x) ON t.id = s.x"
    " WHEN MATCHED THEN UPDATE SET id = 1 WHEN NOT MATCHED THEN INSERT (id) VALUES (s.x)": {
        "UPDATE",
        "INSERT",
    },
    "MERGE INTO {t} AS t USING (VALUES 1) AS s(x) ON t.id = s.x"
    " WHEN NOT MATCHED THEN INSERT (id) VALUES (s.x)": {"INSERT"},
}
"""Statements that change rows, and what may be done by whoever may run them."""
SEEN = ("DESCRIBE {t}", "SHOW CREATE TABLE {t}", "SHOW COLUMNS FROM {t}")


@pytest.mark.one_in(test=2)
@pytest.mark.parametrize("who", ["eve", "ann", "own", "rea"])
@pytest.mark.parametrize(
    "table", ["secret", "lake.default.SECRET", "secrets", "default.default.secret"]
)
def test_what_one_may_not_see_is_not_there(world: World, who: str, table: str) -> None:
    insert = "INSERT INTO {t} (id) VALUES (1)"
    for sql in (*READS, *SEEN, insert, *CHANGES, *ROW_CHANGES, "SHOW STATS FOR {t}"):
        if "$" in sql and "." in table:
            continue
        ended = world.do(who, sql.format(t=table))
        if table.startswith("default.") and ended == "STATEMENT_NOT_ALLOWED":
            continue
        assert ended in ABSENT, (sql, ended)


SPELLED = (
    "{}",
    " {}",
    "{} ",
    "\t{}",
    "{}\n",
    "\u00a0{}",
    "\u2003{}",
    '"{}"',
    '" {}"',
    "{}.",
    ".{}",
)


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("schema", ["hr", "a.b", "a. b", 'a."b"', "A.B", "HR"])
def test_no_spelling_of_a_schema_is_another_one_to_the_catalog_than_to_the_rules(
    world: World, schema: str
) -> None:
    assert world.rows("boss", "SELECT * FROM hr.salaries") == [(1,)]
    assert world.rows("boss", 'SELECT * FROM "a.b".salaries') == [(1,)]
    for spelled in (spelling.format(schema) for spelling in SPELLED):
        quoted = '"' + spelled.replace('"', '""') + '"'
        for sql in (*READS[:2], *SEEN, "INSERT INTO {t} VALUES (2)", "DROP TABLE {t}"):
            table = f"lake.{quoted}." + ("salaries" if '"{t}' not in sql else '"salaries')
            statement = sql.replace('"{t}', "{t}").format(t=table)
            refused = ABSENT if sql in {*READS, *SEEN} else {*ABSENT, "PERMISSION_DENIED"}
            assert world.do("rea", statement) in refused, statement
        levels = ([spelled], spelled.split("."))
        for path in ("\x1f".join(each) for each in levels):
            found = urllib.parse.quote(path, safe="")
            url = f"/iceberg/v1/lake/namespaces/{found}/tables"
            assert world.ask("rea", "GET", f"{url}/salaries").status_code == 404, path
            listed = world.ask("rea", "GET", url)
            assert not (listed.get_json() or {}).get("identifiers"), path
    assert world.rows("boss", "SELECT * FROM hr.salaries") == [(1,)]
    for quoted in ('" hr"', '"""a.b"""'):  # not for those either who may do everything
        for sql in ("CREATE SCHEMA lake.{}", "DROP SCHEMA lake.{}", "SHOW TABLES FROM lake.{}"):
            assert world.do("boss", sql.format(quoted)) == "SCHEMA_NOT_FOUND"
        for sql in ("CREATE VIEW {} AS SELECT 1 AS x", "CREATE TABLE {} AS SELECT 1 AS x"):
            assert world.do("boss", sql.format(f"lake.{quoted}.made")) == "SCHEMA_NOT_FOUND", sql


def test_what_is_denied_and_what_is_absent_look_the_same(world: World) -> None:
    for who in ("eve", "ann"):
        for sql in ("SELECT * FROM {t}", "DESCRIBE {t}", "DROP TABLE {t}", "SHOW STATS FOR {t}"):
            said = []
            for table in ("secret", "zzzzzz"):
                with pytest.raises(SeamlineError) as caught:
                    world.rows(who, sql.format(t=table))
                error = {k: v for k, v in caught.value.to_json().items() if k != "query_id"}
                said.append(str(error).replace(table, "t"))
            assert said[0] == said[1]
            assert "secret" not in said[1]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE SCHEMA {s}",
        "CREATE SCHEMA IF NOT EXISTS {s}",
        "DROP SCHEMA {s}",
        "DROP SCHEMA IF EXISTS {s}",
        "USE {s}",
        "USE lake.{s}",
        "SHOW TABLES FROM {s}",
        "SHOW CREATE SCHEMA {s}",
        "SHOW CREATE SCHEMA lake.{s}",
        "SHOW FUNCTIONS FROM {s}",
        "SELECT * FROM {s}.salaries",
        "CREATE TABLE {s}.salaries (id bigint)",
        "CREATE VIEW {s}.salaries AS SELECT 1 AS id",
    ],
)
def test_a_schema_that_one_may_not_see_is_not_there(world: World, sql: str) -> None:
    for who in ("rea", "ann", "eve"):
        answers = [str(world.said(who, sql.format(s=s))).replace(s, "s") for s in ("hr", "zz")]
        assert answers[0] == answers[1], who
    assert world.rows("boss", "SELECT * FROM hr.salaries") == [(1,)]


@pytest.mark.parametrize(
    "sql", ["SHOW SCHEMAS FROM {c}", "USE {c}.x", "CREATE SCHEMA {c}.x", "SHOW CREATE SCHEMA {c}.x"]
)
def test_a_catalog_that_one_may_not_see_is_not_there(world: World, sql: str) -> None:
    """Nor does it change how its name is spelt, or what is suggested instead."""
    for name in ("hidden", "HIDDEN", "lakes"):
        answers = [world.said(who, sql.format(c=name)) for who in ("own", "boss")]
        assert {answer["code"] for answer in answers} == {"CATALOG_NOT_FOUND"}
        assert name in answers[0]["message"]
        assert "hidden" not in str(answers[0]["hint"])


def test_no_suggestion_names_a_view_that_one_may_not_see(world: World) -> None:
    made = "CREATE VIEW mine_views AS SELECT 1 AS id"
    assert world.do("boss", made) == "done"
    assert world.do("boss", "CREATE VIEW secret_mine_view AS SELECT 1 AS id") == "done"
    for sql in (
        "DROP VIEW {v}",
        "SHOW CREATE VIEW {v}",
        "COMMENT ON VIEW {v} IS 'x'",
        "ALTER VIEW {v} RENAME TO mine_too",
    ):
        found = world.said("ann", sql.format(v="mine_view"))
        assert found["code"] == "VIEW_NOT_FOUND"
        assert found["hint"] == "Did you mean mine_views?"
    for view in ("mine_views", "secret_mine_view"):
        assert world.do("boss", f"DROP VIEW {view}") == "done"


def test_nobody_reads_where_only_others_may(world: World) -> None:
    """Ann sees her orders and nothing of the plain table; own sees the plain table only."""
    assert world.do("ann", "SELECT * FROM plain") in ABSENT
    assert world.do("own", "SELECT * FROM orders") in ABSENT
    assert world.do("own", "SELECT o.id FROM plain p JOIN orders o ON o.id = p.id") in ABSENT


@pytest.mark.parametrize("table", ["orders", "plain"])
def test_changes_need_ownership(world: World, table: str) -> None:
    who = {"orders": "ann", "plain": "own"}[table]
    for reader in (who, "rea"):
        for sql in CHANGES:
            assert world.do(reader, sql.format(t=table)) == "PERMISSION_DENIED", (reader, sql)
    for sql in (
        "DROP VIEW eu",
        "ALTER VIEW eu RENAME TO mine_eu",
        "COMMENT ON VIEW eu IS 'x'",
        "COMMENT ON COLUMN eu.id IS 'x'",
    ):
        assert world.do("rea", sql) == "PERMISSION_DENIED"


def test_a_column_that_one_may_not_see_gets_no_other_name(world: World) -> None:
    made = f"CREATE TABLE mine_in_part ({COLUMNS}) WITH (topic = 'mine')"
    assert world.do("boss", made) == "done"
    for sql in (
        *CHANGES,
        "ALTER TABLE {t} RENAME COLUMN card TO shown",
        "ALTER TABLE {t} SET PROPERTIES topic = 'mine', columns_from = 'region = note'",
        "CREATE TABLE {t} WITH (adopt = true, topic = 'mine')",
    ):
        if not sql.startswith(("DROP", "COMMENT")):
            assert world.do("ann", sql.format(t="mine_in_part")) == "PERMISSION_DENIED", sql
    assert world.do("boss", "DROP TABLE mine_in_part") == "done"


def test_a_bad_record_says_nothing_of_columns_that_one_may_not_see(world: World) -> None:
    made = f"CREATE TABLE mine_in_part ({COLUMNS}) WITH (topic = 'mine')"
    assert world.do("boss", made) == "done"
    at = world.memory.produce("mine", 0, json.dumps({"id": 1, "note": {"a": "hidden"}}).encode())
    said = {}
    for who in ("boss", "ann"):
        with pytest.raises(SeamlineError) as caught:
            world.rows(who, "SELECT id FROM mine_in_part")
        assert caught.value.code.name == "BAD_RECORD"
        said[who] = caught.value
    assert "note" in said["boss"].message
    assert said["ann"].details == said["boss"].details
    assert "note" not in str(said["ann"].to_json())
    assert "hidden" not in str(said["ann"].to_json())
    world.memory.delete_records("mine", 0, at + 1)
    assert world.do("boss", "DROP TABLE mine_in_part") == "done"


def test_inserts_need_insert(world: World) -> None:
    assert world.do("own", "INSERT INTO plain (id) VALUES (1)") == "PERMISSION_DENIED"
    assert world.do("rea", "INSERT INTO plain (id) VALUES (1)") == "PERMISSION_DENIED"
    assert world.rows("boss", "SELECT count(*) FROM plain") == [(len(ROWS),)]


LOOSE = {
    "loose_rows": {"DELETE", "TRUNCATE"},
    "loose_values": {"UPDATE"},
    "loose_more": {"INSERT"},
    "loose_unseen": {"TRUNCATE"},
    "loose_in_part": set[str](),
}
"""What may be done to rows; to truncate, one need not read, but there must be no rows to hide."""


@pytest.mark.parametrize("table", LOOSE)
def test_changing_rows_needs_its_privileges_and_all_to_be_seen(world: World, table: str) -> None:
    for sql, needed in ROW_CHANGES.items():
        world.do("boss", f"CREATE TABLE {table} AS SELECT 1 AS id UNION ALL SELECT 2")
        ended = world.do("own", sql.format(t=table))
        left = world.rows("boss", f"SELECT id FROM {table} ORDER BY id")
        if needed <= LOOSE[table]:
            assert ended == "done", (sql, ended)
        else:
            assert ended == "PERMISSION_DENIED", (sql, ended)
            assert left == [(1,), (2,)]
        assert world.do("boss", f"DROP TABLE {table}") == "done"


def test_replacing_needs_ownership_and_all_to_be_seen(world: World) -> None:
    replace = "CREATE OR REPLACE TABLE {} AS SELECT 7 AS id"
    assert world.do("boss", "CREATE TABLE mine_in_part AS SELECT 1 AS id, 2 AS note") == "done"
    for who, table in (("own", "plain"), ("rea", "plain"), ("ann", "mine_in_part")):
        assert world.do(who, replace.format(table)) == "PERMISSION_DENIED", (who, table)
    assert world.rows("boss", "SELECT * FROM mine_in_part") == [(1, 2)]
    assert world.do("boss", replace.format("mine_in_part")) == "done"
    assert world.rows("boss", "SELECT * FROM mine_in_part") == [(7,)]
    assert world.do("boss", "DROP TABLE mine_in_part") == "done"


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE {t} (id bigint)",
        "CREATE TABLE {t} AS SELECT 1 AS id",
        "CREATE OR REPLACE TABLE {t} AS SELECT 1 AS id",
        "CREATE TABLE {t} (id bigint) WITH (topic = 'mine')",
        "CREATE VIEW {t} AS SELECT 1 AS id",
    ],
)
def test_making_needs_ownership_of_the_name(world: World, sql: str) -> None:
    for who, table in (("ann", "hers"), ("eve", "hers"), ("rea", "hers"), ("ann", "secret_new")):
        assert world.do(who, sql.format(t=table)) == "PERMISSION_DENIED"
    kind = "VIEW" if "VIEW" in sql else "TABLE"
    assert world.do("ann", sql.format(t="mine_x")) == "done"
    assert world.do("ann", f"DROP {kind} mine_x") == "done"


def test_topics_are_bound_by_those_who_may(world: World) -> None:
    made = "CREATE TABLE mine_t (id bigint) WITH (topic = '{t}')"
    for topic in ("orders", "secret", "MINE", "__consumer_offsets"):
        assert world.do("ann", made.format(t=topic)) == "PERMISSION_DENIED"
        bound = f"ALTER TABLE mine_p SET PROPERTIES topic = '{topic}'"
        assert world.do("ann", "CREATE TABLE mine_p (id bigint)") == "done"
        assert world.do("ann", bound) == "PERMISSION_DENIED"
        adopted = f"CREATE TABLE mine_p WITH (adopt = true, topic = '{topic}')"
        assert world.do("ann", adopted) == "PERMISSION_DENIED"
        assert world.do("ann", "DROP TABLE mine_p") == "done"
    assert world.do("ann", made.format(t="mine")) == "done"
    assert world.do("ann", "DROP TABLE mine_t") == "done"


def test_statements_and_properties_need_the_right(world: World) -> None:
    assert world.do("mute", "SELECT 1") == "PERMISSION_DENIED"
    assert world.do("ann", "SELECT 1") == "done"
    for name in ("timeout", "TIMEOUT"):
        assert world.do("ann", f"SET SESSION {name} = '60'") == "PERMISSION_DENIED"
        assert world.do("ann", "SELECT 1", properties={name: "60"}) == "PERMISSION_DENIED"
    assert world.do("ann", "SELECT 1", timeout_s=60) == "PERMISSION_DENIED"
    assert world.ask("ann", "POST", "/api/v1/query?timeout=60", data="SELECT 1").status_code == 403
    assert world.do("ann", "SELECT 1", engine="auto", after=()) == "done"
    assert world.do("boss", "SELECT 1", timeout_s=60) == "done"
    assert world.do("boss", "SELECT 1", properties={"timeout": "60"}) == "done"


# --- Rows and columns ----------------------------------------------------------------------------

SEEN_OF_ORDERS = sorted((i, r, f"****{c[-2:]}") for i, r, c, _ in ROWS if r == "eu" and i < 100)


def test_rows_and_columns_are_left_out(world: World) -> None:
    assert sorted(world.rows("ann", "SELECT * FROM orders")) == SEEN_OF_ORDERS
    assert sorted(world.rows("ann", 'SELECT o.* FROM "orders$hot" AS o')) == SEEN_OF_ORDERS
    counted = [(len(SEEN_OF_ORDERS),)]
    assert world.rows("ann", "SELECT count(*) FROM orders") == counted
    assert world.rows("ann", "SELECT count(id) FROM orders WHERE region <> 'us'") == counted
    assert world.rows("ann", "SELECT count(*) FROM orders WHERE card LIKE '4000%'") == [(0,)]
    assert world.rows("ann", "SELECT max(id) FROM orders o(id, region, card)") == [(6,)]
    assert world.rows("own", "SELECT DISTINCT region FROM plain") == [("own",)]
    assert world.rows("boss", "SELECT count(*) FROM orders") == [(len(ROWS),)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT note FROM orders",
        "SELECT id FROM orders WHERE note = 'note 3'",
        "SELECT id FROM orders ORDER BY note",
        "SELECT orders.note FROM orders",
        "SELECT max(note) FROM orders",
        "SELECT id FROM orders GROUP BY id, note",
        "SELECT _kafka_key FROM orders",
        "SELECT _kafka_headers FROM orders",
        "SELECT _kafka_error FROM orders",
        "SELECT 1 FROM orders a JOIN orders b ON a.note = b.note",
        "SELECT * FROM orders AS o(a, b, c, d)",
    ],
)
def test_a_column_that_is_denied_does_not_exist(world: World, sql: str) -> None:
    assert world.do("ann", sql) in {"COLUMN_NOT_FOUND", "TYPE_MISMATCH", "SYNTAX_ERROR"}
    assert world.do("boss", sql) == "done"


def test_who_asks_is_the_current_user(world: World) -> None:
    for who in ("ann", "boss"):
        assert world.rows(who, "SELECT current_user, CURRENT_USER = 'ann'") == [(who, who == "ann")]


def test_places_of_records_are_kept(world: World) -> None:
    """But offsets count the rows that a filter hides: rows may be sorted by them, and no more."""
    ordered = "SELECT id, _kafka_partition FROM orders ORDER BY _kafka_partition, _kafka_offset"
    everything = world.rows("boss", ordered)
    seen = {row[0] for row in SEEN_OF_ORDERS}
    assert world.rows("ann", ordered) == [row for row in everything if row[0] in seen]
    for counting in (
        "SELECT _kafka_offset FROM orders",
        "SELECT id FROM orders WHERE _kafka_offset >= 0",
        "SELECT id FROM orders ORDER BY _kafka_offset + 1",
        "SELECT max(_kafka_offset) FROM orders",
        "SELECT id, rank() OVER (ORDER BY orders._kafka_offset) FROM orders",
        "SELECT count(*) OVER (ORDER BY _kafka_offset RANGE 1 PRECEDING) FROM orders",
        "SELECT count(*) FROM orders GROUP BY _kafka_offset",
        "SELECT array_agg(id ORDER BY _kafka_offset) FROM orders",
        "SELECT 1 FROM orders JOIN (VALUES 1) AS t(_kafka_offset) USING (_kafka_offset)",
        "SELECT x._kafka_offset FROM (SELECT _kafka_offset FROM orders) AS x",
        "SELECT a.id FROM orders a JOIN orders b ON a._kafka_offset = b._kafka_offset + 1",
        "SELECT (SELECT _kafka_offset) FROM orders",
        "SELECT id FROM orders WHERE 1 IN (SELECT id ORDER BY _kafka_offset - 1)",
    ):
        assert world.do("ann", counting) == "PERMISSION_DENIED", counting
    star = world.rows("ann", "SELECT * FROM orders ORDER BY orders._kafka_offset DESC LIMIT 1")
    assert len(star[0]) == len(SEEN_OF_ORDERS[0])


def test_changes_are_as_the_table_is(world: World) -> None:
    sql = "SELECT * FROM TABLE(changes(table => 'orders', from_token => 'beginning'))"
    assert sorted(world.rows("ann", sql)) == SEEN_OF_ORDERS


@pytest.mark.one_in(test=2)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM {f}",
        "WITH x AS (SELECT id FROM {f}) SELECT count(*) FROM x",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM {f})",
        "EXPLAIN SELECT * FROM {f}",
        "EXECUTE IMMEDIATE 'SELECT id FROM {i}'",
        "CREATE TABLE mine_f AS SELECT id FROM {f}",
    ],
)
def test_functions_of_a_catalog_need_execute(world: World, sql: str) -> None:
    """Whoever may execute one, and may not read the table, gets nothing by it either."""
    called = "TABLE(changes(table => '{t}', from_token => 'beginning'))"

    def ended(who: str, table: str) -> str:
        text = called.format(t=table)
        found = world.do(who, sql.format(f=text, i=text.replace("'", "''")))
        world.do("boss", "DROP TABLE IF EXISTS mine_f")
        return found

    assert ended("boss", "orders") == "done"
    assert ended("ann", "orders") == "done"
    assert ended("rea", "orders") == "PERMISSION_DENIED"
    for who in ("ann", "rea", "own"):
        assert ended(who, "secret") in {"TABLE_NOT_FOUND", "PERMISSION_DENIED"}
        assert ended(who, "nothing") == ended(who, "secret")


def test_functions_of_sql_itself_are_everybodys(world: World) -> None:
    for who in ("boss", "ann", "rea", "own", "eve"):
        assert world.rows(who, "SELECT upper('a'), max(x) FROM (VALUES 1) AS t(x)") == [("A", 1)]


def test_feeds_need_the_function(world: World) -> None:
    """The changes of a table come by a function, whichever way they are asked for."""
    for start in ("beginning", "now"):
        answer = world.ask("rea", "GET", f"/api/v1/tail/orders?from={start}")
        assert (answer.status_code, answer.get_json()["error"]["code"]) == (
            403,
            "PERMISSION_DENIED",
        )


@pytest.mark.parametrize("start", ["beginning", "now"])
@pytest.mark.parametrize(
    "where",
    ["id IN (SELECT id FROM plain)", "id IN (VALUES 1)", "1 = (SELECT count(*) FROM plain)"],
)
def test_what_a_feed_cannot_read_is_refused_by_name(world: World, start: str, where: str) -> None:
    answer = world.ask("boss", "GET", f"/api/v1/tail/orders?from={start}&where={where}")
    try:
        if "VALUES" in where:
            assert answer.status_code == 200
        else:
            assert answer.get_json()["error"]["code"] == "NOT_SUPPORTED"
    finally:
        answer.close()


def test_a_view_shows_what_its_reader_may_see(world: World) -> None:
    assert world.do("rea", "SELECT * FROM eu") == "done"
    assert world.do("rea", "SELECT * FROM secrets") in ABSENT
    made = "CREATE VIEW mine_v AS SELECT id, card FROM orders"
    assert world.do("ann", made) == "done"
    assert sorted(world.rows("ann", "SELECT id FROM mine_v")) == [(s[0],) for s in SEEN_OF_ORDERS]
    assert world.rows("boss", "SELECT count(*) FROM mine_v") == [(len(ROWS),)]
    world.do("ann", "DROP VIEW mine_v")


def test_copies_are_of_what_is_seen(world: World) -> None:
    assert world.do("ann", "CREATE TABLE mine_c AS SELECT * FROM orders") == "done"
    assert sorted(world.rows("boss", "SELECT * FROM mine_c")) == SEEN_OF_ORDERS
    world.do("ann", "DROP TABLE mine_c")


SEEN_IN_PART = {"snapshots", "history", "refs"}
"""Metadata tables of a table of which all rows may be seen, but not all values."""


@pytest.mark.parametrize("variant", [*METADATA_TABLES, "errors"])
def test_tables_about_a_table_tell_no_values(world: World, variant: str) -> None:
    """Bounds and paths have values, and properties have names of columns."""
    if variant == "errors":
        assert world.do("boss", 'DESCRIBE "orders$errors"') == "done"
        assert world.do("mat", 'DESCRIBE "orders$errors"') == "PERMISSION_DENIED"
    in_part, ended = "done" if variant in SEEN_IN_PART else "PERMISSION_DENIED", "PERMISSION_DENIED"
    assert world.do("mat", f'SELECT * FROM "orders${variant}"') == in_part, "a mask alone"
    sql = 'SELECT {} FROM "{}"'
    for spelled in (f"orders${variant}", f"ORDERS${variant.upper()}"):
        for what in ("*", "count(*)"):
            assert world.do("ann", sql.format(what, spelled)) == ended
        assert world.do("ann", f"EXPLAIN {sql.format('*', spelled)}") == ended
        assert world.do("ann", f'SELECT 1 WHERE EXISTS (SELECT 1 FROM "{spelled}")') == ended
        head = world.rows("boss", 'SELECT max(snapshot_id) FROM "orders$snapshots"')[0][0]
        past = f"{sql.format('*', spelled)} FOR VERSION AS OF {head}"
        assert world.do("ann", past) == ended
    assert world.do("boss", sql.format("*", f"orders${variant}")) == "done"
    assert world.do("own", sql.format("*", f"plain${variant}")) == ended, "a filter alone"
    without_topic = "NOT_SUPPORTED" if variant == "errors" else "done"
    assert world.do("rea", sql.format("*", f"plain${variant}")) == without_topic
    assert world.do("eve", sql.format("*", f"secret${variant}")) in ABSENT
    view = f'CREATE VIEW mine_{variant} AS SELECT * FROM "orders${variant}"'
    assert world.do("boss", view) == "done"
    assert world.do("ann", f"SELECT * FROM mine_{variant}") == ended
    world.do("boss", f"DROP VIEW mine_{variant}")


def test_errors_of_files_are_not_told(world: World) -> None:
    """Whoever may not read a metadata table is told so before the files behind it are read."""
    ((path,),) = world.rows("boss", 'SELECT path FROM "plain$manifests"')
    manifest = pathlib.Path(path.removeprefix("file://"))
    aside = manifest.rename(manifest.with_suffix(".aside"))
    try:
        assert world.do("boss", 'SELECT * FROM "plain$entries"') == "COLD_FILE_MISSING"
        assert world.do("own", 'SELECT * FROM "plain$entries"') == "PERMISSION_DENIED"
        assert world.do("own", 'DESCRIBE "plain$entries"') == "PERMISSION_DENIED"
    finally:
        aside.rename(manifest)


def test_statistics_and_seams_tell_no_values(world: World) -> None:
    for name in ("orders", '"orders$cold"', '"orders$hot"'):
        assert [row[0] for row in world.rows("ann", f"DESCRIBE {name}")][:3] == [
            "id",
            "region",
            "card",
        ]
        assert "note" not in str(world.rows("ann", f"DESCRIBE {name}"))
    assert world.do("ann", "SHOW STATS FOR orders") == "PERMISSION_DENIED"
    of_query = "SHOW STATS FOR (SELECT id FROM (SELECT id, region FROM orders) AS o)"
    assert world.do("ann", of_query) == "PERMISSION_DENIED"
    for variant in ("seam", "tail"):
        assert world.do("ann", f'SELECT * FROM "orders${variant}"') == "PERMISSION_DENIED"
        assert world.do("mat", f'SELECT * FROM "orders${variant}"') == "done"


# --- Listings ------------------------------------------------------------------------------------


def test_listings_have_what_is_seen(world: World) -> None:
    def shown(who: str, sql: str) -> set[Any]:
        return {row[0] for row in world.rows(who, sql)}

    assert shown("boss", "SHOW TABLES") >= {"orders", "plain", "secret", "eu", "secrets"}
    assert shown("ann", "SHOW TABLES") == {"orders"}
    assert world.do("eve", "SHOW TABLES") == "SCHEMA_NOT_FOUND"
    assert shown("rea", "SHOW TABLES") == {"orders", "plain", "eu"}
    tables = "SELECT table_name FROM lake.information_schema.tables"
    assert shown("ann", tables) == {"orders"}
    assert shown("rea", tables) == {"orders", "plain", "eu"}
    columns = "SELECT column_name FROM lake.information_schema.columns WHERE table_name = 'orders'"
    assert shown("ann", columns) >= {"id", "region", "card"}
    assert "note" not in shown("ann", columns)
    assert "note" not in shown("ann", "DESCRIBE orders")
    assert "note" not in world.rows("ann", "SHOW CREATE TABLE orders")[0][0]
    assert shown("rea", "SHOW CATALOGS") == {"lake", "default", "system"}
    assert shown("rea", "SELECT view_definition FROM lake.information_schema.views") == {
        "SELECT id, card FROM orders WHERE region = 'eu'"
    }
    assert shown("eve", "SELECT table_name FROM default.information_schema.tables") == set()
    assert world.do("rea", "SHOW TABLES FROM default.default") == "SCHEMA_NOT_FOUND"


def test_the_catalog_system_shows_what_is_seen(world: World) -> None:
    def shown(who: str, sql: str) -> set[Any]:
        return {row[0] for row in world.rows(who, sql)}

    for tables in ("jdbc.tables", "metadata.table_comments"):
        catalog = "table_cat" if tables.startswith("jdbc") else "catalog_name"
        sql = f"SELECT table_name FROM system.{tables} WHERE {catalog} <> 'system'"
        assert shown("ann", sql) == {"orders", "mine"}
        assert shown("rea", sql) == {"orders", "plain", "eu"}
    columns = "SELECT column_name FROM system.jdbc.columns WHERE table_cat = 'lake'"
    assert shown("ann", columns) == {"id", "region", "card"}
    assert shown("rea", "SELECT table_cat FROM system.jdbc.catalogs") == {
        "lake",
        "default",
        "system",
    }
    schemas = "SELECT table_schem FROM system.jdbc.schemas WHERE table_catalog = 'lake'"
    assert shown("eve", schemas) == {"information_schema"}
    assert world.do("ann", "CREATE TABLE system.jdbc.mine (a bigint)") == "STATEMENT_NOT_ALLOWED"


def test_metrics_are_for_those_whom_a_rule_lets_read_them(world: World) -> None:
    """They name tables, whoever may see those."""
    found = {who: world.ask(who, "GET", "/metrics").status_code for who in PEOPLE}
    allowed = {"boss", "rea"}
    assert found == {who: 200 if who in allowed else 403 for who in PEOPLE}
    error = world.ask("ann", "GET", "/metrics").get_json()["error"]
    assert error["code"] == "PERMISSION_DENIED"
    assert "system_information" in error["hint"]


def test_without_a_rule_for_them_nobody_reads_metrics(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("tables: [{privileges: [SELECT]}]")
    with pytest.raises(SeamlineError):
        AccessControl(file).rights_of(Principal("ann")).require_metrics()
    AccessControl(None).rights_of(Principal("ann")).require_metrics()


def test_nobody_acts_as_somebody_else_by_trinos_protocol(world: World) -> None:
    client: Any = world.gateway.app.test_client()

    def headers(who: str, user: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {who}", "X-Trino-User": user}

    sql = "SELECT count(*) FROM plain"
    refused = client.post("/v1/statement", data=sql, headers=headers("ann", "boss")).json
    assert refused["error"]["errorName"] == "PERMISSION_DENIED"
    assert "nextUri" not in refused
    answer = client.post("/v1/statement", data=sql, headers=headers("boss", "boss")).json
    for address in (answer["nextUri"], f"/v1/query/{answer['id']}"):
        for method in (client.get, client.delete):
            assert method(address).status_code == 401
            assert method(address, headers=headers("ann", "ann")).status_code == 404
    while "nextUri" in answer:
        answer = client.get(answer["nextUri"], headers=headers("boss", "boss")).json
    assert answer["stats"]["state"] == "FINISHED"


def test_statements_of_others_are_seen_and_ended_by_whom_the_rules_allow(world: World) -> None:
    world.rows("ann", "SELECT id FROM orders")
    world.rows("boss", "SELECT id FROM plain")
    sql = "SELECT \"user\", token IS NOT NULL FROM system.runtime.queries WHERE state = 'FINISHED'"
    assert {user for user, _ in world.rows("ann", sql)} == {"ann"}
    assert {("ann", False), ("boss", True)} <= set(world.rows("boss", sql))
    assert ("ann", True) not in world.rows("boss", sql)
    ids = "SELECT max(query_id) FROM system.runtime.queries WHERE \"user\" = 'boss'"
    ((statement_id,),) = world.rows("boss", ids)
    kill = f"CALL system.runtime.kill_query(query_id => '{statement_id}', message => 'x')"
    assert world.do("ann", kill) == "STATEMENT_NOT_FOUND"
    assert world.do("boss", kill) == "done"


# --- Other ways ----------------------------------------------------------------------------------

ROUTES: tuple[tuple[str, str, Any], ...] = (
    ("GET", "{root}/v1/lake/namespaces/default/tables/{t}", None),
    ("HEAD", "{root}/v1/lake/namespaces/default/tables/{t}", None),
    ("GET", "{root}/v1/lake/namespaces/default/tables/{t}/credentials", None),
    ("POST", "{root}/v1/lake/namespaces/default/tables/{t}/metrics", {}),
    ("POST", "{root}/v1/lake/namespaces/default/tables/{t}/plan", {}),
    ("POST", "/api/v1/seams", {"table": "{t}"}),
)


@pytest.mark.parametrize("root", ["/iceberg", "/iceberg-plan"])
@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_readers_of_files_get_whole_tables_or_none(
    world: World, method: str, path: str, body: Any, root: str
) -> None:
    def status(who: str, table: str) -> int:
        sent = None if body is None else json.loads(json.dumps(body).replace("{t}", table))
        options = {} if sent is None else {"json": sent}
        answer = world.ask(who, method, path.format(root=root, t=table), **options)
        return int(answer.status_code)

    if "plan" in path and root == "/iceberg":
        return
    assert status("boss", "plain") in {200, 204}
    assert status("rea", "plain") in {200, 204}
    assert status("ann", "orders") == 403
    assert status("own", "plain") == 403
    for who in ("ann", "eve", "rea"):
        assert status(who, "secret") == 404
        assert status(who, "nothing") == 404


def test_the_catalog_lists_what_is_seen(world: World) -> None:
    path = "/iceberg/v1/lake/namespaces/default/tables"

    def listed(who: str) -> set[str]:
        return {t["name"] for t in world.ask(who, "GET", path).get_json().get("identifiers", ())}

    assert listed("boss") >= {"orders", "plain", "secret"}
    assert listed("rea") == {"orders", "plain"}
    assert listed("ann") == {"orders"}
    assert listed("eve") == set()
    assert world.ask("rea", "GET", "/iceberg/v1/config?warehouse=default").status_code >= 400


def test_a_feed_sends_what_is_seen(world: World) -> None:
    for table in ("orders", "nothing", "secret"):  # who may call no function is told of no table
        answer = world.ask("eve", "GET", f"/api/v1/tail/{table}?from=beginning")
        assert answer.status_code == 403
    answer = world.ask("ann", "GET", "/api/v1/tail/orders?from=beginning")
    text = ""
    for chunk in answer.response:
        text += chunk if isinstance(chunk, str) else chunk.decode()
        if "event: rows" in text:
            break
    answer.close()
    assert "****" in text
    assert "4000-" not in text
    assert '"us"' not in text


def test_who_sees_a_statement_of_others_has_not_its_tokens(world: World) -> None:
    statement = world.gateway.service.submit(
        StatementRequest("SELECT count(*) FROM orders"), Principal("ann")
    )
    statement.wait(60)
    path = f"/api/v1/statements/{statement.statement_id}"
    own = world.ask("ann", "GET", path).get_json()
    seen = world.ask("boss", "GET", path).get_json()
    assert own["token"]
    assert own["receipt"]
    assert seen["state"] == own["state"]
    assert own["token"] not in str(seen)
    assert own["session"] not in str(seen)
    assert own["token"] not in str(world.ask("boss", "POST", f"{path}/cancel").get_json())
    events = world.ask("boss", "GET", f"{path}/events")
    assert own["token"] not in "".join(
        c if isinstance(c, str) else c.decode() for c in events.response
    )


def test_a_namespace_does_not_name_its_views(world: World) -> None:
    for who in ("boss", "rea"):
        answer = world.ask(who, "GET", "/iceberg/v1/lake/namespaces/default")
        assert answer.status_code == 200
        assert "secrets" not in answer.get_data(as_text=True)


def test_statements_of_others(world: World) -> None:
    ann = world.gateway.service.submit(StatementRequest("SELECT 1"), Principal("ann"))
    ann.wait(60)
    path = f"/api/v1/statements/{ann.statement_id}"
    for who, seen, ended, rows in (
        ("boss", 200, 200, 404),
        ("eve", 404, 404, 404),
        ("ann", 200, 200, 200),
    ):
        assert world.ask(who, "GET", path).status_code == seen
        assert world.ask(who, "GET", f"{path}/chunks/0").status_code == rows
        assert world.ask(who, "POST", f"{path}/cancel").status_code == ended
        if who != "ann":
            assert world.ask(who, "DELETE", path).status_code == 404
    ids = [
        s["statement_id"]
        for s in world.ask("boss", "GET", "/api/v1/statements").get_json()["statements"]
    ]
    assert ann.statement_id in ids


# --- The file ------------------------------------------------------------------------------------


def test_a_changed_file_holds_from_the_next_request_on(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rules.json"
    file.write_text('{"queries": [{"allow": ["execute"]}]}')
    control = AccessControl(file)
    ann = Principal("ann")
    first = control.rights_of(ann)
    first.require_execute()
    assert control.rights_of(ann) is first
    file.write_text('{"queries": [{"allow": []}]}')
    with pytest.raises(SeamlineError):
        control.rights_of(ann).require_execute()
    file.write_text("{")
    with pytest.raises(SeamlineError):
        control.rights_of(ann).require_execute()
    file.unlink()
    with pytest.raises(SeamlineError):
        control.rights_of(ann).require_execute()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("tables: [{privileges: [SELEKT]}]", "tables.0.privileges"),
        ("tables: [{table: '(', privileges: []}]", "tables.0.table"),
        ("tables: [{privileges: [SELECT], filter: 'a ='}]", "tables.0.filter"),
        ("tables: [{privileges: [SELECT], filter: 'a IN (SELECT 1)'}]", "subquery"),
        ("tables: [{privileges: [SELECT], filter: 'a) OR (b'}]", "tables.0.filter"),
        ("tables: [{privileges: [SELECT], columns: [{name: x, mask: '1, 2'}]}]", "mask"),
        ("catalogs: [{allow: some}]", "catalogs.0.allow"),
        ("functions: [{function: f}]", "functions.0.privileges"),
        ("functions: [{function: f, privileges: [SELECT]}]", "functions.0.privileges"),
        ("procedures: []", "procedures is not known"),
        ("system_information: [{user: a}]", "system_information.0.allow"),
        ("system_information: [{allow: [see]}]", "system_information.0.allow"),
        ("catalog_session_properties: [{catalog: '(', allow: true}]", "catalog_session_properties"),
        ("tables: {}", "tables"),
        ("- a", "keys and values"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: pathlib.Path, text: str, named: str) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(text)
    with pytest.raises(SeamlineError) as caught:
        AccessControl(file)
    assert caught.value.code.name == "INVALID_CONFIG"
    assert named in caught.value.message
