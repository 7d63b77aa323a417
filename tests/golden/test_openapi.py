"""Goal: the description of the HTTP interface is what the routes are, and what programs rely on.

Method: it is generated from the routes of a real gateway and compared with the page in the docs,
which `pytest --rewrite tests/golden` rewrites. A route that it lacks fails, and so does an
invalid schema.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import flask
import jsonschema
import pytest
from support.gateway import Gateway

from seamline.gateway.app import openapi
from seamline.gateway.http.face_types import face_of
from seamline.gateway.http.operations import View

FILE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "reference" / "openapi.json"


def undescribed(app: flask.Flask) -> list[str]:
    """The gateway's own routes that the description lacks.

    It may lack those that only answer unknown paths with errors.
    """
    return [
        rule.rule
        for rule in app.url_map.iter_rules()
        if face_of(app, rule).is_described
        and not isinstance(app.view_functions[rule.endpoint], View)
        and "<path:" not in rule.rule
    ]


@pytest.fixture(scope="module")
def document(offline_gateway: Gateway) -> dict[str, Any]:
    return openapi.document(offline_gateway.app)


def test_the_page_is_what_the_routes_are(document: dict[str, Any], rewrite: bool) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    if rewrite:
        FILE.write_text(text, encoding="utf-8")
    assert FILE.read_text(encoding="utf-8") == text, "make golden writes it anew"


def test_it_is_served(offline_gateway: Gateway, document: dict[str, Any]) -> None:
    answer = offline_gateway.app.test_client().get(openapi.PATH)
    assert answer.get_json() == document


def test_every_route_is_in_it(offline_gateway: Gateway, document: dict[str, Any]) -> None:
    app = offline_gateway.app
    assert undescribed(app) == []
    assert {"/api/v1/statements", "/iceberg/v1/config", "/healthz"} <= set(document["paths"])


def test_a_route_without_an_operation_is_found(offline_gateway: Gateway) -> None:
    app = offline_gateway.parts.app()
    app.get("/api/v1/undescribed")(lambda: "")
    assert undescribed(app) == ["/api/v1/undescribed"]


def test_what_it_refers_to_is_there(document: dict[str, Any]) -> None:
    components = document["components"]
    schemas, responses = components["schemas"], components["responses"]
    text = json.dumps(document)
    named = {ref.partition('"')[0] for ref in text.split('"$ref": "')[1:]}
    here = {f"#/components/schemas/{name}" for name in schemas}
    assert named == here | {f"#/components/responses/{name}" for name in responses}
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
