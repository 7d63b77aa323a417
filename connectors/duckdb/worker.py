"""The processes that run DuckDB: a fork server, and the workers that it forks.

The fork server has imported everything and only forks. Besides its own thread it may only have
threads of memory allocators, which can handle a fork. So a new worker is ready within milliseconds,
and shares the memory of the imports with the others. A worker runs one statement at a time. Nothing
that a statement does to its worker affects other statements: a worker has a memory limit, is the
first process that the system kills when memory is short, and ends when the gateway closes its
socket or dies.

Run as `python -m seamline.connectors.duckdb.worker CONTROL MEMORY`, both inherited descriptors.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import json
import logging
import math
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
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from seamline.connectors import supervision
from seamline.connectors.chunks import ChunkWriter, Filling, ResultFile
from seamline.connectors.duckdb.engine import DuckDBEngine
from seamline.connectors.duckdb.frames import (
    FIRST_BYTES,
    STORED,
    Kind,
    in_parts,
    receive,
    send,
    unpacked,
)
from seamline.connectors.shared_memory import MappedMemory
from seamline.errors import CANCELED, MEMORY_LIMIT, SeamlineError

ORDER = struct.Struct("<cq")
"""An order to the fork server: `F` with a socket beside it, or `K` with the id of a worker."""
FORK = b"F"
KILL = b"K"

DEADLINE = struct.Struct("<d56x")
"""Header of a statement: the seconds that it has, padded so that the statement stays aligned."""

_QUIET_S = 1.0
"""After this long without an order, there is time to import what few statements need."""

_SLACK_BYTES = 1 << 30
"""Memory that a worker may hold besides what DuckDB counts: rows in transit, Python, allocators."""
_KILLED_FIRST = 500
_NICE = 15
"""For a statement that has stepped back: where others want a core, a thirtieth of one is left."""


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
    for name in ("pandas", "pyarrow.dataset"):  # DuckDB looks for both when it is given rows
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    _freeze()
    channel.settimeout(_QUIET_S)
    while True:
        try:
            data, descriptors, *_ = socket.recv_fds(channel, ORDER.size, 1)
        except TimeoutError:
            importlib.import_module("pyiceberg.io.pyarrow")  # opens remote files
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
    """Keeps what exists now in the memory that the processes share."""
    gc.collect()
    gc.freeze()


class _Told:
    """A deadline that the gateway tracks; it tells the worker when the statement must end.

    Attributes:
        is_answered: Whether the statement's whole result is on its way.
    """

    def __init__(self, seconds: float) -> None:
        self.is_answered = False
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
        """Ends the statement: the gateway has said so."""
        self._told.set()
        with self._lock:
            stops = list(self._stops.values())
        for stop in stops:
            stop()


class _Worker:
    """A worker process, which runs the statements that arrive over its socket."""

    def __init__(self, channel: socket.socket, memory: int) -> None:
        self._channel = channel
        self._memory = MappedMemory(memory)
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._told: dict[int, _Told] = {}
        self._orders: queue.SimpleQueue[tuple[int, pa.Buffer]] = queue.SimpleQueue()

    def run(self) -> None:
        """Runs statements until the gateway is gone, or the process is no longer fit to."""
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
            except EOFError:
                return  # the gateway is gone
            except BaseException as error:
                if told.is_answered:
                    raise  # which ends the process
                self._send(Kind.FAILED, json.dumps(_named(error).to_json()).encode())
            del content
            with self._lock:
                del self._told[number]
            if _held() > limit:
                return

    def _answer(self, engine: DuckDBEngine, content: pa.Buffer, told: _Told) -> None:
        statement = unpacked(content, self._memory)
        stream = engine.run_statement(statement, told)
        try:
            self._send(Kind.STARTED)
            parts = itertools.chain.from_iterable(map(in_parts, stream.batches))
            self._send_first(parts, FIRST_BYTES if statement.file is not None else math.inf)
            if statement.file is not None:
                self._write(parts, statement.file, stream.schema)
            told.is_answered = True
            self._send(Kind.DONE)  # nobody has to wait until everything is cleaned up
        finally:
            stream.close()

    def _send_first(self, parts: Iterator[pa.RecordBatch], bytes_max: float) -> None:
        """Sends rows until they exceed a number of bytes."""
        sent = 0
        for part in parts:
            content = part.serialize()
            self._send(Kind.BATCH, content)
            sent += content.size
            if sent > bytes_max:
                return

    def _write(self, parts: Iterator[pa.RecordBatch], file: ResultFile, schema: pa.Schema) -> None:
        """Writes the other rows to a file, and says where each chunk of them is."""
        filling = Filling(schema)
        full = itertools.chain.from_iterable(map(filling.add, parts))
        writer: ChunkWriter | None = None
        for chunk in itertools.chain(full, filling.rest()):
            writer = writer or ChunkWriter(file, schema)
            self._send(Kind.CHUNK, STORED.pack(*writer.write(chunk), chunk.rows))
        if writer is not None:
            writer.close()

    def _listen(self) -> None:
        """Receives orders while a statement runs, and ends the process with the gateway."""
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
        if kind is Kind.STEP_BACK:
            _step_back()
            return
        with self._lock:
            told = self._told.get(int(content.to_pybytes()))
        if told is not None:  # else the statement has ended
            told.tell()

    def _send(self, kind: Kind, content: bytes | pa.Buffer = b"") -> None:
        try:
            with self._sending:
                send(self._channel, kind, content)
        except OSError as error:
            raise EOFError from error


class _ToGateway(logging.Handler):
    """Sends log lines to the gateway, which writes the log."""

    def __init__(self, send_frame: Callable[[Kind, bytes], None]) -> None:
        super().__init__()
        self._send_frame = send_frame

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        line = {"name": record.name, "level": record.levelno, "message": self.format(record)}
        with contextlib.suppress(EOFError):
            self._send_frame(Kind.LOG, json.dumps(line).encode())


def _step_back() -> None:
    """Lowers the priority of this process; only a privileged one may raise it again."""
    with contextlib.suppress(OSError):
        for task in pathlib.Path("/proc/self/task").iterdir():  # each thread has its own priority
            os.setpriority(os.PRIO_PROCESS, int(task.name), _NICE)


def _named(error: BaseException) -> SeamlineError:
    if isinstance(error, MemoryError):
        return SeamlineError(MEMORY_LIMIT, "the statement needs more memory than it may use")
    return supervision.named(error)


def _limit_memory(more_bytes: int) -> int:
    """Limits this process's own memory; returns the most that it should hold between statements.

    What it reads in shared memory does not count. If the system does not report what a process
    holds, as on macOS, there is no limit.
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
    """Returns the bytes of this process's own memory; 0 if the system does not report them."""
    try:
        status = pathlib.Path("/proc/self/status").read_text()
    except OSError:
        return 0
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return int(lines.get("VmData", "0 kB").split()[0]) << 10


if __name__ == "__main__":
    main()
