"""The Flask application: routes, access and errors, over a service.

Every answer that is not a success has the body `{"error": {code, kind, message, hint, …}}`, but for
the Iceberg REST catalog's, whose errors have the form of its specification.
"""

from __future__ import annotations

import logging

import flask
from werkzeug.exceptions import HTTPException

from seamline.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    REQUEST_TOO_LARGE,
    SHUTTING_DOWN,
    ErrorCode,
    SeamlineError,
)
from seamline.gateway.http import access, seams, statements
from seamline.gateway.iceberg_rest import routes as iceberg
from seamline.gateway.iceberg_rest.errors import error_response
from seamline.gateway.query.service import Service
from seamline.version import VERSION

_LOG = logging.getLogger("seamline.http")
_OPEN_PATHS = frozenset({"/healthz", "/readyz"})
_STATUS_CODES: dict[int, ErrorCode] = {
    404: NOT_FOUND,
    405: METHOD_NOT_ALLOWED,
    413: REQUEST_TOO_LARGE,
}


def create_app(service: Service) -> flask.Flask:
    """The application over a running service."""
    app = flask.Flask("seamline", static_folder=None)
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.config["MAX_CONTENT_LENGTH"] = service.config.http.request_bytes_max

    @app.before_request
    def _authenticate() -> None:
        path = flask.request.path
        if iceberg.serves(path):
            flask.g.asker = iceberg.authenticate(service)
        elif path not in _OPEN_PATHS:
            flask.g.principal = access.principal(
                service.config, flask.request.headers.get("Authorization"), flask.request.host
            )

    @app.after_request
    def _headers(answer: flask.Response) -> flask.Response:
        answer.headers["X-Content-Type-Options"] = "nosniff"
        answer.headers.setdefault("Cache-Control", "no-store")
        return answer

    @app.errorhandler(SeamlineError)
    def _named(error: SeamlineError) -> flask.Response:
        return _error(error)

    @app.errorhandler(HTTPException)
    def _http(error: HTTPException) -> flask.Response:
        code = _STATUS_CODES.get(error.code or 500, INVALID_REQUEST)
        answer = _error(
            SeamlineError(code, f"{flask.request.method} {flask.request.path}: {error.name}")
        )
        if error.code is not None and error.code not in _STATUS_CODES:
            answer.status_code = error.code
        return answer

    @app.errorhandler(Exception)
    def _unexpected(error: Exception) -> flask.Response:
        _LOG.error("request failed", exc_info=error)
        return _error(SeamlineError(INTERNAL_ERROR, f"{type(error).__name__}"))

    @app.get("/healthz")
    def _health() -> flask.Response:
        return flask.jsonify({"status": "ok"})

    @app.get("/readyz")
    def _ready() -> flask.Response:
        # Says nothing of Kafka and catalogs: when one is away, it is so for every gateway, and a
        # named error helps more than no gateway at all.
        if not service.accepts_statements:
            raise SeamlineError(SHUTTING_DOWN, "the gateway is stopping")
        return flask.jsonify({"status": "ok"})

    @app.get("/api/v1/info")
    def _info() -> flask.Response:
        return flask.jsonify({"product": "seamline", "version": VERSION})

    @app.get("/metrics")
    def _metrics() -> flask.Response:
        return flask.Response(service.metrics_text(), mimetype="text/plain")

    app.register_blueprint(statements.blueprint(service))
    app.register_blueprint(seams.blueprint(service))
    for root in (iceberg.FILES, iceberg.PLANNED):
        app.register_blueprint(iceberg.blueprint(service, root))
    return app


def _error(error: SeamlineError) -> flask.Response:
    if iceberg.serves(flask.request.path):
        return error_response(error)
    answer = flask.jsonify({"error": error.to_json()})
    answer.status_code = error.code.http_status
    return answer
