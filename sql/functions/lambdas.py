"""Functions that take lambdas.

Spark has all of them. DuckDB's lambdas take one element, or two in a reduction. A lambda with more
parameters becomes nested lambdas, each applied to a list of its parameter's single value.
"""

from __future__ import annotations

from collections.abc import Sequence

from seamline.sql import types
from seamline.sql.functions.registry import COLLECT, composed, define, scalar
from seamline.sql.templates import Template
from seamline.sql.types import Array, Type


def applied(function: str, *values: str) -> str:
    """Returns DuckDB's SQL for a lambda applied to values."""
    head, _, body = function.removeprefix("lambda ").partition(": ")
    names = head.split(", ")
    for name, value in reversed(list(zip(names, values, strict=True))):
        body = f"list_transform([{value}], lambda {name}: {body})[1]"
    return body


scalar(
    "transform",
    "array(T), function(T, U) -> array(U)",
    "list_transform({0}, {1})",
    "transform({0}, {1})",
)
scalar(
    "filter",
    "array(T), function(T, boolean) -> array(T)",
    "list_filter({0}, {1})",
    "filter({0}, {1})",
)
for _name in ("find_first", "array_first"):
    scalar(
        _name,
        "array(T), function(T, boolean) -> T",
        "list_filter({0}, {1})[1]",
        "try_element_at(filter({0}, {1}), 1)",
    )
scalar(
    "array_last",
    "array(T), function(T, boolean) -> T",
    "list_filter({0}, {1})[-1]",
    "try_element_at(filter({0}, {1}), -1)",
)


def _match(decisive: str, answers: tuple[str, str]) -> str:
    """Returns one answer if the predicate is decisive for any element, another if for none."""
    return (
        "list_transform([list_transform({0}, {1})], lambda m: CASE WHEN m IS NULL THEN NULL"
        f" WHEN list_contains(m, {decisive}) THEN {answers[0]}"
        f" WHEN len(list_filter(m, lambda e: e IS NULL)) > 0 THEN NULL ELSE {answers[1]} END)[1]"
    )


for _name, _duckdb, _spark in (
    ("any_match", _match("TRUE", ("TRUE", "FALSE")), "exists({0}, {1})"),
    ("all_match", _match("FALSE", ("FALSE", "TRUE")), "forall({0}, {1})"),
    ("none_match", _match("TRUE", ("FALSE", "TRUE")), "(NOT exists({0}, {1}))"),
):
    scalar(_name, "array(T), function(T, boolean) -> boolean", _duckdb, _spark)


def _reduce(args: Sequence[str], arguments: Sequence[Type], _: Type) -> str:
    *rest, last = args
    state = _last_state(rest, arguments)
    return f"(CASE WHEN {args[0]} IS NOT NULL THEN {applied(last, state)} END)"


def _last_state(args: Sequence[str], arguments: Sequence[Type]) -> str:
    array, state, step = args
    assert isinstance(arguments[0], Array)
    no_state = f"CAST(NULL AS {types.to_duckdb(arguments[1])})"
    no_element = f"CAST(NULL AS {types.to_duckdb(arguments[0].element)})"
    rows = (
        f"([{{'s': {state}, 'e': {no_element}}}]"
        f" || list_transform({array}, lambda e: {{'s': {no_state}, 'e': e}}))"
    )
    stepped = applied(step, "s['s']", "e['e']")
    return f"list_reduce({rows}, lambda s, e: {{'s': {stepped}, 'e': {no_element}}})['s']"


scalar(
    "reduce",
    "array(T), S, function(S, T, S), function(S, R) -> R",
    _reduce,
    "aggregate({0}, {1}, {2}, {3})",
)


def _reduce_values(args: Sequence[str], arguments: Sequence[Type], _: Type) -> str:
    values = f"list_filter({args[0]}, lambda v: v IS NOT NULL)"
    state = _last_state([values, *args[1:3]], arguments)
    return f"(CASE WHEN len({values}) > 0 THEN {state} END)"


