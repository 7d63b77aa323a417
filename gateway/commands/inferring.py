"""Examines a topic before a table is created over it: its columns, and records that misfit them.

Records misfit columns if they are bad, or if none of them has what a column is to hold: then its
name is probably misspelt, and the column would be null for ever.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from seamline.connectors.kafka.formats import infer_schema
from seamline.connectors.kafka.formats.all_formats import JSON
from seamline.connectors.kafka.formats.connect import newest_schema
from seamline.connectors.kafka.formats.decoder import ColumnTree, Decoder
from seamline.connectors.kafka.formats.envelopes import ENVELOPES, rows_of
from seamline.connectors.kafka.formats.fit import misfits, share_of
from seamline.connectors.kafka.formats.framed import unframed
from seamline.connectors.kafka.formats.infer import Inferred, infer_json, sourced_columns
from seamline.connectors.kafka.formats.keys import Keys, Unmet, unmet
from seamline.connectors.kafka.formats.parts import Setting
from seamline.connectors.kafka.formats.schemas import Schemas
from seamline.connectors.kafka.formats.spelling import Spelling
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.connectors.protocols.raw_records import Headers, RawBatch
from seamline.errors import INFERENCE_FAILED, SeamlineError
from seamline.seam.encoding import HEADER, KEY, VALUE, DeleteMark, Encoding, Path
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange
from seamline.seam.records import DecoderSpec
from seamline.sql import columns
from seamline.sql.types import BOOLEAN, VARCHAR, Field, Row, Type

if TYPE_CHECKING:
    from seamline.gateway.commands.tables import TableDefinition

SAMPLE_RECORDS = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """The newest records of a topic."""

    batches: tuple[RawBatch, ...]

    @property
    def values(self) -> list[bytes | None]:
        """Their values."""
        return [value for batch in self.batches for value in batch.values]

    @property
    def keys(self) -> list[bytes | None]:
        """Their keys."""
        return [key for batch in self.batches for key in batch.keys]

    @property
    def headers(self) -> list[Headers | None]:
        """Their headers."""
        return [headers for batch in self.batches for headers in batch.headers]


def sample(log: HotLog, topic: str, bounds: LogBounds, deadline: Deadline) -> Sample:
    """Returns the newest records of every partition of a topic."""
    share = max(1, SAMPLE_RECORDS // max(1, len(bounds.end)))
    ranges = [
        OffsetRange(partition, max(bounds.start.get(partition, 0), end - share), end)
        for partition, end in bounds.end.items()
    ]
    return Sample(tuple(log.read(topic, ranges, bounds.isolation, deadline)))


def inferred(
    definition: TableDefinition, encoding: Encoding, seen: Sample, schemas: Schemas
) -> Inferred:
    """Returns the columns of a topic's records.

    Raises:
        SeamlineError: INFERENCE_FAILED, SCHEMA_REGISTRY_UNAVAILABLE.
    """
    of_values = _of_values(definition, seen, schemas)
    of_key = _KeyTypes(definition, seen, schemas)
    sourced = tuple(sourced_columns(encoding, of_values.columns, of_key))
    return dataclasses.replace(of_values, columns=(*sourced, *of_values.columns))


DEBEZIUMS_MARK = "__deleted"
"""The field that Debezium's ExtractNewRecordState adds when it is told to rewrite deletes."""


def marked(definition: TableDefinition, columns_: Inferred) -> tuple[TableDefinition, Inferred]:
    """Returns an upsert table's definition with the mark of deletes, which then is not a column."""
    if definition.mode != "upsert":
        return definition, columns_
    by_name = {column.name: column.type for column in columns_.columns}
    if definition.deleted_by is None and by_name.get(DEBEZIUMS_MARK) in (VARCHAR, BOOLEAN):
        definition = dataclasses.replace(definition, deleted_by=DEBEZIUMS_MARK)
        note = f"{DEBEZIUMS_MARK}: a record in which it is true deletes its key (deleted_by)"
        columns_ = dataclasses.replace(columns_, notes=(*columns_.notes, note))
    mark = DeleteMark.parse(definition.deleted_by) if definition.deleted_by else None
    if mark is None or mark.word is not None:
        return definition, columns_
    rest = tuple(column for column in columns_.columns if (column.name,) != mark.path)
    return definition, dataclasses.replace(columns_, columns=rest)


