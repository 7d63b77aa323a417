"""The clauses of a SELECT: sources, joins, conditions, grouping, order and limits."""

from __future__ import annotations

from sqlglot import exp

from seamline.errors import (
    COLUMN_AMBIGUOUS,
    COLUMN_NOT_FOUND,
    NOT_SUPPORTED,
    TYPE_MISMATCH,
    SeamlineError,
)
from seamline.sql import functions
from seamline.sql.binder.conversions import common_type, implicit_cast, require_comparable
from seamline.sql.binder.literals import row_count
from seamline.sql.binder.scope import Scope, unsupported
from seamline.sql.binder.shapes import renamed
from seamline.sql.binder.typer import Typer
from seamline.sql.types import Array, Row, Type


def bind_source(typer: Typer, node: exp.Expr, scope: Scope) -> exp.Expr:
    """One source of FROM or JOIN; its columns become visible in the scope."""
    name = node.alias_or_name
    if node.args.get("joins"):
        raise SeamlineError(
            NOT_SUPPORTED,
            "a join inside of another one is not supported",
            hint="Write ON right after each JOIN, or put the inner join in a subquery.",
        )
    match node:
        case exp.Table():
            columns, scan_id = _bind_table(typer, node, scope)
        case exp.Subquery():
            inner, output = typer.query(node.this, None, scope.ctes)
            node.set("this", inner)
            columns = {c.name: c.type for c in renamed(output, node.args.get("alias"))}
            scan_id = None
        case exp.Values():
            columns, scan_id = _bind_values(typer, node, scope), None
        case exp.Unnest():
            columns, scan_id = _bind_unnest(typer, node, scope), None
        case _:
            raise unsupported(node)
    if name in scope.sources:
        raise SeamlineError(
            COLUMN_AMBIGUOUS, f"{name} stands twice in FROM", hint="Give one an alias."
        )
    scope.sources[name] = columns
    if scan_id is not None:
        scope.scan_ids[name] = scan_id
    return node


def _bind_table(typer: Typer, node: exp.Table, scope: Scope) -> tuple[dict[str, Type], str | None]:
    if node.name in scope.ctes and node.name not in typer.relations:
        output = renamed(scope.ctes[node.name], node.args.get("alias"))
        return {column.name: column.type for column in output}, None
    if node.args.get("alias") is not None and node.args["alias"].args.get("columns"):
        raise SeamlineError(
            NOT_SUPPORTED,
            "columns of a table cannot be renamed in FROM",
            hint="Select from it in a subquery with AS.",
        )
    return dict(typer.relations[node.name]), node.name


def _bind_values(typer: Typer, node: exp.Values, scope: Scope) -> dict[str, Type]:
    rows = []
    for row in node.expressions:
        cells = row.expressions if isinstance(row, exp.Tuple) else [row]
        rows.append([typer.expression(cell, scope) for cell in cells])
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise SeamlineError(TYPE_MISMATCH, "the rows of VALUES differ in length", hint="")
    wanted = [
        common_type([row[i][1] for row in rows], f"column {i + 1} of VALUES") for i in range(width)
    ]
    node.set(
        "expressions",
        [
            exp.Tuple(
                expressions=[
                    implicit_cast(*cell, want) for cell, want in zip(row, wanted, strict=True)
                ]
            )
            for row in rows
        ],
    )
    names = [column.name for column in node.args["alias"].columns]
    if len(names) > width:
        raise SeamlineError(COLUMN_NOT_FOUND, f"VALUES has {width} columns, not {len(names)}")
    return dict(zip(names, wanted, strict=True))


def _bind_unnest(typer: Typer, node: exp.Unnest, scope: Scope) -> dict[str, Type]:
    if len(node.expressions) != 1 or node.args.get("offset"):
        raise SeamlineError(NOT_SUPPORTED, "UNNEST takes one array, without ORDINALITY", hint="")
    inner, type_ = typer.expression(node.expressions[0], scope)
    if not isinstance(type_, Array):
        raise SeamlineError(TYPE_MISMATCH, f"UNNEST of {type_} is not supported", hint="")
    if isinstance(type_.element, Row):
        raise SeamlineError(
            NOT_SUPPORTED,
            "UNNEST of an array of rows is not supported",
            hint="element_at(array, n).field reads one of them.",
        )
    node.set("expressions", [inner])
    alias = node.args.get("alias")
    columns = alias.args.get("columns") if alias is not None else None
    if not columns:
        raise SeamlineError(
            NOT_SUPPORTED, "UNNEST needs a name", hint="CROSS JOIN UNNEST(a) AS t(x)."
        )
    return {columns[0].name: type_.element}


