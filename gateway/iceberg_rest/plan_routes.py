"""Planned scans of the Iceberg REST catalog: plans, their pages, and their cancellation.

    POST   …/tables/{table}/plan              plan a scan; "submitted" when it takes long
    GET    …/tables/{table}/plan/{plan-id}    get its status or result
    DELETE …/tables/{table}/plan/{plan-id}    cancel it, or drop it
    POST   …/tables/{table}/tasks             get a further page of its files

A plan that names no snapshot reads the seam that its statement began with.
"""

from __future__ import annotations

import contextlib
import re
import reprlib
from collections.abc import Sequence
from typing import Any

import flask
from pydantic import Field
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from seamline.connectors.iceberg import rest_files
from seamline.connectors.iceberg.row_ids import CONTENT_OFFSET
from seamline.connectors.iceberg.tables.scan import FileTask
from seamline.connectors.iceberg.virtual import Json
from seamline.errors import (
    INTERNAL_ERROR,
    NOT_SUPPORTED,
    PLAN_NOT_FOUND,
    SNAPSHOT_GONE,
    TABLE_NOT_FOUND,
    SeamlineError,
)
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.http.operations import ANY, Answer, empty, json, operation
from seamline.gateway.iceberg_rest import answers
from seamline.gateway.iceberg_rest.catalog import Caller, IcebergRest
from seamline.gateway.iceberg_rest.errors import error_body
from seamline.gateway.iceberg_rest.requests import SpecBody, missing, table_name
from seamline.gateway.iceberg_rest.scan_plans import SubmittedPlan
from seamline.gateway.iceberg_rest.scans import PlanRequest, ScanPlan, TableScan, plan_scan
from seamline.gateway.iceberg_rest.served_table import ServedTable
from seamline.gateway.names import TableName

_TABLE = "/<prefix>/namespaces/<namespace>/tables/<table>"
_PLANNED = {200: json(answers.PlannedScan, "Its state")}
_TASKS = {200: json(answers.Tasks, "The page")}


class PageOfPlan(SpecBody):
    """Which further page of a plan to return."""

    plan_task: str = Field(alias="plan-task")
    """One of the plan's `plan-tasks`."""


def add_routes(routes: flask.Blueprint, rest: IcebergRest) -> None:
    """Adds the routes to those of the catalog."""

    @routes.post(f"{_TABLE}/plan")
    @operation("Plans a scan", _PLANNED, ANY)
    def plan(prefix: str, namespace: str, table: str, body: PlanRequest) -> flask.Response:
        name = table_name(prefix, namespace, table)
        asked, caller = _supported(body), flask.g.caller

        def work(deadline: StatementDeadline) -> ScanPlan:
            served, snapshot_id = _snapshot(rest, name, asked, caller, deadline)
            request = TableScan(served, snapshot_id, _schema(served, snapshot_id, asked), asked)
            return plan_scan(rest.catalog.tables, request, deadline)

        with missing(TABLE_NOT_FOUND):
            made = rest.plans.submit(caller.principal, name.full, work)
        return flask.jsonify({**_result(made), "plan-id": made.plan_id})

    @routes.get(f"{_TABLE}/plan/<plan_id>")
    @operation("The state of a planned scan", _PLANNED, ANY)
    def fetch(prefix: str, namespace: str, table: str, plan_id: str) -> flask.Response:
        name = table_name(prefix, namespace, table)
        found = rest.plans.find(plan_id, flask.g.caller.principal, name.full)
        return flask.jsonify(_result(found))

    @routes.delete(f"{_TABLE}/plan/<plan_id>")
    @operation("Cancels a planned scan, or drops it", {204: Answer("Gone")}, ANY)
    def cancel(prefix: str, namespace: str, table: str, plan_id: str) -> flask.Response:
        name = table_name(prefix, namespace, table)
        rest.plans.cancel(rest.plans.find(plan_id, flask.g.caller.principal, name.full))
        return empty(204)

    @routes.post(f"{_TABLE}/tasks")
    @operation("A further page of a planned scan's files", _TASKS, ANY)
    def tasks(prefix: str, namespace: str, table: str, body: PageOfPlan) -> flask.Response:
        name = table_name(prefix, namespace, table)
        plan_id, _, number = body.plan_task.rpartition(".")
        found = rest.plans.find(plan_id, flask.g.caller.principal, name.full)
        is_number = re.fullmatch(r"[0-9]{1,9}", number) is not None
        if found.canceled or not found.done or not is_number or int(number) >= found.pages():
            number = reprlib.repr(number)
            raise SeamlineError(PLAN_NOT_FOUND, f"plan {plan_id} has no page {number}")
        return flask.jsonify(_tasks(found.result.result(), found.page(int(number))))


# --- Requests ------------------------------------------------------------------------------------


