"""Goal: whatever becomes of a schema, columns follow, and records read as its library reads them.

Method: random histories of a schema, each step a field added, widened, renamed or dropped at any
depth. After each step the columns are changed as tiering changes them, by PyIceberg. In the end all
records of the history are decoded. The judge is given a reader's schema that has every field there
ever was: fastavro, and for Protobuf, where a field is its number, Google's library. On the way, a
read before the columns have changed gives what it gives after that, as far as it has columns, or
says that it cannot.
"""

from __future__ import annotations

import dataclasses
import decimal
import io
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import fastavro
import pytest
from google.protobuf import json_format, message_factory
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from support.schema_histories import History, decimals

from seamline.connectors.iceberg.schema_changes import (
    apply_changes,
    named_mapping,
    text_of,
    with_former_names,
)
from seamline.connectors.iceberg.type_conversion import table_schema, to_schema
from seamline.connectors.kafka.formats import protobuf_schema, trees
from seamline.connectors.kafka.formats.avro_schema import parsed
from seamline.connectors.kafka.formats.avro_values import avro_values
from seamline.connectors.kafka.formats.infer_schema import Found
from seamline.connectors.kafka.formats.protobuf_values import ProtobufValues
from seamline.connectors.kafka.formats.schemas import Earlier, Schema
from seamline.connectors.kafka.formats.watching import SchemaWatch
from seamline.errors import SCHEMA_NOT_EVOLVED, SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.seam.evolution import Watch, WidenColumn, changes
from seamline.seam.records import DecoderSpec
from seamline.sql.types import Array, Field, Map, Row, Type

# --- A table that follows ------------------------------------------------------------------------


class Table:
    """An Iceberg table's metadata, which PyIceberg changes and nobody commits."""

    def __init__(self, columns: Sequence[Field]) -> None:
        schema = to_schema(tuple(columns))
        metadata = new_table_metadata(
            schema=schema,
            partition_spec=UNPARTITIONED_PARTITION_SPEC,
            sort_order=UNSORTED_SORT_ORDER,
            location="file:///nowhere",
        )
        mapping = text_of(named_mapping(metadata.schema(), columns))
        named = {TableProperties.DEFAULT_NAME_MAPPING: mapping}
        metadata = metadata.model_copy(update={"properties": named})
        table = IcebergTable(("t",), metadata, "", load_file_io(), NoopCatalog("none"))
        self._transaction = table.transaction()

    @property
    def columns(self) -> tuple[Field, ...]:
        metadata = self._transaction.table_metadata
        return table_schema(metadata.schema(), metadata.name_mapping()).columns

    def needs(self, schema: Schema, earlier: Earlier = tuple) -> tuple[Any, ...]:
        return changes(self.columns, trees.record_of(tree_of(schema, earlier)))

    def follow(self, schema: Schema, earlier: Earlier = tuple) -> None:
        needed = self.needs(schema, earlier)
        with self._transaction.update_schema() as update:
            apply_changes(update, needed)
        metadata = self._transaction.table_metadata
        mapping = metadata.name_mapping()
        assert mapping is not None
        mapping = with_former_names(mapping, metadata.schema(), needed)
        self._transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: text_of(mapping)})


def tree_of(schema: Schema, earlier: Earlier) -> trees.Node:
    if schema.kind == "AVRO":
        return parsed(schema)
    message = protobuf_schema.message_at(protobuf_schema.compiled(schema), [0])
    node = protobuf_schema.tree_of(message)
    protobuf_schema.add_former_names(node, message, earlier())
    return node


def decoded(schema: Schema, columns: tuple[Field, ...], value: bytes, **more: Any) -> Any:
    decoder = (
        avro_values(schema, columns, whole=False, **more)
        if schema.kind == "AVRO"
        else ProtobufValues(schema, columns, whole=False, **more)
    )
    arrays, bad = decoder.decode([value])
    assert not bad, bad
    found = {c.name: array[0].as_py() for c, array in zip(columns, arrays, strict=True)}
    return plain(found, Row(columns))


def plain(value: Any, type_: Type) -> Any:
    """A value as fastavro gives it: maps are dicts."""
    match type_:
        case _ if value is None:
            return None
        case Row(fields):
            return {field.name: plain(value[field.name], field.type) for field in fields}
        case Array(element):
            return [plain(item, element) for item in value]
        case Map(_, inner):
            return {key: plain(item, inner) for key, item in dict(value).items()}
    return value


