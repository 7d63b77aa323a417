# ruff: noqa: ARG002 - the signatures are SQLAlchemy's
"""The dialect: addresses, SQL for the gateway, and reflection.

Each statement is its own transaction, so commit and rollback do nothing, and AUTOCOMMIT is the only
isolation level. Tables have neither keys nor constraints nor indexes: those that a model declares
are left out. Anything else a gateway cannot express is refused with a named error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from sqlalchemy import event, exc, text, types, util
from sqlalchemy.engine import URL, Connection, Engine, default, reflection
from sqlalchemy.engine.interfaces import ConnectArgsType
from sqlalchemy.sql import compiler, elements

import seamline
from seamline.errors import GATEWAY_UNAVAILABLE
from seamline.sqlalchemy.types import OWN, TypeCompiler, from_name

_OPTIONS = frozenset(
    {"access_token", "ca", "certificate", "key", "engine", "time_zone", "compression"}
)
_PORT = 8474
_NO_INDEX = "-- tables have no indexes:"
_RESERVED = """
alter and as between by case cast constraint create cross cube current_catalog current_date
current_path current_role current_schema current_time current_timestamp current_user deallocate
delete describe distinct drop else end escape except execute exists extract false for from full
group grouping having in inner insert intersect into is join json_array json_exists json_object
json_query json_table json_value left like listagg localtime localtimestamp natural normalize
not null on or order outer prepare recursive right rollup select skip table then trim true
uescape union unnest using values when where with
""".split()  # noqa: SIM905 - read as a list of words


class IdentifierPreparer(compiler.IdentifierPreparer):
    """Quotes reserved words and names that are not plain, such as `bids$hot`."""

    reserved_words = frozenset(_RESERVED)  # type: ignore[assignment]  # nobody changes it
    legal_characters = re.compile(r"^[A-Z0-9_]+$", re.IGNORECASE)


def _bitwise(function: str) -> Callable[..., str]:
    """Returns a method that compiles an operator to a function call on its operands."""

    def compiled(
        self: Compiler, binary: elements.BinaryExpression[Any], _: Any, **arguments: Any
    ) -> str:
        operands = (self.process(side, **arguments) for side in (binary.left, binary.right))
        return f"{function}({', '.join(operands)})"

    return compiled


class Compiler(compiler.SQLCompiler):
    """Compiles queries, INSERT, DELETE and UPDATE."""

    def limit_clause(self, select: Any, **arguments: Any) -> str:
        """Compiles LIMIT and OFFSET, either or both."""
        clauses = (("LIMIT", select._limit_clause), ("OFFSET", select._offset_clause))  # noqa: SLF001
        parts = (f"\n {w} {self.process(c, **arguments)}" for w, c in clauses if c is not None)
        return "".join(parts)

    def for_update_clause(self, select: Any, **_: Any) -> str:
        """Returns nothing: a statement reads one state of its tables, and nothing is locked."""
        return ""

    def update_from_clause(self, update_stmt: Any, *_: Any, **__: Any) -> str:
        """Refuses an UPDATE that names a second table outside a subquery.

        Raises:
            CompileError: always.
        """
        raise exc.CompileError("UPDATE reads other tables in subqueries only, as in Trino")

    def delete_extra_from_clause(self, delete_stmt: Any, *_: Any, **__: Any) -> str:
        """Refuses a DELETE that names a second table outside a subquery.

        Raises:
            CompileError: always.
        """
        raise exc.CompileError("DELETE reads other tables in subqueries only, as in Trino")

    def visit_empty_set_expr(self, element_types: Sequence[Any], **_: Any) -> str:
        """Returns a query without rows, with columns of the compared types."""
        process = self.dialect.type_compiler_instance.process
        columns = (
            "NULL" if isinstance(type_, types.NullType) else f"CAST(NULL AS {process(type_)})"
            for type_ in element_types or [types.NULLTYPE]
        )
        return f"SELECT {', '.join(columns)} WHERE 1 != 1"

    visit_bitwise_and_op_binary = _bitwise("bitwise_and")
    visit_bitwise_or_op_binary = _bitwise("bitwise_or")
    visit_bitwise_xor_op_binary = _bitwise("bitwise_xor")
    visit_bitwise_lshift_op_binary = _bitwise("bitwise_left_shift")
    visit_bitwise_rshift_op_binary = _bitwise("bitwise_right_shift_arithmetic")

    def visit_bitwise_not_op_unary_operator(
        self, unary: elements.UnaryExpression[Any], _: Any, **arguments: Any
    ) -> str:
        """Compiles to the function `bitwise_not`."""
        return f"bitwise_not({self.process(unary.element, **arguments)})"

    def visit_regexp_match_op_binary(
        self, binary: elements.BinaryExpression[Any], operator: Any, **arguments: Any
    ) -> str:
        """Compiles to `regexp_like`; flags are written as in `(?i)`."""
        return f"regexp_like({self._matched(binary, **arguments)})"

    def visit_not_regexp_match_op_binary(
        self, binary: elements.BinaryExpression[Any], operator: Any, **arguments: Any
    ) -> str:
        """Compiles to `NOT regexp_like`."""
        return f"NOT regexp_like({self._matched(binary, **arguments)})"

    def visit_regexp_replace_op_binary(
        self, binary: elements.BinaryExpression[Any], operator: Any, **arguments: Any
    ) -> str:
        """Compiles to `regexp_replace`, which replaces every match."""
        pattern, replacement = binary.right.clauses
        matched = self._matched(binary, pattern, **arguments)
        return f"regexp_replace({matched}, {self.process(replacement, **arguments)})"

    def _matched(
        self, binary: elements.BinaryExpression[Any], pattern_: Any = None, **arguments: Any
    ) -> str:
        value = self.process(binary.left, **arguments)
        pattern = self.process(binary.right if pattern_ is None else pattern_, **arguments)
        flags = (binary.modifiers or {}).get("flags")
        if flags is None:
            return f"{value}, {pattern}"
        return f"{value}, {self.render_literal_value(f'(?{flags})', types.STRINGTYPE)} || {pattern}"


class DDLCompiler(compiler.DDLCompiler):
    """Compiles CREATE TABLE with names and types, COMMENT and DROP."""

    def create_table_constraints(
        self, table: Any, _include_foreign_key_constraints: Any = None, **_: Any
    ) -> str:
        """Returns nothing: tables have no constraints."""
        return ""

    def get_column_specification(self, column: Any, **_: Any) -> str:
        """Returns a column's name and type, and NOT NULL if it is required.

        Raises:
            CompileError: for a column whose values the database would have to generate.
        """
        if column.server_default is not None or column.computed is not None:
            raise exc.CompileError(f"{column.name}: columns have no defaults on the server")
        name = self.preparer.format_column(column)
        type_ = self.dialect.type_compiler_instance.process(column.type, type_expression=column)
        required = "" if column.nullable or column.primary_key else " NOT NULL"
        return f"{name} {type_}{required}"

    def visit_create_index(self, create: Any, *_: Any, **__: Any) -> str:
        """Returns a comment, which is not sent: an index does not change any result."""
        return f"{_NO_INDEX} {create.element.name}"

    def visit_drop_index(self, drop: Any, **_: Any) -> str:
        """Returns a comment, as `visit_create_index` does."""
        return f"{_NO_INDEX} {drop.element.name}"


class SeamlineDialect(default.DefaultDialect):
    """The dialect for `seamline://user:password@host:port/catalog/schema?tls=true`."""

    name = "seamline"
    driver = "seamline"
    default_paramstyle = "qmark"
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_uuid = True
    supports_alter = False
    supports_comments = True
    supports_default_values = False
    supports_default_metavalue = False
    supports_empty_insert = False
    supports_multivalues_insert = True
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = True
    supports_sequences = False
    use_insertmanyvalues_wo_returning = True
    cte_follows_insert = True
    supports_schemas = True
    supports_views = True
    postfetch_lastrowid = False
    insert_returning = False
    max_identifier_length = 255

    preparer = IdentifierPreparer
    statement_compiler = Compiler
    ddl_compiler = DDLCompiler
    type_compiler_cls = TypeCompiler
    colspecs = OWN  # type: ignore[assignment]  # nobody changes it

    _json_serializer = None
    _json_deserializer = None

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Returns the client module."""
        return seamline

    def create_connect_args(self, url: URL) -> ConnectArgsType:
        """Returns the arguments for `seamline.connect`.

        Args:
            url: The SQLAlchemy URL. Its query may have `tls`, and `access_token`, `ca`,
                `certificate`, `key`, `engine`, `time_zone` and `compression` as for `connect`. Its
                database is a catalog, or catalog/schema.

        Raises:
            ArgumentError: for anything else in the query.
        """
        query = dict(url.query)
        tls = util.asbool(query.pop("tls", False))
        unknown = set(query) - _OPTIONS
        if unknown:
            raise exc.ArgumentError(f"{min(unknown)!r} is not an option of a seamline:// address")
        host = f"[{url.host}]" if ":" in (url.host or "") else url.host or "127.0.0.1"
        catalog, _, schema = (url.database or "").strip("/").partition("/")
        address = f"{'https' if tls else 'http'}://{host}:{url.port or _PORT}"
        identity = {"user": url.username, "password": url.password, "catalog": catalog}
        options = {k: v for k, v in {**identity, "schema": schema, **query}.items() if v}
        return [address], options

    # --- Connections -----------------------------------------------------------------------------

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        """Makes connections returned to the pool start over, as they may get a different user."""

        def start_over(connection: Any, _: Any) -> None:
            if connection is not None:
                connection.last_token = None

        event.listen(engine, "checkin", start_over)

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether the gateway answers."""
        dbapi_connection.execute("SELECT 1").close()
        return True

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Whether the gateway failed, rather than the statement."""
        return isinstance(e, seamline.Error) and e.code is GATEWAY_UNAVAILABLE

    def get_isolation_level_values(self, dbapi_conn: Any) -> Sequence[Any]:
        """Returns the only isolation level."""
        return ["AUTOCOMMIT"]

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        """Returns AUTOCOMMIT: each statement is its own transaction."""
        return "AUTOCOMMIT"

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """Does nothing, as there is only one isolation level."""

    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:
        versions = connection.exec_driver_sql("SELECT node_version FROM system.runtime.nodes")
        return tuple(int(number) for number in re.findall(r"\d+", str(versions.scalar())))

    def _get_default_schema_name(self, connection: Connection) -> str:
        schema: str | None = connection.connection.dbapi_connection.schema  # type: ignore[union-attr]
        return schema or "default"

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Executes a statement; skips the comments that stand for index statements."""
        if not statement.startswith(_NO_INDEX):
            cursor.execute(statement, parameters)

    # --- Reflection ------------------------------------------------------------------------------

    @reflection.cache
    def get_schema_names(self, connection: Connection, **_: Any) -> list[str]:
        """Returns the schemas of the catalog."""
        return self._names(
            connection, "SELECT schema_name FROM information_schema.schemata ORDER BY 1"
        )

    @reflection.cache
    def get_table_names(
        self, connection: Connection, schema: str | None = None, **_: Any
    ) -> list[str]:
        """Returns the tables of a schema, without views."""
        return self._names(
            connection,
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema = :schema AND table_type = 'BASE TABLE' ORDER BY 1",
            schema=self._schema(schema),
        )

    @reflection.cache
    def get_view_names(
        self, connection: Connection, schema: str | None = None, **_: Any
    ) -> list[str]:
        """Returns the views of a schema."""
        return self._names(
            connection,
            "SELECT table_name FROM information_schema.views"
            " WHERE table_schema = :schema ORDER BY 1",
            schema=self._schema(schema),
        )

    @reflection.cache
    def get_view_definition(
        self, connection: Connection, view_name: str, schema: str | None = None, **_: Any
    ) -> str:
        """Returns the query of a view.

        Raises:
            NoSuchTableError: when there is no such view.
        """
        queries = self._names(
            connection,
            "SELECT view_definition FROM information_schema.views"
            " WHERE table_schema = :schema AND lower(table_name) = :name",
            schema=self._schema(schema),
            name=view_name.lower(),
        )
        if not queries:
            raise exc.NoSuchTableError(view_name)
        return queries[0]

    @reflection.cache
    def has_table(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> bool:
        """Whether there is a table or view of that name."""
        return bool(
            self._names(
                connection,
                "SELECT table_name FROM information_schema.tables"
                " WHERE table_schema = :schema AND lower(table_name) = :name",
                schema=self._schema(schema),
                name=table_name.lower(),
            )
        )

    @reflection.cache
    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[Any]:
        """Returns the columns of a table or view, without hidden ones.

        Raises:
            NoSuchTableError: when there is no such table.
        """
        rows = connection.execute(
            text(
                "SELECT column_name, data_type, is_nullable, comment"
                " FROM information_schema.columns"
                " WHERE table_schema = :schema AND lower(table_name) = :name"
                " ORDER BY ordinal_position"
            ),
            {"schema": self._schema(schema), "name": table_name.lower()},
        ).all()
        if not rows:
            self._require(connection, table_name, schema)
        return [
            {
                "name": name,
                "type": from_name(type_),
                "nullable": nullable == "YES",
                "default": None,
                "comment": comment,
            }
            for name, type_, nullable, comment in rows
        ]

    @reflection.cache
    def get_table_comment(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> Any:
        """Returns the comment of a table.

        Raises:
            NoSuchTableError: when there is no such table.
        """
        self._require(connection, table_name, schema)
        comments = self._names(
            connection,
            "SELECT c.comment FROM information_schema.tables t JOIN system.metadata.table_comments"
            " c ON c.catalog_name = t.table_catalog AND c.schema_name = t.table_schema"
            " AND c.table_name = t.table_name"
            " WHERE t.table_schema = :schema AND lower(t.table_name) = :name",
            schema=self._schema(schema),
            name=table_name.lower(),
        )
        return {"text": comments[0] if comments else None}

    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> Any:
        """Returns an empty constraint: tables have no primary keys.

        Raises:
            NoSuchTableError: when there is no such table.
        """
        self._require(connection, table_name, schema)
        return {"constrained_columns": [], "name": None}

    def _no_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[Any]:
        self._require(connection, table_name, schema)
        return []

    get_foreign_keys = get_indexes = _no_constraints
    get_unique_constraints = get_check_constraints = _no_constraints

    def _require(self, connection: Connection, table_name: str, schema: str | None) -> None:
        if not self.has_table(connection, table_name, schema):
            raise exc.NoSuchTableError(table_name)

    def _schema(self, schema: str | None) -> str:
        return (schema or self.default_schema_name or "default").lower()

    def _names(self, connection: Connection, query: str, **parameters: str) -> list[str]:
        return list(connection.execute(text(query), parameters).scalars())
