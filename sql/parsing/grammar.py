"""Statements with a keyword grammar: SHOW, DESCRIBE, SET SESSION, USE and the like.

They are the same whatever dialect a request's queries are written in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp

from seamline.errors import (
    INVALID_LITERAL,
    NOT_SUPPORTED,
    STATEMENT_NOT_ALLOWED,
    SYNTAX_ERROR,
    Location,
    SeamlineError,
)
from seamline.sql import time_zones
from seamline.sql.locations import locate_errors_at
from seamline.sql.parsing import roles, table_procedures
from seamline.sql.parsing.definitions import create_table, makes_table, parse_columns
from seamline.sql.parsing.queries import QUERY_STARTS, expressions_of, query_of
from seamline.sql.parsing.row_changes import STARTS, row_changes
from seamline.sql.parsing.statements import (
    AddColumn,
    AlterTable,
    ChangeRows,
    ColumnDefinition,
    Comment,
    CreateSchema,
    CreateTableAs,
    CreateView,
    Deallocate,
    DescribePrepared,
    DropColumn,
    DropNotNull,
    DropSchema,
    DropTable,
    DropView,
    Execute,
    Explain,
    Insert,
    KillStatement,
    MaintainTable,
    Prepare,
    Query,
    RenameColumn,
    RenameTable,
    RenameView,
    SetColumnType,
    SetProperties,
    SetSession,
    SetTimeZone,
    Show,
    ShowStats,
    Statement,
    TableChange,
    Transaction,
    Use,
)
from seamline.sql.parsing.words import Words


def read(words: Words) -> Statement | None:
    """Parses the statement if it is one of these; returns None otherwise.

    Raises:
        SeamlineError: SYNTAX_ERROR, STATEMENT_NOT_ALLOWED.
    """
    for start, reader in GRAMMAR.items():
        if words.take(*start.split()):
            statement = reader(words)
            words.end()
            return statement
    return None


# --- EXPLAIN -------------------------------------------------------------------------------------


def _explain(words: Words) -> Explain:
    analyze = words.take("ANALYZE")
    verbose = analyze and words.take("VERBOSE")
    options = {"TYPE": "DISTRIBUTED", "FORMAT": "TEXT"}
    if not analyze and words.peek() == "(" and words.peek(1) in options:
        words.take("(")
        while True:
            name, location = words.peek(), words.location(1)
            if not words.take(name) or name not in options:
                raise words.missing("TYPE or FORMAT")
            options[name] = words.identifier().upper()
            if options[name] not in _EXPLAINED[name]:
                raise SeamlineError(
                    NOT_SUPPORTED,
                    f"EXPLAIN ({name} {options[name]}) is not supported",
                    location=location,
                    hint=f"{name} is one of: {', '.join(_EXPLAINED[name])}.",
                )
            if not words.take(","):
                break
        words.require(")")
    if not words.text():
        raise words.missing("a statement")
    query = _explained(words, analyze=analyze)
    return Explain(query, analyze, options["TYPE"], options["FORMAT"], verbose)


def _explained(words: Words, *, analyze: bool) -> Query:
    """Parses a query, or a statement that writes a query's result, and returns the query."""
    location, first = words.location(), words.peek()
    if first in QUERY_STARTS:
        return query_of(words.sql, words.rest())
    statement: Statement | None = None
    if words.take("INSERT", "INTO"):
        statement = _insert(words)
    elif first in STARTS:
        statement = row_changes(words.sql, words.rest())
    elif first == "CREATE" and makes_table(tokens := words.rest()):
        statement = create_table(words.sql, tokens)
    if not isinstance(statement, Insert | CreateTableAs | ChangeRows):
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            "only queries, and statements that write the result of a query, can be explained",
            location=location,
        )
    if analyze:
        raise SeamlineError(
            NOT_SUPPORTED,
            "EXPLAIN ANALYZE runs the statement, so it takes only queries",
            location=location,
            hint="EXPLAIN without ANALYZE shows how its rows are read.",
        )
    return statement.query


_EXPLAINED = {
    "TYPE": ("LOGICAL", "DISTRIBUTED", "VALIDATE", "IO"),
    "FORMAT": ("TEXT", "JSON"),
}


# --- SHOW and DESCRIBE ---------------------------------------------------------------------------


def _describe(words: Words) -> Show:
    return Show("columns", location=words.location(), name=words.name())


