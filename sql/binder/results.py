"""The select list: stars are expanded, and every result is bound and named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from seamline.errors import (
    COLUMN_AMBIGUOUS,
    COLUMN_NOT_FOUND,
    STATEMENT_TOO_LARGE,
    TYPE_MISMATCH,
    SeamlineError,
)
from seamline.sql.binder.binder import Binder
from seamline.sql.binder.rows import fields_of
from seamline.sql.binder.scope import Column, Output, Scope, Source, Typed, resolve
from seamline.sql.binder.shapes import names_of
from seamline.sql.locations import location_of
from seamline.sql.trees import nodes_of
from seamline.sql.types import Row

COLUMNS_MAX = 20_000
"""Maximum number of columns of one query; stars expand a short text to many columns."""
NODES_MAX = 100_000
"""Maximum number of nodes of all aliased results; one can use another, and that one a third."""


def bind_results(
    binder: Binder, projections: Sequence[exp.Expr], scope: Scope
) -> tuple[list[Output], list[exp.Expr]]:
    """Returns the name and type of each result, and the expression that computes it.

    A name that no source has may be the alias of an earlier result.

    Raises:
        SeamlineError: STATEMENT_TOO_LARGE when results that use each other grow too large, or when
            there are too many.
    """
    output: list[Output] = []
    results: list[exp.Expr] = []
    size = 0
    for projection in projections:
        for name, (result, type_) in _expanded(binder, projection, scope):
            if len(output) >= COLUMNS_MAX:
                raise SeamlineError(
                    STATEMENT_TOO_LARGE, f"a query has more than {COLUMNS_MAX:,} columns"
                )
            output.append(Output(name, type_))
            results.append(result)
            if isinstance(projection, exp.Alias):
                scope.results.setdefault(name.lower(), (exp.Paren(this=result), type_))
                size += len(nodes_of(result))
        if size > NODES_MAX:
            raise SeamlineError(STATEMENT_TOO_LARGE, "the results repeat each other too often")
    return output, results


def _expanded(binder: Binder, projection: exp.Expr, scope: Scope) -> Iterator[tuple[str, Typed]]:
    """Yields the results that one item stands for; an unnamed result has the name ''."""
    match projection:
        case exp.Star():
            yield from _all_of(binder, projection, scope.row, scope)
        case exp.Column(this=exp.Star()) if (columns := _columns_of(projection, scope)) is not None:
            yield from _all_of(binder, projection.this, columns, scope)
        case exp.Column(this=exp.Star()) | exp.Dot(expression=exp.Star()):
            yield from _fields_of(binder, projection, scope)
        case exp.Aliases(this=exp.Column(this=exp.Star()) | exp.Dot(expression=exp.Star())):
            values = [value for _, value in _expanded(binder, projection.this, scope)]
            if len(values) != len(projection.expressions):
                raise SeamlineError(
                    TYPE_MISMATCH,
                    f"{len(projection.expressions)} names for {len(values)} columns",
                    location=location_of(projection.expressions[0]),
                    hint="",
                )
            yield from zip((name.name for name in projection.expressions), values, strict=True)
        case _:
            node = projection.unalias()
            # what sqlglot calls the alias of a window is the name of its definition
            alias = "" if isinstance(projection, exp.Window) else projection.alias
            yield alias or _name_of(node, scope), binder.expression(node, scope)


def _name_of(node: exp.Expr, scope: Scope) -> str:
    """Returns the name of an unaliased result: a column's as declared, a field's as written."""
    node = node.unnest()
    names = names_of(node)
    if names is None:
        return ""
    match, fields = resolve(names, scope)
    return match.name if isinstance(match, Column) and not fields else names[-1].name


def _columns_of(star: exp.Column, scope: Scope) -> Sequence[Column] | None:
    """Returns the columns of the source that qualifies a star; None if a row qualifies it.

    As in Trino, a column that USING has merged with another belongs to neither source any more.
    """
    parts = [part.name.lower() for part in star.parts[:-1]]
    level: Scope | None = scope
    sources: list[Source] = []
    while not sources and level is not None:
        sources = [source for source in level.sources if source.is_called(parts)]
        if len(sources) == 1:
            visible = set(map(id, level.row))
            return [column for column in sources[0].columns if id(column) in visible]
        level = level.outer
    if not sources and _is_known(star.parts[:-1], scope):
        return None
    code, what = (
        (COLUMN_AMBIGUOUS, "is more than one table")
        if sources
        else (COLUMN_NOT_FOUND, "is not a table")
    )
    raise SeamlineError(
        code, f"{'.'.join(parts)} {what} in FROM", location=location_of(star.parts[0])
    )


def _is_known(parts: Sequence[exp.Expr], scope: Scope) -> bool:
    try:
        resolve([part for part in parts if isinstance(part, exp.Identifier)], scope)
    except SeamlineError as error:
        return error.code is not COLUMN_NOT_FOUND
    return True


def _fields_of(binder: Binder, star: exp.Expr, scope: Scope) -> Iterator[tuple[str, Typed]]:
    """Yields the fields that the star of a row stands for."""
    node = star.this
    if isinstance(star, exp.Column):
        first, *rest = star.parts[:-1]
        node = exp.Dot.build([exp.column(first), *rest]) if rest else exp.column(first)
    value, type_ = binder.expression(node, scope)
    if not isinstance(type_, Row):
        raise SeamlineError(
            TYPE_MISMATCH,
            f"{type_} has no fields",
            location=location_of(node),
            hint="A star stands for the columns of a table or the fields of a row.",
        )
    names = ("" if field.is_nameless else field.name for field in type_.fields)
    yield from zip(names, fields_of(value, type_), strict=True)


def _all_of(
    binder: Binder, star: exp.Star, columns: Sequence[Column], scope: Scope
) -> Iterator[tuple[str, Typed]]:
    """Yields what a star stands for; some columns may be left out, computed or renamed."""
    left_out = {node.name.lower() for node in star.args.get("except_") or ()}
    computed = {node.alias.lower(): node.this for node in star.args.get("replace") or ()}
    called = {node.this.name.lower(): node.alias for node in star.args.get("rename") or ()}
    visible = [column for column in columns if not column.hidden]
    if not visible:
        raise SeamlineError(COLUMN_NOT_FOUND, "* stands for no column", hint="")
    for name in {*left_out, *computed, *called} - {column.folded for column in visible}:
        raise SeamlineError(COLUMN_NOT_FOUND, f"* has no column {name}")
    for column in visible:
        if column.folded in left_out:
            continue
        name = called.get(column.folded, column.name)
        if column.folded in computed:
            yield name, binder.expression(computed[column.folded].copy(), scope)
        else:
            yield name, binder.column(column)
