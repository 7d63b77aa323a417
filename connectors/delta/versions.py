"""The versions of Delta tables, read with `deltalake`: files, their statistics, and transactions.

A version never changes, so what was read of it is kept. A feature that this library or DuckDB would
not read exactly is refused by its name in Delta's protocol, and so is every unknown feature.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as fs
from deltalake.exceptions import DeltaError, DeltaProtocolError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from seamline.connectors.cache import Cache
from seamline.connectors.delta.log import Commit
from seamline.connectors.iceberg.type_conversion import to_schema
from seamline.errors import (
    INVALID_CONFIG,
    NOT_SUPPORTED,
    SNAPSHOT_GONE,
    STORAGE_UNAVAILABLE,
    SeamlineError,
)
from seamline.seam.table import TableSchema
from seamline.sql import types

FILES_CACHED_MAX = 500_000
READABLE = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Reader features that `deltalake` supports, or that do not affect what is read here."""
_UNKNOWN = "Unsupported:"
"""What `deltalake` says about features that it does not know."""
_MAPPING = "delta.columnMapping.mode"
_OPTIONS = "delta."
"""Prefix of catalog properties that are passed to `deltalake` unchanged, without the prefix."""
_SAME: Mapping[str, str] = {
    "s3.endpoint": "aws_endpoint",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.region": "aws_region",
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_token",
    "adls.tenant-id": "azure_storage_tenant_id",
    "adls.client-id": "azure_storage_client_id",
    "adls.client-secret": "azure_storage_client_secret",
}
"""PyIceberg's properties, and their names in `deltalake`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """A table's location, and how to reach it.

    Attributes:
        name: The table's full name, for messages.
        location: Its folder, without a trailing slash.
        options: Storage options, as `deltalake` takes them.
    """

    name: str
    location: str
    options: Mapping[str, str] = dataclasses.field(hash=False)

    def files(self) -> fs.FileSystem:
        """Returns the file system of the table's folder."""
        return fs.PyFileSystem(DeltaStorageHandler(self.location, dict(self.options)))


def storage_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the `deltalake` options that reach what PyIceberg reaches with these properties."""
    options = {_SAME[key]: value for key, value in properties.items() if key in _SAME}
    if options.get("aws_endpoint", "").startswith("http://"):
        options["aws_allow_http"] = "true"
    own = {k.removeprefix(_OPTIONS): v for k, v in properties.items() if k.startswith(_OPTIONS)}
    return {**options, **own}


class Version:
    """One version of a table."""

    def __init__(self, source: Source, table: deltalake.DeltaTable) -> None:
        self._source = source
        self._table = table
        self._files: dict[int, tuple[VersionFile, ...]] = {}
        metadata = table.metadata()
        self.uuid = str(metadata.id)
        self.configuration: Mapping[str, str] = dict(metadata.configuration)
        self.schema_text = table.schema().to_json()
        self.partition_columns = tuple(metadata.partition_columns)

    def files(self, schema: TableSchema) -> tuple[VersionFile, ...]:
        """Returns the files, with what is known about the columns of a schema."""
        if schema.schema_id not in self._files:
            self._files[schema.schema_id] = _files_of(self, schema)
        return self._files[schema.schema_id]

    def transaction(self, application: str) -> int | None:
        """Returns how far an application says it has got, or None if it has said nothing."""
        return self._table.transaction_version(application)

    @functools.cached_property
    def actions(self) -> pa.Table:
        """The files, as the log describes them."""
        with delta_errors(self._source.name):
            return pa.table(self._table.get_add_actions())

    @functools.cached_property
    def paths(self) -> tuple[str, ...]:
        """Locations of the files, in the order of `actions`."""
        named = map(unquote, self.actions.column("path").to_pylist())
        return tuple(
            path if path.startswith("/") or ":/" in path else f"{self._source.location}/{path}"
            for path in named
        )


class Versions:
    """Reads versions of tables. Safe to share between threads."""

    def __init__(self) -> None:
        self._versions: Cache[tuple[object, ...], Version] = Cache(
            FILES_CACHED_MAX, weight=lambda version: 1 + version.actions.num_rows
        )

    def at(self, source: Source, commit: Commit) -> Version:
        """Returns a version of a table.

        Raises:
            SeamlineError: SNAPSHOT_GONE, NOT_SUPPORTED, STORAGE_UNAVAILABLE.
        """
        key = (source.location, commit.version, commit.file)
        return self._versions.get_or_make(key, lambda: _read(source, commit.version))


def _read(source: Source, number: int) -> Version:
    with delta_errors(source.name):
        try:
            table = deltalake.DeltaTable(
                source.location, version=number, storage_options=dict(source.options)
            )
        except (TableNotFoundError, DeltaProtocolError):
            raise
        except DeltaError as error:
            code = NOT_SUPPORTED if _UNKNOWN in str(error) else SNAPSHOT_GONE
            raise SeamlineError(
                code, f"version {number} of the Delta table {source.name} cannot be read: {error}"
            ) from error
        version = Version(source, table)
        problem = _unreadable(table.protocol(), version)
    if problem is not None:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"version {number} of the Delta table {source.name} has {problem}, which cannot be "
            "read here",
            hint="Read it with its writer's own tools, or drop the feature from the table.",
        )
    return version


def _unreadable(protocol: deltalake.table.ProtocolVersions, version: Version) -> str | None:
    """Returns the first thing that would not be read exactly, or None if there is none."""
    if version.configuration.get(_MAPPING, "none") != "none":
        return "the feature columnMapping"
    if protocol.min_reader_version > 3:
        return f"the reader version {protocol.min_reader_version}"
    for feature in sorted(protocol.reader_features or ()):
        if feature not in READABLE | {"columnMapping"}:
            return f"the feature {feature}"
    for field in json.loads(version.schema_text)["fields"]:
        if field["type"] == "binary" and field["name"] in version.partition_columns:
            return f"the binary partition column {field['name']}"
    return None


@contextlib.contextmanager
def delta_errors(name: str) -> Iterator[None]:
    """Turns failures of `deltalake` into named errors."""
    try:
        yield
    except TableNotFoundError as error:
        raise no_table(name) from error
    except DeltaProtocolError as error:
        raise SeamlineError(NOT_SUPPORTED, f"the Delta table {name}: {error}") from error
    except (DeltaError, OSError) as error:
        raise SeamlineError(STORAGE_UNAVAILABLE, f"the Delta table {name}: {error}") from error


def no_table(name: str) -> SeamlineError:
    """Returns the error for a table that the configuration lists but that is not there."""
    return SeamlineError(
        INVALID_CONFIG,
        f"there is no Delta table where {name} should be",
        hint=f"Correct tables.{name}.location, or remove the entry.",
    )


# --- Files ---------------------------------------------------------------------------------------

_BOUNDED = frozenset(
    {
        *(types.INTEGER, types.BIGINT, types.VARCHAR),
        *(types.DATE, types.TIMESTAMP, types.TIMESTAMP_TZ),
    }
)
"""Types whose statistics are exact, except for the last digits of times. Decimals and floats are
not among them: their statistics are text or floats, and some writers leave out NaN."""
_MILLISECOND_US = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class VersionFile:
    """A file of a version.

    Attributes:
        file: What is known about it, in the form that Iceberg's pruning takes.
        partition: The values of partition columns, by field id.
    """

    file: DataFile
    partition: tuple[tuple[int, Any], ...]


def bounded(schema: TableSchema) -> tuple[types.Field, ...]:
    """Returns the columns whose bounds are known."""
    return tuple(field for field in schema.columns if field.type in _BOUNDED)


def _files_of(version: Version, schema: TableSchema) -> tuple[VersionFile, ...]:
    """Returns a version's files, with the bounds of `bounded` columns, numbered there from 1."""
    actions = version.actions
    rows = [-1 if n is None else n for n in actions.column("num_records").to_pylist()]
    fields = bounded(schema)
    bounds = [_Bounds(actions, f, version) for f in fields]
    kinds = [cast("PrimitiveType", column.field_type) for column in to_schema(fields).fields]
    values = [_partition(actions, schema, name) for name in version.partition_columns]
    files = []
    for number, path in enumerate(version.paths):
        low, high, nulls = {}, {}, {}
        for position, (kind, column_bounds) in enumerate(zip(kinds, bounds, strict=True), start=1):
            least, greatest, missing = column_bounds.of(number, rows[number])
            if least is not None and greatest is not None:
                low[position] = to_bytes(kind, least)
                high[position] = to_bytes(kind, greatest)
            if missing is not None:
                nulls[position] = missing
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=rows[number],
            file_size_in_bytes=actions.column("size_bytes")[number].as_py(),
            value_counts=dict.fromkeys(nulls, rows[number]) if rows[number] >= 0 else {},
            null_value_counts=nulls,
            nan_value_counts={},
            lower_bounds=low,
            upper_bounds=high,
        )
        partition = tuple((number_, value[number]) for number_, value in values)
        files.append(VersionFile(file, partition))
    return tuple(files)


