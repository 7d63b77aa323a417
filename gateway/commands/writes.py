"""CREATE TABLE for plain tables, and INSERT INTO: rows are written in one commit or transaction.

A plain Iceberg table gets one snapshot. A unified table repeats its topic, so its rows become
records of the topic, in the table's format, in one Kafka transaction. The write is returned, so
that the next read waits for it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from seamline.connectors.iceberg import layout
from seamline.connectors.iceberg.tables import row_changes, writing
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.iceberg.type_conversion import storable, to_schema
from seamline.connectors.kafka.formats.own_schema import pinned
from seamline.connectors.kafka.formats.schemas import schemas_of
from seamline.connectors.kafka.formats.writing import RecordWriter, is_written
from seamline.connectors.kafka.writing import write
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.raw_records import NewRecord
from seamline.errors import (
    COLUMN_NOT_FOUND,
    INVALID_ARGUMENT,
    INVALID_TABLE_DEFINITION,
    NUMERIC_OVERFLOW,
    STATEMENT_NOT_ALLOWED,
    TABLE_EXISTS,
    TYPE_MISMATCH,
    SeamlineError,
)
from seamline.gateway.access.rules import Privilege
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.catalogs.resolution import Session
from seamline.gateway.commands import alterations, likes, tables, upserts
from seamline.gateway.names import TableName
from seamline.gateway.query.tokens import Write
from seamline.planners.rules.prune_tail_by_key import key_bytes
from seamline.seam.binding import TopicBinding
from seamline.seam.now import invisible
from seamline.seam.offsets import Offsets
from seamline.seam.options import OPTIONS, texts
from seamline.sql import coercion, columns, types
from seamline.sql.binder.qualify import is_unnamed
from seamline.sql.binder.scope import Output
from seamline.sql.near import did_you_mean
from seamline.sql.parsing import parse
from seamline.sql.parsing.statements import CreateTable, Insert, Query
from seamline.sql.types import Array, Decimal, Field, Map, Row, Timestamp, Type

PYICEBERG_WRITES = 2
"""The highest format version that PyIceberg writes."""
_READABLE_S = 5.0
"""Seconds to wait for a committed transaction to become readable."""
_PAUSE_S = 0.005
_PROPERTIES = ("comment", "format", *(option.name for option in OPTIONS if option.is_plain))


@dataclasses.dataclass(frozen=True, slots=True)
class NewTable:
    """A plain table to be created.

    Attributes:
        name: Its name.
        properties: Its properties, as written.
        replaced: The table that it replaces; None if there is none.
    """

    name: TableName
    properties: dict[str, Any]
    replaced: IcebergTable | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A table that INSERT INTO is to write to.

    Attributes:
        name: Its name.
        table: The table.
        binding: Its binding to a topic; None for a plain table.
        fields: All columns that are written, without the hidden ones.
        given: The columns for which the query has values.
        hidden: The columns that the writer may not see; they get no values.
    """

    name: TableName
    table: IcebergTable
    binding: TopicBinding | None
    fields: tuple[Field, ...]
    given: tuple[Field, ...]
    hidden: tuple[Field, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """What was written: the number of rows, and for a topic the records they became."""

    rows: int
    write: Write | None = None


# --- CREATE TABLE --------------------------------------------------------------------------------


def new_table(
    connections: Connections, statement: CreateTable, session: Session
) -> NewTable | None:
    """Returns the plain table to be created; None if it exists and IF NOT EXISTS allows that.

    Raises:
        SeamlineError: TABLE_EXISTS, INVALID_TABLE_DEFINITION, CATALOG_UNAVAILABLE, …
    """
    name = resolution.resolve(statement.name, session, connections, is_new=True)
    if not name.is_own_table:
        raise SeamlineError(STATEMENT_NOT_ALLOWED, f"{name.display} cannot be created")
    connections.rights.require_new(name)
    for given, _ in statement.properties:
        if given not in _PROPERTIES:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"{given!r} is not a property of a plain table",
                hint=did_you_mean(given, _PROPERTIES)
                or f"The properties are {', '.join(_PROPERTIES)}.",
            )
    is_there = False
    try:
        tables.require_free(connections, name)
    except SeamlineError as error:
        if error.code is not TABLE_EXISTS or not (statement.if_not_exists or statement.replace):
            raise
        if statement.if_not_exists:
            return None
        is_there = True
    properties = {
        **likes.properties(connections, statement.columns, session),
        **dict(statement.properties),
    }
    if str(properties.get("format", "parquet")).lower() != "parquet":
        raise SeamlineError(INVALID_TABLE_DEFINITION, "plain tables are written as Parquet")
    if properties.get("format_version", 2) not in (1, 2):
        raise SeamlineError(INVALID_TABLE_DEFINITION, "format_version must be 1 or 2 here")
    replaced = _replaceable(connections, name, properties) if is_there else None
    return NewTable(name, properties, replaced)


