"""Infers the columns of topics whose keys or values have a schema, from that schema.

The schema is the table's own, or the newest of the subject that is named after the topic, or the
one that the sampled records name; of a Protobuf schema, it is the message that the newest of them
names. A sample of schemas or messages of several names is reported as mixed.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from seamline.connectors.kafka.formats.framing import MessagePath, SchemaId
from seamline.connectors.kafka.formats.own_schema import OwnSchema, own_schema
from seamline.connectors.kafka.formats.parts import AllHeaders, Parts, Setting
from seamline.connectors.kafka.formats.schemas import Earlier, Schema
from seamline.connectors.kafka.formats.spelling import Spelling
from seamline.connectors.kafka.formats.trees import (
    VARIABLE_DECIMAL,
    Node,
    columns_of,
    spelt,
    type_of,
)
from seamline.errors import INFERENCE_FAILED, SeamlineError
from seamline.seam.encoding import LatestSchema, Path
from seamline.sql.types import Field, Row, Type

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor

KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF"}
"""Formats whose schemas define the columns, and their names in a registry."""


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A schema that was found.

    Attributes:
        node: The schema, or the requested part of it.
        source: Where it comes from, for people to read.
        notes: What people should know about the sample.
        is_mixed: Whether the sample has records of several schemas.
    """

    node: Node
    source: str
    notes: tuple[str, ...] = ()
    is_mixed: bool = False

    @property
    def columns(self) -> tuple[Field, ...]:
        """A column for each field that a column can hold."""
        return columns_of(self.node)

    @property
    def left_out(self) -> list[str]:
        """The fields that no column can hold."""
        kept = {column.name for column in self.columns}
        for column in self.columns:
            if isinstance(column.type, Row):
                kept.update(field.name for field in column.type.fields)
        names = (n for record in self._records for n in record.members if n not in kept)
        return list(dict.fromkeys(names))

    @property
    def _records(self) -> list[Node]:
        return self.node.alternatives if self.node.kind == "union" else [self.node]

    @property
    def of_any_scale(self) -> list[str]:
        """The fields that are decimals of any scale, which columns hold as rows."""
        return [
            name
            for record in self._records
            for name, member in record.members.items()
            if _record(member).name == VARIABLE_DECIMAL
        ]

    def at(self, path: Path) -> Found:
        """Returns the part of the schema that a path leads to.

        Raises:
            SeamlineError: INFERENCE_FAILED.
        """
        node = self.node
        for name in path:
            inner = _record(node).members.get(name)
            if inner is None:
                raise SeamlineError(
                    INFERENCE_FAILED, f"{self.source} has no field {'.'.join(path)}"
                )
            node = inner
        return dataclasses.replace(self, node=_record(node))

    @property
    def type(self) -> Type | None:
        """The type of a column for the whole of it; None if no column can hold it."""
        return type_of(self.node)


def _record(node: Node) -> Node:
    return node.only if node.only is not None else node


def find(setting: Setting, format_: str, topic: str, parts: Parts, headers: AllHeaders) -> Found:
    """Finds the schema of a topic's keys or values.

    Args:
        setting: Which of the two, and where schemas are.
        format_: Their format.
        topic: Name of the topic.
        parts: A sample of them.
        headers: The headers of the sample.

    Raises:
        SeamlineError: INFERENCE_FAILED, SCHEMA_REGISTRY_UNAVAILABLE.
    """
    try:
        schema = _find(setting, KINDS[format_], topic, parts, headers)
    except ValueError as error:
        raise SeamlineError(
            INFERENCE_FAILED,
            f"the {setting.part}s of topic {topic}: {error}",
            hint="State the columns with --schema.",
        ) from error
    spelt(schema.node, Spelling(json_text=setting.spelling.json_text))
    return schema


