"""A database whose changes are captured: SQLite, and what Debezium, Maxwell and others write of it.

The database is the judge: what a table over the changes must be is what SQLite says there is.
"""

from __future__ import annotations

import io
import json
import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import fastavro

from seamline.connectors.kafka.formats.envelopes import ENVELOPES

ENCODINGS = ("json", "wrapped", "avro")
"""How a change is written: as JSON, as Kafka Connect wraps that in its schema, or as Avro."""
_USER = {
    "type": "record",
    "name": "Value",
    "namespace": "db.users",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "score", "type": ["null", "int"], "default": None},
    ],
}
_SOURCE = {
    "type": "record",
    "name": "Source",
    "fields": [{"name": "connector", "type": "string"}, {"name": "lsn", "type": "long"}],
}
AVRO_VALUE: dict[str, Any] = {
    "type": "record",
    "name": "Envelope",
    "namespace": "db.users",
    "fields": [
        {"name": "before", "type": ["null", _USER], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": ["null", _SOURCE], "default": None},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}
"""Debezium's envelope of a user."""
AVRO_KEY: dict[str, Any] = {
    "type": "record",
    "name": "Key",
    "namespace": "db.users",
    "fields": [{"name": "id", "type": "long"}],
}
_AVRO = {"id": fastavro.parse_schema(AVRO_KEY), "op": fastavro.parse_schema(AVRO_VALUE)}
"""By a field that only they have."""

Record = tuple[bytes | None, bytes | None, int]
"""Key, value, and the id by which its partition is chosen."""
KEYS = 8


_OF_MONGODB = ("mongodb", "debezium_mongodb")
_Row = dict[str, Any] | None


def _document(row: _Row, *, is_legacy: bool) -> _Row:
    """A row as a document in Extended JSON, sharded by `id`."""
    if row is None:
        return None
    number = row["score"]
    if number is not None and is_legacy:
        number = {"$numberLong": str(number)}
    return {"_id": row["id"], "id": row["id"], "name": row["name"], "score": number}


def _of_mongodb(operation: str, before: _Row, after: _Row) -> dict[str, Any]:
    key = (after if before is None else before) or {}
    words = {"c": "insert", "r": "insert", "u": "replace", "d": "delete"}
    return {
        "_id": {"_data": "8263"},
        "operationType": words[operation],
        "clusterTime": {"$timestamp": {"t": 1_700_000_000, "i": 1}},
        "fullDocument": _document(after, is_legacy=True),
        "documentKey": {"_id": key["id"], "id": key["id"]},
        "ns": {"db": "d", "coll": "users"},
    }


def _of_debeziums_mongodb(operation: str, before: _Row, after: _Row) -> dict[str, Any]:
    texts = [_document(row, is_legacy=False) for row in (before, after)]
    old, new = (None if row is None else json.dumps(row) for row in texts)
    changed = {"updatedFields": "{}", "removedFields": None} if operation == "u" else None
    return {"before": old, "after": new, "updateDescription": changed, "op": operation, "ts_ms": 1}


def _of_dms(operation: str, before: _Row, after: _Row) -> dict[str, Any]:
    words = {"c": "insert", "r": "load", "u": "update", "d": "delete"}
    metadata = {"record-type": "data", "operation": words[operation], "table-name": "users"}
    body = {"data": before if operation == "d" else after, "metadata": metadata}
    return body if operation != "u" else {**body, "before-image": before}


def _of_goldengate(operation: str, before: _Row, after: _Row) -> dict[str, Any]:
    word = {"c": "I", "r": "I", "u": "U", "d": "D"}[operation]
    body = {"table": "D.USERS", "op_type": word, "op_ts": "2026-01-01 00:00:00.000000", "pos": "1"}
    images = {"before": before, "after": after}
    return {**body, **{name: row for name, row in images.items() if row is not None}}


def _of_qlik(operation: str, before: _Row, after: _Row) -> dict[str, Any]:
    word = {"c": "INSERT", "r": "REFRESH", "u": "UPDATE", "d": "DELETE"}[operation]
    headers = {"operation": word, "changeSequence": "2026", "timestamp": "2026-01-01T00:00:00.000"}
    if operation == "d" and before is not None and before["id"] % 2:
        return {"data": before, "beforeData": None, "headers": headers}
    return {"data": after, "beforeData": before, "headers": headers}


def _of_enveloped_qlik(operation: str, before: _Row, after: _Row) -> dict[str, Any]:
    message = _of_qlik(operation, before, after)
    return {"magic": "atMSG", "type": "DT", "headers": None, "message": message}


_WRITTEN: Mapping[str, Callable[[str, _Row, _Row], dict[str, Any]]] = {
    "mongodb": _of_mongodb,
    "debezium_mongodb": _of_debeziums_mongodb,
    "dms": _of_dms,
    "goldengate": _of_goldengate,
    "qlik": _of_enveloped_qlik,
    "qlik_data": _of_qlik,
}
"""What writes a change, by its envelope."""


class CapturedUsers:
    """A table of users in SQLite.

    Args:
        dice: Chooses what happens.
        envelope: How changes are written.
        encoding: One of `ENCODINGS`; all but Debezium write JSON.
        partitions: Of the topic; a change of a key that is one record keeps to its partition.

    Attributes:
        is_truncated: Whether some of what happens are truncates; not with several partitions, where
            they are refused, nor where they are not written.
    """

    def __init__(
        self, dice: random.Random, envelope: str, *, encoding: str = "json", partitions: int = 1
    ) -> None:
        self._dice = dice
        self._envelope = envelope
        self._encoding = encoding
        self._partitions = partitions
        self.is_truncated = partitions == 1 and bool(ENVELOPES[envelope].truncates)
        self._old_is_whole = dice.random() < 0.5  # as TiCDC writes Canal's
        self._database = sqlite3.connect(":memory:", isolation_level=None)
        self._database.row_factory = sqlite3.Row
        self._database.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, score INT)")

    def rows(self) -> list[tuple[Any, ...]]:
        """What there is."""
        return [tuple(row) for row in self._database.execute("SELECT id, name, score FROM users")]

    def snapshot(self) -> Iterator[Record]:
        """Some rows that were there before capturing began."""
        for _ in range(self._dice.randrange(4)):
            id_ = self._free_id()
            if id_ is not None:
                yield from self._insert(id_, "r")

    def happen(self, count: int) -> Iterator[Record]:
        """So many statements."""
        for _ in range(count):
            known = [row[0] for row in self.rows()]
            free = self._free_id()
            if self.is_truncated and self._dice.random() < 0.1:
                yield self.truncate()
                continue
            if self._dice.random() < 0.2 and self._encoding != "avro":
                yield from self._beside()
            kind = self._dice.random()
            if kind < 0.4 and free is not None:
                yield from self._insert(free, "c")
            elif kind < 0.7 and known:
                id_ = self._dice.choice(known)
                before = self._row(id_)
                self._write(
                    "UPDATE users SET name = ?, score = ? WHERE id = ?", *self._values(), id_
                )
                yield self._change("u", id_, before, self._row(id_))
            elif kind < 0.8 and known:
                yield from self._move(self._dice.choice(known))
            elif known:
                id_ = self._dice.choice(known)
                before = self._row(id_)
                self._write("DELETE FROM users WHERE id = ?", id_)
                yield from self._delete(id_, before)

    def truncate(self) -> Record:
        """What is written when all rows go at once; Maxwell writes nothing of it but of a drop."""
        self._write("DELETE FROM users")
        body: dict[str, Any] = {"op": "t", "before": None, "after": None}
        if self._envelope == "canal":
            body = {"data": None, "old": None, "isDdl": True, "pkNames": None, "type": "TRUNCATE"}
        elif self._envelope == "maxwell":
            body = {"database": "d", "table": "users", "type": "table-drop", "sql": "DROP TABLE"}
        elif self._envelope == "goldengate":
            body = {"table": "D.USERS", "op_type": "T", "current_ts": "2026-01-01T00:00:00"}
        elif self._envelope == "dms":
            body = {"metadata": {"record-type": "control", "operation": "drop-table"}}
        elif self._envelope == "mongodb":
            body = {"_id": {"_data": "82"}, "operationType": "drop", "ns": {"db": "d", "coll": "u"}}
        return None, self._dumped(body), 0

    # --- Changes -------------------------------------------------------------------------------

    def _beside(self) -> Iterator[Record]:
        """What a source writes beside changes."""
        bodies: list[dict[str, Any]] = []
        if ENVELOPES[self._envelope].besides == ENVELOPES["debezium"].besides:
            source = {"connector": "sqlite", "lsn": 2}
            bodies = [
                {"ts_ms": 5},
                {"ts_ms": 6, "status": "BEGIN", "id": "571:53", "event_count": None},
                {"status": "END", "id": "571:53", "event_count": 2, "data_collections": []},
                {"source": source, "databaseName": "d", "ddl": "CREATE TABLE", "ts_ms": 7},
                {"source": source, "databaseName": "d", "schemaName": "s", "tableChanges": [{}]},
            ]
        elif self._envelope == "qlik":
            structure = {"tableColumns": {"id": {"ordinal": 1, "type": "INT8"}}}
            bodies = [{"magic": "atMSG", "type": "MD", "message": {"tableStructure": structure}}]
        elif self._envelope == "dms":
            bodies = [{"metadata": {"record-type": "control", "operation": "create-table"}}]
        if bodies:
            key = self._dice.choice([None, b'{"serverName": "d"}'])
            yield key, self._dumped(self._dice.choice(bodies)), self._dice.randrange(KEYS)

    def _insert(self, id_: int, operation: str) -> Iterator[Record]:
        self._write("INSERT INTO users VALUES (?, ?, ?)", id_, *self._values())
        yield self._change(operation, id_, None, self._row(id_))

    def _move(self, id_: int) -> Iterator[Record]:
        """An update of the primary key, and perhaps of the rest."""
        is_two = self._envelope in ("debezium", *_OF_MONGODB)
        free = self._free_id(None if is_two else id_ % self._partitions)
        if free is None:
            return
        before = self._row(id_)
        self._write("UPDATE users SET id = ? WHERE id = ?", free, id_)
        if self._dice.random() < 0.5:
            self._write("UPDATE users SET name = ?, score = ? WHERE id = ?", *self._values(), free)
        if is_two:
            yield from self._delete(id_, before)
            yield self._change("c", free, None, self._row(free))
        else:
            yield self._change("u", free, before, self._row(free))

    def _delete(self, id_: int, before: dict[str, Any] | None) -> Iterator[Record]:
        is_debezium = self._envelope.startswith("debezium")
        if is_debezium and self._dice.random() < 0.3:
            before = None  # a source that keeps no old rows
        yield self._change("d", id_, before, None)
        if is_debezium and self._dice.random() < 0.7:
            yield self._key(id_), None, id_

    def _change(
        self, operation: str, id_: int, before: dict[str, Any] | None, after: dict[str, Any] | None
    ) -> Record:
        if self._envelope == "canal":
            row = before if operation == "d" else after
            word = {"c": "INSERT", "r": "INSERT", "u": "UPDATE", "d": "DELETE"}[operation]
            body: dict[str, Any] = {"isDdl": False, "pkNames": ["id"], "type": word}
            body |= {"data": [_in_text(row)], "old": None}
            if operation == "u" and before is not None and after is not None:
                changed = {k: v for k, v in before.items() if after[k] != v}
                body["old"] = [_in_text(before if self._old_is_whole else changed)]
        elif self._envelope == "maxwell":
            word = {"r": "bootstrap-insert", "c": "insert", "u": "update", "d": "delete"}[operation]
            row = before if operation == "d" else after
            body = {"database": "d", "table": "users", "type": word, "ts": 1, "data": row}
            if operation == "u" and before is not None and after is not None:
                body["old"] = {k: v for k, v in before.items() if after[k] != v}
        elif self._envelope in _WRITTEN:
            body = _WRITTEN[self._envelope](operation, before, after)
        else:
            source = {"connector": "sqlite", "lsn": 1}
            body = {"before": before, "after": after, "source": source, "op": operation, "ts_ms": 1}
        return self._key(id_), self._dumped(body), id_

    def _key(self, id_: int) -> bytes | None:
        if self._envelope in ("canal", "dms", "goldengate"):
            return None
        if self._envelope == "mongodb":
            return json.dumps({"_id": {"_data": f"82{id_}"}}).encode()
        if self._envelope == "debezium_mongodb":
            return self._dumped({"id": str(id_)})
        if self._envelope == "maxwell":
            return json.dumps({"database": "d", "table": "users", "pk.id": id_}).encode()
        return self._dumped({"id": id_})

    def _dumped(self, body: dict[str, Any]) -> bytes:
        if self._encoding == "avro":
            written = io.BytesIO()
            (schema,) = (_AVRO[field] for field in _AVRO if field in body)
            fastavro.schemaless_writer(written, schema, body)
            return written.getvalue()
        wrapper = {"schema": {"type": "struct", "fields": []}, "payload": body}
        return json.dumps(wrapper if self._encoding == "wrapped" else body).encode()

    # --- The database --------------------------------------------------------------------------

    def _values(self) -> tuple[str | None, int | None]:
        dice = self._dice
        return dice.choice([None, "ä", "b", ""]), dice.choice([None, *range(5)])

    def _free_id(self, partition: int | None = None) -> int | None:
        taken = {row[0] for row in self.rows()}
        free = [id_ for id_ in range(KEYS) if id_ not in taken]
        if partition is not None:
            free = [id_ for id_ in free if id_ % self._partitions == partition]
        return self._dice.choice(free) if free else None

    def _row(self, id_: int) -> dict[str, Any] | None:
        found = self._database.execute("SELECT * FROM users WHERE id = ?", [id_]).fetchone()
        return dict(found) if found is not None else None

    def _write(self, sql: str, *values: Any) -> None:
        self._database.execute(sql, values)


def _in_text(row: dict[str, Any] | None) -> dict[str, str | None]:
    """A row as Canal writes it: every value as text."""
    assert row is not None
    return {name: None if value is None else str(value) for name, value in row.items()}
