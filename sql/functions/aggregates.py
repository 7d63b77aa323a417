"""Functions that compute one value from many rows."""

from __future__ import annotations

from collections.abc import Sequence

from seamline.sql import decimals, types
from seamline.sql.functions.registry import GROUPING, aggregate, collected, composed, define
from seamline.sql.kernels import groups
from seamline.sql.kernels.kernel import by_row
from seamline.sql.templates import DUCKDB, SPARK
from seamline.sql.types import Type

aggregate("count", "-> bigint", "count(*)")
aggregate("count", "T -> bigint", "count({0})")
aggregate("count_if", "boolean -> bigint", "count({distinct}CASE WHEN {0} THEN 1 END)")
for _type in (types.TINYINT, types.SMALLINT, types.INTEGER, types.BIGINT):
    aggregate(
        "sum",
        f"{_type} -> bigint",
        "CAST(sum({distinct}{0}){over} AS BIGINT)",
        "sum({distinct}CAST({0} AS BIGINT))",
    )
aggregate("sum", "double -> double", "sum({0})")
aggregate("$total", "real -> double", "sum({distinct}CAST({0} AS DOUBLE))")
composed(
    "sum",
    "real -> real",
    (("$total", 1),),
    "(CASE WHEN {0} IS NOT NULL THEN coalesce(TRY_CAST({0} AS FLOAT),"
    " CAST(sign({0}) * CAST('Infinity' AS DOUBLE) AS FLOAT)) END)",
    "CAST({0} AS FLOAT)",
)


define(
    "aggregate",
    "sum",
    "D -> decimal",
    decimals.CHECKED_TOTAL,
    "sum({distinct}CAST({0} AS {type}))",
    decimals.total_type,
)
define(
    "aggregate",
    "avg",
    "D -> decimal",
    decimals.quotient(DUCKDB),
    decimals.quotient(SPARK),
    lambda arguments: arguments[0],
    parts=(("sum", 1), ("count", 1)),
)
aggregate("avg", "double -> double", "avg({0})")
aggregate("avg", "bigint -> double", "avg({0})")
aggregate("avg", "real -> real", "CAST(avg({0}){over} AS FLOAT)")
for _float in ("double", "real"):  # to engines NaN is the greatest number, even when negated
    aggregate(
        "max",
        f"{_float} -> {_float}",
        "(-min({distinct}(-({0}))){over})",
    )
for _name in ("min", "max"):
    aggregate(_name, "O -> O", f"{_name}({{0}})")
for _name in ("any_value", "arbitrary"):
    aggregate(_name, "O -> O", "max({0})")  # deterministic: the same value on every call
    aggregate(_name, "T -> T", "any_value({0})", "any_value({0}, TRUE)")
for _name in ("bool_and", "every"):
    aggregate(_name, "boolean -> boolean", "bool_and({0})")
aggregate("bool_or", "boolean -> boolean", "bool_or({0})")
for _name, _function, _key, _number in (
    ("max_by", "max", "double", "NOT isnan({1})"),
    ("max_by", "max", "real", "NOT isnan({1})"),
    ("max_by", "max", "O", ""),
    ("min_by", "min", "O", ""),
):
    _present = "1 ELSE 0" if _function == "max" else "0 ELSE 1"
    _known = f"CASE WHEN {{0}} IS NOT NULL THEN {_present} END"  # null comes last among several
    _parts = [(n, p) for n, p in zip("nabc", (_number, "{1}", _known, "{0}"), strict=True) if p]
    _struct = ", ".join(f"'{name}': {part}" for name, part in _parts)
    _named = ", ".join(f"'{name}', {part}" for name, part in _parts)
    aggregate(
        _name,
        f"K, {_key} -> K",
        f"({_function}(«CASE WHEN {{1}} IS NOT NULL THEN {{{{{_struct}}}}} END»){{over}}).c",
        f"({_function}(«CASE WHEN {{1}} IS NOT NULL THEN named_struct({_named}) END»){{over}}).c",
    )
