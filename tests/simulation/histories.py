"""Histories: flat lists of operations, drawn from a seed, that mean something in any order.

An operation's numbers are taken modulo what there is when it runs, so any part of a history is a
history again: that is what makes shrinking simple. Statements and tiering carry `gaps`: how many of
the operations after them run at each of their looks at the world, and `faults`: what goes wrong
there. Each history draws which kinds of operations, and which faults, it knows at all.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import NamedTuple

from fakes.faulty import Fault

FAULTS = tuple(Fault)


class Operation(NamedTuple):
    """One thing that happens.

    Attributes:
        kind: What.
        first: A number it may use.
        second: Another one.
        gaps: Operations after this one that run at each of its looks at the world.
        faults: What goes wrong there, by index into `FAULTS`.
    """

    kind: str
    first: int = 0
    second: int = 0
    gaps: tuple[int, ...] = ()
    faults: tuple[int, ...] = ()


History = tuple[Operation, ...]

WEIGHTS = {
    "append": 7,
    "append keyed": 2,
    "transact": 4,
    "commit": 2,
    "abort": 1,
    "tier": 6,
    "read": 5,
    "repeat": 2,
    "changes": 2,
    "read after write": 1,
    "travel": 1,
    "follow": 1,
    "compact": 1,
    "expire": 1,
    "foreign": 1,
    "trim to boundary": 1,
    "compact log": 1,
    "add partition": 1,
    "elect": 1,
    "clock": 1,
    "hand over": 1,
    "take over": 1,
    "copy": 2,
    "copier reads": 1,
    "copier commits": 1,
}
"""Operations that a table survives, and how often they are drawn."""

DESTRUCTIVE = {
    "trim": 1,
    "recreate": 1,
    "roll back": 1,
    "truncate": 1,
    "recreate table": 1,
    "second writer": 1,
}
"""Operations after which some statements must fail."""

SCHEMAS_CHANGE = 0.4
"""In how many histories producers get newer schemas."""

ELECTIONS = 0.08
"""In how many histories leaders change often, and not cleanly."""
ELECTED = {
    "append": 6,
    "transact": 3,
    "commit": 3,
    "abort": 1,
    "tier": 1,
    "read": 8,
    "repeat": 1,
    "changes": 1,
    "read after write": 1,
    "follow": 3,
    "elect": 3,
    "truncate": 2,
}
"""What happens in them: to a table that nobody else fills, whose tail is long."""

STEPS = 12
OPERATIONS_MIN = 12
OPERATIONS_MAX = 34


def draw(seed: int) -> History:
    """The history of a seed."""
    chance = random.Random(seed)
    kinds = [k for k in WEIGHTS if k in {"append", "tier", "read"} or chance.random() < 0.7]
    weights = [WEIGHTS[kind] for kind in kinds]
    if chance.random() < 0.4:
        for kind in chance.sample(sorted(DESTRUCTIVE), 2):
            kinds.append(kind)
            weights.append(DESTRUCTIVE[kind])
        if "trim" in kinds or "recreate" in kinds:
            kinds.append("resume")
            weights.append(2)
    if chance.random() < ELECTIONS:
        kinds, weights = list(ELECTED), list(ELECTED.values())
    gap_rate = chance.choice((0.0, 0.15, 0.3))
    fault_rate = chance.choice((0.0, 0.0, 0.05, 0.15))
    length = chance.randint(OPERATIONS_MIN, OPERATIONS_MAX)
    chosen = chance.choices(kinds, weights, k=length)
    history = [_operation(kind, chance, gap_rate, fault_rate) for kind in chosen]
    if chance.random() < SCHEMAS_CHANGE:
        for _ in range(chance.randint(1, 3)):
            history.insert(chance.randrange(len(history) + 1), Operation("new schema"))
    return tuple(history)


_STEPPED = frozenset(
    {"tier", "resume", "read", "repeat", "changes", "read after write", "travel", "follow"}
)


def _operation(kind: str, chance: random.Random, gap_rate: float, fault_rate: float) -> Operation:
    bits = chance.getrandbits(32)
    first, second = bits & 0xFF, bits >> 8 & 0xFF
    if kind not in _STEPPED:
        return Operation(kind, first, second)
    gaps: tuple[int, ...] = ()
    faults: tuple[int, ...] = ()
    if gap_rate:
        gaps = _trimmed(
            [0 if chance.random() > gap_rate else chance.randint(1, 3) for _ in range(STEPS)]
        )
    if fault_rate:
        faults = _trimmed(
            [0 if chance.random() > fault_rate else chance.randint(1, 4) for _ in range(STEPS)]
        )
    return Operation(kind, first, second, gaps, faults)


def _trimmed(numbers: list[int]) -> tuple[int, ...]:
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def to_json(history: Sequence[Operation]) -> str:
    """One line that `from_json` reads; trailing zeros and empty parts are left out."""
    rows = []
    for operation in history:
        row: list[object] = [list(part) if isinstance(part, tuple) else part for part in operation]
        while row[-1] in ([], 0):
            row.pop()
        rows.append(row)
    return json.dumps(rows, separators=(",", ":"))


def from_json(text: str) -> History:
    """The history that `to_json` wrote."""
    return tuple(_operation_of(*row) for row in json.loads(text))


def _operation_of(
    kind: str,
    first: int = 0,
    second: int = 0,
    gaps: Sequence[int] = (),
    faults: Sequence[int] = (),
) -> Operation:
    return Operation(kind, first, second, tuple(gaps), tuple(faults))
