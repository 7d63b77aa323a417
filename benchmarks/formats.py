"""Formats: how fast the tail's decoder makes rows of Avro and of Protobuf, against JSON.

The same bids in each format, in batches as a follower gets them; both have a registry's id before
every value. The rows are compared first.

python benchmarks/formats.py [--records 200000]
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import io
import json
import struct
from collections.abc import Callable
from typing import Any

import fastavro
from google.protobuf import message_factory
from harness import REPEATS, compare, report

from seamline.connectors.kafka.formats import confluent, protobuf_schema
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.framing import Framing, SchemaId
from seamline.connectors.kafka.formats.schemas import Schema, Schemas
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.gateway.commands.tables import parse_fields
from seamline.seam.records import DecoderSpec
from seamline.sql import columns

COLUMNS = "auction bigint, bidder bigint, price double, channel varchar, url varchar, at timestamp(6) with time zone"  # noqa: E501
BATCH_RECORDS = 20_000
GOAL = 1.0
FRAME = b"\0" + struct.pack(">I", 1)
AVRO = {
    "type": "record",
    "name": "Bid",
    "fields": [
        {"name": "auction", "type": "long"},
        {"name": "bidder", "type": "long"},
        {"name": "price", "type": "double"},
        {"name": "channel", "type": "string"},
        {"name": "url", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
PROTOBUF = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Bid {
  int64 auction = 1; int64 bidder = 2; double price = 3; string channel = 4;
  optional string url = 5; google.protobuf.Timestamp at = 6;
}
"""
START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


@dataclasses.dataclass(frozen=True)
class OneSchema:
    """A registry that has one schema, without asking for it."""

    schema: Schema

    @property
    def framing(self) -> Framing:
        """See `Schemas.framing`."""
        return confluent.FRAMING

    def by_id(self, schema_id: SchemaId) -> Schema:  # noqa: ARG002 - it has one
        """See `Schemas.by_id`."""
        return self.schema

    def latest(self, subject: str, age_s_max: float = 0.0) -> tuple[SchemaId, Schema]:  # noqa: ARG002
        """See `Schemas.latest`."""
        return 1, self.schema

    def earlier(self, schema_id: SchemaId) -> tuple[Schema, ...]:  # noqa: ARG002
        """See `Schemas.earlier`."""
        return ()

    def within(self, deadline: Deadline) -> Schemas:  # noqa: ARG002
        """See `Schemas.within`."""
        return self


def bid(number: int) -> dict[str, Any]:
    """One of the bids."""
    return {
        "auction": number % 1000,
        "bidder": number * 7,
        "price": number / 8,
        "channel": ("web", "app", "phone")[number % 3],
        "url": None if number % 5 == 0 else f"https://example.org/auctions/{number}",
        "at": START + datetime.timedelta(microseconds=number * 1001),
    }


def as_json(row: dict[str, Any]) -> bytes:
    return json.dumps({**row, "at": row["at"].isoformat(timespec="microseconds")}).encode()


def as_avro() -> Callable[[dict[str, Any]], bytes]:
    schema = fastavro.parse_schema(AVRO)

    def write(row: dict[str, Any]) -> bytes:
        stream = io.BytesIO(FRAME)
        stream.seek(len(FRAME))
        fastavro.schemaless_writer(stream, schema, row)
        return stream.getvalue()

    return write


def as_protobuf() -> Callable[[dict[str, Any]], bytes]:
    file = protobuf_schema.compiled(Schema("PROTOBUF", PROTOBUF))
    make = message_factory.GetMessageClass(file.message_types_by_name["Bid"])

    def write(row: dict[str, Any]) -> bytes:
        message = make(**{name: value for name, value in row.items() if name != "at"})
        message.at.FromDatetime(row["at"].replace(tzinfo=None))
        return FRAME + b"\0" + bytes(message.SerializeToString())

    return write


def decoding(format_: str, schema: Schema, values: list[bytes]) -> Callable[[], Any]:
    """A side: it decodes everything and returns the sum of the results."""
    fields = (*parse_fields(COLUMNS), *columns.METADATA_FIELDS)
    decoder = Decoder(DecoderSpec("bids", format_, "fail", fields), OneSchema(schema))
    batches = []
    for start in range(0, len(values), BATCH_RECORDS):
        part = values[start : start + BATCH_RECORDS]
        count = len(part)
        numbers = list(range(start, start + count))
        nothing = [None] * count
        batches.append(RawBatch([0] * count, numbers, [0] * count, nothing, part, nothing))

    def run() -> Any:
        rows = [decoder.decode(batch).rows for batch in batches]
        return [rows[0].slice(0, 5).to_pylist(), rows[-1].slice(0, 5).to_pylist(), len(rows)]

    return run


def main() -> None:
    """Runs them."""
    options = argparse.ArgumentParser()
    options.add_argument("--records", type=int, default=200_000)
    options.add_argument("--repeats", type=int, default=REPEATS)
    chosen = options.parse_args()
    rows = [bid(number) for number in range(chosen.records)]
    plain = decoding("json", Schema("JSON", ""), [as_json(row) for row in rows])
    sides = {
        "avro": decoding("avro", Schema("AVRO", json.dumps(AVRO)), list(map(as_avro(), rows))),
        "protobuf": decoding(
            "protobuf", Schema("PROTOBUF", PROTOBUF), list(map(as_protobuf(), rows))
        ),
    }
    notes = {"records": chosen.records, "batch": BATCH_RECORDS}
    found = [
        compare(
            f"{name}, against json", side, plain, goal=GOAL, repeats=chosen.repeats, notes=notes
        )
        for name, side in sides.items()
    ]
    report(found, "formats")


if __name__ == "__main__":
    main()
