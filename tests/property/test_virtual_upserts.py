"""Goal: a virtual snapshot of an upsert table is the table at its seam, for whoever reads files.

Method: random histories of writes, deletes and truncates, tiered at random places. In between the
table is given out as it is then, as it was pinned earlier, after its leases have ended, and as
planned scans with a filter. PyIceberg reads what is named: it knows nothing of keys, and refuses
what it cannot apply. A dictionary's content is what it must find.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import random
import sqlite3
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent
from pyiceberg.table import FileScanTask, StaticTable
from pyiceberg.types import LongType
from support.upserts import MARK, Users, model

from seamline.connectors.iceberg import manifests
from seamline.connectors.iceberg.pyiceberg_internals import live_entries
from seamline.connectors.iceberg.row_ids import REFERENCED_FILE
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.errors import NOT_SUPPORTED, UPSERT_ORDER_UNKNOWN, SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.gateway.iceberg_rest import (
    metadata,
    plan_files,
    snapshots,
    tail_deletes,
    tail_store,
)
from seamline.gateway.iceberg_rest.scans import PlanRequest, TableScan, plan_scan
from seamline.gateway.iceberg_rest.served_table import ServedTable
from seamline.gateway.iceberg_rest.table_serving import ServedTables
from seamline.gateway.tail.tails import Tails
from seamline.seam.offsets import Offsets

KEYS = 9
NEVER = NoDeadline()
KINDS = (snapshots.KIND, metadata.KIND, tail_store.KIND, tail_deletes.KIND, plan_files.KIND)
CAPTURED: dict[str, Any] = {
    "partitions": 1,
    "mode": "changelog",
    "envelope": "debezium",
    "key": None,
}
"""Changes of a database, in one partition, so that it may be truncated."""
LAYOUTS: dict[str, dict[str, Any]] = {
    "in one place": {},
    "by a value": {"partitioning": ("name",)},
    "by buckets": {"partitioning": ("bucket(3, id)", "truncate(2, name)")},
    "keyed": {"key_partitioner": "murmur2", "key_format": "int64"},
    "marked": {"deleted_by": MARK},
    "captured": CAPTURED,
    "captured by buckets": {**CAPTURED, "partitioning": ("bucket(3, id)",)},
}
Found = list[tuple[Any, ...]]


class Served:
    """An upsert table, and what a gateway hands out of it.

    Args:
        folder: Where everything is.
        version: Of the format. PyIceberg writes none of version 3, so that is lifted to when there
            are rows, and nothing is tiered from then on.
        definition: What else the table's definition says.
    """

    def __init__(self, folder: pathlib.Path, version: int = 2, **definition: Any) -> None:
        self._folder = folder
        self.users = Users(folder, **definition)
        self.version = version
        self.tables = self._gateway()

    def _gateway(self) -> ServedTables:
        connections = self.users.connections
        tails = Tails(connections, None, size_bytes_max=2**60, offsets_max=2**60)
        return ServedTables(connections.config, connections, self.users.gatherer, tails)

    def restart(self) -> None:
        """Has another gateway continue with the same state."""
        self.tables.close()
        self.tables = self._gateway()

    def live_files(self) -> list[pathlib.Path]:
        """What is where the files of virtual snapshots are put."""
        return [p for p in (self._folder / ".seamline-gateway/live").rglob("*") if p.is_file()]

    def close(self) -> None:
        """Ends the gateway, and lets go of the engine."""
        self.tables.close()
        self.users.close()

    def tier(self, next_: Offsets) -> None:
        """Moves the boundary."""
        if self.users.table().state.format_version < 3:
            self.users.tier(next_)
            if self.version == 3:
                self._lift()

    def _lift(self) -> None:
        """What an upgrade to version 3 leaves: the files are as they were."""
        old = self.users.table().state.metadata_location
        body = json.loads(pathlib.Path(old.removeprefix("file://")).read_text())
        new = old.replace(".metadata.json", "-lifted.metadata.json")
        lifted = json.dumps({**body, "format-version": 3, "next-row-id": 0})
        pathlib.Path(new.removeprefix("file://")).write_text(lifted)
        with contextlib.closing(sqlite3.connect(self._folder / "catalog.db")) as catalog, catalog:
            catalog.execute("UPDATE iceberg_tables SET metadata_location = ?", (new,))

    def pin(self) -> ServedTable:
        """The table as it is now."""
        return self.tables.pin(self.users.name, NEVER)

    def wanted(self) -> Found:
        """What it must be now."""
        return sorted(((k, *v) for k, v in model(self.users.log).items()), key=repr)

    def located(self, table: ServedTable) -> StaticTable:
        """What it is given out as."""
        found = self.tables.metadata(table, NEVER, planned=False, only_referenced=False)
        return StaticTable.from_metadata(found.location)

    def read(self, table: ServedTable) -> Found:
        """Its rows, as PyIceberg reads them."""
        return rows_of(self.located(table).scan().to_arrow())

    def planned(self, table: ServedTable, id_: int) -> Found:
        """Its rows of one key, by a planned scan whose filter is applied to what comes."""
        asked = {"filter": {"type": "eq", "term": "id", "value": id_}, "select": ["id", "name"]}
        served = self.tables.metadata(table, NEVER, planned=True, only_referenced=False)
        schema = table.cold.iceberg.schema()
        snapshot_id = table.tail.snapshot_id if table.tail else table.cold.state.current_snapshot_id
        request = TableScan(table, snapshot_id, schema, PlanRequest.model_validate(asked))
        plan = plan_scan(self.tables, request, NEVER)
        tasks = [FileScanTask(task.file, {*task.deletes}) for task in plan.tasks]
        scanned = StaticTable.from_metadata(served.location)
        reader = ArrowScan(scanned.metadata, scanned.io, schema.select("id", "name"), AlwaysTrue())
        found = reader.to_table(tasks).to_pylist()
        return sorted((row["id"], row["name"]) for row in found if row["id"] == id_)

    def widen(self) -> None:
        """Has a column more, which the files of the snapshot lack."""
        with self.users.table().iceberg.update_schema() as update:
            update.add_column(f"more{len(self.users.table().iceberg.schemas())}", LongType())

    def expire(self) -> None:
        """Lets all leases end."""
        leases = self.tables._leases
        for kind in KINDS:
            for lease in leases.held(kind):
                leases.release(lease.lease_id)
        self.tables.collect()


def rows_of(table: Any) -> Found:
    rows = table.select(["id", "name", "score"]).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


@contextlib.contextmanager
def served(version: int = 2, **definition: Any) -> Iterator[Served]:
    with tempfile.TemporaryDirectory() as folder:
        made = Served(pathlib.Path(folder), version, **definition)
        with contextlib.closing(made):
            yield made


def happen(table: Served, dice: random.Random, count: int) -> None:
    """So many writes and deletes."""
    for _ in range(count):
        id_ = dice.randrange(KEYS)
        if table.users.partitions == 1 and dice.random() < 0.1:
            table.users.truncate()
        elif dice.random() < 0.3:
            table.users.delete(id_)
        else:
            name = None if dice.random() < 0.2 else f"n{dice.randrange(4)}"
            table.users.put(id_, name, dice.randrange(100))


def some_ends(table: Served, dice: random.Random) -> Offsets:
    """Between the boundary and the ends."""
    before, ends = table.users.boundary().next, table.users.end()
    return Offsets({p: dice.randint(before.get(p, 0), end) for p, end in ends.items()})


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize(
    ("layout", "seed"),
    [
        *((layout, number % 2) for number, layout in enumerate(LAYOUTS)),
        *(
            pytest.param(layout, seed, marks=pytest.mark.soak)
            for layout in LAYOUTS
            for seed in range(2, 200)
        ),
    ],
)
def test_what_is_given_out_is_the_table_at_its_seam(layout: str, seed: int) -> None:
    dice = random.Random(seed)
    with served(2 + seed % 2, **LAYOUTS[layout]) as table:
        earlier: list[tuple[ServedTable, Found]] = []
        for _ in range(dice.randrange(2, 5)):
            happen(table, dice, dice.randrange(12))
            pinned, wanted = table.pin(), table.wanted()
            assert table.read(pinned) == wanted
            require_form(table.located(pinned))
            id_ = dice.randrange(KEYS)
            expected = sorted(row[:2] for row in wanted if row[0] == id_)
            assert table.planned(pinned, id_) == expected
            if dice.random() < 0.4:
                table.expire()
            if table.version == 2 and dice.random() < 0.3:
                table.widen()
            for old, rows in earlier:  # of a snapshot that is still kept, with less of its tail
                assert table.read(old) == rows
            if dice.random() < 0.5:
                earlier.append((pinned, wanted))
            else:
                table.tier(some_ends(table, dice))
                earlier.clear()


def require_form(table: StaticTable) -> None:
    """Deletes are of the kind that the version requires, and a file has one vector."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    listed = manifests.read_list(table.io, snapshot.manifest_list)
    deletes = [
        entry.data_file
        for manifest in listed
        if manifest.content == ManifestContent.DELETES
        for entry in live_entries(table.io, manifest)
    ]
    is_third = table.metadata.format_version == 3
    assert {file.content for file in deletes} <= {DataFileContent.POSITION_DELETES}
    assert {file.file_format for file in deletes} <= {
        FileFormat.PUFFIN if is_third else FileFormat.PARQUET
    }
    if is_third:
        of = [file[REFERENCED_FILE] for file in deletes]
        assert len(of) == len(set(of))


