"""Tables of other writers, made by hand from the specification, read as they were made.

Goal: whatever a table has been through, its rows are those that it holds: columns found by id under
any name, defaults, rows deleted by position files and by vectors, partitions that changed, files
without ids, values that only manifests have, snapshots that name their manifests themselves.
Method: random histories (`support.handmade_shapes`), which know what they have made; DuckDB reads
them here, and Spark in `tests/integration/test_foreign_tables.py`.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pyarrow as pa
import pytest
from support import offline
from support.gateway import Gateway
from support.handmade import POSITIONS, File, Handmade, column, with_ids
from support.handmade_shapes import Story
from support.live import canonical

from seamline.errors import SeamlineError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("foreign")


@pytest.fixture(scope="module")
def gateway(folder: pathlib.Path) -> Iterator[Gateway]:
    with offline.running(folder) as running:
        yield running


def check(gateway: Gateway, folder: pathlib.Path, seed: int) -> None:
    story, name = Story(seed, folder / "warehouse" / "default" / f"t{seed}"), f"t{seed}"
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    catalog.register_table(("default", name), story.make())
    rows = story.rows()
    for condition, kept in (
        ("true", rows),
        ("p = 7", [row for row in rows if row[1] == 7]),
        ("p IS NULL", [row for row in rows if row[1] is None]),
    ):
        found = gateway.rows(f"SELECT * FROM {name} WHERE {condition}", "duckdb")
        assert canonical(found) == canonical(kept), (seed, condition)


@pytest.mark.prove
def test_histories(gateway: Gateway, folder: pathlib.Path) -> None:
    for seed in range(20):
        check(gateway, folder, seed)


@pytest.mark.soak
def test_many_histories(gateway: Gateway, folder: pathlib.Path) -> None:
    for seed in range(1000, 1060):
        check(gateway, folder, seed)


def of_folders(gateway: Gateway, root: pathlib.Path, *names: str) -> list[int]:
    """Returns what is read of a table with two rows in each folder, of which one is deleted."""
    files = []
    for number, name in enumerate(names):
        (root / "data" / name).mkdir(parents=True)
        path = str(root / "data" / name / "0.parquet")
        rows = with_ids(pa.table({"n": [number, -1 - number]}), {"n": 1})
        gone = pa.table({"pos": pa.array([1], pa.int64())})
        files += [File(rows, path=path), File(gone, POSITIONS, snapshot=2, of=path)]
    table = Handmade(root, [[column(1, "n", "long")]])
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    catalog.register_table(("default", root.name), table.write(files))
    return [n for (n,) in gateway.rows(f"SELECT n FROM {root.name} ORDER BY n", "duckdb")]


@pytest.mark.prove
def test_folders_with_wildcards(gateway: Gateway, folder: pathlib.Path) -> None:
    warehouse = folder / "warehouse" / "default"
    names = ("p=a", "p=*", "p=ab", "p=a*", "p=[ab]", "p=b", "p=**", "p=[", "p=!", "p=[!a]")
    assert of_folders(gateway, warehouse / "wildcards", *names) == list(range(len(names)))
    assert of_folders(gateway, warehouse / "backslash", "p=a\\b", "p=b") == [0, 1]
    with pytest.raises(SeamlineError, match="a wildcard and a backslash"):
        of_folders(gateway, warehouse / "both", "p=a\\*", "p=b")
