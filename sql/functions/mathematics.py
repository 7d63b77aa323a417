"""Functions of numbers."""

from __future__ import annotations

from seamline.sql import decimals, types
from seamline.sql.functions.registry import by_duckdb_everywhere, define, kernel, scalar
from seamline.sql.kernels import distributions, vectors
from seamline.sql.kernels.kernel import by_row
from seamline.sql.kernels.numbers import (
    bucket_among,
    from_base,
    inverse_normal_cdf,
    logarithm,
    normal_cdf,
    round_integer,
    to_base,
    truncate_decimal,
    width_bucket,
)
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
scalar(
    "abs",
    "D -> D",
    "CAST(abs({0}) AS {type})",
    # Spark rounds what it negates to 34 digits
    "CAST((CASE WHEN {0} < 0 THEN CAST(0 AS {type}) - {0} ELSE {0} END) AS {type})",
)
scalar("sign", "D -> decimal(1,0)", "CAST(sign({0}) AS {type})")
for _type in types.INTEGERS:
    for _name in ("ceil", "ceiling", "floor", "round"):
        scalar(_name, f"{_type} -> {_type}", "{0}")


def _whole(function: str) -> tuple[str, str]:
    """Returns templates for rounding a double to a whole one.

    Spark's functions go through bigint; beyond 2^52 a double is whole anyway. Adding zero drops
    `-0`.
    """
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
    by_duckdb_everywhere(_name, "real -> real", f"CAST({_duckdb} AS {{type}})")


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


def _at_place(function: str, value: str = "{0}") -> tuple[str, str]:
    """Returns the SQL that drops the digits of a double after a place, for DuckDB and for Spark.

    A number without digits there, NaN and infinities are their own result.
    """

    def sql(power: str, is_finite: str) -> str:
        return (
            f"(CASE WHEN {{1}} IS NULL THEN NULL WHEN NOT ({is_finite}) THEN {value}"
            f" WHEN {power} = 0 THEN {value} * 0"
            f" ELSE {function}({value} * {power}) / {power} + 0 END)"
        )

    duckdb, spark = "pow(10.0::DOUBLE, {1})", "pow(10D, {1})"
    return (
        sql(duckdb, f"isfinite({value} * {duckdb})"),
        sql(spark, f"abs({value} * {spark}) < double('Infinity')"),
    )


scalar("round", "double, integer -> double", *_at_place("round"))
scalar(
    "sqrt",
    "double -> double",
    "(CASE WHEN {0} < 0 THEN 'NaN'::DOUBLE ELSE sqrt({0}) END)",
    "sqrt({0})",
)
for _type in types.INTEGERS:
    kernel("round", f"{_type}, integer -> {_type}", by_row(round_integer))
by_duckdb_everywhere(
    "round",
    "real, integer -> real",
    f"CAST({_at_place('round', 'CAST({0} AS DOUBLE)')[0]} AS {{type}})",
)
for _type in types.FLOATS:
    by_duckdb_everywhere("truncate", f"{_type} -> {_type}", "(trunc({0}) + 0)")
    by_duckdb_everywhere(
        "truncate",
        f"{_type}, integer -> {_type}",
        f"CAST({_at_place('trunc', 'CAST({0} AS DOUBLE)')[0]} AS {{type}})",
    )
define(
    "scalar",
    "truncate",
    "D -> decimal",
    decimals.truncated(DUCKDB),
    decimals.truncated(SPARK),
    decimals.truncated_type,
)
kernel("truncate", "D, integer -> D", by_row(truncate_decimal))
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
scalar("e", "-> double", "exp(1.0::DOUBLE)", "e()")

# --- Roots, logarithms and angles: libraries differ in the last digit, so both use DuckDB's -------


def _guarded(wrong: str, function: str) -> str:
    """Returns an expression that is NaN where DuckDB's function fails."""
    return f"(CASE WHEN {wrong} THEN 'NaN'::DOUBLE ELSE {function} END)"


for _name in ("sin", "cos", "tan"):
    by_duckdb_everywhere(_name, "double -> double", _guarded("isinf({0})", f"{_name}({{0}})"))
for _name in ("asin", "acos"):
    by_duckdb_everywhere(_name, "double -> double", _guarded("abs({0}) > 1", f"{_name}({{0}})"))
