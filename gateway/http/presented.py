"""What the current request reveals about its sender."""

from __future__ import annotations

import ssl

import flask

from seamline.gateway.access.identity import Presented

IDENTIFIED = "seamline.identified"
"""What a server has in a request's environment to be told that it is known who asks."""


def presented() -> Presented:
    """What the current request reveals about its sender."""
    request = flask.request
    connection = request.environ.get("gunicorn.socket")
    certificate, encoded = None, None
    if isinstance(connection, ssl.SSLSocket):
        certificate = connection.getpeercert()
        encoded = connection.getpeercert(binary_form=True)
    return Presented(
        request.headers.get("Authorization"),
        request.host,
        request.remote_addr or "",
        certificate or None,
        encoded or b"",
    )


def identified() -> None:
    """It is known who sends the current request."""
    flask.request.environ.get(IDENTIFIED, lambda: None)()
