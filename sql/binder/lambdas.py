"""Lambdas: arguments whose types depend on the parameter types that a function assigns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from seamline.errors import NOT_SUPPORTED, STATEMENT_TOO_LARGE, TYPE_MISMATCH, SeamlineError
from seamline.sql import coercion
from seamline.sql.binder.conversions import implicit_cast
from seamline.sql.binder.grouping import refuse_aggregates, refuse_windows
from seamline.sql.binder.scope import Column, Scope, Typed
from seamline.sql.expressions.calls import BoundLambda
from seamline.sql.locations import location_of
from seamline.sql.types import Function, Type

if TYPE_CHECKING:
    from seamline.sql.binder.binder import Binder

BINDINGS_MAX = 1000
"""Maximum bindings of lambda bodies in one statement; a body may be bound for several types."""


class LambdaArgument:
    """A lambda argument of a call whose overload is not resolved yet.

    Its body sees the parameters first, then everything that the call sees.
    """

    def __init__(self, binder: Binder, node: exp.Lambda, scope: Scope) -> None:
        self._typer = binder
        self._node = node
        self._scope = scope
        self._aliases = [binder.parameter(scope.depth, position) for position in range(self.arity)]
        self._bound: dict[tuple[Type, ...], Typed] = {}

    @property
    def arity(self) -> int:
        """The number of parameters."""
        return len(self._node.expressions)

    def result(self, parameters: tuple[Type, ...]) -> Type:
        """Returns the type of the body for the given parameter types."""
        return self._body(parameters)[1]

    def bound(self, function: Function) -> BoundLambda:
        """Returns the lambda bound for a function that takes one of that type.

        Raises:
            SeamlineError: TYPE_MISMATCH.
        """
        body, type_ = self._body(function.parameters)
        if not coercion.can_coerce(type_, function.returns):
            raise SeamlineError(
                TYPE_MISMATCH, f"the lambda returns {type_}, not {function.returns}", hint=""
            )
        names = [exp.to_identifier(alias) for alias in self._aliases]
        return BoundLambda(this=implicit_cast(body, type_, function.returns), expressions=names)

    def _body(self, parameters: tuple[Type, ...]) -> Typed:
        if parameters not in self._bound:
            self._typer.lambdas += 1
            if self._typer.lambdas > BINDINGS_MAX:
                raise SeamlineError(STATEMENT_TOO_LARGE, "lambdas are nested too deeply")
            self._bound[parameters] = self._bind(parameters)
        return self._bound[parameters]

    def _bind(self, parameters: tuple[Type, ...]) -> Typed:
        scope = Scope(self._scope, self._scope.ctes)
        scope.results = self._scope.results
        scope.depth = self._scope.depth + 1
        for name, alias, type_ in zip(
            self._node.expressions, self._aliases, parameters, strict=True
        ):
            scope.row.append(Column(name.name, type_, exp.column(alias)))
        body, type_ = self._typer.expression(self._node.this.copy(), scope)
        refuse_aggregates(body, "a lambda")
        refuse_windows(body, "a lambda")
        if body.find(exp.Query) is not None:
            raise SeamlineError(
                NOT_SUPPORTED,
                "a lambda cannot contain a subquery",
                location=location_of(self._node),
                hint="Join the subquery, and use its column.",
            )
        return body, type_
