"""Goal: whatever becomes of the process of a statement, only that statement notices.

Method: real processes, which are killed at every place, given statements that never end, and
statements that ask for more memory than there is; beside them others that must not notice.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pyarrow as pa
import pytest
from support import programs
from support.engine_tables import Storage, bound, table_of

from seamline.connectors.chunks import ResultFile, read_chunk
from seamline.connectors.duckdb import processes
from seamline.connectors.duckdb import workers as module
from seamline.connectors.duckdb.frames import Kind
from seamline.connectors.duckdb.processes import IDLE_MAX, MODULE, WorkerProcess
from seamline.connectors.duckdb.workers import DuckDBWorkers
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.protocols.engines import EngineQuery, EngineScan
from seamline.connectors.shared_memory import shared_memory
from seamline.errors import (
    CANCELED,
    MEMORY_LIMIT,
    RESULT_TOO_LARGE,
    STATEMENT_KILLED,
    SeamlineError,
)
from seamline.sql import types
from seamline.sql.types import Field

FIELDS = {"t": (Field("n", types.BIGINT, 1), Field("k", types.VARCHAR, 2))}
COUNT = 50_000
ROWS = pa.table({"n": range(COUNT), "k": [f"k{n % 100}" for n in range(COUNT)]})
ENDLESS = "SELECT count(*) FROM t a, t b, t c WHERE a.n + b.n + c.n = -1"


class Ended(NoDeadline):
    """A deadline that comes when it is told to."""

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._stops: list[Callable[[], None]] = []

    def check(self) -> None:
        if self._is_over.is_set():
            raise SeamlineError(CANCELED, "told to end")

    def on_end(self, stop: Callable[[], None]) -> Callable[[], None]:
        self._stops.append(stop)
        return lambda: self._stops.remove(stop)

    def end(self) -> None:
        self._is_over.set()
        for stop in list(self._stops):
            stop()


@pytest.fixture
def engine(tmp_path: pathlib.Path) -> Iterator[DuckDBWorkers]:
    running = DuckDBWorkers(
        memory_bytes=1 << 28,
        threads=1,
        spill_directory=str(tmp_path / "spill"),
        spill_bytes=1 << 20,
    )
    yield running
    running.close()


@pytest.fixture
def ask(engine: DuckDBWorkers, tmp_path: pathlib.Path) -> Callable[[str], pa.Table]:
    tables = {"t": Storage(tmp_path).stored(ROWS, "both")}

    def asked(sql: str) -> pa.Table:
        query, names = bound(sql, FIELDS)
        return table_of(engine, query, names, tables)

    return asked


def query_of(sql: str) -> EngineQuery:
    query, _ = bound(sql, FIELDS)
    fields = [types.result_field(c.name, c.type) for c in query.output]
    scans = tuple(
        EngineScan(s.scan_id, ("t",), s.columns, tail=str(n)) for n, s in enumerate(query.scans)
    )
    rows = [ROWS.select([column.name for column in scan.columns]) for scan in scans]
    return EngineQuery(
        tree=query.tree,
        schema=pa.schema(fields),
        scans=scans,
        tails={str(n): table for n, table in enumerate(rows)},
    )


def own_processes() -> list[psutil.Process]:
    """The processes of this engine: children of the one that forks them."""
    return [process for one in forking() for process in one.children()]


def forking() -> list[psutil.Process]:
    """The process that forks them, unless none has been needed yet."""
    return [c for c in psutil.Process().children() if MODULE in programs.command_line(c)]


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.01)


def at_work(engine: DuckDBWorkers, but: int = 0) -> int:
    """The process that runs a statement, once that has begun to compute."""

    def computes() -> bool:
        running = engine.running - {but}
        return any(psutil.Process(pid).cpu_times().user > 0.5 for pid in running)

    wait_until(computes)
    return set(engine.running - {but}).pop()


def pids() -> set[int]:
    return {process.pid for process in own_processes()}


def test_a_process_that_died_while_it_waited_is_not_noticed(
    engine: DuckDBWorkers, ask: Callable[[str], pa.Table]
) -> None:
    before = pids()
    assert ask("SELECT count(*) FROM t").to_pylist() == [{"_col0": COUNT}]
    idle = pids() - before
    for process_id in idle:
        os.kill(process_id, signal.SIGKILL)
    wait_until(lambda: not idle & pids())
    assert ask("SELECT max(n) FROM t").to_pylist() == [{"_col0": COUNT - 1}]


def test_a_killed_statement_is_tried_twice_more_and_then_named(engine: DuckDBWorkers) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: list(engine.run(query_of(ENDLESS), NoDeadline()).batches))
        victim = at_work(engine)
        for _ in range(2):
            os.kill(victim, signal.SIGKILL)
            victim = at_work(engine, but=victim)
        os.kill(victim, signal.SIGKILL)
        error = found.exception(60)
    assert isinstance(error, SeamlineError)
    assert error.code is STATEMENT_KILLED
    assert error.code.retriable


def test_first_rows_are_held_back_so_that_it_can_be_tried_again(
    ask: Callable[[str], pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    hear = WorkerProcess.next
    gone: list[WorkerProcess] = []

    def lose(process: WorkerProcess) -> Any:
        kind, content = hear(process)
        if kind is Kind.DONE and len(gone) < 2:
            gone.append(process)
            raise EOFError
        return kind, content

    monkeypatch.setattr(WorkerProcess, "next", lose)
    assert ask("SELECT count(*) AS n FROM t").to_pylist() == [{"n": COUNT}]
    assert len(gone) == 2


def test_one_that_has_given_rows_is_not_tried_again(engine: DuckDBWorkers) -> None:
    query = query_of("SELECT a.n, b.n AS m, a.k, b.k AS l FROM t a, t b")
    stream = engine.run(query, NoDeadline())
    assert next(stream.batches).num_rows
    (running,) = engine.running
    os.kill(running, signal.SIGKILL)
    with pytest.raises(SeamlineError, match="was killed") as caught:
        list(stream.batches)
    assert caught.value.code is STATEMENT_KILLED
    stream.close()


def test_others_go_on(engine: DuckDBWorkers, ask: Callable[[str], pa.Table]) -> None:
    deadline = Ended()
    before = pids()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        endless = pool.submit(lambda: list(engine.run(query_of(ENDLESS), deadline).batches))
        busy = at_work(engine)
        for _ in range(5):
            assert ask("SELECT count(*) FROM t").to_pylist() == [{"_col0": COUNT}]
        for idle in pids() - before - {busy}:
            os.kill(idle, signal.SIGSEGV)
        assert ask("SELECT count(DISTINCT k) FROM t").to_pylist() == [{"_col0": 100}]
        assert not endless.done()
        deadline.end()
        error = endless.exception(60)
    assert isinstance(error, SeamlineError)
    assert error.code is CANCELED


def test_what_ends_when_told_leaves_its_process_to_the_next(engine: DuckDBWorkers) -> None:
    stream = engine.run(query_of("SELECT a.n, b.n AS m FROM t a, t b"), NoDeadline())
    next(stream.batches)
    used = engine.running
    stream.close()
    following = engine.run(query_of("SELECT count(n) FROM t"), NoDeadline())
    assert engine.running == used
    assert list(following.batches)


@pytest.mark.parametrize("listens", [True, False])
def test_a_statement_that_never_ends_is_ended(
    listens: bool, engine: DuckDBWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its process does not listen."""
    monkeypatch.setattr(processes, "GRACE_S", 1.0)
    deadline = Ended()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: list(engine.run(query_of(ENDLESS), deadline).batches))
        running = at_work(engine)
        if not listens:
            os.kill(running, signal.SIGSTOP)
        deadline.end()
        error = found.exception(60)
        wait_until(lambda: listens or running not in pids())
    assert isinstance(error, SeamlineError)
    assert error.code is CANCELED


