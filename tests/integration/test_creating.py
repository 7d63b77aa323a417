"""Goal: CREATE TABLE straight after its topic was made, and over what a REST catalog holds already.

Method: a real broker, whose topics are used the moment their making was acknowledged; and Iceberg's
own REST server, with a table, a view, and another creator who comes first.
"""

from __future__ import annotations

import pathlib

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.schema import Schema
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion
from support import offline
from support.creating import World, create
from support.rest_catalog import config_of, rest_catalog

from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.commands import tables
from seamline.gateway.config.load import load
from seamline.gateway.deadline import no_deadline
from seamline.gateway.dev.local.stack import LocalStack

pytestmark = pytest.mark.integration


@pytest.mark.soak
def test_straight_after_its_topic_a_table_is_made(tmp_path: pathlib.Path) -> None:
    local = LocalStack(tmp_path)
    try:
        status = local.up(lambda _: None)
        assert status.bootstrap_servers is not None
        connections = Connections(load(status.config_file, environment={}).config)
        admin = AdminClient({"bootstrap.servers": status.bootstrap_servers, "log_level": 0})
        session = resolution.session(connections.config)
        for number in range(20):
            topic = f"new-{number}"
            admin.create_topics([NewTopic(topic, 4)])[topic].result(30)
            definition = tables.TableDefinition(
                name=resolution.resolve((f"t{number}",), session, connections),
                topic=topic,
                cluster="kafka",
                columns=tables.parse_fields("id bigint"),
            )
            tables.create(connections, definition, no_deadline())
        connections.close()
    finally:
        local.down(lambda _: None)


@pytest.mark.prove
def test_what_a_rest_catalog_holds_is_said_to_exist(tmp_path: pathlib.Path) -> None:
    with rest_catalog(tmp_path) as url:
        lake = config_of(url, tmp_path)
        config = offline.config(tmp_path).model_copy(update={"catalogs": {"lake": lake}})
        other = World(config)
        own = other.catalog("lake").pyiceberg
        own.create_namespace("default")
        own.create_table("default.plain", Schema())
        text = SQLViewRepresentation(type="sql", sql="SELECT 1", dialect="spark")
        version = ViewVersion(
            version_id=1,
            schema_id=0,
            timestamp_ms=1_700_000_000_000,
            summary={},
            representations=[text],
            default_namespace=["default"],
        )
        own.create_view("default.v", Schema(), version)
        for unless in (False, True):
            for name in ("plain", "PLAIN", "v"):
                assert other.run(create(name, unless=unless)) == "TABLE_EXISTS"
            for version_number in (2, 3):
                name = f"new{version_number}{unless}"
                statement = create(name, unless=unless, version=version_number)
                world = World(config, happens=lambda s=statement: other.run(s))  # type: ignore[misc]
                assert world.run(statement) == ("done" if unless else "TABLE_EXISTS")
                assert world.is_unified(name)
