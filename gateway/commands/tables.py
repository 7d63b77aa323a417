"""Creates, finds, describes and drops unified tables.

A unified table is an Iceberg table whose properties name a topic; there is no other record of it.
One commit creates the table and its first snapshot, which holds nothing but the boundary, so there
is never a table without a boundary.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import reprlib
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from seamline.connectors.iceberg import layout
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.iceberg.type_conversion import storable, stored_as_text, to_schema
from seamline.connectors.kafka.formats.all_formats import FORMATS
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.infer import Inferred
from seamline.connectors.kafka.formats.schemas import schemas_of
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.errors import (
    CATALOG_ACCESS_DENIED,
    CATALOG_UNAVAILABLE,
    INVALID_TABLE_DEFINITION,
    NOT_A_UNIFIED_TABLE,
    SCHEMA_NOT_FOUND,
    STATEMENT_NOT_ALLOWED,
    TABLE_EXISTS,
    TABLE_NOT_FOUND,
    TOPIC_NOT_FOUND,
    SeamlineError,
)
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.catalogs.resolution import suggesting_topics
from seamline.gateway.commands import evolution, inferring, upserts
from seamline.gateway.names import TableName
from seamline.gateway.query import views
from seamline.gateway.query.loaded import LoadedTables
from seamline.planners.rules.prune_tail_by_key import PARTITIONERS
from seamline.seam import options
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import Boundary, boundary_of
from seamline.seam.encoding import ColumnSource, Encoding, parse_sources, spelt_as
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.options import MANUAL, OPTIONS, CreateOptions, TableOptions
from seamline.seam.records import DecoderSpec
from seamline.seam.table import TableState
from seamline.sql import columns, types
from seamline.sql.parsing import parse
from seamline.sql.parsing.statements import ColumnDefinition
from seamline.sql.types import Field

TOPIC_S_MAX = 3.0
"""Seconds to retry an unknown topic: brokers learn of a new one with a delay."""
_TOPIC_AGAIN_S = 0.05
_WORDS: Mapping[str, Collection[str]] = {
    options.FORMATS: FORMATS,
    options.PARTITIONERS: PARTITIONERS,
}
MADE_HERE = "seamline.made-by-statement"
"""The property of plain tables that were created here with CREATE TABLE, and that DROP TABLE may
drop."""
_TABLE_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "write.parquet.compression-codec": "zstd",
    # a megabyte of numbers, so that pages end by their bytes: each page costs DuckDB time
    "write.parquet.page-row-limit": "131072",
    # kept even in a table so wide that writers omit the statistics of its last columns
    **{f"write.metadata.metrics.column.{name}": "full" for name in columns.POSITION_NAMES},
}


@dataclasses.dataclass(frozen=True, slots=True)
class TableDefinition(CreateOptions):
    """The definition of a unified table to be created.

    Attributes:
        name: Its name and catalog.
        columns: The columns of the records; None means that they are inferred.
        properties: Further table properties.
    """

    name: TableName = dataclasses.field(kw_only=True)
    columns: tuple[Field, ...] | None = None
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)


def parse_fields(text: str) -> tuple[Field, ...]:
    """Parses columns as written in CREATE TABLE: `auction bigint, extra row(a bigint), …`.

    Raises:
        SeamlineError: SYNTAX_ERROR, NOT_SUPPORTED.
    """
    return fields_of(parse.parse_columns(text))


def fields_of(definitions: Sequence[ColumnDefinition]) -> tuple[Field, ...]:
    """Returns parsed column definitions as fields."""
    return tuple(
        Field(name, types.from_sqlglot(type_), required=required, comment=comment)
        for name, type_, required, comment in definitions
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Created:
    """A table that has been created.

    Attributes:
        table: The table.
        inferred: What was inferred; None when the columns were given.
        notes: Where the newest records do not fit its columns, and what would fit.
    """

    table: IcebergTable
    inferred: Inferred | None
    notes: tuple[str, ...]


def create(connections: Connections, definition: TableDefinition, deadline: Deadline) -> Created:
    """Creates a unified table.

    Raises:
        SeamlineError: TABLE_EXISTS, TOPIC_NOT_FOUND, INVALID_TABLE_DEFINITION, INFERENCE_FAILED, …
    """
    _check_options(connections, definition, deadline)
    sources = parse_sources(definition.columns_from)
    encoding = Encoding(definition.format, definition.key_format, sources)
    require_free(connections, definition.name)
    log = connections.log(definition.cluster)
    bounds = _bounds(connections, definition, deadline)
    schemas = schemas_of(log, deadline)
    seen = inferring.sample(log, definition.topic, bounds, deadline)
    inferred = None
    fields = definition.columns
    if fields is None:
        inferred = inferring.inferred(definition, encoding, seen, schemas)
        definition, inferred = inferring.marked(definition, inferred)
        fields = inferred.columns
    definition = evolution.settled(definition, inferred)
    _check_columns(definition, fields)
    definition, fields = upserts.defined(definition, fields)
    all_columns = (*fields, *columns.METADATA_FIELDS)
    binding = _binding(definition, spelt_as(encoding.sources, all_columns), bounds)
    stored = tuple(dataclasses.replace(f, type=storable(f.type)) for f in all_columns)
    spec = DecoderSpec.of(binding, stored)
    Decoder(spec, schemas)
    notes = tuple(inferring.notes(definition, spec, seen, inferred, schemas))
    schema = to_schema(stored_as_text(all_columns), definition.primary_key)
    start = _start_offsets(connections, definition, bounds, deadline)
    table = connections.catalog(definition.name.catalog).create(
        definition.name.path,
        schema,
        spec=layout.partition_spec(schema, definition.partitioning),
        order=layout.sort_order(schema, definition.sorted_by),
        properties={
            **_TABLE_PROPERTIES,
            **(upserts.TABLE_PROPERTIES if binding.is_upsert else {}),
            "format-version": str(definition.format_version),
            **definition.properties,
            **binding.to_properties(),
        },
        boundary=Boundary(
            snapshot_id=0,
            cluster_id=bounds.cluster_id,
            topic=bounds.topic,
            topic_id=bounds.topic_id,
            isolation=definition.isolation,
            start=start,
            next=start,
        ),
        columns=all_columns,
    )
    return Created(table, inferred, notes)


def _binding(
    definition: TableDefinition, sources: Sequence[ColumnSource], bounds: LogBounds
) -> TopicBinding:
    depends_on_partitions = definition.key_partitioner or definition.primary_key
    changed = {
        "columns_from": tuple(map(str, sources)),
        "deleted_by": definition.deleted_by or None,
        "key_partitions": len(bounds.end) if depends_on_partitions else None,
    }
    return TopicBinding(**{**definition.stored(), **changed})


def _bounds(connections: Connections, definition: TableDefinition, deadline: Deadline) -> LogBounds:
    """Returns the bounds of a topic, retrying if it may only just have been created."""
    with suggesting_topics(definition.cluster, definition.topic, connections):
        return _bounds_soon(connections.log(definition.cluster), definition, deadline)


def _bounds_soon(log: HotLog, definition: TableDefinition, deadline: Deadline) -> LogBounds:
    until = time.monotonic() + TOPIC_S_MAX
    while True:
        try:
            bounds = log.bounds([definition.topic], definition.isolation, deadline)
        except SeamlineError as error:
            if error.code is not TOPIC_NOT_FOUND or time.monotonic() > until:
                raise
        else:
            return bounds[definition.topic]
        deadline.pause(_TOPIC_AGAIN_S)


def require_free(connections: Connections, name: TableName) -> None:
    """Requires that a name is free.

    It is taken if statements resolve it to a view, or to a table, even one that cannot be read.

    Raises:
        SeamlineError: TABLE_EXISTS; CATALOG_UNAVAILABLE, CATALOG_ACCESS_DENIED.
    """
    try:
        LoadedTables(connections).now([name])
    except SeamlineError as error:
        if error.code in (TABLE_NOT_FOUND, SCHEMA_NOT_FOUND):
            if views.find(connections, name) is None:
                return
            raise SeamlineError(TABLE_EXISTS, f"{name.display} is a view") from error
        if error.code in (CATALOG_UNAVAILABLE, CATALOG_ACCESS_DENIED):
            raise
    raise SeamlineError(TABLE_EXISTS, f"table {name.display} already exists")


def require_new_name(connections: Connections, what: str, catalog: str, to: TableName) -> None:
    """Requires that a table or a view may be renamed.

    Args:
        connections: Clusters and catalogs.
        what: What is to be renamed, for messages.
        catalog: The catalog that it is in.
        to: The name.

    Raises:
        SeamlineError: STATEMENT_NOT_ALLOWED for another catalog; PERMISSION_DENIED, TABLE_EXISTS, …
    """
    if not to.is_own_table or to.catalog != catalog:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"{what} cannot be renamed to {to.display}",
            hint="It must stay in its catalog.",
        )
    connections.rights.require_new(to)
    require_free(connections, to)


def is_unified(connections: Connections, name: TableName) -> bool:
    """Returns whether a name leads statements to a unified table."""
    try:
        require_unified(connections, name)
    except SeamlineError:
        return False
    return True


def _check_options(
    connections: Connections, definition: TableDefinition, deadline: Deadline
) -> None:
    if not definition.topic:
        raise SeamlineError(INVALID_TABLE_DEFINITION, "the topic's name is empty")
    for option in OPTIONS:
        words = option.words or _WORDS.get(option.words_of, ())
        value = getattr(definition, option.name)
        if words and value is not None and value not in words:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"{option.name} {value!r} is not known",
                hint=f"It must be one of: {', '.join(map(str, words))}.",
            )
    check_dead_letters(connections, definition, deadline)


def _check_columns(definition: TableDefinition, fields: Sequence[Field]) -> None:
    check_columns(fields)
    check_policy(definition.on_error, fields)
    if definition.key is not None and definition.key.lower() not in {
        f.name.lower() for f in fields
    }:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION, f"the key {definition.key} is not a column of the table"
        )


def check_dead_letters(
    connections: Connections, definition: TableOptions, deadline: Deadline
) -> None:
    """Requires that bad records can be written to the topic that is named for them, if any.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION, PERMISSION_DENIED, TOPIC_NOT_FOUND, ….
    """
    topic = definition.dead_letter_topic
    if not topic:
        return
    connections.rights.require_topic(definition.cluster, topic)
    if topic == definition.topic:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION, "dead_letter_topic is the topic of the table itself"
        )
    if definition.on_error == "fail":
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            "dead_letter_topic has no use with on_error = 'fail': no batch with a bad record is "
            "committed",
            hint="Set on_error to 'skip', or to 'null'.",
        )
    connections.log(definition.cluster).bounds([topic], READ_COMMITTED, deadline)


def check_policy(on_error: str, fields: Sequence[Field]) -> None:
    """Requires that bad records can be rows of nulls, if the policy makes them so.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    required = [f.name for f in fields if f.required and f.name not in columns.METADATA_NAMES]
    if on_error == "null" and required:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"on_error = 'null' makes rows of nulls, and {', '.join(required)} cannot be null",
            hint="It must be 'fail' or 'skip' for such a table.",
        )


