"""The format `protobuf`: messages, each read with the schema it was written with.

What follows the schema's id says which message of the schema a value is. The exact path reads with
Google's own library.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import ptars
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from seamline.connectors.kafka.formats import protobuf_schema as schemas
from seamline.connectors.kafka.formats.framed import TypeOf
from seamline.connectors.kafka.formats.framing import Framing, MessagePath
from seamline.connectors.kafka.formats.own_schema import OwnSchema
from seamline.connectors.kafka.formats.parts import AllHeaders, Bad, PartDecoder, Parts
from seamline.connectors.kafka.formats.schemas import Earlier, Schema
from seamline.connectors.kafka.formats.spelling import MICROS, PLAIN, Spelling, whole_micros
from seamline.connectors.kafka.formats.tree_decoder import ToArrow, TreeDecoder, is_panic
from seamline.connectors.kafka.formats.trees import (
    PACKED,
    Node,
    finds_all,
    has_all,
    record_of,
    spelt,
)
from seamline.connectors.kafka.formats.watching import SchemaWatch, guarded
from seamline.sql.types import Field, Row, Type, to_arrow

_CONFIG = ptars.PtarsConfig(timestamp_unit="us")
Check: TypeAlias = Callable[[pa.Array], None]


class ProtobufValues:
    """Decodes messages of one schema.

    Args:
        schema: The schema.
        columns: The columns for the fields of its messages, or the one column for a whole message.
        whole: Whether there is one column for a whole message.
        framing: How what precedes each names its message; if None, nothing precedes them.
        message: The full name of the message that each is then; empty for the first.
        spelling: Which ways of writing times are accepted.
        watch: The watch that checks the schema, if any.
        earlier: Returns the versions before it, in which fields may have had other names.

    Raises:
        ValueError: the schema cannot be read.
    """

    def __init__(
        self,
        schema: Schema,
        columns: tuple[Field, ...],
        *,
        whole: bool,
        framing: Framing | None = None,
        message: str = "",
        spelling: Spelling = PLAIN,
        watch: SchemaWatch | None = None,
        earlier: Earlier = tuple,
    ) -> None:
        self._file = schemas.compiled(schema)
        self._earlier = earlier
        self._columns = columns
        self._whole = whole
        self._framing = framing
        self._first = (
            schemas.path_to(self._file, message)
            if framing is None
            else framing.message_path(b"\0", self._file)[0]
        )
        self._spelling = spelling
        self._watch = watch
        self._decoders: dict[MessagePath, PartDecoder] = {}
        if watch is None:  # a watch checks only the messages that occur
            self._decoder(self._first)

    def decode(self, values: Parts, headers: AllHeaders = ()) -> tuple[list[pa.Array], Bad]:
        """See `PartDecoder.decode`."""
        framing = self._framing
        if framing is None:
            return self._decoder(self._first).decode(values, headers)
        first = [value[1:] for value in values if value and not value[0]]
        if len(first) == len(values):  # as nearly all are: the first message, written as one byte
            return self._decoder(self._first).decode(first)
        bad: dict[int, str] = {}
        groups: dict[MessagePath, list[int]] = {}
        messages: list[bytes | None] = list(values)
        for index, value in enumerate(values):
            if value is not None:
                try:
                    indexes, start = framing.message_path(value, self._file)
                    self._decoder(indexes)
                except ValueError as error:
                    bad[index], messages[index] = str(error), None
                else:
                    messages[index] = value[start:]
                    groups.setdefault(indexes, []).append(index)
        if len(groups) == 1:
            arrays, found = self._decoder(next(iter(groups))).decode(messages)
            return arrays, {**found, **bad}
        slots: list[int | None] = [None] * len(values)
        chunks = [[pa.array([], to_arrow(column.type))] for column in self._columns]
        taken = 0
        for indexes, places in groups.items():
            arrays, found = self._decoder(indexes).decode([messages[place] for place in places])
            bad |= {places[slot]: reason for slot, reason in found.items()}
            for slot, place in enumerate(places):
                slots[place] = taken + slot
            taken += len(places)
            for chunk, array in zip(chunks, arrays, strict=True):
                chunk.append(array)
        order = pa.array(slots, pa.int64())
        return [pa.concat_arrays(chunk).take(order) for chunk in chunks], bad

    def _decoder(self, indexes: MessagePath) -> PartDecoder:
        if indexes not in self._decoders:
            message = schemas.message_at(self._file, indexes)
            node = schemas.tree_of(message)
            if self._may_have_names(node):
                schemas.add_former_names(node, message, self._earlier())
            schemas.add_packed(node, self._file)
            unfit = self._watch.meets(record_of(node)) if self._watch is not None else None
            node = spelt(node, self._spelling)
            make = message_factory.GetMessageClass(message)

            def read(value: bytes) -> Any:
                return _raw(_parsed(make, value), node, "")

            is_plain = _is_plain(node, ()) and _is_carried(message, set())
            truncates = self._spelling.truncated_times
            batches = _to_arrow(message, make, is_truncated=truncates) if is_plain else None
            decoder = TreeDecoder(node, self._columns, read, batches, whole=self._whole)
            self._decoders[indexes] = guarded(decoder, unfit)
        return self._decoders[indexes]

    def _may_have_names(self, node: Node) -> bool:
        """Whether former names of fields may matter.

        A column that finds no field may have a former name. In tiering, a field that finds no
        column becomes one, which must have these names before records from that time arrive.
        """
        wanted = self._columns[0].type if self._whole else Row(self._columns)
        is_tiering = self._watch is not None and self._watch.is_tiering
        return not finds_all(node, wanted) or (is_tiering and not has_all(wanted, node))


def protobuf_types(own: OwnSchema, *, framing: Framing | None) -> TypeOf:
    """Returns what names the types of messages of a schema.

    Args:
        own: The schema.
        framing: How what precedes each names its message, if anything does.

    Raises:
        ValueError: the schema cannot be read.
    """
    file = schemas.compiled(own.schema)

    @functools.cache
    def name_at(indexes: tuple[int, ...]) -> str:
        return str(schemas.message_at(file, indexes).full_name)

    if framing is None:
        path = schemas.path_to(file, own.message)
        return lambda _: name_at(path)
    return lambda value: name_at(framing.message_path(value, file)[0])


def _parsed(make: type[Message], value: bytes) -> Message:
    try:
        return make.FromString(value)
    except DecodeError as error:
        raise ValueError(f"not Protobuf: {error}") from None


def _is_plain(node: Node, inside: tuple[Node, ...]) -> bool:
    """Whether no message in it contains itself; those of JSON do."""
    if node in inside or node.logical == "json":
        return False
    members = [*node.members.values(), *node.branches, *([node.inner] if node.inner else [])]
    return all(_is_plain(member, (*inside, node)) for member in members)


def _is_carried(message: Descriptor, met: set[str]) -> bool:
    """Whether Arrow's decoder can read all of a message: it knows no groups and no defaults.

    Batches of a message without fields have no columns, so it cannot say how many there were.
    """
    if not message.fields and not met:
        return False
    met.add(message.full_name)
    for field in message.fields:
        if field.type == FieldDescriptor.TYPE_GROUP or field.has_default_value:
            return False
        inner = field.message_type
        if inner is not None and inner.full_name not in met and not _is_carried(inner, met):
            return False
    return True


def _to_arrow(message: Descriptor, make: type[Message], *, is_truncated: bool) -> ToArrow | None:
    """Returns a function that decodes a batch of messages, or None if there is none.

    Arrow's decoder accepts damaged messages, such as those with tags of any length, so Google's
    parser reads each of them first. It always parses into the same object: creating a new one for
    each would take most of the time. It also drops digits beyond microseconds, so the timestamps of
    each are checked, unless the table drops them.
    """
    try:
        handler = ptars.HandlerPool([message.file], config=_CONFIG).get_for_message(message)
    except (TypeError, ValueError, RuntimeError):
        return None
    except BaseException as error:
        if not is_panic(error):
            raise
        return None
    check = _of_one_each(message) or _is_fine
    is_fine = None if is_truncated else _whole_micros(message)

    def decoded(values: Sequence[bytes]) -> pa.Array:
        one = make()
        parse = one.ParseFromString
        try:
            for value in values:
                parse(value)
                if is_fine is not None and not is_fine(one):
                    raise ValueError("a timestamp with digits beyond microseconds")
        except DecodeError as error:
            raise ValueError(str(error)) from None
        batch = handler.list_to_record_batch(list(values))
        rows = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
        check(rows)
        return rows

    return decoded


def _is_fine(array: pa.Array) -> None:
    """Accepts every array: nothing can be wrong."""


def _whole_micros(message: Descriptor) -> Callable[[Any], bool] | None:
    """Returns whether the timestamps in a message end at microseconds; None if it has none."""
    if message.full_name == schemas.TIMESTAMP:
        return lambda found: not found.nanos % 1000
    members: list[tuple[str, Callable[[Any], Iterable[Any]], Callable[[Any], bool]]] = []
    for field in message.fields:
        inner = field.message_type
        if inner is None:
            continue
        is_map = inner.GetOptions().map_entry
        held = inner.fields_by_name["value"].message_type if is_map else inner
        check = _whole_micros(held) if held is not None else None
        if check is not None:
            many = (lambda items: items.values()) if is_map else iter
            each = many if is_map or field.is_repeated else _alone
            members.append((field.name, each, check))
    if not members:
        return None
    return lambda found: all(
        check(item) for name, each, check in members for item in each(getattr(found, name))
    )


def _alone(item: Any) -> tuple[Any]:
    return (item,)


def _of_one_each(message: Descriptor, met: frozenset[str] = frozenset()) -> Check | None:
    """Returns a check that raises ValueError if several fields of a `oneof` are present.

    Only the last of them counts, but Arrow's decoder keeps all that occur, as in merged messages.
    Returns None if a message has no `oneof`.
    """
    if message.full_name in met:
        return None
    groups = [[field.name for field in one.fields] for one in message.oneofs if len(one.fields) > 1]
    inside: list[tuple[str, Check]] = []
    for field in message.fields:
        inner = field.message_type
        check = _of_one_each(inner, met | {message.full_name}) if inner is not None else None
        if check is not None:
            inside.append((field.name, check))
    if not groups and not inside:
        return None

    def of_one_each(array: pa.Array) -> None:
        if pa.types.is_list(array.type):
            array = array.values
        elif pa.types.is_map(array.type):
            array = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        if not pa.types.is_struct(array.type):
            return  # a message that is decoded as a value
        for names in groups:
            counts = [array.field(name).is_valid().cast(pa.int8()) for name in names]
            if pc.any(pc.greater(functools.reduce(pc.add, counts), 1)).as_py():
                raise ValueError("several of a oneof are present")
        for name, check in inside:
            check(array.field(name))

    return of_one_each


# --- The exact path ------------------------------------------------------------------------------


class _Fields:
    """A message with its fields by name, in the form in which `tree_values` takes a record."""

    __slots__ = ("_message", "_node", "_path")

    def __init__(self, message: Message, node: Node, path: str) -> None:
        self._message = message
        self._node = node
        self._path = path

    def __getitem__(self, name: str) -> Any:
        if name == PACKED:
            return self._packed()
        field, node = self._node.attributes[name], self._node.members[name]
        if node.kind == "union" and not self._message.HasField(name):
            return field.default_value if field.has_default_value else None
        path = f"{self._path}.{name}" if self._path else name
        value = getattr(self._message, name)
        return _raw(value, node.branches[-1] if node.branches else node, path)

    def _packed(self) -> tuple[str, Any]:
        """Returns what an `Any` holds: its name, and the value; None if the schema lacks it."""
        name = self._message.type_url.rpartition("/")[2]
        node = self._node.packed.get(name)
        if node is None:
            return name, None
        path = f"{self._path}.{name.rpartition('.')[2]}".lstrip(".")
        if path.count(".") > schemas.PACKED_DEPTH_MAX:
            raise ValueError(f"nested deeper than {schemas.PACKED_DEPTH_MAX} levels, in Any")
        inner = self._message.DESCRIPTOR.file.pool.FindMessageTypeByName(name)
        try:
            content = _parsed(message_factory.GetMessageClass(inner), self._message.value)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return name, _raw(content, node, path)


def _raw(value: Any, node: Node, path: str) -> Any:
    """Returns a value as `tree_values` takes it."""
    match node.kind:
        case "record":
            return _Fields(value, node, path)
        case "array" if node.inner is not None:
            return [_raw(item, node.inner, f"{path}[]") for item in value]
        case "map" if node.inner is not None:
            return {_text(key): _raw(value[key], node.inner, f"{path}[]") for key in value}
    if node.name == schemas.TIMESTAMP:
        return _timestamp_micros(value, node, path)
    if node.name in schemas.JSON_MESSAGES:
        return json_format.MessageToJson(value, indent=None)
    return value.value if isinstance(value, Message) else value


def _timestamp_micros(value: Any, node: Node, path: str) -> int:
    nanos = value.seconds * 1_000_000_000 + value.nanos
    try:
        return whole_micros(nanos, *MICROS["nanos"], is_truncated=node.spelling.truncated_times)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _text(key: Any) -> str:
    return key if isinstance(key, str) else str(key).lower()


# --- Writing -------------------------------------------------------------------------------------


def protobuf_writer(
    own: OwnSchema, type_: Type, framing: Framing | None
) -> tuple[Node, Callable[[Any], bytes]]:
    """Returns the tree of a schema's message, and a function that writes values of it.

    The function raises ValueError for a value that the schema cannot hold.

    Args:
        own: The schema.
        type_: The type to write.
        framing: How what precedes each names its message, if anything does.

    Raises:
        ValueError: the schema cannot be read.
    """
    file = schemas.compiled(own.schema)
    descriptor = schemas.message_at(file, schemas.path_to(file, own.message))
    prefix = b"" if framing is None else framing.first_message(file)
    node = schemas.tree_of(descriptor)
    if not finds_all(node, type_):
        schemas.add_former_names(node, descriptor, own.earlier())
    make = message_factory.GetMessageClass(descriptor)

    def written(value: Any) -> bytes:
        message = make()
        try:
            _fill(message, node, value)
            return prefix + bytes(message.SerializeToString(deterministic=True))
        except (TypeError, ValueError, EncodeError, json_format.ParseError) as error:
            raise ValueError(f"the schema cannot hold it: {error}") from None

    return node, written


def _fill(message: Message, node: Node, value: Mapping[str, Any]) -> None:
    """Sets the fields of a message that have a value."""
    for name, content in value.items():
        if content is not None:
            field, member = node.attributes[name], node.members[name]
            if member.kind == "array" and member.inner is not None:
                _extend(getattr(message, name), field, member.inner, content)
            elif member.kind == "map" and member.inner is not None:
                _put(getattr(message, name), field.message_type, member.inner, content)
            elif field.message_type is None:
                setattr(message, name, content)
            else:
                getattr(message, name).SetInParent()
                _set(getattr(message, name), member.only or member, content)


def _extend(items: Any, field: FieldDescriptor, node: Node, value: Sequence[Any]) -> None:
    for item in value:
        if field.message_type is None:
            items.append(item)
        else:
            _set(items.add(), node, item)


def _put(entries: Any, entry: Descriptor, node: Node, value: Mapping[str, Any]) -> None:
    of_key, of_value = entry.fields_by_name["key"], entry.fields_by_name["value"]
    for text, item in value.items():
        key: Any = text
        if of_key.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            key = {"true": True, "false": False}.get(text, text)
        elif of_key.cpp_type != FieldDescriptor.CPPTYPE_STRING:
            key = int(text)
        if of_value.message_type is None:
            entries[key] = item
        else:
            _set(entries[key], node, item)


def _set(message: Any, node: Node, value: Any) -> None:
    """Sets a message to a value of the schema: the inverse of `_raw`."""
    if node.kind == "record":
        _fill(message, node, value)
    elif node.name == schemas.TIMESTAMP:
        message.seconds, micros = divmod(value, 1_000_000)
        message.nanos = micros * 1000
    elif node.name in schemas.JSON_MESSAGES:
        json_format.Parse(value, message)
    else:
        message.value = value
