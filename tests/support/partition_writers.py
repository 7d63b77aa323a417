"""Writers of Iceberg tables as the partition values that they compute, right and wrong.

Each is its arithmetic: as the specification says, or as that of a writer that is seen to differ.
Tables of theirs have every row in a file of its own.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
from pyiceberg.expressions import literals
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

from seamline.connectors.iceberg.tail_files import TailLayout, plan_files, write_file
from seamline.sql import types as types_of_sql
from seamline.sql.types import Field, arrow_field
from support.gateway import Gateway

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


# --- Tables --------------------------------------------------------------------------------------

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


def write(gateway: Gateway, name: str, written: str) -> list[str]:
    """Makes a table with every row in a file of its own; returns their paths."""
    case, sql_type, rows, _ = WRITTEN[written]
    type_ = types_of_sql.parse(sql_type)
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
