"""Logical plans over two tiny unified tables, and what they answer.

A scan gives the rows of its snapshot and of the ranges that it reads of the log, without those its
predicate drops: the most that a tier may leave out. DuckDB computes the query over them, so plans
before and after a rule can be compared by their rows.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from seamline.planners.bind import bind
from seamline.planners.plan.logical import LogicalPlan, RowCount, Scan, TableFacts
from seamline.planners.rules.prune_tail_by_key import key_bytes, partition_of
from seamline.planners.rules.prune_tail_by_time import moments
from seamline.seam.binding import TopicBinding
from seamline.seam.offsets import Offsets
from seamline.seam.seam import ColdPart, LogPart, Seam
from seamline.sql import columns, predicates, types
from seamline.sql.binder.qualify import Relation, qualify, references
from seamline.sql.engines import render
from seamline.sql.parsing import parse
from seamline.sql.types import Field
from support.predicates import Row, keeps

NOW = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
PARTITIONS = 2
METADATA = tuple(
    field
    for field in columns.METADATA_FIELDS
    if field.name in {columns.PARTITION, columns.OFFSET, columns.TIMESTAMP}
)


@dataclasses.dataclass(frozen=True)
class Table:
    """A unified table: its columns, its rows in the order of the log, and how many are tiered."""

    name: str
    fields: tuple[Field, ...]
    rows: tuple[Row, ...]
    boundary: Offsets
    binding: TopicBinding

    @property
    def relation(self) -> Relation:
        """Its columns as a statement sees them."""
        return Relation((*self.fields, *METADATA), frozenset(f.name for f in METADATA))

    @property
    def seam(self) -> Seam:
        """Everything the log holds is read."""
        ends = dict.fromkeys(range(PARTITIONS), 0)
        for row in self.rows:
            ends[row[columns.PARTITION]] = row[columns.OFFSET] + 1
        return Seam(
            table=("lake", "default", self.name),
            table_uuid=self.name,
            schema_id=0,
            cold=ColdPart(1),
            log=LogPart(
                cluster="default",
                topic=self.name,
                topic_id=f"id of {self.name}",
                isolation="read_committed",
            ),
            boundary=self.boundary,
            end=Offsets(ends),
        )

    def offsets_at(self, moment_ms: int, log_start: Mapping[int, int]) -> Offsets:
        """As a log would answer that begins at some offsets."""
        found = dict(self.seam.end)
        for row in reversed(self.rows):
            partition, offset = row[columns.PARTITION], row[columns.OFFSET]
            is_late = row[columns.TIMESTAMP].timestamp() * 1000 >= moment_ms
            if is_late and offset >= log_start.get(partition, 0):
                found[partition] = offset
        return Offsets(found)


def _table(name: str, key: str, boundary: dict[int, int], **cells: tuple[str, list[Any]]) -> Table:
    """24 rows that cycle through the values of each column, in the partitions of their keys."""
    binding = TopicBinding(
        "default",
        name,
        key=key,
        key_format="int32",
        key_partitioner="murmur2",
        key_partitions=PARTITIONS,
    )
    offsets = {p: itertools.count() for p in range(PARTITIONS)}
    rows = []
    for number in range(24):
        row = {column: values[number % len(values)] for column, (_, values) in cells.items()}
        raw = key_bytes(row[key], binding.key_format)
        partition = partition_of(raw, binding) if raw is not None else None
        if partition is None:
            partition = number % PARTITIONS
        row[columns.PARTITION] = partition
        row[columns.OFFSET] = next(offsets[partition])
        row[columns.TIMESTAMP] = NOW - datetime.timedelta(minutes=60 - number * 7 % 23)
        rows.append(row)
    fields = tuple(Field(column, types.parse(type_)) for column, (type_, _) in cells.items())
    return Table(name, fields, tuple(rows), Offsets(boundary), binding)


NAN = float("nan")
TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        _table(
            "bids",
            "auction",
            {0: 4, 1: 5},
            auction=("bigint", [1, 2, 3, 7, None]),
            price=("integer", [5, 10, None, -3]),
            channel=("varchar", ["a", "ab", "b", None, "a%", "", "A"]),
            ok=("boolean", [True, False, None]),
            score=("double", [0.5, NAN, -1.0, None, float("inf"), 0.0]),
            amount=("decimal(9, 2)", [Decimal("2.00"), None, Decimal("2.50"), Decimal("-1.25")]),
            day=("date", [datetime.date(2024, 5, 1), datetime.date(1969, 12, 31), None]),
        ),
        _table(
            "auctions",
            "id",
            {0: 0, 1: 3},
            id=("bigint", [1, 2, 4, None, 3]),
            seller=("varchar", ["x", "y", None]),
            reserve=("integer", [1, None, 10, 6]),
        ),
    )
}


# --- Plans ---------------------------------------------------------------------------------------


def logical(sql: str, **changes: Any) -> LogicalPlan:
    """The plan of a query before any rule; `changes` are made to every topic's binding."""
    parsed = parse.parse(sql)
    assert isinstance(parsed, parse.Query), sql
    tables = [TABLES[reference.name[-1]] for reference in references(parsed.tree)]
    query = qualify(parsed.tree, [table.relation for table in tables], now=NOW)
    facts = [
        TableFacts("unified", table.seam, dataclasses.replace(table.binding, **changes))
        for table in tables
    ]
    return bind(query, facts)


