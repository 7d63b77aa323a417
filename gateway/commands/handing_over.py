"""Passes a table from its writer to Seamline's pipeline, or from the pipeline to another writer.

Either way, one boundary is the end of one writer and the beginning of the other. It is recorded in
a commit that succeeds only if the table is still as it was read. A writer that continues all the
same is noticed: its next commit makes the table fail with a named error, and no row is duplicated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from pyiceberg.table.update.schema import UpdateSchema

from seamline.connectors.iceberg.boundaries.provider import OPTION_PREFIX
from seamline.connectors.iceberg.boundaries.registry import PROPERTY, PROVIDERS
from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.iceberg.type_conversion import to_schema
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import (
    ADOPTION_REFUSED,
    COMMIT_CONFLICT,
    INVALID_ARGUMENT,
    NOT_A_UNIFIED_TABLE,
    STATEMENT_NOT_ALLOWED,
    SeamlineError,
)
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.commands import alterations, auditing
from seamline.gateway.names import TableName
from seamline.seam.binding import PROPERTY_PREFIX, TopicBinding
from seamline.seam.boundary import EXACT, Boundary, boundary_of
from seamline.seam.hands import handed_over, taken_over
from seamline.sql import columns

Report = Callable[[str], None]
_OF_ADOPTION = ("topic-id", "cluster-id")


def take_over(
    connections: Connections, name: TableName, deadline: Deadline, report: Report
) -> Boundary:
    """Lets Seamline's pipeline continue where the writer of an adopted table has stopped.

    The writer must have been stopped. A boundary that is not exact is audited first.

    Returns:
        The boundary at which the pipeline begins.

    Raises:
        SeamlineError: NOT_A_UNIFIED_TABLE when no other writer fills the table, ADOPTION_REFUSED
            when it does not hold each record once, COMMIT_CONFLICT when its writer still commits;
            SECOND_WRITER, LOG_TRUNCATED, TOPIC_RECREATED.
    """
    table = alterations.load(connections, name)
    binding = _bound(table, name)
    if table.state.provider is None:
        raise SeamlineError(
            NOT_A_UNIFIED_TABLE, f"table {name.display} is already filled by Seamline", hint=""
        )
    head = table.state.current_snapshot_id
    table.require_single_writer(head)
    log = connections.log(binding.cluster)
    bounds = log.bounds([binding.topic], binding.isolation, deadline)[binding.topic]
    if boundary_of(table.state, head).trust != EXACT:
        _require_clean(connections, name, deadline, report)
    _add_columns(connections, name, report)
    table = alterations.load(connections, name)
    if table.state.current_snapshot_id != head:
        raise SeamlineError(
            COMMIT_CONFLICT, f"table {name.display} has new commits: its writer is still running"
        )
    boundary = taken_over(table.state, bounds)
    own = table.iceberg.properties
    gone = [key for key in own if key.startswith(OPTION_PREFIX)]
    gone += [PROPERTY_PREFIX + key for key in _OF_ADOPTION if PROPERTY_PREFIX + key in own]
    metrics = {f"write.metadata.metrics.column.{c}": "full" for c in columns.POSITION_NAMES}
    commits.commit_boundary(table, boundary, properties=metrics, without=gone)
    return boundary


def hand_over(
    connections: Connections,
    name: TableName,
    deadline: Deadline,
    *,
    provider: str = "columns",
    options: Mapping[str, str],
) -> Boundary:
    """Lets another writer continue where Seamline's pipeline has stopped.

    Args:
        connections: Clusters and catalogs.
        name: The table.
        deadline: Bounds requests to the log.
        provider: The boundary provider that determines the table's boundary from then on.
        options: Options of the provider.

    Returns:
        The boundary at which the other writer must begin, usable as consumer group offsets.

    Raises:
        SeamlineError: NOT_A_UNIFIED_TABLE, INVALID_ARGUMENT, COMMIT_CONFLICT.
    """
    if provider not in PROVIDERS:
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"the boundary provider {provider!r} is not known",
            hint=f"It must be one of: {', '.join(PROVIDERS)}.",
        )
    done: list[Boundary] = []

    def work() -> None:
        table = alterations.load(connections, name)
        binding = _bound(table, name)
        if table.state.provider is not None:
            raise SeamlineError(
                NOT_A_UNIFIED_TABLE, f"table {name.display} is filled by another writer", hint=""
            )
        if binding.is_upsert:
            raise SeamlineError(
                ADOPTION_REFUSED,
                f"table {name.display} holds the newest record of each key, and no other "
                "writer here can continue that",
            )
        done.append(_let_go(connections, table, binding, deadline, provider, given))

    given = {f"{OPTION_PREFIX}{key}": value for key, value in options.items()}
    commits.insist(work)
    return done[-1]


def _let_go(
    connections: Connections,
    table: IcebergTable,
    binding: TopicBinding,
    deadline: Deadline,
    provider: str,
    options: Mapping[str, str],
) -> Boundary:
    """Commits the pipeline's last boundary, and the properties that name the new provider."""
    head = table.state.current_snapshot_id
    table.require_single_writer(head)
    log = connections.log(binding.cluster)
    bounds = log.bounds([binding.topic], binding.isolation, deadline)[binding.topic]
    last = handed_over(table.state, bounds, provider)
    begin = {
        PROPERTY: provider,
        f"{OPTION_PREFIX}start": json.dumps(last.next.to_json()),
        f"{PROPERTY_PREFIX}topic-id": bounds.topic_id,
        f"{PROPERTY_PREFIX}cluster-id": bounds.cluster_id,
    }
    commits.commit_boundary(table, last, properties={**begin, **options})
    return last


def _bound(table: IcebergTable, name: TableName) -> TopicBinding:
    binding = TopicBinding.required(table.state.properties, name.display)
    if TopicBinding.from_properties(table.iceberg.properties) is None:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"the configuration binds {name.display} to its topic, because the table is read-only",
            hint="Remove it from `tables:` there, and adopt the table itself.",
        )
    return binding


def _require_clean(
    connections: Connections, name: TableName, deadline: Deadline, report: Report
) -> None:
    """Audits a table whose boundary was derived from its rows, and requires a clean result."""
    audit = auditing.audit(connections, name, deadline, report)
    if not audit.is_clean:
        kinds = sorted({finding.kind.value for finding in audit.found})
        raise SeamlineError(
            ADOPTION_REFUSED,
            f"table {name.display} does not hold each record once: {', '.join(kinds)}",
            hint="`seamline table audit` shows where.",
        )


def _add_columns(connections: Connections, name: TableName, report: Report) -> None:
    """Adds the missing origin columns, which the pipeline writes; existing rows have null there."""

    def work() -> None:
        table = alterations.load(connections, name)
        existing = {field.name for field in table.state.schema.columns}
        missing = [field for field in columns.METADATA_FIELDS if field.name not in existing]
        if not missing:
            return
        report(f"adding columns {', '.join(field.name for field in missing)}")
        kinds = {field.name: field.field_type for field in to_schema(tuple(missing)).fields}

        def add(update: UpdateSchema) -> None:
            for field in missing:
                update.add_column((field.name,), kinds[field.name])

        commits.change_schema(table, add)

    commits.insist(work)
