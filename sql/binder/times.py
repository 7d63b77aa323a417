"""Date and time functions that need more than a row in the function table.

They take a literal unit or time zone, or read fields of an instant in a zone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlglot import exp

from seamline.errors import (
    COLUMN_NOT_FOUND,
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    TYPE_MISMATCH,
    SeamlineError,
)
from seamline.sql import functions, session_zone, time_zones, types
from seamline.sql.binder import clocks
from seamline.sql.binder.binder import Binder
from seamline.sql.binder.conversions import common_type, explicit_cast, implicit_cast
from seamline.sql.binder.literals import whole_number_of
from seamline.sql.binder.moments import now
from seamline.sql.binder.scope import Scope, Typed
from seamline.sql.binder.shapes import is_text
from seamline.sql.binder.time_zones import (
    at_zone,
    back,
    is_elsewhere,
    is_instant,
    local_time,
    with_zone,
    zone_of,
)
from seamline.sql.expressions.calls import CallSpec, call, constructor
from seamline.sql.expressions.casts import in_zones
from seamline.sql.functions.times import CLOCK_UNITS, DATE_UNITS, FIELDS
from seamline.sql.kernels.date_patterns import Zone, of_joda
from seamline.sql.session_zone import SEVERAL_ZONES
from seamline.sql.types import Interval, Time, Timestamp, Type

Bind: TypeAlias = Callable[[str, Sequence[Typed]], Typed]
"""Binds a call of a function in the function table."""

_FORMATS = frozenset({"date_format", "format_datetime"})
_BY_UNIT = frozenset({"$date_trunc", "$date_add", "$date_diff"})
_MOVES = frozenset({"$add", "$subtract"})


def is_of_time(type_: Type) -> bool:
    """Whether arithmetic with the type is that of dates, times and intervals."""
    return type_ == types.DATE or isinstance(type_, Timestamp | Time | Interval)


# --- Fields in a zone ----------------------------------------------------------------------------


def in_zone(name: str, arguments: Sequence[Typed], bind: Bind) -> Typed | None:
    """Binds a call that reads fields of an instant in its zone; None for any other call."""
    if name == "format" and any(isinstance(type_, Interval) for _, type_ in arguments):
        return bind(name, list(map(_interval_as_text, arguments)))
    of_clocks = clocks.bind(name, arguments, bind)
    if of_clocks is not None:
        return of_clocks
    if name in _FORMATS and arguments and is_instant(arguments[0][1]):
        if name == "format_datetime" and len(arguments) == 2:
            return bind("$format_zoned", [local_time(arguments[0]), *_zone_columns(arguments)])
        return bind(name, [local_time(arguments[0]), *arguments[1:]])
    if name in {"timezone_hour", "timezone_minute"}:
        arguments = [_instant(argument) for argument in arguments]
    zoned = [index for index, (_, type_) in enumerate(arguments) if is_elsewhere(type_)]
    if not zoned:
        return None
    if name in FIELDS:
        return bind(name, [local_time(argument) for argument in arguments])
    if name in {"timezone_hour", "timezone_minute"}:
        return _zone_field(name, arguments[0])
    if name == "to_iso8601":
        text = bind(name, [local_time(arguments[0])])
        offset = bind("$format_zoned", [local_time(arguments[0]), *_zone_columns(arguments, "ZZ")])
        return bind("concat", [text, offset])
    prefix, _, unit = name.rpartition("_")
    instant = arguments[zoned[0]]
    is_by_months = name in _MOVES and types.INTERVAL_YEAR in (type_ for _, type_ in arguments)
    if not is_by_months and prefix not in _BY_UNIT:
        return None
    if unit in CLOCK_UNITS and prefix != "$date_trunc":
        return None
    moved = [local_time(argument) for argument in arguments]
    result = bind(name, moved)
    if prefix == "$date_diff":
        return result
    return _cut(instant, moved[0], result) if unit in CLOCK_UNITS else back(result, instant)


def _interval_as_text(value: Typed) -> Typed:
    """Returns an interval as text; anything else as is."""
    if not isinstance(value[1], Interval):
        return value
    return explicit_cast(*value, types.VARCHAR, safe=False), types.VARCHAR


def _instant(value: Typed) -> Typed:
    """Returns a local time or a date as an instant in the session's zone; anything else as is."""
    is_local = isinstance(value[1], Timestamp) and not value[1].zoned
    if not is_local and value[1] != types.DATE:
        return value
    target = in_zones(value[1], types.TIMESTAMP_TZ)
    return implicit_cast(*value, target), target


