"""Goal: the right Java is found, and every wrong one is named with its remedy.

Method: executables that answer as Java does are put where JAVA_HOME and PATH point.
"""

from __future__ import annotations

import pathlib

import pytest

from seamline.connectors.jvm.java import find_java, parse_version
from seamline.errors import JAVA_NOT_FOUND, JAVA_UNSUPPORTED, SeamlineError


def install(directory: pathlib.Path, script: str) -> pathlib.Path:
    """An executable `java` in a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    java = directory / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return java


def says(version: str) -> str:
    """A script that answers `-version` on stderr, where Java writes it."""
    return f"""echo 'openjdk version "{version}" 2025-04-15' >&2"""


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "21" 2023-09-19 LTS', 21),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx="1"\nopenjdk version "25.0.1" 2025-10-21', 25),
        ("The operation couldn't be completed.", None),
        ("", None),
    ],
)
def test_version_is_read_from_what_java_prints(output: str, version: int | None) -> None:
    assert parse_version(output) == version


@pytest.mark.parametrize("version", [17, 21])
def test_supported_java_on_the_path_is_found(tmp_path: pathlib.Path, version: int) -> None:
    path = install(tmp_path, says(f"{version}.0.1"))
    java = find_java({"PATH": str(tmp_path)})
    assert (java.path, java.version) == (path, version)


def test_java_home_comes_before_the_path(tmp_path: pathlib.Path) -> None:
    install(tmp_path / "path", says("17.0.1"))
    path = install(tmp_path / "home" / "bin", says("21.0.1"))
    java = find_java({"PATH": str(tmp_path / "path"), "JAVA_HOME": str(tmp_path / "home")})
    assert (java.path, java.version) == (path, 21)


def test_no_java_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SeamlineError, match="no java on PATH") as caught:
        find_java({"PATH": str(tmp_path)})
    assert caught.value.code is JAVA_NOT_FOUND
    assert "Java 17 or 21" in caught.value.hint


def test_java_home_without_java_is_named_even_with_a_java_on_the_path(
    tmp_path: pathlib.Path,
) -> None:
    install(tmp_path, says("17.0.1"))
    with pytest.raises(SeamlineError, match="JAVA_HOME is /nowhere") as caught:
        find_java({"PATH": str(tmp_path), "JAVA_HOME": "/nowhere"})
    assert caught.value.code is JAVA_NOT_FOUND
    assert "unset it" in caught.value.hint


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("1.8.0_392", "Java 8, which is too old"),
        ("11.0.2", "Java 11, which is too old"),
        ("19.0.1", "Java 19, which is not a long-term release"),
        ("25", "Java 25, which is newer than Spark 4.0 supports"),
    ],
)
def test_unsupported_java_is_named_with_what_was_found(
    tmp_path: pathlib.Path, version: str, why: str
) -> None:
    path = install(tmp_path, says(version))
    with pytest.raises(SeamlineError) as caught:
        find_java({"PATH": str(tmp_path)})
    assert caught.value.code is JAVA_UNSUPPORTED
    assert caught.value.message == f"{path} is {why}"
    assert caught.value.details["path"] == str(path)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'Unable to locate a Java Runtime.' >&2; exit 1", "Unable to locate a Java Runtime."),
        ("exit 3", "exit code 3"),
        ("exit 0", "does not report its version"),
    ],
)
def test_java_that_does_not_run_is_named(tmp_path: pathlib.Path, script: str, message: str) -> None:
    install(tmp_path, script)
    with pytest.raises(SeamlineError, match=message) as caught:
        find_java({"PATH": str(tmp_path)})
    assert caught.value.code is JAVA_NOT_FOUND
