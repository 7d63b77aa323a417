"""The embedded stack for tests, with what tests do to it: topics, records, tables, tiering."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
import pathlib
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from seamline.connectors.config import CatalogConfig
from seamline.connectors.duckdb.tiering import LocalTierTable
from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.tables.tiering import IcebergTierTable
from seamline.connectors.spark.maintenance import Compaction, Maintained, Tasks, maintain
from seamline.connectors.spark.server import ConnectServer
from seamline.connectors.spark.sessions import Sessions
from seamline.connectors.spark.tiering import SparkTierTable
from seamline.gateway import names
from seamline.gateway.app.spark import settings
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.commands import tables
from seamline.gateway.config.file_locations import FILE_NAME, FILE_VARIABLE
from seamline.gateway.config.load import ENVIRONMENT_PREFIX, load
from seamline.gateway.config.model import Config
from seamline.gateway.deadline import no_deadline
from seamline.gateway.dev.local import settings as settings_file
from seamline.gateway.dev.local.stack import LocalStack
from seamline.gateway.tiering.step import tier_once
from seamline.gateway.tiering.tables import start_spark
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import boundary_of
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.tiering import Outcome, Step, next_batch
from support.waiting import wait_until


def _file(directory: pathlib.Path) -> str:
    """A configuration that calls the cluster `default`, as the catalog's schema is called."""
    text = settings_file.new_text(directory, "127.0.0.1:9092")
    return text.replace(f"  {settings_file.CLUSTER}:\n", "  default:\n")


ENGINES = ("spark", "local")


