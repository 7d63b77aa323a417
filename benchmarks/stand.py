"""What benchmarks build on: a local stack, a table of bids with both tiers filled, a gateway."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import duckdb
import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import seamline
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.load import load
from seamline.gateway.dev.demo import bids
from seamline.gateway.dev.demo.bids import BidProducer
from seamline.gateway.dev.local.ports import free_port
from seamline.gateway.dev.local.stack import LocalStack

_WAIT_S = 120.0
_ROWS_A_FILE = 250_000
_BIDS = """
SELECT 1000 + i * 2654435761 % 1000 AS auction, 2000 + i % 5003 AS bidder,
       100 + i * 7919 % 99900 AS price,
       ['Apple', 'Google', 'Facebook', 'Baidu', 'channel-7'][i % 5 + 1] AS channel,
       'https://auction.example/item/' || (1000 + i % 1000) AS url,
       make_timestamptz(1760000000000000 + i * 10000) AS date_time,
       CASE WHEN i % 10 > 0 THEN struct_pack(
           device := ['phone', 'tablet', 'desktop'][i % 3 + 1], referrer := 'news') END AS extra
FROM range({start}, {end}) AS r(i)
"""


def as_computed(connection: seamline.Connection) -> None:
    """Has every statement of a connection computed: nothing kept of earlier ones is used."""
    for name in ("result_cache", "aggregates"):
        connection.execute(f"SET SESSION {name} = 'off'")


class Server:
    """A gateway's processes.

    Args:
        environment: Variables it is started with.
        log: Takes its output.

    Attributes:
        url: Its address.
    """

    def __init__(self, environment: Mapping[str, str], log: pathlib.Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "seamline.cli", "serve", "--port", str(port)],
                env=dict(environment),
                stdout=output,
                stderr=output,
            )
        self._wait()

    @property
    def processes(self) -> list[int]:
        """Their ids."""
        found = subprocess.run(
            ["pgrep", "-P", str(self._process.pid)], capture_output=True, text=True, check=False
        )
        return [self._process.pid, *(int(line) for line in found.stdout.split())]

    def peak_bytes(self) -> int:
        """The greatest resident memory any of them has had."""
        found = 0
        for process in self.processes:
            for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    found = max(found, int(line.split()[1]) * 1024)
        return found

    def close(self) -> None:
        """Ends them."""
        self._process.terminate()
        self._process.wait(60)

    def _wait(self) -> None:
        ends_at = time.monotonic() + _WAIT_S
        while True:
            try:
                with seamline.connect(self.url) as connection:
                    connection.execute("SELECT 1")
                    return
            except seamline.OperationalError:
                if time.monotonic() > ends_at or self._process.poll() is not None:
                    raise


class Stand:
    """A running stack with a table `bids`, and a gateway over it.

    Attributes:
        directory: Where all of it is.
        producer: Knows every bid that was produced.
        gateway: The gateway.
        url: Its address.
    """

    def __init__(self, directory: pathlib.Path, settings: Mapping[str, str]) -> None:
        self.directory = directory
        self._stack = LocalStack(directory)
        status = self._stack.up(say)
        assert status.bootstrap_servers is not None
        self.bootstrap_servers = status.bootstrap_servers
        self._environment = {
            **os.environ,
            "SEAMLINE_CONFIG": str(status.config_file),
            **settings,
        }
        self.producer = self.producer_of("bids")
        key = ("--key", "auction", "--key-partitioner", "murmur2")
        self.create("bids", bids.BIDS_COLUMNS, *key, partitions=bids.PARTITIONS)
        self.gateway = Server(self._environment, directory / "serve.log")
        self.url = self.gateway.url

    @contextlib.contextmanager
    def serve(self, name: str, settings: Mapping[str, str]) -> Iterator[Server]:
        """Another gateway over the same stack, with settings and state of its own."""
        state = {"SEAMLINE_STATE_DIRECTORY": str(self.directory / name)}
        server = Server({**self._environment, **state, **settings}, self.directory / f"{name}.log")
        try:
            yield server
        finally:
            server.close()

    def fill(self, cold: int, hot: int) -> None:
        """Writes cold rows to the table as a foreign writer would, and hot ones to the log."""
        self.fill_table("bids", cold)
        self.produce(hot)

    def fill_table(
        self,
        name: str,
        count: int,
        query: str = _BIDS,
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Appends rows to a table of the catalog, always the same in the same files.

        Args:
            name: The table.
            count: How many rows.
            query: Selects those from `{start}` to `{end}`, bids if it is not given.
            properties: Given to the table before.
        """
        loaded = load(pathlib.Path(self._environment["SEAMLINE_CONFIG"]), environment={}).config
        connections = Connections(loaded)
        table = connections.catalog("lake").load(("default", name)).iceberg
        if properties:
            with table.transaction() as transaction:
                transaction.set_properties(dict(properties))
        schema = table.schema().as_arrow()
        for start in range(0, count, _ROWS_A_FILE):
            end = min(start + _ROWS_A_FILE, count)
            rows = duckdb.sql(query.format(start=start, end=end)).to_arrow_table()
            missing = [f for f in schema if f.name not in rows.column_names]
            for field in missing:
                rows = rows.append_column(field, pa.nulls(len(rows), field.type))
            table.append(rows.select(schema.names).cast(schema))
            say(f"appended {end:,} cold rows to {name}")
        connections.close()

    def run(self, *arguments: str) -> None:
        """Runs a command of ours to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "seamline.cli", *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]

    def close(self) -> None:
        """Ends everything."""
        self.gateway.close()
        self._stack.down(lambda _: None)

    def producer_of(self, topic: str) -> BidProducer:
        """A producer of bids to a topic."""
        return BidProducer(self.bootstrap_servers, topic)

    def produce(self, count: int) -> None:
        """Produces the next bids and waits until they are acknowledged."""
        target = self.producer.sent + count
        while self.producer.sent < target:
            self.producer.produce(min(200_000, target - self.producer.sent))
            say(f"produced {self.producer.sent:,} bids")
        self.producer.flush()

    def create(self, name: str, columns: str, *options: str, partitions: int) -> None:
        """Creates a topic and a table over it."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        for future in admin.create_topics([NewTopic(name, partitions)]).values():
            future.result(30)
        self.run("table", "create", name, "--topic", name, "--schema", columns, *options)


def append(producer: Producer, topic: str, records: Iterable[tuple[str | None, str]]) -> None:
    """Produces records, by key and value, and waits until they are acknowledged."""
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


@contextlib.contextmanager
def stand(settings: Mapping[str, str] | None = None) -> Iterator[Stand]:
    """A stand in a folder of its own, removed afterwards.

    Args:
        settings: Variables of the gateway's configuration that differ from the defaults.
    """
    directory = pathlib.Path(tempfile.mkdtemp(prefix="seamline-bench-"))
    running = Stand(directory, settings or {})
    try:
        yield running
    finally:
        running.close()
        shutil.rmtree(directory, ignore_errors=True)


def say(line: str) -> None:
    """Shows progress."""
    print(line, file=sys.stderr, flush=True)
