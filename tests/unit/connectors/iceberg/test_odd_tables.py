"""Goal: a table with something odd in it is read as far as it can be, and the rest is named.

Method: tables made by hand from the specification. No other table suffers from one that is odd.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import pathlib
import sqlite3
import uuid
from collections.abc import Iterator
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform
from support import offline
from support.gateway import Gateway
from support.handmade import EQUALITY, File, Handmade, column, with_ids
from support.one_table import answering

from seamline.connectors.config import CatalogConfig
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
from seamline.connectors.spark.maintenance import Compaction, Tasks, maintain
from seamline.errors import (
    COLUMN_AMBIGUOUS,
    NOT_SUPPORTED,
    TABLE_NOT_FOUND,
    ErrorCode,
    SeamlineError,
)
from seamline.seam.files import ScanRequest

MOMENT = datetime.datetime(2023, 11, 14, 22, 13, 20, 123456)
NANOSECONDS = 1_700_000_000_123_456_000
KEY = ("id", pa.array([1, 2], pa.int64()))


class Tables:
    """Odd tables, and a gateway over them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder / "warehouse" / "default"
        self._database = folder / "catalog.db"
        self.gateway = Gateway(offline.config(folder))
        self.catalog = self.gateway.parts.connections.catalog("lake").pyiceberg
        self.catalog.create_namespace("default")

    def add(self, name: str, table: Handmade, *files: File) -> None:
        """Makes a table and has the catalog know it."""
        self.catalog.register_table(("default", name), table.write(files))

    def replace(self, name: str, table: Handmade) -> None:
        """Has the catalog know another table under a name, without looking at it."""
        with contextlib.closing(sqlite3.connect(self._database)) as database, database:
            database.execute(
                "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?",
                (table.write(()), name),
            )

    def of(self, *columns: dict[str, Any], **more: Any) -> Handmade:
        """A table with a key and these columns."""
        key = column(1, "id", "long")
        return Handmade(self._folder / uuid.uuid4().hex, [[key, *columns]], **more)

    def rows(self, sql: str, engine: str = "duckdb") -> list[tuple[Any, ...]]:
        """What a statement answers."""
        return self.gateway.rows(sql, engine)

    def refused(self, sql: str) -> tuple[ErrorCode, str]:
        """What a statement is refused with."""
        with pytest.raises(SeamlineError) as caught:
            self.rows(sql)
        return caught.value.code, caught.value.message


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    made = Tables(tmp_path_factory.mktemp("odd"))
    fine = [column(2, "t", "timestamp_ns"), column(3, "z", "timestamptz_ns")]
    made.add("fits", made.of(*fine, version=3), File(moments(NANOSECONDS, None)))
    made.add("finer", made.of(*fine, version=3), File(moments(NANOSECONDS, NANOSECONDS + 1)))
    twins = [column(2, "a", "long"), column(3, "A", "string"), column(4, "b", "long")]
    values = [pa.array([5, 6]), pa.array(["x", "y"]), pa.array([7, 8])]
    made.add("twins", made.of(*twins), File(rows(*zip(("a", "A", "b"), values, strict=True))))
    inner = {"type": "struct", "fields": [column(3, "a", "long"), column(4, "A", "string")]}
    made.add("twofold", made.of(column(2, "r", inner)), File(rows()))
    made.add("variant", made.of(column(2, "v", "variant"), version=3), File(rows()))
    made.add("never", made.of(column(2, "u", "unknown"), version=3), File(rows()))
    made.add("place", made.of(column(2, "g", "geometry"), version=3), File(rows()))
    texts = pa.array(["é\\x41", None])
    swapped = ("s", texts.cast(pa.binary())), ("b", texts)
    made.add(
        "swapped", made.of(column(2, "s", "string"), column(3, "b", "binary")), File(rows(*swapped))
    )
    variants = {"type": "list", "element-id": 3, "element": "variant", "element-required": False}
    made.add("unknown_type", made.of())
    made.replace("unknown_type", made.of(column(2, "l", variants), version=3))
    made.add("listing", made.of(version=1, embedded=True), File(rows()), File(rows(), snapshot=2))
    keys = pa.array([bytes(16), bytes([1]) * 16], pa.binary(16))
    made.add(
        "by_uuid",
        made.of(column(2, "u", "uuid")),
        File(rows(("u", keys))),
        File(rows(("u", keys)).select(["u"])[:1], EQUALITY, equality_ids=(2,), snapshot=2),
    )
    yield made
    made.gateway.close()


def rows(*columns: tuple[str, pa.Array]) -> pa.Table:
    """Two rows; ids of columns are their places."""
    named = dict((KEY, *columns))
    ids = {name: place for place, name in enumerate(named, 1)}
    return with_ids(pa.Table.from_arrays(list(named.values()), list(named)), ids)


def moments(*nanoseconds: int | None) -> pa.Table:
    return rows(
        ("t", pa.array(nanoseconds, pa.timestamp("ns"))),
        ("z", pa.array(nanoseconds, pa.timestamp("ns", "UTC"))),
    )


