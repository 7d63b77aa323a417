"""The Iceberg REST catalog: the live tables, read-only, for any engine that speaks its protocol.

Under `/iceberg`, clients plan scans themselves, from files. Under `/iceberg-plan`, the gateway
plans them. The rest of each path is that of the specification. The prefix names a catalog of the
configuration, and so does the `warehouse` of the first request. Every table of that catalog is
served: a unified table with its tail, a plain one unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import flask
import werkzeug.http
from pydantic import Field

from seamline.connectors.iceberg.errors import storage_errors
from seamline.errors import (
    CATALOG_READ_ONLY,
    COLD_FILE_INVALID,
    NOT_FOUND,
    NOT_SUPPORTED,
    SCHEMA_NOT_FOUND,
    STORAGE_UNAVAILABLE,
    TABLE_NOT_FOUND,
    UNAUTHENTICATED,
    VIEW_NOT_FOUND,
    SeamlineError,
)
from seamline.gateway import names
from seamline.gateway.access.identity import Identity
from seamline.gateway.access.rights import Rights
from seamline.gateway.http.face_types import Failures, HttpFace, Parts
from seamline.gateway.http.operations import (
    ANY,
    Answer,
    empty,
    operation,
)
from seamline.gateway.http.operations import (
    json as json_of,
)
from seamline.gateway.http.presented import presented
from seamline.gateway.iceberg_rest import answers, change_routes
from seamline.gateway.iceberg_rest import plan_routes as iceberg_plans
from seamline.gateway.iceberg_rest.catalog import Caller, IcebergRest, LoadRequest, LoadResponse
from seamline.gateway.iceberg_rest.errors import error_response, status_of
from seamline.gateway.iceberg_rest.requests import (
    DelegationHeaders,
    PageQuery,
    SpecBody,
    SpecQuery,
    catalog_of,
    missing,
    namespace_path,
    table_name,
)
from seamline.gateway.names import TableName

_UNREADABLE = frozenset({COLD_FILE_INVALID, NOT_SUPPORTED, STORAGE_UNAVAILABLE})
FILES = "/iceberg"
PLANNED = "/iceberg-plan"
SESSIONS_HEADER = "Seamline-Sessions"
PROBE_PROPERTY = "seamline.probe"
_TOKENS = "oauth/tokens"
_NAMESPACE = "/v1/{prefix}/namespaces/{namespace}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"
ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    f"GET {_NAMESPACE}",
    f"HEAD {_NAMESPACE}",
    f"GET {_NAMESPACE}/tables",
    f"GET {_TABLE}",
    f"HEAD {_TABLE}",
    f"GET {_TABLE}/credentials",
    f"POST {_TABLE}/metrics",
    # listed so that Spark asks: when refused, it removes the files that it has written
    f"POST {_TABLE}",
)
VIEW_ENDPOINTS = (
    f"GET {_NAMESPACE}/views",
    f"GET {_NAMESPACE}/views/{{view}}",
    f"HEAD {_NAMESPACE}/views/{{view}}",
)
PLAN_ENDPOINTS = (
    f"POST {_TABLE}/plan",
    f"GET {_TABLE}/plan/{{plan-id}}",
    f"DELETE {_TABLE}/plan/{{plan-id}}",
    f"POST {_TABLE}/tasks",
)


class ConfigQuery(SpecQuery):
    """Which catalog is requested."""

    warehouse: str = ""
    """The catalog's name; by default the default catalog."""


class NamespacesQuery(PageQuery):
    """Which namespaces to list."""

    parent: str = ""
    """The namespace whose children are listed."""


class LoadQuery(SpecQuery):
    """Which parts of a table to return."""

    snapshots: Literal["all", "refs"] | None = None
    """All snapshots, or only those that a branch or tag names."""


class LoadHeaders(DelegationHeaders):
    """What a client already has, and what it supports."""

    if_none_match: str = Field("", alias="If-None-Match")
    """The `ETag` of the metadata that the client has."""


