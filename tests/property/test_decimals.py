"""Goal: decimal arithmetic is exact, or says that it has run out of digits; never something near.

Method: operands of random types, many of them at the edges, computed by the engine and, by Trino's
rules for types and rounding, by Python's decimals. NUMERIC_OVERFLOW is right where the result has
more digits than its type, and where a division by some 10^34 units needs more than the engine has.
"""

from __future__ import annotations

import collections
import dataclasses
import decimal
import functools
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples
from support.gateway import Gateway

from seamline.errors import SeamlineError

CONTEXT = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)


@dataclasses.dataclass(frozen=True)
class Operand:
    """A decimal of a declared type."""

    value: Decimal
    precision: int
    scale: int

    @property
    def sql(self) -> str:
        return f"CAST('{self.value:f}' AS decimal({self.precision},{self.scale}))"

    @property
    def units(self) -> int:
        return int(self.value.scaleb(self.scale, CONTEXT))


def operand(units: int, precision: int, scale: int) -> Operand:
    return Operand(Decimal(units).scaleb(-scale, CONTEXT), precision, scale)


@st.composite
def operands(draw: st.DrawFn, precision_max: int = 38) -> Operand:
    precision = draw(st.integers(1, precision_max))
    scale = draw(st.integers(0, precision))
    most = 10**precision - 1
    units = st.integers(-most, most) | st.integers(-9, 9) | st.sampled_from([most, -most])
    small = st.integers(1, precision).flatmap(lambda n: st.integers(-(10**n) + 1, 10**n - 1))
    return operand(draw(units | small), precision, scale)


def rounded(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """The value with that many digits after the point; None when it does not fit the type."""
    found = value.quantize(Decimal(1).scaleb(-scale, CONTEXT), context=CONTEXT)
    return found if abs(int(found.scaleb(scale, CONTEXT))) < 10**precision else None


def answer(gateway: Gateway, sql: str) -> Decimal | str | None:
    try:
        value = gateway.rows(f"SELECT {sql}", "duckdb")[0][0]
    except SeamlineError as error:
        return error.code.name
    assert value is None or isinstance(value, Decimal)
    return value


def check(found: Decimal | str | None, wanted: Decimal | None, *, may_overflow: bool) -> None:
    if wanted is None:
        assert found == "NUMERIC_OVERFLOW"
    elif not may_overflow or found != "NUMERIC_OVERFLOW":
        assert found == wanted


@examples(150)
@given(operands(), operands())
@example(operand(10, 2, 1), operand(3, 10, 0))
@example(operand(1, 38, 0), operand(3, 38, 20))
@example(operand(-(10**38) + 1, 38, 0), operand(10**38 - 2, 38, 0))
@example(operand(10**38 - 1, 38, 10), operand(7, 1, 0))
def test_quotients(offline_gateway: Gateway, one: Operand, other: Operand) -> None:
    found = answer(offline_gateway, f"{one.sql} / {other.sql}")
    if other.units == 0:
        assert found == "DIVISION_BY_ZERO"
        return
    whole = one.precision - one.scale + other.scale
    scale = max(6, one.scale + other.precision + 1)
    if whole + scale > 38:
        scale = max(6, 38 - whole)
    exact = CONTEXT.divide(one.value, other.value)
    wanted = rounded(exact, min(38, whole + scale), scale)
    check(found, wanted, may_overflow=abs(other.units) >= 10**33)


@examples(100)
@given(operands(), operands(), st.sampled_from("+-*"))
def test_sums_and_products(
    offline_gateway: Gateway, one: Operand, other: Operand, sign: str
) -> None:
    found = answer(offline_gateway, f"{one.sql} {sign} {other.sql}")
    if sign == "*":
        scale, precision = one.scale + other.scale, one.precision + other.precision
        exact = CONTEXT.multiply(one.value, other.value)
        if scale > 38:
            assert found == "NOT_SUPPORTED"
            return
        scale = min(scale, max(6, 38 - (precision - scale)))
    else:
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        precision = whole + scale + 1
        scale = min(scale, min(38, precision) - whole)
        exact = {"+": CONTEXT.add, "-": CONTEXT.subtract}[sign](one.value, other.value)
    wanted = rounded(exact, min(38, precision), scale)
    # operands and sum have to fit with all the digits after the point that an operand has
    most = max(one.scale, other.scale)
    fits = all(rounded(v, 38, most) is not None for v in (one.value, other.value, exact))
    check(found, wanted, may_overflow=sign != "*" and not fits)


@examples(60)
@given(operands(), st.integers(-40, 40))
@example(operand(5500, 4, 1), -3)
def test_rounding(offline_gateway: Gateway, one: Operand, places: int) -> None:
    precision = min(38, one.precision + 1)
    if places >= one.scale:
        wanted: Decimal | None = one.value
    elif one.precision - one.scale + places < 0:
        wanted = Decimal(0)
    else:
        near = one.value.quantize(Decimal(1).scaleb(-places, CONTEXT), context=CONTEXT)
        wanted = rounded(near, precision, one.scale)
    for number in (str(places), f"CAST('{places}' AS integer)"):
        found = answer(offline_gateway, f"round({one.sql}, {number})")
        check(found, wanted, may_overflow=False)


@examples(50)
@given(st.integers(1, 38), st.data())
def test_totals_and_averages(offline_gateway: Gateway, precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, precision))
    most = 10**precision - 1
    units = data.draw(
        st.lists(st.integers(-most, most) | st.integers(-9, 9), min_size=1, max_size=9)
    )
    values = [operand(u, precision, scale) for u in units]
    source = f"(VALUES {', '.join(f'({v.sql})' for v in values)}) AS t(x)"
    total = operand(sum(units), precision, scale).value
    exact = CONTEXT.divide(total, Decimal(len(values)))
    wanted = [rounded(total, 38, scale), rounded(exact, precision, scale)]
    if wanted[0] is None:
        wanted[1] = None
    for name, result in zip(("sum", "avg"), wanted, strict=True):
        found = answer(offline_gateway, f"{name}(x) FROM {source}")
        # what is added on the way may not fit, whatever the order
        check(found, result, may_overflow=sum(abs(u) for u in units) >= 10**38)


