"""`python -m siege`: honest clients beside every attack at once, on real parts.

Honest statements are asked alone first, then under attack. Each must be answered, and correctly;
the slowest in a hundred may take three times as long as alone; memory stays within what limits
allow; and when the attackers have gone, nothing of theirs is left. Ends with `siege held`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import pathlib
import shutil
import statistics
import sys
import tempfile
import threading
import time
from typing import Self

import psutil
from support.stack import Stack

import seamline
from seamline.connectors.duckdb.processes import IDLE_MAX
from siege.attacks import ATTACKS, under_attack
from siege.fortress import MEMORY_BYTES, ROWS, Fortress, Target

SLOWER_MAX = 3.0
CLIENTS = 2
_TOLD_EVERY_S = 15.0
_SERVING_BYTES_MAX = 1 << 30
_WORKER_BYTES_MAX = 2 * MEMORY_BYTES + (1 << 30) + (256 << 20)
_SETTLED_S = 90.0
_SHOWN = 5
_CONNECTIONS_MAX = 300
"""For all clients and attackers together; the gateway keeps a thread for each."""

QUERIES = {
    "SELECT count(*) FROM siege": [(ROWS,)],
    "SELECT sum(id), min(text), max(text) FROM siege": [(ROWS * (ROWS - 1) // 2, "t0", "t99")],
    "SELECT text, count(*) FROM siege WHERE text IN ('t3', 't7') GROUP BY text ORDER BY text": [
        ("t3", ROWS // 100),
        ("t7", ROWS // 100),
    ],
    f"SELECT text FROM siege WHERE id = {ROWS - 1}": [(f"t{(ROWS - 1) % 100}",)],
    "SELECT count(*) FROM siege a JOIN siege b ON a.id = b.id + 1 WHERE a.text = 't1'": [
        (ROWS // 100,)
    ],
}


class Honest:
    """Clients who ask what everybody may ask.

    Attributes:
        seconds: How long each answer took.
        failures: What went wrong.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.seconds: list[float] = []
        self.failures: collections.Counter[str] = collections.Counter()

    def ask(self, seconds: float) -> None:
        """Asks for that long."""
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=self._client, args=(end,)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _client(self, end: float) -> None:
        connection = self._target.connect("honest")
        for sql, wanted in itertools.cycle(QUERIES.items()):
            if time.monotonic() > end:
                break
            began = time.monotonic()
            try:
                with connection.cursor() as cursor:
                    cursor.execute(sql, engine="duckdb")
                    found = cursor.fetchall()
                if found != wanted:
                    self.failures[f"wrong answer: {found} to {sql}"] += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it counts
                self.failures[f"{type(error).__name__}: {error}"[:300]] += 1
            self.seconds.append(time.monotonic() - began)
        with contextlib.suppress(seamline.Error):
            connection.close()

    @property
    def slowest(self) -> float:
        """What one in a hundred exceeds, in seconds."""
        return statistics.quantiles(self.seconds, n=100)[-1]


class Watch:
    """Watches memory all the time.

    Attributes:
        serving: The most that the gateway's own processes held, in bytes.
        worker: The most that a process of a statement held, in bytes.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.serving = self.worker = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.5):
            self.serving = max(self.serving, sum(map(_held, self._target.serving())))
            self.worker = max([self.worker, *map(_held, self._target.workers())])


def _held(process: psutil.Process) -> int:
    """Bytes of memory of its own; shared tails are counted by nobody."""
    try:
        memory = process.memory_info()
    except psutil.NoSuchProcess:
        return 0
    return int(memory.rss - memory.shared)


def _state(fortress: Fortress, target: Target) -> dict[str, int]:
    """What would be left behind."""
    processes = target.serving()
    return {
        "threads": sum(process.num_threads() for process in processes),
        "descriptors": sum(process.num_fds() for process in processes),
        "processes of statements": len(target.workers()),
        "files": len(fortress.files()),
    }


def _settled(fortress: Fortress, target: Target, before: dict[str, int]) -> dict[str, int]:
    """What is left behind once it has stopped shrinking."""
    allowed = {
        "threads": before["threads"] + _CONNECTIONS_MAX,
        "descriptors": before["descriptors"] + 64,
        "processes of statements": IDLE_MAX,
        "files": before["files"],
    }
    end = time.monotonic() + _SETTLED_S
    while True:
        left = {
            name: count for name, count in _state(fortress, target).items() if count > allowed[name]
        }
        if not left or time.monotonic() > end:
            return left
        time.sleep(1)


def main() -> int:
    """Runs a siege; returns the exit status."""
    parser = argparse.ArgumentParser(prog="siege", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--attack", action="append", choices=ATTACKS, help="all, unless named")
    asked = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="seamline-siege-"))
    say("starting a broker, Spark for tiering, and a gateway …")
    stack = Stack(directory / "stack")
    try:
        fortress = Fortress(stack, directory)
        fortress.fill()
        with fortress.open() as target:
            problems = _besiege(
                fortress, target, asked.seed, 60 * asked.minutes, asked.attack or list(ATTACKS)
            )
    finally:
        stack.close()
        shutil.rmtree(directory, ignore_errors=True)
    for problem in problems:
        say(f"PROBLEM: {problem}")
    say("siege held" if not problems else "siege lost")
    return 1 if problems else 0


def _besiege(
    fortress: Fortress, target: Target, seed: int, seconds: float, attacks: list[str]
) -> list[str]:
    Honest(target).ask(5)  # until everything is warm
    alone = Honest(target)
    alone.ask(max(15.0, seconds / 10))
    before = _state(fortress, target)
    say(f"alone: {len(alone.seconds)} statements, one in a hundred over {alone.slowest:.3f} s")
    say(f"under attack, seed {seed}: {', '.join(attacks)}")
    honest = Honest(target)
    with Watch(target) as watch, under_attack(target, seed, attacks):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            honest.ask(min(left, _TOLD_EVERY_S))
            say(
                f"{seconds - left:5.0f} s  honest {len(honest.seconds)}, failed "
                f"{honest.failures.total()}, one in a hundred over {honest.slowest:.3f} s; "
                f"gateway {watch.serving >> 20} MiB, largest process {watch.worker >> 20} MiB"
            )
    left_behind = _settled(fortress, target, before)
    ratio = honest.slowest / alone.slowest
    say(f"one in a hundred: {ratio:.2f} times as long as alone, at most {SLOWER_MAX}")
    problems = [f"{count} times {failure}" for failure, count in honest.failures.items()]
    problems += [f"{name} left behind: {count}" for name, count in left_behind.items()]
    if "files" in left_behind:
        problems += [f"left behind: {file}" for file in fortress.files()[:_SHOWN]]
    problems += [f"alone: {failure}" for failure in alone.failures]
    if ratio > SLOWER_MAX:
        problems.append(f"honest statements take {ratio:.2f} times as long")
    if watch.serving > _SERVING_BYTES_MAX:
        problems.append(f"the gateway held {watch.serving:,} bytes")
    if watch.worker > _WORKER_BYTES_MAX:
        problems.append(f"the process of a statement held {watch.worker:,} bytes")
    return problems


def say(line: str) -> None:
    """Reports progress."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
