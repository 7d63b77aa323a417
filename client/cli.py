"""The `seamline` command. Subcommands are loaded when they are called.

Without a subcommand it runs `seamline query`, which on a terminal prompts for statements. `query`
needs only the client. Commands that need the gateway's packages say which extra to install when
these are missing. A named error prints as one line and its hint; `ending` lists every way a command
can end.
"""

from __future__ import annotations

import difflib
import importlib
import sys
import warnings
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from seamline import ending
from seamline.dbapi.version import VERSION
from seamline.errors import MISSING_EXTRA, SeamlineError

_COMMANDS: Mapping[str, tuple[str, str, str]] = {
    "audit": ("seamline.gateway.cli.adopting", "gateway", "Count the records of a table."),
    "completion": ("seamline.commands.completion", "", "Print a completion script for a shell."),
    "config": ("seamline.gateway.cli.config", "gateway", "Show the configuration."),
    "demo": ("seamline.gateway.cli.demo", "gateway,spark", "Run the main job end to end."),
    "doctor": (
        "seamline.gateway.cli.doctor",
        "gateway",
        "Check the machine and the configuration for problems.",
    ),
    "freshness": ("seamline.commands.freshness", "", "Show how far a table has been tiered."),
    "local": ("seamline.gateway.cli.local", "gateway", "Run a local Kafka broker and catalog."),
    "prepare": (
        "seamline.gateway.cli.prepare",
        "spark",
        "Fetch what Spark needs, before it is needed.",
    ),
    "query": ("seamline.commands.query", "", "Run SQL on a gateway, or start a prompt."),
    "serve": ("seamline.gateway.cli.serve", "gateway", "Run the gateway."),
    "spark-conf": (
        "seamline.commands.spark_conf",
        "",
        "Print the Spark settings for the live tables.",
    ),
    "table": ("seamline.gateway.cli.table", "gateway", "Create and manage unified tables."),
    "tail": ("seamline.commands.tail", "", "Show the rows of a table as they arrive."),
    "tier": (
        "seamline.gateway.cli.tier",
        "gateway,spark",
        "Move the tail of topics into their tables.",
    ),
}
"""Maps a name to (module, required extras, help); the module has a command of the same name."""

_EXTRA_OF = {"pyspark": "spark", "py4j": "spark", "grpc": "spark", "prompt_toolkit": "cli"}
_WITHOUT_COMMAND = "query"
_OWN_OPTIONS = frozenset({"--help", "--version"})


class _LazyGroup(click.Group):
    """A command group that imports each command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        try:
            module = importlib.import_module(_COMMANDS[cmd_name][0])
        except ModuleNotFoundError as error:
            _say_what_to_install(cmd_name, error)
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command; a misspelt one is suggested."""
        name = args[0]
        if name not in _COMMANDS and not ctx.resilient_parsing and not name.startswith("-"):
            close = difflib.get_close_matches(name, _COMMANDS, 1)
            ctx.fail(f"No such command {name!r}." + "".join(f" Did you mean {c}?" for c in close))
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line; options without a command are those of `query`."""
        is_bare = not args or (args[0].startswith("-") and args[0] not in _OWN_OPTIONS)
        if is_bare and not ctx.resilient_parsing:
            args = [_WITHOUT_COMMAND, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; modules it imports only while running may be missing, too."""
        try:
            with ending.kept_from_click():
                return super().invoke(ctx)
        except ModuleNotFoundError as error:
            _say_what_to_install(str(ctx.invoked_subcommand), error)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Parses the command line, and prints the text of `--help`."""
        with ending.kept_from_click():
            return super().make_context(*arguments, **options)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_) for name, (_, _, help_) in _COMMANDS.items()])


def _say_what_to_install(command: str, error: ModuleNotFoundError) -> NoReturn:
    missing = (error.name or "").split(".")[0]
    if missing in {"", "seamline"} or command not in _COMMANDS:
        raise error
    _, extras, _ = _COMMANDS[command]
    raise SeamlineError(
        MISSING_EXTRA,
        f"`seamline {command}` needs {missing}, which is not installed",
        hint=f"pip install 'seamline[{_EXTRA_OF.get(missing, extras)}]'",
    ) from error


@click.group(cls=_LazyGroup)
@click.version_option(VERSION, prog_name="seamline")
def root() -> None:
    """A Kafka topic and its Iceberg copy as one table."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the command and exits; see `seamline.ending` for how."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # library warnings are meant for programmers
    try:
        code = root.main(arguments, prog_name="seamline", standalone_mode=False)
        with ending.kept_from_click():
            if sys.stdout is not None:
                sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - every failure is reported and has an exit code
        code = ending.exit_code(error)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
