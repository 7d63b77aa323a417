"""Goal: records that name no schema are read with the newest version of a subject.

It is one version for all rows of a statement, hot as cold, and the same again with a token.

Method: PyIceberg writes what Redpanda's `value_schema_latest` writes, of what fastavro and Google's
library made; a gateway over it, a log in memory and a registry over HTTP. A table of our own is
tiered in this process. A registry that is asked afresh stands for the minute that passes.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import StringType
from support.adopting import NAMESPACE, NEVER, TOPIC, Shop
from support.gateway import Gateway, statement_rows
from support.registry import Registry, encoded, registries

from seamline.connectors.config import SchemaRegistryConfig
from seamline.connectors.duckdb.tiering import LocalTierTable
from seamline.connectors.kafka.formats.framing import SchemaId
from seamline.connectors.kafka.formats.infer_schema import KINDS
from seamline.connectors.kafka.formats.own_schema import pinned
from seamline.connectors.kafka.formats.schemas import SchemaRegistry
from seamline.connectors.kafka.formats.writing import RecordWriter
from seamline.errors import SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.gateway.tiering.step import tier_once
from seamline.planners.rules.prune_tail_by_key import key_bytes
from seamline.seam.binding import TopicBinding

pytestmark = pytest.mark.filterwarnings("ignore:No preferred file implementation:UserWarning")

TABLE = f"lake.{NAMESPACE}.{TOPIC}"
ALL = f"SELECT id, note FROM {TABLE} ORDER BY id"
PROTO = """
syntax = "proto3"; package shop;
message Header { int32 x = 1; }
message Order { int64 id = 1; optional string note = 2; }
"""
LATER_PROTO = PROTO.replace("2; }", "2; optional string more = 3; }")
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
LATER_AVRO = {**AVRO, "fields": [
    *AVRO["fields"], {"name": "more", "type": ["null", "string"], "default": None}]}  # fmt: skip
CASES: dict[str, tuple[str, str, str]] = {
    "protobuf": ("latest:subject=of-orders,protobuf_name=shop.Order", PROTO, LATER_PROTO),
    "avro": ("latest", json.dumps(AVRO), json.dumps(LATER_AVRO)),
}
SUBJECTS = {"protobuf": "of-orders", "avro": f"{TOPIC}-value"}
POSITIONS = pa.struct([("partition", pa.int32()), ("offset", pa.int64())])


class Orders(Shop):
    """A shop whose records name no schema."""

    def __init__(self, folder: pathlib.Path, registry: Registry, format_: str) -> None:
        super().__init__(folder, partitions=1, follow=True)
        self.format = format_
        self.declared, self.text, self.later = CASES[format_]
        self._registry = registry
        self.a_minute_passes()

    def a_minute_passes(self) -> None:
        """Nothing is remembered of what the registry said."""
        config = SchemaRegistryConfig(url=self._registry.url)
        self.log.schemas = SchemaRegistry(config)  # type: ignore[attr-defined]

    def register(self, text: str) -> int:
        """Adds a version of the schema."""
        return self._registry.register(SUBJECTS[self.format], text, KINDS[self.format])

    def put(self, text: str, **record: Any) -> None:
        """Appends a record of a version."""
        offset = self.log.produce(TOPIC, 0, encoded(KINDS[self.format], text, record))
        self.records[0, offset] = record


@pytest.fixture
def registry() -> Iterator[Registry]:
    yield from registries()


@pytest.fixture(params=CASES)
def orders(tmp_path: pathlib.Path, registry: Registry, request: pytest.FixtureRequest) -> Orders:
    return Orders(tmp_path, registry, request.param)


@pytest.fixture
def gateway(orders: Orders) -> Iterator[Gateway]:
    with contextlib.closing(orders.gateway()) as running:
        yield running


def code_of(work: Callable[[], object]) -> str:
    with pytest.raises(SeamlineError) as caught:
        work()
    return caught.value.code.name


def adopted(orders: Orders) -> None:
    """A table in Redpanda's shape, of which two of four rows are copied."""
    orders.register(orders.text)
    orders.create(pa.schema([("redpanda", POSITIONS), ("id", pa.int64()), ("note", pa.string())]))
    for number in range(4):
        orders.put(orders.text, id=number, note=None if number == 1 else f"n{number}")
    orders.copy({0: 2}, shape=shape)
    orders.adopt(format=orders.format, value_schema=orders.declared)


