"""Renders results for people: as a table, vertically, as Markdown, or a plan's text unchanged.

On a terminal, no output is wider than the terminal. In a table that does not fit, text is narrowed,
and cells that are cut end in `…`; times and numbers stay whole. If too little text would be left,
rows are shown vertically, in full. No value can control the terminal: unprintable characters are
shown as dots.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import itertools
import json
import os
import re
import shutil
import textwrap
import unicodedata
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from seamline.dbapi.texts import json_value, printable, text

if TYPE_CHECKING:
    import pyarrow as pa

NULL = "∅"
COLUMN_WIDTH_MIN = 12
"""A column is not narrowed below this; rows are shown vertically instead."""
_SAMPLE_ROWS = 1000
_TEXT = frozenset({"varchar", "char", "varbinary", "json", "array", "map", "row"})
"""The types whose values may be cut; of others, a part would be another value."""
_PARAMETERS = re.compile(r"\([^)]*\)")
_TIME_WIDTHS = {"time": 15, "timestamp": 26, "timestamp with time zone": 30}
"""The widest times, for rows after those by which columns are measured."""
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_NUMBERS = frozenset({"tinyint", "smallint", "integer", "bigint", "real", "double", "decimal"})


class Result(Protocol):
    """The parts of a cursor that give access to a result."""

    @property
    def description(self) -> Sequence[tuple[Any, ...]] | None:
        """The name, type and further attributes of each column."""

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Returns the next rows."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Iterates over the remaining rows."""

    def fetch_record_batch(self) -> pa.RecordBatchReader:
        """Returns all rows as Arrow."""


class Sink(Protocol):
    """Something that text can be written to."""

    def write(self, text: str, /) -> object:
        """Writes more text."""


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """How text output looks.

    Attributes:
        null: Text of a null; None for the format's default.
        width: Columns of the terminal; None if there is no limit.
        colour: Whether escape sequences may be written.
    """

    null: str | None = None
    width: int | None = None
    colour: bool = False

    @property
    def null_text(self) -> str:
        """Text of a null in formats for people."""
        return NULL if self.null is None else self.null


def look_of_terminal(null: str | None = None) -> Look:
    """Returns the look for the current terminal."""
    width = shutil.get_terminal_size().columns
    return Look(null, width, colour=not os.environ.get("NO_COLOR"))


def columns_of(result: Result) -> tuple[list[str], list[str]]:
    """Returns the names and the types of a result's columns."""
    described = result.description or ()
    return [str(column[0]) for column in described], [str(column[1]) for column in described]


def cell_text(value: Any) -> str:
    """Returns a non-null value in the form people read."""
    match value:
        case bytes():
            return "0x" + value.hex()
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(" ") + " UTC"
        case datetime.datetime():
            return value.isoformat(" ")
        case list() | dict():
            return json.dumps(_readable(value), ensure_ascii=False)
        case datetime.time():
            return value.isoformat()
    return text(value)


def _readable(value: Any) -> Any:
    """Returns a nested value for JSON, with its leaves in the form people read."""
    match value:
        case dict():
            return {
                k if isinstance(k, str) else cell_text(k): _readable(v) for k, v in value.items()
            }
        case list():
            return [_readable(item) for item in value]
        case bytes() | uuid.UUID() | decimal.Decimal() | datetime.date() | datetime.time():
            return cell_text(value)
    return json_value(value)


# --- A table -------------------------------------------------------------------------------------


def write_table(result: Result, sink: Sink, look: Look) -> None:
    """Writes a table with borders, or rows vertically if the terminal is too narrow for it."""
    names, types = columns_of(result)
    if not names:
        return
    sample = result.fetchmany(_SAMPLE_ROWS)
    shown = [[_shown(cell, look) for cell in row] for row in sample]
    fitted = _column_widths(names, types, shown, look.width)
    rows = itertools.chain(sample, result)
    if fitted is None:
        _write_rows_below(names, rows, sink, look)
        return
    right = [_base(type_) in _NUMBERS for type_ in types]

    def line(left: str, middle: str, end: str) -> str:
        return left + middle.join("─" * (width + 2) for width in fitted) + end + "\n"

    def row_line(cells: Iterable[str]) -> str:
        return "│ " + " │ ".join(cells) + " │\n"

    heads = [_padded(printable(n), w, r) for n, w, r in zip(names, fitted, right, strict=True)]
    sink.write(line("┌", "┬", "┐") + row_line(heads) + line("├", "┼", "┤"))
    for row in rows:
        cells = [
            _dim_if_null(_padded(_shown(cell, look), width, to_right), cell, look)
            for cell, width, to_right in zip(row, fitted, right, strict=True)
        ]
        sink.write(row_line(cells))
    sink.write(line("└", "┴", "┘"))


def _column_widths(
    names: list[str], types: list[str], shown: list[list[str]], width: int | None
) -> list[int] | None:
    """Returns the width of each column, by the first rows; None if the table fits in none."""
    values = [max([1, *(width_of(row[i]) for row in shown)]) for i in range(len(names))]
    if len(shown) == _SAMPLE_ROWS:
        widest = [_TIME_WIDTHS.get(_PARAMETERS.sub("", type_), 0) for type_ in types]
        values = list(map(max, values, widest))
    full = [max(v, width_of(printable(name))) for v, name in zip(values, names, strict=True)]
    if width is None:
        return full
    smallest = [
        max(0 if _base(type_) in _TEXT else value, min(most, COLUMN_WIDTH_MIN))
        for type_, value, most in zip(types, values, full, strict=True)
    ]
    return _fitted(full, smallest, width)