def shown(value: Any, type_: Type, later: Type) -> Any:
    """What of a value a table shows whose columns were others, by the ids of its fields."""
    match type_, later:
        case _ if value is None:
            return None
        case Row(fields), Row(evolved):
            by_id = {field.field_id: field for field in evolved}
            pairs = [(field, by_id[field.field_id]) for field in fields]
            return {now.name: shown(value[to.name], now.type, to.type) for now, to in pairs}
        case Array(element), Array(inner):
            return [shown(item, element, inner) for item in value]
        case Map(_, held), Map(_, inner):
            return {key: shown(item, held, inner) for key, item in value.items()}
    return value


SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.prove) for seed in range(8, 24))]
"""Of histories; most are among the long proofs."""


def written(schema: Any, body: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), body)
    return stream.getvalue()


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("seed", SEEDS)
def test_columns_follow_any_history(seed: int) -> None:
    history = History(seed)
    table = Table(inferred(as_schema(history.root.avro(everything=False))))
    log: list[tuple[Any, bytes]] = []
    for number in range(8):
        if number:
            history.step()
        avro = history.root.avro(everything=False)
        schema = as_schema(avro)
        values = [written(avro, history.root.value(history.chance)) for _ in range(2)]
        before = table.columns
        needed = table.needs(schema)
        table.follow(schema)
        assert table.needs(schema) == ()
        check_reads_before(schema, before, table.columns, values, needed)
        log += [(avro, value) for value in values]
    for avro, _ in log:
        assert table.needs(as_schema(avro)) == (), "a schema from before changes nothing"
    reader = fastavro.parse_schema(history.root.avro(everything=True))
    for avro, value in log:
        writer = fastavro.parse_schema(avro)
        expected = fastavro.schemaless_reader(io.BytesIO(value), writer, reader)
        assert decoded(as_schema(avro), table.columns, value) == expected


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("seed", SEEDS)
def test_schemas_may_be_met_in_any_order(seed: int) -> None:
    """As where producers are of several versions: a newer one may be the first that is met."""
    history = History(seed)
    log: list[tuple[Any, bytes]] = []
    for number in range(8):
        if number:
            history.step()
        avro = history.root.avro(everything=False)
        log += [(avro, written(avro, history.root.value(history.chance))) for _ in range(2)]
    met = [avro for avro, _ in log]
    history.chance.shuffle(met)
    table = Table(inferred(as_schema(met[0])))
    for avro in met:
        schema = as_schema(avro)
        table.follow(schema)
        assert table.needs(schema) == ()
    for avro, _ in log:
        assert table.needs(as_schema(avro)) == (), "all of them are met"
    reader = fastavro.parse_schema(history.root.avro(everything=True))
    for avro, value in log:
        writer = fastavro.parse_schema(avro)
        expected = fastavro.schemaless_reader(io.BytesIO(value), writer, reader)
        assert decoded(as_schema(avro), table.columns, value) == expected


def inferred(schema: Schema, earlier: Earlier = tuple) -> tuple[Field, ...]:
    """The columns of a table that is made after a schema."""
    return Found(tree_of(schema, earlier), "the schema").columns


def check_reads_before(
    schema: Schema,
    before: tuple[Field, ...],
    after: tuple[Field, ...],
    values: Sequence[bytes],
    needed: Sequence[Any],
    **more: Any,
) -> None:
    spec = DecoderSpec("t", "avro", "fail", before, watch=Watch())
    for value in values:
        try:
            found = decoded(schema, before, value, watch=SchemaWatch(spec), **more)
        except SeamlineError as error:
            assert error.code is SCHEMA_NOT_EVOLVED
            assert any(isinstance(change, WidenColumn) for change in needed)
        else:
            assert found == shown(decoded(schema, after, value, **more), Row(before), Row(after))
    if needed:
        tiering = SchemaWatch(dataclasses.replace(spec, watch=Watch(is_tiering=True)))
        with pytest.raises(SeamlineError) as caught:
            decoded(schema, before, values[0], watch=tiering, **more)
        assert caught.value.code is SCHEMA_NOT_EVOLVED
        assert tiering.needed == tuple(needed)


# --- Protobuf, where a field is its number -------------------------------------------------------


@dataclasses.dataclass
class Part:
    """A field of a message, with the names it had; its present one is the last."""

    number: int
    names: list[str]
    label: str
    type: Any
    is_there: bool = True


