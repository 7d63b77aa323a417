"""The value that says how a schema registry's serializers name the schema of a part.

Each registry's module has one: its class names it, and everything else asks that class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from seamline.connectors.protocols.raw_records import Headers

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor

SchemaId: TypeAlias = int | str
"""A registry's number for a schema, or its GUID."""
MessagePath: TypeAlias = tuple[int, ...]
"""The indexes that lead to a message of a Protobuf file."""
NO_PATH = "not Protobuf: no path to its message precedes it"


def _no_path(value: bytes, file: FileDescriptor) -> tuple[MessagePath, int]:  # noqa: ARG001
    raise ValueError("its serializers write no Protobuf")


def _as_it_is(value: bytes) -> bytes:
    return value


@dataclasses.dataclass(frozen=True, slots=True)
class Framing:
    """How serializers name the schema of a part.

    Attributes:
        read: (part as in the log, headers, `key` or `value`, kind of schema) → schema id, and the
            part itself. Raises ValueError if it names no schema, or in an unknown way.
        write: (schema id, `key` or `value`, kind of schema) → the bytes before such a part, and the
            headers beside it. Raises ValueError if there are no such parts.
        message_path: (part itself, file) → the path to its Protobuf message, and where it begins. A
            part that begins with a zero byte begins with nothing else. Raises ValueError.
        first_message: The bytes that name the first message of a Protobuf file.
        mark: The first bytes of parts that an id of fixed length precedes; empty if none does.
        prefix_bytes: The length of what precedes such a part, the mark included.
        bare: Returns a part without what precedes it; raises ValueError if it is damaged.
    """

    read: Callable[[bytes, Headers | None, str, str], tuple[SchemaId, bytes]]
    write: Callable[[SchemaId, str, str], tuple[bytes, Headers]]
    message_path: Callable[[bytes, FileDescriptor], tuple[MessagePath, int]] = _no_path
    first_message: Callable[[FileDescriptor], bytes] = lambda _: b""
    mark: bytes = b""
    prefix_bytes: int = 0
    bare: Callable[[bytes], bytes] = _as_it_is


def varint(value: bytes, position: int, problem: str) -> tuple[int, int]:
    """Returns the varint of at most 35 bits at a position, and the position after it.

    Raises:
        ValueError: there is none; the problem is its text.
    """
    bits = shift = 0
    while position < len(value) and shift < 35:
        byte = value[position]
        position += 1
        bits |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return bits, position
    raise ValueError(problem)


def zigzag(value: bytes, position: int, problem: str) -> tuple[int, int]:
    """Returns the zigzag varint at a position, and the position after it; see `varint`."""
    bits, position = varint(value, position, problem)
    return (bits >> 1) ^ -(bits & 1), position
