"""Class archives for the Java processes of a run: what is killed this often must be back soon.

A process is started once, works a little, ends, and leaves an archive of the classes it loaded;
every later start takes them from there. The archive is kept between runs. Java itself notices when
it no longer fits, and ignores it.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from support.java import SHORT_LIVED_JAVA
from support.sources import ROOT

_FOLDER = ROOT / "build" / "class-archives"
_END_S = 90.0


def environment(name: str) -> Mapping[str, str]:
    """Variables that let a Java process use its archive.

    Args:
        name: Of the archive.
    """
    return _options(f"-XX:SharedArchiveFile={_file(name)}")


def make(
    name: str,
    command: Sequence[str],
    base: Mapping[str, str],
    log: pathlib.Path,
    work: Callable[[], None],
) -> None:
    """Makes an archive, unless it exists.

    Args:
        name: Its name.
        command: Starts the process.
        base: Environment of the process.
        log: Takes its output.
        work: Waits until it works, and lets it work.
    """
    if _file(name).exists():
        return
    _FOLDER.mkdir(parents=True, exist_ok=True)
    part = _file(f"{name}.part")
    part.unlink(missing_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(command),
            env={**base, **_options(f"-XX:ArchiveClassesAtExit={part}")},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        work()
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(_END_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    part.replace(_file(name))


def _file(name: str) -> pathlib.Path:
    return _FOLDER / f"{name}.jsa"


def _options(option: str) -> dict[str, str]:
    return {key: f"{value} {option}" for key, value in SHORT_LIVED_JAVA.items()}