@dataclasses.dataclass
class Message:
    """A message, with every field it ever had."""

    name: str
    parts: list[Part] = dataclasses.field(default_factory=list)

    def text(self, *, everything: bool) -> str:
        lines = []
        for part in self.parts:
            if part.is_there or everything:
                is_message = isinstance(part.type, Message)
                type_ = part.type.name if is_message else part.type
                label = f"map<string, {type_}>" if part.label == "map" else f"{part.label} {type_}"
                lines.append(f"{label} {part.names[-1]} = {part.number};")
                if is_message:
                    lines.append(part.type.text(everything=everything))
        return f"message {self.name} {{ {' '.join(lines)} }}"

    def value(self, chance: random.Random) -> dict[str, Any]:
        found = {}
        for part in self.parts:
            if part.is_there and chance.random() < 0.8:
                items = [_part_value(part.type, chance) for _ in range(chance.randint(1, 2))]
                of_label = {"optional": items[0], "repeated": items}
                found[part.names[-1]] = of_label.get(part.label, {"a": items[0]})
        return found

    def said(self, message: Any) -> dict[str, Any]:
        """What Google's library reads, as `emptied` values."""
        found: dict[str, Any] = {}
        for part in self.parts:
            name = part.names[-1]
            value = getattr(message, name)
            read = part.type.said if isinstance(part.type, Message) else lambda item: item
            match part.label:
                case "optional":
                    found[name] = read(value) if message.HasField(name) else None
                case "repeated":
                    found[name] = [read(item) for item in value] or None
                case _:
                    found[name] = {key: read(value[key]) for key in value} or None
        return found


def _part_value(type_: Any, chance: random.Random) -> Any:
    if isinstance(type_, Message):
        return type_.value(chance)
    if type_ == "string":
        return chance.choice(["", "a", "é"])
    bits = 31 if type_ == "int32" else 63
    return chance.randint(-(2**bits), 2**bits - 1)


def emptied(value: Any) -> Any:
    """A value in which lists and maps without anything are null, as fields that were not there."""
    match value:
        case dict():
            return {name: emptied(item) for name, item in value.items()} or None
        case list():
            return [emptied(item) for item in value] or None
    return value


