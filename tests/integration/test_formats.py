"""Goal: a table over any topic answers alike, whoever decodes it, and whether it is hot or cold.

Method: records are produced by Kafka's client, and read hot by DuckDB, hot on Spark, by the Spark
data source's splits, and cold after Spark has tiered them; all must be what was produced.
"""

from __future__ import annotations

import datetime
import json
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format, message_factory
from support.clients import refused, rows
from support.gateway import Gateway, statement_rows
from support.registered import Registered, registered_stack
from support.registry import Registry, silent
from support.stack import Stack
from support.waiting import wait_until

import seamline
from seamline.connectors.kafka.formats import protobuf_schema
from seamline.connectors.kafka.formats.schemas import Schema
from seamline.connectors.spark.splits import Options, Table
from seamline.errors import BAD_RECORD, SeamlineError
from seamline.gateway.tiering.application import TieringApplication
from seamline.gateway.tiering.tables import SparkTables

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.fixture
def connection(gateway: Gateway) -> Iterator[seamline.Connection]:
    with gateway.connect() as made:
        yield made


def read_everywhere(
    stack: Stack, gateway: Gateway, name: str, columns: str
) -> list[tuple[Any, ...]]:
    """The rows, once all ways to read them agree; leaves the table tiered."""
    sql = f"SELECT {columns} FROM {name} ORDER BY 1"
    hot = gateway.rows(sql, "duckdb")
    assert gateway.rows(sql, "spark") == hot
    table = Table.place(Options.of({"url": gateway.url, "table": name}))
    seam = table.seam
    splits = table.hot_splits(seam.hot_ranges, seam.cold.epochs, seam.end, seam.log.end_epochs)
    wanted = [part.strip() for part in columns.split(",")]
    by_source = [
        tuple(_value(row, column) for column in wanted)
        for split in splits
        for batch in split.read()
        for row in batch.to_pylist()
    ]
    assert sorted(by_source, key=lambda row: row[0]) == hot
    stack.tier(name)
    for engine in ("duckdb", "spark"):
        assert gateway.rows(sql, engine) == hot
    return hot


@pytest.mark.soak
def test_columns_come_from_every_part_of_a_record(
    stack: Stack, gateway: Gateway, connection: seamline.Connection, name: str
) -> None:
    stack.create_topic(name, 1)
    rows(
        connection,
        f"CREATE TABLE {name} (id bigint, price double, trace varchar, at timestamp(6),"
        " part integer, kind varchar, n bigint, raw varbinary) WITH ("
        f" topic = '{name}', key_format = 'int64', columns_from = ARRAY['ID = key',"
        " 'trace = header.trace-id', 'at = timestamp', 'part = partition',"
        " 'kind = timestamp_type', 'n = value.of.n', 'raw = value'])",
    )
    value = b'{"price":2.5,"of":{"n":9}}'
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=123_000)
    producer = stack.producer()
    for number in range(3):
        key = number.to_bytes(8, "big")
        headers = [("trace-id", b"t%d" % number)]
        made_at = round(now.timestamp() * 1000)
        producer.produce(name, value, key, headers=headers, timestamp=made_at)
    assert producer.flush(30) == 0
    wanted = "id, price, trace, part, kind, n, raw"
    found = read_everywhere(stack, gateway, name, wanted)
    assert found == [(i, 2.5, f"t{i}", 0, "CreateTime", 9, value) for i in range(3)]
    assert gateway.rows(f"SELECT DISTINCT at FROM {name}") == [(now.replace(tzinfo=None),)]
    ((text,),) = rows(connection, f"SHOW CREATE TABLE {name}")
    assert "columns_from = ARRAY['id = key', 'trace = header.trace-id'," in str(text)
    error = refused(connection, f"ALTER TABLE {name} RENAME COLUMN id TO other")
    assert error.code.name == "INVALID_TABLE_DEFINITION"


