"""The processes that run statements: forked when needed, and kept for the next statement.

A statement takes the process that ran one most recently: what it knows of files and tails is
newest. If all are busy, it takes the first to become free, whether another statement's or a new
one. One more is started as soon as none is left, so that the next statement need not wait for it.
Those that no statement has needed for a while end. A process that has let others go first does so
forever: it waits for another statement that should, too.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import functools
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
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from seamline.connectors import supervision
from seamline.connectors.duckdb.engine import Statement
from seamline.connectors.duckdb.frames import Kind, packed, receive, send
from seamline.connectors.duckdb.worker import DEADLINE, FORK, KILL, ORDER
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.shared_memory import SharedMemory, shared_memory
from seamline.errors import STATEMENT_KILLED, SeamlineError

IDLE_MAX = 4
"""Processes that wait for a statement even when it is quiet; each holds some tens of megabytes."""

IDLE_S = 10.0
"""How long further ones wait; starting one costs more than a short statement."""

GRACE_S = 5.0
"""How long a statement may take to end once told to."""

_TRIES = 3
_BEGIN_S = 60.0
"""How long a process may take to start; the first one also waits for all imports."""


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


class WorkerProcess:
    """A worker process, which runs one statement or is idle.

    Attributes:
        process_id: The system's id of the process.
        has_stepped_back: Whether it lets others go first, from now on.

    Raises:
        OSError: when it cannot be started, or has gone.
        EOFError: likewise.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._channel = _SERVER.fork()
        self._sending = threading.Lock()
        self._number = -1
        self.has_stepped_back = False
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
        if not self.has_stepped_back:
            self.has_stepped_back = True
            self._tell(Kind.STEP_BACK)

    def _tell(self, kind: Kind) -> None:
        with self._sending, contextlib.suppress(OSError):
            send(self._channel, kind, str(self._number).encode())

    def receive(self, kind: Kind) -> pa.Buffer:
        """Returns the content of the next frame, which must be of this kind."""
        message, content = self.next()
        assert message is kind, message
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


