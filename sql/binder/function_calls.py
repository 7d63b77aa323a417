"""Arithmetic and functions: each becomes a `Call` of one verified overload."""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from seamline.errors import (
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    SYNTAX_ERROR,
    TYPE_MISMATCH,
    SeamlineError,
)
from seamline.sql import functions, types
from seamline.sql.binder import chars, times
from seamline.sql.binder.aggregates import finished
from seamline.sql.binder.binder import Binder, Handlers
from seamline.sql.binder.conversions import (
    common_type,
    explicit_cast,
    field_of,
    implicit_cast,
    numbers_alike,
    require_comparable,
    row_of,
)
from seamline.sql.binder.intervals import moved
from seamline.sql.binder.lambdas import LambdaArgument
from seamline.sql.binder.literals import (
    ROWS_MAX,
    bigint_literal,
    integer_literal,
    negated_literal,
    whole_number_of,
)
from seamline.sql.binder.loose import in_days, summands
from seamline.sql.binder.map_keys import COMPARING, over_entries
from seamline.sql.binder.scope import Scope, Typed, unsupported
from seamline.sql.binder.shapes import as_operand
from seamline.sql.binder.time_zones import bind_at_time_zone
from seamline.sql.binder.times import is_of_time
from seamline.sql.binder.tries import bind_try
from seamline.sql.equality import map_of_arrays
from seamline.sql.expressions.calls import (
    COMPUTED_COUNT,
    VOLATILE,
    Call,
    CallSpec,
    call,
    constructor,
    has_aggregate,
)
from seamline.sql.functions import GROUPING
from seamline.sql.functions.times import EXTRACTED, OF_CLOCKS, OF_ZONES
from seamline.sql.locations import location_of
from seamline.sql.parsing.dialects import FROM_ZERO
from seamline.sql.parsing.listagg import ListaggWithin
from seamline.sql.row_filters_and_masks import array_of_groups
from seamline.sql.templates import DUCKDB, SPARK
from seamline.sql.trees import nodes_of_kind
from seamline.sql.types import Array, Field, Function, Map, Row, Timestamp, Type


def _bind_arithmetic(binder: Binder, node: exp.Binary, scope: Scope) -> Typed:
    name = _OPERATORS[type(node)]
    operands, is_loose = summands(binder, node, scope)
    operand_types = [type_ for _, type_ in operands]
    if is_loose and (days := in_days(name, operands, bind_call)) is not None:
        return days
    if any(map(is_of_time, operand_types)):
        return _bind_time_arithmetic(name, operands)
    for type_ in operand_types:
        if not types.is_numeric(type_) and type_ != types.UNKNOWN:
            is_joined = isinstance(node, exp.Add) and type_ == types.VARCHAR
            raise SeamlineError(
                TYPE_MISMATCH,
                f"arithmetic needs numbers, not {type_}",
                hint="x || y joins texts." if is_joined else None,
            )
    return bind_call(name, numbers_alike(operands))


def _bind_time_arithmetic(name: str, operands: Sequence[Typed]) -> Typed:
    constant = moved(name, operands)
    if constant is not None:
        return constant
    try:
        return bind_call(name, operands)
    except SeamlineError as error:
        if error.code is not TYPE_MISMATCH:
            raise
        raise SeamlineError(
            TYPE_MISMATCH,
            error.message,
            hint="x + INTERVAL '1' DAY moves a time, date_diff('day', a, b) compares two.",
        ) from error


_LEAST = {2**31: (integer_literal, types.INTEGER), 2**63: (bigint_literal, types.BIGINT)}
"""Numbers that fit a type only with their minus sign, with that type and its literal function."""


def _bind_negate(binder: Binder, node: exp.Neg, scope: Scope) -> Typed:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        text = node.this.name.lower()
        if "e" not in text and "." not in text and int(text) in _LEAST:
            literal, type_ = _LEAST[int(text)]
            return literal(-int(text)), type_
    operand = binder.expression(node.this, scope)
    return negated_literal(*operand) or bind_call("$negate", [operand])


