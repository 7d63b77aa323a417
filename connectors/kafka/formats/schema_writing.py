"""Writes parts with a schema: the table's own, or the newest that is registered for the topic.

A part of a registered schema is prefixed as Confluent's serializers do it: with a zero byte, the
schema's id in four bytes, and for Protobuf the index of the part's message, which is the first.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from typing import Any, TypeAlias

from seamline.connectors.kafka.formats.infer_schema import KINDS
from seamline.connectors.kafka.formats.parts import Setting
from seamline.connectors.kafka.formats.schemas import Earlier, Schema
from seamline.connectors.kafka.formats.tree_writing import encoder
from seamline.connectors.kafka.formats.trees import Node, spelt
from seamline.sql.types import Type

Write: TypeAlias = Callable[[Any], bytes]
"""Makes a part from a column's value, or from a row of values; raises ValueError."""
_FIRST_MESSAGE = b"\0"


def part_writer(setting: Setting, format_: str, topic: str, type_: Type, path: str = "") -> Write:
    """Returns a function that writes parts of a topic's records.

    Args:
        setting: Keys or values, and where their schemas are.
        format_: Their format, one of `KINDS`.
        topic: Name of the topic.
        type_: What parts are made from: the row of their fields, or one column.
        path: Its name in error messages.

    Raises:
        ValueError: there is no such schema, or it has no values for such columns.
        SeamlineError: SCHEMA_REGISTRY_UNAVAILABLE, DEADLINE_EXCEEDED.
    """
    kind = KINDS[format_]
    if setting.schema is not None:
        frame, schema = b"", Schema(kind, setting.schema)
        earlier: Earlier = tuple
    else:
        number, schema = _newest(setting, f"{topic}-{setting.part}", kind)
        earlier = functools.partial(setting.schemas.earlier, number)
        frame = _framed(number) + (_FIRST_MESSAGE if kind == "PROTOBUF" else b"")
    node, write = _of_kind(kind, schema, earlier, type_)
    encode = encoder(spelt(node, setting.spelling), type_, path)
    return lambda value: frame + write(encode(value))


@dataclasses.dataclass(frozen=True, slots=True)
class Described:
    """How to write JSON that has a schema.

    Attributes:
        frame: The bytes that precede it.
        check: Raises ValueError for a text that does not conform to the schema.
        required: The names that objects must have.
    """

    frame: bytes
    check: Callable[[bytes], None]
    required: frozenset[str]

    def written(self, text: bytes) -> bytes:
        """Returns the part.

        Raises:
            ValueError: the text does not conform to the schema.
        """
        self.check(text)
        return self.frame + text


def described(setting: Setting, topic: str) -> Described:
    """Returns how to write parts of a topic's records in JSON that has a schema.

    Raises:
        ValueError: there is no such schema, or it is not JSON Schema.
        SeamlineError: as `part_writer`.
    """
    from seamline.connectors.kafka.formats.json_schema_checks import checker

    frame, schema = b"", Schema("JSON", setting.schema or "")
    if setting.schema is None:
        number, schema = _newest(setting, f"{topic}-{setting.part}", "JSON")
        frame = _framed(number)
    check = checker(schema)
    root = json.loads(schema.text)
    names = root.get("required", ()) if isinstance(root, dict) else ()
    return Described(frame, check, frozenset(names))


def _framed(number: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big")


def _newest(setting: Setting, subject: str, kind: str) -> tuple[int, Schema]:
    newest = setting.schemas.latest(subject)
    if newest is None:
        raise ValueError(f"the schema registry has no subject {subject}")
    if newest[1].kind != kind:
        raise ValueError(f"subject {subject} is of the kind {newest[1].kind}, not {kind}")
    return newest


def _of_kind(kind: str, schema: Schema, earlier: Earlier, type_: Type) -> tuple[Node, Write]:
    if kind == "AVRO":
        from seamline.connectors.kafka.formats.avro_values import avro_writer

        return avro_writer(schema)
    from seamline.connectors.kafka.formats.protobuf_values import protobuf_writer

    return protobuf_writer(schema, earlier, type_)
