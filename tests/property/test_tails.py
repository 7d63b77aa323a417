"""What followers serve is what a direct read gives, whatever has happened in between.

Method: random histories of a small topic in memory (transactions that end either way or stay open,
tombstones, bad records, markers, trimming, new partitions, elections with and without loss, a topic
made anew, tiering that moves the boundary on and a rollback that moves it back) are interleaved
with statements that ask for random ranges under random filters. The same requests are answered by
two followers of one gateway, with budgets from nothing to plenty so that segments are merged,
spilled and let go, and by a read of the log itself: the same rows, the same count of records left
out, the same named error. A statement that is answered long after it asked for the log's ends gets
what the log held then, or an error.
"""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support.examples import examples
from support.predicates import keeps
from support.tails import NEVER, TOPIC, MemoryTail, rows_of, value

from seamline.connectors.kafka.tail import Tail
from seamline.errors import READ_CONFLICT, SeamlineError
from seamline.planners.plan.physical import TailRead
from seamline.seam.log import READ_UNCOMMITTED
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.sql import columns as names
from seamline.sql.predicates import And, Comparison, In, IsNull, Or, Predicate

TABLES = ("one", "two")
CHANGED = {"LOG_TRUNCATED", "LOG_TRIMMED", "READ_CONFLICT", "TOPIC_RECREATED"}
"""What a statement is told if the log no longer holds what it held when it was asked. What has come
instead may also be bad, or be of an open transaction, for whose end a read waits."""
CHANGED |= {"BAD_RECORD", "DEADLINE_EXCEEDED"}
COLUMNS = ("id", "text", names.PARTITION, names.OFFSET, names.ERROR)

leaves = st.one_of(
    st.builds(
        Comparison,
        st.just("id"),
        st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
        st.integers(0, 60),
    ),
    st.builds(In, st.just("id"), st.tuples(st.integers(0, 60), st.integers(0, 60))),
    st.builds(IsNull, st.just("text"), st.booleans()),
)
predicates = st.none() | st.recursive(
    leaves,
    lambda inner: st.builds(And, st.tuples(inner, inner)) | st.builds(Or, st.tuples(inner, inner)),
    max_leaves=3,
)
steps = st.one_of(
    st.tuples(st.just("produce"), st.integers(0, 1), st.integers(1, 6)),
    st.tuples(st.just("bad"), st.integers(0, 1)),
    st.tuples(st.just("tombstone"), st.integers(0, 1)),
    st.tuples(st.just("transaction"), st.integers(0, 1), st.sampled_from(["abort", "commit", ""])),
    st.tuples(st.just("finish"), st.booleans()),
    st.tuples(st.just("tier"), st.integers(0, 8)),
    st.tuples(st.just("trim")),
    st.tuples(st.just("rollback")),
    st.tuples(st.just("grow")),
    st.tuples(st.just("elect"), st.integers(0, 1), st.integers(0, 5), st.integers(-3, 3)),
    st.tuples(st.just("recreate"), st.integers(0, 6)),
    st.tuples(st.just("ask"), st.sampled_from(TABLES)),
    st.tuples(st.just("answer")),
    st.tuples(st.just("read"), st.sampled_from(TABLES), predicates, st.integers(0, 6)),
    st.tuples(st.just("keep"), st.sampled_from(TABLES)),
    st.tuples(st.just("drop")),
)


