"""Goal: whatever happens to an upsert table and its topic, a read is the fold of the log up to it.

Method: every sequence of a few events, long random histories, and every interleaving of a few
events with the steps of a read or of tiering, against a fold of every record that was written; and
mutants, each of which a history must notice.
"""

from __future__ import annotations

import itertools

import pytest

from seamline.errors import READ_CONFLICT, SeamlineError
from simulation.upserts import (
    HASTY,
    MUTANTS,
    Event,
    UpsertHistory,
    Ways,
    draw,
    every,
    failure,
    interleaved,
)

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
TRUNCATED = (
    *(event for event in FEW if event[0] != "compact"),
    ("truncate", 0, 0),
)
CAPTURED = Ways(is_captured=True)
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
    ("replace", 0, 2),
)
ALONE = (*OTHERS, ("transact", 0, 2))
HISTORIES = 60


@pytest.mark.prove
@pytest.mark.parametrize(
    ("events", "length", "ways"),
    [
        (FEW, 3, Ways()),
        (TRUNCATED, 3, CAPTURED),
        pytest.param(FEW[1:], 4, Ways(), marks=pytest.mark.soak),
        pytest.param(TRUNCATED[1:], 4, CAPTURED, marks=pytest.mark.soak),
    ],
)
def test_every_sequence_of_a_few_events(events: tuple[Event, ...], length: int, ways: Ways) -> None:
    wrong = [found for history in every(events, length) if (found := failure(history, ways))]
    assert not wrong, wrong[:3]


@pytest.mark.parametrize("ways", [Ways(), CAPTURED])
def test_random_histories(ways: Ways) -> None:
    wrong = {seed: found for seed in range(HISTORIES) if (found := failure(draw(seed), ways))}
    assert not wrong, list(wrong.items())[:3]


@pytest.mark.prove
@pytest.mark.parametrize("ways", [Ways(), CAPTURED])
def test_many_random_histories(ways: Ways) -> None:
    seeds = range(HISTORIES, HISTORIES + 60)
    wrong = {seed: found for seed in seeds if (found := failure(draw(seed, 40), ways))}
    assert not wrong, list(wrong.items())[:3]


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize(
    ("others", "count", "ways"),
    [
        (ALONE, 1, Ways()),
        ((*ALONE, ("truncate", 0, 0)), 1, CAPTURED),
        pytest.param(OTHERS, 2, Ways(), marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("what", ["read_while", "tier_while"])
@pytest.mark.parametrize("before", BEGUN)
def test_every_interleaving_with_a_read_or_with_tiering(
    before: tuple[Event, ...], what: str, others: tuple[Event, ...], count: int, ways: Ways
) -> None:
    wrong = list(interleaved(before, what, others, count, ways))
    assert not wrong, wrong[:3]


def test_a_read_that_is_compacted_meanwhile_is_exact_at_its_second_attempt() -> None:
    """What comes at every step leaves no end where it was, and nothing of it is replaced."""
    written = tuple((step, ("put", 2 + step % 2, 0)) for step in range(40))
    for step in range(6):
        begun(BEGUN[0], Ways()).read_while((*written, (step, ("replace", 0, 2))))


@pytest.mark.parametrize("lag_ms", [0, 1_000])
def test_a_log_that_is_compacted_at_every_step(lag_ms: int) -> None:
    """Keys are replaced and removed faster than any read: without a lag that is an error."""
    happens = (("transact", 0, 2), ("replace", 1, 2))
    meanwhile = tuple((step, event) for step in range(40) for event in happens)
    world = begun(BEGUN[0], Ways(lag_ms=lag_ms))
    if lag_ms:
        world.read_while(meanwhile)
        return
    with pytest.raises(SeamlineError) as caught:
        world.read_while(meanwhile)
    assert caught.value.code is READ_CONFLICT
    assert "min.compaction.lag.ms" in str(caught.value.hint)
    world.happen(("read", 0, 0))


def test_a_lag_of_compaction_changes_no_answer() -> None:
    for events in ((("put", 0, 2), ("replace", 0, 2)), (("transact", 0, 2), ("replace", 0, 2))):
        wrong = list(interleaved(BEGUN[0], "read_while", events, 1, Ways(lag_ms=1_000)))
        assert not wrong, wrong[:3]


@pytest.mark.parametrize("name", HASTY)
def test_interleavings_notice_mistakes_about_compaction(name: str) -> None:
    replaced = (("replace", 0, 2),)
    assert any(interleaved(BEGUN[0], "read_while", replaced, 1, HASTY[name]))
    assert not any(interleaved(BEGUN[0], "read_while", replaced, 1))


def begun(before: tuple[Event, ...], ways: Ways) -> UpsertHistory:
    """A history in which so much has happened."""
    world = UpsertHistory(ways)
    for event in before:
        world.happen(event)
    return world


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mistake_is_noticed(name: str) -> None:
    histories = itertools.chain(KEPT, map(draw, range(HISTORIES)))
    assert any(failure(history, MUTANTS[name]) for history in histories)
    assert not any(map(failure, KEPT))
