"""Upper and lower case, letter by letter, and blanks: the same on both engines.

Each letter has at most one counterpart, whatever its context (Unicode's simple mapping, which Trino
uses, too): `ß` has none, and `Σ` becomes `σ` also at the end of a word. Spark maps by context and
to several letters, and knows letters that DuckDB does not; DuckDB maps `ß` to its capital form.
"""

from __future__ import annotations

from collections.abc import Mapping

_NEWER = (
    "\u019b\u0264\u1c89\u1c8a\ua7cb-\ua7cd\ua7da-\ua7dc\U00010d50-\U00010d65\U00010d70-\U00010d85"
)
"""Letters that have a counterpart only in Spark's version of Unicode."""
_TO_SEVERAL = (
    "\u00df\u0149\u01f0\u0390\u03b0\u0587\u1e96-\u1e9a\u1f50\u1f52\u1f54\u1f56\u1f80-\u1faf"
    "\u1fb2-\u1fb4\u1fb6\u1fb7\u1fbc\u1fc2-\u1fc4\u1fc6\u1fc7\u1fcc\u1fd2\u1fd3\u1fd6\u1fd7"
    "\u1fe2-\u1fe4\u1fe6\u1fe7\u1ff2-\u1ff4\u1ff6\u1ff7\u1ffc\ufb00-\ufb06\ufb13-\ufb17"
)
"""Letters that Spark maps to several upper-case letters."""


def _letters(start: int, end: int, distance: int) -> dict[str, str]:
    return {chr(code): chr(code + distance) for code in range(start, end)}


_UPPER = {
    **_letters(0x1F80, 0x1F88, 8),
    **_letters(0x1F90, 0x1F98, 8),
    **_letters(0x1FA0, 0x1FA8, 8),
    "\u1fb3": "\u1fbc",
    "\u1fc3": "\u1fcc",
    "\u1ff3": "\u1ffc",
}
_LOWER = {"\u03a3": "\u03c3", "\u0130": "i"}


def _by_pieces(function: str, letters: str, mapping: Mapping[str, str]) -> str:
    """Applies Spark's function except to these letters, whose counterparts the mapping holds."""
    own = f"translate(piece, '{''.join(mapping)}', '{''.join(mapping.values())}')"
    return (
        f"(CASE WHEN {{0}} RLIKE '[{letters}]' THEN array_join(transform("
        f"regexp_extract_all({{0}}, '[{letters}]+|[^{letters}]+', 0), "
        f"piece -> CASE WHEN piece RLIKE '[{letters}]' THEN {own} ELSE {function}(piece) END), '') "
        f"ELSE {function}({{0}}) END)"
    )


DUCKDB_UPPER = (
    "(CASE WHEN contains({0}, '\u00df') THEN array_to_string(list_transform("
    "string_split({0}, '\u00df'), lambda piece: upper(piece)), '\u00df') ELSE upper({0}) END)"
)
DUCKDB_LOWER = "lower({0})"
SPARK_UPPER = _by_pieces("upper", _TO_SEVERAL + _NEWER, _UPPER)
SPARK_LOWER = _by_pieces("lower", "".join(_LOWER) + _NEWER, _LOWER)

_BLANKS = "".join(
    map(
        chr,
        (
            *(*range(0x09, 0x0E), *range(0x1C, 0x21), 0x1680, *range(0x2000, 0x2007)),
            *(*range(0x2008, 0x200B), 0x2028, 0x2029, 0x205F, 0x3000),
        ),
    )
)
"""The characters that `trim` removes, and casts to dates and times: all but non-breaking blanks."""
_CONTROLS = "".join(map(chr, range(0x01, 0x21)))
"""The characters that casts to numbers ignore around them."""


def constant(text: str) -> tuple[str, str]:
    """Returns a constant text in the SQL of each engine."""
    digits = text.encode().hex().upper()
    return f"decode(unhex('{digits}'))", f"decode(unhex('{digits}'), 'UTF-8')"


DUCKDB_BLANKS, SPARK_BLANKS = constant(_BLANKS)
TRIM_BLANKS = f"trim({{0}}, {DUCKDB_BLANKS})", f"trim(BOTH {SPARK_BLANKS} FROM {{0}})"
TRIM_BLANKS_AT_END = f"rtrim({{0}}, {DUCKDB_BLANKS})", f"trim(TRAILING {SPARK_BLANKS} FROM {{0}})"
_DUCKDB_CONTROLS, _SPARK_CONTROLS = constant(_CONTROLS)
TRIM_CONTROLS = f"trim({{0}}, {_DUCKDB_CONTROLS})", f"trim(BOTH {_SPARK_CONTROLS} FROM {{0}})"
