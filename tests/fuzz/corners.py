"""Expressions at the corners of values, each drawn from a seed; a real Trino is their judge.

Conditions over a table of floating-point numbers (NaN, zeros of both signs, infinities, null, in
all pairs); calls, casts and operators with extreme arguments; queries that group, sort, join and
frame such values. `corners.txt` has the answers of a Trino (`python -m fuzz.record`).
"""

# ruff: noqa: E501 - what is drawn from stands in pools, as many of a line as are alike

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

from seamline.sql import types
from seamline.sql.types import Field

SEED, CONDITIONS, CALLS, QUERIES = "1", 240, 1200, 90
"""What is recorded."""
FLOATS = (
    "CAST(NULL AS double)",
    "nan()",
    "-0e0",
    "0e0",
    "1e0",
    "-1e0",
    "infinity()",
    "-infinity()",
    "2.5e0",
)
"""What the columns of `numbers` have, all pairs of them in `d` and `e`, and in `r` and `s`."""
_VALUES = (None, math.nan, -0.0, 0.0, 1.0, -1.0, math.inf, -math.inf, 2.5)
COLUMNS = ("d", "e", "f", "r", "s")
FIELDS = (
    Field("n", types.BIGINT, 1),
    *(Field(name, types.DOUBLE, number) for number, name in enumerate("def", 2)),
    *(Field(name, types.REAL, number) for number, name in enumerate("rs", 5)),
)
"""The columns of `numbers`."""
Draw = random.Random
_SIGNS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
_ORDERS = ("ASC", "DESC", "ASC NULLS LAST", "DESC NULLS LAST")
"""Not NULLS FIRST, where NaN is the least number in Trino."""


def _places() -> Iterator[tuple[int, int, int, int]]:
    """A number, and which of `FLOATS` are in d and r, in e and s, and in f."""
    count = len(FLOATS)
    for n in range(count * count):
        yield n, n % count, n // count, (n * 5 + n // count * 2 + 3) % count


def numbers() -> list[tuple[int | float | None, ...]]:
    """The rows of `numbers`."""
    return [(n, *(_VALUES[place] for place in (d, e, f, d, e))) for n, d, e, f in _places()]


def numbers_query() -> str:
    """The rows of `numbers` in SQL."""
    rows = (f"({n}, {FLOATS[d]}, {FLOATS[e]}, {FLOATS[f]})" for n, d, e, f in _places())
    return (
        "SELECT CAST(n AS bigint) AS n, d, e, f, CAST(d AS real) AS r, CAST(e AS real) AS s"
        f" FROM (VALUES {', '.join(rows)}) AS v(n, d, e, f)"
    )


def drawn() -> dict[str, list[str]]:
    """What is recorded, by section."""
    return {
        "conditions": list(conditions(SEED, CONDITIONS)),
        "calls": [*CHOSEN, *calls(SEED, CALLS)],
        "queries": [*CHOSEN_QUERIES, *queries(SEED, QUERIES)],
    }


# --- Conditions ----------------------------------------------------------------------------------


def conditions(seed: str, count: int) -> Iterator[str]:
    """Conditions over `numbers`."""
    for number in range(count):
        chance = Draw(f"{seed}/condition/{number}")
        yield _condition(chance, 2)


def _operand(chance: Draw) -> str:
    if chance.random() < 0.65:
        return chance.choice(COLUMNS)
    return chance.choice((*FLOATS, "REAL '1'", "CAST(nan() AS real)", "1"))


def _number(chance: Draw, depth: int) -> str:
    if depth <= 0 or chance.random() < 0.5:
        return _operand(chance)
    one, other = _operand(chance), _operand(chance)
    match chance.randrange(7):
        case 0:
            return f"nullif({one}, {other})"
        case 1:
            return f"{chance.choice(('greatest', 'least'))}({one}, {other}, {_operand(chance)})"
        case 2:
            return f"coalesce({one}, {other})"
        case 3:
            return f"CASE {one} WHEN {other} THEN 1e0 WHEN {_operand(chance)} THEN 2e0 ELSE 3e0 END"
        case 4:
            return f"if({_condition(chance, 0)}, {one}, {other})"
        case 5:
            return f"({one} {chance.choice('+-*/%')} {other})"
    return f"{chance.choice(('abs', 'sign', 'round', 'floor', 'sqrt'))}({one})"


