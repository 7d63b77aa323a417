"""Decimal arithmetic by Trino's rules, exact on both engines.

Neither engine follows these rules in division: DuckDB converts decimals to doubles, and Spark
rounds twice. So quotients are computed from whole numbers. A value of scale s is taken as a whole
number of units of 10^-s. A long division of these gives the quotient's units, and its remainder
rounds half away from zero. An engine holds at most 38 digits: a result that needs more is
NUMERIC_OVERFLOW, never an approximation.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Sequence

from seamline.errors import NOT_SUPPORTED, SeamlineError
from seamline.sql import coercion, types
from seamline.sql.templates import DUCKDB, Template, bound, field_of, row_of
from seamline.sql.types import MAX_DECIMAL_PRECISION, Decimal, Type

_HALF = 19
"""Digits that one division in Spark yields, and half of the digits that a number can have."""
DIGITS_OF_BIGINT = 18
"""Digits that always fit into a bigint."""
_FRACTION_MIN = 6
"""Digits after the point that every quotient has."""


def decimal_of(type_: Type) -> Decimal:
    """Returns the decimal that holds every value of an exact numeric type."""
    decimal_ = coercion.as_decimal(type_)
    assert decimal_ is not None
    return decimal_


# --- Types of results ----------------------------------------------------------------------------


def sum_type(arguments: Sequence[Type]) -> Type:
    """Returns the type of `a + b` and `a - b`: digits before the point come first."""
    one, other = map(decimal_of, arguments)
    scale = max(one.scale, other.scale)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    precision = min(MAX_DECIMAL_PRECISION, whole + scale + 1)
    return Decimal(precision, min(scale, precision - whole))


def product_type(arguments: Sequence[Type]) -> Type:
    """Returns the type of `a * b`; where digits do not fit, six after the point stay if they can.

    Raises:
        SeamlineError: NOT_SUPPORTED when the product has too many digits after the point.
    """
    one, other = map(decimal_of, arguments)
    scale = one.scale + other.scale
    if scale > MAX_DECIMAL_PRECISION:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"the product of {one} and {other} has more than 38 digits after the point",
            hint="CAST one side to fewer digits.",
        )
    precision = one.precision + other.precision
    whole = precision - scale
    fraction = max(_FRACTION_MIN, MAX_DECIMAL_PRECISION - whole)
    return Decimal(min(MAX_DECIMAL_PRECISION, precision), min(scale, fraction))


def quotient_type(arguments: Sequence[Type]) -> Type:
    """Returns the type of `a / b`.

    It has digits for the largest quotient and, after the point, for the least one above zero, at
    least 6. Where that is more than a type holds, digits after the point give way, down to those 6.
    """
    one, other = map(decimal_of, arguments)
    whole = one.precision - one.scale + other.scale
    scale = max(_FRACTION_MIN, one.scale + other.precision + 1)
    if whole + scale > MAX_DECIMAL_PRECISION:
        scale = max(_FRACTION_MIN, MAX_DECIMAL_PRECISION - whole)
    return Decimal(min(MAX_DECIMAL_PRECISION, whole + scale), scale)


def remainder_type(arguments: Sequence[Type]) -> Type:
    """Returns the type of `a % b`."""
    one, other = map(decimal_of, arguments)
    scale = max(one.scale, other.scale)
    whole = min(one.precision - one.scale, other.precision - other.scale)
    return Decimal(max(1, min(MAX_DECIMAL_PRECISION, whole + scale)), scale)


def truncated_type(arguments: Sequence[Type]) -> Type:
    """Returns the type of `truncate(a)`."""
    type_ = decimal_of(arguments[0])
    return Decimal(max(1, type_.precision - type_.scale), 0)


def total_type(arguments: Sequence[Type]) -> Type:
    """Returns the type of `sum(a)`."""
    return Decimal(MAX_DECIMAL_PRECISION, decimal_of(arguments[0]).scale)


def whole_type(arguments: Sequence[Type]) -> Type:
    """Returns the type of `round(a)`, `ceil(a)` and `floor(a)`."""
    type_ = decimal_of(arguments[0])
    carry = 1 if type_.scale else 0
    return Decimal(min(MAX_DECIMAL_PRECISION, max(1, type_.precision - type_.scale + carry)), 0)


def rounded_type(arguments: Sequence[Type]) -> Type:
    """Returns the type of `round(a, n)`."""
    type_ = decimal_of(arguments[0])
    return Decimal(min(MAX_DECIMAL_PRECISION, type_.precision + 1), type_.scale)


# --- Sums and products ---------------------------------------------------------------------------


def arithmetic(operator: str, engine: str) -> Template:
    """Returns the template of `+`, `-` or `*`.

    Sums are computed in the result's type, so that both engines agree on them; in one with more
    digits after the point where the result has fewer than the arguments.
    """
    name = types.to_duckdb if engine == DUCKDB else types.to_spark

    def render(args: Sequence[str], arguments: Sequence[Type], returns: Type) -> str:
        type_ = name(returns)
        one, other = args
        if operator != "*":
            scale = max(decimal_of(argument).scale for argument in arguments)
            inner = name(Decimal(decimal_of(returns).precision, scale))
            one, other = (f"CAST({arg} AS {inner})" for arg in args)
        elif engine == DUCKDB and decimal_of(returns).precision > DIGITS_OF_BIGINT:
            first = decimal_of(arguments[0])
            one = f"CAST({one} AS {_wide(first.precision, first.scale)})"
        return f"CAST(({one} {operator} {other}) AS {type_})"

    return render


def _wide(precision: int, scale: int) -> str:
    """Returns a type too wide for DuckDB to multiply as bigints, as it does two narrow ones."""
    return f"DECIMAL({max(precision, DIGITS_OF_BIGINT + 1)},{scale})"


CHECKED_TOTAL = "(sum({distinct}{0}){over} + CAST(0 AS {type}))"
"""Checks a total in DuckDB, whose sum may have 39 digits but whose addition may not."""


# --- Quotients -----------------------------------------------------------------------------------


def quotient(engine: str) -> Template:
    """Returns the template of `a / b`, rounded half away from zero.

    A zero divisor fails with DIVISION_BY_ZERO.
    """
    fail = "error" if engine == DUCKDB else "raise_error"

    def render(args: Sequence[str], arguments: Sequence[Type], returns: Type) -> str:
        one, other, result = (decimal_of(t) for t in (*arguments, returns))
        division = _Division(engine, one, other, result)
        return (
            f"(CASE WHEN {args[0]} IS NULL OR {args[1]} IS NULL THEN NULL"
            f" WHEN {args[1]} = 0 THEN {fail}('DIVISION_BY_ZERO')"
            f" ELSE {division.of(*args)} END)"
        )

    return render


class _Division:
    """A division of decimals in one engine's SQL.

    Args:
        engine: `duckdb` or `spark`.
        one: Type of the dividend.
        other: Type of the divisor.
        result: Type of the quotient.
    """

    def __init__(self, engine: str, one: Decimal, other: Decimal, result: Decimal) -> None:
        self._engine = engine
        self._one, self._other, self._result = one, other, result
        self._shift = result.scale + other.scale - one.scale  # digits to compute beyond the units
        self._first = min(self._shift, MAX_DECIMAL_PRECISION - one.precision)
        self._digits = one.precision + self._first
        self._is_small = (
            max(self._digits, other.precision) <= DIGITS_OF_BIGINT and self._first == self._shift
        )
        if self._is_small:
            self._type = "BIGINT"
        else:
            self._type = "HUGEINT" if engine == DUCKDB else "DECIMAL(38,0)"

    def of(self, one: str, other: str) -> str:
        """Returns the quotient of two non-null values, the second of which is not zero."""
        dividend, divisor = self._units(one, self._one), self._units(other, self._other)
        if self._first:
            dividend = f"({dividend} * {self._power(self._first)})"
        if self._first == self._shift and self._divides_at_once:
            whole, rest = self._whole(dividend, divisor), f"({dividend} % {divisor})"
            return self._decimal(_rounded(whole, rest, divisor))
        state = self._first_state(dividend, divisor)
        left, level = self._shift - self._first, 2
        step = max(MAX_DECIMAL_PRECISION - self._other.precision, 4)
        while left > 0:
            state = self._next_state(state, min(step, left, _HALF), f"v{level}")
            left, level = left - min(step, left, _HALF), level + 1
        result = _rounded(*(self._of("v", field) for field in "qrb"))
        return bound(self._engine, [state], lambda _: self._decimal(result))

    @property
    def _divides_at_once(self) -> bool:
        """Whether one division needs no more digits than the engine yields at once."""
        return self._engine == DUCKDB or self._is_small or self._digits <= _HALF

    def _units(self, text: str, type_: Decimal) -> str:
        """Converts a decimal to a whole number of units of its last digit."""
        if type_.scale == 0:
            return f"CAST({text} AS {self._type})"
        if type_.precision + type_.scale + 1 <= MAX_DECIMAL_PRECISION:
            one = f"CAST({10**type_.scale} AS {_wide(type_.scale + 1, 0)})"
            return f"CAST(({text} * {one}) AS {self._type})"
        name = "VARCHAR" if self._engine == DUCKDB else "STRING"
        return f"CAST(replace(CAST({text} AS {name}), '.', '') AS {self._type})"

    def _decimal(self, text: str) -> str:
        """Converts a whole number of units to a decimal of the quotient's type."""
        precision, scale = self._result.precision, self._result.scale
        whole = f"CAST({text} AS DECIMAL(38,0))"
        if scale:
            whole = f"({whole} * CAST('0.{'1'.rjust(scale, '0')}' AS DECIMAL({scale},{scale})))"
        return f"CAST({whole} AS DECIMAL({precision},{scale}))"

    def _power(self, exponent: int) -> str:
        return f"CAST({10**exponent} AS {self._type})"

    def _whole(self, one: str, other: str) -> str:
        if self._engine == DUCKDB:
            return f"({one} // {other})"
        if self._is_small:
            return f"({one} div {other})"
        return f"CAST((({one} - {one} % {other}) / {other}) AS {self._type})"

    def _first_state(self, one: str, other: str) -> str:
        """Returns quotient `q`, remainder `r` and divisor `b`, computed in two halves if needed."""
        if self._divides_at_once:
            return self._row(q=self._whole(one, other), r=f"({one} % {other})", b=other)
        half = self._power(_HALF)
        halves = self._row(a=self._whole(one, half), z=f"({one} % {half})", b=other)
        high, low, divisor = (self._of("v0", field) for field in "azb")
        state = self._row(q=self._whole(high, divisor), r=f"({high} % {divisor})", b=divisor, z=low)
        state = bound(self._engine, [halves], lambda _: state, name="v0")
        return self._next_state(state, _HALF, "v1", self._of("v1", "z"))

    def _next_state(self, state: str, digits: int, name: str, more: str = "0") -> str:
        """Returns the state after `digits` more digits of the dividend."""
        power = self._power(digits)
        quotient, rest, divisor = (self._of(name, field) for field in "qrb")
        # both engines run out of digits at the same point: after 38
        fed = f"CAST(CAST(({rest} * {power} + {more}) AS DECIMAL(38,0)) AS {self._type})"
        return bound(
            self._engine,
            [state],
            lambda _: self._row(
                q=f"({quotient} * {power} + {self._whole(fed, divisor)})",
                r=f"({fed} % {divisor})",
                b=divisor,
            ),
            name=name,
        )

    def _of(self, name: str, field: str) -> str:
        return field_of(self._engine, name, field)

    def _row(self, **fields: str) -> str:
        """Returns a row of named whole numbers, all cast to one type."""
        typed = {name: f"CAST({value} AS {self._type})" for name, value in fields.items()}
        return row_of(self._engine, typed)


