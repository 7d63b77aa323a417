"""Goal: an owner bounds what principals use, and whoever hits a bound learns which, and until when.

Method: gateways with one limit each, asked over HTTP and by the DB-API; what is read is files of a
real catalog and the tail of a log in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.flight
import pytest
from support import offline
from support.flight import RawFlight
from support.gateway import Gateway

import seamline
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import MEMORY_LIMIT, SCAN_TOO_LARGE, TOO_MANY_STATEMENTS, SeamlineError
from seamline.gateway.access.rights import Principal
from seamline.gateway.config.model import LimitsConfig
from seamline.gateway.flight import messages
from seamline.gateway.http.streams import OWN_MAX
from seamline.gateway.statements.memory_limits import MemoryLimits
from seamline.gateway.statements.statement import State, Statement, StatementRequest

TOKENS = "".join(
    f"  - {{name: {name}, sha256: {hashlib.sha256(name.encode()).hexdigest()}}}\n"
    for name in ("ann", "bob")
)


@contextlib.contextmanager
def limited(folder: pathlib.Path, limits: str) -> Iterator[Gateway]:
    more = f"tail: {{follow: false}}\nlimits: {{{limits}}}\nauth:\n  tokens:\n{TOKENS}"
    config = offline.load_config(folder, more)
    with contextlib.closing(
        Gateway(config, connections=offline.MemoryConnections(config))
    ) as gateway:
        yield gateway


def ask(gateway: Gateway, who: str) -> Any:
    headers = {"Authorization": f"Bearer {who}"}
    client = gateway.app.test_client()
    return client.post("/api/v1/statements", json={"statement": "SELECT 1"}, headers=headers)


def test_statements_of_a_principal_in_a_minute(tmp_path: pathlib.Path) -> None:
    with limited(tmp_path, "principal_statements_per_minute_max: 3") as gateway:
        assert [ask(gateway, "ann").status_code for _ in range(4)] == [200, 200, 200, 429]
        refused = ask(gateway, "ann")
        error = refused.get_json()["error"]
        assert error["code"] == "TOO_MANY_STATEMENTS"
        assert "ann has submitted 3" in error["message"]
        assert error["details"]["limit"] == "limits.principal_statements_per_minute_max"
        assert error["details"]["allowed"] == 3
        assert 0 < int(refused.headers["Retry-After"]) <= 60
        assert int(refused.headers["Retry-After"]) == error["details"]["retry_after_s"]
        assert ask(gateway, "bob").status_code == 200
        with (
            seamline.connect(gateway.url, access_token="ann") as connection,
            pytest.raises(seamline.OperationalError) as caught,
        ):
            connection.execute("SELECT 1")
        assert caught.value.code is TOO_MANY_STATEMENTS
        assert caught.value.retry_after_s is not None
        assert 0 < caught.value.retry_after_s <= 60


@pytest.mark.parametrize(
    "sql", ["SELECT ? + 1", "SHOW CATALOGS", "INSERT INTO t SELECT ?", "DROP TABLE t", "SELECT x"]
)
def test_what_is_only_described_counts_too(tmp_path: pathlib.Path, sql: str) -> None:
    """A description costs a plan, or at least a parse, whichever call of Flight SQL asks for it."""
    with limited(tmp_path, "principal_statements_per_minute_max: 3") as gateway:
        client = RawFlight.at(gateway.flight_url, authorization="Bearer ann")
        command = messages.packed("CommandStatementQuery", query=sql)
        descriptor = pa.flight.FlightDescriptor.for_command(command)

        def ended(ask: Callable[[], Any]) -> str:
            try:
                ask()
            except pa.ArrowException as error:
                return str(error)
            return ""

        def prepare() -> str:
            return ended(lambda: client.prepare(sql))

        def describe() -> str:
            return ended(lambda: client.client.get_schema(descriptor, client.options))

        for asked in (prepare, describe, prepare):
            assert "TOO_MANY_STATEMENTS" not in asked()
        for asked in (prepare, describe):
            assert "limits.principal_statements_per_minute_max is 3" in asked()
        assert ask(gateway, "ann").status_code == 429
        assert ask(gateway, "bob").status_code == 200


def test_statements_of_all_in_a_minute(tmp_path: pathlib.Path) -> None:
    with limited(tmp_path, "statements_per_minute_max: 3") as gateway:
        found = [ask(gateway, who).status_code for who in ("ann", "bob", "ann", "bob", "ann")]
        assert found == [200, 200, 200, 429, 429]
        details = ask(gateway, "bob").get_json()["error"]["details"]
        assert details["limit"] == "limits.statements_per_minute_max"


def test_what_is_refused_is_not_counted(tmp_path: pathlib.Path) -> None:
    """A principal refused by the limit of all has not used up its own."""
    limits = "statements_per_minute_max: 1, principal_statements_per_minute_max: 1"
    with limited(tmp_path, limits) as gateway:
        assert ask(gateway, "ann").status_code == 200
        for _ in range(3):
            details = ask(gateway, "bob").get_json()["error"]["details"]
            assert details["limit"] == "limits.statements_per_minute_max"


def test_a_feed_is_one_statement_however_long_it_lasts(tmp_path: pathlib.Path) -> None:
    with limited(tmp_path, "statements_per_minute_max: 2") as gateway:
        memory = gateway.parts.connections.memory  # type: ignore[attr-defined]
        memory.create_topic("bids", 1)
        gateway.rows("CREATE TABLE bids (id bigint) WITH (topic = 'bids')")
        client = gateway.app.test_client()
        headers = {"Authorization": "Bearer ann"}
        answer = client.get("/api/v1/tail/bids?from=now", headers=headers)
        assert answer.status_code == 200
        events: Iterator[Any] = iter(answer.response)
        seen = ""
        for id_ in range(4):
            memory.produce("bids", 0, json.dumps({"id": id_}).encode())
            while f"[[{id_}" not in seen:
                event = next(events)
                seen += event if isinstance(event, str) else event.decode()
        answer.close()


GREEDY = (
    "SELECT count(*) FROM (SELECT DISTINCT a.x * 100000 + b.x "
    "FROM UNNEST(sequence(1, {n})) AS a(x) CROSS JOIN UNNEST(sequence(1, {n})) AS b(x))"
)
"""Holds as much as it may, for as long as it takes."""


@pytest.mark.parametrize("limit", ["principal_memory_bytes", "statements_memory_bytes"])
def test_memory_of_running_statements(tmp_path: pathlib.Path, limit: str) -> None:
    with limited(tmp_path, f"{limit}: 60MiB, memory_bytes: 256MiB") as gateway:

        def run(who: str, sql: str) -> Any:
            request = StatementRequest(sql, engine="duckdb")
            return gateway.parts.service.submit(request, Principal(who))

        small = run("ann" if limit == "statements_memory_bytes" else "bob", "SELECT 1")
        assert small.wait(60) is State.SUCCEEDED
        large = run("ann", GREEDY.format(n=5000))
        assert large.wait(60) is State.FAILED
        assert large.error.code is MEMORY_LIMIT
        assert large.error.details["limit"] == f"limits.{limit}"
        assert large.error.details["bytes"] > large.error.details["allowed"] == 60 << 20
        assert "retry_after_s" not in large.error.details, "it was alone"
        assert run("ann", GREEDY.format(n=300)).wait(60) is State.SUCCEEDED, "it has let go"


def test_who_holds_most_makes_way() -> None:
    """Of one principal's statements, the largest, and one at a time; others have their own."""
    ann, bob = Principal("ann"), Principal("bob")
    own = [Statement(StatementRequest("SELECT 1"), who, 60.0) for who in (ann, ann, ann, bob)]
    held: dict[Deadline, int] = {}
    for statement, size in zip(own, (40, 70, 50, 100), strict=True):
        statement.begin()
        held[statement.deadline] = size
    limits = MemoryLimits(LimitsConfig(principal_memory_bytes=100), lambda: own, lambda: held)
    for _ in range(2):
        limits.look()
        assert [s.deadline.canceled for s in own] == [False, True, False, False]
    with pytest.raises(SeamlineError) as caught:
        own[1].deadline.check()
    assert caught.value.code is MEMORY_LIMIT
    assert caught.value.details["retry_after_s"] == 1
    assert "the running statements of ann hold 160 bytes" in caught.value.message
    own[1].fail(caught.value)
    limits.look()
    assert [s.deadline.canceled for s in own] == [False, True, False, False], "90 are left"
    for statement in own:
        statement.close()


