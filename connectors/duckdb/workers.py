"""DuckDB as an engine in processes of its own: a statement can end its process, and nothing else.

Each statement has a process to itself for as long as it runs. A statement is prepared here, as
DuckDB's SQL; the tails of followed tables are in shared memory, and its result comes back over a
socket; all but the first rows of a large one in a file, if it is kept in one anyway. A statement
that does not end when told to is killed with its process. A process that ran
its statement to the end is reused, unless it holds much memory.
"""

from __future__ import annotations

import contextlib
import json
import math
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from seamline.connectors import supervision
from seamline.connectors.chunks import StoredChunk
from seamline.connectors.duckdb.engine import DuckDBEngine, Statement, Writer
from seamline.connectors.duckdb.frames import FIRST_BYTES, STORED, Kind
from seamline.connectors.duckdb.processes import ProcessPool, WorkerProcess
from seamline.connectors.duckdb.shares import Shares
from seamline.connectors.protocols.deadlines import Compute, Deadline, at_once
from seamline.connectors.protocols.engines import EngineQuery, ResultStream
from seamline.connectors.shared_memory import shared_memory
from seamline.errors import STATEMENT_KILLED, SeamlineError

_REPEATS = 2
SHORT_S = 0.25
"""A statement that has computed for longer lets others go first; waiting for a core does not
count."""


class DuckDBWorkers:
    """Runs queries in worker processes. Safe to share between threads.

    Args:
        compute: Runs pure computations.
        settings: The arguments of the `DuckDBEngine` in each process.
    """

    name = DuckDBEngine.name

    def __init__(self, compute: Compute = at_once, **settings: Any) -> None:
        self._compute = compute
        self._writer = Writer()
        self.memory = shared_memory()
        self.pool = ProcessPool(settings)
        self.shares = Shares()

    def run(self, query: EngineQuery, deadline: Deadline) -> ResultStream:
        """See `Engine.run`."""
        statement = self._writer.statement(query, deadline, self._compute)
        running = _Running(self, statement, query.owner, deadline)
        running.begin()
        return ResultStream(query.schema, running.batches(), running.close, running.chunks())

    def warm_up(self) -> None:
        """Starts a process ahead of the next statement, in the background."""
        self.pool.warm_up()

    def close(self) -> None:
        """Ends the idle processes; others end with their statements."""
        self.pool.close()

    @property
    def running(self) -> frozenset[int]:
        """Ids of the processes that run statements."""
        return self.pool.running

    def held(self) -> dict[Deadline, int]:
        """Returns the bytes that the processes of running statements hold now, by deadline."""
        return self.pool.held()


class _GoneError(Exception):
    """The process ended before its statement did."""


