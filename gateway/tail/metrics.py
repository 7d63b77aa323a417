"""Metrics of what a gateway follows: the budget, and every follower."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from seamline.gateway.tail.follower import State
from seamline.gateway.tail.followers import Followers
from seamline.gateway.tail.status import PartitionStatus, status

_PER_TABLE: Mapping[str, tuple[str, Callable[[PartitionStatus], int]]] = {
    "rows": ("Decoded rows that are held.", lambda p: p.rows),
    "lag_offsets": ("Offsets that are in the log and not yet held.", lambda p: p.lag),
    "segments": ("Segments that are held.", lambda p: p.segments),
    "segments_on_disk": ("Segments that are held on disk.", lambda p: p.segments_on_disk),
    "memory_bytes": ("Memory that segments take.", lambda p: p.memory_bytes),
    "disk_bytes": ("Disk space that segments take.", lambda p: p.disk_bytes),
}


class TailMetrics(Collector):
    """Computes the metrics of the followers on each scrape."""

    def __init__(self, followers: Followers) -> None:
        self._followers = followers

    def collect(self) -> Iterator[Metric]:
        """Gauges of the budget and of every follower."""
        yield from self._budget()
        by_table = {".".join(f.table.name): (status(f), f.state) for f in self._followers.all()}
        for name, (says, of) in _PER_TABLE.items():
            gauge = GaugeMetricFamily(f"seamline_tail_{name}", says, labels=("table",))
            for table, (partitions, _) in by_table.items():
                gauge.add_metric((table,), sum(map(of, partitions)))
            yield gauge
        position = GaugeMetricFamily(
            "seamline_tail_position",
            "First offset of a partition that has not been read yet.",
            labels=("table", "partition"),
        )
        state = GaugeMetricFamily(
            "seamline_tail_state",
            "1 for the state a follower is in, 0 for the others.",
            labels=("table", "state"),
        )
        for table, (partitions, present) in by_table.items():
            for partition in partitions:
                position.add_metric((table, str(partition.partition)), partition.position)
            for one in State:
                state.add_metric((table, one.value), int(one is present))
        yield position
        yield state

    def _budget(self) -> Iterator[Metric]:
        usage, budget = self._followers.usage, self._followers.budget
        for name, says, number in (
            ("used_memory_bytes", "Memory that all segments take.", usage.memory_bytes),
            ("used_disk_bytes", "Disk space that all segments take.", usage.disk_bytes),
            ("budget_memory_bytes", "Memory that segments may take.", budget.memory_bytes),
            ("budget_disk_bytes", "Disk space that segments may take.", budget.disk_bytes),
        ):
            yield GaugeMetricFamily(f"seamline_tail_{name}", says, number)
