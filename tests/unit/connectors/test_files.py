"""Goal: locks exclude, failures to write get the right name, and leave no half of a file.

Method: a second opening of the lock's file in a thread; errors as the system raises them, and a
limit of the size of files in a process of its own.
"""

from __future__ import annotations

import errno
import os
import pathlib
import subprocess
import sys
import threading

import pytest

from seamline.connectors.files import exclusive, kept_text, named_write_errors
from seamline.errors import DISK_FULL, JARS_UNAVAILABLE, SeamlineError


def test_second_holder_says_that_it_waits_and_then_gets_the_lock(tmp_path: pathlib.Path) -> None:
    waits, entered = threading.Event(), threading.Event()

    def second() -> None:
        with exclusive(tmp_path / "lock", waits.set):
            entered.set()

    thread = threading.Thread(target=second)
    with exclusive(tmp_path / "lock", lambda: pytest.fail("nobody held the lock")):
        thread.start()
        assert waits.wait(60)
        assert not entered.is_set()
    thread.join(60)
    assert entered.is_set()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_has_its_own_name(tmp_path: pathlib.Path, number: int) -> None:
    with (
        pytest.raises(SeamlineError, match=str(tmp_path)) as caught,
        named_write_errors(tmp_path, JARS_UNAVAILABLE, hint="h"),
    ):
        raise OSError(number, os.strerror(number))
    assert caught.value.code is DISK_FULL


def test_other_failures_get_the_name_and_the_remedy_of_their_place(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(SeamlineError, match="cannot be used: Not a directory") as caught,
        named_write_errors(tmp_path, JARS_UNAVAILABLE, hint="do this"),
    ):
        (tmp_path / "file" / "below").touch()
    assert caught.value.code is JARS_UNAVAILABLE
    assert caught.value.hint == "do this"


def test_a_text_is_kept_whole_or_not_at_all(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state" / "id"
    script = (
        "import pathlib, resource, sys\n"
        "from seamline.connectors.files import kept_text\n"
        "hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3, hard))\n"
        "kept_text(pathlib.Path(sys.argv[1]), lambda: 'abcdef')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    assert "File too large" in done.stderr
    assert list(path.parent.iterdir()) == []
    assert kept_text(path, lambda: "abcdef") == "abcdef"
    assert kept_text(path, lambda: "other") == "abcdef"
    assert path.stat().st_mode & 0o777 == 0o600
