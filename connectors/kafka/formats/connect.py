"""Reads what Kafka Connect writes: values with their schema beside them, and logical type names.

The JSON of its converter is `{"schema": …, "payload": …}`. The schema says what a value means: the
days of a date, the unit of a timestamp, the scale of a decimal, which is bytes. A column of such a
type is read in the type that was written, and then converted in the same way as Avro's: the names
are those that Avro schemas have in `connect.name`. If the schema says nothing about that, or there
is no schema, a value is read like any JSON.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from seamline.connectors.kafka.formats import tree_arrow, tree_values
from seamline.connectors.kafka.formats.json_values import Unscaled, whole_number
from seamline.connectors.kafka.formats.parts import (
    AllHeaders,
    Bad,
    Format,
    Leaf,
    PartReader,
    Parts,
    contains,
    nulled,
)
from seamline.connectors.kafka.formats.trees import VARIABLE_DECIMAL, Node, logical_of, spelt
from seamline.seam.encoding import Path
from seamline.seam.evolution import matched
from seamline.sql import types
from seamline.sql.types import Array, Decimal, Field, Map, Row, Type, to_arrow

SCHEMA, PAYLOAD = "schema", "payload"
"""The members of a wrapped value."""
_MEMBER = b'"payload"'
_MEMBER_PAIR = b"yl"
"""Two bytes of it that few texts have beside each other."""
_KEPT_MAX = 256
"""How many schemas are kept at once; a topic gets one more with each change of its table."""


class ConnectReader:
    """Reads parts that Kafka Connect may have wrapped with their schema.

    Args:
        format_: Their format.
        leaves: What to read from them.
    """

    def __init__(self, format_: Format, leaves: Sequence[Leaf]) -> None:
        self._format = format_
        self._leaves = leaves
        self._plain = PartReader(format_, leaves)
        self._wrapped: dict[str, _TypedReader] = {}
        self._texts = _SchemaTexts()

    def decode(
        self, parts: Parts, headers: AllHeaders = ()
    ) -> tuple[dict[Path, pa.Array], dict[int, str]]:
        """See `PartReader.decode`."""
        if not _may_be_wrapped(parts):
            return self._plain.decode(parts, headers)
        groups: dict[str | None, list[int]] = {}
        for index, part in enumerate(parts):
            groups.setdefault(self._texts.of(part), []).append(index)
        if len(groups) <= 1:
            return self._reader(next(iter(groups), None)).decode(parts, headers)
        bad: dict[int, str] = {}
        found: list[dict[Path, pa.Array]] = []
        places = [0] * len(parts)
        taken = 0
        for text, indexes in groups.items():
            arrays, more = self._reader(text).decode(
                [parts[i] for i in indexes], [headers[i] for i in indexes] if headers else ()
            )
            found.append(arrays)
            bad |= {indexes[place]: reason for place, reason in more.items()}
            for place, index in enumerate(indexes):
                places[index] = taken + place
            taken += len(indexes)
        order = pa.array(places, pa.int64())
        return {
            column: pa.concat_arrays([arrays[column] for arrays in found]).take(order)
            for column in found[0]
        }, bad

    def _reader(self, text: str | None) -> PartReader | _TypedReader:
        """Returns the reader for parts of a schema; None is the schema of parts without one."""
        if text is None:
            return self._plain
        if text not in self._wrapped:
            if len(self._wrapped) >= _KEPT_MAX:
                self._wrapped.clear()
            node = _parsed(text)
            if node is not None:
                node = spelt(node, self._format.spelling.of_every_part)
            self._wrapped[text] = _TypedReader(self._format, self._leaves, node)
        return self._wrapped[text]


def part_reader(format_: Format, leaves: Sequence[Leaf]) -> PartReader | ConnectReader:
    """Returns the reader of parts; Kafka Connect may have wrapped those that are JSON objects.

    A table that names the wrapper's own members reads the parts as they are.
    """
    is_inside = all(leaf.path and leaf.path[0] not in (SCHEMA, PAYLOAD) for leaf in leaves)
    if format_.name == "json" and is_inside:
        return ConnectReader(format_, leaves)
    return PartReader(format_, leaves)


def newest_schema(parts: Parts) -> Node | None:
    """Returns the schema of the last wrapped part, or None if no part is wrapped."""
    texts = _SchemaTexts()
    newest = next((text for part in reversed(parts) if (text := texts.of(part)) is not None), None)
    return None if newest is None else _parsed(newest)


def _may_be_wrapped(parts: Parts) -> bool:
    """Whether the wrapper's member is anywhere in the parts; checks all of them at once."""
    text = b"\n".join(filter(None, parts))
    return contains(text, _MEMBER_PAIR) and _MEMBER in text