class MessageHistory:
    """Makes Protobuf schemas and changes them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._numbers = itertools.count(1)
        self.root = self._message(0)

    def _message(self, depth: int) -> Message:
        made = Message(f"M{next(self._numbers)}")
        for _ in range(self.chance.randint(1, 3)):
            self._add(made, depth)
        return made

    def _add(self, message: Message, depth: int) -> None:
        kinds = ["int32", "int64", "string"] + ["message"] * (depth < 2)
        kind: Any = self.chance.choice(kinds)
        label = self.chance.choice(["optional", "repeated", "map"])
        number = next(self._numbers)
        type_ = self._message(depth + 1) if kind == "message" else kind
        place = self.chance.randint(0, len(message.parts))
        message.parts.insert(place, Part(number, [f"f{number}"], label, type_))

    def step(self) -> None:
        message = self.chance.choice(list(messages_in(self.root)))
        there = [part for part in message.parts if part.is_there]
        part = self.chance.choice(there)
        match self.chance.choice(["add", "widen", "rename", "rename", "drop"]):
            case "widen" if part.type == "int32":
                part.type = "int64"
            case "rename":
                part.names.append(f"f{next(self._numbers)}")
            case "drop" if len(there) > 1:
                part.is_there = False
            case _:
                self._add(message, 1)

    def schema(self, *, everything: bool = False) -> Schema:
        text = self.root.text(everything=everything)
        return Schema("PROTOBUF", f'syntax = "proto3"; {text}')


def messages_in(message: Message) -> Iterator[Message]:
    yield message
    for part in message.parts:
        if part.is_there and isinstance(part.type, Message):
            yield from messages_in(part.type)


def class_of(schema: Schema) -> Any:
    file = protobuf_schema.compiled(schema)
    return message_factory.GetMessageClass(protobuf_schema.message_at(file, [0]))


@pytest.mark.one_in(test=9, prove=12)
@pytest.mark.parametrize("seed", SEEDS)
def test_columns_follow_the_numbers_of_fields(seed: int) -> None:
    history = MessageHistory(seed)
    versions = [history.schema()]
    table = Table(inferred(versions[0]))
    log: list[tuple[Schema, Earlier, bytes]] = []
    for number in range(7):
        if number:
            history.step()
            versions.append(history.schema())
        schema, before = versions[-1], table.columns
        earlier = _known(versions[-2::-1])
        make = class_of(schema)
        bodies = [history.root.value(history.chance) for _ in range(2)]
        values = [json_format.ParseDict(body, make()).SerializeToString() for body in bodies]
        needed = table.needs(schema, earlier)
        table.follow(schema, earlier)
        assert table.needs(schema, earlier) == ()
        check_reads_before(schema, before, table.columns, values, needed, earlier=earlier)
        log += [(schema, earlier, value) for value in values]
    for schema, earlier, _ in log:
        assert table.needs(schema, earlier) == (), "a schema from before changes nothing"
    reader = class_of(history.schema(everything=True))
    for schema, earlier, value in log:
        found = decoded(schema, table.columns, value, earlier=earlier)
        assert emptied(found) == emptied(history.root.said(reader.FromString(value)))


@pytest.mark.one_in(test=4)
@pytest.mark.parametrize("seed", SEEDS)
def test_versions_of_messages_may_be_met_in_any_order(seed: int) -> None:
    history = MessageHistory(seed)
    versions: list[Schema] = []
    log: list[tuple[int, bytes]] = []
    for number in range(7):
        if number:
            history.step()
        versions.append(history.schema())
        body = history.root.value(history.chance)
        message = json_format.ParseDict(body, class_of(versions[-1])())
        log.append((number, message.SerializeToString()))
    met = list(range(len(versions)))
    history.chance.shuffle(met)
    before = [_known(versions[:number][::-1]) for number in met]
    table = Table(inferred(versions[met[0]], before[0]))
    for number, earlier in zip(met, before, strict=True):
        table.follow(versions[number], earlier)
    for number, earlier in zip(met, before, strict=True):
        assert table.needs(versions[number], earlier) == (), "all of them are met"
    reader = class_of(history.schema(everything=True))
    for number, value in log:
        earlier = _known(versions[:number][::-1])
        found = decoded(versions[number], table.columns, value, earlier=earlier)
        assert emptied(found) == emptied(history.root.said(reader.FromString(value)))


def _known(versions: Sequence[Schema]) -> Earlier:
    return lambda: versions


def test_a_name_that_another_field_has_by_now_is_no_former_one() -> None:
    texts = ("int32 a = 1;", "int32 b = 1; int32 a = 2;")
    first, second = (
        Schema("PROTOBUF", f'syntax = "proto3"; message M {{ {text} }}') for text in texts
    )
    table = Table(inferred(first))
    assert [str(change) for change in table.needs(second, lambda: (first,))] == ["b integer is new"]


# -------------------------------------------------------------------------------------------------


def as_schema(avro: Any) -> Schema:
    return Schema("AVRO", json.dumps(avro))


LEAVES: list[tuple[Any, Any]] = [
    ("boolean", True),
    ("int", 5),
    ("long", 5),
    ("float", 1.5),
    ("double", 1.5),
    ("string", "é"),
    ("bytes", b"x"),
    *((decimals(precision), decimal.Decimal("1.50")) for precision in (4, 9)),
    *(
        ({"type": base, "logicalType": logical}, 5)
        for base, logical in (
            *(("int", "date"), ("int", "time-millis"), ("long", "time-micros")),
            *(("long", "timestamp-millis"), ("long", "local-timestamp-micros")),
        )
    ),
    ({"type": "array", "items": "int"}, [1]),
    ({"type": "map", "values": "int"}, {"a": 1}),
    ({"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}, {"x": 1}),
]
TYPES = (
    *("boolean", "integer", "bigint", "real", "double", "varchar", "varbinary", "date", "uuid"),
    *("timestamp(6)", "timestamp(6) with time zone", "decimal(4, 2)", "decimal(20, 2)"),
    *("array(integer)", "map(varchar, integer)", "row(x integer)", "array(varchar)"),
)


@pytest.mark.parametrize("type_", TYPES)
def test_what_is_refused_could_not_be_read(type_: str) -> None:
    columns = parse_fields(f"a {type_}")
    for leaf, value in LEAVES:
        avro = {"type": "record", "name": "R", "fields": [{"name": "a", "type": leaf}]}
        plain_leaf = leaf["type"] if isinstance(value, int) and isinstance(leaf, dict) else leaf
        raw = {"type": "record", "name": "R", "fields": [{"name": "a", "type": plain_leaf}]}
        schema = as_schema(avro)
        _, bad = avro_values(schema, columns, whole=False).decode([written(raw, {"a": value})])
        try:
            changes(columns, trees.record_of(parsed(schema)))
        except SeamlineError:
            assert bad, (leaf, type_)