def _show(words: Words) -> Show | ShowStats:
    listed = next((what for what in roles.SHOWN if words.take(*what.upper().split())), None)
    if listed is not None:
        return roles.show(words, listed)
    what = next((what for what in _SHOWN if words.take(*what.upper().split())), None)
    if what is None:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"SHOW {words.peek()} is not known",
            location=words.location(),
            hint="SHOW CATALOGS, SCHEMAS, TABLES, COLUMNS, BRANCHES, FUNCTIONS, SESSION, STATS, "
            "ROLES, GRANTS, CREATE SCHEMA, CREATE TABLE and CREATE VIEW are.",
        )
    location = words.location(1)
    if what == "stats":
        words.require("FOR")
        if words.peek() == "(":
            return _stats_of_query(words)
        return Show(what, words.name(), location=location)
    if what == "branches":
        if not words.take("IN"):
            words.require("FROM")
        words.require("TABLE")
        return Show(what, location=words.location(), name=words.name())
    if what == "create schema":
        return Show(what, location=words.location(), name=_schema(words))
    if what.startswith("create"):
        return Show(what, location=words.location(), name=words.name())
    name: tuple[str, ...] = ()
    if _SHOWN[what] and (words.take("FROM") or words.take("IN")):
        name = words.name()
    like = words.string() if words.take("LIKE") else None
    escape = words.string() if like is not None and words.take("ESCAPE") else None
    return Show(what, name, like, escape, location=location)


def _stats_of_query(words: Words) -> ShowStats:
    _, *tokens = words.rest()
    if len(tokens) < 2 or tokens[-1].text != ")":
        raise words.missing("a query in parentheses")
    return ShowStats(query_of(words.sql, tokens[:-1]))


_SHOWN = {
    "create schema": False,
    "create table": False,
    "create view": False,
    "branches": False,
    "catalogs": False,
    "functions": True,
    "session": False,
    "schemas": True,
    "tables": True,
    "columns": True,
    "stats": False,
}
"""The objects that SHOW accepts, and whether FROM may narrow them down."""


# --- The session ---------------------------------------------------------------------------------


def _authorization(word: str) -> Callable[[Words], Statement]:
    def read(words: Words) -> Statement:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"{word} SESSION AUTHORIZATION is not allowed",
            location=words.location(-1),
            hint="Connect as the other user.",
        )

    return read


def _set_session(words: Words) -> SetSession:
    location = words.location()
    name = ".".join(words.name())
    words.require("=")
    return SetSession(name, words.constant(), location=location)


def _set_time_zone(words: Words) -> SetTimeZone:
    """Reads SET TIME ZONE: LOCAL, the name of a zone, or an interval of hours and minutes."""
    location = words.location()
    if words.take("LOCAL"):
        return SetTimeZone(None, location=location)
    if not words.take("INTERVAL"):
        with locate_errors_at(location):
            return SetTimeZone(time_zones.named(words.string()), location=location)
    sign = -1 if words.take("-") else 1
    text = words.string()
    words.require("HOUR")
    form = r"([+-]?)(\d{1,2}):([0-5]\d)" if words.take("TO", "MINUTE") else r"([+-]?)(\d{1,2})()"
    match = re.fullmatch(form, text)
    if match is None:
        raise SeamlineError(
            INVALID_LITERAL,
            f"{text!r} is not an offset",
            hint="INTERVAL '2' HOUR, or INTERVAL -'03:30' HOUR TO MINUTE.",
        )
    minutes = int(match[2]) * 60 + int(match[3] or 0)
    offset = time_zones.of_minutes(sign * (-minutes if match[1] == "-" else minutes))
    return SetTimeZone(time_zones.named(offset), location=location)


def _reset_session(words: Words) -> SetSession:
    return SetSession(location=words.location(), name=".".join(words.name()), value=None)


def _use(words: Words) -> Use:
    location = words.location()
    name = words.name()
    if len(name) > 2:
        raise SeamlineError(
            SYNTAX_ERROR, "USE takes a schema, or a catalog and a schema", location=location
        )
    return Use(name, location=location)


_KILL = ("system", "runtime", "kill_query")
_KILL_PARAMETERS = ("query_id", "message")


def _call(words: Words) -> KillStatement:
    location, name = words.location(), words.name()
    if tuple(part.lower() for part in name) != _KILL:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"there is no procedure {'.'.join(name)}",
            location=location,
            hint=f"CALL {'.'.join(_KILL)}(query_id => '…') ends a statement.",
        )
    words.require("(")
    arguments: dict[str, str] = {}
    for parameter in _KILL_PARAMETERS:
        named = words.peek(1) == "=>"
        key = words.identifier().lower() if named else parameter
        if key not in _KILL_PARAMETERS or key in arguments:
            raise words.unexpected_next("query_id or message")
        if named:
            words.take("=>")
        arguments[key] = words.string()
        if not words.take(","):
            break
    words.require(")")
    if "query_id" not in arguments:
        raise SeamlineError(SYNTAX_ERROR, "kill_query needs a query_id", location=location)
    return KillStatement(arguments["query_id"], arguments.get("message", ""), location=location)


