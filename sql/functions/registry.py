"""The function table: what a row is, how it is declared, and which row a call resolves to.

A row has a name, a signature in Trino's types, and how each engine computes it. That is a template,
because the engines' own functions of the same name differ in edge cases (zero divisors, nulls,
rounding, negative positions) and both must give Trino's answer; or a kernel, which both engines
run.

Signatures are written `T, T -> T`, with the types and variables of `patterns`. A last parameter
with `...` repeats. In a template, `{0}` is the first argument, `{type}` the result's type in that
engine, and `{args}` all arguments.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias

from seamline.errors import FUNCTION_NOT_FOUND, NOT_SUPPORTED, TYPE_MISMATCH, SeamlineError
from seamline.sql import coercion, types
from seamline.sql.functions import patterns
from seamline.sql.functions.forms import FORMS, written
from seamline.sql.functions.other_names import REASONS, REPLACEMENTS
from seamline.sql.functions.patterns import Pattern
from seamline.sql.kernels.calls import duckdb_template, spark_template
from seamline.sql.kernels.kernel import Compute, Kernel, by_duckdb
from seamline.sql.near import did_you_mean
from seamline.sql.templates import SPARK, Template
from seamline.sql.types import Type

Kind: TypeAlias = Literal["scalar", "aggregate", "window"]


@dataclasses.dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function and its two templates.

    Attributes:
        name: Lower-case name.
        kind: Scalar, aggregate (also usable as a window function) or window only.
        parameters: Patterns of the parameters.
        variadic: Whether the last parameter repeats.
        returns: Pattern of the result, or a function of the argument types.
        duckdb: Template for DuckDB.
        spark: Template for Spark.
        kernel: The kernel that both engines run, if the templates only call it.
        parts: Aggregates that the templates are computed from, each over the same leading
            arguments: name, and number of arguments. The remaining arguments follow them.
    """

    name: str
    kind: Kind
    parameters: tuple[str, ...]
    variadic: bool
    returns: str | Callable[[Sequence[Type]], Type]
    duckdb: Template
    spark: Template
    kernel: Kernel | None = None
    parts: tuple[tuple[str, int], ...] = ()

    @property
    def signature(self) -> str:
        """The signature in a form for people."""
        parameters = list(self.parameters)
        if self.variadic:
            parameters[-1] += "…"
        returns = self.returns if isinstance(self.returns, str) else "…"
        return f"{written(self.name, parameters)} → {returns}"


@dataclasses.dataclass(frozen=True, slots=True)
class Resolved:
    """A call with resolved types: what each argument must be cast to, and the result type."""

    overload: Overload
    parameters: tuple[Type, ...]
    returns: Type


class Lambda(Protocol):
    """A lambda argument `(x, y) -> …`, whose type depends on the types of its parameters."""

    @property
    def arity(self) -> int:
        """The number of parameters."""

    def result(self, parameters: tuple[Type, ...]) -> Type:
        """Returns the type of the body for the given parameter types."""


Argument: TypeAlias = Type | Lambda

COLLECT = "array_agg"
"""The aggregate that collects all values, in an order if one is given."""

GROUPING = "grouping"
"""The aggregate that says which keys a group leaves out."""

FUNCTIONS: dict[str, list[Overload]] = {}
"""Overloads by name, in the order in which they are tried."""

_SIGNATURE = re.compile(r"(?P<parameters>.*?)(?P<variadic>\.\.\.)?\s*->\s*(?P<returns>.+)")


def define(
    kind: Kind,
    name: str,
    signature: str,
    duckdb: Template | None,
    spark: Template | None = None,
    returns: Callable[[Sequence[Type]], Type] | None = None,
    kernel: Kernel | None = None,
    parts: tuple[tuple[str, int], ...] = (),
) -> None:
    """Adds a row to the table; with `returns` given, the signature's own result is ignored."""
    match = _SIGNATURE.fullmatch(signature)
    assert match is not None, signature
    if kind != "scalar" and not parts:
        duckdb, spark = _with_marks(duckdb), _with_marks(spark)
    parameters = tuple(patterns.split(match["parameters"]))
    FUNCTIONS.setdefault(name, []).append(
        Overload(
            name=name,
            kind=kind,
            parameters=parameters,
            variadic=match["variadic"] is not None,
            returns=returns or match["returns"].strip(),
            duckdb=duckdb or "",
            spark=(duckdb if spark is None else spark) or "",
            kernel=kernel,
            parts=parts,
        )
    )


def _with_marks(template: Template | None) -> Template | None:
    """Marks where DISTINCT, FILTER and OVER go, unless the template does so itself."""
    if isinstance(template, str) and "{distinct}" not in template:
        template = template.replace("({0}", "({distinct}{0}", 1)
    if isinstance(template, str) and "{over}" not in template:
        template += "{over}"
    return template


def resolve(name: str, arguments: Sequence[Argument]) -> Resolved:
    """Returns the overload that takes these arguments with the fewest conversions.

    Raises:
        SeamlineError: FUNCTION_NOT_FOUND, NOT_SUPPORTED or TYPE_MISMATCH.
    """
    overloads = FUNCTIONS.get(name.lower())
    if overloads is None:
        raise unknown(name)
    matches = [r for o in overloads if (r := _match(o, arguments)) is not None]
    if not matches:
        names = [str(a) if isinstance(a, Type) else "lambda" for a in arguments]
        form = FORMS.get(name.removeprefix("$")) if name.startswith("$") else None
        signatures = "; ".join(form or dict.fromkeys(overload.signature for overload in overloads))
        raise SeamlineError(
            TYPE_MISMATCH,
            f"{written(name.lower(), names)} is not defined",
            hint=f"It is defined as: {signatures}",
        )
    return min(matches, key=lambda r: _conversions(r, arguments))


