"""Converts a schema's values to values of columns: the exact meaning that all formats share.

Columns find fields by name, or by a former name of the column or the field. A column that finds no
field is its default or null; a field that no column asks for is ignored. For a column of another
type nothing is guessed: the record is bad.
"""

from __future__ import annotations

import decimal
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from seamline.connectors.kafka.formats import json_values
from seamline.connectors.kafka.formats.spelling import (
    DAYS_MAX,
    DAYS_MIN,
    MICROS,
    MICROS_MAX,
    MICROS_MIN,
    Spelling,
    whole_micros,
)
from seamline.connectors.kafka.formats.tree_json import jsons, texts
from seamline.connectors.kafka.formats.trees import (
    PACKED,
    VARIABLE_DECIMAL,
    Node,
    branch_of,
    by_label,
    is_type_name,
    own_rows,
    packed_fields,
    untagged,
)
from seamline.seam.evolution import matched
from seamline.sql import types
from seamline.sql.types import Array, Decimal, Field, Map, Row, Type, Varbinary

Convert: TypeAlias = Callable[[Any], Any]
"""Converts a value to what Arrow's constructors take; raises ValueError."""


def converter(node: Node, type_: Type, path: str) -> Convert:
    """Returns a function that converts a value of the schema to a value of a column.

    If no value of the schema fits the column, the function raises an error that says so.
    """
    if node.kind == "union":
        return _of_union(node, type_, path)
    make = _converter(node, type_, path)
    if isinstance(type_, Row) and node.kind != "record":  # a schema with more types may follow
        names = _WRAPPED if node.attributes.get("wrapper") else by_label([node])
        if any(branch_of(field, names) is not None for field in type_.fields):
            make = _branch(node, 0, names, type_, path)
    return lambda value: None if value is None else make(value)


def _converter(node: Node, type_: Type, path: str) -> Convert:
    match node.kind, type_:
        case "null", _:
            return lambda _: None
        case _, types.JSON:
            return jsons(node, lambda leaf, own: converter(leaf, own, path))
        case kind, types.VARCHAR if node.spelling.json_text and (
            kind not in _TEXTS or node.logical == "decimal"
        ):
            return texts(node, lambda leaf, own: converter(leaf, own, path))
        case "record", Row(fields):
            return _record(node, fields, path)
        case "array", Array(element):
            assert node.inner is not None
            item = converter(node.inner, element, f"{path}[]")
            return lambda value: [item(entry) for entry in value]
        case "map", Map(key, inner):
            assert node.inner is not None
            item = converter(node.inner, inner, f"{path}[]")
            return lambda value: json_values.map_entries(
                ((name, item(entry)) for name, entry in value.items()), key, path
            )
        case "record", Decimal() if node.name == VARIABLE_DECIMAL:
            return _variable(type_, path)
        case "record", types.BOOLEAN if not node.members:
            return lambda _: True
        case (("record" | "array" | "map"), _):
            return _unlike(node, type_, path)
    if isinstance(type_, Row | Array | Map):
        return _unlike(node, type_, path)
    return _leaf(node, type_, path)


_TEXTS = frozenset({"string", "enum", "bytes"})
"""Kinds that are text without being JSON."""


def _record(node: Node, fields: Sequence[Field], path: str) -> Convert:
    which = matched(fields, node.names)
    whole = own_rows(node, fields)
    members: list[tuple[Field, str | None, Convert]] = []
    for field in fields:
        name = which.get(field.name)
        inside = _join(path, field)
        convert = converter(node.members[name], field.type, inside) if name is not None else _same
        members.append((field, name, convert))
    makes = {field.name: converter(node, field.type, _join(path, field)) for field in whole}
    names = dict.fromkeys((f.name for f in fields if is_type_name(f, which)), node.name or None)
    unpack = _unpacked(node, fields, path) if node.packed else None

    def make(value: Mapping[str, Any]) -> dict[str, Any]:
        row = {}
        for field, name, convert in members:
            content = field.write_default if name is None else convert(value[name])
            if name is None and field.name in makes:
                content = makes[field.name](value)
            content = names.get(field.name, content)
            if content is None and field.required:
                raise ValueError(f"{_join(path, field)}: null, but the column is required")
            row[field.name] = content
        if unpack is not None:
            row |= unpack(value)
        return row

    return make


