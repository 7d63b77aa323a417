"""Where audit events are written: a file, standard output, or a topic."""

from __future__ import annotations

import os
import pathlib
import stat
from collections.abc import Sequence
from typing import Protocol

from seamline.errors import INVALID_CONFIG, SeamlineError

STANDARD_OUTPUT = "-"
_STDOUT = 1


class AuditSink(Protocol):
    """Takes lines of JSON; called by one thread."""

    def append(self, values: Sequence[bytes]) -> None:
        """Writes lines, all of them or none.

        Raises:
            SeamlineError: why it could not.
            OSError: why it could not.
        """


class FileSink:
    """A file that is appended to; if it is moved away, a new one of the same name is started.

    Args:
        name: Its path, or `-` for standard output.

    Raises:
        SeamlineError: INVALID_CONFIG when it cannot be opened.
    """

    def __init__(self, name: str) -> None:
        self._path = pathlib.Path(name) if name != STANDARD_OUTPUT else None
        try:
            self._file = self._open()
        except OSError as error:
            raise SeamlineError(
                INVALID_CONFIG, f"audit.file {name} cannot be written: {error.strerror}"
            ) from error

    def append(self, values: Sequence[bytes]) -> None:
        """Writes lines; an incomplete write to a regular file is undone."""
        if self._was_moved():
            before, self._file = self._file, self._open()
            os.close(before)
        state = os.fstat(self._file)
        data = b"".join(value + b"\n" for value in values)
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError:
            if stat.S_ISREG(state.st_mode):
                os.ftruncate(self._file, state.st_size)
            raise

    def _open(self) -> int:
        if self._path is None:
            return os.dup(_STDOUT)
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _was_moved(self) -> bool:
        if self._path is None:
            return False
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return True
        return not os.path.samestat(stat, os.fstat(self._file))
