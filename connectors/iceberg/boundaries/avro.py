"""Decodes an Avro value prefixed by its schema, as Iceberg's Java library encodes small messages.

A message is two magic bytes, the schema's JSON as Java writes a string (two bytes of length), then
the value. The decoder supports only what such messages hold, and leaves logical types in their
encoded form. Avro libraries refuse these messages: they declare a type without a namespace, and use
it inside a namespace by its bare name.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

MAGIC = b"\xc2\x01"


def decode(message: bytes) -> Any:
    """Returns the value of a message: records as dicts, fixed and bytes as bytes.

    Raises:
        ValueError: when it is not such a message.
    """
    stream = io.BytesIO(message)
    if stream.read(2) != MAGIC:
        raise ValueError("it does not start like an Iceberg message")
    (length,) = struct.unpack(">H", _exactly(stream, 2))
    schema = json.loads(_exactly(stream, length))
    return _value(schema, {}, stream)


def _value(schema: Any, named: dict[str, Any], stream: io.BytesIO) -> Any:
    if isinstance(schema, list):
        return _value(schema[_long(stream)], named, stream)
    if isinstance(schema, str):
        return _value(named[schema], named, stream) if schema in named else _PLAIN[schema](stream)
    kind = schema["type"]
    if "name" in schema and kind in ("record", "fixed", "enum"):
        named[schema["name"]] = schema
    match kind:
        case "record":
            return {f["name"]: _value(f["type"], named, stream) for f in schema["fields"]}
        case "array":
            return [_value(schema["items"], named, stream) for _ in _items(stream)]
        case "map":
            return {_text(stream): _value(schema["values"], named, stream) for _ in _items(stream)}
        case "fixed":
            return _exactly(stream, schema["size"])
        case "enum":
            return schema["symbols"][_long(stream)]
    return _value(kind, named, stream)


def _items(stream: io.BytesIO) -> Iterator[None]:
    """Yields once for each item in the blocks of an array or a map."""
    while count := _long(stream):
        if count < 0:
            _long(stream)  # the size of the block
        yield from [None] * abs(count)


def _exactly(stream: io.BytesIO, length: int) -> bytes:
    data = stream.read(length)
    if length < 0 or len(data) != length:
        raise ValueError("the message ends early")
    return data


def _long(stream: io.BytesIO) -> int:
    """Reads a zigzag-encoded integer of variable length."""
    number = shift = 0
    while True:
        (byte,) = _exactly(stream, 1)
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def _bytes(stream: io.BytesIO) -> bytes:
    return _exactly(stream, _long(stream))


def _text(stream: io.BytesIO) -> str:
    return _bytes(stream).decode()


_PLAIN: Mapping[str, Any] = {
    "null": lambda _: None,
    "boolean": lambda stream: _exactly(stream, 1) != b"\0",
    "int": _long,
    "long": _long,
    "float": lambda stream: struct.unpack("<f", _exactly(stream, 4))[0],
    "double": lambda stream: struct.unpack("<d", _exactly(stream, 8))[0],
    "bytes": _bytes,
    "string": _text,
}
