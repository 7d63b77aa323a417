"""The kernel of regexp_replace: translates Java's group references to RE2's.

`$1` and `${name}` are groups, and a backslash makes the character after it literal.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import pyarrow as pa

from seamline.errors import INVALID_ARGUMENT, SeamlineError
from seamline.sql.kernels.kernel import Use, by_duckdb

_REPLACE = by_duckdb("regexp_replace({0}, {1}, {2}, 'g')")
_SYNTAX = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\((?!\?)|\(\?P?<(\w+)>", re.DOTALL)
_REFERENCE = re.compile(r"\\(?P<literal>.)|\$(?P<number>\d+)|\$\{(?P<name>\w+)\}|(?P<wrong>[\\$])")
GROUPS_MAX = 9
"""The number of groups that RE2 can refer to."""


def replaced(use: Use, arguments: Sequence[pa.Array]) -> pa.Array:
    """Kernel that replaces every match."""
    texts, patterns, replacements = arguments
    pairs = zip(patterns.to_pylist(), replacements.to_pylist(), strict=True)
    rewritten = [(None, None) if None in pair else _as_re2(*pair) for pair in pairs]
    columns = [pa.array([pair[index] for pair in rewritten], pa.string()) for index in (0, 1)]
    return _REPLACE(use, [texts, *columns])


@functools.lru_cache(maxsize=256)
def _as_re2(pattern: str, replacement: str) -> tuple[str, str]:
    groups = [m[1] for m in _SYNTAX.finditer(pattern) if m[0].startswith("(")]

    def reference(match: re.Match[str]) -> str:
        if match["literal"] is not None:
            return match["literal"].replace("\\", "\\\\")
        if match["name"] in groups and match["name"] is not None:
            return f"\\{_known(groups.index(match['name']) + 1)}"
        digits = match["number"] or ""
        for length in range(len(digits), 0, -1):
            if int(digits[:length]) <= len(groups):
                return f"\\{_known(int(digits[:length]))}{digits[length:]}"
        raise SeamlineError(
            INVALID_ARGUMENT, f"{match[0]!r} is not a group of {pattern!r}", hint=""
        )

    named = _SYNTAX.sub(lambda m: f"(?P<{m[1]}>" if m[1] else m[0], pattern)
    return named, _REFERENCE.sub(reference, replacement)


def _known(number: int) -> int:
    if number > GROUPS_MAX:
        raise SeamlineError(
            INVALID_ARGUMENT, f"regexp_replace refers to the first {GROUPS_MAX} groups", hint=""
        )
    return number
