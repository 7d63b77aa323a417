"""Parses text into one statement of an allowed kind.

Any other kind of statement is refused by name; nothing is ever passed on as text. Length, nesting
and token count are bounded before a parser sees the statement. Functions stay calls under the name
they were written with, so their meaning is decided in one place (`seamline.sql.functions`) and not
by a parser.
"""

from __future__ import annotations

import dataclasses
import itertools
import re

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from seamline.errors import (
    NOT_SUPPORTED,
    STATEMENT_NOT_ALLOWED,
    STATEMENT_TOO_LARGE,
    SYNTAX_ERROR,
    ErrorCode,
    SeamlineError,
)
from seamline.sql.locations import location_at, move
from seamline.sql.parsing import absent, grammar
from seamline.sql.parsing.definitions import create_table, makes_table, parse_columns, table_name
from seamline.sql.parsing.dialects import (
    numbered_by_name,
    translate,
)
from seamline.sql.parsing.queries import QUERY_STARTS, query_of
from seamline.sql.parsing.row_changes import STARTS, row_changes
from seamline.sql.parsing.statements import (
    CreateTable,
    DropTable,
    Explain,
    Query,
    Show,
    ShowStats,
    Statement,
)
from seamline.sql.parsing.words import (
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
    "ShowStats",
    "Statement",
    "check_text",
    "parse",
    "parse_columns",
    "parse_expression",
    "parse_name",
    "table_name",
]

LENGTH_MAX = 200_000


def parse(sql: str, *, dialect: str | None = None) -> Statement:
    """Parses the single statement in `sql`.

    Args:
        sql: The text.
        dialect: Name of another dialect that sqlglot reads; a query is translated from it first.

    Raises:
        SeamlineError: SYNTAX_ERROR, MULTIPLE_STATEMENTS, STATEMENT_NOT_ALLOWED,
            STATEMENT_TOO_LARGE, NOT_SUPPORTED.
    """
    if len(sql) > LENGTH_MAX:
        raise SeamlineError(
            STATEMENT_TOO_LARGE,
            f"the statement has {len(sql)} characters; at most {LENGTH_MAX} are allowed",
        )
    check_text(sql, SYNTAX_ERROR)
    try:
        if dialect is not None and dialect.lower() not in {"trino", "seamline"}:
            return _own(sql) or _translated(sql, dialect)
        return _statement(sql, one_statement(tokenize(sql)))
    except RecursionError as error:
        raise SeamlineError(STATEMENT_TOO_LARGE, "the statement is nested too deeply") from error


def check_text(text: str, code: ErrorCode) -> None:
    """Refuses NUL and lone surrogates, which UTF-8 cannot encode: no engine accepts either.

    Raises:
        SeamlineError: `code`.
    """
    wrong = next((i for i, c in enumerate(text) if c == "\0" or "\ud800" <= c <= "\udfff"), None)
    if wrong is not None:
        raise SeamlineError(
            code,
            f"the character U+{ord(text[wrong]):04X} cannot appear in text",
            hint="",
            location=location_at(text, wrong) if code is SYNTAX_ERROR else None,
        )


# --- Tokens ------------------------------------------------------------------------------------


# --- Other dialects ----------------------------------------------------------------------------


_OWN = re.compile(
    r"\s*(SHOW|DESCRIBE|DESC|SET|RESET|USE|PREPARE|EXECUTE|DEALLOCATE|START|COMMIT|ROLLBACK|CALL"
    r"|GRANT|REVOKE|DENY)\b",
    re.IGNORECASE,
)
"""Matches the beginning of statements that are the same in every dialect."""


def _own(sql: str) -> Statement | None:
    """Parses a statement that needs no translation from any dialect; None for any other."""
    return _statement(sql, one_statement(tokenize(sql))) if _OWN.match(sql) else None


def _translated(sql: str, dialect: str) -> Query:
    """Translates a query of another dialect and parses it.

    Nodes have no location, because they were parsed from text other than the one that was sent.
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
    try:
        return _accepted(sql, tokens)
    except SeamlineError as error:
        explained = absent.explained(error, tokens)
        if explained is error:
            raise
        raise explained from error


def _accepted(sql: str, tokens: list[Token]) -> Statement:
    first = tokens[0].text.upper()
    if first in QUERY_STARTS:
        return query_of(sql, tokens)
    words = Words(tokens, sql)
    statement = grammar.read(words)
    if statement is not None:
        return statement
    if makes_table(tokens):
        return create_table(sql, tokens)
    if first in STARTS:
        return row_changes(sql, tokens)
    if tokens[0].token_type in {TokenType.VAR, TokenType.NUMBER, TokenType.STRING}:
        commands = {"REFRESH", "VACUUM", "OPTIMIZE"}
        if first not in commands:
            raise SeamlineError(
                SYNTAX_ERROR,
                f"a statement cannot start with {tokens[0].text!r}",
                location=location_of(tokens[0]),
            )
    what = _kind_of(tokens)
    raise SeamlineError(
        STATEMENT_NOT_ALLOWED,
        f"{what} is not allowed",
        location=location_of(tokens[0]),
    )


_KINDS = frozenset(
    {"OR", "REPLACE", "TEMPORARY", "MATERIALIZED", "TABLE", "VIEW", "SCHEMA", "FUNCTION"}
    | {"CATALOG", "ROLE", "PATH", "BRANCH"}
)
"""Words after the first that say what a statement is about."""


def _kind_of(tokens: list[Token]) -> str:
    """Returns the words that name a statement, such as `CREATE OR REPLACE TABLE`."""
    words = [token.text.upper() for token in tokens]
    return " ".join([words[0], *itertools.takewhile(_KINDS.__contains__, words[1:])])


def parse_expression(text: str) -> exp.Expr:
    """Parses one expression without subqueries; its nodes have no locations.

    Raises:
        SeamlineError: SYNTAX_ERROR, NOT_SUPPORTED.
    """
    parsed = parse(f"SELECT (\n{text}\n)")
    tree = parsed.tree if isinstance(parsed, Query) else None
    is_plain = isinstance(tree, exp.Select) and not {
        name for name, value in tree.args.items() if value and name not in _OF_PLAIN_SELECT
    }
    projection = tree.expressions[0] if is_plain and tree and len(tree.expressions) == 1 else None
    if not isinstance(projection, exp.Paren):
        raise SeamlineError(SYNTAX_ERROR, f"{text!r} is not an expression")
    if projection.find(exp.Query) is not None:
        raise SeamlineError(NOT_SUPPORTED, f"{text!r} has a subquery")
    move(projection)
    inner: exp.Expr = projection.this
    return inner


_OF_PLAIN_SELECT = frozenset({"expressions", "kind"})


def parse_name(text: str) -> tuple[str, ...]:
    """Parses a table's name, as written in a statement, into its parts.

    Raises:
        SeamlineError: SYNTAX_ERROR.
    """
    words = Words(one_statement(tokenize(text)), text)
    name = words.name()
    words.end()
    return name
