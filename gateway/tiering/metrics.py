"""Metrics of a tierer: the progress of every table."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from seamline.gateway.tiering.application import TieringApplication
from seamline.gateway.tiering.progress import Progress

_LABELS = ("table",)
_GAUGES = {
    "lag_offsets": "Offsets between the table's boundary and the ends of the log.",
    "oldest_untiered_age_seconds": (
        "Age of the oldest record that waits to be tiered; 0 when none waits."
    ),
    "retention_headroom_offsets": (
        "Offsets that retention may still remove before it removes records that wait, in the "
        "partition where they are fewest; negative when it has. Absent when none waits."
    ),
    "backlog_age_seconds": "How long ago lag, oldest record and headroom were measured.",
    "step_seconds": "How long the current step has been running; 0 between steps.",
    "step_without_progress_seconds": (
        "How long ago the current step last made progress; 0 between steps."
    ),
    "last_commit_timestamp_seconds": "When tiering last committed.",
    "last_success_timestamp_seconds": (
        "When a batch last succeeded, whether or not there was anything to tier."
    ),
}


class TieringMetrics(Collector):
    """Reports the progress of tiering on each scrape."""

    def __init__(self, application: TieringApplication) -> None:
        self._application = application

    def collect(self) -> Iterator[Metric]:
        """The progress of each table."""
        gauges = {
            name: GaugeMetricFamily(f"seamline_tier_{name}", text, labels=_LABELS)
            for name, text in _GAUGES.items()
        }
        offsets = CounterMetricFamily(
            "seamline_tier_offsets", "Offsets that have been tiered.", labels=_LABELS
        )
        commits = CounterMetricFamily(
            "seamline_tier_commits", "Commits that tiering has made.", labels=_LABELS
        )
        errors = CounterMetricFamily(
            "seamline_tier_errors",
            "Batches that failed, by the name of the error.",
            labels=("table", "code"),
        )
        for progress in list(self._application.progress.values()):
            table = (progress.table,)
            offsets.add_metric(table, progress.offsets)
            commits.add_metric(table, progress.steps)
            for name, value in _values(progress).items():
                if value is not None:
                    gauges[name].add_metric(table, value)
            for code, count in sorted(progress.errors.items()):
                errors.add_metric((progress.table, code), count)
        yield from (*gauges.values(), offsets, commits, errors)


def _values(progress: Progress) -> dict[str, float | None]:
    """Returns the values of the gauges; None where there is none yet."""
    backlog = progress.backlog
    waiting: dict[str, float | None] = (
        {}
        if backlog is None
        else {
            "lag_offsets": backlog.offsets,
            "oldest_untiered_age_seconds": backlog.oldest_age_s,
            "retention_headroom_offsets": backlog.headroom,
            "backlog_age_seconds": backlog.age_s,
        }
    )
    return {
        **waiting,
        "step_seconds": progress.step_s,
        "step_without_progress_seconds": progress.still_s,
        "last_commit_timestamp_seconds": progress.last_commit_at,
        "last_success_timestamp_seconds": progress.last_success_at,
    }
