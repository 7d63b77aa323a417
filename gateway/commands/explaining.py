"""EXPLAIN and EXPLAIN ANALYZE, without conditions and columns that access rules hide."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from seamline.gateway.commands.context import Context
from seamline.gateway.commands.reading import reading
from seamline.gateway.commands.rows import Rows
from seamline.planners.explain import (
    Explained,
    explain,
    explain_io,
    explain_json,
    explain_logical,
)
from seamline.planners.plan.logical import Scan
from seamline.planners.plan.physical import PhysicalPlan
from seamline.sql import types
from seamline.sql.binder.scope import Output
from seamline.sql.parsing.statements import Explain

_PLAN = (Output("Query Plan", types.VARCHAR),)
_VALID = (Output("Valid", types.BOOLEAN),)


def run(context: Context[Explain]) -> Rows:
    """Runs EXPLAIN.

    Raises:
        SeamlineError: whatever is wrong with the query or with what it reads.
    """
    parsed = context.parsed
    if parsed.analyze:
        return _analyze(context)
    planned = context.plan(context.query(parsed.query))
    context.note(planned)
    plan = _shown(context, planned.plan)
    if parsed.type == "VALIDATE":
        return Rows(_VALID, [(True,)])
    if parsed.type == "IO":
        return _lines([json.dumps(explain_io(plan), indent=2)])
    if parsed.format == "JSON":
        return _lines([json.dumps(explain_json(plan), indent=2)])
    return _lines(explain_logical(plan) if parsed.type == "LOGICAL" else explain(plan))


def _analyze(context: Context[Explain]) -> Rows:
    """Runs a query and reports on the run; its rows are counted and discarded."""
    statement, rows = context.statement, 0
    request = dataclasses.replace(context.query(context.parsed.query), row_limit=None)
    with reading(context, request) as running:
        for batch in running.batches:
            statement.deadline.check()
            rows += batch.num_rows
    sees_all = statement.sight.all
    verbose = context.parsed.verbose and sees_all  # the bound query contains the access rules
    lines = explain(_shown(context, running.planned.plan), verbose=verbose)
    ran = f"Ran in {statement.elapsed_s:.3f} s: {rows:,} rows"
    if sees_all:
        receipt = statement.receipt
        ran += f", {receipt['rows_hot']:,} records read from the log "
        ran += f"({receipt['bytes_hot']:,} bytes)"
    return _lines([*lines, "", ran])


def _shown(context: Context[Any], plan: PhysicalPlan) -> Explained:
    """Returns a plan as it may be shown: without conditions and columns of access rules."""
    rights = context.rights(plan.logical)
    in_part: set[str] = set()

    def shown(scan: Scan) -> Scan:
        of_scan = rights[scan.scan_id]
        if all(each.sees_all for each in of_scan):
            return scan
        in_part.add(scan.scan_id)
        seen = (c for c in scan.columns if all(each.sees_column(c.name) for each in of_scan))
        return dataclasses.replace(scan, columns=tuple(seen), predicate=None)

    scans = tuple(map(shown, plan.logical.scans))
    logical = dataclasses.replace(plan.logical, scans=scans)
    return Explained(dataclasses.replace(plan, logical=logical), frozenset(in_part))


def output(parsed: Explain) -> tuple[Output, ...]:
    """Returns the columns of the result."""
    return _VALID if parsed.type == "VALIDATE" and not parsed.analyze else _PLAN


def _lines(lines: Sequence[str]) -> Rows:
    return Rows(_PLAN, [(line,) for line in lines])
