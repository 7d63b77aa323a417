"""Small helpers for the shape of nodes."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from seamline.errors import TYPE_MISMATCH, SeamlineError
from seamline.sql.binder.scope import Output
from seamline.sql.expressions.calls import Call


def unwrapped(node: exp.Expr) -> exp.Expr:
    """Returns the query inside a bare subquery; other nodes are returned as they are."""
    return node.this if isinstance(node, exp.Subquery) and not node.args.get("with_") else node


def bracketed(node: exp.Expr) -> exp.Expr:
    """Returns the node in parentheses, unless nothing could bind tighter."""
    return node if isinstance(node, exp.Paren | exp.Column | Call) else exp.Paren(this=node)


def as_operand(node: exp.Expr) -> exp.Expr:
    """Returns an operand of a comparison, in parentheses if it is a comparison or logic itself."""
    if isinstance(node, exp.Binary | exp.Not | exp.Between | exp.In | exp.Escape):
        return exp.Paren(this=node)
    return node


def renamed(output: Sequence[Output], alias: exp.Expr | None) -> list[Output]:
    """Returns the columns under the names that an alias gives them, if any."""
    columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    if not columns:
        return list(output)
    if len(columns) != len(output):
        raise SeamlineError(
            TYPE_MISMATCH, f"{len(columns)} names for {len(output)} columns", hint=""
        )
    return [Output(n.name, c.type) for n, c in zip(columns, output, strict=True)]


def is_text(node: exp.Expr, length: int | None = None) -> bool:
    """Whether the node is a string literal, and of the given length, if any."""
    return (
        isinstance(node, exp.Literal)
        and node.is_string
        and (length is None or len(node.name) == length)
    )


def names_of(node: exp.Expr) -> list[exp.Identifier] | None:
    """Returns the parts of a dotted name; None if it is none or starts with something else."""
    if isinstance(node, exp.Identifier):  # a parameter of a lambda
        return [node]
    if isinstance(node, exp.Column):
        parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
        return parts if len(parts) == len(node.parts) else None
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        front = names_of(node.this)
        return None if front is None else [*front, node.expression]
    return None
