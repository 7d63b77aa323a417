"""What the Iceberg REST specification says of answers, as models that allow nothing else.

Written from the specification's schemas for the routes we serve; where it leaves room (a partition
value that is null, numbers of any size), so do these. `watch` checks every answer an application
gives on those routes.
"""

# ruff: noqa: D101 - each model is named after the schema it is
from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import flask
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

Value = bool | int | float | str | None
Text = Annotated[str, Field(min_length=1)]
Properties = dict[str, str]


def _kebab(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


class _Object(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=_kebab)


class Error(_Object):
    message: Text
    type: Text
    code: int = Field(ge=400, le=600)
    stack: list[str] | None = None


class ErrorAnswer(_Object):
    error: Error


class OAuthError(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    error: Literal[
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
    ]
    error_description: str | None = None
    error_uri: str | None = None


class Config(_Object):
    defaults: Properties
    overrides: Properties
    endpoints: list[Annotated[str, Field(pattern=r"^(GET|HEAD|POST|DELETE) /v1/\S+$")]]


class Namespaces(_Object):
    namespaces: list[list[Text]]
    next_page_token: str | None = None


class Namespace(_Object):
    namespace: list[Text]
    properties: Properties | None = None


class Identifier(_Object):
    namespace: list[Text]
    name: Text


class Identifiers(_Object):
    identifiers: list[Identifier]
    next_page_token: str | None = None


# --- Table metadata ------------------------------------------------------------------------------


class Struct(_Object):
    type: Literal["struct"]
    fields: list[StructField]
    schema_id: int | None = None
    identifier_field_ids: list[int] | None = None


class List(_Object):
    type: Literal["list"]
    element_id: int
    element: Type
    element_required: bool


class Map(_Object):
    type: Literal["map"]
    key_id: int
    key: Type
    value_id: int
    value: Type
    value_required: bool


Type = Text | Struct | List | Map


class StructField(_Object):
    id: int
    name: Text
    type: Type
    required: bool
    doc: str | None = None
    initial_default: Any = None
    write_default: Any = None


class PartitionField(_Object):
    field_id: int | None = None
    source_id: int
    name: Text
    transform: Text


class PartitionSpec(_Object):
    spec_id: int | None = None
    fields: list[PartitionField]


class SortField(_Object):
    source_id: int
    transform: Text
    direction: Literal["asc", "desc"]
    null_order: Literal["nulls-first", "nulls-last"]


class SortOrder(_Object):
    order_id: int
    fields: list[SortField]


class Snapshot(_Object):
    snapshot_id: int = Field(ge=0, lt=1 << 63)
    parent_snapshot_id: int | None = None
    sequence_number: int | None = None
    timestamp_ms: int
    manifest_list: Text
    first_row_id: int | None = None
    added_rows: int | None = None
    summary: Properties
    schema_id: int | None = None

    @model_validator(mode="after")
    def _has_an_operation(self) -> Snapshot:
        assert self.summary["operation"] in {"append", "replace", "overwrite", "delete"}
        return self


class Reference(_Object):
    type: Literal["tag", "branch"]
    snapshot_id: int
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


class LogEntry(_Object):
    snapshot_id: int
    timestamp_ms: int


class MetadataLogEntry(_Object):
    metadata_file: Text
    timestamp_ms: int


class Metadata(_Object):
    format_version: int = Field(ge=1, le=3)
    table_uuid: Text
    location: Text
    last_updated_ms: int
    next_row_id: int | None = None
    properties: Properties
    schemas: list[Struct]
    current_schema_id: int
    last_column_id: int
    partition_specs: list[PartitionSpec]
    default_spec_id: int
    last_partition_id: int
    sort_orders: list[SortOrder]
    default_sort_order_id: int
    encryption_keys: list[Any] | None = None
    snapshots: list[Snapshot] = []
    refs: dict[str, Reference] = {}
    current_snapshot_id: int | None = None
    last_sequence_number: int
    snapshot_log: list[LogEntry] = []
    metadata_log: list[MetadataLogEntry] = []
    statistics: list[Any] = []
    partition_statistics: list[Any] = []

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Metadata:
        by_id = {s.snapshot_id: s for s in self.snapshots}
        assert len(by_id) == len(self.snapshots)
        assert all((s.sequence_number or 0) <= self.last_sequence_number for s in self.snapshots)
        times = [entry.timestamp_ms for entry in self.snapshot_log]
        assert times == sorted(times)
        assert not times or self.last_updated_ms >= times[-1]
        current = self.current_snapshot_id
        if current not in (None, -1):
            assert current in by_id
            assert self.refs["main"].snapshot_id == current
            assert not self.snapshot_log or self.snapshot_log[-1].snapshot_id == current
        assert all(ref.snapshot_id in by_id for ref in self.refs.values())
        if self.format_version >= 3:
            assert self.next_row_id is not None
            if current in (None, -1):
                return self
            taken = [(s.first_row_id or 0) + (s.added_rows or 0) for s in self.snapshots]
            main = (by_id[current].first_row_id or 0) + (by_id[current].added_rows or 0)
            assert self.next_row_id >= main if taken else True
        return self


class StorageCredential(_Object):
    prefix: Text
    config: Properties


class LoadTable(_Object):
    metadata_location: Text | None
    metadata: Metadata
    config: Properties | None = None
    storage_credentials: list[StorageCredential] | None = None


class Committed(_Object):
    metadata_location: Text
    metadata: Metadata


class ChangedProperties(_Object):
    updated: list[str]
    removed: list[str]
    missing: list[str] | None = None


class LoadCredentials(_Object):
    storage_credentials: list[StorageCredential]


# --- Planned scans -------------------------------------------------------------------------------


class Counts(_Object):
    keys: list[int]
    values: list[int]


class Bounds(_Object):
    keys: list[int]
    values: list[Value]


class _ContentFile(_Object):
    spec_id: int
    partition: list[Value]
    file_path: Text
    file_format: Literal["avro", "orc", "parquet", "puffin"]
    file_size_in_bytes: int = Field(gt=0)
    record_count: int = Field(gt=0)
    key_metadata: str | None = None
    split_offsets: list[int] | None = None
    sort_order_id: int | None = None


class DataFile(_ContentFile):
    content: Literal["data"]
    first_row_id: int | None = None
    column_sizes: Counts | None = None
    value_counts: Counts | None = None
    null_value_counts: Counts | None = None
    nan_value_counts: Counts | None = None
    lower_bounds: Bounds | None = None
    upper_bounds: Bounds | None = None


class PositionDeletes(_ContentFile):
    content: Literal["position-deletes"]
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None


class EqualityDeletes(_ContentFile):
    content: Literal["equality-deletes"]
    equality_ids: list[int]


class ScanTask(_Object):
    data_file: DataFile
    delete_file_references: list[int] | None = None
    residual_filter: bool | dict[str, Any] | None = None


class Tasks(_Object):
    delete_files: list[
        Annotated[PositionDeletes | EqualityDeletes, Field(discriminator="content")]
    ] = []
    file_scan_tasks: list[ScanTask]
    plan_tasks: list[Text] = []

    @model_validator(mode="after")
    def _references_are_there(self) -> Tasks:
        for task in self.file_scan_tasks:
            assert all(0 <= i < len(self.delete_files) for i in task.delete_file_references or [])
        return self


class Completed(Tasks):
    status: Literal["completed"]
    plan_id: Text | None = None


class Submitted(_Object):
    status: Literal["submitted"]
    plan_id: Text | None = None


class Canceled(_Object):
    status: Literal["cancelled"]


class Failed(ErrorAnswer):
    status: Literal["failed"]


Plan = Annotated[Completed | Submitted | Canceled | Failed, Field(discriminator="status")]


# --- Routes --------------------------------------------------------------------------------------

_NAMESPACE = r"/[^/]+/namespaces/[^/]+"
_TABLE = rf"{_NAMESPACE}/tables/[^/]+"
_ANSWERS: Mapping[tuple[str, str], tuple[int, Any]] = {
    ("GET", "/config"): (200, Config),
    ("GET", "/[^/]+/namespaces"): (200, Namespaces),
    ("GET", _NAMESPACE): (200, Namespace),
    ("HEAD", _NAMESPACE): (204, None),
    ("GET", rf"{_NAMESPACE}/tables"): (200, Identifiers),
    ("GET", _TABLE): (200, LoadTable),
    ("GET", rf"{_TABLE}/credentials"): (200, LoadCredentials),
    ("HEAD", _TABLE): (204, None),
    ("POST", rf"{_TABLE}/metrics"): (204, None),
    ("GET", rf"{_NAMESPACE}/views"): (200, Identifiers),
    ("GET", rf"{_NAMESPACE}/views/[^/]+"): (200, dict[str, Any]),
    ("HEAD", rf"{_NAMESPACE}/views/[^/]+"): (204, None),
    ("POST", rf"{_TABLE}/plan"): (200, Plan),
    ("GET", rf"{_TABLE}/plan/[^/]+"): (200, Plan),
    ("DELETE", rf"{_TABLE}/plan/[^/]+"): (204, None),
    ("POST", rf"{_TABLE}/tasks"): (200, Tasks),
    ("POST", "/[^/]+/namespaces"): (200, Namespace),
    ("DELETE", _NAMESPACE): (204, None),
    ("POST", rf"{_NAMESPACE}/properties"): (200, ChangedProperties),
    ("POST", rf"{_NAMESPACE}/tables"): (200, LoadTable),
    ("POST", rf"{_NAMESPACE}/register"): (200, LoadTable),
    ("POST", _TABLE): (200, Committed),
    ("DELETE", _TABLE): (204, None),
    ("POST", "/[^/]+/tables/rename"): (204, None),
    ("POST", "/[^/]+/transactions/commit"): (204, None),
    ("POST", rf"{_NAMESPACE}/views"): (200, dict[str, Any]),
    ("POST", rf"{_NAMESPACE}/views/[^/]+"): (200, dict[str, Any]),
    ("DELETE", rf"{_NAMESPACE}/views/[^/]+"): (204, None),
    ("POST", "/[^/]+/views/rename"): (204, None),
}
_NO_CONTENT = (204, 304)


class Watch:
    """Checks every answer of an application on the catalog's routes.

    Attributes:
        seen: How often each (method, route, status) was answered.
        wrong: What was not as the specification says.
        metadata: All table metadata that was given out.
    """

    def __init__(self, app: flask.Flask) -> None:
        self.seen: dict[tuple[str, str, int], int] = {}
        self.wrong: list[str] = []
        self.metadata: set[str] = set()
        app.after_request(self._check)

    def _check(self, answer: flask.Response) -> flask.Response:
        match = re.match(r"/iceberg(?:-plan)?/v1(/.*)", flask.request.path)
        if match is not None:
            try:
                self._check_route(match[1], answer)
            except (ValueError, AssertionError) as error:
                self.wrong.append(f"{flask.request.method} {flask.request.path}: {error}")
        return answer

    def _check_route(self, path: str, answer: flask.Response) -> None:
        method = flask.request.method
        found = next((r for r in _ANSWERS if r[0] == method and re.fullmatch(r[1], path)), None)
        key = (method, found[1] if found else "?", answer.status_code)
        self.seen[key] = self.seen.get(key, 0) + 1
        if answer.status_code >= 400:
            if path == "/oauth/tokens":
                OAuthError.model_validate_json(answer.get_data())
            elif method != "HEAD":
                error = ErrorAnswer.model_validate_json(answer.get_data())
                assert error.error.code == answer.status_code
            return
        assert found is not None, "a route the specification does not have"
        status, model = _ANSWERS[found]
        assert answer.status_code in (status, 304), answer.status_code
        if answer.status_code in _NO_CONTENT:
            assert not answer.get_data()
        else:
            TypeAdapter(model).validate_json(answer.get_data(), strict=True)
            if model is LoadTable:
                self.metadata.add(json.dumps(json.loads(answer.get_data())["metadata"]))
