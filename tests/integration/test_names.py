"""Goal: where a cluster is called like the catalog's schema, listed names are what they say.

Method: a topic and the table over it have one name; each is read by every name that SHOW and
`information_schema` give it, and its columns show which one it is.
"""

from __future__ import annotations

import pytest
from support.gateway import Gateway
from support.stack import Stack

pytestmark = pytest.mark.integration


def test_a_table_and_its_topic_are_told_apart(stack: Stack, gateway: Gateway, name: str) -> None:
    assert "default" in stack.config.clusters
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint")
    stack.produce(name, [{"id": 1}, {"id": 2}])
    for table in (name, f"default.{name}", f"lake.default.{name}"):
        assert gateway.rows(f"SELECT max(id) FROM {table}") == [(2,)]
    topic = f"default.default.{name}"
    assert gateway.rows(f"SELECT value FROM {topic} LIMIT 1") == [(b'{"id": 1}',)]
    assert gateway.rows(f"DESCRIBE {topic}")[0] == ("value", "varbinary", "", "")
    assert gateway.rows(f"DESCRIBE default.{name}")[0] == ("id", "bigint", "", "")


def test_what_is_listed_is_read(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint")
    stack.produce(name, [{"id": 1}])
    catalogs = [row[0] for row in gateway.rows("SHOW CATALOGS")]
    assert catalogs == ["default", "lake", "system"]
    for catalog in catalogs[:2]:
        schemas = [row[0] for row in gateway.rows(f"SHOW SCHEMAS FROM {catalog}")]
        assert schemas == ["default", "information_schema"]
        for schema in schemas:
            shown = [row[0] for row in gateway.rows(f"SHOW TABLES FROM {catalog}.{schema}")]
            wanted = shown if schema == "information_schema" else [name]
            assert set(wanted) <= set(shown)
            for table in wanted:
                full = f"{catalog}.{schema}.{table}"
                ((count,),) = gateway.rows(f"SELECT count(*) FROM {full}")
                assert count > 0 or table not in {"columns", "schemata", "tables", name}
                assert gateway.rows(f"SHOW COLUMNS FROM {full}")
        columns = gateway.rows(
            f"SELECT column_name, data_type FROM {catalog}.information_schema.columns"
            f" WHERE table_name = '{name}' ORDER BY ordinal_position"
        )
        shown = gateway.rows(f"SHOW COLUMNS FROM {catalog}.default.{name}")
        assert columns == [row[:2] for row in shown if row[2] != "hidden"]
