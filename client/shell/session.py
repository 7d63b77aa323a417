"""Executes what is typed at the prompt: runs statements, shows results, obeys meta commands.

A failure is reported, and the session continues. Ctrl-C only cancels the statement on the gateway,
or ends its output.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import click

from seamline.dbapi.connection import Connection
from seamline.dbapi.cursor import Cursor
from seamline.dbapi.errors import InterfaceError
from seamline.ending import describe
from seamline.errors import INVALID_ARGUMENT, SeamlineError, text_of_file
from seamline.shell import meta
from seamline.shell.screen import Screen, pager_of
from seamline.shell.state import State
from seamline.terminal.lexis import Statement, is_complete, statements
from seamline.terminal.output import write
from seamline.terminal.pictures import Look, Sink, look_of_terminal
from seamline.terminal.running import receipt_line, run


class Session:
    """A session at the prompt.

    Args:
        connection: The connection to the gateway.
        state: The initial settings.
        names_changed: Called when statements may have changed which names exist.
    """

    def __init__(
        self, connection: Connection, state: State, names_changed: Callable[[], object]
    ) -> None:
        self.connection = connection
        self.state = state
        self._names_changed = names_changed

    def take(self, text: str) -> bool:
        """Executes what the user has typed, and reports failures.

        Returns:
            Whether all of it succeeded.

        Raises:
            EOFError: the session should end.
        """
        try:
            if meta.meta_of(text):
                meta.obey(self, text)
            else:
                for statement in statements(text):
                    self.run(statement)
        except SeamlineError as error:
            self.say(describe(error))
            return False
        except KeyboardInterrupt:
            self.say("canceled")
            return False
        return True

    def run(self, statement: Statement, *, script: str | None = None, pages: bool = True) -> None:
        """Runs a statement and shows its result.

        Args:
            statement: The statement.
            script: Name of the file it comes from, if any.
            pages: Whether a pager may be used.

        Raises:
            SeamlineError: the statement's failure.
        """
        state, started = self.state, time.monotonic()
        state.last = statement
        options = dict(state.options)
        if state.token_next is not None:
            options["token"], state.token_next = state.token_next, None
        with self.connection.cursor() as cursor:
            run(cursor, statement, script=script, show_progress=sys.stderr.isatty(), **options)
            took_s = time.monotonic() - started
            state.receipt = cursor.receipt
            state.token = cursor.token or state.token
            self._show(cursor, raw=statement.is_raw, pages=pages)
            if not statement.is_raw:
                self.say(receipt_line(cursor))
        if state.timing:
            self.say(f"time: {took_s:.3f} s")
        if statement.defines:
            self._names_changed()

    def run_file(self, path: pathlib.Path) -> None:
        """Executes a file until something fails.

        Raises:
            SeamlineError: the failure, with its position in the file.
        """
        failure = f"{path} cannot be read"
        text = text_of_file(path.expanduser(), INVALID_ARGUMENT, failure, hint="")
        lines = text.splitlines(keepends=True)
        number, pending, first = 0, "", 1
        for position, line in enumerate([*lines, ";"], start=1):
            if not pending.strip() and line.startswith(meta.SIGN):
                meta.obey(self, line.strip())
                continue
            first = first if pending.strip() else position
            pending += line
            if is_complete(pending) or position > len(lines):
                for statement in statements(pending):
                    number += 1
                    placed = dataclasses.replace(
                        statement, number=number, line=statement.line + first - 1
                    )
                    self.run(placed, script=str(path))
                pending = ""

    def say(self, line: str) -> None:
        """Prints a message that is not a result, to standard error."""
        click.echo(line, err=True)

    def print(self, line: str) -> None:
        """Prints requested output, to standard output."""
        click.echo(line)

    def _show(self, cursor: Cursor, *, raw: bool, pages: bool) -> None:
        with self._sink(pages) as (sink, look), contextlib.suppress(BrokenPipeError):
            write(cursor, self.state.format, sink, look, raw=raw)

    @contextlib.contextmanager
    def _sink(self, pages: bool) -> Iterator[tuple[Sink, Look]]:
        """Yields where a result goes, and how it looks there."""
        state = self.state
        if state.output is not None:
            with _appended(state.output) as file:
                yield file, Look(state.null)
            return
        pager = pager_of(os.environ) if pages and state.pages and sys.stdout.isatty() else None
        screen = Screen(pager, shutil.get_terminal_size().lines - 2)
        try:
            yield screen, look_of_terminal(state.null) if sys.stdout.isatty() else Look(state.null)
        finally:
            screen.close()


def _appended(path: pathlib.Path) -> Any:
    try:
        return path.expanduser().open("a", encoding="utf-8", newline="")
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}"
        raise InterfaceError(INVALID_ARGUMENT, message, hint="") from error
