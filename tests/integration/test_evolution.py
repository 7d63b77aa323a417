"""Goal: columns follow the schemas of a topic, and no record is lost or read wrongly on the way.

Method: records of one schema after the other are produced by the official client of a registry,
and read hot, tiered and read cold by both engines, now, by tokens, and as of earlier snapshots.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format, message_factory
from support.clients import refused
from support.gateway import Gateway, statement_rows
from support.registered import Registered, registered_stack
from support.registry import Registry
from support.stack import Stack
from support.tierers import At, Interrupted

from seamline.connectors.kafka.formats import protobuf_schema
from seamline.connectors.kafka.formats.schemas import Schema
from seamline.connectors.protocols.cold_tables import TierTable
from seamline.connectors.spark.splits import Options, Table
from seamline.errors import SeamlineError
from seamline.gateway.deadline import no_deadline
from seamline.gateway.tiering.step import tier_once
from seamline.seam.tiering import Outcome, Step

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.usefixtures("tier_engine"),
    pytest.mark.one_in(test=2, prove=1),
]


@pytest.fixture(scope="module")
def registered(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registered]:
    with registered_stack(stack, tmp_path_factory.mktemp("registered")) as made:
        yield made


def record(fields: list[Any], name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def nullable(name: str, type_: Any, **further: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None, **further}


def decimals(precision: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}


ID = {"name": "id", "type": "long"}
OLD_ITEM = record([{"name": "n", "type": "int"}], "Item")
NEW_ITEM = record([{"name": "n", "type": "long"}, nullable("unit", "string")], "Item")
FIRST = record(
    [
        ID,
        {"name": "n", "type": "int"},
        {"name": "ratio", "type": "float"},
        nullable("note", "string"),
        {"name": "price", "type": decimals(6)},
        {"name": "items", "type": {"type": "array", "items": OLD_ITEM}},
        {"name": "by", "type": {"type": "map", "values": "int"}},
    ]
)
SECOND = record(
    [
        ID,
        {"name": "n", "type": "long"},
        {"name": "ratio", "type": "double"},
        {"name": "price", "type": decimals(20)},
        {"name": "remark", "type": ["null", "string"], "default": None, "aliases": ["note"]},
        {"name": "lines", "type": {"type": "array", "items": NEW_ITEM}, "aliases": ["items"]},
        {"name": "by", "type": {"type": "map", "values": "long"}},
        nullable("extra", record([nullable("x", "int")], "Extra")),
    ]
)
THIRD = record([ID, {"name": "n", "type": "long"}])
"""Without most of the fields."""


def send(stack: Stack, registry: Registry, topic: str, schema: Any, *bodies: Any) -> None:
    serializer = AvroSerializer(registry.client, json.dumps(schema))
    context = SerializationContext(topic, MessageField.VALUE)
    stack.produce(topic, [serializer(body, context) for body in bodies])


def both(gateway: Gateway, sql: str) -> list[tuple[Any, ...]]:
    """The rows, which both engines agree on."""
    found = gateway.rows(sql, "duckdb")
    assert gateway.rows(sql, "spark") == found
    return found


def outcomes(stack: Stack, name: str, **options: Any) -> list[str]:
    return [step.outcome.value for step in stack.tier(name, **options)]


def by_splits(gateway: Gateway, name: str) -> list[dict[str, Any]]:
    """The hot rows, as Spark's data source reads them."""
    table = Table.place(Options.of({"url": gateway.url, "table": name}))
    seam = table.seam
    splits = table.hot_splits(seam.hot_ranges, seam.cold.epochs, seam.end, seam.log.end_epochs)
    return [row for split in splits for batch in split.read() for row in batch.to_pylist()]


