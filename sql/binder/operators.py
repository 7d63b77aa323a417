"""Columns, comparisons, boolean logic, conditionals, subqueries and casts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlglot import exp

from seamline.errors import (
    COLUMN_NOT_FOUND,
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    STATEMENT_TOO_LARGE,
    TYPE_MISMATCH,
    SeamlineError,
)
from seamline.sql import coercion, texts, types
from seamline.sql.binder.binder import Binder, Handlers
from seamline.sql.binder.conversions import (
    cast_outputs,
    common_type,
    explicit_cast,
    field_of,
    implicit_cast,
    of_length,
    require_equality,
    require_order,
    row_of,
)
from seamline.sql.binder.floats import is_between, is_one_of, may_be_nan, numbers_of
from seamline.sql.binder.literals import literal_of_type
from seamline.sql.binder.loose import comparable
from seamline.sql.binder.rows import as_row, compared, in_rows, only_filters, quantified
from seamline.sql.binder.scope import (
    Column,
    Output,
    Scope,
    Typed,
    output_column,
    resolve,
    unsupported,
)
from seamline.sql.binder.shapes import as_operand, bracketed, is_text, names_of, unwrapped
from seamline.sql.expressions.calls import CallSpec, call, constructor
from seamline.sql.expressions.casts import in_zones
from seamline.sql.locations import location_of
from seamline.sql.near import did_you_mean
from seamline.sql.types import Array, Map, Row, Time, Timestamp, Type


def _bind_name(binder: Binder, node: exp.Column | exp.Dot | exp.Identifier, scope: Scope) -> Typed:
    """Binds a column, qualified or not, and fields in it; or fields of any other expression."""
    names = names_of(node)
    if names is None:
        if isinstance(node, exp.Column):
            raise unsupported(node)
        return _field_of(binder.expression(node.this, scope), node.expression)
    match, fields = resolve(names, scope)
    if isinstance(match, Column):
        value = binder.column(match, names[len(names) - len(fields) - 1])
    else:
        value = match[0].copy(), match[1]
    for field in fields:
        value = _field_of(value, field)
    return value


def _field_of(value: Typed, name: exp.Expr) -> Typed:
    row, type_ = value
    if not isinstance(name, exp.Identifier):
        raise unsupported(name)
    if not isinstance(type_, Row):
        member = f"json_value(j, 'lax $.{name.name}') reads a member of json."
        raise SeamlineError(
            TYPE_MISMATCH,
            f"{type_} has no fields",
            location=location_of(name),
            hint=member if type_ == types.JSON else "Only rows have fields.",
        )
    field = type_.field(name.name)
    if field is None:
        raise SeamlineError(
            COLUMN_NOT_FOUND,
            f"{type_} has no field {name.name}",
            location=location_of(name),
            hint=did_you_mean(name.name, (field.name for field in type_.fields if field.name)),
        )
    return field_of(row, type_, field), field.type


def _bind_paren(binder: Binder, node: exp.Paren, scope: Scope) -> Typed:
    inner, type_ = binder.expression(node.this, scope)
    return exp.Paren(this=inner), type_


def _bind_logic(binder: Binder, node: exp.Connector, scope: Scope) -> Typed:
    kind = type(node)
    operands = [
        binder.boolean(operand, scope, kind.__name__.upper())
        for operand in node.flatten(unnest=False)
    ]
    combine = exp.and_ if kind is exp.And else exp.or_
    return combine(*operands, copy=False), types.BOOLEAN


def _bind_not(binder: Binder, node: exp.Not, scope: Scope) -> Typed:
    inner = binder.boolean(node.this, scope, "NOT")
    return exp.Not(this=bracketed(inner)), types.BOOLEAN


def _bind_comparison(binder: Binder, node: exp.Binary, scope: Scope) -> Typed:
    if isinstance(node.expression, exp.Any | exp.All):
        return _bind_quantified(binder, node, scope)
    operands = comparable(binder, [node.this, node.expression], scope)
    (left, left_type), (right, right_type) = operands
    common = coercion.common_type(left_type, right_type)
    if common is None:
        raise SeamlineError(
            TYPE_MISMATCH,
            f"{left_type} cannot be compared with {right_type}",
            hint=_comparison_hint(left_type, right_type),
        )
    sides = implicit_cast(left, left_type, common), implicit_cast(right, right_type, common)
    return compared(type(node), *sides, common), types.BOOLEAN


def _bind_quantified(binder: Binder, node: exp.Binary, scope: Scope) -> Typed:
    """Binds a comparison with ANY, SOME or ALL rows of a query."""
    query = unwrapped(node.expression.this)
    is_any = isinstance(node.expression, exp.Any)
    if not isinstance(query, exp.Query) or isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
        raise unsupported(node)
    if isinstance(node, exp.EQ) and is_any:
        return _bind_in(binder, exp.In(this=node.this, query=exp.Subquery(this=query)), scope)
    if isinstance(node, exp.NEQ) and not is_any:
        within = exp.In(this=node.this, query=exp.Subquery(this=query))
        return exp.Not(this=bracketed(_bind_in(binder, within, scope)[0])), types.BOOLEAN
    value = binder.expression(node.this, scope)
    inner, output = binder.query(query, scope, scope.ctes)
    if len(output) != 1:
        raise SeamlineError(
            TYPE_MISMATCH,
            f"{node.expression.key.upper()} needs a query of one column",
            hint="IN and EXISTS compare rows of several columns.",
        )
    return quantified(binder, node, value, inner, output), types.BOOLEAN


def _comparison_hint(left: Type, right: Type) -> str | None:
    for one, other in ((left, right), (right, left)):
        if other == types.VARCHAR and (one == types.DATE or isinstance(one, Timestamp)):
            zone = " UTC" if isinstance(one, Timestamp) and one.zoned else ""
            return f"Write the text as {'DATE' if one == types.DATE else 'TIMESTAMP'} '…{zone}'."
    return None


def _bind_is(binder: Binder, node: exp.Is, scope: Scope) -> Typed:
    inner, type_ = binder.expression(node.this, scope)
    is_boolean = isinstance(node.expression, exp.Boolean) and type_ == types.BOOLEAN
    if not isinstance(node.expression, exp.Null) and not is_boolean:
        raise unsupported(node)
    bound = exp.Is(this=as_operand(inner), expression=node.expression)
    return _unless_negated(node, bound), types.BOOLEAN


def _bind_between(binder: Binder, node: exp.Between, scope: Scope) -> Typed:
    parts = comparable(binder, [node.args[key] for key in ("this", "low", "high")], scope)
    common = common_type([type_ for _, type_ in parts], "BETWEEN")
    require_order(common)
    value, low, high = (as_operand(implicit_cast(*part, common)) for part in parts)
    bound = _between(value, low, high, common)
    if node.args.get("symmetric"):
        turned = _between(value.copy(), high.copy(), low.copy(), common)
        bound = exp.Paren(this=exp.Or(this=bound, expression=turned))
    return bound, types.BOOLEAN


def _between(value: exp.Expr, low: exp.Expr, high: exp.Expr, type_: Type) -> exp.Expr:
    if type_ in types.FLOATS and (bound := is_between(value, low, high)) is not None:
        return bound
    return exp.Between(this=value, low=low, high=high)


def _has_fields(type_: Row, output: Sequence[Output]) -> bool:
    """Whether a row's fields are compared one by one with the columns of a query.

    A single column may itself hold rows, which are compared with the whole row.
    """
    members = [field.type for field in type_.fields]
    if len(output) == len(members) == 1:
        return isinstance(output[0].type, Row) == isinstance(members[0], Row)
    return len(output) == len(members)


def _bind_in_query(binder: Binder, node: exp.In, subquery: exp.Expr, scope: Scope) -> Typed:
    value, value_type = binder.expression(node.this, scope)
    inner, output = binder.query(subquery, scope, scope.ctes)
    if isinstance(value_type, Row) and _has_fields(value_type, output):
        return in_rows(binder, node, (value, value_type), inner, output), types.BOOLEAN
    if len(output) != 1:
        raise SeamlineError(TYPE_MISMATCH, "IN needs a query of one column", hint="")
    common = common_type([value_type, output[0].type], "IN")
    require_equality(common, "IN")
    if isinstance(common, Row | Array | Map):
        row = types.anonymous_row([value_type])
        return in_rows(binder, node, (row_of([value], row), row), inner, output), types.BOOLEAN
    inner = cast_outputs(binder, inner, output, [Output(output[0].name, common)])
    one = as_operand(implicit_cast(value, value_type, common))
    if common in types.FLOATS:
        return _is_number_in(binder, node, one, inner), types.BOOLEAN
    return _within(one, inner), types.BOOLEAN


def _bind_in(binder: Binder, node: exp.In, scope: Scope) -> Typed:
    subquery = node.args.get("query")
    if isinstance(subquery, exp.Subquery) and _is_value(subquery.this):
        node.set("expressions", [subquery.this])
        node.set("query", None)
    elif subquery is not None:
        return _bind_in_query(binder, node, subquery, scope)
    (value, value_type), *items = comparable(binder, [node.this, *node.expressions], scope)
    if not items:
        raise unsupported(node)
    common = common_type([value_type, *(type_ for _, type_ in items)], "IN")
    require_equality(common, "IN")
    if isinstance(common, Row | Array | Map):
        one = implicit_cast(value, value_type, common)
        rows = (compared(exp.EQ, one.copy(), implicit_cast(*i, common), common) for i in items)
        return exp.Paren(this=exp.or_(*rows)), types.BOOLEAN
    one = as_operand(implicit_cast(value, value_type, common))
    listed = [implicit_cast(*item, common) for item in items]
    if common in types.FLOATS and (bound := is_one_of(one, listed)) is not None:
        return bound, types.BOOLEAN
    if len(listed) == 1 and isinstance(listed[0], exp.Subquery):
        # in double brackets it is one value, which DuckDB takes for a query of many
        return exp.Paren(this=compared(exp.EQ, one, listed[0], common)), types.BOOLEAN
    return exp.In(this=one, expressions=listed), types.BOOLEAN


def _is_value(node: exp.Expr) -> bool:
    """Whether the brackets of IN hold a query in brackets of its own: one value."""
    if not isinstance(node, exp.Subquery):
        return False
    return not any(node.args.get(key) for key in ("order", "limit", "offset"))


def _within(value: exp.Expr, query: exp.Expr) -> exp.In:
    return exp.In(
        this=value, query=query if isinstance(query, exp.Subquery) else exp.Subquery(this=query)
    )


def _is_number_in(binder: Binder, node: exp.In, value: exp.Expr, query: exp.Expr) -> exp.Expr:
    """Returns `value IN (query)` for floating-point numbers; NaN in the query equals nothing."""
    alias, name = binder.new_alias(), output_column(0)
    source = query.copy() if isinstance(query, exp.Subquery) else exp.Subquery(this=query.copy())
    source.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    column = exp.column(name, alias)
    rows = exp.select(exp.alias_(column, name)).from_(source)
    numbers = _within(value, rows.where(numbers_of(column.copy()), copy=False))
    if only_filters(node):
        return numbers
    is_null = exp.Is(this=value.copy(), expression=exp.Null())
    of_null = _within(value.copy(), query)  # null, if the query has any rows
    return exp.Paren(this=exp.Case(ifs=[exp.If(this=is_null, true=of_null)], default=numbers))


def _bind_like(binder: Binder, node: exp.Like, scope: Scope) -> Typed:
    if isinstance(node.expression, exp.Any | exp.All):
        return _bind_like_several(binder, node, scope)
    sides = []
    for key in ("this", "expression"):
        inner, type_ = binder.expression(node.args[key], scope)
        if not coercion.can_coerce(type_, types.VARCHAR):
            raise SeamlineError(TYPE_MISMATCH, f"LIKE needs varchar, not {type_}", hint="")
        is_filled = key == "this" and isinstance(type_, types.Char)
        sides.append(as_operand(inner if is_filled else implicit_cast(inner, type_, types.VARCHAR)))
    return _unless_negated(node, exp.Like(this=sides[0], expression=sides[1])), types.BOOLEAN


def _bind_like_several(binder: Binder, node: exp.Like, scope: Scope) -> Typed:
    """Binds LIKE ANY and LIKE ALL over literal lists of patterns."""
    patterns = unwrapped(node.expression.this)
    listed = patterns.expressions if isinstance(patterns, exp.Tuple) else [patterns]
    negate = node.args.get("negate")
    likes = [exp.Like(this=node.this.copy(), expression=p, negate=negate) for p in listed]
    combine = exp.or_ if isinstance(node.expression, exp.Any) else exp.and_
    return binder.expression(exp.Paren(this=combine(*likes, copy=False)), scope)


def _bind_escape(binder: Binder, node: exp.Escape, scope: Scope) -> Typed:
    like = node.this
    is_character = is_text(node.expression, length=1) and node.expression.name.isascii()
    if not isinstance(like, exp.Like) or not is_character:
        raise SeamlineError(NOT_SUPPORTED, "ESCAPE needs a literal of one ASCII character", hint="")
    inner, _ = binder.expression(exp.Like(this=like.this, expression=like.expression), scope)
    pattern, mark = inner.expression, node.expression.name
    if not is_text(pattern):
        inner.set("expression", _escaping(pattern, mark))
    elif mark in _without_escapes(pattern.name, mark):
        raise SeamlineError(
            INVALID_ARGUMENT,
            _STRAY_ESCAPE,
            location=location_of(like.expression),
            hint=f"Write {mark}{mark} for the character {mark} itself.",
        )
    escaped = exp.Escape(this=inner, expression=node.expression)
    return _unless_negated(like, escaped), types.BOOLEAN


_STRAY_ESCAPE = "the escape character of LIKE precedes none of %, _ and itself"


def _without_escapes(pattern: str, mark: str) -> str:
    """Returns a pattern of LIKE without its escaped characters."""
    for escaped in (mark, "%", "_"):
        pattern = pattern.replace(f"{mark}{escaped}", "")
    return pattern


def _escaping(pattern: exp.Expr, mark: str) -> exp.Expr:
    """Returns a pattern of LIKE that fails where the escape character escapes nothing."""
    templates = []
    for character, fails in zip(texts.constant(mark), ("error", "raise_error"), strict=True):
        left = "{0}"
        for escaped in (character, "'%'", "'_'"):
            left = f"replace({left}, concat({character}, {escaped}), '')"
        failure = f"{fails}('INVALID_ARGUMENT: {_STRAY_ESCAPE}')"
        templates.append(f"(CASE WHEN contains({left}, {character}) THEN {failure} ELSE {{0}} END)")
    overload = constructor(f"$like_pattern {ord(mark)}", *templates)
    return call(CallSpec(overload, (types.VARCHAR,), types.VARCHAR), [pattern])


def _unless_negated(node: exp.Expr, bound: exp.Expr) -> exp.Expr:
    """Turns the negation flag of NOT LIKE and IS NOT into a NOT around the bound node."""
    return exp.Not(this=bracketed(bound)) if node.args.get("negate") else bound


def _bind_exists(binder: Binder, node: exp.Exists, scope: Scope) -> Typed:
    inner, _ = binder.query(unwrapped(node.this), scope, scope.ctes)
    return exp.Exists(this=inner), types.BOOLEAN


def _bind_subquery(binder: Binder, node: exp.Subquery, scope: Scope) -> Typed:
    inner, output = binder.query(node.this, scope, scope.ctes)
    if len(output) == 1:
        return exp.Subquery(this=inner), output[0].type
    return as_row(binder, inner, output)


def _bind_case(binder: Binder, node: exp.Case, scope: Scope) -> Typed:
    operand = node.args.get("this")
    branches = node.args["ifs"]
    value: exp.Expr | None = None
    is_searched = operand is None
    if operand is None:
        tests = [binder.boolean(b.this, scope, "WHEN") for b in branches]
    else:
        inner, type_ = binder.expression(operand, scope)
        candidates = [binder.expression(b.this, scope) for b in branches]
        common = common_type([type_, *(t for _, t in candidates)], "CASE")
        require_equality(common, "CASE")
        value = as_operand(implicit_cast(inner, type_, common))
        tests = [as_operand(implicit_cast(*f, common)) for f in candidates]
        if isinstance(common, Row | Array | Map) or (common in types.FLOATS and may_be_nan(tests)):
            tests = [compared(exp.EQ, value.copy(), test, common) for test in tests]
            is_searched = True
    values = [binder.expression(b.args["true"], scope) for b in branches]
    default = node.args.get("default")
    other = binder.expression(default, scope) if default is not None else None
    all_types = [type_ for _, type_ in values] + ([other[1]] if other else [])
    common = common_type(all_types, "CASE")
    bound = exp.Case(
        this=None if is_searched else value,
        ifs=[
            exp.If(this=test, true=implicit_cast(*result, common))
            for test, result in zip(tests, values, strict=True)
        ],
        default=implicit_cast(*other, common) if other else None,
    )
    if value is not None:
        _count_copies(bound, value)
    return bound, common


def _count_copies(case: exp.Case, operand: exp.Expr) -> None:
    """Counts the copies of a CASE operand, which engines repeat for each WHEN.

    The copies of nested operands multiply.

    Raises:
        SeamlineError: STATEMENT_TOO_LARGE.
    """
    copies = max((inner.meta.get("copies", 1) for inner in operand.find_all(exp.Case)), default=1)
    case.meta["copies"] = copies * len(case.args["ifs"])
    if case.meta["copies"] > _COPIES_MAX:
        raise SeamlineError(
            STATEMENT_TOO_LARGE,
            "CASE is nested too deeply in the operand of CASE",
            hint="Compute the operand in a subquery, or write WHEN x = … THEN.",
        )


_COPIES_MAX = 10_000


def _bind_if(binder: Binder, node: exp.If, scope: Scope) -> Typed:
    case = exp.Case(
        ifs=[exp.If(this=node.this, true=node.args["true"])], default=node.args.get("false")
    )
    return _bind_case(binder, case, scope)


def _bind_cast_node(binder: Binder, node: exp.Cast, scope: Scope) -> Typed:
    safe = isinstance(node, exp.TryCast)
    if isinstance(node.this, exp.Literal) and node.this.is_string and not safe:
        constant = literal_of_type(node)
        if constant is not None:
            return constant
    target = types.from_sqlglot(node.to)
    is_row = isinstance(node.this, exp.Anonymous) and node.this.name.lower() == "row"
    length = _length_of(node.to)
    if is_row and isinstance(target, Row) and not safe:
        return _bind_row_as(binder, node.this, target, scope)
    inner, source = binder.expression(node.this, scope)
    target = in_zones(source, target)
    if source != target or isinstance(target, Time):
        inner = explicit_cast(inner, source, target, safe=safe)
    if length is not None:
        inner = of_length(
            inner,
            length,
            is_text=source == types.VARCHAR or isinstance(source, types.Char),
            safe=safe,
        )
    return inner, target


def _length_of(data_type: exp.DataType) -> int | None:
    """Returns the length of varchar(n), or None for any other type."""
    for inner in data_type.find_all(exp.DataType):
        is_varchar = inner.this == exp.DType.VARCHAR and inner.expressions
        if is_varchar and inner is data_type:
            return int(inner.expressions[0].name)
        if is_varchar:
            raise SeamlineError(
                NOT_SUPPORTED,
                "varchar(n) cannot be inside another type",
                hint="Use varchar, and cast the values in it to varchar(n).",
            )
    return None


def _bind_row_as(binder: Binder, node: exp.Anonymous, target: Row, scope: Scope) -> Typed:
    if len(target.fields) != len(node.expressions):
        raise SeamlineError(TYPE_MISMATCH, f"the row does not fit {target}", hint="")
    members, fields = [], []
    for field, argument in zip(target.fields, node.expressions, strict=True):
        inner, type_ = binder.expression(argument, scope)
        same = type_ == field.type
        members.append(inner if same else explicit_cast(inner, type_, field.type, safe=False))
        fields.append(dataclasses.replace(field, type=in_zones(type_, field.type)))
    target = Row(tuple(fields))
    return row_of(members, target), target


HANDLERS: Handlers = {
    exp.Column: _bind_name,
    exp.Dot: _bind_name,
    exp.Identifier: _bind_name,
    exp.Paren: _bind_paren,
    exp.And: _bind_logic,
    exp.Or: _bind_logic,
    exp.Not: _bind_not,
    exp.EQ: _bind_comparison,
    exp.NEQ: _bind_comparison,
    exp.LT: _bind_comparison,
    exp.LTE: _bind_comparison,
    exp.GT: _bind_comparison,
    exp.GTE: _bind_comparison,
    exp.NullSafeEQ: _bind_comparison,
    exp.NullSafeNEQ: _bind_comparison,
    exp.Is: _bind_is,
    exp.Between: _bind_between,
    exp.In: _bind_in,
    exp.Like: _bind_like,
    exp.Escape: _bind_escape,
    exp.Exists: _bind_exists,
    exp.Subquery: _bind_subquery,
    exp.Case: _bind_case,
    exp.If: _bind_if,
    exp.Cast: _bind_cast_node,
    exp.TryCast: _bind_cast_node,
}
