"""What the current request reveals about its sender, and about the page that sends it."""

from __future__ import annotations

import ssl

import flask

from seamline.gateway.access.authentication import PageRequest
from seamline.gateway.access.identity import Presented

IDENTIFIED = "seamline.identified"
"""The key in a request's environment of a function to call once the sender is identified."""


def presented() -> Presented:
    """Returns what the current request reveals about its sender."""
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


def page_request() -> PageRequest:
    """Returns what a browser says about the page that sends the current request."""
    request = flask.request
    headers = request.headers
    return PageRequest(
        headers.get("Sec-Fetch-Site"), headers.get("Origin"), request.host, request.is_secure
    )


def identified() -> None:
    """Tells the server that the sender of the current request is identified."""
    flask.request.environ.get(IDENTIFIED, lambda: None)()
