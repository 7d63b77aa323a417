"""JSON encoding of values in Trino's protocol.

Integers are numbers. Decimals, dates, times and timestamps are strings with as many digits as their
type says. Varbinary is base64; NaN and the infinities are strings. A row is an array of its fields,
and a map is an object whose keys are strings.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import struct
import zoneinfo
from collections.abc import Callable
from typing import Any

from seamline.sql import types
from seamline.sql.kernels.floating import not_finite
from seamline.sql.session_zone import SEVERAL_ZONES, UTC
from seamline.sql.time_zones import offset_of
from seamline.sql.types import Array, Char, Decimal, Map, Row, Time, Timestamp, Type, Varbinary

Encode = Callable[[Any], Any]
_SMALLEST_NORMAL = 2.0**-126
"""Smaller 32-bit floats have fewer than six digits."""
_SECONDS = len("2024-02-29 01:02:03")


def encoder(type_: Type) -> Encode:
    """Returns a function that encodes values, as Arrow gives them to Python; null stays null."""
    encode = _encoder(type_)
    return lambda value: None if value is None else encode(value)


def is_plain(type_: Type) -> bool:
    """Returns whether values of the type need no conversion for JSON."""
    return type_ in _PLAIN or type_ == types.TIME_TZ or isinstance(type_, types.Interval)


_PLAIN = frozenset(
    {types.BOOLEAN, *types.INTEGERS, types.VARCHAR, types.UUID, types.JSON, types.UNKNOWN}
)


def _encoder(type_: Type) -> Encode:
    match type_:
        case Array(element):
            item = encoder(element)
            return lambda values: [item(value) for value in values]
        case Map(key, value):
            name, inner = _key(encoder(key)), encoder(value)
            return lambda pairs: {name(k): inner(v) for k, v in pairs}
        case Row(fields):
            members = [(field.name, encoder(field.type)) for field in fields]
            return lambda row: [encode(row[name]) for name, encode in members]
        case Timestamp():
            return _zoned(type_) if type_.zoned else _local(type_.precision)
        case Time(precision, False):
            return _time(precision)
        case Char(length):
            return lambda text: text.ljust(length)
        case Decimal():
            return _decimal
        case Varbinary():
            return lambda data: base64.b64encode(data).decode()
        case types.DATE:
            return _date
        case types.REAL:
            return _real
        case types.DOUBLE:
            return _double
    return lambda value: value


def _decimal(value: decimal.Decimal) -> str:
    return format(value, "f")


def _double(value: float) -> float | str:
    return value if math.isfinite(value) else not_finite(value)


def _real(value: float) -> float | str:
    """Returns the number with the fewest digits that is the same 32-bit float."""
    if not math.isfinite(value):
        return _double(value)
    first = 6 if abs(value) >= _SMALLEST_NORMAL else 2
    texts = (f"{value:.{digits}g}" for digits in range(first, 10))
    return next((float(text) for text in texts if _is_real(float(text), value)), value)


def _is_real(candidate: float, value: float) -> bool:
    try:
        return bool(struct.unpack("f", struct.pack("f", candidate))[0] == value)
    except OverflowError:  # rounded up beyond the largest float
        return False


def _date(value: datetime.date | str) -> str:
    return value if isinstance(value, str) else value.isoformat()


def _local(precision: int) -> Callable[[datetime.datetime | str], str]:
    end = _SECONDS + (precision + 1 if precision else 0)

    def text(value: datetime.datetime | str) -> str:
        if isinstance(value, str):  # of a year that does not have four digits
            return value[: len(value) - len("0001-01-01 00:00:00.000000") + end]
        return value.isoformat(" ", "microseconds")[:end]

    return text


def _time(precision: int) -> Callable[[datetime.time], str]:
    end = len("01:02:03") + (precision + 1 if precision else 0)
    return lambda value: value.isoformat("microseconds")[:end]


def _zoned(type_: Timestamp) -> Callable[[datetime.datetime | str], str]:
    """Returns the encoder of timestamps: local time in the type's zone, and the zone's name.

    Values of several zones are in UTC.
    """
    its = UTC if type_.zone == SEVERAL_ZONES else type_.zone
    minutes = offset_of(its)
    zone: datetime.tzinfo = (
        zoneinfo.ZoneInfo(its)
        if minutes is None
        else datetime.timezone(datetime.timedelta(minutes=minutes))
    )
    local = _local(type_.precision)

    def text(value: datetime.datetime | str) -> str:
        if isinstance(value, str):
            return f"{local(value.removesuffix(f' {UTC}'))} {UTC}"
        try:
            clock, name = value.astimezone(zone), its
        except OverflowError:  # out of range in that zone: same instant in UTC
            clock, name = value.astimezone(datetime.UTC), UTC
        return f"{local(clock.replace(tzinfo=None))} {name}"

    return text


def _key(encode: Encode) -> Callable[[Any], str]:
    def text(value: Any) -> str:
        encoded = encode(value)
        return encoded if isinstance(encoded, str) else json.dumps(encoded)

    return text
