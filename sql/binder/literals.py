"""Literals, which are checked here and written with an explicit type for each engine."""

from __future__ import annotations

import decimal
import math
import re
from typing import Any

from sqlglot import exp

from seamline.errors import INVALID_LITERAL, NOT_SUPPORTED, SeamlineError
from seamline.sql import types
from seamline.sql.binder.binder import Binder, Handlers
from seamline.sql.binder.moments import bind_moment
from seamline.sql.binder.scope import Scope, Typed
from seamline.sql.expressions.calls import Call, CallSpec, call, constructor
from seamline.sql.kernels import json_texts
from seamline.sql.locations import location_of
from seamline.sql.parsing.dialects import CAST
from seamline.sql.types import Decimal, Type


def constant_of(template: str, type_: Type, value: Any) -> exp.Expr:
    """Returns an expression without arguments that has the same text on both engines."""
    escaped = template.replace("{", "{{").replace("}", "}}")
    return call(CallSpec(constructor("$constant", escaped, escaped), (), type_, value), [])


def _literal_text(text: str, type_: Type, value: Any) -> exp.Expr:
    """Returns a literal with an explicit type for each engine."""
    template = f"CAST('{text}' AS {{type}})"
    return call(CallSpec(constructor("$literal", template, template), (), type_, value), [])


def integer_literal(value: int) -> exp.Expr:
    """Returns a whole number as an integer literal."""
    return _literal_text(str(value), types.INTEGER, value)


def bigint_literal(value: int) -> exp.Expr:
    """Returns a whole number as a bigint literal."""
    if value == -(2**63):
        return _literal_text(str(value), types.BIGINT, value)
    return constant_of(f"CAST({value} AS BIGINT)", types.BIGINT, value)


def _decimal_literal(text: str) -> Typed:
    value = decimal.Decimal(text)
    parts = value.as_tuple()
    scale = max(0, -int(parts.exponent))
    precision = max(len(parts.digits), scale, 1)
    if precision > types.MAX_DECIMAL_PRECISION:
        raise SeamlineError(INVALID_LITERAL, f"the number {text[:50]} has more than 38 digits")
    type_ = Decimal(precision, scale)
    return _literal_text(format(value, "f"), type_, value), type_


def negated_literal(node: exp.Expr, type_: Type) -> Typed | None:
    """Returns a negated decimal literal, else None; Spark's own minus rounds to 34 digits."""
    literal = node.unnest()
    value = literal.spec.constant if isinstance(literal, Call) else None
    if not isinstance(value, decimal.Decimal):
        return None
    value = value.copy_negate()
    return _literal_text(format(value, "f"), type_, value), type_


def literal_of_type(node: exp.Cast) -> Typed | None:
    """Binds DATE '…', TIMESTAMP '…' or a number such as DOUBLE '…', so that no engine parses it."""
    number = _number_of_type(node)
    if number is not None:
        return number
    if node.to.this == exp.DType.DECIMAL and not node.to.expressions and CAST not in node.meta:
        try:
            return _signed_decimal(node.this.name)
        except (ValueError, OverflowError) as error:
            raise SeamlineError(
                INVALID_LITERAL,
                f"{node.this.name!r} is not a decimal number",
                location=location_of(node.this),
            ) from error
    return bind_moment(node)


def _number_of_type(node: exp.Cast) -> Typed | None:
    """Binds the text of a double or a whole number as a constant; None for other text.

    Clients send parameters this way, and engines require constants for some arguments.
    """
    text, kind = node.this.name, node.to.this
    if kind == exp.DType.DOUBLE and _DOUBLE.fullmatch(text) and math.isfinite(float(text)):
        return _literal_text(repr(float(text)), types.DOUBLE, float(text)), types.DOUBLE
    if kind not in _BITS or not _WHOLE_NUMBER.fullmatch(text):
        return None
    value, limit = int(text), 2 ** _BITS[kind]
    if not -limit <= value < limit:
        return None
    if kind == exp.DType.INT:
        return integer_literal(value), types.INTEGER
    return bigint_literal(value), types.BIGINT


_DOUBLE = re.compile(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE_NUMBER = re.compile("[+-]?[0-9]{1,19}")
_BITS = {exp.DType.INT: 31, exp.DType.BIGINT: 63}


def _signed_decimal(text: str) -> Typed:
    if "e" in text.lower():
        raise ValueError("a decimal cannot have an exponent")
    try:
        inner, type_ = _decimal_literal(text.lstrip("+-"))
    except decimal.InvalidOperation as error:
        raise SeamlineError(INVALID_LITERAL, f"{text!r} is not a number") from error
    negated = negated_literal(inner, type_) if text.startswith("-") else None
    return negated or (inner, type_)


def as_value(node: exp.Expr, type_: Type) -> exp.Expr:
    """Wraps a constant so no engine takes it for a column position; other nodes stay unchanged."""
    if type_ == types.UNKNOWN or node.find(exp.Column, exp.Query, exp.Window) is not None:
        return node
    cast = "CAST({0} AS {type})"
    return call(CallSpec(constructor("$value", cast, cast), (type_,), type_), [node])


ROWS_MAX = 2**31 - 1
"""The greatest row count in LIMIT and OFFSET that Spark supports."""
_MORE_THAN_ANY = 2**53


def row_limit(node: exp.Expr) -> exp.Limit | None:
    """Returns a LIMIT of that many rows, or None for more rows than any table has."""
    count = _whole_number(node)
    return None if count >= _MORE_THAN_ANY else exp.Limit(expression=row_count(node))


def row_count(node: exp.Expr) -> exp.Expr:
    """Returns the operand of LIMIT or OFFSET.

    Raises:
        SeamlineError: NOT_SUPPORTED.
    """
    count = _whole_number(node)
    if count > ROWS_MAX:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"LIMIT and OFFSET are at most {ROWS_MAX}",
            location=location_of(node),
            hint="Omit LIMIT to read all rows.",
        )
    return exp.Literal.number(count)


