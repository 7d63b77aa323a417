"""Stores the views of a catalog: in the catalog if it supports views, otherwise in its warehouse.

Either way a view is Iceberg view metadata of format version 1, with one SQL representation per
dialect. In a catalog without views, the metadata is a file in the warehouse, and a property of the
namespace says where the newest file is; so replacing a view is one commit of the catalog.

A column whose type Iceberg lacks has the nearest one there; the summary of
the version has the types themselves.
"""

from __future__ import annotations

import dataclasses
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.io import load_file_io
from pyiceberg.schema import Schema

from seamline.connectors.iceberg import pyiceberg_internals
from seamline.connectors.iceberg.errors import catalog_errors, namespace_errors, storage_errors
from seamline.connectors.iceberg.type_conversion import representable, table_schema, to_schema
from seamline.connectors.protocols.catalogs import View
from seamline.errors import INVALID_VIEW, NOT_SUPPORTED, VIEW_NOT_FOUND, SeamlineError
from seamline.sql import types
from seamline.sql.types import Field

if TYPE_CHECKING:
    from seamline.connectors.iceberg.tables.catalog import IcebergCatalog

PROPERTY = "seamline.view."
"""Prefix, before a view's name, of the namespace property that says where its metadata is."""
COLUMN_TYPES = "seamline.column-types"
"""Key in the summary of a version for the types of its columns, as a JSON array of texts."""
RUN_AS_OWNER = "trino.run-as-owner"
"""The property of a view that names the user with whose rights it reads, as Trino's connector for
Iceberg writes and reads it."""
_VERSIONS_KEPT = 10

Identifier = tuple[str, ...]


class ViewStore:
    """The views of one catalog. Safe to share between threads."""

    def __init__(self, catalog: IcebergCatalog) -> None:
        self._catalog = catalog

    def names(self, namespace: Identifier) -> list[Identifier]:
        """Returns the identifiers of the views of a namespace, sorted.

        Raises:
            SeamlineError: SCHEMA_NOT_FOUND, CATALOG_UNAVAILABLE.
        """
        if self._catalog.has_views:
            return self._catalog.views(namespace)
        with namespace_errors(self._catalog.name, namespace):
            properties = self._catalog.pyiceberg.load_namespace_properties(namespace)
        found = (key.removeprefix(PROPERTY) for key in properties if key.startswith(PROPERTY))
        return sorted((*namespace, name) for name in found)

    def find(self, identifier: Identifier) -> View | None:
        """Returns a view; None if there is none of that name.

        Raises:
            SeamlineError: INVALID_VIEW, CATALOG_UNAVAILABLE, STORAGE_UNAVAILABLE,
                LOCATION_NOT_ALLOWED.
        """
        metadata = self._metadata(identifier)
        if metadata is None:
            return None
        try:
            return _view(metadata)
        except (KeyError, TypeError, ValueError, StopIteration, ValidationError) as error:
            name = ".".join((self._catalog.name, *identifier))
            raise SeamlineError(INVALID_VIEW, f"the metadata of view {name} is broken") from error

    def put(self, identifier: Identifier, view: View) -> None:
        """Creates a view, or adds its next version.

        Raises:
            SeamlineError: CATALOG_UNAVAILABLE, STORAGE_UNAVAILABLE, NOT_SUPPORTED.
        """
        current = self._metadata(identifier)
        location = current["location"] if current is not None else self._location(identifier)
        metadata = _next(current, view, location)
        with catalog_errors(self._catalog.name, identifier):
            self._catalog.require_namespace(identifier[:-1])
            if self._catalog.has_views:
                body = (
                    _creation(identifier[-1], metadata)
                    if current is None
                    else _commit(current, metadata, view)
                )
                pyiceberg_internals.put_view(
                    self._catalog.pyiceberg, identifier, body, replace=current is not None
                )
            else:
                self._write(identifier, metadata)

    def drop(self, identifier: Identifier) -> None:
        """Drops a view.

        Raises:
            SeamlineError: VIEW_NOT_FOUND, CATALOG_UNAVAILABLE.
        """
        if self._metadata(identifier) is None:
            name = ".".join((self._catalog.name, *identifier))
            raise SeamlineError(VIEW_NOT_FOUND, f"view {name} does not exist")
        pyiceberg = self._catalog.pyiceberg
        with catalog_errors(self._catalog.name, identifier):
            if self._catalog.has_views:
                pyiceberg.drop_view(identifier)
            else:
                removed = {PROPERTY + identifier[-1]}
                pyiceberg.update_namespace_properties(identifier[:-1], removals=removed)

    def _metadata(self, identifier: Identifier) -> dict[str, Any] | None:
        if self._catalog.has_views:
            return self._from_catalog(identifier)
        with catalog_errors(self._catalog.name, identifier):
            try:
                properties = self._catalog.pyiceberg.load_namespace_properties(identifier[:-1])
            except NoSuchNamespaceError:
                return None
        location = properties.get(PROPERTY + identifier[-1])
        if location is None:
            return None
        self._catalog.pyiceberg.guard.places.require(location)
        with storage_errors(f"view {'.'.join(identifier)}"):
            io = load_file_io(self._catalog.pyiceberg.properties, location)
            with io.new_input(location).open() as source:
                return _decoded(source.read(), identifier)

    def _from_catalog(self, identifier: Identifier) -> dict[str, Any] | None:
        if not self._catalog.has_namespace(identifier[:-1]):
            return None
        try:
            answer = self._catalog.view(identifier)
        except SeamlineError as error:
            if error.code is VIEW_NOT_FOUND:
                return None
            raise
        found: dict[str, Any] = _decoded(answer, identifier).get("metadata", {})
        return found

    def _location(self, identifier: Identifier) -> str:
        warehouse = self._catalog.config.warehouse.rstrip("/")
        if not self._catalog.has_views and "/" not in warehouse:
            raise SeamlineError(
                NOT_SUPPORTED,
                f"catalog {self._catalog.name} has neither views nor a warehouse to store them in",
                hint="Give it a warehouse with a location.",
            )
        return f"{warehouse}/{'/'.join(identifier)}-{uuid.uuid4().hex[:8]}"

    def _write(self, identifier: Identifier, metadata: Mapping[str, Any]) -> None:
        number = metadata["current-version-id"]
        file = f"{metadata['location']}/metadata/{number:05d}-{uuid.uuid4()}.metadata.json"
        pyiceberg = self._catalog.pyiceberg
        pyiceberg.guard.places.require(file)
        with storage_errors(f"view {'.'.join(identifier)}"):
            io = load_file_io(pyiceberg.properties, file)
            with io.new_output(file).create() as target:
                target.write(json.dumps(metadata, indent=1).encode())
        updates = {PROPERTY + identifier[-1]: file}
        pyiceberg.update_namespace_properties(identifier[:-1], updates=updates)