def _supported(body: PlanRequest) -> PlanRequest:
    """Returns the request for a plan, if it is supported.

    Raises:
        SeamlineError: NOT_SUPPORTED.
    """
    if body.start_snapshot_id is not None or body.end_snapshot_id is not None:
        raise SeamlineError(
            NOT_SUPPORTED,
            "scans of the changes between snapshots are not planned here",
            hint="Read changes through the catalog that does not plan scans.",
        )
    return body


def _snapshot(
    rest: IcebergRest,
    name: TableName,
    body: PlanRequest,
    caller: Caller,
    deadline: StatementDeadline,
) -> tuple[ServedTable, int | None]:
    """Returns the table, and the id of the snapshot that is to be read."""
    snapshot_id = body.snapshot_id
    if snapshot_id is None:
        table = rest.catalog.current(name, caller, deadline)
        own = table.cold.state.current_snapshot_id
        return table, table.tail.snapshot_id if table.tail is not None else own
    tables = rest.catalog.tables
    table = tables.pin_again(name, snapshot_id, deadline) or tables.load(name)
    is_virtual = table.tail is not None
    if not is_virtual and snapshot_id not in table.cold.state.snapshots:
        raise SeamlineError(SNAPSHOT_GONE, f"{name.display} has no snapshot {snapshot_id}")
    return table, snapshot_id


def _schema(table: ServedTable, snapshot_id: int | None, body: PlanRequest) -> Schema:
    """Returns the schema to whose columns the request's names refer."""
    metadata = table.cold.iceberg.metadata
    if not body.use_snapshot_schema or snapshot_id is None:
        return metadata.schema()
    if table.tail is not None and table.tail.snapshot_id == snapshot_id:
        schema_id: int | None = table.tail.seam.schema_id
    else:
        snapshot = metadata.snapshot_by_id(snapshot_id)
        schema_id = snapshot.schema_id if snapshot is not None else None
    schema = metadata.schema_by_id(schema_id) if schema_id is not None else None
    return schema or metadata.schema()


# --- Answers -------------------------------------------------------------------------------------


def _result(plan: SubmittedPlan) -> Json:
    """Returns the status of a plan and, once it is completed, its first page."""
    if plan.canceled:
        return {"status": "cancelled"}
    if not plan.done:
        return {"status": "submitted"}
    failure = plan.result.exception()
    if isinstance(failure, SeamlineError):
        return {"status": "failed", **error_body(failure)}
    if failure is not None:
        return {"status": "failed", **error_body(SeamlineError(INTERNAL_ERROR, repr(failure)))}
    further = [f"{plan.plan_id}.{number}" for number in range(1, plan.pages())]
    answer = {"status": "completed", **_tasks(plan.result.result(), plan.page(0))}
    return {**answer, "plan-tasks": further} if further else answer


def _tasks(plan: ScanPlan, tasks: Sequence[FileTask]) -> Json:
    """Returns files to read, with the delete files that they refer to."""
    files = _Files(plan)
    asked = plan.request.asked
    residual = True if asked.filter is None else asked.filter
    deletes: dict[tuple[Any, ...], int] = {}
    described: list[Json] = []
    served = []
    for task in tasks:
        references = []
        for delete in task.deletes:
            key = _delete_key(delete)
            if key not in deletes:
                deletes[key] = len(described)
                described.append(files.delete(delete))
            references.append(deletes[key])
        entry: Json = {"data-file": files.data(task.file)}
        if references:
            entry["delete-file-references"] = references
        entry["residual-filter"] = residual
        served.append(entry)
    return {**({"delete-files": described} if described else {}), "file-scan-tasks": served}


class _Files:
    """Describes the files of a plan."""

    def __init__(self, plan: ScanPlan) -> None:
        request = plan.request
        self._metadata: TableMetadata = request.table.cold.iceberg.metadata
        self._unpartitioned = request.table.unpartitioned
        self._stats = _field_ids(request.schema, request.asked.stats_fields or [])

    def data(self, file: DataFile) -> Json:
        spec, schema = self._written_with(file)
        return rest_files.data_file(file, spec, schema, self._stats)

    def delete(self, file: DataFile) -> Json:
        return rest_files.delete_file(file, *self._written_with(file))

    def _written_with(self, file: DataFile) -> tuple[PartitionSpec, Schema]:
        """Returns the file's partition spec, and the schema by which engines know its types."""
        spec = self._metadata.specs().get(file.spec_id, self._unpartitioned)
        return spec, self._metadata.schema()


def _field_ids(schema: Schema, names: Sequence[str]) -> frozenset[int]:
    ids = set()
    for name in names:
        with contextlib.suppress(ValueError):  # there is no such column
            ids.add(schema.find_field(name).field_id)
    return frozenset(ids)


def _delete_key(file: DataFile) -> tuple[Any, ...]:
    """Returns what identifies a delete file; vectors share files, so the offset is part of it."""
    return (file.file_path, file[CONTENT_OFFSET] if len(file) > CONTENT_OFFSET else None)
