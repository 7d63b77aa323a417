"""CAST and TRY_CAST: the supported conversions, and their SQL for each engine.

Conversions follow Trino's rules where the engines' own casts are looser or round differently. Text
must be exactly a number, a date or a timestamp; a double becomes an integer by rounding half away
from zero. A conversion that cannot be made the same on both engines is refused.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence

from seamline.errors import NOT_SUPPORTED, TYPE_MISMATCH, SeamlineError
from seamline.sql import (
    clocks,
    comparisons,
    intervals,
    session_zone,
    texts,
    time_zones,
    types,
    uuids,
)
from seamline.sql.functions import Overload
from seamline.sql.kernels import floating, json_casts
from seamline.sql.kernels.calls import duckdb_template, spark_template
from seamline.sql.kernels.kernel import Kernel
from seamline.sql.templates import DUCKDB, SPARK, Template, field_named, rendered, row_of
from seamline.sql.types import (
    Array,
    Char,
    Decimal,
    Interval,
    Map,
    Row,
    Time,
    Timestamp,
    Type,
    Varbinary,
)

_INTEGER = "[+-]?[0-9]+"
_NUMBER = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
_HEXADECIMAL = (
    "[+-]?0[xX]0*([0-9a-fA-F]{{1,13}}[.]?|[0-9a-fA-F]{{0,6}}[.][0-9a-fA-F]{{1,7}})"
    "[pP][+-]?[0-9]{{1,9}}"
)
"""A number whose digits, at most 52 bits, a double holds exactly, times a power of two."""
_FLOATING = rf"({_NUMBER}|{_HEXADECIMAL})[fFdD]?|[+-]?(NaN|Infinity)"
"""What Java reads, and so Trino."""
_YEAR = "([1-9][0-9]{{3}}|0[1-9][0-9]{{2}}|00[1-9][0-9]|000[1-9])"
_DATE = f"{_YEAR}-[0-9]{{{{1,2}}}}-[0-9]{{{{1,2}}}}"
_MINUTE = "([01]?[0-9]|2[0-3]):[0-5]?[0-9]"
_SECOND = ":[0-5]?[0-9]([.][0-9]{{1,6}})?"
_TIME = f"{_MINUTE}({_SECOND})?"
_CLOCK = rf"{_TIME}( *([+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00))?"
"""A time of day, and perhaps its offset."""
_TIMESTAMP = f"{_DATE}([ T]{_TIME})?"
_IGNORED = "(Z|[+-][0-9]{{1,2}}(:?[0-9]{{2}})?|[A-Za-z]+(/[A-Za-z0-9_+-]+)*)"
_LOCAL = f"{_TIMESTAMP}|{_DATE}([ T]{_TIME})? +{_IGNORED}|{_DATE}[ T]{_TIME}{_IGNORED}"
"""A local time, and perhaps a zone that a cast to `timestamp` leaves out, as Trino's does."""
_ZONE = "(Z| UTC|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)"
_INSTANT = f"{_TIMESTAMP}|{_DATE}[ T]{_MINUTE}{_SECOND}{_ZONE}"
_UUID = "[0-9a-fA-F]{{8}}(-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}"


def overload(source: Type, target: Type, *, safe: bool, zone: str = time_zones.UTC) -> Overload:
    """Returns the conversion from one type to another as a function of one argument.

    Args:
        source: Type of the value.
        target: Type to convert to.
        safe: Whether a value that cannot be converted becomes null (TRY_CAST).
        zone: The session's time zone, in which local times become instants.

    Raises:
        SeamlineError: TYPE_MISMATCH when Trino has no such cast, NOT_SUPPORTED when the engines
            disagree on it.
    """
    duckdb: Template
    spark: Template
    kernel = _kernel(source, target, safe=safe)
    if kernel is not None:
        duckdb, spark = duckdb_template(kernel), spark_template(kernel)
    else:
        duckdb, spark = _templates(source, target, safe=safe, zone=zone)
    name = "try_cast" if safe else "cast"
    if zone != time_zones.UTC and _makes_instants(source, target):
        name = f"{name}{_IN}{zone}"  # what handles casts must not take it for one in UTC
    return Overload(
        name=name,
        kind="scalar",
        parameters=(str(source),),
        variadic=False,
        returns=lambda _: target,
        duckdb=duckdb,
        spark=spark,
        kernel=kernel,
    )


