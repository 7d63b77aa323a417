"""Programs from Maven Central that tests need, fetched once per user, beside the product's jars."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable

from seamline.connectors.jvm import ivy
from seamline.connectors.jvm.jars import cache_directory


def fetched(
    name: str,
    description: str,
    *,
    settings: str | None = None,
    classified: bool = False,
    unpack: Callable[[pathlib.Path], None] | None = None,
) -> pathlib.Path:
    """Returns the folder of a program's files, which Ivy fetches when it is not there.

    Args:
        name: Name of the folder; another for each version.
        description: Ivy's description of what is wanted.
        settings: Ivy's settings, if not its own.
        classified: Whether some files differ only in their classifier, and are named after it.
        unpack: Is given the folder before anybody else sees it.
    """
    folder = cache_directory(os.environ) / name
    if folder.is_dir():
        return folder
    draft = folder.with_name(f"{name}.{os.getpid()}")
    draft.mkdir(parents=True)
    files = draft / "jars"
    (draft / "ivy.xml").write_text(description, encoding="utf-8")
    command = list(ivy._command(draft))
    if classified:
        pattern = "[artifact]-[revision](-[classifier]).[ext]"
        command[command.index("-retrieve") + 1] = f"{files}/{pattern}"
    if settings is not None:
        own = draft / "settings.xml"
        own.write_text(settings, encoding="utf-8")
        command += ["-settings", str(own)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    if unpack is not None:
        unpack(files)
    files.rename(folder)
    shutil.rmtree(draft)
    return folder
