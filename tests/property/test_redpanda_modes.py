"""Goal: a table of any `redpanda.iceberg.mode` is adopted without options, and read hot as cold.

Method: random modes of keys, values and headers, and random records of Avro, Protobuf and JSON in
them. Rows are made as Redpanda's documentation has them, of what fastavro and Google's library
encode, and are in a Parquet file of the table. Adopting must find the same rows in the log; what
was not copied yet is read by SQL.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import pathlib
import struct
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.memory import MemoryLog
from hypothesis import given
from hypothesis import strategies as st
from property.test_redpanda_types import (
    COLUMNS,
    ORDERS,
    PLACE_TYPE,
    RECORD,
    TEXT,
    VALUES,
    message_of,
    translated,
)
from support.adopting import TOPIC, Shop
from support.examples import examples
from support.registry import Registry

from seamline.connectors.config import SchemaRegistryConfig
from seamline.connectors.iceberg.boundaries.redpanda import CONTEXT, MODE
from seamline.connectors.kafka.formats.schemas import SchemaRegistry
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import KAFKA_UNAVAILABLE, SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.sql.types import Field, to_arrow

pytestmark = pytest.mark.filterwarnings("ignore:No preferred file implementation:UserWarning")

Part = tuple[bytes | None, Any]
"""What a key, a value or a header is in the log, and in the table."""
JSON_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"n": {"type": "integer"}, "t": {"type": ["string", "null"]}},
}
UNION = (
    'row("int" integer, string varchar, "shop.Size" varchar, '
    f'"shop.Place" {PLACE_TYPE}, "array" array(boolean))'
)
LABELS = ("int", "string", "shop.Size", "shop.Place", "array")


@dataclasses.dataclass(frozen=True)
class Kind:
    """Records of a kind of schema: its text, their columns, and payloads with their rows."""

    schema: str
    columns: str
    records: st.SearchStrategy[tuple[bytes, Any]]
    index: bytes = b""


def _avro(pair: tuple[Any, Any]) -> tuple[bytes, Any]:
    datum, branch = pair
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(RECORD), {"u": datum, "o": "x"})
    union = None if datum is None else {label: (branch or {}).get(label) for label in LABELS}
    return stream.getvalue(), {"u": union, "o": "x"}


def _protobuf(values: dict[str, Any]) -> tuple[bytes, Any]:
    message = message_of(values)
    return message.SerializeToString(), translated(message, names=True)


KINDS = {
    "AVRO": Kind(json.dumps(RECORD), f"u {UNION}, o varchar", VALUES.map(_avro)),
    "PROTOBUF": Kind(TEXT, COLUMNS, ORDERS.map(_protobuf), b"\0"),
    "JSON": Kind(
        json.dumps(JSON_SCHEMA),
        "n bigint, t varchar",
        st.fixed_dictionaries(
            {"n": st.integers(-9, 9), "t": st.none() | st.text("aé\n", max_size=3)}
        ).map(lambda row: (json.dumps(row).encode(), row)),
    ),
}
MODES = ("binary", "string", "schema_id_prefix", "schema_latest")


def each_byte(raw: bytes) -> str:
    """Text in which each byte that is in no character of UTF-8 is U+FFFD."""
    text, place = "", 0
    while place < len(raw):
        for length in range(1, 5):
            with contextlib.suppress(UnicodeDecodeError):
                text, place = text + raw[place : place + length].decode(), place + length
                break
        else:
            text, place = text + "\ufffd", place + 1
    return text


RAW = st.binary(max_size=5) | st.sampled_from(
    [b"\xe2\x82", b"\xf0\x9f\x98a", b"\xed\xa0\x80", b"\xc3\xa9\xff", b"\xde\xad\xbe\xef"]
)


@dataclasses.dataclass(frozen=True)
class Translation:
    """A mode of keys, values or headers: its section, the type of its column, and its parts."""

    section: str
    mode: str
    kind: str
    subject: str
    layout: str = ""

    @property
    def has_schema(self) -> bool:
        return self.mode.startswith("schema")

    @property
    def is_flat(self) -> bool:
        return self.has_schema and self.layout == "flat"

    @property
    def text(self) -> str:
        option = "value_type" if self.section == "headers" else "mode"
        options = {option: self.mode}
        if self.mode == "schema_latest" and self.subject:
            options["subject"] = self.subject
        if self.has_schema and self.layout:
            options["layout"] = self.layout
        return f"{self.section}:" + ",".join(f"{name}={value}" for name, value in options.items())

    @property
    def columns(self) -> str:
        """The fields of its records, or the type of its column."""
        if self.has_schema:
            return KINDS[self.kind].columns if self.is_flat else f"row({KINDS[self.kind].columns})"
        return {"binary": "varbinary", "string": "varchar"}[self.mode]

    def parts(self, registry: Registry) -> st.SearchStrategy[Part]:
        if self.mode == "binary":
            return RAW.map(lambda raw: (raw, raw))
        if self.mode == "string":
            return RAW.map(lambda raw: (raw, each_byte(raw)))
        kind = KINDS[self.kind]
        subject = f"{TOPIC}-{self.section}"
        if self.mode == "schema_latest":
            subject = self.subject or subject
        number = registry.register(subject, kind.schema, self.kind)
        frame = b""
        if self.mode == "schema_id_prefix":
            frame = struct.pack(">bI", 0, number) + kind.index
        return kind.records.map(lambda record: (frame + record[0], record[1]))


def translations(section: str, modes: tuple[str, ...], layout: str = "") -> st.SearchStrategy[Any]:
    layouts = st.sampled_from(["flat", "nested"]) if layout else st.just("")
    return st.builds(
        Translation,
        st.just(section),
        st.sampled_from(modes),
        st.sampled_from(list(KINDS)),
        st.sampled_from(["", f"of-{section}"]),
        layouts,
    )


def table_columns(key: Translation, value: Translation, headers: Translation) -> tuple[Field, ...]:
    row = (
        '"partition" integer, "timestamp" timestamp(6) with time zone, "offset" bigint, '
        f"headers array(row(key varchar, value {headers.columns})), key {key.columns}, "
        "timestamp_type integer"
    )
    values = value.columns if value.is_flat else f"value {value.columns}"
    return parse_fields(f"redpanda row({row}), {values}")


class Topic(Shop):
    """A topic with a mode, whose registry is asked over HTTP."""

    def __init__(self, folder: pathlib.Path, mode: str, registry: Registry | None = None) -> None:
        super().__init__(folder, partitions=1)
        if registry is not None:
            config = SchemaRegistryConfig(url=registry.url)
            self.log.schemas = SchemaRegistry(config)  # type: ignore[attr-defined]
        self.log.topic_settings[TOPIC] = {MODE: mode}

    def append(self, rows: list[Any], columns: tuple[Field, ...]) -> None:
        """Redpanda commits a file of rows, exactly as they are."""
        schema = pa.schema([pa.field(column.name, to_arrow(column.type)) for column in columns])
        self.create(schema)
        path = f"{self.table.location()}/data/rows.parquet"
        with self.table.io.new_output(path).create() as output:
            pq.write_table(pa.Table.from_pylist(rows, schema), output)
        self.table.add_files([path])


@contextlib.contextmanager
def topics(mode: str, registry: Registry) -> Iterator[Topic]:
    with tempfile.TemporaryDirectory() as folder:
        yield Topic(pathlib.Path(folder), mode, registry)


@examples(64)
@given(st.data())
def test_every_mode_is_read_as_redpanda_writes_it(data: st.DataObject) -> None:
    key = data.draw(translations("key", MODES))
    value = data.draw(translations("value", MODES, "any"))
    headers = data.draw(translations("headers", ("binary", "string")))
    mode = ";".join(data.draw(st.permutations([part.text for part in (key, value, headers)])))
    columns = table_columns(key, value, headers)
    with Registry() as registry, topics(mode, registry) as topic:
        keys = st.just((None, None)) | key.parts(registry)
        values = value.parts(registry)
        if not value.has_schema:
            values = st.just((None, None)) | values
        named = st.tuples(
            st.text("ab", max_size=2), st.just((None, None)) | headers.parts(registry)
        )
        records = data.draw(
            st.lists(st.tuples(keys, values, st.lists(named, max_size=2)), min_size=1, max_size=5)
        )
        rows = []
        for offset, ((raw_key, own_key), (raw, own), entries) in enumerate(records):
            raw_headers = [(name, content) for name, (content, _) in entries]
            topic.log.produce(TOPIC, 0, raw, key=raw_key, headers=raw_headers)
            row = {
                "partition": 0, "offset": offset, "key": own_key, "timestamp_type": -1,
                "timestamp": topic.log.clock.now_ms * 1000,
                "headers": [{"key": n, "value": c} for n, (_, c) in entries] or None,
            }  # fmt: skip
            rows.append({"redpanda": row, **(own if value.is_flat else {"value": own})})
        topic.append(rows, columns)
        found = topic.adopt()
        assert len(found.sample) == len(records)
        for pair in found.sample:
            assert pair.hot == pair.cold, mode


# --- What the configuration says besides ----------------------------------------------------------

FIELDS = parse_fields(
    'redpanda row(partition integer, "offset" bigint, key varbinary), value varbinary'
)
KEY_VALUE = {"redpanda": {"partition": 0, "offset": 0, "key": b"k"}, "value": b"\xff"}


@pytest.fixture
def topic(tmp_path: pathlib.Path) -> Topic:
    """A topic of one record, which a table in the mode `key_value` has."""
    topic = Topic(tmp_path, "key_value")
    topic.log.produce(TOPIC, 0, b"\xff", key=b"k")
    topic.append([KEY_VALUE], FIELDS)
    return topic


@pytest.mark.parametrize(
    ("mode", "code", "message"),
    [
        ("key:mode=string", "ADOPTION_REFUSED", "key is varbinary, where"),
        ("value:mode=string", "ADOPTION_REFUSED", "writes varchar"),
        ("value:mode=schema_latest,layout=nested", "ADOPTION_REFUSED", "writes a row"),
        ("value_schema_latest", "SCHEMA_REGISTRY_UNAVAILABLE", "no schema registry"),
        ("value:mode=cdc", "NOT_SUPPORTED", "which is not understood"),
        ("value:mode=binary;value:mode=string", "NOT_SUPPORTED", "not understood"),
        ("key:mode=binary,mode=string", "NOT_SUPPORTED", "not understood"),
        ("headers:mode=string", "NOT_SUPPORTED", "not understood"),
        ("another", "NOT_SUPPORTED", "not understood"),
    ],
)  # fmt: skip
def test_a_mode_that_is_not_the_tables(topic: Topic, mode: str, code: str, message: str) -> None:
    topic.log.topic_settings[TOPIC] = {MODE: mode}
    with pytest.raises(SeamlineError, match=message) as caught:
        topic.adopt(force=True)
    assert caught.value.code.name == code


def test_schemas_of_a_context_are_refused(topic: Topic) -> None:
    topic.log.topic_settings[TOPIC] = {MODE: "value_schema_id_prefix", CONTEXT: ".staging"}
    with pytest.raises(SeamlineError, match=r"context = \.staging") as caught:
        topic.adopt(force=True)
    assert caught.value.code.name == "ADOPTION_REFUSED"


def test_options_that_are_stated_win(topic: Topic) -> None:
    topic.log.topic_settings[TOPIC] = {MODE: "value_schema_latest:subject=orders"}
    text = json.dumps({"type": "record", "name": "R", "fields": []})
    found = topic.examine(format="avro", value_schema=text)
    assert (found.binding.format, found.binding.value_schema) == ("avro", text)


@pytest.mark.parametrize("settings", [{}, {MODE: "disabled"}])
def test_a_topic_without_a_mode_is_read_as_stated(topic: Topic, settings: dict[str, str]) -> None:
    topic.log.topic_settings[TOPIC] = settings
    found = topic.adopt(format="raw")
    (pair,) = found.sample
    assert pair.hot == pair.cold


class ClosedLog(MemoryLog):
    """A log whose topics' configuration may not be read."""

    def settings(self, topic: str, deadline: Deadline) -> Mapping[str, str]:
        """See `TellsSettings.settings`."""
        raise SeamlineError(KAFKA_UNAVAILABLE, f"topic {topic}: not authorized")


def test_a_configuration_that_may_not_be_read_is_a_note(topic: Topic) -> None:
    closed = ClosedLog()
    closed.restore(topic.log.save())
    topic.log = topic.connections.memory = closed
    notes = topic.adopt(format="raw").notes
    assert any(note.startswith(f"{MODE} cannot be read") for note in notes)
