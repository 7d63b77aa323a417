"""Queries, and the queries inside other statements: run, with a receipt of what they read.

The rows of a query are written to the spool as its engine produces them.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from seamline.gateway.access.rights import TableRights
from seamline.gateway.commands.context import Context
from seamline.gateway.query import receipt
from seamline.gateway.query.queries import Planned, QueryRequest, Running
from seamline.gateway.query.result_cache import RESULT_BYTES_MAX, SharedRun, ending
from seamline.seam.session import merge
from seamline.sql.parsing.statements import Query


def run(context: Context[Query]) -> None:
    """Runs a query to its result and receipt.

    Raises:
        SeamlineError: whatever is wrong with the query or with what it reads.
    """
    statement, environment = context.statement, context.environment

    def planned(plan: Planned) -> None:
        context.note(plan)
        statement.planned(tuple(plan.plan.logical.query.output))
        estimate = plan.plan.estimate
        statement.progress = {"engine": plan.plan.route.engine}
        if statement.sight.all:
            statement.progress |= {
                "rows_estimated": estimate.cold_rows + estimate.hot_rows,
                "rows_cold_estimated": estimate.cold_rows,
                "rows_hot_estimated": estimate.hot_rows,
                "bytes_estimated": estimate.cold_bytes,
            }

    request = dataclasses.replace(
        context.query(context.parsed),
        meaning=context.meaning,
        is_shared=statement.request.result_cache is not False,
    )
    if request.row_limit is None:  # else its rows are counted here
        file = environment.spools.file_for_engine(statement.statement_id)
        request = dataclasses.replace(request, file=file)
    running = environment.queries.start(request, statement.deadline, planned)
    with ending(running.shared), contextlib.closing(running.batches):
        _write_receipt(context, request, running)
        _write_batches(context, running)
        if running.shared is not None:
            _publish(context, running, running.shared)


@contextlib.contextmanager
def reading(context: Context[Any], request: QueryRequest) -> Iterator[Running]:
    """Runs a query whose rows are used by its statement, not returned to the client."""
    running = context.environment.queries.start(request, context.statement.deadline, context.note)
    with contextlib.closing(running.batches):
        _write_receipt(context, request, running)
        yield running


def _write_receipt(context: Context[Any], request: QueryRequest, running: Running) -> None:
    plan, statement, signer = running.planned.plan, context.statement, context.environment.signer
    read = [s for s in plan.seams if s.table_uuid or s.log.topic]
    tables = [s for s in read if s.since is None and not s.as_of]
    whole = {seam.identity for seam in tables}
    parts = [s for s in read if s.since is not None and s.identity not in whole]
    now = () if request.token else (*tables, *(s.whole for s in parts if not s.as_of))
    statement.whole_receipt = receipt.receipt(
        plan,
        running.execution.tails,
        freshness=request.freshness,
        as_of=running.planned.as_of,
        token=signer.sign((*tables, *merge(s.whole for s in parts)), statement.principal),
        session=signer.session_text(
            signer.sign(merge((*request.after.seen, *now)), statement.principal),
            request.after.writes,
            () if request.token else tables,
        ),
        retries=running.retries,
        held=running.held.held,
        computed_at=running.computed_at,
    )
    rights: dict[tuple[str, ...], list[TableRights]] = {}
    of_scan = context.rights(plan.logical)
    for scan in plan.logical.scans:
        rights.setdefault(scan.seam.table, []).extend(of_scan[scan.scan_id])
    statement.receipt = receipt.shown(statement.whole_receipt, rights)


def _write_batches(context: Context[Query], running: Running) -> None:
    statement = context.statement
    spool = context.open_result(running.planned.plan.logical.query.output)
    limit = statement.request.row_limit
    for batch in running.batches:
        statement.deadline.check()
        if limit is not None and spool.row_count + batch.num_rows > limit:
            spool.write(batch.slice(0, limit - spool.row_count))
            statement.truncated = True
            return
        spool.write(batch)
        statement.progress["rows_produced"] = spool.row_count
    for chunk in running.batches.chunks():
        if running.shared is not None:
            running.shared.abandon()  # the result is large: nobody needs to wait for the rest
        statement.deadline.check()
        spool.adopt(chunk)
        statement.progress["rows_produced"] = spool.row_count


def _publish(context: Context[Query], running: Running, run: SharedRun) -> None:
    """Gives a complete and small result to those who wait for it, and to later statements."""
    statement, planned = context.statement, running.planned
    spool = statement.spool
    if statement.truncated or spool is None or run.has_ended:
        return
    spool.finish()
    chunks = spool.chunks_in_memory(RESULT_BYTES_MAX)
    run.publish(planned.plan, planned.as_of, running.execution.tails, chunks)