def bind_join(typer: Typer, join: exp.Join, scope: Scope) -> None:
    """A join: its source, then its condition over everything visible by then."""
    side, kind = (join.side or "").upper(), (join.kind or "").upper()
    if join.method or kind not in {"", "INNER", "CROSS", "OUTER"}:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"{' '.join(filter(None, (join.method, kind)))} JOIN is not supported",
            hint="INNER, LEFT, RIGHT, FULL and CROSS JOIN are.",
        )
    if isinstance(join.this, exp.Unnest) and side:
        raise SeamlineError(
            NOT_SUPPORTED, f"{side} JOIN UNNEST is not supported", hint="Use CROSS JOIN."
        )
    join.set("this", bind_source(typer, join.this, scope))
    on = join.args.get("on")
    if on is not None:
        join.set("on", typer.boolean(on, scope, "ON"))
    elif side:
        raise SeamlineError(NOT_SUPPORTED, f"{side} JOIN needs ON or USING", hint="")


def bind_condition(typer: Typer, node: exp.Expr, clause: str, scope: Scope) -> None:
    """WHERE or HAVING."""
    found = node.args.get(clause)
    if found is not None:
        found.set("this", typer.boolean(found.this, scope, clause.upper()))


def bind_group(typer: Typer, node: exp.Select, scope: Scope) -> None:
    """GROUP BY, its sets included."""
    group = node.args.get("group")
    if group is None:
        return
    for key in ("totals", "all"):
        if group.args.get(key):
            raise SeamlineError(NOT_SUPPORTED, f"GROUP BY {key.upper()} is not supported")
    group.set("expressions", [_bind_group_item(typer, e, scope) for e in group.expressions])
    for key in ("grouping_sets", "cube", "rollup"):
        for item in group.args.get(key) or ():
            if isinstance(item, exp.Expr):
                _bind_group_item(typer, item, scope)


def _bind_group_item(typer: Typer, node: exp.Expr, scope: Scope) -> exp.Expr:
    if isinstance(node, exp.Tuple | exp.Rollup | exp.Cube | exp.GroupingSets):
        node.set("expressions", [_bind_group_item(typer, e, scope) for e in node.expressions])
        return node
    if isinstance(node, exp.Paren):
        node.set("this", _bind_group_item(typer, node.this, scope))
        return node
    inner, type_ = typer.expression(node, scope)
    require_comparable(type_, "GROUP BY")
    return inner


def bind_order(typer: Typer, node: exp.Expr, scope: Scope) -> None:
    """ORDER BY; where nulls go is written out."""
    order = node.args.get("order")
    if order is None:
        return
    for ordered in order.expressions:
        inner, type_ = typer.expression(ordered.this, scope)
        if not functions.is_ordered(type_):
            raise SeamlineError(TYPE_MISMATCH, f"{type_} cannot be ordered", hint="")
        ordered.set("this", inner)
        if ordered.args.get("with_fill"):
            raise SeamlineError(NOT_SUPPORTED, "WITH FILL is not supported")
        ordered.set("nulls_first", bool(ordered.args.get("nulls_first")))


def bind_limits(node: exp.Expr) -> None:
    """LIMIT, FETCH and OFFSET, as whole numbers."""
    limit = node.args.get("limit")
    if isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise SeamlineError(NOT_SUPPORTED, "FETCH … WITH TIES or PERCENT is not supported")
        count = limit.args.get("count") or exp.Literal.number(1)
        node.set("limit", exp.Limit(expression=row_count(count)))
    elif isinstance(limit, exp.Limit):
        if limit.expression.name.upper() == "ALL":
            node.set("limit", None)
        else:
            limit.set("expression", row_count(limit.expression))
    offset = node.args.get("offset")
    if offset is not None:
        offset.set("expression", row_count(offset.expression))
