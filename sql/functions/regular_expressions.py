"""Functions of regular expressions in RE2 syntax: DuckDB's own, which Spark also runs."""

from __future__ import annotations

from seamline.sql.functions.registry import by_duckdb_everywhere, kernel
from seamline.sql.kernels import regular_expressions

_PATTERN = r"regexp_replace({1}, '(^|[^\\])\(\?<([A-Za-z])', '\1(?P<\2', 'g')"
"""The pattern with its named groups in RE2 syntax."""
_MARK = "chr(1114109)"
"""A private-use character that marks each match, to count them."""
_PIECES = f"string_split(regexp_replace({{0}}, {_PATTERN}, {_MARK}, 'g'), {_MARK})"
"""The text between the matches; DuckDB's own split treats each piece as a text of its own."""


def _group(number: str) -> str:
    """Returns SQL for all matches of a group of the pattern; DuckDB has no groups below 0."""
    return (
        f"(CASE WHEN {number} < 0 THEN error('INVALID_ARGUMENT: a pattern has no group '"
        f" || CAST({number} AS VARCHAR))"
        f" ELSE regexp_extract_all({{0}}, {_PATTERN}, CAST({number} AS INTEGER)) END)"
    )


def _position(start: str, occurrence: str) -> str:
    """Returns SQL for the position of the nth match: after the text before the nth mark."""
    rest = f"substr({{0}}, {start})"
    marked = f"regexp_replace({rest}, '(' || {_PATTERN} || ')', {_MARK} || '\\1', 'g')"
    before = f"string_split({marked}, {_MARK})"
    return (
        f"CAST((CASE WHEN {start} < 1 OR {occurrence} < 1 THEN"
        " error('INVALID_ARGUMENT: regexp_position takes positions from 1')"
        f" WHEN {start} > length({{0}}) + 1 OR len({before}) <= {occurrence} THEN -1"
        f" ELSE {start} + length(array_to_string(({before})[1:{occurrence}], '')) END) AS {{type}})"
    )


_TEXTS = "varchar, varchar"
by_duckdb_everywhere("regexp_like", f"{_TEXTS} -> boolean", f"regexp_matches({{0}}, {_PATTERN})")
by_duckdb_everywhere("regexp_count", f"{_TEXTS} -> bigint", f"(len({_PIECES}) - 1)")
by_duckdb_everywhere(
    "regexp_extract_all", f"{_TEXTS} -> array(varchar)", f"regexp_extract_all({{0}}, {_PATTERN})"
)
by_duckdb_everywhere("regexp_extract_all", f"{_TEXTS}, bigint -> array(varchar)", _group("{2}"))
by_duckdb_everywhere(
    "regexp_extract", f"{_TEXTS} -> varchar", f"regexp_extract_all({{0}}, {_PATTERN})[1]"
)
by_duckdb_everywhere("regexp_extract", f"{_TEXTS}, bigint -> varchar", f"{_group('{2}')}[1]")
by_duckdb_everywhere("regexp_position", f"{_TEXTS} -> integer", _position("1", "1"))
by_duckdb_everywhere("regexp_position", f"{_TEXTS}, bigint -> integer", _position("{2}", "1"))
by_duckdb_everywhere(
    "regexp_position", f"{_TEXTS}, bigint, bigint -> integer", _position("{2}", "{3}")
)
by_duckdb_everywhere(
    "regexp_split",
    f"{_TEXTS} -> array(varchar)",
    f"(CASE WHEN {{0}} = '' AND {{1}} IS NOT NULL THEN [''] ELSE {_PIECES} END)",
)
by_duckdb_everywhere(
    "regexp_replace", f"{_TEXTS} -> varchar", f"regexp_replace({{0}}, {_PATTERN}, '', 'g')"
)
kernel("regexp_replace", f"{_TEXTS}, varchar -> varchar", regular_expressions.replaced)