def _bind_concat(binder: Binder, node: exp.Expr, scope: Scope) -> Typed:
    if isinstance(node, exp.Concat):
        parts = [binder.expression(part, scope) for part in node.expressions]
        return bind_call("concat", parts)
    operands = [binder.expression(node.args[k], scope) for k in ("this", "expression")]
    return bind_call("$concat", operands)


def _bind_coalesce(binder: Binder, node: exp.Coalesce, scope: Scope) -> Typed:
    arguments = [binder.expression(a, scope) for a in (node.this, *node.expressions)]
    return bind_call("coalesce", arguments)


def _bind_extract(binder: Binder, node: exp.Extract, scope: Scope) -> Typed:
    part = node.this.name.lower()
    if part not in EXTRACTED:
        raise SeamlineError(NOT_SUPPORTED, f"EXTRACT({part.upper()} …) is not supported")
    value = binder.expression(node.expression, scope)
    is_local = isinstance(value[1], Timestamp) and not value[1].zoned
    if part in (OF_CLOCKS if value[1] == types.DATE else OF_ZONES if is_local else ()):
        raise SeamlineError(
            TYPE_MISMATCH,
            f"{value[1]} has no {part.upper()}",
            location=location_of(node),
            hint="A CAST to timestamp, or to timestamp with time zone, has one.",
        )
    return bind_call(part, [value])


def _bind_trim(binder: Binder, node: exp.Trim, scope: Scope) -> Typed:
    position = str(node.args.get("position") or "BOTH").upper()
    name = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[position]
    arguments = [binder.expression(node.this, scope)]
    if node.expression is not None:
        arguments.append(binder.expression(node.expression, scope))
        name = f"${name}"
    return chars.bind(name, arguments, bind_call) or bind_call(name, arguments)


def _bind_overlay(binder: Binder, node: exp.Overlay, scope: Scope) -> Typed:
    parts = [node.this, *(node.args.get(key) for key in ("expression", "from_", "for_"))]
    if None in parts[:3]:
        raise SeamlineError(
            SYNTAX_ERROR,
            "overlay needs PLACING and FROM",
            location=location_of(node),
            hint="overlay(text PLACING text FROM start [FOR length])",
        )
    return bind_call("$overlay", [binder.expression(part, scope) for part in parts if part])


def _bind_substring(binder: Binder, node: exp.Substring, scope: Scope) -> Typed:
    arguments = [
        binder.expression(node.args[key], scope)
        for key in ("this", "start", "length")
        if node.args.get(key) is not None
    ]
    return bind_call("substr", arguments)


def _bind_position(binder: Binder, node: exp.StrPosition, scope: Scope) -> Typed:
    arguments = [binder.expression(node.args[key], scope) for key in ("substr", "this")]
    return bind_call("$position", arguments)


def _bind_bracket(binder: Binder, node: exp.Bracket, scope: Scope) -> Typed:
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
        raise unsupported(node)
    (container, type_), index = _bind_element(binder, node.this, node.expressions[0], scope)
    if isinstance(type_, Row):
        return _bind_field(container, type_, whole_number_of(index[0]))
    if type_ == types.JSON:
        raise SeamlineError(
            TYPE_MISMATCH,
            "json has no subscripts",
            location=location_of(node),
            hint="json_extract(j, '$[0]') reads an element of json, counted from 0.",
        )
    return bind_call("$subscript", [(container, type_), index])


def _bind_field(row: exp.Expr, type_: Row, position: int | None) -> Typed:
    """Returns the field of a row at a literal position, counted from 1."""
    if position is None or not 1 <= position <= len(type_.fields):
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"{type_} has fields 1 to {len(type_.fields)}, which a literal must select",
            hint="",
        )
    field = type_.fields[position - 1]
    return field_of(row, type_, field), field.type


def _bind_element(binder: Binder, node: exp.Expr, index: exp.Expr, scope: Scope) -> list[Typed]:
    """Binds an array or map and the subscript into it; array subscripts count from 1."""
    counts_from_zero = isinstance(index, exp.Anonymous) and index.name.lower() == FROM_ZERO
    subscript = binder.expression(index.expressions[0] if counts_from_zero else index, scope)
    container = binder.expression(node, scope)
    if counts_from_zero and isinstance(container[1], Array):
        subscript = bind_call("$add", [subscript, (bigint_literal(1), types.BIGINT)])
    return [container, subscript]


