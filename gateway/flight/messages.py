"""The messages of Arrow Flight and Flight SQL, as `flight.proto` and `flight_sql.proto` have them.

Flight SQL's commands, and what actions take and return, are wrapped in an `Any`.
"""

from __future__ import annotations

import pathlib
from typing import Any

from google.protobuf import any_pb2, message_factory
from google.protobuf.message import DecodeError

from seamline.connectors.kafka.formats import protobuf_schema
from seamline.connectors.kafka.formats.schemas import Schema
from seamline.errors import INVALID_REQUEST, NOT_SUPPORTED, SeamlineError

_TYPE_URL = "type.googleapis.com/arrow.flight.protocol.sql."
_SPEAK = "The client must speak Arrow Flight SQL."


def _classes(file: str) -> dict[str, Any]:
    text = pathlib.Path(__file__).with_name(file).read_text(encoding="utf-8")
    types = protobuf_schema.compiled(Schema("PROTOBUF", text)).message_types_by_name
    return {name: message_factory.GetMessageClass(type_) for name, type_ in types.items()}


_COMMANDS = _classes("flight_sql.proto")
CLASSES = {**_classes("flight.proto"), **_COMMANDS}
"""The class of each message, by the message's name."""


def new(name: str, **fields: Any) -> Any:
    """Returns a new message."""
    return CLASSES[name](**fields)


def read(name: str, data: bytes) -> Any:
    """Parses a message of a given kind.

    Raises:
        SeamlineError: INVALID_REQUEST.
    """
    try:
        return CLASSES[name].FromString(data)
    except DecodeError as error:
        raise SeamlineError(
            INVALID_REQUEST, f"not a valid Arrow Flight {name}", hint=_SPEAK
        ) from error


def packed(name: str, **fields: Any) -> bytes:
    """Returns a serialized Flight SQL message, wrapped in an `Any`."""
    content = new(name, **fields).SerializeToString()
    wrapper = any_pb2.Any(type_url=_TYPE_URL + name, value=content)
    return bytes(wrapper.SerializeToString())


def unpacked(data: bytes) -> tuple[str, Any]:
    """Parses a wrapped message; returns its name, and its content, or None if it is unknown here.

    Raises:
        SeamlineError: INVALID_REQUEST for bytes that are not such a message.
    """
    try:
        wrapper = any_pb2.Any.FromString(data)
    except DecodeError:
        wrapper = any_pb2.Any()
    if not wrapper.type_url.startswith(_TYPE_URL):
        raise SeamlineError(INVALID_REQUEST, "not a valid Arrow Flight SQL command", hint=_SPEAK)
    name = wrapper.type_url.removeprefix(_TYPE_URL)
    return name, read(name, wrapper.value) if name in _COMMANDS else None


def unpacked_as(name: str, data: bytes) -> Any:
    """Parses a wrapped message of a given kind, and returns its content.

    Raises:
        SeamlineError: INVALID_REQUEST.
    """
    actual, content = unpacked(data)
    if actual != name:
        raise SeamlineError(INVALID_REQUEST, f"expected {name}, got {actual[:100]}")
    return content


def check_alone(command: Any) -> None:
    """Requires that a command is not part of a transaction.

    Raises:
        SeamlineError: NOT_SUPPORTED.
    """
    if command.transaction_id:
        raise SeamlineError(
            NOT_SUPPORTED, "transactions are not supported", hint="Leave out transaction_id."
        )
