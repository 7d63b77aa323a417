"""Instants in time zones: AT TIME ZONE, and functions of the fields of local time.

A zone belongs to a static type. A function that reads fields of an instant is bound over the local
time in its zone. A result that is an instant again is converted back from that local time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlglot import exp

from seamline.errors import NOT_SUPPORTED, TYPE_MISMATCH, SeamlineError
from seamline.sql import session_zone, time_zones, types
from seamline.sql.binder.binder import Binder
from seamline.sql.binder.conversions import implicit_cast
from seamline.sql.binder.scope import Scope, Typed
from seamline.sql.binder.shapes import is_text
from seamline.sql.expressions.calls import CallSpec, call, constructor
from seamline.sql.types import Time, Timestamp, Type


def zone_of(node: exp.Expr) -> str:
    """Returns the zone that an expression of the statement names.

    Raises:
        SeamlineError: NOT_SUPPORTED unless it is a literal; INVALID_ARGUMENT if it is not a zone.
    """
    inner = node.unnest()
    if is_text(inner):
        return time_zones.named(inner.name)
    if isinstance(inner, exp.Anonymous) and inner.name.lower() == "current_timezone":
        return session_zone.current()
    if isinstance(inner, exp.Interval):
        from seamline.sql.binder.intervals import milliseconds_of

        return time_zones.of_minutes(milliseconds_of(inner) // 60_000)
    raise SeamlineError(
        NOT_SUPPORTED, "a time zone must be a literal", hint="x AT TIME ZONE 'Europe/Berlin'."
    )


def bind_at_time_zone(binder: Binder, node: exp.AtTimeZone, scope: Scope) -> Typed:
    """Binds `x AT TIME ZONE 'zone'`: the same instant, with its fields read in the zone."""
    return at_zone(binder.expression(node.this, scope), zone_of(node.args["zone"]))


def at_zone(value: Typed, zone: str) -> Typed:
    """Returns the value as an instant, or as a time, with its fields in a zone.

    Raises:
        SeamlineError: TYPE_MISMATCH for anything but a timestamp or a time.
    """
    node, type_ = value
    if not isinstance(type_, Timestamp | Time):
        raise SeamlineError(
            TYPE_MISMATCH, f"AT TIME ZONE needs a timestamp or a time, not {type_}", hint=""
        )
    instant = dataclasses.replace(type_, zoned=True)
    node = implicit_cast(node, type_, instant)
    if isinstance(type_, Time):
        zone = time_zones.offset_now(zone)
    returns = dataclasses.replace(instant, zone=zone)
    spec = CallSpec(constructor(f"$at_time_zone {zone}", "{0}", "{0}"), (instant,), returns)
    return call(spec, [node]), returns


def with_zone(value: Typed, zone: str) -> Typed:
    """Returns the instant of a timestamp that is a local time in a zone.

    Raises:
        SeamlineError: TYPE_MISMATCH for an instant.
    """
    node, type_ = value
    if type_ == types.DATE:
        node, type_ = implicit_cast(node, type_, types.TIMESTAMP), types.TIMESTAMP
    if not isinstance(type_, Timestamp) or type_.zoned:
        raise SeamlineError(
            TYPE_MISMATCH, f"with_timezone needs a timestamp without zone, not {type_}", hint=""
        )
    returns = Timestamp(type_.precision, zoned=True, zone=zone)
    return _computed("$instant", time_zones.instant_of(zone), [(node, type_)], returns), returns


def is_instant(type_: Type) -> bool:
    """Whether the type is a timestamp with time zone."""
    return isinstance(type_, Timestamp) and type_.zoned


def is_elsewhere(type_: Type) -> bool:
    """Whether the type is an instant whose fields are read in a zone other than UTC."""
    return isinstance(type_, Timestamp) and type_.zoned and type_.zone != time_zones.UTC


def local_time(value: Typed, zone: str | None = None) -> Typed:
    """Returns an instant's local time in its own or a given zone; any other value unchanged."""
    type_ = value[1]
    if not isinstance(type_, Timestamp) or not type_.zoned:
        return value
    zone = zone or type_.zone
    returns = Timestamp(type_.precision, zoned=False)
    return _computed(f"$local {zone}", time_zones.local_time(zone), [value], returns), returns


def back(local: Typed, near: Typed) -> Typed:
    """Returns the instant of a local time that was computed from another instant's local time."""
    returns = near[1]
    assert isinstance(returns, Timestamp)
    templates = time_zones.instant_near(returns.zone)
    return _computed("$instant", templates, [local, near], returns), returns


def _computed(
    name: str, templates: tuple[str, str], arguments: Sequence[Typed], returns: Timestamp
) -> exp.Expr:
    overload = constructor(f"{name} {returns.zone}", *templates)
    spec = CallSpec(overload, tuple(type_ for _, type_ in arguments), returns)
    return call(spec, [node for node, _ in arguments])
