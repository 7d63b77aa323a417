"""Metrics for Prometheus: a registry for each process, and the metrics of background work.

Other modules register counters, or a collector that computes its metrics on each scrape. Creation
times are left out: they would double the number of series for little information.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from seamline.connectors import supervision

disable_created_metrics()  # type: ignore[no-untyped-call]


def new_registry() -> CollectorRegistry:
    """Returns a registry with the metrics of background work; others can be registered with it."""
    registry = CollectorRegistry()
    registry.register(_Background())
    return registry


def text_of(registry: CollectorRegistry) -> str:
    """Returns all metrics of a registry, in Prometheus' text format."""
    return generate_latest(registry).decode()


class _Background(Collector):
    """Metrics of this process's background work."""

    def collect(self) -> Iterator[Metric]:
        failures = CounterMetricFamily(
            "seamline_background_failures",
            "Failures of background work, by its name and the error's.",
            labels=("name", "code"),
        )
        for labels, count in sorted(supervision.failures().items()):
            failures.add_metric(labels, count)
        yield failures
        quiet = GaugeMetricFamily(
            "seamline_background_quiet_seconds",
            "Seconds since background work of that name last succeeded.",
            labels=("name",),
        )
        for name, seconds in sorted(supervision.quiet_seconds().items()):
            quiet.add_metric((name,), seconds)
        yield quiet
