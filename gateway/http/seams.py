"""A table's seam, for readers that read both tiers themselves: Spark's executors.

    POST /api/v1/seams    {"table": "bids", "token": null}

The answer names the snapshot, the offsets and how records are decoded; no row, and no secret.
"""

from __future__ import annotations

import flask

from seamline.errors import INVALID_REQUEST, SeamlineError
from seamline.gateway.http.statements import body_of
from seamline.gateway.query.seams import Seams

_FIELDS = {"table": (str,), "token": (str,), "catalog": (str,), "schema": (str,)}


def blueprint(seams: Seams) -> flask.Blueprint:
    """The route."""
    routes = flask.Blueprint("seams", __name__, url_prefix="/api/v1/seams")

    @routes.post("")
    def pin() -> flask.Response:
        body = body_of(_FIELDS)
        if "table" not in body:
            raise SeamlineError(INVALID_REQUEST, "the field table is missing")
        flask.g.table = body["table"]
        return flask.jsonify(
            seams.pin(
                body["table"],
                flask.g.principal,
                catalog=body.get("catalog"),
                schema=body.get("schema"),
                token=body.get("token"),
            )
        )

    return routes
