"""Reads a YAML file: a tree of groups, lists and strings, or an error in one line.

Aliases can turn a small file into an endless tree, or one too large for memory: both are refused.
"""

from __future__ import annotations

import pathlib
from typing import Any

import yaml

from seamline.errors import INVALID_CONFIG, SeamlineError, text_of_file

VALUES_MAX = 100_000
_OPEN = -1


class _Texts(yaml.SafeLoader):
    """YAML whose values are strings as they are written, like those of variables and flags."""


_KEPT = {"tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"}
_Texts.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in _KEPT]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read(file: pathlib.Path) -> dict[str, Any]:
    """Returns the tree in a YAML file; an empty one for an empty file.

    Raises:
        SeamlineError: INVALID_CONFIG, naming the file and what is wrong with it.
    """
    text = text_of_file(file, INVALID_CONFIG, f"{file} cannot be read")
    try:
        tree = yaml.load(text, _Texts)  # noqa: S506 - a safe loader
        size = _size(tree, {})
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        cause = cause_of(error)
        raise SeamlineError(
            INVALID_CONFIG, f"{file} is not YAML: {cause}", hint="Correct the file there."
        ) from error
    if not isinstance(tree, dict | None):
        raise SeamlineError(INVALID_CONFIG, f"{file} must hold keys and values")
    if size > VALUES_MAX:
        raise SeamlineError(INVALID_CONFIG, f"{file} expands to more than {VALUES_MAX:,} values")
    return tree or {}


def cause_of(error: Exception) -> str:
    """Returns, in one line, why a text is not YAML, and where it shows."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    parts = (error.context, error.problem)
    cause = ", ".join(" ".join(part.split()) for part in parts if part)
    mark = error.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: {cause}"


def _size(tree: Any, sizes: dict[int, int]) -> int:
    """Returns how many values a tree has, with each alias counted as what it repeats.

    Raises:
        ValueError: when an alias repeats what contains it.
    """
    if not isinstance(tree, dict | list):
        return 1
    size = sizes.get(id(tree))
    if size == _OPEN:
        raise ValueError("an alias appears inside the value it repeats")
    if size is None:
        sizes[id(tree)] = _OPEN
        parts = tree.values() if isinstance(tree, dict) else tree
        size = sizes[id(tree)] = 1 + sum(_size(part, sizes) for part in parts)
    return size