def shape(partition: int, offset: int, record: dict[str, Any]) -> dict[str, Any]:
    return {"redpanda": {"partition": partition, "offset": offset}, **record}


ROWS = [(0, "n0"), (1, None), (2, "n2"), (3, "n3")]


def test_an_adopted_table_follows_new_versions(orders: Orders, gateway: Gateway) -> None:
    adopted(orders)
    first = gateway.statement(ALL)
    assert statement_rows(first) == ROWS
    assert first.receipt is not None
    token = first.receipt["token"]
    with orders.table.update_schema() as update:  # as Redpanda does before it copies such records
        update.add_column("more", StringType())
    orders.copy({0: 4}, shape=shape)
    orders.register(orders.later)
    orders.put(orders.later, id=4, note="n4", more="m")
    orders.a_minute_passes()
    with_more = f"SELECT id, note, more FROM {TABLE} ORDER BY id"
    expected = [*((*row, None) for row in ROWS), (4, "n4", "m")]
    for _ in range(2):
        assert gateway.rows(with_more) == expected
        assert gateway.rows(f'SELECT more FROM {NAMESPACE}."{TOPIC}$hot"') == [("m",)]
    assert gateway.rows(ALL, token=token) == ROWS
    orders.copy({0: 5}, shape=shape)
    assert gateway.rows(with_more) == expected


def test_what_has_been_read_stays_until_the_statement_after_the_minute(
    orders: Orders, gateway: Gateway, registry: Registry
) -> None:
    adopted(orders)
    number = gateway.statement(ALL).receipt
    orders.register(orders.later)
    again = gateway.statement(ALL)
    assert number is not None
    assert again.receipt is not None
    assert statement_rows(again) == ROWS
    assert again.receipt["tables"] == number["tables"]
    registry.refuses = 503
    assert gateway.rows(ALL) == ROWS
    orders.a_minute_passes()
    assert code_of(lambda: gateway.rows(ALL)) == "SCHEMA_REGISTRY_UNAVAILABLE"
    assert len(gateway.rows(f'SELECT 1 FROM {NAMESPACE}."{TOPIC}$cold"')) == 2
    registry.refuses = None
    orders.a_minute_passes()
    token = again.receipt["token"]
    if orders.format == "protobuf":  # a record without the new field is one of the new version
        assert gateway.rows(ALL) == ROWS
    else:  # it is too short to be one
        assert code_of(lambda: gateway.rows(ALL)) == "BAD_RECORD"
    assert gateway.rows(ALL, token=token) == ROWS


def test_a_table_of_our_own_is_tiered_with_the_version_of_its_batch(
    orders: Orders, gateway: Gateway
) -> None:
    orders.register(orders.text)
    orders.put(orders.text, id=1, note="a")
    options = f"format = '{orders.format}', value_schema = '{orders.declared}'"
    gateway.rows(f"CREATE TABLE lake.default.own WITH (topic = '{TOPIC}', {options})")
    table = LocalTierTable(orders.connections.catalog("lake"), ("default", "own"), orders.log)
    sql = "SELECT * FROM lake.default.own ORDER BY id"
    assert gateway.rows(sql) == [(1, "a")]
    tier_once(table, orders.log, NEVER, records_max=100)
    orders.register(orders.later)
    orders.a_minute_passes()
    orders.put(orders.later, id=2, note=None, more="m")
    assert gateway.rows(sql) == [(1, "a"), (2, None)]
    orders.put(orders.later, id=3, note="c", more=None)
    steps = [tier_once(table, orders.log, NEVER, records_max=100) for _ in range(2)]
    assert [step.outcome.name for step in steps] == ["EVOLVED", "ROWS"]
    assert gateway.rows(sql) == [(1, "a", None), (2, None, "m"), (3, "c", None)]