def _values(chance: Draw, *, may_be_nan: bool) -> str:
    """A query of one column."""
    if chance.random() < 0.3:
        values = [value for value in FLOATS if may_be_nan or "nan" not in value]
        return "VALUES " + ", ".join(chance.sample(values, chance.choice((1, 2, 3))))
    column = chance.choice(COLUMNS)
    rest = "" if may_be_nan else f" AND NOT coalesce(is_nan(u.{column}), FALSE)"
    where = chance.choice(
        (*(f"u.n < {n}" for n in (0, 3, 20, 81)), *(f"u.{column} {sign} 1e0" for sign in "<>="))
    )
    return f"SELECT u.{column} FROM numbers AS u WHERE {where}{rest}"


def _may_be_in(item: str, one: str) -> bool:
    """Whether Trino answers `one IN (item)` as `one = item`.

    It takes `x IN (x)` for true whatever x is, and NaN for equal to itself among constants.
    """
    return item not in one and not ("nan" in item and "nan" in one)


def _condition(chance: Draw, depth: int) -> str:
    one = _number(chance, depth - 1)
    other = _number(chance, depth - 1)
    third = _operand(chance)
    word = chance.choice(("", "NOT "))
    roll = chance.randrange(14 if depth > 0 else 6)
    if roll <= 1:
        return f"({one} {chance.choice(_SIGNS)} {other})"
    if roll <= 3:
        symmetric = "SYMMETRIC " if chance.random() < 0.2 else ""
        return f"({one} {word}BETWEEN {symmetric}{other} AND {third})"
    if roll <= 5:
        items = [item for item in (_operand(chance) for _ in range(6)) if _may_be_in(item, one)]
        return f"({one} {word}IN ({', '.join(items[: chance.choice((1, 2, 3))] or ['1e0'])}))"
    if roll == 6:
        return f"({one} {word}IN ({_values(chance, may_be_nan=False)}))"
    if roll == 7:
        sign = chance.choice(("<", "<=", ">", ">="))
        quantifier = chance.choice(("ANY", "ALL"))
        if chance.random() < 0.3:
            sign, quantifier = chance.choice((("=", "ANY"), ("<>", "ALL")))
        values = _values(chance, may_be_nan=sign not in {"=", "<>"})
        return f"({one} {sign} {quantifier} ({values}))"
    if roll == 8:
        pairs = ", ".join(f"({_operand(chance)}, {_operand(chance)})" for _ in range(2))
        return f"(({one}, {other}) {word}IN ({pairs}))"
    if roll == 9:
        return f"(({one}, {other}) {chance.choice(_SIGNS[:2] + _SIGNS[6:])} ({third}, 1e0))"
    if roll == 10:
        function = chance.choice(("contains(ARRAY[{0}, {1}], {2})", "ARRAY[{0}, {1}] = ARRAY[{2}, 1e0]",
            "any_match(ARRAY[{0}, {1}], x -> x > {2})", "none_match(ARRAY[{0}, {1}], x -> x = {2})",
            "is_nan({0})", "arrays_overlap(ARRAY[{0}, {1}], ARRAY[{2}])"))  # fmt: skip
        return function.format(one, other, third)
    if roll == 11:
        return f"(NOT {_condition(chance, depth - 1)})"
    joint = chance.choice(("AND", "OR", "AND NOT"))
    return f"({_condition(chance, depth - 1)} {joint} {_condition(chance, depth - 1)})"


# --- Queries -------------------------------------------------------------------------------------


def queries(seed: str, count: int) -> Iterator[str]:
    """Queries over `numbers`, whose rows are compared without regard to order."""
    for number in range(count):
        yield _query(Draw(f"{seed}/query/{number}"))