# --- Metadata ------------------------------------------------------------------------------------


def _decoded(body: bytes, identifier: Identifier) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except ValueError as error:
        message = f"the metadata of view {'.'.join(identifier)} is not JSON"
        raise SeamlineError(INVALID_VIEW, message) from error
    return content if isinstance(content, dict) else {}


def _view(metadata: Mapping[str, Any]) -> View:
    number = metadata["current-version-id"]
    version = next(v for v in metadata["versions"] if v["version-id"] == number)
    schema = next(s for s in metadata["schemas"] if s.get("schema-id", 0) == version["schema-id"])
    properties = metadata.get("properties") or {}
    return View(
        columns=_columns(Schema.model_validate(schema), version),
        texts={
            str(representation["dialect"]).lower(): str(representation["sql"])
            for representation in version["representations"]
            if representation.get("type") == "sql"
        },
        catalog=version.get("default-catalog"),
        namespace=tuple(version.get("default-namespace") or ()),
        comment=properties.get("comment"),
        owner=properties.get(RUN_AS_OWNER) or None,
    )


def _columns(schema: Schema, version: Mapping[str, Any]) -> tuple[Field, ...]:
    """Returns the columns of a version, with the types that it was created with."""
    columns = table_schema(schema).columns
    texts = json.loads((version.get("summary") or {}).get(COLUMN_TYPES, "null"))
    if texts is None:
        return columns
    try:
        kinds = [types.parse(text) for text in texts]
    except SeamlineError as error:
        raise ValueError(str(error)) from error
    return tuple(
        dataclasses.replace(column, type=kind) for column, kind in zip(columns, kinds, strict=True)
    )


