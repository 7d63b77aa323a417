"""Faults of processes, of brokers among each other, and of the network before them."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence

from confluent_kafka import ElectionType

from chaos.arena import AT_WORK, READY_S, Arena, NotInjectedError
from chaos.brokers import CUT, NUMBERS, Network
from chaos.history import Lagged
from chaos.processes import Process, behind_others
from chaos.proxy import Mode, Proxy
from chaos.readers import SQL
from chaos.tables import EVOLVING, FOREIGN, PLAIN, QUIET, STATES, TRANSACTIONAL, Table

Fault = Callable[[Arena, random.Random], str]
_BYTES_S = 8.0
"""How long the network waits for something to spoil."""
_SETTLED_S = 1.0
"""After a broker was let in again: others may still send clients to where it led."""
_VIEW_S = 20.0
_TIER_S = 180.0
_REQUEST_S = 10.0
_CLIENTS = 8
"""Clients that are tried until one is met while its statement runs."""

MODES: dict[str, Mode] = {
    "network: drop": Mode(swallow_requests=True, swallow_replies=True),
    "network: delay": Mode(delay_s=0.15),
    "network: reset mid-reply": Mode(reset_replies=True),
    "network: half-open": Mode(swallow_replies=True),
    "network: throttle": Mode(bytes_per_s=4_000),
}


def _when_back(arena: Arena, process: Process, state: str) -> str:
    """Waits until a process works again: faults of one lane do not pile up."""
    back = process.is_ready_within(READY_S, arena.ended)
    after = "" if back else f", not back within {READY_S:g} s"
    return f"{process.name}, {state}{after}"


def kill(
    choose: Callable[[Arena, random.Random], Process],
    measure: Callable[[Arena], object] | None = None,
) -> Fault:
    """Ends a process without warning; it is started again at once.

    Args:
        choose: Which one.
        measure: How far it has come; waited for a while to change since the last time.
    """
    last: object = None

    def fault(arena: Arena, chance: random.Random) -> str:
        nonlocal last
        process = choose(arena, chance)
        state = AT_WORK
        if measure is not None:
            state = arena.let_it_work(lambda: measure(arena), last)
        process.kill_and_restart()
        if measure is not None:
            last = measure(arena)
        return _when_back(arena, process, state)

    return fault


def restart(choose: Callable[[Arena, random.Random], Process]) -> Fault:
    """Asks a process to end, and starts it again."""

    def fault(arena: Arena, chance: random.Random) -> str:
        process = choose(arena, chance)
        state = arena.let_it_work(arena.answers, arena.answers())
        process.stop_and_restart()
        return _when_back(arena, process, state)

    return fault


def replace_gateways(arena: Arena, chance: random.Random) -> str:
    """Restarts the gateways one after another, as a platform rolls out a new version."""
    for process in chance.sample(arena.stack.gateways, len(arena.stack.gateways)):
        process.stop_and_restart()
        if not process.is_ready_within(READY_S, arena.ended):
            return f"{process.name} was not back within {READY_S:g} s"
    return "both, one after the other"


def pause(choose: Callable[[Arena, random.Random], Process], longest_s: float) -> Fault:
    """Stops a process for a moment."""

    def fault(arena: Arena, chance: random.Random) -> str:
        process = choose(arena, chance)
        process.pause()
        try:
            arena.last(chance.uniform(0.3, longest_s))
        finally:
            process.resume()
        return process.name

    return fault


@contextlib.contextmanager
def lagging(arena: Arena, number: int) -> Iterator[None]:
    """The block may leave a broker with an old view; waits until it has a new one."""
    invoked = time.monotonic()
    try:
        yield
    finally:
        arena.wait(lambda: arena.stack.brokers.is_known(number), READY_S)
        arena.recorder.record(Lagged(number, invoked, time.monotonic() + _SETTLED_S))


@contextlib.contextmanager
def _one_view(arena: Arena) -> Iterator[None]:
    if not arena.one_view.acquire(timeout=_VIEW_S):
        raise NotInjectedError("somebody needs all brokers to agree")
    try:
        yield
    finally:
        arena.one_view.release()


def pause_broker(arena: Arena, chance: random.Random) -> str:
    """Stops a broker until others lead in its place; it continues as if it still did."""
    number = chance.choice(NUMBERS)
    process = arena.stack.brokers.processes[number]
    with _one_view(arena), lagging(arena, number):
        process.pause()
        try:
            arena.last(chance.uniform(0.5, 8.0))
        finally:
            process.resume()
    return process.name


def cut_off(arena: Arena, chance: random.Random) -> str:
    """Lets a broker continue without the controller, which lets others lead in its place."""
    number = chance.choice(arena.stack.brokers.linked)
    link = arena.stack.brokers.link(number)
    with _one_view(arena), lagging(arena, number):
        link.behave(CUT)
        try:
            arena.last(chance.uniform(4.5, 9.0))
        finally:
            link.heal()
    return f"broker {number}"


def move_leaders(arena: Arena, chance: random.Random) -> str:
    """Returns every partition to its preferred leader."""
    elected = arena.stack.admin.elect_leaders(ElectionType.PREFERRED, None).result(_REQUEST_S)
    moved = sum(error is None for error in elected.values())
    if not moved:
        raise NotInjectedError("every leader is where it belongs")
    return f"{moved} partitions"


def misbehave(
    mode: Mode,
    network: Callable[[Arena], Network | Proxy] = lambda arena: arena.stack.network,
    longest_s: float = 1.8,
) -> Fault:
    """Lets a network misbehave for a moment."""

    def fault(arena: Arena, chance: random.Random) -> str:
        attacked = network(arena)
        attacked.behave(mode)
        try:
            arena.last(chance.uniform(0.6, longest_s))
            arena.wait(lambda: bool(attacked.hits) or arena.ended.is_set(), _BYTES_S)
        finally:
            hits = attacked.heal()
        if not hits:
            raise NotInjectedError("no byte passed while it lasted")
        return f"{hits} pieces"

    return fault


def client_gone(arena: Arena, chance: random.Random) -> str:
    """A client that is killed while its statement runs."""
    process = _running_client(arena, chance)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return "killed"


def client_paused(arena: Arena, chance: random.Random) -> str:
    """A client that stops while its statement runs, and continues."""
    process = _running_client(arena, chance)
    try:
        os.killpg(process.pid, signal.SIGSTOP)
        arena.last(chance.uniform(0.5, 1.5))
        os.killpg(process.pid, signal.SIGCONT)
        process.wait(60)
    except subprocess.TimeoutExpired:
        return "paused, and ended after half a minute"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return "paused"


def _running_client(arena: Arena, chance: random.Random) -> subprocess.Popen[bytes]:
    for _ in range(_CLIENTS):
        process = _client(arena, chance)
        try:
            process.wait(chance.uniform(0.5, 2.0))
        except subprocess.TimeoutExpired:
            return process
    raise NotInjectedError(f"{_CLIENTS} had ended before")


def _client(arena: Arena, chance: random.Random) -> subprocess.Popen[bytes]:
    table = chance.choice([PLAIN, TRANSACTIONAL, FOREIGN])
    statement = SQL["rows"].format(table=table.name, where="")
    command = arena.stack.command("query", statement, "--url", arena.stack.url, "--format", "csv")
    return subprocess.Popen(
        command,
        env=dict(arena.stack.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _maintenance(
    arena: Arena,
    chance: random.Random,
    of: Sequence[Table] = (PLAIN, TRANSACTIONAL, FOREIGN, STATES, EVOLVING),
) -> subprocess.Popen[bytes]:
    table = chance.choice(of).name
    options = ("--expire-older-than", "3s", "--retain-last", "2")
    return _on_other_spark(arena, "table", "maintain", table, *options)


_ENGINES = itertools.cycle(("spark", "local"))


def tier_once(arena: Arena, table: Table) -> None:
    """Tiers what is in the log now: on Spark, and the next time without it."""
    process = _on_other_spark(arena, "tier", table.name, "--once", "--engine", next(_ENGINES))
    if status := process.wait(_TIER_S):
        raise OSError(f"tiering {table.name} once ended with {status}")


def _on_other_spark(arena: Arena, *arguments: str) -> subprocess.Popen[bytes]:
    """A command of the product that works with the Spark that is not attacked."""
    with (arena.stack.directory / "commands.log").open("ab") as log:
        return subprocess.Popen(
            behind_others(arena.stack.command(*arguments)),
            env={**arena.stack.environment, "SEAMLINE_SPARK__REMOTE": arena.stack.other_spark_url},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def maintain(arena: Arena, chance: random.Random) -> str:
    """Compaction, manifests and expiry of a table, as the product's command does them."""
    _see_through(arena, _maintenance(arena, chance))
    return "one table"


