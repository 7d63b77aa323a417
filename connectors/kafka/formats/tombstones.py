"""Records of an upsert table: the newest state of a key, or its end.

A record with a value is a row, as in any table, unless its envelope says that the row is deleted. A
tombstone is also a delete: a record without a value, or with JSON's word null, or one that a field
of its value marks. A mark says which rows are deletes. Of a delete, only the columns of the primary
key are read, from the record's key if its value lacks them. A record whose key is unknown, or null
in one of its columns, is bad. A record that changes the key of a row is two rows: a delete of the
former key, and the row of the new one. A truncate is a delete without a key; a record that says
nothing about any row has neither key nor mark.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from seamline.connectors.kafka.formats.all_formats import JSON, format_of
from seamline.connectors.kafka.formats.connect import part_reader, without_nulls
from seamline.connectors.kafka.formats.envelopes import (
    ENVELOPES,
    OLD,
    TRUNCATE,
    EnvelopeReader,
    rewritten,
)
from seamline.connectors.kafka.formats.marked import marked_values
from seamline.connectors.kafka.formats.parts import (
    AllHeaders,
    Bad,
    Leaf,
    Parts,
    Setting,
    nulled,
)
from seamline.errors import UPSERT_ORDER_UNKNOWN, SeamlineError
from seamline.seam.encoding import KEY, VALUE, Path, parse
from seamline.seam.records import DecoderSpec
from seamline.sql import types
from seamline.sql.columns import DELETED

KEY_TYPES = (*types.INTEGERS, types.VARCHAR, types.BOOLEAN, types.DATE, types.UUID, types.VARBINARY)
"""Types whose equal values are the same value on every engine, and that key formats have."""


class Tombstones:
    """Reads the values of one upsert table's records, and the keys of deletes.

    Args:
        spec: How records become rows.
        leaves: What comes from values.
        settings: What the formats of values and keys need to know besides columns.
    """

    def __init__(
        self, spec: DecoderSpec, leaves: Sequence[Leaf], settings: Mapping[str, Setting]
    ) -> None:
        self._spec = spec
        self._primary_key = spec.primary_key
        format_ = format_of(spec.encoding.value, settings[VALUE])
        self._values = (
            EnvelopeReader(spec, format_, leaves)
            if spec.encoding.envelope
            else part_reader(format_, leaves)
        )
        self._marked = marked_values(spec.encoding, settings[VALUE])
        encoding = parse(spec.key_encoding)
        sources = {entry.column: entry.source for entry in encoding.sources}
        of_key = [
            Leaf(
                (column.name,),
                sources[column.name,].path,
                dataclasses.replace(column, required=False, write_default=None),
                by_name=False,
            )
            for column in spec.key_columns
        ]
        self._keys = part_reader(format_of(encoding.key, settings[KEY]), of_key)

    def decode(
        self, keys: Parts, values: Parts, headers: AllHeaders = ()
    ) -> tuple[dict[Path, pa.Array], dict[int, str]]:
        """Returns arrays of what comes from values, the marks, and why records (by index) are bad.

        A mark is null if a record says nothing about any row. See `former` for what is `OLD`.
        """
        if self._spec.encoding.value in JSON:
            values = without_nulls(values)
        unclear: Bad = {}
        if self._marked is not None:
            values, unclear = self._marked.without_deletes(values, headers)
        given = [index for index, value in enumerate(values) if value is not None]
        arrays, found = self._values.decode(
            [values[index] for index in given], _chosen(headers, given)
        )
        arrays.setdefault((DELETED,), pa.repeat(pa.scalar(False), len(given)))
        bad = {**unclear, **{given[index]: reason for index, reason in found.items()}}
        if len(given) < len(values):
            slots: list[int | None] = [None] * len(values)
            for slot, index in enumerate(given):
                slots[index] = slot
            order = pa.array(slots, pa.int64())
            arrays = {column: array.take(order) for column, array in arrays.items()}
            is_tombstone = pa.array([value is None for value in values], pa.bool_())
            arrays[DELETED,] = pc.if_else(is_tombstone, True, arrays[DELETED,])
        self._add_keys(arrays, bad, keys, headers)
        return arrays, bad

    def _add_keys(
        self,
        arrays: dict[Path, pa.Array],
        bad: dict[int, str],
        keys: Parts,
        headers: AllHeaders,
    ) -> None:
        """Puts the columns of the primary key into deletes whose values do not have them."""
        own = [(name,) for name in self._primary_key if (name,) in arrays]
        lacks = pc.fill_null(arrays[DELETED,], False)
        unknown = pa.repeat(pa.scalar(False), len(keys))
        for column in own:
            unknown = pc.or_(unknown, arrays[column].is_null())
        lacks = pc.and_(lacks, unknown)
        gone = [index for index in pc.indices_nonzero(lacks).to_pylist() if index not in bad]
        if not gone:
            return
        mask = _mask(gone, len(keys))
        of_gone: Parts = [keys[index] for index in gone]
        if self._spec.encoding.envelope:
            of_gone = rewritten(ENVELOPES[self._spec.encoding.envelope], of_gone)
        of_keys, reasons = self._keys.decode(of_gone, _chosen(headers, gone))
        bad |= {gone[index]: f"key: {reason}" for index, reason in reasons.items()}
        for column in own:
            arrays[column] = pc.replace_with_mask(arrays[column], mask, of_keys[column])

    def require_keys(self, arrays: dict[Path, pa.Array], bad: dict[int, str]) -> None:
        """Marks records without a key as bad, except those that describe no row and truncates.

        These have no key whatever they say, and a truncate is a delete. Nothing else of them is
        needed, so they are not bad either.
        """
        marks = arrays[DELETED,]
        silent = pc.indices_nonzero(marks.is_null()).to_pylist()
        for index in silent:
            bad.pop(index, None)
        truncates = arrays.pop((TRUNCATE,), None)
        if truncates is not None:
            arrays[DELETED,] = pc.if_else(pc.fill_null(truncates, False), True, marks)
        for name in self._primary_key:
            if silent:
                arrays[name,] = nulled(arrays[name,], silent)
            if arrays[name,].null_count:
                missing = set(pc.indices_nonzero(arrays[name,].is_null()).to_pylist())
                for index in sorted(missing.difference(silent)):
                    bad.setdefault(index, f"{name}: null, but it is part of the primary key")

    def former(
        self, arrays: dict[Path, pa.Array], bad: Collection[int]
    ) -> tuple[list[int], dict[str, pa.Array]]:
        """Returns which records change the key of a row, and the columns of their former keys.

        Args:
            arrays: The columns; what is `OLD` is removed from them.
            bad: Records to leave out.

        Raises:
            SeamlineError: UPSERT_ORDER_UNKNOWN when the former key belongs in another partition.
        """
        old = {name: arrays.pop((OLD, name), None) for name in self._primary_key}
        moved: set[int] = set()
        for name, array in old.items():
            if array is not None and array.null_count < len(array):
                is_other = pc.fill_null(pc.not_equal(array, arrays[name,]), False)
                moved.update(pc.indices_nonzero(is_other).to_pylist())
        places = sorted(moved.difference(bad))
        if not places:
            return [], {}
        if self._spec.keys_are_placed:
            raise SeamlineError(
                UPSERT_ORDER_UNKNOWN,
                f"topic {self._spec.topic} has an update of a primary key, and its former row is "
                "where key_partitioner puts the former key",
                hint="Create the table without key_partitioner.",
            )
        taken = pa.array(places, pa.int64())
        return places, {
            name: pc.coalesce(array.take(taken), arrays[name,].take(taken))
            for name, array in old.items()
        }


def _mask(indices: Sequence[int], count: int) -> pa.Array:
    chosen = frozenset(indices)
    return pa.array([index in chosen for index in range(count)], pa.bool_())


def _chosen(headers: AllHeaders, indices: Sequence[int]) -> AllHeaders:
    return [headers[index] for index in indices] if headers else ()
