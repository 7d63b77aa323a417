"""The plain text that a query's WHERE requires columns of one of its tables to equal.

Computed tables, such as `information_schema.columns`, then compute only the rows that may be
needed. It is a hint: whatever is found here is in the query, too, which is computed as usual.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

Equalities = tuple[tuple[str, str], ...]
"""Pairs of a column, in lower case, and the text that it equals in every required row."""


def equalities(table: exp.Table) -> Equalities:
    """Returns what the WHERE of the query that reads a table demands of its columns.

    It finds something only if the query reads nothing but the table, so that each name is one of
    its columns: `column = 'text'`, and `LIKE` of a pattern without wildcards.
    """
    from_, select = table.parent, table.parent.parent if table.parent is not None else None
    if not isinstance(from_, exp.From) or not isinstance(select, exp.Select):
        return ()
    where, alias = select.args.get("where"), table.args.get("alias")
    if where is None or select.args.get("joins") or select.args.get("laterals"):
        return ()
    if alias is not None and alias.args.get("columns"):  # its columns have other names
        return ()
    return tuple(_found(where.this, table.alias_or_name.lower()))


def _found(condition: exp.Expr, name: str) -> Iterator[tuple[str, str]]:
    match condition:
        case exp.Paren(this=inner):
            yield from _found(inner, name)
        case exp.And(this=left, expression=right):
            yield from _found(left, name)
            yield from _found(right, name)
        case exp.EQ(this=left, expression=right):
            for column, text in ((left, right), (right, left)):
                if _is_column(column, name) and _is_text(text):
                    yield column.name.lower(), text.name
        case exp.Escape(this=exp.Like() as like, expression=exp.Literal() as escape):
            yield from _liked(like, name, escape.name)
        case exp.Like():
            yield from _liked(condition, name, "")


def _liked(like: exp.Like, name: str, escape: str) -> Iterator[tuple[str, str]]:
    column, pattern = like.this, like.expression
    if not like.args.get("negate") and _is_column(column, name) and _is_text(pattern):
        text = _without_wildcards(pattern.name, escape)
        if text is not None:
            yield column.name.lower(), text


def _is_column(node: exp.Expr, name: str) -> bool:
    return (
        isinstance(node, exp.Column)
        and not node.args.get("db")
        and node.table.lower() in {"", name}
    )


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _without_wildcards(pattern: str, escape: str) -> str | None:
    """Returns the only text that a pattern of LIKE matches; None if it may match several."""
    text, characters = "", iter(pattern)
    for character in characters:
        if character in {"%", "_"} and character != escape:
            return None
        if character == escape:
            character = next(characters, "")
            if character not in {"%", "_", escape}:
                return None  # which is an error, and must not be hidden
        text += character
    return text
