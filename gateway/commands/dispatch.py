"""Statements that are not queries: SHOW, DESCRIBE, CREATE TABLE and DROP TABLE."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections.abc import Callable, Mapping
from typing import Any

from seamline.connectors.protocols import Deadline
from seamline.errors import (
    INVALID_TABLE_DEFINITION,
    STATEMENT_NOT_ALLOWED,
    TABLE_EXISTS,
    TABLE_NOT_FOUND,
    SeamlineError,
)
from seamline.gateway.commands import listings, system, tables
from seamline.gateway.connections import Connections
from seamline.gateway.query import names
from seamline.gateway.query.loaded import LoadedTables
from seamline.gateway.query.names import Session
from seamline.seam.binding import TopicBinding
from seamline.seam.log import READ_COMMITTED
from seamline.seam.table import TableState
from seamline.sql import columns, functions, parse, types
from seamline.sql.binder.scope import Output
from seamline.sql.types import Field


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """The result of such a statement."""

    output: tuple[Output, ...]
    rows: list[tuple[Any, ...]]


class Commands:
    """Runs such statements."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._loaded = LoadedTables(connections)

    def run(self, statement: parse.Statement, session: Session, deadline: Deadline) -> Rows:
        """Runs one.

        Raises:
            SeamlineError: named after the cause.
        """
        match statement:
            case parse.Show():
                return self._show(statement, session, deadline)
            case parse.CreateTable():
                return self._create(statement, session, deadline)
            case parse.DropTable():
                return self._drop(statement, session)
        raise AssertionError(statement)

    # --- SHOW ----------------------------------------------------------------------------------

    def _show(self, statement: parse.Show, session: Session, deadline: Deadline) -> Rows:
        match statement.what:
            case "catalogs":
                return _names("Catalog", listings.catalogs(self._connections), statement.like)
            case "schemas":
                return self._schemas(statement, session)
            case "tables":
                return self._tables(statement, session, deadline)
            case "functions":
                return _functions(statement.like)
            case "columns":
                return self._columns(statement, session, deadline)
        return self._create_text(statement, session)

    def _schemas(self, statement: parse.Show, session: Session) -> Rows:
        source = statement.name[0] if statement.name else session.catalog
        asked = names.session(self._connections.config, source)
        found = listings.schemas(self._connections, asked.catalog)
        return _names("Schema", found, statement.like)

    def _tables(self, statement: parse.Show, session: Session, deadline: Deadline) -> Rows:
        source, schema = names.resolve_schema(statement.name, session, self._connections)
        if schema.lower() == names.INFORMATION_SCHEMA:
            found = list(system.INFORMATION_TABLES)
        else:
            listed = listings.tables(self._connections, source, schema, deadline)
            found = [name.table for name in listed]
        return _names("Table", found, statement.like)

    def _columns(self, statement: parse.Show, session: Session, deadline: Deadline) -> Rows:
        output = (
            Output("Column", types.VARCHAR),
            Output("Type", types.VARCHAR),
            Output("Nullable", types.VARCHAR),
            Output("Hidden", types.BOOLEAN),
        )
        fields = self._fields(statement.name, session, deadline)
        rows = [
            (name, type_, nullable, hidden)
            for name, _, nullable, type_, hidden in system.column_rows(fields)
        ]
        return Rows(output, _like(rows, statement.like))

    def _fields(
        self, parts: tuple[str, ...], session: Session, deadline: Deadline
    ) -> tuple[Field, ...]:
        name = names.resolve(parts, session, self._connections)
        if name.is_system:
            return tuple(Field(*column) for column in system.information_columns(name).items())
        if not name.cluster:
            return self._state(parts, session).schema.columns
        (topic,) = name.path
        self._connections.log(name.cluster).bounds([topic], READ_COMMITTED, deadline)
        return columns.TOPIC_FIELDS

    def _create_text(self, statement: parse.Show, session: Session) -> Rows:
        state = self._state(statement.name, session)
        binding = TopicBinding.from_properties(state.properties)
        own = [
            f"   {types.quote(field.name)} {field.type}{' NOT NULL' if field.required else ''}"
            for field in state.schema.columns
            if binding is None or not field.name.startswith("_kafka_")
        ]
        text = f"CREATE TABLE {state.display_name} (\n" + ",\n".join(own) + "\n)"
        if binding is not None:
            pairs = [
                f"   {field.name} = '{value}'"
                for field in dataclasses.fields(binding)
                if (value := getattr(binding, field.name)) is not None
                and field.name != "key_partitions"
            ]
            text += "\nWITH (\n" + ",\n".join(pairs) + "\n)"
        return Rows((Output("Create Table", types.VARCHAR),), [(text,)])

    def _state(self, parts: tuple[str, ...], session: Session) -> TableState:
        name = names.resolve(parts, session, self._connections)
        if not name.is_own_table:
            raise SeamlineError(TABLE_NOT_FOUND, f"{name.display} is not a table of a catalog")
        (table,) = self._loaded.now([name]).values()
        return table.state

    # --- CREATE and DROP -------------------------------------------------------------------------

    def _create(self, statement: parse.CreateTable, session: Session, deadline: Deadline) -> Rows:
        name = names.resolve(statement.name, session, self._connections)
        if not name.is_own_table:
            raise SeamlineError(STATEMENT_NOT_ALLOWED, f"{name.display} cannot be created")
        properties = dict(statement.properties)
        if "topic" not in properties:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                "CREATE TABLE needs WITH (topic = '…')",
                hint="A unified table stands for a topic and its Iceberg copy.",
            )
        definition = tables.TableDefinition(
            name=name,
            columns=tables.fields_of(statement.columns) or None,
            **{"cluster": self._connections.config.default_cluster, **_properties(properties)},
        )
        try:
            created = tables.create(self._connections, definition, deadline)
        except SeamlineError as error:
            # what exists must be a unified table: a plain one would never show the topic's records
            existing = error.code is TABLE_EXISTS and statement.if_not_exists
            if not existing or not tables.is_unified(self._connections, name):
                raise
            return _done()
        notes = [(note,) for note in created.notes]
        return Rows((Output("note", types.VARCHAR),), notes) if notes else _done()

    def _drop(self, statement: parse.DropTable, session: Session) -> Rows:
        name = names.resolve(statement.name, session, self._connections)
        if not name.is_own_table:
            raise SeamlineError(STATEMENT_NOT_ALLOWED, f"{name.display} cannot be dropped")
        try:
            tables.drop(self._connections, name)
        except SeamlineError as error:
            if error.code is not TABLE_NOT_FOUND or not statement.if_exists:
                raise
        return _done()


