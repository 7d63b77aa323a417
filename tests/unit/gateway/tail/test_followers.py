"""All followers of a gateway: one budget, spilling, making room, stopping.

Method: tables over one small topic in memory; budgets of some kilobytes, so that a handful of
records is too much.
"""

from __future__ import annotations

import pathlib
import threading

import pytest
from fakes.memory import MemoryLog
from support.tails import NEVER, TOPIC, MemoryTail, rows_of, value
from support.waiting import wait_until

from seamline.errors import TAIL_TOO_LARGE, SeamlineError
from seamline.gateway.tail.follower import Follower, State
from seamline.seam.offsets import Offsets
from seamline.sql.predicates import Comparison

ROOMY = 1 << 30


def produce(log: MemoryLog, count: int, partition: int = 0, first: int = 0) -> None:
    for number in range(first, first + count):
        log.produce(TOPIC, partition, value(number, "x" * 250))


def follower_of(tail: MemoryTail, table: str = TOPIC) -> Follower:
    assert tail.followers is not None
    found = tail.followers.find(f"uuid-{table}")
    assert found is not None
    return found


def memory_of(tail: MemoryTail) -> int:
    assert tail.followers is not None
    return tail.followers.usage.memory_bytes


def disk_of(tail: MemoryTail) -> int:
    assert tail.followers is not None
    return tail.followers.usage.disk_bytes


def sweep(tail: MemoryTail) -> None:
    assert tail.followers is not None
    tail.followers.sweep()


def files_in(directory: pathlib.Path) -> list[pathlib.Path]:
    return sorted(directory.rglob("*.parquet"))


def test_what_does_not_fit_goes_to_disk_and_stays_readable(scratch: pathlib.Path) -> None:
    tail = MemoryTail(scratch, memory_bytes=4000)
    for first in range(0, 200, 20):
        produce(tail.log, 20, first=first)
        produce(tail.log, 20, partition=1, first=first + 1000)
        found = tail.read()
        assert len(rows_of(found)) == 2 * (first + 20)
        assert found.origin.offsets_read == 0
        found.release()
        assert memory_of(tail) <= 4000
    assert found.files
    assert disk_of(tail) == sum(path.stat().st_size for path in files_in(scratch))
    tail.close()
    assert not files_in(scratch)


def test_files_are_pruned(scratch: pathlib.Path) -> None:
    tail = MemoryTail(scratch, memory_bytes=0)
    for first in range(0, 100, 20):
        produce(tail.log, 20, first=first)
        tail.rows()
    found = tail.read(tail.request(predicate=Comparison("id", "=", 30)))
    assert (found.origin.segments, found.origin.pruned) == (1, 4)
    assert [row["id"] for row in rows_of(found)] == list(range(20, 40))
    assert found.records == 20
    found.release()
    tail.close()


def test_trimming_deletes_files_that_nobody_reads(scratch: pathlib.Path) -> None:
    tail = MemoryTail(scratch, memory_bytes=0)
    produce(tail.log, 20)
    kept = tail.read()
    tail.rows()
    assert len(files_in(scratch)) == 1
    tail.boundary = Offsets({0: 20, 1: 0})
    tail.rows()
    assert len(rows_of(kept)) == 20
    kept.release()
    assert not files_in(scratch)
    assert disk_of(tail) == 0
    tail.close()


def test_what_is_read_stays_in_memory_and_counts(scratch: pathlib.Path) -> None:
    tail = MemoryTail(scratch, memory_bytes=40_000)
    produce(tail.log, 50)
    kept = tail.read()
    used = memory_of(tail)
    tail.close()
    assert memory_of(tail) == used
    assert len(rows_of(kept)) == 50
    kept.release()
    assert memory_of(tail) == 0


def test_one_budget_for_all_tables(scratch: pathlib.Path) -> None:
    tail = MemoryTail(scratch, memory_bytes=30_000)
    produce(tail.log, 40)
    for table in ("one", "two", "three", "four"):
        assert len(tail.rows(tail.request(table=table))) == 40
        assert memory_of(tail) <= 30_000
    spilled = {
        table
        for table in ("one", "two", "three", "four")
        if any(
            s.rows is None for h in follower_of(tail, table).partitions.values() for s in h.segments
        )
    }
    assert spilled
    assert spilled != {"one", "two", "three", "four"}
    tail.close()


def test_a_full_disk_makes_way_by_stopping_what_is_unused(scratch: pathlib.Path) -> None:
    tail = MemoryTail(scratch, memory_bytes=20_000, disk_bytes=0)
    produce(tail.log, 40)
    tail.rows(tail.request(table="one"))
    first = follower_of(tail, "one")
    first.last_used -= 60.0
    assert len(tail.rows(tail.request(table="two"))) == 40
    assert first.state is State.STOPPED
    assert follower_of(tail, "two").state is State.FOLLOWING
    assert len(tail.rows(tail.request(table="one"))) == 40
    tail.close()


