"""Faults of tables that somebody else fills, alone or beside us."""

from __future__ import annotations

import json
import random
import time

import pyarrow as pa
from pyiceberg.table import Table as PyTable

from chaos import kafka_faults, sink, tables
from chaos.arena import Arena
from chaos.history import TableSpoiled
from chaos.iceberg_faults import again
from chaos.kafka_faults import drop, ensure, insist, wait_for_consumer
from chaos.process_faults import Fault, kill, pause, tier_once
from chaos.tables import HANDED, TRIMMED
from seamline.errors import SECOND_WRITER
from seamline.gateway.commands import handing_over
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.dev.local.settings import CATALOG, SCHEMA

_REQUEST_S = 10.0


def second_writer(arena: Arena, chance: random.Random) -> str:
    """Records that somebody else copies into a table, too: the table may only report that.

    By a writer that is known by the marks of its commits, or by the columns that say where a row
    is from.
    """
    ensure(arena, TRIMMED)
    arena.produce(TRIMMED.topic, chance.randint(5, 20))
    wait_for_consumer(arena, TRIMMED)
    arena.wait(lambda: tables.is_tiered(arena.stack, TRIMMED), 8.0)
    is_marked = chance.random() < 0.5
    marks = {sink.MARK: json.dumps([{"bucket": 0, "offset": 5}])} if is_marked else {}
    where = {} if is_marked else {"_kafka_partition": 0, "_kafka_offset": chance.randrange(5)}
    invoked, is_there = time.monotonic(), False

    def work(table: PyTable) -> str:
        schema = table.schema().as_arrow()
        table.append(
            pa.Table.from_pylist([{"id": 1, **where}], schema=schema), snapshot_properties=marks
        )
        return "by its marks" if is_marked else "by its columns"

    try:
        how = again(arena, work, TRIMMED)
        is_there = True
    finally:
        code = SECOND_WRITER.name
        now = time.monotonic()
        arena.recorder.record(TableSpoiled(TRIMMED.name, code, is_there, invoked, now))
    client = arena.client(f"doubled-{chance.getrandbits(16)}")
    for form in ("rows", "groups", "twice"):
        client.read(TRIMMED, form)
    client.read(TRIMMED, engine="spark")
    drop(arena, TRIMMED)
    ensure(arena, TRIMMED)
    client.read(TRIMMED)
    return how


def change_hands(arena: Arena, chance: random.Random) -> str:
    """A table is taken over from its writer, tiered or not, and handed over to it again."""
    connections, name = arena.stack.connections, tables.name_of(arena.stack, HANDED)
    client = arena.client(f"handed-{chance.getrandbits(16)}")
    is_tiered = chance.random() < 0.6

    def deadline() -> StatementDeadline:
        return StatementDeadline(_REQUEST_S)

    def taken() -> None:
        handing_over.take_over(connections, name, deadline(), lambda _: None)

    def given() -> None:
        if connections.catalog(CATALOG).load((SCHEMA, HANDED.name)).state.provider is None:
            handing_over.hand_over(
                connections, name, deadline(), provider=HANDED.provider, options={}
            )

    arena.sink.end()
    try:
        insist(arena, taken, "take the table over")
        client.read(HANDED)
        if is_tiered:
            try:
                tier_once(arena, HANDED)
            except OSError:  # of what else is attacked meanwhile: it may have been tiered, or not
                is_tiered = False
            client.read(HANDED, engine="spark")
    finally:
        insist(arena, given, "hand the table over")
        client.read(HANDED)
        arena.sink.start()
    return "tiered" if is_tiered else "not tiered"


LANES: dict[str, dict[str, Fault]] = {
    "trimming": {  # its table is the same
        **kafka_faults.LANES["trimming"],
        "Iceberg: records by a second writer": second_writer,
    },
    "sink": {
        "other writer: kill -9": kill(lambda arena, _: arena.sink),
        "other writer: stop and continue": pause(lambda arena, _: arena.sink, 2.0),
        "other writer: taken over from, and handed over to": change_hands,
    },
}
