"""Goal: records of sources of changes mean what the documentation of these sources says.

Method: records as the sources write them, by hand: documents in every kind of Extended JSON, what
is written beside changes, in JSON, wrapped JSON and Avro, and records that merely resemble it.
"""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.envelopes import rows_of
from seamline.connectors.kafka.formats.framing import SchemaId
from seamline.connectors.kafka.formats.infer import infer_json
from seamline.connectors.kafka.formats.schemas import NoRegistry, Schema
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.records import DecoderSpec
from seamline.sql import columns
from seamline.sql.types import BIGINT, DOUBLE, TIMESTAMP_TZ, VARCHAR, Decimal, Field

ID = "6397957c3a8b5d0d3c4e9f10"
MONGO = (
    Field("_id", VARCHAR, required=True),
    Field("name", VARCHAR),
    Field("count", BIGINT),
    Field("price", Decimal(20, 4)),
    Field("ratio", DOUBLE),
    Field("at", TIMESTAMP_TZ),
)
USERS = (Field("id", BIGINT, required=True), Field("name", VARCHAR))


def decoded(
    envelope: str, key: Any, value: Any, fields: tuple[Field, ...] = MONGO, **said: Any
) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """The rows of a record, and why it is bad."""
    binding = TopicBinding(
        *("c", "t"),
        mode="changelog",
        envelope=envelope,
        primary_key=(fields[0].name,),
        key_format="json",
        on_error="skip",
        **said,
    )
    spec = DecoderSpec.of(binding, (*fields, *columns.METADATA_FIELDS))
    parts = [
        part if part is None or isinstance(part, bytes) else json.dumps(part).encode()
        for part in (key, value)
    ]
    batch = RawBatch([0], [0], [0], parts[:1], parts[1:], [None])
    rows, bad = Decoder(spec).decode_all(batch)
    return rows.to_pylist(), dict(bad)


DOCUMENTS: dict[str, dict[str, Any]] = {
    "canonical": {
        "_id": {"$oid": ID},
        "name": "a",
        "count": {"$numberLong": "9007199254740993"},
        "price": {"$numberDecimal": "1234567890123456.7890"},
        "ratio": {"$numberDouble": "0.5"},
        "at": {"$date": {"$numberLong": "1630404549093"}},
    },
    "relaxed": {
        "_id": {"$oid": ID},
        "name": "a",
        "count": 9007199254740993,
        "price": {"$numberDecimal": "1234567890123456.7890"},
        "ratio": 0.5,
        "at": {"$date": "2021-08-31T10:09:09.093Z"},
    },
    "legacy": {
        "_id": {"$oid": ID},
        "name": "a",
        "count": {"$numberLong": "9007199254740993"},
        "price": {"$numberDecimal": "1234567890123456.7890"},
        "ratio": 0.5,
        "at": {"$date": 1630404549093},
    },
}


