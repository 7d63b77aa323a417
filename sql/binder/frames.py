"""Window frames: the rows around the current one from which a function is computed.

Bounds are literals, or are computed for each row. Those of RANGE are distances in the type of the
window's sort key.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from seamline.errors import (
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    TYPE_MISMATCH,
    ErrorCode,
    SeamlineError,
)
from seamline.sql import coercion, types
from seamline.sql.binder.conversions import implicit_cast
from seamline.sql.binder.grouping import refuse_windows
from seamline.sql.binder.literals import row_count
from seamline.sql.binder.scope import Scope, Typed
from seamline.sql.expressions.calls import (
    COMPUTED_COUNT,
    EMPTY_FRAME,
    Call,
    CallSpec,
    call,
    constructor,
)
from seamline.sql.locations import location_of
from seamline.sql.types import Interval, Timestamp, Type

if TYPE_CHECKING:
    from seamline.sql.binder.binder import Binder

_DAY = 86_400_000


def bind_frame(binder: Binder, frame: exp.Expr, order: exp.Order | None, scope: Scope) -> None:
    """Checks a frame, and converts RANGE distances to the type of the window's sort key.

    Args:
        binder: Binds the bounds.
        frame: The parsed frame.
        order: The window's bound order; its key may be converted.
        scope: The scope of the window.

    Raises:
        SeamlineError: NOT_SUPPORTED, INVALID_ARGUMENT, TYPE_MISMATCH.
    """
    kind = str(frame.args.get("kind") or "").upper()
    bounds = {key: frame.args.get(key) for key in ("start", "end")}
    start, end = bounds["start"], bounds["end"]
    first = _place_of(start, frame.args.get("start_side"))
    last = _place_of(end, frame.args.get("end_side")) if end is not None else 0.0
    is_known = all(bound is None or not is_computed(bound) for bound in bounds.values())
    is_turned = is_known and first > last
    sides = {str(frame.args.get(side) or "").upper() for side in ("start_side", "end_side")}
    if (is_turned and len(sides) > 1) or first == math.inf or last == -math.inf:
        raise SeamlineError(
            INVALID_ARGUMENT, "the window frame ends before it starts", location=location_of(frame)
        )
    if is_turned:
        frame.meta[EMPTY_FRAME] = True
    distances = {key: bound for key, bound in bounds.items() if isinstance(bound, exp.Expr)}
    if kind == "GROUPS" and order is None:
        raise SeamlineError(INVALID_ARGUMENT, "a frame of GROUPS needs ORDER BY", hint="")
    if kind == "RANGE" and distances:
        keys = order.expressions if order is not None else []
        if len(keys) != 1:
            raise SeamlineError(
                INVALID_ARGUMENT, "a frame of RANGE needs one key in ORDER BY", hint=""
            )
        is_mixed = len({_is_of_months(bound) for bound in distances.values()}) > 1
        if is_mixed and keys[0].meta["type"] == types.DATE:
            keys[0].set("this", implicit_cast(keys[0].this, types.DATE, types.TIMESTAMP))
            keys[0].meta["type"] = types.TIMESTAMP
        for key, bound in distances.items():
            frame.set(key, _distance(binder, bound, keys[0], scope, is_mixed=is_mixed))
        if is_mixed and len(sides) == 1:
            _refuse_turned(frame, is_preceding=sides == {"PRECEDING"})
        return
    for key, bound in distances.items():
        frame.set(key, _rows(binder, bound, scope))


def is_computed(bound: Any) -> bool:
    """Whether a bound is neither a word nor a literal."""
    is_literal = isinstance(bound, exp.Literal) and not bound.is_string
    return isinstance(bound, exp.Expr) and not is_literal and not isinstance(bound, exp.Interval)


def _bound(binder: Binder, bound: exp.Expr, scope: Scope) -> Typed:
    """Binds a bound that is computed for each row."""
    if isinstance(bound, exp.Neg) and isinstance(bound.this, exp.Literal):
        raise _wrong(INVALID_ARGUMENT, "a bound of a window frame cannot be negative", bound)
    value, type_ = binder.expression(bound, scope)
    refuse_windows(value, "a window frame")
    if isinstance(type_, Interval):
        raise _wrong(NOT_SUPPORTED, "an interval that bounds a window must be a literal", bound)
    if not types.is_numeric(type_):
        raise _wrong(TYPE_MISMATCH, f"a bound of a window frame cannot be {type_}", bound)
    return value, type_


def _rows(binder: Binder, bound: exp.Expr, scope: Scope) -> exp.Expr:
    """Binds a number of rows or groups."""
    if not is_computed(bound):
        return row_count(bound)
    value, type_ = _bound(binder, bound, scope)
    if type_ not in types.INTEGERS:
        raise _wrong(TYPE_MISMATCH, f"a number of rows must be a whole number, not {type_}", bound)
    return _checked(value, type_, types.BIGINT)


def _checked(value: exp.Expr, type_: Type, target: Type) -> exp.Expr:
    """Returns a bound that is checked for each row."""
    message = "'INVALID_ARGUMENT: a bound of a window frame cannot be negative or null'"
    overload = constructor(
        COMPUTED_COUNT,
        f"(CASE WHEN {{0}} >= 0 THEN {{0}} ELSE error({message}) END)",
        f"(CASE WHEN {{0}} >= 0 THEN {{0}} ELSE raise_error({message}) END)",
    )
    return call(CallSpec(overload, (target,), target), [implicit_cast(value, type_, target)])


def _refuse_turned(frame: exp.Expr, *, is_preceding: bool) -> None:
    """Refuses a frame between days and months on one side that may end before it starts."""
    start, end = (frame.args[key] for key in ("start", "end"))
    nearer, farther = (end, start) if is_preceding else (start, end)
    if _days(nearer, _LONGEST_MONTH) > _days(farther, _SHORTEST_MONTH):
        raise SeamlineError(
            NOT_SUPPORTED,
            "the window frame may end before it starts, as months differ in length",
            hint="Write both bounds in days.",
        )


def _days(bound: Call, month: int) -> float:
    """Returns a bound's length in days, of months of this length."""
    value: int = bound.spec.constant
    return value * month if bound.spec.returns == types.INTERVAL_YEAR else value / _DAY


