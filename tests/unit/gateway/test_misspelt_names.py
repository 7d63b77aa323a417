"""Goal: a name that nothing has is refused with its code, its place, and the name that was meant.

Method: statements of every kind, with the names in them. Each name in turn has two letters swapped;
a gateway over a catalog in one file and a log in memory refuses the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pytest
from support.offline import MemoryWorld

import seamline
from seamline.errors import Location

NAMES = {
    "catalog": ("lake", "laek", "CATALOG_NOT_FOUND"),
    "schema": ("shop", "shpo", "(SCHEMA|TABLE|VIEW)_NOT_FOUND"),
    "table": ("bids", "bdis", "TABLE_NOT_FOUND|COLUMN_NOT_FOUND"),
    "view": ("prices", "pircse", "(TABLE|VIEW)_NOT_FOUND"),
    "column": ("channel", "chanenl", "COLUMN_NOT_FOUND|INVALID_TABLE_DEFINITION"),
    "function": ("upper", "upepr", "FUNCTION_NOT_FOUND"),
    "topic": ("orders", "ordesr", "TOPIC_NOT_FOUND"),
    "branch": ("main", "mian", "TABLE_NOT_FOUND"),
    "variant": ("snapshots", "snaphsots", "TABLE_NOT_FOUND"),
    "system": ("tables", "talbes", "TABLE_NOT_FOUND"),
    "type": ("bigint", "bigitn", "SYNTAX_ERROR"),
    "property": ("row_limit", "row_limti", "INVALID_SESSION_PROPERTY"),
    "zone": ("Europe/Berlin", "Europe/Belrin", "INVALID_ARGUMENT"),
    "window": ("window1", "widnow1", "COLUMN_NOT_FOUND"),
    "setting": ("partitioning", "partitionign", "INVALID_TABLE_DEFINITION"),
}
"""Each kind of name: as it is, misspelt, and the codes of the errors."""

STATEMENTS = """
SELECT {column} FROM {catalog}.{schema}.{table}
SELECT 1 FROM {schema}.{table} AS t WHERE t.{column} IS NULL GROUP BY {column} ORDER BY {column}
SELECT {function}({table}.channel) FROM {schema}.{table}
SELECT * FROM {catalog}.{schema}.{view}
SELECT * FROM shop.{table}, shop.{view}
SELECT * FROM {schema}.{table} FOR VERSION AS OF '{branch}'
SELECT * FROM shop."{table}${variant}"
SELECT * FROM shop.bids, lake.information_schema.{system}
SELECT * FROM "default"."default".{topic}
SELECT CAST(price AS {type}) FROM shop.bids
SELECT sum(price) OVER {window} FROM shop.bids WINDOW window1 AS (ORDER BY price)
SELECT current_timestamp AT TIME ZONE '{zone}'
EXPLAIN SELECT {column} FROM {catalog}.{schema}.{table}
EXPLAIN ANALYZE SELECT {column} FROM {catalog}.{schema}.{table}
WITH a AS (SELECT {column} FROM {schema}.{table}) SELECT * FROM a
SELECT (SELECT max({column}) FROM {schema}.{table})
INSERT INTO {catalog}.{schema}.{table} ({column}) VALUES ('x')
INSERT INTO shop.bids (channel) SELECT {column} FROM {catalog}.{schema}.{table}
UPDATE {catalog}.{schema}.{table} SET {column} = 'x'
UPDATE shop.bids SET channel = 'x' WHERE {column} = 'y'
DELETE FROM {catalog}.{schema}.{table} WHERE {column} = 'x'
TRUNCATE TABLE {catalog}.{schema}.{table}
MERGE INTO {schema}.{table} AS t USING shop.bids AS s ON t.price = s.price WHEN MATCHED THEN DELETE
MERGE INTO shop.bids AS t USING {schema}.{table} AS s ON t.{column} = 'x' WHEN MATCHED THEN DELETE
MERGE INTO shop.bids AS t USING shop.bids AS s ON true WHEN MATCHED THEN UPDATE SET {column} = 'x'
CREATE TABLE shop.new AS SELECT {column} FROM {catalog}.{schema}.{table}
CREATE TABLE shop.new (LIKE {catalog}.{schema}.{table})
CREATE TABLE shop.new (channel {type}) WITH (partitioning = ARRAY['{column}'])
CREATE TABLE shop.new (channel bigint) WITH ({setting} = ARRAY['channel'])
CREATE TABLE {catalog}.shop.new (channel bigint)
CREATE VIEW shop.new AS SELECT {column} FROM {catalog}.{schema}.{table}
CREATE SCHEMA {catalog}.new
CREATE TABLE shop.new (id bigint) WITH (topic = '{topic}')
ALTER TABLE {catalog}.{schema}.{table} ADD COLUMN new {type}
ALTER TABLE {catalog}.{schema}.{table} DROP COLUMN {column}
ALTER TABLE {catalog}.{schema}.{table} RENAME COLUMN {column} TO new
ALTER TABLE {catalog}.{schema}.{table} ALTER COLUMN {column} SET DATA TYPE varchar
ALTER TABLE {catalog}.{schema}.{table} ALTER COLUMN {column} DROP NOT NULL
ALTER TABLE {catalog}.{schema}.{table} RENAME TO shop.new
ALTER TABLE {catalog}.{schema}.{table} SET PROPERTIES format_version = 2
ALTER VIEW {catalog}.{schema}.{view} RENAME TO shop.new
COMMENT ON TABLE {catalog}.{schema}.{table} IS 'x'
COMMENT ON VIEW {catalog}.{schema}.{view} IS 'x'
COMMENT ON COLUMN {catalog}.{schema}.{table}.{column} IS 'x'
DROP TABLE {catalog}.{schema}.{table}
DROP VIEW {catalog}.{schema}.{view}
DROP SCHEMA {catalog}.{schema}
SHOW SCHEMAS FROM {catalog}
SHOW TABLES FROM {catalog}.{schema}
SHOW COLUMNS FROM {catalog}.{schema}.{table}
SHOW COLUMNS FROM {catalog}.{schema}.{view}
SHOW COLUMNS FROM shop."bids${variant}"
SHOW COLUMNS FROM "default"."default".{topic}
DESCRIBE {catalog}.{schema}.{table}
SHOW CREATE TABLE {catalog}.{schema}.{table}
SHOW CREATE VIEW {catalog}.{schema}.{view}
SHOW CREATE SCHEMA {catalog}.{schema}
SHOW STATS FOR {catalog}.{schema}.{table}
SHOW STATS FOR lake.information_schema.{system}
SHOW STATS FOR "default"."default".{topic}
SHOW STATS FOR (SELECT {column} FROM {catalog}.{schema}.{table})
SHOW BRANCHES FROM TABLE {catalog}.{schema}.{table}
SHOW FUNCTIONS FROM {catalog}.{schema}
SHOW GRANTS ON {catalog}.{schema}.{table}
SHOW ROLES FROM {catalog}
SET ROLE ALL IN {catalog}
SET SESSION {property} = 1
RESET SESSION {property}
SET TIME ZONE '{zone}'
USE {catalog}.{schema}
"""

_SLOT = re.compile(r"\{(\w+)\}")


def cases() -> Iterator[tuple[str, str, int]]:
    """Statements, the kind of the name in them that is misspelt, and where it is."""
    for template in STATEMENTS.strip().splitlines():
        for place in range(len(_SLOT.findall(template))):
            slots = iter(range(template.count("{")))

            def spelt(slot: re.Match[str], at: int = place, slots: Iterator[int] = slots) -> str:
                return NAMES[slot[1]][next(slots) == at]

            yield _SLOT.sub(spelt, template), _SLOT.findall(template)[place], place


CASES = list(cases())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryWorld]:
    world = MemoryWorld(tmp_path_factory.mktemp("gateway"))
    rows = pa.table({"channel": ["a"], "price": [1]})
    world.catalog.create_namespace("shop")
    world.catalog.create_namespace("default")
    world.catalog.create_table("shop.bids", rows.schema).append(rows)
    world.memory.create_topic("orders", 1)
    world.rows("CREATE VIEW shop.prices AS SELECT price FROM shop.bids")
    yield world
    world.gateway.close()


@pytest.mark.parametrize(("sql", "kind"), [(sql, kind) for sql, kind, _ in CASES])
def test_a_misspelt_name_is_named_placed_and_corrected(
    world: MemoryWorld, sql: str, kind: str
) -> None:
    meant, _, codes = NAMES[kind]
    error = world.refused(sql)
    assert re.fullmatch(codes, error.code.name), str(error)
    assert error.location is not None, str(error)
    assert error.location.within(sql) is not None, str(error)
    assert meant in error.hint, str(error)


@pytest.mark.parametrize(
    ("sql", "code", "message"),
    [
        *(
            (sql, "TABLE_NOT_FOUND", "lake.shop.prices is a view, not a table")
            for sql in (
                'SELECT * FROM shop."prices$properties"',
                'SELECT * FROM shop."prices$hot"',
                'SHOW COLUMNS FROM shop."PRICES$snapshots"',
                "DROP TABLE shop.prices",
                "SHOW CREATE TABLE shop.prices",
                "SHOW STATS FOR shop.prices",
            )
        ),
        *(
            (sql, "VIEW_NOT_FOUND", "lake.shop.bids is a table, not a view")
            for sql in (
                "DROP VIEW shop.bids",
                "ALTER VIEW shop.bids RENAME TO shop.new",
                "COMMENT ON VIEW shop.bids IS 'x'",
                "SHOW CREATE VIEW shop.bids",
            )
        ),
    ],
)
def test_a_view_is_no_table(world: MemoryWorld, sql: str, code: str, message: str) -> None:
    error = world.refused(sql)
    assert (error.code.name, error.message.lower()) == (code, message)
    assert error.location is not None
    assert error.location.within(sql) is not None


def test_a_name_that_stands_twice_is_placed_where_it_stands_first(world: MemoryWorld) -> None:
    error = world.refused("SELECT * FROM shop.bdis AS a, shop.bdis AS b")
    assert error.code.name == "TABLE_NOT_FOUND"
    assert error.location == Location(1, 15)


def test_a_write_to_a_partition_that_no_topic_has(world: MemoryWorld) -> None:
    after = (seamline.write_token({7: 0}),)
    statement = world.gateway.statement(
        'SELECT * FROM "default"."default".orders', after=after, timeout_s=1.0
    )
    error = statement.error
    assert error is not None
    assert error.code.name == "WRITE_NOT_VISIBLE"
    assert "no partition 7" in error.message
    assert "Partitions of the topic: 1" in error.hint
