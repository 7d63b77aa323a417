"""Log offsets: one per partition, and half-open ranges of them."""

from __future__ import annotations

import dataclasses
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, TypeVar, overload

T = TypeVar("T")


class Offsets(Mapping[int, int]):
    """One offset per partition: immutable, hashable, iterated in partition order."""

    __slots__ = ("_by_partition", "_hash")

    def __init__(self, by_partition: Mapping[int, int] | Iterable[tuple[int, int]] = ()) -> None:
        self._by_partition = dict(sorted(dict(by_partition).items()))
        self._hash: int | None = None

    def __getitem__(self, partition: int) -> int:
        return self._by_partition[partition]

    @overload
    def get(self, key: int, /) -> int | None: ...
    @overload
    def get(self, key: int, default: T, /) -> int | T: ...
    def get(self, key: int, default: object = None, /) -> object:
        """Returns the offset of a partition; `Mapping` would raise and catch an error for none."""
        return self._by_partition.get(key, default)

    def __contains__(self, partition: object) -> bool:
        return partition in self._by_partition

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_partition)

    def __len__(self) -> int:
        return len(self._by_partition)

    def keys(self) -> KeysView[int]:
        """Returns the partitions."""
        return self._by_partition.keys()

    def values(self) -> ValuesView[int]:
        """Returns the offsets."""
        return self._by_partition.values()

    def items(self) -> ItemsView[int, int]:
        """Returns partitions with their offsets."""
        return self._by_partition.items()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._by_partition.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Offsets):
            return self._by_partition == other._by_partition
        return NotImplemented

    def __repr__(self) -> str:
        return f"Offsets({self._by_partition})"

    def replace(self, changes: Mapping[int, int]) -> Offsets:
        """Returns a copy with some offsets set or added."""
        return Offsets({**self._by_partition, **changes})

    def raised(self, others: Mapping[int, int]) -> Offsets:
        """Returns the greater offset of each partition that appears in either."""
        return self.replace({p: max(o, self.get(p, 0)) for p, o in others.items()})

    def to_json(self) -> dict[str, int]:
        """Returns a dict whose keys are partitions as decimal strings, as JSON keys are strings."""
        return {str(partition): offset for partition, offset in self._by_partition.items()}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Offsets:
        """The inverse of `to_json`.

        Raises:
            ValueError: when a key or a value is not an integer.
        """
        return cls({int(p): whole(offset) for p, offset in body.items()})


def whole(offset: Any) -> int:
    """Returns an offset from JSON; rejects 1.5, true and "7", which `int()` would accept.

    Raises:
        ValueError: it is not an integer.
    """
    if type(offset) is not int:
        raise ValueError(f"{offset!r} is not a whole number")
    return offset


@dataclasses.dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition from `start` up to, not including, `end_exclusive`."""

    partition: int
    start: int
    end_exclusive: int

    def __len__(self) -> int:
        return max(0, self.end_exclusive - self.start)
