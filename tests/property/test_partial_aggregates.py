"""Goal: an aggregation answers the same, whatever partial aggregates the gateway keeps.

Method: random histories of two tables, one over a topic: records, batches of tiering, and what
other writers commit: appends, overwrites, deletes of rows, compactions, rollbacks, other branches,
other columns and other partitions. In between, people with different rights ask aggregations of
random keys, aggregates, conditions and shapes, and each answer is compared with that of all rows.
A told history has every kind of commit; in it, each mutant of the store gives a wrong answer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import random
import sqlite3
import warnings
from collections.abc import Iterator, Mapping
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
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.gateway.access.rights import Principal
from seamline.gateway.query.partial_aggregates import Aggregating, PartialAggregates, Partials
from seamline.gateway.statements.statement import StatementRequest
from seamline.gateway.tiering.step import tier_once
from seamline.planners.plan.physical import PhysicalPlan
from seamline.seam.files import ColdPlan, DataFile
from seamline.seam.table import TableState

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
REFUSALS = (ValueError, ValidationException, NotImplementedError)
"""What PyIceberg cannot do, such as to scan a table with equality deletes."""
NEVER = NoDeadline()


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
        with warnings.catch_warnings(), contextlib.suppress(*REFUSALS):
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
        self._delete(self._dice.randrange(1, self._number + 2))

    def delete_first(self) -> None:
        """The same, of a row that there is."""
        ((first,),) = self.say("SELECT min(id) FROM c", properties={"aggregates": "off"})
        self._delete(first)

    def _delete(self, id_: int) -> None:
        table = self._table()
        if table.current_snapshot() is not None and table.spec().is_unpartitioned():
            delete_where_equal(table, "id", [id_])

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
        parts = [_read(table, task.file.file_path) for task in chosen]
        own = schema_to_pyarrow(table.schema()).names
        schema = parts[0].schema
        if schema.names != own or not all(p.schema.equals(schema, True) for p in parts):
            return  # of other columns
        rows = pa.concat_tables(parts)
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
            table.manage_snapshots().set_current_snapshot(self._dice.choice(ids)).commit()

    @property
    def file_count(self) -> int:
        """The number of files at the head."""
        return len(list(self._table().scan().plan_files()))

    def head(self, snapshot_id: int | None = None) -> int:
        """Makes a snapshot the head if one is given; returns the head."""
        if snapshot_id is not None:
            self._table().manage_snapshots().set_current_snapshot(snapshot_id).commit()
        head = self._table().current_snapshot()
        assert head is not None
        return head.snapshot_id

    def evolve(self) -> None:
        has_f = "f" in self._table().schema().column_names
        (self.drop if has_f and self._dice.random() < 0.5 else self.add)()

    def drop(self) -> None:
        with self._table().update_schema() as update:
            update.delete_column("f")

    def add(self) -> None:
        """Another column, under the name of one that was dropped if there is one."""
        self._added += 1
        has_f = "f" in self._table().schema().column_names
        with self._table().update_schema() as update:
            update.add_column(f"x{self._added}" if has_f else "f", FloatType())

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
            how = dice.choice(["{}", "{}", "ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())"])
            sql += f" GROUP BY {how.format(', '.join(keys))}"
            sql += dice.choice(["", "", " HAVING count(*) > 1", " ORDER BY count(*) DESC"])
        return sql

    def ask(self) -> None:
        """Asks some of the questions, and compares the answers with those of all rows."""
        for question in self._dice.sample(self._asked, 3):
            sql = question.format(t=self._dice.choice("tc"))
            self.compare(sql, self._dice.choice(PEOPLE))

    def compare(self, sql: str, user: str) -> None:
        """Asks somebody's question, and compares the answer with that of all rows."""
        own, whole = (
            self.say(sql, user, properties={"aggregates": how}) for how in ("exact", "off")
        )
        if isinstance(own, str) and own != whole:
            raise ValueError(f"{own}, not {whole}")
        assert _in_order(own) == _in_order(whole), (user, sql, self.history)


def _in_order(answer: Any) -> Any:
    """The rows in an order; nothing says which of two equal zeros a group of both has."""
    if isinstance(answer, str):
        return answer
    return sorted(repr(tuple(map(_positive_zero, row))) for row in answer)


def _positive_zero(cell: Any) -> Any:
    return 0.0 if isinstance(cell, float) and cell == 0 else cell


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


def store(
    kind: type[PartialAggregates] = PartialAggregates, *, merges: bool = True
) -> PartialAggregates:
    """One that keeps everything at once, however little it is, or merges new files late."""
    late = 10**12 if merges else 0
    return kind(rows_min=0, repeats_min=0, rows_per_group_min=0, kept_per_new_row=late)


