"""Clients over HTTP: reads of every form, on both engines, with tokens, sessions and writes.

Each reader is a thread with a connection, and so a session, of its own, or shares one with others.
Everything it asks is recorded with its answer. Some answers are remembered, and asked for again by
whoever comes upon them: by their tokens, or by the moment or snapshot that was asked for.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import itertools
import json
import os
import random
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

import seamline
from chaos.history import (
    SIGNS,
    Acknowledged,
    Filter,
    Read,
    Recorder,
    Sent,
    pack,
    pack_cells,
    sorted_rows,
    value_of,
)
from chaos.producer import KEYS
from chaos.schemas import shown
from chaos.tables import BY_NAME, COMPACTED, PLAIN, Table

DUCKDB_S = 40.0
SPARK_S = 60.0
_REMEMBERED_MAX = 12
_FORMS = ("rows", "rows", "rows", "groups", "groups", "meta", "twice")
_FORMS_OF_SCHEMAS = (*_FORMS, *["columns"] * 5)
_PAUSE_S = 0.3
_PAST_S_MAX = 60.0
_TURNS = threading.BoundedSemaphore(1 + (os.cpu_count() or 1))
"""How many ask at once: statements that share too few cores all end at their deadlines."""
_PRICES = ("0", "0.00", "2", "4.5", "4.50", "4.505", "-1.25", "9.99", "9.990", "1095", "1e0")
"""Literals of the column's own scale and of others, among prices and outside them."""