_SHORTEST_MONTH, _LONGEST_MONTH = 28, 31


def _distance(
    binder: Binder, bound: exp.Expr, key: exp.Ordered, scope: Scope, *, is_mixed: bool
) -> exp.Expr:
    """Converts a RANGE bound to the type of the key, which is widened if the bound is wider.

    Args:
        binder: Binds the bound.
        bound: The parsed bound.
        key: The window's only key.
        scope: The scope of the window.
        is_mixed: Whether one bound is in months, and the other is not.
    """
    type_: Type = key.meta["type"]
    if is_computed(bound):
        value, distance_type = _bound(binder, bound, scope)
    else:
        value, distance_type = binder.expression(bound, scope)
    if isinstance(distance_type, Interval) and (
        type_ == types.DATE or isinstance(type_, Timestamp)
    ):
        assert isinstance(value, Call)
        return _length(value.spec.constant, distance_type, type_, is_mixed=is_mixed)
    common = coercion.common_type(type_, distance_type)
    if not types.is_numeric(distance_type) or common is None or not types.is_numeric(common):
        raise SeamlineError(
            TYPE_MISMATCH,
            f"a window ordered by {type_} has no RANGE of {distance_type}",
            location=location_of(bound),
            hint="",
        )
    key.set("this", implicit_cast(key.this, type_, common))
    key.meta["type"] = common
    return (_checked if is_computed(bound) else implicit_cast)(value, distance_type, common)


def _is_of_months(bound: exp.Expr) -> bool:
    unit = bound.args.get("unit") if isinstance(bound, exp.Interval) else None
    return unit is not None and unit.name.upper().rstrip("S") in {"MONTH", "QUARTER", "YEAR"}


def _length(value: int, interval: Interval, type_: Type, *, is_mixed: bool) -> exp.Expr:
    """Returns an interval in the form that the engines' frames accept.

    Spark wants both bounds in one type, which for months and milliseconds is its calendar interval.
    """
    if interval == types.INTERVAL_YEAR:
        count, unit = value, "MONTH"
    elif type_ == types.DATE:
        if value % _DAY:
            raise SeamlineError(TYPE_MISMATCH, "a RANGE over dates must be in days", hint="")
        count, unit = value // _DAY, "DAY"
    else:
        count, unit = value, "MILLISECOND"
    if count < 0:
        raise SeamlineError(
            INVALID_ARGUMENT, "a bound of a window frame cannot be negative", hint=""
        )
    duckdb = spark = f"INTERVAL '{count}' {unit}"
    if unit == "MILLISECOND":
        spark = f"INTERVAL '{count // 1000}.{count % 1000:03}' SECOND"
    if is_mixed:
        months, millis = (count, 0) if unit == "MONTH" else (0, count)
        text = f"{months} months {millis // 1000}.{millis % 1000:03} seconds"
        spark = f"CAST('{text}' AS INTERVAL)"
    return call(CallSpec(constructor("$length", duckdb, spark), (), interval, value), [])


def _place_of(bound: Any, side: Any) -> float:
    """Returns a bound as a row offset from the current row."""
    if isinstance(bound, exp.Literal) and not bound.is_string:
        count = float(bound.name)
    elif isinstance(bound, exp.Expr):
        count = 0.0
    else:
        count = math.inf if str(bound).upper() == "UNBOUNDED" else 0.0
    return -count if str(side or "").upper() == "PRECEDING" else count


def _wrong(code: ErrorCode, message: str, bound: exp.Expr) -> SeamlineError:
    return SeamlineError(code, message, location=location_of(bound), hint="")
