"""Environments that readers run in, made once per user and kept beside the jars."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence

from seamline.connectors.files import exclusive
from seamline.connectors.jvm.jars import cache_directory

HERE = pathlib.Path(__file__).parent
GO_SOURCE = HERE / "clients" / "go" / "main.go"
ICEBERG_GO = "github.com/apache/iceberg-go@v0.7.0"


@dataclasses.dataclass(frozen=True, slots=True)
class Python:
    """A client of ours in Python.

    Attributes:
        client: Its module in `readers.clients`, and its arguments after the settings.
        packages: What it needs; none when this environment has it.
    """

    client: tuple[str, ...]
    packages: tuple[str, ...] = ()

    def command(self, settings: str) -> list[str]:
        """What starts it; its environment is made when it is not there yet."""
        python = sys.executable if not self.packages else str(interpreter(self.packages))
        module, *arguments = self.client
        return [python, "-m", f"readers.clients.{module}", settings, *arguments]


def interpreter(packages: Sequence[str]) -> pathlib.Path:
    """The interpreter of an environment with these packages; made when it is not there yet."""

    def make(folder: pathlib.Path) -> None:
        _run(folder, sys.executable, "-m", "venv", "environment")
        pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run(folder, "environment/bin/python", *pip, *packages)

    return _made(repr(tuple(packages)), make) / "environment" / "bin" / "python"


def node_packages(packages: Sequence[str]) -> pathlib.Path:
    """The folder from which Node finds these packages; made when it is not there yet."""

    def make(folder: pathlib.Path) -> None:
        _run(folder, "npm", "init", "--yes")
        _run(folder, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages)

    return _made(repr(("npm", *packages)), make)


@dataclasses.dataclass(frozen=True, slots=True)
class Go:
    """The client in Go."""

    def command(self, settings: str) -> list[str]:
        """What starts it; it is built when it is not there yet."""

        def make(folder: pathlib.Path) -> None:
            shutil.copy(GO_SOURCE, folder)
            _run(folder, "go", "mod", "init", "reader")
            _run(folder, "go", "get", ICEBERG_GO)
            _run(folder, "go", "build", "-o", "reader", ".")

        folder = _made(ICEBERG_GO + GO_SOURCE.read_text(encoding="utf-8"), make)
        return [str(folder / "reader"), settings]


def _made(identity: str, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """The folder of what has that identity; made under its own name, since it cannot be moved."""
    cache = cache_directory(os.environ) / "readers"
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / hashlib.sha256(identity.encode()).hexdigest()[:16]
    complete = folder / "complete"
    with exclusive(folder.with_suffix(".lock"), lambda: None):
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            complete.touch()
    return folder


def _run(folder: pathlib.Path, *command: str) -> None:
    done = subprocess.run(
        _resolved(command, folder),
        cwd=folder,
        env={**os.environ, "GOFLAGS": "-mod=mod"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"


def _resolved(command: Sequence[str], folder: pathlib.Path) -> list[str]:
    program, *arguments = command
    own = folder / program
    return [str(own) if own.exists() else program, *arguments]
