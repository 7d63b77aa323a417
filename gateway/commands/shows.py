"""SHOW and DESCRIBE: statements that list and describe objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from seamline.connectors.iceberg import layout
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import SCHEMA_NOT_FOUND, TABLE_NOT_FOUND, SeamlineError
from seamline.gateway import names
from seamline.gateway.access.rules import Privilege
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.catalogs.resolution import Session
from seamline.gateway.commands import adopting, stats, views
from seamline.gateway.commands.rows import Rows, matching, table
from seamline.gateway.commands.sessions import existing_schema
from seamline.gateway.names import TableName
from seamline.gateway.query.gather import Gatherer
from seamline.gateway.query.loaded import LoadedTables
from seamline.gateway.query.views import find as find_view
from seamline.gateway.system import listings, system_tables
from seamline.seam.binding import TopicBinding
from seamline.seam.log import READ_COMMITTED
from seamline.sql import columns, functions, types
from seamline.sql.binder.qualify import TableReference
from seamline.sql.parsing.statements import Show
from seamline.sql.quoting import quoted_text
from seamline.sql.types import Field


def show(connections: Connections, statement: Show, session: Session, deadline: Deadline) -> Rows:
    """Runs SHOW or DESCRIBE, except for SHOW SESSION.

    Raises:
        SeamlineError: with a code that names the cause.
    """
    return _Shows(connections).run(statement, session, deadline)


class _Shows:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._loaded = LoadedTables(connections)

    def run(self, statement: Show, session: Session, deadline: Deadline) -> Rows:
        match statement.what:
            case "catalogs":
                return _names("Catalog", listings.catalogs(self._connections), statement)
            case "schemas":
                return self._schemas(statement, session)
            case "tables":
                return self._tables(statement, session, deadline)
            case "functions":
                return self._functions(statement, session)
            case "roles" | "current roles" | "role grants":
                return self._roles(statement, session)
            case "grants":
                if statement.name:
                    self._described(statement.name, session, deadline)
                return table(_OF_GRANTS, [])
            case "branches":
                return self._branches(statement, session)
            case "columns":
                return self._columns(statement, session, deadline)
            case "stats":
                name = resolution.resolve(statement.name, session, self._connections)
                if name.is_system or name.cluster:
                    self._described(statement.name, session, deadline)
                return stats.show(self._connections, name, deadline)
            case "create schema":
                return self._create_schema(statement, session)
            case "create view":
                return views.show(self._connections, statement.name, session)
        return self._create_text(statement, session)

    def _schemas(self, statement: Show, session: Session) -> Rows:
        source = statement.name[0] if statement.name else session.catalog
        connections = self._connections
        defaults = resolution.session(connections.config, source, rights=connections.rights)
        schemas = listings.schemas(connections, defaults.catalog)
        return _names("Schema", schemas, statement)

    def _tables(self, statement: Show, session: Session, deadline: Deadline) -> Rows:
        source, schema = existing_schema(statement.name, session, self._connections)
        if schema == names.INFORMATION_SCHEMA or source == names.SYSTEM_CATALOG:
            tables = list(system_tables.tables_of(schema))
        else:
            listed = listings.tables(self._connections, source, schema, deadline)
            seen = listings.views(self._connections, source, schema)
            tables = [name.table for name in (*listed, *seen)]
        return _names("Table", tables, statement)

    def _functions(self, statement: Show, session: Session) -> Rows:
        """Lists the functions; a schema has none of its own."""
        if not statement.name or tuple(map(str.lower, statement.name)) == _BUILT_IN:
            return _functions(statement)
        existing_schema(statement.name, session, self._connections)
        return table(_OF_FUNCTIONS, [])

    def _roles(self, statement: Show, session: Session) -> Rows:
        """Lists roles; no catalog has any."""
        source = statement.name[0] if statement.name else session.catalog
        resolution.session(self._connections.config, source, rights=self._connections.rights)
        title = "Role Grants" if statement.what == "role grants" else "Role"
        return table({title: types.VARCHAR}, [])

    def _create_schema(self, statement: Show, session: Session) -> Rows:
        parts = existing_schema(statement.name, session, self._connections)
        text = f"CREATE SCHEMA {'.'.join(map(types.quote, parts))}"
        return table({"Create Schema": types.VARCHAR}, [(text,)])

    def _branches(self, statement: Show, session: Session) -> Rows:
        name = resolution.resolve(statement.name, session, self._connections)
        self._connections.rights.require(Privilege.SELECT, name)
        refs = self._loaded_table(name).state.refs
        branches = [branch for branch, ref in refs.items() if ref.kind == "branch"]
        return _names("Branch", branches, statement)

    def _columns(self, statement: Show, session: Session, deadline: Deadline) -> Rows:
        fields, table_ = self._described(statement.name, session, deadline)
        keys = _partition_keys(table_)
        rows = [
            (field.name, str(field.type), _extra(field, keys), field.comment or "")
            for field in fields
        ]
        return table(_OF_COLUMNS, matching(rows, statement.like, statement.escape))

    def _described(
        self, parts: tuple[str, ...], session: Session, deadline: Deadline
    ) -> tuple[tuple[Field, ...], ColdTable | None]:
        """Returns the columns of a table, a view or a topic, and the table of a catalog if any."""
        name = resolution.resolve(parts, session, self._connections)
        if name.is_system:
            shape = system_tables.system_columns(name)
            return tuple(Field(*column) for column in shape.items()), None
        if name.variant:
            reference = TableReference(parts)
            (pinned,) = Gatherer(self._connections).pin([reference], session, deadline)
            shown = (field for field in pinned.relation.columns if field not in columns.FILE_FIELDS)
            rows_of = pinned.cold if name.variant in ("cold", "hot") else None
            return self._connections.rights.table(name).columns(tuple(shown)), rows_of
        if not name.cluster:
            try:
                loaded = self._loaded_table(name)
                own = loaded.state.schema.columns
                return self._connections.rights.table(name).columns(own), loaded
            except SeamlineError as error:
                view = None
                if error.code in (TABLE_NOT_FOUND, SCHEMA_NOT_FOUND):
                    view = find_view(self._connections, name)
                if view is None:
                    raise
                return self._connections.rights.table(name).columns(view[1].columns), None
        (topic,) = name.path
        with resolution.suggesting_topics(name.cluster, topic, self._connections):
            self._connections.log(name.cluster).bounds([topic], READ_COMMITTED, deadline)
        return columns.TOPIC_FIELDS, None

    def _create_text(self, statement: Show, session: Session) -> Rows:
        name = resolution.resolve(statement.name, session, self._connections)
        state = self._loaded_table(name).state
        source = self._connections.config.catalogs.get(state.name[0])
        if source is not None and not source.format.is_writable:
            raise source.format.refuses(f"table {state.display_name}")
        rights = self._connections.rights.table(name)
        shown = rights.columns(state.schema.columns)
        binding = TopicBinding.from_properties(state.properties)
        if binding is not None:
            binding = _without(binding, rights.restriction.denied)
        if state.provider is not None and binding is not None:
            text = adopting.create_text(state, binding)
            return table({"Create Table": types.VARCHAR}, [(text,)])
        own = [
            f"   {types.quote(field.name)} {field.type}{' NOT NULL' if field.required else ''}"
            + _comment(" COMMENT ", field.comment)
            for field in shown
            if binding is None or not field.name.startswith("_kafka_")
        ]
        text = f"CREATE TABLE {state.display_name} (\n" + ",\n".join(own) + "\n)"
        text += _comment("\nCOMMENT ", state.properties.get("comment"))
        if binding is not None:
            pairs = [
                f"   {name} = {_property(value)}"
                for name, value in binding.settings().items()
                if name != "key_partitions"
            ]
            text += "\nWITH (\n" + ",\n".join(pairs) + "\n)"
        return table({"Create Table": types.VARCHAR}, [(text,)])

    def _loaded_table(self, name: TableName) -> ColdTable:
        if not name.is_own_table:
            raise SeamlineError(TABLE_NOT_FOUND, f"{name.display} is not a table of a catalog")
        (table_,) = self._loaded.now([name]).values()
        return table_


def _partition_keys(table_: ColdTable | None) -> frozenset[str]:
    """Returns the columns by whose values the files of an Iceberg table are partitioned."""
    if not isinstance(table_, IcebergTable):
        return frozenset()
    return layout.identity_columns(table_.iceberg.schema(), table_.iceberg.spec())


def _extra(field: Field, partition_keys: Collection[str]) -> str:
    """Returns what else is known of a column, in the words of Trino's connectors."""
    words = {
        "partition key": field.name in partition_keys,
        "not null": field.required,
        "hidden": field.name in columns.METADATA_NAMES,
    }
    return ", ".join(word for word, holds in words.items() if holds)


