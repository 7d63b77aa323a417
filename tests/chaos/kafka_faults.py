"""Faults of topics: partitions, trimming, compaction, bad records, recreation.

Trimming spares what is not yet tiered, except on the table that is sacrificed to it; and what the
independent consumer has not seen, or it would be unknown what was lost.
"""

from __future__ import annotations

import base64
import functools
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec
from support.odd_records import OddRecord, produce

from chaos import tables
from chaos.arena import Arena, NotInjectedError
from chaos.brokers import direct_client
from chaos.engine_readers import CatalogReader, SourceReader
from chaos.history import Sent, TableSpoiled, value_of
from chaos.process_faults import Fault
from chaos.readers import Client
from chaos.tables import (
    COMPACTED,
    DOOMED,
    EVOLVING,
    FOREIGN,
    NULLING,
    PLAIN,
    SINK,
    SKIPPING,
    STATES,
    TRANSACTIONAL,
    TRIMMED,
    Table,
)
from seamline.errors import (
    DEADLINE_EXCEEDED,
    LOG_TRIMMED,
    TABLE_NOT_FOUND,
    TOPIC_RECREATED,
    SeamlineError,
)

PARTITIONS_MAX = 8
_REQUEST_S = 10.0
_UNTIL_TIERED_S = 12.0
_TRIMMED_TABLES = ((PLAIN,), (TRANSACTIONAL,), (SKIPPING, NULLING), (STATES,), SINK, (EVOLVING,))
_HELD_S = 6.0
"""How long a read may take to request its first record."""
_HEADERS: Sequence[tuple[bytes, bytes | None]] = (
    (b"h", None),
    (b"h", b"1"),
    (b"h", b"1"),
    (b"", b""),
    (b"\xc3\xa9", b"\xff"),
    (b"\xff\xfe", b"no text"),
)
_TIMES_MS = (-86_400_000, 1, 4_102_444_800_000, 253_402_300_800_000, 9_007_199_254_740_993)
"""Before 1970, at its beginning, in 2100, after the year 9999."""
_BAD = (b"\x00\xff\xfe", None, b"", b"[]", b'{"id": "x"}', b'{"id": 1', b'"text"', b"17")


def partitions_of(arena: Arena, topic: str) -> list[int]:
    """The partitions of a topic."""
    found = arena.stack.admin.describe_topics(TopicCollection([topic]), request_timeout=_REQUEST_S)
    return [p.id for p in found[topic].result(_REQUEST_S).partitions]


def add_partition(arena: Arena, chance: random.Random) -> str:
    """One more partition for a topic that has few."""
    topics = [t.topic for t in (PLAIN, TRANSACTIONAL, SKIPPING, FOREIGN)]
    counts = {topic: len(partitions_of(arena, topic)) for topic in topics}
    topic = min(topics, key=lambda name: (counts[name], chance.random()))
    if counts[topic] >= PARTITIONS_MAX:
        raise NotInjectedError(f"every topic has {PARTITIONS_MAX} partitions")
    asked = [NewPartitions(topic, counts[topic] + 1)]
    arena.stack.admin.create_partitions(asked)[topic].result(_REQUEST_S)
    return f"{topic} has {counts[topic] + 1}"


def delete_records(arena: Arena, topic: str, before: dict[int, int]) -> None:
    """Trims partitions of a topic."""
    asked = [TopicPartition(topic, p, offset) for p, offset in before.items() if offset > 0]
    admin = AdminClient(direct_client(arena.stack.direct_servers))
    for future in admin.delete_records(asked, request_timeout=_REQUEST_S).values():
        future.result(_REQUEST_S)


def _safe_to_trim(arena: Arena, group: tuple[Table, ...]) -> dict[int, int]:
    """Per partition the offset that is tiered into every table, and seen by the consumer."""
    reached = arena.oracle.reached(group[0].topic)
    for table in group:
        tiered = tables.boundary(arena.stack, table).next
        reached = {p: min(offset, tiered.get(p, 0)) for p, offset in reached.items()}
    safe = {p: offset for p, offset in reached.items() if offset > 0}
    if not safe:
        raise NotInjectedError(f"nothing of {group[0].topic} is tiered yet")
    return safe


