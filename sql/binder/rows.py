"""Comparisons of values, of rows, and with all rows of a query.

Rows are compared field by field, arrays element by element and maps key by key, because the
engines' own comparison treats two nulls in them as equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from seamline.sql import equality, functions, types
from seamline.sql.binder.conversions import (
    cast_outputs,
    common_type,
    field_of,
    implicit_cast,
    require_equality,
    require_order,
    row_of,
)
from seamline.sql.binder.floats import by_ieee
from seamline.sql.binder.grouping import refuse_aggregates, refuse_windows
from seamline.sql.binder.map_keys import as_key
from seamline.sql.binder.scope import Output, Typed, output_column
from seamline.sql.binder.shapes import as_operand
from seamline.sql.expressions.calls import Call, CallSpec, call, constructor
from seamline.sql.templates import DUCKDB, SPARK
from seamline.sql.types import Array, Field, Map, Row, Type

if TYPE_CHECKING:
    from seamline.sql.binder.binder import Binder

_STRICT: dict[Any, Any] = {exp.LTE: exp.LT, exp.GTE: exp.GT}


def compared(kind: type[Any], left: exp.Expr, right: exp.Expr, type_: Type) -> exp.Expr:
    """Returns a comparison of two values of one type; rows are compared field by field.

    Raises:
        SeamlineError: TYPE_MISMATCH.
    """
    if kind in _OF_EQUALITY:
        require_equality(type_, "a comparison")
    elif not isinstance(type_, Row):
        require_order(type_)
    if isinstance(type_, Array | Map) and kind in {exp.EQ, exp.NEQ}:
        equal = call(CallSpec(_EQUAL, (type_, type_), types.BOOLEAN), [left, right])
        return equal if kind is exp.EQ else exp.Paren(this=exp.Not(this=equal))
    if not isinstance(type_, Row) or not type_.fields:
        left, right = as_key(left, type_), as_key(right, type_)
        node: exp.Binary = kind(this=as_operand(left), expression=as_operand(right))
        return by_ieee(node) if type_ in types.FLOATS else node
    members = [field.type for field in type_.fields]
    pairs = list(zip(_fields(left, type_), _fields(right, type_), members, strict=True))
    if kind in {exp.EQ, exp.NullSafeEQ}:
        return exp.Paren(this=exp.and_(*(compared(kind, *pair) for pair in pairs)))
    if kind in {exp.NEQ, exp.NullSafeNEQ}:
        return exp.Paren(this=exp.or_(*(compared(kind, *pair) for pair in pairs)))
    *before, last = pairs
    result = compared(kind, *last)
    for one, other, field in reversed(before):
        is_less = compared(_STRICT.get(kind, kind), one.copy(), other.copy(), field)
        is_equal = compared(exp.EQ, one, other, field)
        result = exp.Paren(this=exp.or_(is_less, exp.Paren(this=exp.and_(is_equal, result))))
    return result


_OF_EQUALITY = {exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ}
_EQUAL = constructor("$equal", equality.template(DUCKDB), equality.template(SPARK))


def fields_of(node: exp.Expr, type_: Row) -> list[Typed]:
    """Returns the fields of a row, each with its type."""
    return [(value, f.type) for value, f in zip(_fields(node, type_), type_.fields, strict=True)]


def _fields(node: exp.Expr, type_: Row) -> list[exp.Expr]:
    row = node.unnest()
    if isinstance(row, Call) and row.spec.overload.name == "$row":
        return [member.copy() for member in row.expressions]
    return [field_of(node.copy(), type_, field) for field in type_.fields]


def as_row(binder: Binder, query: exp.Expr, output: Sequence[Output]) -> Typed:
    """Returns a subquery of several columns as a value: a row of them, of nulls if it is empty."""
    alias, fields = binder.new_alias(), list[Field]()
    for index, column in enumerate(output):
        is_new = column.name and column.name not in {field.name for field in fields}
        fields.append(
            Field(column.name, column.type) if is_new else types.nameless_field(index, column.type)
        )
    row = Row(tuple(fields))
    columns = [exp.column(output_column(index), alias) for index in range(len(output))]
    inner = query if isinstance(query, exp.Subquery) else exp.Subquery(this=query)
    inner.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    one = exp.alias_(row_of(columns, row), output_column(0))
    value = exp.Subquery(this=exp.select(one).from_(inner))
    nulls = [implicit_cast(exp.Null(), types.UNKNOWN, field.type) for field in fields]
    overload = constructor("coalesce", "coalesce({0}, {1})", "coalesce({0}, {1})")
    return call(CallSpec(overload, (row, row), row), [value, row_of(nulls, row)]), row


def in_rows(
    binder: Binder, node: exp.In, value: Typed, query: exp.Expr, output: Sequence[Output]
) -> exp.Expr:
    """Returns `(a, b) IN (SELECT c, d …)`: whether a row is equal, or null where one may be."""
    for refuse in (refuse_aggregates, refuse_windows):
        refuse(value[0], "the left side of IN with rows or arrays")
    alias = binder.new_alias()
    columns = [exp.column(output_column(index), alias) for index in range(len(output))]
    row = types.anonymous_row([column.type for column in output])
    common = common_type([value[1], row], "IN")
    sides = implicit_cast(*value, common), implicit_cast(row_of(columns, row), row, common)
    equal = compared(exp.EQ, *sides, common)

    def is_there(condition: exp.Expr) -> exp.Expr:
        source = exp.Subquery(
            this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier(alias))
        )
        one = exp.alias_(exp.Literal.number(1), output_column(0))
        return exp.Exists(this=exp.select(one).from_(source).where(condition, copy=False))

    if only_filters(node):
        return is_there(equal)
    maybe = exp.Is(this=exp.Paren(this=equal.copy()), expression=exp.Null())
    return exp.Paren(
        this=exp.Case(
            ifs=[
                exp.If(this=is_there(equal), true=exp.Boolean(this=True)),
                exp.If(this=is_there(maybe), true=exp.Null()),
            ],
            default=exp.Boolean(this=False),
        )
    )


def only_filters(node: exp.Expr) -> bool:
    """Whether null and false have the same effect at this node: both drop the row."""
    above = node.parent
    while isinstance(above, exp.And | exp.Paren):
        above = above.parent
    return isinstance(above, exp.Where)


def quantified(
    binder: Binder, node: exp.Binary, value: Typed, query: exp.Expr, output: Sequence[Output]
) -> exp.Expr:
    """Returns `x < ALL (SELECT …)` and the like, computed from the query's minimum and maximum."""
    is_all = isinstance(node.expression, exp.All)
    common = common_type([value[1], output[0].type], node.key.upper())
    require_order(common)
    inner = cast_outputs(binder, query, output, [Output(output[0].name, common)])
    alias = binder.new_alias()
    column = exp.column(output_column(0), alias)

    def of_query(result: exp.Expr) -> exp.Expr:
        source = exp.Subquery(
            this=inner.copy(), alias=exp.TableAlias(this=exp.to_identifier(alias))
        )
        return exp.Subquery(this=exp.select(exp.alias_(result, output_column(0))).from_(source))

    def aggregate(name: str, *arguments: exp.Expr) -> exp.Expr:
        resolved = functions.resolve(name, [common] * len(arguments))
        spec = CallSpec(resolved.overload, resolved.parameters, resolved.returns)
        return call(spec, [argument.copy() for argument in arguments])

    kind = type(node)
    ends = ["min", "max"] if kind in _OF_EQUALITY else ["max"]
    if (kind in {exp.LT, exp.LTE} and is_all) or (kind in {exp.GT, exp.GTE} and not is_all):
        ends = ["min"]
    operand = as_operand(implicit_cast(*value, common))
    extremes = [of_query(aggregate(end, column)) for end in ends]
    tests = [compared(kind, operand.copy(), end, common) for end in extremes]
    test = exp.Paren(this=(exp.and_ if is_all else exp.or_)(*tests, copy=False))
    some_null = exp.LT(this=aggregate("count", column), expression=aggregate("count"))
    none = exp.EQ(this=aggregate("count"), expression=exp.Literal.number(0))
    decided = exp.Not(this=test.copy()) if is_all else test.copy()
    return exp.Paren(
        this=exp.Case(
            ifs=[
                exp.If(this=of_query(none), true=exp.Boolean(this=is_all)),
                exp.If(this=decided, true=exp.Boolean(this=not is_all)),
                exp.If(this=of_query(some_null), true=exp.Null()),
            ],
            default=test,
        )
    )
