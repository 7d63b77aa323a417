"""How Confluent's serializers, and those that do as they do, name the schema of a part.

Either the part itself begins with the schema's id (a zero byte and the registry's number in four
bytes), or a header of the record has it: Confluent's (`__key_schema_id`, `__value_schema_id`: a
GUID after a byte that is one, or what would otherwise precede the part), or Apicurio's
(`apicurio.key.contentId`, `apicurio.value.contentId`: the number in eight bytes).
"""

from __future__ import annotations

import uuid

from seamline.connectors.kafka.formats.schemas import SchemaId
from seamline.connectors.protocols.raw_records import Headers

PREFIX_BYTES = 5


def frame(value: bytes, headers: Headers | None, part: str, kind: str) -> tuple[SchemaId, bytes]:
    """Returns the schema id of a part, and the part itself.

    What follows the id in a header, such as the path to a Protobuf message, belongs to the part.

    Raises:
        ValueError: it names no schema, or in an unknown way.
    """
    for header, content in reversed(headers or ()):
        if header == f"__{part}_schema_id" and content is not None:
            length = _LENGTHS.get(content[:1], len(content))
            return id_of(content[:length]), content[length:] + value
        if header.startswith(f"apicurio.{part}.") and content is not None:
            return _of_apicurio(headers or (), part, kind), value
    return id_of(value[:PREFIX_BYTES]), value[PREFIX_BYTES:]


def bare(value: bytes) -> bytes:
    """Returns a part without the id before it."""
    return value[PREFIX_BYTES:]


def _of_apicurio(headers: Headers, part: str, kind: str) -> SchemaId:
    """Returns the id in Apicurio's headers; its global ids are not ids of Confluent's API."""
    apicurio = {name.removeprefix(f"apicurio.{part}."): content for name, content in headers}
    number = apicurio.get("contentId")
    if number is None or len(number) != 8:
        raise ValueError("its headers have no content id (apicurio.registry.use-id=contentId)")
    if kind == "PROTOBUF" or apicurio.get("encoding") == b"JSON":
        raise ValueError("its headers can be read only by Apicurio's own deserializer")
    return int.from_bytes(number, "big")


_LENGTHS = {b"\x00": PREFIX_BYTES, b"\x01": 17}
"""Lengths of a number and of a GUID, by the byte before them, which is included."""


def id_of(frame: bytes) -> SchemaId:
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
