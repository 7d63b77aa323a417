"""Goal: what waits to be tiered is told as it is now, whatever the last batch did or does.

Method: arbitrary histories of a topic in memory (records with and without a time, transactions that
commit, abort or stay open, trims, batches) are measured and compared with a walk over the log. Then
a batch hangs while records arrive, and its metrics and health are asked for.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.story import NO_DEADLINE, TOPIC, Story
from support.waiting import wait_until

from seamline.connectors.protocols.cold_tables import TierTable
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.gateway.cli.tier import doing
from seamline.gateway.metrics import new_registry, text_of
from seamline.gateway.names import TableName
from seamline.gateway.tiering.application import TieringApplication
from seamline.gateway.tiering.backlog import BacklogOf
from seamline.gateway.tiering.metrics import TieringMetrics
from seamline.gateway.tiering.progress import Progress, WatchedTable
from seamline.seam.tiering import Batch

NAME = TableName("lake", "", ("default", "t"))
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(0, 1), st.sampled_from([None, -1, 5, 50])),
        st.tuples(st.sampled_from(["begin", "commit", "abort"]), st.integers(0, 1), st.none()),
        st.tuples(st.just("trim"), st.integers(0, 1), st.integers(0, 4)),
        st.tuples(st.just("tier"), st.integers(1, 3), st.none()),
        st.tuples(st.just("measure"), st.none(), st.none()),
    ),
    max_size=30,
)


def happen(story: Story, kind: str, where: int, what: Any) -> None:
    """Lets one thing happen to the topic."""
    story.log.clock.advance(10)
    opened = story.open_transactions
    if kind == "produce":
        story.log.produce(TOPIC, where, b"x", timestamp_ms=what)
    elif kind == "begin":
        story.produce(where, opened[0] if opened else story.begin())
    elif kind in ("commit", "abort") and opened:
        story.end(opened[0], commit=kind == "commit")
    elif kind == "trim":
        story.log.delete_records(TOPIC, where, what)


@examples(150)
@given(events=EVENTS)
def test_the_backlog_is_what_a_walk_over_the_log_finds(events: list[tuple[str, Any, Any]]) -> None:
    story = Story(2)
    progress = Progress("t")
    table = WatchedTable(story.table, story.log, progress)
    table.load()
    measured = progress.backlog_of
    assert measured is not None
    boundary = dict(story.boundary.next)
    for kind, where, what in [*events, ("measure", None, None)]:
        if kind == "tier":
            bounds = story.bounds()
            if all(bounds.start[p] <= boundary.get(p, 0) for p in bounds.end):
                story.tier(where)
                table.load()
                boundary = dict(story.boundary.next)
        elif kind == "measure":
            assert_measured(story, measured, boundary)
        else:
            happen(story, kind, where, what)


def assert_measured(story: Story, measured: BacklogOf, boundary: dict[int, int]) -> None:
    """Compares with a walk over the log."""
    found = measured.measure(NO_DEADLINE)
    bounds = story.bounds()
    waiting = {p: end for p, end in bounds.end.items() if end > boundary.get(p, 0)}
    assert found.offsets == sum(end - boundary.get(p, 0) for p, end in waiting.items())
    headroom = [boundary.get(p, 0) - bounds.start[p] for p in waiting]
    assert found.headroom == (min(headroom) if headroom else None)
    times = story.log.times(TOPIC)
    first: dict[int, int] = {}
    for partition, offset, _ in story.log.committed(TOPIC):
        if boundary.get(partition, 0) <= offset < bounds.end[partition]:
            first.setdefault(partition, times[partition, offset])
    known = [time_ms for time_ms in first.values() if time_ms >= 0]
    assert found.oldest_ms == (min(known) if known else None)


class Hanging:
    """`Tables` with one table, whose batch waits until it is let go."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.entered, self.go_on = threading.Event(), threading.Event()
        self.done = 0
        outer = self

        class Table:
            def __getattr__(self, what: str) -> Any:
                return getattr(story.table, what)

            def commit_rows(self, batch: Batch) -> None:
                outer.entered.set()
                assert outer.go_on.wait(60)
                story.table.commit_rows(batch)

        self.table: Any = Table()

    def open(self, name: TableName) -> tuple[TierTable, HotLog]:
        """See `Tables.open`."""
        return self.table, self.story.log

    def tasks(self, name: TableName) -> tuple[int, int]:
        """See `CountsTasks.tasks`."""
        return self.done, 10


def metric(application: TieringApplication, name: str) -> float:
    """A metric of the table."""
    registry = new_registry()
    registry.register(TieringMetrics(application))
    start = f'seamline_tier_{name}{{table="{NAME.display}"}} '
    (line,) = [each for each in text_of(registry).splitlines() if each.startswith(start)]
    return float(line.removeprefix(start))


def test_lag_is_told_as_it_is_while_a_batch_hangs(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(1)
    story.produce(0)
    tables = Hanging(story)
    application = TieringApplication(tables, records_max=100)
    thread = threading.Thread(
        target=application.run,
        args=([NAME],),
        kwargs={"interval_s": None, "report": lambda *_: None},
    )
    thread.start()
    try:
        assert tables.entered.wait(60)
        for _ in range(7):
            story.produce(0)
        application.measure([NAME])
        assert metric(application, "lag_offsets") == 8
        assert metric(application, "retention_headroom_offsets") == 0
        assert metric(application, "oldest_untiered_age_seconds") > 0
        assert metric(application, "step_seconds") > 0
        story.log.delete_records(TOPIC, 0, 3)
        application.measure([NAME])
        assert metric(application, "retention_headroom_offsets") == -3
        still = application.health(0.0)
        assert still[0] is False
        assert still[1]["tables"][NAME.display]["stage"] == "reading, decoding and writing"
        stage = application.progress[NAME.display].stage
        assert stage is not None
        before = stage.moved_at
        tables.done = 5  # it goes on, however long it takes
        application.measure([NAME])
        said, seconds = doing(application)
        assert said == f"{NAME.display}: reading, decoding and writing 1 offsets, 5 of 10 tasks"
        assert seconds > 0
        assert stage.moved_at > before
    finally:
        tables.go_on.set()
        application.stop()
        thread.join(60)
    assert not thread.is_alive()
    application.measure([NAME])
    assert metric(application, "step_seconds") == 0


def test_the_age_of_a_backlog_that_cannot_be_measured_grows() -> None:
    story = Story(1)
    story.produce(0)
    tables = Hanging(story)
    tables.go_on.set()
    application = TieringApplication(tables, records_max=100)
    application.run([NAME], interval_s=None, report=lambda *_: None)
    application.measure([NAME])
    assert metric(application, "lag_offsets") == 0
    assert metric(application, "oldest_untiered_age_seconds") == 0
    first = metric(application, "backlog_age_seconds")
    story.log.delete_topic(TOPIC)
    application.measure([NAME])
    wait_until(lambda: metric(application, "backlog_age_seconds") > first, what="it to grow")
    assert metric(application, "lag_offsets") == 0
