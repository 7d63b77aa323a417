"""The demo: a million bids, a live producer, tiering in the background, queries by every route.

Each answer is checked against what the producer knows about exactly the offsets that the answer's
receipt names. In between the pipeline is killed while it writes a batch, and started again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import urllib3
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import seamline
from seamline.connectors import supervision
from seamline.connectors.jvm import jars
from seamline.connectors.supervision import Loop
from seamline.errors import LOCAL_STACK_FAILED, SeamlineError
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.commands import tables
from seamline.gateway.config.file_locations import FILE_NAME
from seamline.gateway.config.load import load
from seamline.gateway.deadline import no_deadline
from seamline.gateway.dev.demo import bids
from seamline.gateway.dev.demo.bids import BidProducer
from seamline.gateway.dev.demo.patience import Patience, signs_of
from seamline.gateway.dev.local.ports import free_port
from seamline.gateway.dev.local.stack import LocalStack
from seamline.gateway.process import uninterrupted
from seamline.planners.explain import seam_bar

HOT_AUCTION = 1003
_LIVE_PER_SECOND = 500
_FIRST_RECORDS = 20_000
"""Bids that are there before anything fills the tables."""
_WRITING = "reading, decoding and writing"

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """A query of the demo, and the answer that it must give at any seam."""

    title: str
    sql: str
    expected: Callable[[Iterator[int]], Sequence[tuple[Any, ...]]]
    engine: str = "auto"


TOTALS = Question(
    "how many bids, and their total value",
    "SELECT count(*), sum(price) FROM bids",
    bids.expected_totals,
)
QUESTIONS = (
    TOTALS,
    Question(
        "the bids of one auction (its key gives the partition)",
        f"SELECT count(*), max(price) FROM bids WHERE auction = {HOT_AUCTION}",
        lambda numbers: bids.expected_of_auction(numbers, HOT_AUCTION),
    ),
    Question(
        "bids by channel",
        "SELECT channel, count(*), sum(price) FROM bids GROUP BY channel ORDER BY channel",
        bids.expected_by_channel,
    ),
    Question(
        "bids by category of their auction",
        "SELECT a.category, count(*) FROM bids b JOIN auctions a ON b.auction = a.id"
        " GROUP BY a.category ORDER BY a.category",
        bids.expected_by_category,
    ),
    Question(
        "the five busiest auctions",
        "SELECT auction, count(*) AS n FROM bids GROUP BY auction ORDER BY n DESC, auction LIMIT 5",
        lambda numbers: bids.expected_top(numbers, 5),
    ),
    Question(
        "bids by channel once more, on Spark",
        "SELECT channel, count(*), sum(price) FROM bids GROUP BY channel ORDER BY channel",
        bids.expected_by_channel,
        engine="spark",
    ),
)


class Filling(Protocol):
    """Fills the tables from their topics while the demo runs queries."""

    def begin(self, demo: Demo, connections: Connections) -> None:
        """Creates the tables, and starts the process that fills them."""

    def is_running(self) -> bool:
        """Returns whether that process still runs."""

    @property
    def session(self) -> int:
        """The session id of its processes."""

    @property
    def log(self) -> str:
        """The name of its log, without the suffix."""

    def kill(self, demo: Demo) -> bool:
        """Kills that process in the middle of a batch; returns whether it did."""

    def restart(self, demo: Demo) -> None:
        """Starts it again after that."""

    def check(self, demo: Demo, connection: seamline.Connection) -> bool:
        """Returns whether the final checks that are specific to this way of filling succeed."""

    def stop(self) -> None:
        """Ends it."""


class Demo:
    """One run of the demo.

    Args:
        directory: Where everything is kept; emptied first.
        records: Number of bids produced before the queries begin.
        say: Called with each line of output.
        report: Called with what is being waited for, and with an empty text after it.
        filling: Fills the tables; None means `Tiering`.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        records: int,
        say: Say,
        report: Say,
        filling: Filling | None = None,
    ) -> None:
        self.directory = directory
        self._records = records
        self.say = say
        self.report = report
        self._filling: Filling = filling or Tiering()
        self._stack = LocalStack(directory)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._live: Loop | None = None

    def run(self, *, keep: bool) -> bool:
        """Runs the demo; returns whether every answer was exact.

        Args:
            keep: Whether to leave everything running when all answers were exact.
        """
        exact = False
        try:
            url = self._prepare()
            exact = self._ask(url)
            if exact and keep:
                self._explain_how_to_connect(url)
                return True
        finally:
            self._end_live()
            if not (exact and keep):
                with uninterrupted():  # nothing may be left running
                    self._stop()
        return exact

    # --- Setting up ----------------------------------------------------------------------------

    def _prepare(self) -> str:
        """Sets up stack, topics, tables, gateway and tiering; returns the gateway's address.

        What takes long to start does so while bids are produced.
        """
        if (self.directory / FILE_NAME).exists():
            self._stack.down(self.report)
        shutil.rmtree(self.directory, ignore_errors=True)
        status = self._stack.up(self.report)
        assert status.bootstrap_servers is not None
        self.say(f"Kafka on {status.bootstrap_servers}, everything under {self.directory}")
        jars.spark_jars(self.report)  # fetched here, where progress is visible
        port = free_port()
        serve = ("serve", "--port", str(port))
        gateway = self.start(*serve, SEAMLINE_SPARK__START_EARLY="true")
        self.say("the gateway starts, and in it Spark, for the last query")
        connections = Connections(load(status.config_file, environment={}).config)
        _create_topics(status.bootstrap_servers)
        _produce_auctions(status.bootstrap_servers)
        self._producer = BidProducer(status.bootstrap_servers, "bids")
        self._produce(min(self._records, _FIRST_RECORDS))
        self._filling.begin(self, connections)
        connections.close()
        started, before = time.monotonic(), self._producer.sent
        self._produce(self._records)
        rate = (self._producer.sent - before) / (time.monotonic() - started)
        self.say(
            f"{self._records:,} bids acknowledged ({rate:,.0f}/s), while the first of them are "
            "copied to Iceberg"
        )
        url = self._wait_for_gateway(gateway, f"http://127.0.0.1:{port}")
        self._live = Loop("demo-bids", self._produce_live)
        self.say(f"gateway on {url}; {_LIVE_PER_SECOND} more bids arrive each second")
        return url

    def _produce(self, until: int) -> None:
        """Produces bids until there are so many, and returns when they are acknowledged."""
        while self._producer.sent < until:
            self._producer.produce(min(50_000, until - self._producer.sent))
            self.report(f"produced {self._producer.sent:,} of {self._records:,} bids")
        self._producer.flush()
        self.report("")

    def start(self, *arguments: str, **settings: str) -> subprocess.Popen[bytes]:
        """Starts a `seamline` command in the background, with its output in a file."""
        log = self._log(arguments[0]).open("ab")
        process = subprocess.Popen(
            [sys.executable, "-m", "seamline.cli", *arguments],
            env={**os.environ, "SEAMLINE_CONFIG": str(self.directory / FILE_NAME), **settings},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        self._processes.append(process)
        return process

    def _wait_for_gateway(self, process: subprocess.Popen[bytes], url: str) -> str:
        self.report("waiting for the gateway")
        patience = self.patience(process.pid, "serve")
        while True:
            try:
                with seamline.connect(url) as connection:
                    connection.execute("SELECT 1")
                break
            except seamline.OperationalError:
                if process.poll() is not None or patience.is_over:
                    raise self.gave_up("the gateway did not start", patience, "serve") from None
        return url

    def _produce_live(self) -> float:
        self._producer.produce(_LIVE_PER_SECOND // 10)
        return 0.1

    def _end_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live.join()

    # --- Asking --------------------------------------------------------------------------------

    def _ask(self, url: str) -> bool:
        """Runs every query while bids are tiered, and checks every answer."""
        exact = True
        with seamline.connect(url) as connection:
            self._wait_for_boundary(connection, 1)
            supervision.start("demo-spark", lambda: _warm_spark_up(url))
            first, *others = enumerate(QUESTIONS, start=1)
            exact &= self._check(connection, *first)
            exact &= self._check_kill(connection)
            for number, question in others:
                exact &= self._check(connection, number, question)
            exact &= self._check_freshness(connection)
            exact &= self._filling.check(self, connection)
        return exact

    def _wait_for_boundary(self, connection: seamline.Connection, least: int) -> int:
        """Waits until this many records are copied; returns how many are."""
        self.report("waiting for records to be copied to Iceberg")
        filling = self._filling
        patience = self.patience(filling.session, filling.log)
        while True:
            rows = connection.execute('SELECT sum(boundary) FROM "bids$seam"').fetchall()
            boundary = int(rows[0][0] or 0)
            if boundary >= least:
                self.report("")
                return boundary
            if not filling.is_running() or patience.is_over:
                raise self.gave_up("nothing has been copied", patience, filling.log)
            time.sleep(0.2)

    def _check_kill(self, connection: seamline.Connection) -> bool:
        """Kills the pipeline in the middle of a batch; checks the answers before and after it."""
        if not self._filling.kill(self):
            return True
        exact = self._check(connection, "with the pipeline killed", TOTALS)
        boundary = self._wait_for_boundary(connection, 0)
        self._filling.restart(self)
        copied = self._wait_for_boundary(connection, boundary + 1)
        self.say(f"\nthe pipeline was started again, and went on from {boundary:,} to {copied:,}")
        return exact & self._check(connection, "with the pipeline running again", TOTALS)

    def patience(self, session: int, command: str) -> Patience:
        """Returns the patience for a program, whose session includes whatever it starts."""
        log = self._log(command)
        return Patience(lambda: signs_of(session, log))

    def gave_up(self, what: str, patience: Patience, command: str) -> SeamlineError:
        """Returns the error for a program that makes no more progress."""
        return SeamlineError(
            LOCAL_STACK_FAILED,
            f"{what} within {patience.elapsed_s:.0f} s, and there is no more "
            f"progress; see {self._log(command)}",
        )

    def _log(self, command: str) -> pathlib.Path:
        return self.directory / f"{command}.log"

    def _check(
        self, connection: seamline.Connection, number: int | str, question: Question
    ) -> bool:
        title = f"{number}. {question.title}" if isinstance(number, int) else number
        if question.engine == "spark":
            self.report("the query on Spark, which has been starting since the beginning")
        started = time.monotonic()
        cursor = connection.execute(question.sql, engine=question.engine)
        rows = cursor.fetchall()
        seconds = time.monotonic() - started
        receipt = cursor.receipt
        (part,) = (t for t in receipt["tables"] if t["table"][-1] == "bids")
        expected = list(question.expected(self._producer.numbers(part["end"])))
        exact = sorted(rows) == sorted(expected)
        self.report("")
        self.say(f"\n{title}\n   {question.sql}")
        for row in rows[:5]:
            self.say("      " + "  ".join(str(cell) for cell in row))
        end = sum(part["end"].values())
        boundary = sum(part["boundary"].values())
        self.say(
            f"   {seam_bar(boundary, end)} {boundary:,} in Iceberg, {end - boundary:,} in Kafka\n"
            f"   {receipt['rows_cold']:,} cold + {receipt['rows_hot']:,} hot rows read, "
            f"{receipt['engine']}, {seconds:.2f} s: "
            + ("exact" if exact else f"WRONG, should be {expected[:5]}")
        )
        return exact

    def _check_freshness(self, connection: seamline.Connection) -> bool:
        """Checks that the next answer includes a record that was just acknowledged."""
        self._end_live()
        self._producer.flush()
        self._producer.produce(1)
        self._producer.flush()
        acknowledged = time.monotonic()
        cursor = connection.execute("SELECT count(*) FROM bids")
        ((count,),) = cursor.fetchall()
        seconds = time.monotonic() - acknowledged
        exact = count == self._producer.sent
        self.say(
            f"\nfreshness: one more bid was acknowledged, and counted {seconds:.2f} s later; "
            f"{count:,} counted, {self._producer.sent:,} acknowledged: "
            + ("exact" if exact else "WRONG")
        )
        return bool(exact)

    # --- Ending --------------------------------------------------------------------------------

    def _explain_how_to_connect(self, url: str) -> None:
        file = self.directory / FILE_NAME
        self.say(
            f"\nleft running. Try:\n"
            f"  seamline query --url {url} 'SELECT channel, count(*) FROM bids GROUP BY channel'\n"
            f"  python -c \"import seamline; print(seamline.connect('{url}')"
            f".execute('SELECT count(*) FROM bids').fetchall())\"\n"
            f"stop it with:\n  kill {' '.join(str(p.pid) for p in self._processes)}; "
            f"seamline local down --state {self.directory}\n"
            f"configuration: {file}"
        )

    def _stop(self) -> None:
        self._filling.stop()
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        with contextlib.suppress(SeamlineError):
            self._stack.down(lambda _: None)


class Tiering:
    """Fills the tables with Seamline's own pipeline, the command `seamline tier`."""

    log = "tier"

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._metrics_port = 0

    def begin(self, demo: Demo, connections: Connections) -> None:
        """See `Filling.begin`."""
        session = resolution.session(connections.config)
        for name, columns, key in (
            ("bids", bids.BIDS_COLUMNS, "auction"),
            ("auctions", bids.AUCTIONS_COLUMNS, None),
        ):
            definition = tables.TableDefinition(
                name=resolution.resolve((name,), session, connections),
                topic=name,
                cluster=connections.config.default_cluster,
                columns=tables.parse_fields(columns),
                key=key,
                key_partitioner="murmur2" if key else None,
            )
            tables.create(connections, definition, no_deadline())
            demo.say(f"created table {name}")
        self.restart(demo)

    def restart(self, demo: Demo) -> None:
        """See `Filling.restart`."""
        self._metrics_port = free_port()
        options = ("--interval", "1s", "--max-records", "250000")
        metrics = ("--metrics-port", str(self._metrics_port))
        self._process = demo.start("tier", "bids", "auctions", *options, *metrics)

    def kill(self, demo: Demo) -> bool:
        """See `Filling.kill`."""
        assert self._process is not None
        demo.report("waiting until a batch is being written, to kill the pipeline")
        patience = demo.patience(self.session, self.log)
        while self._stage() != _WRITING:
            if not self.is_running() or patience.is_over:
                raise demo.gave_up("no batch was written", patience, self.log)
            time.sleep(0.01)
        os.killpg(self._process.pid, signal.SIGKILL)  # a session of its own
        self._process.wait()
        demo.report("")
        demo.say(f"\nkill -9 {self._process.pid}: the pipeline, while it was {_WRITING} a batch")
        return True

    def _stage(self) -> str | None:
        """Returns what the pipeline is doing with bids, as it says itself."""
        url = f"http://127.0.0.1:{self._metrics_port}/healthz"
        try:
            body = urllib3.request("GET", url, timeout=1.0, retries=False).json()
        except (urllib3.exceptions.HTTPError, ValueError):  # it is only starting
            return None
        stages = (table["stage"] for name, table in body["tables"].items() if ".bids" in name)
        return next(stages, None)

    def is_running(self) -> bool:
        """See `Filling.is_running`."""
        return self._process is not None and self._process.poll() is None

    @property
    def session(self) -> int:
        """See `Filling.session`."""
        assert self._process is not None
        return self._process.pid

    def check(self, demo: Demo, connection: seamline.Connection) -> bool:  # noqa: ARG002
        """See `Filling.check`: there is nothing more to check."""
        return True

    def stop(self) -> None:
        """See `Filling.stop`: nothing to do, as the demo ends what it has started."""


def _warm_spark_up(url: str) -> None:
    """Has Spark load what its first query needs, while DuckDB runs the others."""
    with seamline.connect(url) as connection:
        connection.execute("SELECT count(*) FROM auctions", engine="spark")


def _create_topics(bootstrap_servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    topics = [NewTopic("bids", bids.PARTITIONS), NewTopic("auctions", 1)]
    for future in admin.create_topics(topics).values():
        future.result(30)


def _produce_auctions(bootstrap_servers: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for value in bids.auctions():
        producer.produce("auctions", value)
    producer.flush(30)
