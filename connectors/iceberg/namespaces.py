"""Lists the namespaces of a PyIceberg catalog, at every level.

PyIceberg lists one level at a time. A catalog with a single level refuses to list below it, or
returns the same level again.
"""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError, ForbiddenError, NoSuchNamespaceError

_NO_LEVEL_BELOW = (BadRequestError, ForbiddenError, NoSuchNamespaceError)


def children(catalog: Catalog, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Returns the namespaces directly under a parent, sorted."""
    return sorted(tuple(namespace) for namespace in catalog.list_namespaces(parent))


def every(catalog: Catalog) -> list[tuple[str, ...]]:
    """Returns the namespaces of every level, sorted."""
    found = children(catalog)
    for parent in found:  # the list grows while it is iterated
        try:
            below = children(catalog, parent)
        except _NO_LEVEL_BELOW:
            continue
        found += [n for n in below if len(n) == len(parent) + 1 and n[:-1] == parent]
    return sorted(found)
