"""Goal: a repeated aggregation reads only new files, and says so; nothing else is computed twice.

Method: a gateway over a real catalog, a log in memory, and the engine itself; receipts, plans and
counts are read.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support import offline
from support.gateway import Gateway, statement_rows

from seamline.connectors.duckdb.tiering import LocalTierTable
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.gateway.query.partial_aggregates import PartialAggregates
from seamline.gateway.statements.statement import Statement
from seamline.gateway.tiering.step import tier_once

SQL = "SELECT k, count(*) AS n, sum(id) AS total FROM t GROUP BY k ORDER BY k"


class Panel:
    """A table over a topic, and a gateway that keeps partial aggregates of small files."""

    def __init__(self, folder: pathlib.Path, **store: Any) -> None:
        config = offline.config(folder)
        connections = offline.MemoryConnections(config)
        self._log = connections.memory
        self._log.create_topic("t", 1)
        options = {"rows_min": 0, "rows_per_group_min": 2, **store}
        self.store = PartialAggregates(**options)
        self.gateway = Gateway(config, connections=connections, partials=self.store)
        columns = "id bigint, k varchar, d double"
        self.gateway.rows(f"CREATE TABLE t ({columns}) WITH (topic = 't')")
        self._table = LocalTierTable(connections.catalog("lake"), ("default", "t"), self._log)
        self._count = 0

    def put(self, count: int, *, tiered: bool = True) -> None:
        """More records, in one file or in the log."""
        for _ in range(count):
            self._count += 1
            body = {"id": self._count, "k": "ab"[self._count % 2], "d": 0.5}
            self._log.produce("t", 0, json.dumps(body).encode())
        if tiered:
            tier_once(self._table, self._log, NoDeadline(), records_max=1_000)

    def ask(self, sql: str = SQL, aggregates: str = "exact") -> Statement:
        """A statement that has ended well."""
        properties = {"aggregates": aggregates}
        statement = self.gateway.statement(sql, properties=properties, result_cache=False)
        assert statement.error is None, statement.error
        return statement

    def files(self, sql: str = SQL, aggregates: str = "exact") -> tuple[int, int]:
        """How many files a statement has not read, and how many it has."""
        (table,) = self.ask(sql, aggregates).receipt["tables"]
        return table["files_kept"], table["files_read"]


@pytest.fixture
def panel(tmp_path: pathlib.Path) -> Iterator[Panel]:
    made = Panel(tmp_path)
    with contextlib.closing(made.gateway):
        yield made


def test_only_new_files_are_read(panel: Panel) -> None:
    panel.put(10)
    assert panel.files() == (0, 1), "nothing is kept for a statement that never comes again"
    assert panel.store.count == 0
    assert panel.files() == (0, 1)
    assert panel.files() == (1, 0)
    panel.put(10)
    panel.put(1, tiered=False)
    plan = "\n".join(row[0] for row in panel.gateway.rows(f"EXPLAIN {SQL}"))
    assert "aggregates of 1 files; 1 files are read" in plan
    statement = panel.ask()
    assert statement_rows(statement) == [("a", 10, 110), ("b", 11, 121)]
    (table,) = statement.receipt["tables"]
    assert (table["files_kept"], table["files_read"], table["rows_hot"]) == (1, 1, 1)
    assert statement.receipt["rows_cold"] == 20, "what it reflects"
    assert panel.files() == (2, 0)
    text = panel.gateway.parts.metrics_text()
    assert "seamline_partial_aggregates_files_kept_total 4.0" in text
    assert "seamline_partial_aggregates_files_read_total 2.0" in text
    assert "seamline_partial_aggregates_aggregations 1.0" in text


def test_statements_at_once_share_what_is_computed(panel: Panel) -> None:
    panel.put(10)
    panel.ask()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: panel.files(), range(4)))
    assert sorted(found) == [(0, 1), (1, 0), (1, 0), (1, 0)]


def test_a_session_says_which(panel: Panel) -> None:
    panel.put(10)
    doubles = "SELECT sum(d) FROM t"
    for _ in range(2):
        assert panel.files(aggregates="off") == panel.files(doubles) == (0, 1)
    for kept in (0, 0, 1):
        assert panel.files(doubles, "all") == (kept, 1 - kept)
    assert panel.files(doubles, "exact") == (0, 1)


def test_what_is_not_kept(panel: Panel) -> None:
    panel.put(3)
    many, failing = "SELECT id, count(*) FROM t GROUP BY id", "SELECT sum(10 / (id - 2)) FROM t"
    for _ in range(3):
        assert panel.files(many) == (0, 1), "a group for each row"
        statement = panel.gateway.statement(failing)
        assert statement.error is not None
        assert statement.error.code.name == "DIVISION_BY_ZERO"
    assert panel.store.count == panel.store.files_read == 0


def test_a_small_new_file_is_read_with_the_tail_at_first(panel: Panel) -> None:
    panel.put(40)
    assert [panel.files() for _ in range(3)] == [(0, 1), (0, 1), (1, 0)]
    for kept in ([(1, 1), (1, 1), (2, 0)], [(2, 1), (2, 1), (3, 0)]):
        panel.put(2)
        assert [panel.files() for _ in range(3)] == kept
    for number in (1, 2):  # each snapshot is read once
        panel.put(1)
        assert panel.files() == (3, number)
    panel.put(2)
    assert [panel.files() for _ in range(2)] == [(3, 3), (6, 0)], "too many to be read again"


def test_few_rows_are_read_each_time(tmp_path: pathlib.Path) -> None:
    panel = Panel(tmp_path, rows_min=11)
    with contextlib.closing(panel.gateway):
        panel.put(10)
        assert {panel.files() for _ in range(3)} == {(0, 1)}
        panel.put(1)
        assert [panel.files() for _ in range(3)] == [(0, 2), (0, 2), (2, 0)]
