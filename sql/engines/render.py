"""Renders a bound tree as the SQL of one engine.

The text is generated from our tree, never taken from the user's. Everything whose meaning could
differ is a `Call` with a template per engine. The rest (clauses, comparisons, boolean logic, joins)
means the same on both engines, and sqlglot's generators write it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark

from seamline.errors import STATEMENT_TOO_LARGE, SeamlineError
from seamline.sql import types
from seamline.sql.engines.duckdb import (
    bring_columns_near,
    draw_for_each_row,
    fill_bare_windows,
    keep_rows_of_aggregates,
    try_bigints,
)
from seamline.sql.engines.spark import for_spark
from seamline.sql.expressions import casts
from seamline.sql.expressions.calls import VOLATILE, BoundLambda, Call
from seamline.sql.expressions.naming import scan_column
from seamline.sql.kernels.kernel import Use
from seamline.sql.quoting import spark_name
from seamline.sql.templates import DUCKDB, SPARK, rendered
from seamline.sql.trees import copy_of, nodes_of_kind
from seamline.sql.types import Field


def _call(generator: Any, node: Call, over: str = "", nulls: str = "") -> str:
    spec = node.spec
    engine = generator.dialect.engine
    text = rendered(
        getattr(spec.overload, engine),
        [_argument(generator, argument) for argument in node.expressions],
        spec.parameters,
        spec.returns,
        engine,
        plain=[_is_plain(argument, engine) for argument in node.expressions],
        lambdas=[isinstance(argument, BoundLambda) for argument in node.expressions],
        distinct="DISTINCT " if node.args.get("distinct") else "",
        over=over,
        nulls=nulls,
        order=f" {generator.sql(node, 'order').strip()}" if node.args.get("order") else "",
    )
    generator.written += len(text)
    if len(text) > LENGTH_MAX or generator.written > WRITTEN_MAX:
        raise SeamlineError(STATEMENT_TOO_LARGE, "calls of subqueries are nested too deeply")
    if engine == DUCKDB and _may_be_moved(node):
        text = opaque(text)
    if engine == DUCKDB and _may_lose_its_type(node):
        return f"CAST({text} AS {types.to_duckdb(spec.returns)})"
    return text


def _may_be_moved(node: Call) -> bool:
    """Whether DuckDB may compute the inverse of the call, and on the other side of a comparison.

    It does so with casts, and with sums and products of an integer and a constant, although the
    call fails, or is null, for values for which the comparison then does not.
    """
    spec = node.spec
    if spec.overload.kind != "scalar" or node.find(exp.Column, exp.Query) is None:
        return False
    if spec.overload.name in ("cast", "try_cast"):
        return casts.may_fail(spec.parameters[0], spec.returns)
    is_sum = spec.overload.name in ("$add", "$subtract", "$multiply")
    return is_sum and spec.returns in types.INTEGERS and any(map(_is_constant, node.expressions))


def _is_constant(node: exp.Expr) -> bool:
    return node.find(exp.Column, exp.Query) is None


def _may_lose_its_type(node: Call) -> bool:
    """Whether DuckDB may treat the call's result as an untyped null.

    It does so where an argument is a constant null. It then finds no function, or a different one,
    for the expression around the call.
    """
    spec = node.spec
    if spec.overload.kind != "scalar" or spec.returns == types.UNKNOWN:
        return False
    return any(map(_may_be_constant_null, node.expressions))


def _may_be_constant_null(node: exp.Expr) -> bool:
    """Whether the node is computed only from constants and is not itself a literal."""
    node = node.unnest()
    if isinstance(node, exp.Literal | exp.Boolean | BoundLambda):
        return False
    if isinstance(node, Call) and node.spec.constant is not None:
        return False
    return _is_constant(node)


LENGTH_MAX = 5_000_000
"""Maximum length of a call's SQL; only subqueries that are repeated for Spark come near it."""
WRITTEN_MAX = 20 * LENGTH_MAX
"""Maximum length of all calls, nested ones counted again; many such subqueries come near it."""


