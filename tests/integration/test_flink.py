"""Goal: what a real Flink fills is read exactly, and a real Flink reads what the gateway offers.

Method: jobs of Flink's SQL copy a topic with aborted transactions while they are killed, restarted
and compacted, and each answer is checked against the offsets that its receipt names. Jobs that
upsert keep the newest record of each key, for keys of every type; both engines must have those.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import functools
import json
import pathlib
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IcebergType, LongType, NestedField, StringType, UUIDType
from support.flink import Flink, catalog
from support.gateway import Gateway, statement_rows
from support.stack import Stack
from support.waiting import wait_until

from seamline.errors import SeamlineError
from seamline.gateway.commands import adopting, auditing
from seamline.gateway.commands.adopting import Adoption
from seamline.gateway.config.model import IcebergConfig
from seamline.gateway.deadline import no_deadline
from seamline.seam.boundary import boundary_of

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.soak]

COLUMNS = ("partition=k_partition", "offset=k_offset")
COMMITTED = {"properties.isolation.level": "read_committed"}
PLACES = (
    "k_partition INT METADATA FROM 'partition' VIRTUAL,"
    " k_offset BIGINT METADATA FROM 'offset' VIRTUAL"
)
STORED = "k_partition INT, k_offset BIGINT"
FIELDS = "id BIGINT, amount DOUBLE"
PARTITIONS = 3


@pytest.fixture(scope="module")
def flink(stack: Stack) -> Iterator[Flink]:
    running = Flink(stack.directory / "flink")
    try:
        yield running
    finally:
        running.close()


class Sent:
    """Records sent in transactions, of which some are aborted, by their places.

    Args:
        stack: The stack.
        topic: The topic; it is made.
    """

    def __init__(self, stack: Stack, topic: str) -> None:
        self.topic = topic
        self.committed: dict[tuple[int, int], int] = {}
        self.every: dict[tuple[int, int], int] = {}
        self._dice = random.Random(topic)
        stack.create_topic(topic, PARTITIONS)
        self._producer = stack.producer(**{"transactional.id": topic})
        self._producer.init_transactions(30)

    def send(self, transactions: int, **more: Any) -> None:
        """Sends transactions of ten records each; about a third of them is aborted."""
        for _ in range(transactions):
            self._producer.begin_transaction()
            ids = range(len(self.every), len(self.every) + 10)
            found: dict[tuple[int, int], int] = {}
            for number in ids:
                value = json.dumps({"id": number, "amount": number * 0.5, **more})
                self._producer.produce(
                    self.topic,
                    value.encode(),
                    partition=self._dice.randrange(PARTITIONS),
                    on_delivery=functools.partial(_note, found, number),
                )
            self._producer.flush(30)
            assert sorted(found.values()) == list(ids)
            self.every |= found
            if self._dice.random() < 0.3:
                self._producer.abort_transaction(30)
            else:
                self._producer.commit_transaction(30)
                self.committed |= found

    def rows(self, end: Mapping[str, int], *, aborted: bool = False) -> list[tuple[Any, ...]]:
        """The rows of every record below some ends."""
        places = self.every if aborted else self.committed
        below = (i for (p, o), i in places.items() if o < end.get(str(p), 0))
        return sorted((i, i * 0.5) for i in below)


def _note(found: dict[tuple[int, int], int], number: int, error: Any, message: Any) -> None:
    assert error is None, error
    found[message.partition(), message.offset()] = number


def check(
    gateway: Gateway, sent: Sent, engine: str = "duckdb", *, aborted: bool = False
) -> dict[str, Any]:
    """A read must give each record below its ends once; returns its receipt of the table."""
    statement = gateway.statement(f"SELECT id, amount FROM {sent.topic}", engine)
    if statement.error is not None:
        raise statement.error
    assert statement.receipt is not None
    part: dict[str, Any]
    (part,) = statement.receipt["tables"]
    assert sorted(statement_rows(statement)) == sent.rows(part["end"], aborted=aborted)
    return part


def adopt(stack: Stack, name: str, topic: str | None = None, **wanted: Any) -> adopting.Findings:
    asked = Adoption("default", topic or name, name=stack.resolve(name), **wanted)
    found = adopting.examine(stack.connections, asked, no_deadline())
    adopting.adopt(stack.connections, found)
    return found


def refused(stack: Stack, name: str, topic: str | None = None, **wanted: Any) -> str:
    """The name of the error that adopting ends with."""
    with pytest.raises(SeamlineError) as caught:
        adopt(stack, name, topic, **wanted)
    return caught.value.code.name


def audited(stack: Stack, name: str) -> set[str]:
    """What kinds of findings an audit has."""
    audit = auditing.audit(stack.connections, stack.resolve(name), no_deadline(), lambda _: None)
    return {finding.kind.value for finding in audit.found}


def session(stack: Stack, flink: Flink, **options: Any) -> Any:
    """A session of Flink that knows the stack's catalog."""
    tables = flink.session(**options)
    tables.executeSql(catalog(stack.directory))
    tables.useCatalog("lake")
    tables.useDatabase("default")
    return tables