@pytest.mark.soak
def test_rows_are_inserted_into_every_part_of_a_record(
    stack: Stack, gateway: Gateway, connection: seamline.Connection, name: str
) -> None:
    stack.create_topic(name, 2)
    stack.create_table(
        name,
        "id bigint, v varchar, trace varchar, place bigint",
        key_format="json",
        columns_from=("id = key.id, trace = header.trace, place = offset",),
    )
    assert rows(connection, f"INSERT INTO {name} VALUES (1, 'a', 't'), (2, NULL, NULL)") == [(2,)]
    assert (
        refused(connection, f"INSERT INTO {name} (place) VALUES (1)").code.name
        == "COLUMN_NOT_FOUND"
    )
    stack.wait_for_markers(name)
    found = read_everywhere(stack, gateway, name, "id, v, trace, _kafka_key")
    assert found == [(1, "a", "t", b'{"id":1}'), (2, None, None, b'{"id":2}')]


@pytest.mark.soak
def test_a_key_of_another_type_is_an_error_by_name(
    stack: Stack, gateway: Gateway, connection: seamline.Connection, name: str
) -> None:
    stack.create_topic(name, 1)
    for policy in ("fail", "null", "skip"):
        stack.create_table(
            f"{name}_{policy}",
            "id bigint, v bigint",
            name,
            key_format="int64",
            columns_from=("id = key",),
            on_error=policy,
        )
    stack.produce(name, [{"v": 1}, {"v": 2}], keys=["12345678", "short"])
    error = refused(connection, f"SELECT * FROM {name}_fail")
    assert error.code.name == "BAD_RECORD"
    assert "partition 0, offset 1: key: id: 5 bytes where int64 is expected" in str(error)
    first = int.from_bytes(b"12345678", "big")
    expected = {"null": [(1, first), (2, None)], "skip": [(1, first)]}
    for policy, wanted in expected.items():
        assert read_everywhere(stack, gateway, f"{name}_{policy}", "v, id") == wanted


DOCUMENTS: dict[str, str] = {
    '{"z": [1.50, -0, 1e3], "a": {"é": null}}': '{"a":{"é":null},"z":[1.50,0,1E+3]}',
    '"x"': '"x"',
    "12345678901234567890123": "12345678901234567890123",
    "null": "null",
    "[ ]": "[]",
}
"""JSON as it is written in a record, and what a column of type json has."""


@pytest.mark.prove
@pytest.mark.usefixtures("tier_engine")
@pytest.mark.parametrize("version", [2, 3])
def test_columns_of_type_json(
    stack: Stack, gateway: Gateway, connection: seamline.Connection, name: str, version: int
) -> None:
    stack.create_topic(name, 1)
    rows(
        connection,
        f"CREATE TABLE {name} (id bigint, doc json, r row(a json, b array(json)),"
        f" m map(varchar, json)) WITH (topic = '{name}', format_version = {version})",
    )
    members = [f'"doc":{d},"r":{{"a":{d},"b":[{d}]}},"m":{{"k":{d}}}' for d in DOCUMENTS]
    stack.produce(name, [f'{{{m},"id":{i}}}'.encode() for i, m in enumerate(members)])
    stack.produce(name, [b'{"id":5}'])
    found = read_everywhere(stack, gateway, name, "id, doc, r")
    assert found == [
        *((i, d, {"a": d, "b": [d]}) for i, d in enumerate(DOCUMENTS.values())),
        (5, None, None),
    ]
    for engine in ("duckdb", "spark"):
        held = gateway.rows(f"SELECT m FROM {name} ORDER BY id", engine)
        assert held == [*(({"k": d},) for d in DOCUMENTS.values()), (None,)]
        for condition, wanted in {
            "doc = JSON 'null'": [3],
            "doc IS NULL": [5],
            "doc = JSON '\"x\"'": [1],
            "json_extract_scalar(doc, '$.z[0]') = '1.50'": [0],
            "json_array_length(m['k']) = 0": [4],
        }.items():
            sql = f"SELECT id FROM {name} WHERE {condition}"
            assert gateway.rows(sql, engine) == [(i,) for i in wanted], (engine, condition)


