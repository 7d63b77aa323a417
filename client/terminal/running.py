"""Runs a statement interactively: shows its progress, and the position of an error in it."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import click

from seamline.dbapi.cursor import Cursor
from seamline.dbapi.errors import Error
from seamline.errors import Location
from seamline.terminal.lexis import Statement
from seamline.terminal.pictures import width_of

_CLEAR = "\r\033[K"
_LINE_WIDTH = 76


def run(
    cursor: Cursor,
    statement: Statement,
    *,
    script: str | None = None,
    show_progress: bool = False,
    **options: Any,
) -> None:
    """Runs a statement; Ctrl-C cancels it on the gateway.

    Args:
        cursor: The cursor to run it on.
        statement: The statement.
        script: Name of the script it comes from, if any.
        show_progress: Whether to show its progress in a line on the terminal.
        options: Further options of `Cursor.execute`.

    Raises:
        Error: the gateway's named error, with its position shown in its notes.
    """
    progress = Progress() if show_progress else None
    try:
        cursor.execute(statement.text, progress=progress, **options)
    except Error as error:
        if error.location is not None:
            location = error.location
            error.location = statement.in_script(location)
            if location.line <= statement.text.count("\n") + 1:
                error.add_note(marked(statement.text, location, error.location.line))
        if script is not None:
            error.add_note(f"in {script}: statement {statement.number}, line {statement.line}")
        raise
    finally:
        if progress is not None:
            progress.clear()


def marked(sql: str, location: Location, line_shown: int | None = None) -> str:
    """Returns the line of a statement that has an error, with a caret under the position.

    Args:
        sql: The statement.
        location: The error's position in it.
        line_shown: The line number to show; by default the line's own.
    """
    lines = sql.split("\n")
    line = lines[min(location.line, len(lines)) - 1].rstrip()
    line = "".join(c if c.isprintable() else " " for c in line)
    column = min(max(location.column - 1, 0), len(line))
    start = max(0, column - _LINE_WIDTH // 2) if len(line) > _LINE_WIDTH else 0
    piece = line[start : start + _LINE_WIDTH]
    head = f"line {location.line if line_shown is None else line_shown}: " + ("…" if start else "")
    tail = "…" if start + _LINE_WIDTH < len(line) else ""
    caret = " " * (width_of(head) + width_of(line[start:column])) + "^"
    return f"{head}{piece}{tail}\n{caret}"


def show_within(error: Error, written: str = "", begin: int = 0) -> None:
    """Marks the position of an error in the part of a statement that the user has written.

    Args:
        error: The error of a statement that a command has made.
        written: The user's part of the statement; empty if it has none.
        begin: Where the part begins in the statement's first line.

    A position elsewhere is dropped: the user knows no such statement.
    """
    error.location = here = error.location and error.location.within(written, begin)
    if here is not None:
        error.add_note(marked(written, here))


class Progress:
    """A progress line on the terminal, for as long as a statement runs."""

    def __init__(self) -> None:
        self._is_shown = False

    def __call__(self, manifest: Mapping[str, Any]) -> None:
        """Shows the progress that the gateway reports."""
        width = shutil.get_terminal_size().columns - 1
        click.echo(_CLEAR + progress_line(manifest, width), err=True, nl=False)
        self._is_shown = True

    def clear(self) -> None:
        """Removes the line."""
        if self._is_shown:
            click.echo(_CLEAR, err=True, nl=False)
            self._is_shown = False


def progress_line(manifest: Mapping[str, Any], width: int = 1000) -> str:
    """Returns a statement's progress; what does not fit is left out, least important first."""
    progress = manifest.get("progress") or {}
    parts = [f"{manifest['state'].lower()} {manifest['elapsed_s']:.1f} s", *_reads(progress)]
    shown = [*parts, "Ctrl-C cancels"]
    while len(" · ".join(shown)) > width and len(shown) > 2:
        shown.pop(-2)
    return " · ".join(shown)


def _reads(progress: Mapping[str, Any]) -> Iterator[str]:
    """Yields what a statement reads and has produced, most important first."""
    if "engine" in progress:
        yield f"on {progress['engine']}"
    if "doing" in progress:
        yield str(progress["doing"])
    if progress.get("rows_produced"):
        yield f"{progress['rows_produced']:,} rows so far"
    cold, hot = progress.get("rows_cold_estimated", 0), progress.get("rows_hot_estimated", 0)
    if cold or hot:
        yield f"reads {cold:,} cold + {hot:,} hot"
    if progress.get("bytes_estimated"):
        yield f"{size(progress['bytes_estimated'])} of files"


def size(bytes_: int) -> str:
    """Returns a number of bytes in human-readable form."""
    number = float(bytes_)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def receipt_line(cursor: Cursor) -> str:
    """Returns the receipt in one line."""
    if cursor.rowcount < 0:
        return "done"
    receipt = cursor.receipt
    rows = f"{cursor.rowcount:,} row{'s' if cursor.rowcount != 1 else ''}"
    if cursor.description is None:
        return f"{rows} written"
    if cursor.truncated:
        rows += ", cut off there"
    if not receipt:
        return rows
    cold, hot = receipt["rows_cold"], receipt["rows_hot"]
    parts = [
        rows,
        *([f"{cold:,} cold + {hot:,} hot read"] if cold is not None else []),
        receipt["engine"],
        f"as of {_moment(receipt['as_of'])}",
    ]
    # null where the reader may not see all rows
    pending = sum(table["pending_offsets"] or 0 for table in receipt["tables"])
    skipped = sum((t["skipped_cold"] or 0) + (t["skipped_hot"] or 0) for t in receipt["tables"])
    if receipt.get("cache_hit"):
        parts.append("from the result cache")
    if pending:
        parts.append(f"{pending:,} offsets held back by open transactions")
    if skipped:
        parts.append(f"{skipped:,} bad records skipped")
    return " · ".join(parts)


def _moment(text: str) -> str:
    moment = datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
    return moment.replace(tzinfo=None).isoformat(" ", "milliseconds") + " UTC"
