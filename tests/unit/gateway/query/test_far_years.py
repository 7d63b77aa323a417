"""Goal: a date of any year, such as a mistyped one, makes no result unreadable.

Method: days of every century that DuckDB has, near and far, at any depth, by every form of result;
Java's calendar, which Arrow's own texts follow, says what they are.
"""

from __future__ import annotations

import datetime
import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.gateway import Gateway

import seamline
from seamline.errors import NUMERIC_OVERFLOW
from seamline.gateway.query.far_years import python_values

FAR = "DATE '9999-12-31' + INTERVAL '1' DAY"


def test_texts_are_those_of_the_calendar() -> None:
    chance = random.Random(1)
    days = [0, None, *(chance.randint(-4_000_000, 10_000_000) for _ in range(5000))]
    dates = pa.array(days, pa.int32()).cast(pa.date32())
    texts = pc.strftime(dates, "%Y-%m-%d").to_pylist()
    for found, text in zip(python_values(dates), texts, strict=True):
        shown = found.isoformat() if isinstance(found, datetime.date) else found
        assert (shown or "").lstrip("+") == (text or "")


def test_at_any_depth() -> None:
    day = pa.array([3_000_000, 0, None], pa.int32()).cast(pa.date32())
    moments = pa.array([1 << 59, 0, None]).cast(pa.timestamp("us", "UTC"))
    near = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    rows = pa.StructArray.from_arrays([day, moments], ["d", "t"])
    assert python_values(rows) == [
        {"d": "+10183-09-21", "t": "+20237-04-25 10:45:03.423488 UTC"},
        {"d": near.date(), "t": near},
        {"d": None, "t": None},
    ]
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3]), day)
    assert python_values(lists) == [["+10183-09-21", near.date()], [None]]
    maps = pa.MapArray.from_arrays(pa.array([0, 1]), pa.array(["k"]), day[:1])
    assert python_values(maps) == [[("k", "+10183-09-21")]]
    assert python_values(lists[1:]) == [[None]]


@pytest.mark.parametrize("form", ["ndjson", "json", "csv"])
def test_by_http(offline_gateway: Gateway, form: str) -> None:
    accepted = {"ndjson": "application/x-ndjson", "json": "application/json", "csv": "text/csv"}
    sql = f"SELECT {FAR} AS d, 1 AS n"
    headers = {"Accept": accepted[form], "Content-Type": "text/plain"}
    answer = offline_gateway.app.test_client().post("/api/v1/query", data=sql, headers=headers)
    assert answer.status_code == 200, answer.data
    assert "+10000-01-01" in answer.get_data(as_text=True)


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        (FAR, "+10000-01-01"),
        ("TIMESTAMP '9999-12-31 23:59:59.5' + INTERVAL '1' DAY", "+10000-01-01 23:59:59.500"),
        (f"ARRAY[{FAR}]", ["+10000-01-01"]),
        ("DATE '0001-01-01' - INTERVAL '1' DAY", "0000-12-31"),
    ],
)
def test_by_trinos_protocol(offline_gateway: Gateway, sql: str, shown: Any) -> None:
    client = offline_gateway.app.test_client()
    answer = client.post("/v1/statement", data=f"SELECT {sql}", headers={"X-Trino-User": "ada"})
    page = answer.get_json()
    while "data" not in page:
        assert "error" not in page, page
        page = client.get(page["nextUri"].partition("://")[2].partition("/")[2]).get_json()
    assert page["data"] == [[shown]]


def test_python_is_told_that_it_has_no_such_date(offline_gateway: Gateway) -> None:
    with offline_gateway.connect() as connection, pytest.raises(seamline.DataError) as caught:
        connection.execute(f"SELECT {FAR}").fetchall()
    assert caught.value.code is NUMERIC_OVERFLOW
    assert "varchar" in caught.value.hint