@pytest.mark.prove
def test_a_long_statement_gives_way_to_others_and_its_process_takes_none_of_them(
    engine: DuckDBWorkers,
) -> None:
    deadline = Ended()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: list(engine.run(query_of(ENDLESS), deadline).batches))
        running = psutil.Process(at_work(engine))
        wait_until(lambda: running.cpu_times().user > 1.5 * module.SHORT_S)
        assert running.nice() == psutil.Process().nice()  # as long as it is alone
        other = engine.run(query_of("SELECT n, k FROM t"), NoDeadline())
        wait_until(lambda: running.nice() > psutil.Process().nice())
        other.close()
        threads = [thread.id for thread in running.threads()]
        wait_until(lambda: all(psutil.Process(thread).nice() > 0 for thread in threads))
        deadline.end()
        found.exception(60)
    busy = [engine.pool.take(NoDeadline()) for _ in range(3)]
    assert running.pid not in {process.process_id for process in busy}
    for process in busy:
        engine.pool.give_back(process)
    wait_until(lambda: running.pid not in pids())  # nobody else has to wait for others
    assert list(engine.run(query_of("SELECT count(n) FROM t"), NoDeadline()).batches)


def test_who_has_computed_more_than_others_lets_them_go_first(engine: DuckDBWorkers) -> None:
    def priority(owner: str) -> int:
        query = dataclasses.replace(query_of("SELECT n, k FROM t"), owner=owner)
        stream = engine.run(query, NoDeadline())
        (running,) = engine.running
        for _ in stream.batches:
            found = psutil.Process(running).nice()
        return found

    usual = psutil.Process().nice()
    engine.shares.add("greedy", 1000.0)
    assert priority("greedy") == usual, "nobody else is there"
    engine.shares.add("modest", 1.0)
    assert priority("greedy") > usual
    assert priority("modest") == usual
    assert priority("greedy") > usual, "its process waited for it"
    assert priority("stranger") == usual


