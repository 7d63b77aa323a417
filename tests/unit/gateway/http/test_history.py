"""Goal: users see what became of their own statements, and how one proceeds, and of no others.

Method: a gateway with principals and rules, asked over HTTP; one statement runs until it is
canceled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from support import offline
from support.gateway import Gateway

PATH = "/api/v1/statements"
RULES = "queries: [{user: boss, allow: [execute, view, kill]}, {allow: [execute]}]\n"
KEPT = 3


class Client:
    """A principal of a gateway."""

    def __init__(self, gateway: Gateway, who: str) -> None:
        self._client = gateway.app.test_client()
        self._headers = {"Authorization": f"Bearer {who}"}

    def run(self, sql: str) -> str:
        answer = self._client.post(PATH, json={"statement": sql}, headers=self._headers)
        return str(answer.get_json()["statement_id"])

    def open(self, method: str, path: str) -> Any:
        return self._client.open(path, method=method, headers=self._headers)

    def listed(self, query: str = "") -> list[dict[str, Any]]:
        answer = self.open("GET", f"{PATH}{query}")
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.get_json()["statements"]
        return found


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("history")
    (folder / "rules.yaml").write_text(RULES)
    tokens = "".join(
        f"  - {{name: {name}, sha256: {hashlib.sha256(name.encode()).hexdigest()}}}\n"
        for name in ("ann", "bob", "eve", "boss")
    )
    more = (
        f"limits: {{principal_history_max: {KEPT}}}\n"
        f"auth:\n  rules: {folder}/rules.yaml\n  tokens:\n{tokens}"
    )
    with contextlib.closing(Gateway(offline.load_config(folder, more))) as running:
        yield running


def test_a_statement_is_listed_after_its_result_is_gone(gateway: Gateway) -> None:
    ann = Client(gateway, "ann")
    good, bad = ann.run("SELECT 1 AS a UNION ALL SELECT 2"), ann.run("SELECT x FROM nothing")
    assert ann.open("DELETE", f"{PATH}/{good}").status_code == 204
    assert ann.open("GET", f"{PATH}/{good}").status_code == 404
    second, first = ann.listed()
    assert (first["statement_id"], second["statement_id"]) == (good, bad)
    assert (first["state"], first["row_count"], first["user"]) == ("SUCCEEDED", 2, "ann")
    assert first["receipt"]["engine"] == "duckdb"
    assert first["submitted_at"] <= first["finished_at"]
    assert second["state"] == "FAILED"
    assert second["error"]["code"] == "TABLE_NOT_FOUND"
    assert [each["statement_id"] for each in ann.listed("?state=failed")] == [bad]
    assert [each["statement_id"] for each in ann.listed("?limit=1")] == [bad]


def test_only_who_may_sees_those_of_others(gateway: Gateway) -> None:
    own = Client(gateway, "bob").run("SELECT 'of bob'")
    seen = {who: Client(gateway, who).listed("?limit=1000") for who in ("bob", "eve", "boss")}
    assert own in {each["statement_id"] for each in seen["bob"]}
    assert {each["user"] for each in seen["bob"]} == {"bob"}
    assert seen["eve"] == []
    assert own in {each["statement_id"] for each in seen["boss"]}


def test_what_is_kept_is_bounded(gateway: Gateway) -> None:
    eve = Client(gateway, "eve")
    ids = [eve.run(f"SELECT {n}, '{'x' * 5000}'") for n in range(KEPT + 2)]
    for id_ in ids:
        eve.open("DELETE", f"{PATH}/{id_}")
    found = eve.listed()
    assert [each["statement_id"] for each in found] == ids[: -KEPT - 1 : -1]
    assert all(each["is_cut"] and len(each["statement"]) == 2000 for each in found)


@pytest.mark.parametrize("query", ["?limit=0", "?limit=1001", "?limit=x", "?state=GONE", "?a=1"])
def test_what_is_no_query_is_named(gateway: Gateway, query: str) -> None:
    answer = Client(gateway, "ann").open("GET", f"{PATH}{query}")
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (400, "INVALID_REQUEST")


def events(answer: Any) -> Iterator[tuple[str, Any]]:
    for chunk in answer.response:
        text = chunk if isinstance(chunk, str) else chunk.decode()
        if text.startswith("event: "):
            kind, data = text.split("\n")[:2]
            yield kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_progress_until_the_end(gateway: Gateway) -> None:
    ann = Client(gateway, "ann")
    path = f"{PATH}/{ann.run('SELECT 1')}/events"
    answer = ann.open("GET", path)
    assert answer.mimetype == "text/event-stream"
    ((kind, manifest),) = events(answer)
    assert (kind, manifest["state"], manifest["row_count"]) == ("end", "SUCCEEDED", 1)
    answer.close()
    assert Client(gateway, "bob").open("GET", path).status_code == 404
    watched = Client(gateway, "boss").open("GET", path)
    assert [kind for kind, _ in events(watched)] == ["end"]
    watched.close()


def test_progress_of_what_runs(gateway: Gateway) -> None:
    ann = Client(gateway, "ann")
    body = {
        "statement": "SELECT sum(a.x * b.x * c.x) FROM UNNEST(sequence(1, 10000)) a(x),"
        " UNNEST(sequence(1, 10000)) b(x), UNNEST(sequence(1, 10000)) c(x)",
        "wait_timeout": 0,
    }
    headers = {"Authorization": "Bearer ann"}
    submitted = gateway.app.test_client().post(PATH, json=body, headers=headers).get_json()
    path = f"{PATH}/{submitted['statement_id']}"
    answer = ann.open("GET", f"{path}/events")
    told = events(answer)
    kind, manifest = next(told)
    assert kind == "progress"
    assert manifest["state"] in {"PENDING", "RUNNING"}
    Client(gateway, "boss").open("POST", f"{path}/cancel")
    *_, (kind, manifest) = told
    assert (kind, manifest["state"], manifest["error"]["code"]) == ("end", "CANCELED", "CANCELED")
    answer.close()
