"""The service: submit, status, fetch, cancel. Knows nothing of HTTP.

Statements wait for one of a fixed number of runners, run under their deadline, and leave a result
and a receipt. Whatever goes wrong becomes a named error of the statement. A result nobody asks for
is released after a while, and a running statement nobody asks about is canceled.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime
import gc
import logging
import os
import pathlib
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from seamline.connectors import supervision
from seamline.connectors.duckdb.engine import DuckDBEngine
from seamline.connectors.protocols import Engine
from seamline.connectors.supervision import Loop
from seamline.errors import (
    INVALID_REQUEST,
    SHUTTING_DOWN,
    STATEMENT_NOT_FOUND,
    STATEMENT_TOO_LARGE,
    TOO_MANY_STATEMENTS,
    SeamlineError,
)
from seamline.gateway.commands.dispatch import Commands, Rows
from seamline.gateway.config.model import Config
from seamline.gateway.connections import Connections
from seamline.gateway.iceberg_rest.catalog import LiveCatalog
from seamline.gateway.iceberg_rest.holds import SessionTokens
from seamline.gateway.iceberg_rest.planning import Planning
from seamline.gateway.iceberg_rest.tables import LiveTables
from seamline.gateway.query import freshness, names, receipt, tokens
from seamline.gateway.query.deadline import StatementDeadline
from seamline.gateway.query.gather import Gatherer
from seamline.gateway.query.leases import Leases
from seamline.gateway.query.metrics import Metrics
from seamline.gateway.query.queries import Planned, Queries, QueryRequest, Running
from seamline.gateway.query.run import Executor
from seamline.gateway.query.spool import ResultSpool
from seamline.gateway.query.statements import FINAL, State, Statement, StatementRequest
from seamline.gateway.query.tokens import TokenSigner, kept_secret
from seamline.gateway.spark import spark_engine
from seamline.gateway.tail.metrics import tail_metrics
from seamline.gateway.tail.tails import followers
from seamline.planners.explain import explain
from seamline.planners.route import DUCKDB, ENGINES, SPARK, Limits
from seamline.seam.seam import Seam
from seamline.sql import parameters, parse, types
from seamline.sql.binder.scope import Output
from seamline.sql.qualify import TableReference

_LOG = logging.getLogger("seamline.service")
ABANDONED_S = 300.0
QUIET_S = 5.0
_SWEEP_S = 5.0
_YOUNG = 1
_DRAIN_LOOK_S = 0.1


class Service:
    """One gateway's statements. Safe to share between threads.

    Args:
        config: The configuration.
        clock: Seconds since the epoch, for what is given to other engines.
    """

    def __init__(self, config: Config, clock: Callable[[], float] = time.time) -> None:
        self.config = config
        self.connections = Connections(config)
        self.metrics = Metrics()
        limits = config.limits
        state = pathlib.Path(config.state_directory)
        self._spool = state / "results"
        shutil.rmtree(self._spool, ignore_errors=True)
        secret = config.tokens.secret or kept_secret(state / "token-secret")
        self._signer = TokenSigner(secret, config.tokens.age_seconds_max)
        self.sessions = SessionTokens(secret, config.tokens.age_seconds_max)
        self._duckdb = DuckDBEngine(
            memory_bytes=limits.memory_bytes,
            threads=limits.duckdb_threads or _cores(),
            spill_directory=str(state / "spill"),
            spill_bytes=limits.spill_bytes,
        )
        engines: dict[str, Engine] = {DUCKDB: self._duckdb}
        self._spark = spark_engine(config)
        if self._spark is not None:
            engines[SPARK] = self._spark
        self._followers = followers(config, self.connections)
        executor = Executor(
            self.connections,
            engines,
            tail_bytes_max=limits.memory_bytes,
            tail_rows_max=limits.duckdb_tail_rows_max,
            spool=self._held_result,
            followers=self._followers,
        )
        self._gatherer = Gatherer(self.connections, executor.tails, self._virtual_seam)
        self.live = LiveCatalog(
            LiveTables(config, self.connections, self._gatherer, executor.tails, clock),
            self.sessions,
            config.iceberg.hold_seconds,
        )
        self.planning = Planning(float(limits.statement_seconds_max))
        self._queries = Queries(
            self._gatherer,
            executor,
            Limits(
                duckdb_cold_bytes_max=limits.duckdb_cold_bytes_max,
                duckdb_tail_rows_max=limits.duckdb_tail_rows_max,
                spark=SPARK in engines,
            ),
            leases=Leases(self.connections),
        )
        self._commands = Commands(self.connections)
        self._runners = concurrent.futures.ThreadPoolExecutor(
            limits.statements_running_max, "seamline-statement"
        )
        self._lock = threading.Lock()
        self._statements: dict[str, Statement] = {}
        self._refusing = threading.Event()
        self._stopping = threading.Event()
        self._sweeper = Loop("sweeper", self._sweep, delay_s=_SWEEP_S)
        self._duckdb.warm_up()

    # --- For the wire formats ------------------------------------------------------------------

    def submit(self, request: StatementRequest, principal: str) -> Statement:
        """Accepts a statement; it runs as soon as a runner is free.

        Raises:
            SeamlineError: INVALID_REQUEST, TOO_MANY_STATEMENTS, SHUTTING_DOWN.
        """
        if request.engine not in ENGINES:
            raise SeamlineError(
                INVALID_REQUEST,
                f"engine {request.engine!r} is not known",
                hint=f"engine is one of: {', '.join(ENGINES)}",
            )
        longest = float(self.config.limits.statement_seconds_max)
        timeout_s = longest if request.timeout_s is None else min(longest, request.timeout_s)
        if timeout_s <= 0:
            raise SeamlineError(INVALID_REQUEST, "timeout must be more than nothing")
        with self._lock:
            if self._refusing.is_set():
                raise SeamlineError(SHUTTING_DOWN, "the gateway is stopping")
            waiting = sum(s.state is State.PENDING for s in self._statements.values())
            if waiting >= self.config.limits.statements_queued_max:
                raise SeamlineError(TOO_MANY_STATEMENTS, f"{waiting} statements are waiting")
            statement = Statement(request, principal, timeout_s, self._spool)
            self._statements[statement.statement_id] = statement
            self._runners.submit(supervision.attempt, "statement", lambda: self._run(statement))
        return statement

    def statement(self, statement_id: str, principal: str) -> Statement:
        """A statement of that principal; one of somebody else's does not exist for him.

        Raises:
            SeamlineError: STATEMENT_NOT_FOUND.
        """
        with self._lock:
            found = self._statements.get(statement_id)
        if found is None or found.principal != principal or found.state is State.CLOSED:
            raise SeamlineError(STATEMENT_NOT_FOUND, f"there is no statement {statement_id}")
        found.touch()
        return found

    def statements(self, principal: str) -> list[Statement]:
        """The statements of a principal, newest first."""
        with self._lock:
            own = [s for s in self._statements.values() if s.principal == principal]
        return sorted(own, key=lambda s: s.submitted_at, reverse=True)

    @property
    def accepts_statements(self) -> bool:
        """Whether new statements are taken: until it drains or closes."""
        return not self._refusing.is_set()

    def drain(self, seconds_max: float) -> None:
        """Refuses new statements, and waits until those accepted have ended and were fetched.

        Args:
            seconds_max: How long it waits at most.
        """
        with self._lock:
            self._refusing.set()
            accepted = list(self._statements.values())
        deadline = time.monotonic() + seconds_max
        while time.monotonic() < deadline and any(s.is_wanted(QUIET_S) for s in accepted):
            if self._stopping.wait(_DRAIN_LOOK_S):
                return

    def place_seam(
        self,
        table: str,
        principal: str,
        *,
        catalog: str | None,
        schema: str | None,
        token: str | None,
    ) -> dict[str, Any]:
        """The seam of one table, with what is needed to read it from elsewhere; JSON-ready.

        Args:
            table: Its name, as SQL writes it.
            principal: Who asks.
            catalog: Catalog of a name that leaves it out.
            schema: Schema of a name that leaves it out.
            token: Places the seam that the token remembers.

        Raises:
            SeamlineError: as a query of it would.
        """
        session = names.session(self.config, catalog, schema)
        reference = TableReference(parse.parse_name(table))
        known = self._signer.read(token, principal) if token else ()
        deadline = StatementDeadline(float(self.config.limits.statement_seconds_max))
        try:
            (pinned,) = self._gatherer.pin([reference], session, deadline, token=known)
        finally:
            deadline.close()
        token = self._signer.sign([pinned.facts.seam], principal)
        return receipt.pinned(pinned, token, self.config)

    @contextlib.contextmanager
    def request_deadline(self) -> Iterator[StatementDeadline]:
        """The deadline of a request that is answered at once."""
        deadline = StatementDeadline(float(self.config.limits.statement_seconds_max))
        try:
            yield deadline
        finally:
            deadline.close()

    def metrics_text(self) -> str:
        """Every metric, as `/metrics` gives it."""
        text = self.metrics.text()
        if self._followers is not None:
            text += tail_metrics(self._followers)
        return text + "\n".join(supervision.metrics()) + "\n"

    def close(self) -> None:
        """Cancels what runs, waits for it, and lets everything go."""
        with self._lock:
            self._refusing.set()
            self._stopping.set()
            self._sweeper.stop()
            running = list(self._statements.values())
        for statement in running:
            statement.cancel()
        self._runners.shutdown(wait=True, cancel_futures=True)
        self.planning.close()
        self.live.tables.close()
        self._duckdb.close()
        if self._spark is not None:
            self._spark.close()
        if self._followers is not None:
            self._followers.close()
        self.connections.close()
        shutil.rmtree(self._spool, ignore_errors=True)

    def _virtual_seam(self, table_uuid: str, snapshot_id: int) -> Seam | None:
        """The seam of a virtual snapshot that was given out."""
        record = self.live.tables.records.find(table_uuid, snapshot_id)
        return None if record is None else record.seam

    # --- Running ---------------------------------------------------------------------------------

    def _run(self, statement: Statement) -> None:
        if not statement.begin():
            return
        try:
            self._run_kind(statement)
            statement.succeed()
        except SeamlineError as error:
            statement.fail(error)
        except RecursionError:
            statement.fail(SeamlineError(STATEMENT_TOO_LARGE, "the statement is nested too deeply"))
        except BaseException as error:  # noqa: BLE001 - a statement ends with a named error
            _LOG.exception("statement %s failed", statement.statement_id)
            statement.fail(supervision.named(error))
        self.metrics.finished(statement)
        _LOG.info(
            "statement %s by %s: %s in %.3f s",
            statement.statement_id,
            statement.principal,
            statement.error.code.name if statement.error else statement.state.value,
            statement.elapsed_s,
        )

    def _run_kind(self, statement: Statement) -> None:
        request = statement.request
        session = names.session(self.config, request.catalog, request.schema)
        parsed = parse.parse(request.statement, dialect=request.dialect)
        match parsed:
            case parse.Query():
                self._run_query(statement, self._request(statement, parsed, session))
            case parse.Explain():
                wanted = self._request(statement, parsed.query, session)
                self._explain(statement, wanted, analyze=parsed.analyze)
            case _:
                rows = self._commands.run(parsed, session, statement.deadline)
                self._write_rows(statement, rows)

    def _request(
        self, statement: Statement, query: parse.Query, session: names.Session
    ) -> QueryRequest:
        request = statement.request
        token = query.token or request.token
        seams: Sequence[Seam] = ()
        if token is not None:
            seams = self._signer.read(token, statement.principal)
        return QueryRequest(
            tree=parameters.bind(query, request.parameters),
            session=session,
            engine=request.engine,
            token=seams,
            after=self._signer.after(request.after, statement.principal),
            freshness=freshness.parse(request.freshness),
            now=datetime.datetime.fromtimestamp(statement.submitted_at, datetime.UTC),
            row_limit=request.row_limit,
        )

    def _run_query(self, statement: Statement, request: QueryRequest) -> Planned:
        def planned(plan: Planned) -> None:
            statement.progress = {
                "engine": plan.plan.route.engine,
                "rows_estimated": plan.plan.estimate.cold_rows + plan.plan.estimate.hot_rows,
            }

        running = self._queries.start(request, statement.deadline, planned)
        with contextlib.closing(running.batches):
            self._write_receipt(statement, request, running)
            self._write_batches(statement, running)
        return running.planned

    def _write_receipt(self, statement: Statement, request: QueryRequest, running: Running) -> None:
        plan = running.planned.plan
        seen = [s for s in plan.seams if (s.table_uuid or s.topic) and not s.as_of]
        statement.receipt = receipt.receipt(
            plan,
            running.execution.tails,
            freshness=request.freshness,
            as_of=running.planned.as_of,
            token=self._signer.sign(seen, statement.principal),
            session=self._signer.sign(
                tokens.session(request.after.seen, () if request.token else seen),
                statement.principal,
            ),
            retries=running.retries,
            held=running.lease.held,
        )

    def _write_batches(self, statement: Statement, running: Running) -> None:
        spool = self._open(statement, running.planned.plan.logical.query.output)
        limit = statement.request.row_limit
        for batch in running.batches:
            statement.deadline.check()
            if limit is not None and spool.row_count + batch.num_rows > limit:
                spool.write(batch.slice(0, limit - spool.row_count))
                statement.truncated = True
                break
            spool.write(batch)
            statement.progress["rows_produced"] = spool.row_count

    def _explain(self, statement: Statement, request: QueryRequest, *, analyze: bool) -> None:
        if analyze:
            lines = explain(self._run_query(statement, request).plan)
            spool, receipt = statement.spool, statement.receipt
            assert spool is not None
            lines += [
                "",
                f"Ran in {statement.elapsed_s:.3f} s: {spool.row_count:,} rows, "
                f"{receipt['rows_hot']:,} records read of the log "
                f"({receipt['bytes_hot']:,} bytes)",
            ]
            spool.close()
        else:
            lines = explain(self._queries.plan(request, statement.deadline).plan)
        rows = Rows((Output("Query Plan", types.VARCHAR),), [(line,) for line in lines])
        self._write_rows(statement, rows)

    def _write_rows(self, statement: Statement, rows: Rows) -> None:
        spool = self._open(statement, rows.output)
        columns = list(zip(*rows.rows, strict=True)) or [()] * len(rows.output)
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(columns, spool.schema, strict=True)
        ]
        spool.write(pa.RecordBatch.from_arrays(arrays, schema=spool.schema))

    def _open(self, statement: Statement, output: Sequence[Output]) -> ResultSpool:
        schema = pa.schema([(column.name, types.to_arrow(column.type)) for column in output])
        spool = self._result(schema, statement.spool_path)
        statement.opened(tuple(output), spool)
        return spool

    def _held_result(self, schema: pa.Schema) -> ResultSpool:
        """Where a result is held back before its statement has one."""
        return self._result(schema, self._spool / f"{secrets.token_urlsafe(18)}.held.arrow")

    def _result(self, schema: pa.Schema, path: pathlib.Path) -> ResultSpool:
        return ResultSpool(schema, path, size_bytes_max=self.config.limits.result_bytes)

    def _sweep(self) -> float:
        """Lets go of what nobody wants any more."""
        if self._followers is not None:
            supervision.attempt("sweeper", self._followers.sweep)
        gc.collect(_YOUNG)  # a failed statement's traceback may hold a tail; see `settle_memory`
        now = time.monotonic()
        with self._lock:
            for statement_id, statement in list(self._statements.items()):
                idle = now - statement.touched_at
                if statement.state in FINAL and idle > self.config.limits.result_seconds:
                    del self._statements[statement_id]
                    supervision.attempt("sweeper", statement.close)
                elif statement.state not in FINAL and idle > ABANDONED_S:
                    supervision.attempt("sweeper", statement.cancel)
        return _SWEEP_S


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
