"""The logic of the Iceberg REST catalog, without HTTP: one seam for all requests of a statement.

A load that says which snapshots it wants begins a statement: it gets the table as it is now, and a
session. Further requests with that session shortly afterwards, which load the table again or plan
its files, get the same seam. A client that does not support sessions gets the seam with which its
principal's last statement began, for just as long. Otherwise every load is fresh.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.pyiceberg_internals import vended_credentials
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import SeamlineError
from seamline.gateway.access.authentication import Authentication
from seamline.gateway.access.identity import Identity
from seamline.gateway.access.rights import OPERATOR, Principal, Rights
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.model import Config
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.iceberg_rest import storage_access
from seamline.gateway.iceberg_rest.metadata import ServedMetadata
from seamline.gateway.iceberg_rest.scan_plans import ScanPlans
from seamline.gateway.iceberg_rest.served_table import ServedTable
from seamline.gateway.iceberg_rest.sessions import SessionTokens, TableSession, new_session_id
from seamline.gateway.iceberg_rest.table_serving import ServedTables
from seamline.gateway.names import TableName
from seamline.gateway.query.queries import ATTEMPTS_MAX, may_have_gone_stale

SERVER = "server"
HELD_MAX = 10_000

SenderTable: TypeAlias = tuple[str, str, tuple[str, ...]]
"""(principal, client, full name of a table)"""


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request.

    Attributes:
        identity: The sender's identity.
        session: The session that the request came with.
        knows_sessions: Whether the client says that it sends sessions along.
        rights: What the sender may do.
        client: The sender's address and program; without a session, only these tell the requests of
            one client's statement from those of other clients.
    """

    identity: Identity
    session: TableSession | None = None
    knows_sessions: bool = False
    rights: Rights = OPERATOR
    client: str = ""

    @property
    def principal(self) -> str:
        """The name of the sender's principal."""
        return self.identity.principal.name

    def key(self, name: TableName) -> SenderTable:
        """Returns what identifies the requests of this client for a table."""
        return (self.principal, self.client, name.full)


@dataclasses.dataclass(frozen=True, slots=True)
class LoadRequest:
    """A request for a table.

    Attributes:
        name: The table.
        caller: Who asks for it.
        begins: Whether a statement begins with it.
        planned: Whether its scans will be planned here.
        only_referenced: Whether to leave out snapshots that no branch or tag names.
        known: The ETag of what the client already has.
        delegated: Whether the client asks for storage credentials.
    """

    name: TableName
    caller: Caller
    begins: bool
    planned: bool
    only_referenced: bool
    known: str | None = None
    delegated: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class LoadResponse:
    """The answer to a load.

    Attributes:
        metadata: The metadata.
        session_id: The session; part of the answer's ETag.
        config: Settings for the client.
        credentials: Storage credentials by prefix, for a client that asks for them.
    """

    metadata: ServedMetadata
    session_id: str
    config: Mapping[str, str]
    credentials: Sequence[Mapping[str, Any]] = ()

    @property
    def etag(self) -> str:
        """The ETag of the answer: a tag of its content, and the session that it came with."""
        return f"{self.metadata.etag}.{self.session_id}"


@dataclasses.dataclass(frozen=True, slots=True)
class IcebergRest:
    """The parts that the routes of the Iceberg REST catalog use."""

    config: Config
    authentication: Authentication
    connections: Connections
    catalog: ServedCatalog
    plans: ScanPlans
    sessions: SessionTokens
    rights_of: Callable[[Principal], Rights]

    def deadline(self) -> contextlib.closing[StatementDeadline]:
        """Returns the deadline of a request that is answered at once; `with` closes it."""
        return contextlib.closing(StatementDeadline(self.config.limits.statement_seconds_max))


