"""Goal: of what a table's metadata names, only what is under the table's own location is opened.

Method: every kind of file that metadata can name (metadata, lists of manifests, manifests, data,
positions of deleted rows, deletion vectors, statistics) is moved out of its table, and the table's
metadata rewritten to name it there, as somebody else could write it. The table is then read by
every road: each must refuse it by name, and the file must be what it was. What honest tables need
is allowed by the configuration, and read. Spellings that may lead out of a table are made up.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import typing
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.io import SCHEMA_TO_FILE_IO
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Table as PyTable
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, ListType, StringType, StructType
from support import offline
from support.gateway import Gateway
from support.stack import Stack

from seamline.connectors.config import CatalogConfig, ClusterConfig
from seamline.connectors.iceberg import manifests
from seamline.connectors.iceberg.pyiceberg_internals import ManifestWriter
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
from seamline.connectors.kafka.cluster import Cluster
from seamline.connectors.kafka.log import KafkaLog
from seamline.connectors.places import SCHEMES, STORES, CatalogPlaces, TablePlaces
from seamline.connectors.spark.maintenance import Compaction, Tasks, maintain
from seamline.connectors.spark.splits import Options, Table
from seamline.connectors.spark.tiering import SparkTierTable
from seamline.errors import SeamlineError
from seamline.gateway.access.rights import Principal
from seamline.seam.seam import ColdPart, Seam

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})
SECRET = b"what the gateway may read, and its users may not"


# --- What a location leads to --------------------------------------------------------------------

OUTSIDE = (
    "s3://lake/other/x", "s3://lake/tab/x", "s3://lake/table2/x", "s3://lake/table",
    "s3://lake/table/", "s3://lake/table/../other/x", "s3://lake/table/%2e%2e/other/x",
    "s3://lake/table/%2E./x", "s3://lake/table/%252e%252e/x", "s3://other/table/x",
    "s3://lake@other/table/x", "S3://LAKE/table/x", "s3://lake//table/x", "s3:/lake/table/x",
    "s3:lake/table/x", "gs://lake/table/x", "/lake/table/x", "file:///lake/table/x",
    "https://lake/table/x", "s3://lake/table/\x00x", "s3://lake/table/a\nb", "", "lake/table/x",
    "table/x", "//lake/table/x", "s3://", "s3", "://lake/table/x", "s3://lake/table/x?y", "s3://lake/table/x#y",
    "s3://lake?/table/x", "s3://lake/other#/../table/x", "s3://lake/table/a/../x",
)  # fmt: skip
INSIDE = (
    "s3://lake/table/x", "s3a://lake/table/data/a.parquet", "s3n://lake/table/x", "S3://lake/table/x",
    "s3://lake/table//x", "s3://lake/table/a=b%2Fc/..x", "s3://lake/table/%2e/x", "s3://lake/table/.../x",
)  # fmt: skip


@pytest.mark.parametrize("location", OUTSIDE)
def test_a_location_that_leads_elsewhere_is_seen(location: str) -> None:
    places = TablePlaces.of("t", "s3://lake/table/", ())
    with pytest.raises(SeamlineError) as caught:
        places.require([location])
    assert caught.value.code.name == "LOCATION_NOT_ALLOWED"
    assert "data_locations" in caught.value.hint


@pytest.mark.parametrize("location", INSIDE)
def test_a_location_inside_is_seen(location: str) -> None:
    TablePlaces.of("t", "s3a://lake/table", ()).require([location])


def test_files_of_this_machine_are_followed_to_where_they_lie(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t" / "data").mkdir(parents=True)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "f").touch()
    (tmp_path / "t" / "data" / "own").touch()
    (tmp_path / "t" / "data" / "link").symlink_to(tmp_path / "else" / "f")
    (tmp_path / "t" / "folder").symlink_to(tmp_path / "else")
    (tmp_path / "t" / "inside").symlink_to(tmp_path / "t" / "data")
    (tmp_path / "alias").symlink_to(tmp_path / "t")
    places = TablePlaces.of("t", (tmp_path / "t").as_uri(), ())
    for inside in (
        f"{tmp_path}/t/data/own", f"file://{tmp_path}/t/data/own", f"file:{tmp_path}/t/data/own",
        f"FILE://{tmp_path}/t/data/own", f"file://localhost{tmp_path}/t/data/own",
        f"file:////{tmp_path}//t//data/own", f"file://{tmp_path}/t/inside/own",
        f"{tmp_path}/alias/data/own", f"{tmp_path}/t/./data/own", f"{tmp_path}/t/data/none",
    ):  # fmt: skip
        places.require([inside])
    for outside in (
        f"{tmp_path}/t/data/link", f"{tmp_path}/t/folder/f", f"{tmp_path}/else/f",
        f"file://{tmp_path}/t/../else/f", f"file://{tmp_path}/t/data/%2e%2e/x", f"{tmp_path}/t",
        f"file://{tmp_path}/t/data/..", f"file://elsewhere{tmp_path}/t/data/own",
        f"file:{tmp_path}/t2/x", "file:t/data/own", "t/data/own", f"s3://{tmp_path}/t/data/own",
        f"{tmp_path}/t/data/../data/own", f"file://{tmp_path}/else/f?/../../t/data/own",
        f"file://{tmp_path}/t/data/own?x", f"file://{tmp_path}/t/data/own#x",
        f"file:///{tmp_path.name}", "/etc/passwd", "file:///etc/passwd", "file:////etc/passwd",
    ):  # fmt: skip
        with pytest.raises(SeamlineError) as caught:
            places.require([outside])
        assert caught.value.code.name == "LOCATION_NOT_ALLOWED", outside


PARTS = st.sampled_from(
    ["", ".", "..", "%2e%2e", "%2E%2e", "%252e%252E", "a", "t", "t2", "data", "…", "?", "a#", "\\"]
)


@given(st.lists(PARTS, max_size=6), st.sampled_from(["s3://b/t", "s3a://b/t/", "S3://b/t"]))
@example(["..", "t2"], "s3://b/t")
def test_no_spelling_leads_out_of_a_table(parts: list[str], root: str) -> None:
    """However a store reads a location (as it is, decoded, with dots and slashes resolved)."""
    location = "/".join((root, *parts))
    try:
        TablePlaces.of("t", "s3://b/t", ()).require([location])
    except SeamlineError:
        return
    read = location.split("://b", 1)[1]
    for _ in range(4):
        for seen in (read, os.path.normpath(read)):
            assert f"{seen}/".startswith("/t/"), (location, seen)
        read = read.replace("%2e", ".").replace("%2E", ".").replace("%25", "%")


def test_where_tables_may_lie() -> None:
    def allows(location: str, warehouse: str = "", *further: str) -> bool:
        try:
            CatalogPlaces.of("lake", warehouse, further, ()).of_table("lake.t", location)
        except SeamlineError as error:
            assert error.code.name == "LOCATION_NOT_ALLOWED"
            assert "locations" in error.hint
            return False
        return True

    assert allows("s3://lake/db/t", "s3://lake")
    assert allows("s3a://lake/db/t", "s3://lake/")
    assert allows("s3://lake//db/t", "s3://lake/")
    assert not allows("s3://other/db/t", "s3://lake")
    assert allows("s3://other/db/t", "s3://lake", "s3://other/db")
    assert allows("s3://other/db/t", "s3://lake", "s3://other/db/t")
    assert not allows("s3://lake", "s3://lake"), "a table that is the warehouse has all its tables"
    assert not allows("s3://lake/wh/", "s3://lake/wh")
    assert not allows("file:///etc", "s3://lake")
    assert not allows("/etc", "file:///srv/warehouse")
    assert allows("/srv/warehouse/db/t", "file:///srv/warehouse")
    names = ("prod", "arn:aws:s3tables:eu:1:bucket/b", "bl://projects/p/catalogs/c", "")
    for named in names:  # no place: the catalog knows
        assert allows("s3://bucket/db/t", named)
        assert allows("gs://bucket/db/t", named)
        assert not allows("file:///etc", named)
        assert not allows("/etc", named)
        assert not allows("abfss://c@evil.example/t", named), "the location names whom to ask"
        assert not allows("http://evil.example/t", named)
        assert not allows("s3://bucket/db/t", named, "s3://elsewhere")
        assert allows("abfss://c@host/t", named, "abfs://c@host/")


def test_stores_are_those_that_pyiceberg_opens() -> None:
    assert {SCHEMES.get(scheme, scheme) for scheme in SCHEMA_TO_FILE_IO} == STORES


# --- Tables that name files of others ------------------------------------------------------------


class Victim:
    """A table, and what somebody makes of its metadata."""

    def __init__(self, folder: pathlib.Path, lake: CatalogConfig, name: str) -> None:
        self.folder = folder
        self.lake = lake
        self.name = f"default.{name}"
        self.own = SqlCatalog("lake", uri=lake.uri, warehouse=lake.warehouse)
        self.outside = folder / "outside"
        self.outside.mkdir()

    @property
    def table(self) -> PyTable:
        """The table as another library reads it."""
        return self.own.load_table(self.name)

    def path(self, location: str) -> pathlib.Path:
        return pathlib.Path(location.removeprefix("file://"))

    def taken_out(self, location: str) -> str:
        """A copy of a file outside the table."""
        copy = self.outside / self.path(location).name
        shutil.copy(self.path(location), copy)
        return copy.as_uri()

    def change(self, change: Callable[[Any], None]) -> None:
        """Rewrites the metadata in place."""
        path = self.path(self.table.metadata_location)
        body = json.loads(path.read_text())
        change(body)
        path.write_text(json.dumps(body))

    def new_list(self, entries: Sequence[ManifestFile]) -> str:
        """A list of manifests in the table's own folder, and the head's from now on."""
        head = self.table.current_snapshot()
        assert head is not None
        location = f"{self.table.location()}/metadata/forged-{uuid.uuid4()}.avro"
        content = manifests.ManifestList(
            head.snapshot_id, head.parent_snapshot_id or 0, 3, 2, tuple(entries)
        )
        manifests.write_list(self.table.io, location, content)
        return location

    def set_list(self, location: str) -> None:
        """Makes it the head's list of manifests."""
        self.change(lambda body: body["snapshots"][-1].update({"manifest-list": location}))

    def entries(self) -> list[ManifestFile]:
        head = self.table.current_snapshot()
        assert head is not None
        return list(manifests.read_list(self.table.io, head.manifest_list))

    def manifest(
        self,
        files: Sequence[DataFile],
        *,
        deletes: bool = False,
        status: ManifestEntryStatus = ManifestEntryStatus.ADDED,
    ) -> ManifestFile:
        """A manifest of files, in the table's own folder."""
        location = f"{self.table.location()}/metadata/forged-{uuid.uuid4()}.avro"
        table = self.table
        content = ManifestContent.DELETES if deletes else ManifestContent.DATA
        sequence_number = None if status is ManifestEntryStatus.ADDED else 1
        with ManifestWriter(table.spec(), table.schema(), table.io, location, 2, content) as target:
            for file in files:
                target.add_entry(
                    ManifestEntry.from_args(
                        status=status, snapshot_id=None, sequence_number=sequence_number,
                        file_sequence_number=sequence_number, data_file=file,
                    )
                )  # fmt: skip
        made = target.to_manifest_file()
        values = [made[position] for position in range(15)]
        names = [field.name for field in MANIFEST_LIST_FILE_SCHEMAS[3].fields][:15]
        body = dict(zip(names, values, strict=True))
        head = self.table.current_snapshot()
        assert head is not None
        body |= {
            "manifest_length": len(table.io.new_input(location)), "sequence_number": 3,
            "min_sequence_number": 3, "added_snapshot_id": head.snapshot_id,
        }  # fmt: skip
        return ManifestFile.from_args(_table_format_version=3, **body)

    def data_files(self) -> list[DataFile]:
        return [
            entry.data_file
            for manifest in self.entries()
            for entry in manifest.fetch_manifest_entry(self.table.io)
        ]


