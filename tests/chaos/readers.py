"""Clients over HTTP: reads of every form, on both engines, with tokens, sessions and writes.

Each reader is a thread with a connection, and so a session, of its own. Everything it asks is
recorded with its answer. It remembers some answers, and asks for them again by their tokens.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import random
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

import seamline
from chaos.history import Acknowledged, Filter, Read, Recorder, Sent, pack, sorted_rows
from chaos.tables import COMPACTED, PLAIN, Table

DUCKDB_S = 20.0
SPARK_S = 45.0
_REMEMBERED_MAX = 12
_FORMS = ("rows", "rows", "rows", "groups", "groups", "twice")
_PAUSE_S = 0.3

SQL = {
    "rows": "SELECT _kafka_partition, _kafka_offset, id FROM {table}{where}",
    "groups": (
        "SELECT _kafka_partition, count(*), sum(id), count(DISTINCT id), max(_kafka_offset) "
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


class Client:
    """One connection and what it asks.

    Args:
        name: Its name in the history.
        url: The gateway.
        recorder: Takes what it asks and is answered.
        ops: Gives the numbers of statements.
    """

    def __init__(self, name: str, url: str, recorder: Recorder, ops: itertools.count[int]) -> None:
        self.name = name
        self._url = url
        self._recorder = recorder
        self._ops = ops
        self._sessions = itertools.count()
        self._connect()
        self.counts: collections.Counter[str] = collections.Counter()

    def _connect(self) -> None:
        self._connection = seamline.connect(self._url)
        self._session = f"{self.name}-{next(self._sessions)}"

    def read(
        self,
        table: Table,
        form: str = "rows",
        where: Filter | None = None,
        *,
        engine: str = "duckdb",
        repeat: Remembered | None = None,
        after: dict[int, int] | None = None,
    ) -> Remembered | Read:
        """One statement; an answered one can be repeated."""
        read = Read(
            op=next(self._ops),
            client=self.name,
            session=self._session,
            table=table.name,
            form=form,
            filter=where or Filter(),
            engine=engine,
            invoked=time.monotonic(),
            ended=0.0,
            token_of=repeat.read.op if repeat else None,
            after=after or {},
        )
        try:
            answer, token = self._ask(read, repeat.token if repeat else None)
        except seamline.Error as error:
            answer, token = _failed(read, error), None
            if error.code.name == "HISTORY_CHANGED" or self._connection.last_token is None:
                self._session = f"{self.name}-{next(self._sessions)}"
        self._recorder.record(answer)
        self.counts[answer.error or "ok"] += 1
        return answer if token is None else Remembered(answer, token)

    def _ask(self, read: Read, token: str | None) -> tuple[Read, str | None]:
        text = SQL[read.form].format(table=read.table, where=read.filter.sql)
        with self._connection.cursor() as cursor:
            cursor.execute(
                text,
                engine=read.engine,
                token=token,
                after=seamline.write_token(read.after, read.table) if read.after else (),
                timeout=SPARK_S if read.engine == "spark" else DUCKDB_S,
            )
            rows = cursor.fetchall()
            receipt = cursor.receipt
        return _answered(read, rows, receipt), receipt["token"]


def _answered(read: Read, rows: Sequence[tuple[Any, ...]], receipt: dict[str, Any]) -> Read:
    (about,) = (table for table in receipt["tables"] if table["table"][-1] == read.table)
    found = dataclasses.replace(
        read,
        ended=time.monotonic(),
        topic_id=about["topic_id"],
        end={int(p): offset for p, offset in about["end"].items()},
        boundary={int(p): offset for p, offset in about["boundary"].items()},
    )
    if read.form == "rows":
        return dataclasses.replace(found, rows=pack(sorted_rows(rows)))
    values = sorted([-1 if cell is None else int(cell) for cell in row] for row in rows)
    if read.form == "groups":  # the sum of no ids is null
        values = [[p, n, 0 if s == -1 and not d else s, d, o] for p, n, s, d, o in values]
    return dataclasses.replace(found, values=values)


def _failed(read: Read, error: seamline.Error) -> Read:
    return dataclasses.replace(
        read, ended=time.monotonic(), error=error.code.name, message=error.message
    )


class Reader:
    """A client that keeps asking, on a thread.

    Args:
        client: Asks.
        tables: What it asks of, with how often.
        seed: Of its choices.
        spark_share: How much of what it asks goes to Spark.
    """

    def __init__(
        self, client: Client, tables: Iterable[Table], seed: int, *, spark_share: float
    ) -> None:
        self.client = client
        self._tables = tuple(tables)
        self._chance = random.Random(seed)
        self._spark_share = spark_share
        self._remembered: collections.deque[Remembered] = collections.deque(maxlen=_REMEMBERED_MAX)
        self._ended = threading.Event()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=client.name, daemon=True)

    def start(self) -> None:
        """Begins to ask."""
        self._thread.start()

    def end(self) -> None:
        """Stops asking; `join` waits for the statement in hand."""
        self._ended.set()

    def join(self) -> None:
        """Waits until it has stopped."""
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._ended.wait(_PAUSE_S):
                self._step()
        except BaseException as error:  # noqa: BLE001 - the run fails with it
            self.failure = error

    def _step(self) -> None:
        chance = self._chance
        engine = "spark" if chance.random() < self._spark_share else "duckdb"
        if self._remembered and chance.random() < 0.3:
            old = chance.choice(self._remembered)
            table = next(t for t in self._tables if t.name == old.read.table)
            form, where = old.read.form, old.read.filter
            self.client.read(table, form, where, engine=engine, repeat=old)
            return
        table = chance.choice(self._tables)
        form = chance.choice(_FORMS)
        done = self.client.read(table, form, self._filter(table), engine=engine)
        # compaction takes hot rows of a token away, and nothing in Kafka tells of it
        if isinstance(done, Remembered) and table is not COMPACTED:
            self._remembered.append(done)

    def _filter(self, table: Table) -> Filter:
        """Mostly everything; else a predicate around the seam of an earlier read."""
        chance = self._chance
        known = [old.read for old in self._remembered if old.read.table == table.name]
        if not known or chance.random() < 0.6:
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


class Writer:
    """A client that writes, and must read what it wrote.

    Args:
        client: Asks.
        servers: The broker, through the proxy.
        recorder: Takes what it writes.
        first_id: Of its records.
    """

    def __init__(self, client: Client, servers: str, recorder: Recorder, first_id: int) -> None:
        self.client = client
        self._recorder = recorder
        self._ids = itertools.count(first_id)
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "log_level": 0,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        self._ended = threading.Event()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=client.name, daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def end(self) -> None:
        """Stops; `join` waits for the statement in hand."""
        self._ended.set()

    def join(self) -> None:
        """Waits until it has stopped."""
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._ended.wait(_PAUSE_S):
                written = self._write()
                if written:
                    self.client.read(PLAIN, after=written)
            self._producer.flush(10)
        except BaseException as error:  # noqa: BLE001 - the run fails with it
            self.failure = error

    def _write(self) -> dict[int, int]:
        """Sends one record and waits; gives where it is, nothing when that is not known."""
        id_ = next(self._ids)
        written: dict[int, int] = {}

        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                where = message.partition(), message.offset()
                self._recorder.record(Acknowledged(id_, *where, time.monotonic()))
                written[where[0]] = where[1]

        self._recorder.record(Sent(id_, PLAIN.topic, time.monotonic()))
        self._producer.produce(
            PLAIN.topic, json.dumps({"id": id_, "text": "w"}), on_delivery=report
        )
        self._producer.flush(10)
        return dict(written)
