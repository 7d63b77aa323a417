"""A live table given out while its owner changes it, and long after anything arrived.

Goal: whatever is done to a table by whoever, every engine loads what is given out, at once and
after quiet minutes, and sees every record.
Method: each kind of change made by Spark on a table with a tail. The gateway's clock is moved, so
that what it made a change ago was made long ago. Iceberg's own parser is asked about all that was
given out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from support.changes import CHANGES
from support.live import FILES, PLANNED, LiveReaders, watched
from support.references import retention
from support.stack import Stack

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.prove]


class Clock:
    """The time, or another one."""

    def __init__(self) -> None:
        self.behind_s = 0.0

    def __call__(self) -> float:
        return time.time() - self.behind_s


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def readers(
    stack: Stack, clock: Clock, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveReaders]:
    with watched(LiveReaders(stack, tmp_path_factory.mktemp("changes"), clock)) as running:
        yield running


def counts(readers: LiveReaders, name: str) -> set[int]:
    """The number of rows, by everyone who can say it."""
    found = {readers.load(name).scan().count()}
    for catalog in (FILES, PLANNED):
        found.add(readers.sql(f"SELECT count(*) FROM {catalog}.default.{name}")[0][0])
    found.add(readers.gateway.rows(f"SELECT count(*) FROM {name}")[0][0])
    return found


@pytest.mark.one_in(prove=30)
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_given_out_can_be_loaded_after_every_change(
    stack: Stack, readers: LiveReaders, clock: Clock, name: str, change: str, version: int
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint, text varchar", format_version=version)
    for first in (0, 10):
        stack.produce(name, [{"id": i, "text": "t"} for i in range(first, first + 10)])
        stack.tier(name)
    stack.produce(name, [{"id": i, "text": "hot"} for i in range(20, 25)])
    clock.behind_s = 3600.0
    assert counts(readers, name) == {25}
    CHANGES[change](stack, name)
    clock.behind_s = 0.0
    assert counts(readers, name) == {25}
    stack.produce(name, [{"id": 25, "text": "hotter"}])
    assert counts(readers, name) == {26}
    given_out = readers.load(name).metadata.refs["main"]
    own = retention(stack.load(name))["main"]
    kept = (given_out.min_snapshots_to_keep, given_out.max_snapshot_age_ms)
    assert kept == own[:2]
    stack.tier(name)
    assert counts(readers, name) == {26}
