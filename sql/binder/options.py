"""Clauses and flags of a query: each one is supported or refused.

The parser accepts more than we support, and keeps the rest in the tree. A clause that no code reads
would silently change the meaning of a statement. (For expressions, the binder checks this.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from seamline.errors import NOT_SUPPORTED, Location, SeamlineError
from seamline.sql import locations
from seamline.sql.trees import nodes_of

_OPERANDS = frozenset({"this", "expression", "expressions"})
_QUERY = frozenset({"with_", "order", "limit", "offset"})
_CLAUSES: Mapping[type[Any], frozenset[str]] = {
    exp.Select: _QUERY | {"distinct", "from_", "joins", "where", "group", "having", "windows"},
    exp.Union: _QUERY | {"distinct"},
    exp.Except: _QUERY | {"distinct"},
    exp.Intersect: _QUERY | {"distinct"},
    exp.Subquery: _QUERY | {"alias", "sample", "joins"},
    exp.With: frozenset({"recursive"}),
    exp.CTE: frozenset({"alias"}),
    exp.TableAlias: frozenset({"columns"}),
    exp.From: frozenset(),
    exp.Join: frozenset({"side", "kind", "method", "on", "using"}),
    exp.Table: frozenset({"db", "catalog", "alias", "version", "joins", "sample"}),
    exp.TableSample: frozenset({"method", "percent", "seed"}),
    exp.Values: frozenset({"alias", "sample", "joins"}),
    exp.Unnest: frozenset({"alias", "offset", "joins"}),
    exp.Lateral: frozenset({"alias", "joins"}),
    exp.Where: frozenset(),
    exp.Having: frozenset(),
    exp.Group: frozenset({"all", "grouping_sets", "cube", "rollup"}),
    exp.GroupingSets: frozenset(),
    exp.Rollup: frozenset(),
    exp.Cube: frozenset(),
    exp.Order: frozenset(),
    exp.Ordered: frozenset({"desc", "nulls_first"}),
    exp.Limit: frozenset(),
    exp.Offset: frozenset(),
    exp.Fetch: frozenset({"direction", "count", "limit_options"}),
    exp.Distinct: frozenset(),
    exp.Star: frozenset({"except_", "replace", "rename"}),
    exp.WindowSpec: frozenset({"kind", "start", "start_side", "end", "end_side"}),
}
"""The arguments that a query node may have besides its operands; the binder reads all of them."""
_CALLED = {
    "by_name": ("CORRESPONDING", "List the columns in the same order on both sides."),
    "exclude": ("EXCLUDE", "Use two windows, and subtract one from the other."),
    "match": ("MATCH_RECOGNIZE", "lag, lead and sums over a window find most patterns."),
    "method": ("NATURAL JOIN", "Use JOIN … USING."),
    "on": ("DISTINCT ON", "Use row_number() OVER (PARTITION BY …) = 1 in a subquery."),
    "pivots": ("PIVOT", "Use sum(x) FILTER (WHERE month = 1) AS jan, and so on."),
    "udfs": ("WITH FUNCTION", "Write the expression, or a view that computes it."),
}
"""SQL names of arguments, and what to write instead."""


def check_options(tree: exp.Expr) -> None:
    """Checks every clause of a parsed query.

    Raises:
        SeamlineError: NOT_SUPPORTED, naming the clause or flag.
    """
    for node in nodes_of(tree):
        clauses = _CLAUSES.get(type(node))
        if clauses is None:
            continue
        for name, value in node.args.items():
            if value and name not in clauses | _OPERANDS:
                what, instead = _CALLED.get(name, (name.strip("_").upper(), None))
                raise SeamlineError(
                    NOT_SUPPORTED,
                    f"{what} is not supported",
                    location=_location(node),
                    hint=instead,
                )


def _location(node: exp.Expr | None) -> Location | None:
    """Returns where a node is, or the nearest one around it that has a place."""
    while node is not None and (location := locations.location_of(node)) is None:
        node = node.parent
    return location if node is not None else None
