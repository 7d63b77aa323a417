"""Goal: a unified table changes as far as it still agrees with its topic, and no further.

Method: a real catalog in a file and a log in memory; each change is looked up in the metadata that
it leaves, and each refusal must leave it as it was.
"""

from __future__ import annotations

import pathlib

import pytest
from pyiceberg.table import TableProperties
from support import offline
from support.creating import World

from seamline.connectors.iceberg.tables import commits
from seamline.errors import SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.table import TableState

CREATE = (
    "CREATE TABLE t (id bigint, name varchar, at timestamp(6), size integer)"
    " WITH (topic = 'bids', key = 'id', partitioning = ARRAY['day(at)'], sorted_by = 'size')"
)


@pytest.fixture
def world(tmp_path: pathlib.Path) -> World:
    made = World(offline.config(tmp_path))
    assert made.run(CREATE) == "done"
    return made


def state(world: World, table: str = "t") -> TableState:
    return world.catalog("lake").load(("default", table)).state


def own_columns(world: World) -> list[tuple[str, str]]:
    found = state(world).schema.columns
    return [(f.name, str(f.type)) for f in found if not f.name.startswith("_kafka_")]


def test_a_column_comes_goes_and_is_renamed(world: World) -> None:
    assert world.run("ALTER TABLE t ADD COLUMN extra row(a bigint, b varchar)") == "done"
    assert own_columns(world)[-1] == ("extra", "row(a bigint, b varchar)")
    assert world.run("ALTER TABLE t ADD COLUMN IF NOT EXISTS EXTRA bigint") == "done"
    assert world.run("ALTER TABLE default.t RENAME COLUMN Name TO called") == "done"
    assert ("called", "varchar") in own_columns(world)
    renamed = next(f for f in state(world).schema.columns if f.name == "called")
    assert renamed.aliases == ("name",), "records still reach it under the name they have"
    assert world.run("ALTER TABLE t DROP COLUMN called") == "done"
    assert world.run("ALTER TABLE t DROP COLUMN IF EXISTS called") == "done"
    assert [name for name, _ in own_columns(world)] == ["id", "at", "size", "extra"]


def test_where_a_column_cannot_be_null_bad_records_are_no_rows_of_nulls(world: World) -> None:
    create = "CREATE TABLE n (id bigint NOT NULL, name varchar) WITH (topic = 'bids'{})"
    assert world.run(create.format(", on_error = 'null'")) == "INVALID_TABLE_DEFINITION"
    assert world.run(create.format(", on_error = 'skip'")) == "done"
    assert world.run("ALTER TABLE n SET PROPERTIES on_error = 'null'") == "INVALID_TABLE_DEFINITION"
    assert world.run("ALTER TABLE n SET PROPERTIES on_error = 'fail'") == "done"
    assert world.run("ALTER TABLE t SET PROPERTIES on_error = 'null'") == "done"


def test_a_table_without_a_name_mapping_has_one_once_its_columns_change(world: World) -> None:
    table = world.catalog("lake").load(("default", "t"))
    commits.remove_properties(table, [TableProperties.DEFAULT_NAME_MAPPING])
    world.run("ALTER TABLE t RENAME COLUMN name TO title")
    (title,) = (column for column in state(world).schema.columns if column.name == "title")
    assert title.aliases == ("name",)


def test_spellings_that_only_accept_more_may_be_changed(world: World) -> None:
    world.memory.produce("bids", 0, b'{"id": 1, "at": "2024-01-01T00:00:00.1234567"}')
    world.run("CREATE TABLE s (id bigint, at timestamp) WITH (topic = 'bids')")
    reads = "ALTER TABLE s SET PROPERTIES spellings = ARRAY[{}]"
    for words in ("'truncated_times'", "'text_numbers', 'truncated_times'"):
        assert world.run(reads.format(words)) == "done"
    binding = TopicBinding.from_properties(state(world, "s").properties)
    assert binding is not None
    assert set(binding.spellings) == {"text_numbers", "truncated_times"}
    for words in ("'epoch_seconds'", "'base64_decimals', 'truncated_times'", "'unknown'"):
        assert world.run(reads.format(words)) == "INVALID_TABLE_DEFINITION"
    assert world.run(reads.format("")) == "done"
    binding = TopicBinding.from_properties(state(world, "s").properties)
    assert binding is not None
    assert binding.spellings == ()


def test_a_property_is_set_as_the_command_line_sets_it(world: World) -> None:
    assert world.run("ALTER TABLE t SET PROPERTIES on_error = 'skip'") == "done"
    assert state(world).properties["seamline.on-error"] == "skip"