BOMBS = (
    "SELECT length(array_join(array_agg(rpad(k, 1000000, 'x')), ',')) FROM t",
    "SELECT cardinality(array_agg(repeat(n, 10000))) FROM t",
    "SELECT map_agg(n, rpad(k, 100000, 'x')) FROM t",
)


@pytest.mark.one_in(test=4)
@pytest.mark.parametrize("sql", BOMBS)
def test_what_needs_too_much_memory_fails_alone(
    sql: str, engine: DuckDBWorkers, ask: Callable[[str], pa.Table]
) -> None:
    before = psutil.Process().memory_info().rss
    with pytest.raises(SeamlineError) as caught:
        list(engine.run(query_of(sql), NoDeadline()).batches)
    assert caught.value.code in (MEMORY_LIMIT, STATEMENT_KILLED)
    assert ask("SELECT count(*) FROM t").to_pylist() == [{"_col0": COUNT}]
    assert psutil.Process().memory_info().rss - before < 1 << 28


def test_the_process_that_forks_may_die(
    engine: DuckDBWorkers, ask: Callable[[str], pa.Table]
) -> None:
    assert ask("SELECT count(*) FROM t").to_pylist() == [{"_col0": COUNT}]
    engine.close()  # so that a new one is needed
    (one,) = forking()
    one.kill()
    one.wait(60)
    assert ask("SELECT count(*) FROM t").to_pylist() == [{"_col0": COUNT}]


def test_tails_in_shared_memory_do_not_travel(engine: DuckDBWorkers) -> None:
    placed = pa.Table.from_batches([shared_memory().place(b) for b in ROWS.to_batches()])
    used = shared_memory().used_bytes
    query = query_of("SELECT n, k FROM t WHERE n % 2 = 1")
    (scan,) = query.scans
    query = EngineQuery(
        query.tree, query.schema, query.scans, {"0": placed.slice(10, 1000).select(["n", "k"])}
    )
    found = pa.Table.from_batches(engine.run(query, NoDeadline()).batches)
    assert sorted(found.column("n").to_pylist()) == list(range(11, 1010, 2))
    assert shared_memory().used_bytes == used
    assert scan.tail == "0"


def test_a_statement_takes_the_first_process_that_is_free(
    engine: DuckDBWorkers,
) -> None:
    busy = engine.pool.take(NoDeadline())
    wait_until(lambda: engine.pool.idle == 1)
    (starting,) = forking()
    starting.suspend()  # so that no other starts
    other, ended = engine.pool.take(NoDeadline()), Ended()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(engine.pool.take, NoDeadline())
        engine.pool.give_back(busy)
        assert first.result(60) is busy, "it was free before a new one was there"
        second = pool.submit(engine.pool.take, ended)
        ended.end()
        error = second.exception(60)
        assert isinstance(error, SeamlineError)
        assert error.code is CANCELED
        last = pool.submit(engine.pool.take, NoDeadline())
        starting.resume()
        assert last.result(60) not in {busy, other}
    for process in (busy, other, last.result()):
        engine.pool.give_back(process)


