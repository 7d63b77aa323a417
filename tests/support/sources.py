"""Where the sources are, and how they are called once they are installed.

The folders at the top of the repository are subpackages of `seamline`; `client/` is its root.
"""

from __future__ import annotations

import ast
import functools
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


@functools.cache
def tree_of(path: pathlib.Path) -> ast.Module:
    """The syntax tree of a file, whose path is relative to the root."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), str(path))


@functools.cache
def nodes_of(path: pathlib.Path) -> tuple[ast.AST, ...]:
    """All that a file's syntax tree consists of."""
    return tuple(ast.walk(tree_of(path)))


@functools.cache
def imports_of(path: pathlib.Path) -> tuple[str, ...]:
    """Full names of the modules that a file imports, inside functions too."""
    return tuple(_imports_of(path))


def _imports_of(path: pathlib.Path) -> Iterator[str]:
    for node in nodes_of(path):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (_imported(module, alias.name) for alias in names)


def _imported(module: str, name: str) -> str:
    """`from a import b` imports a.b where that is a module of ours, else a."""
    full = f"{module}.{name}"
    return full if full in _names() else module


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(map(module_name, modules()))
