"""What a face of the gateway is made from, and what it is: see `gateway/faces.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

import flask
from pydantic import BaseModel
from werkzeug.routing import Rule

from seamline.errors import ErrorCode, SeamlineError
from seamline.gateway.access.audit import AuditLog
from seamline.gateway.access.authentication import Authentication
from seamline.gateway.access.control import AccessControl
from seamline.gateway.access.identity import Identity
from seamline.gateway.config.model import Config
from seamline.gateway.http import answers
from seamline.gateway.http.request_slots import RequestSlots
from seamline.gateway.http.streams import Streams
from seamline.gateway.query.seams import Seams
from seamline.gateway.readiness import Readiness
from seamline.gateway.statements.service import Service

_EXTENSION = "seamline.faces"


class Parts(Protocol):
    """The parts of a running gateway.

    Attributes:
        config: The configuration.
        service: Runs statements.
        seams: Pins tables for readers elsewhere.
        authentication: Identifies callers.
        access: What callers may do.
        audit: Records refused logins, and requests that read without a statement.
        readiness: Whether it should get statements.
        slots: The slots of HTTP requests.
        streams: Sends answers without an end.
        secret: Signs what it hands out.
    """

    config: Config
    service: Service
    seams: Seams
    authentication: Authentication
    access: AccessControl
    audit: AuditLog
    readiness: Readiness
    slots: RequestSlots
    streams: Streams
    secret: str

    def metrics_text(self) -> str:
        """Returns all metrics in Prometheus' text format."""


class Listener(Protocol):
    """A face with a port of its own, which it serves from its creation until it is closed."""

    address: str

    def close(self) -> None:
        """Stops serving."""


def _failed(error: SeamlineError) -> flask.Response:
    answer = flask.jsonify({"error": error.to_json()})
    answer.status_code = error.code.http_status
    return answer


@dataclasses.dataclass(frozen=True, slots=True)
class Failures:
    """The form in which a face answers with errors; by default that of the REST API."""

    model: type[BaseModel] = answers.Failure
    status_of: Callable[[ErrorCode], int] = lambda code: code.http_status
    answer: Callable[[SeamlineError], flask.Response] = _failed


@dataclasses.dataclass(frozen=True, slots=True)
class HttpFace:
    """A face on the HTTP application.

    Attributes:
        blueprints: Its routes.
        serves: Whether a path belongs to it, with a route or without.
        identify: Identifies who sends the current request, unless that is done as for other faces.
        is_public: Whether everybody may send its requests, from any page.
        is_audited: Whether the current request reads tables without a statement, or ends one.
        is_described: Whether the OpenAPI document describes it; other protocols have their own.
        failures: How it answers with errors.
    """

    blueprints: Sequence[flask.Blueprint] = ()
    serves: Callable[[str], bool] = lambda _path: True
    identify: Callable[[], Identity] | None = None
    is_public: bool = False
    is_audited: Callable[[flask.Request], bool] = lambda _request: False
    is_described: bool = False
    failures: Failures = Failures()


_OWN = HttpFace(is_described=True)
"""The routes that the application has without any face: probes and the like."""


def mount(app: flask.Flask, faces: Sequence[HttpFace]) -> None:
    """Adds the routes of faces to an application."""
    app.extensions[_EXTENSION] = (*faces, _OWN)
    for face in faces:
        for blueprint in face.blueprints:
            app.register_blueprint(blueprint)


def current_face() -> HttpFace:
    """Returns the face to which the path of the current request belongs."""
    faces: tuple[HttpFace, ...] = flask.current_app.extensions[_EXTENSION]
    return next(face for face in faces if face.serves(flask.request.path))


def face_of(app: flask.Flask, rule: Rule) -> HttpFace:
    """Returns the face to which a route of an application belongs."""
    blueprint = app.blueprints.get(rule.endpoint.rpartition(".")[0])
    faces: tuple[HttpFace, ...] = app.extensions[_EXTENSION]
    return next((face for face in faces if blueprint in face.blueprints), _OWN)
