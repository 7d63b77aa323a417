"""Metrics of finished statements."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from seamline.gateway.statements.statement import Statement

_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """Counts statements. Safe to share between threads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._statements = Counter(
            "seamline_statements",
            "Statements that have ended, by engine and outcome.",
            ("engine", "outcome"),
            registry=registry,
        )
        self._rows_read = Counter(
            "seamline_rows_read",
            "Rows that statements have read, by tier.",
            ("tier",),
            registry=registry,
        )
        self._seconds = Histogram(
            "seamline_statement_seconds",
            "How long statements took, from submission to end.",
            ("engine",),
            buckets=_BUCKETS_S,
            registry=registry,
        )

    def finished(self, statement: Statement) -> None:
        """Counts a statement that has ended."""
        engine = str(statement.whole_receipt.get("engine", "none"))
        outcome = statement.error.code.name if statement.error else "OK"
        self._statements.labels(engine, outcome).inc()
        tiers = () if statement.whole_receipt.get("cache_hit") else ("hot", "cold")
        for tier in tiers:
            self._rows_read.labels(tier).inc(statement.whole_receipt.get(f"rows_{tier}", 0))
        self._seconds.labels(engine).observe(statement.elapsed_s)
