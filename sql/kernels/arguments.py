"""Arguments that a function does not accept."""

from __future__ import annotations

from seamline.errors import INVALID_ARGUMENT, SeamlineError


def invalid(message: str) -> SeamlineError:
    """Returns the error for such an argument."""
    return SeamlineError(INVALID_ARGUMENT, message, hint="")


def require(condition: bool, message: str) -> None:
    """Raises INVALID_ARGUMENT unless the condition holds."""
    if not condition:
        raise invalid(message)
