"""Statements about the session: SET SESSION, RESET SESSION, SHOW SESSION, USE and transactions.

The answer carries the change, and the client sends it along with its next statements; see
`session_properties`.
"""

from __future__ import annotations

import uuid

from seamline.errors import SCHEMA_NOT_FOUND, STATEMENT_NOT_ALLOWED, SeamlineError
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Sources
from seamline.gateway.catalogs.resolution import Session
from seamline.gateway.commands.context import Context
from seamline.gateway.commands.rows import Rows, done, matching, table
from seamline.gateway.statements import session_properties
from seamline.gateway.statements.statement import NO_TRANSACTION, StatementRequest
from seamline.gateway.system import listings
from seamline.sql import types
from seamline.sql.near import did_you_mean
from seamline.sql.parsing.statements import (
    SetRole,
    SetSession,
    SetTimeZone,
    Show,
    Transaction,
    Use,
)


def set_property(sources: Sources, statement: SetSession, _: Session) -> Rows:
    """Runs SET SESSION or RESET SESSION.

    Raises:
        SeamlineError: INVALID_SESSION_PROPERTY, PERMISSION_DENIED.
    """
    name = session_properties.property_of(statement.name).name
    sources.rights.require_property(name)
    if statement.value is not None:
        session_properties.value_of(name, statement.value)
    return done({"properties": {name: statement.value}})


def set_time_zone(sources: Sources, statement: SetTimeZone, session: Session) -> Rows:
    """Runs SET TIME ZONE, which sets a property.

    Raises:
        SeamlineError: as `set_property`.
    """
    setting = SetSession(session_properties.TIME_ZONE, statement.zone)
    return set_property(sources, setting, session)


def set_role(sources: Sources, statement: SetRole, session: Session) -> Rows:
    """Runs SET ROLE ALL or NONE, which change nothing.

    Raises:
        SeamlineError: CATALOG_NOT_FOUND.
    """
    resolution.session(sources.config, statement.catalog or session.catalog, rights=sources.rights)
    return done()


def show_properties(context: Context[Show]) -> Rows:
    """Runs SHOW SESSION."""
    statement = context.parsed
    properties = session_properties.shown(context.request.properties)
    shape = dict.fromkeys(("Name", "Value", "Default", "Type", "Description"), types.VARCHAR)
    return table(shape, matching(properties, statement.like, statement.escape))


def use(sources: Sources, statement: Use, session: Session) -> Rows:
    """Runs USE.

    Raises:
        SeamlineError: CATALOG_NOT_FOUND, SCHEMA_NOT_FOUND, CATALOG_UNAVAILABLE.
    """
    catalog, schema = existing_schema(statement.name, session, sources)
    return done({"catalog": catalog, "schema": schema})


def existing_schema(name: tuple[str, ...], session: Session, sources: Sources) -> tuple[str, str]:
    """Returns the catalog and the schema that a name refers to, as they are listed.

    Raises:
        SeamlineError: as `use`.
    """
    catalog, schema = resolution.resolve_schema(name, session, sources)
    existing = resolution.find_schema(sources, catalog, schema)
    if existing is None:
        raise SeamlineError(
            SCHEMA_NOT_FOUND,
            f"schema {schema} of catalog {catalog} does not exist",
            hint=did_you_mean(schema, listings.schemas(sources, catalog)),
        )
    return catalog, existing


# --- Transactions --------------------------------------------------------------------------------

_ALONE = "Every statement is a transaction of its own; a token repeats a read."


def transaction(context: Context[Transaction]) -> Rows:
    """Runs START TRANSACTION, COMMIT or ROLLBACK, which only change the session's transaction id.

    Raises:
        SeamlineError: STATEMENT_NOT_ALLOWED if the client's sessions have no transactions, if
            START TRANSACTION is sent inside a transaction, or COMMIT or ROLLBACK outside of one.
    """
    statement, request = context.parsed, context.request
    if request.transaction is None:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED, f"{statement.what} is not allowed here", hint=_ALONE
        )
    begins, is_in = statement.what.startswith("START"), request.transaction != NO_TRANSACTION
    if begins is is_in:
        state = "already in a transaction" if is_in else "not in a transaction"
        raise SeamlineError(STATEMENT_NOT_ALLOWED, f"the session is {state}", hint=_ALONE)
    return done({"transaction": str(uuid.uuid4()) if begins else None})


def refuse_writes(request: StatementRequest) -> None:
    """Refuses writes in a transaction, whose end could neither commit nor undo them.

    Raises:
        SeamlineError: STATEMENT_NOT_ALLOWED.
    """
    if request.transaction not in {None, NO_TRANSACTION}:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            "nothing can be written inside a transaction, because it could not be rolled back",
            hint="Write with autocommit on: every statement is a transaction of its own.",
        )