def test_columns_follow_the_schemas_of_a_topic(registered: Registered, name: str) -> None:
    stack, gateway, registry = registered.stack, registered.gateway, registered.registry
    stack.create_topic(name, 1)
    old = {"id": 1, "n": 7, "ratio": 0.5, "note": "a", "price": Decimal("1.25")}
    old |= {"items": [{"n": 1}], "by": {"k": 2}}
    send(stack, registry, name, FIRST, old)
    gateway.rows(
        f"CREATE TABLE {name} WITH (topic = '{name}', format = 'avro',"
        " partitioning = ARRAY['bucket(4, n)', 'truncate(10, n)'])"
    )
    assert outcomes(stack, name) == ["rows"]
    state = stack.load(name).state
    snapshot = state.current_snapshot_id
    send(stack, registry, name, FIRST, {**old, "id": 2})
    everything = f"SELECT * FROM {name} ORDER BY id"
    row = (7, 0.5, "a", Decimal("1.25"), [{"n": 1}], {"k": 2})
    before = [(1, *row), (2, *row)]
    statement = gateway.statement(everything)
    token = statement.receipt["token"]
    assert both(gateway, everything) == before
    new = {"id": 3, "n": 1 << 40, "ratio": 0.1, "remark": "b", "by": {"k": 1 << 41}}
    new |= {"price": Decimal("123456789012345678.90")}
    new |= {"lines": [{"n": 1 << 42, "unit": "kg"}], "extra": {"x": 5}}
    send(stack, registry, name, SECOND, new)
    for engine in ("duckdb", "spark"):
        with gateway.connect(engine=engine) as connection:
            error = refused(connection, everything)
        assert error.code.name == "SCHEMA_NOT_EVOLVED", error
        assert "n integer becomes bigint" in str(error)
    with pytest.raises(SeamlineError, match="n integer becomes bigint"):
        by_splits(gateway, name)
    assert outcomes(stack, name, records_max=1) == ["rows", "evolved", "rows"]
    names = "id, n, ratio, remark, price, lines, by, extra"
    evolved = (7, 0.5, "a", Decimal("1.25"), [{"n": 1, "unit": None}], {"k": 2}, None)
    last = (3, 1 << 40, 0.1, "b", new["price"], new["lines"], {"k": 1 << 41}, {"x": 5})
    send(stack, registry, name, THIRD, {"id": 4, "n": 4})
    send(stack, registry, name, FIRST, {**old, "id": 5})
    expected = [(1, *evolved), (2, *evolved), last, (4, 4, *[None] * 6), (5, *evolved)]
    sql = f"SELECT {names} FROM {name} ORDER BY id"
    assert [row["id"] for row in by_splits(gateway, name)] == [4, 5]
    for tiered in (["rows"], ["idle"]):
        assert both(gateway, sql) == expected
        assert both(gateway, f"SELECT sum(id) FROM {name} WHERE n > 7 OR n = 4") == [(7,)]
        assert outcomes(stack, name) == tiered
        for engine in ("duckdb", "spark"):
            again = gateway.statement(everything, engine=engine, token=token)
            assert again.error is None, again.error
            assert statement_rows(again) == before
            assert again.output == statement.output
            then = gateway.rows(f"SELECT * FROM {name} FOR VERSION AS OF {snapshot}", engine)
            assert then == before[:1]