def test_the_next_gateway_has_what_was_written() -> None:
    with served() as table:
        for id_ in range(4):
            table.users.put(id_, "a", 1)
        table.tier(table.users.end())
        table.users.put(1, "b", 2)
        table.users.delete(2)
        pinned, wanted = table.pin(), table.wanted()
        first = table.located(pinned)
        files = {path: path.stat().st_mtime_ns for path in table.live_files()}
        table.restart()
        assert table.located(pinned).metadata == first.metadata
        assert table.read(pinned) == wanted
        hidden = table.tables.hidden(pinned, NEVER)
        assert sum(entry.data_file.record_count for entry in hidden) == 2
        assert {path: path.stat().st_mtime_ns for path in table.live_files()} == files
        assert len(files) > 5
        table.expire()
        assert not table.live_files()
        assert table.read(pinned) == wanted


def test_a_key_that_moves_is_given_to_nobody() -> None:
    with served() as table:
        table.users.put(1, "here", 1, partition=0)
        table.tier(table.users.end())
        table.users.put(1, "there", 1, partition=1)
        with pytest.raises(SeamlineError) as caught:
            table.located(table.pin())
        assert caught.value.code is UPSERT_ORDER_UNKNOWN
        with pytest.raises(SeamlineError) as caught:
            table.planned(table.pin(), 1)
        assert caught.value.code is UPSERT_ORDER_UNKNOWN


def test_rows_that_have_no_place_are_given_to_nobody() -> None:
    text = "id bigint, name varchar, score integer, file_row_number bigint"
    with served(columns=parse_fields(text)) as table:
        table.users.put(1, "cold", 1)
        table.tier(table.users.end())
        assert table.read(table.pin()) == [(1, "cold", 1)]
        table.users.put(1, "hot", 1)
        with pytest.raises(SeamlineError, match="file_row_number") as caught:
            table.located(table.pin())
        assert caught.value.code is NOT_SUPPORTED
