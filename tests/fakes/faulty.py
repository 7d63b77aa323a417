"""Protocols with something in their way: calls that fail, wait, lose their reply or come late.

A wrapper asks its `FaultPlan` at each call what is to happen there; what it wraps stays as it is.
A plan that always says `NONE` makes the wrapper transparent.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from fakes.forwarding import Answer, ForwardingLog
from seamline.connectors.protocols.catalogs import Catalog
from seamline.connectors.protocols.cold_tables import ColdTable, TierTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import FollowableLog, HotLog, Polled, Subscription
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.errors import (
    CATALOG_UNAVAILABLE,
    KAFKA_UNAVAILABLE,
    STORAGE_UNAVAILABLE,
    ErrorCode,
    SeamlineError,
)
from seamline.seam.evolution import Change
from seamline.seam.files import ColdPlan, ScanRequest
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.table import TableState
from seamline.seam.tiering import Batch


class Fault(enum.Enum):
    """What happens to a call.

    `FAIL`: it never arrives. `LOST_REPLY`: it takes effect, and its answer is lost. `LATE`: it
    fails for the caller and takes effect later, after calls that were made after it. `STALE`: its
    answer is the one before. Calls that change nothing take `LATE` as `FAIL`; calls that have no
    earlier answer take `STALE` as `NONE`.
    """

    NONE = "none"
    FAIL = "fail"
    LOST_REPLY = "lost reply"
    LATE = "late"
    STALE = "stale"


class FaultPlan(Protocol):
    """What is to happen, and what to others while a call is on its way."""

    def at(self, call: str) -> Fault:
        """The fault of a call; others may act before it returns: the call is delayed."""

    def later(self, effect: Callable[[], object]) -> None:
        """Takes an effect that arrives late."""


def _look(
    plan: FaultPlan, call: str, code: ErrorCode, work: Callable[[], Answer]
) -> tuple[Answer, Fault]:
    """A call that changes nothing."""
    fault = plan.at(call)
    if fault in {Fault.FAIL, Fault.LOST_REPLY, Fault.LATE}:
        raise SeamlineError(code, f"{call}: {fault.value}")
    return work(), fault


def _change(plan: FaultPlan, call: str, work: Callable[[], None]) -> None:
    """A call that changes something."""
    fault = plan.at(call)
    if fault is Fault.LATE:
        plan.later(work)
    if fault is Fault.LOST_REPLY:
        work()
    if fault in {Fault.FAIL, Fault.LOST_REPLY, Fault.LATE}:
        raise SeamlineError(CATALOG_UNAVAILABLE, f"{call}: {fault.value}")
    work()


class BehindLog(ForwardingLog[HotLog]):
    """A log whose broker answers with a topic's former id for some requests.

    Args:
        inner: The log.
        topic_id: The former id.
        requests: For how many.
    """

    def __init__(self, inner: HotLog, topic_id: str, requests: int) -> None:
        super().__init__(inner)
        self._topic_id = topic_id
        self._requests = requests

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        """See `HotLog.bounds`."""
        bounds = super().bounds(topics, isolation, deadline)
        self._requests -= 1
        if self._requests < 0:
            return bounds
        return {t: dataclasses.replace(b, topic_id=self._topic_id) for t, b in bounds.items()}


class FaultyLog(ForwardingLog[HotLog]):
    """`HotLog` over another.

    Stale bounds are those of the same topic: a broker may be behind, but Kafka distinguishes a
    recreated topic from the one before it.
    """

    def __init__(self, inner: HotLog, plan: FaultPlan) -> None:
        super().__init__(inner)
        self._plan = plan
        self._last: dict[tuple[str, str], LogBounds] = {}

    def _call(self, name: str, work: Callable[[], Answer]) -> Answer:
        answer, _ = _look(self._plan, name, KAFKA_UNAVAILABLE, work)
        return answer

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        """See `HotLog.bounds`."""
        found, fault = _look(
            self._plan,
            "bounds",
            KAFKA_UNAVAILABLE,
            lambda: self._inner.bounds(topics, isolation, deadline),
        )
        for topic, now in found.items():
            before = self._last.get((topic, isolation))
            self._last[topic, isolation] = now
            if fault is Fault.STALE and before is not None and before.topic_id == now.topic_id:
                found[topic] = before
        return found

    def read(
        self,
        topic: str,
        ranges: Sequence[OffsetRange],
        isolation: str,
        deadline: Deadline,
        *,
        epochs: Mapping[int, int] | None = None,
        max_records: int | None = None,
    ) -> Iterator[RawBatch]:
        """See `HotLog.read`; something may happen before each range."""
        left = max_records
        for wanted in ranges:
            batches = self._call(
                "read",
                lambda wanted=wanted, left=left: list(  # type: ignore[misc]
                    self._inner.read(
                        topic, [wanted], isolation, deadline, epochs=epochs, max_records=left
                    )
                ),
            )
            yield from batches
            if left is not None:
                left -= sum(len(batch) for batch in batches)
                if left <= 0:
                    return


class FaultyFollowableLog(FaultyLog):
    """`FollowableLog` over another; something may happen before and after each poll."""

    def __init__(self, inner: FollowableLog, plan: FaultPlan) -> None:
        super().__init__(inner, plan)
        self._followed = inner

    def follow(
        self, topic: str, starts: Offsets, isolation: str, epochs: Mapping[int, int], patient: bool
    ) -> Subscription:
        """See `FollowableLog.follow`."""
        inner = self._followed.follow(topic, starts, isolation, epochs, patient)
        return _FaultySubscription(inner, self._plan)


class _FaultySubscription:
    def __init__(self, inner: Subscription, plan: FaultPlan) -> None:
        self._inner = inner
        self._plan = plan
        self.close = inner.close

    def poll(self, wait_s: float) -> Polled:
        """See `Subscription.poll`."""
        polled, _ = _look(self._plan, "poll", KAFKA_UNAVAILABLE, lambda: self._inner.poll(wait_s))
        if polled.positions:
            _look(self._plan, "polled", KAFKA_UNAVAILABLE, lambda: None)
        return polled


class FaultyCatalog:
    """`Catalog` over another."""

    def __init__(self, inner: Catalog, plan: FaultPlan) -> None:
        self.name = inner.name
        self._inner = inner
        self._plan = plan
        self._last: dict[tuple[str, ...], ColdTable] = {}

    def load(self, identifier: tuple[str, ...]) -> ColdTable:
        """See `Catalog.load`."""
        found, fault = _look(
            self._plan, "load", CATALOG_UNAVAILABLE, lambda: self._inner.load(identifier)
        )
        before = self._last.get(identifier, found)
        self._last[identifier] = found
        return FaultyTable(before if fault is Fault.STALE else found, self._plan)

    def namespaces(self) -> list[tuple[str, ...]]:
        """See `Catalog.namespaces`."""
        return self._inner.namespaces()

    def has_namespace(self, namespace: tuple[str, ...]) -> bool:
        """See `Catalog.has_namespace`."""
        return self._inner.has_namespace(namespace)

    def tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """See `Catalog.tables`."""
        return self._inner.tables(namespace)


class FaultyTable:
    """`ColdTable` over another: its metadata is there, its manifests and files may not be."""

    def __init__(self, inner: ColdTable, plan: FaultPlan) -> None:
        self.state = inner.state
        self.file_access = inner.file_access
        self._inner = inner
        self._plan = plan

    def plan(self, snapshot_id: int | None, request: ScanRequest) -> ColdPlan:
        """See `ColdTable.plan`."""
        found, _ = _look(
            self._plan,
            "plan",
            STORAGE_UNAVAILABLE,
            lambda: self._inner.plan(snapshot_id, request),
        )
        return found

    def inspect(self, plan: ColdPlan) -> ColdPlan:
        """See `ColdTable.inspect`."""
        return self._inner.inspect(plan)

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """See `ColdTable.require_single_writer`."""
        self._inner.require_single_writer(snapshot_id)

    def deleted_rows(self, plan: ColdPlan) -> pa.Table | None:
        """See `ColdTable.deleted_rows`."""
        return self._inner.deleted_rows(plan)

    def require_fit_for_spark(self, snapshot_id: int | None) -> None:
        """See `ColdTable.require_fit_for_spark`."""
        self._inner.require_fit_for_spark(snapshot_id)

    def misleading_columns(self, snapshot_id: int | None) -> frozenset[int]:
        """See `ColdTable.misleading_columns`."""
        return self._inner.misleading_columns(snapshot_id)

    def offsets_at(
        self,
        snapshot_id: int | None,
        first_ms: int,
        ranges: Sequence[OffsetRange],
        first_batch: int = 0,
    ) -> Offsets:
        """See `ColdTable.offsets_at`."""
        found, _ = _look(
            self._plan,
            "cold offsets at",
            STORAGE_UNAVAILABLE,
            lambda: self._inner.offsets_at(snapshot_id, first_ms, ranges, first_batch),
        )
        return found


class FaultyTierTable:
    """`TierTable` over another."""

    def __init__(self, inner: TierTable, plan: FaultPlan) -> None:
        self._inner = inner
        self._plan = plan
        self._last: TableState | None = None

    def load(self) -> TableState:
        """See `TierTable.load`."""
        found, fault = _look(self._plan, "load", CATALOG_UNAVAILABLE, self._inner.load)
        before = self._last or found
        self._last = found
        return before if fault is Fault.STALE else found

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """See `TierTable.require_single_writer`."""
        self._inner.require_single_writer(snapshot_id)

    def has_rows(self, batch: Batch, deadline: Deadline) -> bool:
        """See `TierTable.has_rows`."""
        found, _ = _look(
            self._plan,
            "probe",
            KAFKA_UNAVAILABLE,
            lambda: self._inner.has_rows(batch, deadline),
        )
        return found

    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`."""
        _change(self._plan, "commit", lambda: self._inner.commit_rows(batch))

    def evolve(self, batch: Batch, deadline: Deadline) -> tuple[Change, ...]:
        """See `TierTable.evolve`."""
        made: list[Change] = []
        _change(self._plan, "evolve", lambda: made.extend(self._inner.evolve(batch, deadline)))
        return tuple(made)

    def commit_boundary(self, batch: Batch) -> None:
        """See `TierTable.commit_boundary`."""
        _change(self._plan, "boundary", lambda: self._inner.commit_boundary(batch))

    def keep(self, snapshot_id: int) -> None:
        """See `TierTable.keep`."""
        _change(self._plan, "keep", lambda: self._inner.keep(snapshot_id))

    def take_back(self, snapshot_id: int, to: int) -> None:
        """See `TierTable.take_back`."""
        _change(self._plan, "take back", lambda: self._inner.take_back(snapshot_id, to))
