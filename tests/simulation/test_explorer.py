"""Every interleaving of a few operations keeps every invariant.

Method: each scope is explored to its end, on as many cores as there are; the first state that
breaks a rule is the failure, with the shortest way to it.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Sequence

import pytest

from simulation.explorer import Explorer, Report
from simulation.scopes import SCOPES

_LARGEST = (
    "two tierers that fail",
    "two tierers that fail, and newer schemas",
    "a statement and a tierer while producers get newer schemas",
    "a statement beside an open transaction",
    "a statement, three operations of others that move rows or take them away",
)
LARGEST = [number for number, scope in enumerate(SCOPES) if scope.name in _LARGEST]
"""The scopes that take longer than all others together."""


def explore(number: int) -> Report:
    """One scope, in a process of its own."""
    gc.disable()  # values without cycles, all kept to the end
    return Explorer(SCOPES[number]).run()


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "numbers",
    [
        [number for number in range(len(SCOPES)) if number not in LARGEST],
        pytest.param(LARGEST, marks=pytest.mark.soak),
    ],
    ids=("most", "largest"),
)
def test_every_interleaving(numbers: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    check(numbers, capsys)


def check(numbers: Sequence[int], capsys: pytest.CaptureFixture[str]) -> None:
    """Explores scopes; none may break a rule, and each must come to its end."""
    # spawned, not forked: clients of Kafka, loaded with the product, do not survive a fork
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=1) as pool:
        reports = pool.map(explore, numbers, chunksize=1)
    with capsys.disabled():
        print()
        for number, report in zip(numbers, reports, strict=True):
            scope = SCOPES[number]
            answers = ", ".join(f"{n:,} {name}" for name, n in sorted(report.answers.items()))
            print(
                f"  {scope.name}: {report.states:,} states, {report.steps:,} steps, "
                f"depth {report.depth}{f'; statements: {answers}' if answers else ''}"
            )
        states = sum(report.states for report in reports)
        print(f"states visited: {states:,} (depth {max(r.depth for r in reports)})")
    for report in reports:
        assert report.violation is None, report.text()
        assert report.complete
