"""Runs a physical plan: gets the tails and hands them, with the files, to the engine."""

from __future__ import annotations

import concurrent.futures
import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Generator, Mapping, Sequence

import pyarrow as pa

from seamline.connectors.chunks import ResultFile
from seamline.connectors.kafka.tail import Tail, read_tail
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.engine_tails import FollowedTail, SpilledTail, TailSource
from seamline.connectors.protocols.engines import Engine, EngineQuery, EngineScan, ResultStream
from seamline.errors import SCAN_TOO_LARGE, SeamlineError
from seamline.gateway.catalogs.connections import Sources
from seamline.gateway.statements.spool import ResultSpool
from seamline.gateway.tail.followers import Followers
from seamline.gateway.tail.requests import TailReader
from seamline.gateway.tail.tails import Tails
from seamline.planners.plan.logical import RowCount, Scan
from seamline.planners.plan.physical import PhysicalPlan, TailRead
from seamline.planners.plan.route import GATEWAY, SPARK
from seamline.seam.seam import SeamKey
from seamline.sql import types

_TAIL_READERS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Execution:
    """A running plan.

    Attributes:
        stream: Its result.
        tails: The tails that were read here, by the key of their seam; absent where Spark reads the
            log.
    """

    stream: ResultStream
    tails: Mapping[SeamKey, Tail]


