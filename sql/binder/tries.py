"""try(x): null where x fails because of a divisor, an argument, a cast or its size.

Neither engine has it in this form: DuckDB's TRY refuses expressions that fail on purpose, and
Spark has none. So the tried expression becomes a kernel that both engines run: DuckDB's expression
over the columns, aggregates and windows it is computed from. As in Trino, errors in these are not
caught.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from seamline.errors import NOT_SUPPORTED, TYPE_MISMATCH, SeamlineError
from seamline.sql import types
from seamline.sql.binder.grouping import group_keys
from seamline.sql.binder.scope import Scope, Typed
from seamline.sql.engines import render
from seamline.sql.expressions.calls import VOLATILE, BoundLambda, Call, CallSpec, call, constructor
from seamline.sql.kernels.calls import duckdb_template, spark_template
from seamline.sql.kernels.kernel import NO_VALUE, Kernel, Tried
from seamline.sql.locations import location_of
from seamline.sql.templates import DUCKDB, Template
from seamline.sql.trees import nodes_of
from seamline.sql.types import Type

if TYPE_CHECKING:
    from seamline.sql.binder.binder import Binder

_NAME = "try"
_TRIED = "TRY(struct_pack(v := {0})).v"
"""TRY around a struct, because DuckDB's TRY allocates room for only one row of its operand.

COALESCE and CASE write beyond that room, while the fields of a struct have room for all rows
(duckdb/duckdb#25280).
"""


def bind_try(binder: Binder, node: exp.Anonymous, scope: Scope) -> Typed:
    """Binds the call, which becomes a kernel once the whole statement is bound."""
    if len(node.expressions) != 1:
        raise SeamlineError(TYPE_MISMATCH, "try takes one expression", hint="")
    inner, type_ = binder.expression(node.expressions[0], scope)
    if type_ == types.UNKNOWN:
        return inner, type_
    if inner.find(exp.Query) is not None:
        raise SeamlineError(
            NOT_SUPPORTED,
            "try() cannot contain a subquery",
            location=location_of(node),
            hint="Compute it in a subquery in FROM, and apply try() to its column.",
        )
    if any(called.spec.overload.name in VOLATILE for called in inner.find_all(Call)):
        raise SeamlineError(
            NOT_SUPPORTED, "try() of a value that differs each time is not supported", hint=""
        )
    overload = constructor(_NAME, _TRIED, "{0}")
    return call(CallSpec(overload, (type_,), type_), [inner]), type_


def with_kernels(tree: exp.Expr) -> exp.Expr:
    """Makes every try() of a bound query a kernel; a nested one becomes part of the outer one."""
    if not any(map(_is_try, nodes_of(tree))):
        return tree
    return tree.transform(lambda node: _kernel_of(node) if _is_try(node) else node, copy=False)


def _is_try(node: exp.Expr) -> bool:
    return isinstance(node, Call) and node.spec.overload.name == _NAME


def _kernel_of(node: exp.Expr) -> Call:
    assert isinstance(node, Call)
    select = node.find_ancestor(exp.Select)
    group = select.args.get("group") if select is not None else None
    keys = [key for key in group_keys(group) if _has_type(key)] if group is not None else []
    lambda_names = {
        name.name for function in node.find_all(BoundLambda) for name in function.expressions
    }
    inputs: list[exp.Expr] = []

    def replace(inner: exp.Expr) -> exp.Expr:
        is_own = isinstance(inner, exp.Column) and not inner.table and inner.name in lambda_names
        is_key = inner.parent is not None and any(inner == key for key in keys)
        if is_own or not (_is_given(inner) or is_key):
            return inner
        if inner not in inputs:
            inputs.append(inner.copy())
        return exp.column(f"a{inputs.index(inner)}")

    expression = node.transform(replace)
    _without_exceptions(expression.expressions[0])
    inputs = inputs or [exp.Boolean(this=True)]
    sql = render.to_duckdb(expression)
    kernels = render.kernels(expression, DUCKDB)
    name = f"try_{hashlib.blake2b(sql.encode(), digest_size=6).hexdigest()}"
    kernel = Kernel(name, Tried(sql, kernels))
    overload = constructor(f"{_NAME} {name}", "", "")
    overload = dataclasses.replace(
        overload, duckdb=duckdb_template(kernel), spark=spark_template(kernel), kernel=kernel
    )
    parameters = tuple(map(_type_of, inputs))
    return call(CallSpec(overload, parameters, node.spec.returns), inputs)


def _without_exceptions(node: exp.Expr) -> None:
    """Replaces errors that we raise by nulls where these make the whole null, which is faster."""
    node = node.unnest()
    if not isinstance(node, Call) or node.spec.overload.name not in (*_ARITHMETIC, "cast"):
        return
    overload = node.spec.overload
    template = overload.duckdb
    if isinstance(template, str):
        overload = dataclasses.replace(overload, duckdb=template.replace("error(", f"{NO_VALUE}("))
    elif overload.name in _ARITHMETIC:
        overload = dataclasses.replace(overload, duckdb=_valueless(template))
    node.set("spec", dataclasses.replace(node.spec, overload=overload))
    for argument in node.expressions:
        _without_exceptions(argument)


_ARITHMETIC = ("$add", "$subtract", "$multiply", "$divide", "$modulus", "$negate")


def _valueless(template: Callable[[Sequence[str], Sequence[Type], Type], str]) -> Template:
    """Returns a numeric template, which cannot contain text, with its errors replaced by nulls."""

    def render(args: Sequence[str], arguments: Sequence[Type], returns: Type) -> str:
        return template(args, arguments, returns).replace("error(", f"{NO_VALUE}(")

    return render


def _is_given(node: exp.Expr) -> bool:
    """Whether the node is computed before the tried expression."""
    if isinstance(node, Call):
        return node.spec.overload.kind == "aggregate"
    return isinstance(node, exp.Column | exp.Filter | exp.Window)


def _has_type(node: exp.Expr) -> bool:
    return isinstance(node, Call) or "type" in node.meta


def _type_of(node: exp.Expr) -> Type:
    match node:
        case Call():
            return node.spec.returns
        case exp.Boolean():
            return types.BOOLEAN
        case exp.Filter() | exp.Window() | exp.IgnoreNulls() | exp.RespectNulls():
            return _type_of(node.this)
    type_: Type = node.meta["type"]
    return type_
