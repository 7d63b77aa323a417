"""Goal: a text of SQL is answered with its rows, as what reads such forms everywhere reads them.

Method: `curl`, pandas and Arrow's own reader over a gateway behind HTTP; values of every type, and
results of no row, of one, and of many chunks. A result that breaks off must not look whole.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import duckdb
import pandas as pd
import psutil
import pyarrow as pa
import pytest
import urllib3
from pyarrow import parquet
from support import offline, programs
from support.gateway import Gateway
from support.served import serving

from seamline.gateway.http.query import STATEMENT_ID

VALUES = """
    SELECT 1 AS "id", true AS ok, CAST('12345.67890' AS decimal(20, 5)) AS price, 0.5e0 AS ratio,
        'ü, "x"' AS name, from_hex('0001ff') AS data, date '2024-02-29' AS day,
        timestamp '2024-02-29 01:02:03.123456 UTC' AS at, ARRAY['x', NULL] AS tags,
        CAST(ROW(1, 'y') AS row(a bigint, b varchar)) AS nested,
        MAP(ARRAY['k'], ARRAY[1]) AS counts,
        CAST(NULL AS varchar) AS nothing, nan() AS odd
"""
AS_JSON = {
    "id": 1, "ok": True, "price": "12345.67890", "ratio": 0.5, "name": 'ü, "x"', "data": "AAH/",
    "day": "2024-02-29", "at": "2024-02-29T01:02:03.123456Z", "tags": ["x", None],
    "nested": {"a": 1, "b": "y"}, "counts": {"k": 1}, "nothing": None, "odd": "NaN",
}  # fmt: skip
MANY = "SELECT x * 1000 + y AS n FROM UNNEST(sequence(1, 300)) a(x), UNNEST(sequence(1, 999)) b(y)"
SOON_S = 60
WANTED = {x * 1000 + y for x in range(1, 301) for y in range(1, 1000)}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    running = Gateway(offline.config(tmp_path_factory.mktemp("query")))
    try:
        yield running
    finally:
        running.close()


def ask(
    gateway: Gateway, sql: str, parameters: str = "", **headers: str
) -> urllib3.BaseHTTPResponse:
    """The answer to a statement."""
    url = f"{gateway.url}/api/v1/query{parameters}"
    return urllib3.request("POST", url, body=sql.encode(), headers=headers, timeout=SOON_S)


def test_curl_needs_nothing_but_sql(gateway: Gateway) -> None:
    curl = shutil.which("curl")
    assert curl is not None
    command = [curl, "--silent", "--show-error", "--fail-with-body", f"{gateway.url}/api/v1/query"]
    done = subprocess.run(
        [*command, "--data-binary", "SELECT n, n * n AS s FROM (VALUES 1, 2) t(n) ORDER BY n"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == '{"n": 1, "s": 1}\n{"n": 2, "s": 4}\n'
    done = subprocess.run(
        [*command, "--data-binary", "SELECT nothing"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 22
    assert json.loads(done.stdout)["error"]["code"] == "COLUMN_NOT_FOUND"


@pytest.mark.parametrize(
    ("asked", "headers"),
    [("?format=JSON", {}), ("", {"Accept": "application/json"}), ("?format=ndjson", {}), ("", {})],
)
def test_objects(gateway: Gateway, asked: str, headers: dict[str, str]) -> None:
    answer = ask(gateway, VALUES, asked, **headers)
    assert answer.status == 200, answer.data
    is_array = "json" in (asked + "".join(headers.values())).lower() and "nd" not in asked
    assert answer.headers["Content-Type"] == (
        "application/json" if is_array else "application/x-ndjson"
    )
    found = json.loads(answer.data)
    assert (found[0] if is_array else found) == AS_JSON


def test_csv_and_arrow(gateway: Gateway) -> None:
    answer = ask(gateway, VALUES, Accept="text/csv;q=0.9, text/plain;q=0.1")
    assert answer.headers["Content-Type"].startswith("text/csv")
    (row,) = csv.DictReader(io.StringIO(answer.data.decode()))
    assert (row["name"], row["ok"], row["price"]) == ('ü, "x"', "true", "12345.67890")
    assert json.loads(row["nested"]) == {"a": 1, "b": "y"}
    answer = ask(gateway, VALUES, "?format=arrow")
    table = pa.ipc.open_stream(answer.data).read_all()
    assert table.column_names == list(AS_JSON)
    assert table["id"].to_pylist() == [1]


@pytest.mark.one_in(test=9)
@pytest.mark.parametrize("form", ["ndjson", "json", "csv", "arrow", "parquet"])
@pytest.mark.parametrize(("sql", "wanted"), [(MANY, WANTED), (f"{MANY} WHERE x < 0", set[int]())])
def test_many_rows_and_none(gateway: Gateway, form: str, sql: str, wanted: set[int]) -> None:
    answer = ask(gateway, sql, f"?format={form}")
    assert answer.status == 200
    read: Any = {
        "ndjson": lambda data: pd.read_json(io.BytesIO(data), lines=True),
        "json": lambda data: pd.read_json(io.BytesIO(data)),
        "csv": lambda data: pd.read_csv(io.BytesIO(data)),
        "arrow": lambda data: pa.ipc.open_stream(data).read_all().to_pandas(),
        "parquet": lambda data: pd.read_parquet(io.BytesIO(data)),
    }
    frame = read[form](answer.data)
    found = frame["n"].tolist() if "n" in frame else []
    assert (len(found), set(found)) == (len(wanted), wanted)


def test_parquet_is_what_other_readers_read(gateway: Gateway, tmp_path: pathlib.Path) -> None:
    """DuckDB's own reader finds the values of Arrow, and their types."""
    answer = ask(gateway, VALUES, "?format=parquet")
    assert answer.headers["Content-Type"] == "application/vnd.apache.parquet"
    file = tmp_path / "rows.parquet"
    file.write_bytes(answer.data)
    expected = pa.ipc.open_stream(ask(gateway, VALUES, "?format=arrow").data).read_all()
    assert parquet.read_table(file).to_pylist()[0] | {"odd": None} == (
        expected.to_pylist()[0] | {"odd": None}
    )
    with duckdb.connect() as connection:
        read = connection.execute("SELECT * FROM read_parquet(?)", [str(file)])
        names = [column[0] for column in read.description or ()]
        row = dict(zip(names, read.fetchall()[0], strict=True))
    assert row["odd"] != row["odd"]
    first = expected.to_pylist()[0]
    assert {**row, "odd": 0} == {**first, "odd": 0, "counts": dict(first["counts"])}


