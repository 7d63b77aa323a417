"""Goal: whatever is done to a table and whenever, what is given out of it can be read by everyone.

Method: random histories of commits of every kind, seconds or hours apart, made by writers whose
clocks differ. After each the table is given out, with a virtual snapshot that is kept as long as
its cut is the table's. Iceberg's own Java parser, PyIceberg's, and the rules of the readers that
resolve by time are asked about every metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadataUtil
from support.examples import examples
from support.iceberg_java import IcebergJava, iceberg_java
from support.metadata_story import EVENTS, MAIN, MetadataStory

from seamline.connectors.iceberg import virtual
from seamline.connectors.iceberg.virtual import Json

pytestmark = pytest.mark.integration  # starts Java

MINUTE_MS = 60_000
EVENT = st.tuples(
    st.sampled_from([*EVENTS, "produce", "produce", "tier"]),
    st.integers(0, 20),
    st.sampled_from([0, 1, 900, 30_000, 61_000, 10 * MINUTE_MS, 600 * MINUTE_MS]),
    st.sampled_from([0, 0, 5, -20_000, 20_000]),
)
"""What happens, a number that it makes of what it likes, how long after what came before, and how
far ahead the clock of whoever did it is."""
STORY = st.lists(EVENT, min_size=1, max_size=12)
QUIET = [("produce", 1, 0, 0)]
"""A tail, and then nothing but what is said of the table."""
STORIES = examples(150, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def java() -> Iterator[IcebergJava]:
    with iceberg_java() as running:
        yield running


def given_out(
    version: int, story: Sequence[tuple[str, int, int, int]]
) -> Iterator[tuple[MetadataStory, Json, int]]:
    """The table after each event, what is given out of it, and the snapshot to be read."""
    table = MetadataStory(version)
    for event, number, pause_ms, skew_ms in story:
        table.now_ms += pause_ms
        table.skew_ms = skew_ms
        EVENTS[event](table, number)
        yield table, *table.given_out()


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("version", [2, 3])
def test_a_quiet_snapshot_stays_loadable_after_every_kind_of_change(
    java: IcebergJava, version: int, event: str
) -> None:
    for _, body, _ in given_out(version, [*QUIET, (event, 0, 10 * MINUTE_MS, 0)]):
        assert java.problem(json.dumps(body)) is None


@STORIES
@given(st.sampled_from([2, 3]), STORY)
@example(2, [*QUIET, ("tag", 0, 10 * MINUTE_MS, 0), ("expire", 0, 10 * MINUTE_MS, 0)])
def test_every_metadata_can_be_loaded(
    java: IcebergJava, version: int, story: list[tuple[str, int, int, int]]
) -> None:
    for _, body, _ in given_out(version, story):
        for text in (json.dumps(body), json.dumps(virtual.only_referenced(body))):
            assert java.problem(text) is None
            TableMetadataUtil.parse_raw(text)


@STORIES
@given(st.sampled_from([2, 3]), STORY)
def test_whoever_resolves_by_time_finds_the_head(
    version: int, story: list[tuple[str, int, int, int]]
) -> None:
    """Whatever a reader's clock shows, and whenever its transaction began within the minute."""
    for table, body, wanted in given_out(version, story):
        assert body["current-snapshot-id"] == wanted
        for behind_ms in (0, 1, 500, virtual.SKEW_MS - 1, virtual.SKEW_MS):
            at_ms = table.now_ms - behind_ms
            assert logged(body, at_ms) == wanted
            assert body["last-updated-ms"] <= at_ms
        times = [entry["timestamp-ms"] for entry in body["snapshot-log"]]
        assert times == sorted(times)
        assert times.count(times[-1]) == 1, "a reader that sorts them must not mix two up"


@STORIES
@given(st.sampled_from([2, 3]), STORY)
def test_the_past_is_what_it_was(version: int, story: list[tuple[str, int, int, int]]) -> None:
    """Up to the moment the head became the head, or a minute before the virtual snapshot."""
    for table, body, wanted in given_out(version, story):
        since_ms = body["snapshot-log"][-1]["timestamp-ms"]
        for entry in table.base["snapshot-log"]:
            at_ms = min(entry["timestamp-ms"], since_ms - 1)
            assert logged(body, at_ms) == logged(table.base, at_ms)
        if wanted != table.head:
            assert since_ms <= virtual.head_since_ms(table.base) + 1


@STORIES
@given(st.sampled_from([2, 3]), STORY)
def test_references_keep_what_they_say(
    version: int, story: list[tuple[str, int, int, int]]
) -> None:
    for table, body, wanted in given_out(version, story):
        assert body["refs"] == {**table.base["refs"], "main": {**MAIN, "snapshot-id": wanted}}


def logged(body: Json, at_ms: int) -> int | None:
    """The snapshot that was the head at a moment, as DuckDB, Java and PyIceberg look it up."""
    known = {s["snapshot-id"] for s in body["snapshots"]}
    before = [e["snapshot-id"] for e in body["snapshot-log"] if e["timestamp-ms"] <= at_ms]
    return next((found for found in reversed(before) if found in known), None)
