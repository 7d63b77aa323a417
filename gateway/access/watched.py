"""Files that are watched: what was made of them, made anew once they have changed.

A change holds from the next time that anybody asks. One that nothing can be made of is reported in
the log, and what was made last holds until it can.
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
    """What files say now. Safe to share between threads.

    Args:
        files: They are made of.
        make: Makes it, and raises a SeamlineError when it cannot.
        what: What it is, for the log.

    Raises:
        SeamlineError: what `make` raises at first.
    """

    def __init__(self, files: Sequence[pathlib.Path], make: Callable[[], T], what: str) -> None:
        self._files = files
        self._make = make
        self._what = what
        self._lock = threading.Lock()
        self._seen = self._signature()
        self._value = make()

    def get(self) -> T:
        """The value; the same one while the files stay the same."""
        with self._lock:
            found = self._signature()
            if found != self._seen:
                self._seen = found
                self._renew()
            return self._value

    def _renew(self) -> None:
        try:
            self._value = self._make()
        except SeamlineError as error:
            _LOG.error("the %s as they were last still hold: %s", self._what, error.message)
        else:
            _LOG.info("%s read from %s", self._what, ", ".join(map(str, self._files)))

    def _signature(self) -> tuple[tuple[int, int, int] | None, ...]:
        """Changes when one of the files does."""
        return tuple(map(_signature, self._files))


def _signature(file: pathlib.Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
