"""The part of Kafka's wire format that is needed to ask a broker about itself.

Requests with headers of version 2, and a reader of answers: numbers, and the compact strings,
arrays and tagged fields of newer versions.
"""

from __future__ import annotations

import struct
from typing import Any

API_VERSIONS = 18
DESCRIBE_QUORUM = 55


def request(api: int, version: int, body: bytes) -> bytes:
    """Returns a request, prefixed with its length; the client id is `seamline`."""
    name = b"seamline"
    head = struct.pack(">hhih", api, version, 1, len(name)) + name + b"\x00"
    return struct.pack(">i", len(head) + len(body)) + head + body


def text(value: str) -> bytes:
    """Returns a compact string; for short ones, whose length is one byte."""
    return bytes([len(value) + 1]) + value.encode()


class Reader:
    """Reads an answer from its beginning.

    Raises, in each of its methods:
        ValueError, struct.error: the answer ends too early.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, form: str) -> tuple[Any, ...]:
        """Returns numbers in a format of `struct`."""
        found = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return found

    def int16(self) -> int:
        """Returns a 16-bit number, such as an error code."""
        return int(self.take(">h")[0])

    def unsigned(self) -> int:
        """Returns a varint: a number in seven bits per byte."""
        found, shift = 0, 0
        while True:
            byte = int(self.take(">B")[0])
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7

    def count(self) -> int:
        """Returns how many entries a compact array has."""
        return max(0, self.unsigned() - 1)

    def piece(self, length: int) -> bytes:
        """Returns the next `length` bytes."""
        found = self._data[self._at : self._at + length]
        if len(found) < length:
            raise ValueError("the answer ends too early")
        self._at += length
        return found

    def text(self) -> str:
        """Returns a compact string."""
        return self.piece(self.count()).decode()

    def tags(self) -> dict[int, bytes]:
        """Returns the tagged fields."""
        return {self.unsigned(): self.piece(self.unsigned()) for _ in range(self.unsigned())}
