"""Aggregates in stages: from rows to partial aggregates, from these to others, and to a result.

A partial aggregate stands for some of a group's rows. Those of disjoint sets of rows merge into
that of their union, and in the end into the aggregate itself, with the type, the nulls and the
errors that it has over all rows at once: a sum of integers, for example, has 38 digits until all of
its rows are in it, and only then must it be a bigint.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlglot import exp

from seamline.sql import types
from seamline.sql.expressions.calls import Call, CallSpec, call, constructor
from seamline.sql.functions import Overload
from seamline.sql.types import Char, Decimal, Timestamp, Type, Varbinary

_DIGITS_MAX = 28
"""Decimals with more digits are not summed in stages: a part may overflow where the whole does not.
With these, that takes ten billion rows."""
_TOTAL = Decimal(types.MAX_DECIMAL_PRECISION, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A partial aggregate."""

    node: Call
    merge: Overload


@dataclasses.dataclass(frozen=True, slots=True)
class Staged:
    """An aggregate in stages.

    Attributes:
        parts: The partial aggregates that it is computed from.
        final: Computes it from those of all rows.
        returns: Its type.
        is_exact: Whether it is what it would be in one stage. A sum of doubles depends on an order
            of rows that nothing defines.
    """

    parts: tuple[Part, ...]
    final: Overload
    returns: Type
    is_exact: bool = True

    def result(self, columns: Sequence[exp.Expr]) -> Call:
        """Returns the aggregate over the columns of its parts."""
        parameters = tuple(part.node.spec.returns for part in self.parts)
        return call(CallSpec(self.final, parameters, self.returns), columns)


def staged(node: Call) -> Staged | None:
    """Returns an aggregate in stages; None if it is not computed in stages."""
    spec = node.spec
    name, returns = spec.overload.name, spec.returns
    if node.args.get("distinct") or node.args.get("order"):
        return None
    if name in _COUNTS:
        return Staged((Part(node, _COUNT),), _COUNT, returns)
    if not spec.parameters:
        return None
    type_ = spec.parameters[0]
    if name in _SAME and is_kept(type_):
        return Staged((Part(node, spec.overload),), spec.overload, returns)
    if name == "sum" and type_ in types.INTEGERS:
        return Staged((_total(node.expressions[0], type_),), _SUM, returns)
    if name == "sum" and isinstance(type_, Decimal) and type_.precision <= _DIGITS_MAX:
        return Staged((Part(node, spec.overload),), spec.overload, returns)
    if name in ("sum", "$total") and returns == types.DOUBLE:
        return Staged((Part(node, _DOUBLES),), _DOUBLES, returns, is_exact=False)
    return _average(node) if name == "avg" and type_ in _AVERAGED else None


def is_kept(type_: Type) -> bool:
    """Whether values of a type are the same after they were stored."""
    if isinstance(type_, Timestamp):
        return not type_.in_nanoseconds
    return type_ in _KEPT or isinstance(type_, Char | Decimal | Varbinary)


def _average(node: Call) -> Staged:
    """Averages of integers are computed from their total, which is exact.

    Engines divide the total of bigints in a way of their own, so the last digit may differ.
    """
    (argument,), (type_,) = node.expressions, node.spec.parameters
    counted = call(CallSpec(_COUNTED, (type_,), types.BIGINT), [argument])
    is_whole = (
        isinstance(argument, Call)
        and argument.spec.overload.name == "cast"
        and argument.spec.parameters[0] in (types.TINYINT, types.SMALLINT, types.INTEGER)
        and type_ == types.DOUBLE
    )
    if type_ == types.BIGINT:
        total = _total(argument, type_)
    elif is_whole:
        total = _total(argument.expressions[0], argument.spec.parameters[0])
    else:
        total = Part(call(CallSpec(_ADDED, (type_,), types.DOUBLE), [argument]), _DOUBLES)
    return Staged((total, Part(counted, _COUNT)), _QUOTIENT, node.spec.returns, is_exact=is_whole)


def _total(argument: exp.Expr, type_: Type) -> Part:
    return Part(call(CallSpec(_WHOLE, (type_,), _TOTAL), [argument]), _TOTALS)


def _overload(name: str, duckdb: str, spark: str) -> Overload:
    """Returns an internal aggregate, which no statement can name."""
    return dataclasses.replace(constructor(name, duckdb, spark), kind="aggregate")


_AVERAGED = (*types.FLOATS, types.BIGINT)
_COUNTS = frozenset({"count", "count_if", "regr_count"})
_SAME = frozenset({"min", "max", "bool_and", "every", "bool_or", "bitwise_and_agg"}) | {
    "bitwise_or_agg"
}
"""Aggregates of which several merge by the same aggregate."""
_KEPT = frozenset(
    {*types.INTEGERS, *types.FLOATS, types.BOOLEAN, types.VARCHAR, types.DATE, types.UUID}
)
_COUNT = _overload(
    "$merged_count",
    "CAST(coalesce(sum({0}){over}, 0) AS BIGINT)",
    "coalesce(sum({0}){over}, 0)",
)
_COUNTED = _overload("$counted", "count({0}){over}", "count({0}){over}")
_WHOLE = _overload(
    "$whole",
    "CAST(sum({0}){over} AS DECIMAL(38,0))",
    "sum(CAST({0} AS DECIMAL(28,0))){over}",
)
_TOTALS = _overload(
    "$merged_whole", "(sum({0}){over} + CAST(0 AS DECIMAL(38,0)))", "sum({0}){over}"
)
_SUM = _overload(
    "$merged_sum",
    "CAST(CAST(sum({0}){over} AS HUGEINT) AS BIGINT)",
    "CAST(sum({0}){over} AS BIGINT)",
)
_ADDED = _overload("$added", "sum(CAST({0} AS DOUBLE)){over}", "sum(CAST({0} AS DOUBLE)){over}")
_DOUBLES = _overload("$merged_added", "sum({0}){over}", "sum({0}){over}")
_QUOTIENT = _overload(
    "$merged_average",
    "CAST(CAST(sum({0}) AS DOUBLE) / sum({1}) AS {type})",
    "CAST(CAST(sum({0}) AS DOUBLE) / sum({1}) AS {type})",
)
