"""Routes of the Iceberg REST catalog that change something, where `iceberg.writes` allows it.

What a client requests is done in the catalog behind this one. Tables with a topic are not changed.
An answer to a commit says that nothing was committed only if that is certain, since clients then
remove the files that they have written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import flask
from pydantic import Field
from pyiceberg.table import Table as PyTable

from seamline.connectors.iceberg.pyiceberg_internals import metadata_text
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
from seamline.connectors.iceberg.tables.changes import (
    CREATE_VIEW,
    TOGETHER,
    CatalogChanges,
    Changed,
    NewTable,
    TableCommit,
)
from seamline.errors import (
    INVALID_REQUEST,
    NOT_SUPPORTED,
    SCHEMA_NOT_FOUND,
    TABLE_NOT_FOUND,
    SeamlineError,
)
from seamline.gateway.http.operations import ANY, Answer, empty, operation
from seamline.gateway.http.operations import json as json_of
from seamline.gateway.iceberg_rest import answers, storage_access
from seamline.gateway.iceberg_rest.catalog import SERVER, IcebergRest
from seamline.gateway.iceberg_rest.errors import landing
from seamline.gateway.iceberg_rest.requests import (
    DelegationHeaders,
    SpecBody,
    SpecQuery,
    catalog_of,
    missing,
    namespace_path,
    require_whole,
    table_name,
)
from seamline.gateway.names import INFORMATION_SCHEMA, TableName

_NAMESPACE = "/v1/{prefix}/namespaces/{namespace}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"
ENDPOINTS = (
    "POST /v1/{prefix}/namespaces",
    f"DELETE {_NAMESPACE}",
    f"POST {_NAMESPACE}/properties",
    f"POST {_NAMESPACE}/tables",
    f"POST {_NAMESPACE}/register",
    f"DELETE {_TABLE}",
    "POST /v1/{prefix}/tables/rename",
)
VIEW_ENDPOINTS = (
    CREATE_VIEW,
    f"POST {_NAMESPACE}/views/{{view}}",
    f"DELETE {_NAMESPACE}/views/{{view}}",
    "POST /v1/{prefix}/views/rename",
)
_PATH = "/<prefix>/namespaces/<namespace>"

Load = Callable[[TableName, DelegationHeaders], flask.Response]
"""Answers like a load of a table."""


class NamespaceBody(SpecBody):
    """A namespace to create."""

    namespace: list[str]
    """Its levels."""
    properties: dict[str, str] = Field(default_factory=dict)


class PropertiesBody(SpecBody):
    """Changes of a namespace's properties."""

    removals: list[str] = Field(default_factory=list)
    updates: dict[str, str] = Field(default_factory=dict)


class TableBody(SpecBody):
    """A table to create."""

    name: str
    schema_: dict[str, Any] = Field(alias="schema")
    location: str | None = None
    partition_spec: dict[str, Any] | None = Field(None, alias="partition-spec")
    write_order: dict[str, Any] | None = Field(None, alias="write-order")
    stage_create: bool = Field(False, alias="stage-create")
    properties: dict[str, str] = Field(default_factory=dict)


class RegisterBody(SpecBody):
    """A table to register from a metadata file."""

    name: str
    metadata_location: str = Field(alias="metadata-location")
    overwrite: bool = False


class CommitBody(SpecBody):
    """A commit to a table."""

    requirements: list[dict[str, Any]] = Field(default_factory=list)
    updates: list[dict[str, Any]] = Field(default_factory=list)


class TogetherBody(SpecBody):
    """Commits to several tables."""

    table_changes: list[dict[str, Any]] = Field(alias="table-changes")


class AnyBody(SpecBody, extra="allow"):
    """What is passed on unchanged to the catalog behind this one."""


class RenameBody(SpecBody):
    """A new name for a table."""

    source: dict[str, Any]
    destination: dict[str, Any]


class DropQuery(SpecQuery):
    """How to drop a table."""

    purge: str = Field("false", alias="purgeRequested")
    """Whether its files are deleted, too."""


