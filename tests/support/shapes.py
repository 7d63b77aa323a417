"""Kinds of table, with what is special about each: types, layout, and what was done to its rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from support.foreign import delete_where_equal
from support.stack import Stack

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
    ),
    Shape("with bad records as nulls", record=some_bad, options={"on_error": "null"}),
    Shape("with bad records left out", record=some_bad, options={"on_error": "skip"}, exact=False),
    Shape("all hot", rows=(0, 90)),
    Shape("all cold", rows=(90, 0)),
)
