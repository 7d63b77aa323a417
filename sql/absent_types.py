"""The types of Trino that are not offered, and what takes their place."""

from __future__ import annotations

from collections.abc import Mapping

from seamline.errors import NOT_SUPPORTED, SeamlineError

_DIGESTS = "approx_distinct, approx_percentile and numeric_histogram compute their results at once."
_GEOMETRY = "Keep coordinates in columns of type double, and well-known text in varchar."
_OF_EXPRESSIONS = "Keep its text in a varchar; Trino cannot store it in tables either."

ABSENT_TYPES: Mapping[str, str] = {
    "ipaddress": "Use varchar, or varbinary.",
    "ipprefix": "Use varchar, or varbinary.",
    "number": "Use decimal(38, s), or double.",
    "variant": "Use json. It keeps every digit of a record, which no engine's variant does.",
    **dict.fromkeys(("hyperloglog", "p4hyperloglog", "setdigest", "qdigest", "tdigest"), _DIGESTS),
    **dict.fromkeys(("geometry", "sphericalgeography", "bingtile", "kdbtree"), _GEOMETRY),
    **dict.fromkeys(("color", "codepoints", "jsonpath", "likepattern"), _OF_EXPRESSIONS),
    **dict.fromkeys(("regressor", "classifier"), "Models are not trained in queries."),
    "objectid": "Use varchar.",
}
"""What to use instead of a type, by its name in lower case."""


def absent_type(name: str) -> SeamlineError:
    """Returns the error for a type that exists elsewhere."""
    plain = name.lower().partition("(")[0]
    return SeamlineError(
        NOT_SUPPORTED, f"the type {name} is not supported", hint=ABSENT_TYPES.get(plain)
    )
