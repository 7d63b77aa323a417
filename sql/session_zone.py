"""The session's time zone, while a statement is bound.

Local times become instants in many places that know nothing but types: in casts, in comparisons, in
arguments of functions. As with a decimal context, the zone they all use is set around them, for
the time of one binding; nothing that is rendered later asks for it.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

UTC = "UTC"
SEVERAL_ZONES = "several"
"""The zone of values that may be instants of different zones; their fields cannot be read."""

_CURRENT = contextvars.ContextVar("session_zone", default=UTC)


def current() -> str:
    """Returns the canonical name of the session's zone; UTC outside of a binding."""
    return _CURRENT.get()


def of_text() -> str:
    """Returns the zone of instants read from texts that may name zones of their own."""
    return UTC if current() == UTC else SEVERAL_ZONES


@contextlib.contextmanager
def session_zone(zone: str) -> Iterator[None]:
    """Sets the session's zone for what is bound inside of the block."""
    token = _CURRENT.set(zone)
    try:
        yield
    finally:
        _CURRENT.reset(token)
