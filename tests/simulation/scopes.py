"""The scopes that are explored, each to its end.

Every operation there is may happen, in any order and at any step of a statement or of tiering, up
to a number of operations together. They start where a table has been tiered once and its log has
continued, with a transaction open or without.
"""

from __future__ import annotations

from fakes.memory import Untimed

from seamline.gateway.tiering.step import tier_once
from simulation.explorer import Scope
from simulation.reading import ALL, FROM_1, ON_1, TIERS
from simulation.world import World

MANY = 9
CHANGES = dict.fromkeys(
    (
        "append",
        "transact",
        "end",
        "tier",
        "compact",
        "expire",
        "rollback",
        "trim",
        "foreign",
        "recreate",
        "partition",
    ),
    MANY,
)
FAULTS = {"lost reply": 1, "lost request": 1, "late request": 1, "crash": 1}


def tiered_once(world: World) -> None:
    """A record of each partition in the table, and one more in the log."""
    world.append(0)
    world.append(1)
    tier_once(world.table, world.log, Untimed(), records_max=100)
    world.note_commits()
    world.append(0)


def with_a_loss(world: World) -> None:
    """The same, and the log has lost a record that is not in the table; it has another one."""
    tiered_once(world)
    world.append(0)
    world.trim(0, 2)


def recreated(world: World) -> None:
    """The same, and the topic was deleted and has begun anew; it has two records."""
    tiered_once(world)
    world.recreate_topic(2)
    world.append(0)
    world.append(0)


def in_a_transaction(world: World) -> None:
    """The same, and a transaction is open in both partitions."""
    tiered_once(world)
    world.append_in_transaction(0)
    world.append_in_transaction(1)


SCOPES = (
    Scope(
        "a statement, two operations of others of any kind",
        {**CHANGES, "read": 1},
        prepare=tiered_once,
        whole_tiering=True,
        changes_max=2,
    ),
    Scope(
        "a statement, three operations of others that move rows or take them away",
        {**dict.fromkeys(("append", "tier", "compact", "expire", "trim"), MANY), "read": 1},
        prepare=tiered_once,
        whole_tiering=True,
        changes_max=3,
    ),
    Scope(
        "a statement about a part of the log, two operations of others that take rows away",
        {**dict.fromkeys(("append", "tier", "trim", "partition"), MANY), "read": 1},
        (ON_1, FROM_1),
        prepare=tiered_once,
        whole_tiering=True,
        changes_max=2,
    ),
    Scope(
        "a statement of a table that goes on after a loss",
        {**dict.fromkeys(("append", "tier", "trim", "rollback", "resume"), MANY), "read": 1},
        prepare=with_a_loss,
        whole_tiering=True,
        changes_max=2,
    ),
    Scope(
        "a statement of a table that goes on with another log",
        {**dict.fromkeys(("append", "tier", "rollback", "recreate", "resume"), MANY), "read": 1},
        prepare=recreated,
        whole_tiering=True,
        changes_max=2,
    ),
    Scope(
        "a tierer while its topic is recreated and the table goes on",
        {**dict.fromkeys(("append", "recreate", "resume", "compact"), MANY), **FAULTS, "tier": 2},
        prepare=tiered_once,
        tierers=2,
        changes_max=4,
    ),
    Scope(
        "a statement beside an open transaction",
        {**CHANGES, "read": 1},
        (ALL, TIERS),
        prepare=in_a_transaction,
        whole_tiering=True,
        changes_max=2,
    ),
    Scope(
        "a statement while the table changes hands",
        {**dict.fromkeys(("append", "tier", "hands", "copy", "second", "expire"), MANY), "read": 1},
        prepare=tiered_once,
        whole_tiering=True,
        changes_max=3,
    ),
    Scope(
        "a tierer while the table changes hands",
        {**dict.fromkeys(("append", "hands", "copy"), MANY), **FAULTS, "tier": 1},
        prepare=tiered_once,
        records_max=2,
        changes_max=6,
    ),
    Scope(
        "a statement and a tierer while producers get newer schemas",
        {**dict.fromkeys(("append", "schema", "compact", "expire"), MANY), "tier": 1, "read": 1},
        prepare=tiered_once,
        records_max=2,
        changes_max=3,
    ),
    Scope(
        "two tierers that fail, and newer schemas",
        {**dict.fromkeys(("append", "schema"), MANY), **FAULTS, "tier": 2},
        prepare=tiered_once,
        tierers=2,
        records_max=2,
        changes_max=6,
    ),
    Scope(
        "two tierers that fail",
        {**CHANGES, **FAULTS, "tier": 2},
        prepare=tiered_once,
        tierers=2,
        records_max=2,
        changes_max=4,
    ),
    Scope(
        "a statement and a tierer, step by step",
        {**CHANGES, "tier": 1, "read": 1},
        prepare=tiered_once,
        changes_max=2,
        is_fine=True,
    ),
)
