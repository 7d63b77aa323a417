"""The namespaces of a PyIceberg catalog, of every level.

PyIceberg lists one level at a time. A catalog that has a single level refuses to look below it, or
repeats it.
"""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError, ForbiddenError, NoSuchNamespaceError

_NO_LEVEL_BELOW = (BadRequestError, ForbiddenError, NoSuchNamespaceError)


def children(catalog: Catalog, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Namespaces directly under a parent, sorted."""
    return sorted(tuple(namespace) for namespace in catalog.list_namespaces(parent))


def every(catalog: Catalog) -> list[tuple[str, ...]]:
    """Namespaces of every level, sorted."""
    found = children(catalog)
    for parent in found:  # it grows meanwhile
        try:
            below = children(catalog, parent)
        except _NO_LEVEL_BELOW:
            continue
        found += [n for n in below if len(n) == len(parent) + 1 and n[:-1] == parent]
    return sorted(found)
