"""DuckDB as an engine in processes of its own: a statement can end its process, and nothing else.

Each statement has a process to itself for as long as it runs. A statement is prepared here, as
DuckDB's SQL; the tails of followed tables lie in shared memory, and its result comes back over a
socket. A statement that does not end when told to is killed with its process. A process that ran
its statement to the end is reused, the most recent one first: what it knows of files and tails is
newest. A process that is no longer fit, because it holds much memory or has stepped back behind
others, ends.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import json
import logging
import math
import mmap
import os
import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from seamline.connectors import supervision
from seamline.connectors.duckdb.engine import DuckDBEngine, Statement, Writer
from seamline.connectors.duckdb.frames import Kind, packed, receive, send
from seamline.connectors.duckdb.worker import DEADLINE, FORK, KILL, ORDER
from seamline.connectors.protocols import Compute, Deadline, EngineQuery, ResultStream, at_once
from seamline.connectors.shared_memory import SharedMemory, shared_memory
from seamline.errors import STATEMENT_KILLED, SeamlineError

IDLE_MAX = 4
"""Processes that wait for a statement; each holds some tens of megabytes of its own."""

_TRIES = 3
_REPEATS = 2
_HELD_BYTES = 1 << 20
_BEGIN_S = 60.0
"""How long a process may take to start; the first one also waits for all imports."""

SHORT_S = 0.25
"""A statement that has computed for longer lets others go first; to wait for a core is no work."""

GRACE_S = 5.0
"""How long a statement may take to end once told to."""


class _ForkServer:
    """The process that forks the others; started when first needed, and again after it has died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self._end)

    def fork(self) -> socket.socket:
        """Forks a new process and returns its socket."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._order(FORK, 0, theirs)
            except OSError:  # it has been killed
                self._end()
                self._order(FORK, 0, theirs)
        return ours

    def kill(self, process_id: int) -> None:
        """Kills a process that it has forked; one that has ended is left alone."""
        with contextlib.suppress(OSError):
            self._order(KILL, process_id)

    def _order(self, order: bytes, number: int, *beside: socket.socket) -> None:
        with self._lock:
            if self._channel is None:
                self._channel = self._start()
            descriptors = [one.fileno() for one in beside]
            socket.send_fds(self._channel, [ORDER.pack(order, number)], descriptors)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        memory = shared_memory().fd
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, str(theirs.fileno()), str(memory)],
                pass_fds=(theirs.fileno(), memory),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # threads are not forked
            )
        return ours

    def _end(self) -> None:
        with self._lock:
            channel, process = self._channel, self._process
            self._channel = self._process = None
        if channel is not None:
            channel.close()
        if process is not None:
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


MODULE = "seamline.connectors.duckdb.worker"
_SERVER = _ForkServer()


class _Process:
    """A worker process, which runs one statement or is idle.

    Raises:
        OSError: when it cannot be started, or has gone.
        EOFError: likewise.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._channel = _SERVER.fork()
        self._sending = threading.Lock()
        self._number = -1
        try:
            send(self._channel, Kind.SETTINGS, json.dumps(settings).encode())
            self._channel.settimeout(_BEGIN_S)
            self.process_id = int(self.receive(Kind.READY).to_pybytes())
            self._held_at_first = _own_bytes(self.process_id)
            self._channel.settimeout(None)
        except BaseException:
            self._channel.close()
            raise

    @property
    def computed_s(self) -> float:
        """Seconds of a core that it has used; infinite if the system does not report them."""
        try:
            text = pathlib.Path(f"/proc/{self.process_id}/stat").read_text()
        except OSError:
            return math.inf
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def held_bytes(self) -> int:
        """Bytes that it holds more than when it started; 0 if the system does not report them."""
        return max(0, _own_bytes(self.process_id) - self._held_at_first)

    def run(self, statement: Statement, seconds: float, memory: SharedMemory) -> None:
        """Sends it a statement."""
        content = packed(statement, memory)
        with self._sending:
            self._number += 1
            send(self._channel, Kind.RUN, DEADLINE.pack(seconds), *content)

    def stop(self) -> Callable[[], None]:
        """Tells it to end its statement; kills it if it does not.

        Returns:
            A function that calls off the kill.
        """
        self._tell(Kind.STOP)
        return supervision.later(GRACE_S, "duckdb", self.kill)

    def step_back(self) -> None:
        """Tells it to let others go first."""
        self._tell(Kind.STEP_BACK)

    def _tell(self, kind: Kind) -> None:
        with self._sending, contextlib.suppress(OSError):
            send(self._channel, kind, str(self._number).encode())

    def receive(self, kind: Kind) -> pa.Buffer:
        """Returns the content of the next frame, which must be of this kind."""
        found, content = self.next()
        assert found is kind, found
        return content

    def next(self) -> tuple[Kind, pa.Buffer]:
        """Returns the next frame that is not a log line, and logs those before it."""
        while True:
            kind, content = receive(self._channel)
            if kind is not Kind.LOG:
                return kind, content
            line = json.loads(content.to_pybytes())
            logging.getLogger(line["name"]).log(line["level"], "%s", line["message"])

    def kill(self) -> None:
        """Kills it; nobody waits for it any more, even if the fork server has gone."""
        _SERVER.kill(self.process_id)
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes its socket; it ends as soon as it notices, at once if it waits for a statement."""
        self._channel.close()


class DuckDBWorkers:
    """Runs queries in worker processes. Safe to share between threads.

    Args:
        compute: Runs pure computations.
        settings: The arguments of the `DuckDBEngine` in each process.
    """

    name = DuckDBEngine.name

    def __init__(self, compute: Compute = at_once, **settings: Any) -> None:
        self._compute = compute
        self._settings = settings
        self._writer = Writer()
        self.memory = shared_memory()
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._busy: dict[_Process, Deadline] = {}
        self._closed = False
        self._is_warming = False

    def run(self, query: EngineQuery, deadline: Deadline) -> ResultStream:
        """See `Engine.run`."""
        statement = self._writer.statement(query, deadline, self._compute)
        running = _Running(self, statement, deadline)
        running.begin()
        return ResultStream(query.schema, running.batches(), running.close)

    def warm_up(self) -> None:
        """Starts a process ahead of the next statement, in the background."""
        with self._lock:
            if self._closed or self._is_warming:
                return
            self._is_warming = True
        supervision.start("duckdb", self._make_ahead)

    def close(self) -> None:
        """Ends the idle processes; others end when they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()

    def take(self, deadline: Deadline) -> _Process:
        """Returns a process for a statement that has this deadline."""
        with self._lock:
            found = self._idle.pop() if self._idle else None
            is_last = not self._idle
        process = found or self._new()
        with self._lock:
            self._busy[process] = deadline
        if is_last:
            self.warm_up()  # for the next statement, which then need not wait for it
        return process

    @property
    def running(self) -> frozenset[int]:
        """Ids of the processes that run statements."""
        with self._lock:
            return frozenset(process.process_id for process in self._busy)

    def held(self) -> dict[Deadline, int]:
        """Returns the bytes that the processes of running statements hold now, by deadline."""
        with self._lock:
            busy = dict(self._busy)
        found: collections.Counter[Deadline] = collections.Counter()
        for process, deadline in busy.items():
            found[deadline] += process.held_bytes
        return found

    def _new(self) -> _Process:
        for tries_left in reversed(range(_TRIES)):
            try:
                return _Process(self._settings)
            except (OSError, EOFError) as error:  # or the fork server has been killed
                if not tries_left:
                    message = f"no process could be started for the statement: {error}"
                    raise SeamlineError(STATEMENT_KILLED, message) from error
        raise AssertionError

    def _make_ahead(self) -> None:
        try:
            process = self._new()
        finally:
            self._is_warming = False
        with self._lock:
            if not self._closed:
                self._idle.insert(0, process)  # used last: it knows nothing yet
                return
        process.close()

    def give_back(self, process: _Process, *, is_fit: bool = True) -> None:
        """Keeps a process for the next statement if it can; ends it otherwise."""
        with self._lock:
            self._busy.pop(process, None)
            if is_fit and not self._closed and len(self._idle) < IDLE_MAX:
                self._idle.append(process)
                return
        process.close()


