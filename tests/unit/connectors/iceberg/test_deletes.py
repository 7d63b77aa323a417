"""Goal: a delete applies to the files of its partition, whatever the partition's value is."""

from __future__ import annotations

import types
from typing import Any

import pytest
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, NestedField

from seamline.connectors.iceberg.deletes import DeleteIndex

SCHEMA = Schema(NestedField(1, "d", DoubleType()))
SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "d"), spec_id=0)


def entry(path: str, content: DataFileContent, value: float | None, sequence: int) -> ManifestEntry:
    file = DataFile.from_args(
        _table_format_version=2,
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(value),
        record_count=1,
        file_size_in_bytes=1,
        equality_ids=[1] if content == DataFileContent.EQUALITY_DELETES else None,
    )
    file.spec_id = 0
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED,
        snapshot_id=1,
        sequence_number=sequence,
        file_sequence_number=sequence,
        data_file=file,
    )


@pytest.mark.parametrize("content", ["EQUALITY_DELETES", "POSITION_DELETES"])
@pytest.mark.parametrize("value", [float("nan"), 1.5, None], ids=str)
def test_deletes_of_a_partition_apply_to_its_files(value: float | None, content: str) -> None:
    again = None if value is None else float(str(value))  # another object
    delete = entry("delete", DataFileContent[content], again, 2)
    metadata = types.SimpleNamespace(
        specs=lambda: {0: SPEC}, schemas=[SCHEMA], schema=lambda: SCHEMA
    )
    table: Any = types.SimpleNamespace(metadata=metadata)
    index = DeleteIndex(table, [delete])
    own = entry("own", DataFileContent.DATA, value, 1)
    other = entry("other", DataFileContent.DATA, 7.0, 1)
    assert [file.file_path for file in index.files_for(own)] == ["delete"]
    assert index.files_for(other) == ()
