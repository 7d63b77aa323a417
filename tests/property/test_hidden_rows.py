"""Goal: what a tail hides of files is the same, remembered or joined.

Method: random files, some of whose rows are deleted, and a tail that grows. The engine answers each
query twice: once as a statement whose tail is followed, so that it remembers which rows are hidden,
and once as one whose tail is not, so that it joins by key. Both must agree, also about keys that
have moved, and with truncates in the tail.
"""

from __future__ import annotations

import dataclasses
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from support.engine_tables import Storage, arrow_schema, bound

from seamline.connectors.duckdb.workers import DuckDBWorkers
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.protocols.engine_tails import FollowedTail
from seamline.connectors.protocols.engines import EngineQuery, EngineScan
from seamline.errors import COLD_FILE_INVALID, UPSERT_ORDER_UNKNOWN, SeamlineError
from seamline.seam.files import ColdPlan, DataFile, DeleteFile
from seamline.seam.offsets import Offsets
from seamline.seam.upserts import Newest
from seamline.sql import columns, types
from seamline.sql.types import BIGINT, UUID, VARCHAR, Field

PARTITIONS = 3
ORDERS = ("settled", "unsettled", "truncated")
QUERIES = (
    "SELECT * FROM t",
    "SELECT count(*) FROM t",
    "SELECT name, count(*) FROM t GROUP BY name",
    "SELECT count(*) FROM t WHERE name = 'n1'",
    "SELECT a.name, b._kafka_offset FROM t a JOIN t b ON a.name = b.name",
)
KEYS: dict[str, tuple[tuple[Field, ...], Any]] = {
    "number": ((Field("Id", BIGINT, 1),), lambda n: (n - 5,)),
    "text": ((Field("Id", VARCHAR, 1),), lambda n: (f"k'{n}",)),
    "uuid": ((Field("Id", UUID, 1),), lambda n: (f"00000000-0000-0000-0000-{n:012}",)),
    "pair": ((Field("a", BIGINT, 1), Field("b", VARCHAR, 5)), lambda n: (n % 3, f"k{n}")),
}


class Story:
    """Files, and a tail that grows.

    Args:
        dice: Decides.
        folder: Where files are.
        key: One of the `KEYS`.
        order: One of the `ORDERS`: no key moves, some do, or there are truncates.
    """

    def __init__(self, dice: random.Random, folder: pathlib.Path, key: str, order: str) -> None:
        self._dice = dice
        self._fields, self._values = KEYS[key]
        partition, offset = columns.METADATA_FIELDS[0], columns.METADATA_FIELDS[1]
        self.partition = dataclasses.replace(partition, field_id=3)
        self.offset = dataclasses.replace(offset, field_id=4)
        name = Field("name", VARCHAR, 2)
        self.columns = (*self._fields, name, self.partition, self.offset)
        is_settled, is_truncated = order != "unsettled", order == "truncated"
        self.newest = Newest(self._fields, self.partition, self.offset, is_settled, is_truncated)
        self._end = [0] * (1 if is_truncated else PARTITIONS)
        numbers = list(range(40))
        dice.shuffle(numbers)
        storage, self.files, deletes = Storage(folder), [], []
        for _ in range(dice.randrange(1, 4)):
            own = [self._row(numbers.pop()) for _ in range(dice.randrange(12))]
            file = storage.file(self._table(own, self.columns))
            gone = sorted(dice.sample(range(len(own)), dice.randrange(len(own) + 1)))
            if gone and dice.random() < 0.5:
                deletes += [(file.path, position) for position in gone]
                file = dataclasses.replace(file, deletes=(DeleteFile("", "position", 0),))
            self.files.append(file)
        self.deletes = None
        if deletes:
            paths, positions = zip(*deletes, strict=True)
            self.deletes = pa.table({"path": paths, "position": pa.array(positions, pa.int64())})
        self.start = Offsets(dict(enumerate(self._end)))
        self.log = object()
        self._tail: list[dict[str, Any]] = []

    def grow(self) -> None:
        """Records arrive; now and then one of a key that was elsewhere."""
        for _ in range(self._dice.randrange(8)):
            row = self._row(self._dice.randrange(40))
            if self.newest.takes_truncates and self._dice.random() < 0.1:
                row |= dict.fromkeys((*self.newest.key_names, "name"))
                self._tail.append({**row, columns.DELETED: True})
                continue
            if not self.newest.is_settled and self._dice.random() < 0.02:
                row[columns.PARTITION] = (row[columns.PARTITION] + 1) % PARTITIONS
                row[columns.OFFSET] = self._next(row[columns.PARTITION])
            self._tail.append({**row, columns.DELETED: self._dice.random() < 0.3})

    def scan(self, *, is_followed: bool, files: int = 99) -> EngineScan:
        """How all of it is read."""
        kept = tuple(self.files[:files])
        tail = FollowedTail(self.log, self.start, Offsets(dict(enumerate(self._end))))
        return EngineScan(
            "",
            ("t",),
            self.columns,
            snapshot_id=1,
            cold=ColdPlan(1, kept, len(kept), sum(file.record_count for file in kept)),
            deletes=self.deletes if any(file.deletes for file in kept) else None,
            tail="t",
            newest=self.newest,
            followed=tail if is_followed else None,
        )

    @property
    def tail(self) -> pa.Table:
        """The rows of the tail."""
        return self._table(self._tail, (*self.columns, columns.DELETED_FIELD))

    def _row(self, number: int) -> dict[str, Any]:
        partition = number % len(self._end)
        key = zip((field.name for field in self._fields), self._values(number), strict=True)
        name = self._dice.choice([None, "n1", "n2", "n3"])
        where = {columns.PARTITION: partition, columns.OFFSET: self._next(partition)}
        return {**dict(key), "name": name, **where}

    def _next(self, partition: int) -> int:
        self._end[partition] += self._dice.randrange(1, 3)
        return self._end[partition] - 1

    def _table(self, rows: list[dict[str, Any]], fields: tuple[Field, ...]) -> pa.Table:
        return pa.Table.from_pylist(rows, arrow_schema(fields))


