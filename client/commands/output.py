"""Results written for people and programs: a table, CSV, JSON lines or Parquet."""

from __future__ import annotations

import base64
import csv
import datetime
import decimal
import json
import math
import pathlib
import sys
import unicodedata
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any

from seamline.dbapi.cursor import Cursor
from seamline.dbapi.errors import InterfaceError
from seamline.errors import INVALID_ARGUMENT

WIDTH_MAX = 60
_SAMPLE_ROWS = 1000

Writer = Callable[[Cursor, IO[str]], None]


def write_table(cursor: Cursor, sink: IO[str]) -> None:
    """A table with borders; widths come from the first rows."""
    names, types = _columns(cursor)
    sample = [[cell_text(cell) for cell in row] for row in cursor.fetchmany(_SAMPLE_ROWS)]
    right = [_is_number(type_) for type_ in types]
    width_max = WIDTH_MAX if len(names) > 1 else sys.maxsize  # a plan is shown whole
    widths = [
        min(width_max, max(_width(name), *(_width(row[i]) for row in sample), 1))
        if sample
        else max(1, _width(name))
        for i, name in enumerate(names)
    ]

    def line(left: str, middle: str, end: str) -> str:
        return left + middle.join("─" * (width + 2) for width in widths) + end + "\n"

    def row_text(cells: Sequence[str]) -> str:
        padded = [
            _pad(cell, width, to_right)
            for cell, width, to_right in zip(cells, widths, right, strict=True)
        ]
        return "│ " + " │ ".join(padded) + " │\n"

    sink.write(line("┌", "┬", "┐") + row_text(names) + line("├", "┼", "┤"))
    for cells in sample:
        sink.write(row_text(cells))
    for row in cursor:
        sink.write(row_text([cell_text(cell) for cell in row]))
    sink.write(line("└", "┴", "┘"))


def write_csv(cursor: Cursor, sink: IO[str], *, header: bool = True) -> None:
    """RFC 4180; null is empty."""
    names, _ = _columns(cursor)
    writer = csv.writer(sink)
    if header:
        writer.writerow(names)
    for row in cursor:
        writer.writerow(["" if cell is None else cell_text(cell) for cell in row])


def write_json(cursor: Cursor, sink: IO[str]) -> None:
    """One JSON object a line."""
    names, _ = _columns(cursor)
    for row in cursor:
        record = dict(zip(names, map(_json_cell, row), strict=True))
        sink.write(json.dumps(record, ensure_ascii=False) + "\n")


def write_parquet(cursor: Cursor, path: pathlib.Path) -> int:
    """A Parquet file; returns the number of rows.

    Raises:
        InterfaceError: MISSING_EXTRA without pyarrow, INVALID_ARGUMENT when the file cannot be
            made.
    """
    reader = cursor.fetch_record_batch()
    import pyarrow.parquet as pq

    rows = 0
    with _open(path, "wb") as sink, pq.ParquetWriter(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


WRITERS: Mapping[str, Writer] = {"table": write_table, "csv": write_csv, "json": write_json}


def open_sink(path: str | None) -> IO[str]:
    """Standard output, or a new file.

    Raises:
        InterfaceError: INVALID_ARGUMENT when the file cannot be made.
    """
    return sys.stdout if path is None else _open(pathlib.Path(path), "w")


def _open(path: pathlib.Path, mode: str) -> IO[Any]:
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        return path.open(mode, **text)  # type: ignore[call-overload, no-any-return]
    except OSError as error:
        raise InterfaceError(
            INVALID_ARGUMENT, f"{path} cannot be written: {error.strerror}", hint=""
        ) from error


def cell_text(value: Any) -> str:
    """A value as people read it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case bytes():
            return "0x" + value.hex()
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(" ") + " UTC"
        case datetime.datetime():
            return value.isoformat(" ")
        case list() | dict():
            return json.dumps(_json_cell(value), ensure_ascii=False)
        case decimal.Decimal():
            return format(value, "f")
    return str(value)


def _json_cell(value: Any) -> Any:
    match value:
        case dict():
            return {
                key if isinstance(key, str) else cell_text(key): _json_cell(item)
                for key, item in value.items()
            }
        case list():
            return [_json_cell(item) for item in value]
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            return str(value)
        case uuid.UUID():
            return str(value)
        case datetime.date() | datetime.time() | decimal.Decimal():
            return cell_text(value)
    return value


def _columns(cursor: Cursor) -> tuple[list[str], list[str]]:
    described: Iterable[tuple[Any, ...]] = cursor.description or ()
    pairs = [(str(column[0]), str(column[1])) for column in described]
    return [name for name, _ in pairs], [type_ for _, type_ in pairs]


def _is_number(type_: str) -> bool:
    return type_.split("(")[0] in {
        "tinyint", "smallint", "integer", "bigint", "real", "double", "decimal",
    }  # fmt: skip


def _width(text: str) -> int:
    """Columns of a terminal; line breaks and control characters are shown as one."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _pad(text: str, width: int, to_right: bool) -> str:
    clean = "".join(c if c.isprintable() else "·" for c in text)
    while _width(clean) > width:
        clean = clean[: max(0, len(clean) - (_width(clean) - width) - 1)] + "…"
        if _width(clean) > width:
            clean = clean[:-2] + "…"
    gap = " " * (width - _width(clean))
    return gap + clean if to_right else clean + gap
