"""Goal: a row is filtered alike whether it is still in the log or in a file.

Method: the same rows in every place, as a decoded tail and as files, asked the same questions
through the real engine: every comparison with every value at the edges of a type, lists, joins and
subqueries, which DuckDB turns into filters of its own. The files have bloom filters.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from support.engine_tables import PLACES, Storage, answer, arrow_schema, bound, table_of

from seamline.connectors.duckdb.workers import DuckDBWorkers
from seamline.sql import types
from seamline.sql.types import BIGINT, Field

MOMENTS = [datetime.datetime(year, 1, 2, 3) for year in (1000, 2024, 9999)]
NAN, INFINITY = float("nan"), float("inf")
FLOATS = [1.5, NAN, -0.0, INFINITY, -INFINITY, 0.0]

VALUES: dict[str, tuple[list[Any], list[str]]] = {
    "bigint": ([1, -(2**63), 2**63 - 1], ["1", "-9223372036854775808", "9223372036854775807"]),
    "double": (FLOATS, ["1.5e0", "nan()", "infinity()", "-infinity()", "0e0"]),
    "real": (FLOATS, [f"CAST({v} AS real)" for v in ("1.5e0", "nan()", "infinity()", "0e0")]),
    "decimal(9,2)": ([decimal.Decimal("1.50"), decimal.Decimal("-2.25")], ["1.50", "-2.25"]),
    "varchar": (["", "a", "ab", "it's", "😀"], ["''", "'a'", "'it''s'", "'😀'"]),
    "varbinary": ([b"", b"a", b"\xff"], ["X''", "X'61'", "X'FF'"]),
    "boolean": ([True, False], ["true", "false"]),
    "date": ([m.date() for m in MOMENTS], [f"DATE '{m:%Y-%m-%d}'" for m in MOMENTS]),
    "timestamp": (MOMENTS, [f"TIMESTAMP '{m}'" for m in MOMENTS]),
    "timestamp with time zone": (
        [m.replace(tzinfo=datetime.UTC) for m in MOMENTS],
        [f"TIMESTAMP '{m} UTC'" for m in MOMENTS],
    ),
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBWorkers]:
    spill = str(tmp_path_factory.mktemp("spill"))
    running = DuckDBWorkers(memory_bytes=1 << 28, threads=1, spill_directory=spill, spill_bytes=1)
    yield running
    running.close()


def conditions(literals: list[str]) -> Iterator[str]:
    for sign, one in itertools.product(["=", "<>", "<", "<=", ">", ">="], literals):
        yield f"c {sign} {one}"
    for one, other in itertools.pairwise([*literals, literals[0]]):
        yield f"NOT (c < {one})"
        yield f"r.c > {one}"
        yield f"r.c = {one}"
        yield f"c BETWEEN {one} AND {other}"
        yield f"c IN ({one}, {other})"
        yield f"c NOT IN ({one}, {other})"
        yield f"c > {one} OR c = {other}"
        yield f"c = {one} OR c = {other}"
    yield f"c IN ({', '.join(literals)}) AND n > 0"
    yield "c IS NULL"
    yield "c IN (SELECT c FROM t WHERE n > 0)"
    yield "c >= (SELECT min(c) FROM t WHERE n <> 1)"


@pytest.mark.one_in(test=9)
@pytest.mark.parametrize("name", VALUES)
def test_hot_and_cold_rows_pass_the_same_filters(
    name: str, engine: DuckDBWorkers, tmp_path: pathlib.Path
) -> None:
    type_ = types.parse(name)
    fields = (
        Field("n", BIGINT, 1),
        Field("c", type_, 2),
        Field("r", types.Row((Field("c", type_, 4),)), 3),
    )
    values, literals = VALUES[name]
    rows = [{"n": n, "c": v, "r": {"c": v}} for n, v in enumerate([*values, None])]
    table = pa.Table.from_pylist(rows, schema=arrow_schema(fields))
    storage = Storage(tmp_path)
    asked = [f"SELECT n, {n} AS m FROM t WHERE {w}" for n, w in enumerate(conditions(literals))]
    asked += [
        "SELECT a.n, b.n AS m FROM t a JOIN t b ON a.c = b.c WHERE b.n > 0",
        f"SELECT a.n, b.n AS m FROM t a JOIN t b ON a.c = b.c AND a.c >= {literals[0]}",
    ]
    query, names = bound(" UNION ALL ".join(asked), {"t": fields})
    hot, *others = (
        answer(engine, query, names, {"t": storage.stored(table, place)}) for place in PLACES
    )
    assert all(other == hot for other in others)


@pytest.mark.parametrize("place", PLACES)
def test_rows_count_where_nothing_else_of_them_matters(
    place: str, engine: DuckDBWorkers, tmp_path: pathlib.Path
) -> None:
    fields = (Field("n", BIGINT, 1),)
    table = pa.Table.from_pylist([{"n": n} for n in range(5)], schema=arrow_schema(fields))
    none = table.slice(0, 0)
    storage = Storage(tmp_path)
    tables = {"t": storage.stored(table, place)}
    for sql, found in (
        ("SELECT count(*) AS n FROM t", [{"n": 5}]),
        ("SELECT 7 AS n FROM t LIMIT 2", [{"n": 7}, {"n": 7}]),
        ("SELECT count(*) AS n FROM t a, t b", [{"n": 25}]),
        ("SELECT count(*) + max(a.n) AS n FROM t a, t b", [{"n": 29}]),
        ("SELECT (SELECT count(*) FROM t) AS n FROM t WHERE n = 1", [{"n": 5}]),
        ("SELECT count(*) AS n FROM t WHERE false", [{"n": 0}]),
    ):
        assert table_of(engine, *bound(sql, {"t": fields}), tables).to_pylist() == found, sql
    if place != "deleted":
        query, names = bound("SELECT count(*) AS n FROM t", {"t": fields})
        empty = {"t": storage.stored(none, place)}
        assert table_of(engine, query, names, empty).to_pylist() == [{"n": 0}]
