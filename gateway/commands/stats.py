"""SHOW STATS FOR a table or a query: the statistics in Iceberg's metadata, and lengths of tails.

No data files and no log records are read: the column statistics are those that the writers of the
snapshot's files recorded. They are for planning, not for results.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.iceberg.tables.statistics import ColumnBounds, column_bounds
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import NOT_SUPPORTED, SeamlineError
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.commands.context import Context
from seamline.gateway.commands.rows import Rows, table
from seamline.gateway.names import TableName
from seamline.gateway.query.loaded import LoadedTables
from seamline.planners.origins import origins
from seamline.planners.plan.logical import Scan
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import boundary_of
from seamline.seam.tiering import lag
from seamline.sql import columns, types
from seamline.sql.parsing.statements import ShowStats
from seamline.sql.types import Field

_SHAPE = {
    "column_name": types.VARCHAR,
    "data_size": types.DOUBLE,
    "distinct_values_count": types.DOUBLE,
    "nulls_fraction": types.DOUBLE,
    "row_count": types.DOUBLE,
    "low_value": types.VARCHAR,
    "high_value": types.VARCHAR,
}


def show(connections: Connections, name: TableName, deadline: Deadline) -> Rows:
    """Returns the statistics of a table in a catalog; topics and `system`'s tables have none.

    Args:
        connections: Catalogs and clusters.
        name: The table; that a topic or a table of `system` exists has been checked.
        deadline: The statement's deadline.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, NOT_SUPPORTED for what has no files of its own,
            CATALOG_UNAVAILABLE, KAFKA_UNAVAILABLE, …
    """
    if name.is_system or name.cluster:
        raise _without_files(name, "Name a query in parentheses.")
    connections.rights.require_whole(name)
    resolved = LoadedTables(connections).now([name])[name].state
    if name.variant not in {"", "cold"}:
        whole = dataclasses.replace(name, variant="")
        raise _without_files(name, f"Name {whole.display}, or a query in parentheses.")
    table_ = connections.catalog(name.catalog).load(resolved.name[1:])
    cold_rows, bounds = column_bounds(table_, table_.state.current_snapshot_id)
    binding = TopicBinding.from_properties(table_.state.properties)
    hot_rows = 0
    if binding is not None and not name.variant:
        log = connections.log(binding.cluster)
        ends = log.bounds([binding.topic], binding.isolation, deadline)[binding.topic]
        hot_rows = lag(boundary_of(table_.state, table_.state.current_snapshot_id), ends)
    rows = [
        _row(field, bounds.get(field.field_id), cold_rows)
        for field in table_.state.schema.columns
        if field.name not in columns.METADATA_NAMES
    ]
    return table(_SHAPE, [*rows, _summary(cold_rows + hot_rows)])


def _without_files(name: TableName, hint: str) -> SeamlineError:
    text = f"{name.display} has no statistics of its own: they are those of a table's files"
    return SeamlineError(NOT_SUPPORTED, text, hint=hint)


def of_query(context: Context[ShowStats]) -> Rows:
    """Returns the statistics of a query's result, as far as those of its tables determine them.

    A column that the query passes on unchanged has the bounds of the table's column. If the query
    has all rows of one table, and no others, the remaining statistics are the table's, too.

    Raises:
        SeamlineError: PERMISSION_DENIED, COLD_FILE_MISSING, STORAGE_UNAVAILABLE, …
    """
    planned, connections = context.plan(context.query(context.parsed.query)), context.connections
    context.note(planned)
    logical = planned.plan.logical
    for scan in logical.scans:
        source, *path = scan.seam.table
        name = resolution.named(source, tuple(path), "", connections.config)
        if scan.facts.kind != "system" and not name.cluster:
            connections.rights.require_whole(name)
    by_scan = {
        scan.scan_id: _known(planned.tables.get(scan.scan_id), scan) for scan in logical.scans
    }
    sources = origins(logical.query.tree)
    rows = []
    for column, origin in zip(logical.query.output, sources.columns, strict=True):
        scanned = _NOTHING if origin is None else by_scan[origin.scan_id]
        bounds = None if origin is None else scanned.bounds.get(origin.column)
        if bounds is not None and not sources.has_all_rows:
            bounds = dataclasses.replace(bounds, nulls=None, size_bytes=None)
        rows.append(_row(Field(column.name, column.type), bounds, scanned.cold_rows))
    whole = next(iter(by_scan.values())) if sources.has_all_rows else _NOTHING
    return table(_SHAPE, [*rows, _summary(whole.rows)])


class _Known(NamedTuple):
    """What is known about what a scan reads."""

    rows: int | None
    cold_rows: int
    bounds: Mapping[str, ColumnBounds]


_NOTHING = _Known(None, 0, {})


def _known(scanned: ColdTable | None, scan: Scan) -> _Known:
    if scan.facts.kind == "system":
        return _NOTHING
    hot_rows = sum(len(offsets) for offsets in scan.hot_ranges)
    if not scan.facts.reads_cold:
        return _Known(hot_rows, 0, {})
    if not isinstance(scanned, IcebergTable):
        return _NOTHING
    cold_rows, bounds = column_bounds(scanned, scan.seam.cold.snapshot_id)
    of_columns = {
        field.name: bounds[field.field_id] for field in scan.columns if field.field_id in bounds
    }
    return _Known(cold_rows + hot_rows, cold_rows, of_columns)


def _summary(rows: int | None) -> tuple[Any, ...]:
    """Returns the last row, which is about the whole."""
    return (None, None, None, None, None if rows is None else float(rows), None, None)


def _row(field: Field, bounds: ColumnBounds | None, rows: int) -> tuple[Any, ...]:
    if bounds is None:
        return (field.name, *[None] * 6)
    fraction = bounds.nulls / rows if bounds.nulls is not None and rows else None
    size = bounds.size_bytes if field.type == types.VARCHAR else None
    return (field.name, size, None, fraction, None, _text(bounds.low), _text(bounds.high))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
