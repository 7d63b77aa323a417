"""Writes deletes by position: as Parquet files, or as deletion vectors.

In version 2 a delete file holds the deleted rows of the data files of one partition. In version 3 a
data file has at most one deletion vector, which holds all of its deleted rows; one Puffin file
holds the vectors of any number of data files. Names are chosen before anything is written.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyroaring import BitMap64

from seamline.seam.files import FIELD_ID

VECTORS = 3
"""The format version from which on deletes are deletion vectors."""
PATH_ID, _POSITION_ID = 2147483546, 2147483545
_ROW_POSITION_ID = 2147483645
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={FIELD_ID: str(PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: str(_POSITION_ID)}),
    ]
)
_PUFFIN = b"PFA1"
_VECTOR = b"\xd1\xd3\x39\x64"


@dataclasses.dataclass(frozen=True, slots=True)
class DeletedRows:
    """The deleted rows of a data file.

    Attributes:
        file: The data file.
        positions: The positions of the rows in it, ascending; at least one.
    """

    file: DataFile
    positions: np.ndarray = dataclasses.field(compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedDeletes:
    """A delete file that is about to be written.

    Attributes:
        path: Where to write it.
        rows: The deleted rows, per data file.
    """

    path: str
    rows: tuple[DeletedRows, ...]


def plan_deletes(
    rows: Sequence[DeletedRows], *, has_vectors: bool, folder: str
) -> list[PlannedDeletes]:
    """Plans the delete files for deleted rows; an empty list for no rows.

    Args:
        rows: The deleted rows, each data file once.
        has_vectors: Whether to write deletion vectors, which version 3 requires.
        folder: The location to put the files under.
    """
    if not rows:
        return []
    name = uuid.uuid4().hex[:12]
    if has_vectors:
        return [PlannedDeletes(f"{folder}/{name}-deletes.puffin", tuple(rows))]
    partitions: dict[tuple[int, Record], list[DeletedRows]] = {}
    for one in sorted(rows, key=lambda one: one.file.file_path):
        partitions.setdefault((one.file.spec_id, one.file.partition), []).append(one)
    return [
        PlannedDeletes(f"{folder}/{name}-{number:05d}-deletes.parquet", tuple(part))
        for number, part in enumerate(partitions.values())
    ]


def write_deletes(io: FileIO, planned: Iterable[PlannedDeletes]) -> list[DataFile]:
    """Writes delete files and returns their manifest entries.

    Raises:
        OSError: when one cannot be written.
    """
    return [entry for one in planned for entry in _written(io, one)]


def _written(io: FileIO, planned: PlannedDeletes) -> list[DataFile]:
    if planned.path.endswith(".puffin"):
        return _write_vectors(io, planned)
    return [_write_positions(io, planned)]


# --- Version 2 -----------------------------------------------------------------------------------


def _write_positions(io: FileIO, planned: PlannedDeletes) -> DataFile:
    paths = [one.file.file_path for one in planned.rows]
    counts = [len(one.positions) for one in planned.rows]
    numbers = pa.array(np.repeat(np.arange(len(paths), dtype=np.int32), counts))
    columns = [
        pa.DictionaryArray.from_arrays(numbers, pa.array(paths, pa.string())).cast(pa.string()),
        pa.array(np.concatenate([one.positions for one in planned.rows]), pa.int64()),
    ]
    with (
        io.new_output(planned.path).create(overwrite=True) as stream,
        pq.ParquetWriter(
            stream, _SCHEMA, compression="zstd", use_dictionary=["file_path"], store_schema=False
        ) as writer,
    ):
        writer.write_table(pa.table(columns, schema=_SCHEMA))
    count = sum(counts)
    return _entry(
        planned.rows[0].file,
        version=2,
        file_path=planned.path,
        file_format=FileFormat.PARQUET,
        record_count=count,
        file_size_in_bytes=len(io.new_input(planned.path)),
        value_counts={PATH_ID: count, _POSITION_ID: count},
        null_value_counts={PATH_ID: 0, _POSITION_ID: 0},
        lower_bounds={PATH_ID: paths[0].encode()},
        upper_bounds={PATH_ID: paths[-1].encode()},
    )


# --- Version 3 -----------------------------------------------------------------------------------


def _write_vectors(io: FileIO, planned: PlannedDeletes) -> list[DataFile]:
    blobs = [_vector(one.positions) for one in planned.rows]
    starts = np.cumsum([len(_PUFFIN), *map(len, blobs)]).tolist()
    listed = [
        _blob(one, start, len(blob))
        for one, start, blob in zip(planned.rows, starts[:-1], blobs, strict=True)
    ]
    footer = json.dumps({"blobs": listed, "properties": {}}).encode()
    flags = bytes(4)
    parts = [_PUFFIN, *blobs, _PUFFIN, footer, len(footer).to_bytes(4, "little"), flags, _PUFFIN]
    with io.new_output(planned.path).create(overwrite=True) as stream:
        stream.write(b"".join(parts))
    return [
        _entry(
            one.file,
            version=3,
            file_path=planned.path,
            file_format=FileFormat.PUFFIN,
            record_count=len(one.positions),
            file_size_in_bytes=sum(map(len, parts)),
            referenced_data_file=one.file.file_path,
            content_offset=start,
            content_size_in_bytes=len(blob),
        )
        for one, start, blob in zip(planned.rows, starts[:-1], blobs, strict=True)
    ]


def _vector(positions: np.ndarray) -> bytes:
    """Encodes positions as a portable 64-bit Roaring bitmap between its length and a checksum."""
    body = _VECTOR + BitMap64(positions.astype(np.uint64)).serialize()
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def _blob(rows: DeletedRows, offset: int, length: int) -> Mapping[str, Any]:
    """Returns a vector's entry in the Puffin footer; it inherits snapshot and sequence number."""
    return {
        "type": "deletion-vector-v1",
        "fields": [_ROW_POSITION_ID],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": offset,
        "length": length,
        "properties": {
            "referenced-data-file": rows.file.file_path,
            "cardinality": str(len(rows.positions)),
        },
    }


def _entry(of: DataFile, *, version: Any, **values: Any) -> DataFile:
    """Returns the manifest entry of deletes from one data file, or several of one partition."""
    entry = DataFile.from_args(
        _table_format_version=version,
        content=DataFileContent.POSITION_DELETES,
        partition=of.partition,
        **values,
    )
    entry.spec_id = of.spec_id
    return entry