def source(stack: Stack, name: str, topic: str, columns: str, **settings: str) -> str:
    """The statement that makes a topic a table of a session."""
    known = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": stack.bootstrap_servers,
        "properties.group.id": name,
        "scan.startup.mode": "earliest-offset",
        "format": "json",
        **settings,
    }
    told = ", ".join(f"'{k.replace('__', '.')}' = '{v}'" for k, v in known.items())
    return f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({told})"


def rows_of(stack: Stack, name: str) -> int:
    """How many rows the commits of a table have added."""
    state = stack.load(name).state
    snapshots = state.ancestors(state.current_snapshot_id) if state.current_snapshot_id else ()
    return sum(int(snapshot.summary.get("added-records", 0)) for snapshot in snapshots)


def cancel(job: Any) -> None:
    job.getJobClient().get().cancel().get()


# --- Appends -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sink", ["old", "new"])
def test_what_a_job_appends_is_read_exactly_while_it_is_killed_and_altered(
    stack: Stack, gateway: Gateway, name: str, sink: str
) -> None:
    sent = Sent(stack, name)
    own = {"table.exec.iceberg.use-v2-sink": str(sink == "new").lower()}
    flink = Flink(stack.directory / name)
    try:
        tables = session(stack, flink, settings=own)
        tables.executeSql(source(stack, "topic", name, f"{FIELDS}, {PLACES}", **COMMITTED))
        tables.executeSql(f"CREATE TABLE {name} ({FIELDS}, {STORED})")
        copy = f"INSERT INTO {name} SELECT id, amount, k_partition, k_offset FROM topic"
        tables.executeSql(copy)
        sent.send(10)
        wait_until(lambda: rows_of(stack, name) == len(sent.committed), seconds=120)
        found = adopt(stack, name, columns=COLUMNS)
        assert (found.writer.name, found.boundary.trust) == ("Flink", "derived")
        seen: set[int] = set()
        while len(seen) < 4:
            sent.send(3)
            seen.add(check(gateway, sent)["snapshot_id"])
        flink.kill()  # in the middle of whatever it does
        sent.send(5)
        check(gateway, sent)

        flink = Flink(stack.directory / name)
        checkpoint = flink.checkpoint()
        assert checkpoint is not None
        again = {**own, "execution.state-recovery.path": checkpoint}
        tables = session(stack, flink, parallelism=3, settings=again)
        tables.executeSql(source(stack, "topic", name, f"{FIELDS}, {PLACES}", **COMMITTED))
        job = tables.executeSql(copy)
        wait_until(lambda: rows_of(stack, name) == len(sent.committed), seconds=120)
        check(gateway, sent, "spark")
        cancel(job)

        # another column; a job of other columns begins where the table ends
        tables = session(stack, flink, settings=own)
        tables.executeSql(f"ALTER TABLE {name} ADD extra STRING")
        sent.send(5, extra="hot")
        check(gateway, sent)
        state = stack.load(name).state
        boundary = boundary_of(state, state.current_snapshot_id).next
        offsets = ";".join(f"partition:{p},offset:{o}" for p, o in boundary.items())
        begin = {
            "scan.startup.mode": "specific-offsets",
            "scan.startup.specific-offsets": offsets,
        }
        columns = f"{FIELDS}, extra STRING, {PLACES}"
        tables.executeSql(source(stack, "topic", name, columns, **COMMITTED, **begin))
        tables.executeSql(
            f"INSERT INTO {name} SELECT id, amount, k_partition, k_offset, extra FROM topic"
        )
        wait_until(lambda: rows_of(stack, name) == len(sent.committed), seconds=120)
        sent.send(5, extra="hot")
        for engine in ("duckdb", "spark"):
            check(gateway, sent, engine)
        last = max(sent.committed.values())
        assert gateway.rows(f"SELECT extra FROM {name} WHERE id = {last}") == [("hot",)]
        assert not audited(stack, name)
    finally:
        flink.close()


