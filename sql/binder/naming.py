"""Generated names for the scans of a statement and the sources of its queries.

No column of a table begins with such a name, whatever the case, so that engines can derive further
names from it. Nothing else in a bound tree keeps a name from the statement.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable


def unused_prefix(stem: str, names: Iterable[str]) -> str:
    """Returns the stem with enough underscores appended that no name begins with it."""
    taken = tuple(name.lower() for name in names)
    prefixes = (stem + "_" * length for length in itertools.count())
    return next(prefix for prefix in prefixes if not any(n.startswith(prefix) for n in taken))
