"""Goal: what is pushed to the tiers never leaves out a row of the answer, and never fails.

Method: for columns of every type, over values at the edges of each, conditions of every form with
constants of every type, written out and as parameters. Which rows each condition keeps is what
DuckDB says of it in a select list, where nothing is pushed. What the rule makes of it is then asked
of everything that prunes: of segments by their statistics, of Iceberg's files by theirs and
by every partition transform there is for the type, of a table whose column was promoted since, and
of files whose bounds nobody can read.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
import random
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import parser
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.transforms import parse_transform
from pyiceberg.types import IcebergType, LongType, NestedField, StringType, TimeType, UUIDType
from support.conditions import NOW, VALUES, fitting
from support.predicates import keeps

from seamline.connectors.iceberg.expressions import to_iceberg
from seamline.connectors.iceberg.pruning import Pruner
from seamline.connectors.iceberg.pyiceberg_internals import live_entries
from seamline.connectors.iceberg.tables.catalog import table_of_file
from seamline.connectors.iceberg.tail_files import TailLayout, plan_files, write_file
from seamline.connectors.iceberg.type_conversion import to_schema
from seamline.gateway.tail.lookups import positions
from seamline.gateway.tail.statistics import Statistics
from seamline.planners.rules.push_predicates import to_predicate
from seamline.seam.files import ScanRequest
from seamline.sql import types
from seamline.sql.binder.qualify import Relation, qualify
from seamline.sql.engines import render
from seamline.sql.parsing import parse
from seamline.sql.predicates import Predicate, describe
from seamline.sql.types import BIGINT, Field, arrow_field

TRANSFORMS: Mapping[str, Sequence[str]] = {
    "boolean": ["identity"],
    "integer": ["identity", "bucket[3]", "truncate[10]"],
    "bigint": ["identity", "bucket[3]", "truncate[10]"],
    "real": ["identity"],
    "double": ["identity"],
    "varchar": ["identity", "bucket[3]", "truncate[1]", "truncate[16]"],
    "varbinary": ["identity", "bucket[3]", "truncate[1]"],
    "date": ["identity", "bucket[3]", "year", "month", "day"],
    "time(6)": ["identity", "bucket[3]"],
    "timestamp": ["identity", "bucket[3]", "year", "month", "day", "hour"],
    "timestamp with time zone": ["identity", "bucket[3]", "year", "month", "day", "hour"],
    "uuid": ["identity", "bucket[3]"],
    "array(integer)": [],
    **{one: ("identity", "bucket[3]", "truncate[7]") for one in VALUES if "decimal" in one},
}


@dataclasses.dataclass(frozen=True)
class Condition:
    """A condition on column c, the rows it keeps, and what is pushed of it."""

    sql: str
    kept: frozenset[int]
    pushed: Predicate | None


class Column:
    """A column of a type, its rows numbered; the last is null."""

    def __init__(self, name: str, values: Sequence[Any]) -> None:
        self.name = name
        self.fields = (Field("n", BIGINT, 1), Field("c", types.parse(name), 2))
        self.values = [*values, None]

    def rows(self, *numbers: int) -> pa.Table:
        """Some of the rows, all when none are named."""
        schema = pa.schema([arrow_field(field) for field in self.fields])
        wanted = numbers or range(len(self.values))
        return pa.Table.from_pylist([{"n": n, "c": self.values[n]} for n in wanted], schema)

    @functools.cached_property
    def conditions(self) -> list[Condition]:
        """Conditions with every constant that the language compares the type with."""
        wanted = fitting(self.name)
        some = (wanted[at : at + 50] for at in range(0, len(wanted), 50))
        return [found for part in some for found in self._asked(part)]

    @functools.cached_property
    def by_predicate(self) -> Mapping[Predicate, Sequence[Condition]]:
        """The conditions of which something is pushed, by what that is."""
        found: dict[Predicate, list[Condition]] = {}
        for condition in self.conditions:
            if condition.pushed is not None:
                found.setdefault(condition.pushed, []).append(condition)
        return found

    def _asked(self, conditions: Sequence[str]) -> Iterator[Condition]:
        listed = ", ".join(f"({sql}) AS k{n}" for n, sql in enumerate(conditions))
        parsed = parse.parse(f"SELECT n, {listed} FROM t")
        assert isinstance(parsed, parse.Query)
        bound = qualify(parsed.tree, [Relation(self.fields)], now=NOW)
        (scan,) = bound.scans
        with duckdb.connect(config={"threads": "1"}) as engine:
            engine.execute("SET TimeZone = 'UTC'")
            engine.register("given", self.rows())
            engine.execute("CREATE TABLE t AS FROM given")
            sql = render.to_duckdb(
                bound.tree,
                {scan.scan_id: render.scan_rows(scan.columns, "SELECT * FROM t", "duckdb")},
            )
            found = engine.sql(sql).to_arrow_table()
        columns = {field.name: field for field in self.fields}
        numbers = found.column(0).to_pylist()
        for number, sql in enumerate(conditions):
            truth = found.column(number + 1).to_pylist()
            kept = [n for n, is_true in zip(numbers, truth, strict=True) if is_true]
            node = bound.tree.expressions[number + 1].unalias()
            yield Condition(sql, frozenset(kept), to_predicate(node, columns))


COLUMNS = {name: Column(name, values) for name, values in VALUES.items()}
PROMOTED = {
    (name, wider): Column(wider, VALUES[name])
    for name, wider in (
        ("integer", "bigint"),
        ("real", "double"),
        ("decimal(5, 2)", "decimal(12, 2)"),
    )
}


def said(condition: Condition, column: Column, left_out: Collection[int]) -> str:
    """What is wrong, for people."""
    values = [column.values[n] for n in sorted(left_out)]
    return f"{column.name}: {condition.sql} was pushed as {describe(condition.pushed)}: no {values}"


# --- What is pushed ------------------------------------------------------------------------------


@pytest.mark.one_in(test=20, prove=6)
@pytest.mark.parametrize("name", VALUES)
def test_what_is_pushed_keeps_the_rows_of_the_condition(name: str) -> None:
    column = COLUMNS[name]
    for pushed, conditions in column.by_predicate.items():
        found = {n for n, v in enumerate(column.values) if keeps(pushed, {"c": v})}
        for condition in conditions:
            assert condition.kept <= found, said(condition, column, condition.kept - found)
    assert column.by_predicate


# --- The hot half --------------------------------------------------------------------------------


@pytest.mark.one_in(test=12, prove=8)
@pytest.mark.parametrize("name", [name for name in VALUES if "array" not in name])
def test_no_segment_is_left_out_that_holds_a_row_of_the_answer(name: str) -> None:
    column = COLUMNS[name]
    numbers = range(len(column.values))
    segments = [(n,) for n in numbers] + list(itertools.pairwise(numbers)) + [tuple(numbers)]
    found = [(frozenset(s), Statistics(column.rows(*s).to_batches()[0])) for s in segments]
    ruled_out = 0
    for pushed, conditions in column.by_predicate.items():
        for held, statistics in found:
            if not statistics.may_match(pushed):
                for condition in conditions:
                    left_out = held & condition.kept
                    assert not left_out, said(condition, column, left_out)
                ruled_out += 1
    assert ruled_out


@pytest.mark.one_in(test=12, prove=8)
@pytest.mark.parametrize("name", [name for name in VALUES if "array" not in name])
def test_no_row_is_left_out_that_is_looked_up(name: str) -> None:
    column = COLUMNS[name]
    numbers = [n for n in range(len(column.values)) for _ in range(n % 3 + 1)]
    random.Random(name).shuffle(numbers)
    rows = column.rows(*numbers).to_batches()[0]
    statistics = Statistics(rows)
    assert statistics.order("c") is None, "it is only made when it is asked for again"
    left_out = 0
    for pushed, conditions in column.by_predicate.items():
        found = positions(statistics, pushed)
        if found is None:
            continue
        left_out += len(numbers) - len(found)
        for condition in conditions:
            needed = {at for at, n in enumerate(numbers) if n in condition.kept}
            missed = needed.difference(found.tolist())
            assert not missed, said(condition, column, missed)
    assert left_out or statistics.column("c") is None, "what has statistics has an order"


# --- The cold half -------------------------------------------------------------------------------


UNPARTITIONED = PartitionSpec(spec_id=9)


class ColdColumn:
    """A table of such a column, every row in a file of its own and two files in a manifest.

    Args:
        column: The column.
        folder: Where its files are.
        transforms: What it is partitioned by, all at once.
        promoted: The type it is promoted to afterwards.
    """

    def __init__(
        self,
        column: Column,
        folder: pathlib.Path,
        transforms: Sequence[str] = (),
        promoted: IcebergType | None = None,
    ) -> None:
        catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
        catalog.create_namespace("default")
        kind = iceberg_type(column.fields[1])
        schema = Schema(NestedField(1, "n", LongType()), NestedField(2, "c", kind))
        spec = PartitionSpec(
            *(
                PartitionField(2, 1000 + number, parse_transform(one), f"c_{number}")
                for number, one in enumerate(transforms)
            )
        )
        table = catalog.create_table("default.t", schema, partition_spec=spec)
        layout = TailLayout(
            table.schema(), column.fields, table.spec(), UNPARTITIONED, SortOrder(), 2, {}
        )
        self.numbers: dict[str, int] = {}
        numbers = range(len(column.values))
        for pair in (numbers[at : at + 2] for at in numbers[::2]):
            with table.transaction() as commit, commit.update_snapshot().fast_append() as append:
                for number in pair:
                    rows = column.rows(number)
                    (planned,) = plan_files(rows, layout, f"{table.location()}/data")
                    if planned.spec_id == layout.spec.spec_id:  # not cut to below the least value
                        append.append_data_file(write_file(table.io, planned, layout))
                        self.numbers[planned.path] = number
        if promoted is not None:
            with table.update_schema() as update:
                update.update_column("c", promoted)
        self.iceberg = table
        self.cold = table_of_file(("lake", "default", "t"), table)

    def left_out(self, pushed: Predicate, schema_id: int) -> frozenset[int]:
        """The rows that a scan with the predicate does not read."""
        request = ScanRequest(schema_id, ("n", "c"), pushed)
        plan = self.cold.plan(self.cold.state.current_snapshot_id, request)
        return frozenset(self.numbers.values()) - {self.numbers[f.path] for f in plan.files}

    def check(self, column: Column, schema_id: int | None = None) -> int:
        """Asks every condition; returns how many files were left out, each rightly."""
        used = self.cold.state.current_schema_id if schema_id is None else schema_id
        count = 0
        for pushed, conditions in column.by_predicate.items():
            left_out = self.left_out(pushed, used)
            for condition in conditions:
                wrongly = left_out & condition.kept
                assert not wrongly, said(condition, column, wrongly)
            count += len(left_out)
        return count


def iceberg_type(field: Field) -> IcebergType:
    """The field's type; `time` too, which only others can write."""
    if field.type == types.TIME:
        return TimeType()
    return to_schema((field,)).fields[0].field_type