def test_comments_are_kept_and_shown(world: World) -> None:
    assert world.run("COMMENT ON TABLE t IS 'all bids'") == "done"
    assert world.run("COMMENT ON COLUMN lake.default.t.NAME IS 'who''s'") == "done"
    ((text,),) = world.rows("SHOW CREATE TABLE t")
    assert "\nCOMMENT 'all bids'" in text
    assert "name varchar COMMENT 'who''s'" in text
    assert world.run("COMMENT ON TABLE t IS NULL") == "done"
    assert world.run("COMMENT ON COLUMN t.name IS NULL") == "done"
    ((text,),) = world.rows("SHOW CREATE TABLE t")
    assert "COMMENT" not in text


def test_columns_are_made_with_comments(world: World) -> None:
    create = "CREATE TABLE {} (id bigint COMMENT 'its number', name varchar){}"
    assert world.run(create.format("c", " WITH (topic = 'bids')")) == "done"
    assert world.run(create.format("plain", "")) == "done"
    assert world.run("ALTER TABLE c ADD COLUMN at date COMMENT 'when'") == "done"
    for name in ("c", "plain"):
        assert ("id", "its number") in [(row[0], row[3]) for row in world.rows(f"DESCRIBE {name}")]
    ((text,),) = world.rows("SHOW CREATE TABLE c")
    assert "at date COMMENT 'when'" in text
    assert world.run("DROP TABLE c") == "done"
    assert world.run(text) == "done"
    assert world.rows("SHOW CREATE TABLE c") == [(text,)]


@pytest.mark.one_in(test=4)
@pytest.mark.parametrize(
    ("sql", "code", "reason"),
    [
        ("ALTER TABLE t ADD COLUMN ID bigint", "INVALID_TABLE_DEFINITION", "twice"),
        ("ALTER TABLE t ADD COLUMN _kafka_x bigint", "INVALID_TABLE_DEFINITION", "reserved"),
        ("ALTER TABLE t ADD COLUMN x bigint NOT NULL", "NOT_SUPPORTED", "no value"),
        ("ALTER TABLE t ADD COLUMN x time", "INVALID_TABLE_DEFINITION", "time"),
        ("ALTER TABLE t ADD COLUMN x bogus", "SYNTAX_ERROR", ""),
        ("ALTER TABLE t ADD COLUMN x bigint, y bigint", "SYNTAX_ERROR", "one column"),
        ("ALTER TABLE t DROP COLUMN id", "INVALID_TABLE_DEFINITION", "key repeats"),
        ("ALTER TABLE t RENAME COLUMN id TO i", "INVALID_TABLE_DEFINITION", "key repeats"),
        ("ALTER TABLE t DROP COLUMN at", "INVALID_TABLE_DEFINITION", "partitioned"),
        ("ALTER TABLE t DROP COLUMN size", "INVALID_TABLE_DEFINITION", "sorted"),
        ("ALTER TABLE t DROP COLUMN _kafka_offset", "INVALID_TABLE_DEFINITION", "in the topic"),
        ("ALTER TABLE t DROP COLUMN nam", "COLUMN_NOT_FOUND", "nam"),
        ("ALTER TABLE t RENAME COLUMN name TO size", "INVALID_TABLE_DEFINITION", "twice"),
        ("ALTER TABLE t RENAME TO u", "NOT_SUPPORTED", "over a topic"),
        ("ALTER TABLE t ALTER COLUMN size SET DATA TYPE bigint", "NOT_SUPPORTED", "over a topic"),
        ("ALTER TABLE t ALTER COLUMN id DROP NOT NULL", "NOT_SUPPORTED", "over a topic"),
        ("ALTER TABLE t SET PROPERTIES topic = 'x'", "ADOPTION_REFUSED", "topic"),
        ("ALTER TABLE t SET PROPERTIES on_error = 'x'", "INVALID_TABLE_DEFINITION", "x"),
        ("ALTER TABLE nope DROP COLUMN id", "TABLE_NOT_FOUND", "nope"),
        ('ALTER TABLE "t$cold" DROP COLUMN id', "STATEMENT_NOT_ALLOWED", "changed"),
        ("COMMENT ON COLUMN t.nam IS 'x'", "COLUMN_NOT_FOUND", "nam"),
        ("COMMENT ON COLUMN nam IS 'x'", "COLUMN_NOT_FOUND", "table"),
        ("COMMENT ON VIEW t IS 'x'", "VIEW_NOT_FOUND", "default.t"),
        ("COMMENT ON SCHEMA s IS 'x'", "SYNTAX_ERROR", "SCHEMA"),
    ],
)
def test_what_would_disagree_with_the_topic_is_refused(
    world: World, sql: str, code: str, reason: str
) -> None:
    before = state(world)
    with pytest.raises(SeamlineError) as caught:
        world.rows(sql)
    assert caught.value.code.name == code, caught.value
    assert reason in caught.value.message
    assert caught.value.location is not None
    assert state(world) == before


