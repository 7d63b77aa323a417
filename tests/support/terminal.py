"""The command in a pseudo-terminal, for tests that type, and look at what comes back."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import time

import pexpect

from support import programs
from support.waiting import wait_until

UP, CTRL_C, CTRL_D, TAB = "\x1b[A", "\x03", "\x04", "\t"
ENDLESS = (
    "SELECT count(*) FROM UNNEST(sequence(1, 9999)) a(x), UNNEST(sequence(1, 9999)) b(y),"
    " UNNEST(sequence(1, 9999)) c(z) WHERE x + y + z = -1;"
)
SOON_S = 60
_BEGUN = re.compile(r"(?:\x1b(?:\[[0-9;?]*)?)?\Z")


class Terminal:
    """The command in a pseudo-terminal."""

    def __init__(
        self, url: str, home: pathlib.Path, *arguments: str, columns: int = 100, **more: str
    ) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SEAMLINE_", "XDG_"))}
        environment = {
            **kept,
            "TERM": "xterm",
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "SEAMLINE_URL": url,
            "PAGER": "",
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
            **more,
        }
        program, *rest = programs.seamline(*arguments)
        self.process = pexpect.spawn(
            program,
            rest,
            env=programs.environment_of(environment),
            dimensions=(30, columns),
            encoding="utf-8",
            timeout=SOON_S,
        )
        self.seen = self._begun = ""

    def type(self, keys: str) -> None:
        """Presses keys."""
        self.process.send(keys)

    def shows(self, *texts: str) -> None:
        """Waits until all of the texts were shown, in that order."""
        for text in texts:
            deadline = time.monotonic() + SOON_S
            while text not in self.seen:
                assert time.monotonic() < deadline, f"{text!r} is not in {self.seen!r}"
                try:
                    self._see(self.process.read_nonblocking(65536, 0.5))
                except pexpect.TIMEOUT:
                    continue
                except pexpect.EOF:
                    assert text in self.seen, f"{text!r} is not in {self.seen!r}, and it has ended"
            self.seen = self.seen.partition(text)[2]

    def _see(self, text: str) -> None:
        """Adds what came; the beginning of an escape sequence waits for the rest of it."""
        text = self._begun + text
        whole = len(text) - len(_BEGUN.findall(text)[0])
        self.seen, self._begun = self.seen + plain(text[:whole]), text[whole:]

    def ends(self) -> int:
        """Its exit code."""
        self.process.expect(pexpect.EOF)
        self.process.wait()  # closing ends what has not yet ended
        self.process.close()
        assert self.process.exitstatus is not None
        return int(self.process.exitstatus)

    def close(self) -> None:
        """Kills it if it still runs, and waits until it is gone, however long that takes."""
        if self.process.isalive():
            self.process.kill(signal.SIGKILL)
            wait_until(lambda: not self.process.isalive(), what="its end")
        self.process.close()


def plain(text: str) -> str:
    """Text without escape sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "")