def maintain_quiet(arena: Arena, chance: random.Random) -> None:
    """The same for the table that nothing else happens to."""
    _see_through(arena, _maintenance(arena, chance, (QUIET,)))


def _see_through(arena: Arena, process: subprocess.Popen[bytes]) -> None:
    try:
        arena.wait(lambda: process.poll() is not None or arena.ended.is_set(), 90)
        status = process.poll()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if status is None:
        raise NotInjectedError("it did not end in time")
    if status:
        raise NotInjectedError(f"it ended with {status}")


def maintain_killed(arena: Arena, chance: random.Random) -> str:
    """Maintenance that is killed in the middle of something."""
    process = _maintenance(arena, chance)
    try:
        process.wait(chance.uniform(1.5, 5.0))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "killed"
    raise NotInjectedError("it had ended before")


def _producer(arena: Arena, chance: random.Random) -> Process:
    return chance.choice(arena.producers)


def _tierer(arena: Arena, chance: random.Random) -> Process:
    return chance.choice([arena.stack.tierer, arena.stack.tierer, arena.stack.other_tierer])


def _broker(arena: Arena, chance: random.Random) -> Process:
    return arena.stack.brokers.processes[chance.choice(NUMBERS)]


def _gateway(arena: Arena, chance: random.Random) -> Process:
    return chance.choice([arena.stack.gateway, arena.stack.gateway, arena.stack.narrow_gateway])


