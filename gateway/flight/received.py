"""Rows that clients send, as parameters: nothing of them is unpacked before it is known how large.

A message of Arrow IPC says how long its columns are, and how much its buffers hold once they are
decompressed; a few bytes may say that it is terabytes. What a message says is therefore read here,
from its FlatBuffer, before Arrow allocates a byte for it. Values that rows share, as those of a
dictionary, count as often as rows may have them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from seamline.errors import INVALID_REQUEST, SeamlineError

_CONTINUES = b"\xff\xff\xff\xff"
_ALIGNED = 8
_SHARED_BYTES_MAX = 64 << 20
"""What rows may have together, in bytes or in number, of values that they share."""
_DICTIONARY, _RECORDS = 2, 3
"""Kinds of messages."""
_SHARE = (
    pa.types.is_dictionary,
    pa.types.is_run_end_encoded,
    pa.types.is_string_view,
    pa.types.is_binary_view,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
"""Types in which several rows may refer to the same bytes."""


def read_rows(messages: Iterable[Any], bytes_max: int) -> pa.Table:
    """The rows that a client sends, as it sends parameters; without columns where it sends none.

    Args:
        messages: Messages of Flight, with the schema first.
        bytes_max: What they may have together, decompressed; and how many values.

    Raises:
        SeamlineError: INVALID_REQUEST.
    """
    found = bytearray()
    length = values = 0
    for message in messages:
        if not message.data_header:
            continue
        try:
            size = _Size.of(message.data_header, message.data_body)
        except (struct.error, OverflowError) as error:
            raise _no_rows("a message cannot be read") from error
        length += len(message.data_header) + size.length
        values += size.values
        if length > bytes_max or values > bytes_max:
            raise SeamlineError(
                INVALID_REQUEST,
                f"the parameters have more than {bytes_max:,} bytes, or values",
                hint="Send fewer rows at once; http.request_bytes_max is the limit.",
            )
        found += _encapsulated(message.data_header, message.data_body)
    if not found:
        return pa.table({})
    try:
        with pa.ipc.open_stream(bytes(found)) as reader:
            table = reader.read_all()
        table.validate()
        _check_shared(table, values)  # before each of them is looked at
        table.validate(full=True)
        table.schema.names  # noqa: B018 - texts that are no UTF-8 show when they are asked for
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise _no_rows(str(error)) from error
    return table


def _no_rows(why: str) -> SeamlineError:
    return SeamlineError(
        INVALID_REQUEST,
        f"the parameters are no rows of Arrow: {why}",
        hint="Send a schema and record batches.",
    )


def _check_shared(table: pa.Table, values: int) -> None:
    """Values that rows share are few enough, if each row had its own.

    Args:
        table: The rows.
        values: How many values they have, shared ones counted once.

    Raises:
        SeamlineError: INVALID_REQUEST.
    """
    for field, column in zip(table.schema, table.columns, strict=True):
        each = max(column.nbytes, values)
        if _shares(field.type) and len(column) * each > _SHARED_BYTES_MAX:
            raise SeamlineError(
                INVALID_REQUEST,
                f"{len(column):,} rows may share {each:,} bytes or values in a column of type "
                f"{str(field.type)[:100]}",
                hint="Send the values themselves, without a dictionary, runs or views.",
            )


def _shares(type_: pa.DataType) -> bool:
    inner = [type_.field(place).type for place in range(type_.num_fields)]
    return any(known(type_) for known in _SHARE) or any(map(_shares, inner))


def _encapsulated(header: bytes, body: bytes) -> bytes:
    """A message of Arrow IPC as it stands in a stream."""
    header += b"\0" * (-len(header) % _ALIGNED)
    return _CONTINUES + struct.pack("<i", len(header)) + header + body


# --- What a message says of its size -------------------------------------------------------------


class _Size:
    """How large the content of a message is.

    Attributes:
        length: Bytes of its body, decompressed.
        values: How many values its columns have, those in lists and structures, too.
    """

    def __init__(self, length: int, values: int) -> None:
        self.length = length
        self.values = values

    @classmethod
    def of(cls, header: bytes, body: bytes) -> _Size:
        """That of a message.

        Raises:
            struct.error, OverflowError: It says nonsense.
        """
        message = _Flat.root(header)
        kind, content = message.number(1, "B"), message.table(2)
        if kind == _DICTIONARY and content is not None:
            content = content.table(1)
        if kind not in {_DICTIONARY, _RECORDS} or content is None:
            return cls(len(body), 0)
        values = sum(abs(length) for length, _ in content.pairs(1))
        values = max(values, abs(content.number(0, "q")))
        if content.table(3) is None:
            return cls(len(body), values)
        held = len(body)
        for start, length in content.pairs(2):
            if length:
                (whole,) = struct.unpack_from("<q", body, start)
                held += max(0, whole)
        return cls(held, values)


class _Flat:
    """A table of a FlatBuffer, its fields by their numbers."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data = data
        self._place = place
        self._fields = place - self._at("<i", place)

    @classmethod
    def root(cls, data: bytes) -> _Flat:
        """The outermost."""
        return cls(data, struct.unpack_from("<I", data)[0])

    def number(self, field: int, kind: str) -> int:
        """A number; 0 where it is not there."""
        place = self._field(field)
        return self._at(f"<{kind}", place) if place else 0

    def table(self, field: int) -> _Flat | None:
        """A table inside of it."""
        place = self._field(field)
        return _Flat(self._data, place + self._at("<I", place)) if place else None

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """A list of structures of two long numbers."""
        place = self._field(field)
        if place:
            start = place + self._at("<I", place)
            count = self._at("<I", start)
            yield from struct.iter_unpack("<qq", self._data[start + 4 : start + 4 + 16 * count])

    def _field(self, number: int) -> int:
        """Where a field is; 0 where it is not there."""
        place = 4 + 2 * number
        if place >= self._at("<H", self._fields):
            return 0
        offset = self._at("<H", self._fields + place)
        return self._place + offset if offset else 0

    def _at(self, kind: str, place: int) -> int:
        if place < 0:
            raise struct.error("a place before the beginning")
        found: int = struct.unpack_from(kind, self._data, place)[0]
        return found
