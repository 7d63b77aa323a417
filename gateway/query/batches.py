"""An engine's result as a statement consumes it: first batch computed, always released."""

from __future__ import annotations

from typing import Self

import pyarrow as pa

from seamline.connectors.protocols import ResultStream


class Batches:
    """The batches of a result, the first one already computed; closed when they end.

    Until the first batch is computed, a stale fact only costs a retry. A caller that does not read
    to the end must call `close`.

    Args:
        stream: The result.
    """

    def __init__(self, stream: ResultStream) -> None:
        self._stream = stream
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
        if batch is None:
            self.close()
        return batch
