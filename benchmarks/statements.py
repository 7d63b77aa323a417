"""What a short statement costs: processor time and thread switches of the gateway and its children.

Each statement is run over HTTP by our DB-API client, one after the other. The figures are those of
the gateway's processes alone; what the client itself takes is not part of them. `again` repeats one
text, `new` changes a constant each time, so nothing computed for an earlier statement is given.

    python benchmarks/statements.py [--cold 200000] [--hot 20000] [--statements 200] [--rounds 5]
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import statistics
from collections.abc import Callable

from harness import cpu_s, switches, verdict_of, write
from stand import say, stand

import seamline

_NUMBERS = itertools.count(1000)


@dataclasses.dataclass(frozen=True)
class Statement:
    """A kind of statement.

    Attributes:
        name: What it is.
        text: Returns its text, by its number.
        goal_ms: The greatest acceptable milliseconds of processor time; None if none is set.
        produces: Whether a record is produced before each.
    """

    name: str
    text: Callable[[int], str]
    goal_ms: float | None = None
    produces: bool = False


STATEMENTS = (
    Statement("SELECT 1", lambda _: "SELECT 1", 1.5),
    Statement("SELECT n, new", lambda n: f"SELECT {n}", None),
    Statement("SHOW TABLES", lambda _: "SHOW TABLES"),
    Statement("DESCRIBE", lambda _: "DESCRIBE bids"),
    Statement("count(*), again", lambda _: "SELECT count(*) FROM bids", 5.0),
    Statement("count(*), new rows", lambda _: "SELECT count(*) FROM bids", 5.0, produces=True),
    Statement("point read, new", lambda n: f"SELECT price FROM bids WHERE auction = {n % 997}"),
)


@dataclasses.dataclass(frozen=True)
class Cost:
    """Medians over rounds, per statement.

    Attributes:
        cpu_ms: Milliseconds of processor time in each round.
        switches: Voluntary switches between threads in each round.
    """

    cpu_ms: tuple[float, ...]
    switches: tuple[float, ...]


def main() -> None:
    """Runs it."""
    options = argparse.ArgumentParser()
    options.add_argument("--cold", type=int, default=200_000)
    options.add_argument("--hot", type=int, default=20_000)
    options.add_argument("--statements", type=int, default=200)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    with stand() as running, seamline.connect(running.url) as connection:
        running.fill(chosen.cold, chosen.hot)

        def one(statement: Statement) -> None:
            if statement.produces:
                running.producer.produce(1)
                running.producer.flush()
            connection.execute(statement.text(next(_NUMBERS))).fetchall()

        costs = measured(one, running.gateway.processes, chosen.statements, chosen.rounds)
    lines = [
        "| statement | CPU ms, median (least to most) | goal | thread switches |",
        "|---|---|---|---|",
        *itertools.starmap(_line, costs.items()),
    ]
    print("\n".join(lines))
    write(
        "statements",
        {"costs": {one.name: dataclasses.asdict(cost) for one, cost in costs.items()}},
        "\n".join(lines),
    )


def measured(
    run: Callable[[Statement], None], processes: list[int], count: int, rounds: int
) -> dict[Statement, Cost]:
    """Returns what each kind costs, in rounds that have all kinds in turn.

    Args:
        run: Runs a statement.
        processes: The gateway's processes.
        count: How many statements of a kind a round has.
        rounds: How many rounds.
    """
    for one in STATEMENTS:  # and the caches are warm
        for _ in range(count // 4):
            run(one)
    found: dict[Statement, list[tuple[float, float]]] = {one: [] for one in STATEMENTS}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for one in STATEMENTS:
            cpu, switched = cpu_s(processes), switches(processes)
            for _ in range(count):
                run(one)
            spent = cpu_s(processes) - cpu, switches(processes) - switched
            found[one].append((1000 * spent[0] / count, spent[1] / count))
    return {
        one: Cost(tuple(cpu for cpu, _ in each), tuple(switched for _, switched in each))
        for one, each in found.items()
    }


def _line(one: Statement, cost: Cost) -> str:
    cpu = statistics.median(cost.cpu_ms)
    goal = "" if one.goal_ms is None else f"≤ {one.goal_ms:g} {verdict_of(cpu <= one.goal_ms)}"
    return (
        f"| {one.name} | {cpu:.2f} ({min(cost.cpu_ms):.2f} to {max(cost.cpu_ms):.2f}) | {goal} "
        f"| {statistics.median(cost.switches):.1f} |"
    )


if __name__ == "__main__":
    main()