_DONE = {204: Answer("Done")}
_LOADED = {200: json_of(answers.LoadedTable, "The table")}


def endpoints(catalog: IcebergCatalog) -> tuple[str, ...]:
    """Returns the routes with which a catalog can be changed."""
    changes = CatalogChanges(catalog)
    together = (TOGETHER,) if changes.commits_together else ()
    return (*ENDPOINTS, *together, *(VIEW_ENDPOINTS if changes.changes_views else ()))


def add_routes(routes: flask.Blueprint, rest: IcebergRest, load: Load, *, planned: bool) -> None:
    """Adds the routes.

    Args:
        routes: Where to add them.
        rest: The catalog's parts.
        load: Answers like a load of a table.
        planned: Whether scans are planned here.
    """
    _add_namespaces(routes, rest)
    _add_new_tables(routes, rest, load, planned=planned)
    _add_tables(routes, rest)
    _add_commits(routes, rest)
    _add_views(routes, rest)


def _changes(rest: IcebergRest, prefix: str) -> CatalogChanges:
    return CatalogChanges(catalog_of(rest, prefix))


def _add_namespaces(routes: flask.Blueprint, rest: IcebergRest) -> None:
    @routes.post("/<prefix>/namespaces")
    @operation("Creates a namespace", {200: json_of(answers.Namespace, "It")}, ANY)
    def create_namespace(prefix: str, body: NamespaceBody) -> flask.Response:
        path = tuple(body.namespace)
        if not path:
            raise SeamlineError(INVALID_REQUEST, "a namespace needs a name")
        _require_new_in(prefix, path)
        _changes(rest, prefix).create_namespace(path, body.properties)
        return flask.jsonify({"namespace": list(path), "properties": body.properties})

    @routes.delete(_PATH)
    @operation("Drops a namespace", _DONE, ANY)
    def drop_namespace(prefix: str, namespace: str) -> flask.Response:
        path = namespace_path(namespace)
        _require_new_in(prefix, path)
        _changes(rest, prefix).drop_namespace(path)
        return empty(204)

    @routes.post(f"{_PATH}/properties")
    @operation("Changes properties", {200: json_of(answers.ChangedProperties, "Which")}, ANY)
    def change_namespace(prefix: str, namespace: str, body: PropertiesBody) -> flask.Response:
        path = namespace_path(namespace)
        _require_new_in(prefix, path)
        if both := set(body.removals) & set(body.updates):
            message = f"properties cannot be both updated and removed: {', '.join(sorted(both))}"
            raise SeamlineError(INVALID_REQUEST, message)
        changed = _changes(rest, prefix).change_namespace(path, body.removals, body.updates)
        return flask.jsonify(changed)


def _add_new_tables(
    routes: flask.Blueprint, rest: IcebergRest, load: Load, *, planned: bool
) -> None:
    @routes.post(f"{_PATH}/tables")
    @operation("Creates a table", _LOADED, ANY)
    def create_table(
        prefix: str, namespace: str, body: TableBody, headers: DelegationHeaders
    ) -> flask.Response:
        name = _new_table(prefix, (*namespace_path(namespace), body.name))
        new = NewTable(
            identifier=name.path,
            schema=body.schema_,
            spec=body.partition_spec,
            order=body.write_order,
            location=body.location,
            properties=body.properties,
        )
        made = _changes(rest, prefix).create(new, staged=body.stage_create)
        if not body.stage_create:
            return load(name, headers)
        return _staged(rest, prefix, made, headers, planned=planned)

    @routes.post(f"{_PATH}/register")
    @operation("Registers a table from a metadata file", _LOADED, ANY)
    def register(
        prefix: str, namespace: str, body: RegisterBody, headers: DelegationHeaders
    ) -> flask.Response:
        name = _new_table(prefix, (*namespace_path(namespace), body.name))
        if body.overwrite:
            raise SeamlineError(NOT_SUPPORTED, "a table cannot be registered over an existing one")
        _changes(rest, prefix).register(name.path, body.metadata_location)
        rest.catalog.forget(name, flask.g.caller)
        return load(name, headers)


