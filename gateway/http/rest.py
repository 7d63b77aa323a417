"""The REST API: statements, plain queries, seams and tails, under `/api`."""

from __future__ import annotations

import flask

from seamline.gateway.http import query, seams, statements, tail
from seamline.gateway.http.face_types import HttpFace, Parts

_READS = ("/api/v1/seams", "/api/v1/tail/")


def face(parts: Parts) -> HttpFace:
    """Returns it, for a gateway with these parts."""
    service, slots, streams = parts.service, parts.slots, parts.streams
    return HttpFace(
        blueprints=(
            statements.blueprint(service, slots, streams),
            query.blueprint(service, slots),
            seams.blueprint(parts.seams),
            tail.blueprint(service, parts.seams, slots, streams),
        ),
        serves=lambda path: path.startswith("/api/"),
        is_audited=_is_audited,
        is_described=True,
    )


def _is_audited(request: flask.Request) -> bool:
    return request.path.startswith(_READS) or request.path.endswith("/cancel")
