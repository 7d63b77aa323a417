"""Explicit conversions and composite values: casts, rows and fields as calls.

Each of Trino's implicit conversions becomes a cast in the tree; where there is none, it is an
error.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from seamline.errors import TYPE_MISMATCH, SeamlineError
from seamline.sql import coercion, functions, session_zone, time_zones, types
from seamline.sql.binder.scope import Output, Typed, output_column
from seamline.sql.expressions import casts
from seamline.sql.expressions.calls import Call, CallSpec, call, constructor
from seamline.sql.quoting import quoted_text, spark_name, spark_text
from seamline.sql.types import Array, Char, Decimal, Field, Map, Row, Timestamp, Type, Varbinary

if TYPE_CHECKING:
    from seamline.sql.binder.binder import Binder


def implicit_cast(node: exp.Expr, source: Type, target: Type) -> exp.Expr:
    """Returns the value as another type that it converts to implicitly."""
    if source == target:
        return node
    return explicit_cast(node, source, target, safe=False)


def explicit_cast(node: exp.Expr, source: Type, target: Type, *, safe: bool) -> exp.Expr:
    """Returns the value as another type, by the rules of CAST or TRY_CAST."""
    match source, target:
        case Timestamp(digits, zoned), Timestamp(precision, other_zoned) if (
            zoned == other_zoned and digits <= precision
        ):
            return node  # more digits do not change the value, and a zone is not part of it
    zone = session_zone.current()
    if zone != time_zones.UTC and isinstance(target, Timestamp) and target.zoned:
        constant = _constant_instant(node, source, target)
        if constant is not None:
            return constant
    is_filled = isinstance(target, Char | Varbinary) or target in (types.VARCHAR, types.JSON)
    if isinstance(source, Char) and not is_filled:
        node, source = explicit_cast(node, source, types.VARCHAR, safe=False), types.VARCHAR
    if target == types.JSON and source != (written := _with_texts(source)):
        node, source = explicit_cast(node, source, written, safe=False), written
    overload = casts.overload(source, target, safe=safe, zone=zone)
    return call(CallSpec(overload, (source,), target), [node])


def _with_texts(type_: Type) -> Type:
    """Returns a type in which instants that JSON shows in a zone other than UTC are text."""
    match type_:
        case Timestamp(_, True) if type_.zone != time_zones.UTC:
            return types.VARCHAR
        case Array(element):
            return Array(_with_texts(element))
        case Map(key, value):
            return Map(key, _with_texts(value))
        case Row(fields):
            return Row(tuple(dataclasses.replace(f, type=_with_texts(f.type)) for f in fields))
    return type_


def _rounds(source: Type, target: Timestamp) -> bool:
    return isinstance(source, Timestamp) and source.precision > target.precision


def _constant_instant(node: exp.Expr, source: Type, target: Timestamp) -> exp.Expr | None:
    """Returns the instant of a literal date or timestamp, so that files can be pruned by it."""
    local = node.spec.constant if isinstance(node, Call) else None
    if not isinstance(local, datetime.date) or _rounds(source, target):
        return None
    if not isinstance(local, datetime.datetime):
        local = datetime.datetime.combine(local, datetime.time())
    if local.tzinfo is not None:
        return None
    try:
        instant = time_zones.instant_of_value(local, session_zone.current())
    except OverflowError:
        return None
    return moment_literal(instant, target)[0]


def moment_literal(value: datetime.date, type_: Type) -> Typed:
    """Returns a date or timestamp literal with an explicit type for each engine."""
    text = value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
    # a cast from text to a date or time fails where Spark replaces a subquery by its value
    overload = constructor("$literal", f"CAST('{text}' AS {{type}})", f"{{type}} '{text}'")
    return call(CallSpec(overload, (), type_, value), []), type_


def of_length(node: exp.Expr, length: int, *, is_text: bool, safe: bool) -> exp.Expr:
    """Limits text to a number of characters: original text is cut, any other value must fit."""

    def template(failure: str) -> str:
        if is_text:
            return f"substr({{0}}, 1, {length})"
        return f"(CASE WHEN length({{0}}) > {length} THEN {failure} ELSE {{0}} END)"

    message = f"'INVALID_CAST: a value is longer than varchar({length})'"
    failures = ("NULL", "NULL") if safe else (f"error({message})", f"raise_error({message})")
    overload = constructor(f"$varchar_{length}", *map(template, failures))
    return call(CallSpec(overload, (types.VARCHAR,), types.VARCHAR), [node])


def cast_outputs(
    binder: Binder, query: exp.Expr, output: Sequence[Output], targets: Sequence[Output]
) -> exp.Expr:
    """Returns a query whose columns have the wanted types; unchanged if they already do."""
    if [column.type for column in output] == [column.type for column in targets]:
        return query
    alias = binder.new_alias()
    source = query if isinstance(query, exp.Subquery) else exp.Subquery(this=query)
    source.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    names = [output_column(index) for index in range(len(targets))]
    projections = [
        exp.alias_(implicit_cast(exp.column(name, alias), one.type, target.type), name)
        for name, one, target in zip(names, output, targets, strict=True)
    ]
    return exp.select(*projections).from_(source)


def numbers_alike(operands: Sequence[Typed]) -> list[Typed]:
    """Converts arithmetic operands to one family: floating, decimal or integer; NULL fits any."""
    sources = [type_ for _, type_ in operands]
    if all(type_ == types.UNKNOWN for type_ in sources):
        return [(implicit_cast(*operand, types.INTEGER), types.INTEGER) for operand in operands]
    typed = [type_ for type_ in sources if type_ != types.UNKNOWN]
    sources = [typed[0] if type_ == types.UNKNOWN else type_ for type_ in sources]
    targets = sources
    if any(type_ in types.FLOATS for type_ in sources):
        targets = [types.DOUBLE if types.DOUBLE in sources else types.REAL] * len(sources)
    elif any(isinstance(type_, Decimal) for type_ in sources):
        targets = [coercion.as_decimal(type_) or type_ for type_ in sources]
    elif len(sources) > 1:
        targets = [max(sources, key=types.INTEGERS.index)] * len(sources)
    return [
        (implicit_cast(*operand, target), target)
        for operand, target in zip(operands, targets, strict=True)
    ]


def row_of(members: Sequence[exp.Expr], type_: Row) -> exp.Expr:
    """Returns a row made of its members."""
    names = [field.name for field in type_.fields]

    def duckdb(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
        pairs = ", ".join(f"{types.quoted(n)} := {a}" for n, a in zip(names, args, strict=True))
        return f"struct_pack({pairs})"

    def spark(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
        pairs = ", ".join(f"{spark_text(n)}, {a}" for n, a in zip(names, args, strict=True))
        return f"named_struct({pairs})"

    overload = constructor("$row", duckdb, spark)
    return call(CallSpec(overload, tuple(f.type for f in type_.fields), type_), members)


def field_of(row: exp.Expr, type_: Row, field: Field) -> exp.Expr:
    """Returns a field of a row."""
    name = field.name

    def duckdb(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
        return f"struct_extract({args[0]}, {quoted_text(name)})"

    def spark(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
        return f"{args[0]}.{spark_name(name)}"

    overload = constructor(f"$field {name}", duckdb, spark)
    return call(CallSpec(overload, (type_,), field.type), [row])


_MEMBERS = "Compare the members; map_entries(m) lists those of a map."


def require_comparable(type_: Type, where: str) -> None:
    """Raises TYPE_MISMATCH when the engines cannot compare values of the type themselves."""
    if not functions.is_comparable(type_):
        raise SeamlineError(
            TYPE_MISMATCH, f"{where} cannot compare values of {type_}", hint=_MEMBERS
        )


def require_equality(type_: Type, where: str) -> None:
    """Raises TYPE_MISMATCH when values of the type are not compared by `=`."""
    if not functions.has_equality(type_):
        raise SeamlineError(
            TYPE_MISMATCH, f"{where} cannot compare values of {type_}", hint=_MEMBERS
        )


def require_order(type_: Type) -> None:
    """Raises TYPE_MISMATCH when values of the type are not compared by `<`."""
    if not functions.is_ordered(type_):
        raise SeamlineError(
            TYPE_MISMATCH,
            f"values of {type_} have no order",
            hint="Compare its fields or elements, one by one.",
        )


def common_type(candidates: Sequence[Type], what: str) -> Type:
    """Returns the type that all of the types convert to.

    Raises:
        SeamlineError: TYPE_MISMATCH when there is none, naming what mixes the types.
    """
    common = coercion.common_type_of(candidates)
    if common is None:
        listed = ", ".join(dict.fromkeys(str(type_) for type_ in candidates))
        raise SeamlineError(TYPE_MISMATCH, f"{what} mixes {listed}")
    return common