class _Idle:
    """Processes that wait for a statement. The pool's lock protects them.

    Args:
        kept: How many of them stay however long nobody needs them.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._processes: list[WorkerProcess] = []
        self._fewest = 0
        self._is_watched = False

    def __len__(self) -> int:
        return len(self._processes)

    def pop(self) -> WorkerProcess:
        """Takes the one that ran a statement last."""
        process = self._processes.pop()
        self._fewest = min(self._fewest, len(self))
        return process

    def put(self, process: WorkerProcess, *, is_new: bool) -> None:
        """Adds one; a new one is taken last, as it knows nothing yet."""
        self._processes.insert(0 if is_new else len(self), process)

    def watch(self) -> bool:
        """Begins to watch which are needed, unless it already does or there are none to spare."""
        begins = len(self) > self._kept and not self._is_watched
        if begins:
            self._is_watched, self._fewest = True, len(self)
        return begins

    def unneeded(self) -> list[WorkerProcess]:
        """Takes those that were there all the time it watched, except for those kept."""
        self._is_watched = False
        spare = max(0, min(self._fewest, len(self) - self._kept))
        unneeded, self._processes = self._processes[:spare], self._processes[spare:]
        return unneeded

    def clear(self) -> list[WorkerProcess]:
        """Takes them all."""
        processes, self._processes = self._processes, []
        return processes


class ProcessPool:
    """Processes for statements. Safe to share between threads.

    Args:
        settings: The arguments of the `DuckDBEngine` in each process.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._changed = threading.Condition()
        self._idle = _Idle(IDLE_MAX)
        self._behind = _Idle(0)
        self._busy: dict[WorkerProcess, Deadline] = {}
        self._waiting = 0
        self._starting = 0
        self._problems: list[SeamlineError] = []
        self._is_closed = False

    def take(self, deadline: Deadline, *, behind: bool = False) -> WorkerProcess:
        """Returns a process for a statement that has this deadline.

        Args:
            deadline: The statement's deadline.
            behind: Whether the statement lets others go first.

        Raises:
            SeamlineError: STATEMENT_KILLED if none can be started; why the statement has ended.
        """
        with self._changed:
            if behind and self._behind:
                process = self._behind.pop()
            else:
                process = self._idle.pop() if self._idle else self._awaited(deadline)
            self._busy[process] = deadline
            if not self._idle:
                self._start_more(1)
        return process

    def give_back(self, process: WorkerProcess, *, is_fit: bool = True) -> None:
        """Keeps a process for the next statement if it can; ends it otherwise."""
        with self._changed:
            self._busy.pop(process, None)
            if is_fit and not self._is_closed:
                self._keep(process)
                return
        process.close()

    def warm_up(self) -> None:
        """Starts a process ahead of the next statement, in the background."""
        with self._changed:
            self._start_more(1)

    def close(self) -> None:
        """Ends the idle processes; others end when they are given back."""
        with self._changed:
            self._is_closed = True
            ended = [*self._idle.clear(), *self._behind.clear()]
        for process in ended:
            process.close()

    @property
    def idle(self) -> int:
        """How many processes wait for a statement."""
        with self._changed:
            return len(self._idle)

    @property
    def running(self) -> frozenset[int]:
        """Ids of the processes that run statements."""
        with self._changed:
            return frozenset(process.process_id for process in self._busy)

    def held(self) -> dict[Deadline, int]:
        """Returns the bytes that the processes of running statements hold now, by deadline."""
        with self._changed:
            busy = dict(self._busy)
        bytes_held: collections.Counter[Deadline] = collections.Counter()
        for process, deadline in busy.items():
            bytes_held[deadline] += process.held_bytes
        return bytes_held

    def _awaited(self, deadline: Deadline) -> WorkerProcess:
        """Waits for the first process that becomes free."""

        def look() -> None:
            with self._changed:
                self._changed.notify_all()

        forget = deadline.on_end(look)
        self._waiting += 1
        try:
            while not self._idle:
                deadline.check()
                if self._problems:
                    raise self._problems.pop()
                self._start_more(self._waiting)
                if not self._problems:  # the system may have refused at once
                    self._changed.wait()
            return self._idle.pop()
        finally:
            forget()
            self._waiting -= 1
            if not self._waiting:
                self._problems.clear()

    def _start_more(self, count: int) -> None:
        """Starts processes until that many are on their way."""
        for _ in range(count - self._starting):
            self._starting += 1
            if not supervision.start("duckdb", self._start):
                self._has_not_started(_not_started(OSError("the system allows no more threads")))

    def _start(self) -> None:
        try:
            process = self._new()
        except BaseException as error:
            with self._changed:
                self._has_not_started(supervision.named(error))
            raise
        with self._changed:
            self._starting -= 1
            if self._waiting or not self._is_closed:
                self._keep(process, is_new=True)
                return
        process.close()

    def _has_not_started(self, error: SeamlineError) -> None:
        """Notifies one of those waiting for a process, if any."""
        self._starting -= 1
        if self._waiting:
            self._problems.append(error)
            self._changed.notify_all()

    def _new(self) -> WorkerProcess:
        for tries_left in reversed(range(_TRIES)):
            try:
                return WorkerProcess(self._settings)
            except (OSError, EOFError) as error:  # or the fork server has been killed
                if not tries_left:
                    raise _not_started(error) from error
        raise AssertionError

    def _keep(self, process: WorkerProcess, *, is_new: bool = False) -> None:
        idle = self._behind if process.has_stepped_back else self._idle
        idle.put(process, is_new=is_new)
        self._changed.notify_all()  # the one that is notified may be about to give up
        self._thin_out_later(idle)

    def _thin_out_later(self, idle: _Idle) -> None:
        if idle.watch():
            supervision.later(IDLE_S, "duckdb", functools.partial(self._thin_out, idle))

    def _thin_out(self, idle: _Idle) -> None:
        """Ends those that no statement has needed in the meantime."""
        with self._changed:
            ended = idle.unneeded()
            self._thin_out_later(idle)
        for process in ended:
            process.close()


def _not_started(error: Exception) -> SeamlineError:
    message = f"no process could be started for the statement: {error}"
    return SeamlineError(STATEMENT_KILLED, message)


def _own_bytes(process_id: int) -> int:
    """Returns a process's own memory, without what it shares; 0 if it is not reported."""
    try:
        _, resident, shared, *_ = pathlib.Path(f"/proc/{process_id}/statm").read_text().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * mmap.PAGESIZE
