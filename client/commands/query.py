"""`seamline query`: runs statements on a gateway and writes their results to standard output.

Without a statement, on a terminal, it starts a prompt (`seamline.shell`); `seamline` alone does the
same. Statements from a file, from `--execute` or from standard input run in one session, in order;
the first failure ends it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Sequence
from typing import IO, Any

import click

from seamline.commands.options import connect, embedded_options, gateway_options, profile_of
from seamline.dbapi.connection import Connection
from seamline.dbapi.embedded import EmbeddedConnection
from seamline.errors import INVALID_ARGUMENT, INVALID_CONFIG, SeamlineError, text_of_file
from seamline.shell.state import State
from seamline.terminal.lexis import Statement, statements
from seamline.terminal.output import BINARY_WRITERS, FORMATS, WRITERS, open_output, write
from seamline.terminal.pictures import Look, look_of_terminal
from seamline.terminal.running import receipt_line, run

_STDIN = "-"
_SOME = f"The formats are {', '.join(FORMATS)}."


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """Statements to run, and the name of their script if it has several."""

    name: str | None
    statements: tuple[Statement, ...]


@click.command()
@click.argument("statement", required=False)
@click.option(
    "--execute", "-e", multiple=True, metavar="SQL", help="Statements to run; repeatable."
)
@click.option("--file", "-f", help="File of statements to run; - for standard input.")
@gateway_options
@embedded_options
@click.option("--format", "format_", type=click.Choice(FORMATS), help="[default: table]")
@click.option("--output", "-o", help="File to write to.")
@click.option("--null", help="How a null is shown.")
@click.option("--engine", type=click.Choice(["auto", "duckdb", "spark"]), default="auto")
@click.option("--catalog", help="Default catalog for names without one.")
@click.option("--schema", help="Default schema for names without one.")
@click.option("--token", help="Token from an earlier receipt, to read the same rows again.")
@click.option("--after", multiple=True, help="Token that the result must be at least as new as.")
@click.option("--timeout", type=float, help="Seconds a statement may take.")
@click.option("--freshness", help="latest, \"bounded '500ms'\" or cached.")
@click.option("--limit", type=int, help="Cut results off after this many rows.")
@click.option("--dialect", help="SQL dialect of the statement, if not Trino's.")
@click.option("--param", "-p", multiple=True, help="Value for the next ? (text).")
@click.option("--quiet", "-q", is_flag=True, help="Do not print progress or the receipt.")
@click.option("--no-pager", is_flag=True, help="Never use a pager.")
def query(
    statement: str | None,
    execute: tuple[str, ...],
    file: str | None,
    format_: str | None,
    null: str | None,
    no_pager: bool,
    **options: Any,
) -> None:
    """Run STATEMENT on a gateway; `-` reads statements from standard input.

    Without any statement, on a terminal, it starts a prompt.
    """
    source = _source(statement, execute, file)
    profile = profile_of(options)
    form = format_ or profile.format or "table"
    if form not in FORMATS:
        raise SeamlineError(INVALID_CONFIG, f"the profile's format {form} is not known", hint=_SOME)
    if source is not None:
        _refuse_what_does_not_fit(source, form, options)
    follows = source is None or len(source.statements) > 1
    with connect(options, profile, follows=follows) as connection:
        if source is not None:
            _run_all(connection, source, form, null, options)
            return
        from seamline.shell.prompt import converse

        if form not in WRITERS:
            raise click.UsageError(f"--format {form} needs a statement")
        look = State(form, null, pages=not no_pager, options=_settings(options))
        converse(connection, look, _where(connection))


def _where(connection: Connection) -> str:
    """Describes the gateway that answers, for the user at the prompt."""
    if isinstance(connection, EmbeddedConnection):
        return f"a gateway in this command, over {connection.place}"
    return connection.url


def _source(statement: str | None, execute: Sequence[str], file: str | None) -> Source | None:
    """Returns the statements to run; None if the user will type them at a prompt."""
    if sum((statement is not None, bool(execute), file is not None)) > 1:
        raise click.UsageError("give either a statement, --execute or --file")
    if statement is not None and statement != _STDIN:
        return Source(None, (Statement(statement),) if statements(statement) else ())
    if execute:
        script = _together(execute)
        return Source("--execute" if len(script) > 1 else None, script)
    if file is None and statement is None and sys.stdin.isatty() and sys.stdout.isatty():
        return None
    if file in {None, _STDIN}:
        script = tuple(statements(sys.stdin.buffer.read().decode(errors="replace")))
        return Source("standard input" if len(script) > 1 else None, script)
    text = text_of_file(str(file), INVALID_ARGUMENT, f"{file} cannot be read", hint="")
    return Source(file, tuple(statements(text)))


def _together(texts: Sequence[str]) -> tuple[Statement, ...]:
    """Returns the statements of several texts, one after another."""
    script = [each for text in texts for each in statements(text)]
    return tuple(dataclasses.replace(each, number=i) for i, each in enumerate(script, start=1))


def _refuse_what_does_not_fit(source: Source, form: str, options: dict[str, Any]) -> None:
    if not source.statements:
        raise click.UsageError("there is no statement to run")
    if form not in BINARY_WRITERS:
        return
    if options["output"] is None and sys.stdout.isatty():
        raise click.UsageError(f"--format {form} is not for terminals; give --output FILE")
    if len(source.statements) > 1:
        raise click.UsageError(f"--format {form} takes one statement")


def _run_all(
    connection: Connection, source: Source, form: str, null: str | None, options: dict[str, Any]
) -> None:
    """Runs statements in order; creates the output file only once the first one has run."""
    output, quiet = options["output"], options["quiet"]
    to_terminal = output is None and sys.stdout.isatty()
    look = look_of_terminal(null) if to_terminal else Look(null)
    settings = {**_settings(options), "parameters": list(options["param"])}
    with contextlib.ExitStack() as files:
        sink: IO[Any] | None = None
        for each in source.statements:
            cursor = connection.cursor()
            show = not quiet and sys.stderr.isatty()
            run(cursor, each, script=source.name, show_progress=show, **settings)
            if sink is None:
                sink = files.enter_context(open_output(output, binary=form in BINARY_WRITERS))
            write(cursor, form, sink, look, raw=each.is_raw)
            sink.flush()
            if not quiet:
                click.echo(receipt_line(cursor), err=True)


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of every statement, as `Cursor.execute` takes them."""
    return {
        "engine": options["engine"],
        "token": options["token"],
        "after": options["after"],
        "freshness": options["freshness"],
        "timeout": options["timeout"],
        "row_limit": options["limit"],
        "dialect": options["dialect"],
    }
