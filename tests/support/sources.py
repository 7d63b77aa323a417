"""Where the sources are, and how they are called once they are installed.

The folders at the top of the repository are subpackages of `seamline`; `client/` is its root.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("client", "sql", "seam", "connectors", "planners", "gateway")
"""The folders that are installed."""


def modules() -> Iterator[pathlib.Path]:
    """Every file that is installed, relative to the root."""
    for part in PARTS:
        yield from python_files(part)


def python_files(folder: str) -> Iterator[pathlib.Path]:
    """The Python files of a folder, relative to the root; none when there is no such folder."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield path.relative_to(ROOT)


def module_name(path: pathlib.Path) -> str:
    """What a file is imported as: `client/cli.py` is `seamline.cli`."""
    parts = [part for part in path.with_suffix("").parts if part not in {"client", "__init__"}]
    return ".".join(["seamline", *parts])


def part_of(module: str) -> str:
    """The folder at the top that a module of ours comes from."""
    first = [*module.split("."), ""][1]
    return first if first in PARTS else "client"
