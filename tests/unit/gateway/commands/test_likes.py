"""Goal: CREATE TABLE … (LIKE t) makes the columns of t, in their place, and its layout if asked to.

Method: a gateway over a catalog in one file and a log in memory; tables with every kind of property
of a column and of a layout, as DESCRIBE and PyIceberg see the new table.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from pyiceberg.table import Table
from support import offline
from support.ruled import Ruled

SOURCE = (
    "CREATE TABLE source (id bigint NOT NULL COMMENT 'the id', at timestamp(6), name varchar,"
    " price decimal(10,2), tags array(row(a integer))) COMMENT 'source'"
    " WITH (partitioning = ARRAY['day(at)', 'bucket(4, id)', 'truncate(3, name)', 'price'],"
    " sorted_by = ARRAY['name DESC NULLS FIRST', 'id'])"
)


class World(offline.MemoryWorld):
    """A gateway and its log."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        self.memory.create_topic("bids", 1)
        self.rows(SOURCE)
        self.rows("CREATE TABLE other (x smallint, y varchar)")
        self.rows("CREATE TABLE unified (price double, channel varchar) WITH (topic = 'bids')")
        self.rows("CREATE VIEW seen AS SELECT id FROM source")

    def columns(self, name: str) -> list[object]:
        return [row[0] for row in self.rows(f"DESCRIBE {name}") if row[2] != "hidden"]

    def loaded(self, name: str) -> Table:
        return self.catalog.load_table(("default", name))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("likes"))
    yield made
    made.gateway.close()


def test_columns_keep_types_nullability_and_comments(world: World) -> None:
    world.rows("CREATE TABLE copied (LIKE source)")
    assert world.rows("DESCRIBE copied") == [
        (*row[:2], str(row[2]).removeprefix("partition key").removeprefix(", "), row[3])
        for row in world.rows("DESCRIBE source")
    ]
    made = world.loaded("copied")
    assert made.spec().is_unpartitioned()
    assert made.sort_order().is_unsorted
    assert "comment" not in made.properties
    assert world.rows("SELECT * FROM copied") == []


def test_several_likes_stand_between_columns(world: World) -> None:
    world.rows(
        "CREATE TABLE mixed (first bigint, LIKE other, middle date NOT NULL,"
        " LIKE lake.default.source EXCLUDING PROPERTIES, last varchar)"
    )
    own = ["id", "at", "name", "price", "tags"]
    assert world.columns("mixed") == ["first", "x", "y", "middle", *own, "last"]
    assert world.loaded("mixed").spec().is_unpartitioned()


def test_including_properties_takes_the_layout(world: World) -> None:
    world.rows("CREATE TABLE laid (more bigint, LIKE source INCLUDING PROPERTIES)")
    made, source = world.loaded("laid"), world.loaded("source")
    names = [(field.name, str(field.transform)) for field in made.spec().fields]
    assert names == [(field.name, str(field.transform)) for field in source.spec().fields]
    sorted_by = [
        (made.schema().find_column_name(f.source_id), f.direction.value, f.null_order.value)
        for f in made.sort_order().fields
    ]
    assert sorted_by == [("name", "desc", "nulls-first"), ("id", "asc", "nulls-last")]


def test_properties_that_are_written_come_first(world: World) -> None:
    world.rows(
        "CREATE TABLE written (LIKE source INCLUDING PROPERTIES)"
        " WITH (partitioning = ARRAY['month(at)'], format_version = 1)"
    )
    made = world.loaded("written")
    assert [field.name for field in made.spec().fields] == ["at_month"]
    assert made.metadata.format_version == 1
    assert len(made.sort_order().fields) == 2


def test_a_table_with_a_topic_lends_its_columns_and_no_topic(world: World) -> None:
    world.rows("CREATE TABLE plain_bids (LIKE unified, note varchar)")
    assert world.columns("plain_bids") == ["price", "channel", "note"]
    assert not any("topic" in name for name in world.loaded("plain_bids").properties)
    error = world.refused("CREATE TABLE bound (LIKE unified INCLUDING PROPERTIES)")
    assert error.code.name == "STATEMENT_NOT_ALLOWED"
    assert "repeats topic bids" in error.message


