"""What the audit log records about a statement: caller, tables and columns, and outcome.

Error messages are left out: they may repeat values.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from seamline.errors import SeamlineError
from seamline.gateway.access.audit import AuditLog, Origin
from seamline.gateway.access.rights import Principal
from seamline.gateway.statements.statement import Statement, StatementRequest
from seamline.planners.plan.logical import Scan
from seamline.sql.parsing.literal_redaction import redacted

_TEXT_MAX = 1 << 17


def ended(audit: AuditLog, statement: Statement) -> None:
    """Records a statement that has ended."""
    if not audit.is_on:
        return
    receipt, spool = statement.whole_receipt, statement.spool
    begun = datetime.datetime.fromtimestamp(statement.submitted_at, datetime.UTC)
    audit.write(
        "statement",
        {
            **_asked(audit, statement.request, statement.caller, statement.origin),
            "statement_id": statement.statement_id,
            "submitted_at": begun.isoformat(timespec="milliseconds"),
            "elapsed_s": round(statement.elapsed_s, 6),
            "state": statement.state.value,
            "error": statement.error.code.name if statement.error is not None else None,
            "engine": receipt.get("engine"),
            "tables": list(statement.tables),
            "writes": statement.writes,
            "rows": spool.row_count if spool is not None else 0,
            "bytes": statement.size_bytes,
            "rows_cold": receipt.get("rows_cold"),
            "rows_hot": receipt.get("rows_hot"),
        },
    )


def refused(
    audit: AuditLog,
    request: StatementRequest,
    caller: Principal,
    origin: Origin,
    error: SeamlineError,
) -> None:
    """Records a statement that was not accepted."""
    if audit.is_on:
        fields = _asked(audit, request, caller, origin)
        audit.write("statement", {**fields, "state": "REFUSED", "error": error.code.name})


def tables_of(scans: Sequence[Scan]) -> tuple[dict[str, Any], ...]:
    """Returns the tables that scans read, each with all columns that are read from it."""
    by_table: dict[str, dict[str, None]] = {}
    for scan in scans:
        columns = by_table.setdefault(".".join(scan.seam.table), {})
        columns.update(dict.fromkeys(column.name for column in scan.columns))
    return tuple({"table": table, "columns": list(columns)} for table, columns in by_table.items())


def _said(request: StatementRequest) -> dict[str, Any]:
    """Returns what the program says about itself, if anything."""
    fields = {"source": request.source, "client_tags": list(request.client_tags)}
    return {name: value for name, value in fields.items() if value}


def who(principal: Principal, origin: Origin) -> Mapping[str, Any]:
    """Returns the fields that identify the caller in every event."""
    return {
        "user": principal.name,
        "groups": list(principal.groups),
        "method": origin.method,
        "credential": origin.credential,
        "address": origin.address,
    }


def _asked(
    audit: AuditLog, request: StatementRequest, caller: Principal, origin: Origin
) -> dict[str, Any]:
    text = request.statement
    normalised = redacted(text, request.dialect)
    return {
        **who(caller, origin),
        "statement": None if audit.hides_literals else text[:_TEXT_MAX],
        "normalised": normalised[:_TEXT_MAX] if normalised is not None else None,
        "is_cut": len(text) > _TEXT_MAX,
        "catalog": request.catalog,
        "schema": request.schema,
        **_said(request),
    }