def without_nulls(parts: Parts) -> list[bytes | None]:
    """Returns parts of JSON, without those that are the word null, or a wrapped null.

    Kafka Connect's converter writes both for missing values.
    """
    wrapped = _may_be_wrapped(parts)
    return [
        None if part is None or ((wrapped or part[:1] != b"{") and _is_null(part)) else part
        for part in parts
    ]


def _is_null(part: bytes) -> bool:
    if part[:1] == b"\0":
        part = part[5:]  # a schema's id
    if part[:1] != b"{":
        return len(part) < _NULL_BYTES_MAX and part.strip() == b"null"
    if _NULL_PAYLOAD.search(part) is None:
        return False
    try:
        body = json.loads(part, parse_int=whole_number)
    except (ValueError, RecursionError):
        return False
    return body.keys() == {SCHEMA, PAYLOAD} and body[PAYLOAD] is None


_NULL_BYTES_MAX = 20
_NULL_PAYLOAD = re.compile(rb'"payload"\s*:\s*null')


class _SchemaTexts:
    """Finds the schemas of parts. Parts with the same beginning are parsed only once."""

    def __init__(self) -> None:
        self._begins: dict[bytes, str] = {}
        self._last = (b"", "")

    def of(self, part: bytes | None) -> str | None:
        """Returns the text of a part's schema, or None if the part is not wrapped."""
        if part is None or _MEMBER not in part:
            return None
        begin, text = self._last
        if begin and part.startswith(begin):
            return text
        begin = _beginning(part)
        if begin in self._begins:
            self._last = (begin, self._begins[begin])
            return self._begins[begin]
        try:
            body = json.loads(part, parse_int=whole_number)
        except (ValueError, RecursionError):
            return None  # the reader reports what is wrong with it
        if not isinstance(body, dict) or PAYLOAD not in body or not {SCHEMA, PAYLOAD} >= set(body):
            return None
        schema = body.get(SCHEMA)
        if not isinstance(schema, dict | None):
            return None
        canonical = json.dumps(schema, sort_keys=True)
        if begin:
            if len(self._begins) >= _KEPT_MAX:
                self._begins.clear()
            self._begins[begin] = canonical
        return canonical


_OPEN = b'{"schema":'
_DECODER = json.JSONDecoder()


def _beginning(part: bytes) -> bytes:
    """Returns the beginning of a part: its schema, and everything up to its payload.

    It is empty if the part begins otherwise, since another member could follow the schema.
    """
    if not part.startswith(_OPEN):
        return b""
    end = part.find(b'"payload":')
    return part[: end + len(b'"payload":')] if _is_whole(part[len(_OPEN) : end]) else b""


def _is_whole(text: bytes) -> bool:
    """Whether a text is one JSON value and a comma."""
    try:
        content = text.decode("utf-8").strip()
        _, end = _DECODER.raw_decode(content)
    except (ValueError, RecursionError):
        return False
    return content[end:].strip() == ","


def _parsed(text: str) -> Node | None:
    """Returns the tree of a schema, or None if there is none or it is not understood."""
    try:
        return _node(json.loads(text))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None


_KINDS = {
    **dict.fromkeys(("int8", "int16", "int32"), "int"),
    "int64": "long",
    **dict.fromkeys(("float", "float32"), "float"),
    **dict.fromkeys(("double", "float64"), "double"),
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}


def _node(schema: Mapping[str, Any] | None) -> Node | None:
    if schema is None:
        return None
    name = str(schema.get("name") or "")
    match schema["type"]:
        case "struct":
            node = Node("record", name=name)
            for field in schema["fields"]:
                member = _node(field)
                if member is not None:
                    node.members[str(field["field"])] = member
            return node
        case "array":
            return Node("array", inner=_node(schema["items"]))
        case "map":
            return Node("map", inner=_node(schema["values"]))
        case kind if kind in _KINDS:
            said = schema.get("parameters") or {}
            is_decimal = name == _DECIMAL and "scale" in said
            logical = "decimal" if is_decimal else logical_of(name)
            digits = said.get("connect.decimal.precision", types.MAX_DECIMAL_PRECISION)
            return Node(_KINDS[kind], logical, attributes={**said, "precision": digits})
    return None


_DECIMAL = "org.apache.kafka.connect.data.Decimal"
"""Its scale is in the schema, and nowhere else."""


# --- Values that are written as something else ---------------------------------------------------

Convert: TypeAlias = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class _Written:
    """How a column's values are written.

    Attributes:
        type: The type in which they are read.
        convert: Converts one of them to a value of the column; raises ValueError.
        at_once: The same for an array; raises ValueError if values must be converted one by one.
    """

    type: Type
    convert: Convert
    at_once: tree_arrow.Convert | None = None


