"""Files on this machine: who reads them, locks between processes, and names for failed writes.

What we keep for ourselves is for its owner's eyes only: results, tails, spilled rows and logs hold
what one needs access to a table to see. Its folders are closed, whatever is in them and whoever
wrote it. Data that others may read, such as a warehouse, follows the user's own umask.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pathlib
from collections.abc import Callable, Iterator

from seamline.errors import DISK_FULL, ErrorCode, SeamlineError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def make_folder(path: pathlib.Path) -> None:
    """Makes a folder, and missing ones above it, for its owner alone.

    An existing one, which a user may have named, is left as it is.

    Raises:
        OSError: when it cannot be made.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    try:
        path.mkdir(mode=0o700, exist_ok=True)  # others may make it at the same time
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None


def private_folder(path: pathlib.Path) -> None:
    """Makes a folder with a name of ours for its owner alone, and closes an existing one.

    Raises:
        OSError: when it cannot be made.
    """
    make_folder(path)
    if path.stat().st_uid == os.geteuid():
        path.chmod(0o700)


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Files that this process, or one it starts, makes in the block are for their owner alone.

    For commands that do one thing: it holds in all threads.
    """
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextlib.contextmanager
def exclusive(path: pathlib.Path, waiting: Callable[[], None]) -> Iterator[int]:
    """Holds the lock of that file; it is released with the block, or when the process ends.

    Args:
        path: The lock's file; made when missing, never removed.
        waiting: Called once when another process holds it and this one has to wait.

    Yields:
        The lock's file descriptor. A child that inherits it holds the lock too, until it ends.
    """
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


@contextlib.contextmanager
def named_write_errors(
    directory: pathlib.Path, otherwise: ErrorCode, *, hint: str
) -> Iterator[None]:
    """Names failures to write under a directory.

    Raises:
        SeamlineError: DISK_FULL, else the code and hint given.
    """
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise disk_full(directory) from error
        cause = error.strerror or str(error)
        raise SeamlineError(otherwise, f"{directory} cannot be used: {cause}", hint=hint) from error


def is_full(error: BaseException) -> bool:
    """Whether something could not be written for lack of space."""
    return isinstance(error, OSError) and error.errno in _FULL


def disk_full(directory: pathlib.Path, detail: str = "") -> SeamlineError:
    """The error for a full disk; the detail continues its message."""
    return SeamlineError(DISK_FULL, f"no space left on the disk of {directory}{detail}")
