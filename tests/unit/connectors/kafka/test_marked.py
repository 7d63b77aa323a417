"""Goal: a record that a field of its value marks is a delete of its key, and nothing more.

Method: values of every format that has fields, with every way of writing the mark, are decoded for
an upsert table; those that are marked have only their key, from the record's key, and anything else
in the field makes a bad record.
"""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.errors import BAD_RECORD, INVALID_TABLE_DEFINITION, SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.seam.binding import TopicBinding
from seamline.seam.encoding import DeleteMark
from seamline.seam.records import DecoderSpec
from seamline.sql import columns

FIELDS = (*parse_fields("id bigint NOT NULL, name varchar NOT NULL"), *columns.METADATA_FIELDS)


def decoded(values: list[bytes | None], deleted_by: str, **said: Any) -> list[tuple[Any, ...]]:
    """Key, name and mark of each record; the record's key is its place."""
    binding = TopicBinding(
        *("c", "t"),
        **{"mode": "upsert", "primary_key": ("id",), "key": "id", **said},
        deleted_by=deleted_by,
    )
    assert TopicBinding.from_properties(binding.to_properties()) == binding
    count = len(values)
    keys = [str(place).encode() for place in range(count)]
    batch = RawBatch([0] * count, list(range(count)), [0] * count, keys, values, [None] * count)
    rows = Decoder(DecoderSpec.of(binding, FIELDS)).decode(batch).rows
    return [(row["id"], row["name"], row[columns.DELETED]) for row in rows.to_pylist()]


def in_json(mark: Any, name: Any = "a", wrapped: str = "") -> bytes:
    """A value whose key is not that of its record, so that it shows where the key is from."""
    body = {"id": 100, "name": name, "__deleted": mark}
    if not wrapped:
        return json.dumps(body).encode()
    types = {"id": "int64", "name": "string", "__deleted": wrapped}
    fields = [{"field": f, "type": t, "optional": True} for f, t in types.items()]
    return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": body}).encode()


def in_avro(mark: Any, type_: str) -> tuple[bytes, str]:
    fields = {"id": "long", "name": "string", "__deleted": type_}
    schema = {
        "type": "record",
        "name": "Value",
        "fields": [{"name": n, "type": ["null", t]} for n, t in fields.items()],
    }
    written = io.BytesIO()
    body = {"id": 100, "name": "a", "__deleted": mark}
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), body)
    return written.getvalue(), json.dumps(schema)


ROW, DELETE = (100, "a", False), (0, None, True)
MARKS = [
    *((True, "boolean", True), (False, "boolean", False), (None, "boolean", False)),
    *(("true", "string", True), ("false", "string", False), ("TRUE", "string", True)),
    *((1, "int32", True), (0, "int32", False)),
]


@pytest.mark.parametrize(("mark", "type_", "is_delete"), MARKS)
def test_a_mark_is_what_writers_write(mark: Any, type_: str, is_delete: bool) -> None:
    expected = [DELETE if is_delete else ROW]
    assert decoded([in_json(mark)], "__deleted") == expected
    assert decoded([b"\n" + in_json(mark)], "__deleted") == expected, "not on the fast path"
    assert decoded([in_json(mark, wrapped=type_)], "__deleted") == expected
    framed = b"\0\0\0\0\1" + in_json(mark)
    assert decoded([framed], "__deleted", format="json_schema") == expected
    value, schema = in_avro(mark, "int" if type_ == "int32" else type_)
    assert decoded([value], "__deleted", format="avro", value_schema=schema) == expected


def test_marks_of_all_kinds_may_be_in_one_batch() -> None:
    values: list[bytes | None] = [in_json(mark) for mark, _, _ in MARKS]
    found = decoded([*values, None, b'{"id": 5, "name": "b"}'], "__deleted")
    assert [mark for _, _, mark in found] == [mark for _, _, mark in MARKS] + [True, False]
    assert [key for key, _, mark in found if mark] == [0, 3, 5, 6, 8]


def test_nothing_else_of_a_delete_is_read() -> None:
    assert decoded([in_json("true", None)], "__deleted") == [DELETE]
    assert decoded([in_json("true", {"no": "text"})], "__deleted") == [DELETE]
    assert decoded([b'{"__deleted": true}'], "__deleted") == [DELETE]


@pytest.mark.parametrize(
    ("mark", "value", "is_delete"),
    [
        ("op = d", b'{"id": 100, "name": "a", "op": "d"}', True),
        ("op = d", b'{"id": 100, "name": "a", "op": "u"}', False),
        ("op = d", b'{"id": 100, "name": "a"}', False),
        ("op = d", b'{"id": 100, "name": "a", "op": "D"}', False),
        ("meta.gone", b'{"id": 100, "name": "a", "meta": {"gone": true}}', True),
        ("meta.gone", b'{"id": 100, "name": "a", "meta": null}', False),
        ('"a b".c = not here ', b'{"id": 100, "name": "a", "a b": {"c": "not here"}}', True),
    ],
)
def test_a_mark_is_a_word_or_inside_another_field(mark: str, value: bytes, is_delete: bool) -> None:
    assert decoded([value], str(DeleteMark.parse(mark))) == [DELETE if is_delete else ROW]


@pytest.mark.parametrize("mark", ["maybe", "", 2, 0.5, [], {}])
def test_what_is_no_mark_is_a_bad_record(mark: Any) -> None:
    with pytest.raises(SeamlineError, match="__deleted") as caught:
        decoded([in_json(mark)], "__deleted")
    assert caught.value.code is BAD_RECORD
    kept = decoded([in_json(mark), in_json(True), in_json(False)], "__deleted", on_error="skip")
    assert kept == [(1, None, True), ROW]


def test_a_value_that_cannot_be_read_is_a_bad_record() -> None:
    with pytest.raises(SeamlineError, match="not JSON") as caught:
        decoded([b'{"__deleted": true'], "__deleted")
    assert caught.value.code is BAD_RECORD


@pytest.mark.parametrize("text", ["", " ", "a b", "a =", "a.", "= d", "a, b"])
def test_what_names_no_field_is_refused(text: str) -> None:
    with pytest.raises(SeamlineError) as caught:
        DeleteMark.parse(text)
    assert caught.value.code is INVALID_TABLE_DEFINITION


@pytest.mark.parametrize("mode", ["append", "changelog"])
def test_only_upsert_tables_have_it(mode: str) -> None:
    properties = {"seamline.topic": "t", "seamline.mode": mode, "seamline.deleted-by": "gone"}
    with pytest.raises(SeamlineError) as caught:
        TopicBinding.from_properties(properties)
    assert caught.value.code is INVALID_TABLE_DEFINITION
