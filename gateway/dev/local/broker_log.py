"""Finds out from a broker's log why the broker did not start."""

from __future__ import annotations

import pathlib
import re

from seamline.connectors.files import disk_full
from seamline.errors import LOCAL_STACK_FAILED, PORT_TAKEN, SeamlineError

_READ_BYTES_MAX = 1 << 20
_EXCEPTION = re.compile(r"^(?:Caused by: |Exception in thread \S+ )?[\w.$]+(?:Exception|Error): ")
_ERROR = re.compile(r"\b(?:ERROR|FATAL|Error)\b")
_BIND = re.compile(r"bind to [\w.]+:(\d+): Address already in use")


def start_failure(log: pathlib.Path, what: str) -> SeamlineError:
    """Returns the named error for a failed start.

    Args:
        log: The log of that start only.
        what: What did not work, as the beginning of a sentence.
    """
    text = _tail(log)
    if "No space left on device" in text:
        return disk_full(log.parent)
    if bind := _BIND.search(text):
        return SeamlineError(PORT_TAKEN, f"port {bind[1]} is taken by another program")
    return SeamlineError(
        LOCAL_STACK_FAILED, f"{what}; {log} says: {last_error(text)}", details={"log": str(log)}
    )


def last_error(text: str) -> str:
    """Returns the last line that names an exception, else the last error, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for pattern in (_EXCEPTION, _ERROR):
        for line in reversed(lines):
            if pattern.search(line):
                return line
    return lines[-1] if lines else "nothing"


def _tail(log: pathlib.Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _READ_BYTES_MAX))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
