"""Tables for the engine over DuckDB, their rows in every place.

Hot, cold, half and half, a fifth hot; hot with a half spilled to a file; half cold with other rows
deleted from the file; and known to the gateway itself.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import pathlib
from collections.abc import Mapping

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from seamline.connectors.iceberg.file_contents import schema_of
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.protocols.engine_tails import SpilledTail, TailFile
from seamline.connectors.protocols.engines import Engine, EngineQuery, EngineScan
from seamline.planners.plan.logical import LogicalPlan, Scan, TableFacts
from seamline.planners.rules.push_predicates import push_predicates
from seamline.seam.files import ColdPlan, DataFile, DeleteFile
from seamline.sql import columns, types
from seamline.sql.binder.qualify import BoundQuery, Relation, qualify, references
from seamline.sql.engines import render
from seamline.sql.parsing import parse
from seamline.sql.row_filters_and_masks import NO_RESTRICTION, Restriction
from seamline.sql.types import Field, arrow_field
from support import plans

NOW = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
_FACTS = TableFacts("system", plans.TABLES["bids"].seam)
PLACES = ("hot", "cold", "both", "recent", "spilled", "deleted", "known")


@dataclasses.dataclass(frozen=True)
class Stored:
    """A table's rows, somewhere.

    Attributes:
        scan: How the engine reads them; what a query says of it is still to be filled in.
        tail: The hot ones, None without.
    """

    scan: EngineScan
    tail: pa.Table | SpilledTail | None


class Storage:
    """Puts tables into a folder.

    Args:
        folder: Where files are.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()

    def stored(self, rows: pa.Table, place: str) -> Stored:
        """The rows in one of the `PLACES`."""
        half = rows.num_rows // 2
        match place:
            case "hot":
                return Stored(_scan(), rows)
            case "cold":
                return Stored(_scan(self.file(rows)), None)
            case "both":
                return Stored(_scan(self.file(rows[:half])), rows[half:])
            case "recent":
                recent = rows.num_rows // 5
                return Stored(_scan(self.file(rows[recent:])), rows[:recent])
            case "known":
                return Stored(dataclasses.replace(_scan(), rows=rows), None)
            case "spilled":
                return Stored(_scan(), SpilledTail(rows[:half], (self._tail_file(rows[half:]),)))
        file = self.file(pa.concat_tables([rows[half:], rows[:half]]))
        gone = pa.array(range(rows.num_rows - half), pa.int64())
        deletes = pa.table({"path": pa.array([file.path] * len(gone)), "position": gone})
        marked = dataclasses.replace(file, deletes=(DeleteFile("", "position", 0),))
        return Stored(dataclasses.replace(_scan(marked), deletes=deletes), rows[half:])

    def _path(self) -> str:
        return str(self._folder / f"{next(self._numbers)}.parquet")

    def file(self, rows: pa.Table) -> DataFile:
        """The rows as a data file, with a bloom filter for each column that can have one."""
        path = self._path()
        leaves = pq.ParquetFile(_as_parquet(rows.schema)).schema
        hashed = [leaf.path for leaf in leaves if leaf.physical_type != "BOOLEAN"]
        filters = {path: {"ndv": 100, "fpp": 1e-6} for path in hashed}
        pq.write_table(rows, path, row_group_size=20_000, bloom_filter_options=filters)
        size = pathlib.Path(path).stat().st_size
        with pq.ParquetFile(path) as written:
            return DataFile(path, "PARQUET", size, rows.num_rows, physical=schema_of(written))

    def _tail_file(self, rows: pa.Table) -> TailFile:
        path = self._path()
        offsets = pa.array(range(rows.num_rows), pa.int64())
        pq.write_table(rows.append_column(columns.OFFSET, offsets), path)
        return TailFile(path, 0, rows.num_rows, whole=True, row_count=rows.num_rows)


def _as_parquet(schema: pa.Schema) -> pa.BufferReader:
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    return pa.BufferReader(sink.getvalue())


def _scan(*files: DataFile) -> EngineScan:
    rows = sum(file.record_count for file in files)
    cold = ColdPlan(1, files, len(files), rows) if files else None
    return EngineScan("", ("t",), (), cold=cold)


def arrow_schema(fields: tuple[Field, ...]) -> pa.Schema:
    """The columns as the decoder gives them."""
    return pa.schema([arrow_field(field) for field in fields])


def bound(
    sql: str,
    relations: Mapping[str, tuple[Field, ...]],
    restrictions: Mapping[str, Restriction] | None = None,
) -> tuple[BoundQuery, list[str]]:
    """A query over tables of these columns, and the table of each of its scans."""
    known = restrictions or {}
    parsed = parse.parse(sql)
    assert isinstance(parsed, parse.Query)
    names = [reference.name[-1] for reference in references(parsed.tree)]
    read = [
        Relation(relations[name], restriction=known.get(name, NO_RESTRICTION)) for name in names
    ]
    return qualify(parsed.tree, read, now=NOW), names


def answer(
    engine: Engine, query: BoundQuery, names: list[str], tables: Mapping[str, Stored]
) -> list[str]:
    """The rows of a query over stored tables, sorted."""
    return _sorted(table_of(engine, query, names, tables))


def table_of(
    engine: Engine, query: BoundQuery, names: list[str], tables: Mapping[str, Stored]
) -> pa.Table:
    """The rows of a query over stored tables."""
    plan = LogicalPlan(query, tuple(Scan(s.scan_id, _FACTS, s.columns) for s in query.scans))
    scans = tuple(
        dataclasses.replace(
            tables[name].scan,
            scan_id=scan.scan_id,
            columns=scan.columns,
            predicate=scan.predicate,
            tail_predicate=scan.tail_predicate,
            newest=scan.facts.newest,
            tail=name if tables[name].tail is not None else None,
        )
        for scan, name in zip(push_predicates(plan).scans, names, strict=True)
    )
    tails = {n: t.tail for n, t in tables.items() if n in names and t.tail is not None}
    schema = pa.schema([(c.name, types.to_arrow(c.type)) for c in query.output])
    stream = engine.run(EngineQuery(query.tree, schema, scans, tails), NoDeadline())
    try:
        return pa.Table.from_batches(stream.batches, schema)
    finally:
        stream.close()


def plain_answer(
    connection: duckdb.DuckDBPyConnection, query: BoundQuery, names: list[str]
) -> list[str]:
    """The rows of a query over DuckDB's own tables of these names, sorted."""
    relations = {
        scan.scan_id: render.scan_rows(scan.columns, f"SELECT * FROM {name}", "duckdb")
        for scan, name in zip(query.scans, names, strict=True)
    }
    return _sorted(connection.sql(render.to_duckdb(query.tree, relations)).to_arrow_table())


def _sorted(table: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*(c.to_pylist() for c in table.columns), strict=True)))