def _unpacked(node: Node, fields: Sequence[Field], path: str) -> Convert | None:
    """Returns a function that makes the fields of a row that are for what an `Any` holds.

    None if the row has no such fields.
    """
    which = matched(fields, node.names)
    packed = packed_fields(node, fields)
    makes = {
        field.name: converter(node.packed[packed[field.name]], field.type, _join(path, field))
        for field in fields
        if field.name in packed
    }
    types_ = [field.name for field in fields if is_type_name(field, which)]

    def make(value: Mapping[str, Any]) -> dict[str, Any]:
        name, content = value[PACKED]
        row = {own: convert(content) for own, convert in makes.items() if packed[own] == name}
        return row | dict.fromkeys(types_, name or None)

    return make if makes or types_ else None


_WRAPPED = {"value": 0}
"""The field of a message such as `StringValue`, for rows that have it."""


def _same(value: Any) -> Any:
    return value


def _join(path: str, field: Field) -> str:
    return f"{path}.{field.name}" if path else field.name


def _of_union(node: Node, type_: Type, path: str) -> Convert:
    """Converts a value of one of several types: as a field of a row, or as what the column is."""
    if node.only is not None:
        only = converter(node.only, type_, path)
        return lambda value: only(value[1] if isinstance(value, tuple) else value)
    names = by_label(node.alternatives)
    makes = [
        _branch(b, position, names, type_, path) for position, b in enumerate(node.alternatives)
    ]

    def make(value: Any) -> Any:
        if value is None:
            return None
        position, content = untagged(value)
        return makes[position](content)

    return make


def _branch(node: Node, position: int, names: Mapping[str, int], type_: Type, path: str) -> Convert:
    """Converts values of one branch of a union.

    Args:
        node: The branch.
        position: Which branch it is.
        names: What a row may call the branches.
        type_: The column's type.
        path: Its name.
    """
    if not isinstance(type_, Row):
        return converter(node, type_, path)
    branches = {field.name: branch_of(field, names) for field in type_.fields}
    own = [field for field in type_.fields if branches[field.name] == position]
    further = tuple(field for field in type_.fields if branches[field.name] is None)
    if len(further) == len(type_.fields):
        return converter(node, type_, path)
    inner = _record(node, further, path) if node.kind == "record" and further else None
    makes = [(field.name, converter(node, field.type, _join(path, field))) for field in own]
    required = [field for field in type_.fields if field.required]

    def make(value: Any) -> dict[str, Any]:
        row = dict.fromkeys(branches)
        if inner is not None:
            row |= inner(value)
        for name, convert in makes:
            row[name] = convert(value)
        for field in required:
            if row[field.name] is None:
                raise ValueError(f"{_join(path, field)}: null, but the column is required")
        return row

    return make


# --- Leaves --------------------------------------------------------------------------------------


def _leaf(node: Node, type_: Type, path: str) -> Convert:
    units = UNITS.get(node.logical)
    if node.logical == "decimal" and node.kind in ("bytes", "fixed"):
        if isinstance(type_, Decimal):
            scale = int(node.attributes.get("scale", 0))
            return lambda value: json_values.exact(_unscaled(value, scale, path), type_, path)
    elif node.kind in ("int", "long") and node.logical == "date" and type_ == types.DATE:
        return lambda value: _day(node, value, type_, path)
    elif node.logical == "date" and isinstance(type_, types.Timestamp):
        return _unlike(node, type_, path)
    elif node.kind in ("int", "long") and units is not None:
        make = _of_time(node, units, type_, path)
        if make is not None:
            return make
        if isinstance(type_, types.Timestamp):
            return _unlike(node, type_, path)  # a bare number would count from 1970
    elif node.kind == "string" and node.logical.startswith("iso-") and is_local(type_):
        spelling = _spelling(node)
        return lambda value: json_values.exact(value.removesuffix("Z"), type_, path, spelling)
    elif node.kind == "fixed" and node.logical == "uuid" and type_ == types.UUID:
        return lambda value: str(uuid.UUID(bytes=value))
    return _plain(node, type_, path)


def is_local(type_: Type) -> bool:
    """Whether values have no time zone; Debezium's text has one only as a formality."""
    return type_ in (types.DATE, types.TIMESTAMP)


UNITS: Mapping[str, tuple[int, int]] = {
    f"{what}-{unit}": factors
    for what in ("time", "timestamp", "local-timestamp")
    for unit, factors in MICROS.items()
}
"""What converts each to microseconds: a factor and a divisor."""
_DAY_MICROS = 86_400_000_000


