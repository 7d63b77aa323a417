"""Goal: a Delta table and its topic are one table while it is filled, compacted and vacuumed.

Method: `deltalake` writes what kafka-delta-ingest writes, with its transactions, and a real broker
has the topic, transactions of producers included. The producer knows what it sent, so each answer
is checked against the offsets that its receipt names.
"""

from __future__ import annotations

import contextlib
import pathlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner
from support.delta import Writer, binding, configured
from support.gateway import Gateway, statement_rows
from support.object_storage import ObjectStorage, object_storage
from support.stack import Stack

from seamline.cli import root
from seamline.connectors.delta.versions import storage_options
from seamline.errors import SeamlineError
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.commands import auditing
from seamline.gateway.config.load import load
from seamline.gateway.deadline import no_deadline

pytestmark = pytest.mark.integration

SCHEMA = pa.schema(
    [
        *(("id", pa.int64()), ("amount", pa.float64()), ("day", pa.string())),
        *(("k_partition", pa.int32()), ("k_offset", pa.int64())),
    ]
)
PLACES = {"columns_from": "k_partition = partition, k_offset = offset"}


class Filled:
    """A topic of two partitions on a real broker, and a Delta table that is filled from it.

    Args:
        stack: The stack.
        topic: The topic.
        folder: Where the table is, unless in a store.
        store: The store.
    """

    def __init__(
        self, stack: Stack, topic: str, folder: pathlib.Path, store: ObjectStorage | None = None
    ) -> None:
        self.stack, self.topic = stack, topic
        stack.create_topic(topic, 2)
        own = {**binding(topic, stack.bounds(topic).topic_id), **PLACES}
        tables = {f"bronze.shop.{topic}": own}
        warehouse = folder if store is None else "s3://lake/bronze"
        properties = {} if store is None else store.properties
        config = configured(stack.config, warehouse, tables, properties)
        state = {"state_directory": str(folder / "state")}
        self.config = config.model_copy(update=state)
        place = f"{warehouse}/shop/{topic}"
        options = storage_options(properties)
        self.writer = Writer(folder / "shop" / topic, SCHEMA, ["day"], place, options)
        self.sent: dict[tuple[int, int], dict[str, Any]] = {}
        self.ends = {0: 0, 1: 0}

    @property
    def name(self) -> str:
        """The table in SQL."""
        return f"bronze.shop.{self.topic}"

    def send(self, count: int) -> None:
        """Sends records to both partitions, and waits for their acknowledgements."""
        first = len(self.sent)
        for partition in (0, 1):
            ids = range(first + partition, first + count, 2)
            made = [{"id": i, "amount": i * 0.5, "day": f"day {i % 3}"} for i in ids]
            self.stack.produce(self.topic, made, partition=partition)
            begin = self.ends[partition]
            self.sent |= {(partition, begin + n): record for n, record in enumerate(made)}
            self.ends[partition] += len(made)

    def copy(self, ends: Mapping[int, int]) -> None:
        """A commit of the writer."""
        places = [(p, o) for p, e in ends.items() for o in range(self.writer.copied.get(p, 0), e)]
        rows = [{**self.sent[p, o], "k_partition": p, "k_offset": o} for p, o in places]
        self.writer.write(rows, ends)

    def check(self, gateway: Gateway, **options: Any) -> dict[str, Any]:
        """A read gives each record below its ends once; returns its receipt."""
        statement = gateway.statement(f"SELECT id, amount, day FROM {self.name}", **options)
        if statement.error is not None:
            raise statement.error
        assert statement.receipt is not None
        (part,) = statement.receipt["tables"]
        below = [r for (p, o), r in self.sent.items() if o < part["end"][str(p)]]
        assert sorted(statement_rows(statement)) == sorted(tuple(r.values()) for r in below)
        return {**part, "token": statement.receipt["token"], "rows": len(below)}

    @contextlib.contextmanager
    def gateway(self) -> Iterator[Gateway]:
        """A gateway over it."""
        connections = Connections(self.config)
        with contextlib.closing(connections):
            running = Gateway(self.config, connections=connections)
            with contextlib.closing(running):
                yield running


