"""Metrics of a tierer: the progress of every table."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from seamline.gateway.tiering.application import TieringApplication

_LABELS = ("table",)


class TieringMetrics(Collector):
    """Reports the progress of tiering on each scrape.

    Args:
        application: The application whose progress is reported.
    """

    def __init__(self, application: TieringApplication) -> None:
        self._application = application

    def collect(self) -> Iterator[Metric]:
        """The progress of each table."""
        lag = GaugeMetricFamily(
            "seamline_tier_lag_offsets", "Offsets that wait to be tiered.", labels=_LABELS
        )
        offsets = CounterMetricFamily(
            "seamline_tier_offsets", "Offsets that have been tiered.", labels=_LABELS
        )
        commits = CounterMetricFamily(
            "seamline_tier_commits", "Commits that tiering has made.", labels=_LABELS
        )
        last_commit = GaugeMetricFamily(
            "seamline_tier_last_commit_timestamp_seconds",
            "When tiering last committed.",
            labels=_LABELS,
        )
        last_success = GaugeMetricFamily(
            "seamline_tier_last_success_timestamp_seconds",
            "When a batch last succeeded, whether or not there was anything to tier.",
            labels=_LABELS,
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
            for gauge, value in (
                (lag, progress.lag),
                (last_commit, progress.last_commit_at),
                (last_success, progress.last_success_at),
            ):
                if value is not None:
                    gauge.add_metric(table, value)
            for code, count in sorted(progress.errors.items()):
                errors.add_metric((progress.table, code), count)
        yield from (lag, offsets, commits, last_commit, last_success, errors)
