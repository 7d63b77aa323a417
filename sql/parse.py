"""Text to one statement of an allowed kind.

Anything that is not one of the kinds below is refused by name; nothing is ever passed on as text.
Length, brackets and tokens are bounded before a parser sees the statement. Functions stay calls by
the name they were written with, so their meaning is decided in one place (`seamline.sql.functions`)
and not by a parser's idea of them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from seamline.errors import (
    INVALID_ARGUMENT,
    MULTIPLE_STATEMENTS,
    NOT_SUPPORTED,
    STATEMENT_NOT_ALLOWED,
    STATEMENT_TOO_LARGE,
    SYNTAX_ERROR,
    ErrorCode,
    Location,
    SeamlineError,
)
from seamline.sql.dialects import (
    SeamlineDialect,
    first_line,
    number_placeholders,
    numbered_by_name,
    syntax_error,
    translate,
)

LENGTH_MAX = 200_000
TOKENS_MAX = 50_000
DEPTH_MAX = 60

# --- Kinds of statement ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """SELECT, VALUES, TABLE and their combinations.

    Attributes:
        tree: The syntax tree; never changed in place. The `meta["number"]` of a `Placeholder`
            without a name is its place among those of the text, from 0.
        token: The token of `… AT TOKEN '…'`, if there is one.
        placeholders: How many `?` the text has.
    """

    tree: exp.Query
    token: str | None = None
    placeholders: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a query; with `analyze` it is also run."""

    query: Query
    analyze: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE name (columns) WITH (properties).

    Attributes:
        name: As written, one to three parts.
        columns: (name, type, required) in order; none means that they are to be inferred.
        properties: The WITH clause; arrays of strings as tuples.
        if_not_exists: Whether an existing table is no error.
    """

    name: tuple[str, ...]
    columns: tuple[tuple[str, exp.DataType, bool], ...]
    properties: tuple[tuple[str, Any], ...]
    if_not_exists: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class DropTable:
    """DROP TABLE [IF EXISTS] name."""

    name: tuple[str, ...]
    if_exists: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Show:
    """SHOW CATALOGS, SCHEMAS, TABLES, COLUMNS, FUNCTIONS, CREATE TABLE; DESCRIBE is SHOW COLUMNS.

    Attributes:
        what: One of `catalogs`, `schemas`, `tables`, `columns`, `functions`, `create table`.
        name: What comes after FROM, IN or the keyword; as many parts as were written.
        like: The pattern of LIKE.
    """

    what: str
    name: tuple[str, ...] = ()
    like: str | None = None


Statement: TypeAlias = Query | Explain | CreateTable | DropTable | Show


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
            return _translated(sql, dialect)
        return _statement(sql, _one_statement(_tokenize(sql)))
    except RecursionError as error:
        raise SeamlineError(STATEMENT_TOO_LARGE, "the statement is nested too deeply") from error


def check_text(text: str, code: ErrorCode) -> None:
    """No engine takes the character 0, or half of a surrogate pair, which UTF-8 cannot write.

    Raises:
        SeamlineError: `code`.
    """
    wrong = next((c for c in text if c == "\0" or "\ud800" <= c <= "\udfff"), None)
    if wrong is not None:
        raise SeamlineError(
            code, f"the character U+{ord(wrong):04X} cannot stand in a text", hint=""
        )


# --- Tokens ------------------------------------------------------------------------------------


def _tokenize(sql: str) -> list[Token]:
    try:
        tokens = SeamlineDialect().tokenize(sql)
    except TokenError as error:
        raise SeamlineError(
            SYNTAX_ERROR, "a string, a quoted name or a comment is not closed"
        ) from error
    if len(tokens) > TOKENS_MAX:
        raise SeamlineError(
            STATEMENT_TOO_LARGE, f"the statement has {len(tokens)} words, at most {TOKENS_MAX}"
        )
    depth = 0
    for token in tokens:
        if token.token_type in _OPENING:
            depth += 1
        elif token.token_type in _CLOSING:
            depth -= 1
        if depth > DEPTH_MAX:
            raise SeamlineError(
                STATEMENT_TOO_LARGE,
                f"brackets are nested deeper than {DEPTH_MAX} levels",
                location=_location(token),
            )
    return tokens


_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}


def _one_statement(tokens: list[Token]) -> list[Token]:
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    while tokens and tokens[0].token_type == TokenType.SEMICOLON:
        tokens = tokens[1:]
    if not tokens:
        raise SeamlineError(SYNTAX_ERROR, "the statement is empty")
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise SeamlineError(
                MULTIPLE_STATEMENTS, "there is more than one statement", location=_location(token)
            )
    return tokens


def _location(token: Token) -> Location:
    return Location(token.line, max(1, token.col - (token.end - token.start)))


# --- Other dialects ----------------------------------------------------------------------------


def _translated(sql: str, dialect: str) -> Query:
    """A query of another dialect in ours.

    Nodes have no location: the text they were read from is not the one that was sent.
    """
    text, count = translate(sql, dialect)
    try:
        query = _query(text, _one_statement(_tokenize(text)))
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
    words = _Words(tokens)
    if first in {"SELECT", "WITH", "VALUES", "TABLE", "("}:
        return _query(sql, tokens)
    if first == "EXPLAIN":
        return _explain(sql, tokens)
    if first in {"SHOW", "DESCRIBE", "DESC"}:
        return _show(words)
    if first == "CREATE" and words.peek(1) == "TABLE":
        return _create_table(sql, tokens)
    if first == "DROP" and words.peek(1) == "TABLE":
        return _drop_table(words)
    if tokens[0].token_type in {TokenType.VAR, TokenType.NUMBER, TokenType.STRING}:
        known = {"REFRESH", "RESET", "PREPARE", "DEALLOCATE", "DENY", "CALL", "VACUUM", "OPTIMIZE"}
        if first not in known:
            raise SeamlineError(
                SYNTAX_ERROR,
                f"a statement cannot start with {tokens[0].text!r}",
                location=_location(tokens[0]),
            )
    raise SeamlineError(
        STATEMENT_NOT_ALLOWED, f"{first} is not allowed", location=_location(tokens[0])
    )


def _query(sql: str, tokens: list[Token]) -> Query:
    token = None
    tail = [t.text.upper() for t in tokens[-3:-1]]
    if tail == ["AT", "TOKEN"] and tokens[-1].token_type == TokenType.STRING:
        token = tokens[-1].text
        tokens = tokens[:-3]
    tree = _parse_tree(sql, tokens)
    if not isinstance(tree, exp.Query | exp.Values | exp.Subquery):
        raise SeamlineError(STATEMENT_NOT_ALLOWED, f"{tokens[0].text.upper()} is not allowed here")
    write = tree.find(*_WRITES)
    if write is not None:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED, f"{write.key.upper()} is not allowed inside of a query"
        )
    if isinstance(tree, exp.Values):
        tree = exp.select("*").from_(_aliased(tree))
    return Query(tree, token, number_placeholders(tree))


_WRITES = (exp.DDL, exp.DML, exp.Command, exp.Drop, exp.Into)


def _aliased(values: exp.Values) -> exp.Values:
    width = len(values.expressions[0].expressions) if values.expressions else 0
    columns = [exp.to_identifier(f"_col{i}") for i in range(width)]
    values.set("alias", exp.TableAlias(this=exp.to_identifier("_values"), columns=columns))
    return values


def _parse_tree(sql: str, tokens: Sequence[Token]) -> exp.Expr:
    try:
        trees = SeamlineDialect().parser().parse(list(tokens), sql)
    except ParseError as error:
        raise syntax_error(error) from error
    except SqlglotError as error:
        raise SeamlineError(SYNTAX_ERROR, first_line(str(error))) from error
    if len(trees) != 1 or trees[0] is None:
        raise SeamlineError(SYNTAX_ERROR, "the statement cannot be read")
    tree: exp.Expr = trees[0]
    return tree


def _explain(sql: str, tokens: list[Token]) -> Explain:
    rest = tokens[1:]
    analyze = bool(rest) and rest[0].text.upper() == "ANALYZE"
    if analyze:
        rest = rest[1:]
    if not rest:
        raise SeamlineError(SYNTAX_ERROR, "EXPLAIN needs a query")
    if rest[0].text.upper() not in {"SELECT", "WITH", "VALUES", "TABLE", "("}:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED, "only queries can be explained", location=_location(rest[0])
        )
    return Explain(_query(sql, rest), analyze)


class _Words:
    """Reads the few statements that have a grammar of keywords."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at].text.upper() if at < len(self._tokens) else ""

    def take(self, *words: str) -> bool:
        if all(self.peek(i) == word for i, word in enumerate(words)):
            self._at += len(words)
            return True
        return False

    def name(self) -> tuple[str, ...]:
        parts = [self._identifier()]
        while self.take("."):
            parts.append(self._identifier())
        return tuple(parts)

    def string(self) -> str:
        token = self._next("a string")
        if token.token_type != TokenType.STRING:
            raise self._unexpected(token)
        return token.text

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise self._unexpected(self._tokens[self._at])

    def _identifier(self) -> str:
        token = self._next("a name")
        plain = re.fullmatch(r"[A-Za-z_$][\w$]*", token.text) is not None
        if token.token_type == TokenType.IDENTIFIER or plain:
            return token.text
        raise self._unexpected(token)

    def _next(self, what: str) -> Token:
        if self._at >= len(self._tokens):
            raise SeamlineError(SYNTAX_ERROR, f"{what} is expected at the end of the statement")
        self._at += 1
        return self._tokens[self._at - 1]

    def _unexpected(self, token: Token) -> SeamlineError:
        return SeamlineError(SYNTAX_ERROR, f"unexpected {token.text!r}", location=_location(token))