def _of_time(node: Node, units: tuple[int, int], type_: Type, path: str) -> Convert | None:
    if node.logical.startswith("time-") and type_ == types.TIME:
        low, high = 0, _DAY_MICROS - 1
    elif not node.logical.startswith("time-") and isinstance(type_, types.Timestamp):
        low, high = MICROS_MIN, MICROS_MAX
    else:
        return None

    def make(value: int) -> int:
        infinite = node.spelling.infinite(value, type_, units)
        if infinite is not None:
            return int(infinite)
        try:
            micros = whole_micros(value, *units, is_truncated=node.spelling.truncated_times)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return _within(micros, low, high, type_, path)

    return make


def _day(node: Node, value: int, type_: Type, path: str) -> int:
    infinite = node.spelling.infinite(value, type_)
    if infinite is not None:
        return int(infinite)
    return _within(value, DAYS_MIN, DAYS_MAX, type_, path)


def _spelling(node: Node) -> Spelling:
    return node.spelling.of_every_part


def _within(value: int, low: int, high: int, type_: Type, path: str) -> int:
    if not low <= value <= high:
        raise ValueError(f"{path}: {value} is out of range for {type_}")
    return value


def _variable(type_: Type, path: str) -> Convert:
    def make(value: Mapping[str, Any]) -> Any:
        scale, unscaled = value.get("scale"), value.get("value")
        if scale is None or unscaled is None:
            raise ValueError(f"{path}: a decimal without its scale, or its value")
        return json_values.exact(_unscaled(unscaled, scale, path), type_, path)

    return make


def _unscaled(value: bytes, scale: int, path: str) -> str:
    number = decimal.Decimal(int.from_bytes(value, "big", signed=True))
    try:
        return str(number.scaleb(-scale, _EXACT))
    except decimal.DecimalException:
        raise ValueError(
            f"{path}: no decimal has a scale of {scale} and {len(value)} bytes"
        ) from None


_EXACT = decimal.Context(prec=1000, traps=[decimal.InvalidOperation, decimal.Inexact])


def _plain(node: Node, type_: Type, path: str) -> Convert:
    """Converts without the logical type, as JSON of the same kind would be in that column."""
    match node.kind:
        case "enum" if "names" in node.attributes and type_ in (types.VARCHAR, json_values.WORD):
            return lambda value: _name(value, node.attributes["names"])
        case "enum" if isinstance(type_, types.Timestamp):
            return _unlike(node, type_, path)  # no number of an enum is a time
        case "long" if node.logical == "unsigned" and type_ == types.VARCHAR:
            return str
        case "bytes" | "fixed" if isinstance(type_, Varbinary):
            return lambda value: _sized(value, type_, path)
        case "bytes" if type_ == types.VARCHAR and node.logical != "decimal":
            return lambda value: _text(value, path)
        case "bytes" | "fixed":
            return _unlike(node, type_, path)
        case "string" if isinstance(type_, Varbinary):
            return lambda value: _sized(value.encode(), type_, path)
        case "float" | "double":
            return _floating(type_, path) or _unlike(node, type_, path)
    spelling = _spelling(node)
    return lambda value: json_values.exact(value, type_, path, spelling)


def _name(value: int, names: Mapping[int, str]) -> str:
    """Returns the name of a Protobuf enum's value; one without a name is its digits, as in JSON."""
    return names.get(value) or str(value)


def _floating(type_: Type, path: str) -> Convert | None:
    if type_ == types.DOUBLE:
        return float
    if type_ != types.REAL:
        return None

    def make(value: float) -> float:
        single: float = pa.scalar(value, pa.float64()).cast(pa.float32()).as_py()
        if math.isinf(single) and not math.isinf(value):
            raise ValueError(f"{path}: {value} is out of range for {type_}")
        return single

    return make


def _sized(value: bytes, type_: Varbinary, path: str) -> bytes:
    if type_.length is not None and len(value) != type_.length:
        raise ValueError(f"{path}: {len(value)} bytes where {type_.length} are expected")
    return value


def _text(value: bytes, path: str) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 at byte {error.start}") from None


def _unlike(node: Node, type_: Type, path: str) -> Convert:
    kind = f"{node.kind} ({node.logical})" if node.logical else node.kind

    def make(_: Any) -> Any:
        raise ValueError(f"{path}: {kind} where {type_} is expected")

    return make