def _is_plain(node: exp.Expr, engine: str) -> bool:
    """Whether an argument may be repeated: a column, a literal or, on Spark, one it cannot name.

    Spark cannot compute a subquery where it computes a value under a name.
    """
    if engine == SPARK and node.find(exp.Query) is not None:
        return True
    if isinstance(node, Call):
        name, is_bare = node.spec.overload.name, not node.expressions
        return (
            node.spec.overload.kernel is None
            and all(isinstance(argument, _PLAIN) for argument in node.expressions)
            and ((is_bare and name not in VOLATILE) or name in {"cast", "$negate"})
        )
    return isinstance(node, _PLAIN)


_PLAIN = (exp.Column, exp.Literal, exp.Null, exp.Boolean)


def _argument(generator: Any, node: exp.Expr) -> str:
    """Renders an argument, in parentheses unless nothing around it could bind tighter."""
    text: str = generator.sql(node)
    plain = exp.Column | exp.Literal | Call | BoundLambda | exp.Paren | exp.Null | exp.Boolean
    return text if isinstance(node, plain) else f"({text})"


def _over(generator: Any, node: exp.Expr) -> str:
    """Renders a call with FILTER, IGNORE NULLS or OVER, each where the call's template puts it."""
    over = nulls = ""
    inner = node
    while not isinstance(inner, Call):
        match inner:
            case exp.Window():
                shell = inner.copy()
                shell.set("this", exp.Var(this="_"))
                over = generator.window_sql(shell)[1:] + over
            case exp.Filter():
                over = f" FILTER({generator.sql(inner, 'expression').strip()})" + over
            case exp.IgnoreNulls():
                nulls = " IGNORE NULLS"
            case exp.RespectNulls():
                nulls = " RESPECT NULLS"
        inner = inner.this
    return _call(generator, inner, over, nulls)


def _lambda(generator: Any, node: BoundLambda) -> str:
    names = ", ".join(generator.sql(name) for name in node.expressions)
    body = generator.sql(node, "this")
    if generator.dialect.engine == DUCKDB:
        return f"lambda {names}: {body}"
    return f"({names}) -> {body}" if len(node.expressions) > 1 else f"{names} -> {body}"


class _Inline(exp.Expression):
    """A relation inlined as a subquery: `this` is its SELECT, `alias` its name in the query."""

    arg_types = {"this": True, "alias": True}  # noqa: RUF012


def _inline(generator: Any, node: _Inline) -> str:
    return f"({node.args['this']}) AS {generator.sql(exp.to_identifier(node.args['alias']))}"


class _Opaque(exp.Expression):
    """A column in a form that DuckDB does not recognise as a column."""

    arg_types = {"this": True}  # noqa: RUF012


def _opaque(generator: Any, node: _Opaque) -> str:
    return opaque(generator.sql(node, "this"))


def opaque(value: str) -> str:
    """Wraps a value so that DuckDB does not recognise what it is.

    DuckDB then pushes no filters down to a column, neither a query's own nor those that joins make
    at run time, and moves no computation. The wrapper copies nothing.
    """
    return f"struct_extract(struct_pack(v := {value}), 'v')"


_OURS: dict[Any, Any] = {
    Call: _call,
    BoundLambda: _lambda,
    exp.Filter: _over,
    exp.IgnoreNulls: _over,
    exp.RespectNulls: _over,
    _Inline: _inline,
    _Opaque: _opaque,
}


class _SeamlineDuckDB(DuckDB):
    engine = DUCKDB

    class Generator(DuckDB.Generator):  # type: ignore[valid-type, misc]
        written = 0
        TRANSFORMS = {**DuckDB.Generator.TRANSFORMS, **_OURS}  # noqa: RUF012

        def window_sql(self, expression: exp.Window) -> str:
            return _window(self, super().window_sql, expression)


