"""Goal: a session's time zone means the same on both engines, and what Python's zones say.

Method: for each zone, local times around the changes of its clocks, as texts, dates and timestamps
in one table of values; both engines make instants of them, and read fields of instants. The model
looks for the instants of a local time among all that there may be.
"""

from __future__ import annotations

import datetime
import random
import zoneinfo
from collections.abc import Iterator

import pytest
from support.gateway import Gateway

pytestmark = [pytest.mark.spark, pytest.mark.integration]

DAY = datetime.timedelta(days=1)
UTC = datetime.UTC
ZONES = (
    "Europe/Berlin", "America/New_York", "Europe/London", "Australia/Lord_Howe", "Asia/Kolkata",
    "America/Sao_Paulo", "Pacific/Apia", "Pacific/Auckland", "America/St_Johns", "Europe/Dublin",
    "Atlantic/Azores", "Asia/Tehran", "Africa/Casablanca", "Pacific/Kiritimati", "Asia/Kathmandu",
    "+05:30", "-09:30", "UTC",
)  # fmt: skip
YEARS = range(2008, 2023)
CHANGES_MAX = 6


def zone_of(name: str) -> datetime.tzinfo:
    if name[0] not in "+-":
        return zoneinfo.ZoneInfo(name)
    return datetime.datetime.fromisoformat(f"2024-01-01T00:00:00{name}").tzinfo or UTC


def offset(at: datetime.datetime, zone: datetime.tzinfo) -> datetime.timedelta:
    """How far clocks of the zone are ahead of UTC; the moment is in UTC, without a zone."""
    found = at.replace(tzinfo=UTC).astimezone(zone).utcoffset()
    assert found is not None
    return found


def changes(zone: datetime.tzinfo) -> Iterator[datetime.datetime]:
    """The moments, in UTC, at which clocks of the zone change."""
    at, end = datetime.datetime(YEARS[0], 1, 1), datetime.datetime(YEARS[-1], 1, 1)
    while at < end:
        low, high = at, at + DAY
        if offset(low, zone) != offset(high, zone):
            while high - low > datetime.timedelta(minutes=1):
                middle = low + (high - low) / 2
                middle = middle.replace(second=0, microsecond=0)
                low, high = (
                    (middle, high) if offset(middle, zone) == offset(low, zone) else (low, middle)
                )
            yield high
        at += DAY


def instants(local: datetime.datetime, zone: datetime.tzinfo) -> list[datetime.datetime]:
    """The moments at which clocks show a local time; that from before a change if they never do."""
    before, after = (offset(local + days, zone) for days in (-DAY, DAY))
    found = sorted({local - o for o in (before, after) if offset(local - o, zone) == o})
    return found or [local - before]


def instant_of_value(local: datetime.datetime, zone: datetime.tzinfo) -> datetime.datetime:
    """The second of two moments where clocks then are not behind UTC, as Trino has it."""
    found = instants(local, zone)
    return found[-1] if offset(found[-1], zone) >= datetime.timedelta() else found[0]


def local_times(zone: datetime.tzinfo, chosen: random.Random) -> list[datetime.datetime]:
    found = list(changes(zone))
    times = {datetime.datetime(2020, 2, 29), datetime.datetime(1970, 1, 1, 0, 0, 0, 1)}
    for change in chosen.sample(found, min(CHANGES_MAX, len(found))):
        around = change + offset(change, zone)
        times.add(datetime.datetime.combine(around, datetime.time()))
        for _ in range(6):
            times.add(around + datetime.timedelta(minutes=chosen.randint(-180, 180)))
    return sorted(times)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    "engine",
    ["duckdb", pytest.param("spark", marks=pytest.mark.prove)],
)
def test_local_times_become_instants(gateway: Gateway, zone: str, engine: str) -> None:
    there = zone_of(zone)
    times = local_times(there, random.Random(zone))
    values = ", ".join(f"({n}, TIMESTAMP '{t}', '{t}')" for n, t in enumerate(times))
    found = gateway.rows(
        "SELECT CAST(x AS timestamp(6) with time zone),"
        " CAST(CAST(x AS date) AS timestamp(6) with time zone),"
        " CAST(word AS timestamp(6) with time zone),"
        " x = CAST(x AS timestamp(6) with time zone),"
        " CAST(CAST(x AS timestamp(6) with time zone) AS timestamp(6)),"
        " hour(from_unixtime(to_unixtime(x)))"
        f" FROM (VALUES {values}) AS t(n, x, word) ORDER BY n",
        engine,
        time_zone=zone,
    )
    wrong = []
    for local, row in zip(times, found, strict=True):
        at = instant_of_value(local, there)
        midnight = datetime.datetime.combine(local, datetime.time())
        expected = (
            at.replace(tzinfo=UTC),
            instant_of_value(midnight, there).replace(tzinfo=UTC),
            instants(local, there)[0].replace(tzinfo=UTC),
            True,
            at + offset(at, there),
            (local + offset(local, there)).hour,
        )
        if row != expected:
            wrong.append((local, row, expected))
    assert not wrong
    assert len(times) > 1
