"""Goal: a view with SECURITY DEFINER shows what its owner may let others see, and nothing else.

Method: owners with all rights, with a filter and a mask, and without the right to let others read;
a reader who has no right to the table itself. Views read tables, other views and metadata tables.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from support.ruled import Ruled

PEOPLE: dict[str, tuple[str, ...]] = {
    "boss": (),
    "own": (),
    "mean": (),
    "bob": (),
    "ann": ("readers",),
}
RULES = """
tables:
- {user: boss, privileges: [SELECT, GRANT_SELECT, INSERT, OWNERSHIP]}
- user: own
  table: t
  privileges: [GRANT_SELECT]
  filter: region = current_user AND NOT contains(current_groups(), 'readers')
  columns: [{name: covert, allow: false}, {name: card, mask: "'*' || substr(card, -1)"}]
- {user: own, privileges: [SELECT, GRANT_SELECT, OWNERSHIP]}
- {user: mean, privileges: [SELECT, OWNERSHIP]}
- {user: bob, table: by_own, privileges: [SELECT], filter: "card = '*5'"}
- {user: bob, table: t, privileges: []}
- {user: bob, privileges: [SELECT]}
- {user: ann, table: "by_.*|.*outside", privileges: [SELECT]}
"""
COLUMNS = "id, region, card, covert"
ROWS = "(1, 'eu', 'n1', 'c1'), (2, 'us', 'n2', 'c2'), (4, 'own', 'x4', ''), (5, 'own', 'x5', '')"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ruled]:
    made = Ruled(tmp_path_factory.mktemp("views"), RULES, PEOPLE)
    with contextlib.closing(made.gateway):
        for who, sql in (
            ("boss", f"CREATE TABLE t AS SELECT * FROM (VALUES {ROWS}) AS t({COLUMNS})"),
            ("boss", "CREATE VIEW by_boss SECURITY DEFINER AS SELECT id, region FROM t"),
            ("own", "CREATE VIEW by_own COMMENT 'mine' SECURITY DEFINER AS SELECT * FROM t"),
            ("mean", "CREATE VIEW by_mean SECURITY DEFINER AS SELECT id FROM t"),
            ("boss", "CREATE VIEW by_none SECURITY INVOKER AS SELECT id FROM t"),
            ("boss", "CREATE VIEW by_all SECURITY DEFINER AS SELECT id FROM by_none"),
            ("own", "CREATE VIEW by_two SECURITY DEFINER AS SELECT id FROM by_boss"),
            ("mean", "CREATE VIEW by_three SECURITY DEFINER AS SELECT id FROM by_boss"),
            ("boss", "CREATE VIEW outside AS SELECT b.id, current_user AS who FROM by_own AS b"),
            ("boss", "CREATE VIEW by_both SECURITY DEFINER AS SELECT count(*) AS n FROM t, by_own"),
            ("boss", 'CREATE VIEW by_files SECURITY DEFINER AS SELECT count(*) n FROM "t$files"'),
        ):  # fmt: skip
            made.rows(who, sql)
        yield made


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT * FROM by_boss", [(1, "eu"), (2, "us"), (4, "own"), (5, "own")]),
        ("SELECT * FROM by_own", [(4, "own", "*4"), (5, "own", "*5")]),
        ("SELECT x.id FROM by_own AS x JOIN by_boss ON x.id = by_boss.id", [(4,), (5,)]),
        ("SELECT * FROM by_all", [(1,), (2,), (4,), (5,)]),
        ("SELECT * FROM by_two", [(1,), (2,), (4,), (5,)]),
        ("SELECT * FROM outside", [(4, "ann"), (5, "ann")]),
        ("SELECT * FROM by_both", [(8,)]),
        ("SELECT * FROM by_files", [(1,)]),
        ("WITH t AS (SELECT 7 AS id) SELECT t.id, count(*) FROM t, by_own GROUP BY 1", [(7, 2)]),
        ("SELECT 1 WHERE EXISTS (SELECT 1 FROM by_own WHERE id = 1)", []),
    ],
)
def test_a_reader_sees_what_the_owner_may_show(
    world: Ruled, sql: str, rows: list[tuple[object, ...]]
) -> None:
    assert sorted(world.rows("ann", sql)) == rows


@pytest.mark.parametrize(
    ("who", "sql", "error"),
    [
        ("ann", "SELECT * FROM t", "TABLE_NOT_FOUND"),
        ("ann", "SELECT by_boss.id FROM by_boss JOIN t ON t.id = by_boss.id", "TABLE_NOT_FOUND"),
        ("ann", "SELECT covert FROM by_own", "COLUMN_NOT_FOUND"),
        ("ann", "SELECT * FROM by_none", "TABLE_NOT_FOUND"),
        ("ann", "SELECT * FROM by_mean", "PERMISSION_DENIED"),
        ("boss", "SELECT * FROM by_mean", "PERMISSION_DENIED"),
        ("ann", "SELECT * FROM by_three", "PERMISSION_DENIED"),
        ("ann", "SELECT * FROM \"t$files\"", "TABLE_NOT_FOUND"),
        ("own", "CREATE VIEW x SECURITY DEFINER AS SELECT * FROM \"t$files\"", "PERMISSION_DENIED"),
        ("ann", "DROP VIEW by_boss", "PERMISSION_DENIED"),
        ("ann", "COMMENT ON VIEW by_boss IS 'x'", "PERMISSION_DENIED"),
        ("ann", "CREATE OR REPLACE VIEW by_boss SECURITY DEFINER AS SELECT * FROM by_boss",
         "PERMISSION_DENIED"),
        ("boss", "CREATE VIEW odd SECURITY OWNER AS SELECT 1 AS x", "SYNTAX_ERROR"),
    ],
)  # fmt: skip
def test_nobody_gets_more(world: Ruled, who: str, sql: str, error: str) -> None:
    assert world.do(who, sql) == error


def test_the_error_names_the_owner_and_the_right(world: Ruled) -> None:
    error = world.said("ann", "SELECT * FROM by_mean")
    assert error["message"] == (
        "mean, the owner of view lake.default.by_mean, lacks the privilege GRANT_SELECT on "
        "lake.default.t"
    )
    assert world.rows("mean", "SELECT count(*) FROM by_mean") == [(4,)]


def test_the_error_for_a_lost_table_suggests_no_name_that_only_the_owner_sees(world: Ruled) -> None:
    world.rows("boss", "CREATE TABLE secret_a AS SELECT 1 AS x")
    world.rows("own", "CREATE VIEW by_lost SECURITY DEFINER AS SELECT * FROM secret_a")
    world.rows("boss", "ALTER TABLE secret_a RENAME TO secret_b")
    error = world.said("ann", "SELECT * FROM by_lost")
    assert (error["code"], "secret_b" in str(error)) == ("TABLE_NOT_FOUND", False)
    assert "secret_b" in str(world.said("own", "SELECT * FROM secret_a"))


def test_a_readers_own_rules_for_the_view_hold_too(world: Ruled) -> None:
    assert world.rows("bob", "SELECT * FROM by_own") == [(5, "own", "*5")]


def test_a_plan_shows_nothing_of_a_table_that_the_reader_may_not_read(world: Ruled) -> None:
    sql = "SELECT id FROM by_own WHERE id > 1"
    for asked in ("EXPLAIN", "EXPLAIN ANALYZE VERBOSE", "EXPLAIN (TYPE LOGICAL)"):
        text = str(world.rows("ann", f"{asked} {sql}"))
        assert "lake.default.t" in text
        assert not [word for word in ("region", "covert", "card", "substr") if word in text], text
    assert "columns    id" in str(world.rows("boss", "EXPLAIN SELECT id FROM by_boss"))


def test_whoever_replaces_a_view_owns_it(world: Ruled) -> None:
    world.rows("boss", "CREATE VIEW by_turns SECURITY DEFINER AS SELECT count(*) AS n FROM t")
    assert world.rows("ann", "SELECT n FROM by_turns") == [(4,)]
    world.rows("own", "COMMENT ON VIEW by_turns IS 'counts'")
    assert world.rows("ann", "SELECT n FROM by_turns") == [(4,)]
    world.rows("own", "ALTER VIEW by_turns RENAME TO by_turn")
    assert world.rows("ann", "SELECT n FROM by_turn") == [(4,)]
    (made,) = world.rows("boss", "SHOW CREATE VIEW by_turn")
    assert made == (
        "CREATE VIEW lake.default.by_turn\nCOMMENT 'counts'\nSECURITY DEFINER AS\n"
        "SELECT count(*) AS n FROM t",
    )
    world.rows("own", str(made[0]).replace("CREATE VIEW", "CREATE OR REPLACE VIEW"))
    assert world.rows("ann", "SELECT n FROM by_turn") == [(2,)]
    world.rows("boss", "CREATE OR REPLACE VIEW by_turn AS SELECT count(*) AS n FROM t")
    assert world.do("ann", "SELECT n FROM by_turn") == "TABLE_NOT_FOUND"
