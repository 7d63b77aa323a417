"""Goal: whatever a REST catalog fails with has its name, and none is waited for without end.

Method: a server on loopback that answers every request with one status, or with nothing at all.
"""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from seamline.connectors.config import CatalogConfig
from seamline.connectors.iceberg import pyiceberg_internals
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
from seamline.errors import CATALOG_ACCESS_DENIED, CATALOG_UNAVAILABLE, SeamlineError


def failure(url: str) -> SeamlineError:
    with pytest.raises(SeamlineError) as caught:
        IcebergCatalog(CatalogConfig(name="lake", type="rest", uri=url)).tables(("default",))
    return caught.value


@contextmanager
def answering(status: int, text: bytes | None = None) -> Iterator[str]:
    """A server whose configuration is fine and whose every other answer has this status.

    Args:
        status: The status.
        text: What the other answers consist of, instead of an error as specified.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_config = self.path.startswith("/v1/config")
            error = {"error": {"message": "no", "type": "Error", "code": status}}
            body = json.dumps({"defaults": {}, "overrides": {}} if is_config else error).encode()
            body = body if is_config or text is None else text
            self.send_response(200 if is_config else status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("status", [401, 403, 419])
def test_a_catalog_that_refuses(status: int) -> None:
    with answering(status) as url:
        assert failure(url).code is CATALOG_ACCESS_DENIED


@pytest.mark.parametrize("status", [400, 429, 500, 502, 503])
def test_a_catalog_that_fails(status: int) -> None:
    with answering(status) as url:
        assert failure(url).code is CATALOG_UNAVAILABLE


@pytest.mark.parametrize("text", [b"<html>log in</html>", b'{"identifiers": [{"na', b"[]", b"null"])
def test_a_success_that_is_no_json_object(text: bytes) -> None:
    with answering(200, text) as url:
        assert failure(url).code is CATALOG_UNAVAILABLE
        catalog = IcebergCatalog(CatalogConfig(name="lake", type="rest", uri=url))
        with pytest.raises(SeamlineError, match="no JSON object") as caught:
            catalog.load(("default", "t"))
    assert caught.value.code is CATALOG_UNAVAILABLE


def test_a_catalog_that_is_not_there() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # nobody else gets the port, and nobody listens at it
        port = deaf.getsockname()[1]
        assert failure(f"http://127.0.0.1:{port}").code is CATALOG_UNAVAILABLE


def test_a_catalog_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyiceberg_internals, "READ_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = failure(f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert found.code is CATALOG_UNAVAILABLE