# For the spread of infinity and NaN, and of numbers whose powers overflow, DuckDB raises an error
# and Spark may return NaN, so they are given others only. A variance of large numbers is that of
# much smaller ones, made large again, and so infinite if it overflows. Whatever else is computed
# from large numbers is what it is with infinity: NaN, and null from the spreads of two columns.
_NAN = "CAST('NaN' AS DOUBLE)"
_LARGE = {"var_samp": 1e140, "var_pop": 1e140, "skewness": 1e50, "kurtosis": 1e74}
_LARGE_PAIR = 1e140
_SMALL = f"list_filter([{{}}], lambda x: abs(x) <= {_LARGE_PAIR})[1]"
_SMALLER, _LARGER = (f"CAST({2.0**power!r} AS DOUBLE)" for power in (-600, 600))
for _name, _limit in _LARGE.items():
    _spread = f"{_name}({{distinct}}«CASE WHEN abs({{0}}) <= {_limit} THEN {{0}} END»)"
    _own = f"{_name}({{0}})" if _name in ("skewness", "kurtosis") else None
    aggregate(f"${_name}", "double -> double", _spread, _own)
    aggregate(f"$large_{_name}", "double -> boolean", f"bool_or({{distinct}}abs({{0}}) > {_limit})")
aggregate("$infinite", "double -> boolean", "bool_or({distinct}isnan({0} * 0))")
aggregate(
    "$large",
    "double, double -> boolean",
    f"bool_or({{distinct}}abs({{0}}) + abs({{1}}) > {_LARGE_PAIR})",
)
for _name, _least in (("var_samp", 2), ("var_pop", 1)):
    aggregate(
        f"$shrunk_{_name}",
        "double -> double",
        f"{_name}({{distinct}}«CASE WHEN abs({{0}}) < CAST('Infinity' AS DOUBLE)"
        f" THEN {{0}} * {_SMALLER} END»)",
    )
    _measures = (f"${_name}", "$infinite", "count", f"$large_{_name}", f"$shrunk_{_name}")
    _variance = (
        f"(CASE WHEN {{1}} AND {{2}} >= {_least} THEN {_NAN}"
        f" WHEN {{3}} THEN {{4}} * {_LARGER} * {_LARGER} ELSE {{0}} END)"
    )
    _deviation = _name.replace("var", "stddev")
    for _function, _template in (
        (_name, _variance),
        (_deviation, f"sqrt({_variance})"),
        *((("variance", _variance), ("stddev", f"sqrt({_variance})")) if _least == 2 else ()),
    ):
        _of_each = tuple((part, 1) for part in _measures)
        composed(_function, "double -> double", _of_each, _template)
for _name in ("covar_samp", "covar_pop"):
    aggregate(_name, "double, double -> double", f"{_name}({{0}}, {{1}})")
for _name in ("sxy", "sxx", "syy", "slope", "intercept", "r2"):
    aggregate(
        f"$regr_{_name}",
        "double, double -> double",
        f"regr_{_name}({{distinct}}{_SMALL.format('{0}')}, {_SMALL.format('{1}')})",
        f"regr_{_name}({{0}}, {{1}})",
    )
    composed(
        f"regr_{_name}",
        "double, double -> double",
        ((f"$regr_{_name}", 2), ("$large", 2)),
        "(CASE WHEN isfinite({0}) AND NOT {1} THEN {0} END)",
        "(CASE WHEN abs({0}) < double('Infinity') AND NOT {1} THEN {0} END)",
    )
composed(
    "corr",
    "double, double -> double",
    (("$regr_sxy", 2), ("$regr_sxx", 2), ("$regr_syy", 2), ("$large", 2)),
    "(CASE WHEN isfinite({0} + {1} + {2}) AND NOT {3}"
    " THEN {0} / nullif(sqrt({1}), 0) / nullif(sqrt({2}), 0) END)",
    "(CASE WHEN abs({0} + {1} + {2}) < double('Infinity')"
    " THEN {0} / nullif(sqrt({1}), 0D) / nullif(sqrt({2}), 0D) END)",
)
for _name in ("avgx", "avgy"):
    aggregate(f"regr_{_name}", "double, double -> double", f"regr_{_name}({{0}}, {{1}})")
aggregate(
    "regr_count",
    "double, double -> bigint",
    "CAST(regr_count({distinct}{0}, {1}){over} AS BIGINT)",
    "regr_count({0}, {1})",
)
for _name in ("and", "or", "xor"):
    aggregate(f"bitwise_{_name}_agg", "bigint -> bigint", f"bit_{_name}({{0}})")
aggregate(
    "$geometric_mean",
    "double -> double",
    "exp(avg({distinct}«CASE WHEN {0} > 0 THEN ln({0}) WHEN {0} = 0 THEN CAST('-Infinity' AS"
    " DOUBLE) WHEN {0} IS NOT NULL THEN CAST('NaN' AS DOUBLE) END»){over})",
    "exp(avg({distinct}«CASE WHEN {0} > 0 THEN ln({0}) WHEN {0} = 0 THEN double('-Infinity')"
    " WHEN {0} IS NOT NULL THEN double('NaN') END»){over})",
)