@pytest.mark.prove
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(1, 60))]
)
def test_partial_aggregates_show_in_no_answer(tmp_path: pathlib.Path, seed: int) -> None:
    with living(tmp_path, seed, store(merges=bool(seed % 2))) as world:
        for _ in range(25):
            world.step()


# --- Mutants -------------------------------------------------------------------------------------


def story(world: World) -> None:
    """Every kind of commit once, and what all people ask after each.

    Raises:
        AssertionError: if an answer is not that of all rows.
    """
    snapshots: list[int] = []
    for step in (
        *("append", "append", "append", "compact", "append", "back", "append", "drop", "add"),
        *("append", "delete_first", "delete"),
    ):
        if step == "back":  # another branch goes on from before
            world.head(snapshots[-3])
        else:
            getattr(world, step)()
        snapshots.append(world.head())
        for user, what in (
            ("boss", "count(*), sum(id), min(f)"),
            ("ann", "count(*), sum(id), min(f)"),
            ("boss", "max(k)"),
            ("mia", "max(k)"),
        ):
            world.compare(f"SELECT {what} FROM c", user)


class CountsTwice(PartialAggregates):
    """A file that is there already is read again."""

    def lacking(
        self, partials: Partials, files: ColdPlan, state: TableState
    ) -> tuple[DataFile, ...] | None:
        lacking = super().lacking(partials, files, state)
        return files.files if lacking else lacking


class MissesDeletes(PartialAggregates):
    """Deletes do not make other rows of a file."""

    def digest(self, plan: ColdPlan, file: DataFile) -> bytes:
        bare = dataclasses.replace(file, deletes=(), has_equality_deletes=False)
        return super().digest(plan, bare)


class TakesAnythingForAnAppend(PartialAggregates):
    """Files that are gone are of no concern."""

    def lacking(
        self, partials: Partials, files: ColdPlan, state: TableState
    ) -> tuple[DataFile, ...] | None:
        return tuple(f for f in files.files if self.digest(files, f) not in partials.files)


class TakesAnotherBranch(PartialAggregates):
    """What is newer is added, whatever it is newer than."""

    def lacking(
        self, partials: Partials, files: ColdPlan, state: TableState
    ) -> tuple[DataFile, ...] | None:
        newest = state.sequence_number(partials.snapshot_id)
        return tuple(file for file in files.files if file.sequence > newest)


class TakesAnotherRight(PartialAggregates):
    """What it is computed from is known by its columns alone."""

    def aggregating(
        self, plan: PhysicalPlan, tables: Mapping[str, ColdTable], **options: Any
    ) -> Aggregating | None:
        what, stages = super().aggregating(plan, tables, **options), plan.logical.aggregation
        if what is None or stages is None:
            return None
        return dataclasses.replace(what, text=repr(stages.columns), reader="")


class TakesAnotherSchema(PartialAggregates):
    """Columns are known by their names."""

    def aggregating(
        self, plan: PhysicalPlan, tables: Mapping[str, ColdTable], **options: Any
    ) -> Aggregating | None:
        what = super().aggregating(plan, tables, **options)
        return None if what is None else dataclasses.replace(what, schema_id=0, columns=())


MUTANTS = (
    CountsTwice,
    MissesDeletes,
    TakesAnythingForAnAppend,
    TakesAnotherBranch,
    TakesAnotherRight,
    TakesAnotherSchema,
)


@pytest.mark.prove
def test_the_story_is_exact(tmp_path: pathlib.Path) -> None:
    kept = store()
    with living(tmp_path, 0, kept) as world:
        story(world)
    assert kept.files_kept > 50


def test_compaction_is_followed(tmp_path: pathlib.Path) -> None:
    kept, sql = store(), "SELECT k, count(*), sum(i) FROM c GROUP BY k"
    with living(tmp_path, 0, kept) as world:
        for step in (world.append, world.append, world.compact, world.append):
            step()
            world.compare(sql, "boss")
            world.compare('SELECT max("$path"), sum("$pos") FROM c', "boss")
        assert world.file_count == 2
        assert kept.files_read == 3, "each of those that were appended"
        world.overwrite()
        world.compare(sql, "boss")
        assert kept.files_read > 3


@pytest.mark.prove
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_noticed(tmp_path: pathlib.Path, mutant: type[PartialAggregates]) -> None:
    with living(tmp_path, 0, store(mutant)) as world, pytest.raises(AssertionError):
        story(world)
