"""The screen: output that fits is written directly, longer output goes through the pager."""

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
"""Options for `less` if the user has set none: keep colours, and leave what fits on the screen."""


def pager_of(environment: Mapping[str, str]) -> list[str] | None:
    """Returns the wanted pager if it is installed; None if it is not, or if PAGER is empty."""
    words = shlex.split(environment.get("PAGER", _PAGER_DEFAULT))
    return words if words and shutil.which(words[0]) else None


class Screen:
    """Collects text; once there are more lines than fit, the pager starts and gets all of them.

    Args:
        pager: The pager's command; None writes everything directly.
        height: Number of lines that fit.
    """

    def __init__(self, pager: list[str] | None, height: int) -> None:
        self._pager = pager
        self._height = height
        self._held: list[str] = []
        self._lines = 0
        self._process: subprocess.Popen[str] | None = None

    def write(self, text: str) -> None:
        """Writes more text.

        Raises:
            BrokenPipeError: the user has closed the pager.
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
        """Writes text that fits, or waits until the user has left the pager."""
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
            except KeyboardInterrupt:  # left to the pager to handle
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
