"""Goal: an aggregation answers the same, whatever partial aggregates the gateway keeps.

Method: random histories of two tables, one over a topic: records, batches of tiering, and what
other writers commit: appends, overwrites, deletes of rows, compactions, rollbacks, other branches,
other columns and other partitions. In between, people with different rights ask aggregations of
random keys, aggregates, conditions and shapes, and each answer is compared with that of all rows.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import random
import sqlite3
import warnings
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import ValidationException
from pyiceberg.io.pyarrow import parquet_files_to_data_files, schema_to_pyarrow
from pyiceberg.table import Table
from pyiceberg.types import FloatType
from support import offline
from support.foreign import delete_where_equal
from support.gateway import Gateway, statement_rows

from seamline.connectors.duckdb.tiering import LocalTierTable
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.gateway.access.rights import Principal
from seamline.gateway.query.partial_aggregates import PartialAggregates
from seamline.gateway.statements.statement import StatementRequest
from seamline.gateway.tiering.step import tier_once

COLUMNS = (
    "id bigint, k varchar, i integer, n decimal(12, 2), d double, f real, b boolean, day date,"
    " at timestamp with time zone"
)
RULES = """
tables:
- {user: boss, privileges: [SELECT, INSERT, DELETE, OWNERSHIP]}
- {user: ann, privileges: [SELECT], filter: id % 3 <> 0}
- {user: mia, privileges: [SELECT], columns: [{name: k, mask: "substr(k, 1, 1)"}]}
topics: [{}]
"""
PEOPLE = ("boss", "boss", "boss", "ann", "mia")
KEYS = (
    "k",
    "b",
    "day",
    "d",
    "f",
    "i % 3",
    "n > 1",
    "coalesce(k, 'none')",
    "date_trunc('month', at)",
)
AGGREGATES = (
    *("count(*)", "count(i)", "count_if(b)", "sum(id)", "sum(i)", "sum(n)", "avg(n)", "avg(i)"),
    *("min(k)", "max(k)", "min(n)", "max(at)", "min(day)", "max(i)", "bool_and(b)", "every(b)"),
    *("bool_or(b)", "min(f)", "max(d)", "sum(n * 2) / count(*)", "bitwise_or_agg(id)"),
    *(
        "count(*) FILTER (WHERE b)",
        "sum(i) FILTER (WHERE k > 'b')",
        "max(length(k))",
        "any_value(b)",
    ),
)
IN_ANY_ORDER = ("sum(d)", "avg(d)", "sum(f)", "avg(f)")
CONDITIONS = ("true", "id > 20", "k = 'a'", "b", "i IS NULL", "n BETWEEN 0 AND 3", "id < 0")
STEPS = {
    "produce": 6,
    "tier": 5,
    "append": 5,
    "delete": 1,
    "delete_keys": 1,
    "overwrite": 1,
    "compact": 2,
    "roll_back": 1,
    "evolve": 1,
    "partition": 0.5,
    "ask": 12,
}
NEVER, _FLOAT = NoDeadline(), FloatType()


class World:
    """A gateway with rules, a topic in memory, and two tables in a catalog."""

    def __init__(self, folder: pathlib.Path, dice: random.Random, store: PartialAggregates) -> None:
        rules = folder / "rules.yaml"
        rules.write_text(RULES, encoding="utf-8")
        self._folder, self._dice, self._store = folder, dice, store
        config = offline.load_config(folder, f"tail: {{follow: false}}\nauth: {{rules: {rules}}}\n")
        connections = offline.MemoryConnections(config)
        self._log, self._catalog = connections.memory, connections.catalog("lake")
        self._log.create_topic("t", 2)
        self.gateway = Gateway(config, connections=connections, partials=store)
        self._number = self._added = 0
        self.history: list[Any] = []
        self.say(f"CREATE TABLE t ({COLUMNS}) WITH (topic = 't')")
        self.say(f"CREATE TABLE c ({COLUMNS})")
        path = ("default", "t")
        self._tiered = LocalTierTable(self._catalog, path, self._log)
        self._asked = [self._question() for _ in range(4)]

    def say(self, sql: str, user: str = "boss", **options: Any) -> Any:
        """What a statement answers, or ends with."""
        request = StatementRequest(sql, result_cache=False, **options)
        statement = self.gateway.service.submit(request, Principal(user))
        statement.wait(60)
        if statement.error is not None:
            return statement.error.code.name
        return [] if statement.spool is None else statement_rows(statement)

    # --- What happens ----------------------------------------------------------------------------

    def step(self) -> None:
        """Has one thing happen."""
        (what,) = self._dice.choices(list(STEPS), list(STEPS.values()))
        self.history.append(what)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(self, what)()

    def _row(self) -> dict[str, Any]:
        self._number += 1
        dice, number = self._dice, self._number
        return {
            "id": number,
            "k": dice.choice([None, "a", "b", "ab", "", "a "]),
            "i": dice.choice([None, -1, 0, 7, 2**31 - 1]),
            "n": dice.choice([None, "0.00", "-1.25", "2.50"]),
            "d": dice.choice([None, 0.0, -0.0, float("nan"), 1.5, float("inf")]),
            "f": dice.choice([None, 0.5, float("nan"), -2.0]),
            "b": dice.choice([None, True, False]),
            "day": dice.choice([None, "2024-02-29", "1969-12-31"]),
            "at": dice.choice([None, "2024-01-31T23:59:59.999999Z", "1969-12-31T00:00:00Z"]),
        }

    def produce(self) -> None:
        for _ in range(self._dice.randrange(1, 12)):
            value = json.dumps(self._row()).encode()
            self._log.produce("t", self._number % 2, value)

    def tier(self) -> None:
        tier_once(self._tiered, self._log, NEVER, records_max=self._dice.choice([3, 1000]))

    def _table(self) -> Table:
        return self._catalog.pyiceberg.load_table(("default", "c"))

    def append(self) -> None:
        rows = [self._row() for _ in range(self._dice.randrange(1, 12))]
        values = ", ".join(
            f"({r['id']}, {_text(r['k'])}, {_sql(r['i'])}, {_sql(r['n'])}, {_double(r['d'])},"
            f" {_double(r['f'], 'real')}, {_sql(r['b'])}, {_text(r['day'], 'DATE ')})"
            for r in rows
        )
        self.say(f"INSERT INTO c (id, k, i, n, d, f, b, day) SELECT * FROM (VALUES {values})")

    def delete(self) -> None:
        self.say(f"DELETE FROM c WHERE id % 7 = {self._dice.randrange(7)}")

    def delete_keys(self) -> None:
        """Equality deletes, as Flink writes them."""
        table = self._table()
        if table.current_snapshot() is not None and table.spec().is_unpartitioned():
            delete_where_equal(table, "id", [self._dice.randrange(1, self._number + 2)])

    def overwrite(self) -> None:
        table = self._table()
        if table.current_snapshot() is not None:
            rows = table.scan(row_filter="id > 10").to_arrow()
            table.overwrite(rows.cast(schema_to_pyarrow(table.schema())))

    def compact(self) -> None:
        """Replaces data files by one of the same rows, in a commit that says so."""
        table = self._table()
        files = [task for task in table.scan().plan_files() if not task.delete_files]
        if len(files) < 2 or not table.spec().is_unpartitioned():
            return
        chosen = self._dice.sample(files, self._dice.randrange(2, len(files) + 1))
        rows = pa.concat_tables(
            [_read(table, task.file.file_path) for task in chosen], promote_options="default"
        )
        path = f"{table.location()}/data/compacted-{self._number}-{len(self.history)}.parquet"
        with table.io.new_output(path).create() as output:
            pq.write_table(rows, output)
        with (
            table.transaction() as transaction,
            transaction.update_snapshot().overwrite() as update,
        ):
            for task in chosen:
                update.delete_data_file(task.file)
            for file in parquet_files_to_data_files(table.io, table.metadata, iter([path])):
                update.append_data_file(file)
        self._say_replace()

    def _say_replace(self) -> None:
        """Has the newest commit say that it replaced files, which PyIceberg cannot."""
        old = self._table().metadata_location
        body = json.loads(pathlib.Path(old.removeprefix("file://")).read_text())
        body["snapshots"][-1]["summary"]["operation"] = "replace"
        new = old.replace(".metadata.json", "-replaced.metadata.json")
        pathlib.Path(new.removeprefix("file://")).write_text(json.dumps(body))
        moved = "UPDATE iceberg_tables SET metadata_location = ? WHERE metadata_location = ?"
        with contextlib.closing(sqlite3.connect(self._folder / "catalog.db")) as own, own:
            own.execute(moved, (new, old))

    def roll_back(self) -> None:
        """Makes another snapshot the head: an earlier one, or one of another branch."""
        table = self._table()
        ids = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
        if ids:
            manage = table.manage_snapshots()
            with contextlib.suppress(ValueError, ValidationException, NotImplementedError):
                manage.set_current_snapshot(self._dice.choice(ids)).commit()

    def evolve(self) -> None:
        self._added += 1
        with self._table().update_schema() as update:
            if "f" in self._table().schema().column_names and self._dice.random() < 0.5:
                update.delete_column("f")
            elif "f" not in self._table().schema().column_names:
                update.add_column("f", _FLOAT)
            else:
                update.add_column(f"x{self._added}", _FLOAT)

    def partition(self) -> None:
        if self._table().spec().is_unpartitioned():
            with self._table().update_spec() as spec:
                spec.add_identity("k")

    # --- What is asked ---------------------------------------------------------------------------

    def _question(self) -> str:
        dice = self._dice
        keys = dice.sample(KEYS, dice.randrange(3))
        of = AGGREGATES if dice.random() < 0.8 else (*AGGREGATES, *IN_ANY_ORDER)
        chosen = [*keys, *dice.sample(of, dice.randrange(0 if keys else 1, 4))]
        source = dice.choice(["{t}", "{t}", "(SELECT * FROM {t} WHERE id > 3)"])
        sql = f"SELECT {', '.join(chosen)} FROM {source} WHERE {dice.choice(CONDITIONS)}"
        if keys:
            sql += f" GROUP BY {', '.join(keys)}"
            sql += dice.choice(["", "", " HAVING count(*) > 1", " ORDER BY count(*) DESC"])
        return sql

    def ask(self) -> None:
        """Asks some of the questions, and compares the answers with those of all rows."""
        for question in self._dice.sample(self._asked, 3):
            sql = question.format(t=self._dice.choice("tc"))
            user = self._dice.choice(PEOPLE)
            own, whole = (
                self.say(sql, user, properties={"aggregates": how}) for how in ("exact", "off")
            )
            assert _in_order(own) == _in_order(whole), (user, sql, self.history)


def _in_order(answer: Any) -> Any:
    return answer if isinstance(answer, str) else sorted(map(repr, answer))


def _text(value: str | None, kind: str = "") -> str:
    return "NULL" if value is None else f"{kind}'{value}'"


def _sql(value: Any) -> str:
    return "NULL" if value is None else str(value)


def _double(value: float | None, kind: str = "double") -> str:
    return "NULL" if value is None else f"CAST('{_NAMES.get(str(value), value)}' AS {kind})"


_NAMES = {"nan": "NaN", "inf": "Infinity"}


def _read(table: Table, path: str) -> pa.Table:
    with table.io.new_input(path).open() as file:
        return pq.read_table(file)


@contextlib.contextmanager
def living(folder: pathlib.Path, seed: int, store: PartialAggregates) -> Iterator[World]:
    """A world that has seen nothing yet."""
    world = World(folder, random.Random(seed), store)
    with contextlib.closing(world.gateway):
        yield world


@pytest.mark.prove
@pytest.mark.parametrize(
    "seed",
    [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(1, 60))],
)
def test_partial_aggregates_show_in_no_answer(tmp_path: pathlib.Path, seed: int) -> None:
    store = PartialAggregates(rows_min=0, repeats_min=0, rows_per_group_min=0)
    with living(tmp_path, seed, store) as world:
        for _ in range(40):
            world.step()
    assert store.files_kept > 0