def test_bytes_of_a_statement(tmp_path: pathlib.Path) -> None:
    with limited(tmp_path, "scan_bytes_max: 20000") as gateway:
        memory = gateway.parts.connections.memory  # type: ignore[attr-defined]
        memory.create_topic("bids", 1)
        gateway.rows("CREATE TABLE bids (id bigint, text varchar) WITH (topic = 'bids')")
        gateway.rows(
            "CREATE TABLE large AS SELECT x AS id, sha256(CAST(CAST(x AS varchar) AS varbinary)) b "
            "FROM UNNEST(sequence(1, 2000)) AS t(x)"
        )
        assert gateway.rows("SELECT 1 WHERE 1 = 1") == [(1,)]
        error = refused(gateway, "SELECT count(b) FROM large")
        assert error.details["bytes"] > error.details["allowed"] == 20000
        assert "of files, 0 of tails" in error.message
        assert gateway.rows("EXPLAIN SELECT count(b) FROM large")
        memory.produce("bids", 0, json.dumps({"id": 1, "text": "x" * 9000}).encode())
        assert gateway.rows("SELECT count(*) FROM bids") == [(1,)]
        for id_ in (2, 3):
            memory.produce("bids", 0, json.dumps({"id": id_, "text": "x" * 9000}).encode())
        error = refused(gateway, "SELECT count(*) FROM bids")
        assert "0 of files" in error.message
        assert error.code.http_status == 422


def test_streams_of_one_leave_some_to_others(tmp_path: pathlib.Path) -> None:
    with limited(tmp_path, "principal_results_max: 9") as gateway, contextlib.ExitStack() as opened:
        client = gateway.app.test_client()

        def follow(who: str, statement_id: str) -> Any:
            address = f"/api/v1/statements/{statement_id}/events"
            answer = client.get(address, headers={"Authorization": f"Bearer {who}"})
            opened.callback(answer.close)
            return answer

        own = {who: ask(gateway, who).get_json()["statement_id"] for who in ("ann", "bob")}
        found = [follow("ann", own["ann"]) for _ in range(OWN_MAX + 1)]
        assert [answer.status_code for answer in found] == [200] * OWN_MAX + [429]
        error = found[-1].get_json()["error"]
        assert error["code"] == "TOO_MANY_STATEMENTS"
        assert f"ann already follows {OWN_MAX}" in error["message"]
        assert follow("bob", own["bob"]).status_code == 200
        found[0].close()
        assert follow("ann", own["ann"]).status_code == 200, "one has gone"


def refused(gateway: Gateway, sql: str) -> SeamlineError:
    with pytest.raises(SeamlineError) as caught:
        gateway.rows(sql)
    assert caught.value.code is SCAN_TOO_LARGE
    assert caught.value.details["limit"] == "limits.scan_bytes_max"
    return caught.value