def may_fail(source: Type, target: Type) -> bool:
    """Whether a cast between numbers, at any level, loses some value or cannot convert it."""
    if types.is_numeric(source) and types.is_numeric(target):
        is_exact = target in types.FLOATS or comparisons.widens(source, target)
        return source != target and not is_exact
    pairs = zip(types.children(source), types.children(target), strict=False)
    return any(may_fail(*pair) for pair in pairs)


_IN = " in "


def zone_of(overload: Overload) -> str | None:
    """Returns the zone, if it is not UTC, in which CAST makes instants; None for anything else."""
    name, _, zone = overload.name.partition(_IN)
    return zone if name == "cast" and zone else None


def in_zones(source: Type, target: Type) -> Type:
    """Returns the type that a cast gives: the target, with the zones that its instants have."""
    match source, target:
        case Timestamp(_, zoned) | Time(_, zoned), Timestamp(_, True):
            zone = source.zone if zoned else session_zone.current()
            return dataclasses.replace(target, zone=zone)
        case Timestamp(_, zoned) | Time(_, zoned), Time(_, True):
            return dataclasses.replace(target, zone=clocks.offset_of(source))
        case types.VARCHAR | Char(), Time(_, True):
            return dataclasses.replace(target, zone=session_zone.of_text())
        case types.DATE, Timestamp(_, True):
            return dataclasses.replace(target, zone=session_zone.current())
        case types.VARCHAR | Char(), Timestamp(_, True):
            return dataclasses.replace(target, zone=session_zone.of_text())
        case Array(one), Array(other):
            return Array(in_zones(one, other))
        case Map(key, value), Map(other_key, other_value):
            return Map(in_zones(key, other_key), in_zones(value, other_value))
        case Row(fields), Row(others) if len(fields) == len(others):
            return Row(
                tuple(
                    dataclasses.replace(other, type=in_zones(one.type, other.type))
                    for one, other in zip(fields, others, strict=True)
                )
            )
    return target


def _makes_instants(source: Type, target: Type) -> bool:
    """Whether a cast turns local times or text into instants, at any level."""
    if isinstance(target, Timestamp) and target.zoned:
        is_local = isinstance(source, Timestamp) and not source.zoned
        return is_local or source in (types.DATE, types.VARCHAR) or isinstance(source, Char)
    return any(
        _makes_instants(*pair)
        for pair in zip(types.children(source), types.children(target), strict=False)
    )


def _kernel(source: Type, target: Type, *, safe: bool) -> Kernel | None:
    """Returns the kernel that both engines run where their own casts give another result."""
    if source == target or source == types.UNKNOWN:
        return None
    if target == types.JSON and json_casts.can_be_json(source):
        return Kernel("cast_to_json", json_casts.to_json)
    if source == types.JSON and json_casts.can_be_made_of_json(target):
        name = "try_cast_from_json" if safe else "cast_from_json"
        return Kernel(name, json_casts.from_json(safe=safe))
    if source in types.FLOATS and target == types.VARCHAR:
        return Kernel("cast_to_text", floating.scientific)
    if source == types.REAL and isinstance(target, Decimal):
        name = "try_cast_to_decimal" if safe else "cast_to_decimal"
        return Kernel(name, floating.real_as_decimal(safe=safe))
    if isinstance(source, Array) and source.element in types.FLOATS and target == _TEXTS:
        return Kernel("cast_to_texts", floating.all_scientific)
    return None


_TEXTS = Array(types.VARCHAR)


