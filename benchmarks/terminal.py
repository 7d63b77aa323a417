"""A shell on a pseudo-terminal, which keeps what is printed and when."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import re
import time
from collections.abc import Mapping

import pexpect

COLUMNS, ROWS = 80, 24
_PROMPT = re.compile(rb"\x1b\]133;D;(\d+)\x07")
"""The end of a command, as terminals know it: an OSC 133 with the exit code, before the prompt."""
_PATIENCE_S = 1800.0


@dataclasses.dataclass(frozen=True)
class Output:
    """Bytes that a terminal received.

    Attributes:
        at_s: When, in seconds since the shell began.
        data: The bytes, without the marks of prompts.
    """

    at_s: float
    data: bytes


@dataclasses.dataclass(frozen=True)
class Step:
    """One line that was typed into the shell.

    Attributes:
        line: The line.
        began_s: When, in seconds since the shell began.
        ended_s: When the prompt came back, or what was waited for was printed.
        outputs: What was printed meanwhile.
        exit_code: The line's exit code.
    """

    line: str
    began_s: float
    ended_s: float
    outputs: tuple[Output, ...]
    exit_code: int

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended_s - self.began_s

    @property
    def silences_s(self) -> list[float]:
        """Seconds between one output and the next, from the first to the last moment."""
        moments = [self.began_s, *(output.at_s for output in self.outputs), self.ended_s]
        return [later - sooner for sooner, later in itertools.pairwise(moments)]

    @property
    def text(self) -> str:
        """Everything printed."""
        return b"".join(output.data for output in self.outputs).decode(errors="replace")


class Terminal:
    """A shell on a pseudo-terminal of 80 columns.

    Args:
        folder: Where it works.
        environment: All of its variables.
    """

    def __init__(self, folder: pathlib.Path, environment: Mapping[str, str]) -> None:
        prompt = r"\[\e]133;D;$?\a\]"
        self._began = time.monotonic()
        self._shell: pexpect.spawn[bytes] = pexpect.spawn(
            "bash",
            ["--norc", "--noprofile", "--noediting"],
            cwd=str(folder),
            env={**environment, "PS1": prompt, "TERM": "xterm-256color"},
            dimensions=(ROWS, COLUMNS),
            echo=False,
        )
        self._unread = b""
        self._read_until(_PROMPT)

    def run(self, line: str, until: str | None = None) -> Step:
        """Types a line, and returns when the prompt is back.

        Args:
            line: The line.
            until: A pattern that is waited for besides, such as what a job in the background says.

        Raises:
            TimeoutError: what is waited for has not come for very long.
        """
        began = self._now()
        self._shell.sendline(line)
        outputs, match = self._read_until(_PROMPT)
        if until is not None:
            pattern = re.compile(until.encode())
            seen = b"".join(output.data for output in outputs)
            outputs += self._read_until(pattern, seen)[0]
        return Step(line, began, self._now(), tuple(outputs), int(match.group(1)))

    def close(self) -> None:
        """Ends the shell."""
        self._shell.close(force=True)

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _read_until(
        self, pattern: re.Pattern[bytes], seen: bytes = b""
    ) -> tuple[list[Output], re.Match[bytes]]:
        """Reads until a pattern is in what was seen; returns the outputs and the match."""
        outputs: list[Output] = []
        deadline = self._now() + _PATIENCE_S
        while (match := pattern.search(seen)) is None:
            try:
                data: bytes = self._shell.read_nonblocking(65536, timeout=deadline - self._now())
            except pexpect.TIMEOUT:
                raise TimeoutError(f"{pattern.pattern!r} has not come: {seen[-2000:]!r}") from None
            seen += data
            if shown := _PROMPT.sub(b"", data):
                outputs.append(Output(self._now(), shown))
        return outputs, match
