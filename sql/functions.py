"""The verified functions: what each means, and how each engine is told to compute it.

Nothing else can be called. A row of the table gives a name, signatures in Trino's types and a
template for each engine; the templates exist because the engines' own functions of the same name
differ at the edges (zero divisors, nulls, rounding, negative positions), and both must give Trino's
answer. The files in tests/slt run every row on both engines.

Signatures are written `T, T -> T`: a type's name, or a variable. Variables are T, U (anything),
O (anything ordered), K and E (map keys, elements), N (any number), I (any integer) and D and C (any
decimal). A last parameter with `...` repeats. In a template `{0}` is the first argument,
`{type}` the result's type in that engine, and `{args}` all arguments.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from seamline.errors import FUNCTION_NOT_FOUND, NOT_SUPPORTED, TYPE_MISMATCH, SeamlineError
from seamline.sql import coercion, decimals, texts, types
from seamline.sql.templates import DUCKDB, SPARK, Template
from seamline.sql.types import Array, Decimal, Map, Row, Type

Kind: TypeAlias = Literal["scalar", "aggregate", "window"]


@dataclasses.dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function and its two templates.

    Attributes:
        name: Lower-case name.
        kind: Scalar, aggregate (also usable as a window function) or window only.
        parameters: Patterns of the parameters.
        variadic: Whether the last parameter repeats.
        returns: Pattern of the result, or a function of the argument types.
        duckdb: Template for DuckDB.
        spark: Template for Spark.
    """

    name: str
    kind: Kind
    parameters: tuple[str, ...]
    variadic: bool
    returns: str | Callable[[Sequence[Type]], Type]
    duckdb: Template
    spark: Template

    @property
    def signature(self) -> str:
        """The signature as people read it."""
        parameters = ", ".join(self.parameters) + ("…" if self.variadic else "")
        returns = self.returns if isinstance(self.returns, str) else "…"
        return f"{self.name}({parameters}) → {returns}"


@dataclasses.dataclass(frozen=True, slots=True)
class Resolved:
    """A call with its types settled: what each argument must be cast to, and what comes out."""

    overload: Overload
    parameters: tuple[Type, ...]
    returns: Type


FUNCTIONS: dict[str, list[Overload]] = {}
"""Overloads by name, in the order they are tried."""

_SIGNATURE = re.compile(r"(?P<parameters>.*?)(?P<variadic>\.\.\.)?\s*->\s*(?P<returns>.+)")
_ANYTHING = frozenset("TUE")
_ORDERED = frozenset("OK")


def _define(
    kind: Kind,
    name: str,
    signature: str,
    duckdb: Template | None,
    spark: Template | None = None,
    returns: Callable[[Sequence[Type]], Type] | None = None,
) -> None:
    match = _SIGNATURE.fullmatch(signature)
    assert match is not None, signature
    if kind != "scalar":
        duckdb, spark = _with_marks(duckdb), _with_marks(spark)
    parameters = tuple(_split(match["parameters"]))
    FUNCTIONS.setdefault(name, []).append(
        Overload(
            name=name,
            kind=kind,
            parameters=parameters,
            variadic=match["variadic"] is not None,
            returns=returns or match["returns"].strip(),
            duckdb=duckdb or "",
            spark=(duckdb if spark is None else spark) or "",
        )
    )


def _with_marks(template: Template | None) -> Template | None:
    """Where DISTINCT, FILTER and OVER go, unless the template says so itself."""
    if isinstance(template, str) and "{distinct}" not in template:
        template = template.replace("({0}", "({distinct}{0}", 1)
    if isinstance(template, str) and "{over}" not in template:
        template += "{over}"
    return template


def _split(parameters: str) -> list[str]:
    """Splits at commas outside brackets."""
    parts = re.split(r",\s*(?![^()]*\))", parameters.strip())
    return [part.strip() for part in parts if part.strip()]


