"""Tables that the gateway computes: `information_schema`, `system`, and metadata tables of a table.

They are relations like any other: bound, filtered and joined by the engine.

    catalog.information_schema.{schemata, tables, columns, views}, and empty tables of roles, grants
    system.…      see `system_catalog`
    t$seam        the seam with which the same statement reads t, one row per partition
    t$tail        how much of t's log the gateway holds, one row per partition
    t$…           see `metadata_tables`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import TABLE_NOT_FOUND, SeamlineError
from seamline.gateway.access.rights import Sight, as_seen
from seamline.gateway.catalogs.connections import Sources
from seamline.gateway.names import INFORMATION_SCHEMA, METADATA_TABLES, TableName
from seamline.gateway.system import listings, metadata_tables, shapes, system_catalog
from seamline.gateway.system.listings import EVERYTHING, Only
from seamline.gateway.system.request import SystemTableRequest
from seamline.gateway.tail.follower import Follower
from seamline.gateway.tail.status import status
from seamline.seam.seam import Seam
from seamline.sql import columns, types
from seamline.sql.binder.qualify import Relation
from seamline.sql.near import did_you_mean
from seamline.sql.types import Field, Type

TABLE_VARIANTS = frozenset({"seam", "tail", *METADATA_TABLES})


_SCHEMATA: Mapping[str, Type] = {"catalog_name": types.VARCHAR, "schema_name": types.VARCHAR}
_TABLES: Mapping[str, Type] = {
    "table_catalog": types.VARCHAR,
    "table_schema": types.VARCHAR,
    "table_name": types.VARCHAR,
    "table_type": types.VARCHAR,
    "topic": types.VARCHAR,
    "error": types.VARCHAR,
}
_COLUMNS: Mapping[str, Type] = {
    "table_catalog": types.VARCHAR,
    "table_schema": types.VARCHAR,
    "table_name": types.VARCHAR,
    "column_name": types.VARCHAR,
    "ordinal_position": types.BIGINT,
    "column_default": types.VARCHAR,
    "is_nullable": types.VARCHAR,
    "data_type": types.VARCHAR,
    "comment": types.VARCHAR,
}
_VIEWS: Mapping[str, Type] = {
    "table_catalog": types.VARCHAR,
    "table_schema": types.VARCHAR,
    "table_name": types.VARCHAR,
    "view_definition": types.VARCHAR,
}
_ROLES: Mapping[str, Mapping[str, Type]] = {
    "applicable_roles": dict.fromkeys(
        ("grantee", "grantee_type", "role_name", "is_grantable"), types.VARCHAR
    ),
    "enabled_roles": {"role_name": types.VARCHAR},
    "roles": {"role_name": types.VARCHAR},
    "table_privileges": dict.fromkeys(
        (
            *("grantor", "grantor_type", "grantee", "grantee_type"),
            *("table_catalog", "table_schema", "table_name"),
            *("privilege_type", "is_grantable", "with_hierarchy"),
        ),
        types.VARCHAR,
    ),
}
"""Tables that are always empty: rights come from a rules file, not from roles and grants."""
INFORMATION_TABLES = {
    "columns": _COLUMNS,
    "schemata": _SCHEMATA,
    "tables": _TABLES,
    "views": _VIEWS,
    **_ROLES,
}


def tables_of(schema: str) -> Mapping[str, Mapping[str, Type]]:
    """Returns the tables of `information_schema`, or of a schema of `system`, and their columns."""
    if schema == INFORMATION_SCHEMA:
        return INFORMATION_TABLES
    return shapes.SHAPES[schema]


def system_columns(name: TableName) -> Mapping[str, Type]:
    """Returns the columns of a table of `information_schema` or `system`.

    Raises:
        SeamlineError: TABLE_NOT_FOUND.
    """
    tables = tables_of(name.schema)
    shape = tables.get(name.table)
    if shape is None:
        raise SeamlineError(
            TABLE_NOT_FOUND,
            f"table {name.display} does not exist",
            hint=did_you_mean(name.table, tables),
        )
    return shape


def system_table(name: TableName, request: SystemTableRequest) -> tuple[Relation, pa.Table]:
    """Returns a table of `information_schema` or `system`.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, CATALOG_UNAVAILABLE, KAFKA_UNAVAILABLE.
    """
    shape = system_columns(name)
    if name.schema == INFORMATION_SCHEMA:
        only = request.only("", "table_schema", "table_name")
        return information_schema(name, request.sources, request.deadline, only)
    return _table(shape, system_catalog.rows(name.schema, name.table, request))


def information_schema(
    name: TableName, sources: Sources, deadline: Deadline, only: Only = EVERYTHING
) -> tuple[Relation, pa.Table]:
    """Returns a table of the `information_schema` of a catalog or a cluster.

    Args:
        name: The name.
        sources: Catalogs and clusters.
        deadline: The statement's.
        only: The tables whose rows are wanted; those of others may be left out.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, CATALOG_UNAVAILABLE, KAFKA_UNAVAILABLE.
    """
    shape = system_columns(name)
    source = name.full[0]
    if name.table in _ROLES:
        return _table(shape, [])
    if name.path[-1] == "schemata":
        return _table(shape, [(source, schema) for schema in listings.schemas(sources, source)])
    rows: list[tuple[Any, ...]] = []
    listing = listings.all_views if name.path[-1] == "views" else listings.all_tables
    for listed in listing(sources, source, deadline, only):
        table = listed.name.table if listed.name is not None else None
        prefix = (source, listed.schema, table)
        if name.path[-1] == "views":
            texts = listed.view.texts if listed.view is not None else {}
            rows.append((*prefix, texts.get("trino") or next(iter(texts.values()), None)))
        elif name.path[-1] == "columns":
            rows += _column_rows(prefix, listed.columns)
        else:
            topic = listed.binding.topic if listed.binding is not None else None
            error = f"{listed.error.code.name}: {listed.error.message}" if listed.error else None
            kind = "VIEW" if listed.is_view else "BASE TABLE"
            rows.append((*prefix, kind if table is not None else None, topic, error))
    return _table(shape, rows)


def _column_rows(
    prefix: tuple[str | None, ...], fields: Sequence[Field]
) -> Iterator[tuple[Any, ...]]:
    """Yields (…, name, position, default, nullable, type, comment) of columns of `SELECT *`."""
    shown = (field for field in fields if field.name not in columns.METADATA_NAMES)
    for position, field in enumerate(shown, start=1):
        yield *prefix, field.name, position, None, nullable(field), str(field.type), field.comment


def nullable(field: Field) -> str:
    """Returns whether a column may be null, as in `information_schema`: YES or NO."""
    return "NO" if field.required else "YES"


def about_table(
    name: TableName,
    table: ColdTable,
    seam: Seam,
    follower: Follower | None,
    sight: Sight,
) -> tuple[Relation, pa.Table]:
    """Returns the metadata table of a table that the name's variant selects, such as `$seam`.

    Args:
        name: The name.
        table: The table.
        seam: The seam with which the statement reads the table.
        follower: The follower of its topic, if there is one.
        sight: How much of the table the caller may see.

    Raises:
        SeamlineError: as `metadata_tables.contents`.
    """
    match name.variant:
        case "seam":
            return _seam_table(seam)
        case "tail":
            return _tail_table(seam, follower, sight)
    return _table(*metadata_tables.contents(name.variant, table, seam.cold.snapshot_id))


def _seam_table(seam: Seam) -> tuple[Relation, pa.Table]:
    shape: dict[str, Type] = {
        "partition": types.INTEGER,
        "boundary": types.BIGINT,
        "end": types.BIGINT,
        "tail": types.BIGINT,
        "topic": types.VARCHAR,
        "topic_id": types.VARCHAR,
        "snapshot_id": types.BIGINT,
        "lost": types.BIGINT,
    }
    lost = {p: sum(g.offsets for g in seam.log.gaps if g.partition == p) for p in seam.end}
    about = (seam.log.topic, seam.log.topic_id, seam.cold.snapshot_id)
    return _table(
        shape,
        [(p, b := seam.boundary[p], end, end - b, *about, lost[p]) for p, end in seam.end.items()],
    )


def _tail_table(seam: Seam, follower: Follower | None, sight: Sight) -> tuple[Relation, pa.Table]:
    shape: dict[str, Type] = {
        "partition": types.INTEGER,
        "state": types.VARCHAR,
        "held_from": types.BIGINT,
        "position": types.BIGINT,
        "end": types.BIGINT,
        "lag": types.BIGINT,
        "segments": types.BIGINT,
        "segments_on_disk": types.BIGINT,
        "rows": types.BIGINT,
        "memory_bytes": types.BIGINT,
        "disk_bytes": types.BIGINT,
        "error": types.VARCHAR,
    }
    if follower is None:
        empty = [
            (p, "not followed", None, None, end, end - seam.boundary[p], 0, 0, 0, 0, 0, None)
            for p, end in seam.end.items()
        ]
        return _table(shape, empty)
    state, error = follower.state.value, follower.error
    text = str(as_seen(error, sight)) if error is not None else None
    rows = []
    for p in status(follower):
        end = max(p.end, seam.end.get(p.partition, 0))
        kept: tuple[int | None, ...] = (None, None, p.rows, None, None)
        if sight.all:  # else nothing that depends on the lengths of values
            kept = (p.segments, p.segments_on_disk, p.rows, p.memory_bytes, p.disk_bytes)
        offsets = (p.cached_from, p.position, end, end - p.position)
        rows.append((p.partition, state, *offsets, *kept, text))
    return _table(shape, rows)


def _table(shape: Mapping[str, Type], rows: Sequence[tuple[Any, ...]]) -> tuple[Relation, pa.Table]:
    fields = tuple(Field(name, type_) for name, type_ in shape.items())
    schema = pa.schema([(field.name, types.to_arrow(field.type)) for field in fields])
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(fields)
    arrays = [pa.array(cell, field.type) for cell, field in zip(cells, schema, strict=True)]
    return Relation(fields), pa.Table.from_arrays(arrays, schema=schema)
