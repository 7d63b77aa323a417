"""Operators, under names that cannot be written in SQL."""

from __future__ import annotations

import re
from collections.abc import Sequence

from seamline.sql import decimals, types
from seamline.sql.functions.registry import define, scalar
from seamline.sql.templates import DUCKDB, SPARK, Template
from seamline.sql.types import Type


def failing(code: str) -> tuple[str, str]:
    """Returns expressions that raise in DuckDB and in Spark; their text names the error."""
    return f"error('{code}')", f"raise_error('{code}')"


_ZERO_DUCKDB, _ZERO_SPARK = failing("DIVISION_BY_ZERO")
_NOT_ZERO = re.compile(r"(CAST\()?[1-9][0-9]*( AS \w+\))?")


def _unless_zero(operation: str, failure: str) -> Template:
    """Returns an integer operation that fails by name for a zero divisor; literals need no test."""

    def render(args: Sequence[str], _: Sequence[Type], returns: Type) -> str:
        type_ = returns.duckdb if failure == _ZERO_DUCKDB else returns.spark  # type: ignore[attr-defined]
        result = operation.format(*args, type=type_)
        if _NOT_ZERO.fullmatch(args[1]):
            return result
        # no AND: Spark does not plan a condition of a null divisor that is pushed to Iceberg
        return (
            f"(CASE WHEN {args[0]} IS NULL THEN NULL WHEN {args[1]} = 0 THEN {failure}"
            f" ELSE {result} END)"
        )

    return render


for _operator, _name in (("+", "$add"), ("-", "$subtract"), ("*", "$multiply")):
    for _type in (*types.INTEGERS, *types.FLOATS):
        scalar(_name, f"{_type}, {_type} -> {_type}", f"({{0}} {_operator} {{1}})")
    define(
        "scalar",
        _name,
        "D, C -> decimal",
        decimals.arithmetic(_operator, DUCKDB),
        decimals.arithmetic(_operator, SPARK),
        decimals.product_type if _operator == "*" else decimals.sum_type,
    )
define(
    "scalar",
    "$divide",
    "D, C -> decimal",
    decimals.quotient(DUCKDB),
    decimals.quotient(SPARK),
    decimals.quotient_type,
)

for _name in ("$modulus", "mod"):
    define(
        "scalar",
        _name,
        "D, C -> decimal",
        decimals.remainder(DUCKDB),
        decimals.remainder(SPARK),
        decimals.remainder_type,
    )
    for _type in types.FLOATS:
        scalar(
            _name,
            f"{_type}, {_type} -> {_type}",
            "CAST((CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL"
            " WHEN {1} = 0 OR isinf({0}) OR isnan({0}) OR isnan({1}) THEN 'NaN'::DOUBLE"
            " ELSE {0} % {1} END) AS {type})",
            "CAST((CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL"
            " WHEN {1} = 0 THEN double('NaN') ELSE {0} % {1} END) AS {type})",
        )
for _type in types.INTEGERS:
    scalar(
        "$divide",
        f"{_type}, {_type} -> {_type}",
        _unless_zero("CAST({0} // {1} AS {type})", _ZERO_DUCKDB),
        _unless_zero("CAST({0} div {1} AS {type})", _ZERO_SPARK),
    )
    for _name in ("$modulus", "mod"):
        scalar(
            _name,
            f"{_type}, {_type} -> {_type}",
            _unless_zero("({0} % {1})", _ZERO_DUCKDB),
            _unless_zero("({0} % {1})", _ZERO_SPARK),
        )
    scalar("$negate", f"{_type} -> {_type}", "(-{0})")
for _type in types.FLOATS:
    scalar(
        "$divide",
        f"{_type}, {_type} -> {_type}",
        "({0} / {1})",
        "CAST((CASE WHEN {0} IS NULL THEN NULL WHEN {1} = 0 THEN"
        " (CASE WHEN isnan({0}) OR {0} = 0 THEN double('NaN')"
        " WHEN ({0} > 0) = (CAST({1} AS STRING) = '0.0') THEN double('Infinity')"
        " ELSE double('-Infinity') END) ELSE {0} / {1} END) AS {type})",
    )
    scalar("$negate", f"{_type} -> {_type}", "(-{0})")
scalar(  # Spark rounds what it negates to 34 digits
    "$negate", "D -> D", "CAST((-{0}) AS {type})", "CAST((CAST(0 AS {type}) - {0}) AS {type})"
)

scalar("$concat", "varchar, varchar -> varchar", "({0} || {1})", "concat({0}, {1})")
scalar("$concat", "varbinary, varbinary -> varbinary", "({0} || {1})", "concat({0}, {1})")
