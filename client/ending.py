"""How a command ends: its exit code, and what it prints on failure.

    0    done
    1    failure: prints a line that names it, its place in the statement if known, and a hint
    2    wrong usage
    3    nothing answers: no gateway, or no broker for `seamline local status`
    130  canceled by Ctrl-C
    141  the reader of the output has gone; prints nothing

No failure ends in a traceback, except that with `SEAMLINE_TRACEBACK` set an unnamed failure shows
where it came from.
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

from seamline.dbapi.texts import printable
from seamline.errors import DISK_FULL, GATEWAY_UNAVAILABLE, INTERNAL_ERROR, SeamlineError
from seamline.errors.sentences import sentence

FAILED = 1
NOTHING_ANSWERS = 3
CANCELED = 130
READER_GONE = 141
TRACEBACK_VARIABLE = "SEAMLINE_TRACEBACK"

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class ReaderGoneError(Exception):
    """The reader of the output has gone."""


class CanceledError(Exception):
    """The user pressed Ctrl-C."""


@contextlib.contextmanager
def kept_from_click() -> Iterator[None]:
    """Converts exceptions that Click would handle itself into ones that it does not know."""
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGoneError from error
    except KeyboardInterrupt as error:
        raise CanceledError from error


def exit_code(error: BaseException) -> int:
    """Reports an exception that a command raised, and returns the exit code.

    Raises:
        SystemExit: `error` itself, if it is a SystemExit.
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
    named = _named(error)
    click.echo(describe(named), err=True)
    if _is_full(error):
        _drop_output()
    if named.code is INTERNAL_ERROR and os.environ.get(TRACEBACK_VARIABLE):
        click.echo("".join(traceback.format_exception(error)), err=True)
    return NOTHING_ANSWERS if named.code is GATEWAY_UNAVAILABLE else FAILED


def describe(error: SeamlineError) -> str:
    """Returns the printed form of an error: its summary, its notes, and the hint."""
    notes = getattr(error, "__notes__", ())
    hint = [f"hint: {error.hint}"] if error.hint else []
    problems = (printable(" ".join(line.split())) for line in error.summary.splitlines())
    summary = "; ".join(filter(None, problems))
    return "\n".join([f"error: {summary}", *notes, *hint])


def _canceled() -> int:
    """Reports the cancellation; another Ctrl-C then ends the process without waiting any longer."""
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
        f"{type(error).__name__}: {sentence(str(error))[:300]}{where}",
        hint=f"This is a fault in Seamline; {TRACEBACK_VARIABLE}=1 shows where it came from.",
    )


def _is_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in NO_ROOM


def _drop_output() -> None:
    """Discards output that could not be written, so that process exit does not try again."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
