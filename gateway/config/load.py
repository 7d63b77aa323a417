"""The configuration: each value from a flag, else a variable, else the file, else the default.

Unknown keys are errors, and all problems are reported at once, each with its path and its source.
Secrets print as `******`; the file can refer to them elsewhere (see `references`). `seamline
config show` prints each value and where it came from.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from seamline.errors import INVALID_CONFIG, SeamlineError
from seamline.gateway.config import references, yaml_file
from seamline.gateway.config.file_locations import FILE_VARIABLE, HOME_VARIABLE
from seamline.gateway.config.model import Config
from seamline.gateway.config.secrets import HIDDEN, is_secret, masked

ENVIRONMENT_PREFIX = "SEAMLINE_"
_NOT_SETTINGS = frozenset({FILE_VARIABLE, HOME_VARIABLE, "SEAMLINE_URL", "SEAMLINE_TOKEN"})

_PROBLEMS = {
    "bool_parsing": "is not true or false",
    "extra_forbidden": "is not a setting; known here: ",
    "int_parsing": "is not a whole number",
    "dict_type": "must hold keys and values",
    "missing": "is missing",
    "model_type": "must hold keys and values",
    "string_type": "must be a string",
    "tuple_type": "must be a list",
}
"""Replacements for Pydantic's messages that mention Python; all others are shown unchanged."""
_SUBJECT = re.compile("^(Input|String|Value) (?=should)")
_UNFILLED = "default_factory_not_called"
"""The error of a default that depends on a wrong value, which is not a problem of its own."""


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration and where its values came from.

    Attributes:
        config: The values.
        sources: The source of each value that is not a default, by dotted path.
        secrets: Paths of values that are kept elsewhere, and are not shown.
    """

    config: Config
    sources: Mapping[str, str]
    secrets: frozenset[str] = frozenset()


def load(
    file: pathlib.Path | None,
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> Loaded:
    """Reads the configuration.

    Args:
        file: A YAML file, or None.
        environment: Variables; `SEAMLINE_HTTP__PORT` sets `http.port`.
        flags: Values by dotted path, as given on the command line.

    Raises:
        SeamlineError: INVALID_CONFIG, naming the path of each wrong value, what is wrong with it
            and where it came from.
    """
    environment = os.environ if environment is None else environment
    if file is None:
        raise SeamlineError(
            INVALID_CONFIG,
            "there is no configuration file",
            hint="Start the local stack with `seamline local up`, or write seamline.yaml and pass "
            "--config.",
        )
    sources = _Told.by_file(file, environment)
    for name, value in sorted(environment.items()):
        path = _path_of_variable(name)
        if path is not None:
            sources.set(path, value, name)
    for path, value in (flags or {}).items():
        sources.set(path, value, "flag")
    sources.tree.setdefault("state_directory", str(file.resolve().parent / ".seamline-gateway"))
    try:
        config = Config.model_validate(sources.tree)
    except ValidationError as error:
        problems = [
            sources.problem(problem) for problem in error.errors() if problem["type"] != _UNFILLED
        ]
        raise SeamlineError(
            INVALID_CONFIG,
            "\n".join(problems),
            hint="Correct it at its source; docs/reference/configuration.md has all settings.",
        ) from error
    return Loaded(config, sources.sources, frozenset(sources.secrets))


def describe(loaded: Loaded) -> Iterator[tuple[str, str, str]]:
    """Yields (path, value, source) of every value, with secrets hidden."""
    for path, name, value in _leaves(loaded.config.model_dump()):
        shown = HIDDEN if _is_hidden(loaded, path, name, value) else masked(str(value))
        yield path, shown, loaded.sources.get(path, "default")


def secret_values(loaded: Loaded) -> Iterator[str]:
    """Yields the values that `describe` hides, for callers that must not reveal them."""
    for path, name, value in _leaves(loaded.config.model_dump()):
        if _is_hidden(loaded, path, name, value):
            yield str(value)


def _is_hidden(loaded: Loaded, path: str, name: str, value: object) -> bool:
    is_text = isinstance(value, str | datetime.datetime)
    return is_text and bool(value) and (path in loaded.secrets or is_secret(name))


@dataclasses.dataclass(frozen=True, slots=True)
class _Told:
    """The values given so far, their sources, and which of them were taken from elsewhere."""

    tree: dict[str, Any]
    sources: dict[str, str]
    secrets: set[str]

    @classmethod
    def by_file(cls, file: pathlib.Path, environment: Mapping[str, str]) -> _Told:
        """Returns the values of the file."""
        tree, referred = references.resolve(yaml_file.read(file), environment)
        sources = {path: str(file) for path, _, _ in _leaves(tree)}
        sources.update({path: f"{file}, {names}" for path, names in referred.items()})
        return cls(tree, {"": str(file), **sources}, set(referred))

    def set(self, path: str, value: str, source: str) -> None:
        """Overrides an earlier value."""
        *groups, last = _keys(path)
        node = self.tree
        for key in groups:
            node = node.setdefault(key, {})
            if not isinstance(node, dict):
                raise SeamlineError(
                    INVALID_CONFIG,
                    f"{path} cannot be set ({source}): {key} is a value, not a group",
                    hint="Correct one of the two.",
                )
        node[last] = value
        self.sources[path] = source
        self.secrets.discard(path)

    def problem(self, error: ErrorDetails) -> str:
        """Describes what is wrong with one value, which is shown unless it is a secret."""
        *groups, name = map(str, error["loc"])
        path, value = ".".join([*groups, name]), error["input"]
        text = _PROBLEMS.get(error["type"], _SUBJECT.sub("", error["msg"]))
        if error["type"] == "extra_forbidden":
            text += ", ".join(_declared(groups)["properties"])
        elif isinstance(value, str) and value and not (path in self.secrets or is_secret(name)):
            text = f"{masked(repr(value))} {text}"
        return f"{path} {text} ({self._source(path)})"

    def _source(self, path: str) -> str:
        """Returns the source of a value, else of a part of it, else of the group that lacks it."""
        parts = [setting for setting in self.sources if f"{setting}.".startswith(f"{path}.")]
        return self.sources[min(parts)] if parts else self._source(path.rpartition(".")[0])


# --- Paths ---------------------------------------------------------------------------------------


def _leaves(value: Any, path: str = "", name: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yields (path, its last name, value); the name of a property may contain dots."""
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        value = ",".join(value)  # as given in variables and flags
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        yield path, name, value
        return
    for key, item in value.items():
        yield from _leaves(item, f"{path}.{key}" if path else str(key), str(key))