@pytest.mark.soak
@pytest.mark.parametrize("columns", ["", " (id bigint)", " (id bigint, remark varchar)"])
def test_records_of_an_older_schema_come_after_those_of_a_newer_one(
    registered: Registered, name: str, columns: str
) -> None:
    """The column is made after the newer one, by CREATE TABLE or by tiering, or by its owner."""
    stack, gateway, registry = registered.stack, registered.gateway, registered.registry
    stack.create_topic(name, 1)
    old = record([ID, nullable("note", "string")])
    new = record([ID, nullable("remark", "string", aliases=["note"])])
    send(stack, registry, name, new, {"id": 1, "remark": "a"})
    properties = f"topic = '{name}', format = 'avro', evolution = 'auto'"
    gateway.rows(f"CREATE TABLE {name}{columns} WITH ({properties})")
    send(stack, registry, name, new, {"id": 2, "remark": "b"})
    outcomes(stack, name)
    send(stack, registry, name, old, {"id": 3, "note": "c"})
    send(stack, registry, name, new, {"id": 4, "remark": "d"})
    expected = [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    for tiered in (["rows"], ["idle"]):
        assert both(gateway, f"SELECT * FROM {name} ORDER BY id") == expected
        assert outcomes(stack, name) == tiered


def protobuf(registry: Registry, topic: str, text: str, body: dict[str, Any]) -> bytes:
    file = protobuf_schema.compiled(Schema("PROTOBUF", f'syntax = "proto3"; {text}'))
    make = message_factory.GetMessageClass(file.message_types_by_name["Order"])
    serializer = ProtobufSerializer(make, registry.client, {"use.deprecated.format": False})
    context = SerializationContext(topic, MessageField.VALUE)
    return serializer(json_format.ParseDict(body, make()), context)  # type: ignore[no-any-return]


def described(registry: Registry, topic: str, text: str, body: dict[str, Any]) -> bytes:
    context = SerializationContext(topic, MessageField.VALUE)
    return JSONSerializer(text, registry.client)(body, context)  # type: ignore[no-any-return]


def objects(**properties: Any) -> Any:
    return {"type": "object", "title": "T", "properties": properties}


LARGE, TEXT = {"type": "integer"}, {"type": "string"}
SMALL = {**LARGE, "connect.type": "int32"}
OTHERS = {
    "protobuf": (
        protobuf,
        "message Order { int64 id = 1; repeated Item items = 2; } message Item { int32 n = 1; }",
        "message Order { int64 id = 1; repeated Item items = 2; string note = 3; }"
        " message Item { int64 n = 1; string unit = 2; }",
    ),
    "json_schema": (
        described,
        json.dumps(objects(id=LARGE, items={"type": "array", "items": objects(n=SMALL)})),
        json.dumps(
            objects(
                id=LARGE, items={"type": "array", "items": objects(n=LARGE, unit=TEXT)}, note=TEXT
            )
        ),
    ),
}


@pytest.mark.soak
def test_a_field_of_protobuf_keeps_its_column_by_its_number(
    registered: Registered, name: str
) -> None:
    stack, gateway, registry = registered.stack, registered.gateway, registered.registry
    first = "message Order { int64 id = 1; Item item = 2; } message Item { optional int32 n = 1; }"
    second = first.replace("item = 2", "line = 2").replace("n = 1", "count = 1")
    stack.create_topic(name, 1)
    stack.produce(name, [protobuf(registry, name, first, {"id": 1, "item": {"n": 5}})])
    gateway.rows(f"CREATE TABLE {name} WITH (topic = '{name}', format = 'protobuf')")
    assert outcomes(stack, name) == ["rows"]
    stack.produce(name, [protobuf(registry, name, second, {"id": 2, "line": {"count": 6}})])
    hot = both(gateway, f"SELECT id, item FROM {name} ORDER BY id")
    assert hot == [(1, {"n": 5}), (2, {"n": 6})], "under its present name"
    assert [row["item"] for row in by_splits(gateway, name)] == [{"n": 6}]
    assert outcomes(stack, name) == ["evolved", "rows"]
    stack.produce(name, [protobuf(registry, name, first, {"id": 3, "item": {"n": 7}})])
    gateway.rows(f"INSERT INTO {name} VALUES (4, CAST(ROW(8) AS row(count integer)))")
    expected = [(n, {"count": 4 + n}) for n in (1, 2, 3, 4)]
    stack.wait_for_markers(name)
    for _ in ("hot", "cold"):
        assert both(gateway, f"SELECT id, line FROM {name} ORDER BY id") == expected
        assert "evolved" not in outcomes(stack, name)


@pytest.mark.soak
@pytest.mark.parametrize("format_", list(OTHERS))
def test_other_formats_follow_their_schemas(
    registered: Registered, name: str, format_: str
) -> None:
    stack, gateway, registry = registered.stack, registered.gateway, registered.registry
    write, first, second = OTHERS[format_]
    stack.create_topic(name, 1)
    columns = "id bigint, items array(row(n integer))"
    stack.create_table(name, columns, format=format_, evolution="auto", on_error="skip")
    old, new = {"id": 1, "items": [{"n": 1}]}, {"id": 2, "items": [{"n": 1 << 40, "unit": "kg"}]}
    stack.produce(name, [write(registry, name, first, old)])
    assert both(gateway, f"SELECT * FROM {name}") == [(1, [{"n": 1}])]
    stack.produce(name, [write(registry, name, second, {**new, "note": "x"}), b"\0\0"])
    with gateway.connect() as connection:
        assert refused(connection, f"SELECT * FROM {name}").code.name == "SCHEMA_NOT_EVOLVED"
    assert outcomes(stack, name) == ["evolved", "rows"]
    stack.produce(name, [write(registry, name, second, {**new, "id": 3})])
    null = "" if format_ == "protobuf" else None
    wide = [{"n": 1 << 40, "unit": "kg"}]
    expected = [(1, [{"n": 1, "unit": None}], None), (2, wide, "x"), (3, wide, null)]
    for _ in ("hot", "cold"):
        found = both(gateway, f"SELECT id, items, note FROM {name} ORDER BY id")
        assert found == expected
        stack.tier(name)


@pytest.mark.soak
def test_values_of_several_types_of_json_follow_their_schemas(
    registered: Registered, name: str
) -> None:
    stack, gateway, registry = registered.stack, registered.gateway, registered.registry
    several = {"oneOf": [LARGE, TEXT, objects(x=LARGE)]}
    schemas = [several, LARGE, TEXT, objects(x=LARGE, y=TEXT), {"type": "boolean"}]
    values: list[Any] = [{"x": 1}, 5, "a", {"y": "b"}, True]
    stack.create_topic(name, 1)
    stack.create_table(
        name,
        "id bigint, u row(number bigint, string varchar, object row(x bigint))",
        format="json_schema",
        spellings=("several_types",),
        evolution="auto",
    )
    for id_, (schema, value) in enumerate(zip(schemas, values, strict=True)):
        text = json.dumps(objects(id=LARGE, u=schema))
        stack.produce(name, [described(registry, name, text, {"id": id_, "u": value})])
        if id_ == 2:
            assert len(both(gateway, f"SELECT u FROM {name}")) == 3
            assert outcomes(stack, name) == ["rows"]
    assert set(outcomes(stack, name)) == {"evolved", "rows"}
    nothing = {"number": None, "string": None, "object": None, "boolean": None}
    assert both(gateway, f"SELECT id, u FROM {name} ORDER BY id") == [
        (0, {**nothing, "object": {"x": 1, "y": None}}),
        (1, {**nothing, "number": 5}),
        (2, {**nothing, "string": "a"}),
        (3, {**nothing, "object": {"x": None, "y": "b"}}),
        (4, {**nothing, "boolean": True}),
    ]


@pytest.mark.soak
def test_what_no_column_can_become_stops_its_table_alone(registered: Registered, name: str) -> None:
    stack, gateway, registry = registered.stack, registered.gateway, registered.registry
    stack.create_topic(name, 1)
    number, text = (record([ID, {"name": "v", "type": type_}]) for type_ in ("int", "string"))
    send(stack, registry, name, number, {"id": 1, "v": 1})
    for policy, evolution in (("skip", "auto"), ("null", "manual")):
        stack.create_table(
            f"{name}_{policy}",
            "id bigint, v integer",
            name,
            format="avro",
            on_error=policy,
            evolution=evolution,
        )
    stack.tier(f"{name}_skip")
    before = stack.load(f"{name}_skip").state
    send(stack, registry, name, text, {"id": 2, "v": "x"})
    send(stack, registry, name, number, {"id": 3, "v": 3})
    for engine in ("duckdb", "spark"):
        with gateway.connect(engine=engine) as connection:
            error = refused(connection, f"SELECT * FROM {name}_skip")
        assert error.code.name == "SCHEMA_INCOMPATIBLE", error
        assert "v: its type is integer, and a field of type varchar" in str(error)
    for _ in range(2):
        with pytest.raises(SeamlineError) as caught:
            stack.tier(f"{name}_skip")
        assert caught.value.code.name == "SCHEMA_INCOMPATIBLE"
        now = stack.load(f"{name}_skip").state
        assert (now.snapshots, now.schemas) == (before.snapshots, before.schemas)
    assert both(gateway, f'SELECT * FROM "{name}_skip$cold"') == [(1, 1)]
    assert stack.tier(f"{name}_null")[-1].lag == 0
    assert both(gateway, f"SELECT count(*), count(id) FROM {name}_null") == [(3, 2)]
    gateway.rows(f"ALTER TABLE {name}_skip SET PROPERTIES evolution = 'manual'")
    assert both(gateway, f"SELECT * FROM {name}_skip ORDER BY id") == [(1, 1), (3, 3)]
    assert outcomes(stack, f"{name}_skip") == ["rows"]


def changed(*fields: Any) -> Any:
    row = record(list(fields), "Value")
    return record(
        [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "op", "type": "string"},
        ],
        "Envelope",
    )


