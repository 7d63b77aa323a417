"""Functions of numbers."""

from __future__ import annotations

from seamline.sql import decimals, types
from seamline.sql.functions.registry import define, scalar
from seamline.sql.templates import DUCKDB, SPARK

for _type in (*types.INTEGERS, *types.FLOATS):
    scalar("abs", f"{_type} -> {_type}", "abs({0})")
for _type in types.INTEGERS:
    scalar("sign", f"{_type} -> {_type}", "CAST(sign({0}) AS {type})")
for _type in types.FLOATS:
    scalar(
        "sign",
        f"{_type} -> {_type}",
        "CAST((CASE WHEN isnan({0}) THEN {0} ELSE sign({0}) END) AS {type})",
        "CAST(sign({0}) AS {type})",
    )
scalar("abs", "D -> D", "CAST(abs({0}) AS {type})")
for _type in types.INTEGERS:
    for _name in ("ceil", "ceiling", "floor", "round"):
        scalar(_name, f"{_type} -> {_type}", "{0}")


def _whole(function: str) -> tuple[str, str]:
    """Spark's go through bigint; beyond 2^52 a double is whole anyway. Adding zero drops `-0`."""
    spark = (
        f"(CASE WHEN abs({{0}}) < 4503599627370496D THEN CAST({function}({{0}}) AS DOUBLE)"
        " ELSE {0} END)"
    )
    return f"({function}({{0}}) + 0)", spark


for _name, _function in (
    ("ceil", "ceil"),
    ("ceiling", "ceil"),
    ("floor", "floor"),
    ("round", "round"),
):
    _duckdb, _spark = _whole(_function)
    scalar(_name, "double -> double", _duckdb, _spark)


for _name, _function in (
    ("ceil", "ceil"),
    ("ceiling", "ceil"),
    ("floor", "floor"),
    ("round", "round"),
):
    define(
        "scalar",
        _name,
        "D -> decimal",
        f"CAST({_function}({{0}}) AS {{type}})",
        f"CAST({_function}({{0}}) AS {{type}})",
        decimals.whole_type,
    )
define(
    "scalar",
    "round",
    "D, integer -> decimal",
    decimals.rounded(DUCKDB),
    decimals.rounded(SPARK),
    decimals.rounded_type,
)
scalar(
    "round",
    "double, integer -> double",
    "(round({0} * pow(10.0::DOUBLE, {1})) / pow(10.0::DOUBLE, {1}) + 0)",
    "(round({0} * pow(10D, {1})) / pow(10D, {1}) + 0)",
)
scalar(
    "sqrt",
    "double -> double",
    "(CASE WHEN {0} < 0 THEN 'NaN'::DOUBLE ELSE sqrt({0}) END)",
    "sqrt({0})",
)
scalar("exp", "double -> double", "exp({0})")
for _name in ("ln", "log2", "log10"):
    scalar(
        _name,
        "double -> double",
        f"(CASE WHEN {{0}} < 0 THEN 'NaN'::DOUBLE WHEN {{0}} = 0 THEN '-Infinity'::DOUBLE"
        f" ELSE {_name}({{0}}) END)",
        f"(CASE WHEN {{0}} < 0 THEN double('NaN') WHEN {{0}} = 0 THEN double('-Infinity')"
        f" ELSE {_name}({{0}}) END)",
    )
for _name in ("power", "pow"):
    scalar(_name, "double, double -> double", "pow({0}, {1})", "pow({0}, {1})")
scalar("is_nan", "double -> boolean", "isnan({0})")
scalar("is_finite", "double -> boolean", "isfinite({0})", "(abs({0}) < double('Infinity'))")
scalar("is_infinite", "double -> boolean", "isinf({0})", "(abs({0}) = double('Infinity'))")
scalar("nan", "-> double", "'NaN'::DOUBLE", "double('NaN')")
scalar("infinity", "-> double", "'Infinity'::DOUBLE", "double('Infinity')")
scalar("pi", "-> double", "pi()")