SQL = {
    "rows": "SELECT _kafka_partition, _kafka_offset, id FROM {table}{where}",
    "columns": "SELECT _kafka_partition, _kafka_offset, * FROM {table}{where}",
    "groups": (
        "SELECT _kafka_partition, count(*), sum(id), count(DISTINCT id), max(_kafka_offset) "
        "FROM {table}{where} GROUP BY _kafka_partition"
    ),
    "meta": (
        "SELECT _kafka_partition, count(*), count(price), "
        "coalesce(CAST(sum(price) * 100 AS bigint), 0), "
        "coalesce(sum(cardinality(_kafka_headers)), 0), count(_kafka_timestamp), "
        "min(CAST(round(to_unixtime(_kafka_timestamp) * 1000) AS bigint)), "
        "max(CAST(round(to_unixtime(_kafka_timestamp) * 1000) AS bigint)) "
        "FROM {table}{where} GROUP BY _kafka_partition"
    ),
    "twice": (
        "SELECT (SELECT count(*) FROM {table}{where}), (SELECT count(*) FROM {table}{where})"
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Remembered:
    """An answered read and the token that repeats it."""

    read: Read
    token: str


@dataclasses.dataclass(frozen=True, slots=True)
class Past:
    """A past moment, by both clocks, or a snapshot and what is known of it beforehand.

    Attributes:
        moment: The moment; None for a snapshot.
        moment_ms: The same by the clock of records.
        version: Id of the snapshot.
        topic_id: The log whose records the snapshot holds.
        end: Up to which offsets it holds them.
    """

    moment: float | None = None
    moment_ms: int = 0
    version: int | None = None
    topic_id: str = ""
    end: dict[int, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, read: Read) -> Past:
        """What an earlier read asked for."""
        return cls(read.moment, read.moment_ms, read.version, read.topic_id, read.end)

    @classmethod
    def seconds_ago(cls, seconds: float) -> Past:
        """The moment that long ago."""
        return cls(time.monotonic() - seconds, int((time.time() - seconds) * 1000))

    @property
    def sql(self) -> str:
        """As a clause after a table's name."""
        if self.version is not None:
            return f" FOR VERSION AS OF {self.version}"
        if self.moment is None:
            return ""
        seconds, milliseconds = divmod(self.moment_ms, 1000)
        text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
        return f" FOR TIMESTAMP AS OF TIMESTAMP '{text}.{milliseconds:03} UTC'"


PRESENT = Past()


class Session:
    """A connection, which several clients may share, and the name of its session."""

    def __init__(self, name: str, url: str) -> None:
        self.connection = seamline.connect(url)
        self._name = name
        self._numbers = itertools.count()
        self.renew()

    def renew(self) -> None:
        """What was read before no longer counts."""
        self.name = f"{self._name}-{next(self._numbers)}"


class Client:
    """Asks statements, and records what was asked and answered.

    Args:
        name: Its name in the history.
        url: The gateway.
        recorder: Takes what it asks and is answered.
        ops: Gives the numbers of statements.
        session: Shared with other clients; one of its own if left out.
    """

    def __init__(
        self,
        name: str,
        url: str,
        recorder: Recorder,
        ops: itertools.count[int],
        session: Session | None = None,
    ) -> None:
        self.name = name
        self._recorder = recorder
        self._ops = ops
        self._session = session or Session(name, url)
        self.counts: collections.Counter[str] = collections.Counter()

    @property
    def connection(self) -> seamline.Connection:
        """Its connection."""
        return self._session.connection

    def begin(self, table: Table, form: str = "rows", **about: Any) -> Read:
        """A read that is about to be sent."""
        return Read(
            op=next(self._ops),
            client=self.name,
            session=self._session.name,
            table=table.name,
            form=form,
            filter=about.pop("filter", Filter()),
            engine=about.pop("engine", "duckdb"),
            invoked=time.monotonic(),
            ended=0.0,
            **about,
        )

    def end(self, read: Read) -> Read:
        """Records how a read ended."""
        self._recorder.record(read)
        self.counts[read.error or "ok"] += 1
        return read

    def read(
        self,
        table: Table,
        form: str = "rows",
        where: Filter | None = None,
        *,
        engine: str = "duckdb",
        repeat: Remembered | None = None,
        after: dict[int, int] | None = None,
        past: Past = PRESENT,
        freshness: str = "latest",
    ) -> Remembered | Read:
        """One statement; an answered one can be repeated."""
        session = self._session
        read = self.begin(
            table,
            form,
            filter=where or Filter(),
            engine=engine,
            token_of=repeat.read.op if repeat else None,
            after=after or {},
            freshness=freshness,
            **dataclasses.asdict(past),
        )
        is_past = past != PRESENT
        try:
            answer, token = self._ask(read, past, repeat.token if repeat and not is_past else None)
        except seamline.Error as error:
            answer, token = failed(read, error.code.name, error.message), None
            lost = session.connection.last_token is None
            if error.code.name == "HISTORY_CHANGED" or lost:
                session.renew()
        self.end(answer)
        return answer if token is None else Remembered(answer, token)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement that is not judged; none when it fails."""
        try:
            return list(self._session.connection.execute(statement, timeout=DUCKDB_S).fetchall())
        except seamline.Error:
            return []

    def _ask(self, read: Read, past: Past, token: str | None) -> tuple[Read, str | None]:
        text = SQL[read.form].format(table=read.table + past.sql, where=read.filter.sql)
        for own, its in zip(PLAIN.places, BY_NAME[read.table].places, strict=True):
            text = text.replace(own, its)
        with self._session.connection.cursor() as cursor:
            cursor.execute(
                text,
                engine=read.engine,
                token=token,
                after=seamline.write_token(read.after, read.table) if read.after else (),
                freshness=read.freshness,
                timeout=SPARK_S if read.engine == "spark" else DUCKDB_S,
            )
            rows = cursor.fetchall()
            receipt = cursor.receipt
            names = [column[0] for column in cursor.description or ()]
        return _answered(read, rows, names, receipt), receipt["token"]


def _answered(
    read: Read, rows: Sequence[tuple[Any, ...]], names: list[str], receipt: dict[str, Any]
) -> Read:
    (about,) = (table for table in receipt["tables"] if table["table"][-1] == read.table)
    found = dataclasses.replace(read, ended=time.monotonic())
    if about["topic_id"] is not None:  # a snapshot is read as it is, whatever the log
        found = dataclasses.replace(
            found,
            topic_id=about["topic_id"],
            end={int(p): offset for p, offset in about["end"].items()},
            boundary={int(p): offset for p, offset in about["boundary"].items()},
        )
    if read.form in ("rows", "columns"):
        return with_rows(found, rows, names)
    values = sorted([-1 if cell is None else int(cell) for cell in row] for row in rows)
    if read.form == "groups":  # the sum of no ids is null
        values = [[p, n, 0 if s == -1 and not d else s, d, o] for p, n, s, d, o in values]
    return dataclasses.replace(found, values=values)


def with_rows(read: Read, rows: Iterable[Sequence[Any]], names: Sequence[str]) -> Read:
    """The read, answered now by rows of these columns: partition and offset, then any others."""
    _, _, *others = names
    place = 2 + others.index("id")
    found = list(rows)
    by_place = sorted_rows((row[0], row[1], row[place]) for row in found)
    answer = dataclasses.replace(read, ended=time.monotonic(), rows=pack(by_place))
    if read.form != "columns":
        return answer
    cells: dict[int, list[tuple[int, list[Any]]]] = collections.defaultdict(list)
    for partition, offset, *values in found:
        cells[partition].append((offset, [shown(value) for value in values]))
    packed = pack_cells({partition: sorted(rows, key=_offset) for partition, rows in cells.items()})
    return dataclasses.replace(answer, names=others, cells=packed)


def _offset(row: tuple[int, Any]) -> int:
    return row[0]


def failed(read: Read, error: str, message: str) -> Read:
    """The read, ended by an error."""
    return dataclasses.replace(read, ended=time.monotonic(), error=error, message=message)


class Memory:
    """Answered reads, of whichever client, that can be asked for again."""

    def __init__(self) -> None:
        self._reads: collections.deque[Remembered] = collections.deque(maxlen=_REMEMBERED_MAX)
        self._lock = threading.Lock()

    def keep(self, done: Remembered) -> None:
        """Remembers one, and forgets the oldest."""
        with self._lock:
            self._reads.append(done)

    def all(self) -> list[Remembered]:
        """All that are remembered, oldest first."""
        with self._lock:
            return list(self._reads)


class Worker(abc.ABC):
    """Something that is done repeatedly on a thread of its own.

    Args:
        client: Asks.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self._ended = threading.Event()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=client.name, daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def end(self) -> None:
        """Stops; `join` waits for the current statement."""
        self._ended.set()

    def join(self) -> None:
        """Waits until it has stopped."""
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._ended.wait(_PAUSE_S):
                with _TURNS:
                    self._step()
            self._finish()
        except BaseException as error:  # noqa: BLE001 - the run fails with it
            self.failure = error

    @abc.abstractmethod
    def _step(self) -> None:
        """What it does repeatedly."""

    def _finish(self) -> None:  # noqa: B027 - most have nothing left
        """What is left to do at the end."""


class Reader(Worker):
    """A client that keeps asking.

    Args:
        client: Asks.
        tables: What it asks of, with how often.
        seed: Of its choices.
        memory: What can be asked for again.
        spark_share: What share of its statements goes to Spark.
        past_share: How much of it is about the past.
        cached_share: How much of it may be as old as what the gateway holds.
    """

    def __init__(
        self,
        client: Client,
        tables: Iterable[Table],
        seed: int,
        memory: Memory,
        *,
        spark_share: float = 0.0,
        past_share: float = 0.0,
        cached_share: float = 0.0,
    ) -> None:
        super().__init__(client)
        self._tables = tuple(tables)
        self._chance = random.Random(seed)
        self._memory = memory
        self._spark_share = spark_share
        self._past_share = past_share
        self._cached_share = cached_share

    def _step(self) -> None:
        chance = self._chance
        engine = "spark" if chance.random() < self._spark_share else "duckdb"
        old = chance.choice(self._memory.all() or [None])
        if old is not None and chance.random() < 0.3:
            self._repeat(old, engine)
            return
        table = chance.choice(self._tables)
        form = chance.choice(_FORMS_OF_SCHEMAS if table.has_schemas else _FORMS)
        if table.provider and form == "meta":
            form = "groups"  # records that its writer does not copy
        past = self._past(table) if chance.random() < self._past_share else PRESENT
        cached = past is PRESENT and chance.random() < self._cached_share
        done = self.client.read(
            table,
            form,
            self._filter(table),
            engine=engine,
            past=past,
            freshness="cached" if cached else "latest",
        )
        # compaction removes hot rows of a token, and nothing in Kafka shows it
        if isinstance(done, Remembered) and table is not COMPACTED:
            self._memory.keep(done)

    def _repeat(self, old: Remembered, engine: str) -> None:
        read = old.read
        past = PRESENT if read.is_present or read.freshness != "latest" else Past.of(read)
        table = BY_NAME[read.table]
        self.client.read(table, read.form, read.filter, engine=engine, repeat=old, past=past)

    def _past(self, table: Table) -> Past:
        """A moment, or a snapshot that is there now."""
        if self._chance.random() < 0.6:
            return Past.seconds_ago(self._chance.uniform(0.0, _PAST_S_MAX))
        listed = f'SELECT snapshot_id, boundary FROM "{table.name}$snapshots"'
        known = self.client.ask(f"{listed} WHERE boundary IS NOT NULL")
        topics = self.client.ask(f'SELECT max(topic_id) FROM "{table.name}$seam"')
        if not known or not topics:
            return PRESENT
        version, boundary = self._chance.choice(known)
        topic_id = topics[0][0]
        end = {int(partition): offset for partition, offset in json.loads(boundary).items()}
        return Past(version=version, topic_id=topic_id, end=end)

    def _filter(self, table: Table) -> Filter:
        """Mostly everything; else a price, or a predicate around the seam of an earlier read."""
        chance = self._chance
        if table.is_upsert and chance.random() < 0.3:
            return Filter(key=f"k{chance.randrange(KEYS)}")
        if chance.random() < 0.15:
            return Filter(price_sign=chance.choice(list(SIGNS)), price=chance.choice(_PRICES))
        known = [old.read for old in self._memory.all() if old.read.table == table.name]
        if not known or chance.random() < 0.5:
            return Filter()
        seen = known[-1]
        partition = chance.choice(list(seen.end))
        around = max(0, seen.boundary.get(partition, 0) - chance.randint(0, 20))
        return chance.choice(
            [
                Filter(partition=partition),
                Filter(partition=partition, offset_from=around),
                Filter(offset_from=around, offset_to=around + chance.randint(1, 60)),
                Filter(offset_from=max(seen.end.values())),  # prunes every file
                Filter(id_from=10**15),  # nothing at all
            ]
        )


class Writer(Worker):
    """A client that writes, and must read what it wrote.

    Args:
        client: Asks.
        servers: The broker, through the proxy.
        recorder: Takes what it writes.
        first_id: Of its records.
    """

    def __init__(self, client: Client, servers: str, recorder: Recorder, first_id: int) -> None:
        super().__init__(client)
        self._recorder = recorder
        self._ids = itertools.count(first_id)
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "log_level": 0,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 5000,
            }
        )

    def _step(self) -> None:
        written = self._write()
        if written:
            self.client.read(PLAIN, after=written)

    def _finish(self) -> None:
        self._producer.flush(10)

    def _write(self) -> dict[int, int]:
        """Sends one record and waits; returns its position, or nothing if that is unknown."""
        id_ = next(self._ids)
        written: dict[int, int] = {}

        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                where = message.partition(), message.offset()
                self._recorder.record(Acknowledged(id_, *where, time.monotonic()))
                written[where[0]] = where[1]

        self._recorder.record(Sent(id_, PLAIN.topic, time.monotonic()))
        self._producer.produce(PLAIN.topic, value_of(id_, "w"), on_delivery=report)
        self._producer.flush(10)
        return dict(written)