def _conversions(resolved: Resolved, arguments: Sequence[Argument]) -> tuple[int, int]:
    """Returns how many arguments are converted, and how many nulls are taken as containers."""
    pairs = list(zip(resolved.parameters, arguments, strict=True))
    return (
        sum(isinstance(a, Type) and p != a for p, a in pairs),
        sum(a == types.UNKNOWN and any(types.children(p)) for p, a in pairs),
    )


def _match(overload: Overload, arguments: Sequence[Argument]) -> Resolved | None:
    spelled = list(overload.parameters)
    if overload.variadic:
        spelled += spelled[-1:] * (len(arguments) - len(spelled))
    if len(spelled) != len(arguments):
        return None
    pairs = [(patterns.parsed(t), a) for t, a in zip(spelled, arguments, strict=True)]
    bound: patterns.Bound = {}
    for pattern, argument in pairs:
        if isinstance(argument, Type) and not patterns.bind(pattern, argument, bound):
            return None
    patterns.settle(bound)
    if not _bind_lambdas(pairs, bound):
        return None
    parameters = tuple(
        argument
        if pattern.head == patterns.ANY and isinstance(argument, Type)
        else patterns.substitute(pattern, bound)
        for pattern, argument in pairs
    )
    for parameter, argument in zip(parameters, arguments, strict=True):
        if isinstance(argument, Type) and not coercion.can_coerce(argument, parameter):
            return None
    if isinstance(overload.returns, str):
        returns = patterns.substitute(patterns.parsed(overload.returns), bound)
    else:
        returns = overload.returns(parameters)
    return Resolved(overload, parameters, returns)


def _bind_lambdas(pairs: Sequence[tuple[Pattern, Argument]], bound: patterns.Bound) -> bool:
    """Types lambdas from the other arguments, repeatedly while one widens a variable."""
    before: patterns.Bound | None = None
    while before != bound:
        before = dict(bound)
        for pattern, argument in pairs:
            if isinstance(argument, Type):
                continue
            if pattern.head != "function" or len(pattern.parts) != argument.arity + 1:
                return False
            *parameters, returns = pattern.parts
            body = argument.result(tuple(patterns.substitute(part, bound) for part in parameters))
            if not patterns.bind(returns, body, bound):
                return False
    return True


# --- Functions refused by name, with the reason --------------------------------------------------


def is_aggregate(name: str) -> bool:
    """Whether a function of that name computes one value from many rows."""
    return any(overload.kind == "aggregate" for overload in FUNCTIONS.get(name, ()))


def unknown(name: str) -> SeamlineError:
    """Returns the error for a name that is not in the table, with the reason if there is one."""
    folded = name.lower()
    if folded in REPLACEMENTS:
        return SeamlineError(
            FUNCTION_NOT_FOUND,
            f"there is no function {folded}",
            hint=f"Write, for example, {REPLACEMENTS[folded]}.",
        )
    if folded in REASONS:
        return SeamlineError(NOT_SUPPORTED, f"{folded} is not offered", hint=REASONS[folded] + ".")
    names = [*(name for name in FUNCTIONS if not name.startswith("$")), *FORMS]
    hint = did_you_mean(folded, names)
    return SeamlineError(FUNCTION_NOT_FOUND, f"there is no function {folded}", hint=hint)


# --- Declaring -----------------------------------------------------------------------------------


def scalar(name: str, signature: str, duckdb: Template, spark: Template | None = None) -> None:
    """Declares a scalar function."""
    define("scalar", name, signature, duckdb, spark)


def kernel(name: str, signature: str, compute: Compute) -> None:
    """Declares a scalar function whose Python implementation both engines run."""
    implementation = Kernel(name.removeprefix("$"), compute)
    define(
        "scalar",
        name,
        signature,
        duckdb_template(implementation),
        spark_template(implementation),
        kernel=implementation,
    )


def by_duckdb_everywhere(name: str, signature: str, duckdb: Template) -> None:
    """Declares a scalar function whose DuckDB expression Spark runs, too."""
    implementation = Kernel(name.removeprefix("$"), by_duckdb(duckdb), frozenset({SPARK}))
    define("scalar", name, signature, duckdb, spark_template(implementation), kernel=implementation)


def aggregate(name: str, signature: str, duckdb: Template, spark: Template | None = None) -> None:
    """Declares an aggregate function."""
    define("aggregate", name, signature, duckdb, spark)


def composed(
    name: str,
    signature: str,
    parts: tuple[tuple[str, int], ...],
    duckdb: Template,
    spark: Template | None = None,
) -> None:
    """Declares an aggregate that is computed from the results of other aggregates."""
    define("aggregate", name, signature, duckdb, spark, parts=parts)


def collected(name: str, signature: str, count: int, compute: Compute) -> None:
    """Declares an aggregate that is a kernel over all values of a group.

    The kernel takes an array of the values, or of rows of `count` arguments if `count` is above 1,
    and then the remaining arguments.
    """
    implementation = Kernel(name.removeprefix("$"), compute)
    templates = duckdb_template(implementation), spark_template(implementation)
    define(
        "aggregate", name, signature, *templates, kernel=implementation, parts=((COLLECT, count),)
    )


def window(name: str, signature: str, duckdb: Template, spark: Template | None = None) -> None:
    """Declares a function that is only valid with OVER."""
    define("window", name, signature, duckdb, spark)