class Stack:
    """A running local stack.

    Args:
        directory: Where it keeps everything.

    Attributes:
        tier_engine: What writes the batches of its tables: one of `ENGINES`.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.tier_engine = ENGINES[0]
        self.file = directory / FILE_NAME
        directory.mkdir(exist_ok=True)
        self.file.write_text(_file(directory), encoding="utf-8")
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
        self.file = self.directory / FILE_NAME
        plain = self.configured(flags)
        # one Spark for everything in this process: a classic session and a Connect one do not mix
        self._server = ConnectServer(settings(plain))
        self.spark_url = self._server.url()
        self.flags = {**flags, "spark.remote": self.spark_url}
        self.config = self.configured(self.flags)
        self.connections = Connections(self.config)
        self.bootstrap_servers = self.config.clusters["default"].bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def close(self) -> None:
        """Ends everything that was started."""
        self._server.close()
        self.connections.close()
        self._local.down(lambda _: None)

    @contextlib.contextmanager
    def over(self, catalog: CatalogConfig, directory: pathlib.Path) -> Iterator[Stack]:
        """The same cluster with another catalog, and a Spark of its own that knows it.

        Args:
            catalog: The catalog.
            directory: Where state is kept.
        """
        other = copy.copy(self)
        for of_spark in ("spark", "sessions"):
            other.__dict__.pop(of_spark, None)
        own = {"state_directory": str(directory / "gateway"), "spark.master": "local[2]"}
        alone = self.configured(own).model_copy(update={"catalogs": {catalog.name: catalog}})
        with contextlib.closing(ConnectServer(settings(alone))) as server:
            other.spark_url = server.url()
            spark = alone.spark.model_copy(update={"remote": other.spark_url})
            other.config = alone.model_copy(update={"spark": spark})
            with contextlib.closing(Connections(other.config)) as other.connections:
                yield other

    def restart_broker(self, *, without_log_of: str) -> None:
        """Ends the broker, loses the records of a topic, and starts it again."""
        self._local.down(lambda _: None)
        segments = [
            path
            for path in self.directory.rglob(f"{without_log_of}-[0-9]*/*")
            if path.name != "partition.metadata"
        ]
        assert segments
        for path in segments:
            path.unlink()
        self._local.up(lambda _: None)

    def configured(self, flags: Mapping[str, str]) -> Config:
        """The stack's configuration with other values, by dotted path."""
        return load(self.file, environment={}, flags=flags).config

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands that use this stack, and its Spark."""
        settings = {
            f"{ENVIRONMENT_PREFIX}{path.upper().replace('.', '__')}": value
            for path, value in self.flags.items()
        }
        # the Spark session of this process leaves its mark in its environment
        plain = {k: v for k, v in os.environ.items() if not k.startswith("SPARK_")}
        return {**plain, FILE_VARIABLE: str(self.file), **settings}

    # --- Topics --------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 2, settings: Mapping[str, str] | None = None
    ) -> None:
        """Creates a topic and waits until it is there."""
        topic = NewTopic(name, partitions, config=dict(settings or {}))
        for future in self.admin.create_topics([topic]).values():
            future.result(30)
        wait_until(lambda: self._is_known(name, partitions), what=f"{name} to be there")

    def trim(self, topic: str, before: Mapping[int, int]) -> None:
        """Lets partitions begin at other offsets."""
        offsets = [TopicPartition(topic, p, offset) for p, offset in before.items()]
        for future in self.admin.delete_records(offsets).values():
            future.result(30)

    def _is_known(self, name: str, partitions: int) -> bool:
        """Whether the broker reports the topic; it learns of it after it has been created."""
        (found,) = self.admin.list_topics(name, 30).topics.values()
        return found.error is None and len(found.partitions) == partitions

    def recreate_topic(self, name: str, partitions: int = 2) -> None:
        """Deletes a topic and creates another log of the same name."""
        for future in self.admin.delete_topics([name], operation_timeout=30).values():
            future.result(30)
        wait_until(lambda: self._created(name, partitions), what=f"{name} to be created again")

    def _created(self, name: str, partitions: int) -> bool:
        """Whether it could be created; the broker may still be about to forget the old one."""
        try:
            self.create_topic(name, partitions)
        except KafkaException as error:
            assert error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS, error
            return False
        return True

    def producer(self, **settings: Any) -> Producer:
        """A producer; acks from all."""
        return Producer({"bootstrap.servers": self.bootstrap_servers, "acks": "all", **settings})

    def produce(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        partition: int | None = None,
        keys: Sequence[str | bytes | None] | None = None,
        headers: Sequence[list[tuple[str, bytes | None]] | None] | None = None,
    ) -> None:
        """Produces values (bytes, None, or anything as JSON) and waits for all acks."""
        producer = self.producer(**{"linger.ms": 5})
        failures: list[Any] = []
        for number, value in enumerate(values):
            raw = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
            options: dict[str, Any] = {} if partition is None else {"partition": partition}
            if keys is not None:
                options["key"] = keys[number]
            if headers is not None and headers[number] is not None:
                options["headers"] = headers[number]
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

    def transact(self, topic: str, values: Iterable[Any], *, commit: bool, partition: int) -> None:
        """Produces values as JSON in one transaction and commits or aborts it."""
        producer = self.producer(**{"transactional.id": uuid.uuid4().hex})
        producer.init_transactions(60)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, json.dumps(value).encode(), partition=partition)
        assert producer.flush(60) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(60)
        self.wait_for_markers(topic)

    def wait_for_markers(self, topic: str) -> None:
        """Waits until no transaction is open; the broker writes markers after it has answered."""
        wait_until(lambda: not self.bounds(topic).pending, what="the markers")

    def bounds(self, topic: str) -> LogBounds:
        """What the log of a topic holds now."""
        log = self.connections.log("default")
        return log.bounds([topic], READ_COMMITTED, no_deadline())[topic]

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
        return resolution.resolve((name,), resolution.session(self.config), self.connections)

    def move_boundary(self, name: str) -> None:
        """Moves the boundary to the log's end, as a batch without rows does."""
        table = self.load(name)
        binding = TopicBinding.from_properties(table.state.properties)
        assert binding is not None
        before = boundary_of(table.state, table.state.current_snapshot_id)
        bounds = self.bounds(binding.topic)
        batch = next_batch(table.state, binding, before, bounds, records_max=1 << 40)
        assert batch is not None
        commits.commit_boundary(table, batch.boundary)

    def load(self, name: str, schema: str = "default") -> Any:
        """The table as it is now."""
        return self.connections.catalog("lake").load((schema, name))

    @contextlib.contextmanager
    def unwritable_catalog(self) -> Iterator[None]:
        """Holds every commit to the catalog back; it can still be read."""
        with contextlib.closing(
            sqlite3.connect(self.directory / "catalog.db", isolation_level=None, timeout=30)
        ) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            finally:
                connection.execute("ROLLBACK")

    def metadata_files(self, name: str) -> set[str]:
        """The metadata files of a table's folder, of commits that landed and of others."""
        return {path.name for path in self._folder(name).glob("metadata/*.metadata.json")}

    def data_files(self, name: str) -> set[str]:
        """The data files in a table's folder, whether a snapshot knows them or not."""
        return {str(path) for path in self._folder(name).glob("data/**/*.parquet")}

    def _folder(self, name: str) -> pathlib.Path:
        return pathlib.Path(self.load(name).state.location.removeprefix("file://"))

    # --- Tiering -------------------------------------------------------------------------------

    @functools.cached_property
    def spark(self) -> Any:
        """A Spark session, for tiering and as a foreign writer."""
        return start_spark(self.connections)

    @functools.cached_property
    def sessions(self) -> Sessions:
        """Sessions beside it, for tiering."""
        return Sessions.beside(self.spark)

    def maintain(
        self,
        name: str,
        *,
        compact: bool = True,
        files_min: int | None = None,
        rewrite_manifests: bool = True,
        expire: bool = True,
    ) -> Maintained:
        """Maintains a table; expires every snapshot that nothing protects."""
        return maintain(
            self.spark,
            self.connections.catalog("lake"),
            ("default", name),
            Tasks(
                Compaction(files_min=files_min) if compact else None,
                rewrite_manifests,
                expire_after_s=0.0 if expire else None,
                retain_last=1,
            ),
            report=lambda _: None,
        )

    def tier_table(self, name: str, schema: str = "default") -> IcebergTierTable:
        """A table as the pipeline sees it."""
        if self.tier_engine == "local":
            return LocalTierTable(
                self.connections.catalog("lake"), (schema, name), self.connections.log("default")
            )
        cluster = self.connections.cluster("default").config
        return SparkTierTable(
            self.sessions,
            self.connections.catalog("lake"),
            (schema, name),
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