def _query(chance: Draw) -> str:
    a, b = chance.choice(COLUMNS), chance.choice(COLUMNS)
    c = chance.choice("def")  # Trino joins zeros of both signs if they are double, not real
    where = f" WHERE {_condition(chance, 1)}" if chance.random() < 0.4 else ""
    order = f"{a} {chance.choice(_ORDERS)}, n"
    frame = chance.choice(("ROWS 2 PRECEDING", "RANGE UNBOUNDED PRECEDING",
        "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW", "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING"))  # fmt: skip
    sign = chance.choice(_SIGNS[:6])
    return chance.choice((
        f"SELECT {a}, count(*), count({b}) FROM numbers{where} GROUP BY {a}",
        f"SELECT {a}, {b}, count(*) FROM numbers{where} GROUP BY ROLLUP ({a}, {b})",
        f"SELECT DISTINCT {a}, {b} FROM numbers{where}",
        f"SELECT count(DISTINCT {a}), approx_distinct({b}), count({a}) FROM numbers{where}",
        f"SELECT {b}, min({a}), max({a}) FROM numbers{where} GROUP BY {b}",
        f"SELECT min({a}), max({a}), count(*) FROM numbers WHERE {a} {sign} {_operand(chance)}",
        f"SELECT {b}, min(n), max_by(n, n), count(*) FROM numbers GROUP BY {b}",
        f"SELECT min_by({a}, n), max_by({a}, n), max(n) FROM numbers{where}",
        f"SELECT {b}, max_by({b}, {a}) , min_by({b}, {a}) FROM numbers{where} GROUP BY {b}",
        f"SELECT max({a}, 3), min({a}, 3) FROM numbers{where}",
        f"SELECT {b}, sum({a}), avg({a}) FROM numbers{where} GROUP BY {b}",
        f"SELECT n, row_number() OVER (ORDER BY {order}) FROM numbers{where}",
        f"SELECT n, rank() OVER (PARTITION BY {b} ORDER BY {a} {chance.choice(_ORDERS)}) FROM numbers",
        f"SELECT n, count({a}) OVER (ORDER BY {a} {frame.replace('ROWS 2 PRECEDING', 'RANGE UNBOUNDED PRECEDING')}) FROM numbers{where}",
        f"SELECT n, lag({a}) OVER (ORDER BY {b} {chance.choice(_ORDERS)}, n), first_value({a}) OVER (ORDER BY {order}) FROM numbers",
        f"SELECT array_agg(n ORDER BY {order}) FROM numbers{where}",
        f"SELECT x.n, y.n FROM numbers AS x JOIN numbers AS y ON x.{c} {sign} y.{b} WHERE x.n < 12 AND y.n < 30",
        f"SELECT x.n, y.n FROM numbers AS x LEFT JOIN numbers AS y ON x.{c} = y.{b} AND y.n < 20 WHERE x.n < 30",
        f"SELECT x.n, y.n FROM numbers AS x FULL JOIN numbers AS y ON x.{c} = y.{b} AND x.n < 15 AND y.n < 15",
        f"SELECT {c}, count(*) FROM numbers AS x JOIN numbers AS y USING ({c}) GROUP BY {c}",
        f"SELECT {a} FROM numbers{where} {chance.choice(('UNION', 'INTERSECT', 'EXCEPT'))} SELECT {b} FROM numbers WHERE n > 40",
        f"SELECT n FROM numbers AS x WHERE {chance.choice(('', 'NOT '))}EXISTS (SELECT 1 FROM numbers AS y WHERE y.n < 10 AND y.{b} {sign} x.{a})",
        f"SELECT map_entries(map_filter(histogram({a}), (k, v) -> NOT is_nan(k))) IS NULL, count_if({a} {sign} {b}), bool_or({a} {sign} {b}) FROM numbers{where}",
        f"SELECT n, (SELECT max(y.{a}) FROM numbers AS y WHERE y.{b} {sign} x.{a}) FROM numbers AS x WHERE n < 20",
        f"SELECT {a} {sign} {b}, count(*) FROM numbers{where} GROUP BY 1",
        f"SELECT count(*) FILTER (WHERE {_condition(chance, 1)}), count(*) FROM numbers{where}",
        f"SELECT n FROM numbers{where} ORDER BY {order} LIMIT 20",
    ))  # fmt: skip