@pytest.mark.soak
def test_the_rows_of_captured_changes_follow_their_schema(
    registered: Registered, name: str
) -> None:
    stack, gateway, registry = registered.stack, registered.gateway, registered.registry
    stack.create_topic(name, 1)
    key, note = {"name": "k", "type": "int"}, nullable("note", "string")
    old, new = changed(key), changed({"name": "k", "type": "long"}, note)
    send(stack, registry, name, old, {"after": {"k": 1}, "op": "c"}, {"after": {"k": 2}, "op": "c"})
    gateway.rows(
        f"CREATE TABLE {name} WITH (topic = '{name}', format = 'avro', mode = 'changelog',"
        " envelope = 'debezium', primary_key = ARRAY['k'])"
    )
    assert outcomes(stack, name) == ["rows"]
    gone = {"before": {"k": 2}, "op": "d"}
    more = {"after": {"k": 1 << 40, "note": "b"}, "op": "c"}
    send(stack, registry, name, new, {"after": {"k": 1, "note": "a"}, "op": "u"}, gone, more)
    assert outcomes(stack, name) == ["evolved", "rows"]
    gateway.rows(f"ALTER TABLE {name} ADD COLUMN other varchar")
    gateway.rows(f"ALTER TABLE {name} DROP COLUMN note")
    send(stack, registry, name, new, {"after": {"k": 3, "note": "c"}, "op": "c"})
    expected = [(1, None), (3, None), (1 << 40, None)]
    for tiered in ("rows", "idle"):
        assert both(gateway, f"SELECT * FROM {name} ORDER BY k") == expected
        assert outcomes(stack, name) == [tiered]


