"""Goal: a commit of ours changes what it is about, and nothing else that the owner has said.

Method: real tables in a catalog of their own; each function that commits is called once, over a
table whose references all say what is to be retained of them.
"""

from __future__ import annotations

import inspect
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import LongType, NestedField
from support.references import retain, retention

from seamline.connectors.config import CatalogConfig
from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog, IcebergTable
from seamline.seam.boundary import TAG, Boundary
from seamline.seam.evolution import AddColumn
from seamline.seam.offsets import Offsets
from seamline.sql import types

NAME = ("default", "t")
KEPT_BY_NOBODY = "a-property"
BOUNDARY = Boundary(
    snapshot_id=0,
    cluster_id="c",
    topic="t",
    topic_id="id",
    isolation="read_committed",
    start=Offsets({0: 0}),
    next=Offsets({0: 0}),
    max_timestamp_ms=Offsets(),
)


@pytest.fixture(params=[2, 3])
def catalog(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> IcebergCatalog:
    """A catalog with one table of two snapshots, a tag of ours, and a branch made for a batch."""
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", (tmp_path / "warehouse").as_uri()
    config = CatalogConfig(name="lake", type="sql", uri=uri, warehouse=warehouse)
    made = IcebergCatalog(config)
    table = made.create(
        NAME,
        Schema(NestedField(1, "id", LongType())),
        spec=PartitionSpec(),
        order=SortOrder(),
        properties={"format-version": str(request.param), KEPT_BY_NOBODY: "1"},
        boundary=BOUNDARY,
    )
    first = head(table)
    commits.tag_boundary(table, first)
    commits.commit_boundary(made.load(NAME), BOUNDARY)
    commits.create_branch(made.load(NAME), "batch", first, keep_ms=10**9)
    retain(made.load(NAME), "main", TAG)
    return made


def head(table: IcebergTable) -> int:
    found = table.state.current_snapshot_id
    assert found is not None
    return found


def first(table: IcebergTable) -> int:
    return table.state.refs[TAG].snapshot_id


def another_column(update: UpdateSchema) -> None:
    update.add_column("another", LongType())


COMMITS: Mapping[str, Callable[[IcebergTable], Any]] = {
    "commit_boundary": lambda table: commits.commit_boundary(table, BOUNDARY),
    "tag_boundary": lambda table: commits.tag_boundary(table, head(table)),
    "create_branch": lambda table: commits.create_branch(table, "more", head(table), 10**9),
    "adopt_branch": lambda table: commits.adopt_branch(table, "batch", head(table)),
    "create_tag": lambda table: commits.create_tag(table, "more", head(table), 10**9),
    "remove_refs": lambda table: commits.remove_refs(table, ["batch"]),
    "set_properties": lambda table: commits.set_properties(table, {"a": "b"}),
    "remove_properties": lambda table: commits.remove_properties(table, [KEPT_BY_NOBODY]),
    "change_schema": lambda table: commits.change_schema(table, another_column),
    "evolve": lambda table: commits.evolve(table, [AddColumn(("another",), types.BIGINT)]),
    "move_head": lambda table: commits.move_head(table, head(table), first(table)),
}


def test_every_function_that_commits_is_tried() -> None:
    known = inspect.getmembers(commits, inspect.isfunction)
    own = {n for n, f in known if f.__module__ == commits.__name__ and not n.startswith("_")}
    # no table here is of version 1; `upgrade` is tried by ALTER TABLE
    assert own - {"insist", "insist_on_head", "upgrade", "commit"} == set(COMMITS)


@pytest.mark.one_in(test=4)
@pytest.mark.parametrize("commit", COMMITS)
def test_a_commit_keeps_what_is_to_be_retained(catalog: IcebergCatalog, commit: str) -> None:
    before = catalog.load(NAME)
    COMMITS[commit](before)
    after = catalog.load(NAME)
    assert after.state.metadata_location != before.state.metadata_location
    kept = {name: said for name, said in retention(after).items() if name in ("main", TAG)}
    assert kept == {name: retention(before)[name] for name in ("main", TAG)}
    assert any(kept["main"])
    assert any(kept[TAG])
