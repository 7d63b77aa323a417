"""Many histories on all cores: seeds in, counts and failing seeds out."""

from __future__ import annotations

import dataclasses
import gc
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator

from simulation.histories import draw
from simulation.oracle import Violation
from simulation.simulator import Simulation

CHUNK = 500


@dataclasses.dataclass
class Campaign:
    """What histories did.

    Attributes:
        histories: How many ran.
        counts: Operations, faults and outcomes by kind.
        failures: What was wrong, by seed.
    """

    histories: int = 0
    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    failures: dict[int, str] = dataclasses.field(default_factory=dict)

    def text(self) -> str:
        """The counts, one group per line."""
        groups: dict[str, list[str]] = {}
        for name, count in sorted(self.counts.items()):
            group, mark, rest = name.partition(": ")
            label = f"{rest} {count:,}" if mark else f"{group} {count:,}"
            groups.setdefault(group if mark else "operations", []).append(label)
        lines = [f"histories: {self.histories:,}"]
        return "\n".join([*lines, *(f"  {g}: {', '.join(parts)}" for g, parts in groups.items())])


def run(first: int, count: int, *, processes: int | None = None) -> Campaign:
    """Runs the histories of `count` seeds from `first` on."""
    campaign = Campaign()
    starts = range(first, first + count, CHUNK)
    chunks = [(start, min(CHUNK, first + count - start)) for start in starts]
    for part in _parts(chunks, processes or len(os.sched_getaffinity(0))):
        campaign.histories += part.histories
        campaign.counts += part.counts
        campaign.failures |= part.failures
    return campaign


def _parts(chunks: list[tuple[int, int]], processes: int) -> Iterator[Campaign]:
    if processes == 1 or len(chunks) == 1:
        yield from map(_run_chunk, chunks)
        return
    # spawned, not forked: clients of Kafka, loaded with the product, do not survive a fork
    with multiprocessing.get_context("spawn").Pool(processes, _settle) as pool:
        yield from pool.imap_unordered(_run_chunk, chunks)


def _settle() -> None:
    """A worker's memory is short-lived values without cycles: it is seldom worth a look."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)


def _run_chunk(chunk: tuple[int, int]) -> Campaign:
    first, count = chunk
    campaign = Campaign(histories=count)
    for seed in range(first, first + count):
        try:
            Simulation(draw(seed), counts=campaign.counts).run()
        except Violation as violation:
            campaign.failures[seed] = str(violation)
        except Exception as error:  # noqa: BLE001 - whatever leaves the product unnamed is a failure
            campaign.failures[seed] = f"{type(error).__name__}: {error}"
    return campaign