def schema_of_bounds(schema: TableSchema) -> Schema:
    """Returns the columns that `_files_of` gives bounds for, as it numbers them."""
    return to_schema(bounded(schema))


def _partition(actions: pa.Table, schema: TableSchema, name: str) -> tuple[int, Sequence[Any]]:
    column = pc.struct_field(actions.column("partition"), name)
    number = next(field.field_id for field in schema.columns if field.name == name)
    return number, column.to_pylist()


class _Bounds:
    """What is known about one column, file by file."""

    def __init__(self, actions: pa.Table, field: types.Field, version: Version) -> None:
        self._is_constant = field.name in version.partition_columns
        if self._is_constant:
            low = high = _column_values(actions, "partition", field)
        else:
            low, high = (_column_values(actions, kind, field) for kind in ("min", "max"))
        self._low, self._high = low, high
        self._nulls = _child(actions, "null_count", field.name)
        is_time = isinstance(field.type, types.Timestamp) and not self._is_constant
        self._more = _MILLISECOND_US if is_time else 0

    def of(self, number: int, rows: int) -> tuple[Any, Any, int | None]:
        """Returns the least and the greatest value of a file, and how many values are null."""
        low = self._low[number] if self._low is not None else None
        high = self._high[number] if self._high is not None else None
        if self._is_constant:
            nulls = (rows if rows >= 0 else None) if low is None else 0
        else:
            nulls = self._nulls[number].as_py() if self._nulls is not None else None
        if high is not None and self._more:
            high += self._more  # some writers cut times off after the millisecond
        return low, high, nulls


def _column_values(actions: pa.Table, kind: str, field: types.Field) -> Sequence[Any] | None:
    """Returns a column's statistics in the form of Iceberg's bounds, or None without them."""
    column = _child(actions, kind, field.name)
    if column is None:
        return None
    if isinstance(field.type, types.Timestamp):
        instant_type = pa.timestamp("us", "UTC" if field.type.zoned else None)
        column = column.cast(instant_type).cast(pa.int64())
    elif field.type == types.DATE:
        column = column.cast(pa.date32()).cast(pa.int32())
    return list(column.to_pylist())


def _child(actions: pa.Table, kind: str, name: str) -> pa.ChunkedArray | None:
    if kind not in actions.column_names:
        return None
    column = actions.column(kind)
    if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
        return None
    return pc.struct_field(column, name)
