"""Trino's protocol documents about a statement, except for its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seamline.errors import SeamlineError
from seamline.gateway.commands import updates
from seamline.gateway.statements.statement import FINAL, Statement
from seamline.gateway.trino.errors import message_of, trino_error
from seamline.gateway.trino.type_signatures import signature, written
from seamline.sql.binder.scope import Output


def document(
    statement: Statement, info_uri: str, next_uri: str | None, *, precisions: bool
) -> dict[str, Any]:
    """Returns everything about a statement except for its rows.

    Args:
        statement: The statement.
        info_uri: A page about it for people.
        next_uri: The address of its next page; None when there is none.
        precisions: Whether types of times have their precision.
    """
    body: dict[str, Any] = {"id": statement.statement_id, "infoUri": info_uri}
    if next_uri is not None:
        body["nextUri"] = next_uri
    if statement.error is not None:
        body["error"] = error(statement.error)
    elif columns := statement.tell_columns():
        body["columns"] = [_column(column, precisions=precisions) for column in columns]
    update = updates.update_type(statement)
    if update is not None:
        body["updateType"] = update
        written = updates.rows_written(statement)
        if written is not None:
            body["updateCount"] = written
    body["stats"] = stats(statement)
    body["warnings"] = []
    return body


def refusal(refused: SeamlineError, statement_id: str, info_uri: str) -> dict[str, Any]:
    """Returns the answer to a statement that was not accepted."""
    return {
        "id": statement_id,
        "infoUri": info_uri,
        "stats": _stats("FAILED"),
        "error": error(refused),
        "warnings": [],
    }


def summary(statement: Statement) -> dict[str, Any]:
    """Returns a summary of a statement."""
    request = statement.request
    body = {
        "queryId": statement.statement_id,
        "state": statement.trino_state,
        "query": request.statement,
        "session": {
            "user": statement.principal,
            "source": request.source,
            "catalog": request.catalog,
            "schema": request.schema,
            "clientTags": list(request.client_tags),
        },
        "queryStats": stats(statement),
    }
    if statement.error is not None:
        failure_ = error(statement.error)
        code = {
            "code": failure_["errorCode"],
            "name": failure_["errorName"],
            "type": failure_["errorType"],
        }
        body |= {"errorType": failure_["errorType"], "errorCode": code}
        body["failureInfo"] = failure_["failureInfo"]
    return body


def _column(column: Output, *, precisions: bool) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": written(column.type, precisions=precisions),
        "typeSignature": signature(column.type, precisions=precisions),
    }


# --- Progress ------------------------------------------------------------------------------------


def stats(statement: Statement) -> dict[str, Any]:
    """Returns a statement's progress.

    Each chunk of its result counts as a split; one more is open while it runs.
    """
    state, receipt = statement.trino_state, statement.receipt
    ready = statement.spool.chunk_count if statement.spool is not None else 0
    is_open = statement.state not in FINAL
    elapsed_ms = int(statement.elapsed_s * 1000)
    return _stats(
        state,
        totalSplits=ready + is_open,
        queuedSplits=int(state == "QUEUED"),
        runningSplits=int(is_open and state != "QUEUED"),
        completedSplits=ready,
        wallTimeMillis=elapsed_ms,
        elapsedTimeMillis=elapsed_ms,
        processedRows=sum(receipt.get(f"rows_{tier}") or 0 for tier in ("cold", "hot")),
        processedBytes=sum(receipt.get(f"bytes_{tier}") or 0 for tier in ("cold", "hot")),
    )


def _stats(state: str, **counts: int) -> dict[str, Any]:
    is_scheduled = state in {"RUNNING", "FINISHED"}
    body: dict[str, Any] = {
        "state": state,
        "queued": state == "QUEUED",
        "scheduled": is_scheduled,
        "nodes": int(is_scheduled),
        **dict.fromkeys(_COUNTS, 0),
        **counts,
    }
    if is_scheduled and body["totalSplits"]:
        body["progressPercentage"] = 100.0 * body["completedSplits"] / body["totalSplits"]
    return body


_COUNTS = (
    "totalSplits",
    "queuedSplits",
    "runningSplits",
    "completedSplits",
    "planningTimeMillis",
    "analysisTimeMillis",
    "cpuTimeMillis",
    "wallTimeMillis",
    "queuedTimeMillis",
    "elapsedTimeMillis",
    "finishingTimeMillis",
    "physicalInputTimeMillis",
    "processedRows",
    "processedBytes",
    "physicalInputBytes",
    "physicalWrittenBytes",
    "internalNetworkInputBytes",
    "peakMemoryBytes",
    "spilledBytes",
)


# --- Errors --------------------------------------------------------------------------------------


def error(failure: SeamlineError) -> Mapping[str, Any]:
    """Returns an error in Trino's form.

    The message has location and hint, as people look there; our own name is in `failureInfo`.
    """
    named = trino_error(failure.code)
    location = failure.location
    where = f"line {location.line}:{location.column}: " if location is not None else ""
    message = f"{where}{message_of(failure)}" + (f"\n{failure.hint}" if failure.hint else "")
    located = (
        {"errorLocation": {"lineNumber": location.line, "columnNumber": location.column}}
        if location is not None
        else {}
    )
    return {
        "message": message,
        "errorCode": named.number,
        "errorName": named.name,
        "errorType": named.kind.value,
        **located,
        "failureInfo": {
            "type": f"seamline.{failure.code.name}",
            "message": message,
            "suppressed": [],
            "stack": [],
            **located,
        },
    }