# --- Calls ---------------------------------------------------------------------------------------

HUGE = (
    "9223372036854775807",
    "BIGINT '-9223372036854775808'",
    "2147483648",
    "-2147483649",
    "4294967297",
    "2147483647",
)
_WHOLE = ("0", "1", "-1", "2", "-2", "3", "5", "-5", *HUGE, "CAST(NULL AS bigint)")
_SIZES = tuple(n for n in _WHOLE if n != "2147483647")
"""Without the size that either engine could just fill its memory with."""
_TEXTS = ("''", "'a'", "'abc'", "'a,b,,c'", "'ä€😀'", "' a b '", "CAST(NULL AS varchar)")
_SMALL = ("','", "'b'", "''", "'😀'", "'x'")
TEXT_CALLS = (
    "substr({t}, {w})", "substr({t}, {w}, {w})", "substring({t}, {w}, {w})", "substring({t} FROM {w} FOR {w})",
    "lpad({t}, {z}, {s})", "rpad({t}, {z}, {s})", "split_part({t}, {s}, {w})", "split({t}, {s}, {w})",
    "strpos({t}, {s})", "strpos({t}, {s}, {w})", "position({s} IN {t})", "replace({t}, {s}, {s})", "reverse({t})",
    "overlay({t} PLACING {s} FROM {w})", "overlay({t} PLACING {s} FROM {w} FOR {w})", "chr({w})",
    "to_base({w}, {w})", "from_base({t}, {w})", "repeat({s}, {z})", "length({t})", "translate({t}, {s}, {s})",
    "concat_ws({s}, {t}, {t})", "starts_with({t}, {s})", "trim(BOTH {s} FROM {t})", "to_utf8(substr({t}, {w}, {w}))",
    "substr(to_utf8({t}), {w})", "substr(to_utf8({t}), {w}, {w})", "lpad(to_utf8({t}), {z}, to_utf8({s}))",
    "regexp_extract({t}, '(.)(b)?', {w})", "regexp_position({t}, {s}, {w})", "regexp_position({t}, {s}, {w}, {w})",
    "split_to_map({t}, {s}, '=')", "CAST({t} AS varchar(2))", "CAST({t} AS char(3))", "format('%s', {w})", "format('%,d', {w})",
    "url_extract_port({t})", "json_array_get('[1, 2, 3]', {w})", "upper({t})", "levenshtein_distance({t}, {s})",
)  # fmt: skip

_ARRAYS = ("ARRAY[]", "ARRAY[1e0]", "ARRAY[nan()]", "ARRAY[NULL]", "ARRAY[1e0, nan(), NULL, 1e0]", "ARRAY[-0e0, 0e0]",
    "ARRAY[2e0, 1e0, 2e0]", "CAST(NULL AS array(double))", "ARRAY[nan(), nan(), infinity()]", "ARRAY[NULL, NULL, 2e0]")  # fmt: skip
_WORDS = (
    "ARRAY[]",
    "ARRAY['a']",
    "ARRAY[NULL]",
    "ARRAY['b', 'a', NULL, 'a']",
    "ARRAY['']",
    "CAST(NULL AS array(varchar))",
)
_ROWS = ("ARRAY[ROW(1, 'a'), ROW(2, NULL)]", "ARRAY[ROW(1, 'a'), ROW(1, 'a')]", "CAST(ARRAY[] AS array(row(integer, varchar)))",
    "ARRAY[ROW(2, NULL)]", "ARRAY[ROW(1, 'a'), NULL]")  # fmt: skip
_NESTED = ("ARRAY[ARRAY[1], ARRAY[2, 3]]", "ARRAY[ARRAY[1], NULL]", "ARRAY[ARRAY[]]", "ARRAY[ARRAY[NULL], ARRAY[1]]",
    "CAST(ARRAY[] AS array(array(integer)))", "ARRAY[ARRAY[1], ARRAY[1]]")  # fmt: skip
