"""Goal: a table whose tiering fails is tried again and told of, and stops no other.

Method: tables and topics in memory, with a fault plan that raises what other people's code raises
at every call a batch makes; then it is mended, and everything must have been tiered.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import urllib3
from fakes.faulty import FaultyLog, FaultyTierTable
from support.raised import FOREIGN, Raises, kind
from support.story import Story
from support.waiting import wait_until

from seamline.connectors.protocols.cold_tables import TierTable
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.connectors.supervision import Backoff
from seamline.errors import COMMIT_CONFLICT, TABLE_NOT_FOUND, SeamlineError
from seamline.gateway.metrics import new_registry, text_of
from seamline.gateway.names import TableName
from seamline.gateway.tiering import application as application_module
from seamline.gateway.tiering.application import TieringApplication
from seamline.gateway.tiering.metrics import TieringMetrics
from seamline.gateway.tiering.progress import Progress
from seamline.gateway.tiering.server import serve_metrics
from seamline.seam.tiering import Batch, Step

BAD, GOOD = (TableName("lake", "", ("default", name)) for name in ("bad", "good"))
CALLS = ("open", "load", "bounds", "probe", "commit")
SOON = Backoff(first_s=0.001, max_s=0.01)


class MemoryTables:
    """`Tables` of which one has a fault plan."""

    def __init__(self, plan: Raises) -> None:
        self.plan = plan
        self.stories = {BAD: Story(), GOOD: Story()}
        for story in self.stories.values():
            story.produce(0)

    def open(self, name: TableName) -> tuple[TierTable, HotLog]:
        """See `Tables.open`."""
        story = self.stories[name]
        if name is GOOD:
            return story.table, story.log
        self.plan.at("open")
        return FaultyTierTable(story.table, self.plan), FaultyLog(story.log, self.plan)

    def is_tiered(self, name: TableName) -> bool:
        """Whether nothing of its topic waits."""
        story = self.stories[name]
        return story.boundary.next == story.bounds().end


def quietly(progress: Progress, step: Step | SeamlineError, seconds: float) -> None:
    """A report that nobody reads."""


@contextlib.contextmanager
def running(application: TieringApplication) -> Iterator[None]:
    """Runs it in the background until the block ends."""
    thread = threading.Thread(
        target=application.run,
        args=([BAD, GOOD],),
        kwargs={"interval_s": 0.001, "report": quietly},
    )
    thread.start()
    try:
        yield
    finally:
        application.stop()
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.one_in(test=4)
@pytest.mark.parametrize("make", FOREIGN, ids=kind)
@pytest.mark.parametrize("call", CALLS)
def test_a_table_that_fails_comes_back_and_stops_no_other(
    call: str, make: Callable[[], BaseException]
) -> None:
    tables = MemoryTables(Raises(call, make))
    application = TieringApplication(tables, records_max=100, backoff=SOON)
    with running(application):
        wait_until(lambda: tables.plan.raised >= 3, what="three failures")
        wait_until(lambda: tables.is_tiered(GOOD), what="the other table")
        bad = application.progress[BAD.display]
        assert sum(bad.errors.values()) >= 2
        assert bad.last_error is not None
        assert bad.last_success_at is None
        assert application.progress[GOOD.display].errors == {}
        tables.plan.mend()
        wait_until(lambda: bad.last_error is None and tables.is_tiered(BAD), what="the table")
        tables.stories[BAD].produce(1)
        wait_until(lambda: tables.is_tiered(BAD), what="what came later")


@pytest.mark.parametrize("make", FOREIGN, ids=kind)
@pytest.mark.parametrize("call", CALLS)
def test_tiering_once_tells_why_a_table_failed(
    call: str, make: Callable[[], BaseException]
) -> None:
    tables = MemoryTables(Raises(call, make))
    application = TieringApplication(tables, records_max=100, backoff=SOON)
    (failure,) = application.run([BAD, GOOD], interval_s=None, report=quietly)
    assert type(make()).__name__ in failure.message
    assert tables.plan.raised == 1
    assert tables.is_tiered(GOOD)


def test_a_report_that_cannot_be_written_stops_nothing() -> None:
    def broken(progress: Progress, step: Step | SeamlineError, seconds: float) -> None:
        raise BrokenPipeError

    tables = MemoryTables(Raises("never", RuntimeError))
    application = TieringApplication(tables, records_max=1, backoff=SOON)
    assert application.run([BAD, GOOD, GOOD], interval_s=None, report=broken) == []
    assert tables.is_tiered(BAD)
    assert tables.is_tiered(GOOD)


def test_a_batch_that_loses_is_smaller_the_next_time() -> None:
    story = Story()
    for _ in range(8):
        story.produce(0)
    sizes: list[int] = []

    class Contended:
        """A table whose first three batches lose to another commit."""

        def __getattr__(self, what: str) -> Any:
            return getattr(story.table, what)

        def commit_rows(self, batch: Batch) -> None:
            sizes.append(batch.offsets)
            if len(sizes) <= 3:
                raise SeamlineError(COMMIT_CONFLICT, "another was faster")
            story.table.commit_rows(batch)

    class Tables:
        def open(self, name: TableName) -> tuple[Any, HotLog]:
            return Contended(), story.log

    application = TieringApplication(Tables(), records_max=8, backoff=SOON)
    assert application.run([GOOD], interval_s=None, report=quietly) == []
    assert sizes == [8, 4, 2, 1, 7]
    assert story.boundary.next == story.bounds().end


def test_a_batch_that_always_loses_ends_tiering_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application_module, "CONFLICT_PATIENCE_S", 0.05)
    tables = MemoryTables(Raises("commit", lambda: SeamlineError(COMMIT_CONFLICT, "lost")))
    application = TieringApplication(tables, records_max=100, backoff=SOON)
    (failure,) = application.run([BAD, GOOD], interval_s=None, report=quietly)
    assert failure.code is COMMIT_CONFLICT
    assert tables.plan.raised > 1
    assert tables.is_tiered(GOOD)


def test_stopping_before_it_runs_ends_it_at_once() -> None:
    tables = MemoryTables(Raises("never", RuntimeError))
    application = TieringApplication(tables, records_max=100)
    application.stop()
    assert application.run([GOOD], interval_s=3600.0, report=quietly) == []


# --- Health and metrics ------------------------------------------------------------------------


def health(application: TieringApplication, after_s: float) -> tuple[int, Mapping[str, Any]]:
    """Status and body of `/healthz`."""
    server = serve_metrics(application, "127.0.0.1", 0, after_s)
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/healthz"
        answer = urllib3.request("GET", url, retries=False)
        return answer.status, answer.json()
    finally:
        server.shutdown()
        server.server_close()


def test_health_says_no_when_a_table_has_only_failed_for_long() -> None:
    tables = MemoryTables(Raises("commit", RuntimeError))
    application = TieringApplication(tables, records_max=100, backoff=SOON)
    with running(application):
        wait_until(lambda: tables.plan.raised >= 2, what="failures")
        assert health(application, 3600.0)[0] == 200
        status, body = health(application, 0.0)
        wait_until(lambda: application.progress[GOOD.display].last_success_at, what="the other")
        assert tables.is_tiered(GOOD)
        assert status == 503
        assert body["status"] == "failing"
        bad = body["tables"][BAD.display]
        assert bad["is_there"]
        assert not bad["is_well"]
        assert bad["failures_in_a_row"] >= 1
        assert bad["error"] == "INTERNAL_ERROR"
        registry = new_registry()
        registry.register(TieringMetrics(application))
        text = text_of(registry)
        assert f'errors_total{{code="INTERNAL_ERROR",table="{BAD.display}"}}' in text
        assert f'last_success_timestamp_seconds{{table="{GOOD.display}"}}' in text
        assert f'last_success_timestamp_seconds{{table="{BAD.display}"}}' not in text
        tables.plan.mend()
        wait_until(lambda: health(application, 60.0)[1]["tables"][BAD.display]["error"] is None)
        assert health(application, 60.0)[0] == 200


def test_health_says_no_when_a_batch_does_not_end() -> None:
    blocked, entered = threading.Event(), threading.Event()

    class Hanging(MemoryTables):
        def open(self, name: TableName) -> tuple[TierTable, HotLog]:
            if name is BAD:
                entered.set()
                blocked.wait(60)
            return super().open(name)

    tables = Hanging(Raises("never", RuntimeError))
    application = TieringApplication(tables, records_max=100, backoff=SOON)
    with running(application):
        assert entered.wait(60)
        wait_until(lambda: health(application, 0.05)[0] == 503, what="health to say no")
        blocked.set()
        wait_until(lambda: health(application, 60.0)[0] == 200, what="health to say yes")


def test_a_missing_table_is_asked_for_again() -> None:
    tables = MemoryTables(Raises("open", lambda: SeamlineError(TABLE_NOT_FOUND, "not yet")))
    application = TieringApplication(tables, records_max=100, backoff=SOON)
    with running(application):
        wait_until(lambda: tables.plan.raised >= 3, what="three looks")
        assert application.progress[BAD.display].errors["TABLE_NOT_FOUND"] >= 2
        tables.plan.mend()
        wait_until(lambda: tables.is_tiered(BAD), what="the table")