def _cut(instant: Typed, local: Typed, cut: Typed) -> Typed:
    """Moves an instant back by as much as its local time was truncated; its offset stays."""
    overload = constructor(
        "$cut",
        "({0} - ({1} - {2}))",
        "timestamp_micros(unix_micros({0}) - unix_micros(CAST({1} AS TIMESTAMP))"
        " + unix_micros(CAST({2} AS TIMESTAMP)))",
    )
    arguments = (instant, local, cut)
    spec = CallSpec(overload, tuple(type_ for _, type_ in arguments), instant[1])
    return call(spec, [node for node, _ in arguments]), instant[1]


def _offset_seconds(value: Typed) -> Typed:
    """Returns how many seconds the local time of an instant is ahead of UTC."""
    local = local_time(value)
    overload = constructor(
        "$offset",
        "((epoch_us({0}) - epoch_us({1})) // 1000000)",
        "((unix_micros(CAST({0} AS TIMESTAMP)) - unix_micros({1})) div 1000000)",
    )
    return call(
        CallSpec(overload, (local[1], value[1]), types.BIGINT), [local[0], value[0]]
    ), types.BIGINT


def _zone_field(name: str, value: Typed) -> Typed:
    part = "3600" if name == "timezone_hour" else "60"
    rest = "" if name == "timezone_hour" else " % 60"
    overload = constructor(name, f"({{0}} // {part}{rest})", f"({{0}} div {part}{rest})")
    seconds = _offset_seconds(value)
    return call(CallSpec(overload, (types.BIGINT,), types.BIGINT), [seconds[0]]), types.BIGINT


def _zone_columns(arguments: Sequence[Typed], pattern: str | None = None) -> list[Typed]:
    """Returns the pattern, offset in minutes and zone, as `$format_zoned` takes them."""
    type_ = arguments[0][1]
    assert isinstance(type_, Timestamp)
    seconds = _offset_seconds(arguments[0])
    overload = constructor("$minutes", "({0} // 60)", "({0} div 60)")
    minutes = call(CallSpec(overload, (types.BIGINT,), types.BIGINT), [seconds[0]])
    text = arguments[1] if pattern is None else (exp.Literal.string(pattern), types.VARCHAR)
    return [text, (minutes, types.BIGINT), (exp.Literal.string(type_.zone), types.VARCHAR)]


# --- Units ---------------------------------------------------------------------------------------


def bind_by_unit(binder: Binder, name: str, node: exp.Anonymous, scope: Scope, bind: Bind) -> Typed:
    """Binds date_trunc, date_add and date_diff."""
    unit = node.expressions[0].unnest() if node.expressions else None
    arguments = [binder.expression(argument, scope) for argument in node.expressions[1:]]
    if name == "date_diff" and len(arguments) == 2:
        arguments = _alike(arguments)
    is_of_day = any(type_ == types.DATE for _, type_ in arguments[-1:])
    if unit is None or not is_text(unit):
        units = DATE_UNITS if is_of_day else (*CLOCK_UNITS, *DATE_UNITS)

        def of_unit(text: str) -> Typed:
            bound = bind(f"${name}_{text}", arguments)
            return _rounded(bound) if (name, text) == ("date_add", "millisecond") else bound

        return _by_any_unit(binder, name, node, scope, units, of_unit)
    full_name = f"${name}_{unit.name.lower()}"
    if full_name not in functions.FUNCTIONS:
        raise SeamlineError(INVALID_ARGUMENT, f"{name} has no unit {unit.name!r}", hint=_UNITS)
    if is_of_day and unit.name.lower() in CLOCK_UNITS:
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"{unit.name!r} is not a unit of dates",
            hint="CAST(x AS timestamp) makes a date a moment.",
        )
    bound = bind(full_name, arguments)
    return _rounded(bound) if full_name == "$date_add_millisecond" else bound


def _rounded(value: Typed) -> Typed:
    """Returns a time to which milliseconds were added, rounded to the digits of its type."""
    node, type_ = value
    if not isinstance(type_, Timestamp | Time) or type_.precision >= _MILLISECOND:
        return value
    exact = dataclasses.replace(type_, precision=_MILLISECOND)
    return explicit_cast(node, exact, type_, safe=False), type_


