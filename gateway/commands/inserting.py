"""CREATE TABLE … AS and INSERT INTO: the rows of a query are written to a table."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from sqlglot import exp

from seamline.connectors.iceberg.tables import commits
from seamline.gateway.commands import writes
from seamline.gateway.commands.context import Context
from seamline.gateway.commands.describing import Inputs
from seamline.gateway.commands.reading import reading
from seamline.gateway.commands.rows import Rows, count
from seamline.sql.locations import locate_errors_at
from seamline.sql.parsing.statements import CreateTableAs, Insert


def create_table_as(context: Context[CreateTableAs]) -> Rows:
    """Runs CREATE TABLE … AS.

    Raises:
        SeamlineError: TABLE_EXISTS, INVALID_TABLE_DEFINITION, …; whatever is wrong with the query.
    """
    parsed, connections = context.parsed, context.connections
    request = dataclasses.replace(context.query(parsed.query), row_limit=None)

    def create() -> int:
        with locate_errors_at(parsed.location):
            table = writes.new_table(connections, parsed.table, context.session)
        if table is None:
            return 0
        context.statement.writes = table.name.display
        if not parsed.with_data:
            output = context.plan(request).plan.logical.query.output
            fields = writes.fields_of_query(output)
            return writes.create(connections, table, fields, iter(())).rows
        with reading(context, request) as running:
            fields = writes.fields_of_query(running.planned.plan.logical.query.output)
            return writes.create(connections, table, fields, iter(running.batches)).rows

    return count(commits.insist(create))


def insert(context: Context[Insert]) -> Rows:
    """Runs INSERT INTO.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, TYPE_MISMATCH, …; whatever is wrong with the query.
    """
    parsed, statement = context.parsed, context.statement
    with locate_errors_at(parsed.location):
        target = writes.target(context.connections, parsed, context.session)
    statement.writes = target.name.display
    request = dataclasses.replace(
        context.query(parsed.query),
        row_limit=None,
        fit=functools.partial(writes.cast_to_columns, target),
    )
    with reading(context, request) as running:
        with locate_errors_at(parsed.location):
            writes.check_types(target, running.planned.plan.logical.query.output)
        written = writes.insert(
            context.connections, target, iter(running.batches), statement.deadline
        )
    return report(context, target, written)


def report(context: Context[Any], target: writes.Target, written: writes.Written) -> Rows:
    """Reports what was written; waits until it is readable if the client sends no tokens.

    Raises:
        SeamlineError: DEADLINE_EXCEEDED, KAFKA_UNAVAILABLE.
    """
    statement, signer = context.statement, context.environment.signer
    if written.write is not None:
        if not statement.request.carries_tokens:
            writes.wait_until_readable(
                context.connections, target, written.write, statement.deadline
            )
        statement.write_token = signer.write_text(written.write)
        session = statement.receipt["session"]
        statement.receipt["session"] = signer.session_text(session, [written.write], ())
    return count(written.rows)


def inputs(context: Context[Insert], tree: exp.Expr) -> Inputs:
    """Returns the query for DESCRIBE INPUT, and the columns that it is written to."""
    return tree, writes.target(context.connections, context.parsed, context.session).given
