"""The Flask application: routes, access and errors.

Every answer that is not a success has the body `{"error": {code, kind, message, hint, …}}`, unless
the errors of its face have the form of a specification, as those of the Iceberg REST catalog.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

import flask
from flask.json.provider import DefaultJSONProvider
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from seamline.dbapi.version import VERSION
from seamline.errors import (
    DISK_FULL,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    REQUEST_TOO_LARGE,
    RETRY_AFTER,
    SHUTTING_DOWN,
    UNAUTHENTICATED,
    ErrorCode,
    SeamlineError,
)
from seamline.gateway.access import authentication
from seamline.gateway.access.audit import Origin
from seamline.gateway.app import openapi, requests_audited
from seamline.gateway.http import answers
from seamline.gateway.http.compression import compress
from seamline.gateway.http.face_types import HttpFace, Parts, current_face, mount
from seamline.gateway.http.operations import COME_AGAIN, JSON, REFUSALS, Answer, json, operation
from seamline.gateway.http.presented import identified, page_request, presented
from seamline.gateway.http.proxies import Proxies
from seamline.gateway.http.request_slots import PROBES
from seamline.gateway.readiness import Readiness

_LOG = logging.getLogger("seamline.http")
_LOGIN_S = 60.0
"""More than a login takes; during a login, a request has no slot."""
_NAVIGATES = "navigate"
"""The fetch mode that a browser sends when a user types an address or follows a link."""
_ALIVE = {200: json(answers.Status, "It is")}
_FINE = {200: json(answers.Ready, "It does")}
_METRICS = {200: Answer("Metrics", {"text/plain": None})}
_WHO = REFUSALS - {INVALID_REQUEST, REQUEST_TOO_LARGE}
_STATUS_CODES: dict[int, ErrorCode] = {
    404: NOT_FOUND,
    405: METHOD_NOT_ALLOWED,
    413: REQUEST_TOO_LARGE,
}


class _Json(DefaultJSONProvider):
    """JSON that keeps the order of keys, and refuses to parse anything nested too deeply."""

    sort_keys = False

    def loads(self, s: str | bytes, **options: Any) -> Any:
        try:
            return super().loads(s, **options)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def create_app(parts: Parts, faces: Sequence[HttpFace]) -> flask.Flask:
    """Returns the application of a running gateway with these parts, which serves these faces."""
    http = parts.config.http
    app = flask.Flask("seamline", static_folder=None)
    app.json = _Json(app)
    app.config["MAX_CONTENT_LENGTH"] = http.request_bytes_max
    compress(app)
    app.url_map.merge_slashes = False  # a name may begin with a slash; do not redirect
    _add_access(app, parts)
    _add_errors(app)
    _add_probes(app, parts.readiness, names_outages=parts.authentication.is_open)
    _add_descriptions(app)
    _add_metrics(app, parts)
    mount(app, faces)
    proxies = Proxies(http.trusted_proxies, http.proxy_header)
    served = proxies.seen_by(parts.slots.limiting(app.wsgi_app, http.request_bytes_max))
    app.wsgi_app = served  # type: ignore[assignment, method-assign]
    return app


def _add_access(app: flask.Flask, parts: Parts) -> None:
    authenticator, audit, slots = parts.authentication, parts.audit, parts.slots

    @app.before_request
    def authenticate() -> None:
        face = current_face()
        if face.is_public:
            return
        if not flask.request.headers.get("Authorization", "").lower().startswith("bearer "):
            # a browser sends other credentials no matter which page makes the request
            authentication.check_page(page_request(), parts.config.http.external_url)
        if flask.request.path in PROBES:
            return
        try:
            # while passwords are checked, and keys are fetched
            with slots.waiting(0.0 if authenticator.is_open else _LOGIN_S):
                if face.identify is not None:
                    who = face.identify()
                else:
                    who = authenticator.identify(presented())
        except SeamlineError as error:
            requests_audited.login_refused(audit, error)
            raise
        flask.g.identity = who
        flask.g.principal = who.principal
        flask.g.origin = Origin.of(who, flask.request.remote_addr or "")
        identified()
        slots.belong_to(who.principal.name)

    @app.after_request
    def add_headers(answer: flask.Response) -> flask.Response:
        if answer.status_code == UNAUTHENTICATED.http_status:
            challenges = authenticator.challenges
            if flask.request.headers.get("Sec-Fetch-Mode", _NAVIGATES) != _NAVIGATES:
                challenges = challenges[:1]  # pages ask users themselves, without the browser
            answer.headers.setlist("WWW-Authenticate", challenges)
        requests_audited.answered(audit, answer.status_code)
        answer.headers["X-Content-Type-Options"] = "nosniff"
        answer.headers.setdefault("Cache-Control", "no-store")
        return answer


def _add_errors(app: flask.Flask) -> None:
    @app.errorhandler(SeamlineError)
    def named(error: SeamlineError) -> flask.Response:
        return _error(error)

    @app.errorhandler(HTTPException)
    def http(error: HTTPException) -> flask.Response:
        code = _STATUS_CODES.get(error.code or 500, INVALID_REQUEST)
        answer = _error(
            SeamlineError(code, f"{flask.request.method} {flask.request.path}: {error.name}")
        )
        if error.code is not None and error.code not in _STATUS_CODES:
            answer.status_code = error.code
        if isinstance(error, MethodNotAllowed):
            answer.allow.update(error.valid_methods or ())
        return answer

    @app.errorhandler(Exception)
    def unexpected(error: Exception) -> flask.Response:
        _LOG.error("request failed", exc_info=error)
        return _error(SeamlineError(INTERNAL_ERROR, f"{type(error).__name__}"))


def _add_probes(app: flask.Flask, readiness: Readiness, *, names_outages: bool) -> None:
    """Adds probes, which take no credentials.

    Args:
        app: The application.
        readiness: Whether the gateway should get statements.
        names_outages: Whether everybody may know the names of catalogs and clusters.
    """

    @app.get("/healthz")
    @operation("Whether the process is alive", _ALIVE, refusals=())
    def health() -> flask.Response:
        return flask.jsonify({"status": "ok"})

    @app.get("/readyz")
    @operation(
        "Whether it takes statements, and what it depends on that is away",
        _FINE,
        {SHUTTING_DOWN, DISK_FULL},
        refusals=(),
    )
    def ready() -> flask.Response:
        # A catalog that is away is no reason: it is away for every gateway, and a named error
        # helps more than no gateway at all.
        readiness.require()
        away = [
            {
                "kind": outage.kind,
                "name": outage.name if names_outages else None,
                "since": outage.since.isoformat(),
            }
            for outage in readiness.outages()
        ]
        return flask.jsonify({"status": "ok", "away": away})


def _add_descriptions(app: flask.Flask) -> None:
    described = functools.cache(lambda: openapi.document(app))

    @app.get("/api/v1/info")
    @operation("The product and its version", {200: json(answers.Info, "It")}, (), refusals=_WHO)
    def info() -> flask.Response:
        return flask.jsonify({"product": "seamline", "version": VERSION})

    @app.get(openapi.PATH)
    @operation("This description", {200: Answer("It", {JSON: None})}, (), refusals=_WHO)
    def description() -> flask.Response:
        return flask.jsonify(described())


def _add_metrics(app: flask.Flask, parts: Parts) -> None:
    @app.get("/metrics")
    @operation("Metrics, as Prometheus reads them", _METRICS, (), refusals=_WHO)
    def metrics() -> flask.Response:
        parts.access.rights_of(flask.g.principal).require_metrics()
        return flask.Response(parts.metrics_text(), mimetype="text/plain")


def _error(error: SeamlineError) -> flask.Response:
    flask.g.error = error
    answer = current_face().failures.answer(error)
    default_s = 1 if error.code.retriable and answer.status_code in COME_AGAIN else None
    wait_s = error.details.get(RETRY_AFTER, default_s)
    if wait_s is not None:
        answer.headers["Retry-After"] = str(wait_s)
    return answer
