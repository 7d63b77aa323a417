"""Goal: a random value is drawn once for each row, however often the query around it reads it.

Method: a table with random numbers beside each row, wherever its rows are, below everything that a
query can do. Each query counts the rows in which two readers of one number saw different ones.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import pyarrow as pa
import pytest
from support.engine_tables import Storage, answer, arrow_schema, bound

from seamline.connectors.duckdb.workers import DuckDBWorkers
from seamline.sql.types import BIGINT, Field

FIELDS = (Field("n", BIGINT, 1), Field("v", BIGINT, 2))
ROWS = 3_000
DRAWN = "(SELECT n, v, random(10) AS x, random() AS y FROM p) AS r"
QUERIES: Mapping[str, str] = {
    "columns": "SELECT count_if(a <> b) FROM (SELECT x AS a, x + 0 AS b FROM r)",
    "filter": "SELECT count_if(x <= 5) FROM r WHERE x > 5",
    "filter of a subquery": "SELECT count_if(x <= 5) FROM (SELECT x FROM r WHERE x > 5)",
    "between": "SELECT count_if(NOT y BETWEEN y AND y) FROM r",
    "first": "SELECT count_if(a <> b) FROM (SELECT y AS a, y + 0 AS b FROM r ORDER BY y LIMIT 10)",
    "first of each": (
        "SELECT count_if(y <> m) FROM (SELECT y, max(y) OVER (PARTITION BY v) AS m,"
        " row_number() OVER (PARTITION BY v ORDER BY y DESC) AS k FROM r) WHERE k = 1"
    ),
    "join": "SELECT count_if(x <> p.v) FROM r JOIN p ON x = p.v",
    "in": "SELECT count_if(x > 2) FROM r WHERE x IN (SELECT v FROM p WHERE v < 3)",
    "in list": "SELECT count_if(x NOT IN (1, 2)) FROM r WHERE x IN (1, 2)",
    "exists": (
        "SELECT count_if(x > 2) FROM r WHERE EXISTS (SELECT 1 FROM p WHERE p.v = x AND p.v < 3)"
    ),
    "scalar": (
        "SELECT count_if(x <> z) FROM"
        " (SELECT x, (SELECT max(p.v) FROM p WHERE p.v = x) AS z FROM r)"
    ),
    "quantified": "SELECT count_if(x < 9) FROM r WHERE x >= ALL (SELECT v FROM p)",
    "groups": "SELECT count(*) - count(DISTINCT x) FROM (SELECT x, count(*) FROM r GROUP BY x)",
    "distinct": "SELECT count(*) - count(DISTINCT x) FROM (SELECT DISTINCT x FROM r)",
    "aggregates": (
        "SELECT count_if(a <> b OR c <> d) FROM (SELECT sum(x) AS a, sum(x + 0) AS b,"
        " max_by(y, y) AS c, max(y) AS d FROM r GROUP BY v)"
    ),
    "average": (
        "SELECT count_if(abs(a - s / c) > 1e-9) FROM"
        " (SELECT avg(y) AS a, sum(y) AS s, count(y) AS c FROM r GROUP BY v)"
    ),
    "filtered aggregates": (
        "SELECT count_if(a + b <> s) FROM (SELECT sum(x) FILTER (WHERE x > 5) AS a,"
        " sum(x) FILTER (WHERE x <= 5) AS b, sum(x) AS s FROM r GROUP BY v)"
    ),
    "grouping sets": (
        "SELECT count(DISTINCT s) - 1 FROM (SELECT sum(s) AS s FROM (SELECT grouping(v) AS g,"
        " sum(x) AS s FROM r GROUP BY ROLLUP (v)) GROUP BY g)"
    ),
    "window": "SELECT sum(x) - max(s) FROM (SELECT x, sum(x) OVER () AS s FROM r)",
    "partitions": (
        "SELECT count_if(d <> 0) FROM (SELECT sum(x) - max(s) AS d FROM"
        " (SELECT v, x, sum(x) OVER (PARTITION BY v) AS s FROM r) GROUP BY v)"
    ),
    "aggregates and a window": (
        "SELECT count_if(s <> t) FROM"
        " (SELECT sum(x) AS s, sum(sum(x)) OVER (PARTITION BY v) AS t FROM r GROUP BY v)"
    ),
    "average of a window": (
        "SELECT count_if(abs(a - b) > 1e-9) FROM (SELECT avg(y) OVER (PARTITION BY v) AS a,"
        " sum(y) OVER (PARTITION BY v) / count(*) OVER (PARTITION BY v) AS b FROM r)"
    ),
    "union": "SELECT count_if(x <= 5) FROM (SELECT x FROM r UNION ALL SELECT v FROM p) WHERE x > 5",
    "case": (
        "SELECT count_if(c = 2) FROM (SELECT CASE WHEN x > 5 THEN CASE WHEN x <= 5 THEN 2 ELSE 1"
        " END WHEN x > 5 THEN 2 ELSE 0 END AS c FROM r)"
    ),
    "nullif": "SELECT count(nullif(y, y)) FROM r",
    "unnest": "SELECT count_if(x <> u) FROM r CROSS JOIN UNNEST(ARRAY[x]) AS t(u)",
    "lateral": "SELECT count_if(x <> u) FROM r CROSS JOIN LATERAL (SELECT x AS u)",
    "lateral aggregate": (
        "SELECT count_if(x <> u) FROM r"
        " CROSS JOIN LATERAL (SELECT max(p.v) AS u FROM p WHERE p.v = x)"
    ),
}


@pytest.mark.parametrize("place", ["hot", "cold", "both"])
def test_random_values_are_drawn_once(
    place: str, engine: DuckDBWorkers, tmp_path: pathlib.Path
) -> None:
    numbers = {"n": list(range(ROWS)), "v": [n % 10 for n in range(ROWS)]}
    stored = Storage(tmp_path).stored(pa.table(numbers, schema=arrow_schema(FIELDS)), place)
    for name, sql in QUERIES.items():
        query, tables = bound(sql.replace("FROM r", f"FROM {DRAWN}"), {"p": FIELDS})
        assert answer(engine, query, tables, {"p": stored}) == ["(0,)"], name
