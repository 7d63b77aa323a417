"""TABLESAMPLE: selects each row of a source with the same probability, different rows each time."""

from __future__ import annotations

import dataclasses
import decimal

from sqlglot import exp

from seamline.errors import INVALID_ARGUMENT, NOT_SUPPORTED, SeamlineError
from seamline.sql import functions
from seamline.sql.binder.binder import Binder
from seamline.sql.binder.literals import number_written
from seamline.sql.binder.scope import Source
from seamline.sql.expressions.calls import CallSpec, call
from seamline.sql.locations import location_of

_METHODS = frozenset({"BERNOULLI", "SYSTEM"})


def sampled(
    binder: Binder, node: exp.Expr, source: Source, sample: exp.TableSample
) -> tuple[exp.Expr, Source]:
    """Wraps a bound source so that only a sample of its rows is read.

    Both methods sample row by row. SYSTEM would allow reading or skipping whole parts of a table,
    but these parts differ between engines and between tiers.
    """
    method = sample.args.get("method")
    share = sample.args.get("percent")
    if method is None or method.name.upper() not in _METHODS or sample.args.get("seed"):
        raise SeamlineError(
            NOT_SUPPORTED,
            "this TABLESAMPLE is not supported",
            location=location_of(sample),
            hint="TABLESAMPLE BERNOULLI (10), or SYSTEM (10), reads a tenth of the rows.",
        )
    number, numbered, alias = (binder.new_alias() for _ in range(3))
    # DuckDB computes a random filter before UNNEST, but not a random column
    rows = exp.select("*", exp.alias_(_random(), number)).from_(node)
    chosen = exp.LT(this=exp.column(number, numbered), expression=exp.Literal.number(_part(share)))
    inner = _named(exp.select("*").from_(_named(rows, numbered)).where(chosen), alias)
    columns = tuple(
        dataclasses.replace(column, node=exp.column(column.node.name, alias))
        for column in source.columns
    )
    return inner, dataclasses.replace(source, alias=alias, columns=columns)


def _named(query: exp.Select, alias: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias)))


def _random() -> exp.Expr:
    overload = functions.resolve("random", [])
    return call(CallSpec(overload.overload, overload.parameters, overload.returns), [])


def _part(share: exp.Expr | None) -> str:
    """Converts percents to a fraction of one, written as a double for both engines."""
    text = number_written(share) if share is not None else None
    if text is None:
        raise SeamlineError(
            NOT_SUPPORTED, "the percentage of TABLESAMPLE must be a literal number", hint=""
        )
    percents = decimal.Decimal(text)
    if percents > 100:
        raise SeamlineError(
            INVALID_ARGUMENT, "TABLESAMPLE takes 0 to 100 percent", location=None, hint=""
        )
    return f"{float(percents / 100):e}"
