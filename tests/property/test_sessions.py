"""Goal: a session never forgets what it has seen, whoever saw it and in whatever order it is told.

Method: seams of few tables, logs and snapshots, as tokens keep them, merged in every way. Then
threads that share one connection: a model of reads that begin and end in any order, over the
client's own tokens and the gateway's own merging.
"""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from seamline.dbapi.tokens import SeenTokens
from seamline.gateway.query.tokens import TokenSigner
from seamline.seam.offsets import Offsets
from seamline.seam.seam import ColdPart, LogPart, Seam
from seamline.seam.session import merge

SIGNER = TokenSigner("secret", 60)
LOGS = [("u-1", "t-1"), ("u-1", "t-2"), ("u-1", ""), ("u-2", "t-1"), ("u-3", ""), ("", "t-3")]


@st.composite
def seams(draw: st.DrawFn) -> Seam:
    uuid, topic_id = draw(st.sampled_from(LOGS))
    starts = draw(st.dictionaries(st.integers(0, 2), st.integers(0, 3), max_size=3))
    starts = starts if topic_id else {}
    return Seam(
        ("lake", "default", draw(st.sampled_from(["bids", "Bids"])) if uuid else "topic"),
        uuid,
        draw(st.integers(0, 1)),
        cold=ColdPart(
            snapshot_id=draw(st.integers(1, 3)) if uuid else None,
            foreign_change_id=draw(st.none() | st.integers(1, 2)),
            sequence_number=draw(st.integers(0, 3)),
        ),
        log=LogPart(
            topic_id=topic_id,
            end_epochs=Offsets({p: draw(st.integers(0, 2)) for p in starts if draw(st.booleans())}),
        ),
        boundary=Offsets(starts),
        end=Offsets({p: start + draw(st.integers(0, 3)) for p, start in starts.items()}),
    )


SEEN = st.lists(seams(), max_size=5)


def check_remembered(known: Iterable[Seam], seen: Iterable[Seam]) -> None:
    """Of everything that was seen, what is known is as far or further."""
    by_log = {(seam.identity, seam.log.topic_id): seam for seam in known}
    with_log = {identity for identity, topic_id in by_log if topic_id}
    for seam in seen:
        if not seam.log.topic_id and seam.identity in with_log:
            continue  # a read of the snapshot alone
        found = by_log[seam.identity, seam.log.topic_id]
        assert found.cold.sequence_number >= seam.cold.sequence_number
        assert all(found.end[p] >= end for p, end in seam.end.items())
        assert all(
            found.log.end_epochs.get(p, -1) >= epoch
            for p, epoch in seam.log.end_epochs.items()
            if found.end[p] == seam.end[p]
        )


@given(SEEN, SEEN, SEEN)
def test_merging_forgets_nothing_and_knows_no_order(
    one: list[Seam], other: list[Seam], third: list[Seam]
) -> None:
    merged = merge([*one, *other])
    check_remembered(merged, [*one, *other])
    assert merge([*other, *one]) == merged
    assert merge(merged) == merged
    assert merge([*merged, *one]) == merged
    assert merge([*merged, *third]) == merge([*one, *merge([*other, *third])])


@given(SEEN)
def test_what_was_merged_is_passed_on_whole(seen: list[Seam]) -> None:
    merged = merge(seen)
    assert SIGNER.after([SIGNER.sign(merged, "ann")], "ann").seen == merged


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 3), SEEN), max_size=30))
def test_threads_of_a_connection_forget_nothing_of_each_other(
    events: list[tuple[int, list[Seam]]],
) -> None:
    """Each event begins a thread's read, or ends the one it has begun."""
    known = SeenTokens()
    running: dict[int, tuple[str, ...]] = {}
    told: list[Seam] = []
    for thread, read in events:
        if thread not in running:
            running[thread] = known.all
            continue
        sent = running.pop(thread)
        session = merge([*SIGNER.after(sent, "ann").seen, *read])
        known.replace(sent, SIGNER.sign(session, "ann"))
        told += read
        check_remembered(merge(SIGNER.after(known.all, "ann").seen), told)
        assert len(known.all) <= 4, "no more than reads that may run at once"
    handed_on = SeenTokens()
    handed_on.restart(known.text)
    assert handed_on.all == known.all


def test_a_session_that_cannot_go_on_lets_go_of_what_was_sent_alone() -> None:
    known = SeenTokens()
    known.restart("a")
    sent = known.all
    known.replace((), "b")
    known.replace(sent)
    assert known.all == ("b",)
    known.restart(None)
    assert known.text is None
