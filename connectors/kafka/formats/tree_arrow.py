"""Converts arrays of a schema's values to arrays of columns, for the fast paths of all formats.

The decoders that make these arrays leave some things unchecked; they are checked here. A value that
cannot be converted raises an error, and the exact path decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from seamline.connectors.kafka.formats.spelling import DAYS_MAX, DAYS_MIN, MICROS_MAX, MICROS_MIN
from seamline.connectors.kafka.formats.trees import Node, is_type_name, own_rows
from seamline.seam.evolution import matched
from seamline.sql import types
from seamline.sql.slices import list_like
from seamline.sql.types import Array, Field, Json, Map, Row, Type, to_arrow

Convert: TypeAlias = Callable[[pa.Array], pa.Array]
"""Makes an array of a column; raises ValueError when the exact path must decide."""
OneByOne: TypeAlias = Callable[[Node, Type], Callable[[Any], Any]]
"""The exact path's conversion of one value."""


class NotFastError(Exception):
    """There is no fast path for a schema, or for a column of it."""


def converter(node: Node, type_: Type, one_by_one: OneByOne) -> Convert:
    """Returns a function that makes an array of a column's type from an array of carriers.

    Raises:
        NotFastError: there is no such function.
    """
    if node.kind == "union":
        if node.only is None:
            raise NotFastError
        return converter(node.only, type_, one_by_one)
    match node.kind, type_:
        case "record", Row(fields):
            return _record(node, fields, to_arrow(type_), one_by_one)
        case "array", Array(element):
            assert node.inner is not None
            return _list(converter(node.inner, element, one_by_one), to_arrow(type_))
        case "map", Map(types.VARCHAR, value):
            assert node.inner is not None
            return _map(converter(node.inner, value, one_by_one), to_arrow(type_))
    if node.kind in ("record", "array", "map") or isinstance(type_, Row | Array | Map | Json):
        raise NotFastError
    convert = leaf(node, type_)
    if convert is not None:
        return convert
    make, arrow_type = one_by_one(node, type_), to_arrow(type_)

    def each(array: pa.Array) -> pa.Array:
        carried = array.cast(pa.binary()) if node.kind == "bytes" else array
        if pa.types.is_timestamp(array.type):
            carried = array.cast(pa.int64())
        return pa.array([make(value) for value in carried.to_pylist()], arrow_type)

    return each


def _record(
    node: Node, fields: Sequence[Field], arrow_type: pa.DataType, one_by_one: OneByOne
) -> Convert:
    which = matched(fields, node.names)
    if own_rows(node, fields) or (node.packed and any(f.name not in which for f in fields)):
        raise NotFastError
    members: list[tuple[Field, str | None, Convert]] = []
    for field in fields:
        name = which.get(field.name)
        make = _same if name is None else converter(node.members[name], field.type, one_by_one)
        members.append((field, name, make))

    def row(array: pa.Array) -> pa.Array:
        mask = array.is_null() if array.null_count or not fields else None
        found = []
        for field, name, make in members:
            if name is None:
                default = node.name or None if is_type_name(field, which) else field.write_default
                inner = pa.array([default] * len(array), to_arrow(field.type))
            else:
                inner = make(array.field(name))
            if field.required and inner.null_count:
                raise ValueError("null in a required column")
            found.append(inner)
        return pa.StructArray.from_arrays(found, fields=list(arrow_type), mask=mask)

    return row


def _same(array: pa.Array) -> pa.Array:
    return array


def _list(make: Convert, arrow_type: pa.DataType) -> Convert:
    def items(array: pa.Array) -> pa.Array:
        return list_like(array, make(array.values), arrow_type)

    return items


def _map(make: Convert, arrow_type: pa.DataType) -> Convert:
    def entries(array: pa.Array) -> pa.Array:
        if not pa.types.is_string(array.type.key_type):
            raise ValueError("keys of another type")
        _check_text(array.keys)
        rows = array.to_pylist()
        if any(row is not None and len(dict(row)) < len(row) for row in rows):
            raise ValueError("a key appears twice")
        rebuilt = pa.MapArray.from_arrays(
            array.offsets, array.keys, make(array.items), type=arrow_type
        )
        if not array.null_count:
            return rebuilt
        valid = array.is_valid()
        return rebuilt.take(pc.if_else(valid, pa.array(range(len(array)), pa.int64()), None))

    return entries


def leaf(node: Node, type_: Type) -> Convert | None:
    """Returns a function that converts an array at once; None if values are converted singly."""
    is_whole = node.kind in ("int", "long")
    match node.kind, type_:
        case ("boolean", types.BOOLEAN) | ("float", types.REAL) | ("double", types.DOUBLE):
            return _same
        case "float", types.DOUBLE:
            return lambda array: array.cast(pa.float64())
        case "string", types.VARCHAR:
            return _checked_text
        case "enum", types.VARCHAR:
            return _names(node.attributes["names"]) if "names" in node.attributes else _checked_text
        case "bytes", types.VARBINARY if not node.logical and type_.length is None:
            return lambda array: array.cast(pa.binary())
        case (("int" | "long"), types.BIGINT):
            return lambda array: array.cast(pa.int64())
        case (("int" | "long"), types.INTEGER):
            return lambda array: array.cast(pa.int32())
    if is_whole and node.logical == "date" and type_ == types.DATE:
        return lambda array: _within(array, DAYS_MIN, DAYS_MAX).cast(pa.int32()).cast(pa.date32())
    if is_whole and isinstance(type_, types.Timestamp):
        arrow_type = to_arrow(type_)
        if node.logical.removeprefix("local-") == "timestamp-micros":
            return lambda array: _within(array, MICROS_MIN, MICROS_MAX).cast(arrow_type)
        if node.logical.removeprefix("local-") == "timestamp-millis":
            low, high = MICROS_MIN // 1000, MICROS_MAX // 1000
            return lambda array: pc.multiply(_within(array, low, high), 1000).cast(arrow_type)
    return None


def _names(names: Mapping[int, str]) -> Convert:
    """Converts enum numbers, which the decoder leaves in lists, to names; each must have a name."""
    numbers, texts = pa.array(list(names), pa.int32()), pa.array(list(names.values()), pa.string())

    def named(array: pa.Array) -> pa.Array:
        if not pa.types.is_integer(array.type):
            return _checked_text(array)
        symbols = texts.take(pc.index_in(array, value_set=numbers))
        if symbols.null_count > array.null_count:
            raise ValueError("a number without a name")
        return symbols

    return named


def _within(array: pa.Array, low: int, high: int) -> pa.Array:
    array = array.cast(pa.int64())
    outside = pc.any(pc.or_(pc.less(array, low), pc.greater(array, high)))
    if outside.as_py():
        raise ValueError("out of range")
    return array


def _checked_text(array: pa.Array) -> pa.Array:
    _check_text(array)
    return array


def _check_text(array: pa.Array) -> None:
    array.validate(full=True)
