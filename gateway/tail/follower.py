"""Follows one table's tail: consumes it in the background from the boundary on, as segments.

A statement asks Kafka for its ends, waits here until the follower's positions have reached them,
and takes slices of segments. Its result does not depend on when the follower read them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence

from seamline.connectors.kafka.continuity import check_not_truncated
from seamline.connectors.kafka.formats.schemas import schemas_of
from seamline.connectors.protocols.deadlines import Deadline, NoDeadline
from seamline.connectors.protocols.hot_logs import FollowableLog
from seamline.connectors.supervision import Crew
from seamline.errors import READ_CONFLICT, SeamlineError
from seamline.gateway.tail import watch
from seamline.gateway.tail.own_consumers import OwnConsumers
from seamline.gateway.tail.partitions import (
    CachedPartition,
    CachedPartitions,
    CachedSlices,
    PartitionRead,
)
from seamline.gateway.tail.reader import Reader
from seamline.gateway.tail.retention import Retention
from seamline.gateway.tail.segments import Segment, merge, mergeable
from seamline.gateway.tail.source import FollowedTable
from seamline.gateway.tail.store import SegmentStore
from seamline.gateway.tail.unknown import NotedSchemas
from seamline.gateway.tail.watermark import Watermark
from seamline.seam.history_checks import moved_back, require, shortened
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets

_LOG = logging.getLogger("seamline.tail")

READERS = 2
"""Readers of a follower; consuming holds the GIL, so more than two do not help."""

LOOK_EVERY_S = 1.0
QUIET_S = 30.0
"""Seconds after which a table that nobody has asked for costs its brokers less: it is polled with
longer waits, and checked less often."""
_QUIET_LOOK_EVERY_S = 10.0
STALLED_S = 3.0
_PROGRESS_EVERY_S = 0.05
"""Seconds without any progress after which a wait is abandoned."""


class State(enum.Enum):
    """What a follower is doing."""

    CATCHING_UP = "catching up"
    FOLLOWING = "following"
    FULL = "full"
    RETRYING = "trying again"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """A look at the log that has begun.

    Attributes:
        asked_at: A moment before the log is asked, on the monotonic clock.
        positions: The positions by then.
        epochs: Leader epochs below them, where known.
    """

    asked_at: float
    positions: Mapping[int, int]
    epochs: Mapping[int, int]


class Follower:
    """Follows one table's topic. Safe to share between threads.

    Args:
        table: What to follow.
        log: The cluster.
        retention: Where to begin; partitions it does not name begin at 0.
        store: Counts the segments.
        make_room: Called when there is too much in memory; returns whether there is room again.
        readers: The number of readers; with 0, nothing happens in the background or because time
            has passed, and waiting does the work.
        crew: Runs the readers.
        consumers: See `OwnConsumers`.
        look_every_s: Seconds between looks at the log of a table in use.

    Attributes:
        table: What is followed.
        log: The cluster.
        identity: Identifies the records: what is cached at an offset never becomes another record.
        last_used: When a statement last used it, on the monotonic clock.
        over: Whether it is no longer usable; then nothing is cached.
        schemas: Where the schemas of its records are registered.
        error: Why it failed, or why a reader cannot continue now and will try again.
    """

    def __init__(
        self,
        table: FollowedTable,
        log: FollowableLog,
        retention: Retention,
        store: SegmentStore,
        make_room: Callable[[Follower], bool],
        *,
        readers: int,
        crew: Crew,
        consumers: OwnConsumers,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._look_every_s = look_every_s
        self.table = table
        self.log = log
        self.identity = uuid.uuid4()
        self.last_used = time.monotonic()
        self.over = False
        self.error: SeamlineError | None = None
        self._troubles: dict[int, SeamlineError] = {}
        self._in_background = readers > 0
        self.schemas = NotedSchemas(schemas_of(log, NoDeadline()))
        self._store = store
        self._retention = retention
        self._changed = threading.Condition()
        self._partitions = CachedPartitions(store)
        self._watermark = Watermark()
        self._rows_seen = self._bytes_seen = 0
        self._make_room = make_room
        self._looked_at: float | None = None
        self._has_looked, self._looks_alone = False, True
        self._relieving = 0
        self._full = False
        numbers = range(max(1, readers))
        self._readers = [Reader(self, log, number, len(numbers)) for number in numbers]
        self._woken_for: tuple[object, ...] = ()
        for reader in self._readers[:readers]:
            reader.read_in_background(crew, consumers)

    # --- For statements --------------------------------------------------------------------------

    def wait(self, ends: Mapping[int, int], deadline: Deadline) -> bool:
        """Waits until everything below the ends is cached.

        Returns:
            Whether it is; False when it will not be soon: full, failed, in trouble or stalled.

        Raises:
            SeamlineError: DEADLINE_EXCEEDED, CANCELED.
        """
        forget = deadline.on_end(self._notify)
        try:
            with self._changed:
                left = list(ends.items())
                best, since, look_at = -1, time.monotonic(), 0.0
                if not self._partitions.have_reached(left):
                    for reader in self._readers:
                        reader.hurry()
                while not self._partitions.have_reached(left):
                    deadline.check()
                    now = time.monotonic()
                    if now >= min(look_at, since + STALLED_S):  # not for each partition that moves
                        reached = self._partitions.reached(ends) or 0
                        look_at = now + _PROGRESS_EVERY_S
                        if reached > best or self._relieving:
                            best, since = reached, now
                    is_stuck = self._is_full() or self._troubles or now - since >= STALLED_S
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
        """Makes sure that what is cached below the ends is what the log held when it was asked.

        Args:
            ends: Exclusive ends, all of them cached.
            asked_at: A moment after which the topic's id was found to be this one.
            epochs: The leader epochs that the log was found to have then, where known.
            deadline: The statement's deadline.

        Raises:
            SeamlineError: READ_CONFLICT when it may belong to another topic, or the log's own
                error.
        """
        with self._changed:
            spoilt = watch.for_statement(self.error)
            if spoilt is not None:
                raise spoilt
            if self.over and ends:  # nothing here shows any longer where their rows came from
                raise SeamlineError(READ_CONFLICT, f"{self.table.name} is no longer followed")
            self._confirm(self._partitions.quiet_since(asked_at, epochs))
            confirmed = self._partitions.confirmed_under(epochs)
            if all(confirmed.get(partition, 0) >= end for partition, end in ends.items()):
                return
        try:
            bounds = self.look(deadline)
            check_not_truncated(self.log, bounds, ends, epochs, deadline)
        except SeamlineError as error:
            raise watch.for_statement(error) or error from error

    def asked(self, asked_at: float, ends: Offsets, epochs: Mapping[int, int]) -> None:
        """Notes the ends that the log gave when it was asked after a moment.

        Args:
            asked_at: The moment.
            ends: The ends, of every partition that it has.
            epochs: The leader epochs that it had then, where known.
        """
        with self._changed:
            try:
                quiet = self._partitions.quiet_since(asked_at, {})
                positions = {p: position for p, position in quiet.items() if p in ends}
                require(shortened(self.table.topic, ends, positions))
            except SeamlineError as error:
                self.fail(error)
            else:
                self._begin(ends, epochs)
                self._partitions.led_by({}, epochs)
                self._watermark.asked(asked_at, ends)
                self._partitions.settle(asked_at, ends)
                self._wake_readers()

    def settle(self, asked_at: float, below: Offsets) -> None:
        """See `CachedPartitions.settle`."""
        with self._changed:
            self._partitions.settle(asked_at, below)

    @contextlib.contextmanager
    def keeping(self, boundary: Offsets) -> Iterator[None]:
        """Keeps everything at or past that boundary from being trimmed, within the block."""
        with self._changed:
            self.last_used = time.monotonic()
            key = self._retention.keep(boundary)
        try:
            yield
        finally:
            with self._changed:
                self._retention.forget(key)
                self.last_used = time.monotonic()
                self._trim()

    def take(self, ranges: Sequence[OffsetRange]) -> CachedSlices:
        """Returns the cached parts of the ranges as referenced slices, and the parts not cached."""
        with self._changed:
            return self._partitions.take(ranges)

    def advance(self, boundary: Offsets, epochs: Mapping[int, int], asked_at: float) -> bool:
        """Applies the table's boundary: trims below it, and skips to it where reading is behind.

        Args:
            boundary: The boundary of the newest snapshot.
            epochs: Leader epochs there, where known.
            asked_at: A moment before it was learned.

        Returns:
            False when it has moved back to before what is cached (the table was rolled back), so
            that the follower is no longer usable.
        """
        with self._changed:
            self.last_used = time.monotonic()
            if self._retention.is_newer(asked_at):
                is_back = moved_back(boundary, self._retention.boundary)
                if is_back and not self._partitions.reaches_back_to(boundary):
                    return False
                self._retention.advance(boundary, epochs, asked_at)
                self._trim()
            return True

    def cached_ends(self, age_s_max: float | None) -> tuple[Offsets, Offsets, float] | None:
        """Returns ends below which everything is cached, their leader epochs, and their moment.

        Args:
            age_s_max: How many seconds ago the log may have had these ends; None for any number.

        Returns:
            None when it is longer ago, or never was.
        """
        with self._changed:
            complete_at = self._watermark.complete_at
            if self.over or complete_at is None:
                return None
            if age_s_max is not None and time.monotonic() - complete_at > age_s_max:
                return None
            self.last_used = time.monotonic()
            return self._partitions.confirmed(), Offsets(self._partitions.epochs()), complete_at

    def missing(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Returns the parts of the ranges that are not cached."""
        with self._changed:
            return self._partitions.slices(ranges)[1]

    def lag(self, ranges: Sequence[OffsetRange]) -> int:
        """Returns how many offsets must still be read before the ranges are cached."""
        with self._changed:
            positions = {**self._retention.boundary, **self._partitions.positions()}
        return sum(max(0, r.end_exclusive - positions.get(r.partition, 0)) for r in ranges)

    # --- State -----------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """What it is doing."""
        with self._changed:
            if self.over:
                return State.STOPPED if self.error is None else State.FAILED
            if self._troubles:
                return State.RETRYING
            if self._is_full():
                return State.FULL
            is_there = self._partitions.reached(self._watermark.ends) is None
            return State.FOLLOWING if is_there and self._looked_at else State.CATCHING_UP

    @property
    def partitions(self) -> dict[int, CachedPartition]:
        """What is cached of each partition."""
        with self._changed:
            return self._partitions.snapshot()

    @property
    def ends(self) -> Offsets:
        """The log's ends as last seen."""
        return self._watermark.ends

    @property
    def in_use(self) -> bool:
        """Whether a statement is being served."""
        with self._changed:
            return self._retention.in_use

    @property
    def is_quiet(self) -> bool:
        """Whether no statement has asked for some time, so that one may come, but none waits."""
        return time.monotonic() - self.last_used > QUIET_S and not self.in_use

    @property
    def bytes_per_row(self) -> float | None:
        """Decoded bytes per row; None while there has been no row."""
        return self._bytes_seen / self._rows_seen if self._rows_seen else None

    # --- The log, and the end --------------------------------------------------------------------

    def look(self, deadline: Deadline) -> LogBounds:
        """Looks at the log: whether it is still the same, where it ends, which partitions it has.

        Returns:
            The log's bounds.

        Raises:
            SeamlineError: TOPIC_RECREATED, LOG_TRUNCATED, or the log's own error.
        """
        topic, isolation = self.table.topic, self.table.source.isolation
        return self.end_look(
            self.begin_look(),
            lambda: self.log.bounds([topic], isolation, deadline)[topic],
            deadline,
        )

    def begin_look(self) -> Look:
        """Notes what is cached before the log is asked for its bounds."""
        with self._changed:
            self._looked_at = time.monotonic()
            return Look(self._looked_at, self._partitions.positions(), self._partitions.epochs())

    def end_look(
        self, look: Look, request: Callable[[], LogBounds], deadline: Deadline
    ) -> LogBounds:
        """Takes what the log said after the look had begun.

        Args:
            look: The look.
            request: Returns the log's bounds, requested after the look had begun.
            deadline: Bounds the checks.

        Raises:
            SeamlineError: as `look`.
        """
        before = look.positions
        try:
            bounds = request()
            watch.check(self.log, self.table, bounds, before, look.epochs, deadline)
        except SeamlineError as error:
            self._has_looked = True
            if watch.for_statement(error) is not None:
                self.fail(error)
            self._wake_readers()
            raise
        with self._changed:
            self._begin(bounds.end, bounds.leader_epochs)
            self._watermark.asked(look.asked_at, bounds.end)
            self._partitions.settle(look.asked_at, bounds.end)
            self._partitions.led_by(before, bounds.leader_epochs)
            self._confirm(before)
            self._has_looked, self._looks_alone = True, False
            self._wake_readers()
            self._changed.notify_all()
        return bounds

    def look_alone(self) -> None:
        """Lets its own reader look at the log now, and go on doing so until it has succeeded."""
        self._looks_alone, self._looked_at = True, -math.inf
        self._readers[0].wake()

    def look_up(self, deadline: Deadline) -> None:
        """Gives up if a schema is known by now whose records are cached as bad.

        Raises:
            SeamlineError: SCHEMA_REGISTRY_UNAVAILABLE; the deadline's error.
        """
        schemas = self.schemas.found(deadline)
        if schemas is not None:
            self.fail(SeamlineError(READ_CONFLICT, f"schema {schemas} was not registered before"))

    def fail(self, error: SeamlineError) -> None:
        """Gives up: releases everything cached, and notifies those that wait."""
        with self._changed:
            if self.over:
                return
            self.error = error
            self._troubles.clear()
            self._end()
        _LOG.warning("table %s is no longer followed: %s", ".".join(self.table.name), error)

    def close(self) -> None:
        """Stops, and releases everything."""
        with self._changed:
            self._end()
        for reader in self._readers:
            reader.stop()

    def join(self, seconds: float) -> None:
        """Waits for its readers, after `close`."""
        for reader in self._readers:
            reader.join(seconds)

    def tick(self) -> None:
        """Wakes readers that have something to do because time has passed."""
        for reader in self._readers:
            if reader.is_due:
                reader.wake()

    # --- For its readers -------------------------------------------------------------------------

    @property
    def has_looked(self) -> bool:
        """Whether the log has been looked at, with whatever success."""
        return self._has_looked

    @property
    def look_is_due(self) -> bool:
        """Whether the log should be looked at again."""
        if self._looked_at is None or not self._in_background:
            return self._looked_at is None
        every_s = _QUIET_LOOK_EVERY_S if self.is_quiet else self._look_every_s
        return time.monotonic() - self._looked_at >= every_s

    @property
    def looks_alone(self) -> bool:
        """Whether its own reader looks at the log, rather than one look for several topics."""
        return self._looks_alone or self.schemas.has_unknown

    def in_trouble(self, number: int, error: SeamlineError) -> None:
        """Notes that a reader cannot continue now and will try again; nobody should wait for it."""
        with self._changed:
            if not self.over:
                self.error = self._troubles[number] = error
                self._changed.notify_all()

    def recovered(self, number: int) -> None:
        """Notes that a reader has continued."""
        with self._changed:
            if self._troubles.pop(number, None) is not None:
                self.error = next(iter(self._troubles.values()), None)

    def relieve(self) -> bool:
        """Makes room in memory for more, if there is none; returns whether there is."""
        if self.over or not self._store.is_over_budget:
            self._full = False
            return True
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
        return has_room

    def positions(self, number: int, of: int) -> dict[int, int]:
        """Returns the position of each of a reader's partitions."""
        with self._changed:
            positions = self._partitions.positions()
        return {p: position for p, position in positions.items() if p % of == number}

    @property
    def epochs(self) -> dict[int, int]:
        """Leader epochs below the positions, where known."""
        with self._changed:
            return self._partitions.epochs()

    @property
    def leaders(self) -> dict[int, int]:
        """The highest leader epochs that the log was found to have, where known."""
        with self._changed:
            return self._partitions.leaders()

    def publish(self, read: PartitionRead) -> None:
        """Adds what a reader has read of a partition."""
        with self._changed:
            if self.over or not self._partitions.publish(read, time.monotonic()):
                self._wake_readers()
                return  # reading has moved elsewhere in the meantime
            if read.segment is not None:
                self._rows_seen += read.segment.row_count
                self._bytes_seen += read.segment.size_bytes
            self._changed.notify_all()
        self._merge(read.covers.partition)

    # --- Spilling --------------------------------------------------------------------------------

    def spillable(self) -> tuple[Segment, ...]:
        """Returns the largest run of neighbours in memory that no statement reads."""
        with self._changed:
            return self._partitions.spillable()

    def replace(self, run: Sequence[Segment], by: Segment) -> bool:
        """See `CachedPartitions.replace`."""
        with self._changed:
            return self._partitions.replace(run, by)

    # --- Inside ----------------------------------------------------------------------------------

    def _wait(self, seconds: float) -> bool:
        """Waits for a change, or makes one if there are no threads; False if none can be made."""
        if self._in_background:
            self._changed.wait(seconds)
            return True
        try:
            return sum(reader.step(0.0) for reader in self._readers) > 0
        except SeamlineError as error:
            self.fail(error)
            return False

    def _is_full(self) -> bool:
        """Whether it was found full and still is: others may free room while its readers wait."""
        return self._full and self._store.is_over_budget

    def _begin(self, partitions: Mapping[int, int], leaders: Mapping[int, int]) -> None:
        """Begins to cache partitions that are new here."""
        retention, now = self._retention, time.monotonic()
        for partition in partitions:
            if not self.over and partition not in self._partitions:
                start, epoch = retention.boundary.get(partition, 0), retention.epochs.get(partition)
                self._partitions.add(partition, start, epoch, leaders.get(partition), now)
                self._changed.notify_all()

    def _confirm(self, below: Mapping[int, int]) -> None:
        self._partitions.confirm(below)
        self._watermark.confirmed(self._partitions.confirmed())

    def _merge(self, partition: int) -> None:
        while True:
            with self._changed:
                run = mergeable(self._partitions.segments(partition))
            if not run:
                return
            merged = merge(run)
            self._store.retain([merged])
            if not self.replace(run, merged):
                self._store.release([merged])
                return

    def _wake_readers(self) -> None:
        """Wakes readers if what they should read is no longer what they were last woken for."""
        version = (self._partitions.assignments, self._has_looked, self.over)
        if version != self._woken_for:
            self._woken_for = version
            for reader in self._readers:
                reader.wake()

    def _end(self) -> None:
        self.over = True
        self._wake_readers()
        self._partitions.clear()
        self._changed.notify_all()

    def _trim(self) -> None:
        self._partitions.trim(self._retention, time.monotonic())
        self._wake_readers()
        self._changed.notify_all()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