def _of_values(definition: TableDefinition, seen: Sample, schemas: Schemas) -> Inferred:
    envelope = ENVELOPES.get(definition.envelope)
    if definition.format in JSON:
        values = unframed(seen.values)
        beside = newest_schema(values)
        if beside is not None and (envelope is not None or beside.kind == "record"):
            described = infer_schema.Found(beside, "the schema beside the newest value")
            return _of_schema(described.at(envelope.row_path if envelope is not None else ()))
        spelling = Spelling.of(",".join(definition.spellings))
        of_json = infer_json(rows_of(definition.envelope, values) if envelope else values, spelling)
        source = f"{len(values)} records" + (f" in {definition.envelope}" if envelope else "")
        return dataclasses.replace(of_json, source=source)
    if definition.format not in infer_schema.KINDS:
        raise SeamlineError(
            INFERENCE_FAILED,
            f"columns of format {definition.format} cannot be inferred",
            hint="State the columns with --schema.",
        )
    options = {"spellings": ",".join(definition.spellings)}
    setting = Setting(VALUE, schemas, definition.schemas.get(VALUE), options)
    schema = infer_schema.find(
        setting, definition.format, definition.topic, seen.values, seen.headers
    )
    if envelope is not None:
        schema = schema.at(envelope.row_path)
    return _of_schema(schema)


def _of_schema(schema: infer_schema.Found) -> Inferred:
    if not schema.columns:
        raise SeamlineError(
            INFERENCE_FAILED,
            f"{schema.source} has no fields that can be columns",
            hint="State the columns, and their sources with columns_from.",
        )
    left_out = (
        f"{name}: no column type can hold what the schema has there" for name in schema.left_out
    )
    rows = (
        f"{name}: decimals of any scale, which become rows; state decimal(38, s) to get numbers"
        for name in schema.of_any_scale
    )
    notes = (*schema.notes, *left_out, *rows)
    return Inferred(schema.columns, 0, 0, (), schema.source, notes, schema.is_mixed)


class _KeyTypes:
    """The types of columns that come from keys, where the keys have a schema or are JSON."""

    def __init__(self, definition: TableDefinition, seen: Sample, schemas: Schemas) -> None:
        self._definition = definition
        self._seen = seen
        self._schemas = schemas

    def __call__(self, path: Path) -> Type | None:
        """Returns the type of a column for the value at a path; None when it is unknown."""
        definition, seen = self._definition, self._seen
        if definition.key_format in infer_schema.KINDS:
            setting = Setting(KEY, self._schemas, definition.schemas.get(KEY))
            schema = infer_schema.find(
                setting, definition.key_format, definition.topic, seen.keys, seen.headers
            )
            return schema.at(path).type
        if definition.key_format not in JSON:
            return None
        beside = newest_schema(unframed(seen.keys))
        if beside is not None:
            return infer_schema.Found(beside, "the schema beside the newest key").at(path).type
        if len(path) != 1:
            return None
        try:
            of_keys = infer_json(unframed(seen.keys)).columns
        except SeamlineError:
            return None
        return next((column.type for column in of_keys if column.name == path[0]), None)


def notes(
    definition: TableDefinition,
    spec: DecoderSpec,
    seen: Sample,
    columns_: Inferred | None,
    schemas: Schemas,
) -> Iterator[str]:
    """Yields what users should know about a table and the newest records of its topic.

    Args:
        definition: The table.
        spec: How records are decoded to rows.
        seen: The records.
        columns_: What was inferred from them; None when the columns were given.
        schemas: Looks up their schemas.
    """
    if columns_ is not None:
        yield from columns_.notes
    for name in columns_.unknown if columns_ is not None else ():
        yield (
            f"{name}: null in every sampled record, and so varchar, which holds neither "
            "numbers nor objects. State the columns if the type should be another."
        )
    is_unmarked = definition.mode == "upsert" and definition.deleted_by is None
    if is_unmarked and definition.format in JSON and any(map(_has_mark, seen.values)):
        yield (
            f"{DEBEZIUMS_MARK}: the newest records have it, and one in which it is true "
            f"is still a row; deleted_by = '{DEBEZIUMS_MARK}' makes it a delete"
        )
    yield from sample_notes(spec, seen, schemas, is_inferred=columns_ is not None)


