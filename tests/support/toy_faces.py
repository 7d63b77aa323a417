"""Two faces that the product does not have, and `seamline` with them, as a program."""

from __future__ import annotations

import socketserver
import sys
import threading
from typing import TYPE_CHECKING

import flask

from seamline.gateway.faces import FACES, Face

if TYPE_CHECKING:  # the settings are made from the table, so it is complete before they are loaded
    from seamline.gateway.http.face_types import HttpFace, Parts

GREETING = b"hello\n"
CLOSED = "the toy's port is closed"


def over_http(_parts: Parts) -> HttpFace:
    """A face with one route."""
    from seamline.gateway.http.face_types import HttpFace

    routes = flask.Blueprint("toy", __name__)
    routes.get("/toy")(lambda: {"caller": flask.g.principal.name})
    return HttpFace(blueprints=(routes,), serves=lambda path: path.startswith("/toy"))


class _Greeting(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(GREETING)


class WithPort:
    """A face that greets whoever connects to its port."""

    def __init__(self, parts: Parts) -> None:
        host, port = parts.config.http.host, parts.config.ports["toy_port"]
        self._server = socketserver.TCPServer((host, port), _Greeting)
        self.address = f"toy://{host}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        """Stops, and says so."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        print(CLOSED, file=sys.stderr, flush=True)


if __name__ == "__main__":
    FACES["toy"] = Face("a toy", "support.toy_faces:over_http")
    FACES["toy_port"] = Face("a toy's protocol", "support.toy_faces:WithPort", has_port=True)
    from seamline.cli import main

    main()