@pytest.mark.one_in(prove=2)
@pytest.mark.parametrize("at", [At.PLANNED, At.PROBED])
def test_a_rival_that_changes_the_columns_first(registered: Registered, name: str, at: At) -> None:
    """Before the batch is looked at, or after its first records, which have the first schema."""
    stack, gateway, registry = registered.stack, registered.gateway, registered.registry
    stack.create_topic(name, 1)
    first, second = record([ID]), record([ID, nullable("note", "string")])
    count = 600 if at is At.PROBED else 1
    send(stack, registry, name, first, *({"id": number} for number in range(count)))
    gateway.rows(f"CREATE TABLE {name} WITH (topic = '{name}', format = 'avro')")
    send(stack, registry, name, second, {"id": count, "note": "a"})
    steps: list[Step] = []

    def step(table: TierTable) -> None:
        log = stack.connections.log("default")
        steps.append(tier_once(table, log, no_deadline(), records_max=1000))

    rival = stack.tier_table(name)
    ours = Interrupted(stack.tier_table(name), {at: lambda: step(rival)})
    if at is At.PROBED:
        with pytest.raises(SeamlineError) as caught:
            step(ours)
        assert caught.value.code.name == "COMMIT_CONFLICT"
    else:
        step(ours)
        assert steps.pop().changes == ()
    assert [(step.outcome, len(step.changes)) for step in steps] == [(Outcome.EVOLVED, 1)]
    assert outcomes(stack, name) == ["rows"]
    everything = f"SELECT id, note, _kafka_offset FROM {name} WHERE id >= {count - 1} ORDER BY id"
    assert both(gateway, everything) == [(count - 1, None, count - 1), (count, "a", count)]
    assert len(stack.load(name).state.schemas) == 2