def _add_tables(routes: flask.Blueprint, rest: IcebergRest) -> None:
    @routes.delete(f"{_PATH}/tables/<table>")
    @operation("Drops a table", _DONE, ANY)
    def drop_table(prefix: str, namespace: str, table: str, query: DropQuery) -> flask.Response:
        with missing(TABLE_NOT_FOUND):
            name = table_name(prefix, namespace, table)
            flask.g.caller.rights.require_alterable(name)
            purge = query.purge.lower() == "true"
            _changes(rest, prefix).drop(name.path, purge=purge)
        rest.catalog.forget(name, flask.g.caller)
        return empty(204)

    @routes.post("/<prefix>/tables/rename")
    @operation("Renames a table", _DONE, ANY)
    def rename(prefix: str, body: RenameBody) -> flask.Response:
        source, destination = (_path(named) for named in (body.source, body.destination))
        name = TableName(prefix, "", source)
        flask.g.table = name.display
        flask.g.caller.rights.require_alterable(name)
        _require_new_in(prefix, destination[:-1])
        flask.g.caller.rights.require_new(TableName(prefix, "", destination))
        _changes(rest, prefix).rename(source, destination)
        rest.catalog.forget(name, flask.g.caller)
        return empty(204)


def _add_commits(routes: flask.Blueprint, rest: IcebergRest) -> None:
    @routes.post(f"{_PATH}/tables/<table>")
    @operation("Commits to a table", {200: json_of(answers.Committed, "The table")}, ANY)
    def commit(prefix: str, namespace: str, table: str, body: CommitBody) -> flask.Response:
        path = (*namespace_path(namespace), table)
        change_ = TableCommit.of(path, body.requirements, body.updates)
        changes = _changes(rest, prefix)
        checked = _checked(changes, prefix, change_)
        with landing(), _forgetting(rest, prefix, change_):
            made = changes.commit(checked, change_)
        text = metadata_text(made.metadata)
        answer = b'{"metadata-location":%b,"metadata":%b}' % (_quoted(made.location), text)
        return flask.Response(answer, mimetype="application/json")

    @routes.post("/<prefix>/transactions/commit")
    @operation("Commits to several tables", _DONE, ANY)
    def commit_together(prefix: str, body: TogetherBody) -> flask.Response:
        changes = _changes(rest, prefix)
        change_ = [
            TableCommit.of(
                _path(change.get("identifier") or {}),
                change.get("requirements") or [],
                change.get("updates") or [],
            )
            for change in body.table_changes
        ]
        for commit in change_:
            _checked(changes, prefix, commit)
        with landing(), _forgetting(rest, prefix, *change_):
            changes.commit_all(change_)
        return empty(204)


@contextlib.contextmanager
def _forgetting(rest: IcebergRest, prefix: str, *commits: TableCommit) -> Iterator[None]:
    """Makes the client's loads after the commits fresh, even if a commit failed."""
    try:
        yield
    finally:
        for commit in commits:
            rest.catalog.forget(TableName(prefix, "", commit.identifier), flask.g.caller)


def _checked(changes: CatalogChanges, prefix: str, commit: TableCommit) -> PyTable | None:
    """Returns the table of a commit that may be made; None if it would create the table."""
    path = commit.identifier
    name = _new_table(prefix, path) if commit.creates else TableName(prefix, "", path)
    with missing(TABLE_NOT_FOUND):
        if not commit.creates:
            require_whole(name)
            flask.g.caller.rights.require_alterable(name)
        return changes.checked(commit)


