"""UNNEST: expands arrays and maps to rows, as a query in place of a source.

Several arguments are read side by side, with the shorter ones padded with nulls: both engines read
a single array of rows of their elements. An array of rows returns a column for each field, a map
one column for its keys and one for its values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlglot import exp

from seamline.errors import TYPE_MISMATCH, SeamlineError
from seamline.sql import functions, types
from seamline.sql.binder.binder import Binder
from seamline.sql.binder.conversions import field_of, implicit_cast
from seamline.sql.binder.grouping import refuse_aggregates, refuse_windows
from seamline.sql.binder.scope import Output, Scope, Typed, output_column
from seamline.sql.expressions.calls import CallSpec, call, constructor
from seamline.sql.functions.arrays import NUMBERS, side_by_side
from seamline.sql.locations import location_of
from seamline.sql.parsing.sequences import SEQUENCE
from seamline.sql.templates import DUCKDB, SPARK
from seamline.sql.types import Array, Map, Row, Type


def bind_unnest(
    binder: Binder, node: exp.Unnest, scope: Scope, *, keeps_row: bool
) -> tuple[exp.Select, list[Output]]:
    """Returns the query that UNNEST stands for, and its columns.

    Args:
        binder: Binds the arguments.
        node: The parsed UNNEST.
        scope: What the arguments may read.
        keeps_row: Whether it returns a row of nulls where it has no rows, as in LEFT JOIN.
    """
    if node.meta.get(SEQUENCE):
        arrays = [_sequence([binder.expression(part, scope) for part in node.expressions])]
    else:
        arrays = [_array(binder, argument, scope) for argument in node.expressions]
    members = [type_.element for _, type_ in arrays if isinstance(type_, Array)]
    ordinality = node.args.get("offset")
    if isinstance(ordinality, exp.Identifier):  # the parser takes the last column name for it
        node.args["alias"].append("columns", ordinality)
    if ordinality:
        members.append(types.BIGINT)
    is_one = len(members) == 1
    rows = arrays[0] if is_one else _side_by_side([array for array, _ in arrays], members)
    if keeps_row:
        rows = _or_a_null(*rows)
    return _query(binder, rows, is_one=is_one)


def _array(binder: Binder, node: exp.Expr, scope: Scope) -> Typed:
    """Binds an argument as an array; a map becomes the array of its entries."""
    inner, type_ = binder.expression(node, scope)
    refuse_aggregates(inner, "UNNEST")
    refuse_windows(inner, "UNNEST")
    if isinstance(type_, Map):
        resolved = functions.resolve("map_entries", [type_])
        spec = CallSpec(resolved.overload, resolved.parameters, resolved.returns)
        return call(spec, [inner]), resolved.returns
    if not isinstance(type_, Array):
        raise SeamlineError(
            TYPE_MISMATCH,
            f"UNNEST takes arrays and maps, not {type_}",
            location=location_of(node),
            hint="",
        )
    return inner, type_


def _sequence(arguments: Sequence[Typed]) -> Typed:
    """Returns the array of the rows of TABLE(sequence(…))."""
    resolved = functions.resolve(NUMBERS, [type_ for _, type_ in arguments])
    pairs = zip(arguments, resolved.parameters, strict=True)
    converted = [implicit_cast(*argument, target) for argument, target in pairs]
    spec = CallSpec(resolved.overload, resolved.parameters, resolved.returns)
    return call(spec, converted), resolved.returns


def _side_by_side(arrays: Sequence[exp.Expr], members: Sequence[Type]) -> Typed:
    """Returns one array of rows of the elements, numbered if there is an additional member."""
    returns = Array(types.anonymous_row(members))
    numbered = len(members) > len(arrays)
    overload = dataclasses.replace(
        constructor("$zip", "", ""),
        duckdb=side_by_side(DUCKDB, numbered=numbered),
        spark=side_by_side(SPARK, numbered=numbered),
    )
    parameters = tuple(Array(member) for member in members[: len(arrays)])
    return call(CallSpec(overload, parameters, returns), arrays), returns


def _or_a_null(array: exp.Expr, type_: Type) -> Typed:
    """Returns the array, or one that holds a null where it has no elements."""
    overload = constructor(
        "$or_a_null",
        "(CASE WHEN len({0}) > 0 THEN {0} ELSE [NULL] END)",
        "(CASE WHEN size({0}) > 0 THEN {0} ELSE array(NULL) END)",
    )
    return call(CallSpec(overload, (type_,), type_), [array]), type_


def _query(binder: Binder, rows: Typed, *, is_one: bool) -> tuple[exp.Select, list[Output]]:
    """Returns a query with a row for each element, and a column for each member or its fields.

    Args:
        binder: Names the sources.
        rows: The array.
        is_one: Whether an element is the only member, not a row of several.
    """
    array, type_ = rows
    assert isinstance(type_, Array)
    alias, name = binder.new_alias(), output_column(0)
    element = call(
        CallSpec(constructor("$unnest", "unnest({0})", "explode({0})"), (type_,), type_.element),
        [array],
    )
    inside = exp.Subquery(
        this=exp.select(exp.alias_(element, name)),
        alias=exp.TableAlias(this=exp.to_identifier(alias)),
    )
    output: list[Output] = []
    values: list[exp.Expr] = []
    column, row = exp.column(name, alias), type_.element
    members: list[Typed] = [(column, row)]
    if not is_one:
        assert isinstance(row, Row)
        members = [(field_of(column.copy(), row, field), field.type) for field in row.fields]
    for member, member_type in members:
        if isinstance(member_type, Row):
            for inner in member_type.fields:
                values.append(field_of(member.copy(), member_type, inner))
                output.append(Output("" if inner.is_nameless else inner.name, inner.type))
        else:
            values.append(member)
            output.append(Output("", member_type))
    columns = [exp.alias_(value, output_column(index)) for index, value in enumerate(values)]
    return exp.select(*columns).from_(inside), output
