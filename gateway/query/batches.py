"""An engine's result as a statement consumes it: its first batch computed, and always released."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import pyarrow as pa

from seamline.connectors.chunks import StoredChunk
from seamline.connectors.protocols.engines import ResultStream


class Batches:
    """The batches of a result, the first one already computed; closed when the result ends.

    Until the first batch is computed, a stale fact only costs a retry. A caller that does not read
    to the end must call `close`. A caller that has offered a file must read the chunks after the
    batches.

    Args:
        stream: The result.
        has_file: Whether the engine may write to a file.
    """

    def __init__(self, stream: ResultStream, *, has_file: bool = False) -> None:
        self._stream = stream
        self._has_file = has_file
        self._closed = False
        self._first = self._next()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch, self._first = self._first, None
        if batch is None:
            batch = self._next()
        if batch is None:
            raise StopIteration
        return batch

    def chunks(self) -> Iterator[StoredChunk]:
        """Yields what the engine wrote to its file, after the batches."""
        try:
            yield from self._stream.chunks
        finally:
            self.close()

    def close(self) -> None:
        """Releases what the result holds; calling it again does nothing."""
        if not self._closed:
            self._closed = True
            self._stream.close()

    def _next(self) -> pa.RecordBatch | None:
        if self._closed:
            return None
        try:
            batch = next(self._stream.batches, None)
        except BaseException:
            self.close()
            raise
        if batch is None and not self._has_file:
            self.close()
        return batch