def on_any(fault: Callable[[Arena, random.Random, tuple[Table, ...]], str]) -> Fault:
    """The fault on the first topic that allows it, in random order."""

    def on_one(arena: Arena, chance: random.Random) -> str:
        reasons: list[str] = []
        done: list[str] = []

        def tried() -> bool:
            reasons.clear()
            for group in chance.sample(_TRIMMED_TABLES, len(_TRIMMED_TABLES)):
                try:
                    done.append(fault(arena, chance, group))
                except (NotInjectedError, KafkaException) as error:
                    reasons.append(str(error))
                else:
                    return True
            return arena.ended.is_set()

        arena.wait(tried, _UNTIL_TIERED_S)
        if not done:
            raise NotInjectedError("; ".join(reasons))
        return done[0]

    return on_one


def delete_below(arena: Arena, chance: random.Random, group: tuple[Table, ...]) -> str:
    """Trims a log to somewhere below the boundary."""
    safe = _safe_to_trim(arena, group)
    kept = _starts(arena, group[0].topic)
    before = {
        p: chance.randint(kept.get(p, 0) + 1, offset - 1)
        for p, offset in safe.items()
        if kept.get(p, 0) + 1 < offset
    }
    if not before:
        raise NotInjectedError(f"{group[0].topic} is already trimmed that far")
    delete_records(arena, group[0].topic, before)
    return group[0].topic


def delete_at(arena: Arena, chance: random.Random, group: tuple[Table, ...]) -> str:
    """Trims a log exactly to the boundary."""
    delete_records(arena, group[0].topic, _some(chance, _safe_to_trim(arena, group)))
    return group[0].topic


def delete_during_scan(arena: Arena, chance: random.Random, group: tuple[Table, ...]) -> str:
    """Trims a log to the boundary again and again while a read of it runs."""
    trimmed_partitions = _some(chance, _safe_to_trim(arena, group))
    client = arena.client(f"scan-{chance.getrandbits(16)}")
    scan = threading.Thread(target=client.read, args=(group[0],))
    scan.start()
    trimmed = 0
    while scan.is_alive() or not trimmed:
        safe = _safe_to_trim(arena, group)
        delete_records(arena, group[0].topic, {p: safe[p] for p in trimmed_partitions})
        trimmed += 1
        time.sleep(0.02)
    scan.join()
    return f"{group[0].topic}, {trimmed} times"


