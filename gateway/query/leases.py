"""Leases: snapshots that a long statement reads, kept from expiring while it does.

A lease is a tag on the snapshot. It is removed when the statement ends; one that a killed gateway
leaves behind goes with the first expiry after the statement's own deadline. A snapshot that cannot
be tagged is read all the same, and the receipt says so.
"""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping

from seamline.connectors.iceberg import commits
from seamline.connectors.iceberg.catalog import IcebergTable
from seamline.connectors.protocols import Deadline
from seamline.errors import SNAPSHOT_GONE, ErrorKind, SeamlineError
from seamline.gateway.connections import Connections
from seamline.planners.physical import PhysicalPlan
from seamline.planners.route import SPARK

TAG_PREFIX = "seamline-lease-"
_SPARE_MS = 60_000
"""How much longer than the statement may take a lease lasts: clocks differ."""
_LOG = logging.getLogger("seamline.leases")

Pin = tuple[tuple[str, ...], int]
"""(full name of a table, id of a snapshot of it)"""


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """What came of holding one snapshot.

    Attributes:
        tag: The lease; None when there is none.
        problem: Why there is none.
    """

    tag: str | None = None
    problem: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Lease:
    """The snapshots that one statement holds.

    Attributes:
        held: What came of each.
        release: Gives them back; what cannot be given back goes by itself, later.
    """

    held: Mapping[Pin, Held] = dataclasses.field(default_factory=dict)
    release: Callable[[], None] = lambda: None


class Leases:
    """Takes leases.

    Args:
        connections: Clusters and catalogs.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def take(self, plan: PhysicalPlan, deadline: Deadline) -> Lease:
        """Holds what Spark is to read; a read by DuckDB is short, and starts over instead.

        Raises:
            SeamlineError: SNAPSHOT_GONE when a snapshot has expired already; nothing is held then.
        """
        if plan.route.engine != SPARK:
            return Lease()
        cold = (scan.seam for scan in plan.logical.scans if scan.facts.reads_cold)
        pins = {(seam.table, seam.snapshot_id) for seam in cold if seam.snapshot_id is not None}
        return self.hold(sorted(pins), deadline)

    def hold(self, pins: Iterable[Pin], deadline: Deadline) -> Lease:
        """Holds snapshots, until they are given back or the deadline has long passed.

        Raises:
            SeamlineError: SNAPSHOT_GONE when one has expired already; nothing is held then.
        """
        held: dict[Pin, Held] = {}
        try:
            for name, snapshot_id in pins:
                held[(name, snapshot_id)] = self._hold(name, snapshot_id, deadline)
        except BaseException:
            self._release(held)
            raise
        return Lease(held, lambda: self._release(held))

    def _hold(self, name: tuple[str, ...], snapshot_id: int, deadline: Deadline) -> Held:
        tag = f"{TAG_PREFIX}{uuid.uuid4().hex}"
        keep_ms = int(deadline.remaining_s() * 1000) + _SPARE_MS

        def create() -> None:
            deadline.check()
            commits.create_tag(self._load(name), tag, snapshot_id, keep_ms)

        try:
            commits.insist(create)
        except SeamlineError as error:
            if error.code is SNAPSHOT_GONE or error.code.kind is not ErrorKind.EXTERNAL:
                raise
            return Held(problem=error.message)
        return Held(tag)

    def _release(self, held: Mapping[Pin, Held]) -> None:
        for (name, _), known in held.items():
            if known.tag is not None:
                self._untag(name, known.tag)

    def _untag(self, name: tuple[str, ...], tag: str) -> None:
        try:
            commits.insist(lambda: commits.remove_ref(self._load(name), tag))
        except SeamlineError as error:
            _LOG.warning("tag %s of %s stays until it is too old: %s", tag, ".".join(name), error)

    def _load(self, name: tuple[str, ...]) -> IcebergTable:
        return self._connections.catalog(name[0]).load(name[1:])
