"""UUIDs as bytes, in SQL that both engines have; as values they are texts."""

from __future__ import annotations

AS_BYTES = "unhex(replace({0}, '-', ''))"
"""The sixteen bytes of a UUID."""
_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
"""The hexadecimal digits between the hyphens: the first, from 1, and how many."""


def of_bytes(fail: str, *, safe: bool) -> str:
    """Returns the UUID of sixteen bytes; any others are null or an error.

    Args:
        fail: The engine's function that fails with a message.
        safe: Whether others are null.
    """
    message = "'INVALID_CAST: a value is not the sixteen bytes of a uuid'"
    digits = (f"substr(lower(hex({{0}})), {first}, {count})" for first, count in _PARTS)
    text = " || '-' || ".join(digits)
    failure = "NULL" if safe else f"{fail}({message})"
    return (
        "(CASE WHEN {0} IS NULL THEN NULL WHEN octet_length({0}) = 16"
        f" THEN {text} ELSE {failure} END)"
    )
