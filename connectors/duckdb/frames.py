"""The frames that the gateway and the processes that run DuckDB exchange over a socket.

A frame is a kind, a length and that many bytes. A statement is sent in two parts: where its tails
are, if they are in shared memory, and everything else pickled. What comes back is Arrow and text.
"""

from __future__ import annotations

import dataclasses
import enum
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from seamline.connectors import joined
from seamline.connectors.duckdb.engine import Statement
from seamline.connectors.duckdb.storage import is_remote
from seamline.connectors.protocols.engine_tails import SpilledTail, TailSource
from seamline.connectors.protocols.engines import EngineScan
from seamline.connectors.shared_memory import MappedMemory, PlacedRows, SharedMemory, compact
from seamline.sql.functions import FUNCTIONS
from seamline.sql.kernels.kernel import Kernel

STORED = struct.Struct("<QQQ")
"""Where a chunk begins in the file of its statement, its size in bytes, and its rows."""
FIRST_BYTES = 1 << 20
"""Bytes of rows that are sent themselves before others go to a file."""
_HEAD = struct.Struct("<BQ")
_JOINED_BYTES_MAX = 16 << 10
"""Smaller buffers are sent together."""
_ROWS_BYTES = 4 << 20
"""Rows are sent in parts of about this size; a row that is larger is sent by itself."""


class Kind(enum.IntEnum):
    """What a frame says."""

    SETTINGS = 1
    """To the process: the arguments of its engine."""
    RUN = 2
    """To the process: seconds left, and a statement."""
    STOP = 3
    """To the process: the number of the statement that must end."""
    STEP_BACK = 4
    """To the process: the number of the statement that must let others go first."""
    READY = 5
    """From the process: its id."""
    TAKEN = 6
    """From the process: the statement has arrived."""
    STARTED = 7
    """From the process: the statement runs."""
    BATCH = 8
    """From the process: rows of its result, in Arrow's format."""
    DONE = 9
    """From the process: that was all."""
    FAILED = 10
    """From the process: an error instead of the above, as JSON."""
    LOG = 11
    """From the process: a log line, as JSON."""
    CHUNK = 12
    """From the process: rows of its result that it wrote to the statement's file; see `STORED`."""


def send(channel: socket.socket, kind: Kind, *content: Any) -> None:
    """Sends a frame of some buffers.

    Raises:
        OSError: when the other side has gone.
    """
    parts = [memoryview(part) for part in content]
    head = _HEAD.pack(kind, sum(part.nbytes for part in parts))
    if all(part.nbytes < _JOINED_BYTES_MAX for part in parts):
        channel.sendall(b"".join([head, *parts]))
        return
    channel.sendall(head)
    for part in parts:
        channel.sendall(part)


def in_parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a batch, some megabytes at a time, so that the gateway holds no more."""
    if batch.num_rows <= 1 or batch.nbytes <= _ROWS_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from in_parts(batch.slice(0, half))
    yield from in_parts(batch.slice(half))


def receive(channel: socket.socket) -> tuple[Kind, pa.Buffer]:
    """Waits for a frame.

    Raises:
        EOFError: when the other side has gone.
        OSError: likewise.
    """
    kind, size = _HEAD.unpack(_exactly(channel, _HEAD.size))
    return Kind(kind), _exactly(channel, size)


def _exactly(channel: socket.socket, size: int) -> pa.Buffer:
    buffer = pa.allocate_buffer(size)
    rest = memoryview(buffer)
    while rest.nbytes:
        count = channel.recv_into(rest)
        if not count:
            raise EOFError
        rest = rest[count:]
    return buffer


# --- Statements ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Rows:
    """A table as it is sent: its batches, or where they are in shared memory."""

    schema: pa.Schema
    parts: tuple[pa.RecordBatch | PlacedRows, ...]


def packed(statement: Statement, memory: SharedMemory) -> list[memoryview]:
    """Serializes a statement into parts, which are sent one after the other.

    The rows of its tails must be kept until the statement has ended.
    """
    travelling = dataclasses.replace(
        statement,
        scans=tuple(map(_without_unused, statement.scans)),
        tails=_with_rows(statement.tails, lambda rows: _packed_rows(rows, memory)),
    )
    return joined.packed(travelling, {Kernel: _reduced})


def unpacked(piece: pa.Buffer, memory: MappedMemory) -> Statement:
    """Deserializes a statement from what was received."""
    statement: Statement = joined.unpacked(piece)
    tails = _with_rows(statement.tails, lambda rows: _unpacked_rows(rows, memory))
    return dataclasses.replace(statement, tails=tails)


def _without_unused(scan: EngineScan) -> EngineScan:
    """Drops the file access of a scan that reads no remote file, as loading it takes a second."""
    files = scan.cold.files if scan.cold is not None else ()
    is_used = any(is_remote(file.path) for file in files)
    return scan if is_used else dataclasses.replace(scan, file_access=None)


def _with_rows(tails: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    return {
        name: tail
        if isinstance(tail, TailSource)
        else dataclasses.replace(tail, rows=change(tail.rows))
        if isinstance(tail, SpilledTail)
        else change(tail)
        for name, tail in tails.items()
    }


def _packed_rows(rows: pa.Table, memory: SharedMemory) -> _Rows:
    return _Rows(
        rows.schema,
        tuple(memory.find(batch) or compact(batch) for batch in rows.to_batches()),
    )


def _unpacked_rows(rows: _Rows, memory: MappedMemory) -> pa.Table:
    batches = [
        pa.RecordBatch.from_arrays(memory.columns(part), schema=rows.schema)
        if isinstance(part, PlacedRows)
        else part
        for part in rows.parts
    ]
    return pa.Table.from_batches(batches, rows.schema)


def _reduced(kernel: Kernel) -> Any:
    """Pickles a kernel by its place in the table of functions, or whole if a statement made it."""
    name = _PLACES.get(id(kernel))
    if name is not None:
        return _declared, name
    return Kernel, (kernel.name, kernel.compute, kernel.engines)


_PLACES = {
    id(overload.kernel): (name, number)
    for name, overloads in FUNCTIONS.items()
    for number, overload in enumerate(overloads)
    if overload.kernel is not None
}
"""The places of kernels in the table of functions, which is the same in every process."""


def _declared(name: str, number: int) -> Kernel:
    kernel = FUNCTIONS[name][number].kernel
    assert kernel is not None
    return kernel
