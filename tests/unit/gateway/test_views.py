"""Goal: a view reads as the query it was made of, with the columns it had, wherever it is read.

Method: views over plain Iceberg tables and constants, in a catalog without views of its own, whose
metadata is in the warehouse; what other engines write is written there by the test.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.types import StringType
from pyiceberg.view.metadata import ViewMetadata
from support import offline
from support.clients import refused, rows
from support.gateway import Gateway

import seamline
from seamline.connectors.protocols.catalogs import View
from seamline.sql import types
from seamline.sql.types import Field


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("views")


@pytest.fixture(scope="module")
def gateway(folder: pathlib.Path) -> Iterator[Gateway]:
    world = offline.MemoryWorld(folder)
    running, catalog = world.gateway, world.catalog
    for namespace in ("shop", "default"):
        catalog.create_namespace(namespace)
    made = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None]})
    for name in ("shop.goods", "shop.changing", "default.goods"):
        catalog.create_table(name, made.schema).append(made)
    catalog.load_table("default.goods").overwrite(made.slice(0, 1))
    yield running
    running.close()


def test_a_view_reads_as_its_query(connection: seamline.Connection) -> None:
    connection.execute(
        "CREATE VIEW shop.named AS SELECT id, upper(name) AS Name FROM shop.goods"
        " WHERE name IS NOT NULL"
    )
    assert rows(connection, "SELECT * FROM shop.named ORDER BY id") == [(1, "A"), (2, "B")]
    assert rows(connection, "SELECT shop.named.name FROM shop.named WHERE named.id = 2") == [("B",)]
    assert rows(
        connection,
        "SELECT v.name, g.id FROM SHOP.NAMED AS v JOIN shop.goods g ON g.id = v.id ORDER BY 2",
    ) == [("A", 1), ("B", 2)]
    assert rows(connection, "SELECT count(*) FROM shop.named AS v(x, y) WHERE y = 'A'") == [(1,)]
    assert rows(connection, "WITH named AS (SELECT 7 AS x) SELECT * FROM named") == [(7,)]


def test_names_are_those_of_the_session_that_made_it(connection: seamline.Connection) -> None:
    connection.execute("USE shop")
    connection.execute("CREATE VIEW own AS SELECT count(*) AS n FROM goods")
    connection.execute("USE lake.default")
    assert rows(connection, "SELECT count(*) FROM goods") == [(1,)]
    assert rows(connection, "SELECT n FROM shop.own") == [(3,)]
    assert rows(connection, "WITH goods AS (SELECT 1 AS x) SELECT n, x FROM shop.own, goods") == [
        (3, 1)
    ]


def test_rows_of_a_view_are_not_changed(connection: seamline.Connection) -> None:
    connection.execute("CREATE VIEW shop.fixed AS SELECT id FROM shop.goods")
    for sql in (
        "INSERT INTO shop.fixed VALUES 7",
        "DELETE FROM SHOP.FIXED WHERE id = 1",
        "UPDATE shop.fixed SET id = 7",
        "MERGE INTO shop.fixed AS t USING shop.goods AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE shop.fixed",
        "ALTER TABLE shop.fixed RENAME TO shop.other",
        "CREATE OR REPLACE TABLE shop.fixed AS SELECT 1 AS id",
    ):
        error = refused(connection, sql)
        assert error.code.name == "STATEMENT_NOT_ALLOWED", sql
        assert "is a view" in str(error), sql


def test_views_of_views(connection: seamline.Connection) -> None:
    connection.execute("CREATE VIEW shop.one AS SELECT id AS a FROM shop.goods")
    connection.execute("CREATE VIEW shop.two AS SELECT a + 1 AS b FROM shop.one")
    assert rows(connection, "SELECT sum(b) FROM shop.two") == [(9,)]
    assert rows(connection, "SELECT (SELECT max(b) FROM shop.two), max(a) FROM shop.one") == [
        (4, 3)
    ]
    connection.execute("CREATE OR REPLACE VIEW shop.two AS SELECT a * 10 AS b FROM shop.one")
    assert rows(connection, "SELECT sum(b) FROM shop.two") == [(60,)]


def test_a_view_that_reads_itself_is_refused(connection: seamline.Connection) -> None:
    connection.execute("CREATE VIEW shop.ring AS SELECT 1 AS x")
    connection.execute("CREATE VIEW shop.round AS SELECT x FROM shop.ring")
    error = refused(connection, "CREATE OR REPLACE VIEW shop.ring AS SELECT x FROM shop.ring")
    assert error.code.name == "VIEW_IS_RECURSIVE"
    error = refused(connection, "CREATE OR REPLACE VIEW shop.ring AS SELECT x FROM shop.round")
    assert error.code.name == "VIEW_IS_RECURSIVE"
    assert rows(connection, "SELECT x FROM shop.round") == [(1,)]


def test_a_changed_table_makes_a_view_stale_by_name(
    gateway: Gateway, connection: seamline.Connection
) -> None:
    connection.execute("CREATE VIEW shop.v AS SELECT * FROM shop.changing")
    table = gateway.parts.connections.catalog("lake").pyiceberg.load_table("shop.changing")
    with table.update_schema() as update:
        update.add_column("more", StringType())
    error = refused(connection, "SELECT 1, id FROM shop.v")
    assert error.code.name == "VIEW_IS_STALE"
    assert error.location is not None
    assert error.location.column == 24
    connection.execute("CREATE OR REPLACE VIEW shop.v AS SELECT name FROM shop.changing")
    with table.update_schema() as update:
        update.delete_column("name")
    assert refused(connection, "SELECT * FROM shop.v").code.name == "VIEW_IS_STALE"


def test_columns_keep_the_types_they_had(gateway: Gateway, connection: seamline.Connection) -> None:
    store = gateway.parts.connections.catalog("lake").view_store
    view = View(
        (Field("x", types.BIGINT), Field("s", types.VARCHAR)),
        {"trino": "SELECT 1 AS y, NULL AS z"},
    )
    store.put(("shop", "typed"), view)
    cursor = connection.execute("SELECT * FROM shop.typed")
    assert cursor.description is not None
    assert [column[:2] for column in cursor.description] == [("x", "bigint"), ("s", "varchar")]
    store.put(("shop", "typed"), View((Field("x", types.BIGINT),), {"trino": "SELECT 'a' AS x"}))
    assert refused(connection, "SELECT * FROM shop.typed").code.name == "VIEW_IS_STALE"


def test_columns_have_the_types_of_the_query(
    gateway: Gateway, connection: seamline.Connection
) -> None:
    columns = {
        "tiny": ("TINYINT '1'", "tinyint"),
        "small": ("SMALLINT '1'", "smallint"),
        "document": ("""JSON '{"a": 1}'""", "json"),
        "padded": ("CAST('x' AS char(3))", "char(3)"),
        "days": ("INTERVAL '1' DAY", "interval day to second"),
        "months": ("INTERVAL '1' MONTH", "interval year to month"),
        "clock": ("TIME '01:02:03.123456'", "time(6)"),
        "milli": ("TIMESTAMP '2020-01-02 03:04:05.678'", "timestamp(3)"),
        "instant": ("TIMESTAMP '2020-01-02 03:04:05 UTC'", "timestamp(0) with time zone"),
        "many": ("ARRAY[SMALLINT '1', NULL]", "array(smallint)"),
        "none": ("ARRAY[NULL]", "array(varchar)"),
        "pairs": ("MAP(ARRAY['k'], ARRAY[JSON '1'])", "map(varchar, json)"),
        "both": ("CAST(ROW(1, 'x') AS row(a tinyint, \"B c\" char(2)))", None),
    }
    query = "SELECT " + ", ".join(f"{text} AS {name}" for name, (text, _) in columns.items())
    connection.execute(f"CREATE VIEW shop.every_type AS {query}")
    asked, viewed = connection.execute(query), connection.execute("SELECT * FROM shop.every_type")
    assert asked.description is not None
    assert viewed.description is not None
    for one, other in zip(asked.description, viewed.description, strict=True):
        assert columns[str(one[0])][1] in {None, other[1]}
        assert one[0] == "none" or one[1] == other[1], one[0]
    assert viewed.fetchall() == asked.fetchall()
    assert rows(connection, "SELECT tiny + small, padded = 'x' FROM shop.every_type") == [(2, True)]
    assert ("small", "smallint") in [
        row[:2] for row in rows(connection, "DESCRIBE shop.every_type")
    ]
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    file = pathlib.Path(
        catalog.load_namespace_properties("shop")["seamline.view.every_type"].removeprefix(
            "file://"
        )
    )
    metadata = ViewMetadata.model_validate_json(file.read_text(encoding="utf-8"))
    kinds = [str(field.field_type) for field in metadata.schemas[-1].fields]
    assert kinds[:6] == ["int", "int", "string", "string", "string", "string"]
    connection.execute("COMMENT ON COLUMN shop.every_type.small IS 'few'")
    assert ("small", "smallint", "", "few") in rows(connection, "DESCRIBE shop.every_type")


def test_a_version_of_another_writer_has_the_types_of_its_schema(
    gateway: Gateway, connection: seamline.Connection
) -> None:
    connection.execute("CREATE VIEW shop.replaced AS SELECT SMALLINT '1' AS x")
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    file = pathlib.Path(
        catalog.load_namespace_properties("shop")["seamline.view.replaced"].removeprefix("file://")
    )
    metadata = json.loads(file.read_text(encoding="utf-8"))
    metadata["versions"][-1]["summary"] = {"engine-name": "another"}
    file.write_text(json.dumps(metadata), encoding="utf-8")
    cursor = connection.execute("SELECT * FROM shop.replaced")
    assert [column[:2] for column in cursor.description or ()] == [("x", "integer")]
    metadata["versions"][-1]["summary"]["seamline.column-types"] = '["no such type"]'
    file.write_text(json.dumps(metadata), encoding="utf-8")
    assert refused(connection, "SELECT * FROM shop.replaced").code.name == "INVALID_VIEW"


def test_views_of_other_engines_are_translated(
    gateway: Gateway, connection: seamline.Connection
) -> None:
    store = gateway.parts.connections.catalog("lake").view_store
    text = "SELECT `id`, nvl(name, 'none') AS called FROM elsewhere.shop.goods WHERE id > 1"
    columns = (Field("id", types.BIGINT), Field("called", types.VARCHAR))
    store.put(("shop", "sparks"), View(columns, {"spark": text}, "elsewhere", ("shop",)))
    assert rows(connection, "SELECT * FROM shop.sparks ORDER BY 1") == [(2, "b"), (3, "none")]
    store.put(("shop", "odd"), View(columns, {"spark": "DROP TABLE goods"}))
    assert refused(connection, "SELECT * FROM shop.odd").code.name == "INVALID_VIEW"


def test_views_are_listed_and_described(connection: seamline.Connection) -> None:
    connection.execute("USE shop")
    connection.execute(
        "CREATE OR REPLACE VIEW listed COMMENT 'it''s' AS SELECT id, name FROM goods"
    )
    assert ("listed",) in rows(connection, "SHOW TABLES LIKE 'list%'")
    assert [row[:2] for row in rows(connection, "DESCRIBE listed")] == [
        ("id", "bigint"),
        ("name", "varchar"),
    ]
    assert rows(connection, "SHOW CREATE VIEW listed") == [
        ("CREATE VIEW lake.shop.listed\nCOMMENT 'it''s' AS\nSELECT id, name FROM goods",)
    ]
    of_listed = "table_schema = 'shop' AND table_name = 'listed'"
    assert rows(
        connection, f"SELECT table_type FROM information_schema.tables WHERE {of_listed}"
    ) == [("VIEW",)]
    assert rows(
        connection, f"SELECT view_definition FROM information_schema.views WHERE {of_listed}"
    ) == [("SELECT id, name FROM goods",)]
    assert rows(
        connection, f"SELECT column_name FROM information_schema.columns WHERE {of_listed}"
    ) == [("id",), ("name",)]


def test_a_view_gets_another_name(connection: seamline.Connection) -> None:
    rows(connection, "CREATE VIEW before COMMENT 'why' AS SELECT 1 AS a")
    rows(connection, "CREATE VIEW taken AS SELECT 2 AS b")
    assert refused(connection, "ALTER VIEW before RENAME TO taken").code.name == "TABLE_EXISTS"
    assert refused(connection, "ALTER VIEW nowhere RENAME TO c").code.name == "VIEW_NOT_FOUND"
    assert refused(connection, "ALTER VIEW before RENAME COLUMN a").code.name == "SYNTAX_ERROR"
    rows(connection, "ALTER VIEW before RENAME TO afterwards")
    assert rows(connection, "SELECT * FROM afterwards") == [(1,)]
    assert "COMMENT 'why'" in str(rows(connection, "SHOW CREATE VIEW afterwards"))
    comments = "SELECT comment FROM system.metadata.table_comments WHERE table_name = 'afterwards'"
    assert rows(connection, comments) == [("why",)]
    assert refused(connection, "SELECT * FROM before").code.name == "TABLE_NOT_FOUND"
    rows(connection, "DROP VIEW afterwards")
    rows(connection, "DROP VIEW taken")


def test_a_dropped_view_is_gone(connection: seamline.Connection) -> None:
    connection.execute("CREATE VIEW shop.gone AS SELECT 1 AS x")
    connection.execute("DROP VIEW shop.gone")
    assert refused(connection, "SELECT * FROM shop.gone").code.name == "TABLE_NOT_FOUND"
    connection.execute("DROP VIEW IF EXISTS shop.gone")
    error = refused(connection, "DROP VIEW shop.gone")
    assert error.code.name == "VIEW_NOT_FOUND"
    assert error.location is not None
    assert error.location.column == 11


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("CREATE VIEW shop.goods AS SELECT 1 AS x", "TABLE_EXISTS"),
        ("CREATE OR REPLACE VIEW shop.goods AS SELECT 1 AS x", "TABLE_EXISTS"),
        ("CREATE VIEW shop.bad AS SELECT nope FROM shop.goods", "COLUMN_NOT_FOUND"),
        ("CREATE VIEW shop.bad AS SELECT 1 AS x, 2 AS X", "INVALID_VIEW"),
        ("CREATE VIEW shop.bad AS SELECT ? AS x", "NOT_SUPPORTED"),
        ("CREATE VIEW shop.bad AS", "SYNTAX_ERROR"),
        ("CREATE VIEW shop.bad AS DROP TABLE x", "STATEMENT_NOT_ALLOWED"),
        ("CREATE VIEW shop.bad SECURITY NONE AS SELECT 1 AS x", "SYNTAX_ERROR"),
        ("CREATE VIEW information_schema.bad AS SELECT 1 AS x", "STATEMENT_NOT_ALLOWED"),
        ("SHOW CREATE VIEW shop.goods", "VIEW_NOT_FOUND"),
        ("SELECT * FROM shop.past FOR VERSION AS OF 1", "NOT_SUPPORTED"),
    ],
)
def test_what_cannot_be_a_view(connection: seamline.Connection, sql: str, code: str) -> None:
    connection.execute("CREATE OR REPLACE VIEW shop.past AS SELECT 1 AS x")
    assert refused(connection, sql).code.name == code


def test_the_metadata_is_icebergs(folder: pathlib.Path, connection: seamline.Connection) -> None:
    for number, security in ((1, "INVOKER"), (2, "DEFINER")):
        connection.execute(
            f"CREATE OR REPLACE VIEW shop.kept SECURITY {security} AS SELECT {number} AS x"
        )
    newest = max(folder.glob("warehouse/shop/kept-*/metadata/*.metadata.json"))
    found = json.loads(newest.read_text())
    assert found["format-version"] == 1
    assert found["current-version-id"] == 2
    assert found["properties"] == {"trino.run-as-owner": "anonymous"}
    current = found["versions"][-1]
    assert current["representations"] == [
        {"type": "sql", "sql": "SELECT 2 AS x", "dialect": "trino"}
    ]
    assert (current["default-catalog"], current["default-namespace"]) == ("lake", ["default"])
    assert {s["schema-id"] for s in found["schemas"]} >= {v["schema-id"] for v in found["versions"]}
