"""How people write calls whose table rows have other names, or that have no row at all.

The arguments of calls without a row are words, types or literals. The binder handles each of these
calls by itself, and they are listed here for people. Rows with other names begin with `$`: they are
operators, and functions whose first argument selects the row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

FORMS: Mapping[str, tuple[str, ...]] = {
    "at_timezone": ("at_timezone(timestamp with time zone, zone) → timestamp with time zone",),
    "cast": ("cast(T AS type) → type",),
    "current_catalog": ("current_catalog → varchar",),
    "current_date": ("current_date → date",),
    "current_groups": ("current_groups() → array(varchar)",),
    "current_schema": ("current_schema → varchar",),
    "current_time": ("current_time → time(3) with time zone",),
    "current_timestamp": ("current_timestamp → timestamp(3) with time zone",),
    "current_timezone": ("current_timezone() → varchar",),
    "current_user": ("current_user → varchar",),
    "date": ("date(T) → date",),
    "date_add": ("date_add(unit, bigint, T) → T",),
    "date_diff": ("date_diff(unit, T, T) → bigint",),
    "date_trunc": ("date_trunc(unit, T) → T",),
    "extract": ("extract(field FROM T) → bigint",),
    "if": ("if(boolean, T) → T", "if(boolean, T, T) → T"),
    "json_array": ("json_array(T…) → varchar",),
    "json_exists": ("json_exists(varchar, path) → boolean",),
    "json_object": ("json_object(varchar : T…) → varchar",),
    "json_query": ("json_query(varchar, path) → varchar",),
    "json_value": ("json_value(varchar, path) → varchar",),
    "listagg": (
        "listagg(varchar [, varchar] ON OVERFLOW ERROR) WITHIN GROUP (ORDER BY …) → varchar",
        "listagg(varchar [, varchar] ON OVERFLOW TRUNCATE [text] WITH COUNT) WITHIN GROUP "
        "(ORDER BY …) → varchar",
        "listagg(varchar [, varchar] ON OVERFLOW TRUNCATE [text] WITHOUT COUNT) WITHIN GROUP "
        "(ORDER BY …) → varchar",
    ),
    "localtime": ("localtime → time(3)",),
    "localtimestamp": ("localtimestamp → timestamp(3)",),
    "map": ("map(array(K), array(E)) → map(K, E)",),
    "normalize": ("normalize(varchar) → varchar", "normalize(varchar, form) → varchar"),
    "now": ("now() → timestamp(3) with time zone",),
    "overlay": (
        "overlay(varchar PLACING varchar FROM bigint) → varchar",
        "overlay(varchar PLACING varchar FROM bigint FOR bigint) → varchar",
    ),
    "position": ("position(varchar IN varchar) → bigint",),
    "row": ("row(T, U…) → row(T, U…)",),
    "timezone": (
        "timezone(timestamp with time zone) → varchar",
        "timezone(time with time zone) → varchar",
    ),
    "try": ("try(T) → T",),
    "try_cast": ("try_cast(T AS type) → type",),
    "typeof": ("typeof(T) → varchar",),
    "with_timezone": ("with_timezone(timestamp, zone) → timestamp with time zone",),
}
"""Names, and the forms of their calls."""

OPERATORS: Mapping[str, str] = {
    "$add": "{0} + {1}",
    "$concat": "{0} || {1}",
    "$divide": "{0} / {1}",
    "$modulus": "{0} % {1}",
    "$multiply": "{0} * {1}",
    "$negate": "-{0}",
    "$subscript": "{0}[{1}]",
    "$subtract": "{0} - {1}",
}
"""Operators that are rows of the function table, and how they are written."""

_WRITTEN = {
    **OPERATORS,
    "$json_exists": "json_exists({0}, {1})",
    "$json_query": "json_query({0}, {1})",
    "$json_value": "json_value({0}, {1})",
    "$listagg": "listagg({0}, {1} ON OVERFLOW …)",
    "$ltrim": "trim(LEADING {1} FROM {0})",
    "$overlay": "overlay({0} PLACING {1} FROM {2})",
    "$position": "position({0} IN {1})",
    "$rtrim": "trim(TRAILING {1} FROM {0})",
    "$trim": "trim(BOTH {1} FROM {0})",
}
_OF_UNIT = re.compile(r"\$(date_add|date_diff|date_trunc)_(\w+)")
_NORMALIZE = "$normalize_"


def written(name: str, arguments: Sequence[str]) -> str:
    """Returns a call as people write it, whatever the name of its row.

    Args:
        name: The name of the row.
        arguments: The arguments of the call, or their types.
    """
    if name == "$overlay" and len(arguments) > 3:
        return f"{written(name, arguments[:3])[:-1]} FOR {arguments[3]})"
    if name in _WRITTEN:
        return _WRITTEN[name].format(*arguments)
    shown = list(arguments)
    if match := _OF_UNIT.fullmatch(name):
        name, unit = match.groups()
        shown = [f"'{unit}'", *shown]
    elif name.startswith(_NORMALIZE):
        name, form = "normalize", name.removeprefix(_NORMALIZE).upper()
        shown = [*shown, form]
    return f"{name.removeprefix('$')}({', '.join(shown)})"
