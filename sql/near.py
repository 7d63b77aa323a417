"""Suggestions of existing names similar to an unknown one, for the hints of errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_ALIKE_MIN = 0.6
_SHOWN_MAX = 3


def did_you_mean(name: str, names: Iterable[str]) -> str | None:
    """Returns a question with the most similar names, nearest first, or None if none is similar."""
    similar = nearest(name, names)
    return f"Did you mean {' or '.join(similar)}?" if similar else None


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Returns the most similar names, nearest first, ignoring case."""
    spelt = {other.lower(): other for other in sorted(names)}
    folded = name.lower()
    close = difflib.get_close_matches(folded, spelt, _SHOWN_MAX, _ALIKE_MIN)
    if not close and len(folded) > 1:
        close = [other for other in spelt if folded in other][:_SHOWN_MAX]
    return [spelt[other] for other in close]
