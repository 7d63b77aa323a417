"""The node that stands for a call with settled meaning in a bound tree.

After binding, every function, operator with two readings, cast and constructor is a `Call`: its
overload says how each engine computes it, and its arguments already have the types it takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from seamline.sql.functions import Overload
from seamline.sql.types import Type


@dataclasses.dataclass(frozen=True, slots=True)
class CallSpec:
    """What a `Call` computes, apart from its arguments.

    Attributes:
        overload: Meaning and templates.
        parameters: Types of the arguments.
        returns: Type of the result.
        constant: The value of a literal, as Python holds it; None for everything else.
    """

    overload: Overload
    parameters: tuple[Type, ...]
    returns: Type
    constant: Any = None

    def __hash__(self) -> int:
        return hash((self.overload.name, self.parameters, self.returns, str(self.constant)))


VOLATILE = frozenset({"random", "rand", "uuid"})
"""Functions that give another value each time."""


COMPUTED_COUNT = "$count"
"""How many rows `lag`, `lead` or `nth_value` count by where that is not written out."""


class Call(exp.Expression, exp.Func):
    """A call: `expressions` are its arguments, `spec` its `CallSpec`.

    `distinct` and `order` are of aggregates alone.
    """

    arg_types = {"expressions": False, "spec": True, "distinct": False, "order": False}  # noqa: RUF012
    _sql_names = ["SEAMLINE_CALL"]  # noqa: RUF012

    @property
    def spec(self) -> CallSpec:
        """Meaning and types."""
        spec: CallSpec = self.args["spec"]
        return spec


class BoundLambda(exp.Expression):
    """An argument `(x, y) -> body`: `expressions` are names nothing else has, `this` the body."""

    arg_types = {"this": True, "expressions": True}  # noqa: RUF012


def call(spec: CallSpec, arguments: Sequence[exp.Expr], **options: Any) -> Call:
    """A `Call` node."""
    return Call(expressions=list(arguments), spec=spec, **options)