def resolve(name: str, arguments: Sequence[Type]) -> Resolved:
    """The overload that takes these arguments, with the fewest conversions.

    Raises:
        SeamlineError: FUNCTION_NOT_FOUND, NOT_SUPPORTED or TYPE_MISMATCH.
    """
    overloads = FUNCTIONS.get(name.lower())
    if overloads is None:
        raise unknown(name)
    found = [r for o in overloads if (r := _match(o, arguments)) is not None]
    if not found:
        given = ", ".join(str(type_) for type_ in arguments)
        known = "; ".join(overload.signature for overload in overloads)
        raise SeamlineError(
            TYPE_MISMATCH, f"{name.lower()}({given}) is not defined", hint=f"It is: {known}"
        )
    return min(found, key=lambda r: _conversions(r, arguments))


def _conversions(resolved: Resolved, arguments: Sequence[Type]) -> int:
    return sum(p != a for p, a in zip(resolved.parameters, arguments, strict=True))


def _match(overload: Overload, arguments: Sequence[Type]) -> Resolved | None:
    patterns = list(overload.parameters)
    if overload.variadic:
        patterns += patterns[-1:] * (len(arguments) - len(patterns))
    if len(patterns) != len(arguments):
        return None
    bound: dict[str, Type] = {}
    for pattern, argument in zip(patterns, arguments, strict=True):
        if not _bind(pattern, argument, bound):
            return None
    for variable, type_ in bound.items():
        if type_ == types.UNKNOWN and variable in "NICD":
            bound[variable] = Decimal(1, 0) if variable in "CD" else types.BIGINT
    parameters = tuple(_substitute(pattern, bound) for pattern in patterns)
    for parameter, argument in zip(parameters, arguments, strict=True):
        if not coercion.can_coerce(argument, parameter):
            return None
    if isinstance(overload.returns, str):
        returns = _substitute(overload.returns, bound)
    else:
        returns = overload.returns(parameters)
    return Resolved(overload, parameters, returns)


def _bind(pattern: str, argument: Type, bound: dict[str, Type]) -> bool:
    """Settles the variables of a pattern so that they can take the argument."""
    if nested := re.fullmatch(r"array\((\w)\)", pattern):
        if argument == types.UNKNOWN:
            return _widen(nested[1], types.UNKNOWN, bound)
        return isinstance(argument, Array) and _widen(nested[1], argument.element, bound)
    if nested := re.fullmatch(r"map\((\w), (\w)\)", pattern):
        return (
            isinstance(argument, Map)
            and _widen(nested[1], argument.key, bound)
            and _widen(nested[2], argument.value, bound)
        )
    return len(pattern) > 1 or _widen(pattern, argument, bound)


def _widen(variable: str, argument: Type, bound: dict[str, Type]) -> bool:
    if variable == "N" and not (types.is_numeric(argument) or argument == types.UNKNOWN):
        return False
    if variable == "I" and argument not in (*types.INTEGERS, types.UNKNOWN):
        return False
    if variable in "CD" and not isinstance(argument, Decimal):
        return False
    if variable in _ORDERED and not is_ordered(argument):
        return False
    common = coercion.common_type(bound.get(variable, argument), argument)
    if common is None:
        return False
    bound[variable] = common
    return True


def _substitute(pattern: str, bound: dict[str, Type]) -> Type:
    if pattern in bound:
        return bound[pattern]
    if nested := re.fullmatch(r"array\((\w)\)", pattern):
        return Array(bound[nested[1]])
    if nested := re.fullmatch(r"map\((\w), (\w)\)", pattern):
        return Map(bound[nested[1]], bound[nested[2]])
    return types.parse(pattern)


def is_ordered(type_: Type) -> bool:
    """Whether values can be compared with < and sorted alike on both engines."""
    return not types.contains(type_, Map) and not isinstance(
        type_, Array | Row | types.Interval | types.Unsupported
    )


# --- Refused by name, with the reason ------------------------------------------------------------

