"""Records that are small in the log and large once they are decompressed.

Goal: they take a bounded amount of memory, every other record is read, and one that is too large to
be a row is bad by the same rule in a statement, in a follower and in tiering.
Method: a real broker holds such records of every codec: one giant record, many small ones in a
giant batch, keys and headers that are giant, in several partitions. They are read by the log's two
readers, by a gateway in a process of its own whose peak of memory is looked up, and by Spark's
workers when the table is tiered.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from support import programs
from support.gateway import Gateway
from support.stack import Stack
from support.waiting import wait_until

import seamline
from seamline.connectors.kafka.cluster import Cluster
from seamline.connectors.kafka.formats.large import PART_BYTES_MAX
from seamline.connectors.kafka.log import KafkaLog
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.errors import BAD_RECORD, INVALID_ARGUMENT, TAIL_TOO_LARGE, SeamlineError
from seamline.seam.log import READ_COMMITTED
from seamline.seam.offsets import OffsetRange, Offsets

pytestmark = pytest.mark.integration
CODECS = ("gzip", "snappy", "lz4", "zstd")
GIANT = PART_BYTES_MAX + (8 << 20)
COLUMNS = "id bigint, text varchar"


def produce(
    stack: Stack, topic: str, codec: str, batches: Sequence[Sequence[dict[str, Any]]]
) -> None:
    """Produces batches of records, each batch compressed as a whole."""
    producer = Producer(
        {
            "bootstrap.servers": stack.bootstrap_servers,
            "compression.type": codec,
            "message.max.bytes": 1_000_000_000,
            "batch.size": 2_147_483_647,
            "batch.num.messages": 1_000_000,
            "queue.buffering.max.kbytes": 2_097_151,
            "linger.ms": 60_000,
        }
    )
    failures: list[Any] = []
    for batch in batches:
        for record in batch:
            producer.produce(
                topic, on_delivery=lambda e, _: failures.append(e) if e else None, **record
            )
        assert producer.flush(120) == 0
    assert not failures, failures[0]


def value(id_: int, size: int) -> bytes:
    return json.dumps({"id": id_, "text": "a" * size}).encode()


SHAPES: dict[str, Callable[[], list[list[dict[str, Any]]]]] = {
    "one giant record": lambda: [[{"value": value(1, GIANT)}], [{"value": value(2, 1)}]],
    "many small records in a giant batch": lambda: [
        [{"value": value(i, 1000)} for i in range(60_000)],
        [{"value": value(-1, 1)}],
    ],
    "a giant key": lambda: [
        [{"value": value(1, 1), "key": b"k" * GIANT}],
        [{"value": value(2, 1)}],
    ],
    "giant headers": lambda: [
        [{"value": value(1, 1), "headers": [("h", b"h" * GIANT)]}],
        [{"value": value(2, 1)}],
    ],
    "a few that are large together": lambda: [[{"value": value(i, 12 << 20)} for i in range(3)]],
    "several partitions": lambda: (
        [[{"value": value(p, GIANT), "partition": p}] for p in range(3)]
        + [[{"value": value(10 + p, 1), "partition": p}] for p in range(3)]
    ),
}


def create(stack: Stack, name: str, partitions: int = 1) -> None:
    stack.create_topic(name, partitions, {"max.message.bytes": str(100 << 20)})


def offsets_of(batches: Sequence[RawBatch]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for batch in batches:
        for partition, offset in zip(batch.partitions, batch.offsets, strict=True):
            found.setdefault(_number(partition), []).append(offset)
    return found


def _number(partition: Any) -> int:
    return int(partition.as_py() if hasattr(partition, "as_py") else partition)


def large_parts(batches: Sequence[RawBatch]) -> list[dict[str, int]]:
    return [dict(sizes) for batch in batches for sizes in batch.large.values()]


@pytest.mark.one_in(test=8, prove=12)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_record_of_large_batches_arrives_once_in_both_readers(
    stack: Stack, name: str, shape: str, codec: str
) -> None:
    batches = SHAPES[shape]()
    partitions = 3 if shape == "several partitions" else 1
    create(stack, name, partitions)
    produce(stack, name, codec, batches)
    with contextlib.closing(Cluster(stack.config.clusters["default"], 256 << 20)) as cluster:
        log = KafkaLog(cluster)
        end = log.bounds([name], READ_COMMITTED, NoDeadline())[name].end
        ranges = [OffsetRange(p, 0, stop) for p, stop in end.items()]
        read = list(log.read(name, ranges, READ_COMMITTED, NoDeadline()))
        followed = list(follow(log, name, end))
    expected = {p: list(range(stop)) for p, stop in end.items()}
    assert sum(map(len, expected.values())) == sum(map(len, batches))
    for found in (read, followed):
        assert offsets_of(found) == expected
        giants = shape in {"one giant record", "a giant key"}
        assert len(large_parts(found)) == (3 if partitions == 3 else int(giants))


def follow(log: KafkaLog, topic: str, end: Offsets) -> Iterator[RawBatch]:
    """What a subscription returns of a topic up to its end."""
    positions = dict.fromkeys(end, 0)
    with contextlib.closing(
        log.follow(topic, Offsets(positions), READ_COMMITTED, {}, patient=False)
    ) as subscription:
        while positions != dict(end):
            polled = subscription.poll(0.2)
            yield from polled.batches
            positions |= polled.positions


def test_a_batch_that_does_not_fit_is_named_by_its_position(stack: Stack, name: str) -> None:
    create(stack, name)
    few = [{"value": value(i, 20 << 20)} for i in range(6)]
    produce(stack, name, "zstd", [[{"value": value(0, 1)}], few])
    with contextlib.closing(Cluster(stack.config.clusters["default"], 64 << 20)) as cluster:
        log = KafkaLog(cluster)
        read = log.read(name, [OffsetRange(0, 0, 7)], READ_COMMITTED, NoDeadline())
        assert [*next(read).offsets] == [0]
        with pytest.raises(SeamlineError) as found:
            next(read)
        with pytest.raises(SeamlineError) as followed:
            list(follow(log, name, Offsets({0: 7})))
    for error in (found.value, followed.value):
        assert error.code is TAIL_TOO_LARGE
        assert f"topic {name}, partition 0: the batch at offset 1" in error.message
        assert error.details == {"topic": name, "partition": 0, "offset": 1}


# --- Memory --------------------------------------------------------------------------------------

TAIL_BYTES = 128 << 20
BOMB = 50 << 20
BOMBS = 8


@contextlib.contextmanager
def gateway_process(stack: Stack, folder: pathlib.Path) -> Iterator[tuple[str, psutil.Process]]:
    """A gateway in a process of its own: its address, and the process."""
    log = folder / "gateway.log"
    environment = {
        **stack.environment,
        "SEAMLINE_STATE_DIRECTORY": str(folder / "state"),
        "SEAMLINE_TAIL__MEMORY_BYTES": str(TAIL_BYTES),
    }
    command = programs.seamline("serve", "--port", "0")
    with programs.running(command, environment, log) as process:

        def address() -> str | None:
            found = re.search(r"gateway on (\S+)", log.read_text())
            assert found or process.poll() is None, log.read_text()
            return found[1] if found else None

        yield wait_until(address, 120, "the gateway to answer") or "", psutil.Process(process.pid)


def peak_bytes(process: psutil.Process) -> int:
    """The most memory that a gateway has had: the process that serves is a child of the first."""
    (serving,) = process.children()
    text = pathlib.Path(f"/proc/{serving.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    assert found
    return int(found[1]) << 10


@pytest.mark.skipif(not pathlib.Path("/proc/self/status").exists(), reason="needs Linux's /proc")
@pytest.mark.one_in(test=2, prove=2)
@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_compressed_bombs_take_no_more_memory_than_is_stated(
    stack: Stack, name: str, codec: str, tmp_path: pathlib.Path
) -> None:
    create(stack, name)
    stack.create_table(name, COLUMNS, on_error="null")
    with (
        gateway_process(stack, tmp_path) as (address, process),
        seamline.connect(address) as client,
    ):
        with client.cursor() as cursor:
            produce(stack, name, codec, [[{"value": value(0, 1)}]])
            cursor.execute(f"SELECT count(*) FROM {name}")
            assert cursor.fetchall() == [(1,)]
            before = peak_bytes(process)
            produce(stack, name, codec, [[{"value": value(i, BOMB)}] for i in range(BOMBS)])
            for _ in range(3):
                cursor.execute(f"SELECT count(*), count(_kafka_error), count(id) FROM {name}")
                assert cursor.fetchall() == [(BOMBS + 1, BOMBS, 1)]
            grown = peak_bytes(process) - before
        # a follower and a statement may each hold one answer of the broker, which holds all bombs
        stated = 2 * BOMBS * BOMB + TAIL_BYTES
        assert grown < stated, f"{grown:,} bytes"


# --- The same rule hot and cold ------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.one_in(test=2, prove=8)
@pytest.mark.parametrize("on_error", ["null", "skip"])
def test_a_record_too_large_is_bad_alike_before_and_after_it_is_tiered(
    stack: Stack, gateway: Gateway, name: str, on_error: str
) -> None:
    create(stack, name)
    stack.create_table(name, COLUMNS, on_error=on_error)
    shapes = ("one giant record", "a giant key", "giant headers", "a few that are large together")
    produce(stack, name, "zstd", [batch for shape in shapes for batch in SHAPES[shape]()])
    query = (
        f"SELECT _kafka_offset, id, length(text), _kafka_error, length(_kafka_key), "
        f"cardinality(_kafka_headers) FROM {name} ORDER BY 1"
    )
    hot = gateway.rows(query)
    assert len(hot) == (9 if on_error == "null" else 7)
    stack.tier(name)
    receipt = gateway.statement(query)
    assert receipt.error is None
    assert gateway.rows(query) == hot
    assert gateway.rows(f"SELECT count(*) FROM {name}") == [(len(hot),)]


def test_a_row_too_large_is_not_inserted(stack: Stack, gateway: Gateway, name: str) -> None:
    create(stack, name)
    stack.create_table(name, COLUMNS)
    small = f"{name}_small"
    stack.create_topic(small, 1)
    stack.create_table(small, COLUMNS)
    text = "SELECT 1, lpad('', {}, 'x')"
    with gateway.connect() as connection:  # a session sees what it has written
        for table, size in ((name, 9 << 20), (small, 1 << 19)):
            connection.execute(f"INSERT INTO {table} (id, text) {text.format(size)}")
            rows = connection.execute(f"SELECT id, length(text) FROM {table}").fetchall()
            assert rows == [(1, size)]
    for table, size, said in (
        (name, 33 << 20, "34,603,026 bytes, more than 33,554,432"),
        (small, 2 << 20, "too large for a record of topic"),
    ):
        with pytest.raises(SeamlineError, match=said) as found:
            gateway.rows(f"INSERT INTO {table} (id, text) {text.format(size)}")
        assert found.value.code is INVALID_ARGUMENT
        assert gateway.rows(f"SELECT count(*) FROM {table}") == [(1,)]


def test_a_record_too_large_fails_a_read_by_its_position(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    create(stack, name)
    stack.create_table(name, COLUMNS)
    produce(stack, name, "zstd", SHAPES["one giant record"]())
    with pytest.raises(SeamlineError) as found:
        gateway.rows(f"SELECT count(id) FROM {name}")
    assert found.value.code is BAD_RECORD
    assert f"topic {name}, partition 0, offset 0: the value has" in found.value.message
