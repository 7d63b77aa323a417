"""Pages: a result in pieces of bounded size, out of its spool.

A page begins at a place, a chunk and a row in it, and ends after so many bytes of JSON, or with the
chunk. The place is all there is to know of it, so that it can be asked for again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence

import pyarrow as pa

from seamline.gateway.query.spool import read_chunk
from seamline.gateway.trino.values import encoder, is_plain
from seamline.sql.types import Type

PAGE_BYTES = 1 << 20
"""JSON of a page, but for its last row."""
_BLOCK_ROWS = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a page begins: a chunk of the result, and a row of the chunk."""

    chunk: int = 0
    row: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """Rows of a result.

    Attributes:
        rows: Each row as JSON.
        next: Where the next page begins.
    """

    rows: Sequence[str]
    next: Place


def page(data: bytes, place: Place, column_types: Sequence[Type]) -> Page:
    """The page of a chunk that begins at a place.

    Args:
        data: The chunk.
        place: Where it begins.
        column_types: The types of its columns.
    """
    rows: list[str] = []
    size = 0
    for text in _rows(data, place.row, column_types):
        if size >= PAGE_BYTES:
            return Page(rows, Place(place.chunk, place.row + len(rows)))
        rows.append(text)
        size += len(text)
    return Page(rows, Place(place.chunk + 1))


def _rows(data: bytes, start: int, column_types: Sequence[Type]) -> Iterator[str]:
    """The rows of a chunk as JSON, without the first ones; made a block at a time."""
    encoders = [None if is_plain(type_) else encoder(type_) for type_ in column_types]
    write = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    for batch in read_chunk(data):
        step = _block(batch)
        for at in range(start, batch.num_rows, step):
            columns = [
                values if encode is None else [encode(value) for value in values]
                for values, encode in zip(
                    (column.to_pylist() for column in batch.slice(at, step).columns),
                    encoders,
                    strict=True,
                )
            ]
            yield from map(write, zip(*columns, strict=True))
        start = max(0, start - batch.num_rows)


def _block(batch: pa.RecordBatch) -> int:
    """Rows that are converted at once: few, where rows are large."""
    row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
    return int(max(1, min(_BLOCK_ROWS, PAGE_BYTES // row_bytes)))
