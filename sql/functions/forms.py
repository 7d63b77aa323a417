"""Functions that are no rows of the table: their arguments are words, types or written out.

The binder knows each by itself; here they are listed for people.
"""

from __future__ import annotations

from collections.abc import Mapping

FORMS: Mapping[str, tuple[str, ...]] = {
    "at_timezone": ("at_timezone(timestamp with time zone, zone) → timestamp with time zone",),
    "cast": ("cast(T AS type) → type",),
    "current_date": ("current_date → date",),
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
    "localtimestamp": ("localtimestamp → timestamp(3)",),
    "map": ("map(array(K), array(E)) → map(K, E)",),
    "normalize": ("normalize(varchar) → varchar", "normalize(varchar, form) → varchar"),
    "now": ("now() → timestamp(3) with time zone",),
    "position": ("position(varchar IN varchar) → bigint",),
    "row": ("row(T, U…) → row(T, U…)",),
    "timezone": ("timezone(timestamp with time zone) → varchar",),
    "try": ("try(T) → T",),
    "try_cast": ("try_cast(T AS type) → type",),
    "typeof": ("typeof(T) → varchar",),
    "with_timezone": ("with_timezone(timestamp, zone) → timestamp with time zone",),
}
"""Names, and how they are called."""