def test_nanoseconds_that_are_microseconds(tables: Tables) -> None:
    zoned = MOMENT.replace(tzinfo=datetime.UTC)
    assert tables.rows("SELECT * FROM fits ORDER BY id") == [(1, MOMENT, zoned), (2, None, None)]
    at = "2023-11-14 22:13:20.123456"
    for condition in (f"t = TIMESTAMP '{at}'", f"z = TIMESTAMP '{at} UTC'"):
        assert tables.rows(f"SELECT id FROM fits WHERE {condition}") == [(1,)]


def test_nanoseconds_are_never_cut(tables: Tables) -> None:
    assert tables.rows("SELECT id FROM finer ORDER BY id") == [(1,), (2,)]
    code, message = tables.refused("SELECT id, t FROM finer")
    assert code is NOT_SUPPORTED
    assert "more than 6 digits of a second" in message
    code, message = tables.refused("SELECT max(z) FROM finer")
    assert code is NOT_SUPPORTED
    assert "instants in nanoseconds in the column z" in message


def test_columns_that_differ_in_case_only(tables: Tables) -> None:
    assert tables.rows("SELECT id, b FROM twins ORDER BY id") == [(1, 7), (2, 8)]
    assert tables.rows("SELECT t.id FROM twins t JOIN twofold i ON i.id = t.id WHERE b = 7") == [
        (1,)
    ]
    for sql in ("*", "a", '"A"', "twins.a"):
        code, message = tables.refused(f"SELECT {sql} FROM twins")
        assert code is COLUMN_AMBIGUOUS
        assert "'a' and 'A' differ only in case" in message
    assert tables.rows("SELECT id FROM twofold ORDER BY id") == [(1,), (2,)]
    code, message = tables.refused('SELECT r."A" FROM twofold')
    assert code is NOT_SUPPORTED
    assert "whose fields differ only in case" in message


def test_types_that_duckdb_lacks(tables: Tables) -> None:
    for name in ("variant", "place"):
        assert tables.rows(f"SELECT id FROM {name} ORDER BY id") == [(1,), (2,)]
    assert "of type variant" in tables.refused("SELECT v FROM variant")[1]
    assert "has the type geometry" in tables.refused("SELECT * FROM place")[1]
    assert tables.rows("DESCRIBE variant")[1][:2] == ("v", "json")


def test_why_variants_are_left_to_spark(tmp_path: pathlib.Path) -> None:
    """Gaps of DuckDB and PyArrow that docs/tables.md and docs/sql.md name, until this fails."""
    stored, copied = str(tmp_path / "duckdb.parquet"), str(tmp_path / "pyarrow.parquet")

    def write(value: str) -> list[tuple[Any, ...]]:
        with duckdb.connect() as connection:
            connection.execute(f"COPY (SELECT {value}::JSON::VARIANT AS v) TO '{stored}'")
            sql = f"SELECT v IS NULL, CAST(v::JSON AS VARCHAR) FROM '{stored}'"
            rows: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
            return rows

    assert write("'null'") == write("NULL") == [(True, "null")]
    assert write("'0.12345678901234567890'") == [(False, "0.12345678901234568")]
    with pytest.raises(duckdb.InvalidInputException, match="out of range"):
        write("'9223372036854775808'")
    write("'1'")
    assert "(Variant" in str(parquet.ParquetFile(stored).schema)
    parquet.write_table(parquet.read_table(stored), copied)
    assert "(Variant" not in str(parquet.ParquetFile(copied).schema)


def test_columns_of_no_type_are_null(tables: Tables) -> None:
    assert tables.rows("SELECT id, u, coalesce(u, 5) FROM never ORDER BY id") == [
        (1, None, 5),
        (2, None, 5),
    ]


def test_snapshots_without_manifest_lists(tables: Tables) -> None:
    assert tables.rows("SELECT count(*), sum(id) FROM listing") == [(4, 6)]
    first = tables.rows('SELECT min(snapshot_id) FROM "listing$snapshots"')[0][0]
    assert tables.rows(f"SELECT count(*) FROM listing FOR VERSION AS OF {first}") == [(2,)]
    table = tables.catalog.load_table(("default", "listing"))
    with pytest.raises(SeamlineError, match="no manifest list") as caught, table.transaction() as t:
        t.set_properties(a="b")
    assert caught.value.code is NOT_SUPPORTED
    assert tables.rows("SELECT count(*) FROM listing") == [(4,)]


