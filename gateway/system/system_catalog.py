"""The catalog `system`, whose tables answer the questions that Trino's tools ask a server.

    system.jdbc.…       catalogs, schemas, tables, columns and types, as in JDBC's DatabaseMetaData
    system.metadata.…   catalogs, properties of tables, and comments of tables and views
    system.runtime.…    statements, and the gateway itself

Each shows only what its reader may see. A catalog that cannot be listed has no rows in them; its
own `information_schema.tables` gives the reason.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from seamline.dbapi.version import VERSION
from seamline.gateway.statements.statement import Statement
from seamline.gateway.system import jdbc, listings
from seamline.gateway.system.request import Row, Rows, SystemTableRequest
from seamline.seam.options import OPTIONS


def _catalogs(request: SystemTableRequest) -> Iterator[Row]:
    clusters = request.sources.config.clusters
    for name in listings.catalogs(request.sources):
        catalog = request.sources.config.catalogs.get(name)
        if catalog is not None:
            connector = catalog.format.name
        else:
            connector = "kafka" if name in clusters else "system"
        yield name, name, connector, "OPERATIONAL"


_PROPERTY: Mapping[type, Callable[[Any], tuple[str, str]]] = {
    str: lambda default: (default or "", "varchar"),
    int: lambda default: (str(default), "integer"),
    tuple: lambda default: (str(list(default)), "array(varchar)"),
}
"""The default of an option as text and its type in SQL, by its type in Python."""


def _table_properties(request: SystemTableRequest) -> Iterator[Row]:
    """Yields what WITH may say of a table, for each catalog in which tables can be created."""
    catalogs = request.sources.config.catalogs
    for name in listings.catalogs(request.sources):
        if name in catalogs and catalogs[name].format.is_writable:
            for option in sorted(OPTIONS, key=lambda option: option.name):
                yield name, option.name, *_PROPERTY[option.type](option.default), option.description


def _comments(request: SystemTableRequest) -> Iterator[Row]:
    only = request.only("catalog_name", "schema_name", "table_name")
    for listed in listings.everything(request.sources, listings.all_tables, request.deadline, only):
        if listed.name is not None:
            yield listed.source, listed.schema, listed.name.table, listed.comment


def _queries(request: SystemTableRequest) -> Iterator[Row]:
    for statement in request.statements():
        yield _query(statement, own=statement.principal == request.sources.rights.principal.name)


def _query(statement: Statement, *, own: bool) -> Row:
    """Returns the row of a statement; only its owner sees the tokens of its result."""
    receipt, error = statement.receipt, statement.error
    return (
        statement.statement_id,
        statement.trino_state,
        statement.principal,
        statement.request.source,
        statement.request.statement,
        None,
        round(1000 * statement.waited_s),
        None,
        None,
        _moment(statement.submitted_at),
        _moment(statement.started_at),
        _moment(statement.asked_for_at),
        _moment(statement.finished_at),
        error.code.kind.value if error is not None else None,
        error.code.name if error is not None else None,
        receipt.get("engine"),
        statement.spool.row_count if statement.spool is not None else None,
        receipt.get("token") if own else None,
        receipt.get("session") if own else None,
        statement.write_token if own else None,
        receipt.get("cache_hit"),
    )


def _moment(seconds: float | None) -> datetime.datetime | None:
    if seconds is None:
        return None
    return datetime.datetime.fromtimestamp(round(seconds, 3), datetime.UTC)


def _nodes(request: SystemTableRequest) -> Iterator[Row]:
    http = request.sources.config.http
    address = http.external_url or http.url(http.port)
    yield "seamline", address, f"seamline {VERSION}", True, "active"


_ROWS: Mapping[str, Mapping[str, Rows]] = {
    "jdbc": jdbc.ROWS,
    "metadata": {
        "catalogs": _catalogs,
        "table_comments": _comments,
        "table_properties": _table_properties,
    },
    "runtime": {"nodes": _nodes, "queries": _queries},
}


def rows(schema: str, table: str, request: SystemTableRequest) -> list[Row]:
    """Returns the rows of a table; none for things that never exist here, such as procedures."""
    make = _ROWS[schema].get(table)
    return [] if make is None else list(make(request))
