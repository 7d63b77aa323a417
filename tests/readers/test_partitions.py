"""Goal: what readers make of partition values is known, transform by transform.

Method: tables that PyIceberg writes as the specification says, partitioned by every transform of
every type, with values at the edges. Every row is looked up by its value. A reader that does not
find it is declared with the transform, and must still fail to: then `docs/readers.md` is corrected.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import json
import pathlib
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    DateType,
    DecimalType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    UUIDType,
)

from readers.catalogue import READERS
from readers.environments import HERE, Python, interpreter

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]

TIMES = [
    *(dt.datetime(1969, 12, 25, 1), dt.datetime(1969, 11, 15, 3), dt.datetime(1968, 1, 1)),
    *(dt.datetime(1970, 1, 1, 5), dt.datetime(2024, 2, 29, 23, 59)),
]
DATES = [time.date() for time in TIMES]
NUMBERS = [-1, -4, -10, -12, 5]
DECIMALS = [decimal.Decimal("1.25"), decimal.Decimal("3.10")]
IDS = [uuid.UUID(int=5), uuid.UUID(int=(1 << 127) + 77)]
TEXTS = ["", "aé", "abc"]
COLUMNS: Mapping[str, tuple[PrimitiveType, str, Sequence[Any], Sequence[str]]] = {
    "timestamp": (TimestampType(), "TIMESTAMP", TIMES, ("year", "month", "day", "hour")),
    "date": (DateType(), "DATE", DATES, ("year", "month", "day")),
    "long": (LongType(), "BIGINT", NUMBERS, ("truncate[10]",)),
    "decimal": (DecimalType(9, 2), "DECIMAL(9, 2)", DECIMALS, ("truncate[10]",)),
    "uuid": (UUIDType(), "UUID", IDS, ()),
    "string": (StringType(), "VARCHAR", TEXTS, ("truncate[2]",)),
}
"""By type: its name in SQL, values, and the transforms of its own."""
CASES = [
    (name, transform)
    for name, (*_, own) in COLUMNS.items()
    for transform in (*own, "bucket[7]", *(("identity",) if name != "uuid" else ()))
]
LOST: Mapping[tuple[str, str], str] = {
    ("timestamp", "month"): "it rounds months before 1970 up",
    ("timestamp", "day"): "it rounds days before 1970 up",
    ("uuid", "bucket[7]"): "it hashes UUIDs as it stores them",
}
"""Where DuckDB 1.5.5 does not find rows, and why."""


@functools.cache
def arrow(name: str) -> pa.Schema:
    type_ = COLUMNS[name][0]
    if isinstance(type_, UUIDType):
        return pa.schema([pa.field("c", pa.uuid())])
    return Schema(NestedField(1, "c", type_)).as_arrow()


def rows(name: str) -> pa.Table:
    values = COLUMNS[name][2]
    if name == "uuid":
        stored = pa.array([value.bytes for value in values], pa.binary(16))
        return pa.Table.from_arrays([pa.ExtensionArray.from_storage(pa.uuid(), stored)], ["c"])
    return pa.Table.from_pylist([{"c": value} for value in values], arrow(name))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Table]:
    folder = tmp_path_factory.mktemp("partitions")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace("default")
    found = {}
    for number, (name, transform) in enumerate(CASES):
        schema = Schema(NestedField(1, "c", COLUMNS[name][0]))
        spec = PartitionSpec(PartitionField(1, 1000, parse_transform(transform), "p"))
        table = catalog.create_table(f"default.t{number}", schema, partition_spec=spec)
        table.append(rows(name))
        found[name, transform] = table
    return found


@pytest.fixture(scope="module")
def by_duckdb(tables: Mapping[tuple[str, str], Table]) -> dict[tuple[str, str], list[int | None]]:
    """What DuckDB's extension counts for each value of each table."""
    duckdb = next(reader for reader in READERS if reader.name == "DuckDB").program
    assert isinstance(duckdb, Python)
    asked = [
        (table.metadata_location, [f"c = CAST('{v}' AS {COLUMNS[n][1]})" for v in COLUMNS[n][2]])
        for (n, _), table in tables.items()
    ]
    client: pathlib.Path = HERE / "clients" / "duckdb_filters.py"
    command = [str(interpreter(duckdb.packages)), str(client)]
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(tables, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize(("name", "transform"), CASES)
def test_pyiceberg_finds_every_row_by_its_value(
    tables: Mapping[tuple[str, str], Table], name: str, transform: str
) -> None:
    equal: Any = EqualTo
    for value in COLUMNS[name][2]:
        literal = value if not isinstance(value, dt.date) else value.isoformat()
        if name == "uuid":
            literal = str(value)
        scan = tables[name, transform].scan(row_filter=equal("c", literal))
        if name == "uuid":  # it plans the scan, but Arrow compares no UUIDs
            assert len(list(scan.plan_files())) == 1
        else:
            assert scan.to_arrow().num_rows == 1, value


@pytest.mark.one_in(prove=6)
@pytest.mark.parametrize(("name", "transform"), CASES)
def test_duckdb_finds_every_row_by_its_value_but_those_declared(
    by_duckdb: Mapping[tuple[str, str], list[int | None]], name: str, transform: str
) -> None:
    found = by_duckdb[name, transform]
    if (name, transform) in LOST:
        assert 0 in found, "it finds them now: remove the gap here and in docs/readers.md"
    else:
        assert found == [1] * len(found)


@pytest.mark.parametrize("transform", ["day", "identity", "bucket[7]"])
def test_pyiceberg_replaces_rows_when_it_upserts_into_a_partitioned_table(
    transform: str, tmp_path: pathlib.Path
) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("default")
    schema = Schema(NestedField(1, "k", StringType()), NestedField(2, "ts", TimestampType()))
    spec = PartitionSpec(PartitionField(2, 1000, parse_transform(transform), "p"))
    table = catalog.create_table("default.t", schema, partition_spec=spec)
    first, second = dt.datetime(2024, 1, 1, 10), dt.datetime(2024, 1, 2, 11)
    made = table.schema().as_arrow()
    table.append(pa.Table.from_pylist([{"k": k, "ts": first} for k in ("a", "b")], made))
    table.upsert(pa.Table.from_pylist([{"k": "a", "ts": second}], made), join_cols=["k"])
    found = {(row["k"], row["ts"]) for row in table.scan().to_arrow().to_pylist()}
    assert found == {("a", second), ("b", first)}
    assert table.scan().count() == 2
