"""Kernels of CAST to and from json."""

from __future__ import annotations

import decimal
import functools
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from seamline.errors import INVALID_CAST, SeamlineError
from seamline.sql import time_zones, types
from seamline.sql.kernels import floating, json_texts
from seamline.sql.kernels.json_texts import Json, Number
from seamline.sql.kernels.kernel import Compute, Use
from seamline.sql.types import Array, Decimal, Map, Row, Timestamp, Type


def can_be_json(type_: Type) -> bool:
    """Whether values of a type can be cast to JSON."""
    match type_:
        case Array(element):
            return can_be_json(element)
        case Map(key, value):
            return _is_key(key) and can_be_json(value)
        case Row(fields):
            return all(can_be_json(field.type) for field in fields)
        case Timestamp(_, zoned):
            return not zoned or type_.zone == time_zones.UTC
        case types.DATE | types.UNKNOWN:
            return True
    return type_ == types.JSON or _is_key(type_)


def can_be_made_of_json(type_: Type) -> bool:
    """Whether JSON can be cast to values of a type."""
    match type_:
        case Array(element):
            return can_be_made_of_json(element)
        case Map(key, value):
            return _is_key(key) and can_be_made_of_json(value)
        case Row(fields):
            return all(can_be_made_of_json(field.type) for field in fields)
    return type_ == types.JSON or _is_key(type_)


def _is_key(type_: Type) -> bool:
    return type_ in (types.BOOLEAN, types.VARCHAR) or types.is_numeric(type_)


# --- To JSON -------------------------------------------------------------------------------------


def to_json(use: Use, arguments: Sequence[pa.Array]) -> pa.Array:
    """Kernel that casts values to JSON."""
    (source,) = use.parameters
    texts = [
        None if value is None else json_texts.write(_json_of(value, source))
        for value in arguments[0].to_pylist()
    ]
    return pa.array(texts, pa.string())


def _json_of(value: Any, type_: Type) -> Json:
    if value is None or type_ == types.BOOLEAN:
        return value
    match type_:
        case types.JSON:
            return json_texts.parse(value)
        case Array(element):
            return [_json_of(item, element) for item in value]
        case Map(key, inner):
            pairs = ((_text_of(k, key), _json_of(v, inner)) for k, v in value)
            return dict(sorted(pairs))
        case Row(fields):
            return tuple(
                ("" if field.is_nameless else field.name, _json_of(value[field.name], field.type))
                for field in fields
            )
        case Timestamp(digits, zoned):
            text = f"{value:%H:%M:%S}.{value.microsecond:06d}"[: 8 + (digits and digits + 1)]
            return f"{value.date().isoformat()} {text}{' UTC' if zoned else ''}"
    text = _text_of(value, type_)
    is_number = types.is_numeric(type_) and text not in ("NaN", "Infinity", "-Infinity")
    return Number(text) if is_number else text


def _text_of(value: Any, type_: Type) -> str:
    if type_ == types.BOOLEAN:
        return str(value).lower()
    if type_ == types.REAL:
        return floating.plain_real(value)
    if type_ == types.DOUBLE:
        return floating.plain(value)
    return format(value, "f") if isinstance(value, decimal.Decimal) else str(value)


# --- From JSON -----------------------------------------------------------------------------------


def from_json(*, safe: bool) -> Compute:
    """Returns a kernel that casts JSON to another type; if safe, what does not fit is null."""
    return functools.partial(_from_json, safe=safe)


def _from_json(use: Use, arguments: Sequence[pa.Array], *, safe: bool) -> pa.Array:
    values = [
        None if text is None else _converted(text, use.returns, safe=safe)
        for text in arguments[0].to_pylist()
    ]
    return pa.array(values, types.to_arrow(use.returns))


def _converted(text: str, target: Type, *, safe: bool) -> Any:
    try:
        return _value_of(json_texts.parse(text), target)
    except (ValueError, ArithmeticError) as error:
        if safe:
            return None
        raise SeamlineError(
            INVALID_CAST, f"the JSON {text[:100]} is not a value of type {target}", hint=""
        ) from error


def _value_of(value: Json, target: Type) -> Any:
    if target == types.JSON:
        return json_texts.write(json_texts.doubled(value))
    if value is None:
        return None
    match target, value:
        case Array(element), list():
            return [_value_of(item, element) for item in value]
        case Map(key, inner), dict():
            return [(_value_of(k, key), _value_of(v, inner)) for k, v in value.items()]
        case Row(fields), dict() if not any(field.is_nameless for field in fields):
            members = {name.lower(): item for name, item in value.items()}
            return {f.name: _value_of(members.get(f.name.lower()), f.type) for f in fields}
        case Row(fields), list() if len(fields) == len(value):
            pairs = zip(fields, value, strict=True)
            return {field.name: _value_of(item, field.type) for field, item in pairs}
        case (Array() | Map() | Row(), _) | (_, list() | dict()):
            raise ValueError(str(target))
    return _scalar(target)(value)


def _scalar(target: Type) -> Callable[[Json], Any]:
    match target:
        case types.VARCHAR:
            return _text
        case types.BOOLEAN:
            return _boolean
        case Decimal(precision, scale):
            return lambda v: _decimal(v, precision, scale)
        case types.REAL | types.DOUBLE:
            return float
    return lambda v: _integer(v, target)


def _text(value: Json) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Number) and not json_texts.is_whole(value):
        return floating.cast_double(float(value) or 0.0)
    return json_texts.whole(str(value))


def _boolean(value: Json) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, Number):
        return (
            _integer(value, types.BIGINT) != 0 if json_texts.is_whole(value) else float(value) != 0
        )
    if value.lower() not in _BOOLEANS:
        raise ValueError(value)
    return _BOOLEANS[value.lower()]


_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def _decimal(value: Json, precision: int, scale: int) -> decimal.Decimal:
    number = decimal.Decimal(value)
    with decimal.localcontext(prec=100):
        rounded = number.quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP)
    if len(rounded.as_tuple().digits) > precision:
        raise ValueError(value)
    return rounded


def _integer(value: Json, target: Type) -> int:
    is_float = isinstance(value, Number) and not json_texts.is_whole(value)
    number = decimal.Decimal(float(value) if is_float else value)
    whole = int(number.to_integral_value(decimal.ROUND_HALF_UP))
    bits = 8 << types.INTEGERS.index(target)
    if not isinstance(value, Number | bool) and number != whole:
        raise ValueError(value)
    if not -(2 ** (bits - 1)) <= whole < 2 ** (bits - 1):
        raise ValueError(value)
    return whole
