"""Goal: a step whose records need other columns changes these, and nothing else; or it fails.

A step with nothing else to do completes what the last one could not.

Method: a table in memory that refuses a batch as Spark does when a record's schema is newer.
"""

from __future__ import annotations

import dataclasses

import pytest
from support.story import NO_DEADLINE, Story
from support.tierers import Interrupted

from seamline.connectors.protocols.cold_tables import TierTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import SCHEMA_NOT_EVOLVED, SeamlineError
from seamline.gateway.tiering.step import tier_once
from seamline.seam.boundary import TAG
from seamline.seam.evolution import AddColumn, Change
from seamline.seam.resuming import unverified
from seamline.seam.tiering import Batch, Outcome
from seamline.sql.types import BIGINT

NEEDED: tuple[Change, ...] = (AddColumn(("n",), BIGINT),)


@dataclasses.dataclass
class Behind:
    """A table whose columns are behind its records, until they are changed; if that helps."""

    story: Story
    needed: tuple[Change, ...]
    is_behind: bool = True

    def refuse(self) -> None:
        """Before a batch is written."""
        if self.is_behind:
            raise SeamlineError(SCHEMA_NOT_EVOLVED, "n is new")

    def table(self) -> TierTable:
        """The table."""
        made = _Evolving(self.story.table, {})
        made.behind = self
        return made


class _Evolving(Interrupted):
    behind: Behind

    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`."""
        self.behind.refuse()
        super().commit_rows(batch)

    def evolve(self, batch: Batch, deadline: Deadline) -> tuple[Change, ...]:
        """See `TierTable.evolve`."""
        self.behind.is_behind = not self.behind.needed
        return self.behind.needed


def test_columns_are_changed_in_a_step_of_its_own_before_the_batch() -> None:
    story = Story()
    story.produce(0)
    table = Behind(story, NEEDED).table()
    before = story.boundary
    first = tier_once(table, story.log, NO_DEADLINE, records_max=10)
    assert (first.outcome, first.changes, first.offsets, first.lag) == (
        Outcome.EVOLVED,
        NEEDED,
        0,
        1,
    )
    assert story.boundary == before
    second = tier_once(table, story.log, NO_DEADLINE, records_max=10)
    assert (second.outcome, second.lag) == (Outcome.ROWS, 0)


def test_a_batch_that_nothing_helps_is_not_tried_for_ever() -> None:
    story = Story()
    story.produce(0)
    before = story.boundary
    with pytest.raises(SeamlineError) as caught:
        tier_once(Behind(story, ()).table(), story.log, NO_DEADLINE, records_max=10)
    assert caught.value.code is SCHEMA_NOT_EVOLVED
    assert story.boundary == before


class _Untagging(Interrupted):
    def keep(self, snapshot_id: int) -> None:
        """See `TierTable.keep`; others commit so fast that the tag never moves."""


def test_a_batch_that_was_not_tagged_is_tagged_when_there_is_nothing_else_to_do() -> None:
    story = Story()
    story.produce(0)
    tier_once(_Untagging(story.table, {}), story.log, NO_DEADLINE, records_max=10)
    landed = story.table.state.current_snapshot_id
    assert unverified(story.table.state) is not None
    step = tier_once(story.table, story.log, NO_DEADLINE, records_max=10)
    assert step.outcome is Outcome.IDLE
    assert unverified(story.table.state) is None
    assert story.table.state.refs[TAG].snapshot_id == landed
