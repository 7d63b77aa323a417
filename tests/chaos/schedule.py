"""What the nemesis does and when: a pure function of the seed.

Faults lie in lanes. Within a lane one follows another, since they attack the same thing; lanes run
beside each other. Every kind of a lane has the same share, in an order that the seed shuffles round
by round, so that each is used often enough in any run.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping, Sequence

USES_IN_TEN_MINUTES = 20
_SPARE = 1.15


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """One fault to inject.

    Attributes:
        at_s: Seconds after the start.
        lane: The lane it is in.
        fault: Its kind.
        seed: Of the choices it makes itself.
    """

    at_s: float
    lane: str
    fault: str
    seed: int


def wanted_uses(minutes: float) -> int:
    """How often each kind is to be used at least in so many minutes."""
    return max(1, math.floor(USES_IN_TEN_MINUTES * minutes / 10))


def schedule(
    seed: int, minutes: float, lanes: Mapping[str, Sequence[str]]
) -> dict[str, list[Decision]]:
    """The decisions of each lane, in order."""
    return {
        lane: _lane(random.Random(f"{seed}/{lane}"), minutes, lane, faults)
        for lane, faults in lanes.items()
    }


def _lane(
    chance: random.Random, minutes: float, lane: str, faults: Sequence[str]
) -> list[Decision]:
    order: list[str] = []
    for _ in range(math.ceil(wanted_uses(minutes) * _SPARE)):
        order += chance.sample(faults, len(faults))
    gap_s = minutes * 60 / len(order)
    return [
        Decision((number + chance.random()) * gap_s, lane, fault, chance.getrandbits(32))
        for number, fault in enumerate(order)
    ]
