"""One run: the stack comes up, everything moves, the nemesis does its worst, the checker judges.

At the end everything is healed, the pipeline must catch up, and every table is read once more on
both engines, before the history is judged.
"""

from __future__ import annotations

import collections
import itertools
import json
import pathlib
import random
import sys
import threading
import time
from collections.abc import Callable

from confluent_kafka import KafkaException

from chaos import (
    iceberg_faults,
    kafka_faults,
    process_faults,
    quiet_faults,
    schema_faults,
    sink,
    tables,
    writer_faults,
)
from chaos.arena import RECOVERING, Arena, NotInjectedError
from chaos.engine_readers import CatalogReader, SourceReader
from chaos.followers import ChangesFollower
from chaos.history import Injected, Read, Recorder, from_line
from chaos.oracle import LogFollower
from chaos.process_faults import Fault
from chaos.processes import Process, behind_others
from chaos.readers import Client, Memory, Reader, Session, Worker, Writer
from chaos.schedule import Decision, schedule
from chaos.schemas import NotedRegistry, reader_of
from chaos.stack import ChaosStack
from chaos.tables import (
    ADOPTED,
    ALL,
    CAPTURED,
    COMPACTED,
    COMPACTED_STATES,
    EVOLVING,
    FOREIGN,
    NULLING,
    PLAIN,
    QUIET,
    SACRIFICED,
    SINK,
    SKIPPING,
    STATES,
    TRANSACTIONAL,
    Table,
)
from seamline.errors import SeamlineError
from seamline.gateway.dev.local.settings import CATALOG, SCHEMA, catalog_config

LANES: dict[str, dict[str, Fault]] = {
    **process_faults.LANES,
    **kafka_faults.LANES,
    **iceberg_faults.LANES,
    **quiet_faults.LANES,
    **schema_faults.LANES,
    **writer_faults.LANES,
}

_FIRST, _SECOND = (0.0, 0.45), (0.5, 0.95)
WINDOWS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("tierer", "spark", "restarts"), _FIRST),
    **dict.fromkeys(("broker", "gateway", "topics", "other engine"), _SECOND),
}
"""What ends Spark and the pipeline comes first in a round; in the rest of it they can work."""
_ID_BLOCK = 10_000_000
_FIRST_S = 150.0
_CATCH_UP_S = 300.0
_ANSWERS = 3
_BREATH_S = 60.0
"""A lane waits until so many reads were answered since its last fault, but no longer than this: a
machine that only restarts what was killed shows nothing."""
_SHOW_S = 10.0
_TABLES = tuple(table for table in ALL if table not in SACRIFICED)
_FILLED = tuple(table for table in _TABLES if table is not QUIET)
_TIERED = tuple(table for table in _FILLED if not table.provider)
_STREAMED = tuple(table for table in _TABLES if not table.provider and not table.is_upsert)
_STEADY = tuple(table for table in _TABLES if not table.errors)
"""Those that do not force a session to start over."""

Say = Callable[[str], None]