def changes_of(document: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Envelope, key and value of an update to a document."""
    key = {"_id": document["_id"]}
    streamed = {
        "_id": {"_data": "82612E"},
        "operationType": "update",
        "clusterTime": {"$timestamp": {"t": 1630404549, "i": 1}},
        "fullDocument": document,
        "documentKey": key,
        "updateDescription": {"updatedFields": {"name": "a"}, "removedFields": []},
    }
    captured = {
        "before": None,
        "after": json.dumps(document),
        "patch": None,
        "updateDescription": {"updatedFields": '{"name": "a"}', "removedFields": None},
        "source": {"connector": "mongodb", "collection": "users", "ord": 1},
        "op": "u",
        "ts_ms": 1630404549100,
        "transaction": {"id": "1462833718356672513", "total_order": 1},
    }
    own = {"id": json.dumps(document["_id"])}
    text = {"schema": {"type": "string", "optional": False}, "payload": json.dumps(streamed)}
    wrapped = {"schema": None, "payload": captured}
    return [
        ("mongodb", {"_id": {"_data": "82612E"}}, streamed),
        ("mongodb", None, json.dumps(streamed)),
        ("mongodb", None, text),
        ("debezium_mongodb", own, captured),
        ("debezium_mongodb", {"schema": None, "payload": own}, wrapped),
    ]


@pytest.mark.parametrize("kind", DOCUMENTS)
@pytest.mark.parametrize("number", range(5))
def test_documents_are_rows(kind: str, number: int) -> None:
    envelope, key, value = changes_of(DOCUMENTS[kind])[number]
    (row,), bad = decoded(envelope, key, value)
    assert not bad
    assert (row["_id"], row["name"], row["count"]) == (ID, "a", 9007199254740993)
    assert (str(row["price"]), row["ratio"]) == ("1234567890123456.7890", 0.5)
    assert row["at"].isoformat() == "2021-08-31T10:09:09.093000+00:00"
    assert row[columns.DELETED] is False
    (inferred,) = rows_of(envelope, [json.dumps(value).encode()])
    types = {c.name: str(c.type) for c in infer_json([inferred]).columns}
    assert types["_id"] == "varchar"
    assert "timestamp" in types["at"]


@pytest.mark.parametrize(
    ("envelope", "key", "value"),
    [
        ("debezium_mongodb", {"id": json.dumps({"$oid": ID})}, {"op": "d", "before": None}),
        ("debezium_mongodb", {"id": json.dumps({"$oid": ID})}, None),
        ("debezium_mongodb", None, {"op": "d", "before": json.dumps({"_id": {"$oid": ID}})}),
        ("mongodb", None, {"operationType": "delete", "documentKey": {"_id": {"$oid": ID}}}),
    ],
)
def test_deletes_of_documents_name_them(envelope: str, key: Any, value: Any) -> None:
    (row,), bad = decoded(envelope, key, value)
    assert not bad
    assert (row["_id"], row[columns.DELETED]) == (ID, True)


def test_an_update_without_its_document_is_bad() -> None:
    for envelope, value in (
        ("mongodb", {"operationType": "update", "documentKey": {"_id": {"$oid": ID}}}),
        ("debezium_mongodb", {"op": "u", "after": None, "updateDescription": {}}),
    ):
        rows, bad = decoded(envelope, {"id": json.dumps({"$oid": ID})}, value)
        assert not rows
        assert "null or missing" in bad[0]


def test_documents_are_json() -> None:
    with pytest.raises(SeamlineError) as caught:
        decoded("mongodb", None, b"", format="avro")
    assert caught.value.code is INVALID_TABLE_DEFINITION


# --- What is written beside changes --------------------------------------------------------------

BESIDE: tuple[dict[str, Any], ...] = (
    {"ts_ms": 1630404549100},
    {
        "status": "BEGIN",
        "id": "571:53195829",
        "event_count": None,
        "data_collections": None,
        "ts_ms": 1630404549100,
    },
    {
        "status": "END",
        "id": "571:53195832",
        "event_count": 2,
        "data_collections": [{"data_collection": "public.users", "event_count": 2}],
        "ts_ms": 1630404549100,
    },
    {
        "source": {"connector": "mysql", "db": "d"},
        "ts_ms": 1630404549100,
        "databaseName": "d",
        "schemaName": None,
        "ddl": "CREATE TABLE users (id INT PRIMARY KEY)",
        "tableChanges": [{"type": "CREATE", "id": '"d"."users"', "table": {}}],
    },
)


@pytest.mark.parametrize("body", BESIDE)
def test_what_is_beside_changes_is_no_row_and_not_bad(body: dict[str, Any]) -> None:
    for value in (body, {"schema": {"type": "struct", "fields": []}, "payload": body}):
        for key in (None, {"serverName": "d"}, {"id": "571:53195829"}, {"databaseName": "d"}):
            (row,), bad = decoded("debezium", key, value, USERS)
            assert not bad
            assert (row["id"], row[columns.DELETED]) == (None, None)


@pytest.mark.parametrize(
    "body",
    [
        {"id": 1, "ts_ms": 5},
        {"ts_ms": "5"},
        {"ts_ms": 5, "after": {"id": 1}},
        {"ts_ms": 5, "source": {"db": "d"}},
        {"status": "active", "id": "1"},
        {"status": "BEGIN"},
        {"databaseName": "d"},
        {"op": "x", "ts_ms": 5},
        {},
    ],
)
def test_what_resembles_it_is_bad(body: dict[str, Any]) -> None:
    rows, bad = decoded("debezium", {"id": 1}, body, USERS)
    assert not rows
    assert list(bad) == [0]


class Registry(NoRegistry):
    """A registry with a schema for each kind of record."""

    def by_id(self, schema_id: SchemaId) -> Schema:
        assert isinstance(schema_id, int)
        return Schema("AVRO", json.dumps(AVRO[schema_id]))


def record(name: str, **fields: Any) -> dict[str, Any]:
    """A schema of a record."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": type_} for field, type_ in fields.items()],
    }


