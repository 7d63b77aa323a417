"""Entry point of the binder: binds a query to columns, types and verified functions."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from sqlglot import exp

from seamline.sql.binder import (
    function_calls,
    intervals,
    json_calls,
    literals,
    moments,
    operators,
    windows,
)
from seamline.sql.binder.binder import Binder, Handlers
from seamline.sql.binder.queries import bind_query
from seamline.sql.binder.scope import Output, Source
from seamline.sql.binder.tries import with_kernels
from seamline.sql.locations import locate_errors_at, location_of
from seamline.sql.row_filters_and_masks import Restriction
from seamline.sql.session_zone import session_zone
from seamline.sql.types import result_field

HANDLERS: Handlers = {
    **literals.HANDLERS,
    **moments.HANDLERS,
    **intervals.HANDLERS,
    **operators.HANDLERS,
    **function_calls.HANDLERS,
    **json_calls.HANDLERS,
    **windows.HANDLERS,
}
"""Handlers by node type; an expression that contains any other node is refused."""


def bind(
    tree: exp.Expr,
    relations: Mapping[str, Source],
    now: datetime.datetime,
    restrictions: Mapping[str, Restriction],
    user: str,
    session: tuple[str, str],
    zone: str,
    groups: Sequence[str] = (),
) -> tuple[exp.Expr, list[Output], frozenset[tuple[str, str]], bool]:
    """Binds a query.

    Args:
        tree: The query; the `meta["scan_id"]` of a table identifies its scan. Changed in place.
        relations: Name and columns of each scan.
        now: The moment the statement was submitted.
        restrictions: Restrictions by scan id, for scans that may not be seen in full.
        user: The user who submitted the statement.
        session: The default catalog and schema.
        zone: The canonical name of the session's time zone.
        groups: The user's groups.

    Returns:
        The query in canonical form, its columns, the (scan id, column) pairs it reads, and whether
        it holds the moment or the groups.

    Raises:
        SeamlineError: NOT_SUPPORTED when a column's type cannot be that of a result; what the
            binder raises.
    """
    binder = Binder(relations, now, HANDLERS, bind_query, restrictions, user, session, groups)
    items = tree.selects if isinstance(tree, exp.Query) else []
    locations = [location_of(tree), *map(location_of, items)]
    with session_zone(zone, now) as clock:
        bound, output = binder.query(tree, None, {})
    for number, column in enumerate(output, 1):
        with locate_errors_at(locations[number if len(locations) > len(output) else 0]):
            result_field(column.name, column.type)
    holds_moment = binder.holds_moment or clock.is_asked
    return with_kernels(bound), output, frozenset(binder.used), holds_moment
