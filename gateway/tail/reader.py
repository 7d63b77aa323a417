"""A reader of a follower: consumes some of its partitions and decodes what arrives.

Consuming holds the GIL, decoding does not, so two readers of one follower overlap. At the end of
its partitions, a reader shares a consumer with others, and works when something comes. A reader
subscribes at the follower's positions, and again whenever these are not where it left them (a
partition was added, the follower skipped to a boundary, or the connection failed), or the log is
found to have another leader: what an earlier subscription still returns may be of the former one.
It also subscribes anew when nothing comes of what the log holds of a partition: the client may wait
on a lost connection until its broker closes that.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from seamline.connectors import supervision
from seamline.connectors.kafka.cluster import SILENT_S
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.protocols.hot_logs import (
    FollowableLog,
    Polled,
    SharedSubscription,
    SharesSubscriptions,
    Subscription,
)
from seamline.connectors.supervision import Backoff, Crew, CrewLoop
from seamline.errors import (
    DEADLINE_EXCEEDED,
    DISK_FULL,
    INTERNAL_ERROR,
    KAFKA_UNAVAILABLE,
    SCHEMA_REGISTRY_UNAVAILABLE,
    SeamlineError,
)
from seamline.gateway.tail.gaps import gaps_in
from seamline.gateway.tail.own_consumers import SHARED_LAG_MAX, OwnConsumers
from seamline.gateway.tail.partitions import PartitionRead
from seamline.gateway.tail.segments import build_all
from seamline.seam.offsets import OffsetRange, Offsets

if TYPE_CHECKING:
    from seamline.gateway.tail.follower import Follower

POLL_S = 0.2
"""Longest wait for records; between waits, a reader checks whether it should stop."""

_BACKOFF = Backoff(first_s=0.5, max_s=5.0)
LOOK_S_MAX = 5.0
_FULL_S = 0.2
_WAITED_S_MAX = 2.0
_PASSING = frozenset({KAFKA_UNAVAILABLE, SCHEMA_REGISTRY_UNAVAILABLE, DEADLINE_EXCEEDED})
_UNKNOWN = frozenset({INTERNAL_ERROR, DISK_FULL})
"""Errors that code other than ours raises; what is cached stays valid."""


class Reader:
    """Reads every `of`-th partition of a follower. For one thread at a time, but for `wake`.

    Args:
        follower: The follower.
        log: The cluster.
        number: Which partitions it reads: those with this remainder.
        of: How many readers the follower has.
        silent_s: See `SILENT_S`; it is counted for each partition.
    """

    def __init__(
        self,
        follower: Follower,
        log: FollowableLog,
        number: int,
        of: int,
        silent_s: float = SILENT_S,
    ) -> None:
        self._follower = follower
        self._log = log
        self._number = number
        self._of = of
        self._loop: CrewLoop | None = None
        self._consumers: OwnConsumers | None = None
        self._subscription: Subscription | None = None
        self._shared: SharedSubscription | None = None  # the same, if it is one
        self._must_catch_up = self._waits_for_consumer = False
        self._positions: dict[int, int] = {}
        self._leaders: dict[int, int] = {}
        self._patient = False
        self._polled_at = 0.0
        self._silent_s = silent_s
        self._silences: dict[int, _Silence] = {}

    @functools.cached_property
    def _decoder(self) -> Decoder:
        return Decoder(self._follower.table.source.decoder, self._follower.schemas)

    # --- In the background -----------------------------------------------------------------------

    def read_in_background(self, crew: Crew, consumers: OwnConsumers) -> None:
        """Reads whenever there is something to read, until the follower is over.

        Args:
            crew: Runs it.
            consumers: Says when it shares a consumer with others.
        """
        self._consumers = consumers if isinstance(self._log, SharesSubscriptions) else None
        self._loop = CrewLoop(
            crew, "tail", self._round, after_failure=self._failed, at_end=self._unsubscribe
        )
        self._loop.wake()

    def wake(self) -> None:
        """Lets it look for something to do."""
        if self._loop is not None:
            self._loop.wake()

    def hurry(self) -> None:
        """Lets a patient subscription be replaced, since somebody waits."""
        if self._shared is not None and self._patient:
            self.wake()

    def stop(self) -> None:
        """Ends it after the current step."""
        if self._loop is not None:
            self._loop.stop()

    def join(self, seconds: float) -> None:
        """Waits until it has ended, after `stop`."""
        if self._loop is not None:
            self._loop.join(seconds)

    @property
    def is_due(self) -> bool:
        """Whether it has something to do because time has passed."""
        follower = self._follower
        if self._number == 0 and follower.looks_alone and follower.look_is_due:
            return True
        if self._shared is None:
            return self._waits_for_consumer
        return self._patient != follower.is_quiet or self._lag() > 0

    # --- Reading ---------------------------------------------------------------------------------

    def step(self, wait_s: float) -> bool:
        """Reads what has arrived, waiting at most that long; returns whether there was anything."""
        follower = self._follower
        if self._number == 0 and follower.looks_alone and follower.look_is_due:
            self._look()
        positions = follower.positions(self._number, self._of)
        if not positions or not follower.has_looked:
            return False
        subscription, began = self._subscribed(positions), time.monotonic()
        if subscription is None:
            return False
        polled = subscription.poll(wait_s)
        now = time.monotonic()
        waited_s = now - (began if self._shared is None else self._polled_at)
        self._polled_at = now
        self._must_catch_up = self._must_catch_up and bool(polled.positions)
        self._replace_if_silent(polled.positions, min(waited_s, _WAITED_S_MAX))
        self._publish(polled)
        return bool(polled.positions)

    def _subscribed(self, positions: dict[int, int]) -> Subscription | None:
        """Returns a subscription at the positions, made under the leaders that the log now has.

        Returns None while others have the consumers that may be of one reader alone.
        """
        leaders = {p: e for p, e in self._follower.leaders.items() if p in positions}
        patient = self._follower.is_quiet
        assignment = (positions, leaders, patient)
        is_same = assignment == (self._positions, self._leaders, self._patient)
        if self._subscription is None or not is_same or self._is_replaced():
            self._unsubscribe()
            self._positions, self._leaders, self._patient = assignment
            self._subscription = self._follow()
            self._waits_for_consumer = self._subscription is None
        return self._subscription

    def _follow(self) -> Subscription | None:
        """Subscribes alone or with others."""
        table, positions = self._follower.table, Offsets(self._positions)
        where = (table.topic, positions, table.source.isolation, self._follower.epochs)
        log, consumers, patient = self._log, self._consumers, self._patient
        if consumers is None or not isinstance(log, SharesSubscriptions):
            return self._log.follow(*where, patient=patient)
        lag = self._lag()
        if (lag or not patient) and consumers.take(self, lag=lag):
            return self._log.follow(*where, patient=False)
        if lag <= SHARED_LAG_MAX:
            self._shared = log.share(*where, self.wake, patient=patient)
            self._polled_at = time.monotonic()
        return self._shared

    def _is_replaced(self) -> bool:
        """Whether the subscription makes way for another, shared or alone."""
        if self._shared is not None:
            self._must_catch_up = self._must_catch_up or self._shared.has_ended
            return self._shared.has_ended
        if self._consumers is None:
            return False
        lag = self._lag()
        return (self._patient and not lag) or self._consumers.is_over(self, lag=lag)

    def _lag(self) -> float:
        """Returns how many offsets the log holds beyond what was read, as far as is known."""
        ends = self._follower.ends
        lags = (max(0, ends.get(p, 0) - position) for p, position in self._positions.items())
        return math.inf if self._must_catch_up else sum(lags)

    def _replace_if_silent(self, advanced: Mapping[int, int], waited_s: float) -> None:
        """Ends the subscription if a partition has been silent for too long."""
        ends = self._follower.ends
        behind = (p for p, position in self._positions.items() if position < ends.get(p, 0))
        before, self._silences = self._silences, {}
        for partition in set(behind) - set(advanced):
            silence = before.get(partition, _Silence(0.0, self._silent_s))
            self._silences[partition] = silence.longer(waited_s)
        if any(silence.is_over for silence in self._silences.values()):
            self._unsubscribe(lost=True)
            self._silences = {p: silence.again() for p, silence in self._silences.items()}

    def _publish(self, polled: Polled) -> None:
        batches = {int(batch.partitions[0]): batch for batch in polled.batches}
        covered = {
            partition: OffsetRange(partition, self._positions[partition], position)
            for partition, position in polled.positions.items()
        }
        read = [(batches[p], covers) for p, covers in covered.items() if p in batches]
        built = build_all(self._follower.table.source, self._decoder, read) if read else []
        segments = {segment.range.partition: segment for segment in built}
        for partition, covers in covered.items():
            self._positions[partition] = covers.end_exclusive
            epoch, leader = polled.epochs.get(partition), self._leaders.get(partition)
            gaps = gaps_in(covers, batches[partition].offsets if partition in batches else ())
            segment = segments.get(partition)
            self._follower.publish(PartitionRead(covers, segment, epoch, leader, gaps))
        self._follower.relieve()

    def _round(self) -> float | None:
        if self._follower.over:
            return None
        if not self._follower.relieve():
            return _FULL_S
        self.step(POLL_S)
        self._follower.recovered(self._number)
        is_alone = self._subscription is not None and self._shared is None
        return 0.0 if is_alone else math.inf

    def _failed(self, error: SeamlineError, failures: int) -> float:
        """Retries after transient and unknown errors; any other error ends the follower."""
        supervision.attempt("tail", self._unsubscribe)
        if error.code in _UNKNOWN:
            self._follower.in_trouble(self._number, error)
        elif error.code not in _PASSING:
            self._follower.fail(error)
            return 0.0
        return _BACKOFF.pause_s(failures)

    def _look(self) -> None:
        soon = Soon(LOOK_S_MAX)
        try:
            self._follower.look(soon)
            self._follower.look_up(soon)
        except SeamlineError as error:
            if error.code not in _PASSING:
                raise

    def _unsubscribe(self, *, lost: bool = False) -> None:
        subscription, self._subscription, self._shared = self._subscription, None, None
        try:
            if subscription is not None:
                subscription.close(lost=lost)
        finally:
            if self._consumers is not None:
                self._consumers.give_back(self)


@dataclasses.dataclass(frozen=True, slots=True)
class _Silence:
    """How long nothing has come of a partition that holds more, and how long that may take."""

    seconds: float
    seconds_max: float

    @property
    def is_over(self) -> bool:
        return self.seconds >= self.seconds_max

    def longer(self, seconds: float) -> _Silence:
        return dataclasses.replace(self, seconds=self.seconds + seconds)

    def again(self) -> _Silence:
        """The silence of the next subscription, which may take twice as long after this one."""
        return _Silence(0.0, (2 if self.is_over else 1) * self.seconds_max)


class Soon:
    """A deadline some seconds from now."""

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds

    def check(self) -> None:
        """See `Deadline.check`."""
        if not self.remaining_s():
            raise SeamlineError(DEADLINE_EXCEEDED, "the log did not answer in time")

    def remaining_s(self) -> float:
        """See `Deadline.remaining_s`."""
        return max(0.0, self._ends_at - time.monotonic())

    def pause(self, seconds: float) -> None:
        """See `Deadline.pause`."""
        time.sleep(min(seconds, self.remaining_s()))

    def on_end(self, stop: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002 - it is polled
        """See `Deadline.on_end`."""
        return lambda: None
