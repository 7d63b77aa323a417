"""ALTER TABLE and COMMENT ON: changes to an existing table.

Changes that would make the table disagree with its topic are refused, such as those to a column
that the record key repeats or by which files are laid out, or to one with a reserved name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from pyiceberg.types import PrimitiveType

from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.iceberg.type_conversion import stored_as_text, to_schema
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.schemas import schemas_of
from seamline.connectors.kafka.formats.spelling import ACCEPTING_MORE, Spelling
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import (
    COLUMN_NOT_FOUND,
    INVALID_TABLE_DEFINITION,
    NOT_SUPPORTED,
    PERMISSION_DENIED,
    SCHEMA_NOT_FOUND,
    STATEMENT_NOT_ALLOWED,
    TABLE_NOT_FOUND,
    SeamlineError,
)
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.catalogs.resolution import Session
from seamline.gateway.commands import evolution, inferring, tables, upserts, views
from seamline.gateway.commands.rows import Rows, done, noted
from seamline.gateway.names import TableName
from seamline.gateway.query.loaded import LoadedTables
from seamline.gateway.query.views import find as find_view
from seamline.seam.binding import TopicBinding, property_of
from seamline.seam.options import OPTIONS
from seamline.seam.records import DecoderSpec
from seamline.sql import columns
from seamline.sql.near import did_you_mean
from seamline.sql.parsing.statements import (
    AddColumn,
    AlterTable,
    ColumnDefinition,
    Comment,
    DropColumn,
    DropNotNull,
    RenameColumn,
    RenameTable,
    SetColumnType,
    SetProperties,
    TableChange,
)
from seamline.sql.types import Field, Row, row

_OPTIONS = {option.name: option for option in OPTIONS if option.alter is not None}
KEYWORDS: Mapping[type[TableChange], str] = {
    AddColumn: "ADD COLUMN",
    DropColumn: "DROP COLUMN",
    DropNotNull: "DROP NOT NULL",
    RenameColumn: "RENAME COLUMN",
    RenameTable: "RENAME TABLE",
    SetColumnType: "SET COLUMN TYPE",
    SetProperties: "SET PROPERTIES",
}
"""What clients are told that a statement did, by its change."""
_INSTEAD = {
    SetColumnType: "With evolution = 'auto', columns follow the schemas of the records.",
    DropNotNull: "Whether a record may lack a value is decided when the table is created.",
    RenameTable: "Tokens and pipelines know it by its name; create a view by the new name instead.",
}
_PARTITIONS = "key_partitions"
"""Setting it renews the promise of an upsert table's owner that each key is in one partition."""


def alter(
    connections: Connections, statement: AlterTable, session: Session, deadline: Deadline
) -> Rows:
    """Runs ALTER TABLE. Returns where the newest records do not fit a new column.

    Raises:
        SeamlineError: NOT_SUPPORTED, INVALID_TABLE_DEFINITION, COLUMN_NOT_FOUND,
            COMMIT_CONFLICT, …
    """
    name = alterable(connections, statement.name, session)

    def work() -> None:
        table = load(connections, name)
        binding = TopicBinding.from_properties(table.state.properties)
        if table.state.provider is not None:
            raise SeamlineError(
                NOT_SUPPORTED,
                f"table {name.display} is filled by another writer, so it cannot be altered here",
                hint="Its writer owns its columns. `seamline table adopt` changes how it is read.",
            )
        match statement.change:
            case AddColumn():
                _add(table, binding, statement.change)
            case DropColumn():
                _drop(table, binding, statement.change)
            case RenameColumn():
                _rename(table, binding, statement.change)
            case SetColumnType() | DropNotNull() | RenameTable() if binding is not None:
                raise SeamlineError(
                    NOT_SUPPORTED,
                    f"{KEYWORDS[type(statement.change)]} is not supported for a table over a topic",
                    hint=_INSTEAD[type(statement.change)],
                )
            case SetColumnType():
                _widen(table, statement.change)
            case DropNotNull():
                path, _ = _column(table, statement.change.column)
                commits.change_schema(table, lambda update: update.make_column_optional(path))
            case RenameTable():
                _move(connections, table, statement.change, session)
            case SetProperties() if binding is None:
                _upgrade(table, statement.change)
            case SetProperties():
                assert binding is not None
                _set(connections, table, binding, statement.change, deadline)

    try:
        commits.insist(work)
    except SeamlineError as error:
        if error.code not in (TABLE_NOT_FOUND, SCHEMA_NOT_FOUND) or not statement.if_exists:
            raise
        return done()
    if isinstance(statement.change, AddColumn):
        return noted(_notes(connections, name, statement.change, deadline))
    return done()