def test_tables_are_read_exactly_while_flink_maintains_them(
    stack: Stack, gateway: Gateway, flink: Flink, name: str
) -> None:
    sent, newest = Sent(stack, name), Newest(stack, f"{name}_newest")
    settings = {"execution.checkpointing.interval": "2s"}
    tables = session(stack, flink, parallelism=1, settings=settings)
    tables.executeSql(source(stack, "topic", name, f"{FIELDS}, {PLACES}", **COMMITTED))
    tables.executeSql(changes_of(stack, newest.topic))
    tables.executeSql(f"CREATE TABLE {name} ({FIELDS}, {STORED})")
    tables.executeSql(
        f"CREATE TABLE {newest.topic} (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED)"
        " WITH ('format-version' = '3', 'write.upsert.enabled' = 'true')"
    )
    jobs = tables.createStatementSet()
    jobs.addInsertSql(f"INSERT INTO {name} SELECT * FROM topic")
    jobs.addInsertSql(f"INSERT INTO {newest.topic} SELECT id, v, n FROM changes")
    running = [jobs.execute().getJobClient().get()]
    sent.send(3)
    newest.change(20)
    both = (name, newest.topic)
    wait_until(lambda: all(rows_of(stack, table) for table in both), seconds=120)
    adopt(stack, name, columns=COLUMNS)
    # an upsert of Flink looks back to the first snapshot, if its job began with an empty table
    running += [
        flink.maintenance(stack.directory, f"default.{table}", expire=table == name)
        for table in both
    ]
    seen: dict[str, dict[int, str]] = {table: {} for table in both}

    def has_maintained() -> bool:
        """Whether files of both tables were rewritten, and snapshots of one have expired."""
        sent.send(1)
        newest.change(5)
        check(gateway, sent)
        done = []
        for table, operations in seen.items():
            snapshots = stack.load(table).state.snapshots
            operations |= {at: snapshot.operation for at, snapshot in snapshots.items()}
            expired = operations.keys() - snapshots.keys()
            done.append("replace" in operations.values() and (table != name or expired))
        return all(done)

    wait_until(has_maintained, seconds=120)
    wanted = sorted((key, *row) for key, row in newest.rows.items())
    sql = f"SELECT id, v, n FROM {newest.topic}"
    wait_until(lambda: sorted(gateway.rows(sql, "duckdb"), key=repr) == sorted(wanted, key=repr))
    for job in running:
        job.cancel().get()
    for engine in ("duckdb", "spark"):
        check(gateway, sent, engine)
        assert sorted(gateway.rows(sql, engine), key=repr) == sorted(wanted, key=repr)
    assert not audited(stack, name)


def test_what_a_job_does_not_say_is_refused_by_name(
    stack: Stack, gateway: Gateway, flink: Flink, name: str
) -> None:
    """Of uncommitted records, without places, and of upserts."""
    sent = Sent(stack, name)
    tables = session(stack, flink)
    tables.executeSql(source(stack, "topic", name, f"{FIELDS}, {PLACES}"))
    tables.executeSql(f"CREATE TABLE {name} ({FIELDS}, {STORED})")
    tables.executeSql(f"CREATE TABLE {name}_bare ({FIELDS})")
    tables.executeSql(
        f"CREATE TABLE {name}_newest ({FIELDS}, {STORED}, PRIMARY KEY (id) NOT ENFORCED)"
        " WITH ('write.upsert.enabled' = 'true')"
    )
    jobs = tables.createStatementSet()
    jobs.addInsertSql(f"INSERT INTO {name} SELECT * FROM topic")
    jobs.addInsertSql(f"INSERT INTO {name}_bare SELECT id, amount FROM topic")
    jobs.addInsertSql(f"INSERT INTO {name}_newest SELECT * FROM topic WHERE id IS NOT NULL")
    job = jobs.execute()
    while len(sent.every) < 60 or len(sent.every) == len(sent.committed):
        sent.send(2)
    every = [name, f"{name}_bare", f"{name}_newest"]
    wait_until(lambda: all(rows_of(stack, t) == len(sent.every) for t in every), seconds=120)
    assert refused(stack, name, columns=COLUMNS) == "ADOPTION_REFUSED"
    assert refused(stack, f"{name}_bare", name) == "OFFSETS_NOT_STORED"
    assert refused(stack, f"{name}_newest", name, columns=COLUMNS) == "NOT_SUPPORTED"
    adopt(stack, name, columns=COLUMNS, isolation="read_uncommitted")
    for _ in range(5):
        sent.send(2)
        check(gateway, sent, aborted=True)
    cancel(job)
    assert not audited(stack, name)


