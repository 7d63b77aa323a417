"""The way of a statement from text to result: parsed, given to its kind's handler, and written."""

from __future__ import annotations

import dataclasses
from typing import Any

from seamline.gateway.access.rights import told_as_seen
from seamline.gateway.catalogs import resolution
from seamline.gateway.commands import prepared, sessions
from seamline.gateway.commands.context import Context, Environment
from seamline.gateway.commands.kinds import kind_of
from seamline.gateway.commands.rows import Rows
from seamline.gateway.query.meanings import Meaning, Meanings
from seamline.gateway.query.tokens import forgotten
from seamline.gateway.statements import session_properties
from seamline.gateway.statements.statement import Statement
from seamline.seam.session import merge
from seamline.sql.parsing import parse
from seamline.sql.parsing import statements as sql
from seamline.sql.parsing.parameters import Values
from seamline.sql.parsing.statements import Execute, Query
from seamline.sql.session_zone import UTC


class StatementRunner:
    """Runs the statements of one principal. Safe to share between threads."""

    def __init__(self, environment: Environment, meanings: Meanings) -> None:
        self._environment = environment
        self._meanings = meanings

    def run(self, statement: Statement) -> None:
        """Runs a statement to its result and receipt.

        Raises:
            SeamlineError: whatever is wrong with the statement or with what it reads.
        """
        with told_as_seen(lambda: statement.sight):
            self._run(statement)

    def _run(self, statement: Statement) -> None:
        request, rights = statement.request, self._environment.connections.rights
        rights.require_execute()
        for name in sorted(session_properties.set_by(request)):
            rights.require_property(name)
        session = dataclasses.replace(
            resolution.session(self._environment.config, request.catalog, request.schema, rights),
            time_zone=request.time_zone or UTC,
        )
        parsed, values, meaning = self._parsed(statement)
        statement.parsed = parsed
        statement.is_read = isinstance(parsed, Query)
        kind = kind_of(parsed)
        if kind.is_write:
            sessions.refuse_writes(request)
        context: Context[Any] = Context(
            self._environment, statement, parsed, session, values, meaning
        )
        rows = kind.run(context)
        if rows is not None:
            self._answer(context, rows)

    def _parsed(self, statement: Statement) -> tuple[sql.Statement, Values, Meaning | None]:
        """Returns a statement (for EXECUTE, the prepared one) and the values of its parameters.

        Also returns the meaning of its text, if it is a query without parameters.
        """
        request, deadline = statement.request, statement.deadline
        text, dialect = request.statement, request.dialect
        compute, principal = self._environment.compute, statement.principal
        meaning = self._meanings.find(text, dialect, principal)
        if meaning is None:
            parsed = compute(lambda: parse.parse(text, dialect=dialect), deadline)
            if isinstance(parsed, Execute):
                return *compute(lambda: prepared.executed(parsed, request), deadline), None
            if not isinstance(parsed, Query):
                return parsed, request.parameters, None
            meaning = self._meanings.remember(text, dialect, principal, parsed)
        return meaning.query, request.parameters, None if request.parameters else meaning

    def _answer(self, context: Context[Any], rows: Rows) -> None:
        """Writes the rows of a statement that is not a query, and its changes to the session."""
        context.write(rows)
        statement, signer = context.statement, self._environment.signer
        statement.changes = rows.changes
        if rows.dropped and statement.request.after:
            left = signer.after(statement.request.after, statement.principal)
            for table in rows.dropped:
                left = forgotten(left, table)
            token = signer.sign(merge(left.seen), statement.principal)
            statement.receipt["session"] = signer.session_text(token, left.writes, ())
