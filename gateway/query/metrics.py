"""Metrics of a gateway, in Prometheus' text format."""

from __future__ import annotations

import threading
from collections import defaultdict

from seamline.gateway.query.statements import Statement

_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters and histograms of finished statements. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[tuple[str, Labels], float] = defaultdict(float)
        self._buckets: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = defaultdict(float)

    def finished(self, statement: Statement) -> None:
        """Counts a statement that has ended."""
        engine = str(statement.receipt.get("engine", "none"))
        outcome = statement.error.code.name if statement.error else "OK"
        with self._lock:
            self._counters[
                "seamline_statements_total", _labels(engine=engine, outcome=outcome)
            ] += 1
            for tier in ("hot", "cold"):
                rows = statement.receipt.get(f"rows_{tier}", 0)
                self._counters["seamline_rows_read_total", _labels(tier=tier)] += rows
            self._observe(_labels(engine=engine), statement.elapsed_s)

    def text(self) -> str:
        """Everything, as `/metrics` gives it."""
        with self._lock:
            lines = []
            for name in sorted({name for name, _ in self._counters}):
                lines.append(f"# TYPE {name} counter")
                lines += [
                    f"{name}{_text(labels)} {value:g}"
                    for (found, labels), value in sorted(self._counters.items())
                    if found == name
                ]
            lines.append("# TYPE seamline_statement_seconds histogram")
            for labels, buckets in sorted(self._buckets.items()):
                lines += self._histogram(labels, buckets)
        return "\n".join(lines) + "\n"

    def _observe(self, labels: Labels, seconds: float) -> None:
        buckets = self._buckets.setdefault(labels, [0] * (len(_BUCKETS_S) + 1))
        for position, bound in enumerate(_BUCKETS_S):
            buckets[position] += seconds <= bound
        buckets[-1] += 1
        self._sums[labels] += seconds

    def _histogram(self, labels: Labels, buckets: list[int]) -> list[str]:
        name = "seamline_statement_seconds"
        bounds = [f"{bound:g}" for bound in _BUCKETS_S] + ["+Inf"]
        lines = [
            f"{name}_bucket{_text((*labels, ('le', bound)))} {count}"
            for bound, count in zip(bounds, buckets, strict=True)
        ]
        lines.append(f"{name}_sum{_text(labels)} {self._sums[labels]:g}")
        lines.append(f"{name}_count{_text(labels)} {buckets[-1]}")
        return lines


def _labels(**labels: str) -> Labels:
    return tuple(sorted(labels.items()))


def _text(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{escaped(value)}"' for name, value in labels)
    return f"{{{pairs}}}" if labels else ""


def escaped(text: str) -> str:
    """A text as the value of a label."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
