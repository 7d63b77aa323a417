"""The tail: how fast a follower reads it, what the next statement costs, and how fresh that is.

cold       a cold follower, log to Arrow, against the same consumer dropping every message
again      a statement after 1 % more has arrived, against the first one
freshness  from the acknowledgement to the row in an answer over HTTP, against one fetch
busy       the same while other processes want all cores
spilled    a statement over a tail that does not fit into its budget, against one that does

python benchmarks/tail.py [--records 5000000] [--probes 300] [--only cold,again,freshness,busy]
python benchmarks/tail.py --only spilled [--spilled-records 18000000] [--budget-mb 512]
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from harness import REPEATS, Timing, compare, report, verdict_of, write
from stand import Stand, as_computed, say, stand

import seamline
from seamline.connectors.kafka.cluster import Cluster
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.subscription import MESSAGES_MAX
from seamline.gateway.access.rights import Principal
from seamline.gateway.app.wiring import Gateway
from seamline.gateway.catalogs import resolution
from seamline.gateway.config.file_locations import FILE_NAME
from seamline.gateway.config.load import load
from seamline.gateway.deadline import no_deadline
from seamline.gateway.memory import settle_memory
from seamline.gateway.query.gather import Gatherer
from seamline.gateway.query.pin import PinnedTable
from seamline.gateway.statements.statement import StatementRequest
from seamline.gateway.tail.follower import READERS
from seamline.gateway.tail.segments import Segment, build, merge
from seamline.gateway.tail.source import RowSource
from seamline.planners.plan.physical import TailRead
from seamline.seam.log import READ_COMMITTED
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.sql.binder.qualify import TableReference

SQL = "SELECT count(*), sum(price) FROM bids"
RATES = (1_000, 10_000)
COLD_GOAL = 1 / 0.6
AGAIN_GOAL = 0.03
FRESH_GOAL_S = 0.05
BUSY_GOAL_S = 0.1
SPILLED_GOAL = 2.0
SPILLED_SPARE_BYTES = 300 << 20
SPILLED_SQL = "SELECT channel, count(*), sum(price), max(url) FROM bids GROUP BY channel"
_ROOMY_BYTES = 16 << 30
_WARM_UP_RECORDS = 100_000
_BUSY_FIRST = 1_000_000_000
SEGMENTS_MERGED = 8


def main() -> None:
    """Runs them."""
    options = argparse.ArgumentParser()
    options.add_argument("--records", type=int, default=5_000_000)
    options.add_argument("--probes", type=int, default=300)
    options.add_argument("--repeats", type=int, default=REPEATS)
    options.add_argument("--spilled-records", type=int, default=18_000_000)
    options.add_argument("--budget-mb", type=int, default=512)
    options.add_argument("--only", default="freshness,busy,cold,again,spilled")
    chosen = options.parse_args()
    wanted = set(chosen.only.split(","))
    with stand() as running:
        running.produce(min(_WARM_UP_RECORDS, chosen.records))
        if wanted & {"freshness", "busy"}:
            running.create("probes", "id bigint", partitions=2)
        for only, busy in (("freshness", False), ("busy", True)):
            if only in wanted:
                freshness(running, chosen.probes, busy=busy)
        if wanted & {"cold", "again"}:
            running.produce(max(0, chosen.records - running.producer.sent))
            with service(running.directory, 8 << 30) as own:
                if "cold" in wanted:
                    cold(own, chosen.repeats)
                if "again" in wanted:
                    again(running, own, chosen.repeats)
        if "spilled" in wanted:
            running.produce(max(0, chosen.spilled_records - running.producer.sent))
            spilled(running, chosen.budget_mb << 20, chosen.repeats)


@contextlib.contextmanager
def service(directory: pathlib.Path, memory_bytes: int) -> Iterator[Gateway]:
    """A gateway in this process, over the stack in a folder."""
    with tempfile.TemporaryDirectory(prefix="seamline-bench-") as state:
        config = load(directory / FILE_NAME, environment={}).config
        tail = config.tail.model_copy(update={"memory_bytes": memory_bytes})
        limits = config.limits.model_copy(update={"duckdb_tail_rows_max": 2**60})
        own = Gateway(
            config.model_copy(update={"state_directory": state, "tail": tail, "limits": limits})
        )
        settle_memory()
        try:
            yield own
        finally:
            own.close()


# --- A cold follower -----------------------------------------------------------------------------


def cold(own: Gateway, repeats: int) -> None:
    """Log to Arrow, against dropping."""
    (pinned,) = _pinned(own)
    ends = pinned.facts.seam.end
    notes = {
        "records": sum(ends.values()),
        "partitions": len(ends),
        "load": os.getloadavg(),
    }
    cluster = Cluster(own.config.clusters[own.config.default_cluster])
    ours = functools.partial(follow, own, pinned)
    comparisons = [
        compare(
            f"cold follower, {notes['records']:,} bids, against {threads} dropping",
            ours,
            functools.partial(drop, cluster, dict(ends), threads),
            goal=COLD_GOAL,
            repeats=repeats,
            notes=notes,
            prepare=functools.partial(forget, own),
        )
        for threads in dict.fromkeys((1, READERS))
    ]
    cluster.close()
    report(comparisons, "tail_cold")
    forget(own)  # so that no other reader's time counts
    profile(own, pinned)


def profile(own: Gateway, pinned: PinnedTable) -> None:
    """Where a follower's time goes, per record: its stages one after the other, in one thread."""
    seam = pinned.facts.seam
    assert pinned.facts.decoder is not None
    decoder = Decoder(pinned.facts.decoder)
    source = RowSource(seam.log.topic_id, seam.log.isolation, pinned.facts.decoder, seam.schema_id)
    log = own.connections.log(own.config.default_cluster)
    positions = Offsets(dict.fromkeys(seam.end, 0))
    left = set(seam.end)
    spent: dict[str, float] = collections.defaultdict(float)
    segments: list[Segment] = []

    @contextlib.contextmanager
    def stage(name: str) -> Iterator[None]:
        started = time.thread_time()
        yield
        spent[name] += time.thread_time() - started

    started = time.process_time()
    subscription = log.follow(seam.log.topic, positions, seam.log.isolation, {}, patient=False)
    while left:
        with stage("consuming, and its messages as columns"):
            polled = subscription.poll(0.2)
        for batch in polled.batches:
            partition, end = int(batch.partitions[0]), batch.offsets[-1] + 1
            with stage("JSON to columns"):
                decoder._values.decode(batch.values)
            with stage("JSON to columns, and all of a segment"):
                segments.append(
                    build(source, decoder, batch, OffsetRange(partition, batch.offsets[0], end))
                )
            if len(segments) == SEGMENTS_MERGED:
                with stage("merging segments"):
                    merge(segments)
                segments.clear()
        left -= {p for p, position in polled.positions.items() if position >= seam.end[p]}
    subscription.close()
    json_s = spent["JSON to columns"]
    spent["the rest of a segment"] = spent.pop("JSON to columns, and all of a segment") - json_s
    inside = sum(spent.values())
    spent["threads of the Kafka client"] = time.process_time() - started - inside - json_s
    records = sum(seam.end.values())
    head = "| where a follower's time goes | " + " | ".join(spent) + " |"
    cells = " | ".join(f"{seconds / records * 1e9:.0f} ns" for seconds in spent.values())
    lines = f"{head}\n|{'---|' * (len(spent) + 1)}\n| CPU a record | {cells} |"
    print(lines)
    write("tail_cold_profile", {"records": records, "seconds": dict(spent)}, lines)


