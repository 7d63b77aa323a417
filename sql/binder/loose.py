"""Coercions of other dialects that Trino lacks: text for dates, and whole numbers for days.

A translated statement carries marks where its dialect allows them; statements of our own dialect
have no marks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from seamline.sql import types
from seamline.sql.binder.binder import Binder
from seamline.sql.binder.conversions import explicit_cast, implicit_cast
from seamline.sql.binder.intervals import days_of
from seamline.sql.binder.moments import bind_moment
from seamline.sql.binder.scope import Scope, Typed
from seamline.sql.parsing.dialects import DAYS, TEXT
from seamline.sql.types import Time, Timestamp, Type


def comparable(binder: Binder, nodes: Sequence[exp.Expr], scope: Scope) -> list[Typed]:
    """Binds operands of a comparison; marked text becomes a value of the other operands' type."""
    operands = [None if _marked(n, TEXT) else binder.expression(n, scope) for n in nodes]
    target = next((o[1] for o in operands if o is not None and _takes_text(o[1])), None)
    return [operand or of_text(node, target) for operand, node in zip(operands, nodes, strict=True)]


def of_text(node: exp.Expr, target: Type | None) -> Typed:
    """Binds marked text as a value of the wanted type, or as text if there is none."""
    literal = node.unnest().expressions[0]
    if target is None:
        return literal, types.VARCHAR
    kind = exp.DType.DATE
    if isinstance(target, Timestamp):
        kind = exp.DType.TIMESTAMPTZ if target.zoned else exp.DType.TIMESTAMP
    elif isinstance(target, Time):
        kind = exp.DType.TIME
    elif target != types.DATE:
        return explicit_cast(literal, types.VARCHAR, target, safe=False), target
    moment = bind_moment(exp.Cast(this=literal, to=exp.DataType(this=kind)))
    assert moment is not None
    return moment


def _marked(node: exp.Expr, mark: str) -> bool:
    inner = node.unnest()
    return isinstance(inner, exp.Anonymous) and inner.name.lower() == mark


def _takes_text(type_: Type) -> bool:
    return type_ == types.DATE or types.is_numeric(type_) or isinstance(type_, Timestamp | Time)


def summands(binder: Binder, node: exp.Binary, scope: Scope) -> tuple[list[Typed], bool]:
    """Returns both sides of arithmetic, and whether it may combine dates and whole numbers."""
    right = node.expression
    is_loose = _marked(right, DAYS)
    if is_loose:
        right = right.unnest().expressions[0]
    return [binder.expression(side, scope) for side in (node.this, right)], is_loose


def in_days(
    name: str, operands: Sequence[Typed], bind: Callable[[str, Sequence[Typed]], Typed]
) -> Typed | None:
    """Binds `date + 5`, `5 + date`, `date - 5`, `date - date` in days; None for anything else."""
    left, right = (type_ for _, type_ in operands)
    if name == "$subtract" and left == right == types.DATE:
        return bind("$date_diff_day", [operands[1], operands[0]])
    if left in types.INTEGERS and right == types.DATE and name == "$add":
        return in_days(name, operands[::-1], bind)
    if left != types.DATE or right not in types.INTEGERS or name not in {"$add", "$subtract"}:
        return None
    node, type_ = operands[1]
    days = implicit_cast(node, type_, types.BIGINT)
    return bind(name, [operands[0], days_of(days)])
