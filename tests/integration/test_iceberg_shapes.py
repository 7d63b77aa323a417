"""One virtual snapshot, read in every way, over tables of many shapes.

Goal: PyIceberg, Spark, both with and without planned scans, and our own SQL give the same rows for
the same virtual snapshot, whatever the table is like, while records arrive and are tiered.
Method: each table gets cold rows, what its shape is named after is done to it, then it gets a tail.
A snapshot of it is loaded, a producer and the pipeline are let loose on it, and every way of
reading must give the same rows: those of the log below the snapshot's end, each once.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.live import LiveReaders, canonical, watched
from support.shapes import BASIC, SHAPES, Shape, basic
from support.stack import Stack

from seamline.connectors.iceberg.virtual import END_KEY

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.fixture(scope="module")
def readers(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveReaders]:
    with watched(LiveReaders(stack, tmp_path_factory.mktemp("shapes"))) as running:
        yield running


@contextlib.contextmanager
def let_loose(stack: Stack, name: str, record: Callable[[int], Any]) -> Iterator[None]:
    """A producer at work until the block ends, and the pipeline, which commits at least once."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        number = 10_000
        try:
            stack.produce(name, [record(number)])
            stack.tier(name)
            while not stop.is_set():
                stack.produce(name, [record(i) for i in range(number, number + 20)])
                number += 20
                stop.wait(0.05)
        except BaseException as error:  # noqa: BLE001 - reported when the block ends
            failures.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join()
    assert not failures, failures[0]


def without_empty(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(_without_empty(cell) for cell in row) for row in rows]


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_empty(item) for key, item in value.items()} or None
    if isinstance(value, list):
        return [_without_empty(item) for item in value] or None
    return value


@pytest.mark.one_in(prove=48)
@pytest.mark.usefixtures("tier_engine")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_way_gives_the_same_rows(
    stack: Stack, readers: LiveReaders, name: str, shape: Shape
) -> None:
    cold, hot = shape.rows
    stack.create_topic(name, 3)
    stack.create_table(name, shape.columns, **shape.options)
    stack.produce(name, [shape.record(i) for i in range(cold)])
    stack.tier(name)
    for deed in shape.between:
        if callable(deed):
            deed(stack, name)
        else:
            stack.spark.sql(deed.format(t=f"lake.default.{name}"))
    stack.produce(name, [shape.record(i) for i in range(cold, cold + hot)])
    table = readers.load(name)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    columns = [field.name for field in table.schema().fields]
    with let_loose(stack, name, shape.record):
        ways = readers.every_way(
            name,
            snapshot.snapshot_id,
            columns,
            unread_by=shape.unread_by,
            engine=shape.engine,
        )
    expected = ways.pop("sql")
    for way, rows in ways.items():
        if way.startswith("pyiceberg"):  # returns a list or map that is null as an empty one
            rows, expected_here = without_empty(rows), without_empty(expected)
        else:
            expected_here = expected
        assert len(rows) == len(expected), way
        differing = [pair for pair in zip(rows, expected_here, strict=True) if pair[0] != pair[1]]
        assert not differing, (way, differing[0])
    if hot:
        assert snapshot.summary is not None
        end = json.loads(snapshot.summary.additional_properties[END_KEY])
        assert sum(end.values()) == cold + hot
    if shape.exact:
        position = [columns.index(c) for c in ("_kafka_partition", "_kafka_offset")]
        offsets = [tuple(row[i] for i in position) for row in expected]
        assert len(offsets) == len(set(offsets)) == cold + hot


def test_a_tail_file_says_of_itself_what_is_in_it(
    stack: Stack, readers: LiveReaders, name: str
) -> None:
    """Counts and bounds in manifests are those of the rows: pruning by them loses nothing."""
    stack.create_topic(name, 2)
    stack.create_table(name, BASIC, partitioning=("bucket(4, id)",), sorted_by=("id",))
    stack.produce(name, [basic(i) for i in range(500)])
    table = readers.load(name)
    files = table.inspect.files()
    assert sum(files["record_count"].to_pylist()) == 500
    for row in files["readable_metrics"].to_pylist():
        assert row["id"]["value_count"] > 0
        assert row["id"]["lower_bound"] <= row["id"]["upper_bound"]
        assert row["_kafka_batch"]["null_value_count"] == row["_kafka_batch"]["value_count"]
    everything = canonical(table.scan(selected_fields=("id",)).to_arrow().to_pylist())
    conditions: tuple[tuple[str, Callable[[int], bool]], ...] = (
        ("id = 250", lambda i: i == 250),
        ("id >= 490", lambda i: i >= 490),
        ("text = 't3'", lambda i: i % 7 == 3 and i % 11 != 0),
        ("text IS NULL", lambda i: i % 11 == 0),
        ("n < -40.00", lambda i: i <= 10),
    )
    for condition, keeps in conditions:
        found = table.scan(row_filter=condition, selected_fields=("id",)).to_arrow()
        assert sorted(found["id"].to_pylist()) == [i for i in range(500) if keeps(i)], condition
    assert len(everything) == 500


def _state(directory: pathlib.Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


@pytest.mark.soak
def test_nothing_of_ours_is_in_the_table(stack: Stack, readers: LiveReaders, name: str) -> None:
    """Neither a commit nor a file: whatever cleans the table up cannot meet us."""
    stack.create_topic(name, 1)
    stack.create_table(name, BASIC)
    stack.produce(name, [basic(i) for i in range(10)])
    stack.tier(name)
    stack.produce(name, [basic(i) for i in range(10, 20)])
    before = stack.load(name).state
    folder = pathlib.Path(before.location.removeprefix("file://"))
    files = _state(folder)
    assert readers.load(name).scan().count() == 20
    assert readers.sql(f"SELECT count(*) FROM planned.default.{name}") == [(20,)]
    assert stack.load(name).state == before
    assert _state(folder) == files
