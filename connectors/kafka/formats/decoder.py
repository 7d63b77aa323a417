"""The one decoder: turns the bytes of the log into Arrow rows.

The hot read and the tiering pipeline run this same code, so a row cannot change when it is tiered.
What a record becomes depends on the record alone, never on the batch it arrives in, on the columns
a query uses, or on which of a format's code paths handled it. Only a record whose type a reader
does not need, and says so before it is decoded, is left out whatever it becomes. A bad record
follows the table's policy: `fail` stops with its partition, offset and reason; `null` gives a row
of nulls with the reason in `_kafka_error`; `skip` leaves it out and counts it. Under `null`, what
the log knows about the record is kept, and so is what comes from its key when only its value is
bad, or vice versa.

Rows of an upsert table also have a mark that says which of them are deletes. A record is one row,
unless it changes the key of a row: then it is also a delete, which comes before the row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from seamline.connectors.kafka.formats.all_formats import format_of
from seamline.connectors.kafka.formats.connect import part_reader
from seamline.connectors.kafka.formats.envelopes import ENVELOPES, rewritten
from seamline.connectors.kafka.formats.large import reasons as large_reasons
from seamline.connectors.kafka.formats.large import without_large
from seamline.connectors.kafka.formats.log_columns import (
    LogColumn,
    log_column,
    own_columns,
    raw_column,
)
from seamline.connectors.kafka.formats.parts import Leaf, Parts, Setting
from seamline.connectors.kafka.formats.schemas import NoRegistry, Schemas
from seamline.connectors.kafka.formats.spelling import Spelling
from seamline.connectors.kafka.formats.tombstones import Tombstones
from seamline.connectors.kafka.formats.watching import SchemaWatch
from seamline.connectors.protocols.raw_records import RawBatch, part_of
from seamline.errors import BAD_RECORD, SeamlineError
from seamline.seam.encoding import KEY, VALUE, Path, Source
from seamline.seam.records import DecoderSpec
from seamline.sql import columns as names
from seamline.sql.types import Field, Row, Varbinary, to_arrow


@dataclasses.dataclass(frozen=True, slots=True)
class Decoded:
    """Decoded rows, and how many records were left out.

    Attributes:
        rows: The rows.
        skipped: Bad records left out under the policy `skip`.
        of_other_types: Records that were not decoded, as their types are not needed.
    """

    rows: pa.RecordBatch
    skipped: int = 0
    of_other_types: int = 0


class Decoder:
    """Decodes batches of one table. Not shared between threads.

    Args:
        spec: How records become rows.
        schemas: Where the schemas of records are registered.

    Attributes:
        watch: Checks the schemas of records, if the spec says so.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION when the format is unknown or does not fit the
            columns.
    """

    def __init__(self, spec: DecoderSpec, schemas: Schemas | None = None) -> None:
        self.spec = spec
        self._schema = spec.arrow_schema
        encoding = spec.encoding
        self._needs_values = dict(encoding.options).get("tombstones") == "bad"
        self._tree = ColumnTree(spec)
        spelling = Spelling.of(dict(encoding.options).get("spellings", "")).of_every_part
        self._logged = {
            place: _log_column(spec.topic, field, source, spelling)
            for place, field, source in self._tree.logged
        }
        self.watch = SchemaWatch(spec) if spec.watch is not None else None
        settings = {
            part: Setting(
                part,
                schemas or NoRegistry(),
                spec.schema_of(part),
                dict(encoding.options),
                self.watch if part == VALUE else None,
                is_wrapped=bool(encoding.envelope),
            )
            for part in (VALUE, KEY)
        }
        values, keys = (self._tree.parts[part] for part in (VALUE, KEY))
        format_ = format_of(encoding.value, settings[VALUE])
        self._values = part_reader(format_, values)
        self._types_of = format_.types if spec.type_column is not None else None
        self._keys = part_reader(format_of(encoding.key, settings[KEY]), keys)
        self._envelope = ENVELOPES.get(encoding.envelope)
        self._tombstones = Tombstones(spec, values, settings) if spec.primary_key else None

    def decode(self, batch: RawBatch, batch_id: int | None = None) -> Decoded:
        """Returns the rows of a batch.

        Args:
            batch: Records as the log holds them.
            batch_id: Value of `_kafka_batch`, when the rows are being tiered.

        Raises:
            SeamlineError: BAD_RECORD under the policy `fail`; if schemas are watched,
                SCHEMA_NOT_EVOLVED and SCHEMA_INCOMPATIBLE.
        """
        needed = self._of_needed_types(batch)
        rows, bad = self.decode_all(needed, batch_id)
        if bad and self.spec.on_error == "fail":
            first = min(bad)
            partition, offset = int(needed.partitions[first]), int(needed.offsets[first])
            raise bad_record(self.spec.topic, partition, offset, bad[first])
        skipped = len(bad) if self.spec.on_error == "skip" else 0
        return Decoded(rows, skipped, len(batch) - len(needed))

    def types_of(self, batch: RawBatch) -> Sequence[str | None]:
        """Returns the name of each record's type, as far as it is known without decoding it."""
        if self._types_of is None:
            return [None] * len(batch)
        return self._types_of(batch.values, batch.headers)

    def _of_needed_types(self, batch: RawBatch) -> RawBatch:
        """Returns the records but for those whose types are known and not needed."""
        if self.spec.needed_types is None:
            return batch
        batch = without_large(batch)
        types = self.types_of(batch)
        is_needed = {name: self.spec.needs(name) for name in set(types)}
        return part_of(batch, [index for index, name in enumerate(types) if is_needed[name]])

    def decode_all(
        self, batch: RawBatch, batch_id: int | None = None
    ) -> tuple[pa.RecordBatch, Mapping[int, str]]:
        """Returns the rows of records that are not left out, and why bad ones (by index) are bad.

        A bad part of a record becomes nulls, with the reason in `_kafka_error`.
        """
        batch = without_large(batch)
        arrays, bad = self._decode_values(batch)
        if self._tree.parts[KEY]:
            keys: Parts = _listed(batch.keys)
            if self._envelope is not None:
                keys = rewritten(self._envelope, keys)
            key_arrays, key_bad = self._keys.decode(keys, batch.headers)
            arrays |= key_arrays
            bad |= {i: f"key: {reason}" for i, reason in key_bad.items() if i not in bad}
        for place, make in self._logged.items():
            arrays[place], reasons = make(batch)
            bad |= {i: reason for i, reason in reasons.items() if i not in bad}
        moved: Sequence[int] = ()
        former: Mapping[str, pa.Array] = {}
        bad |= large_reasons(batch)
        if self._tombstones is not None:
            self._tombstones.require_keys(arrays, bad)
            moved, former = self._tombstones.former(arrays, bad)
        arrays |= {(n,): array for n, array in own_columns(batch, bad, batch_id).items()}
        columns = [self._tree.assembled((c.name,), c, arrays) for c in self.spec.columns]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return self._told(rows, bad, moved, former), bad

    def _decode_values(self, batch: RawBatch) -> tuple[dict[Path, pa.Array], dict[int, str]]:
        """Returns the arrays of what comes from values, and why values are bad."""
        large = [index for index, sizes in batch.large.items() if VALUE in sizes]
        if large:
            return self._decode_around(batch, frozenset(large))
        if self._tombstones is not None:
            return self._tombstones.decode(_listed(batch.keys), batch.values, batch.headers)
        arrays, bad = self._values.decode(batch.values, batch.headers)
        if self._needs_values:
            without = [index for index, value in enumerate(batch.values) if value is None]
            bad = {**bad, **dict.fromkeys(without, _LEFT_OUT)}
        return arrays, bad

    def _decode_around(
        self, batch: RawBatch, large: Collection[int]
    ) -> tuple[dict[Path, pa.Array], dict[int, str]]:
        """Decodes the values of a batch but for those that are not in it, which become nulls."""
        small = [index for index in range(len(batch)) if index not in large]
        arrays, bad = self._decode_values(part_of(batch, small))
        slots: list[int | None] = [None] * len(batch)
        for slot, index in enumerate(small):
            slots[index] = slot
        order = pa.array(slots, pa.int64())
        arrays = {column: array.take(order) for column, array in arrays.items()}
        if self._tombstones is not None:  # no mark would say that it is about no row
            is_large = pa.array([slot is None for slot in slots], pa.bool_())
            arrays[names.DELETED,] = pc.if_else(is_large, False, arrays[names.DELETED,])
        return arrays, {small[index]: reason for index, reason in bad.items()}

    def _told(
        self,
        rows: pa.RecordBatch,
        bad: Mapping[int, str],
        moved: Sequence[int],
        former: Mapping[str, pa.Array],
    ) -> pa.RecordBatch:
        """Returns the rows, one per record, without those left out, plus deletes of former keys."""
        gone = bad if self.spec.on_error == "skip" else {}
        if not gone and not moved:
            return rows
        places = [(index, 1, index) for index in range(rows.num_rows) if index not in gone]
        if moved:
            ends = self._ends(rows.take(pa.array(moved, pa.int64())), former)
            places += [(i, 0, rows.num_rows + n) for n, i in enumerate(moved)]
            rows = pa.concat_batches([rows, ends])
        return rows.take(pa.array([place for _, _, place in sorted(places)], pa.int64()))

    def _ends(self, rows: pa.RecordBatch, former: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Returns deletes of former keys, from their records' rows; keeps what the log knows."""
        columns = {place[0] for place in self._logged if len(place) == 1} | names.METADATA_NAMES
        arrays = [
            former.get(name, rows.column(name) if name in columns else pa.nulls(len(rows), type_))
            for name, type_ in zip(self._schema.names, self._schema.types, strict=True)
        ]
        arrays[self._schema.names.index(names.DELETED)] = pa.repeat(pa.scalar(True), len(rows))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


_LEFT_OUT = "it has no value, and the table's writer omits such records"


class ColumnTree:
    """The columns of a table, down to the fields that have their own source.

    Args:
        spec: How records become rows.

    Attributes:
        parts: What is decoded from values, and from keys.
        logged: What the log knows: its place in the table, its column, and its source.
    """

    def __init__(self, spec: DecoderSpec) -> None:
        columns = [column for column in spec.columns if column.name != names.DELETED]
        self._encoding = encoding = spec.encoding
        self.parts: dict[str, list[Leaf]] = {VALUE: [], KEY: []}
        self.logged: list[tuple[Path, Field, Source]] = []
        for column in columns:
            if encoding.source_of((column.name,)) or column.name not in names.METADATA_NAMES:
                self._add((column.name,), column)

    def _add(self, place: Path, field: Field) -> None:
        source = self._encoding.source_of(place)
        if source is None and isinstance(field.type, Row) and self._is_composed(place):
            for inner in field.type.fields:
                self._add((*place, inner.name), inner)
        elif source is None:
            self.parts[VALUE].append(Leaf(place, place, field, by_name=True))
        elif source.part in self.parts and not _is_raw(field, source):
            self.parts[source.part].append(Leaf(place, source.path, field, by_name=False))
        else:
            self.logged.append((place, field, source))

    def _is_composed(self, place: Path) -> bool:
        return any(entry.column[: len(place)] == place for entry in self._encoding.sources)

    def assembled(self, place: Path, field: Field, arrays: Mapping[Path, pa.Array]) -> pa.Array:
        """Returns the array of a column, or of a field inside it."""
        if place in arrays:
            return arrays[place]
        assert isinstance(field.type, Row)
        inner = [self.assembled((*place, f.name), f, arrays) for f in field.type.fields]
        return pa.StructArray.from_arrays(inner, fields=list(to_arrow(field.type)))


def _is_raw(field: Field, source: Source) -> bool:
    """Whether a column holds the bytes of a key or a value, whatever their format."""
    return isinstance(field.type, Varbinary) and not source.path


def _log_column(topic: str, field: Field, source: Source, spelling: Spelling) -> LogColumn:
    if source.part in (KEY, VALUE):
        return raw_column(f"{source.part}s")
    return log_column(topic, field, source, spelling)


def _listed(parts: Sequence[bytes | None] | pa.Array) -> Sequence[bytes | None]:
    return parts.to_pylist() if isinstance(parts, pa.Array) else parts


def bad_record(topic: str, partition: int, offset: int, reason: str) -> SeamlineError:
    """Returns the error for a bad record under the policy `fail`."""
    return SeamlineError(
        BAD_RECORD,
        f"record at topic {topic}, partition {partition}, offset {offset}: {reason}",
        details={"topic": topic, "partition": partition, "offset": offset},
    )
