"""Goal: whatever arrives, the answer is right or a named error, and nothing internal is revealed.

Method: a gateway with a plain table and a unified one whose broker never answers is asked by every
route, with every method, with names, queries, headers and bodies that are drawn at random: texts of
every alphabet, JSON of every shape, valid bodies with one part replaced, statements put together
from SQL's own words. Tokens and boundaries are valid ones with something changed; what a table's
metadata may say is in `test_hostile_metadata`.
No answer may be unnamed, be `INTERNAL_ERROR`, or hold an address, a path or a traceback.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import offline, trino_clients
from support.gateway import Gateway
from support.hostile import JSON, changed

from seamline.errors import BOUNDARY_INVALID, ERRORS, SeamlineError
from seamline.seam.boundary import SUMMARY_KEY, decode
from seamline.seam.table import Snapshot

FEW, SOME, MANY = 150, 2_000, 10_000
TOLD = re.compile(r'Traceback|File "|\.py\b|object at 0x|127\.0\.0\.1:\d|/tmp/|site-packages')
"""What a message must not hold."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("hostile")
    running = Gateway(offline.config(folder, limits__statement_seconds_max="5"))
    try:
        for sql in (
            "CREATE TABLE plain (id bigint, text varchar, price decimal(9, 2), tags array(date))",
            "INSERT INTO plain VALUES (1, 'a', 1.5, ARRAY[DATE '2024-02-29']), (2, '', NULL, NULL)",
        ):
            running.rows(sql)
        yield running
    finally:
        running.close()


