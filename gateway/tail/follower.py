"""One table's tail, followed: consumed in the background from the boundary on, kept as segments.

A statement asks Kafka for its ends, waits here until the positions are there, and takes cuts of
segments; nothing it gets depends on when the follower read them.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Mapping

from seamline.connectors.protocols import Deadline, FollowableLog
from seamline.connectors.supervision import Loop
from seamline.errors import SeamlineError
from seamline.gateway.tail import watch
from seamline.gateway.tail.kept import Kept
from seamline.gateway.tail.lineage import Subject
from seamline.gateway.tail.reader import Reader
from seamline.gateway.tail.retention import Retention
from seamline.gateway.tail.store import SegmentStore
from seamline.seam.checks import require, shortened
from seamline.seam.offsets import Offsets

_LOG = logging.getLogger("seamline.tail")

READERS = 2
"""Threads of a follower; consuming holds Python's lock, so more than two do not help."""

LOOK_EVERY_S = 1.0
STALLED_S = 3.0
"""A wait without any progress for so long is given up."""


class State(enum.Enum):
    """What a follower is doing."""

    CATCHING_UP = "catching up"
    FOLLOWING = "following"
    FULL = "full"
    RETRYING = "trying again"
    FAILED = "failed"
    STOPPED = "stopped"


class Follower(Kept):
    """Follows one table's topic. Safe to share between threads.

    Args:
        subject: What to follow.
        log: The cluster.
        retention: Where to begin; partitions it does not name begin at 0.
        store: Counts the segments.
        make_room: Called when there is too much in memory; whether there is room again.
        readers: Threads; with 0 nothing happens in the background, and waiting does the work.
    """

    def __init__(
        self,
        subject: Subject,
        log: FollowableLog,
        retention: Retention,
        store: SegmentStore,
        make_room: Callable[[Follower], bool],
        *,
        readers: int,
    ) -> None:
        super().__init__(retention, store)
        self.subject = subject
        self.error: SeamlineError | None = None
        self._troubles: dict[int, SeamlineError] = {}
        self._in_background = readers > 0
        self._log = log
        self._make_room = make_room
        self._looked_at: float | None = None
        self._relieving = 0
        self._full = False
        numbers = range(max(1, readers))
        self._readers = [Reader(self, log, number, len(numbers)) for number in numbers]
        self._loops: list[Loop] = [
            reader.read_in_background() for reader in self._readers[:readers]
        ]

    # --- For statements ------------------------------------------------------------------------

    def wait(self, ends: Mapping[int, int], deadline: Deadline) -> bool:
        """Waits until everything below the ends is held.

        Returns:
            Whether it is; False when it will not be soon: full, failed, in trouble or stalled.

        Raises:
            SeamlineError: DEADLINE_EXCEEDED, CANCELED.
        """
        forget = deadline.on_end(self._notify)
        try:
            with self._changed:
                self._begin(ends)
                best, since = -1, time.monotonic()
                while (reached := self._holdings.reached(ends)) is not None:
                    deadline.check()
                    now = time.monotonic()
                    if reached > best or self._relieving:
                        best, since = reached, now
                    is_stuck = self._full or self._troubles or now - since >= STALLED_S
                    if self.over or is_stuck:
                        return False
                    if not self._wait(min(STALLED_S, deadline.remaining_s())):
                        return False
                return True
        finally:
            forget()

    def confirm(
        self,
        ends: Mapping[int, int],
        asked_at: float,
        epochs: Mapping[int, int],
        deadline: Deadline,
    ) -> None:
        """Makes sure that what is held below the ends is of this very topic.

        Args:
            ends: Exclusive ends, all of them held.
            asked_at: A moment after which the topic's id was found to be this one.
            epochs: The leader epochs that the log was found to have then, where known.
            deadline: The statement's.

        Raises:
            SeamlineError: READ_CONFLICT when it may be another's, or what the log answers.
        """
        with self._changed:
            spoilt = watch.for_statement(self.error)
            if spoilt is not None:
                raise spoilt
            self._confirm(self._holdings.quiet_since(asked_at, epochs))
            confirmed = self._holdings.confirmed()
            if all(confirmed.get(partition, 0) >= end for partition, end in ends.items()):
                return
        try:
            self.look(deadline)
        except SeamlineError as error:
            raise watch.for_statement(error) or error from error

    def asked(self, asked_at: float, ends: Offsets) -> None:
        """Notes the ends that the log was asked for after a moment."""
        with self._changed:
            try:
                quiet = self._holdings.quiet_since(asked_at, {})
                known = {p: position for p, position in quiet.items() if p in ends}
                require(shortened(self.subject.topic, ends, known))
            except SeamlineError as error:
                self.fail(error)
            else:
                self._horizon.asked(asked_at, ends)

    # --- What goes on --------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """What it is doing."""
        with self._changed:
            if self.over:
                return State.STOPPED if self.error is None else State.FAILED
            if self._troubles:
                return State.RETRYING
            if self._full:
                return State.FULL
            is_there = self._holdings.reached(self._horizon.ends) is None
            return State.FOLLOWING if is_there and self._looked_at else State.CATCHING_UP

    def look(self, deadline: Deadline) -> None:
        """Looks at the log: whether it is still the same, where it ends, what partitions it has.

        Raises:
            SeamlineError: TOPIC_RECREATED, LOG_TRUNCATED, or what the log answers.
        """
        with self._changed:
            before, epochs = self._holdings.positions(), self._holdings.epochs()
            asked_at = self._looked_at = time.monotonic()
        try:
            bounds = watch.look(self._log, self.subject, before, epochs, deadline)
        except SeamlineError as error:
            if watch.for_statement(error) is not None:
                self.fail(error)
            raise
        with self._changed:
            self._begin(bounds.end)
            self._horizon.asked(asked_at, bounds.end)
            self._holdings.led_by(before, bounds.leader_epochs)
            self._confirm(before)
            self._changed.notify_all()

    def fail(self, error: SeamlineError) -> None:
        """Gives up: everything held is let go, and whoever waits is told."""
        with self._changed:
            if self.over:
                return
            self.error = error
            self._troubles.clear()
            self._end()
        _LOG.warning("table %s is not followed any more: %s", ".".join(self.subject.table), error)

    def close(self) -> None:
        """Stops, and lets everything go."""
        with self._changed:
            self._end()
        for loop in self._loops:
            loop.stop()

    def join(self, seconds: float) -> None:
        """Waits for its threads, after `close`."""
        for loop in self._loops:
            loop.join(seconds)

    # --- For its readers -----------------------------------------------------------------------

    @property
    def look_is_due(self) -> bool:
        """Whether the log should be looked at again."""
        return self._looked_at is None or time.monotonic() - self._looked_at >= LOOK_EVERY_S

    def wait_for_change(self, seconds: float) -> None:
        """Waits until anything changes, or the time is over."""
        with self._changed:
            if not self.over:
                self._changed.wait(seconds)

    def in_trouble(self, number: int, error: SeamlineError) -> None:
        """A reader cannot go on now and will try again; who waits need not."""
        with self._changed:
            if not self.over:
                self.error = self._troubles[number] = error
                self._changed.notify_all()

    def recovered(self, number: int) -> None:
        """A reader has gone on."""
        with self._changed:
            if self._troubles.pop(number, None) is not None:
                self.error = next(iter(self._troubles.values()), None)

    def relieve(self) -> None:
        """Returns when there is room in memory for more, or it is over."""
        while not self.over and self._store.is_over_budget:
            with self._changed:
                self._relieving += 1
            has_room = False
            try:
                has_room = self._make_room(self)
            finally:
                with self._changed:
                    self._relieving -= 1
                    self._full = not has_room
                    self._changed.notify_all()
            if not self._in_background:
                return
            if not has_room:
                self._store.wait_for_change(LOOK_EVERY_S)
        self._full = False

    # --- Inside --------------------------------------------------------------------------------

    def _wait(self, seconds: float) -> bool:
        """Waits for a change. Without threads, makes one; False when there is none to make."""
        if self._in_background:
            self._changed.wait(seconds)
            return True
        try:
            return sum(reader.step(0.0) for reader in self._readers) > 0
        except SeamlineError as error:
            self.fail(error)
            return False
