"""A writer that is not ours, as a process of its own: `python -m chaos.sink JSON`.

It copies a topic into Iceberg tables as such writers do: a consumer of committed records, rows in
the table's own columns, and in the same commit what says how far it has come. It learns that
position from the table alone when it starts: it may be killed at any moment, and continues from
there.
"""

from __future__ import annotations

import decimal
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DecimalType, IntegerType, LongType, NestedField, StringType

MARK = "fluss-offsets"
"""Summary key of the offsets that a commit has reached."""
OF_SEAMLINE = "seamline.boundary"
"""The key of a table that was handed to this writer; it continues there."""
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "text", StringType()),
    NestedField(3, "price", DecimalType(12, 2)),
    NestedField(4, "k_partition", IntegerType()),
    NestedField(5, "k_offset", LongType()),
)
_PAUSE_S = 0.7
_RECORDS_MAX = 500
_IDLE_S = 0.3

Positions = dict[int, int]


def marked(table: Table) -> Positions | None:
    """How far the newest commit that says so has got; None when none does."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        summary = dict(snapshot.summary.additional_properties) if snapshot.summary else {}
        if MARK in summary:
            return {entry["bucket"]: entry["offset"] for entry in json.loads(summary[MARK])}
        if OF_SEAMLINE in summary:
            return {int(p): o for p, o in json.loads(summary[OF_SEAMLINE])["next"].items()}
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    return None


def held(table: Table, places: tuple[str, str]) -> Positions:
    """How far the rows themselves have got."""
    found: Positions = {}
    rows = table.scan(selected_fields=places).to_arrow()
    for partition, offset in zip(*(rows.column(name).to_pylist() for name in places), strict=True):
        found[partition] = max(found.get(partition, 0), offset + 1)
    return found


class Copy:
    """One table, and how far it has been filled.

    Args:
        spec: Servers, topic, catalog.
        name: The table.
        is_marking: Whether its commits say how far they have come.
        places: Its columns for partition and offset.
    """

    def __init__(
        self, spec: dict[str, Any], name: str, is_marking: bool, places: tuple[str, str]
    ) -> None:
        catalog = SqlCatalog(spec["catalog"], uri=spec["uri"], warehouse=spec["warehouse"])
        self._load: Callable[[], Table] = lambda: catalog.load_table((spec["namespace"], name))
        self._topic, self._is_marking, self._places = spec["topic"], is_marking, places
        table = self._load()
        self._next = (marked(table) or {}) if is_marking else held(table, places)
        self._consumer = Consumer(
            {
                "bootstrap.servers": spec["servers"],
                "group.id": f"sink-{name}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )
        partitions = self._consumer.list_topics(self._topic, timeout=10).topics[self._topic]
        for partition in partitions.partitions:
            self._next.setdefault(partition, 0)
        self._consumer.assign([TopicPartition(self._topic, p, o) for p, o in self._next.items()])

    def copy(self) -> None:
        """Copies what has come since the last time."""
        messages = self._consumer.consume(_RECORDS_MAX, _IDLE_S)
        records = [message for message in messages if message.error() is None]
        if not records:
            return
        for message in records:
            self._next[message.partition()] = message.offset() + 1
        summary = {}
        if self._is_marking:
            entries = [{"bucket": p, "offset": o} for p, o in sorted(self._next.items())]
            summary = {MARK: json.dumps(entries)}
        while True:
            table = self._load()
            rows = [self._row(message) for message in records]
            try:
                table.append(
                    pa.Table.from_pylist(rows, schema=table.schema().as_arrow()),
                    snapshot_properties=summary,
                )
            except CommitFailedException:
                continue
            return

    def _row(self, message: Message) -> dict[str, Any]:
        value = message.value()
        assert value is not None
        body = json.loads(value, parse_float=decimal.Decimal)
        price = None if body["price"] is None else decimal.Decimal(body["price"])
        where = zip(self._places, (message.partition(), message.offset()), strict=True)
        return {**body, "price": price, **dict(where)}


def main() -> None:
    """Copies what the argument says, until it is ended."""
    spec = json.loads(sys.argv[1])
    copies = [Copy(spec, *table) for table in spec["tables"]]
    while True:
        for copy in copies:
            try:
                copy.copy()
            except KafkaException:
                continue  # a broker is down: what it has is asked for again
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main()
