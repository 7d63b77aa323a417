"""Names in a bound tree, of which none can be taken for another.

A column of a scan is called `$` and its name in lower case, and nothing else begins with `$`: not
the sources and columns of queries, nor anything that a template or a rewriting for an engine names.
So it does not matter which names the tables of a statement have. Names that a statement makes up
are not in the tree at all.

Beside the files' own columns, inside a scan, these names do not help. No column of a table begins
with the name of a scan, whatever the case, so that engines can derive further names from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

_OF_SCAN = "$"


def scan_column(name: str) -> str:
    """Returns what a column of a scan is called in a bound tree."""
    return _OF_SCAN + name.lower()


def name_of_scan_column(called: str) -> str:
    """Returns the lower-case name of a column of a scan: the inverse of `scan_column`."""
    return called.removeprefix(_OF_SCAN)


def unused_prefix(stem: str, names: Iterable[str]) -> str:
    """Returns the stem with enough underscores appended that no name begins with it."""
    lowered = tuple(name.lower() for name in names)
    prefixes = (stem + "_" * length for length in itertools.count())
    return next(prefix for prefix in prefixes if not any(n.startswith(prefix) for n in lowered))
