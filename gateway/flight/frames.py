"""Encodes rows for clients: Arrow IPC messages, each in a Flight message.

A chunk of a result is already Arrow IPC, so its messages are sent unchanged, without decoding.
Clients accept messages of a few megabytes, so a larger message is split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from seamline.connectors.chunks import chunk_of

MESSAGE_BYTES = 8 << 20
"""The maximum size of a message, unless a single row is larger."""
_HEADER, _BODY = b"\x12", b"\xc2\x3e"
"""The tags of FlightData's fields 2 and 1000."""


def frames(chunks: Iterable[bytes], schema: pa.Schema) -> Iterator[bytes]:
    """Yields Flight messages with the rows of chunks: the schema first, then each batch.

    Args:
        chunks: Arrow IPC streams; at least one.
        schema: The schema of each, with metadata of its own.
    """
    is_first = True
    for chunk in chunks:
        if is_first:
            yield from map(_frame, pa.ipc.MessageReader.open_stream(schema.serialize()))
            is_first = False
        for message in pa.ipc.MessageReader.open_stream(chunk):
            if message.type != "schema":
                yield from map(_frame, _small(message, schema))


def table_frames(table: pa.Table) -> Iterator[bytes]:
    """Yields the same for a table of a few rows."""
    return frames([chunk_of(table.to_batches(), table.schema)], table.schema)


def _small(message: Any, schema: pa.Schema) -> Iterator[Any]:
    """Yields a message, or more of them with the same rows that are small enough."""
    if message.body is None or message.body.size <= MESSAGE_BYTES:
        yield message
        return
    batch = pa.ipc.read_record_batch(message, schema)
    rows = max(1, batch.num_rows * MESSAGE_BYTES // max(1, batch.nbytes) // 2)
    for start in range(0, batch.num_rows, rows):
        for part in _halved(batch.slice(start, rows)):
            yield from (
                each for each in pa.ipc.MessageReader.open_stream(part) if each.type != "schema"
            )


def _halved(batch: pa.RecordBatch) -> Iterator[pa.Buffer]:
    """Yields the rows in streams that are small enough, as rows may differ greatly in size."""
    size = pa.ipc.get_record_batch_size(batch)
    if size <= MESSAGE_BYTES or batch.num_rows == 1:
        yield chunk_of([batch], batch.schema)
        return
    half = batch.num_rows // 2
    yield from _halved(batch.slice(0, half))
    yield from _halved(batch.slice(half))


def _frame(message: Any) -> bytes:
    header, body = message.metadata, message.body
    parts = [_HEADER, _length(header.size), header]
    if body is not None and body.size:
        parts += [_BODY, _length(body.size), body]
    return b"".join(parts)


def _length(number: int) -> bytes:
    """Returns a number as a Protocol Buffers varint."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def schema_bytes(schema: pa.Schema) -> bytes:
    """Returns a schema in Flight's encoding."""
    return bytes(schema.serialize())
