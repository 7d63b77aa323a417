"""Goal: whatever happens to an upsert table and its topic, a read is the fold of the log up to it.

Method: every sequence of a few events, long random histories, and every interleaving of a few
events with the steps of a read or of tiering, against a fold of every record that was written; and
mutants, each of which a history must notice.
"""

from __future__ import annotations

import itertools

import pytest

from simulation.upserts import MUTANTS, Event, Ways, draw, every, failure, interleaved

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
BEGUN = (
    (("put", 0, 0), ("put", 1, 0), ("tier", 4, 0), ("put", 0, 1)),
    (("put", 0, 0), ("put", 1, 0), ("tier", 4, 0), ("delete", 0, 0)),
    (("put", 0, 0), ("put", 0, 1)),
)
"""Where a read or a step of tiering begins."""
OTHERS = (
    ("put", 0, 2),
    ("put", 1, 2),
    ("delete", 0, 0),
    ("tier", 4, 0),
    ("rewrite", 0, 0),
    ("expire", 0, 0),
    ("trim", 0, 0),
    ("compact", 0, 0),
    ("compact", 1, 1),
)
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


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.prove)])
@pytest.mark.parametrize("what", ["read_while", "tier_while"])
@pytest.mark.parametrize("before", BEGUN)
def test_every_interleaving_with_a_read_or_with_tiering(
    before: tuple[Event, ...], what: str, count: int
) -> None:
    wrong = list(interleaved(before, what, OTHERS, count))
    assert not wrong, wrong[:3]


def test_interleavings_notice_compaction_that_does_not_wait() -> None:
    events = (("put", 0, 2), ("compact", 0, 0))
    assert any(interleaved(BEGUN[0], "read_while", events, 2, Ways(waits=False)))
    assert not any(interleaved(BEGUN[0], "read_while", events, 2))


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mistake_is_noticed(name: str) -> None:
    histories = itertools.chain(KEPT, map(draw, range(HISTORIES)))
    assert any(failure(history, MUTANTS[name]) for history in histories)
    assert not any(map(failure, KEPT))
