"""The processes that run DuckDB: one that forks them, and what each of them does.

The forking one has imported everything and does nothing else; the only threads it may have besides
its own are of memory allocators, which are made for that. So a new process is there within
milliseconds, and shares that memory with the others. A worker runs one statement at a
time. Whatever a statement does to it, no other one notices: a worker has a bound for its memory, is
what the system kills first when memory is short, and ends when the gateway closes its socket or
dies.

Run as `python -m seamline.connectors.duckdb.worker CONTROL MEMORY`, both inherited descriptors.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import logging
import os
import pathlib
import queue
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from seamline.connectors import supervision
from seamline.connectors.duckdb.engine import DuckDBEngine
from seamline.connectors.duckdb.frames import Kind, in_parts, receive, send, unpacked
from seamline.connectors.shared_memory import MappedMemory
from seamline.errors import CANCELED, MEMORY_LIMIT, SeamlineError

ORDER = struct.Struct("<cq")
"""What the forking process is told: `F` and a socket beside it, or `K` and the id of a worker."""
FORK = b"F"
KILL = b"K"

DEADLINE = struct.Struct("<d56x")
"""The seconds that a statement has, in front of it; as long as keeps that in its place."""

_QUIET_S = 1.0
"""Once nothing has been asked for so long, there is time for what few statements need."""

_SLACK_BYTES = 1 << 30
"""What a worker may hold besides what DuckDB counts: rows on their way, Python, allocators."""
_KILLED_FIRST = 500
_NICE = 10


def main() -> None:
    """Forks workers until the gateway is gone."""
    control, memory = map(int, sys.argv[1:])
    channel = socket.socket(fileno=control)
    children: set[int] = set()

    def reap(*_: Any) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                children.discard(ended[0])
                if os.WIFSIGNALED(ended[1]) and os.WTERMSIG(ended[1]) != signal.SIGKILL:
                    name = signal.Signals(os.WTERMSIG(ended[1])).name
                    sys.stderr.write(f"a process of DuckDB's ended by {name}\n")

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, reap)
    _freeze()
    channel.settimeout(_QUIET_S)
    while True:
        try:
            data, descriptors, *_ = socket.recv_fds(channel, ORDER.size, 1)
        except TimeoutError:
            importlib.import_module("pyiceberg.io.pyarrow")  # what opens remote files
            _freeze()
            channel.settimeout(None)
            continue
        if not data:
            return
        order, number = ORDER.unpack(data)
        if order == KILL:
            if number in children:
                os.kill(number, signal.SIGKILL)
            continue
        child = os.fork()
        if child:
            children.add(child)
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            channel.close()
            _Worker(socket.socket(fileno=descriptors[0]), memory).run()
        finally:
            os._exit(1)


def _freeze() -> None:
    """Keeps what is there in the memory that processes share."""
    gc.collect()
    gc.freeze()


class _Told:
    """A deadline that is kept by the gateway, which says when it has come."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._told = threading.Event()
        self._stops: dict[object, Callable[[], None]] = {}

    def check(self) -> None:
        """See `Deadline.check`."""
        if self._told.is_set():
            raise SeamlineError(CANCELED, "the statement was ended")

    def remaining_s(self) -> float:
        """See `Deadline.remaining_s`."""
        return max(0.0, self._end - time.monotonic())

    def pause(self, seconds: float) -> None:
        """See `Deadline.pause`."""
        self._told.wait(min(seconds, self.remaining_s()))
        self.check()

    def on_end(self, stop: Callable[[], None]) -> Callable[[], None]:
        """See `Deadline.on_end`."""
        key = object()
        with self._lock:
            self._stops[key] = stop
            is_over = self._told.is_set()
        if is_over:
            stop()

        def forget() -> None:
            with self._lock:
                self._stops.pop(key, None)

        return forget

    def tell(self) -> None:
        """It has come."""
        self._told.set()
        with self._lock:
            stops = list(self._stops.values())
        for stop in stops:
            stop()


