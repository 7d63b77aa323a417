"""The OpenAPI 3.1 description of the HTTP interface, generated from the routes' operations.

A route whose function is not an operation is not described; the tests find it. The routes of other
protocols, which have specifications of their own, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import flask
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from werkzeug.routing import Rule

from seamline.dbapi.version import VERSION
from seamline.errors import (
    ERRORS,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    UNAUTHENTICATED,
    ErrorCode,
)
from seamline.gateway.http.face_types import Failures, face_of
from seamline.gateway.http.operations import (
    COME_AGAIN,
    JSON,
    Answer,
    Body,
    Headers,
    Operation,
    Query,
    Text,
    View,
)
from seamline.gateway.http.request_slots import PROBES

PATH = "/api/v1/openapi.json"
_REF = "#/components/schemas/{model}"
_ABOUT = (
    "Statements over Kafka topics and their Iceberg copies, and the Iceberg REST catalog of the "
    "same tables, read-only. Failures have names: docs/reference/errors.md. Any request may also "
    "end with INTERNAL_ERROR (500), which is a fault in Seamline."
)
_IN_PATHS = {
    "statement_id": "The statement's id",
    "index": "The chunk's number, from 0",
    "table": "The table's name",
    "prefix": "The catalog's name",
    "namespace": "The levels of the namespace, separated by U+001F",
    "view": "The view's name",
    "plan_id": "The plan's id",
}
_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "certificate": {"type": "mutualTLS"},
}


class _Plain(GenerateJsonSchema):
    """Generates schemas without titles, which would only repeat names."""

    def field_title_should_be_set(self, _schema: Any, /) -> bool:
        return False

    def model_schema(self, schema: Any) -> Any:
        return {key: value for key, value in super().model_schema(schema).items() if key != "title"}

    def enum_schema(self, schema: Any) -> Any:
        return {key: value for key, value in super().enum_schema(schema).items() if key != "title"}


def document(app: flask.Flask) -> dict[str, Any]:
    """Generates the description of an application.

    Returns:
        The document, JSON-ready; it is the same for every application of a version.
    """
    paths: dict[str, dict[str, Any]] = {}
    components = _Components()
    for rule, view in sorted(_described(app), key=lambda each: (each[0].rule, _method(each[0]))):
        item = paths.setdefault(_template(rule), {})
        failures = face_of(app, rule).failures
        item[_method(rule).lower()] = _operation(rule, view.operation, failures, components)
        if view.operation.head:
            item["head"] = _head(item["get"])
    return {
        "openapi": "3.1.0",
        "info": {"title": "Seamline", "version": VERSION, "description": _ABOUT},
        "security": [{name: []} for name in _SCHEMES] + [{}],
        "paths": paths,
        "components": {
            "schemas": components.schemas(),
            "responses": dict(sorted(components.responses.items())),
            "securitySchemes": _SCHEMES,
        },
    }


def _described(app: flask.Flask) -> Iterator[tuple[Rule, View]]:
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        if face_of(app, rule).is_described and isinstance(view, View):
            yield rule, view


def _method(rule: Rule) -> str:
    (method,) = (rule.methods or set()) - {"HEAD", "OPTIONS"}
    return method


def _template(rule: Rule) -> str:
    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)


def _operation(
    rule: Rule, own: Operation, failures: Failures, components: _Components
) -> dict[str, Any]:
    bodies = [kind for kind in own.takes.values() if issubclass(kind, Body)]
    texts = [kind for kind in own.takes.values() if issubclass(kind, Text)]
    components.models.update(bodies)
    described: dict[str, Any] = {
        "operationId": f"{rule.endpoint}",
        "summary": own.summary,
        "parameters": [
            *_in_path(rule),
            *(
                p
                for kind in own.takes.values()
                if kind not in (*bodies, *texts)
                for p in _given(kind)
            ),
        ],
    }
    if bodies:
        described["requestBody"] = {"required": True, "content": _content({JSON: bodies[0]})}
    if texts:
        (schema,) = _properties(texts[0]).values()
        content = {kind: {"schema": schema} for kind in texts[0].TYPES[:2]}
        described["requestBody"] = {"required": True, "content": content}
    if rule.rule in PROBES:
        described["security"] = [{}]
    described["responses"] = {
        **{str(status): _response(answer, components) for status, answer in own.answers.items()},
        **_failures(rule, own, failures, components),
    }
    return described


def _head(get: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the HEAD operation of a GET operation: the same without content."""
    failed = {s: response for s, response in get["responses"].items() if int(s) >= 400}
    return {
        **get,
        "operationId": f"{get['operationId']}.head",
        "summary": "Whether it exists",
        "responses": {"204": {"description": "It is"}, **failed},
    }