@examples(60)
@given(operands(), st.integers(1, 38), st.data())
def test_conversions(
    offline_gateway: Gateway, one: Operand, precision: int, data: st.DataObject
) -> None:
    scale = data.draw(st.integers(0, precision))
    wanted = rounded(one.value, precision, scale)
    found = answer(offline_gateway, f"CAST({one.sql} AS decimal({precision},{scale}))")
    check(found, wanted, may_overflow=False)
    text = offline_gateway.rows(f"SELECT CAST({one.sql} AS varchar)", "duckdb")
    assert text == [(f"{one.value:f}",)]


@pytest.mark.parametrize(
    ("sql", "type_"),
    [
        ("DECIMAL '1.0' / 3", "decimal(13,12)"),
        ("DECIMAL '1.00' / DECIMAL '0.001'", "decimal(10,6)"),
        ("sum(DECIMAL '1.5') / count(*)", "decimal(38,6)"),
        ("avg(DECIMAL '1.50')", "decimal(3,2)"),
        ("round(DECIMAL '1.55', 1)", "decimal(4,2)"),
        ("round(DECIMAL '1.55')", "decimal(2,0)"),
        ("sum(DECIMAL '1.5')", "decimal(38,1)"),
    ],
)
def test_types_of_results(offline_gateway: Gateway, sql: str, type_: str) -> None:
    assert offline_gateway.rows(f"SELECT typeof({sql})") == [(type_,)]


COLUMNS = {"a": (12, 2), "b": (12, 4), "c": (6, 6), "n": (10, 0)}
"""Precision and scale by name; `n` is an integer. Three of them have at most 38 digits together."""
NUMBERS = {"1": Decimal(1), "0.5": Decimal("0.5")}
ROW = dict[str, Decimal | None]


@dataclasses.dataclass(frozen=True)
class Term:
    """A column, a number, or arithmetic of terms."""

    sql: str
    parts: tuple[Term, ...] = ()
    sign: str = ""

    def of(self, row: ROW) -> Decimal | None:
        """Its value in a row, with as many digits as that has."""
        if not self.parts:
            return NUMBERS[self.sql] if self.sql in NUMBERS else row[self.sql]
        one, other = (part.of(row) for part in self.parts)
        if one is None or other is None:
            return None
        operation = {"+": CONTEXT.add, "-": CONTEXT.subtract, "*": CONTEXT.multiply}[self.sign]
        return operation(one, other)


def arithmetic(one: Term, sign: str, other: Term) -> Term:
    return Term(f"({one.sql} {sign} {other.sql})", (one, other), sign)


@st.composite
def terms(draw: st.DrawFn) -> Term:
    leaves = st.sampled_from([*COLUMNS, *NUMBERS]).map(Term)
    term = draw(leaves)
    for _ in range(draw(st.integers(1, 2))):
        one, other = draw(st.permutations([term, draw(leaves)]))
        term = arithmetic(one, draw(st.sampled_from("+-*")), other)
    return term


def values(precision: int, scale: int) -> st.SearchStrategy[Decimal | None]:
    most = (10**precision if scale else 2**31) - 1
    units = st.integers(-most, most) | st.sampled_from([0, 1, most, -most])
    return st.none() | units.map(lambda n: Decimal(n).scaleb(-scale, CONTEXT))


ROWS = st.lists(
    st.fixed_dictionaries({name: values(*type_) for name, type_ in COLUMNS.items()}),
    min_size=1,
    max_size=6,
)
MOST = {name: Decimal(10**p - 1).scaleb(-s, CONTEXT) for name, (p, s) in COLUMNS.items()}


@examples(100)
@given(terms(), ROWS)
@example(
    arithmetic(arithmetic(Term("a"), "*", Term("b")), "*", Term("n")),
    [MOST | {"n": Decimal(2**31 - 1)}, MOST | {"n": Decimal(2)}, MOST | {"n": None}],
)
def test_digits_that_may_not_fit_into_a_bigint(
    offline_gateway: Gateway, term: Term, rows: list[ROW]
) -> None:
    types = {name: f"decimal({p},{s})" if s else "integer" for name, (p, s) in COLUMNS.items()}

    def literal(name: str, value: Decimal | None) -> str:
        text = "NULL" if value is None else f"'{value:f}'"
        return f"CAST({text} AS {types[name]})"

    listed = ", ".join(f"({', '.join(literal(n, row[n]) for n in COLUMNS)})" for row in rows)
    named = f"(VALUES {listed}) AS t({', '.join(COLUMNS)})"
    grouped = offline_gateway.rows(f"SELECT {term.sql}, count(*) FROM {named} GROUP BY 1", "duckdb")
    exact = [term.of(row) for row in rows]
    assert dict(grouped) == collections.Counter(exact)
    total = offline_gateway.rows(f"SELECT sum({term.sql}) FROM {named}", "duckdb")[0][0]
    there = [value for value in exact if value is not None]
    assert total == (functools.reduce(CONTEXT.add, there) if there else None)