def test_a_missing_table_is_no_error_where_that_is_said(world: World) -> None:
    assert world.run("ALTER TABLE IF EXISTS nope DROP COLUMN id") == "done"
    assert world.run("ALTER TABLE nope DROP COLUMN id") == "TABLE_NOT_FOUND"


# --- Plain tables --------------------------------------------------------------------------------

PLAIN = (
    "CREATE TABLE p (id integer NOT NULL, x real, name varchar, size decimal(5, 2), part varchar)"
    " WITH (partitioning = ARRAY['part'])"
)


def shown(world: World, table: str) -> list[tuple[str, str, str]]:
    return [row[:3] for row in world.rows(f"DESCRIBE {table}")]


def test_columns_of_a_plain_table_change(world: World) -> None:
    for sql in (
        PLAIN,
        "ALTER TABLE p ADD COLUMN more row(a bigint)",
        "ALTER TABLE p ADD COLUMN IF NOT EXISTS MORE bigint",
        "ALTER TABLE p RENAME COLUMN name TO called",
        "ALTER TABLE p RENAME COLUMN part TO day",
        "ALTER TABLE p ALTER COLUMN id SET DATA TYPE bigint",
        "ALTER TABLE p ALTER COLUMN size SET DATA TYPE decimal(9, 2)",
        "ALTER TABLE p ALTER COLUMN x SET DATA TYPE double",
        "ALTER TABLE p ALTER COLUMN id DROP NOT NULL",
        "ALTER TABLE p DROP COLUMN x",
    ):
        assert world.run(sql) == "done", sql
    assert shown(world, "p") == [
        ("id", "bigint", ""),
        ("called", "varchar", ""),
        ("size", "decimal(9,2)", ""),
        ("day", "varchar", "partition key"),
        ("more", "row(a bigint)", ""),
    ]


def test_a_plain_table_gets_another_name_and_its_old_one_is_free(world: World) -> None:
    world.run(PLAIN)
    assert world.run("ALTER TABLE p RENAME TO other.q") == "done"
    assert world.run("DESCRIBE p") == "TABLE_NOT_FOUND"
    assert len(shown(world, "other.q")) == 5
    assert world.run(PLAIN) == "done"
    places = {
        world.catalog("lake").load(name).iceberg.metadata.location
        for name in (("other", "q"), ("default", "p"))
    }
    assert len(places) == 2
    assert world.run("ALTER TABLE IF EXISTS nope RENAME TO r") == "done"


def test_version_1_becomes_2(world: World) -> None:
    world.run("CREATE TABLE old (id bigint) WITH (format_version = 1)")
    assert world.run("ALTER TABLE old SET PROPERTIES format_version = 2") == "done"
    assert world.catalog("lake").load(("default", "old")).state.format_version == 2


@pytest.mark.parametrize(
    ("sql", "code", "reason"),
    [
        ("ALTER TABLE p ALTER COLUMN id SET DATA TYPE varchar", "INVALID_TABLE_DEFINITION", "id"),
        ("ALTER TABLE p ALTER COLUMN id SET DATA TYPE row(a bigint)",
         "INVALID_TABLE_DEFINITION", "id"),
        ("ALTER TABLE p ALTER COLUMN nope DROP NOT NULL", "COLUMN_NOT_FOUND", "nope"),
        ("ALTER TABLE p ALTER COLUMN id TYPE bigint", "SYNTAX_ERROR", "TYPE"),
        ("ALTER TABLE p DROP COLUMN part", "INVALID_TABLE_DEFINITION", "partitioned"),
        ("ALTER TABLE p ADD COLUMN ID bigint", "INVALID_TABLE_DEFINITION", "twice"),
        ("ALTER TABLE p RENAME TO t", "TABLE_EXISTS", "t"),
        ("ALTER TABLE p RENAME TO nope.default.q", "CATALOG_NOT_FOUND", "nope"),
        ("ALTER TABLE p SET PROPERTIES format_version = 1", "INVALID_TABLE_DEFINITION", "1"),
        ("ALTER TABLE p SET PROPERTIES on_error = 'skip'", "INVALID_TABLE_DEFINITION", "on_error"),
    ],
)  # fmt: skip
def test_what_a_plain_table_cannot_become(world: World, sql: str, code: str, reason: str) -> None:
    world.run(PLAIN)
    with pytest.raises(SeamlineError) as caught:
        world.rows(sql)
    assert caught.value.code.name == code, caught.value
    assert reason in caught.value.message
    assert caught.value.location is not None