@pytest.mark.parametrize(
    ("columns", "more"),
    [
        ([column(2, "v", "variant")], {"version": 3}),
        ([], {"version": 1, "embedded": True}),
        (
            [
                column(
                    2, "t", "timestamp_ns", **{"initial-default": "2024-01-01T00:00:00.000001000"}
                )
            ],
            {"version": 3},
        ),
    ],
    ids=["variant", "no manifest list", "a default in nanoseconds"],
)
def test_odd_tables_of_a_rest_catalog(
    tmp_path: pathlib.Path, columns: list[dict[str, Any]], more: dict[str, Any]
) -> None:
    schema = [column(1, "id", "long"), *columns]
    made = Handmade(tmp_path / "t", [schema], **more).write([File(rows())])
    metadata = json.loads(pathlib.Path(made.removeprefix("file://")).read_text())
    with answering({"metadata-location": made, "metadata": metadata, "config": {}}) as url:
        places = (tmp_path.as_uri(),)
        config = CatalogConfig(name="lake", type="rest", uri=url, locations=places)
        table = IcebergCatalog(config).load(("default", "t"))
    wanted = ScanRequest(table.state.current_schema_id, ("id",))
    plan = table.inspect(table.plan(table.state.current_snapshot_id, wanted))
    assert [file.record_count for file in plan.files] == [2]
    assert plan.unsupported is None


def test_no_other_table_suffers(tables: Tables) -> None:
    listed = dict(tables.rows("SELECT table_name, error FROM information_schema.tables"))
    assert [name for name, error in listed.items() if error] == ["unknown_type"]
    assert "variant" in listed["unknown_type"]
    assert len(tables.rows("SHOW TABLES")) == len(listed) == 11
    code, message = tables.refused("SELECT id FROM unknown_type")
    assert code is NOT_SUPPORTED
    assert "lake.default.unknown_type" in message
    assert tables.refused("SELECT id FROM no_such_table")[0] is TABLE_NOT_FOUND


def test_text_is_text_whether_its_writer_said_so_or_not(tables: Tables) -> None:
    """Neither is a backslash in it the beginning of anything."""
    found = tables.rows("SELECT s, b, s = 'é\\x41' FROM swapped ORDER BY id")
    assert found == [("é\\x41", "é\\x41".encode(), True), (None, None, None)]


def test_deletes_that_spark_overlooks(tables: Tables) -> None:
    """Nor does Spark merge the files: the deleted rows would be back."""
    assert tables.rows("SELECT id FROM by_uuid") == [(2,)]
    with pytest.raises(SeamlineError, match="type uuid") as caught:
        tables.rows("SELECT id FROM by_uuid", "spark")
    assert caught.value.code is NOT_SUPPORTED
    lake = tables.gateway.parts.connections.catalog("lake")
    with pytest.raises(SeamlineError, match="would come back") as caught:
        maintain(None, lake, ("default", "by_uuid"), Tasks(Compaction()), report=print)
    assert caught.value.code is NOT_SUPPORTED


@pytest.mark.parametrize("tasks", [Tasks(expire_after_s=0.0), Tasks(orphan_after_s=1e9)], ids=str)
def test_files_that_others_may_use_are_not_removed(tables: Tables, tasks: Tasks) -> None:
    name = f"shared_{tasks.orphan_after_s is None}".lower()
    shared = {"gc.enabled": "False"}
    tables.catalog.create_table(
        ("default", name), pa.schema([("n", pa.int64())]), properties=shared
    )
    lake = tables.gateway.parts.connections.catalog("lake")
    with pytest.raises(SeamlineError, match=r"gc\.enabled is false") as caught:
        maintain(None, lake, ("default", name), tasks, report=print)
    assert caught.value.code is NOT_SUPPORTED


@pytest.mark.parametrize("transform", [IdentityTransform(), BucketTransform(4)], ids=str)
@pytest.mark.parametrize("missing", [("lower_bound", "upper_bound"), ("upper_bound",)])
def test_manifest_lists_without_bounds(
    tables: Tables, transform: Transform[Any, Any], missing: tuple[str, ...]
) -> None:
    """As ClickHouse writes them for partitions that are numbers."""
    name = f"unbounded_{len(missing)}_{type(transform).__name__.lower()}"
    table = tables.catalog.create_table(("default", name), pa.schema([("n", pa.int64())]))
    with table.update_spec() as update:
        update.add_field("n", transform, "p")
    table.append(pa.table({"n": pa.array([*range(6), None], pa.int64())}))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifest_list = pathlib.Path(snapshot.manifest_list.removeprefix("file://"))
    with manifest_list.open("rb") as stream:
        reader = fastavro.reader(stream)
        schema, told = reader.writer_schema, reader.metadata
        found: list[Any] = list(reader)
    assert schema is not None
    for manifest in found:
        for summary in manifest["partitions"]:
            summary |= {"contains_null": False, **dict.fromkeys(missing)}
    kept = {key: value for key, value in told.items() if not key.startswith("avro.")}
    with manifest_list.open("wb") as stream:
        fastavro.writer(stream, schema, found, metadata=kept)
    for i in range(6):
        assert tables.rows(f"SELECT n FROM {name} WHERE n = {i}") == [(i,)]
    assert tables.rows(f"SELECT count(*) FROM {name} WHERE n > 2") == [(3,)]
    assert tables.rows(f"SELECT count(*) FROM {name} WHERE n IS NULL") == [(1,)]
    loaded = tables.gateway.parts.connections.catalog("lake").load(("default", name))
    with pytest.raises(SeamlineError, match="leaves out the bounds") as caught:
        loaded.require_fit_for_spark(snapshot.snapshot_id)
    assert caught.value.code is NOT_SUPPORTED
