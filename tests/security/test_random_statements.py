"""Goal: no statement, of whatever shape and size, ends the gateway's process or goes unnamed.

Method: `seamline serve` as a process of its own is sent random statements by each route that takes
text: words of SQL in any order, statements with words lost, doubled or replaced, and pieces of SQL
repeated, nested and chained up to tens of thousands of letters. Each is answered; in the end the
gateway's processes are those of the beginning, and a plain statement is answered as usual.
"""

from __future__ import annotations

import json
import pathlib
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from security.test_hostile_requests import STATEMENTS, named
from support import programs
from support.served import Served, serving

LIMITS = "tail: {follow: false}\n"
"""In addition to the existing ones: a statement has ten seconds by its own header or field."""
NESTED = (
    ("(", "1", ")"),
    ("-", "1", ""),
    ("NOT ", "true", ""),
    ("CAST(", "1", " AS varchar)"),
    ("CASE WHEN true THEN ", "1", " END"),
    ("ARRAY[", "1", "]"),
    ("upper(", "'a'", ")"),
    ("greatest(", "1", ", 2)"),
    ("coalesce(NULL, ", "1", ")"),
    ("lpad(", "'a'", ", 1000, 'b')"),
    ("replace(", "'a'", ", 'a', 'aa')"),
    ("(SELECT ", "1", ")"),
    ("if(true, ", "1", ", 2)"),
    ("transform(ARRAY[1], x -> ", "x", ")"),
    ("date '", "2024-01-01", "'"),
    ("interval '1' ", "day", " + "),
)
"""What goes around, inside and behind."""
CHAINED = (
    " + 1", " || 'a'", " AND true", " OR 1 = 1", ", 1", " UNION ALL SELECT 1", " IN (1)",
    " IS NULL", " LIKE 'a%'", " BETWEEN 1 AND 2", " -- \n", " /* */", "[1]", ".x", "::bigint",
    " CROSS JOIN UNNEST(ARRAY[1, 2])", " EXCEPT SELECT 1", " ORDER BY 1", " GROUP BY ()",
)  # fmt: skip
HEADER_MAX = 60_000
SIZES = st.sampled_from([1, 2, 5, 10, 20, 50, 100, 300, 1000, 3000])


class Long(str):
    """A text that is shown in short."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{str(self[:500])!r}… ({len(self)})"


@st.composite
def grown(draw: st.DrawFn) -> str:
    """SQL of few pieces, and of any size."""
    text = draw(st.sampled_from(["1", "'a'", "x", "count(*)", "ARRAY[1]", "ROW(1, 'a')", "plain"]))
    for _ in range(draw(st.integers(1, 3))):
        count = draw(SIZES)
        if draw(st.booleans()):
            before, inner, behind = draw(st.sampled_from(NESTED))
            inner = text if draw(st.booleans()) else inner
            text = before * count + inner + behind * count
        else:
            text += draw(st.sampled_from(CHAINED)) * count
        if len(text) > 50_000:
            break
    around = draw(
        st.sampled_from(
            ["SELECT {}", "SELECT 1 WHERE {}", "VALUES {}", "WITH a AS (SELECT {} AS x) SELECT * "
             "FROM a, a b", "EXPLAIN SELECT {}", "SELECT 1 FROM (VALUES 1) t(x) GROUP BY {}",
             "SELECT * FROM UNNEST({})", "PREPARE p FROM SELECT {}", "{}", "SET SESSION x = {}"]
        )
    )  # fmt: skip
    return Long(around.replace("{}", text))


class Client:
    """Somebody who sends statements by each route."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._session = requests.Session()

    def ask(self, route: str, sql: str) -> None:
        """Sends a statement; the answer is right or a named error."""
        text = sql.encode("utf-8", "surrogatepass")
        if "PREPARE" in sql and len(urllib.parse.quote_plus(text)) > HEADER_MAX:
            route = "statements"  # in Trino's protocol a client would have to take it as a header
        if route == "statements":
            body: dict[str, Any] = {"statement": sql, "engine": "duckdb", "timeout": 10}
            self._check(self._post("/api/v1/statements", json.dumps(body).encode()))
        elif route == "query":
            self._check(self._post("/api/v1/query?engine=duckdb&timeout=10", text, "text/plain"))
        else:
            headers = {"X-Trino-Session": "engine=duckdb,timeout=10"}
            if route == "prepared":
                quoted = urllib.parse.quote_plus(text[:4000])
                headers["X-Trino-Prepared-Statement"] = f"p={quoted}"
                text = b"EXECUTE p"
            answer = self._post("/v1/statement", text, "text/plain", headers)
            for _ in range(30):
                found = self._check(answer)
                if not isinstance(found, dict) or "nextUri" not in found:
                    return
                answer = self._session.get(found["nextUri"], timeout=60)

    def _post(
        self, path: str, body: bytes, kind: str = "application/json", headers: Any = None
    ) -> requests.Response:
        sent = {"Content-Type": kind, **(headers or {})}
        return self._session.post(self._address + path, data=body, headers=sent, timeout=60)

    def _check(self, answer: requests.Response) -> Any:
        assert answer.status_code != 500, answer.text[:1000]
        if "json" not in answer.headers["Content-Type"] or "ndjson" in str(answer.headers):
            assert answer.status_code < 400
            return None
        found = answer.json()
        error = found.get("error") if isinstance(found, dict) else None
        assert error or answer.status_code < 400
        if error:
            named(error)
        return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, pathlib.Path]]:
    folder = tmp_path_factory.mktemp("served")
    with serving(folder, LIMITS) as gateway:
        yield gateway, folder


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(150, id="few", marks=pytest.mark.prove),
        pytest.param(10_000, id="many", marks=pytest.mark.soak),
    ],
)
def test_a_gateway_survives_every_statement(
    served: tuple[Served, pathlib.Path], count: int
) -> None:
    gateway, folder = served
    before, client = programs.serving(gateway.pid), Client(gateway.url)
    assert len(before) == 2, "the process that was started, and its worker"

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.sampled_from(["statements", "query", "trino", "prepared"]),
        st.one_of(STATEMENTS, grown()),
    )
    def ask(route: str, sql: str) -> None:
        client.ask(route, sql)

    ask()
    assert programs.serving(gateway.pid) == before
    assert requests.post(
        f"{gateway.url}/api/v1/query", data="SELECT 1 AS a", timeout=60
    ).json() == {"a": 1}
    said = (folder / "stderr").read_text()
    assert "Traceback" not in said
