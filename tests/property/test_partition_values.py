"""Goal: partition values that other writers get wrong never leave a row out, and right ones prune.

Method: for every transform and type, rows at the edges of both, each in a file of its own, with the
partition value that a writer gives it: as the specification says, or by the arithmetic of one that
is seen to differ. For conditions of every form around every row, the files and manifests that a
scan keeps are compared with the rows that a scan without pruning would return.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import types
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from pyiceberg import expressions as iceberg
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import literals
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestFile,
    construct_partition_summaries,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)
from support import offline
from support.gateway import Gateway

from seamline.connectors.iceberg.partition_trust import PartitionTrust
from seamline.connectors.iceberg.pruning import Pruner
from seamline.connectors.iceberg.tail_files import TailLayout, plan_files, write_file
from seamline.sql import types as types_of_sql
from seamline.sql.types import Field, arrow_field

DAY_S = 86_400
SECONDS = [
    *(0, -1, -DAY_S, -DAY_S - 1, -2 * 3600, DAY_S - 1, DAY_S),
    *(-31 * DAY_S, -32 * DAY_S, -365 * DAY_S, -366 * DAY_S - 1, -20 * 365 * DAY_S),
    *(1_704_067_199, 1_704_067_200, 1_706_745_599, 1_706_745_600),
]
"""Around 1970, and around the beginning and the end of a month of 2024."""
NUMBERS = [-4, -1, -5, -6, -7, -9, -10, -11, 0, 1, 9, 10, 11, 1_000_003]


@dataclasses.dataclass(frozen=True, eq=False)
class Kind:
    """A type of columns: its literals, and rows at its edges as they are stored."""

    type: PrimitiveType
    literal: Callable[[Any], literals.Literal[Any]]
    rows: Sequence[Any]

    def __str__(self) -> str:
        return str(self.type)


MICROSECONDS = [1_000_000 * second + (second % 7 == 0) for second in SECONDS]
IDS = [uuid.UUID(int=n).bytes for n in (0, 1, 1 << 127, (1 << 128) - 1, 0xF79C3E09677C4BBD << 64)]
INT, LONG = (
    Kind(of_bits, literals.LongLiteral, [*NUMBERS, *edges])
    for of_bits, edges in (
        (IntegerType(), [-(2**31), -(2**31) + 7, 2**31 - 1, 2**31 - 8, 2**31 - 12]),
        (LongType(), [-(2**63), -(2**63) + 7, 2**63 - 1, 2**63 - 8, 2**63 - 12, -(2**31), 2**31]),
    )
)
DECIMAL = Kind(DecimalType(9, 2), literals.DecimalLiteral, [Decimal(n).scaleb(-2) for n in NUMBERS])
DATE = Kind(DateType(), literals.DateLiteral, sorted({s // DAY_S for s in SECONDS}))
TIMES = [
    Kind(TimestampType(), literals.TimestampLiteral, MICROSECONDS),
    Kind(TimestamptzType(), literals.TimestampLiteral, MICROSECONDS),
]
TEXT = Kind(
    StringType(), literals.StringLiteral, ["", "a", "aé", "abc", "abcd", "b", "\U0001f600x"]
)
UUID = Kind(UUIDType(), literals.UUIDLiteral, IDS)


EDGES = {INT: -(2**31), LONG: -(2**63)}
"""The least values of numbers, below which no partition value can be stored."""


# --- Writers -------------------------------------------------------------------------------------

Writer = Callable[[str, Kind, Any], Any]
"""Returns the partition value that a writer gives a row, by transform and type."""
UNITS = {"year": "Y", "month": "M", "day": "D", "hour": "h"}


def specification(transform: str, kind: Kind, row: Any) -> Any:
    if transform in UNITS:
        return counted(transform, kind, row)
    return parse_transform(transform).transform(kind.type)(row)


def counted(transform: str, kind: Kind, row: int, hours: int = 0) -> int:
    """Units since 1970, rounded down, of a time that is moved by some hours first."""
    if isinstance(kind.type, DateType):
        time = np.datetime64(row, "D")
    else:
        time = np.datetime64(row + 3_600_000_000 * hours, "us")
    return int(time.astype(f"datetime64[{UNITS[transform]}]").astype(int))


def towards_zero(transform: str, kind: Kind, row: int) -> int:
    """Iceberg up to 0.10, and DuckDB 1.5.5: what is not whole units before 1970 is one more."""
    units = counted(transform, kind, row)
    return units + (units < 0 and counted(transform, kind, row - 1) == units)


def clamped(transform: str, kind: Kind, row: int) -> int:
    """ClickHouse: unsigned numbers, with a day added to hours."""
    units = counted(transform, kind, row)
    return max(0, units + 24 * (transform == "hour")) if units < 0 else units


def in_a_zone(hours: int) -> Writer:
    """ClickHouse: in the zone of its server."""
    return lambda transform, kind, row: counted(transform, kind, row, hours)


def unsigned(transform: str, kind: Kind, row: Any) -> Any:
    """ClickHouse up to 26.9: the remainder is that of the number's 64 bits without their sign."""
    scale = kind.type.scale if isinstance(kind.type, DecimalType) else 0
    number = int(Decimal(row).scaleb(scale))
    cut = number - (number % 2**64) % int(transform[9:-1])
    return Decimal(cut).scaleb(-scale) if isinstance(kind.type, DecimalType) else cut


