"""Groups, DISTINCT and set operations over values that hold maps, which are entries there.

Neither engine compares maps as SQL does. Their entries, sorted by key, are grouped; results are
maps again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from seamline.sql import functions, types
from seamline.sql.binder.scope import Output, Typed, output_column
from seamline.sql.entries import from_entries, to_entries, with_entries
from seamline.sql.expressions.calls import Call, CallSpec, call, constructor
from seamline.sql.expressions.correlated import bring_inside, source
from seamline.sql.functions import GROUPING
from seamline.sql.templates import DUCKDB, SPARK
from seamline.sql.types import Map, Type

if TYPE_CHECKING:
    from seamline.sql.binder.binder import Binder

_TO_ENTRIES = constructor("$to_entries", to_entries(DUCKDB), to_entries(SPARK))
_FROM_ENTRIES = constructor("$from_entries", from_entries(DUCKDB), from_entries(SPARK))
_OF_CLAUSES = ("order", "limit", "offset", "with_")


def holds_maps(type_: Type) -> bool:
    """Whether values of the type hold maps, so that no engine groups them."""
    return types.contains(type_, Map)


def as_key(node: exp.Expr, type_: Type) -> exp.Expr:
    """Returns a value as one that the engines group: with entries for maps."""
    if not holds_maps(type_):
        return node
    return call(CallSpec(_TO_ENTRIES, (type_,), with_entries(type_)), [node])


def of_key(node: exp.Expr, type_: Type) -> exp.Expr:
    """Returns the value of a type that became a key."""
    if not holds_maps(type_):
        return node
    return call(CallSpec(_FROM_ENTRIES, (with_entries(type_),), type_), [node])


def group_by_entries(select: exp.Select, keys: Sequence[Typed], alias: str) -> None:
    """Makes a query group by the entries of its keys that hold maps.

    The keys become columns of its only source.

    Args:
        select: The bound query, changed in place.
        keys: Its keys that hold maps, each with its type.
        alias: The name of the source.
    """
    if not keys:
        return
    named = bring_inside(select, [key for key, _ in keys], alias)
    kinds = {named[key]: type_ for key, type_ in keys}
    for projection in select.args["from_"].this.this.expressions:
        if projection.alias in kinds:
            projection.set("this", as_key(projection.this, kinds[projection.alias]))
    for column in list(select.find_all(exp.Column)):
        if column.table == alias and column.name in kinds and not _is_key(column, select):
            column.replace(of_key(column.copy(), kinds[column.name]))


def _is_key(column: exp.Column, select: exp.Select) -> bool:
    """Whether the column stands for a key itself, and not for its value."""
    above = column.parent
    if isinstance(above, Call) and above.spec.overload.name == GROUPING:
        return True
    return column.find_ancestor(exp.Group, exp.Select) is select.args.get("group")


def distinct_entries(binder: Binder, select: exp.Select, output: Sequence[Output]) -> None:
    """Makes SELECT DISTINCT compare the entries of its results that hold maps.

    Args:
        binder: Names the source.
        select: The bound query, changed in place: its rows become those of a source.
        output: Its results.
    """
    if not any(holds_maps(column.type) for column in output):
        return
    inside = exp.Select()
    for argument in [name for name in select.args if name not in _OF_CLAUSES]:
        inside.set(argument, select.args[argument])
        select.set(argument, None)
    for projection, column in zip(inside.expressions, output, strict=True):
        projection.set("this", as_key(projection.this, column.type))
    _read(select, inside, output, binder.new_alias())


def combine_entries(
    binder: Binder, node: exp.SetOperation, output: Sequence[Output]
) -> exp.SetOperation | exp.Select:
    """Makes a set operation compare the entries of its columns that hold maps.

    Args:
        binder: Names the sources.
        node: The bound set operation.
        output: Its columns, whose types those of both sides are.

    Returns:
        A query of its rows, which has its order and its limits; the node itself if it has no such
        columns, or compares no rows.
    """
    compares = isinstance(node, exp.Except | exp.Intersect) or node.args.get("distinct")
    if not compares or not any(holds_maps(column.type) for column in output):
        return node
    for side in ("this", "expression"):
        alias = binder.new_alias()
        inner = node.args[side]
        rows = source(inner.this if isinstance(inner, exp.Subquery) else inner, alias)
        keys = [
            exp.alias_(as_key(exp.column(name, alias), column.type), name)
            for name, column in _named(output)
        ]
        node.set(side, exp.select(*keys).from_(rows))
    around = exp.Select()
    for argument in _OF_CLAUSES:
        around.set(argument, node.args.get(argument))
        node.set(argument, None)
    _read(around, node, output, binder.new_alias())
    return around


def over_entries(node: Call) -> Call:
    """Makes a function that compares its arguments compare the entries of those that hold maps."""
    parameters = node.spec.parameters
    if not any(map(holds_maps, parameters)):
        return node
    resolved = functions.resolve(node.spec.overload.name, [with_entries(t) for t in parameters])
    keys = [as_key(arg, type_) for arg, type_ in zip(node.expressions, parameters, strict=True)]
    options = {name: node.args.get(name) for name in ("distinct", "order")}
    spec = CallSpec(resolved.overload, resolved.parameters, resolved.returns)
    inner = call(spec, keys, **options)
    if not holds_maps(node.spec.returns):
        return inner
    overload = dataclasses.replace(_FROM_ENTRIES, parts=((resolved.overload.name, len(keys)),))
    return call(CallSpec(overload, (resolved.returns,), node.spec.returns), [inner])


COMPARING = frozenset(
    {
        "approx_distinct",
        "array_distinct",
        "array_except",
        "array_intersect",
        "array_position",
        "array_remove",
        "array_union",
        "arrays_overlap",
        "contains",
    }
)
"""Functions that compare values of any type."""


def _read(select: exp.Select, rows: exp.Query, output: Sequence[Output], alias: str) -> None:
    """Makes a query read the results of another, with entries as maps again."""
    select.set("from_", exp.From(this=source(rows, alias)))
    values = [
        exp.alias_(of_key(exp.column(name, alias), column.type), name)
        for name, column in _named(output)
    ]
    select.set("expressions", values)


def _named(output: Sequence[Output]) -> list[tuple[str, Output]]:
    return [(output_column(index), column) for index, column in enumerate(output)]
