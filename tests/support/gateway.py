"""A gateway for tests: its service in this process, and the same behind HTTP."""

from __future__ import annotations

import functools
import pathlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import flask
from werkzeug.serving import make_server

import seamline
from seamline.connectors.chunks import read_chunk
from seamline.dbapi.values import arrow_converter
from seamline.gateway.access.rights import Principal
from seamline.gateway.app import wiring
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.model import Config, PortConfig
from seamline.gateway.query.partial_aggregates import PartialAggregates
from seamline.gateway.query.tokens import kept_secret
from seamline.gateway.statements.statement import State, Statement, StatementRequest
from support.slt import StatementError
from support.waiting import wait_until


class Gateway:
    """A gateway, and an HTTP server over it that starts when first asked for."""

    def __init__(
        self,
        config: Config,
        clock: Callable[[], float] = time.time,
        connections: Connections | None = None,
        partials: PartialAggregates | None = None,
    ) -> None:
        self.parts = wiring.Gateway(config, clock, connections, partials)
        self.config = config
        self.service = self.parts.service

    def close(self) -> None:
        """Ends both."""
        if "_server" in self.__dict__:
            self._server.shutdown()
            self._server.server_close()
        if "direct" in self.__dict__:
            self.direct.close()
        self.parts.close()

    @functools.cached_property
    def direct(self) -> Gateway:
        """A gateway that follows no table and knows the tokens of this one."""
        config = self.config
        state = pathlib.Path(config.state_directory)
        secret = config.tokens.secret or kept_secret(state / "token-secret")
        changed = {
            "state_directory": str(state / "direct"),
            "tail": config.tail.model_copy(update={"follow": False}),
            "tokens": config.tokens.model_copy(update={"secret": secret}),
        }
        return Gateway(config.model_copy(update=changed))

    # --- In this process -----------------------------------------------------------------------

    def statement(self, sql: str, engine: str = "auto", **options: Any) -> Statement:
        """Runs a statement to its end, whatever that is."""
        request = StatementRequest(sql, engine=engine, **options)
        statement = self.service.submit(request, Principal("tests"))
        statement.wait(300)
        return statement

    def rows(self, sql: str, engine: str = "auto", **options: Any) -> list[tuple[Any, ...]]:
        """The rows of a query.

        Raises:
            SeamlineError: what the statement ended with.
        """
        statement = self.statement(sql, engine, **options)
        if statement.error is not None:
            raise statement.error
        return statement_rows(statement)

    def running(self, principal: str = "anonymous", about: str = "") -> Statement:
        """The statement of a principal that was submitted last, once an engine has it.

        Args:
            principal: The principal.
            about: What is in its text, as the last one may be an earlier test's.
        """

        def computing() -> Statement | None:
            submitted = self.service.statements(Principal(principal))
            found = [s for s in submitted if about in s.request.statement]
            if found and found[0].state is State.RUNNING and found[0].progress.get("engine"):
                return found[0]
            return None

        found = wait_until(computing, what="a running statement")
        assert found is not None
        return found

    def route(self, engine: str, zone: str | None = None) -> Any:
        """A route of text tests through one engine, in a session of the zone."""

        def run(sql: str) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
            statement = self.statement(sql, engine, time_zone=zone)
            if statement.error is not None:
                raise StatementError(statement.error.code.name, statement.error.message)
            return [str(c.type) for c in statement.output], statement_rows(statement)

        return run

    # --- Over HTTP -----------------------------------------------------------------------------

    @functools.cached_property
    def app(self) -> flask.Flask:
        """Its HTTP interface."""
        return self.parts.app()

    @functools.cached_property
    def _server(self) -> Any:
        server = make_server("127.0.0.1", 0, self.app, threaded=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @functools.cached_property
    def flight_url(self) -> str:
        """The address of its Flight SQL, which starts when first asked for."""
        flight = PortConfig(port=0)
        self.parts.config = self.config.model_copy(update={"flight": flight})
        (address,) = self.parts.open_ports()
        return address

    def connect(self, **options: Any) -> seamline.Connection:
        """A DB-API connection to it."""
        return seamline.connect(self.url, **options)

    def http_route(
        self, sql: str, zone: str | None = None
    ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """A route of text tests through HTTP and the DB-API, in a session of the zone."""
        with self.connect(time_zone=zone) as connection:
            return run_over(connection, sql)


def run_over(
    connection: seamline.Connection, sql: str
) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    """Runs a statement of a text test over a connection."""
    with connection.cursor() as cursor:
        try:
            cursor.execute(sql)
        except seamline.Error as error:
            raise StatementError(error.code.name, error.message) from error
        if cursor.description is None:
            return [], []
        return [column[1] for column in cursor.description], cursor.fetchall()


def statement_rows(statement: Statement) -> list[tuple[Any, ...]]:
    """The rows of a finished statement as Python values."""
    spool = statement.spool
    assert spool is not None
    converters = [arrow_converter(str(column.type)) for column in statement.output]
    rows: list[tuple[Any, ...]] = []
    for index in range(spool.chunk_count):
        data = spool.chunk(index, 0)
        assert data is not None
        for batch in read_chunk(data):
            columns = [
                convert(column) for convert, column in zip(converters, batch.columns, strict=True)
            ]
            rows.extend(zip(*columns, strict=True))
    return rows
