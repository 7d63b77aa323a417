"""Binds a table of which the user may not see everything."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from seamline.errors import INVALID_CONFIG, SeamlineError
from seamline.sql import coercion
from seamline.sql.binder.binder import Binder
from seamline.sql.binder.conversions import implicit_cast
from seamline.sql.binder.grouping import refuse_aggregates, refuse_windows
from seamline.sql.binder.scope import Column, Scope, Source
from seamline.sql.row_filters_and_masks import Restriction


def restricted(
    binder: Binder, node: exp.Expr, source: Source, restriction: Restriction
) -> tuple[exp.Expr, Source]:
    """Wraps a bound table to remove the rows, columns and values that may not be seen.

    Raises:
        SeamlineError: INVALID_CONFIG when an expression does not fit the table.
    """
    inside = Scope(None, {})
    inside.add(source)
    alias = binder.new_alias()
    inner = exp.select("*").from_(node)
    columns = []
    try:
        for column in source.columns:
            mask = restriction.masks.get(column.folded)
            if column.folded in restriction.denied:
                continue
            if mask is None:
                seen = dataclasses.replace(column, node=exp.column(column.node.name, alias))
            else:
                name = binder.new_alias()
                value = _masked(binder, column, mask, inside)
                inner = inner.select(exp.alias_(value, name), copy=False)
                seen = dataclasses.replace(column, node=exp.column(name, alias), scan=None)
            if column.folded in restriction.sort_only:
                seen = dataclasses.replace(seen, hidden=True, sort_only=True)
            columns.append(seen)
        if restriction.condition is not None:
            condition = binder.boolean(restriction.condition.copy(), inside, "a row filter")
            _require_plain(condition)
            inner = inner.where(condition, copy=False)
    except SeamlineError as error:
        raise SeamlineError(
            INVALID_CONFIG,
            f"the access rules of {'.'.join(source.name)} do not fit the table: {error.message}",
            hint="Ask the gateway's owner to correct its access rules.",
        ) from error
    called = exp.TableAlias(this=exp.to_identifier(alias))
    subquery = exp.Subquery(this=inner, alias=called)
    return subquery, dataclasses.replace(source, alias=alias, columns=tuple(columns))


def _masked(binder: Binder, column: Column, mask: exp.Expr, inside: Scope) -> exp.Expr:
    value, type_ = binder.expression(mask.copy(), inside)
    _require_plain(value)
    if not coercion.can_coerce(type_, column.type):
        raise SeamlineError(
            INVALID_CONFIG, f"the mask of {column.name} is {type_}, not {column.type}"
        )
    return implicit_cast(value, type_, column.type)


def _require_plain(value: exp.Expr) -> None:
    refuse_aggregates(value, "an access rule")
    refuse_windows(value, "an access rule")
