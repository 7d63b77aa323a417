"""Metrics of what a gateway follows, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator

from seamline.gateway.query.metrics import escaped
from seamline.gateway.tail.follower import State
from seamline.gateway.tail.followers import Followers
from seamline.gateway.tail.status import PartitionStatus, status

_PER_TABLE = {
    "rows": lambda p: p.rows,
    "lag_offsets": lambda p: p.lag,
    "segments": lambda p: p.segments,
    "segments_on_disk": lambda p: p.segments_on_disk,
    "memory_bytes": lambda p: p.memory_bytes,
    "disk_bytes": lambda p: p.disk_bytes,
}


def tail_metrics(followers: Followers) -> str:
    """Gauges of the budget and of every follower."""
    return "\n".join(_lines(followers)) + "\n"


def _lines(followers: Followers) -> Iterator[str]:
    usage, budget = followers.usage, followers.budget
    yield from _gauge("seamline_tail_used_memory_bytes", {"": usage.memory_bytes})
    yield from _gauge("seamline_tail_used_disk_bytes", {"": usage.disk_bytes})
    yield from _gauge("seamline_tail_budget_memory_bytes", {"": budget.memory_bytes})
    yield from _gauge("seamline_tail_budget_disk_bytes", {"": budget.disk_bytes})
    partitions: dict[str, list[PartitionStatus]] = {}
    states: dict[str, int] = {}
    for follower in followers.all():
        table = ".".join(follower.table.name)
        partitions[f'table="{escaped(table)}"'] = status(follower)
        for state in State:
            labels = f'table="{escaped(table)}",state="{state.value}"'
            states[labels] = int(follower.state is state)
    for name, of in _PER_TABLE.items():
        values = {labels: sum(map(of, found)) for labels, found in partitions.items()}
        yield from _gauge(f"seamline_tail_{name}", values)
    positions = {
        f'{labels},partition="{p.partition}"': p.position
        for labels, found in partitions.items()
        for p in found
    }
    yield from _gauge("seamline_tail_position", positions)
    yield from _gauge("seamline_tail_state", states)


def _gauge(name: str, values: dict[str, int]) -> Iterator[str]:
    yield f"# TYPE {name} gauge"
    for labels, value in values.items():
        yield f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"
