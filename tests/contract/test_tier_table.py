"""Goal: every `TierTable` lands a batch whole, once, and only where it began.

Method: batches made by the protocol's own function, committed twice, late, and between the commits
of others. The table in memory is the implementation here; the one on Spark is put through the same
faults, with real crashes, in tests/integration.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.story import BINDING, NO_DEADLINE, Story

from seamline.errors import SeamlineError
from seamline.seam.boundary import TAG
from seamline.seam.tiering import Batch, next_batch


@pytest.fixture
def story() -> Story:
    """Three records, none of them tiered."""
    found = Story(2)
    for partition in (0, 0, 1):
        found.produce(partition)
    return found


def batch(story: Story, records_max: int = 100) -> Batch:
    made = next_batch(
        story.table.load(), BINDING, story.boundary, story.bounds(), records_max=records_max
    )
    assert made is not None
    return made


def refused(work: Callable[[], object]) -> str:
    with pytest.raises(SeamlineError) as caught:
        work()
    return caught.value.code.name


def tiered(story: Story) -> int:
    return sum(1 for row in story.table.records(story.head) if row[0] is not None)


def test_rows_and_boundary_come_in_one_commit(story: Story) -> None:
    before = story.head
    made = batch(story)
    assert story.table.has_rows(made, NO_DEADLINE)
    story.table.commit_rows(made)
    assert story.table.load().snapshots[story.head].parent_id == before
    assert story.boundary.next == made.boundary.next == story.bounds().end
    assert tiered(story) == 3


def test_a_batch_lands_once(story: Story) -> None:
    made = batch(story)
    story.table.commit_rows(made)
    assert refused(lambda: story.table.commit_rows(made)) == "COMMIT_CONFLICT"
    assert tiered(story) == 3


def test_of_two_batches_from_one_boundary_one_lands(story: Story) -> None:
    small, large = batch(story, records_max=1), batch(story)
    story.table.commit_rows(small)
    assert refused(lambda: story.table.commit_rows(large)) == "COMMIT_CONFLICT"
    story.table.commit_rows(batch(story))
    assert tiered(story) == 3


@pytest.mark.parametrize("between", ["append", "compaction"])
def test_the_commits_of_others_in_between_pass(story: Story, between: str) -> None:
    made = batch(story)
    if between == "append":
        story.append_foreign()
    else:
        story.table.compact()
    story.table.commit_rows(made)
    assert tiered(story) == 3
    assert story.boundary.next == made.boundary.next


def test_progress_without_rows_is_published_on_its_own_snapshot_only(story: Story) -> None:
    story.table.commit_rows(batch(story))
    transaction = story.begin()
    story.produce(0, transaction)
    story.end(transaction, commit=False)
    made = batch(story)
    assert not story.table.has_rows(made, NO_DEADLINE)
    story.table.compact()
    assert refused(lambda: story.table.commit_boundary(made)) == "COMMIT_CONFLICT"
    again = batch(story)
    story.table.commit_boundary(again)
    assert story.boundary.next == story.bounds().end
    assert tiered(story) == 3


def test_the_tag_keeps_the_newest_mark_from_expiry(story: Story) -> None:
    story.table.commit_rows(batch(story))
    marked = story.head
    story.table.keep(marked)
    story.append_foreign()
    story.table.expire()
    state = story.table.load()
    assert state.refs[TAG].snapshot_id == marked
    assert set(state.snapshots) == {marked, story.head}
    assert story.boundary.snapshot_id == marked


def test_a_commit_is_taken_back_only_while_it_is_the_head(story: Story) -> None:
    before = story.head
    story.table.commit_rows(batch(story))
    landed = story.head
    story.append_foreign()
    assert refused(lambda: story.table.take_back(landed, before)) == "COMMIT_CONFLICT"
    story.table.roll_back(landed)
    story.table.take_back(landed, before)
    assert story.head == before
    assert tiered(story) == 0
