"""Values of a schema as JSON text, for columns that hold what no other type of column does.

Records are objects, also those that contain themselves; a value of a union is what its type makes
of it. Leaves are written as `json` spells them: times in ISO 8601, bytes in Base64.
"""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa

from seamline.connectors.kafka.formats.spelling import dumped
from seamline.connectors.kafka.formats.trees import (
    PACKED,
    PLAIN_NUMBER,
    Node,
    type_of,
    untagged,
)
from seamline.seam.encoding import TYPE_NAME
from seamline.sql import types
from seamline.sql.kernels import json_texts
from seamline.sql.kernels.json_texts import Number
from seamline.sql.types import Decimal, Type, Varbinary

Convert: TypeAlias = Callable[[Any], Any]
OfLeaf: TypeAlias = Callable[[Node, Type], Convert]
"""Makes the function that converts a leaf to a value of its column."""

_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - for both kinds of timestamps


def texts(node: Node, of_leaf: OfLeaf) -> Convert:
    """Returns a function that makes text of a value, for a varchar: JSON, unless it is text itself.

    The function raises ValueError for a bad value.

    Args:
        node: The schema.
        of_leaf: Converts the leaves.
    """
    plain = _plain(node, of_leaf)

    def text(value: Any) -> str | None:
        written = plain(value)
        if written is None or (isinstance(written, str) and not isinstance(written, Number)):
            return written
        return dumped(written, Number)

    return text


def jsons(node: Node, of_leaf: OfLeaf) -> Convert:
    """Returns a function that makes a value of type json of a value; arguments as for `texts`."""
    plain = _plain(node, of_leaf)
    return lambda value: json_texts.canonical(plain(value))


def _plain(node: Node, of_leaf: OfLeaf) -> Convert:
    """Returns a function that makes of a value what JSON has: objects, lists, numbers, texts."""
    leaves: dict[Node, Convert] = {}

    def plain(value: Any, node: Node) -> Any:
        if value is None or node.kind == "null":
            return None
        match node.kind:
            case "union" if node.only is not None:
                return plain(value[1] if isinstance(value, tuple) else value, node.only)
            case "union":
                position, content = untagged(value)
                return plain(content, node.alternatives[position])
            case "record" if node.packed:
                return packed(value, node)
            case "record":
                return {name: plain(value[name], member) for name, member in node.members.items()}
            case "array" if node.inner is not None:
                return [plain(item, node.inner) for item in value]
            case "map" if node.inner is not None:
                return {name: plain(item, node.inner) for name, item in value.items()}
        if node not in leaves:
            leaves[node] = _leaf(node, of_leaf)
        return leaves[node](value)

    def packed(value: Any, node: Node) -> dict[str, Any]:
        """Returns an `Any` as Google's JSON has it; of a type that is missing, its bytes."""
        name, content = value[PACKED]
        url = value["type_url"]
        if name not in node.packed:
            raw = base64.b64encode(value["value"]).decode()
            return {TYPE_NAME: url, "value": raw} if url or raw else {}
        inner, own = plain(content, node.packed[name]), node.packed[name]
        is_record = own.kind == "record" and not own.packed
        return {TYPE_NAME: url, **(inner if is_record else {"value": inner})}

    return lambda value: plain(value, node)


def leaf_type(node: Node) -> Type:
    """Returns the type of the column whose values JSON spells for a leaf."""
    is_number = PLAIN_NUMBER in node.attributes
    return Decimal(20, 0) if is_number else type_of(node) or types.VARCHAR


def _leaf(node: Node, of_leaf: OfLeaf) -> Convert:
    type_ = leaf_type(node)
    convert = of_leaf(node, type_)
    if node.logical == "json":
        return lambda value: _parsed(convert(value))
    write = _writer(type_)
    return lambda value: write(convert(value))


def _parsed(text: str) -> Any:
    try:
        return json_texts.parse(text)
    except ValueError:
        raise ValueError(f"not JSON: {text[:40]!r}") from None


def _writer(type_: Type) -> Convert:
    match type_:
        case types.REAL | types.DOUBLE:
            arrow = types.to_arrow(type_)
            return lambda value: _number(pa.scalar(value, arrow))
        case Decimal():
            return lambda value: Number(format(value, "f"))
        case Varbinary():
            return lambda value: base64.b64encode(value).decode()
        case types.DATE:
            return lambda days: (_EPOCH + datetime.timedelta(days)).date().isoformat()
        case types.TIME:
            return lambda micros: _at(micros).time().isoformat()
        case types.Timestamp():
            end = "Z" if type_.zoned else ""
            return lambda micros: _at(micros).isoformat() + end
    return lambda value: value


def _at(micros: int) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(microseconds=micros)


def _number(value: pa.Scalar) -> str:
    """Returns the shortest digits of a number; NaN and the infinities are text."""
    number = value.as_py()
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return Number(value.cast(pa.string()).as_py())
