"""Converts a schema's values to values of columns: the exact meaning that all formats share.

Columns find fields by name, or by a former name of the column or the field. A column that finds no
field is its default or null; a field that no column asks for is ignored. For a column of another
type nothing is guessed: the record is bad.
"""

from __future__ import annotations

import decimal
import math
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from seamline.connectors.kafka.formats import json_values
from seamline.connectors.kafka.formats.spelling import (
    MICROS,
    PLAIN,
    TRUNCATED,
    Spelling,
    whole_micros,
)
from seamline.connectors.kafka.formats.trees import VARIABLE_DECIMAL, Node
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
    return lambda value: None if value is None else make(value)


def _converter(node: Node, type_: Type, path: str) -> Convert:
    match node.kind, type_:
        case "null", _:
            return lambda _: None
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
        case (("record" | "array" | "map"), _):
            return _unlike(node, type_, path)
    if isinstance(type_, Row | Array | Map):
        return _unlike(node, type_, path)
    return _leaf(node, type_, path)


def _record(node: Node, fields: Sequence[Field], path: str) -> Convert:
    which = matched(fields, node.names)
    members = []
    for field in fields:
        name = which.get(field.name)
        inside = _join(path, field)
        convert = converter(node.members[name], field.type, inside) if name is not None else _same
        members.append((field, name, convert))

    def make(value: Mapping[str, Any]) -> dict[str, Any]:
        row = {}
        for field, name, convert in members:
            content = field.write_default if name is None else convert(value[name])
            if content is None and field.required:
                raise ValueError(f"{_join(path, field)}: null, but the column is required")
            row[field.name] = content
        return row

    return make


def _same(value: Any) -> Any:
    return value


def _join(path: str, field: Field) -> str:
    return f"{path}.{field.name}" if path else field.name


def _of_union(node: Node, type_: Type, path: str) -> Convert:
    """Chooses by the Python type of a value; for named types, by the name that comes with it."""
    if node.only is not None:
        only = converter(node.only, type_, path)
        return lambda value: only(value[1] if isinstance(value, tuple) else value)
    branches = [branch for branch in node.branches if branch.kind != "null"]
    by_name = {b.name: converter(b, type_, path) for b in branches if b.name}
    by_class: dict[type, Convert] = {}
    unknown = _ambiguous(path, node)
    for kind, alike in _of_one_class(branches):
        is_clear = len({branch.logical for branch in alike}) == 1
        by_class[kind] = converter(alike[0], type_, path) if is_clear else unknown

    def make(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, tuple) and value[0] in by_name:
            return by_name[value[0]](value[1])
        return by_class.get(type(value), unknown)(value)

    return make


def _of_one_class(branches: Sequence[Node]) -> Iterator[tuple[type, list[Node]]]:
    """Yields the Python types that branches have, each with those branches."""
    for kind in dict.fromkeys(_CLASSES.values()):
        alike = [branch for branch in branches if _CLASSES.get(branch.kind) is kind]
        if alike:
            yield kind, alike


_CLASSES: Mapping[str, type] = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "string": str,
    "bytes": bytes,
    "array": list,
    "map": dict,
}


def _ambiguous(path: str, node: Node) -> Convert:
    kinds = ", ".join(branch.kind for branch in node.branches)

    def make(_: Any) -> Any:
        raise ValueError(f"{path}: it is unknown which of the union of {kinds} a value is")

    return make


# --- Leaves --------------------------------------------------------------------------------------


def _leaf(node: Node, type_: Type, path: str) -> Convert:
    units = UNITS.get(node.logical)
    if node.logical == "decimal" and node.kind in ("bytes", "fixed"):
        if isinstance(type_, Decimal):
            scale = int(node.attributes.get("scale", 0))
            return lambda value: json_values.exact(_unscaled(value, scale, path), type_, path)
    elif node.kind in ("int", "long") and node.logical == "date" and type_ == types.DATE:
        return lambda value: _within(value, json_values.DAYS_MIN, json_values.DAYS_MAX, type_, path)
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
        low, high = json_values.MICROS_MIN, json_values.MICROS_MAX
    else:
        return None

    def make(value: int) -> int:
        try:
            micros = whole_micros(value, *units, is_truncated=node.is_truncated)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return _within(micros, low, high, type_, path)

    return make


def _spelling(node: Node) -> Spelling:
    return TRUNCATED if node.is_truncated else PLAIN


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
            return lambda value: _name(value, node.attributes["names"], path)
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


def _name(value: int, names: Mapping[int, str], path: str) -> str:
    if value not in names:
        raise ValueError(f"{path}: {value} is not a value of the enumeration")
    return names[value]


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
