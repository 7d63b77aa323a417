"""Progress of a command on its error output: what it does, and for how long.

On a terminal it is one line that is overwritten and counts seconds: text is cut to the width of the
terminal, times stay whole. Elsewhere, and where the command runs in the background of a terminal,
each step is a line of its own, which is repeated with its time now and then.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from seamline.connectors import supervision
from seamline.terminal.pictures import cut_text

REPEATED_AFTER_S = 5.0
_CLEAR = "\r\x1b[2K"
_DRAWN_EVERY_S = 1.0
_TIMED_AFTER_S = 2.0

Doing = Callable[[], tuple[str, float]]
"""Returns what is being done, and for how many seconds; an empty text for nothing."""


def _nothing() -> tuple[str, float]:
    return "", 0.0


class ProgressLine:
    """What a command does now. Safe to share between threads.

    Args:
        stream: Takes the text.
        text: The first step. Where lines are not overwritten, it is shown only if it takes long.
        doing: What is being done whenever no step is reported; may be set later.
        repeated_after_s: Seconds after which a step is repeated where lines are not overwritten.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        stream: TextIO,
        text: str = "",
        *,
        doing: Doing = _nothing,
        repeated_after_s: float = REPEATED_AFTER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self.doing = doing
        self._repeated_after_s = repeated_after_s
        self._clock = clock
        self._lock = threading.Lock()
        self._text = text
        self._is_drawn = False
        self._began = self._printed = clock()
        if self._overwrites:
            self._draw()

    def report(self, text: str) -> None:
        """Begins a step, or says how far it is; an empty text ends it."""
        with self._lock:
            if text == self._text:
                return
            self._text, self._began = text, self._clock()
            if self._overwrites:
                self._draw()
            elif text:
                self._print(text)

    def print(self, line: str) -> None:
        """Prints a line that stays."""
        with self._lock:
            self._clear()
            self._print(line)

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Removes the line until the block ends, which prints elsewhere on the terminal."""
        with self._lock:
            self._clear()
            yield
            self._printed = self._began = self._clock()

    def tick(self) -> None:
        """Shows how long the step has taken; to be called about once a second."""
        with self._lock:
            if self._overwrites:
                self._draw()
            elif self._clock() - self._printed >= self._repeated_after_s:
                text, seconds = self._current()
                if text:
                    self._print(f"{text}, {seconds:.0f} s")

    def clear(self) -> None:
        """Removes the line."""
        with self._lock:
            self._text, self.doing = "", _nothing
            self._clear()

    def _current(self) -> tuple[str, float]:
        return (self._text, self._clock() - self._began) if self._text else self.doing()

    @property
    def _overwrites(self) -> bool:
        """Whether this is a terminal, and this process is in its foreground."""
        try:
            return self._stream.isatty() and os.tcgetpgrp(self._stream.fileno()) == os.getpgrp()
        except (OSError, ValueError):
            return False

    def _draw(self) -> None:
        text, seconds = self._current()
        if not text:
            self._clear()
            return
        timed = f", {seconds:.0f} s" if seconds >= _TIMED_AFTER_S else ""
        room = os.get_terminal_size(self._stream.fileno()).columns - 1 - len(timed)
        self._write(f"{_CLEAR}{cut_text(text, room)}{timed}")
        self._is_drawn = True

    def _clear(self) -> None:
        if self._is_drawn:
            self._write(_CLEAR)
            self._is_drawn = False

    def _print(self, line: str) -> None:
        self._printed = self._clock()
        self._write(f"{line}\n")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody looks any more
            self._stream.write(text)
            self._stream.flush()


@contextlib.contextmanager
def shown(
    text: str = "",
    *,
    doing: Doing = _nothing,
    repeated_after_s: float = REPEATED_AFTER_S,
) -> Iterator[ProgressLine]:
    """Shows progress on the error output until the block ends; see `ProgressLine`."""
    line = ProgressLine(sys.stderr, text, doing=doing, repeated_after_s=repeated_after_s)
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(_DRAWN_EVERY_S):
            line.tick()

    supervision.start("progress", tick)
    try:
        yield line
    finally:
        ended.set()
        line.clear()
