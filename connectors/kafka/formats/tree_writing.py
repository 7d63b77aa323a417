"""Converts values of columns to a schema's values: the inverse of `tree_values`.

Fields find columns by name, as columns find fields when records are read. A value that the schema
cannot represent (null where it has none, digits or a unit finer than its own, a number out of its
range) is an error and is never truncated. A field without a column is its default, or null.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import decimal
import math
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from seamline.connectors.kafka.formats.tree_json import leaf_type
from seamline.connectors.kafka.formats.tree_values import UNITS, converter
from seamline.connectors.kafka.formats.trees import ANY, Node, branch_of, by_label, tagged
from seamline.seam.encoding import TYPE_NAME
from seamline.seam.evolution import matched
from seamline.sql import types
from seamline.sql.kernels import json_texts
from seamline.sql.kernels.json_texts import Json, Number
from seamline.sql.types import Array, Decimal, Field, Map, Row, Type, Varbinary

Encode: TypeAlias = Callable[[Any], Any]
"""Converts a column's value, as Arrow returns it to Python, to one of the schema's."""


def encoder(node: Node, type_: Type, path: str) -> Encode:
    """Returns a function that converts a column's value to one of the schema's.

    The function raises ValueError for a value that the schema does not have.

    Raises:
        ValueError: the schema has no values for the column's type.
    """
    if node.kind != "union":
        only, has_null = _encoder(node, type_, path), False
    else:
        has_null = len(node.branches) > len(node.alternatives)
        only = _encoder(node.only, type_, path) if node.only else _of_union(node, type_, path)

    def encode(value: Any) -> Any:
        if value is not None:
            return only(value)
        if not has_null:
            raise ValueError(f"{path}: null, but the schema has no null there")
        return None

    return encode


def _of_union(node: Node, type_: Type, path: str) -> Encode:
    """Writes the one field of a row that is not null, or what only one of the types can be."""
    if type_ == types.JSON:
        return _OfJson(node, path)
    names = by_label(node.alternatives)
    fields = type_.fields if isinstance(type_, Row) else ()
    places = {
        field.name: position
        for field in fields
        if (position := branch_of(field, names)) is not None
    }
    if not places:
        return _only_possible(node, type_, path)
    if len(places) < len(fields):
        raise ValueError(f"{path}: the schema has a union there, whose types have other names")
    makes = {
        field.name: _encoder(
            node.alternatives[places[field.name]], field.type, f"{path}.{field.name}"
        )
        for field in fields
    }

    def encode(value: Mapping[str, Any]) -> Any:
        present = [name for name, content in value.items() if content is not None]
        if len(present) != 1:
            raise ValueError(f"{path}: {len(present)} of its fields have a value, instead of one")
        return tagged(node, places[present[0]], makes[present[0]](value[present[0]]))

    return encode


def _only_possible(node: Node, type_: Type, path: str) -> Encode:
    possible: dict[int, Encode] = {}
    for position, branch in enumerate(node.alternatives):
        with contextlib.suppress(ValueError):
            possible[position] = _encoder(branch, type_, path)
    if len(possible) != 1:
        raise ValueError(f"{path}: the schema has a union there, and the type is ambiguous")
    ((position, make),) = possible.items()
    return lambda value: tagged(node, position, make(value))


def _encoder(node: Node, type_: Type, path: str) -> Encode:
    match node.kind, type_:
        case _, Row((Field("value", inner),)) if node.attributes.get("wrapper"):
            wrapped = _encoder(node, inner, path)
            return lambda value: None if value["value"] is None else wrapped(value["value"])
        case _, types.JSON:
            return _OfJson(node, path)
        case "record", types.BOOLEAN if not node.members:
            return lambda value: {} if value else None
        case "record", Row(fields):
            return _record(node, fields, path)
        case "array", Array(element):
            assert node.inner is not None
            item = encoder(node.inner, element, f"{path}[]")
            return lambda value: [item(entry) for entry in value]
        case "map", Map(types.VARCHAR, inner):
            assert node.inner is not None
            item = encoder(node.inner, inner, f"{path}[]")
            return lambda value: {key: item(entry) for key, entry in value}
    encode_leaf = _leaf(node, type_, path)
    if encode_leaf is None:
        kind = f"{node.kind} ({node.logical})" if node.logical else node.kind
        raise ValueError(f"{path}: the schema has {kind} there, which {type_} cannot become")
    return encode_leaf


def _record(node: Node, fields: Sequence[Field], path: str) -> Encode:
    which = {name: column for column, name in matched(fields, node.names).items()}
    types_ = {field.name: field.type for field in fields}
    members: list[tuple[str, str, Encode]] = []
    others: dict[str, Any] = {}
    for name, member in node.members.items():
        inside = f"{path}.{name}" if path else name
        column = which.get(name)
        if column is not None:
            members.append((name, column, encoder(member, types_[column], inside)))
        elif name in node.defaults:
            others[name] = _default(member, node.defaults[name])
        elif any(branch.kind == "null" for branch in member.branches):
            others[name] = None
        else:
            raise ValueError(f"{inside}: the schema requires it, but no column has it")
    columns = {column for _, column, _ in members}
    unknown = [field.name for field in fields if field.name not in columns]

    def encode(value: Mapping[str, Any]) -> dict[str, Any]:
        for column in unknown:
            is_type = column == TYPE_NAME and value[column] == node.name
            if value[column] is not None and not is_type:
                raise ValueError(f"{path}.{column}".lstrip(".") + ": the schema has no such field")
        return {**{name: make(value[column]) for name, column, make in members}, **others}

    return encode


def _default(node: Node, value: Any) -> Any:
    """Returns the value of a default, which is written in JSON."""
    match node.kind:
        case _ if value is None:
            return None
        case "union" if node.only is not None:
            return _default(node.only, value)
        case "union":  # the default is of its first type
            return tagged(node, 0, _default(node.alternatives[0], value))
        case "bytes" | "fixed":
            return str(value).encode("latin-1")
        case "record":
            filled = {**node.defaults, **value}
            return {name: _default(member, filled[name]) for name, member in node.members.items()}
        case "array" if node.inner is not None:
            return [_default(node.inner, item) for item in value]
        case "map" if node.inner is not None:
            return {key: _default(node.inner, item) for key, item in value.items()}
    return value


# --- Leaves --------------------------------------------------------------------------------------


def _leaf(node: Node, type_: Type, path: str) -> Encode | None:
    match node.kind:
        case "boolean" if type_ == types.BOOLEAN:
            return _same
        case "int" | "long":
            return _whole(node, type_, path)
        case "float" | "double" if type_ in (types.REAL, types.DOUBLE):
            return _single(path) if node.kind == "float" else float
        case "enum" if type_ == types.VARCHAR:
            return _symbol(node, path)
        case "enum" if type_ in (types.INTEGER, types.BIGINT) and "names" in node.attributes:
            return lambda value: _within_int(value, path)
        case "bytes" | "fixed":
            return _bytes(node, type_, path)
        case "string":
            return _text(type_)
    return None


def _same(value: Any) -> Any:
    return value


_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - for both kinds of timestamps
_MICRO = datetime.timedelta(microseconds=1)


def _whole(node: Node, type_: Type, path: str) -> Encode | None:
    bits = 31 if node.kind == "int" else 63
    low, high = (0, 2**64 - 1) if node.attributes.get("unsigned") else (-(2**bits), 2**bits - 1)
    units = UNITS.get(node.logical)
    count: Encode
    if isinstance(type_, types.Timestamp):
        if node.logical.startswith("time-") or node.logical == "date":
            return None
        units = units or UNITS["timestamp-millis"]
        count = _micros
    elif type_ == types.TIME and node.logical.startswith("time-"):
        count = _micros_of_day
    elif type_ == types.DATE and node.logical == "date":
        units, count = None, _days
    elif type_ in types.INTEGERS or isinstance(type_, Decimal):
        units, count = None, _integral(path)
    else:
        return None

    def encode(value: Any) -> int:
        amount = count(value)
        if units is not None:
            factor, divisor = units
            amount, rest = divmod(amount * divisor, factor)
            if rest:
                raise ValueError(f"{path}: {value} is finer than the schema's {node.logical}")
        if not low <= amount <= high:
            raise ValueError(f"{path}: {value} is out of range for the schema's {node.kind}")
        return int(amount)

    return encode


def _micros(value: datetime.datetime) -> int:
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return (value - _EPOCH) // _MICRO


def _micros_of_day(value: datetime.time) -> int:
    return (datetime.datetime.combine(_EPOCH, value) - _EPOCH) // _MICRO


def _days(value: datetime.date) -> int:
    return value.toordinal() - _EPOCH.toordinal()


def _integral(path: str) -> Encode:
    def encode(value: int | decimal.Decimal) -> int:
        if value != int(value):
            raise ValueError(f"{path}: {value} is not a whole number")
        return int(value)

    return encode


def _single(path: str) -> Encode:
    def encode(value: float) -> float:
        single: float = pa.scalar(value, pa.float64()).cast(pa.float32()).as_py()
        if single != value and not math.isnan(value):
            raise ValueError(f"{path}: {value} cannot be a float, as the schema requires")
        return single

    return encode


def _symbol(node: Node, path: str) -> Encode:
    names: Mapping[int, str] | None = node.attributes.get("names")
    if names is None:
        symbols: Mapping[str, Any] = {symbol: symbol for symbol in node.attributes["symbols"]}
    else:
        symbols = {name: number for number, name in names.items()}

    def encode(value: str) -> Any:
        if names is not None and value not in symbols and _DIGITS.fullmatch(value):
            return _within_int(int(value), path)
        if value not in symbols:
            raise ValueError(f"{path}: {value!r} is not a value of the enumeration")
        return symbols[value]

    return encode


_DIGITS = re.compile(r"-?\d{1,10}", re.ASCII)


def _within_int(value: int, path: str) -> int:
    if not -(2**31) <= value < 2**31:
        raise ValueError(f"{path}: {value} is out of range for an enumeration")
    return value


def _bytes(node: Node, type_: Type, path: str) -> Encode | None:
    size = int(node.attributes["size"]) if node.kind == "fixed" else None
    if node.logical == "decimal":
        return _unscaled(node, size, path) if isinstance(type_, Decimal) else None
    if node.logical == "uuid" and node.kind == "fixed" and type_ == types.UUID:
        return lambda value: uuid.UUID(value).bytes
    if type_ == types.VARCHAR and size is None:
        return lambda value: value.encode()
    if not isinstance(type_, Varbinary):
        return None

    def encode(value: bytes) -> bytes:
        if size not in (None, len(value)):
            raise ValueError(f"{path}: {len(value)} bytes where the schema has {size}")
        return value

    return encode


_EXACT = decimal.Context(prec=1000)


def _unscaled(node: Node, size: int | None, path: str) -> Encode:
    scale, precision = (int(node.attributes.get(name, 0)) for name in ("scale", "precision"))

    def encode(value: decimal.Decimal) -> bytes:
        scaled = value.scaleb(scale, _EXACT)
        number = int(scaled)
        if number != scaled or abs(number) >= 10**precision:
            raise ValueError(
                f"{path}: {value} is not a decimal({precision}, {scale}), as the schema requires"
            )
        needed = (number if number >= 0 else ~number).bit_length() // 8 + 1
        if size is not None and needed > size:
            raise ValueError(f"{path}: {value} does not fit into {size} bytes")
        return number.to_bytes(size or needed, "big", signed=True)

    return encode


def _text(type_: Type) -> Encode | None:
    match type_:
        case types.VARCHAR | types.UUID:
            return _same
        case types.DATE | types.TIME:
            return lambda value: value.isoformat()
        case types.TIMESTAMP:
            return lambda value: value.isoformat(timespec="microseconds")
        case types.TIMESTAMP_TZ:
            return lambda value: (_EPOCH + _micros(value) * _MICRO).isoformat() + "Z"
    return None


# --- JSON ----------------------------------------------------------------------------------------


class _OfJson:
    """Values of type json as values of a schema, each of which is read back as the same text.

    An object has all fields of its record. A value of a union is of the one type that takes it so.
    """

    def __init__(self, node: Node, path: str) -> None:
        self._node = node
        self._path = path
        self._leaves: dict[tuple[Node, str], Encode] = {}
        self._branches: dict[tuple[int, Node], dict[int, Any]] = {}

    def __call__(self, text: str) -> Any:
        """Returns the schema's value; raises ValueError if it has none."""
        self._branches.clear()  # the values by whose identity it has them are gone
        value = json_texts.parse(text)
        try:
            return self._encoded(value, self._node, self._path)
        except RecursionError:
            raise ValueError(f"{self._path}: nested too deeply") from None

    def _encoded(self, value: Json, node: Node, path: str) -> Any:
        match node.kind, value:
            case "null", None:
                return None
            case "union", None if len(node.branches) > len(node.alternatives):
                return None
            case "union", _ if node.only is not None:
                return self._encoded(value, node.only, path)
            case "union", _:
                return self._of_branch(value, node, path)
            case "record", dict() if node.name != ANY:
                return self._record(value, node, path)
            case "array", list() if node.inner is not None:
                return [self._encoded(item, node.inner, f"{path}[]") for item in value]
            case "map", dict() if node.inner is not None:
                return {key: self._encoded(v, node.inner, f"{path}[]") for key, v in value.items()}
            case (("record" | "array" | "map"), _):
                raise _unlike_json(value, node, path)
        if (node, path) not in self._leaves:
            self._leaves[node, path] = _json_leaf(node, path)
        return self._leaves[node, path](value)

    def _record(self, value: Mapping[str, Json], node: Node, path: str) -> dict[str, Any]:
        for name in node.members.keys() ^ value.keys():
            owner = "schema" if name in value else "object"
            raise ValueError(f"{path}.{name}: the {owner} has no such field")
        return {
            name: self._encoded(value[name], member, f"{path}.{name}")
            for name, member in node.members.items()
        }

    def _of_branch(self, value: Json, node: Node, path: str) -> Any:
        key = id(value), node
        if key not in self._branches:  # else a value in many unions is tried for each way to it
            fitting = self._branches[key] = {}
            for position, branch in enumerate(node.alternatives):
                with contextlib.suppress(ValueError):
                    fitting[position] = self._encoded(value, branch, path)
        fitting = self._branches[key]
        if len(fitting) != 1:
            raise ValueError(
                f"{path}: {_short(value)} does not fit exactly one of the types of the schema's"
                " union"
            )
        ((position, content),) = fitting.items()
        return tagged(node, position, content)


