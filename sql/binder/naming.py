"""Names for what has none in a statement: its scans, and the sources of its queries.

No column of a table begins as they do, whatever the case, so that engines can make further names of
one; and nothing else in a bound tree keeps a name that a statement gave.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable


def unused_prefix(stem: str, names: Iterable[str]) -> str:
    """The stem, with enough underscores appended that none of the names begins with it."""
    taken = tuple(name.lower() for name in names)
    prefixes = (stem + "_" * length for length in itertools.count())
    return next(prefix for prefix in prefixes if not any(n.startswith(prefix) for n in taken))