_PAIRED = ("array_except({A}, {A})", "array_intersect({A}, {A})", "array_union({A}, {A})", "arrays_overlap({A}, {A})",
    "{A} || {A}", "contains_sequence({A}, {A})", "{A} = {A}", "{A} IS DISTINCT FROM {A}", "zip({A}, {A})",
    "array_distinct({A})", "cardinality({A})", "reverse({A})", "slice({A}, {w}, {m})", "element_at({A}, {w})",
    "trim_array({A}, {w})", "ngrams({A}, {w})", "combinations({A}, {m})", "flatten(ARRAY[{A}, {A}])", "{A}[{w}]",
    "array_first({A})", "array_last({A})", "array_except(array_distinct({A}), {A})")  # fmt: skip
_LOOKS = ("contains({A}, {E})", "array_position({A}, {E})", "array_remove({A}, {E})", "{A} || {E}", "{E} || {A}",
    "filter({A}, x -> x = {E})", "any_match({A}, x -> x = {E})", "all_match({A}, x -> x = {E})", "none_match({A}, x -> x <> {E})",
    "transform({A}, x -> x = {E})", "repeat({E}, {m})", "find_first({A}, x -> x = {E})")  # fmt: skip
_FLOAT_ARRAYS = ("array_max({A})", "array_min({A})", "array_sort({A})", "array_histogram({A})", "cosine_similarity({A}, {A})",
    "dot_product({A}, {A})", "euclidean_distance({A}, {A})", "reduce({A}, 0e0, (s, x) -> s + x, s -> s)",
    "array_sort({A}, (x, y) -> if(x < y, 1, if(x = y, 0, -1)))", "zip_with({A}, {A}, (x, y) -> x < y)",
    "array_average({A})", "array_sum({A})", "CAST({A} AS array(integer))", "CAST({A} AS array(real))")  # fmt: skip
_WORD_ARRAYS = ("array_join({A}, {s})", "array_join({A}, {s}, 'n')", "array_sort({A})", "array_max({A})", "array_min({A})",
    "concat_ws({s}, {A})", "array_histogram({A})", "CAST({A} AS array(double))")  # fmt: skip

_DIGITS = ("1", "12", ".5", "5.", "1.5", "0", "007", "1e3", "1E-2", "1.5e+2", ".5e1", "5.e1", "1e400", "1e-400", "1e39",
    "9223372036854775808", "2147483648", "128", "0x1p3", "0x10", "0X1P-2", "1_000", "1,000", "١٢", "inf", "Infinity",
    "nan", "NaN", "NAN", "INF", "infinity", "INFINITY", "e5", ".", "", "1e", "1e+", "true", "--1", "1-", "12345678901234567890123456789012345678",
    "1234567890123456789012345678901234567890", "0.1234567890123456789", "1.7976931348623159e308", "4.9e-325", "3.4028236e38")  # fmt: skip
_SUFFIXES = ("", "", "", "f", "F", "d", "D", "L", "l", "fd", " f", "_")
_LEADS = ("", "", "", "+", "-", "+-", " ", "\t", "\u3000", "- ", "\u00a0", "\x01")
NUMBER_TYPES = (
    "double",
    "real",
    "bigint",
    "integer",
    "smallint",
    "tinyint",
    "decimal(38,0)",
    "decimal(10,2)",
    "decimal(3,3)",
    "boolean",
)
_LIMITS = ("nan()", "infinity()", "-infinity()", "1e308", "-1e308", "9.3e18", "9223372036854775807e0", "-9223372036854775808e0",
    "-9.3e18", "2147483647.5e0", "2147483647.4e0", "-2147483648.5e0", "-2147483648.6e0", "127.5e0", "127.4e0", "-128.5e0", "-128.6e0",
    "0.5e0", "-0.5e0", "1.5e0", "2.5e0", "0.49999999999999994e0", "1e37", "1e38", "-0e0", "4.9e-324", "REAL '3.4e38'", "CAST(nan() AS real)",
    "CAST(infinity() AS real)", "REAL '0.1'", "9223372036854775807", "DECIMAL '99999999999999999999999999999999999999'", "DECIMAL '0.5'",
    "DECIMAL '-0.5'", "DECIMAL '127.5'", "DECIMAL '1.005'", "TRUE", "32767", "1e23", "1.1e0", "123456789.125e0", "1e15", "1e-7")  # fmt: skip