TEXT = ["null", "string"]
AVRO = [
    record("Envelope", op="string", after=["null", record("Row", id="long")], ts_ms="long"),
    record("Heartbeat", ts_ms="long"),
    record("TransactionMetadataValue", status="string", id="string", ts_ms="long"),
    record(
        "SchemaChangeValue",
        source=record("Source", db="string"),
        databaseName=TEXT,
        ddl=TEXT,
    ),
    record("Flat", id="long", ts_ms="long"),
]


def test_what_is_beside_changes_in_avro_is_no_row() -> None:
    bodies = [
        {"op": "c", "after": {"id": 1}, "ts_ms": 5},
        {"ts_ms": 5},
        {"status": "END", "id": "571:5", "ts_ms": 5},
        {"source": {"db": "d"}, "databaseName": "d", "ddl": None},
        {"id": 1, "ts_ms": 5},
    ]
    values = []
    for number, body in enumerate(bodies):
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, fastavro.parse_schema(AVRO[number]), body)
        values.append(b"\0" + number.to_bytes(4, "big") + buffer.getvalue())
    binding = TopicBinding(
        *("c", "t", "avro"),
        mode="changelog",
        envelope="debezium",
        primary_key=("id",),
        key_format="json",
        on_error="skip",
    )
    spec = DecoderSpec.of(binding, (*USERS, *columns.METADATA_FIELDS))
    count = len(values)
    batch = RawBatch([0] * count, range(count), [0] * count, [None] * count, values, [None] * count)
    rows, bad = Decoder(spec, Registry()).decode_all(batch)
    marks = [(row["id"], row[columns.DELETED]) for row in rows.to_pylist()]
    assert marks == [(1, False), (None, None), (None, None), (None, None)]
    assert list(bad) == [4]


@pytest.mark.parametrize(
    ("envelope", "value", "rows"),
    [
        ("goldengate", {"op_type": "I", "after": {"id": 1, "name": "a"}}, [(1, "a", False)]),
        (
            "goldengate",
            {"op_type": "U", "before": {"id": 2}, "after": {"id": 1, "name": "a"}},
            [(2, None, True), (1, "a", False)],
        ),
        ("goldengate", {"op_type": "D", "before": {"id": 1}}, [(1, None, True)]),
        (
            "dms",
            {"data": {"id": 1, "name": "a"}, "metadata": {"operation": "load"}},
            [(1, "a", False)],
        ),
        ("dms", {"data": {"id": 1}, "metadata": {"operation": "delete"}}, [(1, None, True)]),
        (
            "dms",
            {"metadata": {"operation": "create-table", "record-type": "control"}},
            [(None, None, None)],
        ),
        (
            "qlik",
            {
                "magic": "atMSG",
                "type": "DT",
                "message": {"data": {"id": 1}, "headers": {"operation": "REFRESH"}},
            },
            [(1, None, False)],
        ),
        ("qlik", {"magic": "atMSG", "type": "MD", "message": {}}, [(None, None, None)]),
        (
            "qlik_data",
            {"data": None, "beforeData": {"id": 1}, "headers": {"operation": "DELETE"}},
            [(1, None, True)],
        ),
        (
            "qlik_data",
            {"data": {"id": 1}, "beforeData": None, "headers": {"operation": "DELETE"}},
            [(1, None, True)],
        ),
    ],
)
def test_changes_of_other_sources(envelope: str, value: Any, rows: list[Any]) -> None:
    found, bad = decoded(envelope, None, value, USERS)
    assert not bad
    assert [(row["id"], row["name"], row[columns.DELETED]) for row in found] == rows
