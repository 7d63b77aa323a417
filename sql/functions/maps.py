"""Functions of maps."""

from __future__ import annotations

from collections.abc import Sequence

from seamline.sql import types
from seamline.sql.functions.collections import EVERY, by_key
from seamline.sql.functions.registry import scalar
from seamline.sql.templates import DUCKDB, SPARK, Template
from seamline.sql.types import Type

scalar(
    "cardinality",
    "map(K, E) -> bigint",
    "CAST(cardinality({0}) AS BIGINT)",
    "CAST(size({0}) AS BIGINT)",
)
scalar("element_at", "map(K, E), K -> E", "{0}[{1}]", "try_element_at({0}, {1})")
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
    "map_entries",
    "map(K, E) -> array(row(K, E))",
    "list_transform(map_entries({0}), lambda x: {{'field0': x['key'], 'field1': x['value']}})",
    "transform(map_entries({0}), x -> named_struct('field0', x.key, 'field1', x.value))",
)
scalar(
    "map_from_entries",
    "array(row(K, E)) -> map(K, E)",
    "CAST(map_from_entries({0}) AS {type})",
    "(CASE WHEN exists({0}, x -> x IS NULL) THEN"
    " raise_error('INVALID_ARGUMENT: a map entry is null') ELSE map_from_entries({0}) END)",
)


def _or_empty(of_entries: Template, engine: str) -> Template:
    """Returns a template whose result is an empty map where there are no entries."""
    assert callable(of_entries)

    def render(args: Sequence[str], arguments: Sequence[Type], returns: Type) -> str:
        map_ = of_entries(args, arguments, returns)
        type_ = (types.to_duckdb if engine == DUCKDB else types.to_spark)(returns)
        empty = f"CAST({'MAP {}' if engine == DUCKDB else 'map()'} AS {type_})"
        return f"coalesce({map_}, CASE WHEN {args[0]} IS NOT NULL THEN {empty} END)"

    return render


_ENTRIES = (
    "list_transform({0}, lambda x: {'k': x['field0'], 'v': x['field1']})",
    "transform({0}, x -> named_struct('k', x.field0, 'v', x.field1))",
)
scalar(
    "multimap_from_entries",
    "array(row(K, E)) -> map(K, array(E))",
    _or_empty(by_key(_ENTRIES[0], EVERY[0], DUCKDB), DUCKDB),
    _or_empty(by_key(_ENTRIES[1], EVERY[1], SPARK), SPARK),
)


def _concat_duckdb(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
    present = " AND ".join(f"{arg} IS NOT NULL" for arg in args)
    return f"(CASE WHEN {present} THEN map_concat({', '.join(args)}) END)"


def _concat_spark(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
    """Keeps the last value of a repeated key, because Spark refuses repeated keys."""
    result = args[0]
    for arg in args[1:]:
        others = f"map_filter({result}, (key, _) -> NOT map_contains_key({arg}, key))"
        result = f"map_concat({others}, {arg})"
    return result


scalar("map_concat", "map(K, E), map(K, E)... -> map(K, E)", _concat_duckdb, _concat_spark)