def whole_number_of(node: exp.Expr) -> int | None:
    """Returns the value of a bound whole number, even negated or cast; None for anything else."""
    inner = node.unnest()
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return int(inner.name)
    if not isinstance(inner, Call) or len(inner.expressions) > 1:
        return None
    if isinstance(inner.spec.constant, int):
        return inner.spec.constant
    if inner.spec.overload.name not in {"cast", "$negate"} or not inner.expressions:
        return None
    value = whole_number_of(inner.expressions[0])
    return -value if value is not None and inner.spec.overload.name == "$negate" else value


def number_written(node: exp.Expr) -> str | None:
    """Returns the text of a number that is not bound yet; None for anything else.

    It may be typed, as drivers write parameters: `BIGINT '2'`.
    """
    inner = node.unnest()
    is_typed = type(inner) is exp.Cast and inner.to.this in exp.DataType.NUMERIC_TYPES
    if is_typed:
        inner = inner.this.unnest()
    if not isinstance(inner, exp.Literal) or (inner.is_string and not is_typed):
        return None
    return inner.name if _NUMBER.fullmatch(inner.name) else None


_NUMBER = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def _whole_number(node: exp.Expr) -> int:
    text = number_written(node)
    if text is not None and text.isdigit():
        return int(text)
    raise SeamlineError(NOT_SUPPORTED, "LIMIT and OFFSET need a literal whole number", hint="")


def _bind_literal(_: Binder, node: exp.Literal, __: Scope) -> Typed:
    if node.is_string:
        return node, types.VARCHAR
    text = node.name.lower()
    if "e" in text:
        return _literal_text(text, types.DOUBLE, float(text)), types.DOUBLE
    if "." in text:
        return _decimal_literal(text)
    value = int(text)
    for type_, limit in ((types.INTEGER, 2**31), (types.BIGINT, 2**63)):
        if value < limit:
            return exp.Literal.number(value), type_
    return _decimal_literal(text)


def _bind_boolean_literal(_: Binder, node: exp.Boolean, __: Scope) -> Typed:
    return node, types.BOOLEAN


def _bind_user(binder: Binder, _: exp.CurrentUser, __: Scope) -> Typed:
    return exp.Literal.string(binder.user), types.VARCHAR


def _bind_catalog(binder: Binder, _: exp.CurrentCatalog, __: Scope) -> Typed:
    return exp.Literal.string(binder.session[0]), types.VARCHAR


def _bind_schema(binder: Binder, _: exp.CurrentSchema, __: Scope) -> Typed:
    return exp.Literal.string(binder.session[1]), types.VARCHAR


def _bind_null(_: Binder, node: exp.Null, __: Scope) -> Typed:
    return node, types.UNKNOWN


def _bind_bytes(_: Binder, node: exp.HexString, __: Scope) -> Typed:
    digits = str(node.this)
    try:
        raw = bytes.fromhex(digits)
    except ValueError as error:
        raise SeamlineError(INVALID_LITERAL, f"X'{digits}' is not hexadecimal") from error
    return constant_of(f"unhex('{raw.hex().upper()}')", types.VARBINARY, raw), types.VARBINARY


def _bind_unicode(_: Binder, node: exp.UnicodeString, __: Scope) -> Typed:
    """Binds U&'…' with characters as code points of four hex digits, or six after a plus."""
    escape = node.args["escape"].name if node.args.get("escape") else "\\"
    mark = re.escape(escape)

    def character(match: re.Match[str]) -> str:
        digits = match[1] or match[2]
        code = int(digits, 16) if digits else -1
        if match[0] == escape * 2:
            return escape
        if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise SeamlineError(INVALID_LITERAL, f"{match[0]!r} is not a character")
        return chr(code)

    four, six = "([0-9a-fA-F]{4})", r"\+([0-9a-fA-F]{6})"
    text = re.sub(rf"{mark}(?:{four}|{six}|{mark}|)", character, str(node.this))
    return exp.Literal.string(text), types.VARCHAR


def _bind_json(_: Binder, node: exp.ParseJSON, __: Scope) -> Typed:
    """Binds and checks JSON '…'; a call of that name never becomes this node."""
    try:
        text = json_texts.canonical(json_texts.parse(node.this.name))
    except ValueError as error:
        raise SeamlineError(
            INVALID_LITERAL,
            f"{node.this.name[:100]!r} is not JSON",
            location=location_of(node.this),
        ) from error
    return exp.Literal.string(text), types.JSON


HANDLERS: Handlers = {
    exp.Literal: _bind_literal,
    exp.Boolean: _bind_boolean_literal,
    exp.Null: _bind_null,
    exp.CurrentCatalog: _bind_catalog,
    exp.CurrentSchema: _bind_schema,
    exp.CurrentUser: _bind_user,
    exp.HexString: _bind_bytes,
    exp.UnicodeString: _bind_unicode,
    exp.ParseJSON: _bind_json,
}
