"""A physical plan run: tails are got and handed, with the files, to the engine."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
from collections.abc import Callable, Generator, Mapping, Sequence

import pyarrow as pa

from seamline.connectors.kafka.tail import Tail, read_tail
from seamline.connectors.protocols import (
    Deadline,
    Engine,
    EngineQuery,
    EngineScan,
    ResultStream,
    SpilledTail,
    TailSource,
)
from seamline.gateway.connections import Sources
from seamline.gateway.query.pinning import Pinned
from seamline.gateway.query.results import ResultSpool
from seamline.gateway.tail.followers import Followers
from seamline.gateway.tail.requests import TailReader, TailRequest
from seamline.gateway.tail.tails import Tails
from seamline.planners.logical import Scan
from seamline.planners.physical import PhysicalPlan, TailRead
from seamline.planners.route import SPARK
from seamline.sql import types
from seamline.sql.predicates import Or
from seamline.sql.types import Field

_TAIL_READERS = 4


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
        spool: Makes a place for a result that is held back.
        followers: Follows tables; None follows none.
        read_tail: Reads a tail from the log.
    """

    def __init__(
        self,
        connections: Sources,
        engines: Mapping[str, Engine],
        *,
        tail_bytes_max: int,
        tail_rows_max: int,
        spool: Callable[[pa.Schema], ResultSpool],
        followers: Followers | None = None,
        read_tail: TailReader = read_tail,
    ) -> None:
        self.tails = Tails(
            connections,
            followers,
            size_bytes_max=tail_bytes_max,
            offsets_max=tail_rows_max,
            read_tail=read_tail,
        )
        self._engines = engines
        self._tail_rows_max = tail_rows_max
        self._spool = spool

    def start(
        self,
        plan: PhysicalPlan,
        pinned: Mapping[str, Pinned],
        deadline: Deadline,
        *,
        row_limit: int | None = None,
    ) -> Execution:
        """Reads what must be read here, and starts the engine.

        Args:
            plan: The plan.
            pinned: The tables by scan id.
            deadline: The statement's.
            row_limit: Rows after which nobody reads on; None for all.

        Raises:
            SeamlineError: named after the cause. No row has been given away yet.
        """
        requests = {name: _request(plan, tail, pinned) for name, tail in plan.tails.items()}
        left = {name for name, tail in plan.tails.items() if self._is_left_to_spark(plan, tail)}
        for name in left:
            self.tails.follow(requests[name])  # so that a later statement finds it here
        shipped = {name: request for name, request in requests.items() if name not in left}
        tails = self._read(shipped, deadline)
        if plan.route.engine == SPARK:
            tails = _in_memory(tails)

        def release() -> None:
            for tail in tails.values():
                tail.release()

        try:
            stream = self._run(plan, pinned, tails, deadline)
        except BaseException:
            release()
            raise
        unchecked = [tail for name, tail in plan.tails.items() if name not in tails]
        if unchecked:
            stream = self._held_back(stream, unchecked, row_limit, deadline)
        return Execution(_with_release(stream, release), tails)

    def _run(
        self,
        plan: PhysicalPlan,
        pinned: Mapping[str, Pinned],
        tails: Mapping[tuple[str, ...], Tail],
        deadline: Deadline,
    ) -> ResultStream:
        keys = {name: str(number) for number, name in enumerate(plan.tails)}
        query = EngineQuery(
            tree=plan.logical.query.tree,
            schema=pa.schema([(c.name, types.to_arrow(c.type)) for c in plan.logical.query.output]),
            scans=tuple(self._scan(plan, scan, pinned, keys) for scan in plan.logical.scans),
            tails={
                keys[name]: _rows(tails[name]) if name in tails else _source(plan, tail, pinned)
                for name, tail in plan.tails.items()
            },
        )
        return self._engines[plan.route.engine].run(query, deadline)

    def _held_back(
        self,
        stream: ResultStream,
        tails: Sequence[TailRead],
        row_limit: int | None,
        deadline: Deadline,
    ) -> ResultStream:
        """A result over tails that Spark's workers read; no row is given before these are checked.

        Only when the last row is there have the workers read the log for sure.
        """

        def batches() -> Generator[pa.RecordBatch]:
            with contextlib.closing(self._spool(stream.schema)) as spool:
                for batch in stream.batches:
                    spool.write(batch)
                    if row_limit is not None and spool.row_count > row_limit:
                        break
                spool.finish()
                for tail in tails:
                    self.tails.check_read(tail.seam, tail.ranges, deadline)
                yield from spool.batches()

        found = batches()

        def close() -> None:
            found.close()
            stream.close()

        return ResultStream(stream.schema, found, close)

    def _is_left_to_spark(self, plan: PhysicalPlan, tail: TailRead) -> bool:
        is_large = plan.route.reads_log or tail.offsets > self._tail_rows_max
        return plan.route.engine == SPARK and is_large

    def _read(
        self, requests: Mapping[tuple[str, ...], TailRequest], deadline: Deadline
    ) -> dict[tuple[str, ...], Tail]:
        """Reads all, or none: what was got is let go when another fails."""
        if len(requests) <= 1:
            return {name: self.tails.get(r, deadline) for name, r in requests.items()}
        with concurrent.futures.ThreadPoolExecutor(_TAIL_READERS) as pool:
            futures = {
                name: pool.submit(self.tails.get, request, deadline)
                for name, request in requests.items()
            }
        try:
            return {name: future.result() for name, future in futures.items()}
        except BaseException:
            for future in futures.values():
                if future.exception() is None:
                    future.result().release()
            raise

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


def _request(plan: PhysicalPlan, tail: TailRead, pinned: Mapping[str, Pinned]) -> TailRequest:
    scans = _scans_of(plan, tail)
    table = pinned[scans[0].scan_id]
    assert table.decoder is not None
    filters = [scan.predicate for scan in scans]
    return TailRequest(
        seam=tail.seam,
        ranges=tail.ranges,
        epochs=tail.epochs,
        decoder=table.decoder,
        wanted=tuple(sorted({column.name for scan in scans for column in scan.columns})),
        predicate=None if None in filters else Or(tuple(f for f in filters if f is not None)),
        present=table.present,
        pinned_at=table.pinned_at,
        asked_at=table.asked_at,
    )


def _in_memory(tails: Mapping[tuple[str, ...], Tail]) -> dict[tuple[str, ...], Tail]:
    """The tails that can be shipped; of one that is partly on disk here, Spark reads the log."""
    for tail in tails.values():
        if tail.files:
            tail.release()
    return {name: tail for name, tail in tails.items() if not tail.files}


def _rows(tail: Tail) -> pa.Table | SpilledTail:
    return SpilledTail(tail.rows, tail.files) if tail.files else tail.rows


def _with_release(stream: ResultStream, release: Callable[[], None]) -> ResultStream:
    def close() -> None:
        stream.close()
        release()

    return dataclasses.replace(stream, close=close)


def _source(plan: PhysicalPlan, tail: TailRead, pinned: Mapping[str, Pinned]) -> TailSource:
    spec = pinned[_scans_of(plan, tail)[0].scan_id].decoder
    return TailSource(tail.seam.cluster, tail.seam.topic, tail.ranges, tail.seam.isolation, spec)
