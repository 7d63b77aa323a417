"""Snapshot tags: they keep a snapshot from expiring while a long statement reads it.

A gateway has one tag on a snapshot, however many statements read it at once. It keeps the tag a
little longer than they need it, for the next statement. So a table gets one commit per snapshot,
not per statement, and statements do not compete with its writers. A tag is removed once no
statement has used it for a while, in the commit that makes the next one if there is one. Tags that
a killed gateway leaves behind are removed by the first expiry after their age. A snapshot that
cannot be tagged is read all the same, and the receipt says so.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping

from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import NOT_SUPPORTED, SNAPSHOT_GONE, ErrorKind, SeamlineError
from seamline.gateway.catalogs.connections import Connections
from seamline.planners.plan.physical import PhysicalPlan
from seamline.planners.plan.route import SPARK

TAG_PREFIX = "seamline-snapshot-"
IDLE_S = 30.0
"""Seconds that a tag stays while no statement uses it."""
_LIFE_S = 3600.0
"""The minimum seconds that a tag lasts: for shorter statements it rarely needs to be renewed."""
_SPARE_S = 60.0
"""Seconds by which a tag outlasts the time limit of its statement, as clocks differ."""
_LOOK_S = 0.1
_LOG = logging.getLogger("seamline.snapshot_tags")

Pin = tuple[tuple[str, ...], int]
"""(full name of a table, id of a snapshot of it)"""


@dataclasses.dataclass(frozen=True, slots=True)
class Tagging:
    """The outcome of holding one snapshot.

    Attributes:
        tag: The tag; None when there is none.
        problem: Why there is no tag.
    """

    tag: str | None = None
    problem: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class TaggedSnapshots:
    """The snapshots that one statement holds.

    Attributes:
        held: The outcome of each.
        release: Releases them.
    """

    held: Mapping[Pin, Tagging] = dataclasses.field(default_factory=dict)
    release: Callable[[], None] = lambda: None


class _Tag:
    """One snapshot's tag, shared by statements; all times are on the monotonic clock.

    Attributes:
        busy: Held while the tag is made or renewed.
        users: Statements that hold the snapshot, or are about to.
        name: Its name once it is made.
        lasts_until: When it may expire.
        idle_since: When the last user left.
        problem: Why the last attempt to make it failed, and when.
    """

    def __init__(self) -> None:
        self.busy = threading.Lock()
        self.users = 0
        self.name: str | None = None
        self.lasts_until = 0.0
        self.idle_since = 0.0
        self.problem: tuple[str, float] | None = None


class SnapshotTags:
    """Tags snapshots for statements. Safe to share between threads.

    Args:
        connections: Clusters and catalogs.
        idle_s: Seconds that a tag stays while no statement uses it.
    """

    def __init__(self, connections: Connections, *, idle_s: float = IDLE_S) -> None:
        self._connections = connections
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._tags: dict[Pin, _Tag] = {}

    def take(self, plan: PhysicalPlan, deadline: Deadline) -> TaggedSnapshots:
        """Holds the snapshots that Spark will read; DuckDB's short reads start over instead.

        Raises:
            SeamlineError: SNAPSHOT_GONE when a snapshot has already expired; nothing is held then.
        """
        if plan.route.engine != SPARK:
            return TaggedSnapshots()
        cold = (scan.seam for scan in plan.logical.scans if scan.facts.reads_cold)
        pins = {
            (seam.table, seam.cold.snapshot_id)
            for seam in cold
            if seam.cold.snapshot_id is not None
        }
        return self.hold(sorted(pins), deadline)

    def hold(self, pins: Iterable[Pin], deadline: Deadline) -> TaggedSnapshots:
        """Holds snapshots until they are released or the deadline has long passed.

        Raises:
            SeamlineError: SNAPSHOT_GONE when one has already expired; nothing is held then.
        """
        held: dict[Pin, Tagging] = {}
        try:
            for pin in pins:
                held[pin] = self._hold(pin, deadline)
        except BaseException:
            self._release(held)
            raise
        return TaggedSnapshots(held, lambda: self._release(held))

    def sweep(self) -> None:
        """Removes the tags that no statement has used for a while."""
        with self._lock:
            tables = {name for name, _ in self._tags}
        for name in tables:
            self._remove(name, self._take_idle(name))

    def close(self) -> None:
        """Removes every tag."""
        with self._lock:
            taken, self._tags = self._tags, {}
        for name in {name for name, _ in taken}:
            of_table = (tag for (table, _), tag in taken.items() if table == name)
            self._remove(name, [tag.name for tag in of_table if tag.name is not None])

    # --- One snapshot --------------------------------------------------------------------------

    def _hold(self, pin: Pin, deadline: Deadline) -> Tagging:
        asked_at = time.monotonic()
        with self._lock:
            tag = self._tags.setdefault(pin, _Tag())
            tag.users += 1
        try:
            while not tag.busy.acquire(timeout=_LOOK_S):
                deadline.check()
            try:
                return self._ensure(pin, tag, asked_at, deadline)
            finally:
                tag.busy.release()
        except BaseException:
            self._leave(pin, tag)
            raise

    def _ensure(self, pin: Pin, tag: _Tag, asked_at: float, deadline: Deadline) -> Tagging:
        """Returns the tag, which is made or renewed if needed.

        A caller that waited while another one tried gets the outcome of that attempt.
        """
        needed_until = time.monotonic() + deadline.remaining_s() + _SPARE_S
        if tag.name is not None and tag.lasts_until >= needed_until:
            return Tagging(tag.name)
        if tag.problem is not None and tag.problem[1] >= asked_at:
            return Tagging(problem=tag.problem[0])
        lasts_s = max(_LIFE_S, 2 * (needed_until - time.monotonic()))
        lasts_until = time.monotonic() + lasts_s
        made = f"{TAG_PREFIX}{uuid.uuid4().hex}"
        name, snapshot_id = pin
        replaced = [*self._take_idle(name), *([tag.name] if tag.name is not None else [])]

        def create() -> None:
            deadline.check()
            table = self._load(name)
            commits.create_tag(table, made, snapshot_id, int(lasts_s * 1000), instead_of=replaced)

        try:
            commits.insist(create)
        except SeamlineError as error:
            is_refused = error.code.kind is ErrorKind.EXTERNAL or error.code is NOT_SUPPORTED
            if error.code is SNAPSHOT_GONE or not is_refused:
                raise
            tag.problem = (error.message, time.monotonic())
            return Tagging(problem=error.message)
        tag.name, tag.lasts_until, tag.problem = made, lasts_until, None
        return Tagging(made)

    def _release(self, held: Mapping[Pin, Tagging]) -> None:
        for pin in held:
            with self._lock:
                tag = self._tags.get(pin)
            if tag is not None:
                self._leave(pin, tag)

    def _leave(self, pin: Pin, tag: _Tag) -> None:
        with self._lock:
            tag.users -= 1
            tag.idle_since = time.monotonic()
            if tag.name is None and not tag.users and self._tags.get(pin) is tag:
                del self._tags[pin]

    def _take_idle(self, name: tuple[str, ...]) -> list[str]:
        """Forgets a table's tags that nobody has used for a while, and returns their names."""
        with self._lock:
            idle = [
                pin
                for pin, tag in self._tags.items()
                if pin[0] == name
                and not tag.users
                and time.monotonic() - tag.idle_since >= self._idle_s
            ]
            taken = [self._tags.pop(pin) for pin in idle]
        return [tag.name for tag in taken if tag.name is not None]

    def _remove(self, name: tuple[str, ...], tags: list[str]) -> None:
        if not tags:
            return
        try:
            commits.insist(lambda: commits.remove_refs(self._load(name), tags))
        except SeamlineError as error:
            text = ", ".join(tags)
            _LOG.warning("tags %s of %s stay until they expire: %s", text, ".".join(name), error)

    def _load(self, name: tuple[str, ...]) -> IcebergTable:
        return self._connections.catalog(name[0]).load(name[1:])
