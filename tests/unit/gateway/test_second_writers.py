"""Goal: records of the topic that another writer adds are told apart from rows of their own.

Method: a table that Seamline fills, over a log in memory, to which PyIceberg adds one or the other
in every way in which manifests say little: without counts and bounds, in wide tables, in manifests
that hold older files too, in commits that are no appends, in Avro and in ORC.
"""

from __future__ import annotations

import dataclasses
import io
import pathlib
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table import Table
from support.adopting import NAMESPACE, NEVER, TOPIC, Shop
from support.gateway import Gateway

from seamline.connectors.iceberg.boundaries.column_integers import column_values, has_value
from seamline.errors import (
    COLD_FILE_INVALID,
    NOT_SUPPORTED,
    SECOND_WRITER,
    STORAGE_UNAVAILABLE,
    SeamlineError,
)
from seamline.gateway.commands import tables
from seamline.seam.boundary import SUMMARY_KEY, boundary_of, encode

pytestmark = pytest.mark.filterwarnings("ignore:(No preferred|Delete operation):UserWarning")

SQL = f"SELECT id, item, price FROM lake.{NAMESPACE}.{TOPIC} ORDER BY id"
OWN = {"id": 77, "item": "own", "price": 0.0}


@pytest.fixture
def gateway(shop: Shop) -> Iterator[Gateway]:
    running = shop.gateway()
    yield running
    running.close()


def fill(shop: Shop, more: str = "") -> None:
    """Makes the table, with the first record of the log in it as the pipeline writes it."""
    catalog = shop.connections.catalog("lake").pyiceberg
    catalog.create_namespace_if_not_exists(NAMESPACE)
    columns = tables.parse_fields(f"id bigint, item varchar, price double{more}")
    definition = tables.TableDefinition("default", TOPIC, name=shop.name, columns=columns)
    tables.create(shop.connections, definition, NEVER)
    shop.produce(10)
    before = boundary_of(shop.state, shop.state.current_snapshot_id)
    boundary = dataclasses.replace(
        before, next=before.next.raised({0: 1}), base_id=shop.state.current_snapshot_id
    )
    shop.table.append(rows(shop.table, record(shop)), {SUMMARY_KEY: encode(boundary)})


def record(shop: Shop) -> dict[str, Any]:
    """The first record as a row that says so."""
    return {**shop.records[0, 0], "_kafka_partition": 0, "_kafka_offset": 0}


def rows(table: Table, *values: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(values), schema=table.scan().to_arrow().schema)


WIDE = "".join(f", c{i} integer" for i in range(120))
PROPERTIES = {
    "plain": {},
    "no metrics": {"write.metadata.metrics.default": "none"},
    "counts": {"write.metadata.metrics.default": "counts"},
    "no metrics of offsets": {"write.metadata.metrics.column._kafka_offset": "none"},
    "merged manifests": {
        "commit.manifest-merge.enabled": "true",
        "commit.manifest.min-count-to-merge": "1",
    },
}
CASES = [*((how, "") for how in PROPERTIES), ("plain", WIDE), ("merged manifests", WIDE)]


@pytest.mark.one_in(test=4)
@pytest.mark.parametrize(("how", "more"), CASES, ids=[f"{h} {len(m)}" for h, m in CASES])
@pytest.mark.parametrize("commit", ["append", "overwrite"])
def test_records_are_found_and_own_rows_are_none(
    shop: Shop, gateway: Gateway, how: str, more: str, commit: str
) -> None:
    fill(shop, more)
    with shop.table.transaction() as transaction:
        transaction.set_properties(PROPERTIES[how])

    def add(row: dict[str, Any]) -> None:
        table = shop.table
        if commit == "append":
            table.append(rows(table, row))
        else:
            table.overwrite(rows(table, row), "id = -1")  # of which there are none

    add(OWN)
    assert gateway.rows(SQL, "duckdb") == sorted([*shop.rows, tuple(OWN.values())])
    add(record(shop))
    with pytest.raises(SeamlineError) as caught:
        gateway.rows(SQL, "duckdb")
    assert caught.value.code is SECOND_WRITER