def comment(connections: Connections, statement: Comment, session: Session) -> Rows:
    """Runs COMMENT ON TABLE, COMMENT ON VIEW or COMMENT ON COLUMN.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, VIEW_NOT_FOUND, COLUMN_NOT_FOUND, COMMIT_CONFLICT, …
    """
    if statement.what == "view":
        return views.comment(connections, statement.name, session, statement.text)
    is_column = statement.what == "column"
    parts = statement.name[:-1] if is_column else statement.name
    if not parts:
        raise SeamlineError(
            COLUMN_NOT_FOUND, "the column's table is missing", hint="COMMENT ON COLUMN t.c IS '…'"
        )
    name = alterable(connections, parts, session)
    if is_column and find_view(connections, name) is not None:
        return views.comment_on_column(connections, statement.name, session, statement.text)

    def work() -> None:
        table = load(connections, name)
        if is_column:
            path, _ = _column(table, statement.name[-1:])
            text = statement.text or ""
            commits.change_schema(table, lambda update: update.update_column(path, doc=text))
        elif statement.text is None:
            commits.remove_properties(table, ["comment"])
        else:
            commits.set_properties(table, {"comment": statement.text})

    commits.insist(work)
    return done()


def load(connections: Connections, name: TableName) -> IcebergTable:
    """Loads the current state of a table, looked up by name as statements look it up.

    Raises:
        SeamlineError: TABLE_NOT_FOUND, CATALOG_UNAVAILABLE, …; STATEMENT_NOT_ALLOWED for a view.
    """
    return connections.catalog(name.catalog).load(identifier_of(connections, name))


def identifier_of(connections: Connections, name: TableName) -> tuple[str, ...]:
    """Returns a table's name in its catalog; it raises what `load` raises."""
    try:
        return LoadedTables(connections).now([name])[name].state.name[1:]
    except SeamlineError as error:
        if error.code is not TABLE_NOT_FOUND or find_view(connections, name) is None:
            raise
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"{name.display} is a view, not a table",
            hint="Its rows are those of its query; CREATE OR REPLACE VIEW changes that.",
        ) from error


def alterable(connections: Connections, parts: tuple[str, ...], session: Session) -> TableName:
    """Returns the name of a table in a catalog that the user may alter.

    Raises:
        SeamlineError: STATEMENT_NOT_ALLOWED, PERMISSION_DENIED, TABLE_NOT_FOUND, …
    """
    name = resolution.resolve(parts, session, connections)
    if not name.is_own_table:
        raise SeamlineError(STATEMENT_NOT_ALLOWED, f"{name.display} cannot be changed")
    connections.rights.require_alterable(name)
    return name


# --- Columns -------------------------------------------------------------------------------------


def _add(table: IcebergTable, binding: TopicBinding | None, change: AddColumn) -> None:
    column, within = change.column, change.within
    if within:
        within, row = _column(table, within)
        _fields_of_row(within, row)
    if change.if_not_exists and _found(table, (*within, column.name)) is not None:
        return
    if column.required:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"column {column.name} cannot be NOT NULL: existing rows have no value for it",
            hint="Leave out NOT NULL.",
        )
    (field,) = tables.fields_of([column])
    _check(table, binding, within, lambda fields: (*fields, field))
    stored = (field,) if binding is None else stored_as_text((field,))
    type_ = to_schema(stored).fields[0].field_type
    path = (*within, field.name)
    commits.change_schema(
        table,
        lambda update: update.add_column(path, type_, doc=field.comment),
        added={path: field.type},
    )


def _notes(
    connections: Connections, name: TableName, change: AddColumn, deadline: Deadline
) -> list[str]:
    """Returns where the newest records of a table's topic do not fit a column that it got."""
    table = load(connections, name)
    binding = TopicBinding.from_properties(table.state.properties)
    if binding is None:
        return []
    every = table.state.schema.columns
    spelt, _ = _column(table, (*change.within, change.column.name))
    try:
        connections.rights.require_topic(binding.cluster, binding.topic)
        log = connections.log(binding.cluster)
        bounds = log.bounds([binding.topic], binding.isolation, deadline)[binding.topic]
        seen = inferring.sample(log, binding.topic, bounds, deadline)
        return list(
            inferring.sample_notes(
                DecoderSpec.of(binding, every),
                seen,
                schemas_of(log, deadline),
                only=_alone(every, spelt),
            )
        )
    except SeamlineError as error:
        if error.code is PERMISSION_DENIED:
            return []
        return [f"the newest records cannot be read: {error.message}"]


def _alone(fields: Sequence[Field], path: tuple[str, ...]) -> Field:
    """Returns the column that a path leads into, with only the fields on the path."""
    field = next(field for field in fields if field.name == path[0])
    if len(path) == 1:
        return field
    assert isinstance(field.type, Row)
    return dataclasses.replace(field, type=Row((_alone(field.type.fields, path[1:]),)))