for _name, _cast in (("double", "{0}"), ("real", "CAST({0} AS FLOAT)")):
    composed("geometric_mean", f"{_name} -> {_name}", (("$geometric_mean", 1),), _cast)

# Moments of a population or of a sample: each engine has one of the two.
composed(
    "skewness",
    "double -> double",
    (("$skewness", 1), ("count", 1), ("$large_skewness", 1)),
    f"(CASE WHEN {{1}} > 2 THEN CASE WHEN {{2}} THEN {_NAN}"
    " ELSE {0} * ({1} - 2) / sqrt(CAST({1} AS DOUBLE) * ({1} - 1)) END END)",
    f"(CASE WHEN {{1}} > 2 THEN coalesce({{0}}, {_NAN}) END)",
)
composed(
    "kurtosis",
    "double -> double",
    (("$kurtosis", 1), ("count", 1), ("$large_kurtosis", 1)),
    f"(CASE WHEN {{1}} > 3 THEN CASE WHEN {{2}} THEN {_NAN} ELSE coalesce({{0}}, {_NAN}) END END)",
    "(CASE WHEN {1} > 3 THEN ({1} - 1D) / (({1} - 2D) * ({1} - 3D))"
    f" * (({{1}} + 1D) * coalesce({{0}}, {_NAN}) + 6) END)",
)

# --- Approximate by definition -------------------------------------------------------------------

for _signature in ("T -> bigint", "T, double -> bigint"):
    aggregate("approx_distinct", _signature, "count(DISTINCT {0}){over}")  # exact
for _type in (types.BIGINT, types.DOUBLE, types.REAL):
    for _share, _returns in (("double", f"{_type}"), ("array(double)", f"array({_type})")):
        aggregate(
            "approx_percentile",
            f"{_type}, {_share} -> {_returns}",
            "quantile_disc({0}, {1})",
            "percentile_approx({0}, {1})",
        )
        collected(
            "approx_percentile",
            f"{_type}, double, {_share} -> {_returns}",
            2,
            by_row(
                groups.weighted_percentile if _share == "double" else groups.weighted_percentiles
            ),
        )
    collected(
        "approx_percentile",
        f"{_type}, double, double, double -> {_type}",
        2,
        by_row(groups.weighted_percentile),
    )
for _type in (types.BIGINT, types.VARCHAR):
    collected(
        "approx_most_frequent",
        f"bigint, {_type}, bigint -> map({_type}, bigint)",
        2,
        by_row(groups.most_frequent),
    )
for _signature, _count in (("bigint, double", 2), ("bigint, double, double", 3)):
    collected(
        "numeric_histogram",
        f"{_signature} -> map(double, double)",
        _count,
        by_row(groups.numeric_histogram),
    )

# --- Measures of a group as a whole --------------------------------------------------------------

collected(
    "$listagg", "varchar, varchar, varchar, varchar -> varchar", 1, by_row(groups.joined_within)
)
collected("checksum", "T -> varbinary", 1, by_row(groups.checksum))
_NEGATIVE = "('INVALID_ARGUMENT: a count must not be negative')"
_LOGARITHMS = (
    "sum({{distinct}}«CASE WHEN {{0}} < 0 THEN CAST({error} AS DOUBLE)"
    " WHEN {{0}} > 0 THEN {{0}} * log2({{0}}) WHEN {{0}} = 0 THEN {{0}} END»){{over}}"
)
aggregate(
    "$logarithms",
    "double -> double",
    _LOGARITHMS.format(error=f"error{_NEGATIVE}"),
    _LOGARITHMS.format(error=f"raise_error{_NEGATIVE}"),
)
composed(
    "entropy",
    "double -> double",
    (("sum", 1), ("$logarithms", 1)),
    "(CASE WHEN {0} > 0 THEN greatest(log2({0}) - {1} / {0}, 0.0::DOUBLE) ELSE 0.0::DOUBLE END)",
    "(CASE WHEN {0} > 0 THEN greatest(log2({0}) - {1} / {0}, 0D) ELSE 0D END)",
)


def _grouping_duckdb(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
    return f"CAST(GROUPING({', '.join(args)}) AS INTEGER)"


def _grouping_spark(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
    """Combines grouping() bits, because Spark's grouping_id requires all keys in their order."""
    bits = (f"CAST(grouping({arg}) AS INT) * {1 << n}" for n, arg in enumerate(reversed(args)))
    return f"({' + '.join(bits)})"


define("aggregate", GROUPING, "any... -> integer", _grouping_duckdb, _grouping_spark)