def _own_bytes(process_id: int) -> int:
    """Returns a process's own memory, without what it shares; 0 if it is not reported."""
    try:
        _, resident, shared, *_ = pathlib.Path(f"/proc/{process_id}/statm").read_text().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * mmap.PAGESIZE


class _GoneError(Exception):
    """The process ended before its statement did."""


class _Running:
    """A statement in a process, from when it is handed over until it ends.

    A process that is killed before any of its rows were passed on is replaced by another, up to
    twice: it may have been killed for what another process did.
    """

    def __init__(self, workers: DuckDBWorkers, statement: Statement, deadline: Deadline) -> None:
        self._workers = workers
        self._statement = statement  # its tails must be kept
        self._deadline = deadline
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._calm: Callable[[], None] | None = None
        self._forget: Callable[[], None] = lambda: None
        self._stay: Callable[[], None] = lambda: None
        self._computed_before_s = 0.0
        self._repeats_left = _REPEATS

    def begin(self) -> None:
        """Hands the statement over, and waits until it runs.

        Raises:
            SeamlineError: why it cannot run.
        """
        while True:
            if not self._hand_over(self._workers.take(self._deadline)):
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
                content = self._next()
            except _GoneError as error:
                self._repeat(error)
                held.clear()
                self.begin()
                continue
            if content is not None:
                held.append(content)
            if content is None or sum(each.size for each in held) > _HELD_BYTES:
                self._repeats_left = 0
                while held:
                    self._deadline.check()
                    yield pa.ipc.read_record_batch(held.pop(0), schema)
            if content is None:
                return

    def close(self) -> None:
        """Ends the statement if it has not ended."""
        self._stop()
        with contextlib.suppress(SeamlineError, _GoneError):
            while self._next() is not None:
                pass

    def _hand_over(self, process: _Process) -> bool:
        """Hands the statement to a process; returns whether the process was there to take it."""
        self._process, self._calm = process, None
        try:
            process.run(self._statement, self._deadline.remaining_s(), self._workers.memory)
            self._forget = self._deadline.on_end(self._stop)
            process.receive(Kind.TAKEN)
        except (OSError, EOFError):
            self._end(is_fit=False)
            self._deadline.check()
            return False
        except BaseException:
            self._end(is_fit=False)
            raise
        self._computed_before_s = process.computed_s
        self._stay = supervision.later(SHORT_S, "duckdb", self._let_others_go_first)
        return True

    def _repeat(self, error: _GoneError) -> None:
        """Allows one more try, or raises if none is left."""
        self._deadline.check()
        if not self._repeats_left:
            message = "the process that ran the statement was killed"
            raise SeamlineError(STATEMENT_KILLED, message) from error
        self._repeats_left -= 1

    def _next(self) -> pa.Buffer | None:
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
        return content

    def _stop(self) -> None:
        with self._lock:
            if self._process is not None and self._calm is None:
                self._calm = self._process.stop()

    def _let_others_go_first(self) -> None:
        """Steps back once other statements run; until then it keeps checking."""
        with self._lock:
            if self._process is None:
                return
            computed_s = self._process.computed_s - self._computed_before_s
            is_long = not computed_s < SHORT_S  # neither is it short if that is not known
            if is_long and len(self._workers.running) > 1:
                self._process.step_back()
            else:
                self._stay = supervision.later(SHORT_S, "duckdb", self._let_others_go_first)

    def _end(self, *, is_fit: bool) -> None:
        self._forget()
        self._stay()
        with self._lock:
            process, self._process = self._process, None
            calm = self._calm
        if calm is not None:
            calm()
        assert process is not None
        self._workers.give_back(process, is_fit=is_fit)
