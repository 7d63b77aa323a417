"""What the current request reveals about its sender."""

from __future__ import annotations

import ssl

import flask

from seamline.gateway.access.identity import Presented


def presented() -> Presented:
    """What the current request reveals about its sender."""
    request = flask.request
    connection = request.environ.get("gunicorn.socket")
    certificate = connection.getpeercert() if isinstance(connection, ssl.SSLSocket) else None
    return Presented(
        request.headers.get("Authorization"),
        request.host,
        request.remote_addr or "",
        certificate or None,
    )
