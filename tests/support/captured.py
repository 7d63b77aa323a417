"""A database whose changes are captured: SQLite, and what Debezium, Maxwell or Canal write of it.

The database is the judge: what a table over the changes must be is what SQLite says there is.
"""

from __future__ import annotations

import io
import json
import random
import sqlite3
from collections.abc import Iterator
from typing import Any

import fastavro

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


class CapturedUsers:
    """A table of users in SQLite.

    Args:
        dice: Chooses what happens.
        envelope: How changes are written.
        encoding: One of `ENCODINGS`; Maxwell and Canal write JSON.
        partitions: Of the topic; a change of a key that is one record keeps to its partition.

    Attributes:
        is_truncated: Whether some of what happens are truncates; not with several partitions, where
            they are refused, nor with Maxwell, which does not write them.
    """

    def __init__(
        self, dice: random.Random, envelope: str, *, encoding: str = "json", partitions: int = 1
    ) -> None:
        self._dice = dice
        self._envelope = envelope
        self._encoding = encoding
        self._partitions = partitions
        self.is_truncated = partitions == 1 and envelope != "maxwell"
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
        return None, self._dumped(body), 0

    # --- Changes -------------------------------------------------------------------------------

    def _insert(self, id_: int, operation: str) -> Iterator[Record]:
        self._write("INSERT INTO users VALUES (?, ?, ?)", id_, *self._values())
        yield self._change(operation, id_, None, self._row(id_))

    def _move(self, id_: int) -> Iterator[Record]:
        """An update of the primary key, and perhaps of the rest."""
        is_two = self._envelope == "debezium"
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
        if self._envelope == "debezium" and self._dice.random() < 0.3:
            before = None  # a source that keeps no old rows
        yield self._change("d", id_, before, None)
        if self._envelope == "debezium" and self._dice.random() < 0.7:
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
        else:
            source = {"connector": "sqlite", "lsn": 1}
            body = {"before": before, "after": after, "source": source, "op": operation, "ts_ms": 1}
        return self._key(id_), self._dumped(body), id_

    def _key(self, id_: int) -> bytes | None:
        if self._envelope == "canal":
            return None
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