def _rounded(whole: str, rest: str, divisor: str) -> str:
    """Rounds a quotient half away from zero, given its whole part and its remainder."""
    away = f"(CASE WHEN ({rest} < 0) = ({divisor} < 0) THEN 1 ELSE -1 END)"
    half = f"abs({rest}) >= abs({divisor}) - abs({rest})"
    return f"({whole} + (CASE WHEN {half} THEN {away} ELSE 0 END))"


def remainder(engine: str) -> Template:
    """Returns the template of `a % b`, whose result has the sign of a.

    A zero divisor fails with DIVISION_BY_ZERO.
    """
    fail = "error" if engine == DUCKDB else "raise_error"

    def render(args: Sequence[str], arguments: Sequence[Type], returns: Type) -> str:
        result = decimal_of(returns)
        if engine == DUCKDB:
            one, other = (
                _units_of(a, decimal_of(t), result.scale)
                for a, t in zip(args, arguments, strict=True)
            )
            value = _of_units(f"({one} % {other})", result)
        else:
            value = f"CAST(({args[0]} % {args[1]}) AS {types.to_spark(result)})"
        return (
            f"(CASE WHEN {args[0]} IS NULL OR {args[1]} IS NULL THEN NULL"
            f" WHEN {args[1]} = 0 THEN {fail}('DIVISION_BY_ZERO') ELSE {value} END)"
        )

    return render


