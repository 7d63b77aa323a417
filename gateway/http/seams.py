"""Where a table's seam lies, for readers that read both tiers themselves: Spark's executors.

    POST /api/v1/seams    {"table": "bids", "token": null}

The answer names the snapshot, the offsets and how records are decoded; no row, and no secret.
"""

from __future__ import annotations

import flask

from seamline.errors import INVALID_REQUEST, SeamlineError
from seamline.gateway.http.statements import body_of
from seamline.gateway.query.service import Service

_FIELDS = {"table": (str,), "token": (str,), "catalog": (str,), "schema": (str,)}


def blueprint(service: Service) -> flask.Blueprint:
    """The route, over a service."""
    routes = flask.Blueprint("seams", __name__, url_prefix="/api/v1/seams")

    @routes.post("")
    def place() -> flask.Response:
        body = body_of(_FIELDS)
        if "table" not in body:
            raise SeamlineError(INVALID_REQUEST, "the field table is missing")
        return flask.jsonify(
            service.place_seam(
                body["table"],
                flask.g.principal,
                catalog=body.get("catalog"),
                schema=body.get("schema"),
                token=body.get("token"),
            )
        )

    return routes
