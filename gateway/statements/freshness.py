"""How fresh an answer must be, as a statement requests it.

    latest            every record acknowledged before the statement (the default)
    bounded '500ms'   every record acknowledged up to that long before the statement
    cached            whatever the gateway holds, without asking the log

Anything weaker than `latest` matters only for a table that is followed. The receipt says
which moment an answer reflects. Whatever is requested, an answer comes from one exact seam.
"""

from __future__ import annotations

import dataclasses
import re

from seamline.errors import INVALID_REQUEST, SeamlineError

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0}
_BOUNDED = re.compile(r"bounded\s+'?\s*(\d+(?:\.\d+)?)\s*(ms|s|m)\s*'?")


@dataclasses.dataclass(frozen=True, slots=True)
class Freshness:
    """The freshness that a statement requests.

    Attributes:
        text: Its text form.
        asks_log: Whether the log must always be asked for its ends.
        age_s_max: If not, how old the answer may be; None for any age.
    """

    text: str = "latest"
    asks_log: bool = True
    age_s_max: float | None = None


LATEST = Freshness()
CACHED = Freshness("cached", asks_log=False)


def parse(text: str | None) -> Freshness:
    """Returns the freshness that a string stands for; None stands for `latest`.

    Raises:
        SeamlineError: INVALID_REQUEST.
    """
    folded = (text or LATEST.text).strip().lower()
    for word in (LATEST, CACHED):
        if folded == word.text:
            return word
    match = _BOUNDED.fullmatch(folded)
    if match is None:
        raise SeamlineError(
            INVALID_REQUEST,
            f"freshness {text!r} is not known",
            hint="freshness is latest, bounded '500ms' (or s, m), or cached",
        )
    number, unit = match.groups()
    return Freshness(
        f"bounded '{number}{unit}'", asks_log=False, age_s_max=float(number) * _UNITS_S[unit]
    )
