"""Parses tokens into the tree of a query that writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from seamline.errors import NOT_SUPPORTED, STATEMENT_NOT_ALLOWED, SYNTAX_ERROR, SeamlineError
from seamline.sql import locations
from seamline.sql.parsing.dialects import (
    SeamlineDialect,
    first_line,
    number_placeholders,
    syntax_error,
)
from seamline.sql.parsing.sequences import replace_sequences
from seamline.sql.parsing.statements import Query
from seamline.sql.parsing.words import location_of
from seamline.sql.trees import nodes_of, nodes_of_kind

QUERY_STARTS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "("})
"""The keywords that a query may begin with."""


def query_of(sql: str, tokens: list[Token]) -> Query:
    """Parses tokens into a query.

    Raises:
        SeamlineError: SYNTAX_ERROR, STATEMENT_NOT_ALLOWED.
    """
    if tokens[0].text.upper() not in QUERY_STARTS:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"{tokens[0].text.upper()} is not allowed here",
            location=location_of(tokens[0]),
            hint="A query is expected there.",
        )
    token = None
    tail = [t.text.upper() for t in tokens[-3:-1]]
    if tail == ["AT", "TOKEN"] and tokens[-1].token_type == TokenType.STRING:
        token = tokens[-1].text
        tokens = tokens[:-3]
    tree = parse_tree(sql, tokens)
    if not isinstance(tree, exp.Query | exp.Values | exp.Subquery):
        if tree.args.get("with_") is not None:
            raise _misplaced_with(tree, tokens[0])
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"{tokens[0].text.upper()} is not allowed here",
            location=location_of(tokens[0]),
        )
    return checked(tree, token)


def _misplaced_with(tree: exp.Expr, first: Token) -> SeamlineError:
    """Returns the error for WITH before a statement that is not a query."""
    what = tree.key.upper()
    return SeamlineError(
        SYNTAX_ERROR,
        f"WITH belongs to a query, and cannot stand before {what}",
        location=location_of(first),
        hint=_WITH_INSIDE.get(what, "Write the query in brackets where its rows are used."),
    )


_WITH_INSIDE = {
    "INSERT": "INSERT INTO t WITH x AS (…) SELECT …",
    "CREATE": "CREATE TABLE t AS WITH x AS (…) SELECT …",
    "DELETE": "DELETE FROM t WHERE id IN (WITH x AS (…) SELECT id FROM x)",
    "UPDATE": "UPDATE t SET c = (WITH x AS (…) SELECT …)",
    "MERGE": "MERGE INTO t USING (WITH x AS (…) SELECT …) AS s ON …",
}


def checked(tree: exp.Query | exp.Values, token: str | None = None) -> Query:
    """Returns the query of a tree as sqlglot parses it.

    Raises:
        SeamlineError: STATEMENT_NOT_ALLOWED when something in it writes.
    """
    write = next((node for node in nodes_of(tree) if isinstance(node, _WRITES)), None)
    if write is not None:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"{write.key.upper()} is not allowed inside a query",
            location=locations.location_of(write),
        )
    replace_sequences(tree)
    for values in nodes_of_kind(tree, exp.Values):
        if values is not tree:
            _make_query(values)
        if isinstance(table := values.parent, exp.Table):  # how sqlglot represents joins
            table.replace(values)
            for name in ("alias", "joins", "sample"):
                values.set(name, table.args.get(name))
    if isinstance(tree, exp.Values):
        tree = _query(tree)
    return Query(tree, token, number_placeholders(tree))


_WRITES = (exp.DDL, exp.DML, exp.Command, exp.Drop, exp.Into)


def _make_query(values: exp.Values) -> None:
    """Turns VALUES outside FROM into a query where the syntax calls for one."""
    match parent := values.parent:
        case exp.In():
            parent.set("expressions", None)
            parent.set("query", exp.Subquery(this=_query(values)))
        case exp.Subquery() | exp.Exists():
            key = values.arg_key
            assert key is not None
            parent.set(key, _query(values))
        case exp.Anonymous() if (kind := _BEFORE_QUERIES.get(parent.name.upper())) is not None:
            parent.replace(
                kind(this=_query(values))
            )  # sqlglot parses these words as functions here


_BEFORE_QUERIES: Mapping[str, type[exp.Expr]] = {
    "ALL": exp.All,
    "ANY": exp.Any,
    "SOME": exp.Any,
    "EXISTS": exp.Exists,
}


def _query(values: exp.Values) -> exp.Select:
    """Wraps VALUES in a query, which takes over its ORDER BY, LIMIT and OFFSET."""
    query = exp.select("*").from_(values)
    for clause in ("order", "limit", "offset"):
        query.set(clause, values.args.pop(clause, None))
    values.set("alias", exp.TableAlias(this=exp.to_identifier("_values")))
    return query


def expressions_of(sql: str, tokens: list[Token]) -> Query:
    """Parses comma-separated expressions as a query of one row.

    Raises:
        SeamlineError: SYNTAX_ERROR.
    """
    select = Token(TokenType.SELECT, "SELECT", tokens[0].line, 0, tokens[0].start, tokens[0].start)
    return query_of(sql, [select, *tokens])


def parse_tree(sql: str, tokens: Sequence[Token]) -> exp.Expr:
    """Parses one statement into a tree.

    Raises:
        SeamlineError: SYNTAX_ERROR.
    """
    try:
        trees = SeamlineDialect().parser().parse(list(tokens), sql)
    except ParseError as error:
        raise syntax_error(error, tokens[0].text) from error
    except SqlglotError as error:
        raise SeamlineError(
            SYNTAX_ERROR, first_line(str(error)), location=location_of(tokens[0])
        ) from error
    if len(trees) != 1 or trees[0] is None:
        raise SeamlineError(
            SYNTAX_ERROR, "the statement cannot be parsed", location=location_of(tokens[0])
        )
    tree: exp.Expr = trees[0]
    if "@" in sql:
        _require_no_branch(tree, tokens)
    return tree


def _require_no_branch(tree: exp.Expr, tokens: Sequence[Token]) -> None:
    """Raises NOT_SUPPORTED for `table @ branch`, which is taken for an alias."""
    if any(isinstance(alias.this, exp.Parameter) for alias in tree.find_all(exp.TableAlias)):
        sign = next((token for token in tokens if token.token_type is TokenType.PARAMETER), None)
        raise SeamlineError(
            NOT_SUPPORTED,
            "a branch cannot be written to",
            location=None if sign is None else location_of(sign),
            hint="SELECT … FROM t FOR VERSION AS OF 'branch' reads one.",
        )