def moved(file: DataFile, location: str) -> DataFile:
    file[1] = location  # the schema's field file_path
    assert file.file_path == location
    return file


def delete_file(
    location: str,
    form: FileFormat,
    referenced: str,
    content: DataFileContent = DataFileContent.POSITION_DELETES,
) -> DataFile:
    return DataFile.from_args(
        _table_format_version=3, content=content, file_path=location,
        file_format=form, partition=Record(), record_count=1, file_size_in_bytes=100,
        column_sizes={}, value_counts={}, null_value_counts={}, nan_value_counts={},
        lower_bounds={2147483546: referenced.encode()},
        upper_bounds={2147483546: referenced.encode()}, key_metadata=None,
        split_offsets=None,
        equality_ids=[1] if content is DataFileContent.EQUALITY_DELETES else None,
        sort_order_id=None,
        referenced_data_file=referenced if form is FileFormat.PUFFIN else None,
        content_offset=4 if form is FileFormat.PUFFIN else None,
        content_size_in_bytes=40 if form is FileFormat.PUFFIN else None,
    )  # fmt: skip


def of_data(victim: Victim) -> None:
    """A data file of somebody else's."""
    files = victim.data_files()
    files[0] = moved(files[0], victim.taken_out(files[0].file_path))
    victim.set_list(victim.new_list([victim.manifest(files)]))


