"""Audit of HTTP requests: refused logins, reads without a statement, canceled statements.

Query strings and bodies of requests are not logged, as they may hold conditions and secrets.
"""

from __future__ import annotations

import flask

from seamline.errors import SeamlineError
from seamline.gateway.access import authentication
from seamline.gateway.access.audit import AuditLog
from seamline.gateway.http.face_types import current_face
from seamline.gateway.statements import audited


def login_refused(audit: AuditLog, error: SeamlineError) -> None:
    """Logs a refused login."""
    if audit.is_on:
        fields = {
            "user": authentication.claimed_user(flask.request.headers.get("Authorization")),
            "address": flask.request.remote_addr or "",
            "request": _request(),
            "error": error.code.name,
        }
        audit.write("login", fields)


def answered(audit: AuditLog, status: int) -> None:
    """Logs a request that reads tables without a statement, or ends a statement."""
    if not audit.is_on or "origin" not in flask.g or not current_face().is_audited(flask.request):
        return
    error = flask.g.get("error")
    audit.write(
        "request",
        {
            **audited.who(flask.g.principal, flask.g.origin),
            "request": _request(),
            "table": flask.g.get("table"),
            "status": status,
            "error": error.code.name if error is not None else None,
        },
    )


def _request() -> str:
    return f"{flask.request.method} {flask.request.path}"
