"""Goal: try(x) is null in the rows where x fails, and x everywhere else.

Method: each expression over all rows at once, and over each row alone without try: there it gives
its value or fails with the name of what try catches.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from support.nesting import NOW

from seamline.connectors.duckdb.errors import named_error
from seamline.connectors.duckdb.instances import Instance
from seamline.errors import SeamlineError
from seamline.sql.binder.qualify import qualify
from seamline.sql.engines import render
from seamline.sql.parsing import parameters, parse

CAUGHT = {"DIVISION_BY_ZERO", "INVALID_ARGUMENT", "INVALID_CAST", "NUMERIC_OVERFLOW"}
COLUMNS = {
    "i": ["0", "1", "-3", "2147483647", "NULL"],
    "d": ["0.0", "1.5", "-99999.9", "0.1", "NULL"],
    "s": ["'12'", "'x'", "''", "'2024-02-29'", "NULL"],
    "a": ["ARRAY[1, 2]", "ARRAY[0]", "ARRAY[NULL]", "ARRAY[7, 7]", "NULL"],
}
ROWS = [", ".join(column[n] for column in COLUMNS.values()) for n in range(5)] + [
    ", ".join(column[(n * k) % 5] for k, column in enumerate(COLUMNS.values(), 1)) for n in range(5)
]
EXPRESSIONS = [
    "10 / i", "i + 1", "i * i", "-i - 2147483647", "10 % i", "10 / (i - 1) + 1 / i",
    "d / i", "d * 99999999999999999999999999999999999", "d % d", "1 / d", "i / 0.0e0",
    "CAST(s AS integer)", "CAST(s AS date)", "CAST(s AS double) / i", "CAST(d AS tinyint)",
    "CAST(i AS smallint)", "CAST(s AS decimal(2, 1))", "CAST(a AS array(tinyint))",
    "coalesce(10 / i, 5)", "coalesce(try(10 / i), CAST(s AS integer))", "10 / i IS NULL",
    "CASE WHEN i = 0 THEN 7 ELSE 10 / i END", "CASE WHEN 10 / i > 3 THEN s ELSE 'low' END",
    "if(i > 0, CAST(s AS bigint))", "nullif(CAST(s AS integer), 12)", "greatest(10 / i, 3)",
    "a[i]", "element_at(a, i)", "transform(a, x -> 10 / x)",
    "reduce(a, 0, (t, x) -> t + 1 / x, t -> t)",
    "filter(a, x -> 10 / x > 1)", "map(a, a)", "cardinality(map(a, a))", "array_max(a) / i",
    "date_parse(s, '%Y-%m-%d')", "from_iso8601_date(s)", "regexp_like('12', s || '(')",
    "json_parse(s)", "from_hex(s)", "substr(s, i)", "chr(i)", "repeat(s, i)", "log(i, 10)",
    "CAST(s AS date) + INTERVAL '1' DAY", "width_bucket(i, 0, 10, i)", "ROW(i, 10 / i)",
    "concat(s, CAST(10 / i AS varchar))", "10 / i IN (1, 2)", "10 / i BETWEEN 1 AND 20",
]  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> Instance:
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    connection.execute("SET TimeZone = 'UTC'")
    return Instance(connection)


def computed(engine: Instance, expression: str, rows: list[str]) -> list[Any]:
    names = ", ".join(COLUMNS)
    typed = (
        "CAST(i AS integer) AS i, CAST(d AS decimal(10, 1)) AS d, CAST(s AS varchar) AS s,"
        " CAST(a AS array(integer)) AS a"
    )
    values = ", ".join(f"({row}, {n})" for n, row in enumerate(rows))
    sql = (
        f"SELECT {expression} FROM (SELECT {typed}, n FROM (VALUES {values}) AS v({names}, n)) AS t"
        " ORDER BY n"
    )
    query = parse.parse(sql)
    assert isinstance(query, parse.Query)
    bound = qualify(parameters.bind(query, []), [], now=NOW).tree
    engine.learn(render.kernels(bound, "duckdb"))
    try:
        found = engine.connection.execute(render.to_duckdb(bound)).fetchall()
    except duckdb.Error as error:
        raise named_error(error) from error
    return [row[0] for row in found]


@pytest.mark.one_in(test=6)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_fails_alone_is_null(engine: Instance, expression: str) -> None:
    expected = []
    for row in ROWS:
        try:
            expected += computed(engine, expression, [row])
        except SeamlineError as error:
            assert error.code.name in CAUGHT, error
            expected.append(None)
    assert list(map(repr, computed(engine, f"try({expression})", ROWS))) == list(
        map(repr, expected)
    )


@pytest.mark.parametrize("expression", ["coalesce(10 / i, 5)", "if(i < 1, 10 / i, 3)"])
def test_many_rows_do_not_write_into_each_other(expression: str) -> None:
    # DuckDB's TRY lets COALESCE and CASE write beyond their memory, which ends the process
    query = parse.parse(f"SELECT try({expression}) FROM (VALUES CAST(1 AS integer)) AS t(i)")
    assert isinstance(query, parse.Query)
    bound = qualify(parameters.bind(query, []), [], now=NOW).tree
    (kernel,) = render.kernels(bound, "duckdb").values()
    numbers = [0, 1, -3, 2147483647, None]
    expected = kernel(pa.array(numbers, pa.int32())).to_pylist()
    assert None in expected
    for _ in range(5):
        found = kernel(pa.array(numbers * 2000, pa.int32()))
        assert found.to_pylist() == expected * 2000