def _find(setting: Setting, kind: str, topic: str, parts: Parts, headers: AllHeaders) -> Found:
    own_of_all = own_schema(setting, kind)
    if own_of_all is not None:
        own_parts = [part for part in parts if part is not None]
        return Found(_tree_of(own_of_all, own_parts), f"the table's own schema of {setting.part}s")
    subject = f"{topic}-{setting.part}"
    named = list(_named(setting, parts, headers))
    ids = collections.Counter(schema_id for schema_id, _ in named)
    source = f"subject {subject} of the schema registry"
    newest: SchemaId | None
    newest, schema = setting.schemas.latest(subject) or (None, None)
    if newest is None or schema is None or schema.kind != kind:
        if not ids:
            raise ValueError(f"there is no subject {subject}, and no record names a schema")
        newest = named[-1][0]
        schema, source = setting.schemas.by_id(newest), f"schema {newest} of the schema registry"
    earlier = functools.partial(setting.schemas.earlier, newest)
    own = [payload for schema_id, payload in named if schema_id == newest]
    node = _tree(setting, schema, own or [payload for _, payload in named], earlier)
    counts: collections.Counter[str] = collections.Counter()
    for schema_id in ids:
        counts.update(_names_of(setting, schema_id, [p for n, p in named if n == schema_id]))
    if len(counts) < 2:
        return Found(node, source)
    mixed = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
    note = (
        f"the {setting.part}s of topic {topic} are mixed: {mixed} of {len(named)} sampled records; "
        f"the columns are those of all of them, and null where another schema lacks the field"
    )
    records: dict[str, Node] = {}
    for schema_id in ids:
        own = [payload for number, payload in named if number == schema_id]
        with contextlib.suppress(ValueError):
            of_id = _schema_node(setting, kind, topic, schema_id, own)
            records |= {record.name: record for record in of_id.alternatives or [of_id]}
    return Found(
        Node("union", branches=list({**records, node.name: node}.values())),
        f"the schemas of sampled {setting.part}s",
        (note,),
        is_mixed=True,
    )


def kind_of(setting: Setting, topic: str, parts: Parts, headers: AllHeaders) -> str | None:
    """Returns the kind of the schema of a topic's keys or values; None if nothing says it.

    Args:
        setting: Which of the two, and where schemas are; its schema may be a `LatestSchema`.
        topic: Name of the topic.
        parts: A sample of them, whose newest schema counts before that of the subject.
        headers: The headers of the sample.

    Raises:
        SeamlineError: SCHEMA_REGISTRY_UNAVAILABLE.
    """
    latest = LatestSchema.parse(setting.schema) if setting.schema is not None else None
    if latest is None:
        for schema_id, _ in reversed(list(_named(setting, parts, headers))):
            with contextlib.suppress(ValueError):
                return setting.schemas.by_id(schema_id).kind
    subject = latest.subject if latest is not None else ""
    newest = setting.schemas.latest(subject or f"{topic}-{setting.part}")
    return None if newest is None else newest[1].kind


def every(
    setting: Setting, format_: str, topic: str, parts: Parts, headers: AllHeaders
) -> Iterator[Node]:
    """Yields the schemas of sampled keys or values; the newest of the topic, if there are none.

    Args:
        setting: Which of the two, and where schemas are.
        format_: Their format.
        topic: Name of the topic.
        parts: A sample of them.
        headers: The headers of the sample.

    Those that cannot be had are left out.
    """
    kind = KINDS[format_]
    payloads: dict[SchemaId, list[bytes]] = {}
    if setting.schema is None:
        for named, payload in _named(setting, parts, headers):
            payloads.setdefault(named, []).append(payload)
    schema_ids: list[SchemaId | None] = [*payloads] or [None]
    for schema_id in schema_ids:
        own = payloads[schema_id] if schema_id is not None else []
        with contextlib.suppress(ValueError, SeamlineError):
            yield _schema_node(setting, kind, topic, schema_id, own)


def _schema_node(
    setting: Setting, kind: str, topic: str, schema_id: SchemaId | None, payloads: Sequence[bytes]
) -> Node:
    own = own_schema(setting, kind)
    if own is not None:
        return _tree_of(own)
    if schema_id is None:
        found = _find(setting, kind, topic, (), ())
        return found.node
    schema = setting.schemas.by_id(schema_id)
    earlier = functools.partial(setting.schemas.earlier, schema_id)
    if schema.kind != "PROTOBUF":
        return _tree(setting, schema, payloads, earlier)
    from seamline.connectors.kafka.formats import protobuf_schema

    file = protobuf_schema.compiled(schema)
    messages = _messages(setting, file, payloads)
    distinct = {message.full_name: message for message, _ in messages}
    branches = [_message_tree(file, m, messages, earlier) for m in distinct.values()]
    return Node("union", branches=branches)