@pytest.mark.prove
def test_columns_of_type_json_are_added_renamed_and_written(
    stack: Stack, gateway: Gateway, connection: seamline.Connection, name: str
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint, doc json, r row(a json, b array(json))")
    values = """(1, JSON '{"b": 1}', ROW(NULL, ARRAY[JSON '2']))"""
    assert rows(connection, f"INSERT INTO {name} VALUES {values}") == [(1,)]
    error = refused(connection, f"INSERT INTO {name} VALUES (1, NULL, ROW(NULL, ARRAY[NULL]))")
    assert "would be read back as something else" in str(error)
    rows(connection, f"ALTER TABLE {name} RENAME COLUMN doc TO body")
    rows(connection, f"ALTER TABLE {name} ADD COLUMN more row(x json)")
    rows(connection, f"ALTER TABLE {name} ADD COLUMN r.c json")
    stack.produce(name, [b'{"id":2,"doc":{"c":[{}]},"more":{"x":[1]},"r":{"c":{"d":null}}}'])
    stack.wait_for_markers(name)
    assert read_everywhere(stack, gateway, name, "id, body, r, more") == [
        (1, '{"b":1}', {"a": None, "b": ["2"], "c": None}, None),
        (2, '{"c":[{}]}', {"a": None, "b": None, "c": '{"d":null}'}, {"x": "[1]"}),
    ]
    described = {row[0]: row[1] for row in rows(connection, f"DESCRIBE {name}")}
    assert described.items() >= {
        ("body", "json"),
        ("r", "row(a json, b array(json), c json)"),
        ("more", "row(x json)"),
    }
    ((text,),) = rows(connection, f"SHOW CREATE TABLE {name}")
    assert "body json" in str(text)
    rows(connection, f"CREATE TABLE {name}_like (LIKE {name}) WITH (topic = '{name}')")
    assert rows(connection, f"DESCRIBE {name}_like")[1][:2] == ("body", "json")
    error = refused(connection, f"CREATE TABLE {name}_v (v variant) WITH (topic = '{name}')")
    assert error.code.name == "NOT_SUPPORTED"
    stack.produce(name, [b'{"id":3,"doc":{"d":1,"d":2}}'])
    error = refused(connection, f"SELECT * FROM {name}")
    assert error.code.name == "BAD_RECORD"
    assert "body: the key 'd' appears twice" in str(error)


@pytest.mark.prove
def test_json_of_several_types_is_inferred_read_and_tiered(
    stack: Stack, gateway: Gateway, connection: seamline.Connection, name: str
) -> None:
    stack.create_topic(name, 1)
    stack.produce(
        name, [{"id": 1, "u": 5}, {"id": 2, "u": {"x": 0.5}}, {"id": 3, "u": ["a", True]}]
    )
    error = refused(connection, f"CREATE TABLE {name} WITH (topic = '{name}')")
    assert "ARRAY['several_types'] it is a row with a field per type" in str(error)
    spelt = f"WITH (topic = '{name}', spellings = ARRAY['several_types'])"
    rows(connection, f"CREATE TABLE {name} {spelt}")
    items = "array(row(string varchar, boolean boolean))"
    described = {row[0]: row[1] for row in rows(connection, f"DESCRIBE {name}")}
    assert described["u"] == f"row(number bigint, object row(x double), array {items})"
    pair = [{"string": "a", "boolean": None}, {"string": None, "boolean": True}]
    nothing = {"number": None, "object": None, "array": None}
    assert read_everywhere(stack, gateway, name, "id, u") == [
        (1, {**nothing, "number": 5}),
        (2, {**nothing, "object": {"x": 0.5}}),
        (3, {**nothing, "array": pair}),
    ]
    error = refused(connection, f"INSERT INTO {name} VALUES (4, ROW(5, NULL, NULL))")
    assert error.code.name == "INVALID_ARGUMENT"
    error = refused(connection, f"ALTER TABLE {name} SET PROPERTIES spellings = ARRAY['json_text']")
    assert "the spelling several_types cannot be changed" in str(error)


# --- With a schema registry ----------------------------------------------------------------------


def _value(row: dict[str, Any], column: str) -> Any:
    name, _, inner = column.partition(".")
    return row[name] if not inner or row[name] is None else row[name][inner]


@pytest.fixture(scope="module")
def registered(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registered]:
    with registered_stack(stack, tmp_path_factory.mktemp("registered")) as made:
        yield made


Write = Callable[[Registry, str, Any, str], bytes]
"""Serializes what a key or a value holds, with the official client."""

FIELDS = {
    "key": [("id", "long", "int64")],
    "value": [("n", "long", "int64"), ("s", "string", "string")],
}


def avro(registry: Registry, topic: str, body: Any, part: str) -> bytes:
    fields = [{"name": name, "type": type_} for name, type_, _ in FIELDS[part]]
    text = json.dumps({"type": "record", "name": part.title(), "fields": fields})
    context = SerializationContext(topic, part)
    return AvroSerializer(registry.client, text)(body, context)  # type: ignore[no-any-return]


def json_schema(registry: Registry, topic: str, body: Any, part: str) -> bytes:
    text = json.dumps({"type": "object", "title": part.title()})
    context = SerializationContext(topic, part)
    return JSONSerializer(text, registry.client)(body, context)  # type: ignore[no-any-return]


def protobuf(registry: Registry, topic: str, body: Any, part: str) -> bytes:
    fields = "".join(f"{type_} {name} = {n};" for n, (name, _, type_) in enumerate(FIELDS[part], 1))
    text = f'syntax = "proto3"; message {part.title()} {{ {fields} }}'
    file = protobuf_schema.compiled(Schema("PROTOBUF", text))
    make = message_factory.GetMessageClass(file.message_types_by_name[part.title()])
    serializer = ProtobufSerializer(make, registry.client, {"use.deprecated.format": False})
    context = SerializationContext(topic, part)
    return serializer(make(**body), context)  # type: ignore[no-any-return]


def csv(registry: Registry, topic: str, body: Any, part: str) -> bytes:
    return ",".join(f'"{value}"' for value in body.values()).encode()


def string(registry: Registry, topic: str, body: Any, part: str) -> bytes:
    return json.dumps(body).encode() if part == MessageField.VALUE else str(body["id"]).encode()


def json_(registry: Registry, topic: str, body: Any, part: str) -> bytes:
    return json.dumps(body).encode()


BAD = {
    "avro": "it ends too early",
    "csv": "not CSV",
    "json": "not JSON",
    "json_schema": "not JSON",
    "protobuf": "not Protobuf",
    "string": "row(n bigint, s varchar) is expected",
}
BAD_KEY = {**BAD, "string": "bigint is expected"}
WHOLE_KEYS = {"csv", "string"}


@pytest.mark.one_in(prove=12)
@pytest.mark.parametrize("bad", ["value", pytest.param("key", marks=pytest.mark.prove)])
@pytest.mark.parametrize(
    "write",
    [
        avro,
        *(
            pytest.param(w, marks=pytest.mark.prove)
            for w in (json_schema, json_, protobuf, csv, string)
        ),
    ],
)
def test_keys_and_values_of_every_format(
    registered: Registered, name: str, write: Write, bad: str
) -> None:
    stack, gateway, registry = registered.stack, registered.gateway, registered.registry
    format_ = write.__name__.rstrip("_")
    stack.create_topic(name, 1)
    source = "key" if format_ in WHOLE_KEYS else "key.id"
    columns, wanted = "id bigint, n bigint, s varchar", ["id", "n", "s"]
    if write is string:
        columns, wanted = "id bigint, body row(n bigint, s varchar)", ["id", "body.n", "body.s"]
    for policy in ("fail", "null", "skip"):
        stack.create_table(
            f"{name}_{policy}",
            columns,
            name,
            on_error=policy,
            format=format_,
            key_format=format_,
            columns_from=(f"id = {source}",),
        )
    producer = stack.producer()
    for number in range(3):
        key = write(registry, name, {"id": number}, MessageField.KEY)
        value = write(registry, name, {"n": number * 10, "s": "é"}, MessageField.VALUE)
        if number == 1 and bad == "value":
            value = value[:-1]
        elif number == 1:
            key = b"?" if write is string else key[:-1]
        producer.produce(name, value, key)
    assert producer.flush(30) == 0
    with gateway.connect() as connection:
        error = refused(connection, f"SELECT * FROM {name}_fail")
    assert error.code.name == "BAD_RECORD"
    assert "partition 0, offset 1" in str(error)
    assert (BAD if bad == "value" else BAD_KEY)[format_] in str(error)
    found: list[tuple[Any, ...]] = [(0, 0, "é"), (1, None, None), (2, 20, "é")]
    if bad == "key":  # what is good of a record stays
        wanted = [wanted[1], wanted[0], wanted[2]]
        found = [(0, 0, "é"), (10, None, "é"), (20, 2, "é")]
    columns = ", ".join(wanted)
    assert read_everywhere(stack, gateway, f"{name}_null", columns) == found
    assert read_everywhere(stack, gateway, f"{name}_skip", columns) == [found[0], found[2]]


@pytest.mark.one_in(prove=4)
@pytest.mark.parametrize(
    ("format_", "type_", "good", "bad", "wanted"),
    [
        ("int32", "integer", [b"\0\0\0\1", b"\xff\xff\xff\xff"], b"\0\0\1", [-1, 1]),
        ("int64", "bigint", [b"\0" * 7 + b"\2"], b"\0", [2]),
        ("raw", "varbinary", [b"\xff\0", b""], None, [b"", b"\xff\0"]),
        ("string", "varchar", ["é".encode()], b"\xff", ["é"]),
    ],
)
@pytest.mark.prove
def test_values_that_are_one_column(
    stack: Stack,
    gateway: Gateway,
    name: str,
    format_: str,
    type_: str,
    good: list[bytes],
    bad: bytes | None,
    wanted: list[Any],
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(
        name, f"v {type_}", format=format_, on_error="skip", columns_from=("v = value",)
    )
    producer = stack.producer()
    for value in [*good, *([] if bad is None else [bad])]:
        producer.produce(name, value)
    assert producer.flush(30) == 0
    assert read_everywhere(stack, gateway, name, "v") == [(value,) for value in wanted]


@pytest.mark.soak
@pytest.mark.parametrize("write", [avro, protobuf])
def test_rows_are_inserted_with_the_registered_schema(
    registered: Registered, name: str, write: Write
) -> None:
    stack, gateway, registry = registered.stack, registered.gateway, registered.registry
    stack.create_topic(name, 2)
    first = write(registry, name, {"n": 1, "s": "é"}, MessageField.VALUE)
    key = write(registry, name, {"id": 0}, MessageField.KEY)
    stack.create_table(
        name,
        "id bigint, n bigint, s varchar",
        format=write.__name__,
        key_format=write.__name__,
        columns_from=("id = key.id",),
    )
    with gateway.connect() as connection:
        assert rows(connection, f"INSERT INTO {name} VALUES (0, 1, 'é'), (1, 2, '')") == [(2,)]
        assert rows(connection, f"SELECT id, n, s FROM {name} ORDER BY 1") == [
            (0, 1, "é"),
            (1, 2, ""),
        ], "its own write"
        topic = f'"default"."default".{name}'
        sent = rows(connection, f"SELECT _kafka_key, value FROM {topic} ORDER BY 1")
        assert sent[0] == (key, first), "byte by byte what the official client writes"
        error = refused(connection, f"INSERT INTO {name} VALUES (2, 3, 'x'), (3, NULL, 'y')")
        assert error.code.name == "INVALID_ARGUMENT"
        assert "n: null, but the schema has no null there" in str(error)
    stack.wait_for_markers(name)
    found = read_everywhere(stack, gateway, name, "id, n, s")
    assert found == [(0, 1, "é"), (1, 2, "")], "all rows of a statement or none"


TYPES = """
[{"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"}]},
 {"type": "record", "name": "shop.Payment", "fields": [{"name": "id", "type": "long"}]}]
"""
ORDERS = [b"\0" + bytes([2 * id_]) for id_ in range(20)]
PAYMENTS = [b"\2" + bytes([2 * id_]) for id_ in range(20, 30)]


@pytest.mark.prove
def test_a_condition_on_the_type_reads_no_others(
    stack: Stack, gateway: Gateway, name: str, tmp_path: pathlib.Path
) -> None:
    stack.create_topic(name, 1)
    for table, on_error in ((name, "fail"), (f"{name}_kept", "skip")):
        gateway.rows(
            f"CREATE TABLE {table} (id bigint, kind varchar) WITH (topic = '{name}'"
            f", format = 'avro', on_error = '{on_error}', value_schema = '{TYPES}'"
            ", columns_from = ARRAY['kind = value.\"@type\"'])"
        )
    stack.produce(name, ORDERS)
    stack.tier(f"{name}_kept")
    stack.produce(name, [*PAYMENTS, PAYMENTS[0] + b"no payment"])
    stack.tier(f"{name}_kept")
    flags = {**stack.flags, "tail.follow": "false", "limits.duckdb_tail_rows_max": "5"}
    far = Gateway(stack.configured({**flags, "state_directory": str(tmp_path / "far")}))
    flags.pop("limits.duckdb_tail_rows_max")
    direct = Gateway(stack.configured({**flags, "state_directory": str(tmp_path / "direct")}))
    orders = "SELECT id FROM {} WHERE kind = 'shop.Order' AND id >= 5 ORDER BY id"
    sql = orders.format(name)
    rows_ = [(id_,) for id_ in range(5, 20)]
    try:
        statement = direct.statement(sql, "duckdb")
        assert statement_rows(statement) == rows_
        assert statement.receipt is not None
        assert statement.receipt["tables"][0]["tail"]["records_of_other_types"] == 11
        for made, engine in ((gateway, "duckdb"), (gateway, "spark"), (far, "spark")):
            assert made.rows(sql, engine) == rows_
        for made in (gateway, direct):
            plan = "\n".join(line for (line,) in made.rows(f"EXPLAIN {sql}"))
            assert "records of types with kind = 'shop.Order'" in plan
        kept = orders.format(f"{name}_kept")
        assert gateway.rows(kept) == rows_
        plan = "\n".join(line for (line,) in gateway.rows(f"EXPLAIN {kept}"))
        assert ", 20 of 30 rows, " in plan  # files of payments only are not read

        for condition in ("TRUE", "kind <> 'shop.Order'", "kind IS NULL"):
            fails(f"SELECT id FROM {name} WHERE {condition}", gateway, direct)
        stack.produce(name, [b"\x7f"])  # of no type
        fails(sql, gateway, direct)
    finally:
        far.close()
        direct.close()


def fails(sql: str, *gateways: Gateway) -> None:
    for gateway in gateways:
        with pytest.raises(SeamlineError) as caught:
            gateway.rows(sql)
        assert caught.value.code is BAD_RECORD


def test_a_registry_that_is_gone_is_an_error_by_name(
    stack: Stack, name: str, tmp_path: pathlib.Path
) -> None:
    stack.create_topic(name, 1)
    with Registry() as registry:
        flags = {
            **stack.flags,
            "clusters.default.schema_registry.url": registry.url,
            "state_directory": str(tmp_path),
        }
        gateway = Gateway(stack.configured(flags))
        sql = f"CREATE TABLE {name} (n bigint, s varchar) WITH (topic = '{name}', format = 'avro')"
        gateway.rows(sql)
        stack.produce(name, [avro(registry, name, {"n": 1, "s": "x"}, MessageField.VALUE)])
        assert gateway.rows(f"SELECT n FROM {name}") == [(1,)]
        other = registry.register(
            "other", json.dumps({"type": "record", "name": "O", "fields": []})
        )
    stack.produce(name, [b"\0" + other.to_bytes(4, "big")])
    with gateway.connect() as connection:
        error = refused(connection, f"SELECT n FROM {name}")
    assert error.code.name == "SCHEMA_REGISTRY_UNAVAILABLE"
    gateway.close()


@pytest.mark.soak
def test_a_registry_that_hangs_holds_nobody_up(
    stack: Stack, name: str, tmp_path: pathlib.Path
) -> None:
    other = f"{name}_other"
    for topic in (name, other):
        stack.create_topic(topic, 1)
    with silent() as url:
        flags = {
            **stack.flags,
            "clusters.default.schema_registry.url": url,
            "state_directory": str(tmp_path),
        }
        config = stack.configured(flags)
        gateway = Gateway(config)
        gateway.rows(
            f"CREATE TABLE {name} (n bigint, s varchar) WITH (topic = '{name}', format = 'avro')"
        )
        gateway.rows(f"CREATE TABLE {other} (n bigint) WITH (topic = '{other}')")
        stack.produce(name, [b"\0\0\0\0\1x"])
        for engine in ("duckdb", "spark"):
            ended = gateway.statement(f"SELECT n FROM {name}", engine, timeout_s=2.0).error
            assert ended is not None
            assert ended.code.name == "DEADLINE_EXCEEDED"
        application = TieringApplication(
            SparkTables(gateway.parts.connections, stack.spark), records_max=1000
        )
        pipeline = threading.Thread(
            target=application.run,
            args=([stack.resolve(name), stack.resolve(other)],),
            kwargs={"interval_s": 0.05, "report": lambda *_: None},
        )
        pipeline.start()
        hung, fine = (f"lake.default.{table}" for table in (name, other))
        for number in range(3):
            stack.produce(other, [{"n": number}])
            end = number + 1
            wait_until(lambda: application.progress[fine].offsets == end, what="the other table")  # noqa: B023
        failed = application.progress[hung]
        wait_until(lambda: failed.last_error is not None, what="the table without its schema")
        assert failed.last_error is not None
        assert failed.last_error.code.name == "SCHEMA_REGISTRY_UNAVAILABLE"
        assert application.progress[fine].errors == {}
        application.stop()
        pipeline.join(60)
        gateway.close()


PLACE = {
    "type": "record",
    "name": "Place",
    "fields": [
        {"name": "at", "type": ["null", {"type": "array", "items": "double"}]},
        {"name": "on", "type": {"type": "int", "logicalType": "date"}},
        {"name": "raw", "type": "bytes"},
    ],
}
SEVERAL = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "doc", "type": ["null", "string", "long", PLACE]},
    ],
}
LEAP_DAY = datetime.date(2024, 2, 29)
OF_AVRO: list[tuple[Any, Any]] = [
    ("5", "5"),
    (2**53 + 1, 2**53 + 1),
    (
        {"at": [0.5, -1.0], "on": LEAP_DAY, "raw": b"\xff"},
        {"at": [0.5, -1.0], "on": "2024-02-29", "raw": "/w=="},
    ),
    ({"at": None, "on": LEAP_DAY, "raw": b""}, {"at": None, "on": "2024-02-29", "raw": ""}),
    (None, None),
]
"""What a record has, and what its JSON means."""
MESSAGES = """
syntax = "proto3"; package shop;
import "google/protobuf/any.proto"; import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
message R { int32 id = 1; Doc doc = 2; }
message Doc { google.protobuf.Any any = 1; google.protobuf.Struct s = 2; repeated E e = 3;
  map<string, Doc> inner = 4; optional google.protobuf.Timestamp at = 5; bytes raw = 6; }
enum E { A = 0; B = 1; }
"""
OF_PROTOBUF: list[dict[str, Any]] = [
    {"any": {"@type": "x/shop.R", "id": 7}, "e": ["B", "A"], "raw": "/w=="},
    {"s": {"k": [1.5, None]}, "inner": {"k": {"at": "2024-02-29T01:02:03.500Z"}}},
    {},
]