def _templates(source: Type, target: Type, *, safe: bool, zone: str) -> tuple[Template, Template]:
    if isinstance(source, Time) or isinstance(target, Time):
        return _time_of_day(source, target, safe=safe, zone=zone)
    if source == target:
        return "{0}", "{0}"
    if isinstance(source, Timestamp) and source.zoned and source.zone != time_zones.UTC:
        return _from_zone(source, target, safe=safe, zone=zone)
    if types.UNKNOWN in (source, target):
        return _plain(safe=safe)
    if isinstance(source, Char) or isinstance(target, Char):
        return _char(source, target)
    if isinstance(source, Varbinary) or isinstance(target, Varbinary):
        return _binary(source, target, safe=safe)
    if source == types.VARCHAR:
        return _from_text(target, safe=safe, zone=zone)
    if target == types.VARCHAR:
        return _to_text(source)
    if types.is_numeric(source) and types.is_numeric(target):
        return _number(source, target, safe=safe)
    if _is_time(source) and _is_time(target):
        return _time(source, target, safe=safe, zone=zone)
    if source == types.BOOLEAN and isinstance(target, Decimal):
        # DuckDB takes TRUE for the least decimal above zero where the type has no digit for one
        cast = "TRY_CAST" if safe else "CAST"
        return f"{cast}(CAST({{0}} AS INTEGER) AS {{type}})", _plain(safe=safe)[1]
    if source == types.BOOLEAN and types.is_numeric(target):
        return _plain(safe=safe)
    if types.is_numeric(source) and target == types.BOOLEAN:
        return "({0} <> 0)", "({0} <> 0)"
    nested = _nested(source, target, safe=safe, zone=zone)
    if nested is not None:
        return nested
    raise SeamlineError(TYPE_MISMATCH, f"{source} cannot be cast to {target}", hint="")


def _time_of_day(source: Type, target: Type, *, safe: bool, zone: str) -> tuple[Template, Template]:
    """Returns casts to and from a time, which Spark holds as microseconds since midnight."""
    match source, target:
        case Time(digits), Time(precision):
            clock = clocks.kept_as(source, target)
            return clock if precision >= digits else clocks.rounded(*clock, precision)
        case Time(), types.VARCHAR:
            return clocks.as_text(source)
        case ((Char() | types.VARCHAR), Time(precision)):
            read = clocks.of_zoned_text(safe=safe) if target.zoned else clocks.of_text(safe=safe)
            convert = read if precision == 6 else clocks.rounded(*read, precision)
            pattern = _CLOCK if target.zoned else _TIME
            return _matching(
                pattern, target, safe=safe, convert=convert, trim=texts.TRIM_BLANKS_AT_END
            )
        case Timestamp(digits), Time(precision):
            clock = clocks.of_moment(source, target)
            return clock if precision >= digits else clocks.rounded(*clock, precision)
        case Time(), Timestamp():
            return _today_at(source, target, zone=zone)
        case types.UNKNOWN, _:
            return "CAST({0} AS TIME)", "CAST({0} AS BIGINT)"
    raise SeamlineError(TYPE_MISMATCH, f"{source} cannot be cast to {target}", hint="")


def _today_at(source: Time, target: Timestamp, *, zone: str) -> tuple[Template, Template]:
    """Returns casts of a time of day to that time today."""
    today = time_zones.local(session_zone.moment(), zone).date()
    duckdb, spark = time_zones.clock_in(source.zone) if source.zoned else ("{0}", "{0}")
    days = (today - _EPOCH).days
    local = (
        f"(DATE '{today}' + {duckdb})",
        f"CAST(timestamp_micros({days * clocks.DAY} + {spark}) AS TIMESTAMP_NTZ)",
    )
    if target.zoned:
        local = clocks.inside(local, time_zones.instant_of(source.zone if source.zoned else zone))
    if source.precision <= target.precision:
        return local
    return _fewer_digits(*local, target.precision)