def _schemas(
    schemas: Sequence[Mapping[str, Any]], added: Schema
) -> tuple[list[Mapping[str, Any]], int]:
    """Returns the schemas of a view, to which one is added unless it is there; and its id."""
    for schema in schemas:
        if Schema.model_validate(schema).as_struct() == added.as_struct():
            return list(schemas), schema.get("schema-id", 0)
    schema_id = max((s.get("schema-id", 0) for s in schemas), default=-1) + 1
    return [*schemas, json.loads(added.model_dump_json()) | {"schema-id": schema_id}], schema_id


def _properties(view: View) -> dict[str, str | None]:
    """Returns the properties that a view's metadata has for it; None for one that it lacks."""
    return {"comment": view.comment, RUN_AS_OWNER: view.owner}


def _schema(view: View) -> Schema:
    columns = (dataclasses.replace(c, type=representable(c.type)) for c in view.columns)
    return to_schema(tuple(columns), is_written=False)


def _next(current: Mapping[str, Any] | None, view: View, location: str) -> dict[str, Any]:
    """Returns the metadata of a view with one more version."""
    earlier = current or {}
    now_ms = int(time.time() * 1000)
    versions = list(earlier.get("versions", ()))[1 - _VERSIONS_KEPT :]
    number = max((v["version-id"] for v in earlier.get("versions", ())), default=0) + 1
    schemas, schema_id = _schemas(earlier.get("schemas", ()), _schema(view))
    used = {schema_id, *(v["schema-id"] for v in versions)}
    version = {
        "version-id": number,
        "timestamp-ms": now_ms,
        "schema-id": schema_id,
        "summary": {
            "engine-name": "seamline",
            COLUMN_TYPES: json.dumps([str(column.type) for column in view.columns]),
        },
        "default-catalog": view.catalog,
        "default-namespace": list(view.namespace),
        "representations": [
            {"type": "sql", "sql": sql, "dialect": dialect} for dialect, sql in view.texts.items()
        ],
    }
    properties = dict(earlier.get("properties") or {})
    for key, value in _properties(view).items():
        properties.pop(key, None)
        if value is not None:
            properties[key] = value
    return {
        "view-uuid": earlier.get("view-uuid", str(uuid.uuid4())),
        "format-version": 1,
        "location": location,
        "schemas": [s for s in schemas if s.get("schema-id", 0) in used],
        "current-version-id": number,
        "versions": [*versions, version],
        "version-log": [
            *earlier.get("version-log", ()),
            {"timestamp-ms": now_ms, "version-id": number},
        ],
        "properties": properties,
    }


# --- Requests to a REST catalog ------------------------------------------------------------------

_LAST_ADDED = -1
"""The id, in a request, of the schema or the version that the same request adds."""


def _creation(name: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the request that creates a view."""
    (version,), (schema,) = metadata["versions"], metadata["schemas"]
    return {
        "name": name,
        "schema": schema,
        "view-version": version,
        "properties": metadata["properties"],
    }


def _commit(current: Mapping[str, Any], metadata: Mapping[str, Any], view: View) -> dict[str, Any]:
    """Returns the request that makes the newest version of a view its current one.

    Args:
        current: The metadata that the catalog has.
        metadata: The metadata with the newest version.
        view: The view.
    """
    unset = [key for key, value in _properties(view).items() if value is None]
    return {
        "requirements": [{"type": "assert-view-uuid", "uuid": current["view-uuid"]}],
        "updates": [
            *_version_updates(current, metadata),
            {"action": "set-properties", "updates": metadata["properties"]},
            {"action": "remove-properties", "removals": unset},
        ],
    }


def _version_updates(
    current: Mapping[str, Any], metadata: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Returns what makes the newest version current; a catalog adds nothing that it has already."""
    version = metadata["versions"][-1]
    about = ("schema-id", "summary", "representations", "default-catalog", "default-namespace")
    for earlier in current["versions"]:
        if all(earlier.get(key) == version[key] for key in about):
            number = earlier["version-id"]
            return [{"action": "set-current-view-version", "view-version-id": number}]
    added: list[dict[str, Any]] = []
    if version["schema-id"] not in {s.get("schema-id", 0) for s in current["schemas"]}:
        number = version["schema-id"]
        schema = next(s for s in metadata["schemas"] if s.get("schema-id", 0) == number)
        added = [{"action": "add-schema", "schema": schema}]
        version = {**version, "schema-id": _LAST_ADDED}
    return [
        *added,
        {"action": "add-view-version", "view-version": version},
        {"action": "set-current-view-version", "view-version-id": _LAST_ADDED},
    ]
