"""Encodes rows for clients: Arrow IPC messages, each in a `FlightData`.

A chunk of a result is already Arrow IPC, so its messages are sent unchanged, without decoding.
Clients accept messages of a few megabytes, so a larger message is split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.ipc

from seamline.connectors.chunks import chunk_of
from seamline.gateway.flight import messages

_BODY = b"\xc2\x3e"
"""The tag of FlightData's field 1000, its body."""
MESSAGE_BYTES = 8 << 20
"""The maximum size of a message, unless a single row is larger."""


def flight_data(chunks: Iterable[bytes], schema: pa.Schema) -> Iterator[bytes]:
    """Yields serialized `FlightData` with the rows of chunks: the schema first, then each batch.

    Args:
        chunks: Arrow IPC streams; at least one.
        schema: The schema of each, with metadata of its own.
    """
    is_first = True
    for chunk in chunks:
        if is_first:
            yield from map(_encoded, pa.ipc.MessageReader.open_stream(schema.serialize()))
            is_first = False
        for message in _batches(chunk):
            yield from map(_encoded, _small(message, schema))


def table_data(table: pa.Table) -> Iterator[bytes]:
    """Yields the same for a table of a few rows."""
    return flight_data([chunk_of(table.to_batches(), table.schema)], table.schema)


def schema_bytes(schema: pa.Schema) -> bytes:
    """Returns a schema in Flight's encoding."""
    return bytes(schema.serialize())


def _batches(stream: pa.Buffer | bytes) -> Iterator[pa.Message]:
    """Yields the messages of a stream, except that of its schema."""
    return (each for each in pa.ipc.MessageReader.open_stream(stream) if each.type != "schema")


def _small(message: pa.Message, schema: pa.Schema) -> Iterator[pa.Message]:
    """Yields a message, or more of them with the same rows that are small enough."""
    if message.body is None or message.body.size <= MESSAGE_BYTES:
        yield message
        return
    for part in _halved(pa.ipc.read_record_batch(message, schema)):
        yield from _batches(chunk_of([part], schema))


def _halved(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields the rows in batches that are small enough, as rows may differ greatly in size."""
    if pa.ipc.get_record_batch_size(batch) <= MESSAGE_BYTES or batch.num_rows == 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _halved(batch.slice(0, half))
    yield from _halved(batch.slice(half))


def _encoded(message: pa.Message) -> bytes:
    """Returns a serialized `FlightData`; the body is joined to it, which copies it only once."""
    fields: bytes = messages.new(
        "FlightData", data_header=message.metadata.to_pybytes()
    ).SerializeToString()
    body = message.body
    if body is None or not body.size:
        return fields
    return b"".join((fields, _BODY, _varint(body.size), body))


def _varint(number: int) -> bytes:
    """Returns a number as Protocol Buffers write the length of a field."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)