class _Worker:
    """One process, which answers the statements that come over its socket."""

    def __init__(self, channel: socket.socket, memory: int) -> None:
        self._channel = channel
        self._memory = MappedMemory(memory)
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._told: dict[int, _Told] = {}
        self._has_stepped_back = False
        self._orders: queue.SimpleQueue[tuple[int, pa.Buffer]] = queue.SimpleQueue()

    def run(self) -> None:
        """Answers until the gateway is gone, or the process is no longer fit to."""
        root = logging.getLogger()
        root.handlers = [_ToGateway(self._send)]
        _, content = receive(self._channel)
        settings = json.loads(content.to_pybytes())
        limit = _limit_memory(2 * settings["memory_bytes"] + _SLACK_BYTES)
        engine = DuckDBEngine(**settings)
        self._send(Kind.READY, str(os.getpid()).encode())
        supervision.start("duckdb", self._listen)
        engine.warm_up()
        while True:
            number, content = self._orders.get()
            told = self._told[number]
            try:
                self._send(Kind.TAKEN)
                self._answer(engine, content, told)
                self._send(Kind.DONE)
            except EOFError:
                return  # nobody is there
            except BaseException as error:  # noqa: BLE001 - every failure is told
                self._send(Kind.FAILED, json.dumps(_named(error).to_json()).encode())
            del content
            with self._lock:
                del self._told[number]
            if self._has_stepped_back or _held() > limit:
                return

    def _answer(self, engine: DuckDBEngine, content: pa.Buffer, told: _Told) -> None:
        stream = engine.run_statement(unpacked(content, self._memory), told)
        try:
            self._send(Kind.STARTED)
            for batch in stream.batches:
                for part in in_parts(batch):
                    self._send(Kind.BATCH, part.serialize())
        finally:
            stream.close()

    def _listen(self) -> None:
        """Takes orders while a statement runs, and ends with the gateway."""
        with contextlib.suppress(EOFError, OSError):
            for number in range(1 << 62):
                kind, content = receive(self._channel)
                while kind is not Kind.RUN:
                    self._obey(kind, content)
                    kind, content = receive(self._channel)
                with self._lock:
                    self._told[number] = _Told(DEADLINE.unpack_from(content)[0])
                self._orders.put((number, content.slice(DEADLINE.size)))
        os._exit(0)

    def _obey(self, kind: Kind, content: pa.Buffer) -> None:
        with self._lock:
            told = self._told.get(int(content.to_pybytes()))
        if told is None:  # that has ended
            return
        if kind is Kind.STOP:
            told.tell()
        else:
            self._has_stepped_back = True
            _step_back()

    def _send(self, kind: Kind, content: bytes | pa.Buffer = b"") -> None:
        try:
            with self._sending:
                send(self._channel, kind, content)
        except OSError as error:
            raise EOFError from error


class _ToGateway(logging.Handler):
    """Gives lines of the log to the gateway, which has one."""

    def __init__(self, send_frame: Callable[[Kind, bytes], None]) -> None:
        super().__init__()
        self._send_frame = send_frame

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        line = {"name": record.name, "level": record.levelno, "message": self.format(record)}
        with contextlib.suppress(EOFError):
            self._send_frame(Kind.LOG, json.dumps(line).encode())


def _step_back() -> None:
    """Lowers the priority of this process; few may raise it again."""
    with contextlib.suppress(OSError):
        for task in pathlib.Path("/proc/self/task").iterdir():  # each thread has its own
            os.setpriority(os.PRIO_PROCESS, int(task.name), _NICE)


def _named(error: BaseException) -> SeamlineError:
    if isinstance(error, MemoryError):
        return SeamlineError(MEMORY_LIMIT, "the statement needs more memory than it may use")
    return supervision.named(error)


def _limit_memory(more_bytes: int) -> int:
    """Bounds this process's own memory; returns what it should hold at most between statements.

    What it reads in shared memory does not count. Where the system does not say what a process
    holds, as on macOS, there is no bound.
    """
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/oom_score_adj").write_text(str(_KILLED_FIRST))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    held = _held()
    if not held:
        return sys.maxsize
    resource.setrlimit(resource.RLIMIT_DATA, (held + more_bytes, held + more_bytes))
    return held + more_bytes // 2


def _held() -> int:
    """Bytes of this process's own memory; 0 where the system does not say."""
    try:
        status = pathlib.Path("/proc/self/status").read_text()
    except OSError:
        return 0
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return int(lines.get("VmData", "0 kB").split()[0]) << 10


if __name__ == "__main__":
    main()
