"""Goal: metrics keep their names, labels, types and values, since dashboards are built on them.

Method: known statements, tails and progress, and everything that is then told of them.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from support.tails import TOPIC, MemoryTail, value
from support.waiting import wait_until

from seamline.connectors.protocols.cold_tables import TierTable
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.connectors.supervision import Backoff, Loop
from seamline.errors import INTERNAL_ERROR, TABLE_NOT_FOUND, SeamlineError
from seamline.gateway.access.rights import Principal
from seamline.gateway.metrics import new_registry, text_of
from seamline.gateway.names import TableName
from seamline.gateway.statements.metrics import Metrics
from seamline.gateway.statements.statement import Statement, StatementRequest
from seamline.gateway.tail.metrics import TailMetrics
from seamline.gateway.tiering.application import TieringApplication
from seamline.gateway.tiering.backlog import Backlog
from seamline.gateway.tiering.metrics import TieringMetrics
from seamline.gateway.tiering.progress import Progress

_NAME = 'a "b"\\'
_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, float("inf"))

Told = Mapping[str, tuple[str, Mapping[tuple[str, ...], float]]]
"""By name of a sample: its type, and by the values of its labels, in order of their names, it."""


def told(registry: CollectorRegistry, prefix: str) -> Told:
    """What a registry reports in the metrics whose names begin with this."""
    found: dict[str, tuple[str, dict[tuple[str, ...], float]]] = {}
    for family in text_string_to_metric_families(text_of(registry)):
        if not family.name.startswith(prefix):
            continue
        assert family.documentation.endswith(".")
        if not family.samples:
            found[family.name] = (family.type, {})
        for sample in family.samples:
            values = found.setdefault(sample.name, (family.type, {}))[1]
            key = tuple(text for _, text in sorted(sample.labels.items()))
            assert key not in values
            values[key] = sample.value
    return found


def statement(seconds: float, receipt: dict[str, Any], error: SeamlineError | None) -> Statement:
    """A statement that took so long."""
    found = Statement(StatementRequest("SELECT 1"), Principal("me"), 60.0)
    found.whole_receipt, found.error = receipt, error
    found.submitted_at, found.finished_at = 1000.0, 1000.0 + seconds
    return found


def buckets(engine: str, seconds: Iterable[float]) -> dict[tuple[str, ...], float]:
    """The buckets of statements of an engine that took so long."""
    counts = {bound: sum(s <= bound for s in seconds) for bound in _BOUNDS}
    names = {bound: "+Inf" if bound == float("inf") else str(float(bound)) for bound in _BOUNDS}
    return {(engine, names[bound]): float(count) for bound, count in counts.items()}


def test_statements_are_counted_by_engine_and_outcome() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    assert told(registry, "seamline_")["seamline_statement_seconds"] == ("histogram", {})
    failure = SeamlineError(TABLE_NOT_FOUND, "no such table")
    for ended in (
        statement(0.03125, {"engine": "duckdb", "rows_hot": 5, "rows_cold": 7}, None),
        statement(2.5, {"engine": "duckdb", "rows_hot": 1, "rows_cold": 0}, None),
        statement(400.0, {"engine": "spark", "rows_hot": 0, "rows_cold": 2_000_003}, None),
        statement(0.5, {}, failure),
    ):
        metrics.finished(ended)
    assert told(registry, "seamline_") == {
        "seamline_rows_read_total": ("counter", {("cold",): 2_000_010, ("hot",): 6}),
        "seamline_statements_total": (
            "counter",
            {("duckdb", "OK"): 2, ("none", "TABLE_NOT_FOUND"): 1, ("spark", "OK"): 1},
        ),
        "seamline_statement_seconds_bucket": (
            "histogram",
            buckets("duckdb", [0.03125, 2.5]) | buckets("spark", [400]) | buckets("none", [0.5]),
        ),
        "seamline_statement_seconds_sum": (
            "histogram",
            {("duckdb",): 2.53125, ("none",): 0.5, ("spark",): 400},
        ),
        "seamline_statement_seconds_count": (
            "histogram",
            {("duckdb",): 2, ("none",): 1, ("spark",): 1},
        ),
    }


def test_tails_are_told_of_by_table(scratch: pathlib.Path) -> None:
    tail = MemoryTail(scratch, memory_bytes=1000, disk_bytes=2000)
    assert tail.followers is not None
    registry = CollectorRegistry()
    registry.register(TailMetrics(tail.followers))
    try:
        for number in range(3):
            tail.log.produce(TOPIC, 0, value(number))
        tail.read(tail.request(table=_NAME)).release()
        table = f"lake.default.{_NAME}"
        used = float(tail.followers.usage.memory_bytes)
        states = ("catching up", "full", "trying again", "failed", "stopped")
        assert told(registry, "seamline_tail_") == {
            "seamline_tail_used_memory_bytes": ("gauge", {(): used}),
            "seamline_tail_used_disk_bytes": ("gauge", {(): 0}),
            "seamline_tail_budget_memory_bytes": ("gauge", {(): 1000}),
            "seamline_tail_budget_disk_bytes": ("gauge", {(): 2000}),
            "seamline_tail_rows": ("gauge", {(table,): 3}),
            "seamline_tail_lag_offsets": ("gauge", {(table,): 0}),
            "seamline_tail_segments": ("gauge", {(table,): 1}),
            "seamline_tail_segments_on_disk": ("gauge", {(table,): 0}),
            "seamline_tail_memory_bytes": ("gauge", {(table,): used}),
            "seamline_tail_disk_bytes": ("gauge", {(table,): 0}),
            "seamline_tail_position": ("gauge", {("0", table): 3, ("1", table): 0}),
            "seamline_tail_state": (
                "gauge",
                {("following", table): 1, **{(state, table): 0 for state in states}},
            ),
        }
        assert used > 0
    finally:
        tail.close()


class _NoTables:
    """`Tables` of which none is ever opened."""

    def open(self, name: TableName) -> tuple[TierTable, HotLog]:
        """See `Tables.open`."""
        raise AssertionError(name)


def test_a_tierer_tells_of_the_progress_of_its_tables() -> None:
    application = TieringApplication(_NoTables(), records_max=1)
    registry = new_registry()
    registry.register(TieringMetrics(application))
    moved = Progress(
        _NAME,
        steps=3,
        offsets=30,
        backlog=Backlog(7, None, -2, 0.0),
        last_commit_at=1700000000.25,
        last_success_at=1700000001.5,
    )
    moved.errors.update({"TIERING_GAP": 2, "INTERNAL_ERROR": 1})
    application.progress |= {_NAME: moved, "new": Progress("new")}
    metrics = dict(told(registry, "seamline_tier_"))
    _, ages = metrics.pop("seamline_tier_backlog_age_seconds")
    assert [*ages] == [(_NAME,)]
    assert metrics == {
        "seamline_tier_oldest_untiered_age_seconds": ("gauge", {}),
        "seamline_tier_retention_headroom_offsets": ("gauge", {(_NAME,): -2}),
        "seamline_tier_step_seconds": ("gauge", {(_NAME,): 0, ("new",): 0}),
        "seamline_tier_step_without_progress_seconds": ("gauge", {(_NAME,): 0, ("new",): 0}),
        "seamline_tier_lag_offsets": ("gauge", {(_NAME,): 7}),
        "seamline_tier_offsets_total": ("counter", {(_NAME,): 30, ("new",): 0}),
        "seamline_tier_commits_total": ("counter", {(_NAME,): 3, ("new",): 0}),
        "seamline_tier_last_commit_timestamp_seconds": ("gauge", {(_NAME,): 1700000000.25}),
        "seamline_tier_last_success_timestamp_seconds": ("gauge", {(_NAME,): 1700000001.5}),
        "seamline_tier_errors_total": (
            "counter",
            {("INTERNAL_ERROR", _NAME): 1, ("TIERING_GAP", _NAME): 2},
        ),
    }


def test_background_work_is_told_of_by_its_name() -> None:
    name = "told-of-by-metrics"

    def broken() -> float:
        raise RuntimeError

    loop = Loop(name, broken, backoff=Backoff(3600.0, 3600.0))
    wait_until(lambda: loop.error is not None, what="the failure")
    found = told(new_registry(), "seamline_background_")
    loop.stop()
    kind, failures = found["seamline_background_failures_total"]
    assert (kind, failures[INTERNAL_ERROR.name, name]) == ("counter", 1)
    kind, quiet = found["seamline_background_quiet_seconds"]
    assert kind == "gauge"
    assert 0.0 <= quiet[(name,)] < 3600.0


def test_registries_share_nothing() -> None:
    one, other = new_registry(), new_registry()
    Metrics(one).finished(statement(1.0, {}, None))
    Metrics(other)
    assert told(one, "seamline_statements")
    assert not told(other, "seamline_statements")["seamline_statements"][1]
