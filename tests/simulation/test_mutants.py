"""The checks are checked: each mistake that is put into the product must be noticed.

Method: histories are drawn and run against the mutant until one breaks a rule; it is shrunk, and
must then be a history that the real product survives.
"""

from __future__ import annotations

import pytest

from simulation.histories import draw, from_json
from simulation.mutants import MUTANTS, RARE_MUTANTS
from simulation.product import Product
from simulation.shrink import Failure, failure, shrink
from simulation.test_simulator import FAILED

SEEDS_MAX = 3000
OPERATIONS_MAX = 12


def found(product: Product) -> Failure | None:
    """The first drawn history the product fails."""
    return next((f for seed in range(SEEDS_MAX) if (f := failure(draw(seed), product))), None)


@pytest.mark.prove
def test_every_mutant_is_caught(capsys: pytest.CaptureFixture[str]) -> None:
    caught = {}
    for name, product in MUTANTS.items():
        first = found(product)
        if first is None:
            continue
        caught[name] = shortest = shrink(first, product)
        assert len(shortest.history) <= OPERATIONS_MAX, shortest.text()
        assert failure(shortest.history) is None, f"the real product fails, too: {name}"
    with capsys.disabled():
        print()
        for name, counterexample in caught.items():
            print(f"{name}: {counterexample.text()}")
        print(f"mutants caught: {len(caught)}/{len(MUTANTS)}")
    assert set(caught) == set(MUTANTS)


@pytest.mark.parametrize("name", RARE_MUTANTS)
def test_a_rare_mutant_is_caught_by_what_failed_once(name: str) -> None:
    histories = [from_json(line) for line in FAILED.read_text(encoding="utf-8").splitlines()]
    assert any(failure(history, RARE_MUTANTS[name]) for history in histories)
