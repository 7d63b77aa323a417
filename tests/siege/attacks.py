"""The attacks: each runs until it is told to stop, and expects nothing but named errors."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import random
import resource
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from multiprocessing.synchronize import Event

import psutil

import seamline
from siege.fortress import TABLE, Target

BOMBS = (
    # memory, in DuckDB's own structures and in what it does not count
    "SELECT length(array_join(array_agg(rpad(text, 1000000, 'x')), ',')) FROM {t}",
    "SELECT cardinality(array_agg(repeat(id, 10000))) FROM {t}",
    "SELECT map_agg(id, rpad(text, 100000, 'x')) FROM {t}",
    "SELECT count(*) FROM (SELECT DISTINCT a.id, b.id AS o, a.text || b.text FROM {t} a, {t} b)",
    "SELECT json_format(CAST(array_agg(a.text) AS json)) FROM {t} a, {t} b WHERE a.id % 20 = 0",
    # time
    "SELECT count(*) FROM {t} a, {t} b, {t} c WHERE a.id + b.id + c.id = -1",
    "SELECT sum(length(json_extract_scalar('[' || a.id || ']', '$[0]'))) FROM {t} a, {t} b",
    "SELECT count(*) FROM {t} WHERE regexp_like(rpad(text, 50000, 'a'), '(a|aa|aaa){{20}}$')",
    # results
    "SELECT a.*, b.* FROM {t} a, {t} b",
    "SELECT rpad(text, 100000, 'x') FROM {t}",
    # texts
    "SELECT " + "(" * 3000 + "1" + ")" * 3000,
    "SELECT " + "CAST(" * 200 + "1" + " AS varchar)" * 200,
    "SELECT 1 WHERE 1 IN (" + ", ".join(map(str, range(100_000))) + ")",
    "SELECT " + "substr(" * 60 + "'x'" + ", 1)" * 60,
    "SELECT DECIMAL '1E1000000000'",
    "SELECT " + " + ".join(f"{n}" for n in range(20_000)),
    " UNION ALL ".join("SELECT 1" for _ in range(3000)),
)

_BEGINNINGS = (b"", b"GET", b"POST /api/v1/statements HTTP/1.1\r\nHost: x\r\n")

Attack = Callable[[Target, Event, random.Random], None]


def slow_requests(target: Target, over: Event, draw: random.Random) -> None:
    """Connections that send a byte now and then, or none, and never a whole request."""
    with contextlib.ExitStack() as held:
        sockets = []
        for _ in range(100):
            one = held.enter_context(socket.create_connection(target.address, 10))
            one.sendall(draw.choice(_BEGINNINGS))
            sockets.append(one)
        while not over.wait(1.0):
            for number, one in enumerate(sockets):
                try:
                    one.sendall(b"x")
                except OSError:  # it was disconnected
                    one.close()
                    with contextlib.suppress(OSError):
                        sockets[number] = held.enter_context(
                            socket.create_connection(target.address, 10)
                        )


def bombs(target: Target, over: Event, draw: random.Random) -> None:
    """Statements that request more than there is."""

    def throw(number: int) -> None:
        own = random.Random(f"{draw.random()} {number}")
        with target.connect("bomber") as connection:
            while not over.is_set():
                sql = own.choice(BOMBS).format(t=TABLE)
                with contextlib.suppress(seamline.Error), connection.cursor() as cursor:
                    cursor.execute(sql, timeout=own.choice([5, 20]))
                    cursor.fetchmany(10)

    _together(throw, 6)


def greed(target: Target, over: Event, _: random.Random) -> None:
    """More statements than anybody may have, whose results nobody fetches."""

    def want(number: int) -> None:
        for kind in itertools.cycle(range(3)):
            if over.is_set():
                return
            with contextlib.suppress(seamline.Error), target.connect("greedy") as connection:
                cursors = [connection.cursor() for _ in range(20)]
                for cursor in cursors[: 1 if kind else 20]:
                    cursor.execute(f"SELECT id, text, {number} AS n FROM {TABLE}", timeout=20)
                over.wait(0.2)

    _together(want, 8)


def murder(target: Target, over: Event, draw: random.Random) -> None:
    """Processes of statements are killed, now and then the one that forks them as well."""
    while not over.wait(draw.uniform(1.0, 3.0)):
        forking = target.forking()
        workers = [child for one in forking for child in one.children()]
        for victim in draw.sample(workers, min(1, len(workers))) + (
            forking if draw.random() < 0.1 else []
        ):
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()


def full_disk(target: Target, over: Event, draw: random.Random) -> None:
    """For a while, files of the gateway cannot grow."""
    process = target.pid
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    while not over.wait(draw.uniform(5.0, 10.0)):
        resource.prlimit(process, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        over.wait(draw.uniform(2.0, 5.0))
        resource.prlimit(process, resource.RLIMIT_FSIZE, unlimited)


ATTACKS: dict[str, Attack] = {
    "slow requests": slow_requests,
    "bombs": bombs,
    "greed": greed,
    "killed processes": murder,
    "full disk": full_disk,
}


def _together(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def under_attack(target: Target, seed: int, names: Collection[str]) -> Iterator[None]:
    """All of these at once, as long as the block lasts.

    Attackers have machines of their own: here, a process that takes what processors nobody else
    needs.
    """
    spawning = multiprocessing.get_context("spawn")
    over = spawning.Event()
    attackers = spawning.Process(target=_attack, args=(target, seed, tuple(names), over))
    attackers.start()
    try:
        yield
    finally:
        over.set()
        attackers.join(150)
        attackers.kill()


def _attack(target: Target, seed: int, names: Collection[str], over: Event) -> None:
    os.nice(19)
    threads = [
        threading.Thread(target=ATTACKS[name], args=(target, over, random.Random(f"{seed} {name}")))
        for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