def _start_transaction(words: Words) -> Transaction:
    location = words.location()
    while any(words.take(*mode.split()) for mode in _MODES):
        words.take(",")
    return Transaction("START TRANSACTION", location=location)


_MODES = (
    "READ ONLY",
    "READ WRITE",
    *(
        f"ISOLATION LEVEL {level}"
        for level in ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
    ),
)


def _end_transaction(what: str) -> Callable[[Words], Transaction]:
    def read(words: Words) -> Transaction:
        location = words.location()
        words.take("WORK")
        return Transaction(what, location=location)

    return read


# --- Prepared statements -------------------------------------------------------------------------


def _prepare(words: Words) -> Prepare:
    location, name = words.location(), words.identifier().lower()
    words.require("FROM")
    if not words.text():
        raise words.missing("a statement")
    text = words.text()
    words.rest()
    return Prepare(name, text, location=location)


def _execute(words: Words) -> Execute:
    location, name, text = words.location(), "", ""
    if words.take("IMMEDIATE"):
        location, text = words.location(), words.string()
    else:
        name = words.identifier().lower()
    values = Query(exp.Select())
    if words.take("USING"):
        values = expressions_of(words.sql, words.rest())
    return Execute(name, text, values, location=location)


def _deallocate(words: Words) -> Deallocate:
    return Deallocate(location=words.location(), name=words.identifier().lower())


def _describe_prepared(what: str) -> Callable[[Words], DescribePrepared]:
    return lambda words: DescribePrepared(
        what, location=words.location(), name=words.identifier().lower()
    )


# --- Views ---------------------------------------------------------------------------------------


def _create_view(words: Words, *, replace: bool = False) -> CreateView:
    location, name = words.location(), words.name()
    comment = words.string() if words.take("COMMENT") else None
    as_owner = False
    if words.take("SECURITY"):
        as_owner = words.take("DEFINER")
        if not as_owner and not words.take("INVOKER"):
            raise words.unexpected_next("DEFINER or INVOKER")
    words.require("AS")
    if not words.text():
        raise words.missing("a query")
    text, start = words.text(), words.location()
    query = query_of(words.sql, words.rest())
    calls = any(isinstance(table.this, exp.Func) for table in query.tree.find_all(exp.Table))
    if query.placeholders or query.token or calls:
        raise SeamlineError(
            NOT_SUPPORTED, "a view can have neither parameters nor a token", location=start, hint=""
        )
    return CreateView(name, query, text, replace, comment, as_owner, location=location)


def _replace_view(words: Words) -> CreateView:
    return _create_view(words, replace=True)


def _drop_view(words: Words) -> DropView:
    if_exists = words.take("IF", "EXISTS")
    return DropView(location=words.location(), name=words.name(), if_exists=if_exists)


def _rename_view(words: Words) -> RenameView:
    location, name = words.location(), words.name()
    words.require("RENAME")
    words.require("TO")
    return RenameView(name, words.name(), location=location)


# --- Tables --------------------------------------------------------------------------------------


def _insert(words: Words) -> Insert:
    location, name = words.location(), words.name()
    columns: list[str] = []
    if words.peek() == "(" and words.peek(1) not in QUERY_STARTS:
        words.take("(")
        columns.append(words.identifier())
        while words.take(","):
            columns.append(words.identifier())
        words.require(")")
    if not words.text():
        raise words.missing("a query or VALUES")
    return Insert(name, tuple(columns), query_of(words.sql, words.rest()), location=location)


def _comment(words: Words) -> Comment:
    what = next((w for w in ("table", "view", "column") if words.take(w.upper())), None)
    if what is None:
        raise words.unexpected_next("TABLE, VIEW or COLUMN")
    location, name = words.location(), words.name()
    words.require("IS")
    text = None if words.take("NULL") else words.string()
    return Comment(what, name, text, location=location)


def _alter_table(words: Words) -> AlterTable | MaintainTable:
    if_exists = words.take("IF", "EXISTS")
    location, name = words.location(), words.name()
    if words.take("EXECUTE"):
        return table_procedures.read(words, name, location, if_exists=if_exists)
    if words.take("ADD", "COLUMN"):
        change: TableChange = _add_column(words)
    elif words.take("DROP", "COLUMN"):
        missing = words.take("IF", "EXISTS")
        change = DropColumn(words.name(), missing)
    elif words.take("RENAME", "COLUMN"):
        missing = words.take("IF", "EXISTS")
        column = words.name()
        words.require("TO")
        change = RenameColumn(column, words.identifier(), missing)
    elif words.take("RENAME", "TO"):
        change = RenameTable(words.name())
    elif words.take("ALTER", "COLUMN"):
        change = _alter_column(words)
    elif words.take("SET", "PROPERTIES"):
        change = _set_properties(words)
    else:
        raise _not_altered(words)
    return AlterTable(name, change, if_exists, location=location)


