"""Aggregates that keep their values, as arrays, texts or maps.

All are computed from the array that `array_agg` collects. Maps are built from runs: the entries are
sorted by key, so that those of one key are adjacent.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamline.sql import types
from seamline.sql.functions.registry import COLLECT, aggregate, composed
from seamline.sql.templates import DUCKDB, SPARK, Template
from seamline.sql.types import Type

_COLLECTED = (
    "element_at(transform(array(collect_list({{distinct}}{0}){{over}}),"
    " c -> CASE WHEN size(c) > 0 THEN transform(c, s -> s.v) END), 1)"
)
"""Works around Spark's collect_list, which skips nulls and returns an empty array for no rows."""

COLLECT_IF = _COLLECTED.format("CASE WHEN {1} THEN named_struct('v', {0}) END")
"""The collection with a condition, as Spark has no FILTER with OVER."""

aggregate(
    COLLECT,
    "T -> array(T)",
    "list({distinct}{0}{order}){over}",
    _COLLECTED.format("named_struct('v', {0})"),
)

_VALUES = (((COLLECT, 1),), ((COLLECT, 2),))

for _signature, _separator in (
    ("varchar -> varchar", "''"),
    ("varchar, varchar -> varchar", "{1}"),
):
    composed(
        "listagg",
        _signature,
        _VALUES[0],
        "list_transform([list_filter({0}, lambda x: x IS NOT NULL)], lambda m: CASE WHEN len(m) > 0"
        f" THEN list_reduce(m, lambda x, y: x || {_separator} || y) END)[1]",
        "element_at(transform(array(filter({0}, x -> x IS NOT NULL)), m -> CASE WHEN size(m) > 0"
        f" THEN array_join(m, {_separator}) END), 1)",
    )

# --- The least and the greatest ------------------------------------------------------------------

_COUNT = "INVALID_ARGUMENT: the number of values must be positive"
_SOME_DUCKDB = (
    "list_transform([{}], lambda m: CASE WHEN len(m) > 0"
    " THEN list_transform(m[1:{{1}}], lambda x: x['v']) END)[1]"
)
_SOME_SPARK = (
    "element_at(transform(array({}), m -> CASE WHEN size(m) > 0"
    " THEN transform(slice(m, 1, CAST({{1}} AS INT)), x -> {}) END), 1)"
)
"""The first values of a sorted array of entries, or null if it is empty."""


def _first(name: str, type_: str) -> None:
    """Declares the n least or greatest values, and the values beside them; null if there are none.

    NaN is last in both. Engines treat it as the greatest.
    """
    order, compared = ("ASC", "<") if name == "min" else ("DESC", ">")
    may_be_nan = name == "max" and type_ != "O"

    def duckdb(key: str, value: str) -> str:
        number = f"NOT isnan({key})" if may_be_nan else "TRUE"
        return (
            f"list_sort(list_transform(list_filter({{0}}, lambda x: {key} IS NOT NULL),"
            f" lambda x, i: {{{{'n': {number}, 'k': {key}, 'i': i, 'v': {value}}}}}), '{order}')"
        )

    def spark(field: str) -> str:
        left, right = f"l{field}", f"r{field}"
        last = (
            f" WHEN isnan({left}) AND NOT isnan({right}) THEN 1"
            f" WHEN isnan({right}) AND NOT isnan({left}) THEN -1"
        )
        return (
            f"array_sort(filter({{0}}, x -> x{field} IS NOT NULL), (l, r) ->"
            f" CASE{last if may_be_nan else ''}"
            f" WHEN {left} {compared} {right} THEN -1 WHEN {left} = {right} THEN 0 ELSE 1 END)"
        )

    least, beside = duckdb("x", "x"), duckdb("x['field1']", "x['field0']")
    composed(
        name,
        f"{type_}, bigint -> array({type_})",
        _VALUES[0],
        f"(CASE WHEN {{1}} < 1 THEN error('{_COUNT}') ELSE {_SOME_DUCKDB.format(least)} END)",
        f"(CASE WHEN {{1}} < 1 THEN raise_error('{_COUNT}')"
        f" ELSE {_SOME_SPARK.format(spark(''), 'x')} END)",
    )
    composed(
        f"{name}_by",
        f"T, {type_}, bigint -> array(T)",
        _VALUES[1],
        f"(CASE WHEN {{1}} < 1 THEN error('{_COUNT}') ELSE {_SOME_DUCKDB.format(beside)} END)",
        f"(CASE WHEN {{1}} < 1 THEN raise_error('{_COUNT}')"
        f" ELSE {_SOME_SPARK.format(spark('.field1'), 'x.field0')} END)",
    )
    composed(  # for values without an order, which cannot be part of a comparison
        f"{name}_by",
        f"T, {type_} -> T",
        _VALUES[1],
        f"list_transform({beside}[1:1], lambda x: x['v'])[1]",
        f"try_element_at(transform({spark('.field1')}, x -> x.field0), 1)",
    )


