"""An HTTP server in this process whose answers are JSON, for stubs of others' services."""

from __future__ import annotations

import dataclasses
import json
import socket
import threading
from collections.abc import Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclasses.dataclass(frozen=True)
class Request:
    """A request, with its headers by lower-case name."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclasses.dataclass(frozen=True)
class Answer:
    """An answer; bytes are sent as they are."""

    status: int
    body: Any
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


class JsonServer:
    """A server. A context: it ends with it.

    Attributes:
        is_away: Whether it closes connections without an answer.
        requests: The requests that it got.
    """

    def __init__(self) -> None:
        self.is_away = False
        self.requests: list[Request] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, request: Request) -> Answer:
        """The answer to a request."""
        raise NotImplementedError


def _handler(server: JsonServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            request = Request(self.command, self.path, _lower(self.headers), body)
            server.requests.append(request)
            if server.is_away:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            answer = server.answer(request)
            is_raw = isinstance(answer.body, bytes)
            data = answer.body if is_raw else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            headers = {"content-type": "application/json", **answer.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    return Handler


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