@pytest.mark.prove
@pytest.mark.usefixtures("tier_engine")
def test_json_of_avro(registered: Registered, name: str) -> None:
    serializer = AvroSerializer(registered.registry.client, json.dumps(SEVERAL))
    context = SerializationContext(name, MessageField.VALUE)
    bodies = [{"id": i, "doc": doc} for i, (doc, _) in enumerate(OF_AVRO)]
    rows_ = json_everywhere(registered, name, "avro", [serializer(b, context) for b in bodies])
    for (id_, doc, body), (_, means) in zip(rows_, OF_AVRO, strict=True):
        assert (doc is None) == (means is None)
        assert json.loads(doc or "null") == means
        assert json.loads(body) == {"id": id_, "doc": means}


@pytest.mark.prove
@pytest.mark.usefixtures("tier_engine")
def test_json_of_protobuf(registered: Registered, name: str) -> None:
    file = protobuf_schema.compiled(Schema("PROTOBUF", MESSAGES))
    make = message_factory.GetMessageClass(file.message_types_by_name["R"])
    made = [
        json_format.ParseDict({"id": i, "doc": doc}, make(), descriptor_pool=file.pool)
        for i, doc in enumerate(OF_PROTOBUF)
    ]
    made.append(make(id=len(made)))
    settings = {"use.deprecated.format": False, "skip.known.types": True}
    serializer = ProtobufSerializer(make, registered.registry.client, settings)
    context = SerializationContext(name, MessageField.VALUE)
    rows_ = json_everywhere(registered, name, "protobuf", [serializer(m, context) for m in made])
    for (id_, doc, body), message in zip(rows_, made, strict=True):
        assert (doc is None) == (not message.HasField("doc"))
        for text in (body, f'{{"id": {id_}, "doc": {doc or "null"}}}'):
            assert json_format.Parse(text, make(), descriptor_pool=file.pool) == message