class ServedCatalog:
    """Loads tables. Safe to share between threads.

    Args:
        tables: The tables.
        tokens: Makes tokens for sessions.
        hold_seconds: Seconds for which a statement's further requests get the seam of its first.
    """

    def __init__(self, tables: ServedTables, tokens: SessionTokens, hold_seconds: float) -> None:
        self.tables = tables
        self._tokens = tokens
        self._sessions: Cache[TableSession, ServedTable] = Cache(HELD_MAX, ttl_s=hold_seconds)
        self._begun: Cache[SenderTable, ServedTable] = Cache(HELD_MAX, ttl_s=hold_seconds)
        self._given: Cache[SenderTable, ServedTable] = Cache(HELD_MAX, ttl_s=hold_seconds)

    def load(self, request: LoadRequest, deadline: Deadline) -> LoadResponse:
        """Answers a load.

        Raises:
            SeamlineError: with a code that names the cause.
        """
        table, metadata = self._held(request, deadline) or self._fresh(request, deadline)
        session = TableSession(
            request.caller.identity, request.name.full, self._session_id(request, metadata)
        )
        self._keep(request, table, session)
        catalog = self.tables.catalog_config(request.name)
        config = {
            **storage_access.addresses(catalog, table.cold.state.location),
            **self._config(request, session),
        }
        credentials = self.credentials(table) if request.delegated else []
        for one in credentials:  # where some clients look for them
            config |= one["config"]
        return LoadResponse(metadata, session.session_id, config, credentials)

    def credentials(self, table: ServedTable) -> list[dict[str, Any]]:
        """Returns the storage credentials that a reader of a table is given."""
        catalog = self.tables.catalog_config(table.name)
        if catalog.reader_properties:
            return storage_access.credentials(catalog, self.tables.locations(table))
        return storage_access.passed_on(catalog, vended_credentials(table.cold.iceberg))

    def current(self, name: TableName, caller: Caller, deadline: Deadline) -> ServedTable:
        """Returns the table for a scan that does not say which snapshot it reads.

        Raises:
            SeamlineError: with a code that names the cause.
        """
        key = caller.key(name)
        held = None if caller.session is None else self._sessions.get(caller.session)
        table = held or self._begun.get(key) or self._given.get(key)
        if table is None:
            table = self.tables.pin(name, deadline)
            self._given.put(key, table)
            if caller.session is not None:
                self._sessions.put(caller.session, table)
        return table

    def forget(self, name: TableName, caller: Caller) -> None:
        """Makes a client's next load of a table a fresh one, as after a commit of the client."""
        for cache in (self._begun, self._given):
            cache.pop(caller.key(name))
        if caller.session is not None:
            self._sessions.pop(caller.session)

    def _held(
        self, request: LoadRequest, deadline: Deadline
    ) -> tuple[ServedTable, ServedMetadata] | None:
        if request.begins:
            return None
        session = request.caller.session
        if session is not None:
            table = self._sessions.get(session)
        else:
            table = self._begun.get(request.caller.key(request.name))
        return None if table is None else (table, self._metadata(request, table, deadline))

    def _fresh(
        self, request: LoadRequest, deadline: Deadline
    ) -> tuple[ServedTable, ServedMetadata]:
        for attempt in range(ATTEMPTS_MAX):
            try:
                table = self.tables.pin(request.name, deadline)
                return table, self._metadata(request, table, deadline)
            except SeamlineError as error:
                if not may_have_gone_stale(error) or attempt == ATTEMPTS_MAX - 1:
                    raise
                deadline.check()
        raise AssertionError("the last attempt returns or raises")

    def _metadata(
        self, request: LoadRequest, table: ServedTable, deadline: Deadline
    ) -> ServedMetadata:
        return self.tables.metadata(
            table, deadline, planned=request.planned, only_referenced=request.only_referenced
        )

    def _session_id(self, request: LoadRequest, metadata: ServedMetadata) -> str:
        """Returns the id of the request's session, that of a still valid answer, or a new one.

        A client may put any id into its ETag; it always names a session of that client's principal
        and table.
        """
        session = request.caller.session
        if session is not None:
            return session.session_id
        tag, _, session_id = (request.known or "").partition(".")
        return session_id if session_id and tag == metadata.etag else new_session_id()

    def _config(self, request: LoadRequest, session: TableSession) -> dict[str, str]:
        """Returns only the settings that the client needs, as some clients fail on unknown ones."""
        config = {}
        if request.planned:
            config["scan-planning-mode"] = SERVER
        if request.caller.knows_sessions:
            config["token"] = self._tokens.sign(session)
        return config

    def _keep(self, request: LoadRequest, table: ServedTable, session: TableSession) -> None:
        key = request.caller.key(request.name)
        earlier = request.caller.session
        if earlier is None or self._sessions.get(session) is not table:
            self._sessions.put(session, table)
        if earlier is None:
            self._given.put(key, table)
            if request.begins and not request.caller.knows_sessions:
                self._begun.put(key, table)
