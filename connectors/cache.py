"""Bounded caches: for values that are read often, such as footers, and for values with owners.

The least recently used value is evicted first. Values are made outside the lock, so a slow one
blocks nobody. If two callers miss at once, both make the value, and the later one is kept.
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
    """A cache of values by key. Safe to share between threads.

    Args:
        weight_max: The maximum total weight of all values; a heavier value is cached alone.
        weight: Returns the weight of a value; 1 by default, so that values are counted.
        ttl_s: Seconds for which a value is returned after it was put; None for no limit.
        clock: Returns monotonic seconds.
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
        """Returns the value of a key, or None if there is none."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Caches a value under a key, replacing any earlier one."""
        with self._lock:
            self._values[key] = value

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Returns the value of a key, making it if there is none.

        Raises:
            Exception: what `make` raises; nothing is cached then.
        """
        cached = self.get(key)
        if cached is None:
            cached = make()
            self.put(key, cached)
        return cached

    def values(self) -> list[V]:
        """Returns all values."""
        with self._lock:
            return list(self._values.values())

    def pop(self, key: K) -> V | None:
        """Removes a value and returns it, or None if there is none."""
        with self._lock:
            return self._values.pop(key, None)


class FairCache(Generic[K, V]):
    """A cache by owner and key that evicts from the largest owner. Safe to share between threads.

    When the total weight is too high, the heaviest owner's least recently used value is evicted.
    So an owner that holds less than half of an even share never loses a value to other owners. The
    value that was just put stays: one value counts for at most half of the cache.

    Args:
        weight_max: The maximum total weight of the values of all owners.
        weight: Returns the weight of a value when it is put.
        ttl_s: Seconds for which a value is returned after it was put.
        clock: Returns monotonic seconds.
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
        """Returns the value that an owner has under a key, or None if there is none."""
        with self._lock:
            values = self._owners.get(owner)
            return None if values is None else values.get(key)

    def put(self, owner: str, key: K, value: V) -> None:
        """Caches a value, replacing any earlier one."""
        with self._lock:
            if owner not in self._owners:
                self._owners[owner] = self._owned()
            self._owners[owner][key] = value
            weights = {each: values.currsize for each, values in self._owners.items()}
            while sum(weights.values()) > self._weight_max:
                others = (each for each in weights if each != owner or len(self._owners[each]) > 1)
                heaviest = max(others, key=weights.__getitem__)
                with contextlib.suppress(KeyError):  # everything left has just expired
                    self._owners[heaviest].popitem()
                weights[heaviest] = self._owners[heaviest].currsize
            self._owners = {each: self._owners[each] for each in weights if weights[each]}

    def pop(self, owner: str, key: K) -> V | None:
        """Removes a value and returns it, or None if there is none."""
        with self._lock:
            values = self._owners.get(owner)
            return None if values is None else values.pop(key, None)
