"""A REST catalog of one table, which answers what it is told to, on loopback."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def answering(table: dict[str, Any], **config: Any) -> Iterator[str]:
    """A catalog that has one table, and says more of itself as it is told to.

    Yields:
        Its address.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_config = self.path.startswith("/v1/config")
            body = json.dumps(
                {"defaults": {}, "overrides": {}, **config} if is_config else table
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