def _drop(table: IcebergTable, binding: TopicBinding | None, change: DropColumn) -> None:
    if change.if_exists and _found(table, change.column) is None:
        return
    path, column = _column(table, change.column)
    _require_free(table, binding, path, column, "dropped")
    _check(table, binding, path[:-1], lambda own: tuple(f for f in own if f.name != column.name))
    commits.change_schema(table, lambda update: update.delete_column(path))


def _rename(table: IcebergTable, binding: TopicBinding | None, change: RenameColumn) -> None:
    if change.if_exists and _found(table, change.column) is None:
        return
    path, column = _column(table, change.column)
    _require_free(table, binding, path, column, "renamed", by_layout=False)
    renamed = Field(change.to, column.type)
    _check(
        table,
        binding,
        path[:-1],
        lambda own: tuple(renamed if f.name == column.name else f for f in own),
    )
    commits.change_schema(table, lambda update: update.rename_column(path, change.to))


def _widen(table: IcebergTable, change: SetColumnType) -> None:
    path, column = _column(table, change.column)
    (field,) = tables.fields_of([ColumnDefinition(column.name, change.type)])
    type_ = to_schema((field,)).fields[0].field_type
    if not isinstance(type_, PrimitiveType):
        raise SeamlineError(
            INVALID_TABLE_DEFINITION, f"column {column.name} cannot become {field.type}", hint=""
        )
    commits.change_schema(table, lambda update: update.update_column(path, field_type=type_))


def _move(
    connections: Connections, table: IcebergTable, change: RenameTable, session: Session
) -> None:
    """Gives a table another name; its files stay where they are."""
    catalog = table.state.name[0]
    to = resolution.resolve(change.to, session, connections, is_new=True)
    tables.require_new_name(connections, table.state.display_name, catalog, to)
    connections.catalog(catalog).rename(table.state.name[1:], to.path)


def _upgrade(table: IcebergTable, change: SetProperties) -> None:
    """Sets the one property of a plain table that can be set: its format version."""
    for name, value in change.properties:
        if name != "format_version":
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"the property {name} of a plain table cannot be changed",
                hint="Only format_version can.",
            )
        if str(value) != "2" or table.state.format_version > 2:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"{table.state.display_name} has format version {table.state.format_version}, "
                f"which cannot become {value}",
                hint="Only version 1 can become 2.",
            )
        commits.upgrade(table, 2)


def _changed_spellings(binding: TopicBinding, words: Collection[str]) -> str:
    """Returns the text of the property, if only more or fewer records become good.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION.
    """
    text = ",".join(sorted(words))
    Spelling.of(text)
    fixed = (set(words) ^ set(binding.spellings)) - ACCEPTING_MORE
    if fixed:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"the spelling {min(fixed)} cannot be changed: it would give another "
            "meaning to records that have been read",
            hint=f"Only {', '.join(sorted(ACCEPTING_MORE))} can; for others, recreate the table.",
        )
    return text


def changed_options(
    connections: Connections,
    table: IcebergTable,
    binding: TopicBinding,
    values: Mapping[str, Any],
    deadline: Deadline,
) -> dict[str, str]:
    """Returns the texts of options that are to be changed, by name.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION for one that it cannot have; what
            `tables.check_dead_letters` raises.
    """
    texts: dict[str, str] = {}
    for name, value in values.items():
        if binding.is_upsert:
            upserts.check_altered(name, value)
        if name == "evolution":
            evolution.check_altered(binding, value)
        if name == "on_error":
            tables.check_policy(str(value), table.state.schema.columns)
        option = _OPTIONS.get(name)
        if option is None:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"the property {name} cannot be changed",
                hint=did_you_mean(name, _OPTIONS) or f"Only {', '.join(_OPTIONS)} can.",
            )
        if option.words and value not in option.words:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"{name} {value!r} is not known",
                hint=f"It must be one of: {', '.join(option.words)}.",
            )
        texts[name] = option.text(option.value(value))
        if name == "spellings":
            texts[name] = _changed_spellings(binding, option.read(texts[name]))
    if not texts.keys().isdisjoint({"on_error", "dead_letter_topic"}):
        changed = dataclasses.replace(
            binding,
            on_error=texts.get("on_error", binding.on_error),
            dead_letter_topic=texts.get("dead_letter_topic", binding.dead_letter_topic),
        )
        tables.check_dead_letters(connections, changed, deadline)
    return texts


def _set(
    connections: Connections,
    table: IcebergTable,
    binding: TopicBinding,
    change: SetProperties,
    deadline: Deadline,
) -> None:
    given = dict(change.properties)
    partitions = str(given.get(_PARTITIONS, ""))
    properties: dict[str, str] = {}
    without: tuple[str, ...] = ()
    if binding.is_upsert and partitions.isdecimal():
        properties[property_of(_PARTITIONS)] = partitions
        # the partitioner placed older records among fewer partitions, so it no longer finds them
        without = (property_of("key_partitioner"),)
        del given[_PARTITIONS]
    for name, text in changed_options(connections, table, binding, given, deadline).items():
        properties[property_of(name)] = text
    commits.set_properties(table, properties, without=without)


