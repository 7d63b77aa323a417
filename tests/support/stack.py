"""The embedded stack for tests, with what tests do to it: topics, records, tables, tiering."""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from seamline.connectors.spark.server import ConnectServer
from seamline.connectors.spark.tiering import SparkTierTable
from seamline.connectors.tiering import Outcome, Step, tier_once
from seamline.gateway import config, names, tables
from seamline.gateway.connections import Connections
from seamline.gateway.deadline import no_deadline
from seamline.gateway.local.stack import LocalStack
from seamline.gateway.spark import settings
from seamline.gateway.tiering import start_spark


class Stack:
    """A running local stack.

    Args:
        directory: Where it keeps everything.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self._local = LocalStack(directory)
        self._local.up(lambda _: None)
        try:
            self._open()
        except BaseException:
            self._local.down(lambda _: None)
            raise

    def _open(self) -> None:
        flags = {
            "spark.master": "local[2]",
            "state_directory": str(self.directory / "gateway"),
            "limits.duckdb_threads": "2",
        }
        file = self.directory / config.FILE_NAME
        plain = config.load(file, environment={}, flags=flags).config
        # one Spark for everything in this process: a classic session and a Connect one do not mix
        self._server = ConnectServer(settings(plain))
        flags["spark.remote"] = self._server.url()
        self.config = config.load(file, environment={}, flags=flags).config
        self.connections = Connections(self.config)
        self.bootstrap_servers = self.config.clusters["default"].bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def close(self) -> None:
        """Ends everything that was started."""
        self._server.close()
        self.connections.close()
        self._local.down(lambda _: None)

    # --- Topics --------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 2, settings: Mapping[str, str] | None = None
    ) -> None:
        """Creates a topic and waits until it is there."""
        topic = NewTopic(name, partitions, config=dict(settings or {}))
        for future in self.admin.create_topics([topic]).values():
            future.result(30)

    def producer(self, **settings: Any) -> Producer:
        """A producer; acks from all."""
        return Producer({"bootstrap.servers": self.bootstrap_servers, "acks": "all", **settings})

    def produce(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        partition: int | None = None,
        keys: Sequence[str] | None = None,
    ) -> None:
        """Produces values (bytes, None, or anything as JSON) and waits for all acks."""
        producer = self.producer(**{"linger.ms": 5})
        failures: list[Any] = []
        for number, value in enumerate(values):
            raw = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
            options: dict[str, Any] = {} if partition is None else {"partition": partition}
            if keys is not None:
                options["key"] = keys[number]
            while True:
                try:
                    producer.produce(
                        topic,
                        raw,
                        on_delivery=lambda e, _: failures.append(e) if e else None,
                        **options,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(60) == 0
        assert not failures, failures[0]

    # --- Tables --------------------------------------------------------------------------------

    def create_table(
        self, name: str, columns: str | None, topic: str | None = None, **options: Any
    ) -> None:
        """Creates a unified table over a topic, of the same name unless told otherwise."""
        definition = tables.TableDefinition(
            name=self.resolve(name),
            topic=topic or name,
            cluster="default",
            columns=tables.parse_fields(columns) if columns is not None else None,
            **options,
        )
        tables.create(self.connections, definition, no_deadline())

    def resolve(self, name: str) -> names.TableName:
        """The full name of a table."""
        return names.resolve((name,), names.session(self.config), self.config)

    def load(self, name: str) -> Any:
        """The table as it is now."""
        return self.connections.catalog("lake").load(("default", name))

    # --- Tiering -------------------------------------------------------------------------------

    @functools.cached_property
    def spark(self) -> Any:
        """A Spark session, for tiering and as a foreign writer."""
        return start_spark(self.connections)

    def tier_table(self, name: str) -> SparkTierTable:
        """A table as the pipeline sees it."""
        cluster = self.connections.cluster("default").config
        return SparkTierTable(
            self.spark,
            self.connections.catalog("lake"),
            ("default", name),
            self.connections.log("default"),
            cluster,
            tasks_min=2,
        )

    def tier(self, name: str, records_max: int = 1_000_000) -> list[Step]:
        """Tiers a table to its end and gives the steps."""
        steps = []
        while True:
            step = tier_once(
                self.tier_table(name),
                self.connections.log("default"),
                no_deadline(),
                records_max=records_max,
            )
            steps.append(step)
            if step.outcome is Outcome.IDLE or step.lag == 0:
                return steps
