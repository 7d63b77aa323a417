"""Equality deletes as a foreign writer, such as Flink, leaves them: Spark and PyIceberg do not."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg import manifest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import snapshot as commits
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, ListType, StructType


def delete_where_equal(table: Table, column: str, values: Sequence[Any]) -> None:
    """Commits one equality delete file: rows with one of the values are gone, older ones only.

    Args:
        table: A table in version 2 without partitions.
        column: The column.
        values: Its values.
    """
    schema = table.schema().select(column)
    rows = pa.table({column: values}, schema=schema_to_pyarrow(schema))
    path = f"{table.location()}/data/equality-{uuid.uuid4()}.parquet"
    with table.io.new_output(path).create() as output:
        pq.write_table(rows, output)
    file = manifest.DataFile.from_args(
        content=manifest.DataFileContent.EQUALITY_DELETES,
        file_path=path,
        file_format=manifest.FileFormat.PARQUET,
        partition=Record(),
        record_count=len(values),
        file_size_in_bytes=len(table.io.new_input(path)),
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        key_metadata=None,
        split_offsets=None,
        equality_ids=[schema.fields[0].field_id],
        sort_order_id=None,
    )
    file.spec_id = table.spec().spec_id
    with (
        _manifests_of_deletes(),
        table.transaction() as transaction,
        commits._FastAppendFiles(
            operation=Operation.DELETE, transaction=transaction, io=table.io
        ) as append,
    ):
        append.append_data_file(file)


class _DeleteManifestWriter(manifest.ManifestWriterV2):
    """A manifest of deletes; PyIceberg only writes those of data."""

    def content(self) -> manifest.ManifestContent:
        return manifest.ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


@contextmanager
def _manifests_of_deletes() -> Iterator[None]:
    def write(format_version: int, *arguments: Any, **named: Any) -> manifest.ManifestWriter:
        assert format_version == 2
        return _DeleteManifestWriter(*arguments, **named)

    # the specification has field ids as int; PyIceberg writes long, which Java does not read
    types = {v: _with_int_ids(type_) for v, type_ in manifest.DATA_FILE_TYPE.items()}
    with (
        mock.patch.object(commits, "write_manifest", write),
        mock.patch.object(manifest, "DATA_FILE_TYPE", types),
    ):
        yield


def _with_int_ids(type_: StructType) -> StructType:
    fields = [
        field.model_copy(update={"field_type": ListType(136, IntegerType(), element_required=True)})
        if field.name == "equality_ids"
        else field
        for field in type_.fields
    ]
    return StructType(*fields)