def _show(words: _Words) -> Show:
    if words.take("DESCRIBE") or words.take("DESC"):
        show = Show("columns", words.name())
    else:
        words.take("SHOW")
        if words.take("CREATE", "TABLE"):
            show = Show("create table", words.name())
        elif words.take("CATALOGS"):
            show = Show("catalogs", (), _like(words))
        elif words.take("FUNCTIONS"):
            show = Show("functions", (), _like(words))
        elif words.take("SCHEMAS"):
            show = Show("schemas", _from(words), _like(words))
        elif words.take("TABLES"):
            show = Show("tables", _from(words), _like(words))
        elif words.take("COLUMNS"):
            show = Show("columns", _from(words), _like(words))
        else:
            raise SeamlineError(
                STATEMENT_NOT_ALLOWED,
                f"SHOW {words.peek()} is not known",
                hint="SHOW CATALOGS, SCHEMAS, TABLES, COLUMNS, FUNCTIONS and CREATE TABLE are.",
            )
    words.end()
    return show


def _from(words: _Words) -> tuple[str, ...]:
    return words.name() if words.take("FROM") or words.take("IN") else ()


def _like(words: _Words) -> str | None:
    return words.string() if words.take("LIKE") else None


def _drop_table(words: _Words) -> DropTable:
    words.take("DROP", "TABLE")
    if_exists = words.take("IF", "EXISTS")
    name = words.name()
    words.end()
    return DropTable(name, if_exists)


# --- CREATE TABLE ------------------------------------------------------------------------------


def _create_table(sql: str, tokens: list[Token]) -> CreateTable:
    tree = _parse_tree(sql, tokens)
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
    words = _Words(_one_statement(_tokenize(text)))
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
            hint="a name is table, schema.table or catalog.schema.table",
        )
    return names


def _column(definition: exp.Expr) -> tuple[str, exp.DataType, bool]:
    if not isinstance(definition, exp.ColumnDef) or not isinstance(definition.kind, exp.DataType):
        raise SeamlineError(
            SYNTAX_ERROR, f"{definition.sql('trino')} is not a column", hint="write: name type, …"
        )
    required = False
    for constraint in definition.constraints:
        if isinstance(constraint.kind, exp.NotNullColumnConstraint):
            required = not constraint.kind.args.get("allow_null")
        elif not isinstance(constraint.kind, exp.CommentColumnConstraint):
            raise SeamlineError(
                NOT_SUPPORTED,
                f"column {definition.name}: {constraint.sql('trino')} is not supported",
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
        raise SeamlineError(NOT_SUPPORTED, f"{node.sql('trino')} is not supported here")
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
    raise SeamlineError(INVALID_ARGUMENT, f"{value.sql('trino')} is not the value of a property")
