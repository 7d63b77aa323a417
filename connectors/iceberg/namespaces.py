"""Lists the namespaces of a PyIceberg catalog, at every level.

PyIceberg lists one level at a time. A catalog with a single level refuses to list below it, or
returns the same level again.
"""

from __future__ import annotations

import contextlib

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError, ForbiddenError, NoSuchNamespaceError

_NO_LEVEL_BELOW = (BadRequestError, ForbiddenError)


def below(catalog: Catalog, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Returns the namespaces directly under a parent, sorted.

    Raises:
        NoSuchNamespaceError: there is no such parent.
    """
    try:
        namespaces = catalog.list_namespaces(parent)
    except _NO_LEVEL_BELOW:
        if not parent:
            raise
        return []
    names = sorted(tuple(namespace) for namespace in namespaces)
    return [n for n in names if len(n) == len(parent) + 1 and n[:-1] == parent]


def every(catalog: Catalog) -> list[tuple[str, ...]]:
    """Returns the namespaces of every level, sorted."""
    namespaces = below(catalog)
    for parent in namespaces:  # the list grows while it is iterated
        with contextlib.suppress(NoSuchNamespaceError):
            namespaces += below(catalog, parent)
    return sorted(namespaces)