_EPOCH = datetime.date(1970, 1, 1)


def _from_zone(
    source: Timestamp, target: Type, *, safe: bool, zone: str
) -> tuple[Template, Template]:
    """Returns casts that convert an instant by its local time in its zone."""
    if isinstance(target, Timestamp) and target.zoned:
        return _time(source, target, safe=safe, zone=zone)
    local = Timestamp(source.precision, zoned=False)
    duckdb, spark = time_zones.local_time(source.zone)
    inner = duckdb, spark
    if local != target:
        outer = _templates(local, target, safe=safe, zone=zone)
        assert isinstance(outer[0], str)
        assert isinstance(outer[1], str)
        inner = outer[0].replace("{0}", duckdb), outer[1].replace("{0}", spark)
    if target == types.VARCHAR:
        name = f" {source.zone}"
        return f"({inner[0]} || '{name}')", f"concat({inner[1]}, '{name}')"
    return inner


def _is_time(type_: Type) -> bool:
    return type_ == types.DATE or isinstance(type_, Timestamp)


def _time(source: Type, target: Type, *, safe: bool, zone: str) -> tuple[Template, Template]:
    duckdb, spark = _plain(safe=safe)
    if zone != time_zones.UTC and _makes_instants(source, target):
        duckdb, spark = (
            template.replace("{0}", "CAST({0} AS TIMESTAMP)")
            for template in time_zones.instant_of(zone)
        )
    if not isinstance(source, Timestamp) or not isinstance(target, Timestamp):
        return duckdb, spark
    if target.precision < source.precision:
        return _fewer_digits(duckdb, spark, target.precision)
    return ("{0}", "{0}") if source.zoned == target.zoned else (duckdb, spark)


def _fewer_digits(duckdb: str, spark: str, digits: int) -> tuple[str, str]:
    """Returns casts that round to `digits` fractional digits of a second, ties upwards."""
    unit = 10 ** (6 - digits)
    micros = f"(unix_micros(CAST({spark} AS TIMESTAMP)) + {unit // 2})"
    return (
        f"time_bucket(to_microseconds({unit}), {duckdb} + to_microseconds({unit // 2}))",
        f"CAST(timestamp_micros({micros} - pmod({micros}, {unit})) AS {{type}})",
    )


def _plain(*, safe: bool) -> tuple[str, str]:
    cast = "TRY_CAST" if safe else "CAST"
    return f"{cast}({{0}} AS {{type}})", f"{cast}({{0}} AS {{type}})"


def _nested(
    source: Type, target: Type, *, safe: bool, zone: str
) -> tuple[Template, Template] | None:
    """Returns casts between containers; None when the types are not containers of one shape.

    A plain cast serves where the contents convert by plain casts and field names do not change.
    Otherwise rows convert field by field, and arrays, unless `safe`, element by element.
    """
    match source, target:
        case Array(one), Array(other):
            inside = [(one, other)]
        case Map(key, value), Map(other_key, other_value):
            inside = [(key, other_key), (value, other_value)]
        case Row(fields), Row(others) if len(fields) == len(others):
            inside = [(f.type, o.type) for f, o in zip(fields, others, strict=True)]
        case _:
            return None
    plain = _plain(safe=safe)
    is_plain = all(
        _templates(*pair, safe=safe, zone=zone) in (plain, ("{0}", "{0}")) for pair in inside
    )
    if is_plain and not _renames(source, target):
        return plain
    if isinstance(source, Row) and isinstance(target, Row):
        return _of_fields(source, target, safe=safe, zone=zone)
    if isinstance(source, Array) and isinstance(target, Array) and not safe:
        return _of_elements(source.element, target.element, zone=zone)
    raise SeamlineError(
        NOT_SUPPORTED,
        f"{source} cannot be cast to {target} the same way on both engines",
        hint="transform(a, x -> CAST(x AS …)) converts elements; map_entries(m) lists a map's.",
    )