MATH = ("abs({l})", "sign({l})", "ceil({l})", "floor({l})", "round({l})", "round({l}, {w})", "truncate({l})", "sqrt({l})", "cbrt({l})", "ln({l})",
    "exp({l})", "log2({l})", "log10({l})", "power({l}, {l})", "mod({l}, {l})", "{l} + {l}", "{l} - {l}", "{l} * {l}", "{l} / {l}", "{l} % {l}",
    "-({l})", "greatest({l}, {l})", "least({l}, {l}, {l})", "sin({l})", "atan2({l}, {l})", "is_finite({l})", "width_bucket({l}, {l}, {l}, 5)",
    "CAST({l} AS varchar)", "CAST({l} AS json)", "format('%.3f', {l})", "nullif({l}, {l})", "to_ieee754_64({l})", "bitwise_left_shift({w}, {w})",
    "bitwise_right_shift({w}, {w})", "bitwise_right_shift_arithmetic({w}, {w})", "bit_count({w}, {w})", "{w} + {w}", "{w} * {w}", "{w} / {w}",
    "{w} % {w}", "abs({w})", "-({w})", "format_number({l})", "truncate({l}, 1)", "{w} / {l}", "from_unixtime({l})", "cosh({l})", "tanh({l})")  # fmt: skip

