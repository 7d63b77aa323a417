"""Goal: no answer and no error reveals columns, rows and values that the rules keep from somebody.

Method: tables of every kind with a column that is denied, masked or filtered by, and every road by
which a table says something about itself, or why something failed. What nobody may see is a word
that occurs nowhere else; no answer contains it.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.ruled import Ruled
from support.waiting import wait_until

from seamline.connectors.kafka.formats.decoder import bad_record

PEOPLE: dict[str, tuple[str, ...]] = {"boss": (), "ann": (), "mia": (), "fil": (), "exp": ()}
RULES = """
tables:
- {user: boss, privileges: [SELECT, INSERT, OWNERSHIP]}
- {user: ann, table: needs, privileges: [SELECT, INSERT], columns: [{name: covert, allow: false}]}
- user: ann
  privileges: [SELECT, INSERT, OWNERSHIP]
  columns: [{name: covert, allow: false}]
- {user: mia, privileges: [SELECT], columns: [{name: covert, mask: "'*'"}]}
- {user: fil, privileges: [SELECT], filter: id < 0}
- user: exp
  privileges: [SELECT]
  filter: covert <> 'code word'
  columns: [{name: covert, allow: false}, {name: seen, mask: "substr(covert, 1, 2)"}]
topics: [{}]
"""
AVRO = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "long"}, {"name": "covert", "type": "string"}],
    }
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ruled]:
    made = Ruled(tmp_path_factory.mktemp("covert"), RULES, PEOPLE)
    with contextlib.closing(made.gateway):
        for topic in ("keyed", "avro", "upserts"):
            made.memory.create_topic(topic, 1)
        columns = "id bigint, seen varchar, covert varchar"
        for sql in (
            f"CREATE TABLE plain ({columns})",
            "CREATE TABLE needs (id bigint, covert varchar NOT NULL)",
            f"CREATE TABLE keyed ({columns}) WITH (topic = 'keyed', key = 'covert', "
            "columns_from = ARRAY['seen = header.seen', 'covert = header.hid'])",
            "CREATE TABLE avro (id bigint, covert varchar) WITH (topic = 'avro', "
            f"format = 'avro', value_schema = '{AVRO}')",
            f"CREATE TABLE upserts ({columns}) WITH (topic = 'upserts', mode = 'upsert', "
            "primary_key = ARRAY['id', 'covert'], key_format = 'json', "
            "columns_from = ARRAY['id = key.id', 'covert = key.covert'])",
        ):
            made.rows("boss", sql)
        yield made


TABLES = ("plain", "needs", "keyed", "avro", "upserts")


def quiet(answer: Any) -> bool:
    return "covert" not in str(answer).lower()


@pytest.mark.parametrize("table", TABLES)
def test_a_table_describes_itself_without_them(world: Ruled, table: str) -> None:
    for sql in ("SHOW CREATE TABLE {t}", "SHOW COLUMNS FROM {t}", "DESCRIBE {t}"):
        assert not quiet(world.said("boss", sql.format(t=table))), sql
        assert quiet(world.said("ann", sql.format(t=table))), sql


@pytest.mark.parametrize("kind", ["", "(TYPE LOGICAL)", "(TYPE IO)", "(FORMAT JSON)", "ANALYZE",
                                  "ANALYZE VERBOSE"])  # fmt: skip
@pytest.mark.parametrize("table", ["plain", "keyed"])
def test_a_plan_shows_nothing_of_the_rules(world: Ruled, table: str, kind: str) -> None:
    """Filters and masks may name columns that are denied, and whom they are kept from."""
    sql = f"EXPLAIN {kind} SELECT * FROM {table} WHERE id < 10"
    assert not quiet(world.said("boss", sql))
    answer = str(world.said("exp", sql))
    assert "id" in answer
    assert quiet(answer)
    assert "code word" not in answer


def test_what_a_table_is_made_of_is_still_shown(world: Ruled) -> None:
    ((text,),) = world.rows("ann", "SHOW CREATE TABLE keyed")
    assert "topic = 'keyed'" in text
    assert "'seen = header.seen'" in text
    ((text,),) = world.rows("ann", "SHOW CREATE TABLE upserts")
    assert "primary_key = ARRAY['id']" in text


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO {t} (coverd) VALUES ('x')",
        "INSERT INTO {t} (covert) VALUES ('x')",
        "INSERT INTO {t} VALUES (1, 'a', 'b', 'c')",
        "INSERT INTO {t} VALUES (CURRENT_DATE)",
        "ALTER TABLE {t} DROP COLUMN coverd",
        "COMMENT ON COLUMN {t}.coverd IS 'x'",
        "SELECT coverd FROM {t}",
        "SELECT {t}.coverd FROM {t}",
        "SHOW STATS FOR {t}",
    ],
)
def test_no_error_names_them(world: Ruled, table: str, sql: str) -> None:
    asked = sql.format(t=table)
    answer = str(world.said("ann", asked))
    if "covert" in sql:
        answer = answer.replace("column covert", "column h")  # as it was written
    assert quiet(answer)


def test_rows_are_inserted_without_them(world: Ruled) -> None:
    assert world.rows("ann", "INSERT INTO plain VALUES (7, 'a')") == [(1,)]
    assert world.rows("boss", "SELECT * FROM plain WHERE id = 7") == [(7, "a", None)]
    refused = world.said("ann", "INSERT INTO needs (id) VALUES (1)")
    assert refused["code"] == "INVALID_ARGUMENT"
    assert quiet(refused)
    assert not quiet(world.said("boss", "INSERT INTO needs (id) VALUES (1)"))


def test_what_fails_to_follow_a_table_quotes_no_value(tmp_path: pathlib.Path) -> None:
    world = Ruled(tmp_path, RULES, PEOPLE, more="")
    with contextlib.closing(world.gateway):
        world.memory.create_topic("t", 1)
        assert world.do("boss", "CREATE TABLE t (id bigint) WITH (topic = 't')") == "done"
        assert world.rows("boss", "SELECT id FROM t") == []
        followers = world.gateway.parts.followers
        assert followers is not None
        (follower,) = wait_until(followers.all, what="a follower")
        follower.in_trouble(99, bad_record("t", 0, 7, "covert: 'secret' is no bigint"))
        told = {who: world.said(who, 'SELECT error FROM "t$tail"') for who in PEOPLE}
        follower.recovered(99)
    assert "covert" in str(told.pop("boss"))
    for who, shown in told.items():
        assert ("offset 7" in str(shown)) == (who in {"ann", "mia"})
        assert ("PERMISSION_DENIED" in str(shown)) == (who in {"fil", "exp"}), "rows are hidden"
        assert "covert" not in str(shown)
        assert "secret" not in str(shown)
