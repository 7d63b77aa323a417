"""Returns a table's seam to readers that read both tiers themselves, which are Spark's executors.

    POST /api/v1/seams    {"table": "bids", "token": null}

The answer has the snapshot, the offsets and how records are decoded, but no rows and no secrets.
"""

from __future__ import annotations

import flask
from pydantic import Field

from seamline.gateway.http import answers
from seamline.gateway.http.operations import ANY, Body, json, operation
from seamline.gateway.query.seams import Seams


class Pin(Body):
    """The table whose seam is requested."""

    table: str
    """The table's name, as in SQL."""
    token: str | None = None
    """A token; requests the seam that it remembers."""
    catalog: str | None = None
    """The catalog, if the name omits it."""
    schema_: str | None = Field(None, alias="schema")
    """The schema, if the name omits it."""


def blueprint(seams: Seams) -> flask.Blueprint:
    """Returns the route."""
    routes = flask.Blueprint("seams", __name__, url_prefix="/api/v1/seams")

    @routes.post("")
    @operation("Pins a table", {200: json(answers.Seam, "Its seam")}, ANY)
    def pin(body: Pin) -> flask.Response:
        flask.g.table = body.table
        pinned = seams.pin(
            body.table,
            flask.g.principal,
            catalog=body.catalog,
            schema=body.schema_,
            token=body.token,
        )
        return flask.jsonify(pinned)

    return routes