def _path_of_variable(name: str) -> str | None:
    if not name.startswith(ENVIRONMENT_PREFIX) or name in _NOT_SETTINGS:
        return None
    path = name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
    return path if path.split(".")[0] in Config.model_fields else None


def _keys(path: str) -> list[str]:
    """Returns the keys of a dotted path; names of properties and of tables may contain dots."""
    keys = path.split(".")
    for depth in range(1, len(keys)):
        inner = _declared(keys[:depth]).get("additionalProperties", {})
        if inner == _TEXTS["additionalProperties"]:
            return [*keys[:depth], ".".join(keys[depth:])]
        if inner == _TEXTS and len(keys) > depth + 1:  # a table's name, and one property of it
            return [*keys[:depth], ".".join(keys[depth:-1]), keys[-1]]
    return keys


_TEXTS: Mapping[str, Any] = {"additionalProperties": {"type": "string"}, "type": "object"}


@functools.cache
def _schema() -> Mapping[str, Any]:
    return Config.model_json_schema()


def _declared(keys: Sequence[str]) -> Mapping[str, Any]:
    """Returns the JSON schema of what the keys lead to; empty where nothing is declared."""
    node = schema = _schema()
    for key in keys:
        declared = node.get("properties", {}).get(key)
        node = declared or node.get("additionalProperties") or node.get("items") or {}
        node = schema["$defs"].get(node.get("$ref", "").rpartition("/")[2], node)
    return node
