"""A physical plan run: tails are read, checked and handed, with the files, to the engine."""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from seamline.connectors.base import (
    Deadline,
    Engine,
    EngineQuery,
    EngineScan,
    HotLog,
    OffsetRange,
    ResultStream,
    TailSource,
)
from seamline.connectors.kafka.decode import DecoderSpec
from seamline.connectors.kafka.tail import Tail, read_tail
from seamline.gateway.connections import Sources
from seamline.gateway.pinning import Pinned
from seamline.planners import seam as seams
from seamline.planners.logical import Scan
from seamline.planners.physical import PhysicalPlan, TailRead
from seamline.planners.route import SPARK
from seamline.sql import types
from seamline.sql.types import Field

_TAIL_READERS = 4


class TailReader(Protocol):
    """Reads and decodes a tail; `read_tail` is the one."""

    def __call__(
        self,
        log: HotLog,
        ranges: Sequence[OffsetRange],
        isolation: str,
        spec: DecoderSpec,
        wanted: Sequence[str],
        deadline: Deadline,
        *,
        size_bytes_max: int,
        epochs: Mapping[int, int] | None = None,
    ) -> Tail:
        """See `read_tail`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Execution:
    """A running plan.

    Attributes:
        stream: Its result.
        tails: What was read of the log, by the key of the seam; absent where Spark reads it.
    """

    stream: ResultStream
    tails: Mapping[tuple[str, ...], Tail]


class Executor:
    """Runs physical plans.

    Args:
        connections: Clusters and catalogs.
        engines: By name.
        tail_bytes_max: Bytes of records that one tail may hold here.
        tail_rows_max: A longer tail is read by Spark's executors.
        read_tail: Reads a tail.
    """

    def __init__(
        self,
        connections: Sources,
        engines: Mapping[str, Engine],
        *,
        tail_bytes_max: int,
        tail_rows_max: int,
        read_tail: TailReader = read_tail,
    ) -> None:
        self._connections = connections
        self._engines = engines
        self._tail_bytes_max = tail_bytes_max
        self._tail_rows_max = tail_rows_max
        self._read = read_tail

    def start(
        self, plan: PhysicalPlan, pinned: Mapping[str, Pinned], deadline: Deadline
    ) -> Execution:
        """Reads what must be read here, and starts the engine.

        Args:
            plan: The plan.
            pinned: The tables by scan id.
            deadline: The statement's.

        Raises:
            SeamlineError: named after the cause. No row has been given away yet.
        """
        shipped = {
            name: tail
            for name, tail in plan.tails.items()
            if not self._is_read_by_spark(plan, tail)
        }
        tails = self._read_tails(plan, shipped, pinned, deadline)
        keys = {name: str(number) for number, name in enumerate(plan.tails)}
        query = EngineQuery(
            tree=plan.logical.query.tree,
            schema=pa.schema([(c.name, types.to_arrow(c.type)) for c in plan.logical.query.output]),
            scans=tuple(self._scan(plan, scan, pinned, keys) for scan in plan.logical.scans),
            tails={
                keys[name]: tails[name].rows if name in tails else _source(plan, tail, pinned)
                for name, tail in plan.tails.items()
            },
        )
        return Execution(self._engines[plan.route.engine].run(query, deadline), tails)

    def _is_read_by_spark(self, plan: PhysicalPlan, tail: TailRead) -> bool:
        return plan.route.engine == SPARK and tail.offsets > self._tail_rows_max

    def _read_tails(
        self,
        plan: PhysicalPlan,
        wanted: Mapping[tuple[str, ...], TailRead],
        pinned: Mapping[str, Pinned],
        deadline: Deadline,
    ) -> dict[tuple[str, ...], Tail]:
        if len(wanted) <= 1:
            return {n: self._read_tail(plan, t, pinned, deadline) for n, t in wanted.items()}
        with concurrent.futures.ThreadPoolExecutor(_TAIL_READERS) as pool:
            futures = {
                name: pool.submit(self._read_tail, plan, tail, pinned, deadline)
                for name, tail in wanted.items()
            }
            return {name: future.result() for name, future in futures.items()}

    def _read_tail(
        self,
        plan: PhysicalPlan,
        tail: TailRead,
        pinned: Mapping[str, Pinned],
        deadline: Deadline,
    ) -> Tail:
        """One tail, read and then checked: the log must still hold what was asked of it."""
        scans = _scans_of(plan, tail)
        spec = pinned[scans[0].scan_id].decoder
        assert spec is not None
        wanted = {column.name for scan in scans for column in scan.columns}
        log = self._connections.log(tail.seam.cluster)
        result = self._read(
            log,
            tail.ranges,
            tail.seam.isolation,
            spec,
            sorted(wanted),
            deadline,
            size_bytes_max=self._tail_bytes_max,
            epochs=tail.epochs,
        )
        if tail.ranges:
            after = log.bounds([tail.seam.topic], tail.seam.isolation, deadline)[tail.seam.topic]
            seams.check_after_read(tail.seam, after, {r.partition: r.start for r in tail.ranges})
        return result

    def _scan(
        self,
        plan: PhysicalPlan,
        scan: Scan,
        pinned: Mapping[str, Pinned],
        keys: Mapping[tuple[str, ...], str],
    ) -> EngineScan:
        table = pinned[scan.scan_id]
        cold = plan.cold.get(scan.scan_id)
        deletes = None
        if cold is not None and table.cold is not None and plan.route.engine != SPARK:
            deletes = table.cold.deleted_rows(cold)
        return EngineScan(
            scan_id=scan.scan_id,
            table=scan.seam.table,
            columns=scan.columns,
            snapshot_id=scan.seam.snapshot_id,
            stored=_stored(table, scan.seam.snapshot_id),
            cold=cold,
            cold_end=scan.seam.cold_end,
            deletes=deletes,
            file_access=table.cold.file_access if table.cold is not None else None,
            tail=keys[scan.seam.key] if scan.reads_hot else None,
            rows=table.rows,
        )


def _stored(table: Pinned, snapshot_id: int | None) -> tuple[Field, ...]:
    """The columns of the schema a snapshot was written with."""
    if table.cold is None or snapshot_id is None:
        return ()
    return table.cold.state.schema_of(snapshot_id).columns


def _scans_of(plan: PhysicalPlan, tail: TailRead) -> Sequence[Scan]:
    return [s for s in plan.logical.scans if s.reads_hot and s.seam.key == tail.seam.key]


def _source(plan: PhysicalPlan, tail: TailRead, pinned: Mapping[str, Pinned]) -> TailSource:
    spec = pinned[_scans_of(plan, tail)[0].scan_id].decoder
    return TailSource(tail.seam.cluster, tail.seam.topic, tail.ranges, tail.seam.isolation, spec)
