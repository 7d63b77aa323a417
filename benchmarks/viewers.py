"""A dashboard that many people look at: what fifty viewers cost a gateway, against one.

Every viewer asks each panel every two seconds with freshness `bounded '1s'`, while rows arrive. So
a panel is computed about once a second at most, however many look at it. The figures are processor
time of the gateway, with all its processes, per second; one viewer and many take turns.

    python benchmarks/viewers.py [--cold 5000000] [--hot 100000] [--viewers 50] [--rounds 3]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import statistics
import threading
import time

from confluent_kafka import Producer
from dashboard import PANELS
from harness import cpu_s, verdict_of, write
from queries import COLUMNS, PARTITIONS, ROWS, send
from stand import Stand, say, stand

import seamline

EVERY_S, ROUND_S = 2.0, 10.0
HOT_A_SECOND = 500
GOAL = 3.0
"""Many viewers may cost this multiple of one."""


def main() -> None:
    """Runs it."""
    options = argparse.ArgumentParser()
    options.add_argument("--cold", type=int, default=5_000_000)
    options.add_argument("--hot", type=int, default=100_000)
    options.add_argument("--viewers", type=int, default=50)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    with stand() as running:
        running.create("sales", COLUMNS, "--key", "id", partitions=PARTITIONS)
        running.fill_table("sales", chosen.cold, ROWS)
        producer = Producer({"bootstrap.servers": running.bootstrap_servers})
        send(producer, chosen.cold, chosen.hot)
        check(running)
        stops = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            produced = pool.submit(produce, producer, chosen.cold + chosen.hot, stops)
            costs: dict[int, list[tuple[float, float]]] = {1: [], chosen.viewers: []}
            look(running, 1)  # and the caches are warm
            for number in range(chosen.rounds):
                say(f"round {number + 1} of {chosen.rounds}")
                for viewers, figures in costs.items():
                    figures.append(look(running, viewers))
            stops.set()
            produced.result()
    one, many = (statistics.median(cpu for cpu, _ in costs[n]) for n in (1, chosen.viewers))
    lines = ["| viewers | CPU a second | statements a second |", "|---|---|---|"]
    for viewers, figures in costs.items():
        cpu, rate = (statistics.median(column) for column in zip(*figures, strict=True))
        lines.append(f"| {viewers} | {cpu:.2f} s | {rate:.0f} |")
    lines.append("")
    lines.append(f"ratio {many / one:.1f}, goal {GOAL:g}: {verdict_of(many <= GOAL * one)}")
    print("\n".join(lines))
    body = {"cold": chosen.cold, "hot": chosen.hot, "costs": list(costs.items())}
    write("viewers", body, "\n".join(lines))


def check(running: Stand) -> None:
    """Requires that panels are the same whether or not earlier results are used."""
    with seamline.connect(running.url) as connection:
        for sql in PANELS:
            connection.execute("SET SESSION result_cache = 'off'")
            computed = connection.execute(sql).fetchall()
            connection.execute("SET SESSION result_cache = 'on'")
            assert connection.execute(sql, freshness="bounded '1s'").fetchall() == computed, sql


def produce(producer: Producer, start: int, stops: threading.Event) -> None:
    """Produces sales at a steady rate."""
    while not stops.wait(1.0):
        send(producer, start, HOT_A_SECOND)
        start += HOT_A_SECOND


def look(running: Stand, viewers: int) -> tuple[float, float]:
    """Returns the gateway's seconds of processor time, and statements, of a second."""
    begins = time.monotonic()
    cpu = cpu_s(running.gateway.processes)
    with concurrent.futures.ThreadPoolExecutor(viewers) as pool:
        counts = list(pool.map(lambda n: viewer(running, begins, n / viewers), range(viewers)))
    took = time.monotonic() - begins
    return (cpu_s(running.gateway.processes) - cpu) / took, sum(counts) / took


def viewer(running: Stand, begins: float, share: float) -> int:
    """Looks for one round, beginning at a share of an interval; returns how often it asked."""
    statements = 0
    with seamline.connect(running.url) as connection:
        for turn in range(int(ROUND_S / EVERY_S)):
            due = begins + (turn + share) * EVERY_S
            time.sleep(max(0.0, due - time.monotonic()))
            for sql in PANELS:
                connection.execute(sql, freshness="bounded '1s'").fetchall()
                statements += 1
    return statements


if __name__ == "__main__":
    main()
