"""Goal: whatever happens to an upsert table and its topic, a read is the fold of the log up to it.

Method: every sequence of a few events, and long random histories, against a fold of every record
that was written; and mutants, each of which a history must notice.
"""

from __future__ import annotations

import itertools

import pytest

from simulation.upserts import MUTANTS, Event, draw, every, failure

FEW = (
    ("put", 0, 0),
    ("put", 0, 1),
    ("delete", 0, 0),
    ("tier", 4, 0),
    ("read", 0, 1),
    ("repeat", 0, 0),
    ("expire", 0, 0),
    ("compact", 1, 1),
)
KEPT = (
    (("put", 0, 0), ("tier", 4, 0), ("delete", 0, 0), ("compact", 1, 0), ("read", 0, 0)),
    (("put", 0, 0), ("read", 0, 0), ("put", 0, 1), ("compact", 0, 0), ("repeat", 0, 0)),
)
"""Histories that too few of the drawn ones contain."""
HISTORIES = 100


@pytest.mark.parametrize(
    ("events", "length"), [(FEW, 3), pytest.param(FEW[1:], 4, marks=pytest.mark.prove)]
)
def test_every_sequence_of_a_few_events(events: tuple[Event, ...], length: int) -> None:
    wrong = [found for history in every(events, length) if (found := failure(history))]
    assert not wrong, wrong[:3]


def test_random_histories() -> None:
    wrong = {seed: found for seed in range(HISTORIES) if (found := failure(draw(seed)))}
    assert not wrong, list(wrong.items())[:3]


@pytest.mark.prove
def test_many_random_histories() -> None:
    seeds = range(HISTORIES, HISTORIES + 200)
    wrong = {seed: found for seed in seeds if (found := failure(draw(seed, 40)))}
    assert not wrong, list(wrong.items())[:3]


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mistake_is_noticed(name: str) -> None:
    histories = itertools.chain(KEPT, map(draw, range(HISTORIES)))
    assert any(failure(history, MUTANTS[name]) for history in histories)
    assert not any(map(failure, KEPT))
