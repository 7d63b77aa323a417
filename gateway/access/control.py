"""Access control: the rights of principals by a rules file that is watched.

A file that was changed holds from the next request on. One that cannot be read any more is reported
in the log, and the last good rules hold until it can.
"""

from __future__ import annotations

import logging
import pathlib
import threading

from seamline.connectors.cache import Cache
from seamline.errors import SeamlineError
from seamline.gateway.access import rules
from seamline.gateway.access.rights import Principal, Rights

_LOG = logging.getLogger("seamline.access")
_REMEMBERED_MAX = 4096


class AccessControl:
    """Knows what principals may do. Safe to share between threads.

    Args:
        file: The rules; without a file, everybody may do everything.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """

    def __init__(self, file: pathlib.Path | None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._seen = self._signature()
        self._rules = rules.read(file) if file is not None else None
        self._rights = self._remembered()

    def rights_of(self, principal: Principal) -> Rights:
        """What somebody may do now; the same value while the rules stay the same."""
        with self._lock:
            self._look()
            known, made_of = self._rights, self._rules
        return known.get_or_make(principal, lambda: Rights(principal, made_of))

    def _look(self) -> None:
        found = self._signature()
        if found == self._seen or self._file is None:
            return
        self._seen = found
        try:
            self._rules = rules.read(self._file)
        except SeamlineError as error:
            _LOG.error("the rules as they were last still hold: %s", error.message)
            return
        self._rights = self._remembered()
        _LOG.info("access rules read from %s", self._file)

    def _signature(self) -> tuple[int, int, int] | None:
        """Changes when the file does."""
        if self._file is None:
            return None
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _remembered(self) -> Cache[Principal, Rights]:
        return Cache(_REMEMBERED_MAX)