def of_data_by_a_link(victim: Victim) -> None:
    """A file in the table's own folder, which is a link to one outside."""
    path = victim.path(victim.data_files()[0].file_path)
    copy = victim.outside / path.name
    shutil.move(path, copy)
    path.symlink_to(copy)


def of_manifests(victim: Victim) -> None:
    """A manifest outside."""
    entries = victim.entries()
    names = [field.name for field in MANIFEST_LIST_FILE_SCHEMAS[3].fields]
    values = {name: entries[0][position] for position, name in enumerate(names)}
    values["manifest_path"] = victim.taken_out(entries[0].manifest_path)
    forged = ManifestFile.from_args(_table_format_version=3, **values)
    victim.set_list(victim.new_list([forged, *entries[1:]]))


def of_lists(victim: Victim) -> None:
    """A list of manifests outside."""
    head = victim.table.current_snapshot()
    assert head is not None
    victim.set_list(victim.taken_out(head.manifest_list))


def of_metadata(victim: Victim) -> None:
    """The metadata itself outside, as the catalog says."""
    location = victim.taken_out(victim.table.metadata_location)
    change = f"UPDATE iceberg_tables SET metadata_location = '{location}' WHERE table_name = 't'"
    with victim.own.engine.begin() as connection:
        connection.exec_driver_sql(change)