# --- Requests ------------------------------------------------------------------------------------


def _in_path(rule: Rule) -> Iterator[dict[str, Any]]:
    for converter, name in re.findall(r"<(?:(\w+):)?(\w+)>", rule.rule):
        number = {"type": "integer", "minimum": 0}
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "description": _IN_PATHS[name],
            "schema": number if converter == "int" else {"type": "string", "minLength": 1},
        }


def _given(kind: type[BaseModel]) -> Iterator[dict[str, Any]]:
    """Yields the parameters of a model of a query string or of headers."""
    locations = {Query: "query", Headers: "header"}
    where = next(name for base, name in locations.items() if issubclass(kind, base))
    shape = kind.model_json_schema(schema_generator=_Plain)
    for name, schema in _properties(kind).items():
        yield {
            "name": name,
            "in": where,
            "required": name in shape.get("required", ()),
            "description": schema.pop("description"),
            "schema": _without_null(schema),
        }


def _properties(kind: type[BaseModel]) -> dict[str, Any]:
    """Returns the schemas of a model's fields, by name."""
    shape: dict[str, Any] = kind.model_json_schema(schema_generator=_Plain)["properties"]
    return shape


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Removes null from a schema, as a string parameter cannot be null, and a default of null."""
    kinds = [kind for kind in schema.pop("anyOf", ()) if kind != {"type": "null"}]
    if schema.get("default", ...) is None:
        del schema["default"]
    return {**schema, **(kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {})}


# --- Answers -------------------------------------------------------------------------------------


def _failures(
    rule: Rule, own: Operation, failures: Failures, components: _Components
) -> dict[str, Any]:
    """Returns the answers to failures, by status."""
    routing = (*((NOT_FOUND,) if "<" in rule.rule else ()), METHOD_NOT_ALLOWED)
    codes = own.errors | frozenset(routing if own.errors else ())
    forms = (failures.model, *((own.failed,) if own.failed is not None else ()))
    status_in = failures.status_of
    return {
        str(status): {"$ref": components.failure(status, forms, status_in)}
        for status in sorted({status_in(code) for code in codes})
    }


class _Components:
    """Collects the components to which the parts of a description refer."""

    def __init__(self) -> None:
        self.models: set[type[BaseModel]] = set()
        self.responses: dict[str, Any] = {}

    def failure(
        self, status: int, forms: Sequence[type[BaseModel]], status_in: Callable[[ErrorCode], int]
    ) -> str:
        """Returns the reference to the answer for a failure status, which names all its errors."""
        name = f"{'Or'.join(form.__name__ for form in forms)}{status}"
        if name not in self.responses:
            self.models.update(forms)
            codes = [code for code in ERRORS.values() if status_in(code) == status]
            refs = [{"$ref": _REF.format(model=form.__name__)} for form in forms]
            self.responses[name] = {
                "description": ", ".join(sorted(code.name for code in codes)),
                **_headers(codes),
                "content": {JSON: {"schema": refs[0] if len(refs) == 1 else {"anyOf": refs}}},
            }
        return f"#/components/responses/{name}"

    def schemas(self) -> dict[str, Any]:
        """Returns the schemas of all models."""
        ordered = sorted(self.models, key=lambda model: model.__name__)
        models = [(model, _TAKEN) for model in ordered]
        _, defined = models_json_schema(models, ref_template=_REF, schema_generator=_Plain)
        return dict(defined["$defs"])


_TAKEN: Literal["validation"] = "validation"


def _headers(codes: Iterable[ErrorCode]) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if any(code.retriable and code.http_status in COME_AGAIN for code in codes):
        headers["Retry-After"] = {
            "description": "Seconds to wait before a retry",
            "schema": {"type": "integer", "minimum": 0},
        }
    if UNAUTHENTICATED in codes:
        headers["WWW-Authenticate"] = {
            "description": "How to authenticate",
            "schema": {"type": "string"},
        }
    return {"headers": headers} if headers else {}


def _response(answer: Answer, components: _Components) -> dict[str, Any]:
    components.models.update(model for model in answer.content.values() if model is not None)
    content = _content(answer.content)
    return {"description": answer.what, **({"content": content} if content else {})}


def _content(content: Mapping[str, type[BaseModel] | None]) -> dict[str, Any]:
    return {
        kind: {} if model is None else {"schema": {"$ref": _REF.format(model=model.__name__)}}
        for kind, model in content.items()
    }
