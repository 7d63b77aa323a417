"""A failing history made as short and as simple as it can be while it still fails the same way.

Delta debugging over the operations, by halves down to single ones; then gaps, faults and numbers
one by one to nothing. Any part of a history is a history, so every try is a plain run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from simulation.histories import History, Operation
from simulation.oracle import Violation
from simulation.product import REAL, Product
from simulation.simulator import Simulation


@dataclasses.dataclass(frozen=True)
class Failure:
    """A history that breaks a rule, and the rule."""

    history: History
    message: str

    @property
    def rule(self) -> str:
        """What is broken, without the particulars: numbers of invariants and the first words."""
        return " ".join(self.message.split()[:4])

    def text(self) -> str:
        """The counterexample, one operation per line."""
        lines = [f"violated: {self.message}"]
        for operation in self.history:
            extras = f" gaps={operation.gaps}" if operation.gaps else ""
            extras += f" faults={operation.faults}" if operation.faults else ""
            lines.append(f"  {operation.kind} {operation.first} {operation.second}{extras}")
        return "\n".join(lines)


def failure(history: History, product: Product = REAL) -> Failure | None:
    """What is wrong with a history's run, None when nothing is."""
    try:
        Simulation(history, product).run()
    except Violation as violation:
        return Failure(history, str(violation))
    except Exception as error:  # noqa: BLE001 - whatever leaves the product unnamed is a failure
        return Failure(history, f"{type(error).__name__}: {error}")
    return None


def shrink(found: Failure, product: Product = REAL) -> Failure:
    """The same failure in fewer and simpler operations."""
    best = found

    def better(history: History) -> bool:
        nonlocal best
        tried = failure(history, product)
        if tried is None or tried.rule != found.rule:
            return False
        best = tried
        return True

    while _remove_parts(lambda: best.history, better) | _simplify(lambda: best.history, better):
        pass
    return best


def _remove_parts(current: Callable[[], History], better: Callable[[History], bool]) -> bool:
    size = max(1, len(current()) // 2)
    has_improved = False
    while size:
        at = 0
        while at < len(current()):
            history = current()
            if better(history[:at] + history[at + size :]):
                has_improved = True
            else:
                at += size
        size //= 2
    return has_improved


def _simplify(current: Callable[[], History], better: Callable[[History], bool]) -> bool:
    has_improved = False
    for at in range(len(current())):
        for simpler in _simpler(current()[at]):
            history = current()
            if simpler != history[at] and better((*history[:at], simpler, *history[at + 1 :])):
                has_improved = True
                break
    return has_improved


def _simpler(operation: Operation) -> Iterator[Operation]:
    yield operation._replace(gaps=(), faults=())
    if operation.faults:
        yield operation._replace(faults=())
    for at, gap in enumerate(operation.gaps):
        if gap:
            fewer = (*operation.gaps[:at], gap - 1, *operation.gaps[at + 1 :])
            yield operation._replace(gaps=fewer)
    for at, fault in enumerate(operation.faults):
        if fault:
            fewer = (*operation.faults[:at], 0, *operation.faults[at + 1 :])
            yield operation._replace(faults=fewer)
    for number in (0, operation.first // 2):
        if number < operation.first:
            yield operation._replace(first=number)
    for number in (0, operation.second // 2):
        if number < operation.second:
            yield operation._replace(second=number)
