"""The catalog `system`, whose tables answer the questions that Trino's tools ask a server.

    system.jdbc.…       catalogs, schemas, tables, columns and types, as in JDBC's DatabaseMetaData
    system.metadata.…   catalogs, properties of tables, and comments of tables and views
    system.runtime.…    statements, and the gateway itself

Each shows only what its reader may see. A catalog that cannot be listed has no rows in them; its
own `information_schema.tables` gives the reason.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping

from seamline.gateway.commands import jdbc, listings
from seamline.gateway.commands.system_table import Asked, Row, Rows
from seamline.gateway.commands.table_properties import PROPERTIES
from seamline.gateway.query.statements import Statement
from seamline.version import VERSION


def _catalogs(asked: Asked) -> Iterator[Row]:
    clusters = asked.sources.config.clusters
    for name in listings.catalogs(asked.sources):
        kind = "kafka" if name in clusters else "iceberg"
        catalog = asked.sources.config.catalogs.get(name)
        if catalog is not None and catalog.is_delta:
            kind = "delta"
        connector = "system" if name not in clusters and catalog is None else kind
        yield name, name, connector, "OPERATIONAL"


def _table_properties(asked: Asked) -> Iterator[Row]:
    """Yields what WITH may say of a table, for each catalog in which tables can be created."""
    catalogs = asked.sources.config.catalogs
    for name in listings.catalogs(asked.sources):
        if name in catalogs and not catalogs[name].is_delta:
            for known in PROPERTIES:
                yield name, *known


def _comments(asked: Asked) -> Iterator[Row]:
    only = asked.only("catalog_name", "schema_name", "table_name")
    for listed in listings.everything(asked.sources, listings.all_tables, asked.deadline, only):
        if listed.name is not None:
            said = listed.state.properties.get("comment") if listed.state is not None else None
            of_view = listed.view.comment if listed.view is not None else None
            yield listed.source, listed.schema, listed.name.table, said or of_view


def _queries(asked: Asked) -> Iterator[Row]:
    for statement in asked.statements():
        yield _query(statement, own=statement.principal == asked.sources.rights.principal.name)


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
    )


def _moment(seconds: float | None) -> datetime.datetime | None:
    if seconds is None:
        return None
    return datetime.datetime.fromtimestamp(round(seconds, 3), datetime.UTC)


def _nodes(asked: Asked) -> Iterator[Row]:
    http = asked.sources.config.http
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


def rows(schema: str, table: str, asked: Asked) -> list[Row]:
    """Returns the rows of a table; none for things that never exist here, such as procedures."""
    make = _ROWS[schema].get(table)
    return [] if make is None else list(make(asked))
