"""Prepared statements: kept by the client as texts, which it sends along with its requests.

`executed` replaces EXECUTE by the prepared statement.
"""

from __future__ import annotations

import urllib.parse

from sqlglot import exp

from seamline.errors import (
    INVALID_PARAMETERS,
    PREPARED_STATEMENT_NOT_FOUND,
    STATEMENT_NOT_ALLOWED,
    STATEMENT_TOO_LARGE,
    Location,
    SeamlineError,
)
from seamline.gateway.commands.context import Context
from seamline.gateway.commands.rows import Rows, done
from seamline.gateway.statements.statement import StatementRequest
from seamline.sql.locations import location_of
from seamline.sql.near import did_you_mean
from seamline.sql.parsing import parameters, parse
from seamline.sql.parsing.parameters import Values
from seamline.sql.parsing.statements import (
    ABOUT_PREPARED,
    Deallocate,
    DescribePrepared,
    Execute,
    Prepare,
    Statement,
)


def prepare(context: Context[Prepare]) -> Rows:
    """Answers PREPARE: the statement is parsed, and kept by the client.

    Raises:
        SeamlineError: whatever is wrong with the statement; STATEMENT_NOT_ALLOWED,
            STATEMENT_TOO_LARGE.
    """
    statement, request = context.parsed, context.request
    _read(statement.text, request)
    size, longest = len(urllib.parse.quote_plus(statement.text)), request.prepared_bytes_max
    if longest is not None and size > longest:
        raise SeamlineError(
            STATEMENT_TOO_LARGE,
            f"the statement takes {size:,} bytes in a header, but at most {longest:,} fit",
            location=statement.location,
            hint="EXECUTE IMMEDIATE takes statements of any length.",
        )
    return done({"prepared": {statement.name: statement.text}})


def deallocate(context: Context[Deallocate]) -> Rows:
    """Answers DEALLOCATE PREPARE.

    Raises:
        SeamlineError: PREPARED_STATEMENT_NOT_FOUND.
    """
    statement = context.parsed
    _text_of(statement.name, context.request, statement.location)
    return done({"prepared": {statement.name: None}})


def executed(statement: Execute, request: StatementRequest) -> tuple[Statement, Values]:
    """Returns the statement that EXECUTE names, and the values of its parameters.

    Raises:
        SeamlineError: PREPARED_STATEMENT_NOT_FOUND, INVALID_PARAMETERS; whatever is wrong with the
            statement.
    """
    text = statement.text or _text_of(statement.name, request, statement.location)
    prepared = _read(text, request)
    row = parameters.bind(statement.values, request.parameters)
    values = list(row.expressions)
    for value in values:
        varying = value.find(exp.Column, exp.Query, exp.Star)
        if varying is not None:
            raise SeamlineError(
                INVALID_PARAMETERS,
                "a parameter must be a constant",
                location=location_of(varying),
                hint="USING takes literals, and expressions of literals.",
            )
    return prepared, values


def described(statement: DescribePrepared, request: StatementRequest) -> Statement:
    """Returns the statement that DESCRIBE INPUT or DESCRIBE OUTPUT is about.

    Raises:
        SeamlineError: PREPARED_STATEMENT_NOT_FOUND; whatever is wrong with the statement.
    """
    return _read(_text_of(statement.name, request, statement.location), request)


def _read(text: str, request: StatementRequest) -> Statement:
    statement = parse.parse(text, dialect=request.dialect)
    if isinstance(statement, ABOUT_PREPARED):
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED, "a statement about prepared statements cannot itself be prepared"
        )
    return statement


def _text_of(name: str, request: StatementRequest, location: Location | None) -> str:
    text = request.prepared.get(name)
    if text is None:
        raise SeamlineError(
            PREPARED_STATEMENT_NOT_FOUND,
            f"there is no prepared statement {name}",
            location=location,
            hint=did_you_mean(name, request.prepared),
        )
    return text
