"""Long random histories with faults keep every invariant.

Method: histories are drawn from seeds and run on all cores; a failing one is shrunk and printed
with its seed. Histories that once failed are kept in `failed.jsonl` and run first, one per test. To
run one again: `pytest tests/simulation --seed N`, or
`PYTHONPATH=tests python -m simulation --seed N`.
"""

from __future__ import annotations

import pathlib

import pytest

from simulation import campaign
from simulation.histories import draw, from_json, to_json
from simulation.shrink import Failure, failure, shrink

FIRST = 250
"""Histories of `make test`; the long proofs run the others, up to as many as are asked for."""
FAILED = pathlib.Path(__file__).with_name("failed.jsonl")
SHOWN = 3


@pytest.mark.parametrize("line", FAILED.read_text(encoding="utf-8").splitlines())
def test_history_that_failed_once(line: str) -> None:
    found = failure(from_json(line))
    if found is not None:
        pytest.fail(found.text())


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "first", [0, pytest.param(FIRST, marks=pytest.mark.prove)], ids=("some", "many")
)
def test_histories(
    first: int, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    seed, histories = map(request.config.getoption, ("--seed", "--histories"))
    count = FIRST if first == 0 else histories - FIRST
    assert count > 0, f"--histories {histories}: the first {FIRST} are those of `make test`"
    if seed is not None:
        first, count = seed, 1
    done = campaign.run(first, count)
    with capsys.disabled():
        print(f"\nseeds: {first:,} to {first + count - 1:,}\n{done.text()}")
    failures = [
        f"seed {seed}\n{(shortest := shrink(Failure(draw(seed), message))).text()}\n"
        f"keep it in {FAILED.name}: {to_json(shortest.history)}"
        for seed, message in sorted(done.failures.items())[:SHOWN]
    ]
    assert not failures, "\n\n".join(failures)


def test_a_history_is_the_same_after_a_round_trip() -> None:
    for seed in range(50):
        assert from_json(to_json(draw(seed))) == draw(seed)