def wrapped(transform: str, kind: Kind, row: int) -> int:
    """Java: what is less than the least number wraps around."""
    bits = 32 if kind is INT else 64
    cut: int = row - row % int(transform[9:-1])
    return cut + 2**bits if cut < -(2 ** (bits - 1)) else cut


def nothing(_: str, __: Kind, ___: Any) -> None:
    """AutoMQ: null."""


def first_bit_flipped(transform: str, _: Kind, row: bytes) -> int:
    """DuckDB 1.5.5: the hash of how it stores a UUID."""
    stored = bytes([row[0] ^ 0x80]) + row[1:]
    return int((mmh3.hash(stored) & 0x7FFFFFFF) % int(transform[7:-1]))


@dataclasses.dataclass(frozen=True)
class Case:
    """A column, how a table is partitioned by it, and who wrote its files.

    Attributes:
        kind: The column's type.
        transform: The transform.
        writer: Computes the partition values.
        needs_statistics: Whether only the statistics of a file can tell that a value is wrong.
    """

    kind: Kind
    transform: str
    writer: Writer
    needs_statistics: bool = False

    def __str__(self) -> str:
        return f"{self.kind}-{self.transform}-{getattr(self.writer, '__name__', 'in_a_zone')}"


def cases() -> Iterator[Case]:
    for kind in (INT, LONG, DECIMAL):
        for transform in ("truncate[10]", "truncate[3]", "truncate[16]", "truncate[1000000]"):
            yield from (Case(kind, transform, one) for one in (specification, unsigned, nothing))
            if kind is not DECIMAL:
                yield Case(kind, transform, wrapped)
    for kind in (DATE, *TIMES):
        for transform in UNITS:
            if kind is DATE and transform == "hour":
                continue
            writers = (specification, towards_zero, clamped, nothing)
            yield from (Case(kind, transform, one) for one in writers)
            if kind is not DATE:
                yield from (Case(kind, transform, in_a_zone(h), True) for h in (14, -12))
    for kind in (TEXT, UUID, INT, DATE):
        yield from (Case(kind, "bucket[7]", one) for one in (specification, nothing))
    yield Case(UUID, "bucket[7]", first_bit_flipped)
    for transform in ("truncate[2]", "identity"):
        yield from (Case(TEXT, transform, one) for one in (specification, nothing))


CASES = list(cases())


# --- Tables --------------------------------------------------------------------------------------


