"""Readers that are given a seam and read the tiers themselves, past the gateway's SQL.

A virtual snapshot is loaded by PyIceberg from the REST catalog, and read by it, by Spark through
the same catalog, and by SQL with its id: all must have the rows of the seam that it names. The data
source is driven as Spark drives it, batches and streams, its partitions pickled as on their way to
executors; a batch of a stream is read again later, when what was hot has become cold.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import pickle
import random
import re
from collections.abc import Iterable, Iterator
from typing import Any

import requests
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table as PyTable

from chaos.history import Read
from chaos.readers import Client, Past, Remembered, Worker, failed, with_rows
from chaos.tables import BY_NAME, COMPACTED, FOREIGN, Table
from seamline.connectors.iceberg.virtual import END_KEY
from seamline.connectors.spark.sessions import connect
from seamline.connectors.spark.source import SeamlineDataSource
from seamline.errors import CANCELED, ERRORS, SeamlineError
from seamline.gateway.dev.local.settings import SCHEMA
from seamline.gateway.iceberg_rest.routes import FILES
from seamline.seam.seam import Seam
from seamline.spark import configuration

_LIVE = "live"
_BOUNDARY_KEY, _TOPIC_ID_KEY = "seamline.boundary", "seamline.topic-id"
_SQL_SHARE, _SPARK_SHARE = 0.5, 0.35
_AGAIN_SHARE, _BATCH_SHARE, _ANEW_SHARE = 0.3, 0.2, 0.1
_BATCHES_MAX = 8
_NAMES = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")
_FILE_GONE = ("FileNotFound", "NotFoundException", "does not exist")
_AWAY = (
    "Connection refused",
    "Connection reset",
    "ConnectException",
    "ServiceUnavailable",
    "closed",
)


class CatalogReader(Worker):
    """Reads virtual snapshots with PyIceberg, with Spark, and with SQL.

    Args:
        client: Asks the gateway, and records.
        tables: What it reads.
        seed: Of its choices.
        url: The gateway.
        spark_url: A Spark that is not attacked.
    """

    def __init__(
        self, client: Client, tables: Iterable[Table], seed: int, url: str, spark_url: str
    ) -> None:
        super().__init__(client)
        self._tables = tuple(tables)
        self._chance = random.Random(seed)
        self._url = url
        self._spark_url = spark_url
        self._spark: Any = None

    def read(self, table: Table) -> Remembered | Read:
        """The table as PyIceberg sees it now; an answered one can be repeated by its snapshot."""
        read = self.client.begin(table, _form(table), engine="pyiceberg", way="pyiceberg")
        try:
            catalog = RestCatalog(_LIVE, uri=f"{self._url}{FILES}")
            loaded = catalog.load_table((SCHEMA, table.name))
            read = _given(read, loaded)
            names = (field.name for field in loaded.schema().fields)
            columns = (*table.places, *_others(table, names))
            found = loaded.scan(selected_fields=columns).to_arrow()
        except Exception as error:  # noqa: BLE001 - what it was is judged
            return self.client.end(failed(read, *_named(error)))
        rows = zip(*(found.column(name).to_pylist() for name in columns), strict=True)
        return Remembered(self.client.end(with_rows(read, rows, columns)), "")

    def read_on_spark(self, table: Table, old: Remembered) -> None:
        """The rows of a virtual snapshot, by Spark through the catalog."""
        first = old.read
        self._read_on_spark(
            self.client.begin(
                table,
                first.form,
                engine="spark",
                way="catalog",
                token_of=first.op,
                version=first.version,
                topic_id=first.topic_id,
                end=first.end,
                boundary=first.boundary,
            )
        )

    def read_states(self, table: Table) -> Remembered | Read:
        """An upsert table as Spark sees it now."""
        read = self.client.begin(table, engine="spark", way="catalog")
        try:
            catalog = RestCatalog(_LIVE, uri=f"{self._url}{FILES}")
            read = _given(read, catalog.load_table((SCHEMA, table.name)))
        except Exception as error:  # noqa: BLE001 - what it was is judged
            return self.client.end(failed(read, *_named(error)))
        return self._read_on_spark(read)

    def _read_on_spark(self, read: Read) -> Remembered | Read:
        table = BY_NAME[read.table]
        listed = "*" if read.form == "columns" else ", ".join((*table.places, "id"))
        statement = (
            f"SELECT {listed} FROM {_LIVE}.{SCHEMA}.{read.table} VERSION AS OF {read.version}"
        )
        try:
            found = self._session().sql(statement)
            names = [*table.places, *_others(table, found.columns)]
            every = [row.asDict(recursive=True) for row in found.collect()]
            rows = [[row[name] for name in names] for row in every]
        except Exception as error:  # noqa: BLE001 - what it was is judged
            self._spark = None
            return self.client.end(failed(read, *_named(error)))
        return Remembered(self.client.end(with_rows(read, rows, names)), "")

    def _session(self) -> Any:
        if self._spark is None:
            self._spark = connect(self._spark_url)
            for key, value in configuration(self._url, name=_LIVE).items():
                self._spark.conf.set(key, value)
        return self._spark

    def _step(self) -> None:
        table = self._chance.choice(self._tables)
        if table.is_upsert:
            self.read_states(table)
            return
        done = self.read(table)
        if isinstance(done, Read) or done.read.version is None:
            return
        if self._chance.random() < _SQL_SHARE:
            self.client.read(table, done.read.form, repeat=done, past=Past.of(done.read))
        if self._chance.random() < _SPARK_SHARE:
            self.read_on_spark(table, done)

    def close(self) -> None:
        """Ends its Spark session."""
        if self._spark is not None:
            self._spark.client.close()

    def _finish(self) -> None:
        self.close()


def _given(read: Read, table: PyTable) -> Read:
    """What the metadata that was handed out says about the seam."""
    snapshot = table.current_snapshot()
    assert snapshot is not None, "every table begins with a snapshot"
    topic_id = table.properties.get(_TOPIC_ID_KEY)
    if topic_id is not None:  # another writer fills it: only that writer knows its boundary
        ends = _summary(snapshot).get(END_KEY)
        if ends is None:
            raise SeamlineError(CANCELED, "there is no tail, and its metadata is the writer's own")
        return dataclasses.replace(
            read,
            topic_id=topic_id,
            end={int(p): offset for p, offset in json.loads(ends).items()},
            version=snapshot.snapshot_id,
        )
    bounded = snapshot
    while (text := _summary(bounded).get(_BOUNDARY_KEY)) is None:
        parent = table.snapshot_by_id(bounded.parent_snapshot_id or -1)
        assert parent is not None, "the boundary's snapshot is kept"
        bounded = parent
    boundary = json.loads(text)
    start = {int(p): offset for p, offset in boundary["next"].items()}
    end = json.loads(_summary(snapshot).get(END_KEY, "{}"))
    return dataclasses.replace(
        read,
        topic_id=boundary["topic_id"],
        boundary=start,
        end={**start, **{int(p): offset for p, offset in end.items()}},
        version=snapshot.snapshot_id,
    )


def _summary(snapshot: Any) -> dict[str, str]:
    return dict(snapshot.summary.additional_properties) if snapshot.summary else {}


class SourceReader(Worker):
    """Drives the Spark data source: streams that continue, batches of them again, whole tables.

    Args:
        client: Records.
        tables: What it reads.
        seed: Of its choices.
        url: The gateway.
    """

    def __init__(self, client: Client, tables: Iterable[Table], seed: int, url: str) -> None:
        super().__init__(client)
        self._tables = tuple(tables)
        self._chance = random.Random(seed)
        self._url = url
        self._reached: dict[str, dict[str, Any]] = {}
        self._batches: collections.deque[tuple[Table, Read, dict[str, Any], dict[str, Any]]] = (
            collections.deque(maxlen=_BATCHES_MAX)
        )

    def read_on(self, table: Table) -> None:
        """The next batch of the table's stream."""
        read = self.client.begin(table, _form(table), engine="source", way="source")
        try:
            stream: Any = self._source(table).streamReader(None)
            start = self._reached.get(table.name) or _kept(stream.initialOffset())
            end = _kept(stream.latestOffset())
            read = _between(read, start, end)
            done = _filled(read, table, stream, stream.partitions(start, end))
        except Exception as error:  # noqa: BLE001 - what it was is judged
            self.client.end(failed(read, *_named(error)))
            return
        self.client.end(done)
        self._reached[table.name] = end
        if table not in (COMPACTED, FOREIGN):  # whose rows may disappear between two reads
            self._batches.append((table, done, start, end))

    def read_again(self, table: Table, first: Read, start: Any, end: Any) -> None:
        """A batch of a stream, as after a restart from a checkpoint."""
        about = {"engine": "source", "way": "source", "token_of": first.op}
        read = _between(self.client.begin(table, first.form, **about), start, end)
        try:
            stream: Any = self._source(table).streamReader(None)
            done = _filled(read, table, stream, stream.partitions(start, end))
        except Exception as error:  # noqa: BLE001 - what it was is judged
            done = failed(read, *_named(error))
        self.client.end(done)

    def read_whole(self, table: Table) -> Remembered | Read:
        """The whole table, as a batch."""
        read = self.client.begin(table, _form(table), engine="batch", way="source")
        try:
            batch: Any = self._source(table).reader(None)
            seam: Seam = batch._table.seam
            read = dataclasses.replace(
                read, topic_id=seam.log.topic_id, end=dict(seam.end), boundary=dict(seam.boundary)
            )
            done = _filled(read, table, batch, batch.partitions())
        except Exception as error:  # noqa: BLE001 - what it was is judged
            return self.client.end(failed(read, *_named(error)))
        return Remembered(self.client.end(done), "")

    def _source(self, table: Table) -> SeamlineDataSource:
        return SeamlineDataSource({"url": self._url, "table": table.name})

    def _step(self) -> None:
        chance = self._chance
        table = chance.choice(self._tables)
        if self._batches and chance.random() < _AGAIN_SHARE:
            self.read_again(*chance.choice(self._batches))
        elif chance.random() < _BATCH_SHARE:
            self.read_whole(table)
        else:
            if chance.random() < _ANEW_SHARE:
                self._reached.pop(table.name, None)
            self.read_on(table)


