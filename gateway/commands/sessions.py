"""SET SESSION, RESET SESSION, SHOW SESSION and USE: what a client's session is from now on.

The answer carries the change, and the client sends it along with its next statements; see
`session_properties`.
"""

from __future__ import annotations

from seamline.errors import SCHEMA_NOT_FOUND, SeamlineError
from seamline.gateway.access.rights import Rights
from seamline.gateway.commands import listings
from seamline.gateway.commands.rows import Rows, done, matching, table
from seamline.gateway.connections import Sources
from seamline.gateway.query import names, session_properties
from seamline.gateway.query.names import Session
from seamline.gateway.query.statements import StatementRequest
from seamline.sql import types
from seamline.sql.near import did_you_mean
from seamline.sql.statements import SetSession, Show, Use


def set_property(statement: SetSession, rights: Rights) -> Rows:
    """SET SESSION, or RESET SESSION.

    Raises:
        SeamlineError: INVALID_SESSION_PROPERTY, PERMISSION_DENIED.
    """
    name = session_properties.property_of(statement.name).name
    rights.require_property(name)
    if statement.value is not None:
        session_properties.value_of(name, statement.value)
    return done({"properties": {name: statement.value}})


def show_properties(statement: Show, request: StatementRequest) -> Rows:
    """SHOW SESSION."""
    found = session_properties.shown(request.properties)
    shape = dict.fromkeys(("Name", "Value", "Default", "Type", "Description"), types.VARCHAR)
    return table(shape, matching(found, statement.like, statement.escape))


def use(statement: Use, session: Session, sources: Sources) -> Rows:
    """USE.

    Raises:
        SeamlineError: CATALOG_NOT_FOUND, SCHEMA_NOT_FOUND, CATALOG_UNAVAILABLE.
    """
    catalog, schema = names.resolve_schema(statement.name, session, sources)
    if not names.has_schema(sources, catalog, schema):
        raise SeamlineError(
            SCHEMA_NOT_FOUND,
            f"schema {schema} of catalog {catalog} does not exist",
            hint=did_you_mean(schema, listings.schemas(sources, catalog)),
        )
    return done({"catalog": catalog, "schema": schema})
