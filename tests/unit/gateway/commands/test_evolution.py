"""Goal: who lets a schema say the columns follows it; who names columns does not, unless asked to.

Method: a log in memory, a catalog in one file and a registry over HTTP; SQL and what it answers.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest
from support import offline
from support.creating import World
from support.registry import Registry, registries

from seamline.connectors.config import SchemaRegistryConfig
from seamline.connectors.kafka.formats.schemas import SchemaRegistry
from seamline.errors import SeamlineError
from seamline.gateway.commands.tables import describe

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": "int"}],
}


@pytest.fixture
def registry() -> Iterator[Registry]:
    yield from registries()


@pytest.fixture
def world(tmp_path: pathlib.Path, registry: Registry) -> World:
    registry.register("bids-value", json.dumps(ORDER))
    found = World(offline.config(tmp_path))
    registered = SchemaRegistry(SchemaRegistryConfig(url=registry.url))
    found.memory.schemas = registered  # type: ignore[attr-defined]
    return found


def evolution(world: World) -> object:
    return describe(world.catalog("lake").load(("default", "t")).state, None)["evolution"]


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        ("", "format = 'avro'", "auto"),
        ("", "format = 'avro', evolution = 'manual'", "manual"),
        ("(id bigint)", "format = 'avro'", "manual"),
        ("(id bigint)", "format = 'avro', evolution = 'auto'", "auto"),
        ("(id bigint)", "format = 'json_schema', evolution = 'auto'", "auto"),
        ("(id bigint)", "format = 'json'", "manual"),
    ],
)
def test_who_lets_a_schema_say_the_columns_follows_it(
    world: World, columns: str, options: str, expected: str
) -> None:
    world.rows(f"CREATE TABLE t {columns} WITH (topic = 'bids', {options})")
    assert evolution(world) == expected
    ((text,),) = world.rows("SHOW CREATE TABLE t")
    assert ("evolution" in text) == ("'json'" not in options)
    world.rows("DROP TABLE t")
    world.rows(text)
    assert evolution(world) == expected


def test_it_is_set_later(world: World) -> None:
    world.rows("CREATE TABLE t (id bigint) WITH (topic = 'bids', format = 'avro')")
    world.rows("ALTER TABLE t SET PROPERTIES evolution = 'auto'")
    assert evolution(world) == "auto"
    world.rows("ALTER TABLE t SET PROPERTIES evolution = 'manual'")
    assert evolution(world) == "manual"
    with pytest.raises(SeamlineError, match="'often' is not known"):
        world.rows("ALTER TABLE t SET PROPERTIES evolution = 'often'")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("format = 'json'", "values of format json do not name a schema"),
        ("format = 'avro', value_schema = '\"long\"'", "the table names the schema"),
    ],
)
def test_only_values_that_name_their_schema_can_be_followed(
    world: World, options: str, reason: str
) -> None:
    create = "CREATE TABLE t (id bigint) WITH (topic = 'bids', columns_from = ARRAY['id = value'], "
    with pytest.raises(SeamlineError, match=reason):
        world.rows(f"{create} {options}, evolution = 'auto')")
    world.rows(f"{create} {options})")
    with pytest.raises(SeamlineError, match=reason):
        world.rows("ALTER TABLE t SET PROPERTIES evolution = 'auto'")