def of_position_deletes(victim: Victim) -> None:
    """A file of deleted positions outside."""
    data = victim.data_files()[0].file_path
    path = victim.outside / "deletes.parquet"
    pq.write_table(pa.table({"file_path": [data], "pos": pa.array([0], pa.int64())}), path)
    manifest = victim.manifest([delete_file(path.as_uri(), FileFormat.PARQUET, data)], deletes=True)
    victim.set_list(victim.new_list([*victim.entries(), manifest]))


def of_equality_deletes(victim: Victim) -> None:
    """A file of deleted values outside."""
    data = victim.data_files()[0].file_path
    path = victim.outside / "deletes.parquet"
    pq.write_table(ROWS.slice(0, 1), path)
    file = delete_file(path.as_uri(), FileFormat.PARQUET, data, DataFileContent.EQUALITY_DELETES)
    victim.set_list(victim.new_list([*victim.entries(), victim.manifest([file], deletes=True)]))


def of_deletion_vectors(victim: Victim) -> None:
    """A deletion vector outside."""
    data = victim.data_files()[0].file_path
    path = victim.outside / "deletes.puffin"
    path.write_bytes(b"PFA1" + SECRET * 4)
    manifest = victim.manifest([delete_file(path.as_uri(), FileFormat.PUFFIN, data)], deletes=True)
    victim.set_list(victim.new_list([*victim.entries(), manifest]))