@pytest.mark.one_in(test=12, prove=8)
@pytest.mark.parametrize("partitioned", [False, True], ids=["by statistics", "by partition"])
@pytest.mark.parametrize("name", [name for name in VALUES if "array" not in name])
def test_no_file_is_left_out_that_holds_a_row_of_the_answer(
    name: str, partitioned: bool, tmp_path: pathlib.Path
) -> None:
    column = COLUMNS[name]
    table = ColdColumn(column, tmp_path, TRANSFORMS[name] if partitioned else ())
    assert bool(table.check(column)) == (partitioned or name != "uuid")


@pytest.mark.one_in(prove=9)
@pytest.mark.prove
@pytest.mark.parametrize(
    "partitioned",
    [False, pytest.param(True, marks=pytest.mark.prove)],
    ids=["by statistics", "by partition"],
)
@pytest.mark.parametrize(("name", "promoted"), PROMOTED)
def test_files_older_than_a_promotion_are_not_left_out(
    name: str, promoted: str, partitioned: bool, tmp_path: pathlib.Path
) -> None:
    old, new = COLUMNS[name], PROMOTED[name, promoted]
    kind = iceberg_type(new.fields[1])
    table = ColdColumn(old, tmp_path, TRANSFORMS[name] if partitioned else (), kind)
    first, last = sorted(table.cold.state.schemas)
    assert table.check(new, last)
    assert table.check(old, first), "a statement about the past speaks of the type of then"