def check_columns(fields: Sequence[Field]) -> None:
    """Requires at least one column, and names that are unique and not reserved.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    if not fields:
        raise SeamlineError(INVALID_TABLE_DEFINITION, "a table needs at least one column")
    seen: set[str] = set()
    for field in fields:
        folded = field.name.lower()
        if folded in seen:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION, f"column {field.name} appears twice (case is ignored)"
            )
        seen.add(folded)
        if folded.startswith(columns.RESERVED_PREFIX) or folded in columns.RESERVED_BY_ICEBERG:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"column {field.name} has a reserved name",
                hint="Names that start with _kafka_, and Iceberg's own, cannot be used.",
            )


def _start_offsets(
    connections: Connections, definition: TableDefinition, bounds: LogBounds, deadline: Deadline
) -> Offsets:
    start = definition.start.strip()
    if start == "earliest":
        return bounds.start
    if start == "latest":
        return bounds.end
    if re.fullmatch(r"\d{1,19}", start, re.ASCII):
        return _checked(Offsets(dict.fromkeys(bounds.end, int(start))), bounds)
    if re.fullmatch(r"\d{1,10}:\d{1,19}(,\s*\d{1,10}:\d{1,19})*", start, re.ASCII):
        pairs = (pair.split(":") for pair in start.split(","))
        given = {int(partition): int(offset) for partition, offset in pairs}
        return _checked(bounds.start.replace(given), bounds)
    try:
        moment = datetime.datetime.fromisoformat(start)
    except ValueError as error:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"start {reprlib.repr(start)} is not understood",
            hint="Use earliest, latest, an offset, partition:offset,… or a timestamp.",
        ) from error
    instant = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    log = connections.log(definition.cluster)
    moment_ms = int(instant.timestamp() * 1000)
    return log.offsets_at(bounds.topic, bounds.topic_id, bounds.end, moment_ms, deadline)


def _checked(start: Offsets, bounds: LogBounds) -> Offsets:
    for partition, offset in start.items():
        low, high = bounds.start.get(partition, 0), bounds.end.get(partition)
        if high is None or not low <= offset <= high:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"partition {partition} has no offset {offset}",
                hint=f"It holds [{low}, {high})." if high is not None else "It does not exist.",
            )
    return start


def drop(connections: Connections, name: TableName, *, purge: bool = False) -> None:
    """Drops a table that was created here from its catalog; its topic is left alone.

    Raises:
        SeamlineError: NOT_A_UNIFIED_TABLE, TABLE_NOT_FOUND, CATALOG_UNAVAILABLE, …
    """
    state = droppable(connections, name)
    connections.catalog(name.catalog).drop(state.name[1:], purge=purge)


def droppable(connections: Connections, name: TableName) -> TableState:
    """Returns a table that may be dropped: a plain one that was created here, or a unified one.

    Raises:
        SeamlineError: NOT_A_UNIFIED_TABLE, TABLE_NOT_FOUND, CATALOG_UNAVAILABLE, …
    """
    (table,) = LoadedTables(connections).now([name]).values()
    is_made_here = MADE_HERE in table.state.properties
    return table.state if is_made_here else require_unified(connections, name)


def require_unified(connections: Connections, name: TableName) -> TableState:
    """Refuses plain and adopted tables, which belong to whoever created them.

    Returns:
        The table, looked up by name as statements look it up.

    Raises:
        SeamlineError: NOT_A_UNIFIED_TABLE, TABLE_NOT_FOUND, CATALOG_UNAVAILABLE, …
    """
    (table,) = LoadedTables(connections).now([name]).values()
    if TopicBinding.from_properties(table.state.properties) is None:
        raise SeamlineError(
            NOT_A_UNIFIED_TABLE,
            f"table {name.display} has no topic, so it cannot be dropped here",
            hint="Drop a plain Iceberg table with the tool that created it, in its catalog.",
        )
    _require_not_adopted(table.state)
    return table.state


def _require_not_adopted(state: TableState) -> None:
    if state.provider is not None:
        raise SeamlineError(
            NOT_A_UNIFIED_TABLE,
            f"table {state.display_name} is filled by another writer, so it cannot be dropped here",
            hint="Run `seamline table unadopt`, then drop it with the tool that created it.",
        )


def describe(state: TableState, bounds: LogBounds | None) -> dict[str, Any]:
    """Returns a JSON-ready description of a table, and how far it has been tiered."""
    binding = TopicBinding.from_properties(state.properties)
    body: dict[str, Any] = {
        "table": state.display_name,
        "uuid": state.uuid,
        "location": state.location,
        "format_version": state.format_version,
        "columns": [
            {
                "name": field.name,
                "type": str(field.type),
                "required": field.required,
                "hidden": state.provider is None and field.name in columns.METADATA_NAMES,
            }
            for field in state.schema.columns
        ],
        "snapshots": len(state.snapshots),
    }
    if binding is not None:
        body["topic"] = binding.settings()
        body["evolution"] = binding.evolution or MANUAL
        boundary = boundary_of(state, state.current_snapshot_id)
        body["boundary"] = boundary.next.to_json()
        body["boundary_provider"] = boundary.provider or "seamline"
        body["boundary_trust"] = boundary.trust
        body["gaps"] = [gap.to_json() for gap in boundary.gaps]
        body["earlier_logs"] = [log.to_json() for log in boundary.earlier_logs]
        if bounds is not None:
            body["end"] = bounds.end.to_json()
            body["lag"] = sum(
                max(0, end - boundary.next.get(p, 0)) for p, end in bounds.end.items()
            )
    return body