def _anything(arena: Arena, chance: random.Random) -> Process:
    return chance.choice(arena.stack.processes)


LANES: dict[str, dict[str, Fault]] = {
    "broker": {
        "broker: kill -9": kill(_broker, Arena.answers),
        "broker: stop and continue, others lead": pause_broker,
        "broker: cut off from the controller": cut_off,
        "broker: leaders move back": move_leaders,
    },
    "network": {name: misbehave(mode) for name, mode in MODES.items()},
    "tierer": {
        "tiering driver: kill -9": kill(_tierer, Arena.commits),
        "tiering driver: stop and continue": pause(_tierer, 2.0),
    },
    "spark": {
        "Spark JVM: kill -9": kill(lambda arena, _: arena.stack.spark, Arena.commits),
        "Spark JVM: stop and continue": pause(lambda arena, _: arena.stack.spark, 2.5),
    },
    "gateway": {
        "gateway: kill -9": kill(_gateway, Arena.answers),
        "gateway: stop and continue": pause(_gateway, 1.5),
        "gateways: replaced one after another": replace_gateways,
    },
    "restarts": {"orderly restart of one of them": restart(_anything)},
    "producers": {
        "producer: kill -9": kill(_producer),
        "producer: stop and continue": pause(_producer, 2.0),
    },
    "clients": {
        "client: kill -9": client_gone,
        "client: stop and continue": client_paused,
    },
    "maintenance": {
        "Iceberg: rewrite_data_files, rewrite_manifests, expire_snapshots": maintain,
        "maintenance: kill -9": maintain_killed,
    },
}
