"""How benchmarks measure: pairs in one run, interleaved, equal results first, with intervals.

A side is a function that does the work and returns its result. Intervals are those of the median's
order statistics, so nothing is assumed about how times are distributed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import platform
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
REPEATS = 9

Side = Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class Timing:
    """Times of one side.

    Attributes:
        wall_s: Seconds of each run.
        cpu_s: Seconds of processor time of each run, of this process and the ones it names.
    """

    wall_s: Sequence[float]
    cpu_s: Sequence[float]

    @property
    def median_s(self) -> float:
        """Median of the wall times."""
        return statistics.median(self.wall_s)

    @property
    def interval_s(self) -> tuple[float, float]:
        """95 % interval of the median, by order statistics."""
        ordered = sorted(self.wall_s)
        n = len(ordered)
        reach = 1.96 * math.sqrt(n) / 2
        low, high = max(0, math.floor(n / 2 - reach)), min(n - 1, math.ceil(n / 2 + reach) - 1)
        return ordered[low], ordered[high]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two sides measured together.

    Attributes:
        name: What was measured.
        ours: Our side.
        theirs: The other.
        goal: The greatest acceptable ratio of ours to theirs.
        notes: Sizes and whatever else belongs to the figure.
        besides_s: Seconds that ours may take besides.
    """

    name: str
    ours: Timing
    theirs: Timing
    goal: float
    notes: dict[str, Any]
    besides_s: float = 0.0

    @property
    def ratio(self) -> float:
        """Ours to theirs."""
        return self.ours.median_s / self.theirs.median_s

    @property
    def met(self) -> bool:
        """Whether ours is within the goal."""
        return self.ours.median_s <= self.goal * self.theirs.median_s + self.besides_s


def compare(
    name: str,
    ours: Side,
    theirs: Side,
    *,
    goal: float,
    besides_s: float = 0.0,
    processes: Sequence[int] = (),
    repeats: int = REPEATS,
    notes: dict[str, Any] | None = None,
    prepare: Callable[[], None] = lambda: None,
) -> Comparison:
    """Measures both sides, after checking that their results are equal.

    Args:
        name: What is measured.
        ours: Our side.
        theirs: The other.
        goal: The greatest acceptable ratio.
        besides_s: Seconds that our side may take besides.
        processes: Other processes whose processor time counts to a side, with all they start.
        repeats: Runs of each side.
        notes: Goes with the figure.
        prepare: Called before each run of either side; not part of it.

    Raises:
        AssertionError: when the results differ.
    """
    prepare()
    first, second = ours(), theirs()
    assert first == second, f"{name}: results differ: {first!r} and {second!r}"
    times: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
    for number in range(repeats):
        sides = [("ours", ours), ("theirs", theirs)]
        for label, side in sides if number % 2 == 0 else reversed(sides):
            prepare()
            times[label].append(timed(side, processes))
    found = {
        label: Timing([wall for wall, _ in pairs], [cpu for _, cpu in pairs])
        for label, pairs in times.items()
    }
    return Comparison(name, found["ours"], found["theirs"], goal, notes or {}, besides_s)


def report(comparisons: Sequence[Comparison], file: str) -> None:
    """Prints a table and writes it, with every single time, to `results/`."""
    lines = [
        "| what | ours | theirs | ratio | goal | CPU ours | CPU theirs |",
        "|---|---|---|---|---|---|---|",
    ]
    for c in comparisons:
        goal = f"{c.goal:g}" + (f" + {1000 * c.besides_s:g} ms" if c.besides_s else "")
        lines.append(
            f"| {c.name} | {_text(c.ours)} | {_text(c.theirs)} | {c.ratio:.2f} "
            f"| ≤ {goal} {verdict_of(c.met)} | {statistics.median(c.ours.cpu_s):.3f} s "
            f"| {statistics.median(c.theirs.cpu_s):.3f} s |"
        )
    print("\n".join(lines))
    body = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "comparisons": [
            {**dataclasses.asdict(c), "ratio": c.ratio, "met": c.met} for c in comparisons
        ],
    }
    write(file, body, "\n".join(lines))


def verdict_of(is_met: bool) -> str:
    """How tables say whether a goal is met."""
    return "met" if is_met else "**missed**"


def write(file: str, body: dict[str, Any], text: str) -> None:
    """Writes figures to `results/FILE.json` and `.md`."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{file}.json").write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    (RESULTS / f"{file}.md").write_text(text + "\n", encoding="utf-8")


def _text(timing: Timing) -> str:
    low, high = timing.interval_s
    return f"{timing.median_s:.3f} s ({low:.3f} to {high:.3f})"


def timed(side: Side, processes: Sequence[int] = ()) -> tuple[float, float]:
    """Seconds that a side takes, by the clock and of processor time.

    Args:
        side: The work.
        processes: Other processes whose processor time counts to it, with all they start.
    """
    cpu, started = _cpu_s(processes), time.perf_counter()
    side()
    return time.perf_counter() - started, _cpu_s(processes) - cpu


def _cpu_s(processes: Sequence[int]) -> float:
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):  # that have been waited for
        used = resource.getrusage(who)
        total += used.ru_utime + used.ru_stime
    return total + cpu_s(processes)


def cpu_s(processes: Sequence[int]) -> float:
    """Seconds of processor time that processes have taken, with all they have started."""
    total, tick = 0.0, os.sysconf("SC_CLK_TCK")
    for process in with_descendants(processes):
        with contextlib.suppress(OSError):  # it has ended: whoever waited for it counts it
            total += sum(map(int, _stat(process)[11:15])) / tick
    return total


def switches(processes: Sequence[int]) -> int:
    """How often threads of processes, with all these have started, have stopped to wait."""
    total = 0
    for process in with_descendants(processes):
        for status in pathlib.Path(f"/proc/{process}/task").glob("*/status"):
            with contextlib.suppress(OSError):  # it has ended
                lines = status.read_text().splitlines()
                waited = (line for line in lines if line.startswith("voluntary_ctxt_switches"))
                total += sum(int(line.split()[1]) for line in waited)
    return total


def with_descendants(processes: Sequence[int]) -> set[int]:
    """Ids of processes, and of all that they have started."""
    parents: dict[int, int] = {}
    for entry in pathlib.Path("/proc").iterdir() if processes else ():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int(_stat(int(entry.name))[1])
    found, new = set(processes), set(processes)
    while new:
        new = {process for process, parent in parents.items() if parent in new} - found
        found |= new
    return found


def _stat(process: int) -> list[str]:
    """What the system reports about a process, from its state on."""
    return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