def _some(chance: random.Random, offsets: dict[int, int]) -> dict[int, int]:
    """Half of the partitions: the others keep records below the boundary, to be trimmed later."""
    chosen = chance.sample(sorted(offsets), (len(offsets) + 1) // 2)
    return {p: offsets[p] for p in chosen}


def _starts(arena: Arena, topic: str) -> dict[int, int]:
    admin = AdminClient(direct_client(arena.stack.direct_servers))
    asked = {TopicPartition(topic, p): OffsetSpec.earliest() for p in partitions_of(arena, topic)}
    answers = admin.list_offsets(asked, request_timeout=_REQUEST_S)
    return {p.partition: int(f.result(_REQUEST_S).offset) for p, f in answers.items()}


def compact(arena: Arena, chance: random.Random) -> str:
    """New values and tombstones for old keys, and segments that may be compacted."""
    producer = Producer(direct_client(arena.stack.direct_servers))
    for key in chance.sample(range(24), 6):
        producer.produce(COMPACTED.topic, None, key=f"k{key}")
    if producer.flush(10):
        raise NotInjectedError("the broker did not take the tombstones")
    arena.last(0.7)  # older than `segment.ms`: the next record starts a segment
    arena.produce(COMPACTED.topic, 4)
    return "6 tombstones"


def poison(arena: Arena, chance: random.Random) -> str:
    """Records that cannot be decoded."""
    producer = Producer(direct_client(arena.stack.direct_servers))
    for _ in range(4):
        producer.produce(SKIPPING.topic, chance.choice(_BAD), key=f"k{chance.randrange(24)}")
    if producer.flush(10):
        raise NotInjectedError("the broker did not take them")
    return "4 records"


def odd_headers(arena: Arena, chance: random.Random) -> str:
    """Records whose headers have no value, the same name twice, or a name that is not text."""
    return _produce_odd(
        arena,
        chance,
        lambda: {"headers": chance.choices(_HEADERS, k=chance.randint(1, 4))},
    )


def odd_times(arena: Arena, chance: random.Random) -> str:
    """Records from clocks that go wrong: before the epoch, far in the future, out of order."""
    now_ms = int(time.time() * 1000)
    return _produce_odd(
        arena, chance, lambda: {"timestamp_ms": chance.choice((*_TIMES_MS, now_ms - 90_000))}
    )


def _produce_odd(arena: Arena, chance: random.Random, how: Callable[[], dict[str, Any]]) -> str:
    topic = chance.choice([table.topic for table in (PLAIN, SKIPPING, FOREIGN)])
    ids = [next(arena.ids) for _ in range(4)]
    arena.recorder.record(*(Sent(id_, topic, time.monotonic()) for id_ in ids))
    records = [OddRecord(value_of(id_, "o"), b"k1", **how()) for id_ in ids]
    try:
        produce(arena.stack.direct_servers, topic, records)
    except AssertionError as error:
        raise NotInjectedError(str(error)) from error
    return f"4 records to {topic}"


# --- Sacrifices ----------------------------------------------------------------------------------


def recreate_topic(arena: Arena, chance: random.Random) -> str:
    """Another topic under the same name: shorter or longer than the table, or of other shape."""
    variant = chance.choice(["shorter", "longer", "other partitions"])
    _begin_anew(arena)
    count = arena.produce(DOOMED.topic, chance.randint(20, 40))
    arena.wait(lambda: tables.is_tiered(arena.stack, DOOMED), 8.0)
    partitions = 2 if variant != "other partitions" else chance.choice([1, 3])
    with arena.one_view:
        wait_for_consumer(arena, DOOMED)
        _replace(arena, partitions, lambda: None)
    arena.produce(DOOMED.topic, 3 if variant == "shorter" else 2 * count + 10)
    client = arena.client(f"recreated-{chance.getrandbits(16)}")
    for form in ("rows", "groups", "twice"):
        client.read(DOOMED, form)
    client.read(DOOMED, engine="spark")
    return f"{variant}, {_go_on(arena, chance, DOOMED, client, [])}"


def recreate_under_reads(arena: Arena, chance: random.Random) -> str:
    """Another topic, and a longer one, exactly while reads know their ends but have no rows yet.

    Fetches of the topic are held back until it has been replaced.
    """
    _begin_anew(arena)
    count = arena.produce(DOOMED.topic, chance.randint(20, 40))
    network, number = arena.stack.network, f"{chance.getrandbits(16)}"
    reads: list[threading.Thread] = []

    def replaced() -> None:
        arena.produce(DOOMED.topic, 2 * count + 20)

    with arena.one_view:
        old_id = arena.oracle.topic_id(DOOMED.topic)
        network.hold(DOOMED.topic.encode(), base64.urlsafe_b64decode(f"{old_id}=="))
        try:
            arena.produce(DOOMED.topic, 5)  # what no follower has read
            wait_for_consumer(arena, DOOMED)
            reads += [threading.Thread(target=read) for read in _reads_of(arena, DOOMED, number)]
            for read in reads:
                read.start()
            arena.wait(lambda: network.held >= len(reads), _HELD_S)
            held = network.held
            if not held:
                raise NotInjectedError("no read asked for a record in time")
            _replace(arena, 2, replaced)
        finally:
            network.let_go()
            for read in reads:
                read.join()
    how = _go_on(arena, chance, DOOMED, arena.client(f"recreated-{number}"), [])
    return f"{held} fetches held back, {how}"


def _reads_of(arena: Arena, table: Table, number: str) -> list[Callable[[], object]]:
    """A read of every kind."""
    stack = arena.stack

    def client(kind: str, url: str = "") -> Client:
        return arena.client(f"{kind}-{number}", url=url)

    catalog = CatalogReader(client("held"), (), 0, stack.url, stack.other_spark_url)
    source = SourceReader(client("held"), (), 0, stack.url)
    narrow = client("held-narrow", stack.narrow_url)
    return [
        functools.partial(client("held").read, table),
        functools.partial(client("held").read, table, "twice"),
        functools.partial(narrow.read, table, engine="spark"),
        functools.partial(catalog.read, table),
        functools.partial(source.read_whole, table),
        functools.partial(source.read_on, table),
    ]


def _begin_anew(arena: Arena) -> None:
    """The doomed table over its topic, whatever became of the last attempt to replace it."""
    if not arena.oracle.follows(DOOMED.topic):
        drop(arena, DOOMED)
        follow(arena, DOOMED.topic)
    ensure(arena, DOOMED)


def _replace(arena: Arena, partitions: int, then: Callable[[], None]) -> None:
    """Replaces the doomed topic with another one, and records that its table is spoiled.

    Until every broker knows the new one, some may still say that there is none.
    """
    invoked, is_gone, ended = time.monotonic(), False, math.inf
    arena.oracle.forget(DOOMED.topic)
    try:
        _delete_topic(arena)
        is_gone = True
        create_topic(arena, DOOMED.topic, partitions)
        then()
        follow(arena, DOOMED.topic)
        ended = time.monotonic()
    finally:
        code = TOPIC_RECREATED.name
        arena.recorder.record(TableSpoiled(DOOMED.name, code, is_gone, invoked, ended))


def wait_for_consumer(arena: Arena, table: Table) -> None:
    """Waits until the independent consumer has seen all of a table's topic."""
    if not arena.wait(lambda: arena.oracle.is_caught_up(table.topic), 20.0):
        raise NotInjectedError("the consumer did not catch up")


def delete_above(arena: Arena, chance: random.Random) -> str:
    """Trims a log past what is tiered: the table may only say so."""
    ensure(arena, TRIMMED)
    arena.produce(TRIMMED.topic, chance.randint(20, 60))
    with arena.one_view:
        wait_for_consumer(arena, TRIMMED)
    tiered = tables.boundary(arena.stack, TRIMMED).next
    reached = arena.oracle.reached(TRIMMED.topic)
    before = {
        p: chance.randint(tiered.get(p, 0) + 1, end)
        for p, end in reached.items()
        if end > tiered.get(p, 0)
    }
    if not before:
        raise NotInjectedError("everything was tiered already")
    invoked = time.monotonic()
    try:
        delete_records(arena, TRIMMED.topic, before)
    finally:  # it may have happened, whatever the answer
        code = LOG_TRIMMED.name
        arena.recorder.record(TableSpoiled(TRIMMED.name, code, False, invoked, time.monotonic()))
    client = arena.client(f"trimmed-{chance.getrandbits(16)}")
    for form in ("rows", "groups", "twice"):
        client.read(TRIMMED, form)
    lost = {p: offset - tiered.get(p, 0) for p, offset in before.items()}
    gaps = [[p, tiered.get(p, 0), offset] for p, offset in before.items() if lost[p] > 0]
    how = _go_on(arena, chance, TRIMMED, client, gaps)
    return f"{sum(lost.values())} offsets, {how}"


def _go_on(
    arena: Arena, chance: random.Random, table: Table, client: Client, gaps: list[list[int]]
) -> str:
    """A spoiled table is resumed with what it has, or made anew; then it is read, and tiered."""
    resumes = chance.random() < 0.7
    if resumes:
        topic_id = arena.oracle.topic_id(table.topic)
        with arena.one_view:
            insist(
                arena,
                lambda: tables.resume(arena.stack, table, topic_id, arena.recorder, gaps),
                f"resume {table.name}",
            )
    else:
        drop(arena, table)
        ensure(arena, table)
    for form in ("rows", "groups", "twice"):
        client.read(table, form)
    before = sum(tables.boundary(arena.stack, table).next.values())
    arena.produce(table.topic, 5)
    arena.wait(lambda: sum(tables.boundary(arena.stack, table).next.values()) > before, 8.0)
    client.read(table)
    client.read(table, engine="spark")
    return "resumed" if resumes else "made anew"


def drop(arena: Arena, table: Table) -> None:
    """Drops a table, whatever it takes."""
    insist(arena, lambda: tables.drop(arena.stack, table, arena.recorder), f"drop {table.name}")


def ensure(arena: Arena, table: Table) -> None:
    """Creates a table over the topic as it is now, unless it is there, whatever it takes."""

    def created() -> None:
        try:
            tables.boundary(arena.stack, table)
        except SeamlineError as error:
            if error.code is not TABLE_NOT_FOUND:
                raise
            topic_id = arena.oracle.topic_id(table.topic)
            with arena.one_view:
                tables.create(arena.stack, table, topic_id, arena.recorder)

    insist(arena, created, f"create {table.name}")


def insist(arena: Arena, work: Callable[[], None], what: str) -> None:
    """Does it, as often as it takes."""
    last = ""

    def done() -> bool:
        nonlocal last
        try:
            work()
        except SeamlineError as error:
            if not error.code.retriable and error.code is not DEADLINE_EXCEEDED:
                raise
            last = str(error)
            return False
        return True

    if not arena.wait(done, 60.0):
        raise TimeoutError(f"could not {what}: {last}")


def _delete_topic(arena: Arena) -> None:
    def gone() -> bool:
        try:
            arena.stack.admin.delete_topics([DOOMED.topic])[DOOMED.topic].result(_REQUEST_S)
        except KafkaException as error:
            return "UNKNOWN_TOPIC" in error.args[0].name()
        except TimeoutError:
            return False
        return False

    if not arena.wait(gone, 60.0):
        raise TimeoutError("the topic could not be deleted")


def create_topic(
    arena: Arena, topic: str, partitions: int, config: dict[str, str] | None = None
) -> None:
    """Creates a topic, whatever it takes."""

    def there() -> bool:
        try:
            asked = NewTopic(topic, partitions, config=config or {})
            arena.stack.admin.create_topics([asked])[topic].result(_REQUEST_S)
        except KafkaException as error:
            return bool(error.args[0].name() == "TOPIC_ALREADY_EXISTS")
        except TimeoutError:
            return False
        return False

    if not arena.wait(there, 60.0):
        raise TimeoutError(f"topic {topic} could not be created")


def follow(arena: Arena, topic: str) -> str:
    found: list[str] = []

    def followed() -> bool:
        try:
            found.append(arena.oracle.follow(topic))
        except (KafkaException, TimeoutError):
            return False
        return True

    if not arena.wait(followed, 60.0):
        raise TimeoutError(f"topic {topic} cannot be followed")
    return found[0]


LANES: dict[str, dict[str, Fault]] = {
    "topics": {
        "Kafka: partition added": add_partition,
        "Kafka: DeleteRecords below the boundary": on_any(delete_below),
        "Kafka: DeleteRecords at the boundary": on_any(delete_at),
        "Kafka: DeleteRecords during a scan": on_any(delete_during_scan),
        "Kafka: compaction and tombstones": compact,
        "Kafka: poison records": poison,
    },
    "odd records": {
        "Kafka: null, equal and unreadable headers": odd_headers,
        "Kafka: negative, future and unordered times": odd_times,
    },
    "recreation": {
        "Kafka: topic created again": recreate_topic,
        "Kafka: topic created again under reads": recreate_under_reads,
    },
    "trimming": {"Kafka: DeleteRecords above the boundary": delete_above},
}
