"""The session's time zone and moment, while a statement is bound.

Local times become instants in many places that know nothing but types: in casts, in comparisons, in
arguments of functions. As with a decimal context, the zone they all use is set around them, for
the time of one binding; nothing that is rendered later asks for it. So is the moment at which
the statement was submitted, which says what today is, and which offset a region has.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import datetime
from collections.abc import Iterator

UTC = "UTC"
SEVERAL_ZONES = "several"
"""The zone of values that may be instants of different zones; their fields cannot be read."""


@dataclasses.dataclass(slots=True)
class Session:
    """What a binding may ask about its session.

    Attributes:
        zone: The canonical name of its time zone.
        moment: When the statement was submitted, in UTC.
        is_asked: Whether the moment has been asked for, and so has become part of the query.
    """

    zone: str = UTC
    moment: datetime.datetime = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    is_asked: bool = False


_CURRENT = contextvars.ContextVar("session_zone", default=Session())  # noqa: B039 - never changed


def current() -> str:
    """Returns the canonical name of the session's zone; UTC outside a binding."""
    return _CURRENT.get().zone


def moment() -> datetime.datetime:
    """Returns the moment the statement was submitted, in UTC, for the query to hold."""
    session = _CURRENT.get()
    session.is_asked = True
    return session.moment


def of_text() -> str:
    """Returns the zone of instants read from texts that may name zones of their own."""
    return UTC if current() == UTC else SEVERAL_ZONES


@contextlib.contextmanager
def session_zone(zone: str, moment: datetime.datetime) -> Iterator[Session]:
    """Sets the session's zone and moment for what is bound inside the block."""
    session = Session(zone, moment)
    token = _CURRENT.set(session)
    try:
        yield session
    finally:
        _CURRENT.reset(token)
