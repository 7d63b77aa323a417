"""The bytes of records that statements are reading from logs, all of them together."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from seamline.errors import TAIL_TOO_LARGE, SeamlineError


class InFlight:
    """Counts the bytes that are being read. Safe to share between threads.

    Args:
        bytes_max: The most that all reads together may hold.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._bytes = 0

    @contextlib.contextmanager
    def reading(self) -> Iterator[Callable[[int], None]]:
        """Yields a function that adds bytes to a read, which holds them until the block ends.

        The function raises TAIL_TOO_LARGE when all reads together would hold too many.
        """
        own = 0

        def add(size: int) -> None:
            nonlocal own
            with self._lock:
                if self._bytes + size > self._bytes_max:
                    raise SeamlineError(
                        TAIL_TOO_LARGE,
                        f"statements that read tails at the same time hold {self._bytes:,} bytes "
                        f"of records; more than {self._bytes_max:,} do not fit here",
                    )
                self._bytes += size
                own += size

        try:
            yield add
        finally:
            with self._lock:
                self._bytes -= own