def _add_views(routes: flask.Blueprint, rest: IcebergRest) -> None:
    """Adds routes for views, which are passed on unchanged to the catalog behind this one."""

    def change(prefix: str, name: tuple[str, ...], *path: str, body: AnyBody | None) -> bytes:
        _new_table(prefix, name)
        with landing():
            sent = None if body is None else body.model_dump()
            return _changes(rest, prefix).change_view(flask.request.method, path, sent)

    @routes.post(f"{_PATH}/views")
    @operation("Creates a view", {200: json_of(answers.LoadedView, "It")}, ANY)
    def create_view(prefix: str, namespace: str, body: AnyBody) -> flask.Response:
        name = (*namespace_path(namespace), str(body.model_dump().get("name") or ""))
        answer = change(prefix, name, "namespaces", namespace, "views", body=body)
        return _of_view(answer)

    @routes.post(f"{_PATH}/views/<view>")
    @operation("Changes a view", {200: json_of(answers.LoadedView, "It")}, ANY)
    def change_view(prefix: str, namespace: str, view: str, body: AnyBody) -> flask.Response:
        name = (*namespace_path(namespace), view)
        return _of_view(change(prefix, name, "namespaces", namespace, "views", view, body=body))

    @routes.delete(f"{_PATH}/views/<view>")
    @operation("Drops a view", _DONE, ANY)
    def drop_view(prefix: str, namespace: str, view: str) -> flask.Response:
        name = (*namespace_path(namespace), view)
        change(prefix, name, "namespaces", namespace, "views", view, body=None)
        return empty(204)

    @routes.post("/<prefix>/views/rename")
    @operation("Renames a view", _DONE, ANY)
    def rename_view(prefix: str, body: AnyBody) -> flask.Response:
        sent = body.model_dump()
        for named in ("source", "destination"):
            _new_table(prefix, _path(sent.get(named) or {}))
        change(prefix, _path(sent["source"]), "views", "rename", body=body)
        return empty(204)


# --- Answers -------------------------------------------------------------------------------------


def _staged(
    rest: IcebergRest,
    prefix: str,
    made: Changed,
    headers: DelegationHeaders,
    *,
    planned: bool,
) -> flask.Response:
    """Returns the answer with a table that has yet to be created."""
    catalog, location = rest.config.catalogs[prefix], made.metadata.location
    config = storage_access.addresses(catalog, location)
    if planned:
        config["scan-planning-mode"] = SERVER
    keys = storage_access.credentials(catalog, [location]) if headers.asks_for_credentials else []
    for one in keys:  # where some clients look for them
        config |= one["config"]
    rest_of = {"config": config, **({"storage-credentials": keys} if keys else {})}
    text = b'{"metadata-location":null,"metadata":%b,%b' % (
        metadata_text(made.metadata),
        flask.json.dumps(rest_of).encode()[1:],
    )
    return flask.Response(text, mimetype="application/json")


def _of_view(text: bytes) -> flask.Response:
    """Returns the catalog's answer without its `config`, which is the gateway's own."""
    body = flask.json.loads(text)
    return flask.jsonify({name: body[name] for name in ("metadata-location", "metadata")})


def _quoted(text: str | None) -> bytes:
    return flask.json.dumps(text).encode()


# --- Names ---------------------------------------------------------------------------------------


def _path(named: dict[str, Any]) -> tuple[str, ...]:
    """Returns the path for an identifier in a body."""
    namespace, name = named.get("namespace"), named.get("name")
    if not isinstance(namespace, list) or not all(isinstance(v, str) for v in (*namespace, name)):
        raise SeamlineError(INVALID_REQUEST, "an identifier needs a namespace and a name")
    return (*namespace, str(name))


def _new_table(prefix: str, path: tuple[str, ...]) -> TableName:
    """Returns the name of a table, if the caller may create it."""
    name = TableName(prefix, "", path)
    flask.g.table = name.display
    _require_new_in(prefix, path[:-1])
    flask.g.caller.rights.require_new(name)
    return name


def _require_new_in(prefix: str, namespace: tuple[str, ...]) -> None:
    """Requires that the caller may create any table in a namespace."""
    if namespace and namespace[0].lower() == INFORMATION_SCHEMA:
        raise SeamlineError(SCHEMA_NOT_FOUND, f"schema {INFORMATION_SCHEMA} is not a namespace")
    flask.g.caller.rights.require_new(TableName(prefix, "", (*namespace, "")))