_STAMPS = tuple(
    f"TIMESTAMP '{day} {clock}{part}{zone}'"
    for day, clock in (
        ("2024-02-29", "23:59:59"),
        ("1969-12-31", "00:00:00"),
        ("2023-12-31", "12:30:00"),
    )
    for part in ("", ".5", ".123", ".123456")
    for zone in ("", " UTC", " Europe/Berlin", " +05:30")
)
_CLOCKS = tuple(
    f"TIME '{c}'" for c in ("23:59:59", "00:00:00.5", "12:30:00.123", "12:30:00.123456", "00:00:00")
)
_DATES = ("DATE '2024-02-29'", "DATE '1969-12-31'", "DATE '2023-01-31'")
_UNITS = ("millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
_AMOUNTS = ("0", "1", "-1", "12", "-13", "999", "1001", "100000")


def calls(seed: str, count: int) -> Iterator[str]:
    """Calls with constants, one statement each if one fails."""
    kinds = tuple(_KINDS)
    for number in range(count):
        question = _KINDS[kinds[number % len(kinds)]](Draw(f"{seed}/call/{number}"))
        if not any(part in question for part in _REFUSED):
            yield question


def _filled(chance: Draw, template: str, **pools: Sequence[str]) -> str:
    """A template with a value of a pool in each hole."""
    known = {
        "w": _WHOLE,
        "z": _SIZES,
        "t": _TEXTS,
        "s": _SMALL,
        "l": _LIMITS,
        "m": ("0", "1", "2", "-1", "6"),
        **pools,
    }
    parts, rest = [], template
    while "{" in rest:
        start, _, rest = rest.partition("{")
        name, _, rest = rest.partition("}")
        parts += [start, chance.choice(known[name])]
    return "".join([*parts, rest])


def _array(chance: Draw) -> str:
    form = chance.choice((*_PAIRED, *_LOOKS, *_FLOAT_ARRAYS, *_WORD_ARRAYS))
    if form in _FLOAT_ARRAYS:
        return _filled(chance, form, A=_ARRAYS)
    if form in _WORD_ARRAYS:
        return _filled(chance, form, A=_WORDS)
    arrays, elements = chance.choice((
        (_ARRAYS, ("1e0", "nan()", "CAST(NULL AS double)", "0e0")), (_ARRAYS, ("1e0", "nan()")),
        (_WORDS, ("'a'", "''", "CAST(NULL AS varchar)")), (_ROWS, ("ROW(1, 'a')", "ROW(2, NULL)")),
        (_NESTED, ("ARRAY[1]", "ARRAY[2, 3]")),
    ))  # fmt: skip
    return _filled(chance, form, A=arrays, E=elements)


def _like(chance: Draw) -> str:
    value = chance.choice(
        ("'a'", "'a_b'", "'a%b'", "'a#b'", "'100%'", "''", "'a\\b'", "'#'", "'a##b'", "'😀'")
    )
    pattern = chance.choice(("'a'", "'a#_b'", "'a#%b'", "'a#'", "'#'", "'a#b'", "'##'", "'a##b'", "'%#%'", "'a##'", "'a\\_b'",
        "'%'", "'_'", "'a%%b'", "'100\\%'", "'#a%'", "'%##%'", "''", "'a\\'", "'😀'", "'_#'"))  # fmt: skip
    escape = chance.choice(
        (
            "",
            " ESCAPE '#'",
            " ESCAPE '#'",
            " ESCAPE '\\'",
            " ESCAPE '%'",
            " ESCAPE '_'",
            " ESCAPE ''",
            " ESCAPE '##'",
            " ESCAPE 'a'",
        )
    )
    return f"{value} {chance.choice(('', 'NOT '))}LIKE {pattern}{escape}"


def _cast(chance: Draw) -> str:
    word = chance.choice(("CAST", "TRY_CAST"))
    if chance.random() < 0.6:
        text = chance.choice(_LEADS) + chance.choice(_DIGITS) + chance.choice(_SUFFIXES)
        if chance.random() < 0.15:
            text += chance.choice((" ", "\t", "\u3000", "\x00"))
        target = chance.choice(NUMBER_TYPES)
        return f"{word}('{text}' AS {target})"
    return f"{word}({chance.choice(_LIMITS)} AS {chance.choice((*NUMBER_TYPES, 'varchar'))})"


def _moment(chance: Draw) -> str:
    value = chance.choice((*_STAMPS, *_STAMPS, *_CLOCKS, *_DATES))
    group = next(g for g in (_STAMPS, _CLOCKS, _DATES) if value in g)
    unit, amount = chance.choice(_UNITS), chance.choice(_AMOUNTS)
    is_early = value.startswith("TIMESTAMP '1969")  # whose time of day Trino writes as garbage
    form = chance.choice((f"date_add('{unit}', {amount}, {value})",) * 3 + (
        f"date_diff('{unit}', {value}, {chance.choice(group)})", f"date_trunc('{unit}', {value})",
        f"{value} + INTERVAL '{amount}' {unit.upper() if unit not in ('millisecond', 'week', 'quarter') else 'SECOND'}",
        f"{value} - INTERVAL '0.001' SECOND", f"{value} + INTERVAL '1.5' SECOND", f"CAST({value} AS timestamp({chance.choice('0136')}))",
        f"CAST({value} AS date)", f"CAST({value} AS {'date' if is_early else 'time(' + chance.choice('0136') + ')'})", f"to_unixtime({value})", f"{value} - {chance.choice(group)}",
        f"{value} < {chance.choice(group)}", f"greatest({value}, {chance.choice(group)})", f"extract({chance.choice(('MILLISECOND', 'SECOND', 'WEEK', 'YOW', 'DOW'))} FROM {value})",
    ))  # fmt: skip
    if form.startswith(("date_add", "date_trunc", "CAST", "greatest")) or "INTERVAL" in form:
        return chance.choice(
            (f"CAST({form} AS varchar)", f"CAST({form} AS varchar)", f"typeof({form})")
        )
    return f"CAST({form} AS varchar)"


CHOSEN = (
    "NOT (nan() BETWEEN 0 AND CAST(NULL AS double))",
    *(f"date_add('millisecond', {amount}, {stamp}) = {stamp}" for amount in (1, 499, 500, -500, -501)
      for stamp in ("TIMESTAMP '2024-01-01 00:00:00'", "CAST('1960-01-01 00:00:00.1' AS timestamp(1))",
                    "TIMESTAMP '2024-01-01 00:00:00 UTC'", "TIME '00:00:00'")),
    "array_except(ARRAY[2, 1, 2, NULL, NULL], CAST(ARRAY[] AS array(integer)))",
    "array_except(ARRAY[nan(), nan()], CAST(ARRAY[] AS array(double)))",
    *(f"TRY_CAST('{text}' AS {type_})" for type_ in ("double", "real", "bigint", "decimal(38,2)")
      for text in ("7F", "7d", "0x1p3", "-0x.8p1f", "0x1p-1074", "0x1.8p-1075", "0x1p1024", "0x1F", "1_0", "inf", "+NaN", "-Infinity",
                   "1e400", "1e-400", " 7", "\t7", "\u00a07", "\u30007", "+.5", "5.", ".", "1e")),
    *(f"TRY_CAST({value} AS {type_})" for value in ("TRUE", "FALSE") for type_ in ("decimal(3,3)", "decimal(5,2)", "real")),
    *(f"TRY_CAST('{text}' AS {type_})" for type_ in ("date", "timestamp(3)", "time(3)")
      for text in ("\t2024-01-05", "\u30002024-01-05", "\u00a02024-01-05", "2024-01-05\t", " 01:02:03", "01:02:03\t")),
    *(f"substr('abc', {start}, {length})" for start in ("2", *HUGE) for length in ("1", *HUGE)),
    "dot_product(ARRAY[1e0, NULL], ARRAY[1e0, 2e0])", "euclidean_distance(ARRAY[1e0, 3e0], ARRAY[1e0, NULL])",
    "cosine_similarity(ARRAY[1e0, NULL], ARRAY[1e0, 2e0])",
)  # fmt: skip
"""Calls that were answered otherwise once."""
_DATES_OF_FRAMES = "(VALUES DATE '2024-01-31', DATE '2024-02-29', DATE '2024-03-01', DATE '2024-03-29', DATE '2024-03-31', NULL) AS v(x)"
CHOSEN_QUERIES = (
    *(f"SELECT x, count(*) OVER (ORDER BY x{order} RANGE BETWEEN {frame}) FROM {_DATES_OF_FRAMES}"
      for order in ("", " DESC")
      for frame in ("INTERVAL '1' MONTH PRECEDING AND INTERVAL '1' DAY FOLLOWING", "INTERVAL '1' DAY PRECEDING AND INTERVAL '1' MONTH FOLLOWING",
                    "INTERVAL '2' MONTH PRECEDING AND INTERVAL '40' DAY PRECEDING", "INTERVAL '1' DAY FOLLOWING AND INTERVAL '1' MONTH FOLLOWING")),
    f"SELECT x, count(*) OVER (ORDER BY x RANGE BETWEEN INTERVAL '1' YEAR PRECEDING AND INTERVAL '36' HOUR FOLLOWING)"
    f" FROM (SELECT CAST(x AS timestamp) AS x FROM {_DATES_OF_FRAMES}) AS w",
    "SELECT x LIKE p ESCAPE '#' FROM (VALUES ('a#b', 'a##b'), ('a%', 'a#%'), (NULL, '#_'), ('a', NULL)) AS v(x, p)",
)  # fmt: skip
"""Queries that were answered otherwise once."""

_REFUSED = ("array_sort(CAST(NULL", "100000")
"""What is in calls that fail by name: a null array with a lambda, and years beyond 9999."""
_KINDS: dict[str, Callable[[Draw], str]] = {
    "text": lambda chance: _filled(chance, chance.choice(TEXT_CALLS)),
    "array": _array,
    "like": _like,
    "cast": _cast,
    "moment": _moment,
    "math": lambda chance: _filled(chance, chance.choice(MATH)),
}
