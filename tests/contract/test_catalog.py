"""Goal: every `Catalog` and `ColdTable` shows committed states as they are, and keeps them so.

Method: one suite of behaviours over implementations: the tables in memory, and real Iceberg tables
in a catalog of one file. What an implementation does not do is listed in `GAPS`, with the reason.
"""

from __future__ import annotations

import abc
import datetime
import pathlib
from collections.abc import Callable, Iterable

import pyarrow as pa
import pytest
from fakes.memory import ManualClock, MemoryCatalog, MemoryLog, MemoryTable
from support import offline

from seamline.connectors.iceberg import layout
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
from seamline.connectors.iceberg.type_conversion import to_schema
from seamline.connectors.protocols.catalogs import Catalog
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.errors import SeamlineError
from seamline.gateway.tiering.step import tier_once
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import SUMMARY_KEY, Boundary, boundary_of, encode
from seamline.seam.files import ColdPlan, ScanRequest
from seamline.seam.log import READ_COMMITTED
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.table import TableSchema
from seamline.sql import columns
from seamline.sql.predicates import And, Comparison, Predicate
from seamline.sql.types import VARCHAR, Field

TOPIC, TABLE = "bids", ("shop", "north", "bids")
BASE_MS = 1_700_000_000_000
FIELDS = (Field("value", VARCHAR), *columns.METADATA_FIELDS)
BINDING = TopicBinding("default", TOPIC)
START = Boundary(
    snapshot_id=0,
    cluster_id="c",
    topic=TOPIC,
    topic_id="topic-1",
    isolation=READ_COMMITTED,
    start=Offsets({0: 0}),
    next=Offsets({0: 0}),
)


class CatalogSubject(abc.ABC):
    """A catalog with one table, and what a test does to it."""

    catalog: Catalog

    @abc.abstractmethod
    def create(self) -> None:
        """Creates the table with its first, empty, marked snapshot."""

    @abc.abstractmethod
    def append(self, times_ms: Iterable[int]) -> None:
        """Commits records of partition 0 at the next offsets, with these times."""

    @property
    def table(self) -> ColdTable:
        """The table as it is now."""
        return self.catalog.load(TABLE)


class MemorySubject(CatalogSubject):
    """The catalog in memory; records come through its log and the tiering protocol."""

    def __init__(self, _: pathlib.Path) -> None:
        self.log = MemoryLog(ManualClock(BASE_MS))
        self.log.create_topic(TOPIC, 1)
        self.memory = MemoryCatalog("lake")
        self.catalog = self.memory

    def create(self) -> None:
        schema = TableSchema(0, FIELDS)
        name = ("lake", *TABLE)
        self.own = MemoryTable(name, schema, BINDING.to_properties(), self.log.clock, self.log)
        self.own.create({SUMMARY_KEY: encode(START)})
        self.memory.add(self.own)

    def append(self, times_ms: Iterable[int]) -> None:
        for moment in times_ms:
            self.log.produce(TOPIC, 0, b"x", timestamp_ms=moment)
        tier_once(self.own, self.log, NoDeadline(), records_max=1000)