def _units_of(text: str, type_: Decimal, scale: int) -> str:
    """Converts a DuckDB decimal to a whole number of units of 10^-scale."""
    digits = f"CAST(replace(CAST({text} AS VARCHAR), '.', '') AS HUGEINT)"
    return f"({digits} * CAST({10 ** (scale - type_.scale)} AS HUGEINT))"


def _of_units(text: str, type_: Decimal) -> str:
    """Converts units back to a decimal: the inverse of `_units_of`."""
    whole = f"CAST({text} AS DECIMAL(38,0))"
    if type_.scale:
        unit = f"0.{'1'.rjust(type_.scale, '0')}"
        whole = f"({whole} * CAST('{unit}' AS DECIMAL({type_.scale},{type_.scale})))"
    return f"CAST({whole} AS {types.to_duckdb(type_)})"


# --- Rounding ------------------------------------------------------------------------------------


def rounded(engine: str) -> Template:
    """Returns the template of `round(a, n)`: the scale is kept, digits past the n-th are zeros."""

    def render(args: Sequence[str], arguments: Sequence[Type], returns: Type) -> str:
        text, places = args
        type_ = decimal_of(arguments[0])
        name = (types.to_duckdb if engine == DUCKDB else types.to_spark)(returns)
        wide = f"CAST({text} AS {name})"

        def to(places: int) -> str:
            """Rounds to a place; to zero if it is more than one before the type's first digit."""
            if places >= type_.scale:
                return wide
            if type_.precision - type_.scale + places < 0:
                return f"CAST(0 AS {name})"
            if places == type_.scale - type_.precision and returns == type_:
                return _rounded_to_none(wide, type_, name)
            # a sum of 38 digits is checked for overflow, the result of `round` is not
            return f"CAST((round({wide}, {places}) + CAST(0 AS {name})) AS {name})"

        written = _WHOLE_NUMBER.fullmatch(places)
        if written is not None:
            return to(int(written[0].strip("()")))
        least = type_.scale - type_.precision
        cases = "".join(f" WHEN {places} = {n} THEN {to(n)}" for n in range(least, type_.scale))
        return (
            f"(CASE WHEN {places} >= {type_.scale} THEN {wide}"
            f" WHEN {places} < {least} THEN {to(least - 1)}{cases} END)"
        )

    return render


def _rounded_to_none(value: str, type_: Decimal, name: str) -> str:
    """Returns zero, or a named overflow where the result has one digit more than any type."""
    before = type_.precision - type_.scale
    most = f"CAST('{'9' * before}.{'9' * type_.scale}' AS {name})"
    half = f"CAST('{decimal.Decimal(5).scaleb(before - 1):f}' AS {name})"
    return (
        f"(CASE WHEN abs({value}) < {half} THEN CAST(0 AS {name})"
        f" WHEN {value} > 0 THEN CAST(({value} + {most}) AS {name})"
        f" ELSE CAST(({value} - {most}) AS {name}) END)"
    )


def truncated(engine: str) -> Template:
    """Returns the template of `truncate(a)`, which drops the digits after the point."""

    def render(args: Sequence[str], _: Sequence[Type], returns: Type) -> str:
        function = "trunc({0})"
        if engine != DUCKDB:
            function = "CASE WHEN {0} < 0 THEN ceil({0}) ELSE floor({0}) END"
        name = (types.to_duckdb if engine == DUCKDB else types.to_spark)(returns)
        return f"CAST(({function.format(args[0])}) AS {name})"

    return render


_WHOLE_NUMBER = re.compile(r"\d+|\(-\d+\)")
