"""Watched files: a value made from them, and made again once they have changed.

A change takes effect at the next access. If a changed file cannot be used, that is logged, and the
last value stays in effect until it can.
"""

from __future__ import annotations

import logging
import pathlib
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from seamline.errors import SeamlineError

_LOG = logging.getLogger("seamline.access")
T = TypeVar("T")


class Watched(Generic[T]):
    """A value made from files as they are now. Safe to share between threads.

    Args:
        files: The files it is made from.
        make: Makes the value; raises a SeamlineError when it cannot.
        what: What the value is, for the log.

    Raises:
        SeamlineError: whatever the first call of `make` raises.
    """

    def __init__(self, files: Sequence[pathlib.Path], make: Callable[[], T], what: str) -> None:
        self._files = files
        self._make = make
        self._what = what
        self._lock = threading.Lock()
        self._seen = self._signature()
        self._value = make()

    def get(self) -> T:
        """Returns the value; the same one while the files stay the same."""
        with self._lock:
            signature = self._signature()
            if signature != self._seen:
                self._seen = signature
                self._renew()
            return self._value

    def _renew(self) -> None:
        try:
            self._value = self._make()
        except SeamlineError as error:
            _LOG.error("still using the previous %s: %s", self._what, error.message)
        else:
            _LOG.info("%s read from %s", self._what, ", ".join(map(str, self._files)))

    def _signature(self) -> tuple[tuple[int, int, int] | None, ...]:
        """Returns a value that changes when one of the files does."""
        return tuple(map(_signature, self._files))


def _signature(file: pathlib.Path) -> tuple[int, int, int] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