class Executor:
    """Runs physical plans.

    Args:
        connections: Clusters and catalogs.
        engines: The engines, by name.
        tail_bytes_max: Bytes of records that one tail may hold here.
        tail_rows_max: A longer tail is read by Spark's executors.
        spool: Opens a spool for a result that is held back.
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
        tables: Mapping[str, ColdTable],
        deadline: Deadline,
        *,
        row_limit: int | None = None,
        scan_bytes_max: int = 0,
        owner: str = "",
        file: ResultFile | None = None,
    ) -> Execution:
        """Reads the tails that must be read here, and starts the engine.

        Args:
            plan: The plan.
            tables: The tables of the scans that have a cold side, by scan id.
            deadline: The statement's deadline.
            row_limit: Rows after which the result is read no further; None for all.
            scan_bytes_max: Bytes that may be read, from files and from tails that are read here; 0
                sets no limit.
            owner: Whose statement it is; see `EngineQuery`.
            file: See `EngineQuery`.

        Raises:
            SeamlineError: named after the cause. No row has been returned yet.
        """
        _check_size(plan.estimate.cold_bytes, 0, scan_bytes_max)
        left = {key for key, tail in plan.tails.items() if self._is_left_to_spark(plan, tail)}
        for key in left:
            self.tails.follow(plan.tails[key])  # so that a later statement finds the tail here
        shipped = {key: tail for key, tail in plan.tails.items() if key not in left}
        tails = self._read(shipped, deadline)
        if plan.route.engine == SPARK:
            tails = _in_memory(tails)

        def release() -> None:
            for tail in tails.values():
                tail.release()

        try:
            hot_bytes = sum(tail.size_bytes for tail in tails.values())
            _check_size(plan.estimate.cold_bytes, hot_bytes, scan_bytes_max)
            if plan.route.engine == GATEWAY:
                stream = _row(plan, tails)
            else:
                query = _engine_query(plan, tables, tails, owner)
                query = dataclasses.replace(query, file=file)
                stream = self._engines[plan.route.engine].run(query, deadline)
        except BaseException:
            release()
            raise
        unchecked = [tail for key, tail in plan.tails.items() if key not in tails]
        if unchecked:
            stream = self._held_back(stream, unchecked, row_limit, deadline)
        return Execution(_with_release(stream, release), tails)

    def follow(self, plan: PhysicalPlan) -> None:
        """Keeps following the tables of a plan that is not run, as its result is there already."""
        for tail in plan.tails.values():
            self.tails.follow(tail)

    def _held_back(
        self,
        stream: ResultStream,
        tails: Sequence[TailRead],
        row_limit: int | None,
        deadline: Deadline,
    ) -> ResultStream:
        """Holds back a result until the tails that Spark's workers read have been checked.

        Only when the last row has arrived have the workers certainly read the log.
        """

        def batches() -> Generator[pa.RecordBatch]:
            with contextlib.closing(self._spool(stream.schema)) as spool:
                for batch in stream.batches:
                    spool.write(batch)
                    if row_limit is not None and spool.row_count > row_limit:
                        break
                spool.finish()
                for tail in tails:
                    self.tails.check_left(tail, deadline)
                yield from spool.batches()

        held = batches()

        def close() -> None:
            held.close()
            stream.close()

        return ResultStream(stream.schema, held, close)

    def _is_left_to_spark(self, plan: PhysicalPlan, tail: TailRead) -> bool:
        is_large = plan.route.reads_log or tail.offsets > self._tail_rows_max
        return plan.route.engine == SPARK and is_large

    def _read(
        self, requests: Mapping[SeamKey, TailRead], deadline: Deadline
    ) -> dict[SeamKey, Tail]:
        """Reads all tails, or none: if one read fails, those already read are released."""
        if len(requests) <= 1:
            return {key: self.tails.get(tail, deadline) for key, tail in requests.items()}
        with concurrent.futures.ThreadPoolExecutor(_TAIL_READERS) as pool:
            futures = {
                key: pool.submit(contextvars.copy_context().run, self.tails.get, tail, deadline)
                for key, tail in requests.items()
            }
        try:
            return {key: future.result() for key, future in futures.items()}
        except BaseException:
            for future in futures.values():
                if future.exception() is None:
                    future.result().release()
            raise


def _check_size(cold_bytes: int, hot_bytes: int, bytes_max: int) -> None:
    """Checks that a statement does not read too much.

    Raises:
        SeamlineError: SCAN_TOO_LARGE.
    """
    size = cold_bytes + hot_bytes
    if bytes_max and size > bytes_max:
        raise SeamlineError(
            SCAN_TOO_LARGE,
            f"the statement would read {size:,} bytes ({cold_bytes:,} of files, {hot_bytes:,} of "
            f"tails); limits.scan_bytes_max is {bytes_max:,}",
            details={"limit": "limits.scan_bytes_max", "allowed": bytes_max, "bytes": size},
        )


def _row(plan: PhysicalPlan, tails: Mapping[SeamKey, Tail]) -> ResultStream:
    """Returns the row of a plan that needs no engine."""
    logical = plan.logical
    assert logical.row is not None
    count = sum(files.rows for files in logical.files.values())
    count += sum(tail.row_count for tail in tails.values())
    schema = _schema(plan)
    values = [count if isinstance(column, RowCount) else column.value for column in logical.row]
    columns = [pa.array([value], type_) for value, type_ in zip(values, schema.types, strict=True)]
    return ResultStream(schema, iter([pa.RecordBatch.from_arrays(columns, schema=schema)]))


def _schema(plan: PhysicalPlan) -> pa.Schema:
    return pa.schema([types.result_field(c.name, c.type) for c in plan.logical.query.output])


def _engine_query(
    plan: PhysicalPlan,
    tables: Mapping[str, ColdTable],
    tails: Mapping[SeamKey, Tail],
    owner: str,
) -> EngineQuery:
    """Returns the plan as engines take it; a tail that was not read becomes a `TailSource`."""
    keys = {key: str(number) for number, key in enumerate(plan.tails)}
    return EngineQuery(
        tree=plan.logical.query.tree,
        schema=_schema(plan),
        scans=tuple(
            _engine_scan(plan, scan, tables.get(scan.scan_id), keys, tails.get(scan.seam.key))
            for scan in plan.logical.scans
        ),
        tails={
            keys[key]: _rows(tails[key]) if key in tails else _source(tail)
            for key, tail in plan.tails.items()
        },
        owner=owner,
    )


def _engine_scan(
    plan: PhysicalPlan,
    scan: Scan,
    table: ColdTable | None,
    keys: Mapping[SeamKey, str],
    tail: Tail | None,
) -> EngineScan:
    deletes, misleading = None, frozenset[int]()
    assert scan.files is None or scan.files.counted is None, "an engine reads files"
    if scan.files is not None and table is not None:
        if plan.route.engine == SPARK:
            table.require_fit_for_spark(scan.seam.cold.snapshot_id)
            misleading = table.misleading_columns(scan.seam.cold.snapshot_id)
        else:
            deletes = table.deleted_rows(scan.files)
    return EngineScan(
        scan_id=scan.scan_id,
        table=scan.seam.table,
        columns=scan.columns,
        snapshot_id=scan.seam.cold.snapshot_id,
        stored=scan.facts.stored,
        cold=scan.files,
        cold_span=scan.seam.cold_span,
        deletes=deletes,
        file_access=table.file_access if table is not None else None,
        tail=keys[scan.seam.key] if scan.facts.reads_hot else None,
        rows=scan.facts.rows,
        predicate=scan.predicate,
        tail_predicate=scan.tail_predicate,
        newest=scan.facts.newest,
        places=scan.facts.places,
        followed=_followed(scan, tail),
        misleading=misleading,
    )


def _followed(scan: Scan, tail: Tail | None) -> FollowedTail | None:
    """Returns which tail a scan reads, if it reads all of it."""
    seam = scan.seam
    if tail is None or tail.log is None or seam.since is not None or not scan.facts.reads_hot:
        return None
    return FollowedTail(tail.log, seam.boundary, seam.end)


def _in_memory(tails: Mapping[SeamKey, Tail]) -> dict[SeamKey, Tail]:
    """Returns the tails that can be shipped; Spark reads those partly on disk from the log."""
    for tail in tails.values():
        if tail.files:
            tail.release()
    return {key: tail for key, tail in tails.items() if not tail.files}


def _rows(tail: Tail) -> pa.Table | SpilledTail:
    return SpilledTail(tail.rows, tail.files) if tail.files else tail.rows


def _source(tail: TailRead) -> TailSource:
    seam = tail.seam
    return TailSource(
        seam.log.cluster, seam.log.topic, tail.ranges, seam.log.isolation, tail.log_decoder
    )


def _with_release(stream: ResultStream, release: Callable[[], None]) -> ResultStream:
    def close() -> None:
        stream.close()
        release()

    return dataclasses.replace(stream, close=close)
