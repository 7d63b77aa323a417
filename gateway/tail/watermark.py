"""How far a follower is known to be complete, and since when.

The log is asked for its ends now and then, by statements and by the follower itself. Once
everything below such ends is cached and known to belong to the topic, what is cached reflects every
record that was committed before the moment of asking. Its owner holds the lock.
"""

from __future__ import annotations

from seamline.seam.offsets import Offsets

_ASKS_KEPT = 16


class Watermark:
    """The ends that one log was found to have.

    Attributes:
        ends: The greatest ends found so far.
        complete_at: On the monotonic clock, the last moment as of which everything is cached.
    """

    def __init__(self) -> None:
        self.ends = Offsets()
        self.complete_at: float | None = None
        self._asks: list[tuple[float, Offsets]] = []

    def asked(self, asked_at: float, ends: Offsets) -> None:
        """Notes the ends that the log gave when it was asked after a moment."""
        self._asks = [*self._asks[-_ASKS_KEPT:], (asked_at, ends)]
        self.ends = self.ends.replace({p: max(e, self.ends.get(p, 0)) for p, e in ends.items()})

    def confirmed(self, below: Offsets) -> None:
        """Notes the offsets below which everything is cached."""
        for asked_at, ends in self._asks:
            newer = self.complete_at is None or asked_at > self.complete_at
            if newer and all(below.get(p, 0) >= end for p, end in ends.items()):
                self.complete_at = asked_at
        done = self.complete_at
        if done is not None:
            self._asks = [ask for ask in self._asks if ask[0] > done]
