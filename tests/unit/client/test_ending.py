"""Goal: whatever a command fails with, it ends with a code and one line that names the cause.

Method: every kind of failure that there is, of ours and of other people's code, is given its end;
then real processes whose output cannot be written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import subprocess
from collections.abc import Callable
from typing import IO

import click
import pytest
from support import programs
from support.raised import FOREIGN, kind

from seamline import ending
from seamline.dbapi.errors import as_client_error
from seamline.errors import (
    ERRORS,
    GATEWAY_UNAVAILABLE,
    INVALID_ARGUMENT,
    ErrorCode,
    SeamlineError,
)

FULL = [
    *(lambda number=number: OSError(number, os.strerror(number)) for number in ending.NO_ROOM),
]
SILENT = (BrokenPipeError, ending.ReaderGoneError)
CANCELED = (KeyboardInterrupt, ending.CanceledError, click.Abort)


@pytest.mark.parametrize(
    "make", [make for make in (*FOREIGN, *FULL) if kind(make) != "SystemExit"], ids=kind
)
def test_a_failure_is_one_line_and_a_hint(
    make: Callable[[], BaseException], capfd: pytest.CaptureFixture[str]
) -> None:
    error = raised(make())
    assert ending.exit_code(error) == ending.FAILED
    failure, hint, *more = capfd.readouterr().err.splitlines()
    assert failure.startswith("error: DISK_FULL" if make in FULL else "error: INTERNAL_ERROR")
    assert type(error).__name__ in failure or make in FULL
    assert hint.startswith("hint: ")
    assert not more


@pytest.mark.parametrize("code", ERRORS.values(), ids=ERRORS)
def test_a_named_failure_keeps_its_name(code: ErrorCode, capfd: pytest.CaptureFixture[str]) -> None:
    expected = ending.NOTHING_ANSWERS if code is GATEWAY_UNAVAILABLE else ending.FAILED
    assert ending.exit_code(SeamlineError(code, "one\n  two", hint="do")) == expected
    assert capfd.readouterr().err == f"error: {code.name}: one; two\nhint: do\n"


def test_an_error_about_a_value_does_not_control_the_terminal() -> None:
    error = SeamlineError(INVALID_ARGUMENT, "'\x1b[2J\x9b1m' is wrong", hint="")
    assert ending.describe(error) == "error: INVALID_ARGUMENT: '·[2J·1m' is wrong"


def test_an_error_without_a_hint_has_no_line_for_one(capfd: pytest.CaptureFixture[str]) -> None:
    """As printed, as text, and as an exception of DB-API."""
    error = SeamlineError(INVALID_ARGUMENT, "no", hint="")
    assert ending.exit_code(error) == ending.FAILED
    assert capfd.readouterr().err == "error: INVALID_ARGUMENT: no\n"
    assert str(error) == "INVALID_ARGUMENT: no"
    assert str(as_client_error(error)) == "INVALID_ARGUMENT: no"


@pytest.mark.parametrize("kind_", CANCELED)
def test_ctrl_c_is_told(kind_: type[BaseException], capfd: pytest.CaptureFixture[str]) -> None:
    assert ending.exit_code(kind_()) == ending.CANCELED
    assert capfd.readouterr().err == "canceled\n"


@pytest.mark.parametrize("kind_", CANCELED[:1] + SILENT[:1])
def test_click_does_not_end_what_is_ours_to_end(kind_: type[BaseException]) -> None:
    with (
        pytest.raises((ending.CanceledError, ending.ReaderGoneError)),
        ending.kept_from_click(),
    ):
        raise kind_


@pytest.mark.parametrize("arguments", [["--help"], ["local", "status"], ["query", "--help"]])
def test_a_reader_that_has_gone_is_no_failure(arguments: list[str], tmp_path: pathlib.Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as sink:
        done = run(arguments, tmp_path, sink)
    assert (done.returncode, done.stderr) == (ending.READER_GONE, "")


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("arguments", [["--help"], ["local", "status"], ["query", "--help"]])
def test_output_that_has_no_room_is_named(arguments: list[str], tmp_path: pathlib.Path) -> None:
    with pathlib.Path("/dev/full").open("wb") as sink:
        done = run(arguments, tmp_path, sink)
    assert done.returncode == ending.FAILED
    assert done.stderr.startswith(f"error: DISK_FULL: {os.strerror(errno.ENOSPC)}")
    assert "Traceback" not in done.stderr


def run(
    arguments: list[str], home: pathlib.Path, sink: IO[bytes]
) -> subprocess.CompletedProcess[str]:
    """A command whose output goes somewhere."""
    environment = {**os.environ, "SEAMLINE_HOME": str(home)}
    return subprocess.run(
        programs.seamline(*arguments),
        env=environment,
        stdout=sink,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )


def raised(error: BaseException) -> BaseException:
    """The same, with a traceback."""
    with contextlib.suppress(type(error)):
        raise error
    return error
