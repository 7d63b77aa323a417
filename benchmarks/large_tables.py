"""Iceberg tables that look large: their metadata is, while they hold a few real rows."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import sqlite3
import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyiceberg.types import LongType

from seamline.connectors.config import CatalogConfig
from seamline.connectors.iceberg.snapshots import NewSnapshot
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog, IcebergTable
from seamline.seam.boundary import SUMMARY_KEY, Boundary, encode
from seamline.seam.files import ScanRequest
from seamline.seam.offsets import Offsets
from seamline.sql.predicates import Comparison

NAME = ("default", "t")
_PARTITIONS = range(4)
_COLUMNS = (1, 2)
_FILES_OF_MANIFEST = 5_000
_ROWS_OF_FILE = 1_000


@dataclasses.dataclass(frozen=True)
class Warehouse:
    """A catalog in a folder of its own, with one table.

    Attributes:
        folder: The folder.
        catalog: The catalog.
    """

    folder: pathlib.Path
    catalog: IcebergCatalog

    def point_to(self, body: dict[str, Any], number: int) -> None:
        """Writes a head of the table, and makes it the current one."""
        file = self.folder / f"t/metadata/{number:05}.metadata.json"
        file.write_text(json.dumps(body, separators=(",", ":")), encoding="utf-8")
        with contextlib.closing(sqlite3.connect(self.folder / "catalog.db")) as database:
            database.execute("UPDATE iceberg_tables SET metadata_location = ?", [f"file://{file}"])
            database.commit()

    def read(self, at: int | None = None) -> IcebergTable:
        """Loads the table, and plans a read of its newest snapshot as a statement does.

        Args:
            at: The id of the rows to read; None for all rows.
        """
        table = self.catalog.load(NAME)
        state = table.state
        head, schema_id = state.current_snapshot_id, state.current_schema_id
        predicate = None if at is None else Comparison("id", "=", at)
        if state.snapshots[head or 0].summary.get(SUMMARY_KEY):
            table.require_single_writer(head)
        table.plan(head, ScanRequest(schema_id, ("id",), predicate))
        return table

    def count(self) -> int:
        """Loads the table, and returns its number of rows as `count(*)` does."""
        table = self.catalog.load(NAME)
        request = ScanRequest(table.state.current_schema_id, (), is_count=True)
        counted = table.plan(table.state.current_snapshot_id, request).counted
        assert counted is not None
        return counted

    def reopened(self) -> Warehouse:
        """The same table, of which nothing is cached."""
        return Warehouse(self.folder, IcebergCatalog(self.catalog.config))


@contextlib.contextmanager
def warehouse() -> Iterator[Warehouse]:
    """A catalog with one table of a few rows."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary).resolve()
        config = CatalogConfig(
            name="lake",
            type="sql",
            uri=f"sqlite:///{folder}/catalog.db",
            warehouse=f"file://{folder}",
        )
        catalog = IcebergCatalog(config)
        rows = pa.table({"id": [1, 2, 3], "_kafka_offset": [0, 1, 2]})
        catalog.pyiceberg.create_namespace("default")
        location = f"file://{folder}/t"
        catalog.pyiceberg.create_table(NAME, rows.schema, location=location).append(rows)
        yield Warehouse(folder, catalog)


def add_files(tables: Warehouse, files: int) -> None:
    """Commits a snapshot with many data files that do not exist, each with bounds."""
    table = tables.catalog.load(NAME).iceberg
    new = NewSnapshot(table, table.metadata)
    every = [
        _data_file(f"{table.metadata.location}/data/{number:06}.parquet", number)
        for number in range(files)
    ]
    starts = range(0, files, _FILES_OF_MANIFEST)
    made = [one for n in starts for one in new.added(every[n : n + _FILES_OF_MANIFEST])]
    total = {"total-records": str(_ROWS_OF_FILE * files)}
    snapshot = new.finish((), made, Summary(Operation.APPEND, **total))
    head = SetSnapshotRefUpdate(
        ref_name=MAIN_BRANCH,
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot.snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )
    updates = (AddSnapshotUpdate(snapshot=snapshot), head)
    tables.catalog.pyiceberg.commit_table(table, (), updates)


def _data_file(path: str, number: int) -> DataFile:
    low, high = (to_bytes(LongType(), 1000 * n) for n in (number, number + 1))
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=_ROWS_OF_FILE,
        file_size_in_bytes=10_000,
        column_sizes=dict.fromkeys(_COLUMNS, 4000),
        value_counts=dict.fromkeys(_COLUMNS, 1000),
        null_value_counts=dict.fromkeys(_COLUMNS, 0),
        nan_value_counts={},
        lower_bounds=dict.fromkeys(_COLUMNS, low),
        upper_bounds=dict.fromkeys(_COLUMNS, high),
    )
    file.spec_id = 0
    return file


class Heads:
    """Heads of the table with ever more snapshots, each with a boundary.

    Args:
        tables: Where the table is.
        snapshots: How many the first head has.
    """

    def __init__(self, tables: Warehouse, snapshots: int) -> None:
        self._tables = tables
        metadata = tables.catalog.load(NAME).iceberg.metadata
        self._body: dict[str, Any] = json.loads(metadata.model_dump_json())
        self._snapshot = self._body["snapshots"].pop()
        self._body["snapshot-log"].clear()
        for _ in range(snapshots):
            self._add()

    def commit(self) -> None:
        """Adds a snapshot, and makes this the current head."""
        self._add()
        self._tables.point_to(self._body, self._body["current-snapshot-id"])

    def _add(self) -> None:
        body, number = self._body, len(self._body["snapshots"]) + 1
        parent = {"parent-snapshot-id": number - 1} if number > 1 else {}
        summary = {**self._snapshot["summary"], SUMMARY_KEY: _boundary(number)}
        own = {"snapshot-id": number, "sequence-number": number, "summary": summary, **parent}
        body["snapshots"].append({**self._snapshot, **own})
        log = {"snapshot-id": number, "timestamp-ms": self._snapshot["timestamp-ms"]}
        body["snapshot-log"].append(log)
        body["current-snapshot-id"] = body["last-sequence-number"] = number
        body["refs"] = {"main": {"snapshot-id": number, "type": "branch"}}


def _boundary(number: int) -> str:
    start, end = (dict.fromkeys(_PARTITIONS, 1000 * n) for n in (number - 1, number))
    return encode(
        Boundary(0, "cluster", "bids", "topic", "read_committed", Offsets(start), Offsets(end))
    )
