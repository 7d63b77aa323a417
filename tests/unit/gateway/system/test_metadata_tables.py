"""Goal: metadata tables say what they say of any table, whoever wrote it and however it changed.

Method: tables with what random histories in `tests/property/test_metadata_tables.py` do not have,
as PyIceberg writes neither NaN nor dropped columns as partitions, and other writers' by hand.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import pathlib
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType
from support import offline
from support.gateway import Gateway
from support.handmade import File, Handmade, column, with_ids

from seamline.connectors.iceberg.bounds import decoded
from seamline.errors import NOT_SUPPORTED, SeamlineError
from seamline.gateway.names import METADATA_TABLES


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("lake")
    with contextlib.closing(Gateway(offline.config(folder))) as running:
        running.parts.connections.catalog("lake").pyiceberg.create_namespace("default")
        yield running


def register(gateway: Gateway, name: str, table: Handmade, *files: File) -> None:
    catalog = gateway.parts.connections.catalog("lake").pyiceberg
    catalog.register_table(("default", name), table.write(files))


def folder_of(gateway: Gateway) -> pathlib.Path:
    warehouse = gateway.config.catalogs["lake"].warehouse
    return pathlib.Path(warehouse.removeprefix("file://")) / "default" / uuid.uuid4().hex


def two_rows() -> pa.Table:
    return with_ids(pa.table({"id": pa.array([1, 2], pa.int64())}), {"id": 1})


def field(number: int, name: str, transform: str = "identity") -> dict[str, Any]:
    return {"source-id": 2, "field-id": number, "name": name, "transform": transform}


def test_names_and_parts_of_names(gateway: Gateway) -> None:
    gateway.rows("CREATE TABLE spelled AS SELECT 1 AS id")
    for variant in METADATA_TABLES:
        expected = gateway.rows(f'SELECT * FROM "spelled${variant}"')
        assert expected
        assert gateway.rows(f'SELECT * FROM LAKE."default"."SPELLED${variant.upper()}"') == expected
    found = gateway.rows(
        'SELECT file_count, data.id.max FROM "spelled$partitions" WHERE data.id.min = 1'
    )
    assert found == [(1, 1)]
    joined = gateway.rows(
        'SELECT h.is_current_ancestor, r.type FROM "spelled$history" h JOIN "spelled$refs" r'
        " ON h.snapshot_id = r.snapshot_id"
    )
    assert joined == [(True, "BRANCH")]


def test_columns_are_described(gateway: Gateway) -> None:
    gateway.rows("CREATE TABLE described AS SELECT 1 AS id, 'x' AS word")
    moment = ("made_current_at", "timestamp(3) with time zone", "", "")
    assert gateway.rows('DESCRIBE "described$history"')[0] == moment
    for variant in METADATA_TABLES:
        shown = gateway.rows(f'SHOW COLUMNS FROM "described${variant}"')
        statement = gateway.statement(f'SELECT * FROM "described${variant}"')
        assert [row[:2] for row in shown] == [(c.name, str(c.type)) for c in statement.output]
    statistics = 'row("min" {0}, "max" {0}, null_count bigint, nan_count bigint)'
    data = f"row(id {statistics.format('integer')}, word {statistics.format('varchar')})"
    found = {row[0]: row[1] for row in gateway.rows('DESCRIBE "described$partitions"')}
    assert {name: type_.replace('"', "") for name, type_ in found.items()} == {
        "record_count": "bigint",
        "file_count": "bigint",
        "total_size": "bigint",
        "data": data.replace('"', ""),
    }
    assert gateway.rows('DESCRIBE "described$cold"') == gateway.rows("DESCRIBE described")
    with pytest.raises(SeamlineError, match="not a table of a catalog"):
        gateway.rows('SHOW CREATE TABLE "described$files"')


def test_tables_without_snapshots(gateway: Gateway) -> None:
    schema = pa.schema([("id", pa.int64())])
    gateway.parts.connections.catalog("lake").pyiceberg.create_table(("default", "bare"), schema)
    counts = {
        variant: gateway.rows(f'SELECT count(*) FROM "bare${variant}"')[0][0]
        for variant in METADATA_TABLES
    }
    assert {variant for variant, count in counts.items() if count} == {"metadata_log_entries"}


def test_the_snapshot_is_that_of_the_statement(gateway: Gateway) -> None:
    gateway.rows("CREATE TABLE changed AS SELECT 1 AS id")
    ((first,),) = gateway.rows('SELECT snapshot_id FROM "changed$snapshots"')
    gateway.rows("INSERT INTO changed VALUES 5, 6")
    sums = 'SELECT sum(record_count), max(data.id.max) FROM "changed$partitions"'
    assert gateway.rows(sums) == [(3, 6)]
    assert gateway.rows(f"{sums} FOR VERSION AS OF {first}") == [(1, 1)]
    for variant in ("files", "manifests", "entries"):
        of_first = f'SELECT count(*) FROM "changed${variant}" FOR VERSION AS OF {first}'
        assert gateway.rows(of_first) == [(1,)]
        assert gateway.rows(f'SELECT count(*) FROM "changed${variant}"') == [(2,)]
    assert gateway.rows('SELECT count(*) FROM "changed$all_manifests"') == [(3,)]


def test_settings_of_clients_are_not_told(gateway: Gateway) -> None:
    schema = pa.schema([("id", pa.int64())])
    gateway.parts.connections.catalog("lake").pyiceberg.create_table(
        ("default", "secretive"), schema, properties={"s3.secret-access-key": "x", "owner": "me"}
    )
    assert ("owner", "me") in gateway.rows('SELECT * FROM "secretive$properties"')
    like = "SELECT count(*) FROM \"secretive$properties\" WHERE key LIKE 's3%' OR value = 'x'"
    assert gateway.rows(like) == [(0,)]


def test_partitions_of_nan(gateway: Gateway) -> None:
    columns = [column(1, "id", "long"), column(2, "p", "double")]
    table = Handmade(folder_of(gateway), [columns], specs=[[field(1000, "p")]])
    files = [File(two_rows(), partition={"p": p}) for p in (math.nan, -0.0, 0.0, None, math.nan)]
    register(gateway, "of_nan", table, *files)
    found = gateway.rows('SELECT partition.p, record_count, file_count FROM "of_nan$partitions"')
    assert sorted(map(repr, found)) == sorted(
        map(repr, [(math.nan, 4, 2), (-0.0, 2, 1), (0.0, 2, 1), (None, 2, 1)])
    )


def test_fields_of_several_specs_with_one_name(gateway: Gateway) -> None:
    columns = [column(1, "id", "long"), column(2, "p", "int")]
    specs = [[field(1000, "p", "bucket[2]")], [field(1001, "P")]]
    table = Handmade(folder_of(gateway), [columns], specs=specs)
    files = File(two_rows(), partition={"p": 1}), File(two_rows(), partition={"P": 9}, spec=1)
    register(gateway, "twice", table, *files)
    found = gateway.rows('SELECT partition.p_1000, partition.p FROM "twice$partitions"')
    assert sorted(found, key=repr) == [(1, None), (None, 9)]
    assert gateway.rows('SELECT data.id.min FROM "twice$partitions"') == [(None,), (None,)]
    with pytest.raises(SeamlineError):
        gateway.rows('SELECT data.p FROM "twice$partitions"')


def test_partitions_by_dropped_columns(gateway: Gateway) -> None:
    before = [column(1, "id", "long"), column(2, "p", "int")]
    table = Handmade(folder_of(gateway), [before, before[:1]], specs=[[field(1000, "p")], []])
    files = [File(two_rows(), partition={"p": p}) for p in (5, 6, 5)]
    register(gateway, "dropped", table, *files)
    found = gateway.rows('SELECT * FROM "dropped$partitions"')
    assert sorted(row[:2] for row in found) == [(2, 1), (4, 2)]
    for variant in ("manifests", "all_manifests", "entries"):
        assert gateway.rows(f'SELECT * FROM "dropped${variant}"')


def test_partitions_in_nanoseconds(gateway: Gateway) -> None:
    columns = [column(1, "id", "long"), column(2, "p", "timestamp_ns")]
    moment = 1_700_000_000_123_456_000
    for name, nanoseconds in (("whole", moment), ("finer", moment + 1)):
        table = Handmade(folder_of(gateway), [columns], 3, specs=[[field(1000, "p")]])
        register(gateway, name, table, File(two_rows(), partition={"p": nanoseconds}))
    at = datetime.datetime(2023, 11, 14, 22, 13, 20, 123456)
    assert gateway.rows('SELECT partition.p FROM "whole$partitions"') == [(at,)]
    with pytest.raises(SeamlineError) as caught:
        gateway.rows('SELECT * FROM "finer$partitions"')
    assert caught.value.code is NOT_SUPPORTED


def test_columns_that_cannot_be_read_have_no_statistics(gateway: Gateway) -> None:
    columns = [
        column(1, "id", "long"),
        *(column(2, "g", "geometry"), column(3, "v", "variant"), column(4, "u", "unknown")),
        *(column(5, "a", "long"), column(6, "A", "long"), column(7, "k", "uuid")),
    ]
    table = Handmade(folder_of(gateway), [columns], 3)
    register(gateway, "odd", table, File(two_rows()))
    ((data,),) = gateway.rows('SELECT data FROM "odd$partitions"')
    assert data.keys() == {"id", "k"}
    assert gateway.rows('SELECT count(*) FROM "odd$entries"') == [(1,)]


def test_bounds_of_columns_that_were_widened(gateway: Gateway) -> None:
    gateway.rows("CREATE TABLE wider (i integer, r real, k uuid)")
    gateway.rows("INSERT INTO wider VALUES (7, 0.5, uuid()), (-2, 2.5, uuid())")
    for name, type_ in (("i", "bigint"), ("r", "double")):
        gateway.rows(f"ALTER TABLE wider ALTER COLUMN {name} SET DATA TYPE {type_}")
    gateway.rows(f"INSERT INTO wider VALUES ({2**40}, 9e99, NULL)")
    found = gateway.rows(
        "SELECT data.i.min, data.i.max, data.r.min, data.r.max, data.k.min, data.k.null_count"
        ' FROM "wider$partitions"'
    )
    assert found == [(-2, 2**40, 0.5, 9e99, None, 1)]
    assert decoded(LongType(), b"\x01\x02") is None
