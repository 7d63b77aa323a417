"""A reader of a follower: a loop that consumes some of its partitions and decodes what arrives.

Consuming holds the GIL, decoding does not, so two readers of one follower overlap. A reader
subscribes at the follower's positions, and again whenever these are not where it left them (a
partition was added, the follower skipped to a boundary, or the connection failed), or the log is
found to have another leader: what an earlier subscription still returns may be of the former one.
It also subscribes anew when nothing comes of what the log holds of a partition: the client may wait
on a lost connection until its broker closes that.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from seamline.connectors import supervision
from seamline.connectors.kafka.cluster import SILENT_S
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.protocols.hot_logs import FollowableLog, Polled, Subscription
from seamline.connectors.supervision import Backoff, Loop
from seamline.errors import (
    DEADLINE_EXCEEDED,
    DISK_FULL,
    INTERNAL_ERROR,
    KAFKA_UNAVAILABLE,
    SCHEMA_REGISTRY_UNAVAILABLE,
    SeamlineError,
)
from seamline.gateway.tail.gaps import gaps_in
from seamline.gateway.tail.partitions import PartitionRead
from seamline.gateway.tail.segments import Segment, build
from seamline.seam.offsets import OffsetRange, Offsets

if TYPE_CHECKING:
    from seamline.gateway.tail.follower import Follower

POLL_S = 0.2
"""Longest wait for records; between waits, a reader checks whether it should stop."""

_BACKOFF = Backoff(first_s=0.5, max_s=5.0)
_LOOK_S_MAX = 5.0
_PASSING = frozenset({KAFKA_UNAVAILABLE, SCHEMA_REGISTRY_UNAVAILABLE, DEADLINE_EXCEEDED})
_UNKNOWN = frozenset({INTERNAL_ERROR, DISK_FULL})
"""Errors that code other than ours raises; what is cached stays valid."""


class Reader:
    """Reads every `of`-th partition of a follower. For one thread.

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
        self._decoder = Decoder(follower.table.source.decoder, follower.schemas)
        self._subscription: Subscription | None = None
        self._positions: dict[int, int] = {}
        self._leaders: dict[int, int] = {}
        self._patient = False
        self._silent_s = silent_s
        self._silences: dict[int, _Silence] = {}

    def read_in_background(self) -> Loop:
        """Reads in its own loop, until the follower is over."""
        return Loop("tail", self._round, after_failure=self._failed, at_end=self._unsubscribe)

    def step(self, wait_s: float) -> bool:
        """Reads what has arrived, waiting at most that long; returns whether there was anything."""
        if self._number == 0 and self._follower.look_is_due:
            self._look()
        positions = self._follower.positions(self._number, self._of)
        if not positions or not self._follower.has_looked:
            if wait_s > 0:
                self._follower.wait_for_change(wait_s)
            return False
        subscription, began = self._subscribed(positions), time.monotonic()
        polled = subscription.poll(wait_s)
        self._replace_if_silent(polled.positions, time.monotonic() - began)
        self._publish(polled)
        return bool(polled.positions)

    def _subscribed(self, positions: dict[int, int]) -> Subscription:
        """Returns a subscription at the positions, made under the leaders that the log now has."""
        leaders = {p: e for p, e in self._follower.leaders.items() if p in positions}
        patient = self._follower.is_quiet
        assignment = (positions, leaders, patient)
        if self._subscription is None or assignment != (
            self._positions,
            self._leaders,
            self._patient,
        ):
            self._unsubscribe()
            table, epochs = self._follower.table, self._follower.epochs
            self._subscription = self._log.follow(
                table.topic, Offsets(positions), table.source.isolation, epochs, patient=patient
            )
            self._positions, self._leaders, self._patient = assignment
        return self._subscription

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
        source = self._follower.table.source
        for partition, position in polled.positions.items():
            covers = OffsetRange(partition, self._positions[partition], position)
            segment: Segment | None = None
            offsets: Sequence[int] = ()
            if partition in batches:
                segment = build(source, self._decoder, batches[partition], covers)
                offsets = batches[partition].offsets
            self._positions[partition] = position
            epoch, leader = polled.epochs.get(partition), self._leaders.get(partition)
            gaps = gaps_in(covers, offsets)
            self._follower.publish(PartitionRead(covers, segment, epoch, leader, gaps))
        self._follower.relieve()

    def _round(self) -> float | None:
        if self._follower.over:
            return None
        self.step(POLL_S)
        self._follower.recovered(self._number)
        return 0.0

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
        soon = _Soon(_LOOK_S_MAX)
        try:
            self._follower.look(soon)
            self._follower.look_up(soon)
        except SeamlineError as error:
            if error.code not in _PASSING:
                raise

    def _unsubscribe(self, *, lost: bool = False) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.close(lost=lost)


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


class _Soon:
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