def _pinned(own: Gateway) -> list[PinnedTable]:
    session = resolution.session(own.config)
    gatherer = Gatherer(own.connections, own.executor.tails)
    return gatherer.pin([TableReference(("bids",))], session, no_deadline())


def follow(own: Gateway, pinned: PinnedTable) -> int:
    """Records that a new follower holds once it has caught up."""
    seam = pinned.facts.seam
    assert pinned.facts.decoder is not None
    wanted = TailRead(
        seam=seam,
        ranges=seam.hot_ranges,
        decoder=pinned.facts.decoder,
        columns=("price",),
        present=True,
        known_at=time.monotonic(),
    )
    tail = own.executor.tails.get(wanted, no_deadline())
    found = tail.records
    assert tail.origin.offsets_read == 0
    tail.release()
    return found


def forget(own: Gateway) -> None:
    """Stops every follower, so that the next statement finds none."""
    assert own.followers is not None
    for follower in own.followers.all():
        own.followers.stop(follower)
        follower.join(10.0)


def drop(cluster: Cluster, ends: dict[int, int], threads: int) -> int:
    """Messages that the follower's consumer returns when nothing is done with them."""
    counts: list[int] = []

    def run(number: int) -> None:
        ranges = [OffsetRange(p, 0, end) for p, end in ends.items() if p % threads == number]
        left, count = sum(len(r) for r in ranges), 0
        with cluster.consumer(READ_COMMITTED) as consumer:
            consumer.assign([TopicPartition("bids", r.partition, r.start) for r in ranges])
            while count < left:
                first = consumer.poll(0.2)
                if first is not None:
                    messages = [first, *consumer.consume(MESSAGES_MAX - 1, 0)]
                    count += sum(m.error() is None for m in messages)
        counts.append(count)

    workers = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts)


