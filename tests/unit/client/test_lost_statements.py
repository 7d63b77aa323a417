"""Goal: losing a statement is the fault of the gateway that is gone, and a read is repeated.

Method: two real gateways over the same catalog and state; a proxy in front of them sends a client
to the second one from some request on, as a restart or a load balancer does.
"""

from __future__ import annotations

import contextlib
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support import offline
from support.gateway import Gateway
from werkzeug.serving import make_server
from werkzeug.wrappers import Request

import seamline
from seamline.errors import STATEMENT_LOST, STATEMENT_NOT_FOUND, ErrorKind

ROWS, WIDTH = 10_000, 2_000
WIDE = (
    f"SELECT id, rpad('', {WIDTH}, 'x') AS text FROM (SELECT sequence(1, {ROWS}) AS ids) "
    "CROSS JOIN UNNEST(ids) AS t(id)"
)
"""A result of several chunks."""


class Balancer:
    """Sends requests to the first gateway, and from the given path on to the second.

    Attributes:
        submitted: The statements that clients have submitted.
    """

    def __init__(self, gateways: list[Gateway]) -> None:
        self._gateways = gateways
        self.moves_at = ""
        self.submitted = 0
        self._server = make_server("127.0.0.1", 0, self, threaded=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __call__(self, environ: Any, start_response: Any) -> Any:
        """Answers a request."""
        request = Request(environ)
        if self.moves_at and self.moves_at in request.path:
            self._gateways[:] = self._gateways[-1:]
        self.submitted += request.method == "POST" and request.path.endswith("/statements")
        return self._gateways[0].app(environ, start_response)

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def balancer(tmp_path: pathlib.Path) -> Iterator[Balancer]:
    config = offline.config(tmp_path)
    with contextlib.ExitStack() as stack:
        gateways = []
        for name in ("one", "two"):
            other = config.model_copy(
                update={
                    "state_directory": str(tmp_path / name),
                    "tokens": config.tokens.model_copy(update={"secret": "s" * 32}),
                }
            )
            gateways.append(stack.enter_context(contextlib.closing(Gateway(other))))
        found = Balancer(gateways)
        gateways[0].rows("CREATE SCHEMA lake.shop")
        stack.callback(found.close)
        yield found


def test_an_id_of_a_gateway_that_is_gone_is_the_gateways_fault(balancer: Balancer) -> None:
    first, second = balancer._gateways
    lost = first.statement("SELECT 1")
    client = second.app.test_client()
    for path in (
        f"/api/v1/statements/{lost.statement_id}",
        f"/api/v1/statements/{lost.statement_id}/chunks/0",
        f"/v1/statement/{lost.statement_id}/slug/0/0",
        f"/v1/query/{lost.statement_id}",
    ):
        answer = client.get(path, headers={"Host": "127.0.0.1"})
        assert answer.json is not None
        assert (answer.status_code, answer.json["error"]["code"]) == (410, "STATEMENT_LOST")
        assert answer.json["error"]["retriable"]
    own = second.statement("SELECT 1")
    second.service.forget(own)
    released = client.get(f"/api/v1/statements/{own.statement_id}", headers={"Host": "127.0.0.1"})
    assert released.json is not None
    assert released.json["error"]["code"] == STATEMENT_NOT_FOUND.name
    assert STATEMENT_LOST.kind is not ErrorKind.USER


@pytest.mark.parametrize("fetch", ["fetchall", "fetch_arrow_table"])
def test_a_read_is_repeated_if_no_row_has_come(balancer: Balancer, fetch: str) -> None:
    with seamline.connect(balancer.url) as connection, connection.cursor() as cursor:
        balancer.moves_at = "/chunks/"
        cursor.execute(WIDE)
        assert len(getattr(cursor, fetch)()) == ROWS
    assert balancer.submitted == 2


def test_a_read_is_not_repeated_once_a_row_has_come(
    balancer: Balancer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamline.dbapi.statement._has_rows", lambda _: False)  # none comes early
    with seamline.connect(balancer.url) as connection, connection.cursor() as cursor:
        cursor.execute(WIDE)
        assert cursor.fetchone() == (1, "x" * WIDTH)
        balancer.moves_at = "/chunks/"
        with pytest.raises(seamline.OperationalError) as caught:
            cursor.fetchall()
    assert caught.value.code is STATEMENT_LOST
    assert balancer.submitted == 1


@pytest.mark.parametrize(
    ("sql", "submissions"),
    [
        ("SELECT count(*) FROM UNNEST(sequence(1, 3)) AS t(n)", 2),
        ("CREATE TABLE lake.shop.copied AS SELECT 1 AS n", 1),
    ],
)
def test_a_statement_that_is_lost_while_it_runs_is_repeated_if_it_is_a_read(
    balancer: Balancer, sql: str, submissions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = balancer._gateways[0]
    may_end, answer = threading.Event(), first.service._answer

    def hesitate(statement: Any) -> None:
        answer(statement)
        may_end.wait(60)  # it is known what it is, and it still runs

    monkeypatch.setattr(first.service, "_answer", hesitate)
    monkeypatch.setattr("seamline.dbapi.statement.WAIT_S", 0.2)
    looks = []

    def move(manifest: Any) -> None:
        looks.append(manifest)
        if manifest["progress"] or len(looks) > 3:
            balancer.moves_at = "/statements/"

    monkeypatch.setattr("seamline.dbapi.statement.PROGRESS_S", 0.2)
    try:
        with seamline.connect(balancer.url) as connection, connection.cursor() as cursor:
            if submissions == 2:
                cursor.execute(sql, progress=move)
                assert cursor.fetchall() == [(3,)]
            else:
                with pytest.raises(seamline.OperationalError) as caught:
                    cursor.execute(sql, progress=move)
                assert caught.value.code is STATEMENT_LOST
    finally:
        may_end.set()
    assert balancer.submitted == submissions