def _names(type_: Type) -> list[str]:
    return [field.name for field in type_.fields] if isinstance(type_, Row) else []


def _renames(source: Type, target: Type) -> bool:
    """Whether field names of a row differ at any level, which a plain cast would match by name."""
    if source != types.UNKNOWN and _names(source) != _names(target):
        return True
    pairs = zip(types.children(source), types.children(target), strict=False)
    return any(_renames(*pair) for pair in pairs)


def _of_fields(source: Row, target: Row, *, safe: bool, zone: str) -> tuple[Template, Template]:
    """Returns casts that convert a row's fields one by one, matched by position."""

    def of(engine: str) -> Template:
        def render(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
            values = {}
            for one, other in zip(source.fields, target.fields, strict=True):
                templates = _templates(one.type, other.type, safe=safe, zone=zone)
                template = templates[engine == SPARK]
                field = field_named(engine, args[0], one.name)
                text = rendered(template, [field], [one.type], other.type, engine, plain=[True])
                values[other.name] = text
            return f"(CASE WHEN {args[0]} IS NOT NULL THEN {row_of(engine, values)} END)"

        return render

    return of(DUCKDB), of(SPARK)


def _of_elements(source: Type, target: Type, *, zone: str) -> tuple[Template, Template]:
    """Returns casts that convert an array's elements one by one."""
    duckdb, spark = _templates(source, target, safe=False, zone=zone)

    def of(engine: str, template: Template, form: str) -> Template:
        def render(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
            element = f"{args[0]}x" if args[0].startswith("x") else "x"
            inner = rendered(template, [element], [source], target, engine, plain=[True])
            return form.format(args[0], element, inner)

        return render

    return (
        of(DUCKDB, duckdb, "list_transform({0}, lambda {1}: {2})"),
        of(SPARK, spark, "transform({0}, {1} -> {2})"),
    )


def _binary(source: Type, target: Type, *, safe: bool) -> tuple[Template, Template]:
    if isinstance(source, Varbinary) and isinstance(target, Varbinary):
        return "{0}", "{0}"
    if source == types.VARCHAR:
        return "encode({0})", "encode({0}, 'UTF-8')"
    if source == types.UUID:
        return uuids.AS_BYTES, uuids.AS_BYTES
    if target == types.UUID:
        return uuids.of_bytes("error", safe=safe), uuids.of_bytes("raise_error", safe=safe)
    raise SeamlineError(
        TYPE_MISMATCH,
        f"{source} cannot be cast to {target}",
        hint="from_utf8(x) reads bytes as text, to_hex(x) shows them.",
    )


def _char(source: Type, target: Type) -> tuple[Template, Template]:
    """Returns casts that pad or truncate text; a varchar has no trailing spaces of a char."""
    if isinstance(target, Varbinary):
        return "encode({0})", "encode({0}, 'UTF-8')"
    if source != types.VARCHAR and not isinstance(source, Char):
        raise SeamlineError(
            TYPE_MISMATCH, f"{source} cannot be cast to {target}", hint="Cast it to varchar first."
        )
    if target == types.VARCHAR:
        return "rtrim({0}, ' ')", "rtrim({0})"
    if not isinstance(target, Char):
        raise SeamlineError(
            TYPE_MISMATCH, f"{source} cannot be cast to {target}", hint="Cast it to varchar first."
        )
    filled = f"rpad({{0}}, {target.length}, ' ')"
    return filled, filled


def _number(source: Type, target: Type, *, safe: bool) -> tuple[Template, Template]:
    cast = "TRY_CAST" if safe else "CAST"
    if source in types.FLOATS and isinstance(target, Decimal):
        return _float_to_decimal(target, safe=safe)
    if source == types.DOUBLE and target == types.REAL:  # values out of range become infinite
        infinite = "CAST(sign({0}) * CAST('Infinity' AS DOUBLE) AS {type})"
        return (
            f"(CASE WHEN {{0}} IS NOT NULL THEN coalesce(TRY_CAST({{0}} AS {{type}}), {infinite})"
            " END)",
            "CAST({0} AS {type})",
        )
    if source in types.FLOATS and target in types.INTEGERS:
        if safe:
            guard = "(CASE WHEN isnan({0}) THEN NULL ELSE "
            return (
                guard + "TRY_CAST(round({0}) AS {type}) END)",
                guard
                + "(CASE WHEN abs({0}) < 9.3e18D THEN TRY_CAST(round({0}) AS {type}) END) END)",
            )
        return "CAST(round({0}) AS {type})", "CAST(round({0}) AS {type})"
    if isinstance(source, Decimal) and target in types.INTEGERS:
        duckdb = f"{cast}(round({{0}}) AS {{type}})"
        return duckdb, duckdb if safe else _or_invalid("TRY_CAST(round({0}) AS {type})", target)
    return _plain(safe=safe)


def _or_invalid(tried: str, target: Type) -> str:
    """Wraps Spark's conversion so that it fails as a cast; Spark's own failure is arithmetic."""
    message = f"'INVALID_CAST: the number is not a value of type {target}'"
    return f"(CASE WHEN {{0}} IS NULL THEN NULL ELSE coalesce({tried}, raise_error({message})) END)"


_PLAIN_DIGITS = (
    "(CASE WHEN contains(lower(TEXT), 'e') THEN list_transform(list_transform(list_transform("
    "[lower(TEXT)], lambda v: {{'negative': starts_with(v, '-'),"
    " 'digits': replace(ltrim(split_part(v, 'e', 1), '+-'), '.', ''),"
    " 'point': length(split_part(ltrim(split_part(v, 'e', 1), '+-'), '.', 1))"
    " + TRY_CAST(split_part(v, 'e', 2) AS INTEGER)}}),"
    " lambda v: {{'negative': v['negative'], 'digits': ltrim(v['digits'], '0'),"
    " 'point': v['point'] - length(v['digits']) + length(ltrim(v['digits'], '0'))}}),"
    " lambda v: CASE WHEN v['negative'] THEN '-' ELSE '' END ||"
    " CASE WHEN v['point'] IS NULL THEN 'no such exponent' WHEN v['digits'] = '' THEN '0'"
    " WHEN v['point'] <= 0 THEN '0.' || repeat('0', least(-v['point'], 40)) || v['digits']"
    " WHEN v['point'] < length(v['digits'])"
    " THEN substr(v['digits'], 1, v['point']) || '.' || substr(v['digits'], v['point'] + 1)"
    " ELSE v['digits'] || repeat('0', least(v['point'] - length(v['digits']), 40)) END"
    ")[1] ELSE TEXT END)"
)
"""DuckDB's SQL of a number's text without its exponent, which DuckDB gets wrong in decimals.

Forty zeros are enough: the number is zero in any decimal, or greater than all.
"""


def _float_to_decimal(target: Decimal, *, safe: bool) -> tuple[Template, Template]:
    """Returns casts that round the float's decimal text half away from zero."""
    duckdb = f"TRY_CAST({_PLAIN_DIGITS.replace('TEXT', 'CAST({0} AS VARCHAR)')} AS {{type}})"
    spark = "TRY_CAST(CAST({0} AS STRING) AS {type})"
    if safe:
        return duckdb, spark
    message = f"'INVALID_CAST: the number is not a value of type {target}'"
    return (
        f"(CASE WHEN {{0}} IS NULL THEN NULL ELSE coalesce({duckdb}, error({message})) END)",
        _or_invalid(spark, target),
    )


def _to_text(source: Type) -> tuple[Template, Template]:
    if isinstance(source, Decimal) and source.precision == source.scale:
        # DuckDB omits the zero before the point where the type has no digit for it
        return (
            r"regexp_replace(CAST({0} AS VARCHAR), '^(-?)\.', '\10.')",
            "CAST({0} AS STRING)",
        )
    if source in (*types.INTEGERS, types.BOOLEAN, types.DATE) or isinstance(source, Decimal):
        return "CAST({0} AS VARCHAR)", "CAST({0} AS STRING)"
    if source == types.UUID:
        return "{0}", "{0}"
    if isinstance(source, Interval):
        return intervals.templates(source)
    if isinstance(source, Timestamp):
        moment = "CAST({0} AS TIMESTAMP)" if source.zoned else "{0}"
        duckdb = f"strftime({moment}, '%Y-%m-%d %H:%M:%S.%f')"
        if source.precision < 6:
            duckdb = f"left({duckdb}, {source.precision - 6 - (source.precision == 0)})"
        duckdb = f"(CASE WHEN year({moment}) > 9999 THEN '+' ELSE '' END || {duckdb})"
        fraction = f".{'S' * source.precision}" if source.precision else ""
        spark = f"date_format({{0}}, 'yyyy-MM-dd HH:mm:ss{fraction}')"
        if source.zoned:
            return f"({duckdb} || ' UTC')", f"concat({spark}, ' UTC')"
        return duckdb, spark
    raise SeamlineError(
        NOT_SUPPORTED,
        f"{source} cannot be cast to varchar the same way on both engines",
        hint="Take the fields or elements apart first, or write them as JSON.",
    )


def _from_text(target: Type, *, safe: bool, zone: str) -> tuple[Template, Template]:
    if target in types.INTEGERS:
        return _matching(_INTEGER, target, safe=safe, trim=texts.TRIM_CONTROLS)
    if target in types.FLOATS:
        convert = (_floating_of_text(safe=safe), _plain(safe=safe)[1])
        return _matching(_FLOATING, target, safe=safe, convert=convert, trim=texts.TRIM_CONTROLS)
    if isinstance(target, Decimal):
        duckdb, spark = _plain(safe=safe)
        duckdb = duckdb.replace("{0}", _PLAIN_DIGITS.replace("TEXT", "{0}"))
        if not safe:
            spark = _or_invalid(_plain(safe=True)[1], target)
        return _matching(_NUMBER, target, safe=safe, convert=(duckdb, spark))
    if target == types.DATE:
        return _matching(_DATE, target, safe=safe, trim=texts.TRIM_BLANKS)
    if isinstance(target, Timestamp):
        cast = _plain(safe=safe)
        if not target.zoned:
            cast = _without_zone(*cast)
        elif zone != time_zones.UTC:
            cast = _instant_of_text(*cast, zone)
        if target.precision < 6:
            cast = _fewer_digits(*cast, target.precision)
        pattern = _INSTANT if target.zoned else _LOCAL
        return _matching(pattern, target, safe=safe, convert=cast, trim=texts.TRIM_BLANKS)
    if target == types.UUID:
        return _matching(_UUID, target, safe=safe, convert=("lower({0})", "lower({0})"))
    if target == types.BOOLEAN:
        return _boolean(safe=safe)
    raise SeamlineError(TYPE_MISMATCH, f"varchar cannot be cast to {target}", hint="")


def _floating_of_text(*, safe: bool) -> str:
    """Returns DuckDB's conversion of what matches `_FLOATING`; it has no suffixes and no base 16.

    A power of two is multiplied in halves, of which none is too small or too great for a double.
    """
    digits = "regexp_extract(TEXT, '0[xX]([^pP]*)', 1)"
    half = "pow(2, CAST(EXPONENT {sign} AS DOUBLE))"
    exponent = (
        "(greatest(least(CAST(regexp_extract(TEXT, '[pP]([+-]?[0-9]+)', 1) AS INTEGER), 2200),"
        f" -2200) - 4 * CASE WHEN contains({digits}, '.')"
        f" THEN length(split_part({digits}, '.', 2)) ELSE 0 END)"
    )
    lower = half.format(sign="// 2").replace("EXPONENT", exponent)
    upper = half.format(sign=f"- {exponent} // 2").replace("EXPONENT", exponent)
    whole = f"CAST(CAST('0x' || replace({digits}, '.', '') AS BIGINT) AS DOUBLE)"
    sign = "CASE WHEN starts_with(TEXT, '-') THEN -1 ELSE 1 END"
    cast = "TRY_CAST" if safe else "CAST"
    return (
        f"CASE WHEN contains(lower({{0}}), '0x') THEN CAST({sign} * {whole} * {lower} * {upper}"
        " AS {type})"
        f" ELSE {cast}(rtrim({{0}}, 'fFdD') AS {{type}}) END"
    ).replace("TEXT", "{0}")


def _without_zone(duckdb: str, spark: str) -> tuple[str, str]:
    """Returns casts of the local time that a text begins with."""
    return (
        duckdb.replace("{0}", f"regexp_extract({{0}}, '^{_TIMESTAMP}')"),
        spark.replace("{0}", f"regexp_extract({{0}}, '^{_TIMESTAMP}', 0)"),
    )


def _instant_of_text(duckdb: str, spark: str, zone: str) -> tuple[str, str]:
    """Returns casts of text to an instant, which is in the zone unless the text names another."""
    here = tuple(
        template.replace("{0}", local)
        for template, local in zip(
            time_zones.first_instant_of(zone),
            ("CAST({0} AS TIMESTAMP)", "CAST({0} AS TIMESTAMP_NTZ)"),
            strict=True,
        )
    )
    return (
        f"(CASE WHEN regexp_full_match({{0}}, '{_TIMESTAMP}') THEN {here[0]} ELSE {duckdb} END)",
        f"(CASE WHEN {{0}} RLIKE '^({_TIMESTAMP})\\\\z' THEN {here[1]} ELSE {spark} END)",
    )


def _matching(
    pattern: str,
    target: Type,
    *,
    safe: bool,
    convert: tuple[str, str] | None = None,
    trim: tuple[str, str] = ("{0}", "{0}"),
) -> tuple[Template, Template]:
    """Returns casts of text that matches the pattern exactly; other text is null or an error.

    Args:
        pattern: A pattern that both engines understand the same way.
        target: The type.
        safe: Whether other text is null.
        convert: How each engine converts text that matches; a plain cast by default.
        trim: What each engine takes of the text.
    """
    duckdb, spark = convert or _plain(safe=safe)
    text, spark_text = trim
    duckdb, spark = duckdb.replace("{0}", text), spark.replace("{0}", spark_text)
    failure = f"is not a value of type {target}"
    duckdb_else = f"error('INVALID_CAST: ''' || {{0}} || ''' {failure}')"
    spark_else = f"raise_error(concat('INVALID_CAST: \"', {{0}}, '\" {failure}'))"
    if safe:
        duckdb_else = spark_else = "NULL"
    return (
        f"(CASE WHEN {{0}} IS NULL THEN NULL WHEN regexp_full_match({text}, '{pattern}')"
        f" THEN {duckdb} ELSE {duckdb_else} END)",
        f"(CASE WHEN {{0}} IS NULL THEN NULL WHEN {spark_text} RLIKE '^({pattern})\\\\z'"
        f" THEN {spark} ELSE {spark_else} END)",
    )


def _boolean(*, safe: bool) -> tuple[Template, Template]:
    def template(failure: str) -> str:
        return (
            "(CASE WHEN {0} IS NULL THEN NULL WHEN lower({0}) IN ('t', 'true', '1') THEN TRUE"
            f" WHEN lower({{0}}) IN ('f', 'false', '0') THEN FALSE ELSE {failure} END)"
        )

    if safe:
        return template("NULL"), template("NULL")
    message = "'INVALID_CAST: the text is not a value of type boolean'"
    return template(f"error({message})"), template(f"raise_error({message})")
