"""Goal: a gateway that drains knows which results somebody may still come for.

Method: the real application over a real service, asked in this process. A result is wanted until
its last rows were given out, and again only as long as it was asked about lately.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import flask.testing
import pytest

from seamline.connectors.chunks import read_chunk
from seamline.gateway.access.rights import Principal
from seamline.gateway.app.wiring import Gateway
from seamline.gateway.config.load import load
from seamline.gateway.statements.service import Service
from seamline.gateway.statements.statement import Statement, StatementRequest

_API = "/api/v1/statements"
_LOCAL = {"Host": "127.0.0.1"}
_A_DAY_S = 86_400.0
_LARGE = "SELECT a.x FROM UNNEST(sequence(1, 1000)) AS a (x), UNNEST(sequence(1, 300)) AS b (y)"


@pytest.fixture
def gateway(scratch: pathlib.Path) -> Iterator[Gateway]:
    file = scratch / "seamline.yaml"
    file.write_text(
        "catalogs: {lake: {type: sql, uri: 'sqlite://', warehouse: 'file:///nowhere'}}\n"
        "clusters: {main: {bootstrap_servers: '127.0.0.1:1'}}\n"
    )
    running = Gateway(load(file, environment={}).config)
    yield running
    running.close()


@pytest.fixture
def service(gateway: Gateway) -> Service:
    return gateway.service


@pytest.fixture
def client(gateway: Gateway) -> flask.testing.FlaskClient:
    return gateway.app().test_client()


def _run(
    service: Service, client: flask.testing.FlaskClient, sql: str, **options: Any
) -> Statement:
    body = {"statement": sql, **options}
    statement_id = client.post(_API, json=body, headers=_LOCAL).get_json()["statement_id"]
    statement = service.statement(statement_id, Principal("anonymous"))
    statement.wait(60)
    return statement


def test_rows_in_the_first_answer_leave_nothing_to_come_for(
    service: Service, client: flask.testing.FlaskClient
) -> None:
    assert not _run(service, client, "SELECT 1").is_wanted(_A_DAY_S)


def test_rows_are_wanted_until_the_last_chunk_is_given_out(
    service: Service, client: flask.testing.FlaskClient
) -> None:
    statement = _run(service, client, _LARGE)
    assert statement.spool is not None
    last = statement.spool.chunk_count - 1
    assert last > 0
    assert statement.is_wanted(_A_DAY_S)
    client.get(f"{_API}/{statement.statement_id}/chunks/0", headers=_LOCAL)
    assert statement.is_wanted(_A_DAY_S)
    client.get(f"{_API}/{statement.statement_id}/chunks/{last}", headers=_LOCAL)
    assert not statement.is_wanted(_A_DAY_S)


def test_a_client_may_wait_for_the_first_rows(
    service: Service, client: flask.testing.FlaskClient
) -> None:
    endless = f"WITH r AS ({_LARGE}) SELECT a.x FROM r a, r b"
    asked = {"statement": endless, "wait_for": "rows", "wait_timeout": 60, "format": "arrow_stream"}
    found = client.post(_API, json=asked, headers=_LOCAL).get_json()
    assert (found["state"], found["chunks"]["complete"]) == ("RUNNING", False)
    assert found["chunks"]["count"] > 0
    path = f"{_API}/{found['statement_id']}"
    again = client.get(f"{path}?wait=60&wait_for=ROWS", headers=_LOCAL).get_json()
    assert again["state"] == "RUNNING"
    rows = client.get(f"{path}/chunks/0", headers=_LOCAL)
    assert rows.headers["Seamline-Last-Chunk"] == "false"
    assert sum(batch.num_rows for batch in read_chunk(rows.data)) == found["chunks"]["rows"][0]
    service.statement(found["statement_id"], Principal("anonymous")).close()


@pytest.mark.parametrize("sql", ["SELECT 1", "SELECT nothing_of_that_name", "SHOW CATALOGS"])
def test_what_is_over_with_its_first_rows_is_over_for_who_waits_for_them(
    client: flask.testing.FlaskClient, sql: str
) -> None:
    asked = {"statement": sql, "wait_for": "ROWS", "wait_timeout": 60}
    found = client.post(_API, json=asked, headers=_LOCAL).get_json()
    assert found["state"] in {"SUCCEEDED", "FAILED"}


def test_rows_nobody_asked_for_lately_are_not_wanted(
    service: Service, client: flask.testing.FlaskClient
) -> None:
    assert not _run(service, client, _LARGE).is_wanted(0.0)


def test_a_statement_that_failed_is_not_wanted(
    service: Service, client: flask.testing.FlaskClient
) -> None:
    assert not _run(service, client, "SELECT nothing_of_that_name").is_wanted(_A_DAY_S)


def test_a_statement_that_has_not_ended_is_wanted() -> None:
    statement = Statement(StatementRequest("SELECT 1"), Principal("anonymous"), 60.0)
    assert statement.is_wanted(0.0)
    statement.begin()
    assert statement.is_wanted(0.0)
    statement.close()
    assert not statement.is_wanted(_A_DAY_S)
