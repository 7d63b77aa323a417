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

from seamline.connectors.config import CatalogConfig
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog, IcebergTable
from seamline.seam.boundary import SUMMARY_KEY, Boundary, encode
from seamline.seam.files import ScanRequest
from seamline.seam.offsets import Offsets

NAME = ("default", "t")
_PARTITIONS = range(4)


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

    def read(self) -> IcebergTable:
        """Loads the table, and plans a read of its newest snapshot as a statement does."""
        table = self.catalog.load(NAME)
        state = table.state
        table.require_single_writer(state.current_snapshot_id)
        table.plan(state.current_snapshot_id, ScanRequest(state.current_schema_id, ("id",)))
        return table


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