# --- Upserts -------------------------------------------------------------------------------------

DAY_0 = datetime.datetime(1970, 1, 1)
SECONDS = "TIMESTAMPADD(SECOND, id * 100000, TIMESTAMP '1969-12-31 23:59:59.123456')"
DAYS = "TIMESTAMPADD(DAY, id * 100 - 200, TIMESTAMP '1970-01-01 00:00:00')"
CLOCK = "TIMESTAMPADD(SECOND, id * 1000, TIMESTAMP '1970-01-01 00:00:00')"


def moment(number: int) -> datetime.datetime:
    return DAY_0 + datetime.timedelta(0, number * 100_000 - 1, 123456)


KEYS: Mapping[str, tuple[str, str, Any]] = {
    "int": ("INT", "id", lambda i: i),
    "bigint": ("BIGINT", "CAST(id AS BIGINT) * 5000000000", lambda i: i * 5_000_000_000),
    "varchar": ("STRING", "CONCAT('é', CAST(id AS STRING))", lambda i: f"é{i}"),
    "decimal": (
        "DECIMAL(20, 3)",
        "CAST(id AS DECIMAL(20, 3)) / 8",
        lambda i: decimal.Decimal(i * 125).scaleb(-3),
    ),
    "timestamp": ("TIMESTAMP(6)", SECONDS, moment),
    "instant": (
        "TIMESTAMP_LTZ(6)",
        f"CAST({SECONDS} AS TIMESTAMP_LTZ(6))",
        lambda i: moment(i).replace(tzinfo=datetime.UTC),
    ),
    "date": (
        "DATE",
        f"CAST({DAYS} AS DATE)",
        lambda i: (DAY_0 + datetime.timedelta(i * 100 - 200)).date(),
    ),
    "binary": (
        "BYTES",
        "ENCODE(CONCAT('a', CAST(id AS STRING)), 'UTF-8')",
        lambda i: f"a{i}".encode(),
    ),
    "time": (
        "TIME",
        f"CAST({CLOCK} AS TIME)",
        lambda i: (DAY_0 + datetime.timedelta(0, i * 1000)).time(),
    ),
}
"""By name: the type of a key, how Flink makes it of an int, and what it is here."""
UUID = "CAST(ENCODE(LPAD(CAST(id AS STRING), 16, '0'), 'UTF-8') AS BINARY(16))"
NOT_ON_SPARK = ("time", "uuid")


class Newest:
    """The newest value of each key, as records of a topic change it."""

    def __init__(self, stack: Stack, topic: str) -> None:
        self.rows: dict[int, tuple[str | None, int]] = {}
        self.topic = topic
        self._stack, self._dice = stack, random.Random(topic)
        stack.create_topic(topic, 2, {"cleanup.policy": "compact"})

    def change(self, count: int) -> None:
        """Sends records of keys: values, and deletes."""
        keys: list[int] = []
        values: list[dict[str, Any] | None] = []
        for _ in range(count):
            key = self._dice.randrange(12)
            keys.append(key)
            if self._dice.random() < 0.2:
                self.rows.pop(key, None)
                values.append(None)
            else:
                row = (self._dice.choice(["a", "b", None, "é"]), self._dice.randrange(100))
                self.rows[key] = row
                values.append({"id": key, "v": row[0], "n": row[1]})
        for part in (0, 1):
            own = [(k, v) for k, v in zip(keys, values, strict=True) if k % 2 == part]
            self._stack.produce(
                self.topic,
                [v for _, v in own],
                partition=part,
                keys=[json.dumps({"id": k}) for k, _ in own],
            )


