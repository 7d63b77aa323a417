"""Functions of times of day: all are computed by those of a plain time of six digits.

A time with time zone is kept as the time in UTC, which is what comparison, difference and movement
need. Its fields are those at its offset, which belongs to its type. A result that is a time has the
digits and the offset of the argument.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from sqlglot import exp

from seamline.errors import TYPE_MISMATCH, SeamlineError
from seamline.sql import coercion, time_zones, types
from seamline.sql.binder.conversions import explicit_cast, implicit_cast
from seamline.sql.binder.scope import Typed
from seamline.sql.expressions.calls import CallSpec, call, constructor
from seamline.sql.types import Time, Type

Bind: TypeAlias = Callable[[str, Sequence[Typed]], Typed]

_FIELDS = frozenset({"hour", "minute", "second", "millisecond"})
_OFFSETS = frozenset({"timezone_hour", "timezone_minute"})
_BY_INTERVALS = frozenset({"$add", "$subtract"})
_DIGITS_OF_INTERVALS = 3


def bind(name: str, arguments: Sequence[Typed], bind_plain: Bind) -> Typed | None:
    """Binds a function of times of day over plain times; None for any other call.

    Raises:
        SeamlineError: NOT_SUPPORTED for fields of times at several offsets.
    """
    clocks = [type_ for _, type_ in arguments if isinstance(type_, Time)]
    if not clocks or all(not type_.zoned and type_.precision == 6 for type_ in clocks):
        return None
    if name == "format" and any(type_.zoned for type_ in clocks):
        return bind_plain(name, [_as_text(argument) for argument in arguments])
    if name in _OFFSETS:
        return _field_of_offset(name, arguments[0])
    if name in _FIELDS:
        return bind_plain(name, [_local(arguments[0])])
    if name.startswith("$date_trunc"):
        node, _ = bind_plain(name, [_local(arguments[0])])
        return _retyped(node, types.TIME, clocks[0], time_zones.clock_in_utc), clocks[0]
    if name.startswith("$date_diff") or (name in _BY_INTERVALS and len(clocks) > 1):
        common = coercion.common_type_of(clocks)
        assert common is not None
        return bind_plain(name, [_in_utc((implicit_cast(*a, common), common)) for a in arguments])
    if name in _BY_INTERVALS or name.startswith("$date_add"):
        return _moved(name, arguments, clocks[0], bind_plain)
    return None


def offset_text(type_: Time) -> str:
    """Returns the offset of a time as text.

    Raises:
        SeamlineError: NOT_SUPPORTED for times at several offsets.
    """
    time_zones.clock_in(type_.zone)  # refuses them
    return time_zones.written_offset(type_.zone)


def _moved(name: str, arguments: Sequence[Typed], type_: Time, bind_plain: Bind) -> Typed:
    result = bind_plain(name, [_in_utc(argument) for argument in arguments])
    if result[1] != types.TIME:
        return result
    digits = type_.precision
    if name in _BY_INTERVALS:
        digits = max(digits, _DIGITS_OF_INTERVALS)
    plain = Time(digits)
    node = explicit_cast(*result, plain, safe=False)
    returns = dataclasses.replace(type_, precision=digits)
    return _retyped(node, plain, returns), returns


def _as_text(value: Typed) -> Typed:
    node, type_ = value
    if not isinstance(type_, Time) or not type_.zoned:
        return value
    return explicit_cast(node, type_, types.VARCHAR, safe=False), types.VARCHAR


def _in_utc(value: Typed) -> Typed:
    node, type_ = value
    return (_retyped(node, type_, types.TIME), types.TIME) if isinstance(type_, Time) else value


def _local(value: Typed) -> Typed:
    node, type_ = value
    assert isinstance(type_, Time)
    clock = time_zones.clock_in if type_.zoned else None
    return _retyped(node, type_, types.TIME, clock), types.TIME


def _retyped(
    node: exp.Expr,
    source: Type,
    target: Time,
    clock: Callable[[str], tuple[str, str]] | None = None,
) -> exp.Expr:
    """Returns a time as one of another type, read or kept at the offset that is in one of them."""
    zoned = source if isinstance(source, Time) and source.zoned else target
    templates = clock(zoned.zone) if clock is not None and zoned.zoned else ("{0}", "{0}")
    overload = constructor(f"$clock {zoned.zone} {templates[0]}", *templates)
    return call(CallSpec(overload, (source,), target), [node])


def _field_of_offset(name: str, value: Typed) -> Typed:
    """Returns the hours or the minutes of a time's offset."""
    node, type_ = value
    if not isinstance(type_, Time) or not type_.zoned:
        raise SeamlineError(TYPE_MISMATCH, f"{type_} has no time zone", hint="")
    offset_text(type_)
    minutes = time_zones.offset_of(type_.zone) or 0
    hours = math.trunc(minutes / 60)
    number = hours if name == "timezone_hour" else minutes - hours * 60
    text = f"(CASE WHEN {{0}} IS NULL THEN NULL ELSE CAST({number} AS BIGINT) END)"
    spec = CallSpec(constructor(f"{name} {number}", text, text), (type_,), types.BIGINT)
    return call(spec, [node]), types.BIGINT
