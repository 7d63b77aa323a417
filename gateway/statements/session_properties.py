"""Session properties: what is set once for a session instead of with every statement.

The gateway keeps no sessions. A client keeps what it has set and sends it along, as Trino's clients
do in headers, so that any gateway can answer any of its statements. A value in the request itself
wins over a property; only the time zone that a client runs in does not.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from seamline.errors import INVALID_SESSION_PROPERTY, SeamlineError
from seamline.gateway.statements import freshness
from seamline.gateway.statements.aggregates import CHOICES, EXACT
from seamline.gateway.statements.statement import StatementRequest
from seamline.planners.plan.route import AUTO, ENGINES
from seamline.sql import time_zones
from seamline.sql.near import did_you_mean
from seamline.sql.parsing.dialects import reader_of


@dataclasses.dataclass(frozen=True, slots=True)
class SessionProperty:
    """One property.

    Attributes:
        name: What SET SESSION calls it.
        field: The request field that it sets.
        type: Its type, as SHOW SESSION shows it.
        default: The value when nothing is set; empty for none.
        description: What it does.
        value: Returns the field's value for a text; raises ValueError or SeamlineError if it has
            none.
    """

    name: str
    field: str
    type: str
    default: str
    description: str
    value: Callable[[str], Any]


def _engine(text: str) -> str:
    if text not in ENGINES:
        raise ValueError(f"it must be one of: {', '.join(ENGINES)}")
    return text


def _aggregates(text: str) -> str:
    if text.lower() not in CHOICES:
        raise ValueError(f"it must be one of: {', '.join(CHOICES)}")
    return text.lower()


def _freshness(text: str) -> str:
    return freshness.parse(text).text


def _dialect(text: str) -> str:
    reader_of(text)
    return text


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError("it must be a number of seconds greater than 0")
    return seconds


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|ms|s|m|h|d)")
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _duration(text: str) -> float:
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError("it must be a duration such as 30s or 5m")
    return _seconds(str(float(match[1]) * _UNITS_S[match[2]]))


def _token(text: str) -> str:
    if not text:
        raise ValueError("it must be a token from an earlier result; RESET SESSION removes it")
    return text


def _tokens(text: str) -> tuple[str, ...]:
    return (_token(text),)


def _switch(text: str) -> bool:
    if text.lower() not in ("on", "off"):
        raise ValueError("it must be one of: on, off")
    return text.lower() == "on"


def _rows(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("it must be a whole number of rows")
    return int(text)


TIME_ZONE = "time_zone_id"
"""SET TIME ZONE sets it, as in Trino."""
RUN_TIME = "query_max_run_time"
"""Trino's JDBC driver sets it for `setQueryTimeout`."""
PROPERTIES = {
    found.name: found
    for found in (
        SessionProperty(
            "after", "after", "varchar", "", "Tokens that results do not fall behind", _tokens
        ),
        SessionProperty(
            "aggregates",
            "aggregates",
            "varchar",
            EXACT,
            "Which aggregates are merged from those of files read before: off, exact, all",
            _aggregates,
        ),
        SessionProperty("dialect", "dialect", "varchar", "trino", "Dialect of queries", _dialect),
        SessionProperty(
            "engine", "engine", "varchar", AUTO, f"Engine of queries: {', '.join(ENGINES)}", _engine
        ),
        SessionProperty(
            "freshness",
            "freshness",
            "varchar",
            freshness.LATEST.text,
            "How fresh results are: latest, bounded '500ms' or cached",
            _freshness,
        ),
        SessionProperty(
            "result_cache",
            "result_cache",
            "varchar",
            "on",
            "Whether an equal result at the same seams is given again: on, off",
            _switch,
        ),
        SessionProperty(
            RUN_TIME,
            "timeout_s",
            "varchar",
            "",
            "The same as timeout, as Trino's drivers set it: 30s, 5m",
            _duration,
        ),
        SessionProperty(
            "row_limit", "row_limit", "bigint", "", "Rows after which results are cut off", _rows
        ),
        SessionProperty(
            TIME_ZONE,
            "time_zone",
            "varchar",
            "",
            "Zone of local times, as SET TIME ZONE sets it; UTC, or the client's",
            time_zones.named,
        ),
        SessionProperty(
            "timeout", "timeout_s", "double", "", "Seconds a statement may take", _seconds
        ),
        SessionProperty(
            "token", "token", "varchar", "", "Token of an earlier result: its rows again", _token
        ),
    )
}
"""Every property by name."""


def property_of(name: str) -> SessionProperty:
    """Returns the property of that name, ignoring case.

    Raises:
        SeamlineError: INVALID_SESSION_PROPERTY.
    """
    property_ = PROPERTIES.get(name.lower())
    if property_ is None:
        raise SeamlineError(
            INVALID_SESSION_PROPERTY,
            f"session property {name} does not exist",
            hint=did_you_mean(name, PROPERTIES),
        )
    return property_


def value_of(name: str, text: str) -> Any:
    """Returns the value that a property's text stands for.

    Raises:
        SeamlineError: INVALID_SESSION_PROPERTY.
    """
    property_ = property_of(name)
    try:
        return property_.value(text)
    except (ValueError, SeamlineError) as error:
        reason = error.hint if isinstance(error, SeamlineError) else str(error)
        raise SeamlineError(
            INVALID_SESSION_PROPERTY,
            f"session property {property_.name} cannot be {text!r}",
            hint=f"{reason[:1].upper()}{reason[1:]}.".replace("..", "."),
        ) from error


def applied(request: StatementRequest) -> StatementRequest:
    """Returns the request with session properties where the request itself sets no value.

    Raises:
        SeamlineError: INVALID_SESSION_PROPERTY.
    """
    values: dict[str, Any] = {}
    if request.time_zone is not None:
        values["time_zone"] = value_of(TIME_ZONE, request.time_zone)
    for name, text in request.properties.items():
        field, value = property_of(name).field, value_of(name, text)
        if name.lower() == TIME_ZONE or getattr(request, field) in (None, ()):
            values[field] = value
    return dataclasses.replace(request, **values) if values else request


def set_by(request: StatementRequest) -> set[str]:
    """Returns the names of the properties that a request sets, in its session or by itself.

    What a client sends by default sets nothing: the engine `auto`, the zone it runs in, and the
    tokens that keep its reads from going back.
    """
    own = {
        p.name
        for p in PROPERTIES.values()
        if p.name not in ("after", RUN_TIME, TIME_ZONE)
        and getattr(request, p.field) not in (None, (), p.default)
    }
    return own | {name.lower() for name in request.properties}


def shown(properties: Mapping[str, str]) -> list[tuple[str, str, str, str, str]]:
    """Returns (name, value, default, type, description) of every property."""
    values = {name.lower(): text for name, text in properties.items()}
    return [
        (p.name, values.get(p.name, p.default), p.default, p.type, p.description)
        for p in PROPERTIES.values()
    ]
