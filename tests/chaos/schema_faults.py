"""What happens to schemas: their registry is away or slow; no columns can follow one of them."""

from __future__ import annotations

import functools
import json
import random
import time
from typing import Any

from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from support.schema_histories import decimals

from chaos import tables
from chaos.arena import Arena, NotInjectedError
from chaos.history import RegistryDisturbed, TableSpoiled, price_of
from chaos.kafka_faults import delete_records, drop, ensure, insist, wait_for_consumer
from chaos.process_faults import MODES, Fault, misbehave
from chaos.tables import UNFIT
from seamline.errors import SCHEMA_INCOMPATIBLE

_AWAY_S = 9.0
_SENT = 12


def disturbed(fault: Fault) -> Fault:
    """A fault of the registry, or of the path to it, which is recorded."""

    def noted(arena: Arena, chance: random.Random) -> str:
        invoked = time.monotonic()
        try:
            return fault(arena, chance)
        finally:
            arena.recorder.record(RegistryDisturbed(invoked, time.monotonic()))

    return noted


def refuse(arena: Arena, chance: random.Random) -> str:
    """Lets the registry say for a while that it cannot answer, to producers, too."""
    arena.registry.refuses = chance.choice([500, 502, 503])
    try:
        arena.last(chance.uniform(1.0, _AWAY_S))
    finally:
        status, arena.registry.refuses = arena.registry.refuses, None
    return f"HTTP {status}"


def incompatible(arena: Arena, chance: random.Random) -> str:
    """Records of a schema that no columns of their table can become: it may only say so."""
    ensure(arena, UNFIT)
    client = arena.client(f"unfit-{chance.getrandbits(16)}")
    _send(arena, "string", str)
    is_tiered = chance.random() < 0.5
    if is_tiered:
        arena.wait(lambda: tables.is_tiered(arena.stack, UNFIT), 8.0)
    client.read(UNFIT, "columns")
    invoked, is_there = time.monotonic(), False
    try:
        _send(arena, "long", len)
        wait_for_consumer(arena, UNFIT)
        is_there = True
    finally:
        code, now = SCHEMA_INCOMPATIBLE.name, time.monotonic()
        arena.recorder.record(
            TableSpoiled(UNFIT.name, code, is_there, invoked, now, is_in_tail=True)
        )
    for form in ("rows", "columns", "groups", "twice"):
        client.read(UNFIT, form, engine=chance.choice(["duckdb", "spark"]))
    drop(arena, UNFIT)
    reached = arena.oracle.reached(UNFIT.topic)  # what is left would spoil the next table, too
    insist(arena, lambda: delete_records(arena, UNFIT.topic, reached), "trim unfit")
    ensure(arena, UNFIT)
    client.read(UNFIT, "columns")
    return "tiered before" if is_tiered else "not tiered before"


def _send(arena: Arena, kind: str, text_of: Any) -> None:
    """Records whose text is of a type, some into each partition."""
    types = {"id": "long", "text": kind, "price": decimals(12)}
    fields = [{"name": name, "type": type_} for name, type_ in types.items()]
    schema = {"type": "record", "name": "Unfit", "fields": fields}
    serializer = AvroSerializer(arena.registry.client, json.dumps(schema))
    context = SerializationContext(UNFIT.topic, MessageField.VALUE)

    def value(id_: int, text: str) -> bytes:
        body = {"id": id_, "text": text_of(text), "price": price_of(id_)}
        written: bytes = serializer(body, context)
        return written

    partitions = range(UNFIT.partitions)
    if arena.produce(UNFIT.topic, _SENT, value, partitions) < _SENT:
        raise NotInjectedError("not every record was acknowledged")


_OF_REGISTRY = functools.partial(misbehave, network=lambda arena: arena.stack.registry)

LANES: dict[str, dict[str, Fault]] = {
    "registry": {
        **{
            name.replace("network", "registry"): disturbed(_OF_REGISTRY(mode, longest_s=_AWAY_S))
            for name, mode in MODES.items()
        },
        "registry: HTTP 500": disturbed(refuse),
    },
    "schemas": {"schema that no column can follow": incompatible},
}
