"""Records as a log holds them, and records to be written to it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


"""Names and values of the headers of one record."""


NOT_TEXT = "\ufffd"


"""Replaces bytes that are not UTF-8 in the name of a header, as Kafka's Java client does."""


@dataclasses.dataclass(frozen=True, slots=True)
class RawBatch:
    """Records as the log holds them, in columns of equal length; offsets ascend per partition.

    Attributes:
        partitions: Partition of each record.
        offsets: Offset of each record.
        timestamps_ms: Record time in milliseconds since the epoch, any 64-bit number; -1 for none.
        keys: Key bytes or None.
        values: Value bytes or None (a tombstone).
        headers: Per record, a list of (name, value), or None when it has none. A name that is not
            UTF-8 contains `NOT_TEXT`; the number of such names, and the rest, may be lost.
        timestamp_types: The type of each record's time, as Kafka numbers it: -1 none, 0 creation
            time, 1 log append time; empty where the log does not say.
        large: The bytes of parts that are too large to become rows, by index and by part, which is
            `value` or `key`; the part itself is None.
    """

    partitions: Sequence[int]
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers | None]
    timestamp_types: Sequence[int] = ()
    large: Mapping[int, Mapping[str, int]] = dataclasses.field(default_factory=dict, hash=False)

    def __len__(self) -> int:
        return len(self.offsets)


def joined(batches: Sequence[RawBatch]) -> RawBatch:
    """Returns the records of several batches, none of which has large parts, as one."""

    def all_of(part: Callable[[RawBatch], Iterable[T]]) -> list[T]:
        return list(itertools.chain.from_iterable(map(part, batches)))

    return RawBatch(
        partitions=all_of(lambda batch: map(int, batch.partitions)),
        offsets=all_of(lambda batch: batch.offsets),
        timestamps_ms=all_of(lambda batch: batch.timestamps_ms),
        keys=all_of(lambda batch: batch.keys),
        values=all_of(lambda batch: batch.values),
        headers=all_of(lambda batch: batch.headers),
        timestamp_types=all_of(lambda batch: batch.timestamp_types),
    )


def part_of(batch: RawBatch, indices: Sequence[int]) -> RawBatch:
    """Returns some records of a batch, given their indices in ascending order."""
    if len(indices) == len(batch):
        return batch

    def chosen(column: Any) -> Any:
        listed = column.to_pylist() if hasattr(column, "to_pylist") else column
        return [listed[index] for index in indices] if len(listed) else ()

    columns = (field.name for field in dataclasses.fields(batch) if field.name != "large")
    large = {n: batch.large[index] for n, index in enumerate(indices) if index in batch.large}
    return RawBatch(**{name: chosen(getattr(batch, name)) for name in columns}, large=large)


class NewRecord(NamedTuple):
    """A record to be written."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