class _SeamlineSpark(Spark):
    engine = SPARK

    class Generator(Spark.Generator):  # type: ignore[valid-type, misc]
        written = 0
        TRANSFORMS = {**Spark.Generator.TRANSFORMS, **_OURS}  # noqa: RUF012

        def window_sql(self, expression: exp.Window) -> str:
            return _window(self, super().window_sql, expression)


def _window(generator: Any, plain: Any, node: exp.Window) -> str:
    """Renders a window over a call by `_over`, and a bare shell or a named definition as it is."""
    if isinstance(node.this, exp.Var | exp.Identifier):
        text: str = plain(node)
        return text
    return _over(generator, node)


def scan_rows(columns: Sequence[Field], rows: str, engine: str) -> str:
    """Returns a SELECT of a scan's rows under the names that a bound tree has for their columns.

    Args:
        columns: The scan's columns.
        rows: A SELECT that has them under their lower-case names.
        engine: `duckdb` or `spark`.
    """
    quote = types.quoted if engine == DUCKDB else spark_name
    named = (f"{quote(c.name.lower())} AS {quote(scan_column(c.name))}" for c in columns)
    return f"SELECT {', '.join(named)} FROM ({rows})" if columns else rows


def to_duckdb(tree: exp.Expr, relations: Mapping[str, str] | None = None) -> str:
    """Renders the tree as DuckDB's SQL.

    Args:
        tree: A bound tree.
        relations: The SELECT that returns a scan's rows, by scan id, as `scan_rows` makes it; it
            replaces the scan's table.
    """
    guarded = _guard_limits(copy_of(tree))
    keep_rows_of_aggregates(guarded)
    bring_columns_near(guarded, _has_lambda)
    fill_bare_windows(guarded)
    draw_for_each_row(guarded)
    try_bigints(guarded)
    if relations:
        for table in nodes_of_kind(guarded, exp.Table):
            if table.name in relations:
                table.replace(_Inline(this=relations[table.name], alias=table.alias_or_name))
    return guarded.sql(dialect=_SeamlineDuckDB, identify=True, copy=False)


def _has_lambda(node: Call) -> bool:
    return "lambda " in node.sql(dialect=_SeamlineDuckDB, identify=True)


def _guard_limits(tree: exp.Expr) -> exp.Expr:
    """Hides the columns of a limited query from the joins around it.

    DuckDB pushes the filters of a join below the LIMIT, which then selects other rows.
    """
    limited = [node for node in nodes_of_kind(tree, exp.Query) if _is_joined_and_limited(node)]
    for node in limited:
        names = node.named_selects
        columns = [exp.to_identifier(f"c{number}") for number in range(len(names))]
        chosen = [
            exp.alias_(_Opaque(this=exp.column(column.copy(), "_limited")), exp.to_identifier(name))
            for column, name in zip(columns, names, strict=True)
        ]
        shell = exp.select(*chosen)
        node.replace(shell)
        alias = exp.TableAlias(this=exp.to_identifier("_limited"), columns=columns)
        shell.set("from_", exp.From(this=exp.Subquery(this=node, alias=alias)))
    return tree


def _is_joined_and_limited(node: exp.Query) -> bool:
    if not node.args.get("limit") and not node.args.get("offset"):
        return False
    around = node.parent
    while isinstance(around, exp.Subquery):
        around = around.parent
    return isinstance(
        around, exp.From | exp.Join | exp.Lateral | exp.CTE | exp.In | exp.SetOperation
    )


def kernels(tree: exp.Expr, engine: str) -> dict[str, Use]:
    """Returns the kernels that the tree calls on an engine, by their names in its SQL."""
    uses: dict[str, Use] = {}
    for node in nodes_of_kind(tree, Call):
        kernel = node.spec.overload.kernel
        if kernel is not None and engine in kernel.engines:
            use = Use(kernel, node.spec.parameters, node.spec.returns)
            uses[use.name] = use
    return uses


def to_spark(tree: exp.Expr) -> str:
    """Renders the tree as Spark's SQL."""
    return for_spark(tree).sql(dialect=_SeamlineSpark, identify=True)