def of_old_metadata(victim: Victim) -> None:
    """The oldest metadata in the log, which a commit deletes once there is too much of it."""
    target = victim.taken_out(victim.table.metadata_location)
    victim.change(lambda body: body["metadata-log"][0].update({"metadata-file": target}))


def of_statistics(victim: Victim, kind: str = "statistics") -> None:
    """Statistics, which an expiry deletes with their snapshot."""
    path = victim.outside / "statistics.puffin"
    path.write_bytes(SECRET)

    def change(body: Any) -> None:
        body[kind] = [
            {
                "snapshot-id": body["snapshots"][0]["snapshot-id"],
                "statistics-path": path.as_uri(), "file-size-in-bytes": 10,
                "file-footer-size-in-bytes": 5, "blob-metadata": [],
            }
        ]  # fmt: skip

    victim.change(change)


def of_partition_statistics(victim: Victim) -> None:
    """The same of partitions."""
    of_statistics(victim, "partition-statistics")


def of_the_table(victim: Victim) -> None:
    """The whole table, its location included."""
    folder = victim.path(victim.table.location())
    victim.change(lambda body: body.update({"location": victim.outside.as_uri()}))
    shutil.copytree(folder, victim.outside, dirs_exist_ok=True)


FORGERIES: tuple[Callable[[Victim], None], ...] = (
    of_data, of_data_by_a_link, of_manifests, of_lists, of_metadata, of_position_deletes,
    of_equality_deletes, of_deletion_vectors, of_old_metadata, of_statistics,
    of_partition_statistics, of_the_table,
)  # fmt: skip

OF_FILES = {
    of_data, of_data_by_a_link, of_position_deletes, of_equality_deletes, of_deletion_vectors,
}  # fmt: skip
"""What a pipeline that adds to the table neither reads nor removes."""


def test_every_field_that_can_name_a_file_is_forged() -> None:
    """What is text in metadata, lists and manifests; a new field of them is to be looked at."""
    known = {"location", "manifest-list", "metadata-file", "statistics-path"}
    no_files = {"doc", "key-metadata", "name", "properties", "refs", "root", "type"}
    assert set(texts_of(TableMetadataV3)) == known | no_files
    assert set(texts_in(MANIFEST_LIST_FILE_SCHEMAS[3].as_struct())) == {"manifest_path"}
    entries = set(texts_in(MANIFEST_ENTRY_SCHEMAS[3].as_struct()))
    assert entries == {"file_path", "file_format", "referenced_data_file"}  # of another's path only