def test_a_table_over_a_topic_may_have_the_columns_of_another(world: World) -> None:
    world.rows(
        "CREATE TABLE again (channel varchar, LIKE source INCLUDING PROPERTIES)"
        " WITH (topic = 'bids', partitioning = ARRAY['day(at)'])"
    )
    assert world.columns("again") == ["channel", "id", "at", "name", "price", "tags"]
    made = world.loaded("again")
    assert [field.name for field in made.spec().fields] == ["at_day"]
    assert len(made.sort_order().fields) == 2


@pytest.mark.parametrize(
    ("elements", "code", "told"),
    [
        ("LIKE source, ID bigint", "INVALID_TABLE_DEFINITION", "column ID appears twice"),
        ("x bigint, LIKE other", "INVALID_TABLE_DEFINITION", "column x appears twice"),
        ("LIKE other, LIKE other", "INVALID_TABLE_DEFINITION", "column x appears twice"),
        ("LIKE nothing", "TABLE_NOT_FOUND", "nothing"),
        ("LIKE seen", "NOT_SUPPORTED", "lake.default.seen is not a table"),
        ('LIKE "source$files"', "NOT_SUPPORTED", "source$files"),
        ("LIKE default.default.bids", "NOT_SUPPORTED", "bids"),
        ("LIKE other INCLUDING DEFAULTS", "SYNTAX_ERROR", "INCLUDING DEFAULTS"),
        (
            "LIKE other INCLUDING PROPERTIES, LIKE source INCLUDING PROPERTIES",
            "NOT_SUPPORTED",
            "only one LIKE",
        ),
    ],
)
def test_what_cannot_be_made(world: World, elements: str, code: str, told: str) -> None:
    error = world.refused(f"CREATE TABLE wrong ({elements})")
    assert error.code.name == code
    assert told in error.message
    assert error.location is not None
    assert "wrong" not in str(world.rows("SHOW TABLES"))


def test_a_table_that_is_there_is_left_alone(world: World) -> None:
    """Whatever it was to be like, as in Trino."""
    world.rows("CREATE TABLE IF NOT EXISTS other (LIKE nothing INCLUDING PROPERTIES)")
    assert world.columns("other") == ["x", "y"]
    assert world.refused("CREATE TABLE other (LIKE nothing)").code.name == "TABLE_EXISTS"


def test_a_table_is_replaced_by_one_like_another(world: World) -> None:
    world.rows("CREATE TABLE changing (a bigint)")
    world.rows("CREATE OR REPLACE TABLE changing (LIKE other, LIKE changing)")
    assert world.columns("changing") == ["x", "y", "a"]


# --- Rights --------------------------------------------------------------------------------------

RULES = """
tables:
- {user: boss, privileges: [SELECT, INSERT, OWNERSHIP]}
- {table: secret, privileges: []}
- {table: unread, privileges: [INSERT]}
- {table: part, privileges: [SELECT], columns: [{name: card, allow: false}]}
- {privileges: [SELECT, OWNERSHIP]}
"""


def test_only_what_may_be_read_is_taken(tmp_path: pathlib.Path) -> None:
    world = Ruled(tmp_path, RULES, {"boss": (), "ann": ()})
    for name in ("secret", "unread", "part"):
        world.rows(
            "boss", f"CREATE TABLE {name} (id bigint, card bigint) WITH (sorted_by = ARRAY['card'])"
        )
    assert world.do("ann", "CREATE TABLE a (LIKE secret)") == "TABLE_NOT_FOUND"
    assert world.do("ann", "CREATE TABLE a (LIKE unread)") == "PERMISSION_DENIED"
    assert world.do("ann", "CREATE TABLE a (LIKE part INCLUDING PROPERTIES)") == "PERMISSION_DENIED"
    assert world.do("ann", "CREATE TABLE a (LIKE part)") == "done"
    assert [row[0] for row in world.rows("boss", "DESCRIBE a")] == ["id"]
    assert world.do("boss", "CREATE TABLE b (LIKE part INCLUDING PROPERTIES)") == "done"
    world.gateway.close()
