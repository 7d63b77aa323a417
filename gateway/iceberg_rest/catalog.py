"""What the Iceberg REST catalog answers, without HTTP: loads, held steady where they must be.

A load that says which snapshots it wants begins a statement: it gets the table as it is now, and a
session. Whatever comes with that session a moment later (the same table loaded again, its files
planned) gets the same cut. A client that knows no sessions gets the cut its principal's last
statement began with, for the same moment; otherwise every load is fresh.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import TypeAlias

from seamline.connectors.cache import Cache
from seamline.connectors.protocols import Deadline
from seamline.errors import SeamlineError
from seamline.gateway.config.model import Config
from seamline.gateway.connections import Connections
from seamline.gateway.iceberg_rest.documents import Document
from seamline.gateway.iceberg_rest.holds import SessionTokens, TableSession, new_session_id
from seamline.gateway.iceberg_rest.planning import Planning
from seamline.gateway.iceberg_rest.table import LiveTable
from seamline.gateway.iceberg_rest.tables import LiveTables
from seamline.gateway.query.deadline import StatementDeadline
from seamline.gateway.query.names import TableName
from seamline.gateway.query.queries import ATTEMPTS_MAX, may_have_gone_stale

SERVER = "server"
HELD_MAX = 10_000

PrincipalTable: TypeAlias = tuple[str, tuple[str, ...]]
"""(principal, full name of a table)"""


@dataclasses.dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, and within what.

    Attributes:
        principal: Who.
        session: The session the request came with.
        knows_sessions: Whether the client says that it will come with one.
    """

    principal: str
    session: TableSession | None = None
    knows_sessions: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """A request for a table.

    Attributes:
        name: The table.
        asker: Who asks.
        begins: Whether a statement begins with it.
        planned: Whether scans will be planned here.
        only_referenced: Whether to leave out snapshots that no branch or tag names.
        known: The session that came with what the client already has.
    """

    name: TableName
    asker: Asker
    begins: bool
    planned: bool
    only_referenced: bool
    known: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded:
    """The answer to a load.

    Attributes:
        document: The metadata.
        session_id: The session; part of the answer's tag.
        config: What the client is told beside the metadata.
    """

    document: Document
    session_id: str
    config: Mapping[str, str]

    @property
    def etag(self) -> str:
        """The tag of the answer: what it says, and the session it came with."""
        return f"{self.document.etag}.{self.session_id}"


@dataclasses.dataclass(frozen=True, slots=True)
class IcebergRest:
    """What the routes of the Iceberg REST catalog are made of.

    Attributes:
        config: The configuration.
        connections: The catalogs behind it.
        live: Loads tables.
        planning: Plans scans of them.
        sessions: Reads the tokens of sessions.
    """

    config: Config
    connections: Connections
    live: LiveCatalog
    planning: Planning
    sessions: SessionTokens

    def deadline(self) -> contextlib.closing[StatementDeadline]:
        """The deadline of a request that is answered at once; closed at the end of a `with`."""
        return contextlib.closing(
            StatementDeadline(float(self.config.limits.statement_seconds_max))
        )


class LiveCatalog:
    """Loads of live tables. Safe to share between threads.

    Args:
        tables: The tables.
        tokens: Makes tokens for sessions.
        hold_seconds: How long a cut is held steady.
    """

    def __init__(self, tables: LiveTables, tokens: SessionTokens, hold_seconds: float) -> None:
        self.tables = tables
        self._tokens = tokens
        self._sessions: Cache[TableSession, LiveTable] = Cache(HELD_MAX, ttl_s=hold_seconds)
        self._begun: Cache[PrincipalTable, LiveTable] = Cache(HELD_MAX, ttl_s=hold_seconds)
        self._given: Cache[PrincipalTable, LiveTable] = Cache(HELD_MAX, ttl_s=hold_seconds)

    def load(self, request: Load, deadline: Deadline) -> Loaded:
        """Answers a load.

        Raises:
            SeamlineError: named after the cause.
        """
        live, document = self._held(request, deadline) or self._fresh(request, deadline)
        session = TableSession(
            request.asker.principal, request.name.full, self._session_id(request, document)
        )
        self._keep(request, live, session)
        return Loaded(document, session.session_id, self._config(request, session))

    def current(self, name: TableName, asker: Asker, deadline: Deadline) -> LiveTable:
        """The table for a scan that does not say which snapshot it reads.

        Raises:
            SeamlineError: named after the cause.
        """
        key = (asker.principal, name.full)
        held = None if asker.session is None else self._sessions.get(asker.session)
        live = held or self._begun.get(key) or self._given.get(key)
        if live is None:
            live = self.tables.pin(name, deadline)
            self._given.put(key, live)
            if asker.session is not None:
                self._sessions.put(asker.session, live)
        return live

    def _held(self, request: Load, deadline: Deadline) -> tuple[LiveTable, Document] | None:
        if request.begins:
            return None
        session = request.asker.session
        if session is not None:
            live = self._sessions.get(session)
        else:
            live = self._begun.get((request.asker.principal, request.name.full))
        return None if live is None else (live, self._document(request, live, deadline))

    def _fresh(self, request: Load, deadline: Deadline) -> tuple[LiveTable, Document]:
        for attempt in range(ATTEMPTS_MAX):
            try:
                live = self.tables.pin(request.name, deadline)
                return live, self._document(request, live, deadline)
            except SeamlineError as error:
                if not may_have_gone_stale(error) or attempt == ATTEMPTS_MAX - 1:
                    raise
                deadline.check()
        raise AssertionError("the last attempt returns or raises")

    def _document(self, request: Load, live: LiveTable, deadline: Deadline) -> Document:
        return self.tables.document(
            live, deadline, planned=request.planned, only_referenced=request.only_referenced
        )

    def _session_id(self, request: Load, document: Document) -> str:
        """The request's own session, that of an answer that still is right, or a new one.

        A client may put any id into its tag; it names a session of that client's principal and
        table whatever it is.
        """
        session = request.asker.session
        if session is not None:
            return session.session_id
        tag, _, session_id = (request.known or "").partition(".")
        return session_id if session_id and tag == document.etag else new_session_id()

    def _config(self, request: Load, session: TableSession) -> dict[str, str]:
        """What the client must be told; some cannot do with more than they have asked for."""
        config = {}
        if request.planned:
            config["scan-planning-mode"] = SERVER
        if request.asker.knows_sessions:
            config["token"] = self._tokens.sign(session)
        return config

    def _keep(self, request: Load, live: LiveTable, session: TableSession) -> None:
        key = (request.asker.principal, request.name.full)
        known = request.asker.session
        if known is None or self._sessions.get(session) is not live:
            self._sessions.put(session, live)
        if known is None:
            self._given.put(key, live)
            if request.begins and not request.asker.knows_sessions:
                self._begun.put(key, live)