@pytest.mark.parametrize("name", ["integer", "bigint", "decimal(5, 2)", "decimal(38, 0)"])
def test_a_row_that_is_cut_to_below_its_type_has_no_partition(
    name: str, tmp_path: pathlib.Path
) -> None:
    column = COLUMNS[name]
    table = ColdColumn(column, tmp_path, ["truncate[7]"])
    assert set(range(len(column.values))) - set(table.numbers.values()) == {0}


UNREADABLE = {"varchar": b"z\xc3", "integer": b"\1", "double": b"\1", "timestamp": b"\1\2\3\4"}
"""Text cut inside a character, numbers cut short, a moment that is a day."""


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("name", UNREADABLE)
def test_bounds_that_nobody_can_read_prove_nothing(name: str, tmp_path: pathlib.Path) -> None:
    column = COLUMNS[name]
    table = ColdColumn(column, tmp_path, ["identity"])
    metadata, io = table.iceberg.metadata, table.iceberg.io
    snapshot = table.iceberg.current_snapshot()
    assert snapshot is not None
    manifests = snapshot.manifests(io)
    files = {}
    for manifest in manifests:
        assert manifest.partitions is not None
        for summary in manifest.partitions:
            summary[2] = summary[3] = UNREADABLE[name]
        for entry in live_entries(io, manifest):
            file = entry.data_file
            file.lower_bounds.update({2: UNREADABLE[name]})
            file.upper_bounds.update({2: UNREADABLE[name]})
            files[table.numbers[file.file_path]] = (manifest, file)
    fields = {"c": column.fields[1]}
    for pushed, conditions in column.by_predicate.items():
        pruner = Pruner(metadata, to_iceberg(pushed, fields))
        for condition in conditions:
            for number in condition.kept:
                manifest, file = files[number]
                kept = pruner.keeps_manifest(manifest) and pruner.keeps_file(file)
                assert kept, said(condition, column, {number})