def changes_of(stack: Stack, topic: str) -> str:
    """The statement that makes a topic of `Newest` a table of a session."""
    return (
        "CREATE TEMPORARY TABLE changes (id INT, v STRING, n INT, PRIMARY KEY (id) NOT ENFORCED)"
        f" WITH ('connector' = 'upsert-kafka', 'topic' = '{topic}', 'key.format' = 'json',"
        f" 'properties.bootstrap.servers' = '{stack.bootstrap_servers}',"
        " 'value.format' = 'json')"
    )


def by_iceberg(
    stack: Stack, name: str, key: IcebergType, version: int, spec: PartitionSpec
) -> None:
    """A table that Flink's SQL cannot make."""
    fields = [NestedField(1, "k", key, required=True), NestedField(2, "v", StringType())]
    stack.connections.catalog("lake").pyiceberg.create_table(
        ("default", name),
        Schema(*fields, NestedField(3, "n", LongType()), identifier_field_ids=[1]),
        partition_spec=spec,
        properties={"format-version": "2", "write.upsert.enabled": "true"},
    )
    if version == 3:
        stack.spark.sql(
            f"ALTER TABLE lake.default.{name} SET TBLPROPERTIES ('format-version' = '3')"
        )


@pytest.mark.parametrize("version", [2, 3])
def test_the_newest_record_of_each_key_is_read_for_every_type_of_key(
    stack: Stack, gateway: Gateway, flink: Flink, name: str, version: int
) -> None:
    newest = Newest(stack, name)
    settings = {"execution.checkpointing.interval": "2s"}
    tables = session(stack, flink, parallelism=1, settings=settings)
    tables.executeSql(changes_of(stack, name))
    jobs = tables.createStatementSet()
    options = f"'format-version' = '{version}', 'write.upsert.enabled' = 'true'"
    wanted: dict[str, Any] = {}
    for key, (type_, made, value) in KEYS.items():
        tables.executeSql(
            f"CREATE TABLE {name}_{key} (k {type_} NOT NULL, v STRING, n BIGINT,"
            f" PRIMARY KEY (k) NOT ENFORCED) WITH ({options})"
        )
        jobs.addInsertSql(f"INSERT INTO {name}_{key} SELECT {made}, v, n FROM changes")
        wanted[key] = value
    tables.executeSql(
        f"CREATE TABLE {name}_identity (k INT NOT NULL, v STRING, n BIGINT,"
        f" PRIMARY KEY (k) NOT ENFORCED) PARTITIONED BY (k) WITH ({options})"
    )
    jobs.addInsertSql(f"INSERT INTO {name}_identity SELECT id, v, n FROM changes")
    wanted["identity"] = lambda i: i
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "k_bucket"))
    by_iceberg(stack, f"{name}_bucket", LongType(), version, spec)
    jobs.addInsertSql(f"INSERT INTO {name}_bucket SELECT CAST(id AS BIGINT), v, n FROM changes")
    wanted["bucket"] = lambda i: i
    by_iceberg(stack, f"{name}_uuid", UUIDType(), version, PartitionSpec())
    jobs.addInsertSql(f"INSERT INTO {name}_uuid SELECT {UUID}, v, n FROM changes")
    wanted["uuid"] = lambda i: uuid.UUID(bytes=f"{i:016}".encode())
    job = jobs.execute()

    def rows(key: str, engine: str, where: str = "true") -> list[str]:
        found = gateway.rows(f"SELECT k, v, n FROM {name}_{key} WHERE {where}", engine)
        return sorted(map(repr, found))

    def expected(key: str, least: int = 0) -> list[str]:
        of_key = wanted[key]
        return sorted(repr((of_key(i), *row)) for i, row in newest.rows.items() if row[1] >= least)

    def has_newest(key: str) -> bool:
        state = stack.load(f"{name}_{key}").state
        return state.current_snapshot_id is not None and rows(key, "duckdb") == expected(key)

    for _ in range(3):
        newest.change(60)
        for key in wanted:
            wait_until(functools.partial(has_newest, key), seconds=120, what=f"all of {key}")
    cancel(job)
    for key in wanted:
        state = stack.load(f"{name}_{key}").state
        assert {s.operation for s in state.ancestors(state.current_snapshot_id)} == {"overwrite"}
        for engine in ("duckdb", "spark"):
            if engine == "duckdb" or key not in NOT_ON_SPARK:
                assert rows(key, engine) == expected(key), (key, engine)
                assert rows(key, engine, "n >= 50") == expected(key, 50), (key, engine)
            else:
                with pytest.raises(SeamlineError, match="NOT_SUPPORTED"):
                    rows(key, engine)


