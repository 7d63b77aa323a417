"""Goal: local times that a session's zone makes instants still leave files out, and never rows.

Method: conditions on a date and a timestamp, bound in a zone; what is pushed of them is compared
with the conversion itself, for local times around the constant and around changes of clocks.
"""

from __future__ import annotations

import datetime
import random

import pytest
from sqlglot import exp

from seamline.planners.rules.push_predicates import to_predicate
from seamline.sql import time_zones, types
from seamline.sql.binder.qualify import Relation, qualify
from seamline.sql.parsing import parse
from seamline.sql.predicates import describe
from seamline.sql.types import Field

COLUMNS = (Field("at", types.TIMESTAMP, 1), Field("day", types.DATE, 2))
NOW = datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC)
FIRST = datetime.datetime(2011, 1, 1, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


def pushed(condition: str, zone: str) -> str | None:
    parsed = parse.parse(f"SELECT 1 FROM t WHERE {condition}")
    assert isinstance(parsed, parse.Query)
    bound = qualify(parsed.tree, [Relation(COLUMNS)], now=NOW, zone=zone)
    where = bound.tree.find(exp.Where)
    assert where is not None
    found = to_predicate(where.this, {field.name: field for field in COLUMNS})
    return None if found is None else describe(found)


@pytest.mark.parametrize(
    ("condition", "predicate"),
    [
        ("at >= TIMESTAMP '2024-07-01 10:00 UTC'", "at >= '2024-07-01 12:00:00'"),
        ("TIMESTAMP '2024-07-01 10:00 UTC' > at", "at < '2024-07-01 12:00:00'"),
        ("at > now() - INTERVAL '1' HOUR", "at > '2024-07-01 13:00:00'"),
        ("day = TIMESTAMP '2024-06-30 22:00 UTC'", "day = '2024-07-01'"),
        ("day < TIMESTAMP '2024-07-01 10:00 UTC'", "day <= '2024-07-01'"),
        ("NOT (at >= TIMESTAMP '2024-07-01 10:00 UTC')", "at < '2024-07-01 12:00:00'"),
        ("at >= TIMESTAMP '2024-03-31 10:00 UTC'", None),
        ("at >= TIMESTAMP '2024-10-25 10:00 UTC'", None),
        ("CAST(at AS timestamp(0) with time zone) >= TIMESTAMP '2024-07-01 10:00 UTC'", None),
        ("CAST('2024-07-01' AS timestamp with time zone) < at", "at > '2024-07-01 00:00:00'"),
    ],
)
def test_what_is_pushed(condition: str, predicate: str | None) -> None:
    assert pushed(condition, "Europe/Berlin") == predicate


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("type_", ["timestamp(0)", "timestamp(0) with time zone"])
def test_what_is_rounded_is_not_pushed(zone: str, type_: str) -> None:
    constant = f"TIMESTAMP '2024-07-01 10:00{' UTC' if 'zone' in type_ else ''}'"
    assert pushed(f"CAST(at AS {type_}) = {constant}", zone) is None
    assert pushed(f"CAST(day AS {type_}) = {constant}", zone) is not None


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Pacific/Apia", "Australia/Lord_Howe", "-09:30"]
)
def test_far_from_changes_order_is_kept(zone: str) -> None:
    chosen = random.Random(zone)
    near = 0
    for _ in range(100):
        instant = FIRST + chosen.randint(0, 9000) * HOUR
        there = time_zones.local_far_from_changes(instant, zone)
        if there is None:
            near += 1
            continue
        for hours in (0, 1, -1, *(chosen.randint(-200, 200) for _ in range(20))):
            local = there + hours * HOUR
            found = time_zones.instant_of_value(local, zone)
            assert (found < instant, found == instant) == (local < there, local == there)
    assert near < 50
    assert near > 0 or zone[0] == "-"