@dataclasses.dataclass
class Table:
    """A table, every row in a file of its own; the last is null.

    Args:
        case: How it is partitioned and written.
        statistics: Whether its manifests have column statistics.
    """

    case: Case
    statistics: bool

    def __post_init__(self) -> None:
        kind, field = self.case.kind, NestedField(2, "c", self.case.kind.type)
        self.schema = Schema(NestedField(1, "n", LongType()), field)
        transform = parse_transform(self.case.transform)
        self.spec = PartitionSpec(PartitionField(2, 1000, transform, "p"), spec_id=0)
        self.metadata: Any = types.SimpleNamespace(
            schema=lambda: self.schema, specs=lambda: {0: self.spec}
        )
        self.rows = [*filter(self._is_written, kind.rows), None]
        self.files = [self._file(row) for row in self.rows]

    def _is_written(self, row: Any) -> bool:
        """Whether the partition value of a row fits its type; if not, no writer could store it."""
        if self.case.kind not in EDGES:
            return True
        value = self.case.writer(self.case.transform, self.case.kind, row)
        return value is None or value >= EDGES[self.case.kind]

    def _file(self, row: Any) -> DataFile:
        stated: dict[str, Any] = {}
        if self.statistics:
            bounds = {} if row is None else {2: to_bytes(self.case.kind.type, row)}
            stated = {"value_counts": {2: 1}, "null_value_counts": {2: int(row is None)}}
            stated |= {"lower_bounds": bounds, "upper_bounds": dict(bounds)}
        value = None if row is None else self.case.writer(self.case.transform, self.case.kind, row)
        file = DataFile.from_args(
            _table_format_version=2,
            content=DataFileContent.DATA,
            file_path=str(row),
            file_format=FileFormat.PARQUET,
            partition=Record(value),
            record_count=1,
            file_size_in_bytes=1,
            **stated,
        )
        file.spec_id = 0
        return file

    def manifests(self) -> Iterator[tuple[Sequence[int], ManifestFile]]:
        """Manifests of one file, of two neighbours, and of all; with the numbers of the files."""
        by_row = sorted(range(len(self.files) - 1), key=lambda n: self.rows[n])
        null = len(by_row)
        for some in [
            *((n,) for n in (*by_row, null)),
            *itertools.pairwise(by_row),
            [*by_row, null],
        ]:
            partitions = [self.files[n].partition for n in some]
            summaries = construct_partition_summaries(self.spec, self.schema, partitions)
            yield some, ManifestFile.from_args(partition_spec_id=0, partitions=summaries)

    def conditions(self) -> Iterator[tuple[Any, frozenset[int]]]:
        """Conditions, with the rows that each keeps."""
        rows = self.rows[:-1]
        kept: Callable[[Callable[[Any], bool]], frozenset[int]] = lambda test: frozenset(  # noqa: E731
            n for n, row in enumerate(rows) if test(row)
        )
        make: Any = self.case.kind.literal
        for value in rows:
            for of, test in COMPARISONS.items():
                if self.case.kind is not UUID or of is iceberg.EqualTo:
                    yield of("c", make(value)), kept(lambda row, t=test, v=value: t(row, v))  # type: ignore[misc]
        for one, other in itertools.pairwise(rows):
            pair = {one, other}
            yield IN("c", {make(one), make(other)}), kept(lambda row, p=pair: row in p)  # type: ignore[misc]
        yield IS_NULL("c"), frozenset({len(rows)})
        yield NOT_NULL("c"), kept(lambda _: True)


IN: Any = iceberg.In
IS_NULL: Any = iceberg.IsNull
NOT_NULL: Any = iceberg.NotNull
EQUAL: Any = iceberg.EqualTo
COMPARISONS: Mapping[Any, Callable[[Any, Any], bool]] = {
    iceberg.EqualTo: lambda row, value: row == value,
    iceberg.LessThan: lambda row, value: row < value,
    iceberg.LessThanOrEqual: lambda row, value: row <= value,
    iceberg.GreaterThan: lambda row, value: row > value,
    iceberg.GreaterThanOrEqual: lambda row, value: row >= value,
}


def check(table: Table, *, is_binding: bool) -> None:
    manifests = list(table.manifests())
    for condition, kept in table.conditions():
        pruner = Pruner(table.metadata, condition, is_binding=is_binding)
        for number in kept:
            assert pruner.keeps_file(table.files[number]), (condition, table.rows[number])
        for some, manifest in manifests:
            if found := kept.intersection(some):
                assert pruner.keeps_manifest(manifest), (condition, some, found)


@pytest.mark.one_in(test=20, prove=4)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_partition_value_leaves_out_a_row(case: Case) -> None:
    check(Table(case, statistics=True), is_binding=False)
    if not case.needs_statistics:
        check(Table(case, statistics=False), is_binding=False)