# --- The gateway's catalog -----------------------------------------------------------------------


def rest_catalog(gateway: Gateway) -> str:
    """The statement that makes the catalog of a gateway known."""
    return (
        "CREATE CATALOG live WITH ('type' = 'iceberg', 'catalog-type' = 'rest',"
        f" 'uri' = '{gateway.url}/iceberg', 'cache-enabled' = 'false')"
    )


def collected(tables: Any, sql: str) -> Sequence[str]:
    """The rows of a query in Flink, as it shows them."""
    found, rows = [], tables.executeSql(sql).collect()
    try:
        while rows.hasNext():
            found.append(rows.next().toString())
    finally:
        rows.close()
    return found


def test_flink_reads_live_tables_from_the_gateway(
    stack: Stack, gateway: Gateway, flink: Flink, name: str
) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, "id bigint, amount double, tags array(varchar)")
    record = lambda i: {"id": i, "amount": i * 0.5, "tags": ["a", str(i)]}  # noqa: E731
    stack.produce(name, map(record, range(50)))
    stack.tier(name)
    tables = flink.session(parallelism=1, streaming=False)
    tables.executeSql(rest_catalog(gateway))
    for end in (70, 90):
        stack.produce(name, map(record, range(end - 20, end)))
        sql = f"SELECT count(*), sum(amount), max(id) FROM live.`default`.{name}"
        assert collected(tables, sql) == [f"+I[{end}, {end * (end - 1) / 4}, {end - 1}]"]
    sql = f"SELECT id, tags FROM live.`default`.{name} WHERE id IN (1, 89)"
    assert sorted(collected(tables, sql)) == ["+I[1, [a, 1]]", "+I[89, [a, 89]]"]


def test_flink_fills_tables_through_the_gateway(
    stack: Stack, gateway: Gateway, flink: Flink, name: str, tmp_path: pathlib.Path
) -> None:
    """And follows one of them as a stream, there too."""
    sent = Sent(stack, name)
    newest = Newest(stack, f"{name}_changes")
    own = {"iceberg": IcebergConfig(writes=True), "state_directory": str(tmp_path)}
    with contextlib.closing(Gateway(stack.config.model_copy(update=own))) as writable:
        tables = flink.session()
        tables.executeSql(rest_catalog(writable))
        tables.executeSql("CREATE DATABASE IF NOT EXISTS live.`default`")
        tables.useCatalog("live")
        tables.useDatabase("default")
        tables.executeSql(source(stack, "topic", name, f"{FIELDS}, {PLACES}", **COMMITTED))
        tables.executeSql(changes_of(stack, f"{name}_changes"))
        tables.executeSql(f"CREATE TABLE {name} ({FIELDS}, {STORED})")
        jobs = tables.createStatementSet()
        jobs.addInsertSql(f"INSERT INTO {name} SELECT * FROM topic")
        for version in (2, 3):
            tables.executeSql(
                f"CREATE TABLE {name}_{version} (k INT, v STRING, n BIGINT,"
                f" PRIMARY KEY (k) NOT ENFORCED) WITH ('format-version' = '{version}',"
                " 'write.upsert.enabled' = 'true')"
            )
            jobs.addInsertSql(f"INSERT INTO {name}_{version} SELECT id, v, n FROM changes")
        job = jobs.execute()

        def has_all() -> bool:
            wanted = sorted((i, *row) for i, row in newest.rows.items())
            return rows_of(stack, name) == len(sent.committed) and all(
                stack.load(f"{name}_{version}").state.current_snapshot_id is not None
                and sorted(gateway.rows(f"SELECT k, v, n FROM {name}_{version}")) == wanted
                for version in (2, 3)
            )

        for _ in range(3):
            sent.send(3)
            newest.change(20)
            wait_until(has_all, seconds=120)
        cancel(job)
        followed = tables.executeSql(
            f"SELECT id FROM {name} /*+ OPTIONS('streaming' = 'true',"
            " 'monitor-interval' = '500ms', 'starting-strategy' = 'TABLE_SCAN_THEN_INCREMENTAL') */"
        ).collect()
        found = sorted(followed.next().getField(0) for _ in sent.committed)
        assert found == sorted(sent.committed.values())
        followed.close()
