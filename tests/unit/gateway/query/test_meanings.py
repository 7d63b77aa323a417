"""Goal: a statement that is asked again means what it would mean to someone who asks it first.

Method: a gateway with rules, over plain tables and one over a topic in memory; the same text is
asked again after whatever a text's meaning depends on has changed, by the same people and others.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import pathlib
from collections.abc import Iterator

import pytest
from support.ruled import Ruled

from seamline.errors import SeamlineError
from seamline.gateway.query.meanings import LENGTH_MAX, Meanings
from seamline.sql import types
from seamline.sql.binder.qualify import BoundQuery, Relation, qualify
from seamline.sql.engines import render
from seamline.sql.parsing import parse
from seamline.sql.parsing.statements import Query
from seamline.sql.row_filters_and_masks import Restriction
from seamline.sql.types import Field

ALL = "tables: [{privileges: [SELECT, INSERT, OWNERSHIP]}]\ntopics: [{}]"
PEOPLE: dict[str, tuple[str, ...]] = {"ann": ("readers", "writers"), "bob": ()}
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
RELATION = Relation((Field("a", types.BIGINT, 1),))


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[Ruled]:
    made = Ruled(tmp_path, ALL, PEOPLE)
    made.rows("ann", "CREATE TABLE t AS SELECT 1 AS id, 'x' AS secret")
    yield made
    made.gateway.close()


# --- Over a gateway -------------------------------------------------------------------------------


def test_rows_are_those_of_the_moment(world: Ruled) -> None:
    world.memory.create_topic("log", 1)
    world.rows("ann", "CREATE TABLE log (id bigint) WITH (topic = 'log')")
    sql = "SELECT count(*), sum(id) FROM log"
    for number in range(1, 5):
        world.memory.produce("log", 0, json.dumps({"id": number}).encode())
        assert world.rows("ann", sql) == [(number, number * (number + 1) // 2)]
    for number in range(2, 5):
        world.rows("ann", f"INSERT INTO t VALUES ({number}, 'y')")
        assert world.rows("ann", "SELECT count(*) FROM t") == [(number,)]


def test_columns_of_the_same_name_and_type_may_be_others(world: Ruled) -> None:
    """Whose values are stored under other ids: none is read from those of the old ones."""
    sql = "SELECT * FROM t"
    for number in range(1, 4):
        world.rows("ann", f"CREATE OR REPLACE TABLE t AS SELECT {number} AS id, 'y' AS secret")
        assert world.rows("ann", sql) == [(number, "y")]
    world.rows("ann", "ALTER TABLE t DROP COLUMN secret")
    world.rows("ann", "ALTER TABLE t ADD COLUMN secret varchar")
    assert world.rows("ann", sql) == [(3, None)]
    nested = "SELECT r.a FROM n"
    for number in range(1, 3):
        world.rows(
            "ann",
            f"CREATE OR REPLACE TABLE n AS SELECT CAST(ROW({number}) AS row(a integer)) AS r",
        )
        assert world.rows("ann", nested) == [(number,)]


def test_columns_are_those_of_the_moment(world: Ruled) -> None:
    world.memory.create_topic("log", 1)
    world.memory.produce("log", 0, b'{"id": 1, "more": 2}')
    create = "CREATE TABLE log (id bigint) WITH (topic = 'log')"
    world.rows("ann", create)
    sql, type_ = "SELECT * FROM log", "SELECT typeof(id) FROM log"
    assert world.rows("ann", type_) == [("bigint",)]
    assert world.rows("ann", sql) == [(1,)]
    world.rows("ann", "ALTER TABLE log ADD COLUMN more bigint")
    assert world.rows("ann", sql) == [(1, 2)]
    assert world.rows("ann", "SELECT id FROM log") == [(1,)]
    world.rows("ann", "ALTER TABLE log RENAME COLUMN id TO number")
    assert world.do("ann", "SELECT id FROM log") == "COLUMN_NOT_FOUND"
    world.rows("ann", "DROP TABLE log")
    assert world.do("ann", sql) == "TABLE_NOT_FOUND"
    world.rows("ann", create.replace("bigint", "double"))
    assert world.rows("ann", type_) == [("double",)]


def test_a_view_is_what_it_is_now(world: Ruled) -> None:
    sql = "SELECT * FROM v"
    for number in (1, 2, 2, 3):
        world.rows("ann", f"CREATE OR REPLACE VIEW v AS SELECT id + {number} AS n FROM t")
        assert world.rows("ann", sql) == [(1 + number,)]
    world.rows("ann", "DROP VIEW v")
    world.rows("ann", "CREATE TABLE v AS SELECT 0 AS other")
    assert world.rows("ann", sql) == [(0,)]


def test_names_are_those_of_the_session(world: Ruled) -> None:
    world.rows("ann", "CREATE SCHEMA other")
    world.rows("ann", "CREATE TABLE other.t AS SELECT 2 AS id, 'x' AS secret")
    sql = "SELECT id, current_schema FROM t"
    for _ in range(2):
        assert world.rows("ann", sql) == [(1, "default")]
        assert world.rows("ann", sql, schema="other") == [(2, "other")]


def test_dialects_are_told_apart(world: Ruled) -> None:
    sql = 'SELECT "id" FROM t'
    for _ in range(2):
        assert world.rows("ann", sql) == [(1,)]
        assert world.rows("ann", sql, dialect="mysql") == [("id",)]


def test_everybody_sees_what_they_may(world: Ruled) -> None:
    sql = "SELECT * FROM t"
    assert world.rows("bob", sql) == world.rows("ann", sql) == [(1, "x")]
    mask = "tables: [{user: bob, privileges: [SELECT], columns: [{name: secret, mask: \"'*'\"}]}, "
    own = "{privileges: [SELECT, INSERT, OWNERSHIP]}]"
    world.rules.write_text(mask + own, encoding="utf-8")
    for _ in range(2):
        assert world.rows("bob", sql) == [(1, "*")]
        assert world.rows("ann", sql) == [(1, "x")]
    denied = "tables: [{user: bob, privileges: [SELECT], columns: [{name: secret, allow: false}]}, "
    world.rules.write_text(denied + own, encoding="utf-8")
    assert world.rows("bob", sql) == [(1,)]
    assert world.do("bob", "SELECT secret FROM t") == "COLUMN_NOT_FOUND"
    filtered = "tables: [{user: bob, privileges: [SELECT], filter: id > 1}, "
    world.rules.write_text(filtered + own, encoding="utf-8")
    assert world.rows("bob", sql) == []
    world.rules.write_text(f"tables: [{{user: bob, privileges: []}}, {own}", encoding="utf-8")
    assert world.do("bob", sql) in {"TABLE_NOT_FOUND", "PERMISSION_DENIED"}
    assert world.rows("ann", sql) == [(1, "x")]


def test_the_user_is_the_one_who_asks(world: Ruled) -> None:
    for who in ("ann", "bob", "ann", "bob"):
        assert world.rows(who, "SELECT current_user") == [(who,)]


def test_the_groups_are_those_that_the_user_has(world: Ruled) -> None:
    sql = "SELECT current_groups(), contains(current_groups(), 'writers')"
    for _ in range(2):
        assert world.rows("ann", sql) == [(["readers", "writers"], True)]
        assert world.rows("bob", sql) == [([], False)]
    query = parse.parse(sql)
    assert isinstance(query, Query)
    for groups in (("a",), ("b",)):  # the same user's, who may come with others each time
        bound = qualify(query.tree, [], now=NOW, user="ann", groups=groups)
        assert bound.holds_moment
        assert f"'{groups[0]}'" in render.to_duckdb(bound.tree)
    assert world.do("ann", "SELECT current_groups(1)") == "TYPE_MISMATCH"


def test_time_and_chance_go_on(world: Ruled) -> None:
    for sql in ("SELECT current_timestamp(6)", "SELECT random()", "SELECT uuid(), id FROM t"):
        assert len({world.rows("ann", sql)[0][0] for _ in range(4)}) == 4
    between = "SELECT current_timestamp(6) BETWEEN ? AND ?"
    for _ in range(2):
        before = datetime.datetime.now(datetime.UTC)
        (answer,) = world.rows("ann", "SELECT localtimestamp(6)")[0]
        after = datetime.datetime.now(datetime.UTC)
        assert before.replace(tzinfo=None) <= answer <= after.replace(tzinfo=None)
        late = after + datetime.timedelta(minutes=1)
        assert world.rows("ann", between, parameters=[before, late]) == [(True,)]


def test_parameters_are_those_given(world: Ruled) -> None:
    sql = "SELECT ?"
    for value in (1, 2, "a", True):
        assert world.rows("ann", sql, parameters=[value]) == [(value,)]
    assert world.do("ann", sql) == "INVALID_PARAMETERS"
    assert world.do("ann", "SELECT 1", parameters=[1]) == "INVALID_PARAMETERS"
    assert world.rows("ann", "SELECT 1") == [(1,)]


# --- One meaning ----------------------------------------------------------------------------------


class Binding:
    """Binds a text again and again, and counts how often that took binding."""

    def __init__(self, sql: str, meanings: Meanings) -> None:
        query = parse.parse(sql)
        assert isinstance(query, Query)
        known = meanings.find(sql, None, "ann")
        self.meaning = known or meanings.remember(sql, None, "ann", query)
        self._tree = self.meaning.query.tree
        self.bound = 0

    def bind(
        self, relation: Relation = RELATION, schema: str = "s", zone: str = "UTC"
    ) -> BoundQuery:
        """Binds it, or not."""
        relations = [relation] * ("FROM" in self._tree.sql())

        def bind() -> BoundQuery:
            self.bound += 1
            return qualify(self._tree, relations, now=NOW, session=("c", schema), zone=zone)

        return self.meaning.bound(relations, ("c", schema, zone), bind)


def test_what_was_bound_is_not_bound_again() -> None:
    meanings = Meanings()
    binding = Binding("SELECT sum(a) FROM t", meanings)
    first = binding.bind()
    assert binding.bind(Relation((Field("a", types.BIGINT, 1),))) is first
    assert binding.bound == 1
    assert Binding("SELECT sum(a) FROM t", meanings).meaning is binding.meaning
    for relation, schema in (
        (RELATION, "other"),
        (Relation((Field("a", types.INTEGER, 1),)), "s"),
        (Relation((Field("a", types.BIGINT, 1), Field("b", types.BIGINT, 2))), "s"),
        (Relation((Field("a", types.BIGINT, 1),), hidden=frozenset({"a"})), "s"),
    ):
        before = binding.bound
        binding.bind(relation, schema)
        assert binding.bound == before + 1
    before = binding.bound
    binding.bind(zone="Europe/Berlin")
    assert binding.bound == before + 1


@pytest.mark.parametrize(
    "sql", ["SELECT now()", "SELECT current_date", "SELECT a FROM t WHERE localtime > TIME '00:00'"]
)
def test_a_query_of_its_moment_is_bound_every_time(sql: str) -> None:
    binding = Binding(sql, Meanings())
    assert binding.bind().holds_moment
    binding.bind()
    assert binding.bound == 2


def test_a_query_of_what_is_seen_in_part_is_bound_every_time() -> None:
    binding = Binding("SELECT * FROM t", Meanings())
    part = Relation(RELATION.columns, restriction=Restriction(denied=frozenset({"b"})))
    binding.bind(part)
    binding.bind(part)
    assert binding.bound == 2


def test_only_short_queries_are_remembered_and_for_one_user() -> None:
    meanings = Meanings()
    long = f"SELECT '{'x' * LENGTH_MAX}'"
    for sql in ("SELECT 1", long):
        Binding(sql, meanings)
        assert (meanings.find(sql, None, "ann") is None) is (sql is long)
        assert meanings.find(sql, None, "bob") is None
        assert meanings.find(sql, "mysql", "ann") is None


def test_a_tree_stays_as_it_was_parsed() -> None:
    for sql in ("SELECT a, sum(a) FROM t GROUP BY 1 ORDER BY 2 LIMIT 3", "SELECT * FROM t x"):
        binding = Binding(sql, Meanings())
        before = repr(binding.meaning.query.tree)
        binding.bind()
        binding.bind(schema="other")
        assert repr(binding.meaning.query.tree) == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a, count(*) FILTER (WHERE a > 1) FROM t GROUP BY 1 ORDER BY 2 LIMIT 3",
        "SELECT sum(a) OVER (PARTITION BY a ORDER BY a) FROM t UNION ALL SELECT 1 UNION SELECT 2",
        "WITH w AS (SELECT a FROM t LIMIT 2) SELECT * FROM w JOIN w AS v ON w.a = v.a",
        "SELECT * FROM (VALUES (1 + 1)) AS v(a) WHERE a IN (SELECT 1) OR a NOT IN (SELECT 2)",
        "SELECT transform(ARRAY[1, 2], x -> x + 1), json_extract_scalar('{}', '$.a')",
    ],
)
def test_a_bound_tree_stays_as_it_was_bound(sql: str) -> None:
    bound = Binding(sql, Meanings()).bind()
    before = repr(bound.tree)
    for _ in range(2):
        render.to_duckdb(bound.tree, {scan.scan_id: "SELECT 1 AS a" for scan in bound.scans})
        with contextlib.suppress(SeamlineError):  # a kernel in a lambda is not for Spark
            render.to_spark(bound.tree)
        assert repr(bound.tree) == before