def with_moments(plan: LogicalPlan) -> LogicalPlan:
    """The plan with the offsets of the moments that its predicates speak of, as a gateway asks."""
    return dataclasses.replace(
        plan,
        scans=tuple(
            dataclasses.replace(
                scan,
                offsets_at={
                    ms: _table_of(scan).offsets_at(ms, scan.facts.log_start) for ms in moments(scan)
                },
            )
            for scan in plan.scans
        ),
    )


def describe(plan: LogicalPlan) -> Iterator[str]:
    """One line per scan: what it may leave out, and what it reads of the log."""
    for scan in plan.scans:
        ranges = [f"p{r.partition} [{r.start}, {r.end_exclusive})" for r in scan.hot_ranges]
        line = (
            f"{scan.seam.table[-1]}: {predicates.describe(scan.predicate)}; "
            f"log {', '.join(ranges) or 'nothing'}"
        )
        if plan.aggregation is not None:
            kept = ", ".join(f"{c.name} {c.type}" for c in plan.aggregation.columns)
            line += f"; partial aggregates {kept}"
            line += "" if plan.aggregation.is_exact else ", in any order"
        yield line


def describe_row(plan: LogicalPlan, rows: list[str]) -> str:
    """The row that needs no engine; it must be what a plan's query answers."""
    assert plan.row is not None
    counts = [_rows(scan).num_rows for scan in plan.scans]
    row = tuple(counts[0] if isinstance(c, RowCount) else c.value for c in plan.row)
    assert rows == [str(row)], f"{rows} are not {row}"
    return (
        f"row: {', '.join('rows' if isinstance(c, RowCount) else repr(c.value) for c in plan.row)}"
    )


def _table_of(scan: Scan) -> Table:
    return TABLES[scan.seam.table[-1]]


# --- Answers -------------------------------------------------------------------------------------


@functools.cache
def _engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def answer(plan: LogicalPlan) -> list[str]:
    """The rows of the query over what its scans give, in order where the query has one.

    A plan in stages gives the partial aggregates of the snapshot's rows, partition by partition,
    and then the query over these and the rows of the log.
    """
    rows = {scan.scan_id: _rows(scan) for scan in plan.scans}
    tree, stages = plan.query.tree, plan.aggregation
    if stages is not None:
        (scan,) = plan.scans
        given = rows[scan.scan_id].to_pylist()
        partials = [(stages.partials_id, stages.columns)]
        found = pa.schema([types.arrow_field(c) for c in stages.columns]).empty_table()
        for partition in range(PARTITIONS):
            part = [r for r in given if _is_cold(scan, r) and r[columns.PARTITION] == partition]
            rows |= {scan.scan_id: _arrow(scan, part), stages.partials_id: found}
            found = _computed(stages.merged, plan.scans, rows, partials)
        hot = [row for row in given if not _is_cold(scan, row)]
        rows |= {scan.scan_id: _arrow(scan, hot), stages.partials_id: found}
        result = _computed(stages.final, plan.scans, rows, partials)
    else:
        result = _computed(tree, plan.scans, rows)
    cells = [column.to_pylist() for column in result.columns]
    lines = [str(row) for row in zip(*cells, strict=True)]
    return lines if tree.args.get("order") else sorted(lines)


def _computed(
    tree: exp.Expr,
    scans: Sequence[Scan],
    rows: Mapping[str, pa.Table],
    partials: Sequence[tuple[str, tuple[Field, ...]]] = (),
) -> pa.Table:
    engine, relations = _engine(), {}
    for name, fields in (*((scan.scan_id, scan.columns) for scan in scans), *partials):
        # copied, so that what DuckDB hands on to Arrow has no part in the answer
        engine.register("given", rows[name])
        engine.execute(f'CREATE OR REPLACE TEMP TABLE "{name}" AS SELECT * FROM given')
        relations[name] = render.scan_rows(fields, f'SELECT * FROM "{name}"', "duckdb")
    return engine.execute(render.to_duckdb(tree, relations)).to_arrow_table()


def _rows(scan: Scan) -> pa.Table:
    table = _table_of(scan)
    kept = [
        row
        for row in table.rows
        if _is_read(scan, row) and (scan.predicate is None or keeps(scan.predicate, row))
    ]
    return _arrow(scan, kept)


def _arrow(scan: Scan, rows: Sequence[Row]) -> pa.Table:
    fields = (*_table_of(scan).fields, *METADATA)
    schema = pa.schema([(f.name, types.to_arrow(f.type)) for f in fields])
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)


def _is_cold(scan: Scan, row: Row) -> bool:
    return bool(row[columns.OFFSET] < scan.seam.boundary[row[columns.PARTITION]])


def _is_read(scan: Scan, row: Row) -> bool:
    partition, offset = row[columns.PARTITION], row[columns.OFFSET]
    return _is_cold(scan, row) or any(
        r.partition == partition and r.start <= offset < r.end_exclusive for r in scan.hot_ranges
    )
