"""Protobuf schemas: compiled by protoc, and their messages as trees.

A field without presence, which cannot distinguish unset from zero, is zero when unset; one with
presence is null. `google.protobuf.Timestamp` is an instant, a wrapper such as `StringValue` a value
that may be null, `Struct` and the like JSON.
"""

from __future__ import annotations

import base64
import json
import pathlib
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError
from grpc_tools import protoc

from seamline.connectors.files import make_folder
from seamline.connectors.kafka.formats import protobuf_known
from seamline.connectors.kafka.formats.framing import MessagePath
from seamline.connectors.kafka.formats.schemas import Schema
from seamline.connectors.kafka.formats.trees import ANY, Node, every

_MAIN = "seamline_main.proto"
_COMPILING = threading.Lock()
"""The process has only one compiler."""


def compiled(schema: Schema) -> FileDescriptor:
    """Returns the file of a schema: of its text, or of the Base64 descriptor some clients register.

    Raises:
        ValueError: it is not a Protobuf schema.
    """
    files = _serialized(schema) or _compiled(schema)
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files:
            pool.Add(file)
        return pool.FindFileByName(files[-1].name)
    except (KeyError, TypeError) as error:
        raise ValueError(f"the schema is not Protobuf: {error}") from None


def _compiled(schema: Schema) -> list[descriptor_pb2.FileDescriptorProto]:
    with tempfile.TemporaryDirectory() as folder, _COMPILING:
        root = pathlib.Path(folder).resolve()
        texts = [*protobuf_known.TEXTS.items(), *_references(schema), (_MAIN, schema.text)]
        for name, text in texts:
            file = (root / name).resolve()
            if not file.is_relative_to(root):
                raise ValueError(f"the schema is not Protobuf: it refers to {name}")
            make_folder(file.parent)
            file.write_text(_ENTRY.sub(_marked, text), encoding="utf-8")
        output = root / "seamline_descriptors"
        includes = [f"-I{place}" for place in (root, *protobuf_known.folders())]
        arguments = [*includes, "--include_imports", f"--descriptor_set_out={output}"]
        if protoc.main(["protoc", *arguments, _MAIN]) or not output.exists():
            raise ValueError("the schema is not Protobuf")
        files = list(descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file)
    for written in files:
        _make_entries(written.message_type)
    return files


_ENTRY = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
    r"""|(?P<entry>\boption\s+map_entry\s*=\s*(?P<is>true|false)\s*;)""",
    re.DOTALL,
)
"""A comment, a text, or the option of a map's entries."""
_MARK = "SeamlineMapEntry"


def _marked(match: re.Match[str]) -> str:
    """Puts a mark where a schema spells out that a message is a map's entry.

    Some serializers register maps like this, which the compiler refuses.
    """
    if match["entry"] is None:
        return match[0]
    return f"message {_MARK} {{}}" if match["is"] == "true" else ""


def _make_entries(messages: MutableSequence[descriptor_pb2.DescriptorProto]) -> None:
    """Makes the marked messages entries of maps, at every depth."""
    for message in messages:
        _make_entries(message.nested_type)
        for place, inner in enumerate(message.nested_type):
            if inner.name == _MARK:
                del message.nested_type[place]
                message.options.map_entry = True
                break


def _serialized(schema: Schema) -> list[descriptor_pb2.FileDescriptorProto]:
    """Returns the descriptors of a schema that is registered as such; nothing for a text."""
    if not _BASE64.fullmatch(schema.text.strip()):
        return []
    texts = [text for _, text in reversed(list(_references(schema)))]
    own: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    for text in (*texts, schema.text):
        try:
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
        except (ValueError, DecodeError):
            raise ValueError("the schema is not Protobuf") from None
        own[file.name] = file
    imports = dict.fromkeys(name for file in own.values() for name in file.dependency)
    standard = [n for n in imports if n not in own and n.startswith(protobuf_known.PREFIXES)]
    return [*_known(standard), *own.values()]


_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def _known(names: Sequence[str]) -> list[descriptor_pb2.FileDescriptorProto]:
    """Returns files that registries know, and what they import."""
    if not names:
        return []
    imports = "".join(f"import {json.dumps(name)};" for name in names)
    return _compiled(Schema("PROTOBUF", f'syntax = "proto3";{imports}'))[:-1]