def test_a_full_follower_says_so_and_the_answer_is_right(scratch: pathlib.Path) -> None:
    tail = MemoryTail(scratch, memory_bytes=20_000, disk_bytes=0)
    produce(tail.log, 40)
    tail.rows(tail.request(table="one"))
    tail.rows(tail.request(table="two"))
    produce(tail.log, 1, first=40)
    found = tail.read(tail.request(table="two"))
    assert [row["id"] for row in rows_of(found)] == list(range(41))
    assert found.origin.note == "the follower is full"
    assert found.origin.offsets_read > 0
    assert follower_of(tail, "two").state is State.FULL
    assert follower_of(tail, "one").state is State.FOLLOWING  # used just now: not stopped for two
    found.release()
    tail.close()


def test_a_full_follower_goes_on_when_there_is_room(scratch: pathlib.Path) -> None:
    tail = MemoryTail(scratch, memory_bytes=40_000, disk_bytes=0, readers=2)
    produce(tail.log, 40)
    kept = tail.read()
    follower = follower_of(tail)
    for first in range(40, 200, 40):
        produce(tail.log, 40, first=first)
        assert len(tail.rows()) == first + 40
    wait_until(lambda: follower.state is State.FULL)
    kept.release()
    tail.boundary = Offsets({0: 190, 1: 0})
    assert len(tail.rows()) == 10
    assert follower.wait({0: 200}, NEVER)
    assert follower.state is State.FOLLOWING
    tail.close()


def test_more_than_one_statement_may_read_here_is_refused(scratch: pathlib.Path) -> None:
    tail = MemoryTail(scratch, memory_bytes=100, disk_bytes=0)
    tail.tails._offsets_max = 30
    produce(tail.log, 100)
    with pytest.raises(SeamlineError) as caught:
        tail.read()
    assert caught.value.code is TAIL_TOO_LARGE
    assert "100 offsets of lake.default.t" in caught.value.message
    tail.close()


def test_a_tail_that_could_not_be_held_is_not_followed(scratch: pathlib.Path) -> None:
    tail = MemoryTail(scratch, memory_bytes=100, disk_bytes=100)
    produce(tail.log, 40)
    assert len(tail.rows()) == 40
    assert tail.followers is not None
    assert tail.followers.all() == []
    assert not tail.tails.fits(tail.request().seam)
    tail.close()


def test_without_followers_everything_is_read_from_the_log(scratch: pathlib.Path) -> None:
    tail = MemoryTail(scratch, follow=False)
    produce(tail.log, 40)
    found = tail.read()
    assert len(rows_of(found)) == 40
    assert found.origin.offsets_read == 40
    found.release()
    tail.close()


def test_what_is_idle_stops(scratch: pathlib.Path) -> None:
    tail = MemoryTail(scratch, idle_seconds=60.0)
    produce(tail.log, 40)
    tail.rows()
    follower = follower_of(tail)
    ended = []
    sweep(tail)
    ended.append(follower.over)
    with follower.keeping(tail.boundary):
        follower.last_used -= 61.0
        sweep(tail)
        ended.append(follower.over)
    follower.last_used -= 61.0
    sweep(tail)
    ended.append(follower.over)
    assert ended == [False, False, True]
    assert memory_of(tail) == 0
    assert len(tail.rows()) == 40
    assert follower_of(tail) is not follower
    tail.close()


def test_a_selective_statement_does_not_wait_for_a_large_tail(scratch: pathlib.Path) -> None:
    tail = MemoryTail(scratch)
    produce(tail.log, 5000)
    request = tail.request()
    end = request.ranges[0].end_exclusive
    last = tail.request(ranges=[type(request.ranges[0])(0, end - 10, end)])
    found = tail.read(last)
    assert [row["id"] for row in rows_of(found)] == list(range(4990, 5000))
    assert found.origin.offsets_read == 10
    assert found.origin.note == "the follower is still far behind"
    assert follower_of(tail).state is State.CATCHING_UP
    found.release()
    assert len(tail.rows()) == 5000
    again = tail.read(last)
    assert again.origin.offsets_read == 0
    again.release()
    tail.close()


@pytest.mark.prove
def test_many_statements_while_everything_is_spilled(scratch: pathlib.Path) -> None:
    """Readers, statements and spilling at once: nothing is lost, and all of it is let go."""
    tail = MemoryTail(scratch, memory_bytes=8000, disk_bytes=ROOMY, readers=2)
    failures: list[BaseException] = []

    def read(table: str) -> None:
        try:
            for _ in range(40):
                request = tail.request(table=table)
                expected = sum(len(r) for r in request.ranges)
                found = tail.read(request)
                assert len(rows_of(found)) == expected
                found.release()
        except BaseException as error:  # noqa: BLE001 - reported below
            failures.append(error)

    threads = [threading.Thread(target=read, args=(f"t{n % 3}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for first in range(0, 2000, 50):
        produce(tail.log, 50, partition=first % 2, first=first)
    for thread in threads:
        thread.join(120.0)
    assert not failures, failures[0]
    tail.close()
    assert memory_of(tail) == disk_of(tail) == 0
    assert not files_in(scratch)


def test_a_closed_gateway_follows_nothing(scratch: pathlib.Path) -> None:
    tail = MemoryTail(scratch)
    produce(tail.log, 10)
    tail.rows()
    tail.close()
    found = tail.read()
    assert len(rows_of(found)) == 10
    assert found.origin.offsets_read == 10