for _name, _type in (("min", "O"), ("max", "double"), ("max", "real"), ("max", "O")):
    _first(_name, _type)

# --- Maps ----------------------------------------------------------------------------------------


_RUNS_DUCKDB = """
list_transform([#ENTRIES#], lambda m: CASE WHEN len(m) > 0 THEN
 list_transform([{'e': m, 's': list_filter(range(1, len(m) + 1), lambda i:
  i = 1 OR m[i]['k'] IS DISTINCT FROM m[i - 1]['k'])}], lambda m:
   map_from_entries(list_transform(m['s'], lambda b, j: {'k': m['e'][b]['k'], 'v':
    list_transform([coalesce(m['s'][j + 1], len(m['e']) + 1)], lambda n: #VALUE#)[1]})))[1] END)[1]
"""
_RUNS_SPARK = """
element_at(transform(transform(array(#ENTRIES#), m -> CASE WHEN size(m) > 0 THEN
 named_struct('e', m, 's', filter(sequence(1, size(m)), i ->
  i = 1 OR NOT (get(m, i - 1).k <=> get(m, i - 2).k))) END), m ->
   map_from_entries(transform(m.s, (b, j) -> named_struct('k', get(m.e, b - 1).k, 'v',
    element_at(transform(array(coalesce(get(m.s, j + 1), size(m.e) + 1)), n -> #VALUE#), 1))))), 1)
"""
"""A map of entries (k, v) sorted by k, with one entry for each run from b up to, excluding, n."""


def by_key(entries: str, value: str, engine: str) -> Template:
    """Returns a template for a map with one entry per distinct key.

    Args:
        entries: An array of rows (k, v) in the engine's SQL, in which `{0}` is the argument.
        value: The value for the entries of one key: those of `m.e` from `b` up to, excluding, `n`.
        engine: `duckdb` or `spark`.
    """

    def render(args: Sequence[str], _: Sequence[Type], returns: Type) -> str:
        if engine == DUCKDB:
            numbered = "{'k': x['k'], 'i': i, 'v': x['v']}"
            rows = f"list_sort(list_transform({entries}, lambda x, i: {numbered}))"
            text = f"CAST({_RUNS_DUCKDB} AS {types.to_duckdb(returns)})"
        else:
            order = "(l, r) -> CASE WHEN l.k < r.k THEN -1 WHEN l.k > r.k THEN 1 ELSE 0 END"
            rows, text = f"array_sort({entries}, {order})", _RUNS_SPARK
        text = " ".join(text.split("\n")).replace("#ENTRIES#", rows).replace("#VALUE#", value)
        return text.replace("{0}", args[0])

    return render


_FIRST = ("m['e'][b]['v']", "get(m.e, b - 1).v")
_COUNTED = ("n - b", "CAST(n - b AS BIGINT)")
EVERY = (
    "list_transform(m['e'][b:n - 1], lambda x: x['v'])",
    "transform(slice(m.e, b, n - b), x -> x.v)",
)
"""The values of all entries of a key."""
_PAIRS = (
    "list_transform(list_filter({0}, lambda x: x['field0'] IS NOT NULL),"
    " lambda x: {'k': x['field0'], 'v': x['field1']})",
    "transform(filter({0}, x -> x.field0 IS NOT NULL),"
    " x -> named_struct('k', x.field0, 'v', x.field1))",
)
_SINGLE = (
    "list_transform(list_filter({0}, lambda x: x IS NOT NULL), lambda x: {'k': x, 'v': 1})",
    "transform(filter({0}, x -> x IS NOT NULL), x -> named_struct('k', x, 'v', 1))",
)
_OF_MAPS = (
    "list_transform(flatten(list_transform(list_filter({0}, lambda x: x IS NOT NULL),"
    " lambda x: map_entries(x))), lambda x: {'k': x['key'], 'v': x['value']})",
    "transform(flatten(transform(filter({0}, x -> x IS NOT NULL), x -> map_entries(x))),"
    " x -> named_struct('k', x.key, 'v', x.value))",
)
for _name, _signature, _count, _entries, _value in (
    ("map_agg", "K, T -> map(K, T)", 2, _PAIRS, _FIRST),
    ("multimap_agg", "K, T -> map(K, array(T))", 2, _PAIRS, EVERY),
    ("histogram", "K -> map(K, bigint)", 1, _SINGLE, _COUNTED),
    ("map_union", "map(K, T) -> map(K, T)", 1, _OF_MAPS, _FIRST),
):
    composed(
        _name,
        _signature,
        ((COLLECT, _count),),
        by_key(_entries[0], _value[0], DUCKDB),
        by_key(_entries[1], _value[1], SPARK),
    )