def _references(schema: Schema) -> Iterator[tuple[str, str]]:
    for name, reference in schema.references:
        yield name, reference.text
        yield from _references(reference)


def path_to(file: FileDescriptor, message: str) -> MessagePath:
    """Returns the path to the message of a full name; to the first message if that is empty.

    Raises:
        ValueError: there is none.
    """
    if not message:
        return (0,)
    path = dict(paths(file)).get(message)
    if path is None:
        raise ValueError(f"the schema has no message {message}")
    return path


def paths(file: FileDescriptor) -> Iterator[tuple[str, MessagePath | None]]:
    """Yields the full names of all messages of a file, with their paths; none for maps' entries."""
    written = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(written)

    def inside(messages: Any, scope: str, path: MessagePath) -> Iterator[tuple[str, Any]]:
        for index, message in enumerate(messages):
            name, own = f"{scope}{message.name}", (*path, index)
            yield name, None if message.options.map_entry else own
            yield from inside(message.nested_type, f"{name}.", own)

    yield from inside(written.message_type, f"{written.package}." if written.package else "", ())


def message_at(file: FileDescriptor, indexes: Sequence[int]) -> Descriptor:
    """Returns the message that a path of indexes leads to.

    The entries of maps, which are messages, too, are counted; where that leads nowhere, they are
    not, as some serializers do.

    Raises:
        ValueError: it leads nowhere.
    """
    written = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(written)  # the file's own table of messages is unordered
    messages = [file.message_types_by_name[message.name] for message in written.message_type]
    for with_entries in (True, False):
        found = _message_at(messages, indexes, with_entries=with_entries)
        if found is not None and not found.GetOptions().map_entry:
            return found
    raise ValueError(f"the schema has no message {list(indexes)}")


def _message_at(
    messages: Sequence[Descriptor], indexes: Sequence[int], *, with_entries: bool
) -> Descriptor | None:
    message: Descriptor | None = None
    for index in indexes:
        if not 0 <= index < len(messages):
            return None
        message = messages[index]
        messages = [m for m in message.nested_types if with_entries or not m.GetOptions().map_entry]
    return message


# --- Messages as trees ---------------------------------------------------------------------------

_KINDS = {
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_INT64: "long",
    FieldDescriptor.CPPTYPE_UINT32: "long",
    FieldDescriptor.CPPTYPE_UINT64: "long",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
}
_WELL_KNOWN = "google.protobuf."
WRAPPERS = frozenset(
    f"{_WELL_KNOWN}{name}Value"
    for name in (
        *("Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String", "Bytes"),
    )
)
JSON_MESSAGES = frozenset(_WELL_KNOWN + name for name in ("Struct", "Value", "ListValue"))
TIMESTAMP = f"{_WELL_KNOWN}Timestamp"
PACKED_DEPTH_MAX = 50
"""An `Any` nested deeper makes a bad record: Protobuf's parser counts only the levels in each."""


def tree_of(message: Descriptor, records: dict[str, Node] | None = None) -> Node:
    """Returns the tree of a message; a record's attributes hold its fields."""
    records = {} if records is None else records
    name = message.full_name
    if name == TIMESTAMP:
        return Node("long", "timestamp-micros", name)
    if name in WRAPPERS:
        node = _single(message.fields_by_name["value"], records)
        node.attributes = {**node.attributes, "wrapper": True}
        return node
    if name in JSON_MESSAGES:
        return Node("string", "json", name)
    if name not in records or name == ANY:  # each field of that type may hold others
        node = records[name] = Node("record", name=name, attributes=dict(message.fields_by_name))
        for field in message.fields:
            node.members[field.name] = _member(field, records)
            node.defaults[field.name] = None
    return records[name]


def add_packed(root: Node, file: FileDescriptor) -> None:
    """Adds to each `Any` in a tree the messages of the schema, which it may hold.

    Args:
        root: The tree.
        file: The file of the schema; what it imports is the schema's, too.
    """
    anys = [node for node in every(root) if node.name == ANY]
    if anys:
        records: dict[str, Node] = {}
        packed = {m.full_name: tree_of(m, records) for m in _messages(file, set())}
        inner = [n for tree in packed.values() for n in every(tree) if n.name == ANY]
        for node in {*anys, *inner}:
            node.packed = packed


