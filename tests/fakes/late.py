"""A result whose first chunk is there the moment after a reader has waited for it in vain."""

from __future__ import annotations

from typing import Any

from seamline.gateway.statements.spool import ResultSpool


class LateSpool:
    """Wraps a result; the first look for a chunk finds none, as if its time had been up.

    Args:
        inner: The result.
    """

    def __init__(self, inner: ResultSpool) -> None:
        self._inner = inner
        self.has_looked = False

    def __getattr__(self, name: str) -> Any:
        """Everything else is as the result has it."""
        return getattr(self._inner, name)

    def has_chunk(self, index: int, wait_s: float) -> bool:
        """Whether a chunk exists, from the second look on."""
        if not self.has_looked:
            self.has_looked = True
            return False
        return self._inner.has_chunk(index, wait_s)