def _without(binding: TopicBinding, denied: Collection[str]) -> TopicBinding:
    """Returns a binding without the names of columns that may not be seen, in lower case."""
    if not denied:
        return binding
    key, sources = binding.key, binding.encoding.sources
    return dataclasses.replace(
        binding,
        key=None if key is None or key.lower() in denied else key,
        columns_from=tuple(str(s) for s in sources if s.column[0].lower() not in denied),
        deleted_by=None if _is_marked_by(binding, denied) else binding.deleted_by,
        primary_key=tuple(name for name in binding.primary_key if name.lower() not in denied),
        value_schema=None,  # schemas show every field
        key_schema=None,
    )


def _is_marked_by(binding: TopicBinding, names: Collection[str]) -> bool:
    mark = binding.encoding.delete_mark
    return mark is not None and mark.path[0].lower() in names


def _names(title: str, listed: list[str], statement: Show) -> Rows:
    rows = [(name,) for name in sorted(listed)]
    return table({title: types.VARCHAR}, matching(rows, statement.like, statement.escape))


_BUILT_IN = ("system", "builtin")
"""The schema that Trino's own functions are in."""
_OF_GRANTS = dict.fromkeys(
    (
        *("Grantor", "Grantor Type", "Grantee", "Grantee Type"),
        *("Catalog", "Schema", "Table", "Privilege", "Grantable", "Hierarchy"),
    ),
    types.VARCHAR,
)
_OF_COLUMNS = dict.fromkeys(("Column", "Type", "Extra", "Comment"), types.VARCHAR)
_OF_FUNCTIONS = dict.fromkeys(("Function", "Kind", "Signature"), types.VARCHAR)


def _functions(statement: Show) -> Rows:
    rows = [
        (name, overload.kind, overload.signature)
        for name, overloads in functions.FUNCTIONS.items()
        if not name.startswith("$")
        for overload in overloads
    ]
    rows += [
        (name, "scalar", signature)
        for name, signatures in functions.FORMS.items()
        for signature in signatures
    ]
    rows.sort(key=lambda row: row[0])
    return table(_OF_FUNCTIONS, matching(rows, statement.like, statement.escape))


def _comment(start: str, text: str | None) -> str:
    return start + quoted_text(text) if text else ""


def _property(value: object) -> str:
    if isinstance(value, tuple):
        return f"ARRAY[{', '.join(map(_property, value))}]"
    return quoted_text(str(value))
