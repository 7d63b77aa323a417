"""Shares of principals in what a gateway does at once, so that one does not take everything."""

from __future__ import annotations

import collections
import threading


class Shares:
    """Counts the shares of each principal in something. Safe to share between threads.

    Attributes:
        own_max: The maximum number for one principal.
    """

    def __init__(self, own_max: int) -> None:
        self.own_max = own_max
        self._own: collections.Counter[str] = collections.Counter()
        self._changed = threading.Condition()

    def take(self, name: str, *, may_wait: bool = True) -> bool:
        """Takes a share for a principal; returns False if none is left and it may not wait."""
        with self._changed:
            while self._own[name] >= self.own_max:
                if not may_wait:
                    return False
                self._changed.wait()
            self._own[name] += 1
            return True

    def give_back(self, name: str) -> None:
        """Gives back a share of a principal."""
        with self._changed:
            self._own[name] -= 1
            if not self._own[name]:
                del self._own[name]
            self._changed.notify_all()