for _name in ("atan", "sinh", "cosh", "tanh"):
    by_duckdb_everywhere(_name, "double -> double", f"{_name}({{0}})")
by_duckdb_everywhere(  # a C library's cube root of 27 is not 3
    "cbrt",
    "double -> double",
    "(CASE WHEN pow(round(cbrt({0})), 3) = {0} THEN round(cbrt({0})) ELSE cbrt({0}) END)",
)
by_duckdb_everywhere("atan2", "double, double -> double", "atan2({0}, {1})")
scalar("degrees", "double -> double", "({0} * 180.0::DOUBLE / pi())", "({0} * 180D / pi())")
scalar("radians", "double -> double", "({0} / 180.0::DOUBLE * pi())", "({0} / 180D * pi())")
kernel("log", "double, double -> double", by_row(logarithm))

# --- Digits, buckets and distributions -----------------------------------------------------------

kernel("from_base", "varchar, bigint -> bigint", by_row(from_base))
kernel("to_base", "bigint, bigint -> varchar", by_row(to_base))
kernel("width_bucket", "double, double, double, bigint -> bigint", by_row(width_bucket))
kernel("width_bucket", "double, array(double) -> bigint", by_row(bucket_among))
kernel("normal_cdf", "double, double, double -> double", by_row(normal_cdf))
kernel("inverse_normal_cdf", "double, double, double -> double", by_row(inverse_normal_cdf))
for _name, _share in (
    ("beta_cdf", distributions.beta_cdf),
    ("inverse_beta_cdf", distributions.inverse_beta_cdf),
):
    kernel(_name, "double, double, double -> double", by_row(_share))
kernel("t_cdf", "double, double -> double", by_row(distributions.t_cdf))
kernel("t_pdf", "double, double -> double", by_row(distributions.t_pdf))
for _name, _end in (
    ("wilson_interval_lower", distributions.wilson_interval_lower),
    ("wilson_interval_upper", distributions.wilson_interval_upper),
):
    kernel(_name, "bigint, bigint, double -> double", by_row(_end))

# --- Vectors -------------------------------------------------------------------------------------

for _name, _of_maps, _of_arrays in (
    ("cosine_similarity", vectors.cosine_similarity, vectors.cosine_of_arrays),
    ("cosine_distance", vectors.cosine_distance, vectors.distance_of_arrays),
):
    kernel(_name, "map(varchar, double), map(varchar, double) -> double", by_row(_of_maps))
    kernel(
        _name,
        "array(double), array(double) -> double",
        by_row(vectors.of_equal_length(_of_arrays, is_null_zero=False)),
    )
for _name, _measure in (
    ("dot_product", vectors.dot_product),
    ("euclidean_distance", vectors.euclidean_distance),
):
    kernel(
        _name,
        "array(double), array(double) -> double",
        by_row(vectors.of_equal_length(_measure, is_null_zero=True)),
    )

# --- Random numbers ------------------------------------------------------------------------------

for _name in ("random", "rand"):
    scalar(_name, "-> double", "random()", "rand()")
    for _type in types.INTEGERS:
        scalar(
            _name,
            f"{_type} -> {_type}",
            "CAST(floor(random() * CASE WHEN {0} > 0 THEN {0}"
            " ELSE error('INVALID_ARGUMENT: a bound must be above 0') END) AS {type})",
            "CAST(floor(rand() * CASE WHEN {0} > 0 THEN {0}"
            " ELSE raise_error('INVALID_ARGUMENT: a bound must be above 0') END) AS {type})",
        )
        scalar(
            _name,
            f"{_type}, {_type} -> {_type}",
            "CAST(({0} + floor(random() * CASE WHEN {1} > {0} THEN {1} - {0}"
            " ELSE error('INVALID_ARGUMENT: the second bound must be above the first') END))"
            " AS {type})",
            "CAST(({0} + floor(rand() * CASE WHEN {1} > {0} THEN {1} - {0}"
            " ELSE raise_error('INVALID_ARGUMENT: the second bound must be above the first') END))"
            " AS {type})",
        )
scalar("uuid", "-> uuid", "CAST(uuid() AS VARCHAR)", "uuid()")
