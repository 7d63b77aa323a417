"""Values of the configuration file that are kept elsewhere: `${env:NAME}` and `${file:PATH}`.

Passwords do not belong in a file that is shared, printed and kept. Instead of any value, including
one in a list of users or among a client's properties, the file can say where to take it from, alone
or within a string (`postgresql://gateway:${env:PASSWORD}@host/db`). A value taken from elsewhere is
a secret and is never shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from seamline.errors import INVALID_CONFIG, SeamlineError, text_of_file

_REFERENCE = re.compile(r"\$\{(?P<kind>env|file):(?P<name>[^}]*)\}")


def resolve(tree: Any, environment: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
    """Returns the tree with the values in place of the references to them.

    Returns:
        The tree, and by dotted path the references in every value that had any.

    Raises:
        SeamlineError: INVALID_CONFIG, naming the path, when the referenced variable or file does
            not exist.
    """
    values: dict[str, str] = {}
    return _resolve(tree, "", environment, values), values


def _resolve(value: Any, path: str, environment: Mapping[str, str], values: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            key: _resolve(item, f"{path}.{key}" if path else str(key), environment, values)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_resolve(v, f"{path}.{i}", environment, values) for i, v in enumerate(value)]
    if not isinstance(value, str):
        return value
    references = [match[0] for match in _REFERENCE.finditer(value)]
    if not references:
        return value
    values[path] = ", ".join(references)
    return _REFERENCE.sub(lambda match: _referred(match, path, environment), value)


def _referred(match: re.Match[str], path: str, environment: Mapping[str, str]) -> str:
    name = match["name"]
    if match["kind"] == "env":
        value = environment.get(name)
        if value is None:
            raise SeamlineError(
                INVALID_CONFIG,
                f"{path} refers to the environment variable {name!r}, which is not set",
                hint=f"Set {name}, or correct the name.",
            )
        return value
    failure = f"{path} refers to the file {name!r}, which cannot be read"
    return text_of_file(name, INVALID_CONFIG, failure).rstrip("\r\n")
