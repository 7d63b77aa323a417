"""TABLESAMPLE: each row of a source with the same chance, other rows each time."""

from __future__ import annotations

import dataclasses
import decimal

from sqlglot import exp

from seamline.errors import INVALID_ARGUMENT, NOT_SUPPORTED, SeamlineError
from seamline.sql import functions
from seamline.sql.binder.scope import Source, location_of
from seamline.sql.binder.typer import Typer
from seamline.sql.calls import CallSpec, call

_METHODS = frozenset({"BERNOULLI", "SYSTEM"})


def sampled(
    typer: Typer, node: exp.Expr, source: Source, sample: exp.TableSample
) -> tuple[exp.Expr, Source]:
    """A bound source of which only some rows are read.

    Both methods choose row by row: parts of a table that are read or not as a whole, as SYSTEM
    allows, are others on each engine and in each tier.
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
    number, numbered, alias = (typer.new_alias() for _ in range(3))
    # DuckDB computes a filter that is random in front of UNNEST, a column that is not
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
    found = functions.resolve("random", [])
    return call(CallSpec(found.overload, found.parameters, found.returns), [])


def _part(share: exp.Expr | None) -> str:
    """Percents as a part of one, as both engines read a double."""
    if not isinstance(share, exp.Literal) or share.is_string:
        raise SeamlineError(
            NOT_SUPPORTED, "the percentage of TABLESAMPLE is a number, written out", hint=""
        )
    percents = decimal.Decimal(share.name)
    if percents > 100:
        raise SeamlineError(
            INVALID_ARGUMENT, "TABLESAMPLE counts from 0 to 100 percent", location=None, hint=""
        )
    return f"{float(percents / 100):e}"