@pytest.mark.one_in(test=20, prove=4)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_partition_value_leaves_out_a_row_of_a_planned_scan(case: Case) -> None:
    if case.transform == "identity" and case.writer is nothing:
        pytest.skip("Iceberg's readers take the partition's null for the value")
    check(Table(case, statistics=True), is_binding=True)


RIGHT = [case for case in CASES if case.writer is specification]


@pytest.mark.one_in(test=8, prove=2)
@pytest.mark.parametrize("case", RIGHT, ids=str)
def test_right_partition_values_prune(case: Case) -> None:
    """Files without statistics are left out by their partition values, as ever."""
    table = Table(case, statistics=False)
    values = [file.partition[0] for file in table.files[:-1]]
    last_early = 23 if case.transform == "hour" else 0 if case.transform in UNITS else -(2**63)
    left_out = 0
    for row, value in zip(table.rows, values, strict=False):
        pruner = Pruner(table.metadata, EQUAL("c", case.kind.literal(row)))
        for other, file in zip(values, table.files, strict=False):
            kept = pruner.keeps_file(file)
            if case.kind is not UUID and (case.kind is TEXT or max(value, other) > last_early):
                assert kept == (value == other), (value, other)
            left_out += not kept
    assert left_out >= len(values)


@pytest.mark.one_in(test=8, prove=2)
@pytest.mark.parametrize("case", [case for case in RIGHT if case.kind is not UUID], ids=str)
def test_right_partition_values_prune_no_less_than_statistics(case: Case) -> None:
    table = Table(case, statistics=True)
    for condition, kept in table.conditions():
        pruner = Pruner(table.metadata, condition)
        found = {n for n, file in enumerate(table.files) if pruner.keeps_file(file)}
        assert found == kept, condition


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_that_mislead_other_readers_are_named(case: Case) -> None:
    table = Table(case, statistics=True)
    trust = PartitionTrust(table.spec, table.schema)
    for row, file in zip(table.rows[:-1], table.files, strict=False):
        is_right = file.partition[0] == specification(case.transform, case.kind, row)
        found = set(trust.misleading(file))
        assert found == (set() if is_right and case.transform != "bucket[7]" else {2}) or (
            case.transform == "bucket[7]" and case.kind is not UUID and is_right and not found
        ), row


# --- Whole tables --------------------------------------------------------------------------------