@pytest.fixture
def engine(tmp_path: pathlib.Path) -> Iterator[DuckDBWorkers]:
    made = DuckDBWorkers(
        memory_bytes=1 << 28, threads=1, spill_directory=str(tmp_path / "spill"), spill_bytes=0
    )
    yield made
    made.close()


def answer(engine: DuckDBWorkers, sql: str, scan: EngineScan, tail: pa.Table) -> list[str] | str:
    """The rows of a query, or the error."""
    query, _ = bound(sql, {"t": scan.columns})
    scans = tuple(
        dataclasses.replace(scan, scan_id=one.scan_id, columns=one.columns) for one in query.scans
    )
    schema = pa.schema([(c.name, types.to_arrow(c.type)) for c in query.output])
    try:
        stream = engine.run(EngineQuery(query.tree, schema, scans, {"t": tail}), NoDeadline())
        try:
            return sorted(str(row) for batch in stream.batches for row in batch.to_pylist())
        finally:
            stream.close()
    except SeamlineError as error:
        assert error.code is UPSERT_ORDER_UNKNOWN
        return error.code.name


@pytest.mark.one_in(test=9)
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.prove)])
def test_what_is_remembered_is_what_a_join_finds(
    engine: DuckDBWorkers, tmp_path: pathlib.Path, key: str, order: str, seed: int
) -> None:
    dice = random.Random(f"{seed} {key} {order}")
    story = Story(dice, tmp_path, key, order)
    earlier: list[tuple[EngineScan, pa.Table]] = []
    for _ in range(5):
        story.grow()
        files = dice.choice([1, 99, 99])
        scan, tail = story.scan(is_followed=True, files=files), story.tail
        joined = story.scan(is_followed=False, files=files)
        for sql in dice.sample(QUERIES, 3):
            assert answer(engine, sql, scan, tail) == answer(engine, sql, joined, tail), sql
        earlier.append((scan, tail))
    for scan, tail in earlier:  # what later records hide, it must not
        joined = dataclasses.replace(scan, followed=None)
        assert answer(engine, QUERIES[0], scan, tail) == answer(engine, QUERIES[0], joined, tail)


def test_a_file_that_has_other_rows_than_its_manifest_says_is_not_read(
    engine: DuckDBWorkers, tmp_path: pathlib.Path
) -> None:
    story = Story(random.Random(1), tmp_path, "number", "settled")
    file: DataFile = max(story.files, key=lambda file: file.record_count)
    story.files = [dataclasses.replace(file, record_count=file.record_count + 1)]
    story.grow()
    query, _ = bound("SELECT count(*) FROM t", {"t": story.columns})
    scan = story.scan(is_followed=True)
    scans = (dataclasses.replace(scan, scan_id=query.scans[0].scan_id, columns=()),)
    with pytest.raises(SeamlineError) as caught:
        engine.run(
            EngineQuery(query.tree, pa.schema([("n", pa.int64())]), scans, {"t": story.tail}),
            NoDeadline(),
        )
    assert caught.value.code is COLD_FILE_INVALID
