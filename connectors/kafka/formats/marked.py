"""Deletes that a field of the value marks: the property `deleted_by` of upsert tables.

Such a record says nothing else: its other fields are not read, and its key is in the record's key,
like that of any tombstone. The field may be a boolean, its text as Debezium writes it, or 0 and 1.
If it is null or missing, the record is a row.
"""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pyarrow.compute as pc

from seamline.connectors.kafka.formats.all_formats import format_of
from seamline.connectors.kafka.formats.connect import part_reader
from seamline.connectors.kafka.formats.json_values import WORD
from seamline.connectors.kafka.formats.parts import AllHeaders, Bad, Leaf, Parts, Setting
from seamline.seam.encoding import DeleteMark, Encoding
from seamline.sql.types import Field

_TRUE, _FALSE = pa.array(["true", "1"]), pa.array(["false", "0"])


def marked_values(encoding: Encoding, setting: Setting) -> MarkedValues | None:
    """Returns what finds the deletes among values; None if no field marks them.

    Args:
        encoding: How records are encoded.
        setting: What the format of values needs to know; nothing watches schemas here.
    """
    mark = encoding.delete_mark
    if mark is None:
        return None
    return MarkedValues(encoding.value, mark, dataclasses.replace(setting, watch=None))


class MarkedValues:
    """Finds the values that a field of theirs marks as deleted.

    Args:
        format_: The format of the values.
        mark: The field.
        setting: What the format needs to know.
    """

    def __init__(self, format_: str, mark: DeleteMark, setting: Setting) -> None:
        self._mark = mark
        leaf = Leaf(mark.path, mark.path, Field(mark.path[-1], WORD), by_name=False)
        self._reader = part_reader(format_of(format_, setting), [leaf])

    def without_deletes(self, values: Parts, headers: AllHeaders = ()) -> tuple[Parts, Bad]:
        """Returns the values, None for a delete, and why values (by index) have no clear mark."""
        arrays, bad = self._reader.decode(values, headers)
        words = arrays[self._mark.path]
        if self._mark.word is not None:
            is_delete = pc.equal(words, self._mark.word)
        else:
            lower = pc.utf8_lower(words)
            is_delete = pc.is_in(lower, _TRUE)
            is_clear = pc.or_(is_delete, pc.or_(words.is_null(), pc.is_in(lower, _FALSE)))
            for index in pc.indices_nonzero(pc.invert(is_clear)).to_pylist():
                mark = words[index].as_py()[:40]
                bad[index] = f"{'.'.join(self._mark.path)}: {mark!r} is not true or false"
        deletes = frozenset(pc.indices_nonzero(pc.fill_null(is_delete, False)).to_pylist())
        if not deletes:
            return values, bad
        return [None if i in deletes else value for i, value in enumerate(values)], bad
