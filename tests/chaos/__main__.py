"""`python -m chaos --seed 1 --minutes 10`: one run, its table, and `violations: 0` or not.

Exits with 1 when there is a violation, or when the run itself went wrong; then the history is kept.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import shutil
import signal
import sys
import tempfile
import time

from chaos.checker import Verdict, by_kind, check, describe
from chaos.history import Acknowledged, Read, Sent, TransactionEnded, load
from chaos.run import LANES, Run
from chaos.schedule import wanted_uses


def main() -> int:
    """Runs, judges, reports; returns the exit status."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--keep", type=pathlib.Path, help="keep everything in this new folder")
    parser.add_argument("--lane", action="append", default=[], choices=sorted(LANES))
    parser.add_argument("--judge", type=pathlib.Path, help="only judge this history again")
    arguments = parser.parse_args()
    if arguments.judge:
        return _conclude(check(lambda: load(arguments.judge)), [], arguments.judge)
    directory = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="seamline-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    say(f"seed {arguments.seed}, {arguments.minutes:g} minutes")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends what was started, too
    run = Run(arguments.seed, arguments.minutes, directory, say, tuple(arguments.lane))
    started = time.monotonic()
    run.run()
    say(f"judging what happened in {time.monotonic() - started:.0f} s …")
    verdict = check(lambda: load(run.history))
    show_faults(run, arguments.minutes)
    show_operations(run.history)
    status = _conclude(verdict, run.problems, run.history)
    if status == 0 and not arguments.keep:
        shutil.rmtree(directory)
    return status


def say(text: str) -> None:
    """One line, at once."""
    print(time.strftime("%H:%M:%S"), text, flush=True)


def show_faults(run: Run, minutes: float) -> None:
    """How often each kind was used, and why it was not."""
    wanted = wanted_uses(minutes)
    say(f"\n{'fault':<66} used   (at least {wanted} wanted)")
    for fault in run.faults:
        few = "  too few" if run.uses[fault] < wanted else ""
        say(f"{fault:<66} {run.uses[fault]:>4}{few}")
        if run.early[fault]:
            say(f"{'':<8}{run.early[fault]}x before it was at work again")
        for reason, times in run.failures[fault].most_common(3):
            say(f"{'':<8}not injected {times}x: {reason}")
    for process in run.processes:
        for death, times in collections.Counter(process.deaths).items():
            say(f"{death}, {times}x; it was started again")


def show_operations(history: pathlib.Path) -> None:
    """What producers did, and how far the pipeline got."""
    counts: collections.Counter[str] = collections.Counter()
    boundaries = set()
    for event in load(history):
        match event:
            case Sent():
                counts["records sent"] += 1
            case Acknowledged():
                counts["records acknowledged"] += 1
            case TransactionEnded():
                counts[f"transactions: {event.outcome}"] += 1
            case Read(error=""):
                boundaries.add((event.table, tuple(sorted(event.boundary.items()))))
            case _:
                pass
    counts["boundaries that were read at"] = len(boundaries)
    say("")
    for name, count in sorted(counts.items()):
        say(f"{name:<66} {count:>8,}")


def _conclude(verdict: Verdict, problems: list[str], history: pathlib.Path) -> int:
    say(f"{'reads sent':<66} {sum(verdict.reads.values()):>8,}")
    for outcome, count in verdict.reads.most_common():
        say(f"  {'answered, checked' if outcome == 'ok' else outcome:<44} {count:>8,}")
    say(f"{'rows checked':<66} {verdict.checked_rows:>8,}")
    say(f"{'reads repeated by token':<66} {verdict.repeats:>8,}")
    say(f"{'  on the other engine':<66} {verdict.engine_repeats:>8,}")
    for kind, count in sorted(verdict.kinds.items()):
        say(f"  {kind:<64} {count:>8,}")
    kinds = by_kind(verdict.violations)
    say(f"{'engine disagreements':<66} {kinds.get('engine disagreement', 0):>8,}")
    say(f"{'faults of the log itself':<66} {len(verdict.kafka_faults):>8,}")
    if verdict.kafka_faults:
        say(describe(verdict.kafka_faults, 5))
    for problem in problems:
        say(f"problem: {problem}")
    say(f"violations: {len(verdict.violations)}")
    if verdict.violations or problems:
        say(f"{kinds}\n{describe(verdict.violations)}\nhistory: {history}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
