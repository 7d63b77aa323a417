"""What the nemesis does and when: a pure function of the seed.

Faults are in lanes. Within a lane one follows another, since they attack the same thing; lanes run
beside each other. In a round every kind of a lane is used equally often, in an order that the seed
shuffles, and in all rounds together as often as required, with some to spare. A lane may keep to a
part of each round: a lane that ends the processes another one needs leaves it the rest, long enough
for them to be at work again.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping, Sequence

USES_IN_TEN_MINUTES = 2
"""With twice as many, two cores are busy restarting what was killed, and few reads succeed."""
WHOLE = (0.0, 1.0)
ROUND_S = 200.0
_SPARE = 1.5
"""How many more are tried: what a fault attacks is not always there."""


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
    seed: int,
    minutes: float,
    lanes: Mapping[str, Sequence[str]],
    windows: Mapping[str, tuple[float, float]] | None = None,
) -> dict[str, list[Decision]]:
    """The decisions of each lane, in order.

    Args:
        seed: Of all of it.
        minutes: How long it lasts.
        lanes: Kinds by lane.
        windows: The part of each round, from 0 to 1, that a lane keeps to; all of it if left out.
    """
    return {
        lane: _lane(
            random.Random(f"{seed}/{lane}"), minutes, lane, faults, (windows or {}).get(lane, WHOLE)
        )
        for lane, faults in lanes.items()
    }


def _lane(
    chance: random.Random,
    minutes: float,
    lane: str,
    faults: Sequence[str],
    window: tuple[float, float],
) -> list[Decision]:
    rounds = max(1, round(60 * minutes / ROUND_S))
    round_s = 60 * minutes / rounds
    total = math.ceil(wanted_uses(minutes) * _SPARE)
    begin, end = window
    decisions = []
    for number in range(rounds):
        uses = total * (number + 1) // rounds - total * number // rounds
        each = [fault for fault in faults for _ in range(uses)]
        drawn = chance.sample(each, len(each))  # there are none in some rounds of a short run
        gap_s = (end - begin) * round_s / max(1, len(drawn))
        decisions += [
            Decision(
                (number + begin) * round_s + (place + chance.random()) * gap_s,
                lane,
                fault,
                chance.getrandbits(32),
            )
            for place, fault in enumerate(drawn)
        ]
    return decisions