def texts_of(kind: Any, seen: set[Any] | None = None) -> Iterator[str]:
    """Names of the fields with text of a model of PyIceberg's, and of those in it."""
    seen = set() if seen is None else seen
    if kind in seen:
        return
    seen.add(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            if "str" in str(field.annotation):
                yield field.alias or name
            yield from texts_of(field.annotation, seen)
    for argument in typing.get_args(kind):
        yield from texts_of(argument, seen)


def texts_in(type_: IcebergType) -> Iterator[str]:
    """Names of the fields with text of a type."""
    if isinstance(type_, ListType):
        yield from texts_in(type_.element_type)
    if isinstance(type_, StructType):
        for field in type_.fields:
            if isinstance(field.field_type, StringType):
                yield field.name
            yield from texts_in(field.field_type)


@pytest.fixture
def victim(tmp_path: pathlib.Path) -> Victim:
    """A table `t` of three snapshots."""
    found = Victim(tmp_path, offline.config(tmp_path).catalogs["lake"], "t")
    found.own.create_namespace("default")
    table = found.own.create_table("default.t", ROWS.schema)
    for part in (ROWS.slice(0, 4), ROWS.slice(4, 3), ROWS.slice(7)):
        table.append(part)
    return found


def refused(road: Callable[[], object]) -> None:
    """The road ends in the error of that name, in whatever form it gives errors."""
    with pytest.raises((SeamlineError, ForbiddenError)) as caught:
        road()
    if isinstance(caught.value, SeamlineError):
        assert caught.value.code.name == "LOCATION_NOT_ALLOWED", caught.value
    else:
        assert "LOCATION_NOT_ALLOWED" in str(caught.value)


def placed(victim: Victim, *data_locations: str) -> Table:
    """The table as the gateway places it for the data source; nothing of it has been looked at."""
    with victim.own.engine.connect() as connection:
        query = "SELECT metadata_location FROM iceberg_tables WHERE table_name = 't'"
        (location,) = connection.exec_driver_sql(query).one()
    snapshot_id = json.loads(victim.path(location).read_text())["current-snapshot-id"]
    seam = Seam(("lake", "default", "t"), "", schema_id=0, cold=ColdPart(snapshot_id))
    options = Options.of({"url": "http://127.0.0.1:1", "table": "t"})
    return Table(seam, location, None, options, data_locations)


@contextlib.contextmanager
def gateway_over(victim: Victim, **changes: Any) -> Iterator[Gateway]:
    """A gateway over the table's catalog, configured otherwise if need be."""
    config = offline.config(victim.folder)
    lake = config.catalogs["lake"].model_copy(update=changes)
    with contextlib.closing(
        Gateway(config.model_copy(update={"catalogs": {"lake": lake}}))
    ) as running:
        yield running


SQL = "SELECT count(*), sum(id) FROM t"


@pytest.mark.one_in(test=5)
@pytest.mark.parametrize("forge", FORGERIES)
def test_a_file_outside_of_its_table_is_not_read(
    victim: Victim, forge: Callable[[Victim], None]
) -> None:
    forge(victim)
    before = contents(victim.outside)
    with gateway_over(victim) as gateway:
        rest = RestCatalog("live", uri=f"{gateway.url}/iceberg")
        planned = RestCatalog("planned", uri=f"{gateway.url}/iceberg-plan")
        plain = IcebergCatalog(victim.lake)
        refused(lambda: gateway.rows(SQL, "duckdb"))
        refused(lambda: gateway.rows(SQL, "spark"))
        refused(lambda: rest.load_table("default.t"))
        refused(lambda: planned.load_table("default.t").scan().to_arrow())
        refused(lambda: [split.read() for split in placed(victim).cold_splits(None)])
        refused(lambda: plain.drop(("default", "t"), purge=True))
        refused(lambda: maintained(plain))
        if forge not in OF_FILES:
            refused(lambda: tier_table(plain).load())
    assert contents(victim.outside) == before
    assert victim.own.list_tables("default") == [("default", "t")]


def maintained(catalog: IcebergCatalog) -> None:
    """What is done before Spark does it."""
    tasks = Tasks(Compaction(), manifests=True, expire_after_s=0.0, retain_last=1)
    maintain(None, catalog, ("default", "t"), tasks, report=lambda _: None)


def tier_table(catalog: IcebergCatalog) -> SparkTierTable:
    cluster = ClusterConfig(name="default", bootstrap_servers="127.0.0.1:1")
    log = KafkaLog(Cluster(cluster))
    return SparkTierTable(None, catalog, ("default", "t"), log, cluster, tasks_min=1)


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_table_of_its_own_is_read(victim: Victim) -> None:
    with gateway_over(victim) as gateway:
        assert gateway.rows(SQL, "duckdb") == [(10, 45)]
        rest = RestCatalog("live", uri=f"{gateway.url}/iceberg")
        assert rest.list_tables("default") == [("default", "t")]
    (split,) = placed(victim).cold_splits(None)
    assert sum(batch.num_rows for batch in split.read()) == 10
    IcebergCatalog(victim.lake).drop(("default", "t"), purge=True)
    assert victim.own.list_tables("default") == []


@pytest.mark.one_in(test=4)
@pytest.mark.parametrize("forge", [of_data, of_data_by_a_link, of_manifests, of_lists])
def test_honest_tables_name_files_elsewhere_when_the_configuration_says_so(
    victim: Victim, forge: Callable[[Victim], None]
) -> None:
    """Such as those that were added to a table where they lay (add_files), or `write.data.path`."""
    forge(victim)
    with gateway_over(victim, data_locations=(victim.outside.as_uri(),)) as gateway:
        assert gateway.rows(SQL, "duckdb") == [(10, 45)]
        assert gateway.parts.seams.pin(
            "t", Principal("tests"), catalog=None, schema=None, token=None
        )["data_locations"] == [victim.outside.as_uri()]
    splits = placed(victim, victim.outside.as_uri()).cold_splits(None)
    assert sum(batch.num_rows for split in splits for batch in split.read()) == 10


def test_what_a_table_deleted_elsewhere_is_not_removed(victim: Victim) -> None:
    """Its readers do not care, but those who remove files do."""
    files = victim.data_files()
    gone = moved(files[0], victim.taken_out(files[0].file_path))
    deleted = victim.manifest([gone], status=ManifestEntryStatus.DELETED)
    victim.set_list(victim.new_list([deleted, victim.manifest(files[1:])]))
    before = contents(victim.outside)
    with gateway_over(victim) as gateway:
        left = 10 - gone.record_count
        assert gateway.rows("SELECT count(*) FROM t", "duckdb") == [(left,)]
        refused(lambda: IcebergCatalog(victim.lake).drop(("default", "t"), purge=True))
    assert contents(victim.outside) == before


def test_a_file_that_became_a_link_is_not_read(victim: Victim) -> None:
    with gateway_over(victim) as gateway:
        assert gateway.rows(SQL, "duckdb") == [(10, 45)]
        of_data_by_a_link(victim)
        refused(lambda: gateway.rows(SQL, "duckdb"))


def test_a_second_warehouse_is_a_location_of_tables_and_not_of_files(victim: Victim) -> None:
    of_the_table(victim)
    outside = victim.outside.as_uri()
    with gateway_over(victim, data_locations=(outside,)) as gateway:
        refused(lambda: gateway.rows(SQL, "duckdb"))
    with gateway_over(victim, locations=(victim.folder.as_uri(),)) as gateway:
        refused(lambda: gateway.rows(SQL, "duckdb"))  # its files are where it was


def test_one_table_that_lies_elsewhere_leaves_the_others_alone(victim: Victim) -> None:
    victim.own.create_table("default.other", ROWS.schema).append(ROWS)
    of_data(victim)
    with gateway_over(victim) as gateway:
        refused(lambda: gateway.rows(SQL, "duckdb"))
        assert gateway.rows("SELECT count(*) FROM other", "duckdb") == [(10,)]
        assert gateway.rows("SHOW TABLES") == [("other",), ("t",)]


# --- Virtual snapshots ---------------------------------------------------------------------------


@pytest.mark.integration
def test_a_virtual_snapshot_names_no_file_of_others(
    stack: Stack, name: str, tmp_path: pathlib.Path
) -> None:
    """It repeats what the table's own head names, beside the tail."""
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint")
    stack.produce(name, [{"id": 1}])
    lake = stack.config.catalogs["lake"]
    victim = Victim(tmp_path, lake, name)
    with contextlib.closing(
        Gateway(stack.configured({**stack.flags, "state_directory": str(tmp_path / "before")}))
    ) as gateway:
        rest = RestCatalog("live", uri=f"{gateway.url}/iceberg")
        assert rest.load_table(("default", name)).scan().to_arrow().num_rows == 1
    of_lists(victim)
    before = contents(victim.outside)
    with contextlib.closing(
        Gateway(stack.configured({**stack.flags, "state_directory": str(tmp_path / "after")}))
    ) as gateway:
        for path in ("iceberg", "iceberg-plan"):
            rest = RestCatalog(path, uri=f"{gateway.url}/{path}")
            refused(lambda rest=rest: rest.load_table(("default", name)))  # type: ignore[misc]
        refused(lambda: gateway.rows(f"SELECT count(*) FROM {name}"))
    assert contents(victim.outside) == before
