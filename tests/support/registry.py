"""A schema registry that speaks Confluent's API over HTTP, in this process; and its producers.

It answers the routes that the official client uses: registering, looking up, ids, GUIDs, subjects
and versions, references. The serializers are the official client's own.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import socket
import threading
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import fastavro
from confluent_kafka.schema_registry import SchemaRegistryClient
from google.protobuf import message_factory

from seamline.connectors.kafka.formats import protobuf_schema
from seamline.connectors.kafka.formats.schemas import Schema


class Registry:
    """A registry. A context: its server ends with it.

    Attributes:
        asked: The paths that were asked for.
        refuses: A status that every request is answered with instead, if set.
        authorization: The header that every request must have, if set.
        accepts: Whether it accepts a bearer token; of every request, if set.
        headers: The headers of the last request.
        is_over: Whether it is gone.
        may_answer: Every answer waits for it.
        lacks_ids_of_guids: Whether it is one of those that do not report which ids a GUID has.
        deleted: The paths that are answered only with `deleted=true`, of versions that are deleted.
        gone: The paths of what is deleted for good.
        of_nothing: The body of an answer that something is not there.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refuses: int | None = None
        self.authorization: str | None = None
        self.accepts: Callable[[str], bool] | None = None
        self.headers: dict[str, str] = {}
        self.is_over = False
        self.lacks_ids_of_guids = False
        self.deleted: set[str] = set()
        self.gone: set[str] = set()
        self.of_nothing = b'{"error_code": 40403, "message": "not found"}'
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the server, and the client."""
        if "client" in self.__dict__:
            self.client.close()
        self.is_over = True
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_port

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @functools.cached_property
    def client(self) -> SchemaRegistryClient:
        """The official client of it, for its serializers."""
        return SchemaRegistryClient({"url": self.url})

    def register(
        self,
        subject: str,
        text: str,
        kind: str = "AVRO",
        references: list[dict[str, Any]] | None = None,
    ) -> int:
        """Adds a schema to a subject and gives its id; the same schema keeps its id."""
        schema = {"schema": text, "schemaType": kind, "references": references or []}
        if schema not in self._schemas:
            self._schemas.append(schema)
        schema_id = self._schemas.index(schema) + 1
        versions = self._subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, method: str, path: str, body: Any) -> Any:
        """The answer to a request; None when there is nothing of the kind."""
        match [method, *path.strip("/").split("/")]:
            case ["GET", "schemas", "ids", number]:
                return self._by_id(int(number))
            case ["GET", "schemas", "ids", number, "versions"]:
                places = ((s, ids) for s, ids in self._subjects.items() if int(number) in ids)
                return [{"subject": s, "version": ids.index(int(number)) + 1} for s, ids in places]
            case ["GET", "schemas", "guids", guid]:
                ids = range(1, len(self._schemas) + 1)
                return next((self._by_id(i) for i in ids if guid_of(i) == guid), None)
            case ["GET", "schemas", "guids", guid, "ids"] if not self.lacks_ids_of_guids:
                ids = range(1, len(self._schemas) + 1)
                return [{"context": ".", "id": i} for i in ids if guid_of(i) == guid]
            case ["GET", "subjects"]:
                return sorted(self._subjects)
            case ["GET", "subjects", subject, "versions"]:
                return list(range(1, len(self._subjects.get(subject, ())) + 1)) or None
            case ["GET", "subjects", subject, "versions", version]:
                return self._version(subject, version)
            case ["POST", "subjects", subject, "versions"]:
                kind = body.get("schemaType") or "AVRO"
                schema_id = self.register(subject, body["schema"], kind, body.get("references"))
                return self._known(subject, schema_id)
            case ["POST", "subjects", subject]:
                for schema_id in self._subjects.get(subject, ()):
                    if self._schemas[schema_id - 1]["schema"] == body["schema"]:
                        return self._known(subject, schema_id)
        return None

    def _by_id(self, schema_id: int) -> dict[str, Any] | None:
        if not 0 < schema_id <= len(self._schemas):
            return None
        return {**self._schemas[schema_id - 1], "guid": guid_of(schema_id)}

    def _version(self, subject: str, version: str) -> dict[str, Any] | None:
        versions = self._subjects.get(subject, [])
        number = len(versions) if version in ("latest", "-1") else int(version)
        return self._known(subject, versions[number - 1]) if 0 < number <= len(versions) else None

    def _known(self, subject: str, schema_id: int) -> dict[str, Any]:
        version = self._subjects[subject].index(schema_id) + 1
        found = self._by_id(schema_id)
        assert found is not None
        return {**found, "subject": subject, "version": version, "id": schema_id}


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that is gone need not be reported."""


def guid_of(schema_id: int) -> str:
    """The GUID of a schema."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(schema_id)))


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _run(self) -> None:
            if registry.is_over:  # a connection that was kept open
                self.close_connection = True
                return
            parts = urllib.parse.urlsplit(self.path)
            path = urllib.parse.unquote(parts.path)
            is_hidden = path in registry.deleted and "deleted=true" not in parts.query
            registry.asked.append(path)
            registry.may_answer.wait()
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            allowed = registry.authorization in (None, self.headers.get("authorization"))
            registry.headers = dict(self.headers.items())
            if registry.accepts is not None:
                kind, _, token = self.headers.get("authorization", "").partition(" ")
                allowed = kind == "Bearer" and registry.accepts(token)
            status, answer = 401, {"error_code": 401, "message": "no"}
            if registry.refuses is not None:
                status = registry.refuses
            elif allowed:
                found = registry.answer(self.command, path, body)
                status, answer = 200, found
                if found is None or is_hidden or path in registry.gone:
                    status = 404
            content = registry.of_nothing if status == 404 else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/vnd.schemaregistry.v1+json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = _run  # noqa: N815 - names of the standard library

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    return Handler


def encoded(kind: str, text: str, body: dict[str, Any]) -> bytes:
    """A record of a schema, or its message `Order`, without anything before it."""
    if kind == "AVRO":
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, fastavro.parse_schema(json.loads(text)), body)
        return sink.getvalue()
    file = protobuf_schema.compiled(Schema(kind, text))
    make = message_factory.GetMessageClass(file.message_types_by_name["Order"])
    return bytes(make(**body).SerializeToString(deterministic=True))


def registries() -> Iterator[Registry]:
    """For a fixture: one registry."""
    with Registry() as running:
        yield running