def _bind_array(binder: Binder, node: exp.Array, scope: Scope) -> Typed:
    items = [binder.expression(item, scope) for item in node.expressions]
    common = common_type([type_ for _, type_ in items], "ARRAY") if items else types.UNKNOWN
    returns = Array(common)
    overload = constructor("$array", "[{args}]", "array({args})")
    spec = CallSpec(overload, (common,) * len(items), returns)
    return call(spec, [implicit_cast(*item, common) for item in items]), returns


def _bind_function(binder: Binder, node: exp.Anonymous, scope: Scope) -> Typed:
    name = node.name.lower()
    if name.startswith("$"):
        raise functions.unknown(name)
    of_time = times.bind_function(binder, node, scope, bind_call)
    if of_time is not None:
        return of_time
    if name == "try":
        return bind_try(binder, node, scope)
    if name == "current_groups":
        return _bind_groups(binder, node, scope)
    if name == "normalize":
        return _bind_normalize(binder, node, scope)
    if name == "row":
        return _bind_row_constructor(binder, node, scope)
    if name == "map":
        return _bind_map_constructor(binder, node, scope)
    if name == "nullif" and len(node.expressions) == 2:
        return _bind_null_if(*(binder.expression(part, scope) for part in node.expressions))
    if name == "typeof" and len(node.expressions) == 1:
        return _type_of(*binder.expression(node.expressions[0], scope))
    return _bind_plain_call(binder, name, node, scope)


def _bind_groups(binder: Binder, node: exp.Anonymous, scope: Scope) -> Typed:
    if node.expressions:
        raise SeamlineError(TYPE_MISMATCH, "current_groups takes no argument", hint="")
    return binder.expression(array_of_groups(binder.groups()), scope)


def _type_of(value: exp.Expr, type_: Type) -> Typed:
    """Returns the name of a type; with the value if it aggregates, which makes one row of many."""
    name = exp.Literal.string(types.delimited(type_))
    if not has_aggregate(value):
        return name, types.VARCHAR
    is_null = exp.Is(this=as_operand(value), expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=is_null, true=name)], default=name.copy()), types.VARCHAR


def _bind_plain_call(binder: Binder, name: str, node: exp.Anonymous, scope: Scope) -> Typed:
    if name not in functions.FUNCTIONS:  # before what only such a function takes is missed
        raise functions.unknown(name)
    expressions, distinct, order = _parts_of_call(node)
    if name == "count" and len(expressions) == 1 and isinstance(expressions[0], exp.Star):
        expressions = []
    if scope.is_of_order and scope.outer is not None and functions.is_aggregate(name):
        scope = scope.outer
    for argument in expressions:
        if isinstance(argument, exp.Order | exp.Star | exp.Kwarg):
            raise SeamlineError(
                NOT_SUPPORTED, f"{argument.key.upper()} inside {name}() is not supported"
            )
    if name == "count" and distinct and len(expressions) > 1:
        return _bind_count_of_rows(binder, expressions, scope)
    typed, type_ = bind_call(name, _bind_arguments(binder, name, expressions, scope))
    assert isinstance(typed, Call)
    overload = typed.spec.overload
    if overload.kind == "window" and not isinstance(node.parent, _OVER):
        raise SeamlineError(NOT_SUPPORTED, f"{name}() needs OVER", hint="")
    if name in _COUNTS:
        _check_count(name, typed)
    if name == "approx_percentile":
        _bind_shares(typed)
    if (distinct or order is not None) and (overload.kind != "aggregate" or name == GROUPING):
        what = "DISTINCT …" if distinct else "… ORDER BY …"
        raise SeamlineError(NOT_SUPPORTED, f"{name}({what}) is not supported")
    if overload.kind == "aggregate" and overload.name != GROUPING:
        if any(inner.spec.overload.name in VOLATILE for inner in nodes_of_kind(typed, Call)):
            raise SeamlineError(
                NOT_SUPPORTED,
                f"{name}() of a value that differs each time is not supported",
                hint="Compute it in a subquery.",
            )
        return finished(binder, typed, scope, distinct=distinct, order=order), type_
    return typed, type_