def _not_altered(words: Words) -> SeamlineError:
    return SeamlineError(
        NOT_SUPPORTED,
        f"ALTER TABLE … {words.peek()} is not supported",
        location=words.location(),
        hint="ADD, DROP, RENAME and ALTER COLUMN, RENAME TO, SET PROPERTIES and EXECUTE are.",
    )


def _add_column(words: Words) -> AddColumn:
    missing, within = words.take("IF", "NOT", "EXISTS"), []
    while words.peek(1) == ".":
        within.append(words.identifier())
        words.require(".")
    column = _definition(words, words.location(), words.text())
    return AddColumn(column, tuple(within), missing)


def _alter_column(words: Words) -> SetColumnType | DropNotNull:
    column = words.name()
    if words.take("DROP", "NOT", "NULL"):
        return DropNotNull(column)
    for word in ("SET", "DATA", "TYPE"):
        words.require(word)
    definition = _definition(words, words.location(), f"x {words.text()}" if words.text() else "")
    return SetColumnType(column, definition.type)


def _definition(words: Words, location: Location | None, text: str) -> ColumnDefinition:
    """Parses the rest of a statement, which defines one column."""
    if not text:
        raise words.missing("a column")
    words.rest()
    try:
        columns = parse_columns(text)
    except SeamlineError as error:
        error.location = location
        raise
    if len(columns) != 1:
        raise SeamlineError(
            SYNTAX_ERROR,
            "there is more than one column",
            location=location,
            hint="Add them one at a time.",
        )
    return columns[0]


def _set_properties(words: Words) -> SetProperties:
    pairs = []
    while True:
        name = words.identifier().lower()
        words.require("=")
        pairs.append((name, _list(words) if words.take("ARRAY") else words.constant()))
        if not words.take(","):
            return SetProperties(tuple(pairs))


def _list(words: Words) -> str:
    """Returns the constants of an array, separated by commas."""
    words.require("[")
    items: list[str] = []
    while not words.take("]"):
        if items:
            words.require(",")
        items.append(words.constant())
    return ", ".join(items)


def _drop_table(words: Words) -> DropTable:
    if_exists = words.take("IF", "EXISTS")
    return DropTable(location=words.location(), name=words.name(), if_exists=if_exists)


# --- Schemas -------------------------------------------------------------------------------------


def _create_schema(words: Words) -> CreateSchema:
    missing = words.take("IF", "NOT", "EXISTS")
    return CreateSchema(location=words.location(), name=_schema(words), if_not_exists=missing)


def _drop_schema(words: Words) -> DropSchema:
    if_exists = words.take("IF", "EXISTS")
    location, name = words.location(), _schema(words)
    cascade = not words.take("RESTRICT") and words.take("CASCADE")
    return DropSchema(name, if_exists, cascade, location=location)


def _schema(words: Words) -> tuple[str, ...]:
    location, name = words.location(), words.name()
    if len(name) > 2:
        raise SeamlineError(
            SYNTAX_ERROR, "a schema's name is schema or catalog.schema", location=location
        )
    return name


GRAMMAR: Mapping[str, Callable[[Words], Statement]] = {
    "EXPLAIN": _explain,
    "SHOW": _show,
    "DESCRIBE INPUT": _describe_prepared("input"),
    "DESCRIBE OUTPUT": _describe_prepared("output"),
    "DESCRIBE": _describe,
    "DESC": _describe,
    **{f"{word} SESSION AUTHORIZATION": _authorization(word) for word in ("SET", "RESET")},
    "SET SESSION": _set_session,
    "SET ROLE": roles.set_role,
    "SET TIME ZONE": _set_time_zone,
    "RESET SESSION": _reset_session,
    "USE": _use,
    "CALL": _call,
    "START TRANSACTION": _start_transaction,
    "COMMIT": _end_transaction("COMMIT"),
    "ROLLBACK": _end_transaction("ROLLBACK"),
    "PREPARE": _prepare,
    "EXECUTE": _execute,
    "DEALLOCATE PREPARE": _deallocate,
    "CREATE SCHEMA": _create_schema,
    "DROP SCHEMA": _drop_schema,
    "CREATE VIEW": _create_view,
    "CREATE OR REPLACE VIEW": _replace_view,
    "DROP VIEW": _drop_view,
    "ALTER VIEW": _rename_view,
    "INSERT INTO": _insert,
    "COMMENT ON": _comment,
    "ALTER TABLE": _alter_table,
    "DROP TABLE": _drop_table,
    **{what: roles.refused(what) for what in ("GRANT", "REVOKE", "DENY")},
    **{what: roles.refused(what) for what in ("CREATE ROLE", "DROP ROLE")},
}
"""The leading keywords of a statement and the reader of its rest; longer ones come first."""
