"""What a follower must keep: everything from the newest boundary on, and from older ones in use.

Its owner holds the lock.
"""

from __future__ import annotations

from collections.abc import Mapping

from seamline.seam.offsets import Offsets


class Retention:
    """The boundaries of one table that are still needed.

    Args:
        boundary: The boundary of the table's newest snapshot.
        epochs: Leader epochs there, where known.
        asked_at: On the monotonic clock, a moment before the boundary was learned.
    """

    def __init__(self, boundary: Offsets, epochs: Mapping[int, int], asked_at: float) -> None:
        self.boundary = boundary
        self.epochs = epochs
        self._asked_at = asked_at
        self._in_use_by: dict[object, Offsets] = {}

    @property
    def in_use(self) -> bool:
        """Whether a statement still needs what lies past a boundary."""
        return bool(self._in_use_by)

    def keep_from(self, partition: int) -> int:
        """Returns the first offset of a partition that must be kept."""
        boundaries = (self.boundary, *self._in_use_by.values())
        return min(boundary.get(partition, 0) for boundary in boundaries)

    def keep(self, boundary: Offsets) -> object:
        """Keeps everything from a boundary on; returns a key for `forget`."""
        key = object()
        self._in_use_by[key] = boundary
        return key

    def forget(self, key: object) -> None:
        """Undoes `keep`."""
        del self._in_use_by[key]

    def is_newer(self, asked_at: float) -> bool:
        """Whether a boundary learned after that moment is newer than the one known."""
        return asked_at > self._asked_at

    def advance(self, boundary: Offsets, epochs: Mapping[int, int], asked_at: float) -> None:
        """Sets the table's newest boundary."""
        self.boundary, self.epochs, self._asked_at = boundary, epochs, asked_at