def _parts_of_call(node: exp.Anonymous) -> tuple[list[exp.Expr], bool, exp.Order | None]:
    """Returns the arguments of a call, whether they are DISTINCT, and their ORDER BY."""
    expressions, order = list(node.expressions), None
    if expressions and isinstance(expressions[-1], exp.Order):
        order = expressions[-1]
        expressions[-1:] = [order.this] if order.this is not None else []
    if len(expressions) == 1 and isinstance(expressions[0], exp.Distinct):
        return expressions[0].expressions, True, order
    return expressions, False, order


def _bind_count_of_rows(binder: Binder, expressions: Sequence[exp.Expr], scope: Scope) -> Typed:
    """Binds count(DISTINCT a, b) of other dialects, which counts distinct rows without nulls."""
    missing = exp.or_(*(exp.Is(this=e.copy(), expression=exp.Null()) for e in expressions))
    row = exp.Tuple(expressions=[e.copy() for e in expressions])
    case = exp.Case(ifs=[exp.If(this=exp.Not(this=exp.Paren(this=missing)), true=row)])
    call_ = exp.Anonymous(this="count", expressions=[exp.Distinct(expressions=[case])])
    return _bind_plain_call(binder, "count", call_, scope)


def _bind_within_group(binder: Binder, node: exp.WithinGroup, scope: Scope) -> Typed:
    """Binds f(x, …) WITHIN GROUP (ORDER BY …) as f(x, … ORDER BY …)."""
    call_, order = node.this, node.expression
    if not isinstance(call_, exp.Anonymous) or not isinstance(order, exp.Order) or order.this:
        raise unsupported(node)
    name = call_.name.lower()
    if name in functions.REPLACEMENTS and name not in functions.FUNCTIONS:
        raise functions.unknown(name)
    if name != "listagg" or not call_.expressions:
        raise SeamlineError(NOT_SUPPORTED, "WITHIN GROUP is for listagg", hint="")
    *first, last = call_.expressions
    ordered = exp.Order(this=last, expressions=order.expressions)
    call_.set("expressions", [*first, ordered])
    return binder.expression(call_, scope)


def _bind_listagg_within(binder: Binder, node: ListaggWithin, scope: Scope) -> Typed:
    return _bind_plain_call(binder, "$listagg", node, scope)


def _bind_arguments(
    binder: Binder, name: str, expressions: Sequence[exp.Expr], scope: Scope
) -> list[Typed | LambdaArgument]:
    if name == "element_at" and len(expressions) == 2:
        return [*_bind_element(binder, expressions[0], expressions[1], scope)]
    arguments = [
        LambdaArgument(binder, argument, scope)
        if isinstance(argument, exp.Lambda)
        else binder.expression(argument, scope)
        for argument in expressions
    ]
    first = arguments[0] if arguments else None
    if name == "mod" and all(isinstance(a, tuple) and types.is_numeric(a[1]) for a in arguments):
        arguments = [*numbers_alike([a for a in arguments if isinstance(a, tuple)])]
    if name == "array_join" and isinstance(first, tuple) and isinstance(first[1], Array):
        texts = Array(types.VARCHAR)
        arguments[0] = explicit_cast(*first, texts, safe=False), texts
    return arguments


def _check_count(name: str, node: Call) -> None:
    """Checks the count of rows or parts of a window function now, or at run time if computed."""
    index, least = _COUNTS[name]
    if index >= len(node.expressions):
        return
    count = whole_number_of(node.expressions[index])
    if count is None and name != "ntile":
        node.expressions[index].replace(_counted(name, least, node.expressions[index]))
        return
    if count is None:
        raise SeamlineError(
            NOT_SUPPORTED, f"{name}() needs a literal whole number as its count", hint=""
        )
    if not least <= count <= ROWS_MAX:
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"{name}() takes a count from {least} to {ROWS_MAX}, not {count}",
            hint="",
        )


