"""Functions of arrays.

Both engines have most of them; templates correct how each handles nulls, positions out of range and
empty arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from seamline.sql import types
from seamline.sql.functions.registry import kernel, scalar
from seamline.sql.kernels import arrays
from seamline.sql.kernels.kernel import by_row
from seamline.sql.templates import DUCKDB, SPARK, Template, row_of
from seamline.sql.types import Type


def _unless(condition: str, message: str, duckdb: str, spark: str) -> tuple[str, str]:
    """Returns templates that fail where a condition holds; SIZE in it counts elements."""
    error = f"error('INVALID_ARGUMENT: {message}')"
    return (
        f"(CASE WHEN {condition.replace('SIZE', 'len')} THEN {error} ELSE {duckdb} END)",
        f"(CASE WHEN {condition.replace('SIZE', 'size')} THEN raise_{error} ELSE {spark} END)",
    )


def _looked_for(duckdb: str, spark: str, nowhere: tuple[str, str]) -> tuple[Template, Template]:
    """Returns templates of a search for {1} in {0}; in the engines NaN equals itself.

    Args:
        duckdb: The search in DuckDB.
        spark: The search in Spark.
        nowhere: Its result on either if {0} has no such element.
    """

    def template(search: str, without: str) -> Template:
        def render(args: Sequence[str], arguments: Sequence[Type], _: Type) -> str:
            position = search.format(*args)
            if arguments[1] not in types.FLOATS:
                return position
            return (
                f"(CASE WHEN {args[0]} IS NOT NULL AND isnan({args[1]})"
                f" THEN {without.format(*args)} ELSE {position} END)"
            )

        return render

    return template(duckdb, nowhere[0]), template(spark, nowhere[1])


# --- Size, and elements by position --------------------------------------------------------------

scalar("cardinality", "array(E) -> bigint", "len({0})", "CAST(size({0}) AS BIGINT)")
_NO_NULL = "len(list_filter({0}, lambda x: x IS NULL)) = 0"
scalar(
    "contains",
    "array(E), E -> boolean",
    *_looked_for(
        "(CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN list_contains({0}, {1}) THEN TRUE"
        f" WHEN {_NO_NULL} THEN FALSE END)",
        "array_contains({0}, {1})",
        (
            f"CASE WHEN {_NO_NULL} THEN FALSE END",
            "CASE WHEN NOT exists({0}, x -> x IS NULL) THEN FALSE END",
        ),
    ),
)
_FROM_ONE = "'INVALID_ARGUMENT: array positions start at 1'"
scalar(
    "element_at",
    "array(E), bigint -> E",
    f"(CASE WHEN {{1}} = 0 AND {{0}} IS NOT NULL THEN error({_FROM_ONE})"
    " ELSE list_extract({0}, {1}) END)",
    f"(CASE WHEN {{1}} = 0 AND {{0}} IS NOT NULL THEN raise_error({_FROM_ONE})"
    " ELSE try_element_at({0}, CAST(greatest(least({1}, 2147483647), -2147483647) AS INT)) END)",
)
scalar(
    "$subscript",
    "array(E), bigint -> E",
    "(CASE WHEN {0} IS NOT NULL AND ({1} < 1 OR {1} > len({0})) THEN"
    " error('INVALID_ARGUMENT: the array has no element ' || CAST({1} AS VARCHAR))"
    " ELSE list_extract({0}, {1}) END)",
    "(CASE WHEN {0} IS NOT NULL AND ({1} < 1 OR {1} > size({0})) THEN"
    " raise_error(concat('INVALID_ARGUMENT: the array has no element ', CAST({1} AS STRING)))"
    " ELSE element_at({0}, CAST({1} AS INT)) END)",
)
scalar(
    "array_join",
    "array(varchar), varchar -> varchar",
    "substr(list_reduce(list_transform(list_filter({0}, lambda x: x IS NOT NULL),"
    " lambda x: {1} || x), lambda x, y: x || y, ''), length({1}) + 1)",
    "array_join({0}, {1})",
)
scalar(
    "array_join",
    "array(varchar), varchar, varchar -> varchar",
    "(CASE WHEN {2} IS NOT NULL THEN substr(list_reduce(list_transform(list_transform({0},"
    " lambda x: coalesce(x, {2})), lambda x: {1} || x), lambda x, y: x || y, ''), length({1}) + 1)"
    " END)",
    "(CASE WHEN {2} IS NOT NULL THEN array_join({0}, {1}, {2}) END)",
)
scalar("array_first", "array(E) -> E", "{0}[1]", "try_element_at({0}, 1)")
scalar("array_last", "array(E) -> E", "{0}[-1]", "try_element_at({0}, -1)")
scalar(
    "array_position",
    "array(E), E -> bigint",
    *_looked_for(
        "(CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL"
        " THEN CAST(coalesce(list_position({0}, {1}), 0) AS BIGINT) END)",
        "array_position({0}, {1})",
        ("CAST(0 AS BIGINT)", "CAST(0 AS BIGINT)"),
    ),
)
scalar(
    "slice",
    "array(E), bigint, bigint -> array(E)",
    *_unless(
        "{1} = 0 OR {2} < 0",
        "slice() takes positions from 1, and no negative length",
        "(CASE WHEN {2} IS NULL THEN NULL"
        " WHEN {1} > 0 THEN {0}[{1}:{1} + least({2}, len({0})) - 1]"
        " WHEN {1} < -len({0}) THEN {0}[1:0]"
        " ELSE {0}[len({0}) + {1} + 1:len({0}) + {1} + least({2}, len({0}))] END)",
        "(CASE WHEN {1} IS NOT NULL AND {2} IS NOT NULL"
        " THEN slice({0}, CAST(greatest(least({1}, 2147483647), -2147483647) AS INT),"
        " CAST(least({2}, size({0})) AS INT)) END)",
    ),
)
scalar(
    "trim_array",
    "array(E), bigint -> array(E)",
    *_unless(
        "{1} < 0 OR {1} > SIZE({0})",
        "trim_array() cannot remove more elements than there are",
        "{0}[1:len({0}) - {1}]",
        "slice({0}, 1, CAST(size({0}) - {1} AS INT))",
    ),
)
scalar("reverse", "array(E) -> array(E)", "list_reverse({0})", "reverse({0})")
scalar(
    "shuffle",
    "array(E) -> array(E)",
    "list_transform(list_sort(list_transform({0}, lambda x: {{'r': random(), 'v': x}})),"
    " lambda x: x['v'])",
    "shuffle({0})",
)

# --- Sets ----------------------------------------------------------------------------------------

_FIRST = "list_position({0}, x) = i"
scalar(
    "array_distinct",
    "array(E) -> array(E)",
    f"list_filter({{0}}, lambda x, i: {_FIRST})",
    "array_distinct({0})",
)
scalar(  # Trino keeps equal elements where there is nothing to leave out
    "array_except",
    "array(E), array(E) -> array(E)",
    "(CASE WHEN len({1}) = 0 THEN {0} WHEN {1} IS NOT NULL THEN list_filter({0}, lambda x, i:"
    f" {_FIRST} AND list_position({{1}}, x) IS NULL) END)",
    "(CASE WHEN size({1}) = 0 THEN {0} ELSE array_except({0}, {1}) END)",
)
scalar(  # in the order of the longer array
    "array_intersect",
    "array(E), array(E) -> array(E)",
    "list_transform(list_transform([{{'a': {0}, 'b': {1}}}], lambda m:"
    " CASE WHEN len(m['a']) < len(m['b']) THEN {{'a': m['b'], 'b': m['a']}} ELSE m END),"
    " lambda m: CASE WHEN m['b'] IS NOT NULL THEN list_filter(m['a'], lambda x, i:"
    " list_position(m['a'], x) = i AND list_position(m['b'], x) IS NOT NULL) END)[1]",
    "(CASE WHEN size({0}) < size({1}) THEN array_intersect({1}, {0})"
    " ELSE array_intersect({0}, {1}) END)",
)
scalar(
    "array_union",
    "array(E), array(E) -> array(E)",
    "list_transform([{0} || {1}], lambda a:"
    " list_filter(a, lambda x, i: list_position(a, x) = i))[1]",
    "array_union({0}, {1})",
)
scalar(
    "arrays_overlap",
    "array(E), array(E) -> boolean",
    "(CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN list_has_any({0}, {1}) THEN TRUE"
    " WHEN len({0}) = 0 OR len({1}) = 0 THEN FALSE"
    " WHEN len(list_filter({0} || {1}, lambda x: x IS NULL)) > 0 THEN NULL ELSE FALSE END)",
    "arrays_overlap({0}, {1})",
)
scalar(
    "array_remove",
    "array(E), E -> array(E)",
    *_looked_for(
        "(CASE WHEN {1} IS NOT NULL THEN list_filter({0}, lambda x: x IS NULL OR x <> {1}) END)",
        "array_remove({0}, {1})",
        ("{0}", "{0}"),
    ),
)
scalar(
    "array_sort",
    "array(O) -> array(O)",
    "list_sort({0}, 'ASC', 'NULLS LAST')",
    "array_sort({0})",
)


def _extreme(name: str, plain: str, numbers: str) -> Template:
    """Returns the template of the least or greatest element; null if any element is null.

    Args:
        name: `list_max` and the like.
        plain: The template around `FOUND`.
        numbers: The elements that are not NaN, which engines treat as the greatest number.
    """

    def render(args: Sequence[str], _: Sequence[Type], returns: Type) -> str:
        extreme = f"{name}({{0}})"
        if name.endswith("max") and returns in types.FLOATS:
            extreme = f"coalesce({name}({numbers}), {extreme})"
        return plain.replace("FOUND", extreme).format(*args)

    return render


for _name in ("min", "max"):
    scalar(
        f"array_{_name}",
        "array(O) -> O",
        _extreme(
            f"list_{_name}",
            f"(CASE WHEN {_NO_NULL} THEN FOUND END)",
            "list_filter({0}, lambda x: NOT isnan(x))",
        ),
        _extreme(
            f"array_{_name}",
            "(CASE WHEN NOT exists({0}, x -> x IS NULL) THEN FOUND END)",
            "filter({0}, x -> NOT isnan(x))",
        ),
    )

# --- Arrays built from others --------------------------------------------------------------------


def _all_of(form: str) -> Template:
    def render(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
        return form.format(" || ".join(args), ", ".join(args))

    return render


for _name in ("$concat", "concat"):
    scalar(_name, "array(E), array(E)... -> array(E)", _all_of("({0})"), _all_of("concat({1})"))
    scalar(
        _name,
        "array(E), E -> array(E)",
        "(CASE WHEN {1} IS NOT NULL THEN {0} || [{1}] END)",
        "(CASE WHEN {1} IS NOT NULL THEN concat({0}, array({1})) END)",
    )
    scalar(
        _name,
        "E, array(E) -> array(E)",
        "(CASE WHEN {0} IS NOT NULL THEN [{0}] || {1} END)",
        "(CASE WHEN {0} IS NOT NULL THEN concat(array({0}), {1}) END)",
    )
scalar(
    "flatten",
    "array(array(E)) -> array(E)",
    "flatten({0})",
    "flatten(filter({0}, x -> x IS NOT NULL))",
)
scalar(
    "repeat",
    "E, bigint -> array(E)",
    *_unless(
        "{1} < 0 OR {1} > 10000",
        "repeat() makes at most 10000 elements",
        "list_transform(range({1}), lambda i: {0})",
        "array_repeat({0}, CAST({1} AS INT))",
    ),
)
scalar(
    "ngrams",
    "array(E), bigint -> array(array(E))",
    *_unless(
        "{1} < 1",
        "ngrams() need at least one element each",
        "(CASE WHEN len({0}) <= {1} THEN [{0}] ELSE"
        " list_transform(range(1, len({0}) - {1} + 2), lambda i: {0}[i:i + {1} - 1]) END)",
        "(CASE WHEN size({0}) <= {1} THEN array({0}) ELSE transform(sequence(1, size({0}) -"
        " CAST({1} AS INT) + 1), i -> slice({0}, i, CAST({1} AS INT))) END)",
    ),
)
scalar(
    "contains_sequence",
    "array(E), array(E) -> boolean",
    "(CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN len(list_filter("
    "range(1, len({0}) - len({1}) + 2), lambda i: {0}[i:i + len({1}) - 1] = {1})) > 0 END)",
    "(CASE WHEN size({0}) < size({1}) THEN FALSE ELSE"
    " exists(sequence(1, size({0}) - size({1}) + 1), i -> slice({0}, i, size({1})) = {1}) END)",
)
_LONG = "sequence() makes at most 10000 elements, from the start towards the stop"
scalar(
    "sequence",
    "bigint, bigint -> array(bigint)",
    *_unless(
        "abs({1} - {0}) >= 10000",
        _LONG,
        "generate_series({0}, {1}, CASE WHEN {0} <= {1} THEN 1 ELSE -1 END)",
        "sequence({0}, {1})",
    ),
)
scalar(
    "sequence",
    "bigint, bigint, bigint -> array(bigint)",
    *_unless(
        "{2} = 0 OR ({0} < {1} AND {2} < 0) OR ({0} > {1} AND {2} > 0)"
        " OR abs({1} - {0}) >= 10000 * abs({2})",
        _LONG,
        "generate_series({0}, {1}, {2})",
        "sequence({0}, {1}, {2})",
    ),
)
NUMBERS = "$numbers"
"""The rows of TABLE(sequence(…)), of which there may be more than elements of sequence()."""
scalar(
    NUMBERS,
    "bigint, bigint, bigint -> array(bigint)",
    *_unless(
        "{0} IS NULL OR {1} IS NULL OR {2} IS NULL"
        " OR ({0} < {1} AND {2} <= 0) OR ({0} > {1} AND {2} >= 0)"
        " OR ({0} <> {1} AND abs({1} - {0}) / abs({2}) >= 1000000)",
        "a sequence has at most 1,000,000 rows, a step that leads from start to stop, and no nulls",
        "CASE WHEN {0} = {1} THEN [{0}] ELSE generate_series({0}, {1}, {2}) END",
        "CASE WHEN {0} = {1} THEN array({0}) ELSE sequence({0}, {1}, {2}) END",
    ),
)
scalar(
    "sequence",
    "date, date -> array(date)",
    "list_transform(generate_series(0, {1} - {0}, CASE WHEN {0} <= {1} THEN 1 ELSE -1 END),"
    " lambda i: {0} + CAST(i AS INTEGER))",
    "sequence({0}, {1})",
)
_DAY, _YEAR = str(types.INTERVAL_DAY), str(types.INTERVAL_YEAR)
for _time in ("date", "timestamp", "timestamp with time zone"):
    _signature = f"{_time}, {_time}, {_DAY} -> array({_time})"
    kernel("sequence", _signature, by_row(arrays.sequence_by_milliseconds))
for _time in ("date", "timestamp"):
    _signature = f"{_time}, {_time}, {_YEAR} -> array({_time})"
    kernel("sequence", _signature, by_row(arrays.sequence_by_months))
kernel("combinations", "array(E), bigint -> array(array(E))", by_row(arrays.combinations))
kernel("array_histogram", "array(K) -> map(K, bigint)", by_row(arrays.histogram))


class _Dialect(NamedTuple):
    """An engine's SQL for an array's size, its element i, a range of numbers, and a map over it."""

    engine: str
    size: str
    element: str
    numbers: str
    each: str


_DIALECTS = {
    DUCKDB: _Dialect(
        DUCKDB, "len({})", "{}[i]", "range(1, {0} + 1)", "list_transform({}, lambda i: {})"
    ),
    SPARK: _Dialect(  # its sequence(1, 0) counts down
        SPARK,
        "size({})",
        "try_element_at({}, i)",
        "CASE WHEN {0} > 0 THEN sequence(1, {0}) ELSE array() END",
        "transform({}, i -> {})",
    ),
}


def side_by_side(engine: str, *, numbered: bool) -> Template:
    """Returns a template that zips arrays into one of rows, padding short arrays with nulls.

    Args:
        engine: `duckdb` or `spark`.
        numbered: Whether the rows have their number as a last field.
    """
    dialect = _DIALECTS[engine]

    def render(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
        sizes = [f"coalesce({dialect.size.format(arg)}, 0)" for arg in args]
        longest = f"greatest({', '.join(sizes)})" if len(args) > 1 else sizes[0]
        values = [dialect.element.format(arg) for arg in args]
        if numbered:
            values.append("CAST(i AS BIGINT)")
        fields = {f"field{index}": value for index, value in enumerate(values)}
        return dialect.each.format(dialect.numbers.format(longest), row_of(engine, fields))

    return render


def _zip(engine: str) -> Template:
    inner = side_by_side(engine, numbered=False)
    assert callable(inner)

    def render(args: Sequence[str], arguments: Sequence[Type], returns: Type) -> str:
        present = " AND ".join(f"{arg} IS NOT NULL" for arg in args)
        return f"(CASE WHEN {present} THEN {inner(args, arguments, returns)} END)"

    return render


for _count in (2, 3, 4, 5):
    _elements = "TUERS"[:_count]
    scalar(
        "zip",
        f"{', '.join(f'array({e})' for e in _elements)} -> array(row({', '.join(_elements)}))",
        _zip(DUCKDB),
        _zip(SPARK),
    )
