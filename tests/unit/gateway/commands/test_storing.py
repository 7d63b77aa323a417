"""Goal: a column stores what Trino stores of a value of another type, or the statement fails.

Method: pairs of a column and a value, as Trino's own tests have them, through INSERT, UPDATE and
MERGE. The types have a common type, and the value is cast; one that is out of range is refused.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import pytest
from support import offline
from support.gateway import Gateway

from seamline.errors import SeamlineError

WRITES = (
    "INSERT INTO {t} VALUES (1, {v})",
    "INSERT INTO {t} (x, id) SELECT {v}, 1",
    "UPDATE {t} SET x = {v} WHERE id = 0",
    "MERGE INTO {t} AS t USING (SELECT 0 AS id) AS s ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET x = {v} WHEN NOT MATCHED THEN INSERT VALUES (2, {v})",
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    running = Gateway(offline.config(tmp_path_factory.mktemp("storing")))
    yield running
    running.close()


def table_of(gateway: Gateway, type_: str) -> str:
    """An own table with a column of a type."""
    gateway.rows("DROP TABLE IF EXISTS t")
    gateway.rows(f"CREATE TABLE t (id integer, x {type_})")
    gateway.rows("INSERT INTO t VALUES (0, NULL)")
    return "t"


@pytest.mark.one_in(test=4)
@pytest.mark.parametrize("sql", WRITES, ids=["insert", "select", "update", "merge"])
@pytest.mark.parametrize(
    ("type_", "value", "stored"),
    [
        ("integer", "2e0", 2),
        ("integer", "1.5", 2),
        ("integer", "-2.5e0", -3),
        ("bigint", "REAL '1.5'", 2),
        ("decimal(5,2)", "1.005", decimal.Decimal("1.01")),
        ("decimal(5,2)", "1.2345e0", decimal.Decimal("1.23")),
        ("decimal(5,2)", "DECIMAL '1.50' * 1.17", decimal.Decimal("1.76")),
        ("date", "TIMESTAMP '2019-11-18 22:13:40'", datetime.date(2019, 11, 18)),
        ("date", "TIMESTAMP '2019-11-18 23:13:40 America/New_York'", datetime.date(2019, 11, 18)),
        ("timestamp(6)", "DATE '2020-01-01'", datetime.datetime(2020, 1, 1)),
        ("array(integer)", "ARRAY[1.5e0, NULL]", [2, None]),
        (
            "row(a integer, b date)",
            "CAST(ROW(1.5, TIMESTAMP '2019-11-18 22:13:40') AS row(a double, b timestamp))",
            {"a": 2, "b": datetime.date(2019, 11, 18)},
        ),
    ],
)
def test_values_are_rounded_to_what_a_column_holds(
    gateway: Gateway, sql: str, type_: str, value: str, stored: Any
) -> None:
    table = table_of(gateway, type_)
    assert gateway.rows(sql.format(t=table, v=value)) == [(1,)]
    assert gateway.rows(f"SELECT x FROM {table} WHERE x IS NOT NULL") == [(stored,)]


@pytest.mark.one_in(test=2)
@pytest.mark.parametrize(
    ("type_", "value", "codes"),
    [
        ("integer", "3e9", {"NUMERIC_OVERFLOW"}),
        ("integer", "BIGINT '3000000000'", {"NUMERIC_OVERFLOW"}),
        ("integer", "3000000000.4", {"NUMERIC_OVERFLOW", "INVALID_CAST"}),
        ("integer", "nan()", {"NUMERIC_OVERFLOW", "INVALID_CAST"}),
        ("decimal(5,2)", "999.995", {"NUMERIC_OVERFLOW"}),
        ("decimal(5,2)", "infinity()", {"NUMERIC_OVERFLOW", "INVALID_CAST"}),
        ("map(varchar, integer)", "MAP(ARRAY['a'], ARRAY[1.5])", {"NOT_SUPPORTED"}),
        ("varchar", "5", {"TYPE_MISMATCH"}),
        ("integer", "'5'", {"TYPE_MISMATCH"}),
        ("integer", "true", {"TYPE_MISMATCH"}),
        ("boolean", "1", {"TYPE_MISMATCH"}),
        ("date", "'2020-01-01'", {"TYPE_MISMATCH"}),
        ("timestamp(6)", "TIME '01:02:03'", {"TYPE_MISMATCH"}),
        ("varbinary", "'x'", {"TYPE_MISMATCH"}),
    ],
)
def test_what_does_not_fit_is_refused(
    gateway: Gateway, type_: str, value: str, codes: set[str]
) -> None:
    table = table_of(gateway, type_)
    for sql in WRITES:
        with pytest.raises(SeamlineError) as caught:
            gateway.rows(sql.format(t=table, v=value))
        assert caught.value.code.name in codes, (sql, caught.value)
    assert gateway.rows(f"SELECT * FROM {table}") == [(0, None)]


def test_values_of_other_cases_of_a_merge_are_not_cast(gateway: Gateway) -> None:
    table = table_of(gateway, "integer")
    gateway.rows(
        f"MERGE INTO {table} AS t USING (VALUES (0, 1.5e0), (7, 3e9)) AS s (id, v) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET x = s.v WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    )
    assert gateway.rows(f"SELECT * FROM {table} ORDER BY id") == [(0, 2), (7, None)]


# --- Nulls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "told", "remedy"),
    [
        ("INSERT INTO n VALUES (NULL, 'a')", "a row has none", "coalesce"),
        ("INSERT INTO n SELECT nullif(id, 1), x FROM n", "a row has none", "coalesce"),
        ("INSERT INTO n (x) VALUES ('a')", "the statement gives it none", "Give it a value"),
        ("UPDATE n SET id = NULL", "a row has none", "coalesce"),
        (
            "MERGE INTO n USING (SELECT 9 AS id) AS s ON n.id = s.id"
            " WHEN NOT MATCHED THEN INSERT (x) VALUES ('a')",
            "the statement gives it none",
            "Give it a value",
        ),
    ],
)
def test_a_null_in_a_column_without_nulls_says_what_to_do(
    gateway: Gateway, sql: str, told: str, remedy: str
) -> None:
    gateway.rows("CREATE OR REPLACE TABLE n (id integer NOT NULL, x varchar)")
    gateway.rows("INSERT INTO n VALUES (1, 'x')")
    with pytest.raises(SeamlineError) as caught:
        gateway.rows(sql)
    assert caught.value.code.name == "INVALID_ARGUMENT"
    assert caught.value.message.startswith("column id of lake.default.n is NOT NULL")
    assert told in caught.value.message
    assert remedy in caught.value.hint
    assert "ALTER COLUMN id DROP NOT NULL" in caught.value.hint
    assert gateway.rows("SELECT * FROM n") == [(1, "x")]
    gateway.rows("ALTER TABLE n ALTER COLUMN id DROP NOT NULL")
    gateway.rows(sql)


# --- WITH ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (
            "DELETE FROM w",
            "DELETE FROM w WHERE id IN (WITH x AS (SELECT 1 AS id) SELECT id FROM x)",
        ),
        ("UPDATE w SET id = 2", "UPDATE w SET id = (WITH x AS (SELECT 2 AS id) SELECT id FROM x)"),
        ("INSERT INTO w SELECT * FROM x", "INSERT INTO w WITH x AS (SELECT 2) SELECT * FROM x"),
        (
            "MERGE INTO w USING x ON w.id = x.id WHEN MATCHED THEN DELETE",
            "MERGE INTO w USING (WITH x AS (SELECT 1 AS id) SELECT id FROM x) AS s"
            " ON w.id = s.id WHEN MATCHED THEN DELETE",
        ),
        (
            "CREATE TABLE w2 AS SELECT * FROM x",
            "CREATE TABLE w2 AS WITH x AS (SELECT 1 AS a) SELECT a FROM x",
        ),
    ],
    ids=["delete", "update", "insert", "merge", "create"],
)
def test_with_stands_in_the_query(gateway: Gateway, wrong: str, right: str) -> None:
    """Where the error says that it does."""
    gateway.rows("CREATE OR REPLACE TABLE w AS SELECT 1 AS id")
    what = wrong.split()[0]
    with pytest.raises(SeamlineError) as caught:
        gateway.rows(f"WITH x AS (SELECT 1 AS id) {wrong}")
    assert caught.value.code.name == "SYNTAX_ERROR"
    assert caught.value.message == f"WITH belongs to a query, and cannot stand before {what}"
    assert caught.value.hint.startswith(what)
    assert "WITH x AS" in caught.value.hint
    gateway.rows(right)
