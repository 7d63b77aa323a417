"""The verified functions: the meaning of each, and how each engine computes it.

No other function can be called. `registry` defines the rows of the function table; each of the
other modules declares the rows of one subject. The files in tests/slt run every row on both
engines.
"""

from __future__ import annotations

from seamline.sql.functions import (
    aggregates,
    arrays,
    binaries,
    bitwise,
    collections,
    conditionals,
    intervals,
    json_functions,
    lambdas,
    maps,
    mathematics,
    operators,
    regular_expressions,
    strings,
    time_formats,
    times,
    urls,
    windows,
)
from seamline.sql.functions.forms import FORMS, OPERATORS
from seamline.sql.functions.other_names import COLUMNS, REASONS, REPLACEMENTS
from seamline.sql.functions.patterns import has_equality, is_comparable, is_ordered
from seamline.sql.functions.registry import (
    COLLECT,
    FUNCTIONS,
    GROUPING,
    Argument,
    Lambda,
    Overload,
    Resolved,
    is_aggregate,
    resolve,
    unknown,
)

SUBJECTS = (
    operators,
    conditionals,
    mathematics,
    bitwise,
    strings,
    regular_expressions,
    binaries,
    urls,
    json_functions,
    times,
    time_formats,
    intervals,
    arrays,
    maps,
    lambdas,
    aggregates,
    collections,
    windows,
)
"""The modules that declare the functions."""

__all__ = [
    "COLLECT",
    "COLUMNS",
    "FORMS",
    "FUNCTIONS",
    "GROUPING",
    "OPERATORS",
    "REASONS",
    "REPLACEMENTS",
    "SUBJECTS",
    "Argument",
    "Lambda",
    "Overload",
    "Resolved",
    "has_equality",
    "is_aggregate",
    "is_comparable",
    "is_ordered",
    "resolve",
    "unknown",
]