def _base(type_: str) -> str:
    """Returns the name of a type without its parameters."""
    return type_.partition("(")[0]


def _fitted(widths: list[int], smallest: list[int], width: int) -> list[int] | None:
    """Returns column widths that fit, the widest narrowed first.

    Args:
        widths: The width of each column in full.
        smallest: The width below which each is not narrowed.
        width: The width of the terminal.

    Returns:
        The widths; None if the table fits in none.
    """
    room = width - (3 * len(widths) + 1)

    def narrowed(most: int) -> list[int]:
        return [max(least, min(w, most)) for w, least in zip(widths, smallest, strict=True)]

    if sum(smallest) > room:
        return None
    low, high = 0, max(widths)  # bounds for the greatest width of a column
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sum(narrowed(middle)) <= room else (low, middle - 1)
    fitted = narrowed(low)
    left = room - sum(fitted)
    for position, full in enumerate(widths):  # leftover space goes to the first narrowed columns
        if left > 0 and fitted[position] < full:
            fitted[position] += 1
            left -= 1
    return fitted


# --- Rows one below the other --------------------------------------------------------------------


def write_vertical(result: Result, sink: Sink, look: Look) -> None:
    """Writes each column on its own lines, in full."""
    names, _ = columns_of(result)
    if names:
        _write_rows_below(names, result, sink, look)


def _write_rows_below(
    names: Sequence[str], rows: Iterable[Sequence[Any]], sink: Sink, look: Look
) -> None:
    clean = [printable(name) for name in names]
    name_width = max(map(width_of, clean))
    for number, row in enumerate(rows, start=1):
        title = f"─[ row {number:,} ]"
        sink.write(title + "─" * max(0, min(look.width or 60, 60) - len(title)) + "\n")
        for name, cell in zip(clean, row, strict=True):
            lines = _lines_of(cell, look, name_width)
            sink.write(f"{_padded(name, name_width, False)} │ {lines[0]}\n")
            for more in lines[1:]:
                sink.write(f"{' ' * name_width} │ {more}\n")


def _lines_of(value: Any, look: Look, name_width: int) -> list[str]:
    """Splits a value into lines: at its own line breaks, and at the terminal's width."""
    if value is None:
        return [_dim_if_null(look.null_text, None, look)]
    lines = [printable(line) for line in cell_text(value).split("\n")]
    if look.width is None:
        return lines
    room = max(10, look.width - name_width - 3)
    return [piece for line in lines for piece in _pieces(line, room)]


def _pieces(line: str, room: int) -> Iterator[str]:
    while width_of(line) > room:
        cut = len(_cut(line, room))
        yield line[:cut]
        line = line[cut:]
    yield line


# --- Markdown, and text as it is -----------------------------------------------------------------

_MARKDOWN = str.maketrans({"\\": "\\\\", "|": "\\|", "\n": "<br>", "\r": "", "<": "&lt;"})


def write_markdown(result: Result, sink: Sink, look: Look) -> None:
    """Writes a table in GitHub's Markdown; numbers are right-aligned."""
    names, types = columns_of(result)
    if not names:
        return
    marks = ["--:" if _base(type_) in _NUMBERS else "---" for type_ in types]

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cells) + " |\n"

    sink.write(line(name.translate(_MARKDOWN) for name in names) + line(marks))
    for row in result:
        sink.write(
            line(look.null_text if c is None else cell_text(c).translate(_MARKDOWN) for c in row)
        )


def write_raw(result: Result, sink: Sink, look: Look) -> None:
    """Writes the lines of a text, such as a plan; long lines wrap with a further indent."""
    for row in result:
        for line in cell_text(row[0]).split("\n") if row[0] is not None else ():
            for piece in _wrapped(printable(line), look.width):
                sink.write(f"{piece}\n")


def _wrapped(line: str, width: int | None) -> list[str]:
    if width is None or width_of(line) <= width:
        return [line]
    text_start = len(line) - len(line.lstrip(" │├└─"))
    indent = line[:text_start].replace("├", "│").replace("└", " ").replace("─", " ") + "    "
    return textwrap.wrap(
        line,
        max(width, len(indent) + 10),
        subsequent_indent=indent,
        drop_whitespace=True,
        break_on_hyphens=False,
    )


# --- Cells ---------------------------------------------------------------------------------------


def _shown(value: Any, look: Look) -> str:
    return look.null_text if value is None else printable(cell_text(value))


def _dim_if_null(shown: str, value: Any, look: Look) -> str:
    return f"{_DIM}{shown}{_PLAIN}" if value is None and look.colour else shown


def width_of(text: str) -> int:
    """Returns the number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _cut(text: str, room: int) -> str:
    """Returns the longest prefix that fits, but at least one character."""
    used = 0
    for position, character in enumerate(text):
        used += width_of(character)
        if used > room and position:
            return text[:position]
    return text


def cut_text(text: str, width: int) -> str:
    """Returns a clean text, cut to a number of terminal columns; a cut text ends in `…`."""
    if width_of(text) <= width:
        return text
    return _cut(text, width - 1) + "…" if width > 1 else "…"


def _padded(text: str, width: int, to_right: bool) -> str:
    """Returns a clean text, padded or cut to a width; a cut text ends in `…`."""
    text = cut_text(text, width)
    gap = " " * (width - width_of(text))
    return gap + text if to_right else text + gap
