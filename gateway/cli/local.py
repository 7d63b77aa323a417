"""`seamline local`: starts, finds and stops the embedded stack."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import shlex
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TypeVar

import click

from seamline.errors import LOCAL_STACK_DOWN, SeamlineError
from seamline.gateway.cli import progress
from seamline.gateway.config.file_locations import local_state_directory
from seamline.gateway.dev.local.stack import LocalStack, StackStatus
from seamline.gateway.process import interrupted_by_signals

NOT_RUNNING = 3
"""Exit code of `status` when no broker answers."""

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def local() -> None:
    """Run a local Kafka broker, catalog and warehouse."""


def _state_option(command: F) -> F:
    return click.option(
        "--state",
        "directory",
        type=click.Path(file_okay=False, path_type=pathlib.Path),
        help="Folder that holds everything (default: ~/.seamline, or SEAMLINE_HOME).",
    )(command)


@local.command()
@_state_option
@click.option("--kafka-port", type=click.IntRange(1, 65535), help="Port of the broker.")
@click.option("--foreground", is_flag=True, help="Stay in the foreground; Ctrl-C stops everything.")
def up(directory: pathlib.Path | None, kafka_port: int | None, foreground: bool) -> None:
    """Start the stack, unless it is already running."""
    stack = _stack(directory)
    with interrupted_by_signals():
        with progress.shown("starting") as line:
            status = stack.up(line.report, kafka_port)
        try:
            click.echo(_how_to_connect(status, foreground=foreground))
            if foreground:
                stack.wait(_say)
        except KeyboardInterrupt:
            if not foreground:
                raise
            _say("stopping …")
        finally:
            if foreground:
                stack.down(_say)


@local.command()
@_state_option
def down(directory: pathlib.Path | None) -> None:
    """Stop the stack; its data is kept."""
    stack = _stack(directory)
    _say("stopped; the data is kept" if stack.down(_say) else "nothing is running")


@local.command()
@_state_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(directory: pathlib.Path | None, as_json: bool) -> None:
    """Show what is running; the exit code is 3 when no broker answers."""
    stack = _stack(directory).status()
    click.echo(json.dumps(dataclasses.asdict(stack), default=str) if as_json else _describe(stack))
    if not stack.ready:
        click.get_current_context().exit(NOT_RUNNING)


_partitions_option = click.option(
    "--partitions", type=click.IntRange(min=1), default=4, show_default=True
)


@local.command()
@_state_option
@click.argument("name")
@_partitions_option
def topic(directory: pathlib.Path | None, name: str, partitions: int) -> None:
    """Create the topic NAME; the broker creates none on its own."""
    servers = _servers(directory)
    from seamline.gateway.dev.local import records

    if records.make_topic(servers, name, partitions):
        click.echo(f"topic {name} with {partitions} partitions on {servers}")
    else:
        click.echo(f"topic {name} already exists")


@local.command()
@_state_option
@click.argument("file", type=click.File("rb"))
@click.option("--topic", "name", help="The topic (default: FILE's name without its suffix).")
@click.option("--key", help="Field of the records to use as the record key.")
@_partitions_option
def produce(
    directory: pathlib.Path | None,
    file: BinaryIO,
    name: str | None,
    key: str | None,
    partitions: int,
) -> None:
    """Produce the lines of FILE, or of standard input (-), creating the topic if needed."""
    if name is None and file.name == "<stdin>":
        raise click.UsageError("give --topic for records from standard input")
    name = name or pathlib.Path(file.name).stem
    servers = _servers(directory)
    from seamline.gateway.dev.local import records

    records.make_topic(servers, name, partitions)
    lines = Counted(file)
    with contextlib.nullcontext() if file.isatty() else progress.shown(doing=lines.doing):
        count = records.produce_lines(servers, name, lines, key)
    plural = "" if count == 1 else "s"
    click.echo(f"{count:,} record{plural} acknowledged in topic {name} on {servers}")


class Counted:
    """Lines of a file, and how many of them have been read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._began = time.monotonic()
        self._read = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._file:
            self._read += 1
            yield line

    def doing(self) -> tuple[str, float]:
        """See `progress.Doing`."""
        seconds = time.monotonic() - self._began
        return f"{self._read:,} lines produced, {self._read / max(seconds, 1):,.0f}/s", seconds


def _servers(directory: pathlib.Path | None) -> str:
    """Returns the address of the running broker.

    Raises:
        SeamlineError: LOCAL_STACK_DOWN.
    """
    stack = _stack(directory).status()
    if not stack.ready or stack.bootstrap_servers is None:
        raise SeamlineError(LOCAL_STACK_DOWN, f"no broker answers in {stack.directory}")
    return stack.bootstrap_servers


def _stack(directory: pathlib.Path | None) -> LocalStack:
    return LocalStack(directory or local_state_directory(os.environ))


def _describe(status: StackStatus) -> str:
    if not status.running:
        return f"nothing is running in {status.directory}; `seamline local up` starts it"
    state = "runs" if status.ready else "runs but does not answer"
    return (
        f"Kafka          {state} on {status.bootstrap_servers} (process {status.pid})\n"
        f"configuration  {status.config_file}\n"
        f"broker's log   {status.log_file}"
    )


def _how_to_connect(status: StackStatus, *, foreground: bool) -> str:
    lines = [_describe(status), "", "Next:"]
    if status.directory != local_state_directory(os.environ).expanduser().resolve():
        lines.append(f"  export SEAMLINE_HOME={shlex.quote(str(status.directory))}")
    lines.append("  seamline local produce FILE --topic TOPIC")
    lines.append("  seamline table create NAME --topic TOPIC --infer")
    lines.append("  seamline serve --detach")
    if foreground:
        lines.append("Ctrl-C stops everything.")
    else:
        lines.append("  seamline local down")
    return "\n".join(lines)


def _say(line: str) -> None:
    click.echo(line, err=True)
