"""SHOW STATS FOR a table: the statistics in Iceberg's metadata, and the length of its tail.

No data files and no log records are read: the column statistics are those that the writers of the
snapshot's files recorded. They are for planning, not for results.
"""

from __future__ import annotations

from typing import Any

from seamline.connectors.iceberg.statistics import ColumnBounds, column_bounds
from seamline.connectors.protocols import Deadline
from seamline.errors import TABLE_NOT_FOUND, SeamlineError
from seamline.gateway.commands.rows import Rows, table
from seamline.gateway.connections import Connections
from seamline.gateway.query.loaded import LoadedTables
from seamline.gateway.query.names import TableName
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import boundary_of
from seamline.seam.tiering import lag
from seamline.sql import columns, types
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
    """Returns the statistics of a table in a catalog.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, CATALOG_UNAVAILABLE, KAFKA_UNAVAILABLE, …
    """
    if name.is_system or name.cluster or name.variant not in {"", "cold"}:
        raise SeamlineError(TABLE_NOT_FOUND, f"{name.display} is not a table of a catalog")
    connections.rights.require_whole(name)
    resolved = LoadedTables(connections).now([name])[name].state
    found = connections.catalog(name.catalog).load(resolved.name[1:])
    cold_rows, bounds = column_bounds(found)
    binding = TopicBinding.from_properties(found.state.properties)
    hot_rows = 0
    if binding is not None and not name.variant:
        log = connections.log(binding.cluster)
        ends = log.bounds([binding.topic], binding.isolation, deadline)[binding.topic]
        hot_rows = lag(boundary_of(found.state, found.state.current_snapshot_id), ends)
    rows = [
        _row(field, bounds.get(field.field_id), cold_rows)
        for field in found.state.schema.columns
        if field.name not in columns.METADATA_NAMES
    ]
    whole = (None, None, None, None, float(cold_rows + hot_rows), None, None)
    return table(_SHAPE, [*rows, whole])


def _row(field: Field, known: ColumnBounds | None, rows: int) -> tuple[Any, ...]:
    if known is None:
        return (field.name, *[None] * 6)
    fraction = known.nulls / rows if known.nulls is not None and rows else None
    size = known.size_bytes if field.type == types.VARCHAR else None
    return (field.name, size, None, fraction, None, _text(known.low), _text(known.high))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