def test_rows_of_a_statement_that_has_ended_can_be_fetched_again(gateway: Gateway) -> None:
    statement = ask(gateway, MANY).headers[STATEMENT_ID]
    url = f"{gateway.url}/api/v1/statements/{statement}/rows"
    answer = urllib3.request("GET", f"{url}?format=parquet")
    assert answer.status == 200, answer.data
    assert set(parquet.read_table(io.BytesIO(answer.data))["n"].to_pylist()) == WANTED
    assert urllib3.request("GET", f"{url}?format=xml").json()["error"]["code"] == "INVALID_REQUEST"
    failed = ask(gateway, "SELECT nothing").json()["error"]["query_id"]
    url = f"{gateway.url}/api/v1/statements/{failed}/rows"
    assert urllib3.request("GET", url).json()["error"]["code"] == "COLUMN_NOT_FOUND"


def test_its_statement_is_known(gateway: Gateway) -> None:
    answer = ask(gateway, "SELECT 1 AS n", "?engine=duckdb&row_limit=5&timeout=1e300")
    known = urllib3.request(
        "GET", f"{gateway.url}/api/v1/statements/{answer.headers[STATEMENT_ID]}"
    ).json()
    assert (known["state"], known["receipt"]["engine"]) == ("SUCCEEDED", "duckdb")


@pytest.mark.parametrize(
    ("sql", "asked", "headers", "code", "said"),
    [
        ("SELECT 1 AS a, 2 AS a", "", {}, "INVALID_REQUEST", "two columns called a"),
        ("SELECT 1", "?format=xml", {}, "INVALID_REQUEST", "format"),
        ("SELECT 1", "?limit=1", {}, "INVALID_REQUEST", "row_limit"),
        ("SELECT 1", "", {"Accept": "image/png"}, "INVALID_REQUEST", "text/csv"),
        ('{"statement": "SELECT 1"}', "", {"Content-Type": "application/json"}, "INVALID_REQUEST",
         "application/sql"),
        ("", "", {}, "INVALID_REQUEST", "text"),
        ("SELECT * FROM gone", "", {}, "TABLE_NOT_FOUND", "gone"),
        ("SELECT 1", "", {"Sec-Fetch-Site": "cross-site"}, "PERMISSION_DENIED", ""),
        ("SELECT count(*) FROM UNNEST(sequence(1, 9999)) a(x), UNNEST(sequence(1, 9999)) b(y), "
         "UNNEST(sequence(1, 9999)) c(z) WHERE x + y + z = -1", "?timeout=0.5", {},
         "DEADLINE_EXCEEDED", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(
    gateway: Gateway, sql: str, asked: str, headers: dict[str, str], code: str, said: str
) -> None:
    answer = ask(gateway, sql, asked, **headers)
    error = answer.json()["error"]
    assert answer.status >= 400
    assert error["code"] == code
    assert said in error["message"] + error["hint"]


def test_many_rows_need_a_protocol_that_marks_their_end(gateway: Gateway) -> None:
    curl = [str(shutil.which("curl")), "--silent", "--http1.0", f"{gateway.url}/api/v1/query"]
    asked = [
        subprocess.run([*curl, "--data", sql], capture_output=True, text=True, check=True).stdout
        for sql in ("SELECT 1 AS n", MANY)
    ]
    assert json.loads(asked[0]) == {"n": 1}
    error = json.loads(asked[1])["error"]
    assert (error["code"], "HTTP/1.0" in error["message"]) == ("INVALID_REQUEST", True)


@pytest.mark.prove
def test_an_answer_that_breaks_off_does_not_look_whole(tmp_path: pathlib.Path) -> None:
    sql = "SELECT rpad('x', 1000, 'x') AS t FROM UNNEST(sequence(1, 9999)) a(n), (VALUES 1, 2, 3) b"
    with serving(tmp_path) as (url, _):
        answer = urllib3.request(
            "POST", f"{url}/api/v1/query", body=sql, preload_content=False, timeout=SOON_S
        )
        with contextlib.closing(answer):
            assert answer.status == 200, answer.data
            assert answer.read(1000).count(b"x") > 900
            for process in psutil.Process().children(recursive=True):
                if str(tmp_path) in programs.command_line(process):
                    process.kill()
            with pytest.raises(urllib3.exceptions.HTTPError):
                list(answer.stream(1 << 20))
