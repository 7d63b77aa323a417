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

import pytest
from support import offline
from support.gateway import Gateway
from support.handmade_shapes import Story
from support.live import canonical


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
