"""`TABLE(sequence(start => 1, stop => 10, step => 1))`: a table of whole numbers, as in Trino.

Arguments are constants, given by name or in this order; without `start` the numbers begin with 0,
and without `step` each is one more than the last. The only column is `sequential_number`.
"""

from __future__ import annotations

from sqlglot import exp

from seamline.errors import INVALID_ARGUMENT, NOT_SUPPORTED, SeamlineError
from seamline.sql.locations import location_of
from seamline.sql.trees import nodes_of_kind

NAME = "sequence"
SEQUENCE = "sequence"
"""Marks an UNNEST whose arguments are those of the table function."""
COLUMN = "sequential_number"
USAGE = "TABLE(sequence([start => 0,] stop => n [, step => 1]))"
_DEFAULTS = {"start": 0, "stop": None, "step": 1}
"""The arguments in order, each with its default; None for one that is required."""
_SCHEMA = ("system", "builtin")


def replace_sequences(tree: exp.Expr) -> None:
    """Replaces each call of the table function in a parsed query by a query of its numbers.

    Raises:
        SeamlineError: INVALID_ARGUMENT for arguments that it does not take.
    """
    for table in nodes_of_kind(tree, exp.Table):
        call = _call(table)
        if call is not None:
            table.replace(_numbers(table, call))


def _call(table: exp.Table) -> exp.Anonymous | None:
    """Returns the call of `sequence` that a FROM item is, or None."""
    function = table.this
    if not isinstance(function, exp.Anonymous) or function.name.upper() != "TABLE":
        return None
    inner = function.expressions[0] if len(function.expressions) == 1 else None
    if isinstance(inner, exp.Dot):
        schema, inner = inner.this, inner.expression
        is_nested = isinstance(schema, exp.Dot) and isinstance(schema.this, exp.Identifier)
        if not is_nested or (schema.this.name.lower(), schema.name.lower()) != _SCHEMA:
            return None
    is_called = isinstance(inner, exp.Anonymous) and inner.name.lower() == NAME
    return inner if is_called else None


def _numbers(table: exp.Table, call: exp.Anonymous) -> exp.Subquery:
    """Returns a query of the numbers, with the alias, the sample and the joins of the FROM item."""
    if table.args.get("version") is not None:
        raise SeamlineError(NOT_SUPPORTED, "sequence has no versions", hint=USAGE)
    columns = exp.TableAlias(columns=[exp.to_identifier(COLUMN)])
    unnest = exp.Unnest(expressions=_arguments(call), alias=columns)
    unnest.meta[SEQUENCE] = True
    query = exp.Subquery(this=exp.select("*").from_(unnest, copy=False))
    for key in ("alias", "joins", "sample"):
        query.set(key, table.args.get(key))
    return query


def _arguments(call: exp.Anonymous) -> list[exp.Expr]:
    arguments: dict[str, exp.Expr] = {}
    if len(call.expressions) > len(_DEFAULTS):
        raise _wrong("there are too many arguments", call)
    for parameter, node in zip(_DEFAULTS, call.expressions, strict=False):
        is_named = isinstance(node, exp.Kwarg)
        name, value = (node.name.lower(), node.expression) if is_named else (parameter, node)
        if name not in _DEFAULTS or name in arguments:
            raise _wrong(f"{name} is not an argument, or is given twice", node)
        if value.find(exp.Column, exp.Query) is not None:
            raise _wrong(f"{name} must be a constant", node)
        arguments[name] = value
    if "stop" not in arguments:
        raise _wrong("the argument stop is missing", call)
    return [arguments.get(name) or exp.Literal.number(value) for name, value in _DEFAULTS.items()]


def _wrong(message: str, node: exp.Expr) -> SeamlineError:
    return SeamlineError(INVALID_ARGUMENT, message, location=location_of(node), hint=USAGE)
