"""Finds the Java that Kafka and Spark run on.

`JAVA_HOME` decides when it is set, as for Spark itself; otherwise the first `java` on PATH. Only
the long-term releases that Spark 4.0 supports are accepted, so that a wrong Java is reported here
in one line, rather than later by a stack trace.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import shutil
import subprocess
from collections.abc import Mapping

from seamline.errors import JAVA_NOT_FOUND, JAVA_UNSUPPORTED, SeamlineError

SUPPORTED = (17, 21)
"""The accepted feature versions."""

_ANSWER_S_MAX = 30.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclasses.dataclass(frozen=True, slots=True)
class Java:
    """A Java installation whose version is known.

    Attributes:
        path: The executable.
        version: Feature version, such as 17.
        build: What it says of itself, which differs between any two releases.
    """

    path: pathlib.Path
    version: int
    build: str = ""


def find_java(environment: Mapping[str, str]) -> Java:
    """Returns the Java to use.

    Args:
        environment: Environment variables; `JAVA_HOME` and `PATH` are read.

    Raises:
        SeamlineError: JAVA_NOT_FOUND, JAVA_UNSUPPORTED.
    """
    path = _locate(environment)
    build = _ask(path, environment)
    version = parse_version(build)
    if version is None:
        raise SeamlineError(JAVA_NOT_FOUND, f"{path} runs but does not report its version")
    if version not in SUPPORTED:
        raise SeamlineError(
            JAVA_UNSUPPORTED,
            f"{path} is Java {version}, {_why_not(version)}",
            details={"path": str(path), "version": version},
        )
    return Java(path, version, build)


_NEEDED = ("PATH", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "LD_LIBRARY_PATH", "HOME", "LANG", "TMPDIR")
"""The variables given to a Java that only reports its version; the others may hold secrets."""


def parse_version(output: str) -> int | None:
    """Returns the feature version in the output of `java -version`, or None if it is missing."""
    match = _VERSION.search(output)
    return int(match[1]) if match else None


def _locate(environment: Mapping[str, str]) -> pathlib.Path:
    home = environment.get("JAVA_HOME")
    if home:
        path = pathlib.Path(home, "bin", "java")
        if not path.is_file():
            raise SeamlineError(
                JAVA_NOT_FOUND,
                f"JAVA_HOME is {home}, but there is no {path}",
                hint="Set JAVA_HOME to a Java 17 or 21, or unset it to use the java on PATH.",
            )
        return path
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        raise SeamlineError(JAVA_NOT_FOUND, "there is no java on PATH, and JAVA_HOME is not set")
    return pathlib.Path(found)


def _ask(path: pathlib.Path, environment: Mapping[str, str]) -> str:
    try:
        answer = subprocess.run(
            [str(path), "-version"],
            env={name: environment[name] for name in _NEEDED if name in environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_ANSWER_S_MAX,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        said = error.stdout.decode(errors="replace").strip() or f"exit code {error.returncode}"
        raise SeamlineError(
            JAVA_NOT_FOUND, f"{path} does not run: {said.splitlines()[-1]}"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SeamlineError(JAVA_NOT_FOUND, f"{path} does not run: {error}") from error
    return answer.stdout.decode(errors="replace")


def _why_not(version: int) -> str:
    if version < min(SUPPORTED):
        return "which is too old"
    if version > max(SUPPORTED):
        return "which is newer than Spark 4.0 supports"
    return "which is not a long-term release"
