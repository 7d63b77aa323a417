"""Goal: rules for a view hold for what it shows, besides the rules for the tables that it reads.

Method: views over a plain table, one of them over another, whose rules have a filter, a mask and a
denied column; each is read in every place where a query can name a source, and described by every
statement that describes. Readers who may see all of the table see only what the rules for the view
leave of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from support.ruled import Ruled

PEOPLE: dict[str, tuple[str, ...]] = {"boss": (), "ann": (), "own": (), "eve": (), "bad": ()}
RULES = """
tables:
- {user: boss, privileges: [SELECT, INSERT, OWNERSHIP]}
- user: ann
  table: v
  privileges: [SELECT]
  filter: "region = 'eu' AND covert <> 'c2'"
  columns: [{name: covert, allow: false}, {name: card, mask: "'*' || substr(card, -1)"}]
- {user: own, table: v, privileges: [SELECT], filter: region = current_user}
- {user: eve, table: v, privileges: [OWNERSHIP]}
- {user: bad, table: v, privileges: [SELECT], filter: nothing = 1}
- {user: ann, table: mine.*, privileges: [SELECT, OWNERSHIP]}
- {privileges: [SELECT]}
"""
SEEN = [(1, "eu", "*1"), (3, "eu", "*3")]
"""What ann sees of the view."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ruled]:
    made = Ruled(tmp_path_factory.mktemp("views"), RULES, PEOPLE)
    rows = (
        "(1, 'eu', 'n1', 'c1'), (2, 'eu', 'n2', 'c2'), (3, 'eu', 'n3', 'c3'), (4, 'own', 'x', '')"
    )
    with contextlib.closing(made.gateway):
        for sql in (
            f"CREATE TABLE t AS SELECT * FROM (VALUES {rows}) AS t(id, region, card, covert)",
            "CREATE VIEW v AS SELECT * FROM t",
            "CREATE VIEW outside AS SELECT * FROM v",
            "CREATE VIEW outer_ids AS SELECT id FROM v",
        ):
            made.rows("boss", sql)
        yield made


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT * FROM v", SEEN),
        ("SELECT x.* FROM lake.default.V AS x", SEEN),
        ("SELECT v.id, card FROM v WHERE region = 'eu'", [(1, "*1"), (3, "*3")]),
        ("SELECT a, b, c FROM v AS x(a, b, c)", SEEN),
        ("SELECT count(*) FROM v", [(2,)]),
        ("WITH x AS (SELECT id FROM v) SELECT sum(id) FROM x", [(4,)]),
        ("SELECT 1 WHERE EXISTS (SELECT 1 FROM v WHERE id = 2)", []),
        ("SELECT t.id FROM t JOIN v ON v.id = t.id", [(1,), (3,)]),
        ("SELECT v.id FROM (v JOIN t ON v.id = t.id) LEFT JOIN v AS w ON TRUE AND w.id = 2",
         [(1,), (3,)]),
        ("SELECT card FROM v ORDER BY id DESC LIMIT 1", [("*3",)]),
        ("SELECT max(card) FROM v GROUP BY region", [("*3",)]),
        ("SELECT id FROM v UNION SELECT id FROM v", [(1,), (3,)]),
        ("SELECT * FROM outer_ids", [(1,), (3,)]),
    ],
)  # fmt: skip
def test_they_hold_wherever_a_view_is_named(
    world: Ruled, sql: str, rows: list[tuple[object, ...]]
) -> None:
    assert sorted(world.rows("ann", sql)) == rows
    assert (
        sorted(world.rows("ann", f"EXECUTE IMMEDIATE '{sql.replace(chr(39), 2 * chr(39))}'"))
        == rows
    )


def test_others_see_what_their_rules_leave(world: Ruled) -> None:
    assert world.rows("boss", "SELECT count(covert) FROM v") == [(4,)]
    assert world.rows("own", "SELECT id FROM v") == [(4,)]
    assert world.rows("own", "SELECT count(*) FROM t") == [(4,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT covert FROM v",
        "SELECT v.covert FROM v",
        "SELECT id FROM v WHERE covert = 'c1'",
        "SELECT id FROM v ORDER BY covert",
        "SELECT * FROM v AS x(a, b, c, d)",
        "SELECT covert FROM outside",
    ],
)
def test_a_column_that_is_denied_does_not_exist(world: Ruled, sql: str) -> None:
    found = {"COLUMN_NOT_FOUND", "TYPE_MISMATCH", "VIEW_IS_STALE", "SYNTAX_ERROR"}
    assert world.do("ann", sql) in found
    assert world.do("boss", sql) == "done"


def test_copies_are_of_what_is_seen(world: Ruled) -> None:
    assert world.do("ann", "CREATE TABLE mine_copy AS SELECT * FROM v") == "done"
    assert sorted(world.rows("boss", "SELECT * FROM mine_copy")) == SEEN
    world.rows("boss", "DROP TABLE mine_copy")


def test_a_view_is_described_without_them(world: Ruled) -> None:
    columns = "SELECT column_name FROM information_schema.columns WHERE table_name = 'v'"
    jdbc = "SELECT column_name FROM system.jdbc.columns WHERE table_name = 'v'"
    for sql in ("DESCRIBE v", "SHOW COLUMNS FROM v", columns, jdbc):
        assert [row[0] for row in world.rows("ann", sql)] == ["id", "region", "card"], sql
        assert len(world.rows("boss", sql)) == 4
    definition = "SELECT view_definition FROM information_schema.views WHERE table_name = 'v'"
    for who in ("ann", "own"):
        assert world.rows(who, definition) == [(None,)]
        assert world.do(who, "SHOW CREATE VIEW v") == "PERMISSION_DENIED"
    assert world.rows("boss", definition) == [("SELECT * FROM t",)]
    assert world.do("boss", "SHOW CREATE VIEW v") == "done"


def test_a_view_inside_another_needs_the_right_to_read_it(world: Ruled) -> None:
    for sql in ("SELECT * FROM v", "SELECT * FROM outside", "SELECT * FROM outer_ids"):
        assert world.do("eve", sql) == "PERMISSION_DENIED"
    assert world.do("eve", "SELECT * FROM t") == "done"


def test_a_rule_that_does_not_fit_its_view_is_named(world: Ruled) -> None:
    assert world.do("bad", "SELECT * FROM v") == "INVALID_CONFIG"
