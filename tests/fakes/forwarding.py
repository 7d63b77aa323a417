"""A log over another, for those that change a part of what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from seamline.connectors.confirmed_ends import ConfirmedEnds
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets

Answer = TypeVar("Answer")
L = TypeVar("L", bound=HotLog)


class ForwardingLog(Generic[L]):
    """`HotLog` over another. Subclasses replace methods, or `_call`, which all calls go through."""

    def __init__(self, inner: L) -> None:
        self._inner = inner

    def _call(self, name: str, work: Callable[[], Answer]) -> Answer:
        """Makes a call of the other log: "topics", "bounds", "offsets at", "read", …."""
        return work()

    @property
    def confirmed_ends(self) -> ConfirmedEnds:
        """See `HotLog.confirmed_ends`."""
        return self._inner.confirmed_ends

    def topics(self, deadline: Deadline) -> list[str]:
        """See `HotLog.topics`."""
        return self._call("topics", lambda: self._inner.topics(deadline))

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        """See `HotLog.bounds`."""
        return self._call("bounds", lambda: self._inner.bounds(topics, isolation, deadline))

    def offsets_at(
        self, topic: str, topic_id: str, ends: Offsets, timestamp_ms: int, deadline: Deadline
    ) -> Offsets:
        """See `HotLog.offsets_at`."""
        return self._call(
            "offsets at",
            lambda: self._inner.offsets_at(topic, topic_id, ends, timestamp_ms, deadline),
        )

    def read(
        self,
        topic: str,
        ranges: Sequence[OffsetRange],
        isolation: str,
        deadline: Deadline,
        *,
        epochs: Mapping[int, int] | None = None,
        max_records: int | None = None,
    ) -> Iterator[RawBatch]:
        """See `HotLog.read`."""
        return self._call(
            "read",
            lambda: self._inner.read(
                topic, ranges, isolation, deadline, epochs=epochs, max_records=max_records
            ),
        )
