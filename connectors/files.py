"""Files on this machine: their permissions, locks between processes, and named write errors.

Files that Seamline keeps for itself are private to their owner: results, tails, spilled rows and
logs hold data that takes access to a table to see. Their folders are closed to others, whatever
they contain and whoever wrote it. Data that others may read, such as a warehouse, follows the
user's own umask.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pathlib
import secrets
from collections.abc import Callable, Iterator

from seamline.errors import DISK_FULL, ErrorCode, SeamlineError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def make_folder(path: pathlib.Path) -> None:
    """Creates a folder and any missing parents, private to their owner.

    An existing folder, which a user may have named, is left as it is.

    Raises:
        OSError: when it cannot be created.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    try:
        path.mkdir(mode=0o700, exist_ok=True)  # others may create it at the same time
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None


def private_folder(path: pathlib.Path) -> None:
    """Creates a folder of our own, private to its owner, or makes an existing one of ours private.

    Raises:
        OSError: when it cannot be created.
    """
    make_folder(path)
    if path.stat().st_uid == os.geteuid():
        path.chmod(0o700)


def kept_text(path: pathlib.Path, make: Callable[[], str]) -> str:
    """Returns the text of a file, made on the first call and readable by its owner only.

    The first process to link the file has made it; nobody ever sees a part of the text, even if
    the disk is full.

    Raises:
        OSError: when it cannot be made.
    """
    if not path.exists():
        make_folder(path.parent)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        try:
            draft.touch(mode=0o600)
            draft.write_text(make(), encoding="utf-8")
            with contextlib.suppress(FileExistsError):
                path.hardlink_to(draft)
        finally:
            draft.unlink(missing_ok=True)
    return path.read_text(encoding="utf-8").strip()


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Makes the files that this process or its children create in the block private to their owner.

    For commands that do one thing: it affects all threads.
    """
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextlib.contextmanager
def exclusive(path: pathlib.Path, waiting: Callable[[], None]) -> Iterator[int]:
    """Holds the lock on a file until the block or the process ends.

    Args:
        path: The lock file; created when missing, never removed.
        waiting: Called once if another process holds the lock and this one has to wait.

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
    """Turns failures to write under a directory into named errors.

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
    """Whether a write failed for lack of space."""
    return isinstance(error, OSError) and error.errno in _FULL


def disk_full(directory: pathlib.Path, detail: str = "") -> SeamlineError:
    """Returns the error for a full disk; the detail continues its message."""
    return SeamlineError(DISK_FULL, f"no space left on the disk of {directory}{detail}")