_MILLISECOND = 3
"""Digits of a second that milliseconds have."""
_UNITS = "Units are millisecond, second, minute, hour, day, week, month, quarter and year."


def _by_any_unit(
    binder: Binder,
    name: str,
    node: exp.Anonymous,
    scope: Scope,
    units: Sequence[str],
    of_unit: Callable[[str], Typed],
) -> Typed:
    """Binds a call with a computed unit as a CASE with a branch for each unit."""
    if not node.expressions:
        raise SeamlineError(TYPE_MISMATCH, f"{name} needs a unit", hint=_UNITS)
    try:
        value, type_ = binder.expression(node.expressions[0], scope)
    except SeamlineError as error:
        word = node.expressions[0].unnest().name.lower()
        if error.code is COLUMN_NOT_FOUND and word in (*CLOCK_UNITS, *DATE_UNITS):
            error.hint = f"Write the unit as a text: {name}('{word}', …)."
        raise
    value = implicit_cast(value, type_, types.VARCHAR)
    cases: list[Typed] = []
    for unit in units:
        try:
            cases.append(of_unit(unit))
        except SeamlineError:  # not a unit of dates, or not one of times
            continue
        cases[-1][0].meta["unit"] = unit
    if not cases:
        of_unit("day")
    returns = cases[0][1]
    lower = functions.resolve("lower", [types.VARCHAR])
    spec = CallSpec(lower.overload, lower.parameters, lower.returns)
    failure = constructor(
        "$no_unit",
        f"error('INVALID_ARGUMENT: {name} has no such unit')",
        f"CAST(raise_error('INVALID_ARGUMENT: {name} has no such unit') AS {{type}})",
    )
    ifs = [
        exp.If(
            this=exp.EQ(
                this=call(spec, [value.copy()]), expression=exp.Literal.string(node_.meta["unit"])
            ),
            true=node_,
        )
        for node_, _ in cases
    ]
    is_null = exp.If(this=exp.Is(this=value.copy(), expression=exp.Null()), true=exp.Null())
    return exp.Case(ifs=[is_null, *ifs], default=call(CallSpec(failure, (), returns), [])), returns


def _alike(arguments: Sequence[Typed]) -> list[Typed]:
    """Converts both arguments of date_diff to one type, in the zone of the first."""
    common = common_type([type_ for _, type_ in arguments], "date_diff")
    first = arguments[0][1]
    if isinstance(common, Timestamp) and common.zoned:
        common = dataclasses.replace(common, zone=session_zone.current())
        if isinstance(first, Timestamp) and first.zoned:
            common = dataclasses.replace(common, zone=first.zone)
    return [(implicit_cast(*argument, common), common) for argument in arguments]


# --- Functions of their own ----------------------------------------------------------------------


def _at_timezone(binder: Binder, node: exp.Anonymous, scope: Scope) -> Typed:
    value, zone = _two(node)
    return at_zone(binder.expression(value, scope), zone_of(zone))


def _with_timezone(binder: Binder, node: exp.Anonymous, scope: Scope) -> Typed:
    value, zone = _two(node)
    return with_zone(binder.expression(value, scope), zone_of(zone))


def _two(node: exp.Anonymous) -> Sequence[exp.Expr]:
    if len(node.expressions) != 2:
        raise SeamlineError(
            TYPE_MISMATCH, f"{node.name.lower()} takes a timestamp and a time zone", hint=""
        )
    return node.expressions


def _timezone(binder: Binder, node: exp.Anonymous, scope: Scope) -> Typed:
    if len(node.expressions) != 1:
        raise SeamlineError(TYPE_MISMATCH, "timezone takes one value with time zone", hint="")
    value, type_ = binder.expression(node.expressions[0], scope)
    if not isinstance(type_, Timestamp | Time) or not type_.zoned:
        raise SeamlineError(
            TYPE_MISMATCH, f"timezone takes a value with time zone, not {type_}", hint=""
        )
    zone = type_.zone if isinstance(type_, Timestamp) else clocks.offset_text(type_)
    text = f"(CASE WHEN {{0}} IS NULL THEN NULL ELSE '{zone}' END)"
    spec = CallSpec(constructor("timezone", text, text), (type_,), types.VARCHAR)
    return call(spec, [value]), types.VARCHAR


def _current_timezone(_: Binder, node: exp.Anonymous, __: Scope) -> Typed:
    if node.expressions:
        raise SeamlineError(TYPE_MISMATCH, "current_timezone takes no argument", hint="")
    return exp.Literal.string(session_zone.current()), types.VARCHAR


