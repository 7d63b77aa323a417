"""Row ids of format version 3, whose fields PyIceberg reads but does not name."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile

MANIFEST_FIRST_ROW_ID = 15
FILE_FIRST_ROW_ID, REFERENCED_FILE, CONTENT_OFFSET, CONTENT_SIZE = 16, 17, 18, 19
"""Positions of the fields that version 3 adds, which PyIceberg reads but does not name."""


def inherit_row_ids(entries: Iterable[ManifestEntry], manifest: ManifestFile) -> None:
    """Assigns files that have no row ids of their own the next ones of their manifest."""
    row_id = manifest[MANIFEST_FIRST_ROW_ID]
    if row_id is None or manifest.content != ManifestContent.DATA:
        return
    for entry in entries:
        file = entry.data_file
        if file[FILE_FIRST_ROW_ID] is None:
            file[FILE_FIRST_ROW_ID] = row_id
            row_id += file.record_count


def with_first_row_id(file: DataFile, row_id: int) -> DataFile:
    """Returns the file with its rows numbered from `row_id` on, unless they already are."""
    numbered = with_fields_of_version_3(file)
    if numbered[FILE_FIRST_ROW_ID] is None:
        numbered[FILE_FIRST_ROW_ID] = row_id
    return numbered


def with_fields_of_version_3(file: DataFile) -> DataFile:
    """Returns a copy of a file's entry with the fields of version 3, empty where it had none."""
    values = [file[position] for position in range(len(file))]
    values += [None] * (CONTENT_SIZE + 1 - len(values))
    found = DataFile(*values)
    found.spec_id = file.spec_id
    return found