def test_a_subject_that_is_not_there(orders: Orders, gateway: Gateway) -> None:
    orders.register(orders.text)
    orders.put(orders.text, id=1, note="a")
    wrong = "latest:subject=nothing"
    options = f"topic = '{TOPIC}', format = '{orders.format}', value_schema = '{wrong}'"
    create = f"CREATE TABLE lake.default.own (id bigint) WITH ({options})"
    with pytest.raises(SeamlineError, match="no subject nothing"):
        gateway.rows(create.replace("(id bigint)", ""))


@pytest.mark.parametrize(
    "text", ["latest:", "latest:subject", "latest:subject=", "latest:topic=t", "latest:id=,"]
)
def test_what_does_not_say_which_schema(text: str) -> None:
    with pytest.raises(SeamlineError, match="does not say which schema"):
        str(TopicBinding("c", "t", "avro", value_schema=text).encoding)


def test_a_version_is_pinned_in_the_text_of_the_encoding(registry: Registry) -> None:
    schemas = SchemaRegistry(SchemaRegistryConfig(url=registry.url))
    registry.register("t-value", "long")
    number = registry.register("t-value", json.dumps("string"))
    binding = TopicBinding("c", "t", "avro", value_schema="latest:protobuf_name=a.B")
    assert '"value":"latest:subject=t-value,protobuf_name=a.B"' in str(binding.encoding)
    of_now = pinned(binding, schemas)
    assert f'"value":"latest:protobuf_name=a.B,id={number}"' in str(of_now.encoding)
    assert pinned(of_now, schemas) is of_now
    plain = TopicBinding("c", "t", "avro", value_schema='"latest"')
    assert pinned(plain, schemas) is plain
    with pytest.raises(SeamlineError, match="follow the subject u-value"):
        pinned(TopicBinding("c", "u", "avro", value_schema="latest"), schemas)


def id_of(newest: tuple[SchemaId, object] | None) -> SchemaId | None:
    return None if newest is None else newest[0]


def test_the_newest_version_is_asked_for_when_it_is_old(registry: Registry) -> None:
    schemas = SchemaRegistry(SchemaRegistryConfig(url=registry.url))
    first = registry.register("s", json.dumps("long"))
    assert id_of(schemas.latest("s", 3600)) == first
    second = registry.register("s", json.dumps("string"))
    assert id_of(schemas.latest("s", 3600)) == first
    assert id_of(schemas.latest("s")) == second
    registry.refuses = 503
    assert id_of(schemas.latest("s", 3600)) == second, "what it last answered"
    with pytest.raises(SeamlineError):
        schemas.latest("s")
    with pytest.raises(SeamlineError):
        schemas.latest("another", 3600)


@pytest.mark.parametrize("format_", CASES)
def test_insert_writes_the_newest_version(registry: Registry, format_: str) -> None:
    declared, text, later = CASES[format_]
    for version in (text, later):
        registry.register(SUBJECTS[format_], version, KINDS[format_])
    schemas = SchemaRegistry(SchemaRegistryConfig(url=registry.url))
    binding = TopicBinding("c", TOPIC, format_, value_schema=declared)
    fields = parse_fields("id bigint, note varchar, more varchar")
    row = {"id": 1, "note": "n", "more": "m"}
    writer = RecordWriter(pinned(binding, schemas), fields, key_bytes, schemas)
    (record,) = writer.records(pa.Table.from_pylist([row]))
    assert record.value == encoded(KINDS[format_], later, row)