def sample_notes(
    spec: DecoderSpec,
    seen: Sample,
    schemas: Schemas,
    *,
    is_inferred: bool = False,
    only: Field | None = None,
) -> Iterator[str]:
    """Yields where the newest records of a topic do not fit columns, and what would.

    Args:
        spec: How records are decoded to rows.
        seen: The records.
        schemas: Looks up their schemas.
        is_inferred: Whether the columns that have no stated source were inferred from the records.
        only: The only column in question, with only those of its fields that are; all by default.
    """
    yield from absent_notes(spec, seen, schemas, is_inferred=is_inferred, only=only)
    encoding = spec.encoding
    values = unframed(seen.values)
    is_plain = encoding.value in JSON and not dict(encoding.options).get("spellings")
    notes_: list[str] = []
    if is_plain and newest_schema(values) is None:
        if encoding.envelope in ENVELOPES:
            values = rows_of(encoding.envelope, values)
        if spec.primary_key:
            values = [value for value in values if not _is_tombstone(value)]
        by_name = [
            column
            for column in (spec.columns if only is None else (only,))
            if column.name not in (*columns.METADATA_NAMES, columns.DELETED)
            and not encoding.names(column.name)
        ]
        notes_ = misfits(by_name, values, spec.on_error)
        yield from notes_
    if notes_ or only is not None:
        return
    try:
        bad, count = _bad(Decoder(spec, schemas), seen)
    except SeamlineError as error:
        yield f"the newest records cannot be read: {error.message}"
    else:
        if bad:
            yield share_of(bad, count, spec.on_error)


_NOTES_MAX = 20
"""How many columns that no record has are named."""


def absent_notes(
    spec: DecoderSpec,
    seen: Sample,
    schemas: Schemas,
    *,
    is_inferred: bool = False,
    only: Field | None = None,
) -> Iterator[str]:
    """Yields which columns none of the newest records has a value for; see `sample_notes`."""
    every = _absent(spec, seen, schemas, is_inferred=is_inferred, only=only)
    for absent, part, of in itertools.islice(every, _NOTES_MAX):
        yield absent.note(part, of)
    rest = sum(1 for _ in every)
    if rest:
        yield f"{rest} further columns are in no sampled record either, and so are null"


def _absent(
    spec: DecoderSpec, seen: Sample, schemas: Schemas, *, is_inferred: bool, only: Field | None
) -> Iterator[tuple[Unmet, str, str]]:
    """Yields what is absent, its part, and what lacks it, for `Unmet.note`."""
    tree = ColumnTree(spec)
    spelling = Spelling.of(dict(spec.encoding.options).get("spellings", ""))
    for part, parts in ((VALUE, seen.values), (KEY, seen.keys)):
        keys, of = _keys(spec, part, parts, seen, schemas)
        leaves = [leaf for leaf in tree.parts[part] if not (is_inferred and leaf.by_name)]
        envelope = ENVELOPES.get(spec.encoding.envelope)
        if envelope is not None:
            row, has_rows = envelope.row_path, bool(keys.at(envelope.row_path))
            leaves = [
                dataclasses.replace(leaf, path=(*row, *leaf.path)) if leaf.by_name else leaf
                for leaf in leaves
                if has_rows or not leaf.by_name
            ]
        for leaf, absent in unmet(leaves, keys, spelling) if keys else ():
            if only is None or _is_in(only, absent.column):
                yield absent, "" if leaf.by_name else part, of
    met = Keys()
    met.add({name.partition("\0")[0]: None for entry in seen.headers for name, _ in entry or ()})
    for path, _, source in tree.logged:
        if source.part == HEADER and seen.keys and source.path[0] not in met and only is None:
            yield Unmet(path, source.path, met), HEADER, f"none of {len(seen.keys)} records"


def _is_in(column: Field, path: Path) -> bool:
    """Whether a path leads to a column, or into it, through the only fields that it has."""
    if column.name != path[0] or len(path) == 1:
        return column.name == path[0]
    inner = column.type.fields if isinstance(column.type, Row) else ()
    return not inner or any(_is_in(field, path[1:]) for field in inner)


def _keys(
    spec: DecoderSpec, part: str, parts: list[bytes | None], seen: Sample, schemas: Schemas
) -> tuple[Keys, str]:
    """Returns what the keys or the values of records have, and what has it, for notes."""
    format_ = spec.encoding.value if part == VALUE else spec.encoding.key
    if format_ in JSON:
        count = sum(value is not None for value in parts)
        return Keys.of_json(unframed(parts)).unwrapped, f"none of {count} sampled records"
    if format_ in infer_schema.KINDS:
        setting = Setting(part, schemas, spec.schema_of(part))
        nodes = infer_schema.every(setting, format_, spec.topic, parts, seen.headers)
        return Keys.of_schemas(nodes), "no schema of the newest records"
    return Keys(), ""


def _has_mark(value: bytes | None) -> bool:
    return value is not None and f'"{DEBEZIUMS_MARK}"'.encode() in value


def _is_tombstone(value: bytes | None) -> bool:
    return value is None or value.strip() == b"null"


def _bad(decoder: Decoder, seen: Sample) -> tuple[dict[int, str], int]:
    """Returns why records are bad, by their index, and the number of all records."""
    bad: dict[int, str] = {}
    count = 0
    for batch in seen.batches:
        bad |= {count + index: reason for index, reason in decoder.decode_all(batch)[1].items()}
        count += len(batch)
    return bad, count
