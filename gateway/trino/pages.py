"""Pages: pieces of bounded size of a result, read from its spool.

A page begins at a place, which is a chunk and a row in it. It ends after `PAGE_BYTES` of JSON or
with the chunk. The place alone identifies the page, so that it can be requested again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence

import pyarrow as pa

from seamline.connectors.chunks import read_chunk
from seamline.gateway.query.far_years import python_values
from seamline.gateway.trino.values import encoder, is_plain
from seamline.sql.types import Type

PAGE_BYTES = 1 << 20
"""Size of a page's JSON, not counting its last block of rows."""
_BLOCK_ROWS = 1024
_BLOCK_BYTES = PAGE_BYTES >> 3


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a page begins: a chunk of the result, and a row of the chunk."""

    chunk: int = 0
    row: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """Rows of a result.

    Attributes:
        rows: The rows as a JSON array; an empty string if there are none.
        count: The number of rows.
        next: Where the next page begins.
    """

    rows: str
    count: int
    next: Place


def page(data: bytes, place: Place, column_types: Sequence[Type]) -> Page:
    """Returns the page of a chunk that begins at a place."""
    blocks: list[str] = []
    count = size = 0
    next_ = Place(place.chunk + 1)
    for rows, text in _blocks(data, place.row, column_types):
        if size >= PAGE_BYTES:
            next_ = Place(place.chunk, place.row + count)
            break
        blocks.append(text)
        count += rows
        size += len(text)
    return Page(f"[{','.join(blocks)}]" if blocks else "", count, next_)


def _blocks(data: bytes, start: int, column_types: Sequence[Type]) -> Iterator[tuple[int, str]]:
    """Yields a chunk's rows from `start` on in blocks: their number, and comma-separated JSON."""
    encoders = [None if is_plain(type_) else encoder(type_) for type_ in column_types]
    write = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
    for batch in read_chunk(data):
        step = _block(batch)
        for at in range(start, batch.num_rows, step):
            block = batch.slice(at, step)
            columns = [
                values if encode is None else [encode(value) for value in values]
                for values, encode in zip(map(python_values, block.columns), encoders, strict=True)
            ]
            yield block.num_rows, write(list(zip(*columns, strict=True)))[1:-1]
        start = max(0, start - batch.num_rows)


def _block(batch: pa.RecordBatch) -> int:
    """Returns the number of rows to convert at once, which is smaller for larger rows."""
    row_bytes = max(1, batch.nbytes // max(1, batch.num_rows))
    return int(max(1, min(_BLOCK_ROWS, _BLOCK_BYTES // row_bytes)))
