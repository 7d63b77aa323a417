"""Functions of arrays and maps."""

from __future__ import annotations

from seamline.sql.functions.registry import scalar

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
scalar(
    "map_entries",
    "map(K, E) -> array(row(K, E))",
    "list_transform(map_entries({0}), lambda x: {{'field0': x['key'], 'field1': x['value']}})",
    "transform(map_entries({0}), x -> named_struct('field0', x.key, 'field1', x.value))",
)