def _bind_shares(node: Call) -> None:
    """Checks the percentiles of `approx_percentile`, and makes engines choose as Trino does.

    Of n values it takes the one that `share * n` others precede, and engines the one before.

    Raises:
        SeamlineError: INVALID_ARGUMENT, NOT_SUPPORTED.
    """
    is_weighted = len(node.expressions) > 2
    shares = node.expressions[2 if is_weighted else 1]
    if not is_weighted and shares.find(exp.Column, exp.Query) is not None:
        raise SeamlineError(NOT_SUPPORTED, "a percentile must be a constant", hint="")
    if any(not 0 <= share <= 1 for share in _numbers_of(shares)):
        raise SeamlineError(INVALID_ARGUMENT, "a percentile must be between 0 and 1", hint="")
    if is_weighted:
        return
    array = shares.unnest()
    while isinstance(array, Call) and array.spec.overload.name == "cast":
        array = array.expressions[0].unnest()
    if not isinstance(node.spec.parameters[1], Array):
        shares.replace(_just_above((shares, types.DOUBLE)))
    elif isinstance(array, Call) and array.spec.overload.name == "$array":
        returns = array.spec.returns
        assert isinstance(returns, Array)
        above = [_just_above((share, returns.element)) for share in array.expressions]
        kinds = (types.DOUBLE,) * len(above)
        shares.replace(call(CallSpec(array.spec.overload, kinds, Array(types.DOUBLE)), above))
    else:
        raise SeamlineError(NOT_SUPPORTED, "percentiles must be written as ARRAY[…]", hint="")


def _just_above(share: Typed) -> exp.Expr:
    """Returns a share that is so much greater that no rank is a whole number."""
    above = "least({0} + 1e-12, 1.0)"
    overload = constructor("$just_above", above, "least({0} + 1e-12D, 1D)")
    number = implicit_cast(share[0].copy(), share[1], types.DOUBLE)
    return call(CallSpec(overload, (types.DOUBLE,), types.DOUBLE), [number])


def _numbers_of(node: exp.Expr) -> Iterator[float]:
    """Yields the literal numbers that a bound number or array consists of."""
    inner = node.unnest()
    if isinstance(inner, exp.Literal) and not inner.is_string:
        yield float(inner.name)
    elif isinstance(inner, Call):
        name, constant = inner.spec.overload.name, inner.spec.constant
        if isinstance(constant, int | float | decimal.Decimal):
            yield float(constant)
        elif name in {"$array", "$negate", "cast"}:
            sign = -1 if name == "$negate" else 1
            for part in inner.expressions:
                yield from (sign * number for number in _numbers_of(part))


def _counted(name: str, least: int, count: exp.Expr) -> Call:
    """Returns a row count that is computed and checked for each row."""
    failure = f"'INVALID_ARGUMENT: {name}() takes a count of at least {least}'"
    template = f"(CASE WHEN {{0}} < {least} THEN {{failure}}({failure}) ELSE {{0}} END)"
    overload = constructor(
        COMPUTED_COUNT,
        template.replace("{failure}", "error"),
        template.replace("{failure}", "raise_error"),
    )
    return call(CallSpec(overload, (types.BIGINT,), types.BIGINT), [count.copy()])


_COUNTS = {"lag": (1, 0), "lead": (1, 0), "nth_value": (1, 1), "ntile": (0, 1)}
"""The index of a window function's count argument, and the least value that it may have."""


def bind_call(name: str, arguments: Sequence[Typed | LambdaArgument]) -> Typed:
    """Binds a call to the overload of `name` that takes these arguments."""
    of_char = chars.bind(name, arguments, bind_call)
    if of_char is not None:
        return of_char
    typed = [argument for argument in arguments if not isinstance(argument, LambdaArgument)]
    in_zone = times.in_zone(name, typed, bind_call) if len(typed) == len(arguments) else None
    if in_zone is not None:
        return in_zone
    resolved = functions.resolve(
        name, [a if isinstance(a, LambdaArgument) else a[1] for a in arguments]
    )
    converted: list[exp.Expr] = []
    for argument, parameter in zip(arguments, resolved.parameters, strict=True):
        if isinstance(argument, LambdaArgument):
            assert isinstance(parameter, Function)
            converted.append(argument.bound(parameter))
        else:
            converted.append(implicit_cast(*argument, parameter))
    spec = CallSpec(resolved.overload, resolved.parameters, resolved.returns)
    node = call(spec, converted)
    return over_entries(node) if name in COMPARING else node, resolved.returns