def test_a_statement_for_which_no_process_starts_says_so(
    engine: DuckDBWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object, settings: object) -> None:
        raise OSError(f"no more of {len(str(settings))}")

    with monkeypatch.context() as changed:
        changed.setattr(WorkerProcess, "__init__", refuse)
        with pytest.raises(SeamlineError, match="no process could be started") as caught:
            list(engine.run(query_of("SELECT count(n) FROM t"), NoDeadline()).batches)
    assert caught.value.code is STATEMENT_KILLED
    assert list(engine.run(query_of("SELECT count(n) FROM t"), NoDeadline()).batches)


def test_nothing_is_left_behind(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "IDLE_S", 0.2)
    before = pids()
    spill = str(tmp_path / "spill")
    engine = DuckDBWorkers(
        memory_bytes=1 << 28, threads=1, spill_directory=spill, spill_bytes=1 << 20
    )
    streams = [engine.run(query_of("SELECT n, k FROM t"), NoDeadline()) for _ in range(7)]
    assert len(engine.running) == 7
    for stream in streams:
        assert sum(batch.num_rows for batch in stream.batches) == COUNT
        stream.close()
    wait_until(lambda: len(pids() - before) <= IDLE_MAX)
    engine.close()
    wait_until(lambda: pids() <= before)


LONG = "SELECT a.n FROM t a, UNNEST(sequence(1, 20)) AS b (m)"


def in_file(sql: str, path: pathlib.Path, most: int = 1 << 40) -> EngineQuery:
    return dataclasses.replace(query_of(sql), file=ResultFile(str(path), most))


def test_rows_that_are_kept_anyway_go_to_their_file(
    engine: DuckDBWorkers, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "results" / "r.arrow"
    stream = engine.run(in_file(LONG, path), NoDeadline())
    first = [n for batch in stream.batches for n in batch.column(0).to_pylist()]
    chunks = list(stream.chunks)
    stream.close()
    assert path.parent.stat().st_mode & 0o077 == 0
    assert first
    assert len(chunks) > 1
    rest = [
        [n for batch in read_chunk(chunk.read()) for n in batch.column(0).to_pylist()]
        for chunk in chunks
    ]
    assert [len(rows) for rows in rest] == [chunk.rows for chunk in chunks]
    assert sorted(first + [n for rows in rest for n in rows]) == [
        n for n in range(COUNT) for _ in range(20)
    ]


def test_few_rows_need_no_file(engine: DuckDBWorkers, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r.arrow"
    stream = engine.run(in_file("SELECT n FROM t WHERE n < 100", path), NoDeadline())
    assert sum(batch.num_rows for batch in stream.batches) == 100
    assert not list(stream.chunks)
    assert not path.exists()


def test_a_process_that_is_killed_while_it_writes_its_file_leaves_nothing(
    engine: DuckDBWorkers, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "r.arrow"
    query = in_file("SELECT a.n, b.n AS m FROM t a, t b", path)
    stream = engine.run(query, NoDeadline())
    assert sum(batch.num_rows for batch in stream.batches)
    wait_until(path.exists)
    (running,) = engine.running
    os.kill(running, signal.SIGKILL)
    with pytest.raises(SeamlineError, match="was killed") as caught:
        list(stream.chunks)
    path.unlink()  # as whoever keeps the rows does
    assert caught.value.code is STATEMENT_KILLED
    stream.close()

    stream = engine.run(query, NoDeadline())
    assert next(stream.batches).num_rows
    wait_until(path.exists)
    stream.close()
    assert not path.exists(), "nobody has taken it"


def test_a_file_that_grows_too_large_ends_its_statement(
    engine: DuckDBWorkers, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "r.arrow"
    query = in_file("SELECT a.n, b.n AS m FROM t a, t b", path, 9 << 20)
    stream = engine.run(query, NoDeadline())
    assert sum(batch.num_rows for batch in stream.batches)
    with contextlib.closing(stream), pytest.raises(SeamlineError) as caught:
        list(stream.chunks)
    assert caught.value.code is RESULT_TOO_LARGE


def test_large_rows_come_a_few_megabytes_at_a_time(engine: DuckDBWorkers) -> None:
    sql = """SELECT rpad('', 100000, 'x') || CAST(n AS varchar) AS text
             FROM UNNEST(sequence(1, 1000)) AS t (n)"""
    stream = engine.run(query_of(sql), NoDeadline())
    with contextlib.closing(stream):
        sizes, rows = [], []
        for batch in stream.batches:
            sizes.append(batch.nbytes)
            rows += batch.column(0).to_pylist()
    assert max(sizes) < 5 << 20
    assert rows == ["x" * 100_000 + str(n) for n in range(1, 1001)]