def _date(binder: Binder, node: exp.Anonymous, scope: Scope) -> Typed:
    if len(node.expressions) != 1:
        raise SeamlineError(TYPE_MISMATCH, "date takes one value", hint="")
    value, type_ = binder.expression(node.expressions[0], scope)
    return explicit_cast(value, type_, types.DATE, safe=False), types.DATE


def _from_unixtime(binder: Binder, node: exp.Anonymous, scope: Scope, bind: Bind) -> Typed:
    first, *rest = node.expressions
    instant = bind("from_unixtime", [binder.expression(first, scope)])
    if len(rest) == 1:
        return at_zone(instant, zone_of(rest[0]))
    numbers = [whole_number_of(binder.expression(part, scope)[0]) for part in rest]
    if len(numbers) != 2 or None in numbers:
        raise SeamlineError(
            NOT_SUPPORTED,
            "from_unixtime takes an offset in literal hours and minutes",
            hint="from_unixtime(x, 2, 30), or from_unixtime(x, 'Europe/Berlin').",
        )
    hours, minutes = (number or 0 for number in numbers)
    return at_zone(instant, time_zones.named(time_zones.of_minutes(hours * 60 + minutes)))


def _in_session_zone(name: str, arguments: list[Typed], bind: Bind) -> Typed:
    """Binds a function that makes instants in the session's zone, which is not UTC."""
    zone = session_zone.current()
    if name not in _PARSING:
        return at_zone(bind(name, arguments), zone)
    pattern_zone = _zone_of_pattern(arguments[1][0]) if len(arguments) == 2 else SEVERAL_ZONES
    result = bind(f"${name}_in", [*arguments, (exp.Literal.string(zone), types.VARCHAR)])
    return at_zone(result, pattern_zone)


def _zone_of_pattern(pattern: exp.Expr) -> str:
    """Returns the zone of instants that a pattern reads."""
    inner = pattern.unnest()
    is_local = is_text(inner) and not any(isinstance(part, Zone) for part in of_joda(inner.name))
    return session_zone.current() if is_local else SEVERAL_ZONES


_PARSING = frozenset({"parse_datetime", "from_iso8601_timestamp", "from_iso8601_timestamp_nanos"})
_MAKING_INSTANTS = _PARSING | {"from_unixtime", "from_unixtime_nanos"}


def _moment(binder: Binder, node: exp.Anonymous, scope: Scope) -> Typed:
    name = node.name.lower()
    digits = 3
    if node.expressions:
        precision = whole_number_of(binder.expression(node.expressions[0], scope)[0])
        if precision is None or len(node.expressions) > 1 or name in {"now", "current_date"}:
            raise SeamlineError(TYPE_MISMATCH, f"{name} takes at most a number of digits", hint="")
        digits = precision
    return now(binder, _MOMENTS[name](), digits)


_MOMENTS: Mapping[str, type[Any]] = {
    "now": exp.CurrentTimestamp,
    "current_timestamp": exp.CurrentTimestamp,
    "current_date": exp.CurrentDate,
    "current_time": exp.CurrentTime,
    "localtime": exp.Localtime,
    "localtimestamp": exp.Localtimestamp,
}
_OWN: Mapping[str, Callable[[Binder, exp.Anonymous, Scope], Typed]] = {
    "at_timezone": _at_timezone,
    "with_timezone": _with_timezone,
    "timezone": _timezone,
    "current_timezone": _current_timezone,
    "date": _date,
    **dict.fromkeys(_MOMENTS, _moment),
}


def bind_function(binder: Binder, node: exp.Anonymous, scope: Scope, bind: Bind) -> Typed | None:
    """Binds a date or time function that is not a plain table row; None for any other."""
    name = node.name.lower()
    if name in {"date_trunc", "date_add", "date_diff"}:
        return bind_by_unit(binder, name, node, scope, bind)
    if name == "from_unixtime" and len(node.expressions) > 1:
        return _from_unixtime(binder, node, scope, bind)
    if name in _MAKING_INSTANTS and session_zone.current() != time_zones.UTC:
        arguments = [binder.expression(argument, scope) for argument in node.expressions]
        return _in_session_zone(name, arguments, bind)
    handler = _OWN.get(name)
    return None if handler is None else handler(binder, node, scope)