def test_uuids_prove_nothing(tmp_path: pathlib.Path) -> None:
    """Writers do not agree on their order: what is summarised as the greatest may be the least."""
    ids = [uuid.UUID(int=first << 124) for first in (1, 0xF)]
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("default")
    schema = Schema(NestedField(1, "n", LongType()), NestedField(2, "u", UUIDType()))
    table = catalog.create_table("default.t", schema)
    rows = {"n": pa.array([1, 2], pa.int64()), "u": pa.array([i.bytes for i in ids], pa.binary(16))}
    table.append(pa.table(rows).cast(table.schema().as_arrow()))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (manifest,) = snapshot.manifests(table.io)
    (entry,) = live_entries(table.io, manifest)
    file = entry.data_file
    file.lower_bounds[2], file.upper_bounds[2] = ids[1].bytes, ids[0].bytes
    one = f"u = '{ids[0]}'"
    others = f"not (u <> '{ids[0]}')", f"{one} or n = 9", f"u in ('{ids[0]}', '{ids[1]}')"
    for kept in (one, *others):
        assert Pruner(table.metadata, parser.parse(kept)).keeps_file(file), kept
    for left_out in (f"{one} and n = 9", f"not (n > 0 or {one})"):
        pruner = Pruner(table.metadata, parser.parse(left_out))
        assert not pruner.keeps_file(file), left_out


def test_a_text_whose_cut_end_has_no_successor_is_bounded_whole(tmp_path: pathlib.Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("default")
    table = catalog.create_table("default.t", Schema(NestedField(1, "c", StringType())))
    text = "x" * 15 + "\ud7ff" + "and more"
    fields = (Field("c", types.VARCHAR, field_id=1),)
    layout = TailLayout(table.schema(), fields, table.spec(), UNPARTITIONED, SortOrder(), 2, {})
    rows = pa.table({"c": pa.array([text, "a"], pa.string())})
    (planned,) = plan_files(rows, layout, f"{table.location()}/data")
    file = write_file(table.io, planned, layout)
    assert file.upper_bounds[1].decode() >= text


def test_rows_have_no_partition_where_a_column_of_the_spec_was_dropped(
    tmp_path: pathlib.Path,
) -> None:
    """As in tables of version 1, whose specs keep `void` fields for good."""
    fields = (Field("c", types.BIGINT, field_id=1),)
    spec = PartitionSpec(PartitionField(7, 1000, parse_transform("void"), "gone"), spec_id=1)
    schema = Schema(NestedField(1, "c", LongType()))
    layout = TailLayout(schema, fields, spec, UNPARTITIONED, SortOrder(), 2, {})
    rows = pa.table({"c": pa.array([1, 2], pa.int64())})
    (planned,) = plan_files(rows, layout, f"file://{tmp_path}/data")
    assert planned.spec_id == UNPARTITIONED.spec_id
