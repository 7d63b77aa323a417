"""Bounded caches: of what is asked for often, such as footers, and of what several owners keep.

What was least recently used is evicted first. A value is made outside the lock, so a slow one
holds nobody up; two callers that miss at once both make it, and the later value is kept.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import cachetools

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Values by key. Safe to share between threads.

    Args:
        weight_max: What all values together may weigh; a heavier one is cached alone.
        weight: The weight of a value; 1 unless given, so that values are counted.
        ttl_s: Seconds for which a value is returned after it was put; None for ever.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        weight_max: int,
        *,
        weight: Callable[[V], int] = lambda _: 1,
        ttl_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        def bounded(value: V) -> int:
            return min(weight(value), weight_max)

        self._lock = threading.Lock()
        self._values: cachetools.Cache[K, V] = (
            cachetools.LRUCache(weight_max, bounded)
            if ttl_s is None
            else cachetools.TTLCache(weight_max, ttl_s, clock, bounded)
        )

    def get(self, key: K) -> V | None:
        """The value under a key, None when there is none."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Caches a value under a key, in the place of an earlier one."""
        with self._lock:
            self._values[key] = value

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """The value under a key, made when there is none.

        Raises:
            Exception: what `make` raises; nothing is cached then.
        """
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def values(self) -> list[V]:
        """All values."""
        with self._lock:
            return list(self._values.values())

    def pop(self, key: K) -> V | None:
        """Removes a value and returns it, None when there is none."""
        with self._lock:
            return self._values.pop(key, None)


class FairCache(Generic[K, V]):
    """Values by owner and key: who holds most loses first. Safe to share between threads.

    Where all values together weigh too much, the heaviest owner's least recently used one is
    evicted, so that others cost nobody a value who holds less than half of an even share. What was
    just put stays: one value counts for half of the cache at most.

    Args:
        weight_max: What the values of all owners together may weigh.
        weight: The weight of a value when it is put.
        ttl_s: Seconds for which a value is returned after it was put.
        clock: Seconds that only grow.
    """

    def __init__(
        self,
        weight_max: int,
        *,
        weight: Callable[[V], int],
        ttl_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        def bounded(value: V) -> int:
            return min(weight(value), weight_max // 2)

        def owned() -> cachetools.TTLCache[K, V]:
            return cachetools.TTLCache(weight_max, ttl_s, clock, bounded)

        self._lock = threading.Lock()
        self._weight_max = weight_max
        self._owned = owned
        self._owners: dict[str, cachetools.TTLCache[K, V]] = {}

    def get(self, owner: str, key: K) -> V | None:
        """The value that an owner has under a key, None when there is none."""
        with self._lock:
            values = self._owners.get(owner)
            return None if values is None else values.get(key)

    def put(self, owner: str, key: K, value: V) -> None:
        """Caches a value, in the place of an earlier one."""
        with self._lock:
            self._owners.setdefault(owner, self._owned())[key] = value
            weights = {each: values.currsize for each, values in self._owners.items()}
            while sum(weights.values()) > self._weight_max:
                others = (each for each in weights if each != owner or len(self._owners[each]) > 1)
                heaviest = max(others, key=weights.__getitem__)
                with contextlib.suppress(KeyError):  # where all that is left expires just now
                    self._owners[heaviest].popitem()
                weights[heaviest] = self._owners[heaviest].currsize
            self._owners = {each: self._owners[each] for each in weights if weights[each]}

    def pop(self, owner: str, key: K) -> V | None:
        """Removes a value and returns it, None when there is none."""
        with self._lock:
            values = self._owners.get(owner)
            return None if values is None else values.pop(key, None)
