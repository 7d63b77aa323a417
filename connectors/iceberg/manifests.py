"""Writes manifests of tail files and manifest lists of virtual snapshots, and reads manifest lists.

A manifest written here names no snapshot and no sequence number. Its entries inherit both from the
list that contains the manifest, so one manifest serves every virtual snapshot that holds its files.
A list repeats the cold snapshot's own entries exactly. PyIceberg reads format version 3 but does
not write it; this module writes the fields that version 3 adds, which say where row ids start.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    UNASSIGNED_SEQ,
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import TableVersion

from seamline.connectors.iceberg.pyiceberg_internals import (
    UNCOMPRESSED,
    ManifestWriter,
    all_entries,
)

_LATEST: Literal[3] = 3
_FIRST_ROW_ID = 15
_FIELDS = tuple(field.name for field in MANIFEST_LIST_FILE_SCHEMAS[_LATEST].fields)


def write_manifest(
    io: FileIO,
    path: str,
    files: Sequence[DataFile],
    spec: PartitionSpec,
    schema: Schema,
    version: TableVersion,
) -> ManifestFile:
    """Writes a manifest of added data or delete files, all of one partition spec.

    The entries inherit snapshot and sequence numbers from the list that contains the manifest.

    Returns:
        Its entry for manifest lists, with sequence number, snapshot and row ids not yet assigned.

    Raises:
        OSError: when it cannot be written.
    """
    entries = [
        ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file) for file in files
    ]
    return _write_entries(io, path, entries, spec, schema, version)


def write_kept(
    io: FileIO,
    path: str,
    entries: Sequence[ManifestEntry],
    spec: PartitionSpec,
    schema: Schema,
    version: TableVersion,
    *,
    removed: Sequence[ManifestEntry] = (),
    removed_by: int | None = None,
) -> ManifestFile:
    """Writes a manifest in place of another; entries keep their snapshots and sequence numbers.

    Args:
        io: Writes it.
        path: Where to.
        entries: The entries that are kept.
        spec: Their partition spec.
        schema: A schema that has its columns.
        version: The table's format version.
        removed: Entries whose files a snapshot removes; others are left out silently.
        removed_by: That snapshot.

    Returns:
        As `write_manifest`.

    Raises:
        OSError: when it cannot be written.
    """
    kept = [_repeated(entry, ManifestEntryStatus.EXISTING, entry.snapshot_id) for entry in entries]
    gone = [_repeated(entry, ManifestEntryStatus.DELETED, removed_by) for entry in removed]
    return _write_entries(io, path, [*kept, *gone], spec, schema, version)


def _repeated(
    entry: ManifestEntry, status: ManifestEntryStatus, snapshot_id: int | None
) -> ManifestEntry:
    """Returns the entry with another status and snapshot; it keeps its sequence numbers."""
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def _write_entries(
    io: FileIO,
    path: str,
    entries: Sequence[ManifestEntry],
    spec: PartitionSpec,
    schema: Schema,
    version: TableVersion,
) -> ManifestFile:
    is_data = all(entry.data_file.content == DataFileContent.DATA for entry in entries)
    content = ManifestContent.DATA if is_data else ManifestContent.DELETES
    with ManifestWriter(spec, schema, io, path, version, content) as writer:
        for entry in entries:
            writer.add_entry(entry)
    manifest = writer.to_manifest_file()
    values = {name: manifest[position] for position, name in enumerate(_FIELDS[:_FIRST_ROW_ID])}
    values["manifest_length"] = len(io.new_input(path))
    return ManifestFile.from_args(_table_format_version=_LATEST, **values)


def read_list(io: FileIO, path: str) -> tuple[ManifestFile, ...]:
    """Returns the entries of a manifest list, with the fields of version 3.

    Raises:
        OSError: when it cannot be read.
        ValueError: when an entry names no manifest.
    """
    with AvroFile[ManifestFile](
        io.new_input(path),
        MANIFEST_LIST_FILE_SCHEMAS[_LATEST],
        read_types={-1: ManifestFile, 508: PartitionFieldSummary},
        read_enums={517: ManifestContent},
    ) as reader:
        found = tuple(reader)
    if any(entry.manifest_path is None for entry in found):
        raise ValueError("an entry names no manifest")
    return found


def list_entry(io: FileIO, path: str, snapshot_id: int) -> ManifestFile:
    """Builds the version 1 list entry of a manifest that a snapshot names directly, without a list.

    Raises:
        OSError: when it cannot be read.
    """
    counts = {
        f"{status.name.lower()}_{what}_count": 0
        for status in ManifestEntryStatus
        for what in ("files", "rows")
    }
    for entry in all_entries(io, path):
        status = entry.status.name.lower()
        counts[f"{status}_files_count"] += 1
        counts[f"{status}_rows_count"] += entry.data_file.record_count
    source = io.new_input(path)
    with AvroFile[Any](source) as reader:
        spec_id = int(reader.header.meta.get("partition-spec-id", "0"))
    return ManifestFile.from_args(
        _table_format_version=_LATEST,
        manifest_path=path,
        manifest_length=len(source),
        partition_spec_id=spec_id,
        content=ManifestContent.DATA,
        sequence_number=0,
        min_sequence_number=0,
        added_snapshot_id=snapshot_id,
        **counts,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class ManifestList:
    """The contents of a snapshot's manifest list.

    Attributes:
        snapshot_id: The snapshot.
        parent_id: Its parent; None if it has none.
        sequence_number: Its sequence number.
        version: 2 or 3.
        entries: The entries of the list.
        first_row_id: Version 3: the first row id that it assigns.
        added_rows: How many row ids it assigns.
    """

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    version: TableVersion
    entries: tuple[ManifestFile, ...]
    first_row_id: int | None = None
    added_rows: int = 0


def new_list(
    cold: Iterable[ManifestFile],
    tail: Iterable[ManifestFile],
    *,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    version: TableVersion,
    next_row_id: int,
) -> ManifestList:
    """Builds the manifest list of a snapshot that adds manifests to those of its parent.

    Args:
        cold: The parent's entries; kept as they are.
        tail: Manifests to add; they get the snapshot's id and sequence number.
        snapshot_id: The snapshot.
        parent_id: Its parent; None if it has none.
        sequence_number: Its sequence number.
        version: The table's format version.
        next_row_id: Version 3: the first row id that the table has not assigned yet.
    """
    added = [added_by(snapshot_id, sequence_number, manifest) for manifest in tail]
    entries = [*cold, *added]
    if version < _LATEST:
        return ManifestList(snapshot_id, parent_id, sequence_number, version, tuple(entries))
    numbered = []
    row_id = next_row_id
    for entry in entries:
        if entry.content == ManifestContent.DATA and entry[_FIRST_ROW_ID] is None:
            numbered.append(_changed(entry, first_row_id=row_id))
            row_id += (entry.added_rows_count or 0) + (entry.existing_rows_count or 0)
        else:
            numbered.append(entry)
    return ManifestList(
        snapshot_id,
        parent_id,
        sequence_number,
        version,
        tuple(numbered),
        next_row_id,
        row_id - next_row_id,
    )


def write_list(io: FileIO, path: str, manifests: ManifestList) -> None:
    """Writes a manifest list.

    Raises:
        OSError: when it cannot be written.
    """
    parent = manifests.parent_id
    meta = {
        "snapshot-id": str(manifests.snapshot_id),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "sequence-number": str(manifests.sequence_number),
        "format-version": str(manifests.version),
        "avro.codec": UNCOMPRESSED,
    }
    if manifests.first_row_id is not None:
        meta["first-row-id"] = str(manifests.first_row_id)
    with AvroOutputFile[ManifestFile](
        output_file=io.new_output(path),
        record_schema=MANIFEST_LIST_FILE_SCHEMAS[_LATEST],
        file_schema=MANIFEST_LIST_FILE_SCHEMAS[manifests.version],
        schema_name="manifest_file",
        metadata=meta,
    ) as writer:
        writer.write_block(list(manifests.entries))


# --- Entries as JSON -----------------------------------------------------------------------------


def entry_to_json(entry: ManifestFile) -> dict[str, Any]:
    """Returns an entry of a manifest list as JSON."""
    body = {name: entry[position] for position, name in enumerate(_FIELDS)}
    body["content"] = int(entry.content)
    body["partitions"] = [
        [s.contains_null, s.contains_nan, _text(s.lower_bound), _text(s.upper_bound)]
        for s in entry.partitions or []
    ]
    return body


def entry_from_json(body: dict[str, Any]) -> ManifestFile:
    """The inverse of `entry_to_json`."""
    summaries = [
        PartitionFieldSummary(contains_null, contains_nan, _bytes(lower), _bytes(upper))
        for contains_null, contains_nan, lower, upper in body["partitions"]
    ]
    values = {**body, "content": ManifestContent(body["content"]), "partitions": summaries}
    return ManifestFile.from_args(_table_format_version=_LATEST, **values)


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def added_by(snapshot_id: int, sequence_number: int, manifest: ManifestFile) -> ManifestFile:
    """Returns a manifest's list entry, assigned to a snapshot and its sequence number."""
    least = manifest.min_sequence_number
    return _changed(
        manifest,
        sequence_number=sequence_number,
        min_sequence_number=sequence_number if least == UNASSIGNED_SEQ else least,
        added_snapshot_id=snapshot_id,
    )


def _changed(entry: ManifestFile, **changes: Any) -> ManifestFile:
    values = {name: entry[position] for position, name in enumerate(_FIELDS)}
    return ManifestFile.from_args(_table_format_version=_LATEST, **{**values, **changes})