class Report(SpecBody):
    """A client's metrics report, which is ignored."""


_LOADED = {
    200: json_of(answers.LoadedTable, "It"),
    304: Answer("The client's copy is current"),
}


class IcebergParts(Parts, Protocol):
    """The parts of a gateway that has this catalog."""

    iceberg: IcebergRest


def face(parts: IcebergParts) -> HttpFace:
    """Returns the catalog as a face of a gateway with these parts."""
    rest = parts.iceberg

    def identify() -> Identity:
        caller = flask.g.caller = _caller(rest)
        return caller.identity

    return HttpFace(
        blueprints=tuple(blueprint(rest, root) for root in (FILES, PLANNED)),
        serves=_serves,
        identify=identify,
        is_audited=lambda _request: True,
        is_described=True,
        failures=Failures(answers.IcebergFailure, status_of, error_response),
    )


def _serves(path: str) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in (FILES, PLANNED))


def _caller(rest: IcebergRest) -> Caller:
    """Returns who sends the current request.

    Raises:
        SeamlineError: UNAUTHENTICATED, PERMISSION_DENIED.
    """
    shown = presented()
    knows_sessions = SESSIONS_HEADER in flask.request.headers
    session = rest.sessions.read((shown.authorization or "").partition(" ")[2].strip())
    if session is not None and "/tables/" not in flask.request.path:
        raise SeamlineError(UNAUTHENTICATED, "a table's session is good for that table only")
    if session is None or rest.authentication.is_open:
        who = rest.authentication.identify(shown)
    else:
        who = rest.authentication.again(session.identity)
    client = f"{flask.request.remote_addr} {flask.request.user_agent.string}"
    return Caller(who, session, knows_sessions, rest.rights_of(who.principal), client)