def _replaceable(
    connections: Connections, name: TableName, properties: Mapping[str, Any]
) -> IcebergTable:
    """Returns a table that may get other columns and rows: a plain one that was created here."""
    connections.rights.require_alterable(name)
    table = alterations.load(connections, name)
    if tables.MADE_HERE not in table.state.properties:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"table {name.display} was not created by CREATE TABLE without a topic, so "
            "it cannot be replaced",
            hint="Choose another name.",
        )
    row_changes.require_row_changes(table)
    if properties.get("format_version", 2) < table.state.format_version:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"{name.display} has format version {table.state.format_version}, which cannot change",
            hint="DROP TABLE first.",
        )
    return table


def fields_of_query(output: Sequence[Output]) -> tuple[Field, ...]:
    """Returns the columns of a table that is created from a query.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    fields = tuple(Field(column.name, storable(column.type)) for column in output)
    for index, field in enumerate(fields):
        if is_unnamed(field.name, index):
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"column {index + 1} of the query has no name",
                hint="Give it one with AS.",
            )
        if field.type == types.UNKNOWN:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"column {field.name} is a bare NULL",
                hint="Give it a type with CAST(NULL AS …).",
            )
    return fields


def create(
    connections: Connections,
    table: NewTable,
    fields: Sequence[Field],
    batches: Iterator[pa.RecordBatch],
) -> Written:
    """Creates a table and writes its rows.

    Raises:
        SeamlineError: what the batches raise, INVALID_TABLE_DEFINITION, TABLE_EXISTS, …
    """
    tables.check_columns(fields)
    schema = to_schema(tuple(fields))
    counted = _Counted(batches)
    given = table.properties
    properties = {"write.parquet.compression-codec": "zstd", tables.MADE_HERE: "true"}
    if "comment" in given:
        properties["comment"] = str(given["comment"])
    spec = layout.partition_spec(schema, texts("partitioning", given.get("partitioning", ())))
    order = layout.sort_order(schema, texts("sorted_by", given.get("sorted_by", ())))
    if table.replaced is not None:
        row_changes.commit_replacement(
            table.replaced, schema, counted, spec=spec, order=order, properties=properties
        )
        return Written(counted.rows)
    writing.create(
        connections.catalog(table.name.catalog),
        table.name.path,
        schema,
        counted,
        spec=spec,
        order=order,
        properties={"format-version": str(given.get("format_version", 2)), **properties},
    )
    return Written(counted.rows)


# --- INSERT INTO ---------------------------------------------------------------------------------


def target(connections: Connections, statement: Insert, session: Session) -> Target:
    """Returns the table to be written to, and which of its columns are given.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, COLUMN_NOT_FOUND, STATEMENT_NOT_ALLOWED, …
    """
    name = resolution.resolve(statement.name, session, connections)
    if not name.is_own_table:
        raise SeamlineError(STATEMENT_NOT_ALLOWED, f"{name.display} cannot be written to")
    connections.rights.require(Privilege.INSERT, name)
    table = alterations.load(connections, name)
    binding = TopicBinding.from_properties(table.state.properties)
    fields = table.state.schema.columns
    if binding is not None:
        fields = written_columns(table, binding)
    seen = connections.rights.table(name).columns(fields)
    given = columns_named(name, seen, statement.columns) or seen
    hidden = tuple(field for field in fields if field not in seen)
    return Target(name, table, binding, fields, given, hidden)


def columns_named(
    name: TableName, fields: Sequence[Field], given: Sequence[str]
) -> tuple[Field, ...]:
    """Returns the columns that a statement names, each once.

    Raises:
        SeamlineError: COLUMN_NOT_FOUND.
    """
    by_name = {field.name.lower(): field for field in fields}
    named: list[Field] = []
    for column in given:
        field = by_name.get(column.lower())
        if field is None:
            raise SeamlineError(
                COLUMN_NOT_FOUND,
                f"table {name.display} has no column {column} that can be written",
                hint=did_you_mean(column, by_name),
            )
        if field in named:
            raise SeamlineError(COLUMN_NOT_FOUND, f"column {column} appears twice", hint="")
        named.append(field)
    return tuple(named)


def written_columns(table: IcebergTable, binding: TopicBinding) -> tuple[Field, ...]:
    """Returns the columns of a unified table that the records of producers hold.

    Raises:
        SeamlineError: NOT_SUPPORTED for upsert tables whose records cannot be written here.
    """
    if binding.is_upsert:
        upserts.check_writable(binding)
    own = (f for f in table.state.schema.columns if f.name not in columns.METADATA_NAMES)
    return tuple(field for field in own if is_written(field, binding.encoding))


def check_types(target: Target, output: Sequence[Output]) -> None:
    """Requires that the query has a value of a suitable type for each given column.

    Raises:
        SeamlineError: TYPE_MISMATCH.
    """
    if len(output) != len(target.given):
        raise SeamlineError(
            TYPE_MISMATCH,
            f"{len(target.given)} columns are written to, but the query has {len(output)}",
            hint=f"Columns: {', '.join(field.name for field in target.given)}.",
        )
    for field, column in zip(target.given, output, strict=True):
        if not _may_store(column.type, field.type):
            raise SeamlineError(
                TYPE_MISMATCH,
                f"column {field.name} is {field.type}, but the query gives {column.type}",
                hint=f"CAST(… AS {field.type})",
            )


def cast_to_columns(target: Target, tree: exp.Expr, output: Sequence[Output]) -> exp.Expr:
    """Returns a query that yields the types of the columns, where values may be stored in them.

    Like Trino, this stores a cast to the column's type. Fields of rows are matched by position, as
    ROW(…) has no names for them.
    """
    if len(output) != len(target.given):
        return tree
    casts = [
        field.type if _needs_cast(column.type, field.type) else None
        for field, column in zip(target.given, output, strict=True)
    ]
    if not any(casts):
        return tree
    names = [f"c{index}" for index in range(len(casts))]
    alias = exp.TableAlias(
        this=exp.to_identifier("given"), columns=[exp.to_identifier(name) for name in names]
    )
    columns = [
        name if type_ is None else f"CAST({name} AS {type_})"
        for name, type_ in zip(names, casts, strict=True)
    ]
    outer = parse.parse(f"SELECT {', '.join(columns)}")
    assert isinstance(outer, Query)
    query: exp.Expr = outer.tree.from_(exp.Subquery(this=tree.copy(), alias=alias))  # type: ignore[attr-defined]
    return query


def _may_store(source: Type, target: Type) -> bool:
    """Whether values of a type may be stored in a column, as in Trino: both have a common type.

    So any number may be stored in any column of numbers, rounded to the digits of the column; one
    that is out of its range fails. A date column keeps the day of a timestamp, and a timestamp
    without a zone keeps the local time of one with a zone.
    """
    return coercion.can_coerce(source, target) or coercion.common_type(source, target) is not None


def _needs_cast(source: Type, target: Type) -> bool:
    """Whether the engine casts values before they are stored; `_stored` converts all others."""
    if source in (target, types.UNKNOWN) or not _may_store(source, target):
        return False
    if isinstance(source, Timestamp) and isinstance(target, Timestamp):
        return source.zoned != target.zoned
    number = coercion.as_decimal(target)
    if number is not None:
        given = coercion.as_decimal(source)
        return given is None or given.scale > number.scale
    return target == types.DATE or isinstance(target, Row | Array | Map | Timestamp)


def wait_until_readable(
    connections: Connections, target: Target, write: Write, deadline: Deadline
) -> None:
    """Waits briefly until written records can be read.

    The records are written whatever happens in the meantime. Another producer's open transaction
    may hide them for longer.
    """
    assert target.binding is not None
    topic, isolation = target.binding.topic, target.binding.isolation
    log, until = connections.log(target.binding.cluster), time.monotonic() + _READABLE_S
    with contextlib.suppress(SeamlineError):
        while time.monotonic() < until:
            if invisible(log.bounds([topic], isolation, deadline)[topic], write.end) is None:
                return
            deadline.pause(_PAUSE_S)


def insert(
    connections: Connections,
    target: Target,
    batches: Iterator[pa.RecordBatch],
    deadline: Deadline,
) -> Written:
    """Writes the rows of a query.

    Raises:
        SeamlineError: what the batches raise, INVALID_ARGUMENT, COMMIT_CONFLICT,
            KAFKA_UNAVAILABLE, …
    """
    rows = _whole(batches, target)
    with _naming_only_what_is_seen(target):
        if target.binding is not None:
            return _produced(connections, target, rows, RecordWriter.records, deadline)
        counted = _Counted(rows)
        if target.table.state.format_version <= PYICEBERG_WRITES:
            writing.append(target.table, counted)
        else:
            row_changes.commit_append(lambda: alterations.load(connections, target.name), counted)
        return Written(counted.rows)


def delete_keys(
    connections: Connections,
    target: Target,
    batches: Iterator[pa.RecordBatch],
    deadline: Deadline,
) -> Written:
    """Produces a record that deletes the key of each row of an upsert table.

    Raises:
        SeamlineError: what the batches raise, INVALID_ARGUMENT, KAFKA_UNAVAILABLE, …
    """
    return _produced(connections, target, batches, RecordWriter.deletes, deadline)


def _produced(
    connections: Connections,
    target: Target,
    batches: Iterator[pa.RecordBatch],
    records: Callable[[RecordWriter, pa.Table], list[NewRecord]],
    deadline: Deadline,
) -> Written:
    """Produces the records of rows, in one transaction."""
    binding, counted = target.binding, _Counted(batches)
    assert binding is not None
    schemas = schemas_of(connections.log(binding.cluster), deadline)
    writer = RecordWriter(pinned(binding, schemas), target.fields, key_bytes, schemas)
    last = write(
        connections.cluster(binding.cluster),
        binding.topic,
        (records(writer, pa.Table.from_batches([batch])) for batch in counted),
        binding.key_partitioner,
        deadline,
    )
    ends = Offsets({partition: offset + 1 for partition, offset in last.items()})
    return Written(counted.rows, Write(target.name.display, ends, is_own=True) if last else None)


@contextlib.contextmanager
def _naming_only_what_is_seen(target: Target) -> Iterator[None]:
    """Replaces errors about columns that the writer may not see."""
    try:
        yield
    except SeamlineError as error:
        if any(re.search(rf"\b{re.escape(f.name)}\b", error.message) for f in target.hidden):
            raise SeamlineError(
                error.code,
                f"rows of {target.name.display} need values in columns that you may not see",
                hint="Ask the gateway's owner, whose rules hide some of its columns from you.",
            ) from error
        raise


def _stored(values: pa.Array, field: Field, type_: pa.DataType) -> pa.Array:
    """Returns values in the type that their column stores.

    Raises:
        SeamlineError: NUMERIC_OVERFLOW.
    """
    if isinstance(values, pa.Decimal128Array) and field.type in types.FLOATS:
        values = values.cast(pa.string())  # Arrow's own cast is off by a digit, as for 1.2345
    try:
        return values.cast(type_)
    except pa.ArrowInvalid as error:
        if field.type not in types.INTEGERS and not isinstance(field.type, Decimal):
            raise
        raise SeamlineError(
            NUMERIC_OVERFLOW, f"column {field.name} is {field.type}: {error}"
        ) from error


class _Counted:
    """Passes batches through and counts their rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


