"""Aggregates that keep their values: arrays, texts and maps of them.

All are computed from the array that `array_agg` collects. Maps are made of runs: the entries are
sorted by their keys, and those of one key stand together.
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
"""Spark's collect_list leaves nulls out, and gives an empty array for no rows."""

COLLECT_IF = _COLLECTED.format("CASE WHEN {1} THEN named_struct('v', {0}) END")
"""With a condition, as Spark has no FILTER with OVER."""

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

_COUNT = "INVALID_ARGUMENT: as many values as a positive number are asked for"
for _name, _order, _compared in (("min", "ASC", "<"), ("max", "DESC", ">")):
    composed(
        _name,
        "O, bigint -> array(O)",
        _VALUES[0],
        f"(CASE WHEN {{1}} < 1 THEN error('{_COUNT}') ELSE"
        f" list_sort(list_filter({{0}}, lambda x: x IS NOT NULL), '{_order}')[1:{{1}}] END)",
        f"(CASE WHEN {{1}} < 1 THEN raise_error('{_COUNT}') ELSE"
        " slice(array_sort(filter({0}, x -> x IS NOT NULL), (l, r) -> CASE"
        f" WHEN l {_compared} r THEN -1 WHEN l = r THEN 0 ELSE 1 END), 1, CAST({{1}} AS INT)) END)",
    )
    composed(
        f"{_name}_by",
        "T, O, bigint -> array(T)",
        _VALUES[1],
        f"(CASE WHEN {{1}} < 1 THEN error('{_COUNT}') ELSE list_transform(list_sort("
        "list_transform(list_filter({0}, lambda x: x['field1'] IS NOT NULL), lambda x, i:"
        " {{'k': x['field1'], 'i': i, 'v': x['field0']}}), "
        f"'{_order}')[1:{{1}}], lambda x: x['v']) END)",
        f"(CASE WHEN {{1}} < 1 THEN raise_error('{_COUNT}') ELSE transform(slice(array_sort("
        "filter({0}, x -> x.field1 IS NOT NULL), (l, r) -> CASE"
        f" WHEN l.field1 {_compared} r.field1 THEN -1 WHEN l.field1 = r.field1 THEN 0 ELSE 1 END),"
        " 1, CAST({1} AS INT)), x -> x.field0) END)",
    )
    composed(  # of what has no order, and cannot be a part of what is compared
        f"{_name}_by",
        "T, O -> T",
        _VALUES[1],
        "list_transform(list_sort(list_transform(list_filter({0}, lambda x:"
        " x['field1'] IS NOT NULL), lambda x, i:"
        f" {{{{'k': x['field1'], 'i': i, 'v': x['field0']}}}}), '{_order}')[1:1],"
        " lambda x: x['v'])[1]",
        "try_element_at(transform(array_sort(filter({0}, x -> x.field1 IS NOT NULL), (l, r) -> CASE"
        f" WHEN l.field1 {_compared} r.field1 THEN -1 WHEN l.field1 = r.field1 THEN 0 ELSE 1 END),"
        " x -> x.field0), 1)",
    )

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
"""A map of entries (k, v) that are sorted by k: of each run from the place b to before n, one."""


def by_key(entries: str, value: str, engine: str) -> Template:
    """A map with one entry for each key of several.

    Args:
        entries: An array of rows (k, v) in the engine's SQL, `{0}` in it the argument.
        value: What becomes of the entries of one key: those of `m.e` from `b` to before `n`.
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
