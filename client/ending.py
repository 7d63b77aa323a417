"""How a command ends: with an exit code, and with what it says when it failed.

    0    done
    1    a failure: a line that names it, the place in the statement if it lies there, and a hint
    2    used wrongly
    3    nothing answers: no gateway, or for `seamline local status` no broker
    130  canceled by Ctrl-C
    141  the reader of its output has gone; it says nothing

No failure ends in a traceback. With `SEAMLINE_TRACEBACK` set, one that has no name shows where it
came from.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator

import click

from seamline.errors import DISK_FULL, GATEWAY_UNAVAILABLE, INTERNAL_ERROR, SeamlineError

FAILED = 1
NOTHING_ANSWERS = 3
CANCELED = 130
READER_GONE = 141
TRACEBACK_VARIABLE = "SEAMLINE_TRACEBACK"

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class ReaderGoneError(Exception):
    """The reader of the output has gone."""


class CanceledError(Exception):
    """Somebody pressed Ctrl-C."""


@contextlib.contextmanager
def kept_from_click() -> Iterator[None]:
    """Turns exceptions that Click would handle in its own way into ones that it does not know."""
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGoneError from error
    except KeyboardInterrupt as error:
        raise CanceledError from error


def exit_code(error: BaseException) -> int:
    """The exit code of a command that raised something, after reporting that.

    Raises:
        SystemExit: the one that was raised.
    """
    match error:
        case SystemExit():
            raise error
        case click.ClickException():
            error.show()
            return error.exit_code
        case click.Abort() | KeyboardInterrupt() | CanceledError():
            return _canceled()
        case ReaderGoneError() | BrokenPipeError():
            _drop_output()
            return READER_GONE
    found = _named(error)
    click.echo(told(found), err=True)
    if _is_full(error):
        _drop_output()
    if found.code is INTERNAL_ERROR and os.environ.get(TRACEBACK_VARIABLE):
        click.echo("".join(traceback.format_exception(error)), err=True)
    return NOTHING_ANSWERS if found.code is GATEWAY_UNAVAILABLE else FAILED


def told(error: SeamlineError) -> str:
    """An error as it is printed: what, its notes, and the hint."""
    notes = getattr(error, "__notes__", ())
    return "\n".join([f"error: {' '.join(error.summary.split())}", *notes, f"hint: {error.hint}"])


def _canceled() -> int:
    """What is still ending in the background need not be waited for: another Ctrl-C ends it all."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    click.echo("canceled", err=True)
    return CANCELED


def _named(error: BaseException) -> SeamlineError:
    if isinstance(error, SeamlineError):
        return error
    if _is_full(error):
        return SeamlineError(DISK_FULL, str(error))
    frame = next(reversed(traceback.extract_tb(error.__traceback__)), None)
    where = f" ({frame.filename.rpartition('/')[2]}:{frame.lineno})" if frame else ""
    return SeamlineError(
        INTERNAL_ERROR,
        f"{type(error).__name__}: {str(error)[:300]}{where}",
        hint=f"This is a fault in Seamline; {TRACEBACK_VARIABLE}=1 shows where it came from.",
    )


def _is_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in NO_ROOM


def _drop_output() -> None:
    """Output that could not be written is not tried again while the process ends."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
