"""Options that the gateway's commands share.

A module of commands imports what a command needs only when that command is called, so that neither
`--help` nor any command waits for the libraries of all the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import click

from seamline.errors import INVALID_ARGUMENT, INVALID_CONFIG, SeamlineError, text_of_file
from seamline.gateway import names
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.file_locations import find_file
from seamline.gateway.names import TableName
from seamline.seam.options import ADOPT_OPTIONS, OPTIONS, Flag, Option

if TYPE_CHECKING:
    from seamline.gateway.config.load import Loaded
    from seamline.gateway.config.model import Config

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
PORT = click.IntRange(0, 65535)
"""A port to listen on; 0 picks a free one."""

F = TypeVar("F", bound=Callable[..., Any])
Connect = Callable[["Config"], contextlib.AbstractContextManager[Connections]]
"""Opens the connections of a configuration, for as long as a command runs."""


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class Duration(click.ParamType[float]):
    """A duration such as 500ms, 30s, 5m, 7d; converted to seconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Returns the duration in seconds."""
        match = _DURATION.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not a duration; write 500ms, 30s, 5m, 1h or 7d", param, ctx)
        return float(match[1]) * _SECONDS[match[2]]


def config_options(command: F) -> F:
    """Adds the options `--config FILE` and `--set path=value`."""
    command = click.option(
        "--set", "settings", multiple=True, metavar="PATH=VALUE", help="Override a setting."
    )(command)
    return click.option(
        "--config", "config_file", envvar="SEAMLINE_CONFIG", help="Configuration file (YAML)."
    )(command)


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of `config_options`, and passes the connections of that configuration.

    They are closed when the command ends, however it ends. A program that invokes the command may
    pass what opens them, as the context's `obj`.
    """

    @config_options
    @functools.wraps(command)
    def run(config_file: str | None, settings: tuple[str, ...], **others: Any) -> None:
        config = load_config(config_file, settings).config
        connect: Connect | None = click.get_current_context().obj
        with connect(config) if connect else contextlib.closing(Connections(config)) as connections:
            command(connections, **others)

    return run


def table_options(statement: Literal["create", "adopt", "alter"]) -> Callable[[F], F]:
    """Adds a flag for each option of a table that a statement may set."""

    def add(command: F) -> F:
        for option in reversed(ADOPT_OPTIONS if statement == "adopt" else OPTIONS):
            flag: Flag | None = getattr(option, statement)
            if flag is None:
                continue
            if flag == Flag():
                flag = option.create
            default = None if statement == "alter" or option.type is tuple else option.default
            is_closed = bool(option.words) and option.type is str
            command = click.option(
                f"--{flag.name or option.name.replace('_', '-')}",
                option.name,
                required=flag.required,
                multiple=option.type is tuple,
                is_flag=option.type is bool,
                default=default,
                show_default=bool(default),
                type=click.Choice(option.words) if is_closed else _TYPES[option.type],
                metavar=flag.metavar,
                help=flag.help or f"{option.description}.",
            )(command)
        return command

    return add


_TYPES = {str: str, tuple: str, int: int, bool: bool}


def options_of(flags: Mapping[str, Any], options: Sequence[Option] = OPTIONS) -> dict[str, Any]:
    """Returns the options of a table that flags set, with the contents of files that they name.

    Raises:
        SeamlineError: INVALID_ARGUMENT when a file cannot be read.
    """
    values = {option: flags.get(option.name) for option in options}
    return {
        option.name: text_of(value) if option.is_text else value
        for option, value in values.items()
        if value not in (None, ())
    }


def load_config(
    config_file: str | None, settings: tuple[str, ...], **flags: str | int | None
) -> Loaded:
    """Loads the configuration that the options specify.

    Args:
        config_file: The file that was named, if any.
        settings: `path=value` strings.
        flags: Further values; `http__port` sets `http.port`, None sets nothing.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """
    from seamline.gateway.config.load import load

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
    """Returns the table that a command-line argument names, looked up as statements look it up.

    Raises:
        SeamlineError: INVALID_ARGUMENT when it does not name a table of a catalog;
            CATALOG_NOT_FOUND, ….
    """
    name = resolution.resolve(
        names.split(text), resolution.session(connections.config), connections
    )
    if not name.is_own_table:
        raise SeamlineError(INVALID_ARGUMENT, f"{text} is not the name of a table")
    if name.path == tuple(part.lower() for part in name.path):
        return name
    from seamline.gateway.query.loaded import LoadedTables

    try:
        table = LoadedTables(connections).now([name])[name]
    except SeamlineError:  # whatever needs the table will say why
        return name
    return dataclasses.replace(name, path=table.state.name[1:])


def look_at(names: Sequence[TableName], connections: Connections) -> None:
    """Loads each table before Spark starts; starting it is pointless if none can be loaded.

    Raises:
        SeamlineError: why the first table cannot be loaded, if none can.
    """
    from seamline.gateway.query.loaded import LoadedTables

    failures = []
    for name in names:
        try:
            LoadedTables(connections).now([name])
        except SeamlineError as error:
            failures.append(error)
    if len(failures) == len(names):
        raise failures[0]


@overload
def text_of(value: None) -> None: ...


@overload
def text_of(value: str) -> str: ...


def text_of(value: str | None) -> str | None:
    """Returns the value itself, or the contents of FILE for `@FILE`."""
    if value is None or not value.startswith("@"):
        return value
    return text_of_file(value[1:], INVALID_ARGUMENT, f"{value[1:]} cannot be read")