def _short(value: Json) -> str:
    text = json_texts.write(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _unlike_json(value: Json, node: Node, path: str) -> ValueError:
    kind = node.name if node.name == ANY else node.kind
    return ValueError(f"{path}: the schema has {kind} there, which {_short(value)} cannot become")


def _json_leaf(node: Node, path: str) -> Encode:
    """Returns a function that converts JSON to a leaf that is read back as the same JSON."""
    type_ = leaf_type(node)
    encode = _leaf(node, type_, path)
    read = converter(node, types.JSON, path)

    def make(value: Json) -> Any:
        try:
            own = json_texts.write(value) if node.logical == "json" else _of_column(value, type_)
        except (TypeError, ValueError, ArithmeticError):
            own = None
        if own is None or encode is None:
            raise _unlike_json(value, node, path)
        encoded = encode(own)
        text = read(encoded)
        if text != json_texts.canonical(value):
            raise ValueError(f"{path}: {_short(value)} would be read back as {text[:40]}")
        return encoded

    return make


def _of_column(value: Json, type_: Type) -> Any:
    """Returns what a column of a type has for JSON; None, TypeError or ValueError if nothing."""
    if isinstance(value, bool):
        return value if type_ == types.BOOLEAN else None
    if isinstance(type_, Decimal):
        number = decimal.Decimal(value) if isinstance(value, Number) else None
        return number if number is None or number.adjusted() <= _DIGITS_MAX else None
    if type_ in (types.REAL, types.DOUBLE):
        return pa.scalar(float(value), pa.float64()).cast(types.to_arrow(type_)).as_py()
    if isinstance(value, Number):
        return int(value) if type_ in types.INTEGERS else None
    if not isinstance(value, str):
        return None
    if isinstance(type_, Varbinary):
        return base64.b64decode(value, validate=True)
    parse = _PARSED.get(type_)
    return value if parse is None else parse(value)


_DIGITS_MAX = types.MAX_DECIMAL_PRECISION
_PARSED: Mapping[Type, Callable[[str], Any]] = {
    types.BOOLEAN: lambda _: None,
    types.INTEGER: lambda _: None,
    types.BIGINT: lambda _: None,
    types.UUID: lambda text: str(uuid.UUID(text)),
    types.DATE: datetime.date.fromisoformat,
    types.TIME: datetime.time.fromisoformat,
    types.TIMESTAMP: datetime.datetime.fromisoformat,
    types.TIMESTAMP_TZ: datetime.datetime.fromisoformat,
}
"""What makes values of text; a type that text has no values of makes None."""
