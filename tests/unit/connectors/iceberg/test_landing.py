"""Goal: a batch on a branch lands on whatever others have made of the table, exactly once.

Method: a real table in a catalog of its own; PyIceberg writes a batch to a branch, and others
commit in between. (`tests/integration/test_contention.py` does so with Spark, over upsert tables.)
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.types import LongType, NestedField
from support.rest_catalog import config_of, rest_catalog

from seamline.connectors.config import CatalogConfig
from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog, IcebergTable
from seamline.connectors.iceberg.tables.landing import Landing
from seamline.errors import COMMIT_CONFLICT, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import SUMMARY_KEY, Boundary, encode
from seamline.seam.offsets import Offsets
from seamline.seam.tiering import Batch

NAME = ("default", "t")
BRANCH = "seamline_batch_1"
BEFORE = Boundary(
    snapshot_id=0,
    cluster_id="c",
    topic="t",
    topic_id="id",
    isolation="read_committed",
    start=Offsets({0: 0}),
    next=Offsets({0: 0}),
)
AFTER = dataclasses.replace(BEFORE, next=Offsets({0: 2, 1: 1}), start=Offsets({0: 0, 1: 0}))


class Story:
    """A table with two rows of others, and a batch of two more on a branch."""

    def __init__(self, folder: pathlib.Path, config: CatalogConfig) -> None:
        self.folder = folder
        self.catalog = IcebergCatalog(config)
        self.catalog.create(
            NAME,
            Schema(NestedField(1, "id", LongType())),
            spec=PartitionSpec(),
            order=SortOrder(),
            properties={"format-version": "2", "seamline.topic": "t"},
            boundary=BEFORE,
        )
        self.append(1, 2)
        head = self.table.state.current_snapshot_id
        assert head is not None
        binding = TopicBinding.from_properties(self.table.state.properties)
        assert binding is not None
        self.batch = Batch(binding, head, self.table.state.current_schema_id, (), AFTER)
        commits.create_branch(self.table, BRANCH, head, 10**9)
        self.table.iceberg.append(
            pa.table({"id": [3, 4]}),
            branch=BRANCH,
            snapshot_properties={SUMMARY_KEY: encode(AFTER)},
        )
        self.written = self.table.state.refs[BRANCH].snapshot_id

    @property
    def table(self) -> IcebergTable:
        """The table as it is now."""
        return self.catalog.load(NAME)

    def land(self) -> SeamlineError | None:
        """Tries to land the batch, by somebody who has not tried before."""
        return Landing(lambda: self.table, BRANCH, self.batch).attempt()

    def append(self, *ids: int) -> None:
        """Rows of somebody else."""
        self.table.iceberg.append(pa.table({"id": ids}))

    def ids(self) -> list[int]:
        """The rows of the head."""
        found = self.table.iceberg.scan().to_arrow().column("id").to_pylist()
        return sorted(found)


@pytest.fixture(
    params=["sql", pytest.param("rest", marks=[pytest.mark.integration, pytest.mark.spark])]
)
def story(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> Iterator[Story]:
    """The same in a catalog of ours, and in Iceberg's own server."""
    if request.param == "rest":
        with rest_catalog(tmp_path) as url:
            yield Story(tmp_path, config_of(url, tmp_path))
        return
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", (tmp_path / "warehouse").as_uri()
    yield Story(tmp_path, CatalogConfig(name="lake", type="sql", uri=uri, warehouse=warehouse))


def test_a_batch_alone_moves_the_head(story: Story) -> None:
    assert story.land() is None
    assert story.table.state.current_snapshot_id == story.written
    assert story.ids() == [1, 2, 3, 4]


