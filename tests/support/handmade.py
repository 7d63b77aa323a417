"""Iceberg tables made by hand from the specification, as writers other than ours leave them.

Parquet by Arrow, manifests and lists by fastavro, metadata as JSON: no library of Iceberg has a
say in it.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
import struct
import uuid
import zlib
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring

_SNAPSHOT = 7_000_000_000_000_000_000
DATA, POSITIONS, EQUALITY = 0, 1, 2

_Json = dict[str, Any]
_UUID = {"type": "fixed", "size": 16, "name": "uuid_fixed", "logicalType": "uuid"}
_PARTITION_TYPES: _Json = {"double": "double", "uuid": _UUID, "timestamp_ns": "long"}


@dataclasses.dataclass(frozen=True)
class File:
    """A file of a table.

    Attributes:
        rows: What is in it; fields need the ids, unless the table has a name mapping.
        content: Data, or deletes by position or by equality.
        partition: Its values of the table's partition fields.
        equality_ids: What rows are deleted by.
        snapshot: Which snapshot adds it, counted from 1.
        path: Where it is; somewhere, when empty.
        spec: Which of the partition specs it is of.
        of: For deletes by position: the file whose rows are gone. `rows` has the positions.
    """

    rows: pa.Table
    content: int = DATA
    partition: _Json = dataclasses.field(default_factory=dict)
    equality_ids: tuple[int, ...] | None = None
    snapshot: int = 1
    path: str = ""
    spec: int = 0
    of: str = ""


def column(field_id: int, name: str, type_: Any, **more: Any) -> _Json:
    """A column of a schema, as metadata says it."""
    return {"id": field_id, "name": name, "required": False, "type": type_, **more}


def with_ids(rows: pa.Table, ids: dict[str, int]) -> pa.Table:
    """The rows, their columns marked with ids."""
    fields = [
        field.with_metadata({"PARQUET:field_id": str(ids[field.name])})
        if field.name in ids
        else field
        for field in rows.schema
    ]
    return pa.table(rows.columns, schema=pa.schema(fields))


@dataclasses.dataclass
class Handmade:
    """A table that is being made.

    Attributes:
        folder: Where it is.
        schemas: Its schemas; the last is the current one.
        version: Of the format.
        specs: Its partition specs; the last is the one in use.
        properties: Its properties.
        embedded: Whether snapshots name their manifests themselves.
        stated_rows: How many rows the last snapshot's summary states; None if it states none.
    """

    folder: pathlib.Path
    schemas: Sequence[Sequence[_Json]]
    version: int = 2
    specs: Sequence[Sequence[_Json]] = ((),)
    properties: dict[str, str] = dataclasses.field(default_factory=dict)
    embedded: bool = False
    stated_rows: int | None = None

    def write(self, files: Sequence[File]) -> str:
        """Writes it all.

        Returns:
            Where its metadata is.
        """
        for name in ("data", "metadata"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        snapshots, listed = [], []
        for number in range(1, max((file.snapshot for file in files), default=0) + 1):
            added = [file for file in files if file.snapshot == number]
            kinds = itertools.product((DATA, POSITIONS), range(len(self.specs)))
            for content, spec in kinds:
                of_kind = [
                    f for f in added if min(f.content, POSITIONS) == content and f.spec == spec
                ]
                if of_kind:
                    listed.append(self._manifest(of_kind, number, spec))
            snapshots.append(self._snapshot(number, list(listed)))
        if self.stated_rows is not None:
            snapshots[-1]["summary"]["total-records"] = str(self.stated_rows)
        return self._metadata(snapshots)

    def _uri(self, path: pathlib.Path) -> str:
        return f"file://{path}"

    def _manifest(self, files: Sequence[File], number: int, spec: int) -> _Json:
        entries = [self._entry(file, number) for file in files]
        path = self.folder / "metadata" / f"{uuid.uuid4()}.avro"
        record = {"type": "record", "name": "r102", "fields": self._partition_types(spec)}
        schema = _entry_schema(record, self.version)
        meta = {
            "schema": json.dumps(self._schema(len(self.schemas) - 1)),
            "schema-id": str(len(self.schemas) - 1),
            "partition-spec": json.dumps(list(self.specs[spec])),
            "partition-spec-id": str(spec),
            "format-version": str(self.version),
            "content": "data" if files[0].content == DATA else "deletes",
        }
        with path.open("wb") as stream:
            fastavro.writer(stream, schema, entries, metadata=meta)
        rows = sum(file.rows.num_rows for file in files)
        return {
            "manifest_path": self._uri(path), "manifest_length": path.stat().st_size,
            "partition_spec_id": spec, "content": min(files[0].content, POSITIONS),
            "sequence_number": number, "min_sequence_number": number,
            "added_snapshot_id": _SNAPSHOT + number, "added_files_count": len(files),
            "existing_files_count": 0, "deleted_files_count": 0, "added_rows_count": rows,
            "existing_rows_count": 0, "deleted_rows_count": 0, "partitions": None,
            "first_row_id": None,
        }  # fmt: skip

    def _entry(self, file: File, number: int) -> _Json:
        path = pathlib.Path(file.path) if file.path else self.new_path()
        vector: _Json = {}
        if file.of and self.version > 2:
            path = path.with_suffix(".puffin")
            vector = self._vector(path, file)
        elif file.of:
            named = pa.array([self._uri(pathlib.Path(file.of))] * file.rows.num_rows)
            rows = pa.table({"file_path": named, "pos": file.rows["pos"]})
            pq.write_table(with_ids(rows, {"file_path": 2147483546, "pos": 2147483545}), path)
        else:
            pq.write_table(file.rows, path)
        data = {
            "content": file.content, "file_path": self._uri(path),
            "file_format": "PUFFIN" if vector else "PARQUET",
            "partition": file.partition, "record_count": file.rows.num_rows,
            "file_size_in_bytes": path.stat().st_size, "block_size_in_bytes": 64,
            "equality_ids": list(file.equality_ids) if file.equality_ids else None,
            **vector,
        }  # fmt: skip
        sequence = number if self.version > 1 else None
        return {
            "status": 1, "snapshot_id": _SNAPSHOT + number, "sequence_number": sequence,
            "file_sequence_number": sequence, "data_file": data,
        }  # fmt: skip

    def _vector(self, path: pathlib.Path, file: File) -> _Json:
        """A deletion vector: a blob in a Puffin file."""
        bitmap = pyroaring.BitMap(file.rows["pos"].to_pylist()).serialize()
        body = b"\xd1\xd3\x39\x64" + struct.pack("<qi", 1, 0) + bitmap
        blob = struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
        told = {
            "type": "deletion-vector-v1", "fields": [2147483645], "snapshot-id": -1,
            "sequence-number": -1, "offset": 4, "length": len(blob),
            "properties": {
                "referenced-data-file": self._uri(pathlib.Path(file.of)),
                "cardinality": str(file.rows.num_rows),
            },
        }  # fmt: skip
        footer = json.dumps({"blobs": [told], "properties": {}}).encode()
        end = footer + struct.pack("<i", len(footer)) + bytes(4) + b"PFA1"
        path.write_bytes(b"PFA1" + blob + b"PFA1" + end)
        return {
            "referenced_data_file": self._uri(pathlib.Path(file.of)),
            "content_offset": 4,
            "content_size_in_bytes": len(blob),
        }

    def _partition_types(self, spec: int) -> list[_Json]:
        """All are whole numbers, except doubles and UUIDs, which stay as they are."""
        types = {column["id"]: column["type"] for schema in self.schemas for column in schema}
        return [
            _field(
                field["field-id"],
                field["name"],
                _PARTITION_TYPES.get(types[field["source-id"]], "int"),
                optional=True,
            )
            for field in self.specs[spec]
        ]

    def new_path(self) -> pathlib.Path:
        """Where a file may be put, to name it in deletes."""
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        return self.folder / "data" / f"{uuid.uuid4()}.parquet"

    def _snapshot(self, number: int, manifests: list[_Json]) -> _Json:
        body = {
            "snapshot-id": _SNAPSHOT + number,
            "timestamp-ms": 1_700_000_000_000 + number,
            "summary": {"operation": "append"},
            "schema-id": len(self.schemas) - 1,
        }
        if number > 1:
            body["parent-snapshot-id"] = _SNAPSHOT + number - 1
        if self.version > 1:
            body["sequence-number"] = number
        if self.version > 2:
            body |= {"first-row-id": 0, "added-rows": 0}
        if self.embedded:
            return {**body, "manifests": [m["manifest_path"] for m in manifests]}
        path = self.folder / "metadata" / f"snap-{number}.avro"
        with path.open("wb") as stream:
            fastavro.writer(stream, _list_schema(self.version), manifests)
        return {**body, "manifest-list": self._uri(path)}

    def _schema(self, number: int) -> _Json:
        return {"type": "struct", "schema-id": number, "fields": list(self.schemas[number])}

    def _metadata(self, snapshots: list[_Json]) -> str:
        last = len(self.schemas) - 1
        body: _Json = {
            "format-version": self.version,
            "table-uuid": str(uuid.uuid4()),
            "location": self._uri(self.folder),
            "last-updated-ms": 1_700_000_001_000,
            "last-column-id": 1000,
            "schemas": [self._schema(number) for number in range(len(self.schemas))],
            "current-schema-id": last,
            "partition-specs": [
                {"spec-id": number, "fields": list(spec)} for number, spec in enumerate(self.specs)
            ],
            "default-spec-id": len(self.specs) - 1,
            "last-partition-id": 1000,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": self.properties,
            "current-snapshot-id": snapshots[-1]["snapshot-id"] if snapshots else -1,
            "snapshots": snapshots,
            "snapshot-log": [
                {"snapshot-id": s["snapshot-id"], "timestamp-ms": s["timestamp-ms"]}
                for s in snapshots
            ],
        }
        if self.version == 1:
            body |= {"schema": self._schema(last), "partition-spec": list(self.specs[-1])}
        else:
            body["last-sequence-number"] = len(snapshots)
        if self.version > 2:
            body["next-row-id"] = 0
        path = self.folder / "metadata" / f"00000-{uuid.uuid4()}.metadata.json"
        path.write_text(json.dumps(body))
        return self._uri(path)


def _field(field_id: int, name: str, type_: Any, *, optional: bool = False) -> _Json:
    if optional:
        return {"name": name, "type": ["null", type_], "default": None, "field-id": field_id}
    return {"name": name, "type": type_, "field-id": field_id}


def _entry_schema(partition: _Json, version: int) -> Any:
    ids = {"type": "array", "items": "int", "element-id": 136}
    vector = [
        _field(143, "referenced_data_file", "string", optional=True),
        _field(144, "content_offset", "long", optional=True),
        _field(145, "content_size_in_bytes", "long", optional=True),
    ]
    data = [
        *([_field(134, "content", "int")] if version > 1 else []),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", partition),
        _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"),
        *([_field(105, "block_size_in_bytes", "long")] if version == 1 else []),
        *([_field(135, "equality_ids", ids, optional=True)] if version > 1 else []),
        *(vector if version > 2 else []),
    ]
    fields = [
        _field(0, "status", "int"),
        _field(1, "snapshot_id", "long", optional=version > 1),
        *([_field(3, "sequence_number", "long", optional=True)] if version > 1 else []),
        *([_field(4, "file_sequence_number", "long", optional=True)] if version > 1 else []),
        _field(2, "data_file", {"type": "record", "name": "r2", "fields": data}),
    ]
    return fastavro.parse_schema({"type": "record", "name": "manifest_entry", "fields": fields})


def _list_schema(version: int) -> Any:
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            _field(509, "contains_null", "boolean"),
            _field(510, "lower_bound", "bytes", optional=True),
            _field(511, "upper_bound", "bytes", optional=True),
        ],
    }
    summaries = {"type": "array", "items": summary, "element-id": 508}
    newer = [
        _field(517, "content", "int"),
        _field(515, "sequence_number", "long"),
        _field(516, "min_sequence_number", "long"),
    ]
    fields = [
        _field(500, "manifest_path", "string"),
        _field(501, "manifest_length", "long"),
        _field(502, "partition_spec_id", "int"),
        *(newer if version > 1 else []),
        _field(503, "added_snapshot_id", "long"),
        _field(504, "added_files_count", "int"),
        _field(505, "existing_files_count", "int"),
        _field(506, "deleted_files_count", "int"),
        _field(512, "added_rows_count", "long"),
        _field(513, "existing_rows_count", "long"),
        _field(514, "deleted_rows_count", "long"),
        _field(507, "partitions", summaries, optional=True),
        *([_field(520, "first_row_id", "long", optional=True)] if version > 2 else []),
    ]
    return fastavro.parse_schema({"type": "record", "name": "manifest_file", "fields": fields})
