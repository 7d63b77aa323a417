"""The screen: what is longer goes through the pager, what fits is written as it is."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping

_PAGER_DEFAULT = "less"
_LESS = "FRX"
"""What `less` is to do where nobody has said: leave colours, and leave what fits on the screen."""


def pager_of(environment: Mapping[str, str]) -> list[str] | None:
    """The pager that is wanted and is there; None where PAGER is empty or names none."""
    words = shlex.split(environment.get("PAGER", _PAGER_DEFAULT))
    return words if words and shutil.which(words[0]) else None


class Screen:
    """Takes text; more lines than fit start the pager, which gets all of them.

    Args:
        pager: The command; None writes everything as it comes.
        height: Lines that fit.
    """

    def __init__(self, pager: list[str] | None, height: int) -> None:
        self._pager = pager
        self._height = height
        self._held: list[str] = []
        self._lines = 0
        self._process: subprocess.Popen[str] | None = None

    def write(self, text: str) -> None:
        """Takes more text.

        Raises:
            BrokenPipeError: nobody looks at the pager any longer.
        """
        if self._pager is None:
            sys.stdout.write(text)
        elif self._process is not None:
            self._to_pager(text)
        else:
            self._held.append(text)
            self._lines += text.count("\n")
            if self._lines > self._height:
                self._start(self._pager)

    def close(self) -> None:
        """Writes what fits, or waits until somebody has left the pager."""
        if self._process is None:
            sys.stdout.write("".join(self._held))
            sys.stdout.flush()
            return
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        while True:
            try:
                self._process.wait()
            except KeyboardInterrupt:  # is the pager's to hear
                continue
            return

    def _start(self, pager: list[str]) -> None:
        environment = {"LESS": _LESS, **os.environ}
        self._process = subprocess.Popen(pager, stdin=subprocess.PIPE, text=True, env=environment)
        held, self._held = "".join(self._held), []
        self._to_pager(held)

    def _to_pager(self, text: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(text)