_REASONS = {
    "approx_distinct": "approximate results differ between engines; use count(DISTINCT x)",
    "approx_percentile": "approximate results differ between engines",
    "random": "a repeated read must give the same rows",
    "rand": "a repeated read must give the same rows",
    "uuid": "a repeated read must give the same rows",
    "regexp_like": "the engines' regular expressions differ; use LIKE, strpos or starts_with",
    "regexp_extract": "the engines' regular expressions differ; use split_part or substr",
    "regexp_replace": "the engines' regular expressions differ; use replace",
    "array_agg": "the order of its elements would differ between engines",
    "map_agg": "the order of its entries would differ between engines",
    "listagg": "the order of its elements would differ between engines",
    "string_agg": "the order of its elements would differ between engines",
    "format": "the engines format numbers differently; concatenate with ||",
}


def is_aggregate(name: str) -> bool:
    """Whether a function of that name computes one value of many rows."""
    return any(overload.kind == "aggregate" for overload in FUNCTIONS.get(name, ()))


def unknown(name: str) -> SeamlineError:
    """The error for a name that is not in the table, with the reason if there is one."""
    folded = name.lower()
    if folded in _REASONS:
        return SeamlineError(NOT_SUPPORTED, f"{folded} is not offered", hint=_REASONS[folded] + ".")
    near = [n for n in FUNCTIONS if n.startswith(folded[:3]) and not n.startswith("$")][:4]
    hint = f"Near it: {', '.join(sorted(near))}." if near else None
    return SeamlineError(FUNCTION_NOT_FOUND, f"there is no function {folded}", hint=hint)


# --- Helpers for templates -----------------------------------------------------------------------


def scalar(name: str, signature: str, duckdb: Template, spark: Template | None = None) -> None:
    """Declares a scalar function."""
    _define("scalar", name, signature, duckdb, spark)


def aggregate(name: str, signature: str, duckdb: Template, spark: Template | None = None) -> None:
    """Declares an aggregate function."""
    _define("aggregate", name, signature, duckdb, spark)


def window(name: str, signature: str, duckdb: Template, spark: Template | None = None) -> None:
    """Declares a function that only makes sense with OVER."""
    _define("window", name, signature, duckdb, spark)


def _fail(code: str) -> tuple[str, str]:
    """An expression that raises, in DuckDB and in Spark; the text is what names the error."""
    return f"error('{code}')", f"raise_error('{code}')"


_ZERO_DUCKDB, _ZERO_SPARK = _fail("DIVISION_BY_ZERO")
_NOT_ZERO = re.compile(r"(CAST\()?[1-9][0-9]*( AS \w+\))?")


def _unless_zero(operation: str, failure: str) -> Template:
    """An integer operation that fails by name for a divisor of zero; a literal needs no test."""

    def render(args: Sequence[str], _: Sequence[Type], returns: Type) -> str:
        type_ = returns.duckdb if failure == _ZERO_DUCKDB else returns.spark  # type: ignore[attr-defined]
        result = operation.format(*args, type=type_)
        if _NOT_ZERO.fullmatch(args[1]):
            return result
        return f"(CASE WHEN {args[1]} = 0 THEN {failure} ELSE {result} END)"

    return render


# --- Operators, by names that cannot be written ---------------------------------------------------


for _operator, _name in (("+", "$add"), ("-", "$subtract"), ("*", "$multiply")):
    for _type in (*types.INTEGERS, *types.FLOATS):
        scalar(_name, f"{_type}, {_type} -> {_type}", f"({{0}} {_operator} {{1}})")
    _define(
        "scalar",
        _name,
        "D, C -> decimal",
        decimals.arithmetic(_operator, DUCKDB),
        decimals.arithmetic(_operator, SPARK),
        decimals.product_type if _operator == "*" else decimals.sum_type,
    )
