"""Goal: whatever becomes of a schema, the columns follow, and every record reads as in Avro.

Method: random histories of a schema, each step a field added, widened, renamed or dropped at any
depth. After each step the columns are changed as tiering changes them, by PyIceberg. In the end all
records of the history are decoded, and fastavro, given a reader's schema that has every field there
ever was, is the judge. On the way, a read before the columns have changed gives what it gives after
that, as far as it has columns, or says that it cannot.
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
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from seamline.connectors.iceberg.schema_changes import apply_changes
from seamline.connectors.iceberg.types import table_schema, to_schema
from seamline.connectors.kafka.formats import trees
from seamline.connectors.kafka.formats.avro_schema import parsed
from seamline.connectors.kafka.formats.avro_values import avro_values
from seamline.connectors.kafka.formats.schemas import Schema
from seamline.connectors.kafka.formats.watching import SchemaWatch
from seamline.errors import SCHEMA_NOT_EVOLVED, SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.seam.evolution import Watch, WidenColumn, changes
from seamline.seam.records import DecoderSpec
from seamline.sql.types import Array, Field, Map, Row, Type

# --- A schema with its history -------------------------------------------------------------------


@dataclasses.dataclass
class Leaf:
    """A type without others in it."""

    kind: Any

    def avro(self, everything: bool) -> Any:
        return self.kind

    def value(self, chance: random.Random) -> Any:
        match self.kind:
            case "int" | "long":
                bits = 31 if self.kind == "int" else 63
                return chance.randint(-(2**bits), 2**bits - 1)
            case "float":
                return float(chance.randint(-100, 100)) / 4
            case "double":
                return chance.random()
            case "string":
                return chance.choice(["", "a", "é"])
        digits = 10 ** self.kind["precision"] - 1
        return decimal.Decimal(chance.randint(-digits, digits)).scaleb(-2)

    @property
    def wider(self) -> Any:
        match self.kind:
            case "int":
                return "long"
            case "float":
                return "double"
            case {"precision": int(digits)} if digits < 36:
                return decimals(digits + 2)
        return None


def decimals(precision: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}


@dataclasses.dataclass
class Nested:
    """An array or a map."""

    kind: str
    inner: Any

    def avro(self, everything: bool) -> Any:
        word = "items" if self.kind == "array" else "values"
        return {"type": self.kind, word: self.inner.avro(everything)}

    def value(self, chance: random.Random) -> Any:
        values = [self.inner.value(chance) for _ in range(chance.randint(0, 2))]
        return values if self.kind == "array" else {f"k{i}": v for i, v in enumerate(values)}


@dataclasses.dataclass
class Member:
    """A field, with the names it had; its present one is the last."""

    names: list[str]
    type: Any
    is_there: bool = True


@dataclasses.dataclass
class Record:
    """A record, with every field it ever had."""

    name: str
    members: list[Member]

    def avro(self, everything: bool) -> Any:
        fields = [
            {
                "name": member.names[-1],
                "type": ["null", member.type.avro(everything)],
                "default": None,
                "aliases": member.names[:-1],
            }
            for member in self.members
            if member.is_there or everything
        ]
        return {"type": "record", "name": self.name, "fields": fields}

    def value(self, chance: random.Random) -> Any:
        return {
            m.names[-1]: m.type.value(chance) if chance.random() < 0.8 else None
            for m in self.members
            if m.is_there
        }


def records_in(type_: Any) -> Iterator[Record]:
    if isinstance(type_, Nested):
        yield from records_in(type_.inner)
    elif isinstance(type_, Record):
        yield type_
        for member in type_.members:
            if member.is_there:
                yield from records_in(member.type)


class History:
    """Makes schemas and changes them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._numbers = itertools.count()
        self.root = self._record(0)

    def step(self) -> None:
        record = self.chance.choice(list(records_in(self.root)))
        there = [member for member in record.members if member.is_there]
        member = self.chance.choice(there)
        match self.chance.choice(["add", "widen", "rename", "drop"]):
            case "widen" if (wider := _leaf_of(member.type)) is not None and wider.wider:
                wider.kind = wider.wider
            case "rename":
                member.names.append(self._name())
            case "drop" if len(there) > 1:
                member.is_there = False
            case _:
                place = self.chance.randint(0, len(record.members))
                record.members.insert(place, Member([self._name()], self._type(1)))

    def _name(self) -> str:
        return f"f{next(self._numbers)}"

    def _record(self, depth: int) -> Record:
        members = [
            Member([self._name()], self._type(depth)) for _ in range(self.chance.randint(1, 4))
        ]
        return Record(f"R{next(self._numbers)}", members)

    def _type(self, depth: int) -> Any:
        kind = self.chance.choice(["leaf", "leaf", "record", "array", "map"])
        if kind == "leaf" or depth > 2:
            leaves = ["int", "long", "float", "double", "string", decimals(6)]
            return Leaf(self.chance.choice(leaves))
        if kind == "record":
            return self._record(depth + 1)
        return Nested(kind, self._type(depth + 1))


def _leaf_of(type_: Any) -> Leaf | None:
    while isinstance(type_, Nested):
        type_ = type_.inner
    return type_ if isinstance(type_, Leaf) else None


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
        mapping = metadata.schema().name_mapping.model_dump_json()
        named = {TableProperties.DEFAULT_NAME_MAPPING: mapping}
        metadata = metadata.model_copy(update={"properties": named})
        table = IcebergTable(("t",), metadata, "", load_file_io(), NoopCatalog("none"))
        self._transaction = table.transaction()

    @property
    def columns(self) -> tuple[Field, ...]:
        metadata = self._transaction.table_metadata
        return table_schema(metadata.schema(), metadata.name_mapping()).columns

    def needs(self, schema: Schema) -> tuple[Any, ...]:
        return changes(self.columns, trees.record_of(parsed(schema)))

    def follow(self, schema: Schema) -> None:
        with self._transaction.update_schema() as update:
            apply_changes(update, self.needs(schema))


def decoded(schema: Schema, columns: tuple[Field, ...], value: bytes, **more: Any) -> Any:
    arrays, bad = avro_values(schema, columns, whole=False, **more).decode([value])
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


def written(schema: Any, body: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), body)
    return stream.getvalue()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_columns_follow_any_history(seed: int) -> None:
    history = History(seed)
    columns = trees.columns_of(parsed(as_schema(history.root.avro(everything=False))))
    table = Table(columns)
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


def check_reads_before(
    schema: Schema,
    before: tuple[Field, ...],
    after: tuple[Field, ...],
    values: Sequence[bytes],
    needed: Sequence[Any],
) -> None:
    spec = DecoderSpec("t", "avro", "fail", before, watch=Watch())
    for value in values:
        try:
            found = decoded(schema, before, value, watch=SchemaWatch(spec))
        except SeamlineError as error:
            assert error.code is SCHEMA_NOT_EVOLVED
            assert any(isinstance(change, WidenColumn) for change in needed)
        else:
            assert found == shown(decoded(schema, after, value), Row(before), Row(after))
    if needed:
        tiering = SchemaWatch(dataclasses.replace(spec, watch=Watch(is_tiering=True)))
        with pytest.raises(SeamlineError) as caught:
            decoded(schema, before, values[0], watch=tiering)
        assert caught.value.code is SCHEMA_NOT_EVOLVED
        assert tiering.needed == tuple(needed)


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
