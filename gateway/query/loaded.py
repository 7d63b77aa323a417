"""Loads the tables behind a statement's names: as they are now, or as they were last seen.

A statement must ask the log before it loads the table state that it pins, but only the table says
which topic to ask. If the table was read before, its last known state is good enough for that,
which saves one of two requests to the catalog.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Iterable
from typing import NamedTuple

from seamline.connectors.cache import Cache
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import Deadline, NoDeadline
from seamline.connectors.shared_requests import SharedRequests
from seamline.errors import SCHEMA_NOT_FOUND, TABLE_NOT_FOUND, SeamlineError
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Sources
from seamline.gateway.names import TableName
from seamline.gateway.query import views

REMEMBERED_MAX = 64
_NOT_FOUND = frozenset({TABLE_NOT_FOUND, SCHEMA_NOT_FOUND})

Tables = dict[TableName, ColdTable]


class SeenTable(NamedTuple):
    """A table as it was last loaded.

    Attributes:
        table: The table.
        since: When its current snapshot was first seen, on the monotonic clock.
    """

    table: ColdTable
    since: float


LastSeen = Cache[TableName, SeenTable]
Loads = SharedRequests[tuple[str, ...], ColdTable]
"""Requests to catalogs, by the catalog and the path in it."""


class LoadedTables:
    """Loads tables, and remembers the last ones. Safe to share between threads.

    Args:
        connections: Catalogs.
        last: Where they are remembered; by default, in a new cache.
        loads: Shares their loads; by default, among the users of this object.
    """

    def __init__(
        self, connections: Sources, last: LastSeen | None = None, loads: Loads | None = None
    ) -> None:
        self._connections = connections
        self._loads: Loads = SharedRequests() if loads is None else loads
        self._last: LastSeen = Cache(REMEMBERED_MAX) if last is None else last

    def given_to(self, connections: Sources) -> LoadedTables:
        """Returns the same tables, for statements with the rights of other connections."""
        return LoadedTables(connections, self._last, self._loads)

    def now(self, names_: Iterable[TableName], deadline: Deadline | None = None) -> Tables:
        """Loads the tables as they are now; topics and the gateway's own tables are left out.

        Nothing may change these tables: other statements may read the same.

        Args:
            names_: The tables.
            deadline: The statement's, if it has one.

        Raises:
            SeamlineError: TABLE_NOT_FOUND; CATALOG_UNAVAILABLE.
        """
        tables: Tables = {}
        loaded: dict[tuple[str, ...], ColdTable] = {}
        by_identity: dict[tuple[str, ...], ColdTable] = {}
        for name in _of_catalogs(names_):
            if name.full not in loaded:
                table = self._load(name, deadline or NoDeadline())
                # one table at one moment, however a statement spells it
                identity = (table.state.uuid, *(part.lower() for part in name.full))
                loaded[name.full] = by_identity.setdefault(identity, table)
            tables[name] = loaded[name.full]
        at = time.monotonic()
        for name, table in tables.items():
            self._last.put(name, SeenTable(table, self._since(name, table, at)))
        return tables

    def last_seen(self, names_: Iterable[TableName]) -> Tables | None:
        """Returns the tables as they were last loaded; None unless all of them have been."""
        tables: Tables = {}
        for name in _of_catalogs(names_):
            seen = self._last.get(name)
            if seen is None:
                return None
            tables[name] = seen.table
        return tables

    def seen_since(self, name: TableName) -> float:
        """Returns when the current snapshot of a loaded table had certainly been committed."""
        seen = self._last.get(name)
        return time.monotonic() if seen is None else seen.since

    def _since(self, name: TableName, table: ColdTable, now: float) -> float:
        last = self._last.get(name)
        return now if last is None or is_changed(last.table, table) else last.since

    def _load(self, name: TableName, deadline: Deadline) -> ColdTable:
        catalog = self._connections.cold(name.catalog)
        missing = None
        for path in dict.fromkeys((name.path, tuple(part.lower() for part in name.path))):
            request = functools.partial(catalog.load, path)
            try:
                return self._loads.get((name.catalog, *path), request, deadline)
            except SeamlineError as error:
                if error.code not in _NOT_FOUND:
                    raise
                missing = missing or error
        assert missing is not None
        raise self._missing(name, missing) from missing

    def _missing(self, name: TableName, missing: SeamlineError) -> SeamlineError:
        """Returns the error for a table that does not exist, or that is a view."""
        own = dataclasses.replace(name, variant="")
        with contextlib.suppress(SeamlineError):  # the first error is the one to report
            if views.find(self._connections, own) is not None:
                return SeamlineError(
                    missing.code,
                    f"{own.display} is a view, not a table",
                    hint="SHOW CREATE VIEW shows its query, and DROP VIEW drops it; files, "
                    "snapshots and properties are those of the tables that it reads.",
                    subject=name.display,
                )
        hint = resolution.nearest(name, self._connections)
        return SeamlineError(missing.code, missing.message, hint=hint, subject=name.display)


def is_changed(before: ColdTable, now: ColdTable) -> bool:
    """Whether a table was committed to, or replaced by another one, between two reads."""
    state = (before.state.uuid, before.state.current_snapshot_id)
    return state != (now.state.uuid, now.state.current_snapshot_id)


def _of_catalogs(names_: Iterable[TableName]) -> Iterable[TableName]:
    return (name for name in names_ if not name.cluster and not name.is_system)