def test_a_batch_lands_on_what_others_have_done(story: Story) -> None:
    story.append(5)
    story.table.iceberg.delete("id = 1")
    foreign = story.table.state.current_snapshot_id
    commits.commit_boundary(story.table, BEFORE)  # said again, as maintenance does
    assert story.land() is None
    state = story.table.state
    head = state.snapshots[state.current_snapshot_id or 0]
    assert story.ids() == [2, 3, 4, 5]
    assert head.summary[SUMMARY_KEY] == encode(AFTER)
    assert head.summary["total-records"] == "4"
    assert head.summary["added-records"] == "2"
    assert foreign in {one.snapshot_id for one in state.ancestors(head.snapshot_id)}
    assert BRANCH not in state.refs
    assert story.written not in state.snapshots


def test_a_key_that_others_may_have_added_makes_a_batch_start_again(story: Story) -> None:
    """Also a batch that has found none of its keys in the table, and deletes nothing."""
    binding = dataclasses.replace(story.batch.binding, mode="upsert", primary_key=("id",))
    story.batch = dataclasses.replace(story.batch, binding=binding)
    story.append(3)
    error = story.land()
    assert error is not None
    assert error.code is COMMIT_CONFLICT
    assert story.ids() == [1, 2, 3]


def test_no_file_is_left_of_the_branch_or_of_an_attempt_that_came_too_late(story: Story) -> None:
    story.append(5)
    stale = story.table
    story.append(6)
    before = files(story)
    with pytest.raises(SeamlineError) as caught:
        Landing(lambda: stale, BRANCH, story.batch).attempt()
    assert caught.value.code is COMMIT_CONFLICT
    assert files(story) == before
    assert story.land() is None
    lists = {one.manifest_list for one in story.table.iceberg.metadata.snapshots}
    found = {path for path in files(story) if path.name.startswith("snap-")}
    assert found == {pathlib.Path(one.removeprefix("file://")) for one in lists}
    assert story.ids() == [1, 2, 3, 4, 5, 6]


def files(story: Story) -> set[pathlib.Path]:
    """All files of the table but its metadata files."""
    return set(story.folder.rglob("*.avro")) | set(story.folder.rglob("*.parquet"))


def test_what_overtakes_a_batch_makes_it_start_again(story: Story) -> None:
    another = dataclasses.replace(BEFORE, next=Offsets({0: 1}))
    changed = dataclasses.replace(BEFORE, handed_to="another")
    for boundary in (another, changed):
        commits.commit_boundary(story.table, boundary)
        error = story.land()
        assert error is not None
        assert error.code is COMMIT_CONFLICT
        assert story.ids() == [1, 2]
        state = story.table.state
        assert state.current_snapshot_id is not None
        commits.move_head(story.table, state.current_snapshot_id, story.batch.snapshot_id)


def test_a_rollback_or_another_column_makes_it_start_again(story: Story) -> None:
    state = story.table.state
    first = state.snapshots[story.batch.snapshot_id].parent_id
    assert first is not None
    commits.move_head(story.table, story.batch.snapshot_id, first)
    error = story.land()
    assert error is not None
    assert "not in its history" in error.message
    commits.move_head(story.table, first, story.batch.snapshot_id)
    story.append(5)
    with story.table.iceberg.update_schema() as update:
        update.add_column("more", LongType())
    error = story.land()
    assert error is not None
    assert "schema changed" in error.message


def test_a_branch_that_is_gone_cannot_land(story: Story) -> None:
    commits.remove_refs(story.table, [BRANCH])
    error = story.land()
    assert error is not None
    assert error.code is COMMIT_CONFLICT


def test_a_number_that_another_branch_has_taken_is_a_conflict(story: Story) -> None:
    """The head is where it was, but a commit to another branch has the next sequence number."""
    story.append(5)
    stale = story.table
    commits.create_branch(story.table, "other", story.batch.snapshot_id, 10**9)
    story.table.iceberg.append(pa.table({"id": [9]}), branch="other")
    with pytest.raises(SeamlineError) as caught:
        Landing(lambda: stale, BRANCH, story.batch).attempt()
    assert caught.value.code is COMMIT_CONFLICT
    assert story.land() is None
    assert story.ids() == [1, 2, 3, 4, 5]