def test_the_command_prints_what_binds_a_table(filled: Filled, tmp_path: pathlib.Path) -> None:
    filled.send(20)
    filled.copy({0: 6, 1: 4})
    config = filled.config
    servers = config.clusters[config.default_cluster].bootstrap_servers
    bronze = {"type": "delta", "warehouse": config.catalogs["bronze"].warehouse}
    said: dict[str, Any] = {
        "clusters": {config.default_cluster: {"bootstrap_servers": servers}},
        "catalogs": {"bronze": bronze},
        "state_directory": str(tmp_path / "state"),
    }
    file = tmp_path / "seamline.yaml"
    file.write_text(yaml.safe_dump(said), encoding="utf-8")
    command = ["table", "adopt", filled.name, "--topic", filled.topic, "--config", str(file)]
    columns = ["--columns", "partition=k_partition,offset=k_offset"]
    done = CliRunner().invoke(root, [*command, *columns])
    assert done.exit_code == 0, done.output
    for line in ("filled by  kafka-delta-ingest", "(exact)", "10 of 10 records are the same"):
        assert line in done.stderr
    file.write_text(yaml.safe_dump({**said, **yaml.safe_load(done.stdout)}), encoding="utf-8")
    filled.config = load(file, environment={}).config
    with filled.gateway() as gateway:
        assert filled.check(gateway)["rows_cold"] == 10
        for statement in (
            f"ALTER TABLE {filled.name} SET PROPERTIES adopt = true, topic = '{filled.topic}'",
            f"CREATE TABLE {filled.name} WITH (adopt = true, topic = '{filled.topic}')",
        ):
            with pytest.raises(SeamlineError) as caught:
                gateway.rows(statement)
            assert caught.value.code.name == "STATEMENT_NOT_ALLOWED"
            assert "boundary_provider" in caught.value.hint
    let_go = CliRunner().invoke(root, ["table", "unadopt", filled.name, "--config", str(file)])
    assert isinstance(let_go.exception, SystemExit | SeamlineError)
    assert "the configuration binds" in f"{let_go.output} {let_go.exception}"


@pytest.fixture
def filled(stack: Stack, name: str, tmp_path: pathlib.Path) -> Filled:
    return Filled(stack, name, tmp_path)


def test_it_is_exact_while_it_is_filled_and_compacted(filled: Filled) -> None:
    filled.send(40)
    filled.copy({0: 5, 1: 9})
    with filled.gateway() as gateway:
        first = filled.check(gateway)
        assert (first["rows_cold"], first["rows_hot"]) == (14, 26)
        assert first["boundary_trust"] == "exact"
        failures: list[BaseException] = []
        done = threading.Event()

        def read() -> None:
            while not done.is_set() and not failures:
                try:
                    filled.check(gateway)
                except BaseException as error:  # noqa: BLE001 - raised again below
                    failures.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for step in range(1, 9):
                filled.send(10)
                filled.copy({0: 5 + step * 5, 1: 9 + step * 5})
                if step % 3 == 0:
                    filled.writer.table.optimize.compact()
                if step % 4 == 0:
                    filled.writer.table.create_checkpoint()
        finally:
            done.set()
            reader.join()
        assert not failures, failures[0]
        last = filled.check(gateway)
        assert last["boundary"] == {"0": 45, "1": 49}
        again = filled.check(gateway, token=first["token"])
        assert (again["rows"], again["snapshot_id"]) == (40, first["snapshot_id"])
        changes = f"SELECT id FROM TABLE(changes('{filled.name}', '{first['token']}'))"
        assert sorted(gateway.rows(changes)) == [(i,) for i in range(40, 120)]
        filled.writer.table.vacuum(
            retention_hours=0, dry_run=False, enforce_retention_duration=False
        )
        filled.check(gateway)
        with pytest.raises(SeamlineError) as caught:
            filled.check(gateway, token=first["token"])
        assert caught.value.code.name == "TOKEN_EXPIRED"
        session = resolution.session(filled.config, "bronze", "shop")
        connections = gateway.parts.connections
        resolved = resolution.resolve((filled.topic,), session, connections)
        audit = auditing.audit(connections, resolved, no_deadline(), lambda _: None)
        assert audit.is_clean
        assert audit.to_json()["rows"] == 94


@pytest.mark.soak
def test_it_is_read_from_object_storage(stack: Stack, name: str, tmp_path: pathlib.Path) -> None:
    with object_storage(tmp_path) as store:
        filled = Filled(stack, name, tmp_path, store)
        filled.send(20)
        filled.copy({0: 3, 1: 4})
        with filled.gateway() as gateway:
            first = filled.check(gateway)
            assert (first["rows_cold"], first["rows_hot"]) == (7, 13)
            filled.copy({0: 8, 1: 6})
            filled.writer.table.optimize.compact()
            assert filled.check(gateway)["boundary"] == {"0": 8, "1": 6}
            assert filled.check(gateway, token=first["token"])["snapshot_id"] == 0
            filled.writer.table.vacuum(
                retention_hours=0, dry_run=False, enforce_retention_duration=False
            )
            with pytest.raises(SeamlineError) as caught:
                filled.check(gateway, token=first["token"])
            assert caught.value.code.name == "TOKEN_EXPIRED"
            filled.check(gateway)


def test_a_join_with_an_iceberg_table_runs_on_duckdb(filled: Filled) -> None:
    filled.send(12)
    filled.copy({0: 3, 1: 2})
    stack, plain = filled.stack, f"{filled.topic}_plain"
    rows = pa.table({"id": [1, 2, 30], "name": ["one", "two", "thirty"]})
    catalog = stack.connections.catalog("lake").pyiceberg
    catalog.create_table(("default", plain), rows.schema).append(rows)
    sql = f"SELECT id, name FROM {filled.name} JOIN lake.default.{plain} USING (id)"
    with filled.gateway() as gateway:
        assert sorted(gateway.rows(sql)) == [(1, "one"), (2, "two")]
        with pytest.raises(SeamlineError, match="Spark cannot read a Delta table"):
            gateway.rows(sql, "spark")
