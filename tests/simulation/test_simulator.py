"""Long random histories with faults keep every invariant.

Method: histories are drawn from seeds and run on all cores; a failing one is shrunk and printed
with its seed. Histories that once failed are kept in `failed.jsonl` and run first, one a test. To
run one again: `pytest tests/simulation --seed N`, or
`PYTHONPATH=tests python -m simulation --seed N`.
"""

from __future__ import annotations

import os
import pathlib

import pytest

from simulation import campaign
from simulation.histories import draw, from_json, to_json
from simulation.shrink import Failure, failure, shrink

FIRST = 2_500
"""Histories of `make test`; `make prove HISTORIES=n` runs up to n of them."""
ALL = int(os.environ.get("HISTORIES", "100000"))
FAILED = pathlib.Path(__file__).with_name("failed.jsonl")
SHOWN = 3


@pytest.mark.parametrize("line", FAILED.read_text(encoding="utf-8").splitlines())
def test_history_that_failed_once(line: str) -> None:
    found = failure(from_json(line))
    if found is not None:
        pytest.fail(found.text())


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("first", "count"),
    [(0, FIRST), pytest.param(FIRST, max(ALL - FIRST, 1), marks=pytest.mark.prove)],
    ids=("some", "many"),
)
def test_histories(
    first: int, count: int, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = request.config.getoption("--seed")
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
