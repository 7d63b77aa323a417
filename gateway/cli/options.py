"""Options that the gateway's commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from seamline.gateway import names
from seamline.gateway.config import Loaded, find_file, load
from seamline.gateway.connections import Connections
from seamline.gateway.names import TableName
from seamline.sql.errors import INVALID_ARGUMENT, INVALID_CONFIG, SeamlineError

PORT = click.IntRange(0, 65535)
"""A port to listen on; 0 takes a free one."""

F = TypeVar("F", bound=Callable[..., Any])


def config_options(command: F) -> F:
    """`--config FILE` and `--set path=value`."""
    command = click.option(
        "--set", "settings", multiple=True, metavar="PATH=VALUE", help="Override a setting."
    )(command)
    return click.option(
        "--config", "config_file", envvar="SEAMLINE_CONFIG", help="Configuration file (YAML)."
    )(command)


def load_config(
    config_file: str | None, settings: tuple[str, ...], **flags: str | int | None
) -> Loaded:
    """The configuration that the options mean.

    Args:
        config_file: The file named, if any.
        settings: `path=value` texts.
        flags: Further values; `http__port` sets `http.port`, None sets nothing.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """
    values: dict[str, str] = {}
    for text in settings:
        path, equals, value = text.partition("=")
        if not equals:
            raise SeamlineError(
                INVALID_CONFIG, f"--set {text} has no value", hint="Write --set path=value."
            )
        values[path.strip()] = value
    for name, flag in flags.items():
        if flag is not None:
            values[name.replace("__", ".")] = str(flag)
    return load(find_file(config_file, os.environ), flags=values)


def table_of(text: str, connections: Connections) -> TableName:
    """The table that a text on the command line names, as listings write it.

    Raises:
        SeamlineError: INVALID_ARGUMENT when it names none of a catalog; CATALOG_NOT_FOUND, ….
    """
    found = names.resolve(names.split(text), names.session(connections.config), connections)
    if not found.is_own_table:
        raise SeamlineError(INVALID_ARGUMENT, f"{text} is not the name of a table")
    return found