def json_everywhere(
    registered: Registered, name: str, format_: str, values: list[bytes | None]
) -> list[tuple[Any, ...]]:
    """The id, a field of type json and the whole value as json, of each value."""
    stack, gateway = registered.stack, registered.gateway
    stack.create_topic(name, 1)
    gateway.rows(
        f"CREATE TABLE {name} (id bigint, doc json, body json) WITH (topic = '{name}'"
        f", format = '{format_}', columns_from = ARRAY['body = value'])"
    )
    stack.produce(name, values)
    rows_ = read_everywhere(stack, gateway, name, "id, doc, body")
    for engine in ("duckdb", "spark"):
        sql = f"SELECT json_extract_scalar(body, '$.id') FROM {name} WHERE doc IS NULL"
        assert gateway.rows(sql, engine) == [(str(len(values) - 1),)]
    return rows_


UNION = """
{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"},
 {"name": "u", "type": ["null", "string", "long", {"type": "array", "items": ["int", "boolean"]},
  {"type": "record", "name": "shop.Place", "fields": [{"name": "at", "type": ["double", "string"]}]}
 ]}]}
"""


@pytest.mark.soak
def test_unions_are_inserted_read_and_tiered(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 1)
    said = f"topic = '{name}', format = 'avro', value_schema = '{UNION}'"
    with gateway.connect() as connection:
        rows(connection, f"CREATE TABLE {name} WITH ({said})")
        rows(
            connection,
            f"INSERT INTO {name} VALUES (1, row('x', NULL, NULL, NULL)), (2, NULL),"
            " (3, row(NULL, 5, NULL, NULL)), (4, row(NULL, NULL, NULL, row(row(NULL, 'y')))),"
            " (5, row(NULL, NULL, ARRAY[row(7, NULL), row(NULL, true)], NULL))",
        )
        error = refused(connection, f"INSERT INTO {name} VALUES (6, row('x', 5, NULL, NULL))")
        assert "u: 2 of its fields have a value, instead of one" in str(error)
    stack.wait_for_markers(name)
    read_everywhere(stack, gateway, name, "id, u")
    sql = f"SELECT id, u.string, u.long, u.Place.at.string, u IS NULL FROM {name} ORDER BY 1"
    for engine in ("duckdb", "spark"):
        assert gateway.rows(sql, engine) == [
            (1, "x", None, None, False),
            (2, None, None, None, True),
            (3, None, 5, None, False),
            (4, None, None, "y", False),
            (5, None, None, None, False),
        ]
    json_ = f"SELECT json_format(CAST(u AS json)) FROM {name} WHERE id = 5"
    (text,) = gateway.rows(json_, "duckdb")[0]
    assert '[{"int":7,"boolean":null},{"int":null,"boolean":true}]' in text
