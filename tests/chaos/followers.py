"""Clients that never read a table as a whole: they add up its changes, and that must be the table.

Each keeps the rows that have arrived so far and the token of the last changes. What it has then is
recorded as a read of everything below their end, so that it is judged like any other read.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import seamline
from chaos.history import Read, pack, sorted_rows
from chaos.readers import DUCKDB_S, SPARK_S, Client, Worker, failed
from chaos.tables import Table

_START_OVER = frozenset({"HISTORY_CHANGED", "TOKEN_EXPIRED"})
"""Errors of changes that begin too early for what is still known."""
_BEGINNING = "beginning"
_OFFSETS_MAX = 500
"""Small enough for a backlog to come in pieces."""
_SPARK_EVERY = 7
_SQL = (
    "SELECT _kafka_partition, _kafka_offset, id "
    "FROM TABLE(changes(table => ?, from_token => ?, offsets_max => ?))"
)


class ChangesFollower(Worker):
    """A client that adds up the changes of a table that nobody else writes to.

    Args:
        client: Asks.
        table: The table.
    """

    def __init__(self, client: Client, table: Table) -> None:
        super().__init__(client)
        self._table = table
        self._steps = 0
        self._start_over()

    def _start_over(self) -> None:
        self._token = _BEGINNING
        self._rows: list[tuple[Any, ...]] = []

    def _step(self) -> None:
        self._steps += 1
        engine = "duckdb" if self._steps % _SPARK_EVERY else "spark"
        read = self.client.begin(self._table, engine=engine, way="changes")
        try:
            found, is_piece = self._follow(read)
        except seamline.Error as error:
            if error.code.name in _START_OVER:
                self.client.counts[error.code.name] += 1
                self._start_over()
                return
            found, is_piece = failed(read, error.code.name, error.message), False
        if not is_piece:  # a piece may end before what the session has seen
            self.client.end(found)

    def _follow(self, read: Read) -> tuple[Read, bool]:
        """The next changes: all rows so far, and whether more are waiting."""
        with self.client.connection.cursor() as cursor:
            cursor.execute(
                _SQL,
                [self._table.name, self._token, _OFFSETS_MAX],
                engine=read.engine,
                timeout=SPARK_S if read.engine == "spark" else DUCKDB_S,
            )
            rows = cursor.fetchall()
            (about,) = cursor.receipt["tables"]
            token = cursor.token
        assert token is not None
        self._rows += rows
        self._token = token
        ends = {int(p): end for p, end in about["end"].items()}
        covered = sum(end - about["since"][str(p)] for p, end in ends.items())
        found = dataclasses.replace(
            read,
            ended=time.monotonic(),
            topic_id=about["topic_id"],
            end=ends,
            boundary={int(p): offset for p, offset in about["boundary"].items()},
            rows=pack(sorted_rows(self._rows)),
        )
        return found, covered >= _OFFSETS_MAX
