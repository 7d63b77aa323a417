"""The tree node for a resolved call in a bound tree.

After binding, every function, ambiguous operator, cast and constructor is a `Call`. Its overload
says how each engine computes it, and its arguments already have the types it takes.
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
