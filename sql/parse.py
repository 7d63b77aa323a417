"""Text to one statement of an allowed kind.

Anything that is not one of the kinds below is refused by name; nothing is ever passed on as text.
Length, brackets and tokens are bounded before a parser sees the statement. Functions stay calls by
the name they were written with, so their meaning is decided in one place (`seamline.sql.functions`)
and not by a parser's idea of them.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from seamline.errors import (
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    STATEMENT_NOT_ALLOWED,
    STATEMENT_TOO_LARGE,
    SYNTAX_ERROR,
    ErrorCode,
    SeamlineError,
)
from seamline.sql import grammar, places
from seamline.sql.dialects import (
    numbered_by_name,
    translate,
)
from seamline.sql.places import location_at
from seamline.sql.queries import QUERY_STARTS, parse_tree, query_of
from seamline.sql.statements import (
    CreateTable,
    DropTable,
    Explain,
    Query,
    Show,
    Statement,
)
from seamline.sql.words import (
    DEPTH_MAX,
    TOKENS_MAX,
    Words,
    location_of,
    one_statement,
    tokenize,
)

__all__ = [
    "DEPTH_MAX",
    "LENGTH_MAX",
    "TOKENS_MAX",
    "CreateTable",
    "DropTable",
    "Explain",
    "Query",
    "Show",
    "Statement",
    "check_text",
    "parse",
    "parse_columns",
    "parse_name",
    "table_name",
]

LENGTH_MAX = 200_000


def parse(sql: str, *, dialect: str | None = None) -> Statement:
    """The one statement in `sql`.

    Args:
        sql: The text.
        dialect: Name of another dialect that sqlglot reads; a query is translated from it first.

    Raises:
        SeamlineError: SYNTAX_ERROR, MULTIPLE_STATEMENTS, STATEMENT_NOT_ALLOWED,
            STATEMENT_TOO_LARGE, NOT_SUPPORTED.
    """
    if len(sql) > LENGTH_MAX:
        raise SeamlineError(
            STATEMENT_TOO_LARGE, f"the statement has {len(sql)} characters, at most {LENGTH_MAX}"
        )
    check_text(sql, SYNTAX_ERROR)
    try:
        if dialect is not None and dialect.lower() not in {"trino", "seamline"}:
            return _own(sql) or _translated(sql, dialect)
        return _statement(sql, one_statement(tokenize(sql)))
    except RecursionError as error:
        raise SeamlineError(STATEMENT_TOO_LARGE, "the statement is nested too deeply") from error


def check_text(text: str, code: ErrorCode) -> None:
    """No engine takes the character 0, or half of a surrogate pair, which UTF-8 cannot write.

    Raises:
        SeamlineError: `code`.
    """
    wrong = next((i for i, c in enumerate(text) if c == "\0" or "\ud800" <= c <= "\udfff"), None)
    if wrong is not None:
        raise SeamlineError(
            code,
            f"the character U+{ord(text[wrong]):04X} cannot stand in a text",
            hint="",
            location=location_at(text, wrong) if code is SYNTAX_ERROR else None,
        )


# --- Tokens ------------------------------------------------------------------------------------


# --- Other dialects ----------------------------------------------------------------------------


_OWN = re.compile(
    r"\s*(SHOW|DESCRIBE|DESC|SET|RESET|USE|PREPARE|EXECUTE|DEALLOCATE)\b", re.IGNORECASE
)
"""How statements begin that are the same in every dialect."""


def _own(sql: str) -> Statement | None:
    """A statement of our own grammar, which no dialect needs to be translated from."""
    return _statement(sql, one_statement(tokenize(sql))) if _OWN.match(sql) else None


def _translated(sql: str, dialect: str) -> Query:
    """A query of another dialect in ours.

    Nodes have no location: the text they were read from is not the one that was sent.
    """
    text, count = translate(sql, dialect)
    try:
        query = query_of(text, one_statement(tokenize(text)))
    except SeamlineError as error:
        error.location = None
        raise
    for node in query.tree.walk():
        for key in ("line", "col"):
            node.meta.pop(key, None)
    if count:
        numbered_by_name(query.tree)
    return dataclasses.replace(query, placeholders=count)


# --- Statements --------------------------------------------------------------------------------


def _statement(sql: str, tokens: list[Token]) -> Statement:
    first = tokens[0].text.upper()
    if first in QUERY_STARTS:
        return query_of(sql, tokens)
    words = Words(tokens, sql)
    found = grammar.read(words)
    if found is not None:
        return found
    if first == "CREATE" and words.peek(1) == "TABLE":
        return _create_table(sql, tokens)
    if tokens[0].token_type in {TokenType.VAR, TokenType.NUMBER, TokenType.STRING}:
        known = {"REFRESH", "DENY", "CALL", "VACUUM", "OPTIMIZE"}
        if first not in known:
            raise SeamlineError(
                SYNTAX_ERROR,
                f"a statement cannot start with {tokens[0].text!r}",
                location=location_of(tokens[0]),
            )
    raise SeamlineError(
        STATEMENT_NOT_ALLOWED, f"{first} is not allowed", location=location_of(tokens[0])
    )


# --- CREATE TABLE ------------------------------------------------------------------------------


def _create_table(sql: str, tokens: list[Token]) -> CreateTable:
    tree = parse_tree(sql, tokens)
    if not isinstance(tree, exp.Create) or tree.args.get("expression") is not None:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            "only CREATE TABLE name (columns) WITH (topic = …) is allowed",
        )
    target = tree.this
    definitions: list[exp.Expr] = []
    if isinstance(target, exp.Schema):
        definitions, target = target.expressions, target.this
    properties = tree.args.get("properties")
    return CreateTable(
        name=table_name(target),
        columns=tuple(_column(definition) for definition in definitions),
        properties=tuple(_property(p) for p in (properties.expressions if properties else ())),
        if_not_exists=bool(tree.args.get("exists")),
    )


def parse_name(text: str) -> tuple[str, ...]:
    """The parts of a table's name as a statement writes it.

    Raises:
        SeamlineError: SYNTAX_ERROR.
    """
    words = Words(one_statement(tokenize(text)), text)
    name = words.name()
    words.end()
    return name


def parse_columns(text: str) -> tuple[tuple[str, exp.DataType, bool], ...]:
    """Column definitions as they stand between the brackets of CREATE TABLE.

    Raises:
        SeamlineError: SYNTAX_ERROR, NOT_SUPPORTED.
    """
    statement = parse(f"CREATE TABLE _ ({text})")
    assert isinstance(statement, CreateTable)
    return statement.columns


def table_name(table: exp.Expr) -> tuple[str, ...]:
    """The parts of a table's name as written, at most three.

    Raises:
        SeamlineError: SYNTAX_ERROR when it is not a plain name.
    """
    parts = table.parts if isinstance(table, exp.Table) else []
    names = tuple(part.name for part in parts)
    if not 1 <= len(names) <= 3 or not all(isinstance(p, exp.Identifier) for p in parts):
        raise SeamlineError(
            SYNTAX_ERROR,
            f"{table.sql('trino')} is not the name of a table",
            location=places.location_of(table),
            hint="a name is table, schema.table or catalog.schema.table",
        )
    return names


def _column(definition: exp.Expr) -> tuple[str, exp.DataType, bool]:
    if not isinstance(definition, exp.ColumnDef) or not isinstance(definition.kind, exp.DataType):
        raise SeamlineError(
            SYNTAX_ERROR,
            f"{definition.sql('trino')} is not a column",
            location=places.location_of(definition),
            hint="write: name type, …",
        )
    required = False
    for constraint in definition.constraints:
        if isinstance(constraint.kind, exp.NotNullColumnConstraint):
            required = not constraint.kind.args.get("allow_null")
        elif not isinstance(constraint.kind, exp.CommentColumnConstraint):
            raise SeamlineError(
                NOT_SUPPORTED,
                f"column {definition.name}: {constraint.sql('trino')} is not supported",
                location=places.location_of(definition),
                hint="NOT NULL is",
            )
    return definition.name, definition.kind, required


def _property(node: exp.Expr) -> tuple[str, Any]:
    if isinstance(node, exp.SchemaCommentProperty):
        return "comment", node.this.name
    if isinstance(node, exp.FileFormatProperty):
        return "format", node.this.name
    if isinstance(node, exp.PartitionedByProperty):
        return "partitioning", _property_value(node.this)
    if not isinstance(node, exp.Property) or "value" not in node.args:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"{node.sql('trino')} is not supported here",
            location=places.location_of(node),
        )
    return node.name.lower(), _property_value(node.args["value"])


def _property_value(value: exp.Expr) -> Any:
    match value:
        case exp.Literal() if value.is_string:
            return value.name
        case exp.Literal():
            return int(value.name) if value.name.isdigit() else float(value.name)
        case exp.Boolean():
            return bool(value.this)
        case exp.Array() | exp.Tuple() | exp.Schema():
            return tuple(_property_value(item) for item in value.expressions)
        case exp.Identifier() | exp.Column() | exp.Var():
            return value.name
    raise SeamlineError(
        INVALID_ARGUMENT,
        f"{value.sql('trino')} is not the value of a property",
        location=places.location_of(value),
    )
