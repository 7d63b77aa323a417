"""Parses the filters of planned scans: the REST specification's JSON to PyIceberg expressions.

Parsing is all or nothing. A client may rely on the server to apply what it has pushed down, so a
filter that is not understood is an error, never a filter that keeps everything. Both forms of the
specification are read: the one with `term` and `value`, and the newer one with `left`, `right` and
`child`.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg import expressions as iceberg
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression
from pyiceberg.expressions.literals import FloatLiteral
from pyiceberg.expressions.visitors import bind, rewrite_not
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
)

from seamline.connectors.iceberg.expressions import to_iceberg
from seamline.connectors.iceberg.type_conversion import from_iceberg
from seamline.errors import INVALID_REQUEST, NOT_SUPPORTED, SeamlineError
from seamline.sql import comparisons
from seamline.sql.types import Field

_UNARY: Mapping[str, Any] = {
    "is-null": iceberg.IsNull,
    "not-null": iceberg.NotNull,
    "is-nan": iceberg.IsNaN,
    "not-nan": iceberg.NotNaN,
}
_COMPARISONS: Mapping[str, Any] = {
    "lt": iceberg.LessThan,
    "lt-eq": iceberg.LessThanOrEqual,
    "gt": iceberg.GreaterThan,
    "gt-eq": iceberg.GreaterThanOrEqual,
    "eq": iceberg.EqualTo,
    "not-eq": iceberg.NotEqualTo,
    "starts-with": iceberg.StartsWith,
    "not-starts-with": iceberg.NotStartsWith,
}
_SETS: Mapping[str, Any] = {"in": iceberg.In, "not-in": iceberg.NotIn}
_SIGNS = {"lt": "<", "lt-eq": "<=", "gt": ">", "gt-eq": ">=", "eq": "="}
_NEGATED = {"not-eq": "eq", "not-in": "in"}
_PREFIXES = frozenset({"starts-with", "not-starts-with"})
_EXACT = (IntegerType, LongType, DecimalType)
_TEXTS = (StringType, BinaryType)
_DIGITS_MAX = 400
DEPTH_MAX = 200


def parse(body: Any, schema: Schema, *, case_sensitive: bool) -> BooleanExpression:
    """Parses a filter.

    Raises:
        SeamlineError: INVALID_REQUEST for a malformed filter, or one with unknown columns;
            NOT_SUPPORTED for one that is not understood.
    """
    return _Parser(schema, case_sensitive=case_sensitive).expression(body, 0)


class _Parser:
    def __init__(self, schema: Schema, *, case_sensitive: bool) -> None:
        self._schema = schema
        self._case_sensitive = case_sensitive

    def expression(self, body: Any, depth: int) -> BooleanExpression:
        if depth > DEPTH_MAX:
            raise SeamlineError(NOT_SUPPORTED, "the filter is nested too deeply")
        if isinstance(body, bool):
            return AlwaysTrue() if body else AlwaysFalse()
        if not isinstance(body, dict):
            raise _invalid(body)
        kind = body.get("type")
        if kind in ("true", "false"):
            return AlwaysTrue() if kind == "true" else AlwaysFalse()
        if kind in ("and", "or"):
            parts = [self.expression(body.get(side), depth + 1) for side in ("left", "right")]
            return (iceberg.And if kind == "and" else iceberg.Or)(*parts)
        if kind == "not":
            return iceberg.Not(self.expression(body.get("child"), depth + 1))
        return self._predicate(str(kind), body)

    def _predicate(self, kind: str, body: Mapping[str, Any]) -> BooleanExpression:
        found: Any
        if kind in _UNARY:
            found = _UNARY[kind](self._reference(body, "child"))
        elif kind in _COMPARISONS:
            name = self._reference(body, "left")
            given = _value(body["value"] if "value" in body else body.get("right"))
            if kind in _PREFIXES and not isinstance(self._schema.find_type(name), _TEXTS):
                raise _invalid(body)
            if self._is_exact(name):
                return self._of_number(kind, name, [given])
            found = _COMPARISONS[kind](name, self._literal(name, given))
        elif kind in _SETS:
            name = self._reference(body, "child")
            listed = [_value(value) for value in _values(body)]
            if self._is_exact(name):
                return self._of_number(kind, name, listed)
            found = _SETS[kind](name, {self._literal(name, value) for value in listed})
        else:
            raise SeamlineError(NOT_SUPPORTED, f"the filter has a part of the kind {kind!r}")
        expression: BooleanExpression = found
        return expression

    def _reference(self, body: Mapping[str, Any], operand: str) -> str:
        """Returns the full name of the field that a predicate is about."""
        term = body["term"] if "term" in body else body.get(operand)
        if isinstance(term, dict) and term.get("type") == "reference":
            term = term.get("id", term.get("name", term.get("term")))
        if isinstance(term, dict):
            raise SeamlineError(
                NOT_SUPPORTED,
                f"the filter has an operand of the kind {term.get('type')!r}",
                hint="Read the table through the catalog that does not plan scans.",
            )
        return self._known(term, body)

    def _known(self, term: Any, body: Mapping[str, Any]) -> str:
        if not isinstance(term, str | int) or isinstance(term, bool):
            raise _invalid(body)
        try:
            field = self._schema.find_field(term, case_sensitive=self._case_sensitive)
        except ValueError as error:
            raise SeamlineError(
                INVALID_REQUEST, f"the filter's {term!r} is not a column"
            ) from error
        return str(self._schema.find_column_name(field.field_id))

    def _is_exact(self, name: str) -> bool:
        return isinstance(self._schema.find_type(name), _EXACT)

    def _of_number(self, kind: str, name: str, values: Sequence[Any]) -> BooleanExpression:
        """Compares integers or decimals exactly; PyIceberg rounds literals of another scale."""
        if kind in _NEGATED:  # keeps nulls, as the specification requires
            return iceberg.Not(self._of_number(_NEGATED[kind], name, values))
        field = Field(name, from_iceberg(self._schema.find_type(name), {}))
        numbers = [_number(value) for value in values]
        predicate = (
            comparisons.comparison(name, field.type, _SIGNS[kind], numbers[0])
            if kind in _SIGNS
            else comparisons.membership(name, field.type, numbers)
        )
        return to_iceberg(predicate, {name: field})

    def _literal(self, name: str, value: Any) -> Any:
        """Converts a literal to the form that PyIceberg expects for the field's type."""
        type_ = self._schema.find_type(name)
        if isinstance(value, float) and not math.isfinite(value):
            return _infinity(value, type_)
        if isinstance(type_, FloatType) and not _is_real(value):
            raise _invalid(value)  # PyIceberg would read it as infinity
        if isinstance(type_, BinaryType | FixedType):
            try:
                return bytes.fromhex(value)
            except (TypeError, ValueError) as error:
                raise _invalid(value) from error
        return value


