"""Finds queries whose only row consists of constants, and of the number of rows of one scan.

Such a row needs no engine if metadata states how many rows the snapshot has. Whether it does is
looked up next, and decides. Only literals count as constants, and only a scan of whole tables: all
rows of a snapshot and of a tail, where none hides another.
"""

from __future__ import annotations

import dataclasses
import decimal

from sqlglot import exp

from seamline.planners.plan.logical import Constant, LogicalPlan, RowCount, Scan
from seamline.planners.rules.push_predicates import constant
from seamline.sql import types
from seamline.sql.expressions.calls import Call
from seamline.sql.types import Decimal, Type


def answer_from_metadata(plan: LogicalPlan) -> LogicalPlan:
    """See the module's docstring."""
    select = plan.query.tree
    if not isinstance(select, exp.Select) or not _is_plain(select, plan.scans):
        return plan
    row = tuple(
        _column(item.unalias(), output.type)
        for item, output in zip(select.expressions, plan.query.output, strict=True)
    )
    answered = tuple(column for column in row if column is not None)
    if len(answered) < len(row) or bool(plan.scans) != (RowCount() in answered):
        return plan
    return dataclasses.replace(plan, row=answered)


def _is_plain(select: exp.Select, scans: tuple[Scan, ...]) -> bool:
    """Whether a query has no clauses but SELECT, and FROM with one table that is read whole."""
    clauses = {name for name, clause in select.args.items() if clause}
    if not scans:
        return clauses == {"expressions"}
    if clauses != {"expressions", "from_"} or len(scans) > 1:
        return False
    source = select.args["from_"].this
    parts = {name for name, part in source.args.items() if part}
    return isinstance(source, exp.Table) and parts <= {"this", "alias"} and _is_whole(scans[0])


def _is_whole(scan: Scan) -> bool:
    facts = scan.facts
    is_stored = facts.kind in {"unified", "hot", "cold"} and facts.newest is None
    is_all = scan.predicate is None and scan.seam.cold_span is None
    return is_stored and is_all and not scan.columns


def _column(node: exp.Expr, type_: Type) -> Constant | RowCount | None:
    match node:
        case exp.Null():
            return Constant(None)
        case exp.Literal() | exp.Boolean() if _is_shared(type_):
            return _constant(node)
        case Call() if node.spec.overload.kind == "aggregate":
            return RowCount() if _counts_rows(node) else None
        case Call() if node.spec.constant is not None and _is_shared(type_):
            return _constant(node)
        case Call() if node.spec.overload.name == "$negate" and type_ in types.INTEGERS:
            return _constant(node) if isinstance(node.expressions[0], exp.Literal) else None
    return None


def _constant(node: exp.Expr) -> Constant | None:
    value = constant(node)
    if isinstance(value, str) and not _is_text(value):
        return None
    return (
        Constant(value) if isinstance(value, bool | int | float | str | decimal.Decimal) else None
    )


def _is_shared(type_: Type) -> bool:
    """Whether a literal of a type is the same value for Arrow as for an engine."""
    simple = {types.BOOLEAN, *types.INTEGERS, types.VARCHAR, types.DOUBLE}
    return type_ in simple or isinstance(type_, Decimal)


def _is_text(value: str) -> bool:
    """Whether a text has none of the characters that some engine does not store."""
    return "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


def _counts_rows(node: Call) -> bool:
    if node.spec.overload.name != "count" or node.args.get("distinct") or node.args.get("order"):
        return False
    return all(constant(argument) is not None for argument in node.expressions)
