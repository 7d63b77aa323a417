"""Goal: a record of a schema that its registry does not know yet becomes a row once it does.

Method: a follower over a log in memory and a registry that learns a schema after the record.
"""

from __future__ import annotations

import io
import json
import pathlib
from collections.abc import Iterator

import fastavro
import pytest
from fakes.memory import MemoryLog
from support.tails import COLUMNS, NEVER, TOPIC, MemoryTail
from support.waiting import wait_until

from seamline.connectors.kafka.formats import confluent
from seamline.connectors.kafka.formats.framing import SchemaId
from seamline.connectors.kafka.formats.schemas import Schema, Schemas
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import SCHEMA_REGISTRY_UNAVAILABLE, SeamlineError
from seamline.gateway.tail.unknown import NotedSchemas
from seamline.seam.records import DecoderSpec
from seamline.sql import columns as names

AVRO = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}],
}


class Learning:
    """A registry that knows what it has been told."""

    framing = confluent.FRAMING

    def __init__(self) -> None:
        self.known: dict[SchemaId, Schema] = {}
        self.asked: list[SchemaId] = []
        self.is_away = False

    def by_id(self, schema_id: SchemaId) -> Schema:
        self.asked.append(schema_id)
        if self.is_away:
            raise SeamlineError(SCHEMA_REGISTRY_UNAVAILABLE, "away")
        if schema_id not in self.known:
            raise ValueError(f"schema id {schema_id} is not in the registry")
        return self.known[schema_id]

    def latest(self, subject: str, age_s_max: float = 0.0) -> tuple[SchemaId, Schema] | None:
        return None

    def earlier(self, schema_id: SchemaId) -> tuple[Schema, ...]:
        return ()

    def within(self, deadline: Deadline) -> Schemas:
        return self


class RegisteredLog(MemoryLog):
    """An in-memory log with a registry."""

    def __init__(self) -> None:
        super().__init__()
        self.schemas = Learning()


def value(number: int, schema_id: int) -> bytes:
    """A record of a schema."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, AVRO, {"id": number, "text": "x"})
    return b"\0" + schema_id.to_bytes(4, "big") + buffer.getvalue()


@pytest.fixture
def log() -> RegisteredLog:
    made = RegisteredLog()
    made.create_topic(TOPIC, 2)
    made.schemas.known[1] = Schema("AVRO", json.dumps(AVRO))
    return made


@pytest.fixture
def tail(scratch: pathlib.Path, log: RegisteredLog) -> Iterator[MemoryTail]:
    """A table whose follower has threads."""
    made = MemoryTail(scratch, log=log, readers=2)
    yield made
    made.close()


@pytest.mark.parametrize("policy", ["skip", "null", "fail"])
def test_what_was_bad_for_its_schema_alone_is_a_row_once_that_is_known(
    tail: MemoryTail, log: RegisteredLog, policy: str
) -> None:
    tail.spec = DecoderSpec(TOPIC, "avro", policy, (*COLUMNS, *names.METADATA_FIELDS))

    def ids() -> list[int | None] | str:
        try:
            return [row["id"] for row in tail.rows()]
        except SeamlineError as error:
            return error.code.name

    log.produce(TOPIC, 0, value(5, 1))
    log.produce(TOPIC, 0, value(6, 2))
    log.produce(TOPIC, 1, value(7, 3))
    wanted = {"skip": [5], "null": [5, None, None], "fail": "BAD_RECORD"}
    assert ids() == wanted[policy]
    assert ids() == wanted[policy], "from what is cached"
    log.schemas.known[2] = log.schemas.known[3] = log.schemas.known[1]
    wait_until(lambda: ids() in ([5, 6, 7], "READ_CONFLICT"))
    wait_until(lambda: ids() == [5, 6, 7])


def test_unknown_ids_are_asked_for_in_turn(log: RegisteredLog) -> None:
    noted = NotedSchemas(log.schemas)
    assert noted.found(NEVER) is None
    assert not log.schemas.asked
    for schema_id in (7, 8, 7):
        with pytest.raises(ValueError, match="not in the registry"):
            noted.by_id(schema_id)
    log.schemas.asked.clear()
    assert [noted.found(NEVER) for _ in range(3)] == [None, None, None]
    assert log.schemas.asked == [7, 8, 7]
    log.schemas.is_away = True
    with pytest.raises(SeamlineError):
        noted.found(NEVER)
    log.schemas.is_away = False
    log.schemas.known[8] = log.schemas.known[1]
    assert {noted.found(NEVER) for _ in range(2)} == {8, None}