def _found(table: IcebergTable, path: tuple[str, ...]) -> tuple[tuple[str, ...], Field] | None:
    """Returns a column, or a field of a row, and the names that lead to it as they are spelt."""
    spelt: list[str] = []
    fields, last = table.state.schema.columns, None
    for name in path:
        exact = (field for field in fields if field.name == name)
        folded = (field for field in fields if field.name.lower() == name.lower())
        last = next(exact, None) or next(folded, None)
        if last is None:
            return None
        spelt.append(last.name)
        fields = last.type.fields if isinstance(last.type, Row) else ()
    return None if last is None else (tuple(spelt), last)


def _column(table: IcebergTable, path: tuple[str, ...]) -> tuple[tuple[str, ...], Field]:
    column = _found(table, path)
    if column is not None:
        return column
    fields = table.state.schema.columns
    if path[1:]:
        fields = _fields_of_row(*_column(table, path[:-1]))
    raise SeamlineError(
        COLUMN_NOT_FOUND,
        f"table {table.state.display_name} has no column {'.'.join(path)}",
        hint=did_you_mean(path[-1], (field.name for field in fields)),
    )


def _fields_of_row(path: tuple[str, ...], column: Field) -> tuple[Field, ...]:
    if not isinstance(column.type, Row):
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"{'.'.join(path)} is of type {column.type}, not a row",
            hint="Only rows have fields; a row in an array or a map cannot be changed.",
        )
    return column.type.fields


def _require_free(
    table: IcebergTable,
    binding: TopicBinding | None,
    path: tuple[str, ...],
    column: Field,
    what: str,
    *,
    by_layout: bool = True,
) -> None:
    """Refuses to change a column that something else depends on."""
    metadata = table.iceberg.metadata
    laid_out = {
        f.source_id: "partitioned" for spec in metadata.partition_specs for f in spec.fields
    }
    laid_out |= {f.source_id: "sorted" for order in metadata.sort_orders for f in order.fields}
    is_column = binding is not None and len(path) == 1
    reason = _needed_for_records(binding, column) if binding is not None and is_column else None
    by = next((laid_out[field_id] for field_id in _ids(column) if field_id in laid_out), None)
    if reason is None and by_layout and by is not None:
        reason = f"the table is {by} by it"
    if reason is not None:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION, f"column {column.name} cannot be {what}: {reason}", hint=""
        )


def _ids(field: Field) -> Iterator[int]:
    """Yields the ids of a column and of all fields in its rows."""
    yield field.field_id
    for inner in field.type.fields if isinstance(field.type, Row) else ():
        yield from _ids(inner)


def _needed_for_records(binding: TopicBinding, column: Field) -> str | None:
    """Returns why records need a column under its name; None if they do not."""
    if column.name in columns.METADATA_NAMES:
        return "it says where a record is in the topic"
    if binding.key is not None and binding.key.lower() == column.name.lower():
        return "the record key repeats it"
    if binding.encoding.names(column.name):
        return "columns_from says where it comes from"
    if column.name in binding.primary_key:
        return "it is part of the primary key"
    return None


def _check(
    table: IcebergTable,
    binding: TopicBinding | None,
    within: tuple[str, ...],
    change: Callable[[tuple[Field, ...]], tuple[Field, ...]],
) -> None:
    """Requires that the changed columns are valid, if there is a topic also for its records.

    Args:
        table: The table.
        binding: Its binding to a topic.
        within: The names that lead to the row that changes; empty for the columns.
        change: Returns the changed fields.
    """
    if binding is None:
        tables.check_columns(_changed(table.state.schema.columns, within, change))
        return
    own = tuple(f for f in table.state.schema.columns if f.name not in columns.METADATA_NAMES)
    fields = _changed(own, within, change)
    tables.check_columns(fields)
    whole = (*fields, *columns.METADATA_FIELDS)
    Decoder(DecoderSpec.of(binding, whole))


def _changed(
    fields: tuple[Field, ...],
    within: tuple[str, ...],
    change: Callable[[tuple[Field, ...]], tuple[Field, ...]],
) -> tuple[Field, ...]:
    if not within:
        return change(fields)

    def inside(field: Field) -> Field:
        inner = _changed(_fields_of_row(within[:1], field), within[1:], change)
        if not inner:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"{field.name} has no other field, and a row needs at least one",
                hint=f"Drop {field.name} itself.",
            )
        return dataclasses.replace(field, type=row(inner))

    return tuple(inside(field) if field.name == within[0] else field for field in fields)