def _infinity(value: float, type_: IcebergType) -> Any:
    if math.isnan(value) or not isinstance(type_, FloatType | DoubleType):
        raise _invalid(value)
    return FloatLiteral(value) if isinstance(type_, FloatType) else value


def _is_real(value: Any) -> bool:
    """Whether a literal is in the range of finite 32-bit floats."""
    try:
        return FloatType.min <= float(value) <= FloatType.max
    except (ValueError, OverflowError):
        return False


def _value(value: Any) -> Any:
    if isinstance(value, dict) and value.get("type") == "literal":
        value = value.get("value")
    if value is None or isinstance(value, dict | list):
        raise _invalid(value)
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:  # half of a surrogate pair
            raise _invalid(value) from error
    return value


def _number(value: Any) -> decimal.Decimal:
    """Parses a number from JSON, where decimals are strings."""
    if isinstance(value, bool):
        raise _invalid(value)
    try:
        number = decimal.Decimal(str(value))
    except decimal.InvalidOperation as error:
        raise _invalid(value) from error
    if not number.is_finite() or abs(number.adjusted()) > _DIGITS_MAX:
        raise _invalid(value)
    return number


def _values(body: Mapping[str, Any]) -> list[Any]:
    values = body.get("values")
    if isinstance(values, dict) and values.get("type") == "literals":
        values = values.get("values")
    if not isinstance(values, list):
        raise _invalid(body)
    return values


def _invalid(part: Any) -> SeamlineError:
    return SeamlineError(INVALID_REQUEST, f"the filter has an invalid part: {str(part)[:200]}")


def bound(
    expression: BooleanExpression, schema: Schema, *, case_sensitive: bool
) -> BooleanExpression:
    """Binds an expression to the columns of a schema and rewrites its negations.

    Raises:
        SeamlineError: INVALID_REQUEST when a literal does not fit its column's type.
    """
    try:
        return bind(schema, rewrite_not(expression), case_sensitive)
    except (ValueError, TypeError) as error:
        raise SeamlineError(INVALID_REQUEST, f"the filter does not fit: {error}") from error
