"""Goal: a token gives the same rows again, whatever has become of the policy for bad records since.

Method: good and bad records are written, tiered and read under policies that change between any
two steps; every token is repeated after every later step, from its own snapshot and from later
ones, and must give the rows of that time or be refused as expired. What the table holds is what the
policy of the moment made of each record when it was tiered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import seams
from support.examples import examples
from support.story import BINDING, NO_DEADLINE, TOPIC, Story

from seamline.connectors.kafka.tail import read_tail
from seamline.errors import BAD_RECORD, TOKEN_EXPIRED, SeamlineError
from seamline.gateway.query import tokens
from seamline.seam.binding import TopicBinding
from seamline.seam.offsets import OffsetRange
from seamline.seam.options import POLICIES
from seamline.seam.records import DecoderSpec
from seamline.seam.seam import Seam
from seamline.sql import columns
from seamline.sql.types import BIGINT, Field

Event = tuple[str, Any]
Rows = tuple[tuple[Any, ...], ...]

COLUMNS = (Field("a", BIGINT), *columns.METADATA_FIELDS)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.sampled_from([b'{"a":1}', b"bad"])),
        st.tuples(st.just("alter"), st.sampled_from(POLICIES)),
        st.tuples(st.sampled_from(["tier", "read", "expire", "trim"]), st.none()),
    ),
    max_size=25,
)


class PolicyStory:
    """A topic of one partition, and a table whose policy changes."""

    def __init__(self) -> None:
        self.story = Story(1)
        self.tiered: dict[int, Rows] = {}

    def happen(self, kind: str, value: Any) -> None:
        """One event; an impossible one is skipped."""
        story = self.story
        match kind:
            case "produce":
                story.produce(0, value=value)
            case "alter":
                story.table.set_property("seamline.on-error", value)
            case "expire":
                story.expire()
            case "trim":
                story.log.delete_records(TOPIC, 0, story.boundary.next[0])
            case "tier":
                self._tier()

    def _tier(self) -> None:
        binding = TopicBinding.from_properties(self.story.table.state.properties)
        assert binding is not None
        start, end = self.story.boundary.next[0], self.story.bounds().end[0]
        try:
            decoded = {o: self._decoded(o, o + 1, binding.on_error) for o in range(start, end)}
        except SeamlineError as error:
            assert error.code is BAD_RECORD
            return  # the pipeline stops here until somebody alters the table
        self.tiered |= decoded
        self.story.tier()

    def _decoded(self, start: int, end: int, on_error: str) -> Rows:
        spec = DecoderSpec(TOPIC, BINDING.format, on_error, COLUMNS)
        tail = read_tail(
            self.story.log,
            [OffsetRange(0, start, end)],
            "read_committed",
            spec,
            ("a", columns.OFFSET, columns.ERROR),
            NO_DEADLINE,
            size_bytes_max=1 << 20,
        )
        return tuple(tuple(row.values()) for row in tail.rows.to_pylist())

    def read(self) -> Seam | None:
        """The seam of a read of now."""
        return self.story.pin()

    def rows(self, seam: Seam) -> Rows:
        """What a read of a seam gives."""
        return tuple(sorted((*self._cold(seam), *self._hot(seam)), key=repr))

    def _cold(self, seam: Seam) -> Iterator[tuple[Any, ...]]:
        for _, offset, _, _ in self.story.table.records(seam.cold.snapshot_id):
            assert offset is not None
            if seam.cold_end is None or offset < seam.cold_end[0]:
                yield from self.tiered[offset]

    def _hot(self, seam: Seam) -> Iterator[tuple[Any, ...]]:
        for hot in seam.hot_ranges:
            yield from self._decoded(hot.start, hot.end_exclusive, seam.log.on_error)


@examples(400)
@given(EVENTS)
@example([("produce", b"bad"), ("alter", "null"), ("read", None), ("alter", "skip")])
@example(
    [
        *[("produce", b"bad"), ("alter", "null"), ("read", None), ("alter", "skip")],
        *[("tier", None), ("trim", None), ("expire", None)],
    ]
)
def test_a_token_gives_its_rows_whatever_the_policy_is_by_now(events: list[Event]) -> None:
    world = PolicyStory()
    given_: list[tuple[Seam, Rows]] = []
    for kind, value in events:
        world.happen(kind, value)
        if kind == "read" and (seam := world.read()) is not None:
            try:
                rows = world.rows(seam)
            except SeamlineError as error:
                assert error.code is BAD_RECORD
                continue
            given_.append((tokens.decode(tokens.encode(seam)), rows))
        for token, before in given_:
            try:
                assert world.rows(world.story.repeat(token)) == before
            except SeamlineError as error:
                assert error.code is TOKEN_EXPIRED


@pytest.mark.parametrize("alter", [None, "null", "skip"])
def test_a_later_snapshot_stands_in_only_if_it_was_decoded_alike(alter: str | None) -> None:
    world = PolicyStory()
    world.happen("alter", "null")
    for value in (b'{"a":1}', b"bad"):
        world.happen("produce", value)
    seam = world.read()
    assert seam is not None
    rows = world.rows(seam)
    if alter:
        world.happen("alter", alter)
    for kind in ("tier", "trim", "expire"):
        world.happen(kind, None)
    if alter == "skip":
        with pytest.raises(SeamlineError) as caught:
            world.story.repeat(seam)
        assert caught.value.code is TOKEN_EXPIRED
        assert "on_error" in caught.value.message
        return
    assert world.rows(world.story.repeat(seam)) == rows
    again = seams.replace(seam, on_error="")
    with pytest.raises(SeamlineError):
        world.story.repeat(again)