def repeated(count: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """That many examples, the same ones each time."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


COUNTS = [
    pytest.param(FEW, id="few"),
    pytest.param(SOME, id="some", marks=pytest.mark.soak),
    pytest.param(MANY, id="many", marks=pytest.mark.soak),
]


def check(answer: Any) -> None:
    """An answer that may be given."""
    text = answer.get_data(as_text=True)
    if answer.status_code < 400:
        if answer.is_json:
            failed = (json.loads(text) or {}) if text else {}
            error = failed.get("error") if isinstance(failed, dict) else None
            if error:
                named(error)
        return
    assert answer.is_json, text
    named(json.loads(text)["error"])


def named(error: Mapping[str, Any]) -> None:
    named = (error.get("code"), trino_clients.own_name(error))
    name = next((text for text in named if text in ERRORS), error.get("type"))
    message = str(error.get("message"))
    assert name is not None, error
    assert name != "INTERNAL_ERROR", error
    assert not TOLD.search(message), error


# --- Statements ----------------------------------------------------------------------------------

SQL = """
SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET FETCH FIRST ROWS ONLY WITH TIES JOIN LEFT CROSS
NATURAL ON USING UNION ALL INTERSECT EXCEPT DISTINCT AS VALUES UNNEST ORDINALITY LATERAL CASE WHEN
THEN ELSE END CAST TRY_CAST EXTRACT YEAR INTERVAL DAY DATE TIMESTAMP TIME NULL TRUE IN EXISTS
BETWEEN LIKE ESCAPE IS NOT AND OR OVER PARTITION RANGE PRECEDING CURRENT ROW FILTER ROLLUP CUBE
GROUPING SETS RECURSIVE SHOW TABLES COLUMNS DESCRIBE EXPLAIN ANALYZE SET SESSION RESET PREPARE
EXECUTE DEALLOCATE INPUT OUTPUT CREATE TABLE VIEW REPLACE INSERT INTO DELETE UPDATE MERGE ALTER DROP
COLUMN RENAME TO COMMENT VERSION OF FOR TABLESAMPLE BERNOULLI AT ZONE MATCH_RECOGNIZE QUALIFY ARRAY
MAP plain id text price tags count sum max row_number upper substr json_extract transform reduce
t a b x "plain$cold" "plain$snapshots" information_schema.tables varchar bigint double
decimal(38,10) ( ) ( ) ( ) ( ) [ ] , , , . ; * + - / % = <> < > <= || -> => ? : 'a' '' '%'
1 0 -1 1e308 9223372036854775808 0.1 DECIMAL '1e999999999' X'00' U&'\\0041' -- /* */ " '
"""
WORDS = tuple(SQL.split())
SOUP = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join)
SEEDS = (
    "SELECT id, upper(text) FROM plain WHERE price > 1 AND tags[1] > now() ORDER BY id LIMIT 5",
    "WITH a AS (SELECT id, max(text) n FROM plain GROUP BY id) SELECT * FROM a JOIN a USING (id)",
    "SELECT json_extract('{\"a\": [1]}', '$.a[0]'), regexp_like('abc', '(a)|b'), date '2024-02-29'",
    "SELECT t.x, rank() OVER (PARTITION BY t.x ORDER BY t.y) FROM (VALUES (1, 'a')) AS t(x, y)",
    "EXPLAIN SELECT sum(price) FILTER (WHERE id > 1) FROM plain FOR VERSION AS OF 1",
    "SELECT transform(ARRAY[1, 2], x -> x + 1), CAST(ROW(1, 'a') AS row(n integer, s varchar)).s",
)


@st.composite
def changed_statement(draw: st.DrawFn) -> str:
    """A statement that is fine, with some of its words lost, doubled, swapped or replaced."""
    words = draw(st.sampled_from(SEEDS)).split(" ")
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(words) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                words[place] = draw(st.sampled_from(WORDS))
            case 1:
                words[place] = words[place] * draw(st.integers(0, 3))
            case 2:
                words.insert(place, draw(st.sampled_from(WORDS)))
            case _:
                words[place] = draw(st.text(max_size=8))
    return " ".join(words)


STATEMENTS = st.one_of(SOUP, changed_statement(), st.text(max_size=200))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(FEW, id="few"),
        pytest.param(MANY, id="many", marks=pytest.mark.soak),
    ],
)
def test_statements(gateway: Gateway, count: int) -> None:
    client = gateway.app.test_client()

    @repeated(count)
    @given(STATEMENTS)
    def ask(sql: str) -> None:
        check(client.post("/api/v1/statements", json={"statement": sql, "engine": "duckdb"}))

    ask()
    assert gateway.rows("SELECT count(*) FROM plain")[0][0] is not None


# --- Requests ------------------------------------------------------------------------------------

NAMES = st.one_of(
    st.sampled_from(["plain", "default", "lake", "lake.default", "..", "%1f", "a\x1fb", "nobody"]),
    st.text(min_size=1, max_size=30),
)
BODIES: dict[str, Any] = {
    "statements": {
        "statement": "SELECT id FROM plain WHERE id = ?",
        "parameters": [1],
        "engine": "duckdb",
        "freshness": "latest",
        "catalog": "lake",
        "schema": "default",
        "token": None,
        "after": [],
        "wait": 1,
        "dialect": "trino",
        "properties": {},
        "prepared": {},
    },
    "seams": {"table": "plain", "token": None},
    "plan": {
        "snapshot-id": 1,
        "select": ["id"],
        "filter": {"type": "true"},
        "case-sensitive": True,
    },
    "tasks": {"plan-task": "x"},
    "metrics": {"report-type": "scan-report"},
}
QUERIES = {
    "wait": ["0", "-1", "nan", "1e9", "²", ""],
    "format": ["CSV", "JSON_ARRAY", "ARROW_STREAM", "XML"],
    "pageToken": ["", "²", "x", "0", "9" * 50],
    "pageSize": ["1", "0", "-1", "²", "9" * 50],
    "snapshots": ["all", "refs", "x"],
    "parent": ["default", "\x1f", ""],
    "token": ["", "x", "²"],
    "from": ["beginning", "now", "x"],
    "offset": ["0", "-1", "²"],
}
HEADERS = {
    "Authorization": ["Bearer", "Bearer x", "Basic", "Basic !!", "Basic Og==", "Bearer \xff"],
    "Accept": ["*/*", "application/json", "text/event-stream", ";;;"],
    "X-Iceberg-Access-Delegation": ["vended-credentials", "remote-signing", "x"],
    "If-None-Match": ['"x"', "*", "\xff"],
    "Content-Type": ["application/json", "application/json; charset=x", "text/plain", ""],
    "Content-Encoding": ["gzip", "x"],
    "Last-Event-ID": ["0", "x", "²".encode().decode("latin-1")],
    "X-Trino-Session": ["engine=duckdb", "engine", "=", "a=%ff", ",,", "engine=%00", "\xff=1"],
    "X-Trino-Prepared-Statement": ["s=SELECT+1", "s=%ff", "x", "s=" + "%28" * 100],
    "X-Trino-Transaction-Id": ["NONE", "x", "\xff"],
    "X-Trino-Catalog": ["lake", "nobody", "\xe2\x82\xac", "\xff"],
    "X-Trino-Client-Tags": ["a,b", ",", ""],
    "Sec-Fetch-Site": ["cross-site", "same-origin", "x"],
}


@st.composite
def requests(draw: st.DrawFn, routes: list[tuple[str, str]]) -> dict[str, Any]:
    """A request that somebody might send."""
    method, rule = draw(st.sampled_from(routes))
    path = re.sub(r"<int:[^>]*>", lambda _: str(draw(st.integers(0, 10**20))), rule)
    path = re.sub(r"<[^>]*>", lambda _: quote(draw(NAMES), safe="", errors="replace"), path)
    wanted = draw(st.dictionaries(st.sampled_from(sorted(QUERIES)), st.integers(0, 9), max_size=3))
    query = {key: QUERIES[key][number % len(QUERIES[key])] for key, number in wanted.items()}
    given_ = draw(st.dictionaries(st.sampled_from(sorted(HEADERS)), st.integers(0, 9), max_size=2))
    headers = {key: HEADERS[key][number % len(HEADERS[key])] for key, number in given_.items()}
    asked: dict[str, Any] = {
        "method": method,
        "path": path,
        "query_string": query,
        "headers": {"Content-Type": "application/json", **headers},
    }
    if method in {"POST", "PUT", "PATCH"}:
        is_text = rule.endswith("/v1/statement")
        asked["data"] = draw(
            STATEMENTS.map(_encoded)
            if is_text
            else bodies(next((BODIES[k] for k in BODIES if rule.endswith(k)), {}))
        )
    return asked


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@st.composite
def bodies(draw: st.DrawFn, valid: Any) -> bytes:
    """A body: bytes, JSON, deep JSON, Arrow, or the valid one with a part replaced."""
    match draw(st.integers(0, 5)):
        case 0:
            return draw(st.binary(max_size=100))
        case 1:
            return (b'{"statement":' * 2000) + b"1"
        case 2:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, pa.schema([("x", pa.int64())])) as stream:
                stream.write_batch(pa.record_batch({"x": pa.array([1])}))
            return bytes(sink.getvalue().to_pybytes()[: draw(st.integers(0, 400))])
        case 3:
            return json.dumps(draw(JSON)).encode("utf-8", "surrogatepass")
        case _:
            body = {key: value for key, value in valid.items() if draw(st.integers(0, 4))}
            for key in draw(st.lists(st.sampled_from(sorted(valid) or ["x"]), max_size=2)):
                body[key] = draw(JSON)
            return json.dumps(body).encode("utf-8", "surrogatepass")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", COUNTS)
def test_requests(gateway: Gateway, count: int) -> None:
    client = gateway.app.test_client()
    routes = [
        (method, rule.rule.replace("<path:anything>", "<anything>"))
        for rule in gateway.app.url_map.iter_rules()
        for method in sorted(rule.methods or ())
        if method not in {"HEAD", "OPTIONS"} and rule.rule != "/metrics"
    ]
    assert len(routes) > 40

    @repeated(count)
    @given(requests(routes))
    def ask(asked: dict[str, Any]) -> None:
        answer = client.open(**asked)
        assert answer.status_code != 500
        if answer.status_code >= 400 or answer.is_json:
            check(answer)

    ask()


# --- What comes back to us -----------------------------------------------------------------------


@pytest.mark.parametrize("count", COUNTS)
def test_tokens(gateway: Gateway, count: int) -> None:
    token = gateway.statement("SELECT id FROM plain").receipt["token"]
    client = gateway.app.test_client()

    def changed_text(place: int, lost: int, new: str) -> str:
        return str(token[:place] + new + token[place + lost :])

    @repeated(count)
    @given(st.integers(0, len(token)), st.integers(0, 4), st.text(max_size=8))
    def ask(place: int, lost: int, new: str) -> None:
        given_ = changed_text(place, lost, new)
        answer = client.post(
            "/api/v1/statements", json={"statement": "SELECT id FROM plain", "token": given_}
        )
        check(answer)
        assert answer.status_code >= 400 or given_ == token

    ask()


BOUNDARY = {
    "version": 1,
    "topic": "orders",
    "topic_id": "x",
    "cluster_id": "c",
    "start": {"0": 1},
    "next": {"0": 5, "1": 7},
    "epochs": {"0": 1},
    "skipped": 0,
    "format": "json",
    "on_error": "fail",
}


@pytest.mark.parametrize("count", COUNTS)
def test_boundaries(count: int) -> None:
    @repeated(count)
    @given(st.one_of(changed(BOUNDARY).map(json.dumps), st.text(max_size=50), JSON.map(json.dumps)))
    def ask(text: str) -> None:
        snapshot = Snapshot(1, None, 0, "append", {SUMMARY_KEY: text}, 0, 1)
        try:
            decode(snapshot)
        except SeamlineError as error:
            assert error.code is BOUNDARY_INVALID

    ask()


NAMELESS = (" ", "\t", "a. ", "a..b", ".", " .a")


@pytest.mark.parametrize("name", NAMELESS)
def test_there_is_no_schema_without_a_name(offline_gateway: Gateway, name: str) -> None:
    for sql in (
        f'SELECT * FROM lake."{name}".t',
        f'CREATE TABLE lake."{name}".t (a bigint)',
        f'DROP TABLE lake."{name}".t',
        f'CREATE VIEW lake."{name}".v AS SELECT 1 AS a',
        f'SHOW TABLES FROM lake."{name}"',
        f'SHOW CREATE TABLE lake."{name}".t',
        f'INSERT INTO lake."{name}".t VALUES (1)',
    ):
        error = offline_gateway.statement(sql).error
        assert error is not None, sql
        assert error.code.name in {"SCHEMA_NOT_FOUND", "TABLE_NOT_FOUND"}, (sql, str(error))
    client = offline_gateway.app.test_client()
    path = urllib.parse.quote("\x1f".join(name.split(".")), safe="")
    for rest in ("", "/tables", "/tables/t", "/views", "/views/v"):
        answer = client.get(f"/iceberg/v1/lake/namespaces/{path}{rest}")
        assert answer.status_code in {404, 406}, (rest, answer.status_code, answer.text)
    answer = client.get(f"/iceberg/v1/lake/namespaces?parent={path}")
    assert answer.status_code == 404, answer.text
