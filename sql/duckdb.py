"""What DuckDB is told differently: a bound tree in a form in which DuckDB can answer it.

In a lambda DuckDB finds no column of a query further out, and many of our templates put an argument
into one. Such a subquery is given those columns as a source of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from seamline.sql.calls import Call


def bring_columns_near(tree: exp.Expr, has_lambda: Callable[[Call], bool]) -> None:
    """Makes columns of queries further out the query's own, where a lambda reads them.

    Args:
        tree: A bound tree, which is changed.
        has_lambda: Whether a call is written with a lambda.
    """
    further: dict[int, list[exp.Column]] = {}
    selects: dict[int, tuple[exp.Select, set[str]]] = {}
    for column in list(tree.find_all(exp.Column)):
        select = column.find_ancestor(exp.Select)
        if select is None or select.parent is None or not column.table:
            continue
        _, own = selects.setdefault(id(select), (select, _sources_of(select)))
        if column.table not in own and any(map(has_lambda, _calls_around(column, select))):
            further.setdefault(id(select), []).append(column)
    for number, (place, columns) in enumerate(further.items()):
        _bring_near(selects[place][0], columns, f"_near{number}")


def _bring_near(select: exp.Select, columns: list[exp.Column], alias: str) -> None:
    found: dict[str, exp.Expr] = {}
    for column in columns:
        name = f"{column.table}_{column.name}"
        found.setdefault(name, exp.alias_(column.copy(), exp.to_identifier(name)))
        column.replace(exp.column(exp.to_identifier(name), alias))
    query = exp.select(*found.values())
    _add_in_front(select, exp.Subquery(this=query, alias=_alias(alias)))


def _sources_of(select: exp.Select) -> set[str]:
    """Names of what the query itself reads."""
    parts = [select.args.get("from_"), *(select.args.get("joins") or ())]
    return {part.this.alias_or_name for part in parts if part is not None}


def _calls_around(column: exp.Expr, select: exp.Select) -> list[Call]:
    found, node = [], column.parent
    while node is not None and node is not select:
        if isinstance(node, Call):
            found.append(node)
        node = node.parent
    return found


def _add_in_front(select: exp.Select, source: exp.Subquery) -> None:
    """The source in front of all others, or behind them where an outer join would lose it."""
    before, joins = select.args.get("from_"), select.args.get("joins") or []
    if before is None:
        select.set("from_", exp.From(this=source))
    elif any((join.side or "").upper() in {"RIGHT", "FULL"} for join in joins):
        select.set("joins", [*joins, exp.Join(this=source, kind="CROSS")])
    else:
        select.set("from_", exp.From(this=source))
        select.set("joins", [exp.Join(this=before.this, kind="CROSS"), *joins])


def _alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name))