def _bind_normalize(binder: Binder, node: exp.Anonymous, scope: Scope) -> Typed:
    """Binds `normalize(x, NFD)`, where the form is a word, not a column."""
    value, *forms = node.expressions or [exp.Null()]
    form = forms[0].name.lower() if forms else "nfc"
    name = f"$normalize_{form}"
    if len(forms) > 1 or name not in functions.FUNCTIONS:
        raise SeamlineError(INVALID_ARGUMENT, "normalize knows NFC, NFD, NFKC and NFKD", hint="")
    return bind_call(name, [binder.expression(value, scope)])


def _bind_null_if(one: Typed, other: Typed) -> Typed:
    """Binds `nullif(a, b)`, which has the type of a, whatever type the two are compared in."""
    compared, common = bind_call("nullif", [one, other])
    value, type_ = one
    if type_ in (common, types.UNKNOWN):
        return compared, common
    is_null = exp.Is(this=compared, expression=exp.Null())
    case = exp.Case(ifs=[exp.If(this=is_null, true=exp.Null())], default=value.copy())
    return exp.Paren(this=case), type_


def _bind_row_constructor(binder: Binder, node: exp.Anonymous | exp.Tuple, scope: Scope) -> Typed:
    """Binds `(a, b)` or `ROW(a AS x, b)`; only ROW may name fields."""
    if not node.expressions:
        raise SeamlineError(
            SYNTAX_ERROR, "a row needs at least one value", location=location_of(node)
        )
    is_row = isinstance(node, exp.Anonymous)
    named = {i: e for i, e in enumerate(node.expressions) if is_row and isinstance(e, exp.Alias)}
    items = [
        binder.expression(item.this if index in named else item, scope)
        for index, item in enumerate(node.expressions)
    ]
    type_ = types.anonymous_row([type_ for _, type_ in items])
    if named:
        fields = [
            Field(named[index].alias, field.type) if index in named else field
            for index, field in enumerate(type_.fields)
        ]
        type_ = types.row(tuple(fields))
    return row_of([inner for inner, _ in items], type_), type_


def _bind_map_constructor(binder: Binder, node: exp.Anonymous, scope: Scope) -> Typed:
    arguments = [binder.expression(argument, scope) for argument in node.expressions]
    argument_types = [type_ for _, type_ in arguments]
    match argument_types:
        case []:
            type_ = Map(types.UNKNOWN, types.UNKNOWN)
            return call(CallSpec(constructor("$map", "MAP {{}}", "map()"), (), type_), []), type_
        case [Array(key), Array(value)]:
            require_comparable(key, "MAP")
            type_ = Map(key, value)
            overload = constructor("$map", map_of_arrays(DUCKDB), map_of_arrays(SPARK))
            return call(
                CallSpec(overload, tuple(argument_types), type_), [a for a, _ in arguments]
            ), type_
    raise SeamlineError(TYPE_MISMATCH, "MAP needs two arrays", hint="MAP(ARRAY[…], ARRAY[…]).")


_OVER = (exp.Window, exp.IgnoreNulls, exp.RespectNulls)
_OPERATORS: Mapping[type[Any], str] = {
    exp.Add: "$add",
    exp.Sub: "$subtract",
    exp.Mul: "$multiply",
    exp.Div: "$divide",
    exp.Mod: "$modulus",
}
HANDLERS: Handlers = {
    exp.Add: _bind_arithmetic,
    exp.Sub: _bind_arithmetic,
    exp.Mul: _bind_arithmetic,
    exp.Div: _bind_arithmetic,
    exp.Mod: _bind_arithmetic,
    exp.Neg: _bind_negate,
    exp.DPipe: _bind_concat,
    exp.Concat: _bind_concat,
    exp.Coalesce: _bind_coalesce,
    exp.Extract: _bind_extract,
    exp.Overlay: _bind_overlay,
    exp.Trim: _bind_trim,
    exp.Substring: _bind_substring,
    exp.StrPosition: _bind_position,
    exp.Bracket: _bind_bracket,
    ListaggWithin: _bind_listagg_within,
    exp.Array: _bind_array,
    exp.AtTimeZone: bind_at_time_zone,
    exp.Anonymous: _bind_function,
    exp.Tuple: _bind_row_constructor,
    exp.WithinGroup: _bind_within_group,
}
