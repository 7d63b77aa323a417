"""A table's seam, for readers that read both tiers themselves: Spark's executors.

    POST /api/v1/seams    {"table": "bids", "token": null}

The answer names the snapshot, the offsets and how records are decoded; no row, and no secret.
"""

from __future__ import annotations

import flask
from pydantic import Field

from seamline.gateway.http import answers
from seamline.gateway.http.operations import ANY, Body, json, operation
from seamline.gateway.query.seams import Seams


class Pin(Body):
    """The table whose seam is wanted."""

    table: str
    """The table, as SQL writes it."""
    token: str | None = None
    """The seam that a token remembers."""
    catalog: str | None = None
    """The catalog of a name that leaves it out."""
    schema_: str | None = Field(None, alias="schema")
    """The schema of a name that leaves it out."""


def blueprint(seams: Seams) -> flask.Blueprint:
    """The route."""
    routes = flask.Blueprint("seams", __name__, url_prefix="/api/v1/seams")

    @routes.post("")
    @operation("Pins a table", {200: json(answers.Seam, "Its seam")}, ANY)
    def pin(body: Pin) -> flask.Response:
        flask.g.table = body.table
        found = seams.pin(
            body.table,
            flask.g.principal,
            catalog=body.catalog,
            schema=body.schema_,
            token=body.token,
        )
        return flask.jsonify(found)

    return routes