# --- The next statement ---------------------------------------------------------------------------


def again(running: Stand, own: Gateway, repeats: int) -> None:
    """A statement after 1 % more has arrived, against the first one."""
    first: list[tuple[float, float]] = []
    second: list[tuple[float, float]] = []
    for _ in range(repeats):
        forget(own)
        first.append(_query(running, own))
        running.produce(max(1, running.producer.sent // 100))
        second.append(_query(running, own))
    ours, theirs = _timing(second), _timing(first)
    ratio = ours.median_s / theirs.median_s
    low, high = ours.interval_s
    line = (
        f"| again after 1 % more, {running.producer.sent:,} bids | {ours.median_s:.3f} s "
        f"({low:.3f} to {high:.3f}) | {theirs.median_s:.3f} s | {ratio:.3f} "
        f"| ≤ {AGAIN_GOAL:g} {verdict_of(ratio <= AGAIN_GOAL)} |"
    )
    head = "| what | ours | the first | ratio | goal |\n|---|---|---|---|---|\n"
    print(head + line)
    body = {
        "records": running.producer.sent,
        "again": dataclasses.asdict(ours),
        "first": dataclasses.asdict(theirs),
        "ratio": ratio,
        "goal": AGAIN_GOAL,
        "load": os.getloadavg(),
    }
    write("tail_again", body, head + line)


def _query(running: Stand, own: Gateway) -> tuple[float, float]:
    """Seconds that a statement takes, after checking its answer."""
    started, cpu = time.perf_counter(), time.process_time()
    request = StatementRequest(SQL, engine="duckdb", result_cache=False, aggregates="off")
    statement = own.service.submit(request, Principal("benchmark"))
    statement.wait(600)
    found = time.perf_counter() - started, time.process_time() - cpu
    assert statement.error is None, statement.error
    assert statement.receipt["rows_hot"] == running.producer.sent
    assert statement.receipt["tables"][0]["tail"]["offsets_read"] == 0
    return found


def _timing(times: list[tuple[float, float]]) -> Timing:
    return Timing([wall for wall, _ in times], [cpu for _, cpu in times])


# --- A tail on disk ------------------------------------------------------------------------------


def spilled(running: Stand, budget_bytes: int, repeats: int) -> None:
    """A statement over a tail of which most is on disk, against the same one in memory."""
    large = {"SEAMLINE_LIMITS__DUCKDB_TAIL_ROWS_MAX": str(2**60)}
    budgets = {"tight": budget_bytes, "roomy": _ROOMY_BYTES}
    with contextlib.ExitStack() as stack:
        servers, ask = {}, {}
        for name, memory_bytes in budgets.items():
            settings = {**large, "SEAMLINE_TAIL__MEMORY_BYTES": str(memory_bytes)}
            servers[name] = stack.enter_context(running.serve(name, settings))
            connection = stack.enter_context(seamline.connect(servers[name].url))
            as_computed(connection)
            ask[name] = functools.partial(_ask, connection)
            say(f"the {name} gateway reads {running.producer.sent:,} bids")
            ask[name]()
        comparison = compare(
            f"tail of {running.producer.sent:,} bids, budget {budget_bytes >> 20} MB",
            ask["tight"],
            ask["roomy"],
            goal=SPILLED_GOAL,
            processes=[p for server in servers.values() for p in server.processes],
            repeats=repeats,
            notes={"sql": SPILLED_SQL, "records": running.producer.sent, "load": os.getloadavg()},
        )
        tail = ask["tight"].args[0].execute('SELECT * FROM "bids$tail"')
        held = [dict(zip([d[0] for d in tail.description], row, strict=True)) for row in tail]
        peaks = {name: server.peak_bytes() for name, server in servers.items()}
    report([comparison], "tail_spilled")
    limit = budget_bytes + SPILLED_SPARE_BYTES
    line = (
        f"memory at most {peaks['tight'] >> 20:,} MB with the budget, {peaks['roomy'] >> 20:,} MB "
        f"without (goal {limit >> 20:,} MB: {verdict_of(peaks['tight'] <= limit)})"
    )
    print(line)
    write("tail_spilled_memory", {"peak_bytes": peaks, "held": str(held)}, line)


def _ask(connection: seamline.Connection) -> list[tuple[Any, ...]]:
    cursor = connection.execute(SPILLED_SQL, engine="duckdb")
    found = sorted(cursor.fetchall())
    assert cursor.receipt["tables"][0]["tail"]["offsets_read"] == 0, cursor.receipt
    return found


# --- Freshness -----------------------------------------------------------------------------------


def freshness(running: Stand, probes: int, *, busy: bool = False) -> None:
    """From the acknowledgement to the row in an answer, against one fetch, at some rates.

    Args:
        running: The gateway and its broker.
        probes: How many records are waited for at each rate.
        busy: Whether other processes want all cores meanwhile.
    """
    goal_s = BUSY_GOAL_S if busy else FRESH_GOAL_S
    rows = [
        "| what | p50 ours | p99 ours | p50 fetch | p99 fetch | goal |",
        "|---|---|---|---|---|---|",
    ]
    body: dict[str, Any] = {"probes": probes, "goal_s": goal_s, "load": os.getloadavg()}
    for rate in RATES:
        with _steady(running, rate), _busy(os.cpu_count() or 1 if busy else 0):
            ours, fetch = _probe(running, probes, rate * 1000 + (_BUSY_FIRST if busy else 0))
        over = _quantile(ours, 0.99) - _quantile(fetch, 0.99)
        verdict = verdict_of(over <= goal_s)
        cells = [
            f"{_quantile(side, q) * 1000:.1f} ms" for side in (ours, fetch) for q in (0.5, 0.99)
        ]
        rows.append(
            f"| acknowledged to visible, {rate:,} messages/s{', busy cores' if busy else ''} "
            f"| {' | '.join(cells)} "
            f"| p99 ≤ {goal_s * 1000:.0f} ms over the fetch: {over * 1000:.1f} ms {verdict} |"
        )
        body[str(rate)] = {"ours_s": ours, "fetch_s": fetch, "over_s": over}
    print("\n".join(rows))
    write("tail_freshness_busy" if busy else "tail_freshness", body, "\n".join(rows))


@contextlib.contextmanager
def _busy(cores: int) -> Iterator[None]:
    """So many processes that do nothing but take processor time."""
    spin = "while True: pass"
    processes = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(cores)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait(30)


def _probe(running: Stand, probes: int, first: int) -> tuple[list[float], list[float]]:
    """Seconds from each probe's acknowledgement to its row, and to a consumer that waits for it."""
    seen: dict[bytes, float] = {}
    stop = threading.Event()
    waiting = threading.Thread(target=_fetch, args=(running, seen, stop))
    waiting.start()
    producer = Producer({"bootstrap.servers": running.bootstrap_servers, "linger.ms": 0})
    ours: list[float] = []
    acknowledged: list[float] = []
    sql = "SELECT count(*) FROM probes WHERE id = ?"
    with seamline.connect(running.url) as connection:
        connection.execute(sql, [-1])
        for number in range(probes):
            key = str(first + number).encode()
            value = f'{{"id": {first + number}}}'.encode()
            producer.produce("probes", value, key=key, partition=0)
            assert producer.flush(30) == 0
            acknowledged.append(time.perf_counter())
            rows = connection.execute(sql, [first + number]).fetchall()
            ours.append(time.perf_counter() - acknowledged[-1])
            assert rows == [(1,)], (number, rows)
        while len(seen) < probes:
            time.sleep(0.01)
    stop.set()
    waiting.join()
    fetch = [
        max(0.0, seen[str(first + number).encode()] - at) for number, at in enumerate(acknowledged)
    ]
    return ours, fetch


def _fetch(running: Stand, seen: dict[bytes, float], stop: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": running.bootstrap_servers,
            "group.id": "benchmark",
            "enable.auto.commit": False,
        }
    )
    _, end = consumer.get_watermark_offsets(TopicPartition("probes", 0))
    consumer.assign([TopicPartition("probes", 0, end)])
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None and message.key() is not None:
            seen[message.key()] = time.perf_counter()
    consumer.close()


@contextlib.contextmanager
def _steady(running: Stand, rate: int) -> Iterator[None]:
    """A table `probes` that gets that many messages a second from a separate process."""
    script = pathlib.Path(__file__).with_name("steady.py")
    process = subprocess.Popen(
        [sys.executable, str(script), running.bootstrap_servers, "probes", str(rate)],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    say(f"probing at {rate:,} messages/s")
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def _quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


if __name__ == "__main__":
    main()