WRITTEN: Mapping[str, tuple[Case, str, Sequence[Any], Sequence[str]]] = {
    "truncated partition values of ClickHouse": (
        Case(INT, "truncate[10]", unsigned),
        "integer",
        [-4, -1, -12, 5],
        ["c = -1", "c < -10", "c BETWEEN -4 AND 0", "c IN (-12, 5)"],
    ),
    "partition values of Java that wrapped around": (
        Case(LONG, "truncate[10]", wrapped),
        "bigint",
        [-(2**63), -(2**63) + 1, 3],
        ["c < 0", "c = -9223372036854775807", "c > 0"],
    ),
    "null partition values of AutoMQ": (
        Case(TIMES[0], "hour", nothing),
        "timestamp(6)",
        [dt.datetime(2025, 7, 1, 12), dt.datetime(2025, 7, 1, 13)],
        ["c IS NOT NULL", "c = TIMESTAMP '2025-07-01 12:00:00'", "c > TIMESTAMP '2025-01-01'"],
    ),
    "clamped days of ClickHouse": (
        Case(TIMES[0], "day", clamped),
        "timestamp(6)",
        [dt.datetime(1969, 12, 25, 1), dt.datetime(1970, 1, 1), dt.datetime(2024, 1, 2)],
        ["c < TIMESTAMP '1970-01-01'", "c = TIMESTAMP '1969-12-25 01:00:00'"],
    ),
    "days of ClickHouse in the zone of its server": (
        Case(TIMES[1], "day", in_a_zone(5)),
        "timestamp(6) with time zone",
        [dt.datetime(2024, 1, 1, 22, tzinfo=dt.UTC), dt.datetime(2024, 1, 2, 1, tzinfo=dt.UTC)],
        ["c < TIMESTAMP '2024-01-02 00:00:00 UTC'", "c = TIMESTAMP '2024-01-01 22:00:00 UTC'"],
    ),
    "months of Iceberg 0.10": (
        Case(TIMES[0], "month", towards_zero),
        "timestamp(6)",
        [dt.datetime(1969, 11, 15), dt.datetime(1969, 12, 15)],
        ["c = TIMESTAMP '1969-11-15'", "c < TIMESTAMP '1969-12-01'"],
    ),
    "hashed UUIDs of DuckDB": (
        Case(UUID, "bucket[7]", first_bit_flipped),
        "uuid",
        [uuid.UUID(int=1 << 100), uuid.UUID(int=(1 << 127) + 5)],
        [f"c = UUID '{uuid.UUID(int=1 << 100)}'"],
    ),
}
"""Who wrote it: how, the column's type in SQL, its rows, conditions."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with offline.running(tmp_path_factory.mktemp("written")) as running:
        yield running


@pytest.mark.parametrize("written", WRITTEN)
def test_wrong_partition_values_do_not_prune(gateway: Gateway, written: str) -> None:
    case, type_, rows, conditions = WRITTEN[written]
    name = "t" + str(list(WRITTEN).index(written))
    paths = write(gateway, name, case, types_of_sql.parse(type_), rows)
    for condition in conditions:
        unpruned = f"SELECT n FROM (SELECT * FROM {name} OFFSET 0) WHERE {condition}"
        kept = gateway.rows(unpruned, "duckdb")
        assert kept
        assert sorted(gateway.rows(f"SELECT n FROM {name} WHERE {condition}", "duckdb")) == sorted(
            kept
        )
    client = gateway.app.test_client()
    plan = f"/iceberg-plan/v1/lake/namespaces/default/tables/{name}/plan"
    for row, path in zip(rows, paths, strict=True):
        for of in ("eq", "lt-eq", "gt-eq"):
            stated = {"type": of, "term": "c", "value": json_of(row)}
            body: Any = client.post(plan, json={"filter": stated}, base_url="http://127.0.0.1").json
            files = {task["data-file"]["file-path"] for task in body["file-scan-tasks"]}
            assert path in files, (stated, body)


def json_of(value: Any) -> Any:
    """A literal as the REST specification writes it."""
    match value:
        case int():
            return value
        case uuid.UUID():
            return str(value)
    return value.isoformat()


def write(gateway: Gateway, name: str, case: Case, type_: Any, rows: Sequence[Any]) -> list[str]:
    """Makes a table with every row in a file of its own; returns their paths."""
    fields = (Field("n", types_of_sql.BIGINT, 1), Field("c", type_, 2))
    spec = PartitionSpec(PartitionField(2, 1000, parse_transform(case.transform), "p"))
    schema = Schema(NestedField(1, "n", LongType()), NestedField(2, "c", case.kind.type))
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    table = catalog.create_table(f"default.{name}", schema, partition_spec=spec)
    unpartitioned = PartitionSpec(spec_id=9)
    layout = TailLayout(table.schema(), fields, table.spec(), unpartitioned, SortOrder(), 2, {})
    flat = dataclasses.replace(layout, spec=unpartitioned)
    paths = []
    with table.transaction() as commit, commit.update_snapshot().fast_append() as append:
        for number, row in enumerate(rows):
            arrow = pa.schema([arrow_field(field) for field in fields])
            one = pa.Table.from_pylist([{"n": number, "c": in_arrow(row)}], arrow)
            (planned,) = plan_files(one, flat, f"{table.location()}/data")
            value = case.writer(case.transform, case.kind, stored_value(row))
            planned = dataclasses.replace(planned, spec_id=0, partition=Record(value))
            append.append_data_file(write_file(table.io, planned, layout))
            paths.append(planned.path)
    return paths


def stored_value(row: Any) -> Any:
    """A row as manifests store it."""
    match row:
        case uuid.UUID():
            return row.bytes
        case dt.datetime():
            since = row.replace(tzinfo=None) - dt.datetime(1970, 1, 1)
            return since // dt.timedelta(microseconds=1)
    return row


def in_arrow(row: Any) -> Any:
    """A row as it is in decoded rows."""
    return str(row) if isinstance(row, uuid.UUID) else row