def _whole(batches: Iterator[pa.RecordBatch], target: Target) -> Iterator[pa.RecordBatch]:
    """Yields rows with all columns of the table: its default, or null, where none is given."""
    indexes = {field.name: index for index, field in enumerate(target.given)}
    for batch in batches:
        yield whole(batch, target, indexes)


def whole(batch: pa.RecordBatch, target: Target, indexes: Mapping[str, int]) -> pa.RecordBatch:
    """Returns rows with all columns of a table: its default, or null, where none is given.

    Args:
        batch: The given columns.
        target: The table.
        indexes: Where the table's columns are in it, by name.

    Raises:
        SeamlineError: NUMERIC_OVERFLOW; INVALID_ARGUMENT for a null in a NOT NULL column.
    """
    schema = pa.schema([(field.name, types.to_arrow(field.type)) for field in target.fields])
    arrays = []
    for field, own in zip(target.fields, schema, strict=True):
        index = indexes.get(field.name)
        if index is not None:
            arrays.append(_stored(batch.column(index), field, own.type))
        elif field.write_default is not None:
            arrays.append(pa.array([field.write_default] * batch.num_rows, own.type))
        else:
            arrays.append(pa.nulls(batch.num_rows, own.type))
        if field.required and arrays[-1].null_count:
            raise _no_value(field, target, is_given=index is not None)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _no_value(field: Field, target: Target, *, is_given: bool) -> SeamlineError:
    """Returns the error for a null in a NOT NULL column."""
    if not is_given:
        why, remedy = "the statement gives it none", "Give it a value."
    else:
        why, remedy = "a row has none", "Leave such rows out, or give them a value with coalesce()."
    if target.binding is None:
        remedy += f" ALTER TABLE … ALTER COLUMN {field.name} DROP NOT NULL allows nulls."
    return SeamlineError(
        INVALID_ARGUMENT,
        f"column {field.name} of {target.name.display} is NOT NULL and needs a value, but {why}",
        hint=remedy,
    )