class Run:
    """One run.

    Args:
        seed: The seed of every decision.
        minutes: How long the nemesis is at work.
        directory: Keeps everything.
        say: Takes progress.
        only: Lanes to use; empty for all.
    """

    def __init__(
        self, seed: int, minutes: float, directory: pathlib.Path, say: Say, only: tuple[str, ...]
    ) -> None:
        self._seed = seed
        self._minutes = minutes
        self._say = say
        self._lanes = {name: faults for name, faults in LANES.items() if not only or name in only}
        self.history = directory / "history.jsonl"
        recorder = Recorder(self.history)
        tiered, sacrificed = ([table.name for table in of] for of in (_TIERED, SACRIFICED))
        registry = NotedRegistry(recorder)
        stack = ChaosStack(directory / "stack", tiered, sacrificed, registry.port)
        read_avro = reader_of(registry)
        readers = {table.topic: read_avro for table in ALL if table.has_schemas}
        blocks = itertools.count(1)
        self._blocks: Callable[[], int] = lambda: next(blocks) * _ID_BLOCK
        self._arena = Arena(
            stack=stack,
            registry=registry,
            recorder=recorder,
            oracle=LogFollower(stack.brokers, recorder, readers),
            producers=[],
            sink=self._sink(stack),
            ops=itertools.count(1),
            ids=itertools.count(self._blocks()),
        )
        self.uses: collections.Counter[str] = collections.Counter()
        self.early: collections.Counter[str] = collections.Counter()
        self.failures: dict[str, collections.Counter[str]] = collections.defaultdict(
            collections.Counter
        )
        self.problems: list[str] = []

    @property
    def faults(self) -> list[str]:
        """Every kind of the run, in order."""
        return [fault for faults in self._lanes.values() for fault in faults]

    @property
    def processes(self) -> list[Process]:
        """Everything that is watched."""
        return [*self._arena.stack.processes, *self._arena.producers, self._arena.sink]

    def run(self) -> None:
        """Runs it; what went wrong with the run itself is in `problems`."""
        try:
            self._set_up()
            clients = self._clients()
            for client in clients:
                client.start()
            self._attack(clients)
            self._heal(clients)
        finally:
            self._close()

    # --- Beginning -----------------------------------------------------------------------------

    def _set_up(self) -> None:
        arena = self._arena
        arena.producers += [
            self._producer("plain", [PLAIN.topic, SKIPPING.topic], 0.2),
            self._producer("plain", [FOREIGN.topic, COMPACTED.topic], 0.25),
            self._producer("plain", [STATES.topic, COMPACTED_STATES.topic, ADOPTED.topic], 0.25),
            self._producer("plain", [CAPTURED.topic], 0.3),
            self._producer("transactional", [TRANSACTIONAL.topic], 0.25),
            self._producer("transactional", [TRANSACTIONAL.topic, STATES.topic], 0.35),
            *(self._producer("plain", [EVOLVING.topic], 0.6) for _ in range(2)),
        ]
        self._say("starting brokers, Spark and gateways (a minute, the first time) …")
        arena.stack.start(*arena.producers, arena.sink)
        topic_ids: dict[str, str] = {}
        for table in ALL:
            if table.topic not in topic_ids:
                config = tables.topic_config(table)
                kafka_faults.create_topic(arena, table.topic, table.partitions, config)
                topic_ids[table.topic] = kafka_faults.follow(arena, table.topic)
            if table is not ADOPTED:
                tables.create(arena.stack, table, topic_ids[table.topic], arena.recorder)
        catalog = arena.stack.connections.catalog(CATALOG).pyiceberg
        catalog.create_table((SCHEMA, ADOPTED.name), sink.SCHEMA)
        arena.stack.tierer.start()
        arena.stack.other_tierer.start()
        for producer in (*arena.producers, arena.sink):
            producer.start()
        self._say("waiting until every table is tiered for the first time …")
        self._prepare_quiet_table()
        arena.wait(
            lambda: catalog.load_table((SCHEMA, ADOPTED.name)).current_snapshot() is not None,
            _FIRST_S,
        )
        tables.adopt(arena.stack, ADOPTED, topic_ids[ADOPTED.topic], arena.recorder)
        arena.wait(lambda: all(tables.is_tiered(arena.stack, t) for t in _FILLED), _FIRST_S)
        self._say(f"{len(ALL)} tables; everything under {self.history.parent}")

    def _prepare_quiet_table(self) -> None:
        """Rows in both tiers, and never another one."""
        arena = self._arena
        arena.produce(QUIET.topic, 40)
        process_faults.tier_once(arena, QUIET)
        arena.produce(QUIET.topic, 20)

    def _sink(self, stack: ChaosStack) -> Process:
        """The writer that fills two tables beside us."""
        config = catalog_config(stack.directory)
        spec = {
            "servers": stack.direct_servers,
            "catalog": CATALOG,
            "uri": config.uri,
            "warehouse": config.warehouse,
            "namespace": SCHEMA,
            "topic": ADOPTED.topic,
            "tables": [(t.name, t.provider != "columns", t.places) for t in SINK],
        }
        return Process(
            "other writer",
            lambda: behind_others([sys.executable, "-m", "chaos.sink", json.dumps(spec)]),
            stack.directory / "sink.log",
            stack.environment,
            directory=pathlib.Path(__file__).parent.parent,
        )

    def _producer(self, mode: str, topics: list[str], pause_s: float) -> Process:
        number = len(self._arena.producers) + self._blocks() // _ID_BLOCK
        recorder, stack = self._arena.recorder, self._arena.stack

        def command() -> list[str]:
            first_id = self._blocks()
            spec = {
                "servers": stack.proxied_servers,
                "mode": mode,
                "topics": topics,
                "states": [table.topic for table in ALL if table.is_upsert],
                "captured": [table.topic for table in ALL if table.envelope],
                "registry": self._arena.registry.url if EVOLVING.topic in topics else "",
                "ladder": self._seed,
                "name": f"chaos-{number}",
                "first_id": first_id,
                "seed": f"{self._seed}/{number}/{first_id}",
                "pause_s": pause_s,
            }
            return behind_others([sys.executable, "-m", "chaos.producer", json.dumps(spec)])

        return Process(
            f"producer {number} ({mode})",
            command,
            stack.directory / "producers.log",
            stack.environment,
            output=lambda line: recorder.record(from_line(line)),
            directory=pathlib.Path(__file__).parent.parent,
        )

    def _clients(self) -> list[Worker]:
        arena, stack = self._arena, self._arena.stack
        memory = Memory()

        def reader(name: str, client: Client, whole: bool = True, **shares: float) -> Reader:
            of = ALL if whole else _TABLES
            return Reader(client, of, self._drawn(name), memory, **shares)

        shared = Session("shared", stack.url)
        narrow = arena.client("narrow", url=stack.narrow_url)
        servers = stack.proxied_servers
        return [
            reader("reader-1", arena.client("reader-1")),
            reader("reader-2", arena.client("reader-2"), spark_share=0.1),
            reader("reader-3", arena.client("reader-3"), False, spark_share=0.3, past_share=0.5),
            reader("narrow", narrow, False, spark_share=1.0, past_share=0.1),
            *(
                Reader(arena.client(n, shared), _STEADY, self._drawn(n), memory, cached_share=0.5)
                for n in ("shared-1", "shared-2", "shared-3")
            ),
            CatalogReader(
                arena.client("catalog"),
                _TABLES,
                self._drawn("catalog"),
                stack.url,
                stack.other_spark_url,
            ),
            SourceReader(arena.client("source"), _STREAMED, self._drawn("source"), stack.url),
            *(
                ChangesFollower(arena.client(f"follower-{table.name}"), table)
                for table in (PLAIN, TRANSACTIONAL, NULLING)
            ),
            Writer(arena.client("writer"), servers, arena.recorder, self._blocks()),
        ]

    def _drawn(self, name: str) -> int:
        """A seed for somebody."""
        return random.Random(f"{self._seed}/{name}").getrandbits(32)

    # --- The attack ----------------------------------------------------------------------------

    def _attack(self, clients: list[Worker]) -> None:
        lanes = {name: list(faults) for name, faults in self._lanes.items()}
        plan = schedule(self._seed, self._minutes, lanes, WINDOWS)
        started = time.monotonic()
        threads = [
            threading.Thread(target=self._follow_lane, args=(started, decisions), daemon=True)
            for decisions in plan.values()
        ]
        for thread in threads:
            thread.start()
        while (left := started + 60 * self._minutes - time.monotonic()) > 0:
            self._arena.ended.wait(min(_SHOW_S, left))
            self._show(time.monotonic() - started, clients)
        self._arena.ended.set()
        self._say("no more faults; waiting for those in hand …")
        for thread in threads:
            thread.join()

    def _follow_lane(self, started: float, decisions: list[Decision]) -> None:
        for decision in decisions:
            wait_s = max(0.0, started + decision.at_s - time.monotonic())
            if self._arena.ended.wait(wait_s):
                return
            self._inject(decision)
            self._let_reads_through()

    def _let_reads_through(self) -> None:
        arena = self._arena
        enough = arena.recorder.answered + _ANSWERS
        arena.wait(
            lambda: arena.recorder.answered >= enough or arena.ended.is_set(),
            _BREATH_S,
        )

    def _inject(self, decision: Decision) -> None:
        fault = self._lanes[decision.lane][decision.fault]
        invoked = time.monotonic()
        failure = detail = ""
        try:
            detail = fault(self._arena, random.Random(decision.seed))
            self.uses[decision.fault] += 1
            self.early[decision.fault] += RECOVERING in detail
        except (NotInjectedError, KafkaException, SeamlineError, TimeoutError, OSError) as error:
            failure = f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 - reported; the run goes on
            failure = f"{type(error).__name__}: {error}"
        if failure:
            self.failures[decision.fault][" ".join(failure.split())[:110]] += 1
        self._arena.recorder.record(
            Injected(decision.fault, invoked, time.monotonic(), failure, detail)
        )

    def _show(self, seconds: float, clients: list[Worker]) -> None:
        counts = sum((client.client.counts for client in clients), collections.Counter[str]())
        failed = sum(counts.values()) - counts["ok"]
        deaths = sum(len(process.deaths) for process in self.processes)
        self._say(
            f"{seconds:5.0f} s  reads {counts['ok']} answered, {failed} refused  "
            f"faults {sum(self.uses.values())}  "
            f"not injected {sum(sum(f.values()) for f in self.failures.values())}  "
            f"ended by themselves {deaths}"
        )

    # --- The end -------------------------------------------------------------------------------

    def _heal(self, clients: list[Worker]) -> None:
        arena = self._arena
        self._say("healing: producers stop, the pipeline catches up …")
        for client in clients:
            client.end()
        for producer in arena.producers:
            producer.end()
        for client in clients:
            client.join()
            if client.failure is not None:
                self.problems.append(f"{client.client.name} ended: {client.failure!r}")
        for process in (
            *arena.stack.brokers.processes.values(),
            arena.stack.spark,
            *arena.stack.gateways,
        ):
            process.wait_until_ready(90)
        for table in _FILLED:
            self._catch_up(table)
        final, narrow = arena.client("final"), arena.client("final", url=arena.stack.narrow_url)
        stack = arena.stack
        catalog = CatalogReader(final, (), 0, stack.url, stack.other_spark_url)
        source = SourceReader(final, (), 0, stack.url)
        for table in _TABLES:
            for engine in ("duckdb", "spark"):
                self._read_at_last(table, engine, final.read(table, engine=engine))
            self._read_at_last(table, "Spark's executors", narrow.read(table, engine="spark"))
            if table.is_upsert:
                self._read_at_last(table, "Spark, in the catalog", catalog.read_states(table))
            elif table in _STREAMED:
                self._read_at_last(table, "PyIceberg", catalog.read(table))
                self._read_at_last(table, "the data source", source.read_whole(table))

    def _catch_up(self, table: Table) -> None:
        arena = self._arena

        def tiered() -> bool:
            try:
                ends = arena.oracle.stable_ends(table.topic)
                boundary = tables.boundary(arena.stack, table).next
            except (KafkaException, SeamlineError, TimeoutError):
                return False
            return all(boundary.get(p, 0) >= end for p, end in ends.items())

        if not arena.wait(tiered, _CATCH_UP_S):
            self.problems.append(f"{table.name} was not tiered to its end in {_CATCH_UP_S:g} s")
        if not arena.wait(lambda: arena.oracle.is_caught_up(table.topic), 30.0):
            self.problems.append(f"the independent consumer did not reach the end of {table.topic}")

    def _read_at_last(self, table: Table, engine: str, done: object) -> None:
        if isinstance(done, Read):
            self.problems.append(
                f"{table.name} cannot be read by {engine} after all is healed: "
                f"{done.error}: {done.message}"
            )

    def _close(self) -> None:
        self._arena.ended.set()
        for producer in self._arena.producers:
            producer.end()
        self._arena.sink.end()
        self._arena.oracle.close()
        self._arena.stack.close()
        self._arena.registry.close()
        self._arena.recorder.close()
