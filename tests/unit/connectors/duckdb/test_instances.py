"""Goal: an instance serves statements over the same files, one at a time, and no others.

Method: real instances over real files, taken and given back in every way; what is kept is told by
whether the same object comes back.
"""

from __future__ import annotations

import gc
import pathlib
import re
import threading
import weakref
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamline.connectors.duckdb.instances import KEPT_MAX, Files, Instance, Instances


@pytest.fixture
def instances() -> Iterator[Instances]:
    found = Instances({"threads": "1"})
    yield found
    found.close()


@pytest.fixture
def paths(tmp_path: pathlib.Path) -> list[str]:
    found = [str(tmp_path / f"{n}.parquet") for n in range(2)]
    for n, path in enumerate(found):
        pq.write_table(pa.table({"n": [n]}), path)
    return found


def locked(instances: Instances, files: Files) -> Instance:
    instance = instances.take(files)
    if instance.files is None:
        instance.lock(files)
    return instance


def rows(instance: Instance, source: str) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = instance.connection.sql(f"SELECT n FROM {source}").fetchall()
    return found


def test_it_comes_back_for_the_same_files_only(instances: Instances, paths: list[str]) -> None:
    one, both = Files(paths[:1]), Files(paths)
    first = locked(instances, one)
    assert rows(first, f"'{paths[0]}'") == [(0,)]
    instances.give_back(first, finished=True)
    other = locked(instances, both)
    assert other is not first
    again = locked(instances, one)
    assert again is first
    with pytest.raises(duckdb.Error, match="disabled by configuration"):
        rows(again, f"'{paths[1]}'")
    with pytest.raises(duckdb.Error, match="locked"):
        again.lock(both)


def test_parts_of_a_snapshot_share_one(instances: Instances, paths: list[str]) -> None:
    snapshots = [frozenset({(("lake", "t"), number)}) for number in range(2)]
    one, other, both = Files(paths[:1]), Files(paths[1:]), Files(paths)
    for files, may_read in ((one, one), (other, both), (one, both), (other, both)):
        instance = instances.take(files, snapshots[0])
        if instance.files is None:
            instance.lock(instances.shared(files, snapshots[0]))
        assert files <= may_read
        assert instance.files in (may_read, files)
        instances.give_back(instance, finished=True)
    assert instances.take(other, snapshots[0]).files == both
    assert instances.take(other, snapshots[1]).files is None, "it is another snapshot"
    assert instances.take(other).files is None, "nothing is said of snapshots"
    assert instances.shared(one, snapshots[1]) == one


def test_two_at_once_have_one_each(instances: Instances, paths: list[str]) -> None:
    files = Files(paths)
    assert locked(instances, files) is not locked(instances, files)


def test_what_stopped_half_way_is_not_used_again(instances: Instances, paths: list[str]) -> None:
    files = Files(paths)
    unfinished = locked(instances, files)
    instances.give_back(unfinished, finished=False)
    interrupted = locked(instances, files)
    assert interrupted is not unfinished
    interrupted.interrupt()
    instances.give_back(interrupted, finished=True)
    assert locked(instances, files) is not interrupted
    for one in (unfinished, interrupted):
        with pytest.raises(duckdb.ConnectionException):
            one.connection.execute("SELECT 1")


def test_a_late_interrupt_meets_nobody_else(instances: Instances) -> None:
    files = Files()
    first = locked(instances, files)
    instances.give_back(first, finished=True)
    first.interrupt()
    again = locked(instances, files)
    assert again is first
    assert rows(again, "(SELECT 1 AS n)") == [(1,)]


def test_what_was_registered_is_let_go(instances: Instances) -> None:
    instance = locked(instances, Files())
    table = pa.table({"n": [1, 2]})
    gone = threading.Event()
    weakref.finalize(table, gone.set)
    instance.register("tail_0", table)
    assert rows(instance, "tail_0") == [(1,), (2,)]
    del table
    instances.give_back(instance, finished=True)
    gc.collect()
    assert gone.is_set()
    again = locked(instances, Files())
    assert again is instance
    with pytest.raises(duckdb.CatalogException):
        rows(again, "tail_0")


def test_what_was_copied_is_let_go(instances: Instances) -> None:
    instance = locked(instances, Files())
    for n in (1, 2):
        instance.copy("tail_0", pa.table({"n": [n] * 5}))
        assert rows(instance, "tail_0") == [(n,)] * 5
        instances.give_back(instance, finished=True)
        instance = locked(instances, Files())
        with pytest.raises(duckdb.CatalogException):
            rows(instance, "tail_0")


def test_only_a_copy_tells_how_many_rows_it_has(instances: Instances) -> None:
    """Joins are ordered by that; of an Arrow table nothing is known."""
    instance = locked(instances, Files())
    table = pa.table({"n": range(4321)})
    instance.copy("copied", table)
    instance.register("given", table)

    def estimated(name: str) -> str:
        ((_, plan),) = instance.connection.execute(f"EXPLAIN SELECT n FROM {name}").fetchall()
        found = re.search(r"~([\d,]+) row", plan)
        assert found is not None
        return found[1]

    assert (estimated("copied"), estimated("given")) == ("4,321", "1")


def test_few_are_kept(instances: Instances, tmp_path: pathlib.Path) -> None:
    wanted = [Files([str(tmp_path / str(n))]) for n in range(KEPT_MAX + 1)]
    taken = [locked(instances, files) for files in wanted]
    for instance in taken:
        instances.give_back(instance, finished=True)
    back = [locked(instances, files) for files in reversed(wanted)]
    assert [a is b for a, b in zip(reversed(taken), back, strict=True)] == [True] * KEPT_MAX + [
        False
    ]


def test_none_is_kept_after_the_end(instances: Instances) -> None:
    instance = locked(instances, Files())
    instances.close()
    instances.give_back(instance, finished=True)
    with pytest.raises(duckdb.ConnectionException):
        instance.connection.execute("SELECT 1")
