"""Goal: who commits and expires as they like loses no boundary that earlier metadata still tells.

Method: a real table in a catalog of its own, whose boundary is buried under deletes by PyIceberg,
which expires what is older in turn. What cannot be known exactly stays an error.
"""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
)
from pyiceberg.types import LongType, NestedField

from seamline.connectors.config import CatalogConfig
from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog, IcebergTable
from seamline.errors import BOUNDARY_MISSING, SeamlineError
from seamline.seam.boundary import TAG, Boundary, boundary_of, foreign_change, renewed
from seamline.seam.offsets import Offsets

NAME = ("default", "t")
NEXT = Offsets({0: 7})
BOUNDARY = Boundary(
    snapshot_id=0,
    cluster_id="c",
    topic="t",
    topic_id="id",
    isolation="read_committed",
    start=NEXT,
    next=NEXT,
)


class Story:
    """A table with rows and a boundary, tagged as the pipeline does it."""

    def __init__(self, folder: pathlib.Path) -> None:
        uri, warehouse = f"sqlite:///{folder}/catalog.db", (folder / "warehouse").as_uri()
        self.config = CatalogConfig(name="lake", type="sql", uri=uri, warehouse=warehouse)
        self.catalog = IcebergCatalog(self.config)
        columns = [NestedField(1, "id", LongType()), NestedField(2, "_kafka_offset", LongType())]
        table = self.catalog.create(
            NAME,
            Schema(*columns),
            spec=PartitionSpec(),
            order=SortOrder(),
            properties={"format-version": "2", "seamline.topic": "t"},
            boundary=BOUNDARY,
        )
        table.iceberg.append(pa.table({"id": range(9), "_kafka_offset": [None] * 9}).cast(ROWS))
        self.carrier = commits.commit_boundary(self.table, BOUNDARY)
        commits.tag_boundary(self.table, self.carrier)

    @property
    def table(self) -> IcebergTable:
        """The table as it is now, to somebody who has not seen it before."""
        return IcebergCatalog(self.config).load(NAME)

    def expire(self, *, is_tag_kept: bool = True) -> None:
        """Removes all snapshots but the head and, perhaps, the one with the tag."""
        table = self.table
        kept = {table.state.current_snapshot_id, self.carrier if is_tag_kept else None}
        tags = () if is_tag_kept else (RemoveSnapshotRefUpdate(ref_name=TAG),)
        gone = [one for one in table.state.snapshots if one not in kept]
        commits.commit(
            table,
            (AssertTableUUID(uuid=table.iceberg.metadata.table_uuid),),
            (*tags, RemoveSnapshotsUpdate(snapshot_ids=gone)),
        )

    def boundary(self) -> Boundary:
        state = self.table.state
        return boundary_of(state, state.current_snapshot_id)


ROWS = pa.schema([("id", pa.int64()), ("_kafka_offset", pa.int64())])


@pytest.fixture
def story(tmp_path: pathlib.Path) -> Story:
    return Story(tmp_path)


@pytest.mark.parametrize("is_tag_kept", [True, False])
def test_a_boundary_is_found_again_however_often_others_commit_and_expire(
    story: Story, is_tag_kept: bool
) -> None:
    for id_ in range(4):
        story.table.iceberg.delete(f"id = {id_}")
        story.expire(is_tag_kept=is_tag_kept and id_ < 3)
    state = story.table.state
    assert story.boundary().next == NEXT
    assert foreign_change(state, state.current_snapshot_id) == state.current_snapshot_id
    again = renewed(state)
    assert again is not None
    commits.commit_boundary(story.table, again)
    assert not story.table.state.expired
    assert story.boundary().next == NEXT


def test_a_boundary_that_is_there_is_not_looked_for(story: Story) -> None:
    story.table.iceberg.delete("id = 1")
    assert not story.table.state.expired
    assert story.boundary().snapshot_id == story.carrier


def test_a_table_that_may_hold_copied_records_has_no_boundary(story: Story) -> None:
    """The files of an expired append would tell whether it has added records of the topic."""
    story.table.iceberg.append(pa.table({"id": [99], "_kafka_offset": [7]}))
    story.table.iceberg.delete("id = 1")
    story.expire()
    assert_missing(story)


def test_metadata_that_is_gone_tells_nothing(story: Story) -> None:
    for id_ in (1, 2):
        story.table.iceberg.delete(f"id = {id_}")
    story.expire()
    for entry in story.table.iceberg.metadata.metadata_log:
        pathlib.Path(entry.metadata_file.removeprefix("file://")).unlink()
    assert_missing(story)


def assert_missing(story: Story) -> None:
    with pytest.raises(SeamlineError) as caught:
        story.boundary()
    assert caught.value.code is BOUNDARY_MISSING
