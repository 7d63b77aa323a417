"""What tiering reports over HTTP: its health (`/healthz`) and its metrics.

Both contain names of tables, errors and counts, but no data.
"""

from __future__ import annotations

import http.server
import json
import logging
import socket
import sys
from typing import Any

from seamline.connectors import supervision
from seamline.gateway.metrics import new_registry, text_of
from seamline.gateway.tiering.application import TieringApplication
from seamline.gateway.tiering.metrics import TieringMetrics

_LOG = logging.getLogger("seamline.tiering")

UNHEALTHY_AFTER_S = 1800.0
"""Longer than any working batch takes."""


def serve_metrics(
    application: TieringApplication,
    host: str,
    port: int,
    unhealthy_after_s: float = UNHEALTHY_AFTER_S,
) -> http.server.ThreadingHTTPServer:
    """Serves health and metrics until the server is shut down.

    Args:
        application: The application to report on.
        host: Address to listen on.
        port: Port to listen on; 0 picks a free one.
        unhealthy_after_s: When no step of a table has succeeded for this long, health is 503.

    Raises:
        OSError: when it cannot listen there.
    """
    registry = new_registry()
    registry.register(TieringMetrics(application))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answers `/healthz` with health, and any other path with the metrics."""
            is_well, kind = True, "text/plain; version=0.0.4"
            if self.path.partition("?")[0] == "/healthz":
                is_well, tables = application.health(unhealthy_after_s)
                body, kind = json.dumps(tables).encode(), "application/json"
            else:
                body = text_of(registry).encode()
            self.send_response(200 if is_well else 503)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's
            """Does nothing: requests are not logged."""

    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - its own
            """Logs the error, unless the client has just disconnected."""
            error = sys.exc_info()[1]
            if error is not None and not isinstance(error, ConnectionError):
                _LOG.error("a request failed: %s", supervision.named(error))

    server = Server((host, port), Handler)
    supervision.start("tier-metrics", server.serve_forever)
    return server