def _named(setting: Setting, parts: Parts, headers: AllHeaders) -> Iterator[tuple[SchemaId, bytes]]:
    """Yields the ids of the schemas that parts name, each with the payload that follows."""
    framing = setting.schemas.framing
    for index, part in enumerate(parts):
        if part is not None:
            try:
                entry = headers[index] if headers else None
                schema_id, payload = framing.read(part, entry, setting.part, "")
            except ValueError:
                continue
            yield schema_id, payload


def _names_of(
    setting: Setting, schema_id: SchemaId, payloads: Sequence[bytes]
) -> Mapping[str, int]:
    """Returns the names of what payloads of a schema are, and how many; none if it is not known."""
    try:
        schema = setting.schemas.by_id(schema_id)
        if schema.kind != "PROTOBUF":
            return {_tree(setting, schema, payloads).name or f"schema {schema_id}": len(payloads)}
        from seamline.connectors.kafka.formats import protobuf_schema

        messages = _messages(setting, protobuf_schema.compiled(schema), payloads)
        return collections.Counter(message.full_name for message, _ in messages)
    except ValueError:
        return {}


def _tree_of(own: OwnSchema, parts: Sequence[bytes] = ()) -> Node:
    """Returns the tree of the schema that all parts have, of which some are a sample."""
    if own.schema.kind == "AVRO":
        from seamline.connectors.kafka.formats import avro_schema

        return avro_schema.parsed(own.schema)
    from seamline.connectors.kafka.formats import protobuf_schema

    file = protobuf_schema.compiled(own.schema)
    message = protobuf_schema.message_at(file, protobuf_schema.path_to(file, own.message))
    return _message_tree(file, message, [(message, part) for part in parts], own.earlier)


def _message_tree(
    file: FileDescriptor,
    message: Descriptor,
    samples: Sequence[tuple[Descriptor, bytes]],
    earlier: Earlier,
) -> Node:
    """Returns the tree of a message, with what samples of it have in each `Any`."""
    from seamline.connectors.kafka.formats import protobuf_schema

    node = protobuf_schema.tree_of(message)
    protobuf_schema.add_former_names(node, message, earlier())
    protobuf_schema.add_packed(node, file)
    own = (value for sampled, value in samples if sampled.full_name == message.full_name)
    protobuf_schema.add_samples(node, message, own)
    return node


def _tree(
    setting: Setting, schema: Schema, payloads: Sequence[bytes], earlier: Earlier = tuple
) -> Node:
    if schema.kind == "AVRO":
        from seamline.connectors.kafka.formats import avro_schema

        return avro_schema.parsed(schema)
    if schema.kind != "PROTOBUF":
        raise ValueError(f"its schema is of the kind {schema.kind}")
    from seamline.connectors.kafka.formats import protobuf_schema

    file = protobuf_schema.compiled(schema)
    messages = _messages(setting, file, payloads)
    if payloads and not messages:
        raise ValueError("no sampled record names a message of the schema")
    with_fields = [m for m, _ in messages if m.fields] or [m for m, _ in messages]
    message = with_fields[-1] if with_fields else protobuf_schema.message_at(file, (0,))
    return _message_tree(file, message, messages, earlier)


def _messages(
    setting: Setting, file: FileDescriptor, payloads: Sequence[bytes]
) -> list[tuple[Descriptor, bytes]]:
    """Returns the messages that payloads name, each with its value; skips what names none."""
    from seamline.connectors.kafka.formats import protobuf_schema

    framing = setting.schemas.framing
    by_indexes: dict[MessagePath, Descriptor | None] = {}
    listed = []
    for payload in payloads:
        try:
            indexes, start = framing.message_path(payload, file)
        except ValueError:
            continue
        if indexes not in by_indexes:
            try:
                by_indexes[indexes] = protobuf_schema.message_at(file, indexes)
            except ValueError:
                by_indexes[indexes] = None
        message = by_indexes[indexes]
        if message is not None:
            listed.append((message, payload[start:]))
    return listed