composed(
    "reduce_agg",
    "T, S, function(S, T, S), function(S, S, S) -> S",
    ((COLLECT, 1),),
    _reduce_values,
    "(CASE WHEN size(filter({0}, v -> v IS NOT NULL)) > 0"
    " THEN aggregate(filter({0}, v -> v IS NOT NULL), {1}, {2}) END)",
)


def _zip_with(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
    left, right, function = args
    value = applied(function, f"{left}[i]", f"{right}[i]")
    return (
        f"(CASE WHEN {left} IS NOT NULL AND {right} IS NOT NULL THEN list_transform("
        f"range(1, greatest(len({left}), len({right})) + 1), lambda i: {value}) END)"
    )


define(
    "scalar",
    "zip_with",
    "array(T), array(U), function(T, U, R) -> array(R)",
    _zip_with,
    "zip_with({0}, {1}, {2})",
)


_NO_ORDER = "INVALID_ARGUMENT: the function of array_sort returns null"


def _sorted_by(args: Sequence[str], _: Sequence[Type], __: Type) -> str:
    """Sorts by insertion: each element goes after those that do not sort after it."""
    array, function = args
    # the cast gives it a type where the array is null
    order = f"CAST({applied(function, 'x', 'e[1]')} AS INTEGER)"
    position = f"len(list_filter(s, lambda x: coalesce({order}, error('{_NO_ORDER}')) <= 0))"
    return (
        f"list_reduce([{array}[1:0]] || list_transform({array}, lambda e: [e]), lambda s, e:"
        f" list_transform([{position}], lambda p: s[1:p] || e || s[p + 1:])[1])"
    )


scalar(
    "array_sort",
    "array(T), function(T, T, integer) -> array(T)",
    _sorted_by,
    "array_sort({0}, {1})",
)

# --- Maps ----------------------------------------------------------------------------------------


def _of_entries(form: str) -> Template:
    """Returns a template over the entries of a map; `{f}` is the lambda's result for an entry."""

    def render(args: Sequence[str], _: Sequence[Type], returns: Type) -> str:
        answer = applied(args[1], "e['key']", "e['value']")
        text = form.replace("{m}", args[0]).replace("{f}", answer)
        return f"CAST({text} AS {types.to_duckdb(returns)})"  # a null map has no type in DuckDB

    return render


scalar(
    "map_filter",
    "map(K, T), function(K, T, boolean) -> map(K, T)",
    _of_entries("map_from_entries(list_filter(map_entries({m}), lambda e: {f}))"),
    "map_filter({0}, {1})",
)
scalar(
    "transform_values",
    "map(K, T), function(K, T, U) -> map(K, U)",
    _of_entries(
        "map_from_entries(list_transform(map_entries({m}), lambda e: {'k': e['key'], 'v': {f}}))"
    ),
    "transform_values({0}, {1})",
)
scalar(
    "transform_keys",
    "map(K, T), function(K, T, U) -> map(U, T)",
    _of_entries(
        "map_from_entries(list_transform(map_entries({m}), lambda e: {'k': {f}, 'v': e['value']}))"
    ),
    "transform_keys({0}, {1})",
)


def _map_zip_with(args: Sequence[str], _: Sequence[Type], returns: Type) -> str:
    left, right, function = args
    keys = (
        f"(map_keys({left}) || list_filter(map_keys({right}),"
        f" lambda k: NOT map_contains({left}, k)))"
    )
    value = applied(function, "k", f"{left}[k]", f"{right}[k]")
    entries = f"list_transform({keys}, lambda k: {{'k': k, 'v': {value}}})"
    return f"CAST(map_from_entries({entries}) AS {types.to_duckdb(returns)})"


scalar(
    "map_zip_with",
    "map(K, T), map(K, U), function(K, T, U, R) -> map(K, R)",
    _map_zip_with,
    "map_zip_with({0}, {1}, {2})",
)