class IcebergSubject(CatalogSubject):
    """A real catalog and warehouse in a folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.iceberg = IcebergCatalog(offline.config(folder).catalogs["lake"])
        self.catalog = self.iceberg
        self.offset = 0

    def create(self) -> None:
        schema = to_schema(FIELDS)
        self.iceberg.create(
            TABLE,
            schema,
            spec=layout.partition_spec(schema, ()),
            order=layout.sort_order(schema, ()),
            properties=BINDING.to_properties(),
            boundary=START,
        )

    def append(self, times_ms: Iterable[int]) -> None:
        rows = [
            {
                "value": "x",
                columns.PARTITION: 0,
                columns.OFFSET: self.offset + number,
                columns.TIMESTAMP: datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC),
            }
            for number, ms in enumerate(times_ms)
        ]
        self.offset += len(rows)
        table = self.iceberg.load(TABLE).iceberg
        table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))


IMPLEMENTATIONS: dict[str, Callable[[pathlib.Path], CatalogSubject]] = {
    "memory": MemorySubject,
    "iceberg": IcebergSubject,
}
GAPS: dict[tuple[str, str], str] = {}
"""(implementation, test) to why it does not hold there yet."""


@pytest.fixture(params=IMPLEMENTATIONS)
def subject(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> CatalogSubject:
    reason = GAPS.get((request.param, request.node.originalname))
    if reason is not None:
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    found = IMPLEMENTATIONS[request.param](tmp_path)
    found.create()
    return found


def plan(table: ColdTable, predicate: Predicate | None = None) -> ColdPlan:
    state = table.state
    request = ScanRequest(state.current_schema_id, ("value",), predicate)
    return table.plan(state.current_snapshot_id, request)


def refused(work: Callable[[], object]) -> str:
    with pytest.raises(SeamlineError) as caught:
        work()
    return caught.value.code.name


# --- Catalog -------------------------------------------------------------------------------------


def test_what_there_is_is_listed(subject: CatalogSubject) -> None:
    assert subject.catalog.name == "lake"
    assert subject.catalog.namespaces() == [("shop",), ("shop", "north")]
    assert subject.catalog.tables(("shop",)) == []
    assert subject.catalog.tables(("shop", "north")) == [TABLE]


@pytest.mark.parametrize(
    ("namespace", "is_there"),
    [(("shop",), True), (("shop", "north"), True), (("north",), False), (("shop", "south"), False)],
)
def test_a_namespace_is_there_or_not(
    subject: CatalogSubject, namespace: tuple[str, ...], is_there: bool
) -> None:
    assert subject.catalog.has_namespace(namespace) == is_there
    if not is_there:
        assert refused(lambda: subject.catalog.tables(namespace)) == "SCHEMA_NOT_FOUND"


def test_what_there_is_not_is_named(subject: CatalogSubject) -> None:
    assert refused(lambda: subject.catalog.load(("shop", "nope"))) == "TABLE_NOT_FOUND"
    assert refused(lambda: subject.catalog.load(("nope", "bids"))) == "TABLE_NOT_FOUND"


# --- State ---------------------------------------------------------------------------------------


def test_a_new_table_has_one_empty_marked_snapshot(subject: CatalogSubject) -> None:
    state = subject.table.state
    assert state.name == ("lake", *TABLE)
    assert state.uuid
    assert TopicBinding.from_properties(state.properties) == BINDING
    assert [field.name for field in state.schema.columns] == [field.name for field in FIELDS]
    assert len(state.snapshots) == 1
    boundary = boundary_of(state, state.current_snapshot_id)
    assert (boundary.next, boundary.topic_id) == (START.next, START.topic_id)
    assert boundary.snapshot_id == state.current_snapshot_id
    assert plan(subject.table).files == ()


def test_a_loaded_table_stays_as_it_was(subject: CatalogSubject) -> None:
    before = subject.table
    frozen = before.state
    subject.append([BASE_MS])
    assert before.state == frozen
    assert plan(before).rows == 0
    assert plan(subject.table).rows == 1


def test_snapshots_have_their_parents_and_the_line_of_the_head(subject: CatalogSubject) -> None:
    subject.append([BASE_MS])
    subject.append([BASE_MS])
    state = subject.table.state
    line = list(state.ancestors(state.current_snapshot_id))
    assert len(line) == len(state.snapshots) == 3
    assert line[0].snapshot_id == state.current_snapshot_id
    assert [s.parent_id for s in line] == [*(s.snapshot_id for s in line[1:]), None]
    assert [s for _, s in state.snapshot_log] == [s.snapshot_id for s in reversed(line)]
    times = [snapshot.timestamp_ms for snapshot in reversed(line)]
    assert times == sorted(times)
    assert state.refs["main"].snapshot_id == state.current_snapshot_id


# --- Plans ---------------------------------------------------------------------------------------


def test_a_plan_has_the_files_of_its_snapshot(subject: CatalogSubject) -> None:
    subject.append([BASE_MS, BASE_MS])
    subject.append([BASE_MS])
    found = plan(subject.table)
    assert (len(found.files), found.total_files) == (2, 2)
    assert found.rows == found.total_rows == 3
    assert found.size_bytes > 0
    assert found.snapshot_id == subject.table.state.current_snapshot_id
    assert found.unsupported is None


def test_an_older_snapshot_is_planned_as_it_was(subject: CatalogSubject) -> None:
    subject.append([BASE_MS])
    older = subject.table.state.current_snapshot_id
    subject.append([BASE_MS, BASE_MS])
    table = subject.table
    request = ScanRequest(table.state.current_schema_id, ("value",))
    assert table.plan(older, request).rows == 1
    assert table.plan(None, request).files == ()


def test_a_snapshot_that_is_not_there_is_named(subject: CatalogSubject) -> None:
    table = subject.table
    request = ScanRequest(table.state.current_schema_id, ("value",))
    assert refused(lambda: table.plan(77, request)) in {"SNAPSHOT_GONE", "COLD_FILE_MISSING"}


@pytest.mark.parametrize(
    ("predicate", "least", "most"),
    [
        (Comparison(columns.OFFSET, ">=", 2), 1, 1),
        (Comparison(columns.OFFSET, "=", 1), 1, 1),
        (Comparison(columns.PARTITION, "=", 1), 0, 0),
        (And((Comparison(columns.OFFSET, ">", 0), Comparison(columns.OFFSET, "<", 3))), 2, 2),
        (Comparison("value", "=", "x"), 2, 2),
        (Comparison("nope", "=", 1), 2, 2),
        (And(()), 2, 2),
    ],
)
def test_pruning_keeps_every_file_that_may_hold_a_row(
    subject: CatalogSubject, predicate: Predicate, least: int, most: int
) -> None:
    subject.append([BASE_MS, BASE_MS])
    subject.append([BASE_MS, BASE_MS])
    found = plan(subject.table, predicate)
    assert least <= len(found.files) <= most
    assert (found.total_files, found.total_rows) == (2, 4)


def test_inspecting_a_plan_keeps_its_files(subject: CatalogSubject) -> None:
    subject.append([BASE_MS])
    table = subject.table
    found = table.inspect(plan(table))
    assert [file.path for file in found.files] == [file.path for file in plan(table).files]
    assert table.deleted_rows(found) is None


# --- Times ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after_ms", "wanted", "expected"),
    [
        (0, OffsetRange(0, 0, 3), {0: 0}),
        (150, OffsetRange(0, 0, 3), {0: 1}),
        (150, OffsetRange(0, 2, 3), {0: 2}),
        (250, OffsetRange(0, 2, 3), {}),
        (0, OffsetRange(0, 3, 9), {}),
        (0, OffsetRange(1, 0, 9), {}),
    ],
)
def test_a_moment_leads_to_the_first_row_at_or_after_it(
    subject: CatalogSubject, after_ms: int, wanted: OffsetRange, expected: dict[int, int]
) -> None:
    subject.append([BASE_MS + 100, BASE_MS + 300])
    subject.append([BASE_MS + 200])
    assert _offsets_from(subject, after_ms, wanted) == Offsets(expected)


@pytest.mark.parametrize(("first_ms", "expected"), [(0, {0: 0}), (101, {0: 0}), (10**9 + 1, {})])
def test_a_row_of_a_time_far_ahead_is_later_than_a_moment(
    subject: CatalogSubject, first_ms: int, expected: dict[int, int]
) -> None:
    subject.append([BASE_MS + 10**9, BASE_MS + 100])
    assert _offsets_from(subject, first_ms, OffsetRange(0, 0, 2)) == Offsets(expected)


def _offsets_from(subject: CatalogSubject, first_ms: int, wanted: OffsetRange) -> Offsets:
    table = subject.table
    return table.offsets_at(table.state.current_snapshot_id, BASE_MS + first_ms, [wanted])