# --- Files ---------------------------------------------------------------------------------------

OFFSET, INNER = 7, 9
VALUES: dict[str, list[int | None]] = {"null": [None, None], "some": [None, 5], "all": [1 << 40, 5]}


def avro(values: list[int | None]) -> bytes:
    inner = {
        "type": "record",
        "name": "r9",
        "fields": [{"name": "x", "type": ["null", "long"], "field-id": INNER}],
    }
    fields = [
        {"name": "s", "type": "string", "field-id": 1},
        {"name": "o", "type": ["null", "long"], "field-id": OFFSET},
        {"name": "r", "type": ["null", inner], "field-id": 8},
    ]
    stream = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "table", "fields": fields})
    given = [{"s": "a", "o": v, "r": None if v is None else {"x": v}} for v in values]
    fastavro.writer(stream, schema, given)
    return stream.getvalue()


def arrow(values: list[int | None], key: str) -> pa.Table:
    def field(name: str, type_: pa.DataType, id_: int) -> pa.Field:
        return pa.field(name, type_, metadata={key: str(id_)})

    inner = pa.struct([field("x", pa.int64(), INNER)])
    fields = [field("s", pa.string(), 1), field("o", pa.int64(), OFFSET), field("r", inner, 8)]
    given = [{"s": "a", "o": v, "r": None if v is None else {"x": v}} for v in values]
    return pa.Table.from_pylist(given, schema=pa.schema(fields))


def orc_bytes(values: list[int | None]) -> bytes:
    stream = io.BytesIO()
    orc.write_table(arrow(values, "iceberg.id"), stream)
    return stream.getvalue()


def parquet_bytes(values: list[int | None]) -> bytes:
    stream = io.BytesIO()
    pa.parquet.write_table(arrow(values, "PARQUET:field_id"), stream)
    return stream.getvalue()


FORMATS = {
    FileFormat.AVRO: avro,
    FileFormat.ORC: orc_bytes,
    FileFormat.PARQUET: parquet_bytes,
}


def a_file(path: pathlib.Path, format_: FileFormat, count: int) -> DataFile:
    return DataFile.from_args(
        file_path=f"file://{path}", file_format=format_, record_count=count, file_size_in_bytes=1
    )


@pytest.mark.parametrize("format_", FORMATS, ids=str)
@pytest.mark.parametrize("given", VALUES)
def test_values_are_read_from_every_format(
    shop: Shop, tmp_path: pathlib.Path, format_: FileFormat, given: str
) -> None:
    fill(shop)
    values = VALUES[given]
    path = tmp_path / "file"
    path.write_bytes(FORMATS[format_](values))
    file, io_ = a_file(path, format_, len(values)), shop.table.io
    found = column_values(io_, file, {"o": OFFSET, "x": INNER, "none": 99}, None)
    assert found.to_pydict() == {"o": values, "x": values, "none": [None, None]}
    for column, is_there in ((OFFSET, given != "null"), (INNER, given != "null"), (99, False)):
        assert has_value(io_, file, column, None) == is_there


def test_what_cannot_be_read_is_said(shop: Shop, tmp_path: pathlib.Path) -> None:
    fill(shop)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SeamlineError) as caught:
        has_value(shop.table.io, a_file(tmp_path / "file", FileFormat.PUFFIN, 2), OFFSET, None)
    assert caught.value.code is NOT_SUPPORTED
    for format_ in FORMATS:
        with pytest.raises(SeamlineError) as caught:
            has_value(shop.table.io, a_file(tmp_path / "file", format_, 2), OFFSET, None)
        assert caught.value.code in (COLD_FILE_INVALID, STORAGE_UNAVAILABLE), format_