def _strings(name: str, value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(item, str) for item in items):
        raise SeamlineError(INVALID_TABLE_DEFINITION, f"{name} must be an array of texts")
    return items


def _text(name: str, value: Any) -> str:
    if isinstance(value, tuple | bool):
        raise SeamlineError(INVALID_TABLE_DEFINITION, f"{name} must be a text")
    return str(value)


def _number(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise SeamlineError(INVALID_TABLE_DEFINITION, f"{name} must be a whole number")
    return value


_PROPERTIES: Mapping[str, Callable[[str, Any], Any]] = {
    "topic": _text,
    "cluster": _text,
    "format": _text,
    "mode": _text,
    "on_error": _text,
    "isolation": _text,
    "key": _text,
    "key_format": _text,
    "key_partitioner": _text,
    "start": _text,
    "partitioning": _strings,
    "sorted_by": _strings,
    "format_version": _number,
}


def _properties(given: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(given) - set(_PROPERTIES))
    if unknown:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"{unknown[0]!r} is not a property of a table",
            hint=f"Properties are: {', '.join(_PROPERTIES)}.",
        )
    return {name: _PROPERTIES[name](name, value) for name, value in given.items()}


def _done() -> Rows:
    return Rows((Output("result", types.BOOLEAN),), [(True,)])


def _names(title: str, found: list[str], like: str | None) -> Rows:
    return Rows((Output(title, types.VARCHAR),), _like([(name,) for name in sorted(found)], like))


def _like(rows: list[Any], pattern: str | None) -> list[Any]:
    """Rows whose first cell matches a LIKE pattern."""
    if pattern is None:
        return rows
    glob = fnmatch.translate(
        "".join({"%": "*", "_": "?"}.get(c, f"[{c}]" if c in "*?[" else c) for c in pattern)
    )
    return [row for row in rows if re.fullmatch(glob, str(row[0]), re.DOTALL)]


def _functions(like: str | None) -> Rows:
    output = tuple(Output(name, types.VARCHAR) for name in ("Function", "Kind", "Signature"))
    rows = [
        (name, overload.kind, overload.signature)
        for name, overloads in sorted(functions.FUNCTIONS.items())
        if not name.startswith("$")
        for overload in overloads
    ]
    return Rows(output, _like(rows, like))