def add_samples(root: Node, message: Descriptor, values: Iterable[bytes]) -> None:
    """Adds to each `Any` in a tree what sampled messages have in it; skips what is no message.

    Args:
        root: The tree, with what each `Any` may hold.
        message: The message.
        values: The samples.
    """
    if all(node.name != ANY for node in every(root)):
        return
    for value in values:
        _add_sample(root, message, value, 0)


def _add_sample(root: Node, message: Descriptor, value: bytes, depth: int) -> None:
    try:
        content = message_factory.GetMessageClass(message).FromString(value)
    except DecodeError:
        return
    left: list[tuple[Any, Node]] = [(content, root)]
    while left:
        content, node = left.pop()
        node = node.only or node
        if node.kind in ("array", "map"):
            assert node.inner is not None
            items = content.values() if node.kind == "map" else content
            left += [(item, node.inner) for item in items]
        elif node.name == ANY and (content.type_url or content.value):
            name = content.type_url.rpartition("/")[2]
            node.sampled.add(name)
            if name in node.packed and depth < PACKED_DEPTH_MAX:
                inner = message.file.pool.FindMessageTypeByName(name)
                _add_sample(node.packed[name], inner, content.value, depth + 1)
        elif node.kind == "record":
            fields = ((node.members.get(field.name), item) for field, item in content.ListFields())
            left += [(item, member) for member, item in fields if member is not None]


def _messages(file: FileDescriptor, met: set[str]) -> Iterator[Descriptor]:
    """Yields the messages of a file and of those that it imports, at every depth."""
    if file.name in met:
        return
    met.add(file.name)
    for imported in file.dependencies:
        yield from _messages(imported, met)
    left = list(file.message_types_by_name.values())
    while left:
        message = left.pop()
        if not message.GetOptions().map_entry:
            yield message
            left += message.nested_types


def add_former_names(node: Node, message: Descriptor, earlier: Sequence[Schema]) -> None:
    """Adds the names that a message's fields had in earlier versions of its schema.

    A field is identified by its number. A name that another field has by now is not added.

    Args:
        node: The message's tree.
        message: The message.
        earlier: The versions, newest first.
    """
    for schema in earlier:
        try:
            before = compiled(schema).pool.FindMessageTypeByName(message.full_name)
        except (KeyError, ValueError):
            continue  # a version without it
        _add_names(node, message, before, set())


def _add_names(node: Node, message: Descriptor, before: Descriptor, done: set[str]) -> None:
    if message.full_name in done or node.kind != "record":
        return
    done.add(message.full_name)
    for number, was in before.fields_by_number.items():
        field = message.fields_by_number.get(number)
        if field is None:
            continue
        names = node.aliases.get(field.name, ())
        if was.name not in (*names, *message.fields_by_name):
            node.aliases[field.name] = (*names, was.name)
        inner, was_inner = _inside(field), _inside(was)
        if inner is not None and was_inner is not None:
            member = node.members[field.name]
            member = member.inner or member
            _add_names(member.only or member, inner, was_inner, done)


def _inside(field: FieldDescriptor) -> Descriptor | None:
    """Returns the message type of a field, or of its items or entries; None if there is none."""
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return _inside(message.fields_by_name["value"])
    return message


def _member(field: FieldDescriptor, records: dict[str, Node]) -> Node:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        return Node("map", inner=_single(inner.fields_by_name["value"], records))
    node = _single(field, records)
    if field.is_repeated:
        return Node("array", inner=node)
    return Node("union", branches=[Node("null"), node]) if field.has_presence else node


def _single(field: FieldDescriptor, records: dict[str, Node]) -> Node:
    if field.message_type is not None:
        return tree_of(field.message_type, records)
    if field.enum_type is not None:
        values = reversed(field.enum_type.values)  # the first of a number's names counts
        return Node("enum", attributes={"names": {value.number: value.name for value in values}})
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return Node("bytes" if field.type == FieldDescriptor.TYPE_BYTES else "string")
    is_large = field.cpp_type == FieldDescriptor.CPPTYPE_UINT64
    kind = _KINDS[field.cpp_type]
    return Node(kind, "unsigned", attributes={"unsigned": True}) if is_large else Node(kind)