def _kept(offset: dict[str, Any]) -> dict[str, Any]:
    """An offset as Spark's checkpoint keeps it."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def _between(read: Read, start: dict[str, Any], end: dict[str, Any]) -> Read:
    return dataclasses.replace(
        read,
        topic_id=end["topic_id"],
        start={int(p): offset for p, offset in start["end"].items()},
        end={int(p): offset for p, offset in end["end"].items()},
    )


def _filled(read: Read, table: Table, reader: Any, partitions: Iterable[Any]) -> Read:
    """The read with the rows that executors read, all of which see the same columns."""
    names: list[str] = []

    def found() -> Iterator[tuple[Any, ...]]:
        for partition in partitions:
            arrived = pickle.loads(pickle.dumps(partition))
            for batch in reader.read(arrived):
                columns = [*table.places, *_others(table, batch.schema.names)]
                assert columns == (names or columns), f"{columns} beside {names}"
                names[:] = columns
                yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)

    rows = list(found())
    return with_rows(read, rows, names or [*table.places, "id"])


def _form(table: Table) -> str:
    return "columns" if table.has_schemas else "rows"


def _others(table: Table, names: Iterable[str]) -> list[str]:
    """What is read in addition to the rows' positions."""
    if not table.has_schemas:
        return ["id"]
    return [name for name in names if not name.startswith("_kafka_")]


def _named(error: Exception) -> tuple[str, str]:
    """An error's name, ours if there is one, and its message."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, SeamlineError):
        return error.code.name, text
    known = {code.name for code in ERRORS.values()}
    named = next((name for name in _NAMES.findall(text) if name in known), None)
    if named is not None:
        return named, text
    if isinstance(error, requests.RequestException) or any(sign in text for sign in _AWAY):
        return "GATEWAY_UNAVAILABLE", text
    if isinstance(error, FileNotFoundError) or any(sign in text for sign in _FILE_GONE):
        return "COLD_FILE_MISSING", text
    return type(error).__name__, text
