"""The followers of a gateway: at most one for each table, all within one budget.

When there is too much in memory, the largest run of segments that no statement reads goes to disk,
whichever follower has it. When the disk is full too, the least recently used follower is stopped,
since what it holds can be read again. If that is not possible either, a follower is full: it reads
no further until something is released, and notifies those that wait for it.
"""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from seamline.connectors.protocols.hot_logs import FollowableLog
from seamline.connectors.supervision import Crew, Loop
from seamline.gateway.tail.follower import LOOK_EVERY_S, READERS, Follower
from seamline.gateway.tail.looks import Looks
from seamline.gateway.tail.own_consumers import OwnConsumers
from seamline.gateway.tail.retention import Retention
from seamline.gateway.tail.segments import merge
from seamline.gateway.tail.source import FollowedTable
from seamline.gateway.tail.store import SegmentStore, Usage
from seamline.seam.offsets import Offsets

_LOG = logging.getLogger("seamline.tail")

_LOW_WATER = 1 / 2
"""Spilling continues down to this fraction of the budget, so that there is room for a while."""

_UNUSED_S = 10.0
"""A follower used within this many seconds is not stopped to make room for another."""

_JOIN_S = 5.0
_THREADS_MAX = 32
"""Threads that read: one for each consumer that is of one reader alone, and some that decode."""


@dataclasses.dataclass(frozen=True, slots=True)
class Budget:
    """What all followers together may use.

    Attributes:
        memory_bytes: Decoded rows in memory.
        disk_bytes: Files of spilled segments.
        idle_seconds: A follower that no statement has used for this long stops.
    """

    memory_bytes: int
    disk_bytes: int
    idle_seconds: float


class Followers:
    """See the module's docstring. Safe to share between threads.

    Args:
        log_of: Returns the log of the cluster of that name.
        budget: What they may use.
        directory: Where segments are spilled; whatever is in it is deleted.
        readers: Readers of each follower; see `Follower`.
        consumers: See the attribute.

    Attributes:
        budget: What they may use.
        consumers: Which readers have consumers of their own.
    """

    def __init__(
        self,
        log_of: Callable[[str], FollowableLog],
        budget: Budget,
        directory: pathlib.Path,
        *,
        readers: int = READERS,
        consumers: OwnConsumers | None = None,
    ) -> None:
        self.budget = budget
        self._log_of = log_of
        self._store = SegmentStore(
            memory_bytes_max=budget.memory_bytes,
            disk_bytes_max=budget.disk_bytes,
            directory=directory,
        )
        self._readers = readers
        self._lock = threading.Lock()
        self._spilling = threading.Lock()
        self._by_table: dict[str, Follower] = {}
        self._crew = Crew("tail", _THREADS_MAX)
        self.consumers = consumers or OwnConsumers()
        self._looks: dict[int, Loop] = {}  # by the identity of the log
        self._closed = False

    @property
    def usage(self) -> Usage:
        """What they use now."""
        return self._store.usage

    def all(self) -> list[Follower]:
        """Returns every follower, sorted by the name of its table."""
        with self._lock:
            return sorted(self._by_table.values(), key=lambda follower: follower.table.name)

    def find(self, table_uuid: str) -> Follower | None:
        """Returns the follower of a table, if it has one."""
        with self._lock:
            return self._by_table.get(table_uuid)

    def follow(
        self,
        table: FollowedTable,
        cluster: str,
        boundary: Offsets,
        epochs: Mapping[int, int],
        asked_at: float,
    ) -> Follower | None:
        """Returns the follower of a table; starts one if there is none that can be used.

        A follower of the same table is replaced if it follows something else (another schema,
        another topic), has failed, or begins past the boundary.

        Args:
            table: What to follow.
            cluster: Name of its cluster.
            boundary: The boundary of the table's newest snapshot.
            epochs: Leader epochs there, where known.
            asked_at: A moment before the boundary was learned.

        Returns:
            None when the gateway is stopping.
        """
        with self._lock:
            if self._closed:
                return None
            follower = self._by_table.get(table.uuid)
            if follower is not None:
                is_same = follower.table == table and not follower.over
                if is_same and follower.advance(boundary, epochs, asked_at):
                    return follower
                follower.close()
            log = self._log_of(cluster)
            made = Follower(
                table,
                log,
                Retention(boundary, epochs, asked_at),
                self._store,
                self.make_room,
                readers=self._readers,
                crew=self._crew,
                consumers=self.consumers,
            )
            self._by_table[table.uuid] = made
            self._look_at(log)
            return made

    def _look_at(self, log: FollowableLog) -> None:
        """Begins to look at the topics of a cluster, unless that has begun."""
        if self._readers and id(log) not in self._looks:
            looks = Looks(log, lambda: [f for f in self.all() if f.log is log])
            self._looks[id(log)] = Loop("tail looks", looks.look, delay_s=LOOK_EVERY_S)

    def stop(self, follower: Follower) -> None:
        """Stops a follower; the next statement that needs one starts another."""
        with self._lock:
            if self._by_table.get(follower.table.uuid) is follower:
                del self._by_table[follower.table.uuid]
        follower.close()

    def sweep(self) -> None:
        """Stops the followers that nobody has used for a long time."""
        now = time.monotonic()
        for follower in self.all():
            idle = now - follower.last_used
            if idle >= self.budget.idle_seconds and not follower.in_use:
                _LOG.info("table %s: idle, no longer followed", follower.table.name)
                self.stop(follower)

    def close(self) -> None:
        """Stops all of them and deletes their files."""
        with self._lock:
            self._closed = True
            followers = list(self._by_table.values())
            self._by_table.clear()
        for loop in self._looks.values():
            loop.stop()
        for follower in followers:
            follower.close()
        for follower in followers:
            follower.join(_JOIN_S)
        self._store.close()

    def make_room(self, wanting: Follower) -> bool:
        """Spills segments, then stops unused followers, until memory is within the budget.

        Returns:
            Whether it is; False when all that is left is in use or belongs to `wanting`.
        """
        with self._spilling:
            for _ in self._relief(wanting):
                if self.usage.memory_bytes <= self.budget.memory_bytes * _LOW_WATER:
                    break
            self._store.give_back()
        return not self._store.is_over_budget

    def _relief(self, wanting: Follower) -> Iterator[None]:
        """Frees something at every step, while there is anything to free."""
        while self._spill_one():
            yield
        while self._store.is_over_budget and (unused := self._unused(wanting)) is not None:
            _LOG.info("table %s: no longer followed, to make room", unused.table.name)
            self.stop(unused)
            yield

    def _spill_one(self) -> bool:
        runs = [(follower, follower.spillable()) for follower in self.all()]
        follower, run = max(
            runs, key=lambda entry: sum(s.size_bytes for s in entry[1]), default=(None, ())
        )
        if follower is None or not run:
            return False
        whole = merge(run) if len(run) > 1 else run[0]
        spilled = self._store.spilled(whole)
        if spilled is None:
            return False
        if not follower.replace(run, spilled):
            self._store.release([spilled])
        return True

    def _unused(self, wanting: Follower) -> Follower | None:
        now = time.monotonic()
        others = [
            follower
            for follower in self.all()
            if follower is not wanting
            and not follower.in_use
            and now - follower.last_used >= _UNUSED_S
        ]
        return min(others, key=lambda follower: follower.last_used, default=None)
