"""The tree node for a resolved call in a bound tree, and what is asked of trees of calls.

After binding, every function, ambiguous operator, cast and constructor is a `Call`. Its overload
says how each engine computes it, and its arguments already have the types it takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from seamline.sql.functions import Overload
from seamline.sql.templates import Template
from seamline.sql.trees import nodes_of
from seamline.sql.types import Type


@dataclasses.dataclass(frozen=True, slots=True)
class CallSpec:
    """What a `Call` computes, apart from its arguments.

    Attributes:
        overload: Meaning and templates.
        parameters: Types of the arguments.
        returns: Type of the result.
        constant: The value of a literal as a Python object; None for everything else.
    """

    overload: Overload
    parameters: tuple[Type, ...]
    returns: Type
    constant: Any = None

    def __hash__(self) -> int:
        return hash((self.overload.name, self.parameters, self.returns, str(self.constant)))


VOLATILE = frozenset({"random", "rand", "uuid"})
"""Functions that return a different value on every call."""
UNREPEATABLE = VOLATILE | {"shuffle"}
"""Functions that need not return the same for the same arguments."""


EMPTY_FRAME = "empty"
"""Marks a window's frame of no rows, such as one between 1 and 2 PRECEDING."""
COMPUTED_COUNT = "$count"
"""Overload name of a row count of `lag`, `lead` or `nth_value` that is not a literal."""


class Call(exp.Expression, exp.Func):
    """A call: `expressions` are its arguments, `spec` its `CallSpec`.

    Only aggregates have `distinct` and `order`.
    """

    arg_types = {"expressions": False, "spec": True, "distinct": False, "order": False}  # noqa: RUF012
    _sql_names = ["SEAMLINE_CALL"]  # noqa: RUF012

    @property
    def spec(self) -> CallSpec:
        """The meaning and types of the call."""
        spec: CallSpec = self.args["spec"]
        return spec


class BoundLambda(exp.Expression):
    """A lambda argument `(x, y) -> body`: `expressions` are the parameters, `this` is the body.

    No parameter has the name of one of an enclosing lambda.
    """

    arg_types = {"this": True, "expressions": True}  # noqa: RUF012


def call(spec: CallSpec, arguments: Sequence[exp.Expr], **options: Any) -> Call:
    """Returns a `Call` node."""
    return Call(expressions=list(arguments), spec=spec, **options)


def constructor(name: str, duckdb: Template, spark: Template) -> Overload:
    """Returns an internal overload that is not a function and consists only of its templates."""
    return Overload(
        name=name,
        kind="scalar",
        parameters=(),
        variadic=True,
        returns="T",
        duckdb=duckdb,
        spark=spark,
    )


def is_repeatable(tree: exp.Expr) -> bool:
    """Whether a bound tree returns the same whenever it is computed over the same rows.

    The order of rows and of sums is an engine's own, and no part of what a query returns.
    """
    return not any(call.spec.overload.name in UNREPEATABLE for call in tree.find_all(Call))


def has_aggregate(node: exp.Expr) -> bool:
    """Whether the node contains an aggregate of this query."""
    for inner in nodes_of(node, leaves=(exp.Query, exp.Window)):
        if isinstance(inner, exp.Window):
            if any(has_aggregate(part) for part in parts_of_window(inner)):
                return True
        elif isinstance(inner, Call) and inner.spec.overload.kind == "aggregate":
            return True
    return False


def parts_of_window(node: exp.Window) -> list[exp.Expr]:
    """Returns what a window function is computed from: arguments, filter and definition."""
    function: exp.Expr = node.this
    parts: list[Any] = []
    while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        if isinstance(function, exp.Filter):
            parts.append(function.expression.this)
        function = function.this
    parts += [*function.expressions, *(node.args.get("partition_by") or ())]
    if node.args.get("order") is not None:
        parts += [item.this for item in node.args["order"].expressions]
    frame = node.args.get("spec")
    bounds = [frame.args.get(end) for end in ("start", "end")] if frame is not None else []
    return [*parts, *(bound for bound in bounds if isinstance(bound, exp.Expr))]