class _TypedReader:
    """Reads parts that are wrapped with the same schema."""

    def __init__(self, format_: Format, leaves: Sequence[Leaf], root: Node | None) -> None:
        self._typed: list[tuple[Leaf, _Written]] = []
        wrapped = []
        for leaf in leaves:
            field = leaf.field
            written = _written(_at(root, leaf), field.type, leaf.name)
            if written is not None:
                self._typed.append((leaf, written))
                field = dataclasses.replace(field, type=written.type)
            wrapped.append(dataclasses.replace(leaf, path=(PAYLOAD, *leaf.path), field=field))
        self._reader = PartReader(format_, wrapped)

    def decode(
        self, parts: Parts, headers: AllHeaders = ()
    ) -> tuple[dict[Path, pa.Array], dict[int, str]]:
        """See `PartReader.decode`."""
        arrays, bad = self._reader.decode(parts, headers)
        before = len(bad)
        for leaf, written in self._typed:
            arrays[leaf.column], found = _converted(arrays[leaf.column], written, leaf.field.type)
            for index, reason in found.items():
                bad.setdefault(index, reason)
        if len(bad) > before:
            arrays = {column: nulled(array, bad) for column, array in arrays.items()}
        return arrays, bad


def _converted(array: pa.Array, written: _Written, type_: Type) -> tuple[pa.Array, Bad]:
    if written.at_once is not None:
        try:
            return written.at_once(array), {}
        except (ValueError, OverflowError, pa.ArrowInvalid):
            pass
    converted: list[Any] = []
    bad: dict[int, str] = {}
    for index, value in enumerate(array.to_pylist()):
        try:
            converted.append(None if value is None else written.convert(value))
        except (ValueError, OverflowError) as error:
            converted.append(None)
            bad[index] = str(error)
    return pa.array(converted, to_arrow(type_)), bad


def _at(node: Node | None, leaf: Leaf) -> Node | None:
    """Returns the type that a leaf is read from, or None if it is not known."""
    for name in leaf.path[:-1]:
        node = node.members.get(name) if node is not None else None
    if node is None or not leaf.path:
        return node
    field = dataclasses.replace(leaf.field, name=leaf.path[-1])
    name = matched([field], node.names).get(field.name, "")
    return node.members.get(name)


def _written(node: Node | None, type_: Type, path: str) -> _Written | None:
    """Returns how values of a type are written, or None if they are JSON of that type."""
    if node is None:
        return None
    match node.kind, type_:
        case "record", Row(fields):
            return _row(node, fields, path)
        case "array", Array(element):
            inner = _written(node.inner, element, f"{path}[]")
            return inner and _Written(Array(inner.type), _each(inner.convert))
        case "map", Map(key, value):
            inner = _written(node.inner, value, f"{path}[]")
            return inner and _Written(Map(key, inner.type), _each_value(inner.convert))
        case "record", Decimal() if node.name == VARIABLE_DECIMAL:
            carrier: Type = Row(
                (Field("scale", types.INTEGER), Field("value", types.VARBINARY)),
            )
        case (("int" | "long"), _) if node.logical and (
            type_ == types.DATE or isinstance(type_, types.Timestamp)
        ):
            carrier = types.BIGINT
        case "string", _ if node.logical and tree_values.is_local(type_):
            carrier = types.VARCHAR
        case "string", types.JSON if node.logical == "json":
            carrier = types.VARCHAR
        case _, types.JSON:  # null is the schema's, as in Avro
            return _Written(type_, lambda text: None if text == "null" else text)
        case "bytes", Decimal() if node.logical == "decimal":  # or a number, if it is told to
            carrier = Unscaled(scale=int(node.attributes["scale"]))
        case _:
            return None
    return _Written(carrier, tree_values.converter(node, type_, path), tree_arrow.leaf(node, type_))


def _row(node: Node, fields: Sequence[Field], path: str) -> _Written | None:
    which = matched(fields, node.names)
    inner: dict[str, Convert] = {}
    carried = []
    for field in fields:
        member = node.members.get(which.get(field.name, ""))
        written = _written(member, field.type, f"{path}.{field.name}")
        if written is not None:
            inner[field.name] = written.convert
            field = dataclasses.replace(field, type=written.type, write_default=None)
        carried.append(field)
    if not inner:
        return None

    def make(row: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: inner[name](value) if name in inner and value is not None else value
            for name, value in row.items()
        }

    return _Written(Row(tuple(carried)), make)


def _each(convert: Convert) -> Convert:
    return lambda items: [None if item is None else convert(item) for item in items]


def _each_value(convert: Convert) -> Convert:
    return lambda pairs: [(key, None if value is None else convert(value)) for key, value in pairs]