def blueprint(rest: IcebergRest, root: str) -> flask.Blueprint:
    """Returns the routes under one of the two roots, over the catalog's parts."""
    routes = flask.Blueprint(root.strip("/"), __name__, url_prefix=f"{root}/v1")
    planned = root == PLANNED

    @routes.get("/config")
    @operation("The settings of a catalog", {200: json_of(answers.CatalogConfig, "It")}, ANY)
    def config(query: ConfigQuery) -> flask.Response:
        name = query.warehouse or rest.config.default_catalog
        return flask.jsonify(_config(rest, name, planned=planned))

    _add_namespaces(routes, rest)
    _add_tables(routes, rest, planned=planned)
    _add_views(routes, rest)
    if planned:
        iceberg_plans.add_routes(routes, rest)
    if rest.config.iceberg.writes:

        def loaded(name: TableName, headers: DelegationHeaders) -> flask.Response:
            return _load(rest, name, LoadQuery(snapshots="all"), headers, planned=planned)

        change_routes.add_routes(routes, rest, loaded, planned=planned)

    @routes.route("/<path:anything>", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    def refused(anything: str) -> flask.Response:
        if flask.request.method in {"GET", "HEAD"}:
            raise SeamlineError(NOT_FOUND, f"the catalog has no route {anything}")
        if anything == _TOKENS:
            return _no_tokens()
        raise SeamlineError(
            CATALOG_READ_ONLY,
            f"this catalog is read-only; {flask.request.method} {anything} would change something",
        )

    return routes


def _add_namespaces(routes: flask.Blueprint, rest: IcebergRest) -> None:
    @routes.get("/<prefix>/namespaces")
    @operation("Lists namespaces", {200: json_of(answers.Namespaces, "Namespaces")}, ANY)
    def namespaces(prefix: str, query: NamespacesQuery) -> flask.Response:
        parent = namespace_path(query.parent)
        children = catalog_of(rest, prefix).child_namespaces(parent)
        seen = [list(path) for path in children if _sees_below(prefix, path)]
        return flask.jsonify(query.page("namespaces", seen))

    @routes.get("/<prefix>/namespaces/<namespace>")
    @operation("A namespace", {200: json_of(answers.Namespace, "It")}, ANY, head=True)
    def namespace(prefix: str, namespace: str) -> flask.Response:
        path = _namespace(prefix, namespace)
        properties = catalog_of(rest, prefix).namespace_properties(path)
        if flask.request.method == "HEAD":
            return empty(204)
        return flask.jsonify({"namespace": list(path), "properties": properties})


def _add_tables(routes: flask.Blueprint, rest: IcebergRest, *, planned: bool) -> None:
    @routes.get("/<prefix>/namespaces/<namespace>/tables")
    @operation("Lists tables", {200: json_of(answers.Identifiers, "Tables")}, ANY)
    def tables(prefix: str, namespace: str, query: PageQuery) -> flask.Response:
        paths = catalog_of(rest, prefix).tables(_namespace(prefix, namespace))
        return flask.jsonify(query.page("identifiers", _identifiers(prefix, paths)))

    @routes.get("/<prefix>/namespaces/<namespace>/tables/<table>")
    @operation("Loads a table", _LOADED, ANY, head=True)
    def load(
        prefix: str, namespace: str, table: str, query: LoadQuery, headers: LoadHeaders
    ) -> flask.Response:
        name = table_name(prefix, namespace, table)
        with missing(TABLE_NOT_FOUND):
            if flask.request.method == "HEAD":
                return _exists(rest, name)
            return _load(rest, name, query, headers, planned=planned)

    @routes.get("/<prefix>/namespaces/<namespace>/tables/<table>/credentials")
    @operation("Credentials for a table's files", {200: json_of(answers.Credentials, "Keys")}, ANY)
    def credentials(prefix: str, namespace: str, table: str) -> flask.Response:
        name = table_name(prefix, namespace, table)
        with missing(TABLE_NOT_FOUND):
            paths = rest.catalog.credentials(rest.catalog.tables.load(name))
        return flask.jsonify({"storage-credentials": paths})

    @routes.post("/<prefix>/namespaces/<namespace>/tables/<table>/metrics")
    @operation("Accepts a client's metrics report", {204: Answer("Accepted")}, ANY)
    def metrics(prefix: str, namespace: str, table: str, _body: Report) -> flask.Response:
        with missing(TABLE_NOT_FOUND):
            path = table_name(prefix, namespace, table).path
            catalog_of(rest, prefix).load(path)
        return empty(204)


def _add_views(routes: flask.Blueprint, rest: IcebergRest) -> None:
    @routes.get("/<prefix>/namespaces/<namespace>/views")
    @operation("Lists views", {200: json_of(answers.Identifiers, "Views")}, ANY)
    def views(prefix: str, namespace: str, query: PageQuery) -> flask.Response:
        path, own = _namespace(prefix, namespace), catalog_of(rest, prefix)
        paths: list[tuple[str, ...]] = []
        if own.has_views:
            paths = own.views(path)
        else:
            own.namespace_properties(path)  # fails as a list would if there is no such namespace
        return flask.jsonify(query.page("identifiers", _identifiers(prefix, paths)))

    @routes.get("/<prefix>/namespaces/<namespace>/views/<view>")
    @operation("Loads a view", {200: json_of(answers.LoadedView, "It")}, ANY, head=True)
    def view(prefix: str, namespace: str, view: str) -> flask.Response:
        with missing(VIEW_NOT_FOUND):
            path = (*namespace_path(namespace), view)
            flask.g.caller.rights.require_whole(TableName(prefix, "", path))
            own = catalog_of(rest, prefix)
            if not own.has_views:
                raise SeamlineError(VIEW_NOT_FOUND, f"catalog {prefix} has no views")
            text = own.view(path)
        if flask.request.method == "HEAD":
            return empty(204)
        paths = json.loads(text)  # its `config` is the gateway's own: keys and a token
        return flask.jsonify({name: paths[name] for name in ("metadata-location", "metadata")})


# --- Answers -------------------------------------------------------------------------------------


def _no_tokens() -> flask.Response:
    """Refuses a client that exchanges its `credential` for a token, in the form of OAuth."""
    body = {
        "error": "unsupported_grant_type",
        "error_description": "The gateway issues no tokens: configure the client with a "
        "`token` that the gateway accepts, or with the `oauth2-server-uri` of its issuer.",
    }
    answer = flask.jsonify(body)
    answer.status_code = 400
    return answer


def _config(rest: IcebergRest, name: str, *, planned: bool) -> dict[str, Any]:
    catalog = catalog_of(rest, name)
    endpoints = [
        *ENDPOINTS,
        *(change_routes.endpoints(catalog) if rest.config.iceberg.writes else ()),
        *(VIEW_ENDPOINTS if catalog.has_views else ()),
        *(PLAN_ENDPOINTS if planned else ()),
    ]
    with storage_errors(f"the gateway's own folder in catalog {name}"):
        defaults = {PROBE_PROPERTY: rest.catalog.tables.storage.probe(name)}
    if planned:
        defaults["scan-planning-mode"] = "server"
    return {
        "defaults": defaults,
        "overrides": {"prefix": name, "token-refresh-enabled": "false"},
        "endpoints": endpoints,
    }


def _exists(rest: IcebergRest, name: TableName) -> flask.Response:
    """Answers whether a table exists; one that cannot be read does."""
    try:
        rest.connections.catalog(name.catalog).load(name.path)
    except SeamlineError as error:
        if error.code not in _UNREADABLE:
            raise
    return empty(204)


def _load(
    rest: IcebergRest,
    name: TableName,
    query: LoadQuery,
    headers: DelegationHeaders,
    *,
    planned: bool,
) -> flask.Response:
    mode = query.snapshots
    tags = headers.if_none_match if isinstance(headers, LoadHeaders) else ""
    etag = next(iter(werkzeug.http.parse_etags(tags).as_set()), None)
    request = LoadRequest(
        name,
        flask.g.caller,
        begins=mode is not None,
        planned=planned,
        only_referenced=mode == "refs",
        known=etag,
        delegated=headers.asks_for_credentials,
    )
    with rest.deadline() as deadline:
        loaded = rest.catalog.load(request, deadline)
    if loaded.etag == etag:
        answer = empty(304)
    else:
        answer = flask.Response(_load_result(loaded), mimetype="application/json")
    answer.set_etag(loaded.etag)
    return answer


def _load_result(loaded: LoadResponse) -> bytes:
    """Returns the answer to a load, built around metadata that is JSON already."""
    location = json.dumps(loaded.metadata.location).encode()
    rest: dict[str, Any] = {"config": dict(loaded.config)}
    if loaded.credentials:
        rest["storage-credentials"] = list(loaded.credentials)
    return b'{"metadata-location":%b,"metadata":%b,%b' % (
        location,
        loaded.metadata.text,
        json.dumps(rest).encode()[1:],
    )


def _identifiers(prefix: str, paths: Sequence[tuple[str, ...]]) -> list[dict[str, Any]]:
    """Returns the identifiers of those tables or views that the caller may see."""
    rights: Rights = flask.g.caller.rights
    return [
        {"namespace": list(path[:-1]), "name": path[-1]}
        for path in paths
        if rights.table(TableName(prefix, "", path)).sees
    ]


def _namespace(prefix: str, text: str) -> tuple[str, ...]:
    """Returns the path of a namespace, if the caller may see it.

    Raises:
        SeamlineError: SCHEMA_NOT_FOUND.
    """
    path = namespace_path(text)
    if not _sees_below(prefix, path):
        raise SeamlineError(SCHEMA_NOT_FOUND, f"schema {prefix}.{text} does not exist")
    return path


def _sees_below(prefix: str, path: Sequence[str]) -> bool:
    rights: Rights = flask.g.caller.rights
    return rights.sees_schema(prefix, names.schema_text(path))
