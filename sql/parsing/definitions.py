"""Table definitions: columns and properties, as written in CREATE and ALTER TABLE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from seamline.errors import (
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    STATEMENT_NOT_ALLOWED,
    SYNTAX_ERROR,
    SeamlineError,
)
from seamline.sql import locations
from seamline.sql.parsing.queries import parse_tree, query_of
from seamline.sql.parsing.statements import ColumnDefinition, CreateTable, CreateTableAs, LikeTable
from seamline.sql.parsing.words import one_statement, tokenize


def makes_table(tokens: Sequence[Token]) -> bool:
    """Whether a statement begins with CREATE [OR REPLACE] TABLE."""
    words = [token.text.upper() for token in tokens[:4]]
    return words[:2] == ["CREATE", "TABLE"] or words == ["CREATE", "OR", "REPLACE", "TABLE"]


def create_table(sql: str, tokens: list[Token]) -> CreateTable | CreateTableAs:
    """Parses CREATE TABLE name (columns) WITH (properties), or CREATE TABLE name AS query.

    Raises:
        SeamlineError: SYNTAX_ERROR, STATEMENT_NOT_ALLOWED, NOT_SUPPORTED, INVALID_ARGUMENT.
    """
    split = _start_of_query(tokens)
    if split is None:
        return _table(sql, tokens)
    query, with_data = tokens[split:], True
    last = [token.text.upper() for token in query[-3:]]
    if last == ["WITH", "NO", "DATA"]:
        query, with_data = query[:-3], False
    elif last[1:] == ["WITH", "DATA"]:
        query = query[:-2]
    table = _table(sql, tokens[: split - 1])
    if table.columns:
        raise SeamlineError(
            NOT_SUPPORTED,
            "the columns of CREATE TABLE … AS are those of the query",
            location=table.location,
            hint="Name and CAST them in the query.",
        )
    return CreateTableAs(table, query_of(sql, query), with_data)


def _start_of_query(tokens: list[Token]) -> int | None:
    """Returns the index of the token after AS outside parentheses, or None."""
    depth = 0
    for index, token in enumerate(tokens[:-1]):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if depth == 0 and token.token_type == TokenType.ALIAS:
            return index + 1
    return None


def _table(sql: str, tokens: list[Token]) -> CreateTable:
    tree = parse_tree(sql, tokens)
    if not isinstance(tree, exp.Create) or tree.args.get("expression") is not None:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            "only CREATE TABLE name (columns) WITH (…) and CREATE TABLE name AS query are allowed",
            location=locations.location_of(tree),
        )
    if tree.args.get("replace") and tree.args.get("exists"):
        raise SeamlineError(
            SYNTAX_ERROR,
            "OR REPLACE and IF NOT EXISTS exclude each other",
            location=locations.location_of(tree),
            hint="Omit one of them.",
        )
    target = tree.this
    definitions: list[exp.Expr] = []
    if isinstance(target, exp.Schema):
        definitions, target = target.expressions, target.this
    properties = tree.args.get("properties")
    columns = tuple(map(_element, definitions))
    _only_one_takes_properties(columns)
    return CreateTable(
        name=table_name(target),
        columns=columns,
        properties=tuple(_property(p) for p in (properties.expressions if properties else ())),
        if_not_exists=bool(tree.args.get("exists")),
        replace=bool(tree.args.get("replace")),
        location=locations.location_of(target),
    )


def parse_columns(text: str) -> tuple[ColumnDefinition, ...]:
    """Parses column definitions as written between the parentheses of CREATE TABLE.

    Raises:
        SeamlineError: SYNTAX_ERROR, NOT_SUPPORTED.
    """
    sql = f"CREATE TABLE _ ({text})"
    columns = _table(sql, one_statement(tokenize(sql))).columns
    definitions = tuple(column for column in columns if isinstance(column, ColumnDefinition))
    if len(definitions) != len(columns):
        raise SeamlineError(SYNTAX_ERROR, "LIKE is not a column", hint="write: name type, …")
    return definitions


def table_name(table: exp.Expr) -> tuple[str, ...]:
    """Returns the parts of a table's name as written, at most three.

    Raises:
        SeamlineError: SYNTAX_ERROR when it is not a plain name.
    """
    parts = table.parts if isinstance(table, exp.Table) else []
    names = tuple(part.name for part in parts)
    if not 1 <= len(names) <= 3 or not all(isinstance(p, exp.Identifier) for p in parts):
        raise SeamlineError(
            SYNTAX_ERROR,
            f"{table.sql('trino')} is not the name of a table",
            location=locations.location_of(table),
            hint="a name is table, schema.table or catalog.schema.table",
        )
    return names


def _element(node: exp.Expr) -> ColumnDefinition | LikeTable:
    """Reads what is between two commas: a column, or LIKE a table."""
    if not isinstance(node, exp.LikeProperty):
        return _column(node)
    location = locations.location_of(node.this)
    options = [(option.name.upper(), option.text("value").upper()) for option in node.expressions]
    if options not in ([], [("INCLUDING", "PROPERTIES")], [("EXCLUDING", "PROPERTIES")]):
        raise SeamlineError(
            SYNTAX_ERROR,
            f"LIKE {node.this.sql('trino')} {' '.join(map(' '.join, options))} is not supported",
            location=location,
            hint="INCLUDING PROPERTIES and EXCLUDING PROPERTIES are.",
        )
    return LikeTable(
        table_name(node.this), options[:1] == [("INCLUDING", "PROPERTIES")], location=location
    )


def _only_one_takes_properties(columns: Sequence[ColumnDefinition | LikeTable]) -> None:
    takers = [c for c in columns if isinstance(c, LikeTable) and c.takes_properties]
    if len(takers) > 1:
        raise SeamlineError(
            NOT_SUPPORTED,
            "only one LIKE can specify INCLUDING PROPERTIES",
            location=takers[1].location,
            hint="Write those of the others under WITH.",
        )


def _column(definition: exp.Expr) -> ColumnDefinition:
    if not isinstance(definition, exp.ColumnDef) or not isinstance(definition.kind, exp.DataType):
        raise SeamlineError(
            SYNTAX_ERROR,
            f"{definition.sql('trino')} is not a column",
            location=locations.location_of(definition),
            hint="write: name type, …",
        )
    position = definition.args.get("position")
    if position is not None:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"column {definition.name}: {position.sql('trino')} is not supported",
            location=locations.location_of(definition),
            hint="A column is added after the others; a query may name them in any order.",
        )
    required, comment = False, None
    for constraint in definition.constraints:
        if isinstance(constraint.kind, exp.NotNullColumnConstraint):
            required = not constraint.kind.args.get("allow_null")
        elif isinstance(constraint.kind, exp.CommentColumnConstraint):
            comment = constraint.kind.this.name
        else:
            raise SeamlineError(
                NOT_SUPPORTED,
                f"column {definition.name}: {constraint.sql('trino')} is not supported",
                location=locations.location_of(definition),
                hint="NOT NULL and COMMENT are",
            )
    return ColumnDefinition(definition.name, definition.kind, required, comment)


def _property(node: exp.Expr) -> tuple[str, Any]:
    if isinstance(node, exp.SchemaCommentProperty):
        return "comment", node.this.name
    if isinstance(node, exp.FileFormatProperty):
        return "format", node.this.name
    if isinstance(node, exp.PartitionedByProperty):
        return "partitioning", _property_value(node.this)
    if isinstance(node, exp.LikeProperty):
        raise SeamlineError(
            SYNTAX_ERROR,
            "LIKE belongs among the columns",
            location=locations.location_of(node.this),
            hint=f"CREATE TABLE … (LIKE {node.this.sql('trino')})",
        )
    if not isinstance(node, exp.Property) or "value" not in node.args:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"{node.sql('trino')} is not supported here",
            location=locations.location_of(node),
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
        location=locations.location_of(value),
    )
