"""Spark as an engine: a query over the same seam, through Spark Connect.

Every statement has a session to itself while it runs. The cold side is the table at its snapshot;
the tail is shipped as Arrow or, when it is large, read by Spark's executors at the same offsets
with the same decoder. Results come back as Arrow while Spark computes them. Canceling a statement
interrupts its tag.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from seamline.connectors import supervision
from seamline.connectors.arrow import conform
from seamline.connectors.config import ClusterConfig
from seamline.connectors.protocols.deadlines import Compute, Deadline, NoDeadline, at_once
from seamline.connectors.protocols.engine_tails import SpilledTail, TailSource
from seamline.connectors.protocols.engines import EngineQuery, EngineScan, ResultStream
from seamline.connectors.spark.errors import named_errors
from seamline.connectors.spark.kernels import learn
from seamline.connectors.spark.relation import relation_sql
from seamline.connectors.spark.sessions import HANG_UP_S, Session, Sessions, let_go
from seamline.connectors.spark.tail import decoded_tail, has_odd_time
from seamline.errors import (
    CATALOG_ACCESS_DENIED,
    NOT_SUPPORTED,
    SPARK_FAILED,
    TAIL_TOO_LARGE,
    SeamlineError,
)
from seamline.sql.engines import render
from seamline.sql.slices import whole

T = TypeVar("T")
_LOG = logging.getLogger("seamline.spark")
_NEVER = NoDeadline()
_RETRIES = 6
"""About two seconds: long enough to reconnect, not to wait for a server to restart."""


class SparkEngine:
    """Runs queries on a Spark Connect server. Safe to share between threads.

    Args:
        url: Returns the server's address; starts a server if need be.
        close: Called when the engine is closed.
        clusters: Clusters whose topics executors may have to read, by name.
        tail_partitions: The least number of tasks that a large tail is split over.
        compute: Runs pure computations.
    """

    name = "spark"

    def __init__(
        self,
        url: Callable[[], str],
        close: Callable[[], None],
        clusters: Mapping[str, ClusterConfig],
        *,
        tail_partitions: int,
        compute: Compute = at_once,
    ) -> None:
        self._compute = compute
        self._sessions = Sessions.on_server(url, _RETRIES)
        self._close = close
        self._clusters = clusters
        self._tail_partitions = tail_partitions

    def run(self, query: EngineQuery, deadline: Deadline) -> ResultStream:
        """See `Engine.run`."""
        with named_errors(deadline):
            while True:
                statement = _Statement(self._sessions, deadline)
                try:
                    return self._started(statement, query, deadline)
                except BaseException:
                    statement.close()
                    if not statement.is_repeatable:
                        raise

    def warm_up(self) -> None:
        """Has Spark started in the background, so that no statement has to wait for it."""
        supervision.start(
            "spark-start", lambda: self.work(lambda spark: spark.sql("SELECT 1").collect(), _NEVER)
        )

    def work(self, work: Callable[[Any], T], deadline: Deadline) -> T:
        """Does work other than a query, such as maintenance, in a session that it has to itself.

        Args:
            work: The work, given PySpark's session; called in this thread.
            deadline: Interrupts it.

        Raises:
            SeamlineError: what the work raises; SPARK_UNAVAILABLE, …
        """
        with (
            named_errors(deadline),
            contextlib.closing(_Statement(self._sessions, deadline)) as own,
            own.failing(),
        ):
            result = work(own.session.spark)
            own.has_ended = True
            return result

    def close(self) -> None:
        """Releases the sessions, and the server if it is ours."""
        self._sessions.close()
        self._close()

    def _started(
        self, statement: _Statement, query: EngineQuery, deadline: Deadline
    ) -> ResultStream:
        session = statement.session
        with statement.failing(), named_errors(deadline):
            sql = self._prepare(session, query, deadline)
            frame = session.spark.sql(sql)

        def again() -> Any:
            return session.spark.sql(self._prepare(session, query, deadline, any_time=True))

        batches = statement.read(_batches(session.spark, frame, again, query, deadline))
        return ResultStream(query.schema, _logged(batches, sql), statement.close)

    def _prepare(
        self, session: Session, query: EngineQuery, deadline: Deadline, *, any_time: bool = False
    ) -> str:
        tails: dict[str, str] = {}
        for scan in query.scans:
            view = None
            if scan.rows is not None:
                view = self._view(session, scan, scan.rows)
            elif scan.tail is not None:
                if scan.tail not in tails:  # shipped once, however many scans read it
                    tail = query.tails[scan.tail]
                    tails[scan.tail] = self._view(session, scan, tail, any_time)
                view = tails[scan.tail]
            rows_sql = render.scan_rows(scan.columns, relation_sql(scan, view), self.name)
            session.view(scan.scan_id, session.spark.sql(rows_sql))
        learn(session, render.kernels(query.tree, self.name))
        return self._compute(lambda: render.to_spark(query.tree), deadline)

    def _view(
        self,
        session: Session,
        scan: EngineScan,
        rows: pa.Table | SpilledTail | TailSource,
        any_time: bool = False,
    ) -> str:
        view = scan.own_name("rows")
        session.view(view, _lower_case(self._frame(session.spark, rows, any_time)))
        return view

    def _frame(
        self, session: Any, tail: pa.Table | SpilledTail | TailSource, any_time: bool
    ) -> Any:
        if isinstance(tail, SpilledTail):
            raise SeamlineError(TAIL_TOO_LARGE, "a part of the tail is in the gateway's files")
        if not isinstance(tail, TailSource):
            return _local(session, tail)
        return decoded_tail(
            session,
            cluster=self._clusters[tail.cluster],
            ranges=tail.ranges,
            isolation=tail.isolation,
            spec=tail.decoder,
            min_partitions=self._tail_partitions,
            any_time=any_time,
        )


def _local(session: Any, table: pa.Table) -> Any:
    """Returns an Arrow table as a DataFrame, without the metadata that Spark does not accept."""
    schema = pa.schema([pa.field(field.name, field.type) for field in table.schema])
    if table.num_rows == 0:
        from pyspark.sql.pandas.types import from_arrow_schema

        return session.createDataFrame([], from_arrow_schema(schema))
    return session.createDataFrame(whole(pa.Table.from_arrays(table.columns, schema=schema)))


def _lower_case(frame: Any) -> Any:
    return frame.toDF(*(name.lower() for name in frame.columns))


def _batches(
    session: Any, frame: Any, again: Callable[[], Any], query: EngineQuery, deadline: Deadline
) -> Iterator[pa.RecordBatch]:
    """Yields the result; computes it again if a tail has times that Spark cannot represent."""
    with named_errors(deadline):
        given = False
        try:
            for batch in _computed(session, frame, query, deadline):
                given = True
                yield batch
        except Exception as error:
            if given or not has_odd_time(error):
                raise
        else:
            return
        yield from _computed(session, again(), query, deadline)


def _logged(batches: Iterator[pa.RecordBatch], sql: str) -> Iterator[pa.RecordBatch]:
    """Logs the Spark SQL of a statement that it refuses, or that fails without a specific error."""
    try:
        yield from batches
    except SeamlineError as error:
        if error.code in (NOT_SUPPORTED, SPARK_FAILED):
            _LOG.warning("Spark: %s\n%s", error.summary, sql)
        raise


def _computed(
    session: Any, frame: Any, query: EngineQuery, deadline: Deadline
) -> Iterator[pa.RecordBatch]:
    plan = frame._plan.to_proto(session.client)  # noqa: SLF001 - the only way to stream Arrow
    for part in session.client.to_table_as_iterator(plan, {}):
        deadline.check()
        if isinstance(part, pa.Table):
            for batch in whole(part).to_batches():
                yield conform(batch, query.schema)


class _Statement:
    """A statement, and the session that it has to itself.

    Attributes:
        session: The session.
        has_ended: Whether nothing of the statement runs in its session any more.
        is_repeatable: Whether it failed only because its session had an old login to a catalog.
    """

    def __init__(self, sessions: Sessions, deadline: Deadline) -> None:
        tag = f"seamline-{uuid.uuid4().hex}"
        self._sessions = sessions
        self.session = sessions.take(tag)
        self._interruption = _Interruption(self.session.spark, tag)
        self._forget = deadline.on_end(self._interruption)
        self._is_closed = False
        self.has_ended = False
        self.is_repeatable = False

    def close(self) -> None:
        """Gives the session back, or lets go of it if something may still run there."""
        self._forget()
        if self._is_closed:  # the session may be another statement's by now
            return
        self._is_closed = True
        if self.has_ended and not self._interruption.has_begun:
            self._sessions.give_back(self.session)
        else:
            let_go(self.session.spark, is_interrupted=self._interruption.has_begun)

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the batches; until the last of them is read, Spark computes the next ones."""
        with self.failing():
            yield from batches
        self.has_ended = True

    @contextlib.contextmanager
    def failing(self) -> Iterator[None]:
        """Notes whether a failure means that the server has ended the statement.

        A token that a catalog refuses is replaced with the session, unless that is new.
        """
        try:
            yield
        except SeamlineError as error:
            self.has_ended = self._sessions.note_failure(self.session, error)
            is_refused = error.code is CATALOG_ACCESS_DENIED
            self.is_repeatable = is_refused and self.session.statements > 1
            raise


class _Interruption:
    """Ends what a session runs: asks Spark to end it, and disconnects if that does not help.

    Every call returns at once, whatever state the server is in.
    """

    def __init__(self, session: Any, tag: str) -> None:
        self._session = session
        self._tag = tag
        self._first_at: float | None = None
        self._is_asking = False

    @property
    def has_begun(self) -> bool:
        """Whether it was called."""
        return self._first_at is not None

    def __call__(self) -> None:
        now = time.monotonic()
        self._first_at = self._first_at or now
        if now - self._first_at > HANG_UP_S:
            self._session.client.close()
        elif not self._is_asking:
            self._is_asking = True
            supervision.start("spark-interrupt", self._ask)

    def _ask(self) -> None:
        """Asks Spark once; later calls repeat a failed request, and in the end disconnect."""
        try:
            self._session.interruptTag(self._tag)
        finally:
            self._is_asking = False
