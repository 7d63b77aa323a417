"""How Confluent's serializers, and those that do as they do, name the schema of a part.

Either the part itself begins with the schema's id (a zero byte and the registry's number in four
bytes), or a header of the record has it: Confluent's (`__key_schema_id`, `__value_schema_id`: a
GUID after a byte that is one, or what would otherwise precede the part), or Apicurio's
(`apicurio.key.contentId`, `apicurio.value.contentId`: the number in eight bytes). A Protobuf
message is preceded by the path to it: how many indexes there are, then each, as zigzag varints.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from seamline.connectors.kafka.formats.framing import (
    NO_PATH,
    Framing,
    MessagePath,
    SchemaId,
    zigzag,
)
from seamline.connectors.protocols.raw_records import Headers

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor

_PREFIX_BYTES = 5
_FIRST_MESSAGE = b"\0"


def _read(value: bytes, headers: Headers | None, part: str, kind: str) -> tuple[SchemaId, bytes]:
    """See `Framing.read`.

    What follows the id in a header, such as the path to a Protobuf message, belongs to the part.
    """
    for header, content in reversed(headers or ()):
        if header == f"__{part}_schema_id" and content is not None:
            length = _LENGTHS.get(content[:1], len(content))
            return _id_of(content[:length]), content[length:] + value
        if header.startswith(f"apicurio.{part}.") and content is not None:
            return _of_apicurio(headers or (), part, kind), value
    return _id_of(value[:_PREFIX_BYTES]), value[_PREFIX_BYTES:]


def _write(schema_id: SchemaId, part: str, kind: str) -> tuple[bytes, Headers]:  # noqa: ARG001
    """See `Framing.write`."""
    return b"\0" + int(schema_id).to_bytes(4, "big"), ()


def _message_path(value: bytes, file: FileDescriptor) -> tuple[MessagePath, int]:  # noqa: ARG001
    """See `Framing.message_path`."""
    count, position = zigzag(value, 0, NO_PATH)
    if not 0 <= count <= len(value):
        raise ValueError(NO_PATH)
    indexes = []
    for _ in range(count):
        index, position = zigzag(value, position, NO_PATH)
        indexes.append(index)
    return tuple(indexes) or (0,), position


def _of_apicurio(headers: Headers, part: str, kind: str) -> SchemaId:
    """Returns the id in Apicurio's headers; its global ids are not ids of Confluent's API."""
    apicurio = {name.removeprefix(f"apicurio.{part}."): content for name, content in headers}
    number = apicurio.get("contentId")
    if number is None or len(number) != 8:
        raise ValueError("its headers have no content id (apicurio.registry.use-id=contentId)")
    if kind == "PROTOBUF" or apicurio.get("encoding") == b"JSON":
        raise ValueError("its headers can be read only by Apicurio's own deserializer")
    return int.from_bytes(number, "big")


_LENGTHS = {b"\x00": _PREFIX_BYTES, b"\x01": 17}
"""Lengths of a number and of a GUID, by the byte before them, which is included."""


def _id_of(frame: bytes) -> SchemaId:
    """Returns the id that precedes a part, or is in a header; raises ValueError for others."""
    match frame[:1], len(frame):
        case b"\x00", 5:
            return int.from_bytes(frame[1:], "big")
        case b"\x01", 17:
            return str(uuid.UUID(bytes=frame[1:]))
    raise ValueError(
        f"no schema id before it, but {frame[:5].hex(' ') or 'nothing'}"
        if len(frame) < 17
        else "its header is not a schema id"
    )


FRAMING = Framing(
    _read,
    _write,
    _message_path,
    lambda _: _FIRST_MESSAGE,
    mark=b"\0",
    prefix_bytes=_PREFIX_BYTES,
    bare=lambda value: value[_PREFIX_BYTES:],
)