_define(
    "scalar",
    "$divide",
    "D, C -> decimal",
    decimals.quotient(DUCKDB),
    decimals.quotient(SPARK),
    decimals.quotient_type,
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
        "CAST((CASE WHEN {1} = 0 AND {0} IS NOT NULL THEN"
        " (CASE WHEN isnan({0}) OR {0} = 0 THEN double('NaN')"
        " WHEN ({0} > 0) = (CAST({1} AS STRING) = '0.0') THEN double('Infinity')"
        " ELSE double('-Infinity') END) ELSE {0} / {1} END) AS {type})",
    )
    scalar("$negate", f"{_type} -> {_type}", "(-{0})")
scalar("$negate", "D -> D", "CAST((-{0}) AS {type})")

scalar("$concat", "varchar, varchar -> varchar", "({0} || {1})", "concat({0}, {1})")
scalar("$concat", "array(E), array(E) -> array(E)", "list_concat({0}, {1})", "concat({0}, {1})")


# --- Conditionals ---------------------------------------------------------------------------------

scalar("coalesce", "T... -> T", "coalesce({args})")
scalar("nullif", "T, T -> T", "(CASE WHEN {0} = {1} THEN NULL ELSE {0} END)")


def _null_if_any(function: str) -> Template:
    """The engines skip nulls in greatest and least; Trino answers null."""

    def render(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
        missing = " OR ".join(f"{arg} IS NULL" for arg in args)
        if len(args) == 1:
            return args[0]
        return f"(CASE WHEN {missing} THEN NULL ELSE {function}({', '.join(args)}) END)"

    return render


scalar("greatest", "O... -> O", _null_if_any("greatest"))
scalar("least", "O... -> O", _null_if_any("least"))

# --- Numbers --------------------------------------------------------------------------------------

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
    _define(
        "scalar",
        _name,
        "D -> decimal",
        f"CAST({_function}({{0}}) AS {{type}})",
        f"CAST({_function}({{0}}) AS {{type}})",
        decimals.whole_type,
    )
_define(
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

# --- Text -----------------------------------------------------------------------------------------

_BLANKS_DUCKDB = "(chr(32) || chr(9) || chr(10) || chr(11) || chr(12) || chr(13))"
_BLANKS_SPARK = "concat(char(32), char(9), char(10), char(11), char(12), char(13))"

scalar("length", "varchar -> bigint", "length({0})", "CAST(char_length({0}) AS BIGINT)")
scalar("length", "varbinary -> bigint", "octet_length({0})", "CAST(octet_length({0}) AS BIGINT)")
scalar("lower", "varchar -> varchar", texts.DUCKDB_LOWER, texts.SPARK_LOWER)
scalar("upper", "varchar -> varchar", texts.DUCKDB_UPPER, texts.SPARK_UPPER)
scalar(
    "concat", "varchar... -> varchar", lambda a, _, __: "(" + " || ".join(a) + ")", "concat({args})"
)
scalar("$trim", "varchar, varchar -> varchar", "trim({0}, {1})", "trim(BOTH {1} FROM {0})")
scalar("$ltrim", "varchar, varchar -> varchar", "ltrim({0}, {1})", "trim(LEADING {1} FROM {0})")
scalar("$rtrim", "varchar, varchar -> varchar", "rtrim({0}, {1})", "trim(TRAILING {1} FROM {0})")
for _name, _side in (("trim", "BOTH"), ("ltrim", "LEADING"), ("rtrim", "TRAILING")):
    scalar(
        _name,
        "varchar -> varchar",
        f"{_name}({{0}}, {_BLANKS_DUCKDB})",
        f"trim({_side} {_BLANKS_SPARK} FROM {{0}})",
    )
for _name in ("substr", "substring"):
    scalar(
        _name,
        "varchar, bigint -> varchar",
        "(CASE WHEN {1} = 0 OR -{1} > length({0}) THEN '' ELSE substr({0}, {1}) END)",
        "(CASE WHEN {1} = 0 OR -{1} > length({0}) THEN '' ELSE substr({0}, CAST({1} AS INT)) END)",
    )
    scalar(
        _name,
        "varchar, bigint, bigint -> varchar",
        "(CASE WHEN {1} = 0 OR {2} <= 0 OR -{1} > length({0}) THEN ''"
        " ELSE substr({0}, {1}, {2}) END)",
        "(CASE WHEN {1} = 0 OR {2} <= 0 OR -{1} > length({0}) THEN ''"
        " ELSE substr({0}, CAST({1} AS INT), CAST({2} AS INT)) END)",
    )
for _name, _order in (("strpos", ("{0}", "{1}")), ("$position", ("{1}", "{0}"))):
    scalar(
        _name,
        "varchar, varchar -> bigint",
        f"CAST(strpos({_order[0]}, {_order[1]}) AS BIGINT)",
        f"CAST(locate({_order[1]}, {_order[0]}) AS BIGINT)",
    )
scalar(
    "starts_with", "varchar, varchar -> boolean", "starts_with({0}, {1})", "startswith({0}, {1})"
)
for _replacement, _signature in (
    ("''", "varchar, varchar -> varchar"),
    ("{2}", "varchar, varchar, varchar -> varchar"),
):
    scalar(
        "replace",
        _signature,
        f"(CASE WHEN {{1}} = '' THEN error('INVALID_ARGUMENT: replace needs a text to look for')"
        f" ELSE replace({{0}}, {{1}}, {_replacement}) END)",
        "(CASE WHEN {1} = '' THEN raise_error('INVALID_ARGUMENT: replace needs a text to look for')"
        f" ELSE replace({{0}}, {{1}}, {_replacement}) END)",
    )
scalar(
    "split_part",
    "varchar, varchar, bigint -> varchar",
    "(CASE WHEN {2} < 1 OR {1} = '' THEN error('INVALID_ARGUMENT: split_part counts from 1')"
    " WHEN {2} > (length({0}) - length(replace({0}, {1}, ''))) // length({1}) + 1 THEN NULL"
    " ELSE split_part({0}, {1}, {2}) END)",
    "(CASE WHEN {2} < 1 OR {1} = '' THEN raise_error('INVALID_ARGUMENT: split_part counts from 1')"
    " WHEN {2} > (length({0}) - length(replace({0}, {1}, ''))) div length({1}) + 1 THEN NULL"
    " ELSE split_part({0}, {1}, CAST({2} AS INT)) END)",
)
for _name in ("lpad", "rpad"):
    scalar(
        _name,
        "varchar, bigint, varchar -> varchar",
        f"(CASE WHEN {{1}} < 0 OR {{2}} = '' THEN error('INVALID_ARGUMENT: {_name} needs a length"
        f" and a text to fill with') ELSE {_name}({{0}}, CAST({{1}} AS INTEGER), {{2}}) END)",
        f"(CASE WHEN {{1}} < 0 OR {{2}} = '' THEN raise_error('INVALID_ARGUMENT: {_name} needs a"
        f" length and a text to fill with') ELSE {_name}({{0}}, CAST({{1}} AS INT), {{2}}) END)",
    )
scalar("to_hex", "varbinary -> varchar", "hex({0})")
scalar("to_utf8", "varchar -> varbinary", "encode({0})", "encode({0}, 'UTF-8')")
scalar("from_utf8", "varbinary -> varchar", "decode({0})", "decode({0}, 'UTF-8')")
scalar("md5", "varbinary -> varbinary", "unhex(md5({0}))", "unhex(md5({0}))")
scalar("sha256", "varbinary -> varbinary", "unhex(sha256({0}))", "unhex(sha2({0}, 256))")

# --- Time -----------------------------------------------------------------------------------------

_TIMES = (types.DATE, types.TIMESTAMP, types.TIMESTAMP_TZ)
_PARTS = {
    "year": ("year", "year({0})"),
    "quarter": ("quarter", "quarter({0})"),
    "month": ("month", "month({0})"),
    "week": ("week", "weekofyear({0})"),
    "week_of_year": ("week", "weekofyear({0})"),
    "day": ("day", "day({0})"),
    "day_of_month": ("day", "day({0})"),
    "day_of_week": ("isodow", "(weekday({0}) + 1)"),
    "dow": ("isodow", "(weekday({0}) + 1)"),
    "day_of_year": ("doy", "dayofyear({0})"),
    "doy": ("doy", "dayofyear({0})"),
}
_CLOCK_PARTS = {
    "hour": ("hour", "hour({0})"),
    "minute": ("minute", "minute({0})"),
    "second": ("second", "second({0})"),
}
for _time in _TIMES:
    for _name, (_part, _spark_part) in (
        _PARTS.items() if _time == types.DATE else {**_PARTS, **_CLOCK_PARTS}.items()
    ):
        scalar(
            _name,
            f"{_time} -> bigint",
            f"CAST(date_part('{_part}', {{0}}) AS BIGINT)",
            f"CAST({_spark_part} AS BIGINT)",
        )
DATE_UNITS = ("day", "week", "month", "quarter", "year")
CLOCK_UNITS = ("second", "minute", "hour")
for _time in _TIMES:
    for _unit in DATE_UNITS if _time == types.DATE else (*CLOCK_UNITS, *DATE_UNITS):
        scalar(
            f"$date_trunc_{_unit}",
            f"{_time} -> {_time}",
            f"CAST(date_trunc('{_unit}', {{0}}) AS {{type}})",
            f"CAST(date_trunc('{_unit}', {{0}}) AS {{type}})",
        )
_INTERVALS = {
    "millisecond": "to_milliseconds({0})",
    "second": "to_seconds({0})",
    "minute": "to_minutes({0})",
    "hour": "to_hours({0})",
    "day": "to_days(CAST({0} AS INTEGER))",
    "week": "to_weeks(CAST({0} AS INTEGER))",
    "month": "to_months(CAST({0} AS INTEGER))",
    "quarter": "to_months(CAST({0} * 3 AS INTEGER))",
    "year": "to_years(CAST({0} AS INTEGER))",
}
for _time in _TIMES:
    for _unit, _interval in _INTERVALS.items():
        if _time == types.DATE and _unit not in DATE_UNITS:
            continue
        scalar(
            f"$date_add_{_unit}",
            f"bigint, {_time} -> {_time}",
            f"CAST(({{1}} + {_interval}) AS {{type}})",
            f"CAST(timestampadd({_unit.upper()}, CAST({{0}} AS INT), {{1}}) AS {{type}})",
        )
_MICROS = {
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
for _time in (types.TIMESTAMP, types.TIMESTAMP_TZ):
    for _unit, _micros in _MICROS.items():
        scalar(
            f"$date_diff_{_unit}",
            f"{_time}, {_time} -> bigint",
            f"((epoch_us({{1}}) - epoch_us({{0}})) // {_micros})",
            f"((unix_micros(CAST({{1}} AS TIMESTAMP)) - unix_micros(CAST({{0}} AS TIMESTAMP)))"
            f" div {_micros})",
        )
scalar(
    "$date_diff_day",
    "date, date -> bigint",
    "CAST({1} - {0} AS BIGINT)",
    "CAST(datediff({1}, {0}) AS BIGINT)",
)
scalar(
    "$date_diff_week",
    "date, date -> bigint",
    "(CAST({1} - {0} AS BIGINT) // 7)",
    "(CAST(datediff({1}, {0}) AS BIGINT) div 7)",
)


def _months_between(engine: str, months: int) -> Template:
    """Whole months from {0} to {1}: as many as can be added to {0} without passing {1}."""

    def render(args: Sequence[str], arguments: Sequence[Type], _: Type) -> str:
        one, other = args
        type_ = (types.to_duckdb if engine == "duckdb" else types.to_spark)(arguments[0])
        count = f"((year({other}) - year({one})) * 12 + month({other}) - month({one}))"
        if engine == "duckdb":
            moved = f"CAST(({one} + to_months(CAST({count} AS INTEGER))) AS {type_})"
            divide = "//"
        else:
            moved = f"CAST(timestampadd(MONTH, {count}, {one}) AS {type_})"
            divide = "div"
        exact = (
            f"({count} - CASE WHEN {one} <= {other} AND {moved} > {other} THEN 1"
            f" WHEN {one} > {other} AND {moved} < {other} THEN -1 ELSE 0 END)"
        )
        return f"CAST({exact} {divide} {months} AS BIGINT)"

    return render


for _time in _TIMES:
    for _unit, _months in (("month", 1), ("quarter", 3), ("year", 12)):
        scalar(
            f"$date_diff_{_unit}",
            f"{_time}, {_time} -> bigint",
            _months_between("duckdb", _months),
            _months_between("spark", _months),
        )
scalar(
    "to_unixtime",
    "timestamp with time zone -> double",
    "(epoch_us({0}) / 1000000.0::DOUBLE)",
    "(unix_micros({0}) / 1000000D)",
)
scalar(
    "from_unixtime",
    "double -> timestamp with time zone",
    "make_timestamptz(CAST(round({0} * 1000000) AS BIGINT))",
    "timestamp_micros(CAST(round({0} * 1000000) AS BIGINT))",
)
scalar("last_day_of_month", "date -> date", "last_day({0})")

# --- Arrays, maps, rows ---------------------------------------------------------------------------

scalar("cardinality", "array(E) -> bigint", "len({0})", "CAST(size({0}) AS BIGINT)")
scalar(
    "cardinality",
    "map(K, E) -> bigint",
    "CAST(cardinality({0}) AS BIGINT)",
    "CAST(size({0}) AS BIGINT)",
)
scalar(
    "contains",
    "array(E), E -> boolean",
    "(CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN list_contains({0}, {1}) THEN TRUE"
    " WHEN len(list_filter({0}, lambda x: x IS NULL)) > 0 THEN NULL ELSE FALSE END)",
    "array_contains({0}, {1})",
)
scalar(
    "element_at",
    "array(E), bigint -> E",
    "(CASE WHEN {1} = 0 THEN error('INVALID_ARGUMENT: arrays count from 1')"
    " ELSE list_extract({0}, {1}) END)",
    "(CASE WHEN {1} = 0 THEN raise_error('INVALID_ARGUMENT: arrays count from 1')"
    " ELSE try_element_at({0}, CAST({1} AS INT)) END)",
)
scalar("element_at", "map(K, E), K -> E", "{0}[{1}]", "try_element_at({0}, {1})")
scalar(
    "$subscript",
    "array(E), bigint -> E",
    "(CASE WHEN {1} < 1 OR {1} > len({0}) THEN"
    " error('INVALID_ARGUMENT: the array has no element ' || CAST({1} AS VARCHAR))"
    " ELSE list_extract({0}, {1}) END)",
    "(CASE WHEN {1} < 1 OR {1} > size({0}) THEN"
    " raise_error(concat('INVALID_ARGUMENT: the array has no element ', CAST({1} AS STRING)))"
    " ELSE element_at({0}, CAST({1} AS INT)) END)",
)
scalar(
    "$subscript",
    "map(K, E), K -> E",
    "(CASE WHEN {0} IS NOT NULL AND NOT map_contains({0}, {1}) THEN"
    " error('INVALID_ARGUMENT: the map has no such key') ELSE {0}[{1}] END)",
    "(CASE WHEN {0} IS NOT NULL AND NOT map_contains_key({0}, {1}) THEN"
    " raise_error('INVALID_ARGUMENT: the map has no such key') ELSE {0}[{1}] END)",
)
scalar("map_keys", "map(K, E) -> array(K)", "map_keys({0})")
scalar("map_values", "map(K, E) -> array(E)", "map_values({0})")
scalar(
    "array_join",
    "array(varchar), varchar -> varchar",
    "substr(list_reduce(list_transform(list_filter({0}, lambda x: x IS NOT NULL),"
    " lambda x: {1} || x), lambda x, y: x || y, ''), length({1}) + 1)",
    "array_join({0}, {1})",
)

# --- Aggregates -----------------------------------------------------------------------------------

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
aggregate("sum", "real -> real", "CAST(sum({distinct}CAST({0} AS DOUBLE)){over} AS FLOAT)")


_define(
    "aggregate",
    "sum",
    "D -> decimal",
    decimals.CHECKED_TOTAL,
    "sum({distinct}CAST({0} AS {type}))",
    decimals.total_type,
)
_define("aggregate", "avg", "D -> decimal", "", "", lambda arguments: arguments[0])
aggregate("avg", "double -> double", "avg({0})")
aggregate("avg", "bigint -> double", "avg({0})")
aggregate("avg", "real -> real", "CAST(avg({0}){over} AS FLOAT)")
for _name in ("min", "max"):
    aggregate(_name, "O -> O", f"{_name}({{0}})")
for _name in ("any_value", "arbitrary"):
    aggregate(_name, "O -> O", "max({0})")
for _name in ("bool_and", "every"):
    aggregate(_name, "boolean -> boolean", "bool_and({0})")
aggregate("bool_or", "boolean -> boolean", "bool_or({0})")
for _name, _function in (("max_by", "max"), ("min_by", "min")):
    _present = "1 ELSE 0" if _function == "max" else "0 ELSE 1"
    _known = f"CASE WHEN {{0}} IS NOT NULL THEN {_present} END"  # of several, null comes last
    aggregate(
        _name,
        "K, O -> K",
        f"({_function}(«CASE WHEN {{1}} IS NOT NULL THEN"
        f" {{{{'a': {{1}}, 'b': {_known}, 'c': {{0}}}}}} END»){{over}}).c",
        f"({_function}(«CASE WHEN {{1}} IS NOT NULL THEN"
        f" named_struct('a', {{1}}, 'b', {_known}, 'c', {{0}}) END»){{over}}).c",
    )
for _name, _function in (
    ("stddev", "stddev_samp"),
    ("stddev_samp", "stddev_samp"),
    ("stddev_pop", "stddev_pop"),
    ("variance", "var_samp"),
    ("var_samp", "var_samp"),
    ("var_pop", "var_pop"),
):
    aggregate(_name, "double -> double", f"{_function}({{0}})")
for _name in ("corr", "covar_samp", "covar_pop"):
    aggregate(_name, "double, double -> double", f"{_name}({{0}}, {{1}})")

# --- Windows --------------------------------------------------------------------------------------

for _name in ("row_number", "rank", "dense_rank"):
    window(_name, "-> bigint", f"{_name}()", f"{_name}()")
for _name in ("percent_rank", "cume_dist"):
    window(_name, "-> double", f"{_name}()")
window("ntile", "bigint -> bigint", "ntile({0})", "ntile(CAST({0} AS INT))")
for _name in ("lag", "lead"):
    for _signature, _arguments in (
        ("T -> T", "{0}"),
        ("T, bigint -> T", "{0}, {1}"),
        ("T, bigint, T -> T", "{0}, {1}, {2}"),
    ):
        window(
            _name,
            _signature,
            f"{_name}({_arguments}{{nulls}}){{over}}",
            f"{_name}({_arguments.replace('{1}', 'CAST({1} AS INT)')}){{nulls}}{{over}}",
        )
for _name in ("first_value", "last_value"):
    window(_name, "T -> T", f"{_name}({{0}}{{nulls}}){{over}}", f"{_name}({{0}}){{nulls}}{{over}}")
window(
    "nth_value",
    "T, bigint -> T",
    "nth_value({0}, {1}{nulls}){over}",
    "nth_value({0}, CAST({1} AS INT)){nulls}{over}",
)


def is_comparable(type_: Type) -> bool:
    """Whether = is defined on it and means the same on both engines."""
    return not types.contains(type_, Map) and not isinstance(
        type_, types.Interval | types.Unsupported
    )