class _Running:
    """A statement in a process, from when it is handed over until it ends.

    A process that is killed before any of its rows were passed on is replaced by another, up to
    twice: it may have been killed for what another process did.
    """

    def __init__(
        self, workers: DuckDBWorkers, statement: Statement, owner: str, deadline: Deadline
    ) -> None:
        self._workers = workers
        self._statement = statement  # its tails must be kept
        self._owner = owner
        self._deadline = deadline
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None
        self._calm: Callable[[], None] | None = None
        self._forget: Callable[[], None] = lambda: None
        self._forget_watch: Callable[[], None] = lambda: None
        self._computed_before_s = self._counted_s = 0.0
        self._repeats_left = _REPEATS
        self._stored: pa.Buffer | None = None
        """Where the first chunk in the file is."""
        self._is_handed_over = False
        """Whether somebody else removes the file."""

    def begin(self) -> None:
        """Hands the statement over, and waits until it runs.

        Raises:
            SeamlineError: why it cannot run.
        """
        while True:
            behind = self._workers.shares.is_over(self._owner)
            if not self._hand_over(self._workers.pool.take(self._deadline, behind=behind), behind):
                continue
            try:
                self._next()
            except _GoneError as error:
                self._repeat(error)
            else:
                return

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the result; holds back the first rows, so that a small one can be repeated."""
        schema = self._statement.schema
        held: list[pa.Buffer] = []
        while True:
            try:
                answer = self._next()
            except _GoneError as error:
                self._repeat(error)
                held.clear()
                self.begin()
                continue
            is_batch = answer is not None and answer[0] is Kind.BATCH
            if answer is not None and is_batch:
                held.append(answer[1])
            if not is_batch or sum(each.size for each in held) > FIRST_BYTES:
                self._repeats_left = 0
                while held:
                    self._deadline.check()
                    yield pa.ipc.read_record_batch(held.pop(0), schema)
            if not is_batch:
                self._stored = answer[1] if answer is not None else None
                return

    def chunks(self) -> Iterator[StoredChunk]:
        """Yields what the process writes to the statement's file, after the batches."""
        if self._stored is None or self._statement.file is None:
            return
        answer: tuple[Kind, pa.Buffer] | None = (Kind.CHUNK, self._stored)
        path = self._statement.file.path
        while answer is not None:
            self._deadline.check()
            self._is_handed_over = True
            yield StoredChunk(path, *STORED.unpack(answer[1]))
            try:
                answer = self._next()
            except _GoneError as error:
                self._repeat(error)

    def close(self) -> None:
        """Ends the statement if it has not ended."""
        self._stop()
        with contextlib.suppress(SeamlineError, _GoneError):
            while self._next() is not None:
                pass

    def _hand_over(self, process: WorkerProcess, behind: bool) -> bool:
        """Hands the statement to a process; returns whether the process was there to take it."""
        self._process, self._calm = process, None
        try:
            self._computed_before_s = self._counted_s = process.computed_s
            process.run(self._statement, self._deadline.remaining_s(), self._workers.memory)
            if behind:
                process.step_back()
            self._forget = self._deadline.on_end(self._stop)
            process.receive(Kind.TAKEN)
        except (OSError, EOFError):
            self._end(is_fit=False)
            self._deadline.check()
            return False
        except BaseException:
            self._end(is_fit=False)
            raise
        self._forget_watch = supervision.later(SHORT_S, "duckdb", self._watch)
        return True

    def _repeat(self, error: _GoneError) -> None:
        """Allows one more try, or raises if none is left."""
        self._deadline.check()
        if not self._repeats_left:
            message = "the process that ran the statement was killed"
            raise SeamlineError(STATEMENT_KILLED, message) from error
        self._repeats_left -= 1

    def _next(self) -> tuple[Kind, pa.Buffer] | None:
        """Returns the next rows, or None at the end; the first result only says that it runs."""
        process = self._process
        if process is None:
            return None
        try:
            kind, content = process.next()
        except (OSError, EOFError) as error:
            self._end(is_fit=False)
            raise _GoneError from error
        match kind:
            case Kind.DONE:
                self._end(is_fit=True)
                return None
            case Kind.FAILED:
                self._end(is_fit=True)
                self._deadline.check()
                raise SeamlineError.from_json(json.loads(content.to_pybytes()))
        return kind, content

    def _stop(self) -> None:
        with self._lock:
            if self._process is not None and self._calm is None:
                self._calm = self._process.stop()

    def _watch(self) -> None:
        """Counts what it has computed, and has it step back if that is much and others run."""
        with self._lock:
            if self._process is None:
                return
            is_long = not self._count(self._process) < SHORT_S  # nor is it short if that is unknown
            if is_long and len(self._workers.running) > 1:
                self._process.step_back()
            self._forget_watch = supervision.later(SHORT_S, "duckdb", self._watch)

    def _count(self, process: WorkerProcess) -> float:
        """Returns the seconds of a core it has used, and adds what is new to its owner's share."""
        computed_s = process.computed_s
        new_s, self._counted_s = computed_s - self._counted_s, computed_s
        if new_s < math.inf:
            self._workers.shares.add(self._owner, new_s)
        return computed_s - self._computed_before_s

    def _end(self, *, is_fit: bool) -> None:
        self._forget()
        self._forget_watch()
        with self._lock:
            process, self._process = self._process, None
            calm = self._calm
        if self._statement.file is not None and not self._is_handed_over:
            pathlib.Path(self._statement.file.path).unlink(missing_ok=True)
        if calm is not None:
            calm()
        assert process is not None
        self._count(process)
        self._workers.pool.give_back(process, is_fit=is_fit)
