"""One bounded cache for what is made once and asked for often: footers, manifests, loaded tables.

What was least recently used is evicted first. A value is made outside the lock, so a slow one
holds nobody up; two callers that miss at once both make it, and the later value is kept.
"""

from __future__ import annotations

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
