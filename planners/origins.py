"""Where the columns of a bound query come from: those that it passes on unchanged from a scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from seamline.sql.expressions.calls import Call
from seamline.sql.expressions.naming import name_of_scan_column
from seamline.sql.trees import nodes_of_kind


class Origin(NamedTuple):
    """A column of a scan."""

    scan_id: str
    column: str


class Origins(NamedTuple):
    """Where the columns of a query come from.

    Attributes:
        columns: The origin of each column of the result; None for those that are computed.
        has_all_rows: Whether the rows are exactly those of the only scan.
    """

    columns: Sequence[Origin | None]
    has_all_rows: bool


def origins(tree: exp.Expr) -> Origins:
    """Returns the origins of a bound query's columns."""
    return _origins(tree, {})


def _origins(tree: exp.Expr, named: Mapping[str, exp.Expr]) -> Origins:
    if isinstance(tree, exp.Subquery):
        return _origins(tree.this, named)
    if not isinstance(tree, exp.Select):
        return Origins([None] * len(getattr(tree, "named_selects", ())), has_all_rows=False)
    with_ = tree.args.get("with_")
    for cte in with_.expressions if with_ is not None and not with_.recursive else ():
        named = {**named, cte.alias: cte.this}
    from_, joins = tree.args.get("from_"), tree.args.get("joins") or ()
    read = {
        node.this.alias: _source(node.this, named) for node in (from_, *joins) if node is not None
    }
    columns = [_of_projection(projection.unalias(), read) for projection in tree.expressions]
    keeps_rows = not any(value for key, value in tree.args.items() if key not in _KEEPING)
    computes = any(node.spec.overload.kind != "scalar" for node in nodes_of_kind(tree, Call))
    is_whole = all(whole for _, whole in read.values()) and len(read) == 1
    return Origins(columns, keeps_rows and is_whole and not computes)


_KEEPING = frozenset({"expressions", "from_", "order", "with_"})
"""The clauses of a SELECT that has a row for each row that it reads."""

_Source = tuple[Mapping[str, Origin | None] | str, bool]
"""The origins of a source's columns by name, or the scan that it is; and whether it has all of the
rows of a scan."""


def _source(node: exp.Expr, named: Mapping[str, exp.Expr]) -> _Source:
    if isinstance(node, exp.Table) and node.name not in named:
        return node.name, not node.args.get("sample")
    inner = named[node.name] if isinstance(node, exp.Table) else node
    if not isinstance(inner, exp.Query | exp.Subquery):
        return {}, False
    columns, has_all_rows = _origins(inner, named)
    return dict(zip(inner.named_selects, columns, strict=False)), has_all_rows


def _of_projection(node: exp.Expr, read: Mapping[str, _Source]) -> Origin | None:
    if not isinstance(node, exp.Column) or node.table not in read:
        return None
    columns, _ = read[node.table]
    if isinstance(columns, str):
        return Origin(columns, name_of_scan_column(node.name))
    return columns.get(node.name)
