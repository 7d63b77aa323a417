"""Reads rows that clients send as parameters, and unpacks nothing before its size is known.

An Arrow IPC message states how long its columns are, and the size of its buffers once decompressed;
a few bytes may claim terabytes. So the claim is read here from the message's FlatBuffer, before
Arrow allocates a byte for it. Values that rows share, such as those of a dictionary, are counted
once per row that may have them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.ipc
from flatbuffers.number_types import Int64Flags, Uint8Flags
from flatbuffers.table import Table

from seamline.errors import INVALID_REQUEST, SeamlineError
from seamline.sql.slices import whole

_CONTINUES = b"\xff\xff\xff\xff"
_ALIGNED = 8
_SHARED_BYTES_MAX = 64 << 20
"""Limit of the bytes, or the number, of shared values if each row had its own copy."""
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
"""The types of the header of a Message that have rows."""
_HEADER_TYPE, _HEADER = 6, 8
"""The slots of a Message's fields, as Arrow's `Message.fbs` numbers them."""
_DATA = 6
"""The slot of a DictionaryBatch's record batch."""
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = 4, 6, 8, 10
"""The slots of a RecordBatch's fields."""
_SHARING = (
    pa.types.is_dictionary,
    pa.types.is_run_end_encoded,
    pa.types.is_string_view,
    pa.types.is_binary_view,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
"""Types in which several rows may refer to the same bytes."""


def read_rows(messages: Iterable[Any], bytes_max: int) -> pa.Table:
    """Returns the rows that a client sends as parameters; a table without columns if it sends none.

    Args:
        messages: Flight messages, the schema first.
        bytes_max: Limit of their total decompressed size, and of the number of their values.

    Raises:
        SeamlineError: INVALID_REQUEST.
    """
    stream = bytearray()
    length = values = 0
    for message in messages:
        if not message.data_header:
            continue
        try:
            size = _Size.of(message.data_header, message.data_body)
        except (struct.error, TypeError) as error:
            raise _no_rows("a message cannot be read") from error
        length += len(message.data_header) + size.length
        values += size.values
        if length > bytes_max or values > bytes_max:
            raise SeamlineError(
                INVALID_REQUEST,
                f"the parameters have more than {bytes_max:,} bytes or values",
                hint="Send fewer rows at once; http.request_bytes_max is the limit.",
            )
        stream += _encapsulated(message.data_header, message.data_body)
    if not stream:
        return pa.table({})
    try:
        with pa.ipc.open_stream(bytes(stream)) as reader:
            table = reader.read_all()
        table.validate()
        _check_shared(table, values)  # before full validation, which looks at each value
        table.validate(full=True)
        table = whole(table)
        table.schema.names  # noqa: B018 - names that are not UTF-8 fail when they are read
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise _no_rows(str(error)) from error
    return table


def _no_rows(why: str) -> SeamlineError:
    return SeamlineError(
        INVALID_REQUEST,
        f"the parameters are not Arrow rows: {why}",
        hint="Send a schema and record batches.",
    )


def _check_shared(table: pa.Table, values: int) -> None:
    """Requires that shared values are few enough even if each row had its own copy.

    Args:
        table: The parameters.
        values: The number of their values, with shared ones counted once.

    Raises:
        SeamlineError: INVALID_REQUEST.
    """
    for field, column in zip(table.schema, table.columns, strict=True):
        shared = max(column.get_total_buffer_size(), values)
        if _shares(field.type) and len(column) * shared > _SHARED_BYTES_MAX:
            raise SeamlineError(
                INVALID_REQUEST,
                f"{len(column):,} rows may share {shared:,} bytes or values in a column of type "
                f"{str(field.type)[:100]}",
                hint="Send the values themselves, without a dictionary, runs or views.",
            )


def _shares(type_: pa.DataType) -> bool:
    inner = [type_.field(index).type for index in range(type_.num_fields)]
    return any(is_type(type_) for is_type in _SHARING) or any(map(_shares, inner))


def _encapsulated(header: bytes, body: bytes) -> bytes:
    """Returns an Arrow IPC message in its stream encoding."""
    header += b"\0" * (-len(header) % _ALIGNED)
    return _CONTINUES + struct.pack("<i", len(header)) + header + body


# --- The size that a message claims --------------------------------------------------------------


class _Size:
    """The size of a message's content.

    Attributes:
        length: Bytes of its body, decompressed.
        values: The number of values in its columns, including those in lists and structs.
    """

    def __init__(self, length: int, values: int) -> None:
        self.length = length
        self.values = values

    @classmethod
    def of(cls, header: bytes, body: bytes) -> _Size:
        """Returns the size of a message.

        Raises:
            struct.error, TypeError: The message is malformed.
        """
        message = Table(header, Table(header, 0).Indirect(0))
        kind, batch = message.GetSlot(_HEADER_TYPE, 0, Uint8Flags), _table(message, _HEADER)
        if kind == _DICTIONARY_BATCH and batch is not None:
            batch = _table(batch, _DATA)
        if kind not in {_DICTIONARY_BATCH, _RECORD_BATCH} or batch is None:
            return cls(len(body), 0)
        values = sum(abs(length) for length, _ in _pairs(batch, _NODES))
        values = max(values, abs(batch.GetSlot(_LENGTH, 0, Int64Flags)))
        decompressed = len(body)
        if _table(batch, _COMPRESSION) is not None:
            for start, length in _pairs(batch, _BUFFERS):
                if length:
                    (size,) = struct.unpack_from("<q", body, start)
                    decompressed += max(0, size)
        return cls(decompressed, values)


def _table(table: Table, slot: int) -> Table | None:
    """Returns a nested table; None if it is absent."""
    offset = table.Offset(slot)
    return Table(table.Bytes, table.Indirect(table.Pos + offset)) if offset else None


def _pairs(table: Table, slot: int) -> Iterator[tuple[int, int]]:
    """Yields the elements of a vector of structs of two 64-bit integers."""
    offset = table.Offset(slot)
    if offset:
        start, count = table.Vector(offset), table.VectorLen(offset)
        yield from struct.iter_unpack("<qq", table.Bytes[start : start + 16 * count])
