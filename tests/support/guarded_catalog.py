"""A REST catalog in this process that takes only tokens, over a catalog in one file."""

from __future__ import annotations

import json
import pathlib
import re
import threading
import types
import urllib.parse
from collections.abc import Callable
from typing import Any, cast

from pyiceberg.catalog.rest import CreateTableRequest, TableResponse
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.table import CommitTableRequest, Table

from support.json_server import Answer, JsonServer, Request

CREDENTIAL = "id:hunter2:x"
_NAMESPACE = r"/v1/namespaces/(?P<namespace>[^/]+)"
_STATUSES: dict[type[Exception], int] = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    NamespaceAlreadyExistsError: 409,
    CommitFailedException: 409,
}


class GuardedCatalog(JsonServer):
    """A catalog. It also issues tokens itself, as the specification had it, for `CREDENTIAL`.

    Args:
        folder: Where it keeps its tables.
        accepts: Whether it takes a token; by default, those that it issued.

    Attributes:
        refusal: The status with which it refuses others.
        tokens: The tokens of the requests that it answered.
        forms: The bodies of the requests for tokens.
    """

    def __init__(self, folder: pathlib.Path, accepts: Callable[[str], bool] | None = None) -> None:
        self.refusal = 401
        self.tokens: list[str] = []
        self.forms: list[dict[str, str]] = []
        self._accepts = accepts or (lambda token: token.startswith("own "))
        self._lock = threading.Lock()
        uri, warehouse = f"sqlite:///{folder}/guarded.db", (folder / "warehouse").as_uri()
        self._catalog = SqlCatalog("guarded", uri=uri, warehouse=warehouse)
        super().__init__()

    def answer(self, request: Request) -> Answer:
        """See `JsonServer.answer`."""
        path = urllib.parse.urlsplit(request.path).path
        if path == "/v1/oauth/tokens":
            return self._token(dict(urllib.parse.parse_qsl(request.body.decode())))
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not self._accepts(token):
            return _error(self.refusal, "no such token")
        self.tokens.append(token)
        try:
            with self._lock:
                return Answer(200, self._answer(request, path))
        except tuple(_STATUSES) as error:
            return _error(_STATUSES[type(error)], str(error))

    def _token(self, form: dict[str, str]) -> Answer:
        self.forms.append(form)
        if (form.get("client_id"), form.get("client_secret")) != tuple(CREDENTIAL.split(":", 1)):
            said = {"error": "invalid_client", "error_description": f"not {form}"}
            return Answer(401, said)
        return Answer(200, {"access_token": f"own {len(self.forms)}", "token_type": "bearer"})

    def _answer(self, request: Request, path: str) -> Any:
        is_get = request.method == "GET"
        if path == "/v1/config":
            return {"defaults": {}, "overrides": {}}
        if path.endswith("/metrics"):  # what Iceberg in Java tells about its scans and commits
            return {}
        if path == "/v1/namespaces":
            if is_get:
                return {"namespaces": self._catalog.list_namespaces()}
            (name,) = json.loads(request.body)["namespace"]
            self._catalog.create_namespace(name)
            return {"namespace": [name], "properties": {}}
        match = re.fullmatch(rf"{_NAMESPACE}(?P<tables>/tables)?(?:/(?P<table>[^/]+))?", path)
        assert match is not None, path
        namespace, table = match["namespace"], match["table"]
        if not match["tables"]:
            found = self._catalog.load_namespace_properties(namespace)
            return {"namespace": [namespace], "properties": found}
        if table is None:
            return self._tables(namespace) if is_get else self._created(namespace, request.body)
        if is_get:
            return _loaded(self._catalog.load_table((namespace, table)))
        return self._committed((namespace, table), request.body)

    def _tables(self, namespace: str) -> Any:
        names = self._catalog.list_tables(namespace)
        return {"identifiers": [{"namespace": list(n[:-1]), "name": n[-1]} for n in names]}

    def _created(self, namespace: str, body: bytes) -> Any:
        asked = CreateTableRequest.model_validate({"location": None, **json.loads(body)})
        make = self._catalog.create_table
        if asked.stage_create:
            make = self._catalog._create_staged_table
        spec, order = asked.partition_spec, asked.write_order
        assert spec is not None
        assert order is not None
        name = (namespace, asked.name)
        return _loaded(
            make(name, asked.table_schema, asked.location, spec, order, asked.properties)
        )

    def _committed(self, name: tuple[str, ...], body: bytes) -> Any:
        identifier = {"namespace": name[:-1], "name": name[-1]}  # which Iceberg in Java leaves out
        asked = CommitTableRequest.model_validate({"identifier": identifier, **json.loads(body)})
        table = cast("Table", types.SimpleNamespace(name=lambda: name))
        made = self._catalog.commit_table(table, asked.requirements, asked.updates)
        return made.model_dump(mode="json", by_alias=True)


def _loaded(table: Table) -> Any:
    said = {"metadata-location": table.metadata_location, "config": {}}
    return TableResponse(metadata=table.metadata, **said).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )


def _error(status: int, message: str) -> Answer:
    return Answer(status, {"error": {"message": message, "type": "Error", "code": status}})
