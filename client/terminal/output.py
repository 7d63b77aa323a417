"""Writes results in every supported format, for people and for programs.

table, vertical, markdown          for people: see `seamline.terminal.pictures`
csv, tsv, json, ndjson             for programs: values as in `seamline.dbapi.texts`
parquet, arrow (an IPC stream)     binary: keep the types; never on a terminal
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, BinaryIO

from seamline.dbapi.errors import InterfaceError
from seamline.dbapi.texts import json_value, printable, separated_line
from seamline.errors import INVALID_ARGUMENT
from seamline.terminal import pictures
from seamline.terminal.pictures import Look, Result, Sink, columns_of

Writer = Callable[[Result, Sink, Look], None]


def write_csv(result: Result, sink: Sink, look: Look, *, header: bool = True) -> None:
    """Writes CSV as in RFC 4180; a null is an empty cell without quotes."""
    _write_separated(result, sink, look, separator=",", end="\r\n", header=header)


def write_tsv(result: Result, sink: Sink, look: Look) -> None:
    """Writes TSV: like CSV, with tabs instead of commas, and plain line feeds."""
    _write_separated(result, sink, look, separator="\t", end="\n", header=True)


def _write_separated(
    result: Result, sink: Sink, look: Look, *, separator: str, end: str, header: bool
) -> None:
    null = look.null or ""
    names, _ = columns_of(result)
    if header and names:
        sink.write(separated_line(names, separator=separator, null=null, end=end))
    for row in result:
        sink.write(separated_line(row, separator=separator, null=null, end=end))


def write_ndjson(result: Result, sink: Sink, _: Look) -> None:
    """Writes one JSON object per line."""
    for record in _records(result):
        sink.write(record + "\n")


def write_json(result: Result, sink: Sink, _: Look) -> None:
    """Writes an array of JSON objects, one per line."""
    separator = "["
    for record in _records(result):
        sink.write(f"{separator}\n{record}")
        separator = ","
    sink.write("[]\n" if separator == "[" else "\n]\n")


def _records(result: Result) -> Iterator[str]:
    names, _ = columns_of(result)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InterfaceError(
            INVALID_ARGUMENT,
            f"a JSON object cannot have two members called {twice}",
            hint="Give the columns names of their own with AS.",
        )
    for row in result:
        record = dict(zip(names, map(json_value, row), strict=True))
        yield json.dumps(record, ensure_ascii=False)


def write_parquet(result: Result, sink: BinaryIO) -> None:
    """Writes a Parquet file."""
    reader = result.fetch_record_batch()
    import pyarrow.parquet as pq

    unended = _Unended(sink)
    with pq.ParquetWriter(unended, reader.schema) as writer, unended.without_end_on_failure():
        for batch in reader:
            writer.write_batch(batch)


def write_arrow(result: Result, sink: BinaryIO) -> None:
    """Writes an Arrow IPC stream."""
    reader = result.fetch_record_batch()
    import pyarrow.ipc

    unended = _Unended(sink)
    writer = pyarrow.ipc.new_stream(unended, reader.schema)
    with writer, unended.without_end_on_failure():
        for batch in reader:
            writer.write_batch(batch)


class _Unended:
    """A sink that drops what Arrow's writers write after a failure.

    They end even a part of a result such that it reads as a whole one.

    Args:
        sink: Takes the bytes until then.
    """

    closed = False

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._failed = False

    @contextlib.contextmanager
    def without_end_on_failure(self) -> Iterator[None]:
        """Drops everything after the block if it raises."""
        try:
            yield
        except BaseException:
            self._failed = True
            raise

    def write(self, data: bytes) -> int:
        """Writes bytes, or drops them."""
        return len(data) if self._failed else self._sink.write(data)

    def flush(self) -> None:
        """Flushes the sink."""
        if not self._failed:
            self._sink.flush()

    def close(self) -> None:
        """Leaves the sink open, which belongs to the caller."""


WRITERS: Mapping[str, Writer] = {
    "table": pictures.write_table,
    "vertical": pictures.write_vertical,
    "csv": write_csv,
    "tsv": write_tsv,
    "json": write_json,
    "ndjson": write_ndjson,
    "markdown": pictures.write_markdown,
}
"""The text formats."""
BINARY_WRITERS: Mapping[str, Callable[[Result, BinaryIO], None]] = {
    "parquet": write_parquet,
    "arrow": write_arrow,
}
FORMATS = (*WRITERS, *BINARY_WRITERS)
FOR_PEOPLE = frozenset({"table", "vertical"})
"""Formats that show a text result, such as a plan, unchanged."""


def write(result: Result, format_: str, sink: Any, look: Look, *, raw: bool = False) -> None:
    """Writes a result; writes nothing for a statement without one.

    Args:
        result: The result.
        format_: One of `FORMATS`.
        sink: Takes bytes for a binary format, else text.
        look: How text looks.
        raw: Whether the result is text for people, which needs no table.

    Raises:
        InterfaceError: MISSING_EXTRA for a binary format without pyarrow; INVALID_ARGUMENT for a
            result that the format cannot hold.
    """
    if result.description is None:
        return
    if format_ in BINARY_WRITERS:
        BINARY_WRITERS[format_](result, sink)
    elif raw and format_ in FOR_PEOPLE:
        pictures.write_raw(result, sink, look)
    else:
        is_raw = look.width is not None and format_ not in FOR_PEOPLE
        WRITERS[format_](result, OnTerminal(sink) if is_raw else sink, look)


class OnTerminal:
    """Text on its way to a terminal, which no value in it can control."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, text: str) -> None:
        """Writes lines; of what does not print, only tabs stay."""
        lines = text.replace("\r\n", "\n").split("\n")
        self._sink.write("\n".join("\t".join(map(printable, each.split("\t"))) for each in lines))


@contextlib.contextmanager
def open_output(path: str | None, *, binary: bool) -> Iterator[IO[Any]]:
    """Opens standard output, or a file that takes its place only once everything is written.

    Raises:
        InterfaceError: INVALID_ARGUMENT when the file cannot be created.
    """
    if path is None:
        sink: IO[Any] = sys.stdout.buffer if binary else sys.stdout
        yield sink
        sink.flush()
        return
    target = pathlib.Path(path)
    if target.exists() and not target.is_file():  # a pipe or a device, or a folder
        with _created(target, path, binary=binary) as file:
            yield file
        return
    file_path = target.resolve()
    part = file_path.with_name(f".{file_path.name}.{os.getpid()}.part")
    try:
        with _created(part, path, binary=binary) as file:
            if file_path.exists():
                shutil.copymode(file_path, part)
            yield file
        part.replace(file_path)
    finally:
        part.unlink(missing_ok=True)


def _created(file: pathlib.Path, path: str, *, binary: bool) -> IO[Any]:
    try:
        return file.open("wb") if binary else file.open("w", encoding="utf-8", newline="")
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}"
        raise InterfaceError(INVALID_ARGUMENT, message, hint="") from error
