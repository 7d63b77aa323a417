"""One virtual snapshot, read in every way, over tables of many shapes.

Goal: PyIceberg, Spark, both with and without planned scans, and our own SQL give the same rows for
the same virtual snapshot, whatever the table is like, while records arrive and are tiered.
Method: each table gets cold rows, what its shape is named after is done to it, then it gets a tail.
A snapshot of it is loaded, a producer and the pipeline are let loose on it, and every way of
reading must give the same rows: those of the log below the snapshot's end, each once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from support.foreign import delete_where_equal
from support.live import LiveReaders, canonical, watched
from support.stack import Stack

from seamline.connectors.iceberg.virtual import END_KEY

pytestmark = [pytest.mark.integration, pytest.mark.spark]

BASIC = "id bigint, text varchar, at timestamp with time zone, n decimal(12, 2)"
EVERY_TYPE = """
    id bigint, b boolean, i integer, f real, d double, n decimal(20, 4), big decimal(38, 9),
    s varchar, x varbinary, u uuid, day date, t timestamp, z timestamp with time zone,
    r row(a bigint, b row(c varchar, u uuid)), a array(varchar), aa array(array(integer)),
    m map(varchar, bigint), mm map(varchar, row(p date, q decimal(5, 1)))
"""


def basic(i: int) -> dict[str, Any]:
    return {
        "id": i,
        "text": None if i % 11 == 0 else f"t{i % 7}",
        "at": f"2024-{1 + i % 3:02}-{1 + i % 5:02}T{i % 24:02}:00:00.{i:06}Z",
        "n": f"{i - 50}.25",
    }


def every_type(i: int) -> dict[str, Any]:
    if i % 5 == 0:
        return {"id": i}
    return {
        "id": i, "b": i % 2 == 0, "i": i - 7, "f": i / 4, "d": -i / 3, "n": f"{i}.0001",
        "big": f"{i * 10**20}.000000001", "s": f"héllo {i}", "x": "AAEC",
        "day": f"19{50 + i % 50}-01-02",
        "u": f"6f9619ff-8b86-d011-b42d-{i:012d}", "t": "1969-12-31T23:59:59.999999",
        "z": "2024-02-29T01:02:03.123456+02:00",
        "r": {"a": i, "b": {"c": "x", "u": "6f9619ff-8b86-d011-b42d-00c04fc964ff"}},
        "a": ["p", None, ""], "aa": [[1], [], None], "m": {"k": i, "n": None},
        "mm": {"k": {"p": "2024-01-01", "q": 1.5}},
    }  # fmt: skip


def some_bad(i: int) -> Any:
    return basic(i) if i % 4 else b"{"


def special_numbers(i: int) -> bytes:
    number = ("NaN", "-Infinity", "0.0", "-0.0", "1.5")[i % 5]
    return f'{{"id": {i}, "f": {number}, "d": {number}}}'.encode()


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """A kind of table.

    Attributes:
        name: What is special about it.
        columns: Its columns.
        record: Makes a record.
        options: How it is created.
        between: What is done to it between its cold rows and its tail, in Spark's SQL or by a
            foreign hand.
        rows: Cold rows, and rows of the tail.
        exact: Whether its rows are exactly the records of the log.
        unread_by: Readers that cannot read it.
        engine: What the gateway's own SQL runs on.
    """

    name: str
    columns: str = BASIC
    record: Callable[[int], Any] = basic
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    between: Sequence[str | Callable[[Stack, str], None]] = ()
    rows: tuple[int, int] = (120, 80)
    exact: bool = True
    unread_by: tuple[str, ...] = ()
    engine: str = "duckdb"

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


NULL_PARTITIONS = ("pyiceberg planned",)
"""Its model of a plan takes the specification, which forgot partition values of null, at its
word."""


def partitioned(name: str, *words: str, unread_by: tuple[str, ...] = (), **options: Any) -> Shape:
    options["partitioning"] = words
    return Shape(name, options=options, unread_by=unread_by)


def equality_delete(stack: Stack, name: str) -> None:
    delete_where_equal(stack.load(name).iceberg, "id", [3, 7, 65])


MERGE_ON_READ = "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
SHAPES = (
    Shape("plain"),
    Shape("plain in version 3", options={"format_version": 3}),
    Shape("every type", EVERY_TYPE, every_type),
    Shape("every type in version 3", EVERY_TYPE, every_type, {"format_version": 3}),
    Shape("special numbers", "id bigint, f real, d double", special_numbers),
    partitioned("by a value", "text", unread_by=NULL_PARTITIONS),
    partitioned("by buckets and days", "bucket(4, id)", "day(at)"),
    partitioned("by month and year", "month(at)", "year(at)", format_version=3),
    partitioned("by hour", "hour(at)"),
    partitioned(
        "by parts of values", "truncate(2, text)", "truncate(10, id)", unread_by=NULL_PARTITIONS
    ),
    partitioned("by a decimal", "n", format_version=3),
    Shape(
        "by a uuid",
        EVERY_TYPE,
        every_type,
        {"partitioning": ("u", "bucket(3, x)", "day")},
        unread_by=NULL_PARTITIONS,
    ),
    Shape("into too many partitions", options={"partitioning": ("id",)}, rows=(20, 300)),
    Shape("sorted", options={"sorted_by": ("text DESC NULLS FIRST", "id")}),
    Shape("partitioned and sorted", options={"partitioning": ("day(at)",), "sorted_by": ("n",)}),
    Shape(
        "with a column more",
        between=["ALTER TABLE {t} ADD COLUMN extra bigint", "ALTER TABLE {t} RENAME COLUMN n TO m"],
    ),
    Shape(
        "with a column dropped and added again",
        between=["ALTER TABLE {t} DROP COLUMN text", "ALTER TABLE {t} ADD COLUMN text string"],
    ),
    Shape(
        "with wider columns",
        columns="id bigint, i integer, n decimal(9, 2), f real",
        record=lambda i: {"id": i, "i": i, "n": f"{i}.25", "f": i / 2},
        between=[
            "ALTER TABLE {t} ALTER COLUMN i TYPE bigint",
            "ALTER TABLE {t} ALTER COLUMN n TYPE decimal(20, 2)",
            "ALTER TABLE {t} ALTER COLUMN f TYPE double",
        ],
    ),
    Shape(
        "partitioned later",
        between=[
            "ALTER TABLE {t} ADD PARTITION FIELD days(at)",
            "ALTER TABLE {t} ADD PARTITION FIELD bucket(3, id)",
            "ALTER TABLE {t} WRITE ORDERED BY id",
        ],
    ),
    Shape(
        "not partitioned any more",
        options={"partitioning": ("day(at)",)},
        between=["ALTER TABLE {t} DROP PARTITION FIELD days(at)"],
    ),
    Shape(
        "with position deletes",
        between=[MERGE_ON_READ, "DELETE FROM {t} WHERE id % 3 = 0 AND id < 120"],
        exact=False,
    ),
    Shape(
        "with deletion vectors",
        options={"format_version": 3, "partitioning": ("bucket(2, id)",)},
        between=[MERGE_ON_READ, "DELETE FROM {t} WHERE id % 3 = 0 AND id < 120"],
        exact=False,
    ),
    Shape(
        "with equality deletes",
        between=[equality_delete],
        exact=False,
        unread_by=("pyiceberg", "pyiceberg planned"),
        engine="auto",
    ),
    Shape("with bad records as nulls", record=some_bad, options={"on_error": "null"}),
    Shape("with bad records left out", record=some_bad, options={"on_error": "skip"}, exact=False),
    Shape("all hot", rows=(0, 90)),
    Shape("all cold", rows=(90, 0)),
)


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
        if way.startswith("pyiceberg"):  # gives a list or map that is null as an empty one
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