class History:
    """A topic, a boundary, and statements that are still being read."""

    def __init__(self, tail: MemoryTail) -> None:
        self.tail = tail
        self.log = tail.log
        self.numbers = 0
        self.open: list[int] = []
        self.boundaries: list[Offsets] = [tail.boundary]
        self.kept: list[tuple[Any, list[dict[str, Any]]]] = []
        self.asked: list[tuple[TailRead, dict[str, Any]]] = []

    def run(self, step: tuple[Any, ...]) -> None:
        getattr(self, step[0])(*step[1:])

    def produce(self, partition: int, count: int, transaction: int | None = None) -> None:
        for _ in range(count):
            self.numbers += 1
            raw = value(self.numbers)
            self.log.produce(TOPIC, partition, raw, transaction=transaction)

    def bad(self, partition: int) -> None:
        self.log.produce(TOPIC, partition, b'{"id": "text"}')

    def tombstone(self, partition: int) -> None:
        self.log.produce(TOPIC, partition, None)

    def transaction(self, partition: int, end: str) -> None:
        transaction = self.log.begin()
        self.produce(partition, 2, transaction)
        if end:
            self.log.end_transaction(TOPIC, transaction, commit=end == "commit")
        else:
            self.open.append(transaction)

    def finish(self, commit: bool) -> None:
        if self.open:
            self.log.end_transaction(TOPIC, self.open.pop(0), commit=commit)

    def tier(self, offsets: int) -> None:
        seam, _ = self.tail.seam()
        moved = {p: min(end, seam.boundary[p] + offsets) for p, end in seam.end.items()}
        self.tail.boundary = Offsets(moved)
        self.boundaries.append(self.tail.boundary)

    def trim(self) -> None:
        """Retention takes what every snapshot that can be rolled back to has tiered."""
        for partition, offset in self.boundaries[0].items():
            self.log.delete_records(TOPIC, partition, offset)

    def rollback(self) -> None:
        if len(self.boundaries) > 1:
            self.boundaries.pop()
            self.tail.boundary = self.boundaries[-1]

    def grow(self) -> None:
        self.log.add_partitions(TOPIC)

    def elect(self, partition: int, lost: int, more: int) -> None:
        """A new leader has less than the former one, but all that is tiered, and continues."""
        end = self.log.bounds([TOPIC], READ_UNCOMMITTED, NEVER)[TOPIC].end[partition]
        tiered = max(boundary.get(partition, 0) for boundary in self.boundaries)
        self.log.truncate(TOPIC, partition, max(tiered, end - lost))
        self.produce(partition, lost + more)

    def recreate(self, count: int) -> None:
        """Another topic of that name, of a table that begins anew."""
        self.log.create_topic(TOPIC, 2)
        self.open.clear()
        self.tail.boundary = Offsets({0: 0, 1: 0})
        self.boundaries = [self.tail.boundary]
        for partition in (0, 1):
            self.produce(partition, count)

    def ask(self, table: str) -> None:
        """A statement that is slow to begin reading."""
        request = self.tail.request(table=table, wanted=COLUMNS)
        self.asked.append((request, direct(self.tail, request)))

    def answer(self) -> None:
        if self.asked:
            request, expected = self.asked.pop(0)
            found = served(self.tail, request)
            assert found == expected or found.get("error") in CHANGED, (found, expected)

    def read(self, table: str, predicate: Predicate | None, cut: int) -> None:
        request = self.tail.request(table=table, wanted=COLUMNS, predicate=predicate)
        ranges = [
            OffsetRange(r.partition, min(r.start + cut // 2, r.end_exclusive), r.end_exclusive)
            for r in request.ranges[cut % 2 :]
        ]
        request = self.tail.request(
            table=table, wanted=COLUMNS, predicate=predicate, ranges=[r for r in ranges if len(r)]
        )
        assert served(self.tail, request) == direct(self.tail, request)

    def keep(self, table: str) -> None:
        """A statement that reads its rows only later."""
        request = self.tail.request(table=table, wanted=COLUMNS)
        expected = direct(self.tail, request)
        try:
            self.kept.append((read(self.tail, request), expected["rows"]))
        except SeamlineError as error:
            assert error.code.name == expected["error"]

    def drop(self) -> None:
        if self.kept:
            tail, expected = self.kept.pop(0)
            assert rows_of(tail) == expected
            tail.release()


def read(tail: MemoryTail, request: TailRead) -> Tail:
    """Reads, once more if the follower turns out to be over, as the gateway does."""
    try:
        return tail.read(request)
    except SeamlineError as error:
        if error.code is not READ_CONFLICT:
            raise
        return tail.read(request)


def served(tail: MemoryTail, request: TailRead) -> dict[str, Any]:
    try:
        found = read(tail, request)
    except SeamlineError as error:
        return {"error": error.code.name, "rows": []}
    rows = filtered(rows_of(found), request.predicate)
    found.release()
    return {"rows": rows, "skipped": found.skipped}


def direct(tail: MemoryTail, request: TailRead) -> dict[str, Any]:
    try:
        found = tail.direct(request)
    except SeamlineError as error:
        return {"error": error.code.name, "rows": []}
    return {"rows": filtered(rows_of(found), request.predicate), "skipped": found.skipped}


def filtered(rows: list[dict[str, Any]], predicate: Predicate | None) -> list[dict[str, Any]]:
    """The rows for which the predicate is true: pruning may leave others in or out."""
    return [row for row in rows if predicate is None or keeps(predicate, row)]


@examples(300, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(steps, min_size=8, max_size=60),
    st.sampled_from(["fail", "null", "skip"]),
    st.sampled_from([(1 << 30, 1 << 30), (1500, 1 << 30), (0, 1 << 30), (1500, 6000), (0, 0)]),
)
def test_followers_serve_what_the_log_holds(
    history: list[tuple[Any, ...]], policy: str, budget: tuple[int, int]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        tail = MemoryTail(
            pathlib.Path(directory),
            on_error=policy,
            memory_bytes=budget[0],
            disk_bytes=budget[1],
        )
        run = History(tail)
        try:
            for step in history:
                run.run(step)
            while run.asked:
                run.answer()
            while run.kept:
                run.drop()
        finally:
            tail.close()
        assert tail.followers is not None
        assert tail.followers.usage.memory_bytes == 0
        assert tail.followers.usage.disk_bytes == 0
        assert not list(pathlib.Path(directory).rglob("*.parquet"))
