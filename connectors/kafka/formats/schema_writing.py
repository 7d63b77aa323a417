"""Writes parts with a schema: the table's own, or the newest that is registered for the topic.

The id of a registered schema precedes its parts, or is in a header beside them, as the registry's
own serializers do it. A Protobuf part is the first message of its file.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from typing import Any, TypeAlias

from seamline.connectors.kafka.formats.framing import Framing, SchemaId
from seamline.connectors.kafka.formats.infer_schema import KINDS
from seamline.connectors.kafka.formats.own_schema import OwnSchema, own_schema
from seamline.connectors.kafka.formats.parts import Setting
from seamline.connectors.kafka.formats.tree_writing import encoder
from seamline.connectors.kafka.formats.trees import Node, spelt
from seamline.connectors.protocols.raw_records import Headers
from seamline.sql.types import Type

Write: TypeAlias = Callable[[Any], bytes]
"""Makes a part from a column's value, or from a row of values; raises ValueError."""


@dataclasses.dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes parts of one schema.

    Attributes:
        write: Makes a part.
        headers: The headers beside each part.
    """

    write: Write
    headers: Headers


def part_writer(
    setting: Setting, format_: str, topic: str, type_: Type, path: str = ""
) -> PartWriter:
    """Returns what writes parts of a topic's records.

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
    prefix, framing = b"", None
    headers: Headers = ()
    own = own_schema(setting, kind)
    if own is None:
        schema_id, own = _newest(setting, f"{topic}-{setting.part}", kind)
        framing = setting.schemas.framing
        prefix, headers = framing.write(schema_id, setting.part, kind)
    node, write = _of_kind(own, type_, framing)
    encode = encoder(spelt(node, setting.spelling), type_, path)
    return PartWriter(lambda value: prefix + write(encode(value)), headers)


@dataclasses.dataclass(frozen=True, slots=True)
class Described:
    """How to write JSON that has a schema.

    Attributes:
        prefix: The bytes that precede it.
        headers: The headers beside it.
        check: Raises ValueError for a text that does not conform to the schema.
        required: The names that objects must have.
    """

    prefix: bytes
    headers: Headers
    check: Callable[[bytes], None]
    required: frozenset[str]

    def written(self, text: bytes) -> bytes:
        """Returns the part.

        Raises:
            ValueError: the text does not conform to the schema.
        """
        self.check(text)
        return self.prefix + text


def described(setting: Setting, topic: str) -> Described:
    """Returns how to write parts of a topic's records in JSON that has a schema.

    Raises:
        ValueError: there is no such schema, or it is not JSON Schema.
        SeamlineError: as `part_writer`.
    """
    from seamline.connectors.kafka.formats.json_schema_checks import checker

    prefix = b""
    headers: Headers = ()
    own = own_schema(setting, "JSON")
    if own is None:
        schema_id, own = _newest(setting, f"{topic}-{setting.part}", "JSON")
        prefix, headers = setting.schemas.framing.write(schema_id, setting.part, "JSON")
    check = checker(own.schema)
    root = json.loads(own.schema.text)
    names = root.get("required", ()) if isinstance(root, dict) else ()
    return Described(prefix, headers, check, frozenset(names))


def _newest(setting: Setting, subject: str, kind: str) -> tuple[SchemaId, OwnSchema]:
    newest = setting.schemas.latest(subject)
    if newest is None:
        raise ValueError(f"the schema registry has no subject {subject}")
    schema_id, schema = newest
    if schema.kind != kind:
        raise ValueError(f"subject {subject} is of the kind {schema.kind}, not {kind}")
    return schema_id, OwnSchema(schema, functools.partial(setting.schemas.earlier, schema_id))


def _of_kind(own: OwnSchema, type_: Type, framing: Framing | None) -> tuple[Node, Write]:
    if own.schema.kind == "AVRO":
        from seamline.connectors.kafka.formats.avro_values import avro_writer

        return avro_writer(own.schema)
    from seamline.connectors.kafka.formats.protobuf_values import protobuf_writer

    return protobuf_writer(own, type_, framing)
