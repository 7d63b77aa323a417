"""Goal: text for dates and numbers for days are taken from dialects that have them, no other.

Method: the same statements in several dialects, run by DuckDB through the gateway.
"""

from __future__ import annotations

import datetime

import pytest
from support.gateway import Gateway

from seamline.errors import SeamlineError

DATES = (
    "(SELECT CAST('2024-01-31' AS DATE) AS x, CAST('2024-01-31 10:00:00' AS TIMESTAMP) AS y) AS t"
)
LOOSE = ("duckdb", "postgres", "mysql", "spark", "snowflake", "bigquery", "sqlite")
IN_DAYS = ("duckdb", "postgres", "snowflake")
PLUS_DAYS = ("spark", "bigquery")


@pytest.mark.parametrize("dialect", LOOSE)
def test_text_is_compared_with_dates(dialect: str, offline_gateway: Gateway) -> None:
    sql = (
        "SELECT x = '2024-01-31', x BETWEEN '2024-01-01' AND '2024-02-01', '2024-02-01' < x,"
        f" x IN ('2024-01-30', '2024-1-31'), y > '2024-01-31 09:59:59', 'a' = 'b' FROM {DATES}"
    )
    found = offline_gateway.rows(sql, dialect=dialect)
    assert found == [(True, True, False, True, True, False)]


@pytest.mark.parametrize("dialect", [*IN_DAYS, *PLUS_DAYS])
def test_whole_numbers_are_days(dialect: str, offline_gateway: Gateway) -> None:
    found = offline_gateway.rows(f"SELECT x + 5, x - 31, 1 + 2 FROM {DATES}", dialect=dialect)
    assert found == [(datetime.date(2024, 2, 5), datetime.date(2023, 12, 31), 3)]


@pytest.mark.parametrize("dialect", IN_DAYS)
def test_dates_differ_by_days(dialect: str, offline_gateway: Gateway) -> None:
    sql = (
        "SELECT x - CAST('2023-01-31' AS DATE), 5 + x, n - n, x + n"
        f" FROM {DATES}, (SELECT 1 AS n) AS u"
    )
    assert offline_gateway.rows(sql, dialect=dialect) == [
        (365, datetime.date(2024, 2, 5), 0, datetime.date(2024, 2, 1))
    ]


@pytest.mark.parametrize("condition", ["x = '2024-01-31'", "x IN ('2024-01-31')", "x + 5 = x"])
@pytest.mark.parametrize("dialect", ["trino", "presto"])
def test_trino_takes_neither(condition: str, dialect: str, offline_gateway: Gateway) -> None:
    with pytest.raises(SeamlineError, match="TYPE_MISMATCH"):
        offline_gateway.rows(f"SELECT {condition} FROM {DATES}", dialect=dialect)