# --- Fields of rows ------------------------------------------------------------------------------


def test_a_field_of_a_row_comes_goes_and_is_renamed(world: World) -> None:
    assert world.run("ALTER TABLE t ADD COLUMN extra row(a bigint, b row(c integer))") == "done"
    assert world.run("ALTER TABLE t ADD COLUMN Extra.B.d varchar COMMENT 'x'") == "done"
    assert world.run("ALTER TABLE t ADD COLUMN IF NOT EXISTS extra.b.D bigint") == "done"
    assert world.run("ALTER TABLE t RENAME COLUMN extra.A TO first") == "done"
    assert own_columns(world)[-1] == (
        "extra",
        "row(first bigint, b row(c integer, d varchar))",
    )
    assert world.run("ALTER TABLE t DROP COLUMN extra.b.c") == "done"
    assert world.run("ALTER TABLE t DROP COLUMN IF EXISTS extra.b.c") == "done"
    assert own_columns(world)[-1] == ("extra", "row(first bigint, b row(d varchar))")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("DROP COLUMN extra.b.c", "INVALID_TABLE_DEFINITION"),
        ("DROP COLUMN extra.nothing", "COLUMN_NOT_FOUND"),
        ("DROP COLUMN nothing.a", "COLUMN_NOT_FOUND"),
        ("DROP COLUMN size.a", "INVALID_TABLE_DEFINITION"),
        ("ADD COLUMN size.a bigint", "INVALID_TABLE_DEFINITION"),
        ("ADD COLUMN several.element.b bigint", "INVALID_TABLE_DEFINITION"),
        ("ADD COLUMN extra.A bigint", "NOT_SUPPORTED"),
        ("ADD COLUMN extra.d bigint NOT NULL", "NOT_SUPPORTED"),
        ("RENAME COLUMN extra.b TO A", "NOT_SUPPORTED"),
        ("ALTER COLUMN extra.a SET DATA TYPE varchar", "NOT_SUPPORTED"),
    ],
)
def test_what_a_row_cannot_become(world: World, change: str, code: str) -> None:
    assert world.run("ALTER TABLE t ADD COLUMN extra row(a bigint, b row(c integer))") == "done"
    assert world.run("ALTER TABLE t ADD COLUMN several array(row(a bigint))") == "done"
    before = own_columns(world)
    assert world.run(f"ALTER TABLE t {change}") == code
    assert own_columns(world) == before


def test_rows_of_files_have_the_fields_of_now(tmp_path: pathlib.Path) -> None:
    made = offline.MemoryWorld(tmp_path)
    made.catalog.create_namespace("default")
    made.rows(
        "CREATE TABLE plain AS SELECT 1 AS id, CAST(ROW(1, 'b') AS row(a integer, b varchar)) AS r"
    )
    made.rows("ALTER TABLE plain RENAME COLUMN r.a TO first")
    made.rows("ALTER TABLE plain DROP COLUMN r.b")
    made.rows("ALTER TABLE plain ADD COLUMN r.b bigint")
    made.rows("ALTER TABLE plain ALTER COLUMN r.first SET DATA TYPE bigint")
    made.rows("INSERT INTO plain VALUES (2, ROW(3, 4))")
    assert made.rows("SELECT r.first, r.b FROM plain ORDER BY id") == [(1, None), (3, 4)]
    made.gateway.close()


def test_records_of_the_tail_have_the_fields_of_now(tmp_path: pathlib.Path) -> None:
    made = offline.MemoryWorld(tmp_path)
    made.catalog.create_namespace("default")
    made.memory.create_topic("places", 1)
    made.rows("CREATE TABLE places (id bigint, at row(x bigint, y bigint)) WITH (topic = 'places')")
    made.memory.produce("places", 0, b'{"id": 1, "at": {"x": 1, "y": 2}}')
    made.rows("ALTER TABLE places ADD COLUMN at.z varchar")
    made.rows("ALTER TABLE places RENAME COLUMN at.x TO east")
    made.rows("ALTER TABLE places DROP COLUMN at.y")
    made.memory.produce("places", 0, b'{"id": 2, "at": {"x": 3, "z": "a"}}')
    made.memory.produce("places", 0, b'{"id": 3, "at": {"east": 5}}')
    found = made.rows("SELECT at.east, at.z FROM places ORDER BY id")
    assert found == [(1, None), (3, "a"), (5, None)], "records reach a field by its earlier name"
    made.gateway.close()
