"""Turns rows into records: values and keys as the table's own decoder and pruning read them.

Every batch is decoded again before it is sent. A row that would not come back the same is refused,
so that no statement writes a record that its table cannot read.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from seamline.connectors.kafka.formats.all_formats import JSON, format_of
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.infer_schema import KINDS
from seamline.connectors.kafka.formats.parts import Leaf, Setting, grouped
from seamline.connectors.kafka.formats.placing import PlacedKeys
from seamline.connectors.kafka.formats.schema_writing import Described, described, part_writer
from seamline.connectors.kafka.formats.schemas import NoRegistry, Schemas
from seamline.connectors.protocols.raw_records import NewRecord, RawBatch
from seamline.errors import INVALID_ARGUMENT, NOT_SUPPORTED, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.encoding import HEADER, KEY, LOG_PARTS, VALUE, Encoding, Path, Source
from seamline.seam.records import DecoderSpec
from seamline.sql import types
from seamline.sql.columns import DELETED
from seamline.sql.kernels.floating import not_finite
from seamline.sql.types import Array, Decimal, Field, Map, Row, Type, Varbinary

KeyBytes: TypeAlias = Callable[[Any, str], bytes | None]
"""Returns the record key for a value of the key column; None if it is not known."""
_Cells: TypeAlias = Sequence[Any]
_Maker: TypeAlias = Callable[[_Cells], bytes | None]


class RecordWriter:
    """Makes records from rows of one table.

    Args:
        binding: The topic.
        fields: The columns that come from what a producer writes.
        key_bytes: How keys are written.
        schemas: Where the schemas of records are registered.

    Raises:
        SeamlineError: NOT_SUPPORTED when records cannot be made from such columns;
            SCHEMA_REGISTRY_UNAVAILABLE, DEADLINE_EXCEEDED.
    """

    def __init__(
        self,
        binding: TopicBinding,
        fields: tuple[Field, ...],
        key_bytes: KeyBytes,
        schemas: Schemas | None = None,
    ) -> None:
        encoding = binding.encoding
        self._fields = fields
        self._deletes = binding.is_upsert
        sources = [_source_of(field, encoding) for field in fields]
        self._placed = PlacedKeys.of(binding, fields, sources)
        value, key = (
            _Part(name, format_, binding, key_bytes, schemas or NoRegistry())
            for name, format_ in ((VALUE, binding.format), (KEY, binding.key_format))
        )
        self._value = value.maker(fields, sources)
        self._schema_headers = value.headers
        self._key = key.maker(fields, sources)
        if self._key is None and binding.key is not None:
            repeated = binding.key.lower()
            place = next(n for n, f in enumerate(fields) if f.name.lower() == repeated)
            self._key = key.whole(place, fields[place])
        self._binding = binding
        self._schemas = schemas
        texts = DecoderSpec.of(binding, fields).texts
        self._decoder = Decoder(
            DecoderSpec(binding.topic, str(encoding), "fail", fields, texts=texts), schemas
        )
        self._empty = b"{}" if binding.format in JSON else b""
        self._headers = [
            (place, source.path[0]) for place, source in enumerate(sources) if source.part == HEADER
        ]

    def records(self, rows: pa.Table) -> list[NewRecord]:
        """Returns the record of each row; the columns are those of the table, in order.

        Raises:
            SeamlineError: INVALID_ARGUMENT for a row that would be read back as something else.
        """
        columns = [column.to_pylist() for column in rows.columns]
        try:
            made = [self._record(row) for row in zip(*columns, strict=True)]
        except ValueError as error:
            raise _not_written(str(error)) from error
        self._require_values(made)
        if self._placed is not None:
            self._placed.check(columns, made)
        self._require_same(columns, made)
        return made

    def deletes(self, rows: pa.Table) -> list[NewRecord]:
        """Returns the record that deletes the key of each row of an upsert table.

        Raises:
            SeamlineError: INVALID_ARGUMENT for a key that would be read back as another one.
        """
        assert self._deletes
        assert self._key is not None
        columns = [column.to_pylist() for column in rows.columns]
        try:
            made = [NewRecord(self._key(row), None, []) for row in zip(*columns, strict=True)]
        except ValueError as error:
            raise _not_written(str(error)) from error
        if self._placed is not None:
            self._placed.check(columns, made)
        self._require_deletes(columns, made)
        return made

    @functools.cached_property
    def _decoder_of_deletes(self) -> Decoder:
        """Reads records as the table does, for which a record without a value is a delete."""
        spec = DecoderSpec.of(self._binding, self._fields, on_error="fail")
        return Decoder(spec, self._schemas)

    def _require_deletes(self, columns: Sequence[list[Any]], records: Sequence[NewRecord]) -> None:
        """Requires that each record is read as a delete of the key that it should delete."""
        read = self._read_back(records, self._decoder_of_deletes)
        names = [field.name for field in self._fields]
        keys = self._binding.primary_key
        same = all(read.column(n).to_pylist() == columns[names.index(n)] for n in keys)
        if not (same and all(read.column(DELETED).to_pylist())):
            raise SeamlineError(
                INVALID_ARGUMENT,
                "a key cannot be deleted: a record without a value would be read as another key",
                hint="Produce a record without a value to the topic.",
            )

    def _require_values(self, records: Sequence[NewRecord]) -> None:
        """Requires that no row becomes a record that deletes its key."""
        if self._deletes and any(record.value is None for record in records):
            raise SeamlineError(
                INVALID_ARGUMENT,
                "a row cannot be written as a record: its whole value is null, and in an upsert "
                "table a record without a value deletes its key",
                hint="Write a value; to delete the key, produce a record without a value.",
            )

    def _record(self, row: _Cells) -> NewRecord:
        value = self._empty if self._value is None else self._value(row)
        return NewRecord(
            None if self._key is None else self._key(row),
            value,
            [
                *(
                    (name, _header(row[place]))
                    for place, name in self._headers
                    if row[place] is not None
                ),
                *(self._schema_headers if value is not None else ()),
            ],
        )

    def _require_same(self, columns: Sequence[list[Any]], records: Sequence[NewRecord]) -> None:
        read = self._read_back(records, self._decoder)
        for field, array, column in zip(self._fields, read.columns, columns, strict=True):
            values = array.to_pylist()
            if values != column and repr(values) != repr(column):  # NaN equals nothing
                raise SeamlineError(
                    INVALID_ARGUMENT,
                    f"a value of column {field.name} would be read back as something else",
                    hint="Records hold what their schema allows, which is less than the column.",
                )

    @staticmethod
    def _read_back(records: Sequence[NewRecord], decoder: Decoder) -> pa.RecordBatch:
        """Returns the rows that records are read as."""
        nothing = [0] * len(records)
        keys = [record.key for record in records]
        values = [record.value for record in records]
        headers = [record.headers for record in records]
        read, bad = decoder.decode_all(RawBatch(nothing, nothing, nothing, keys, values, headers))
        for reason in bad.values():
            raise _not_written(reason)
        return read


# --- Which columns make which part ---------------------------------------------------------------


def is_written(field: Field, encoding: Encoding) -> bool:
    """Whether a column comes from what a producer writes, rather than from the log."""
    source = encoding.source_of((field.name,))
    return source is None or source.part not in LOG_PARTS


def _source_of(field: Field, encoding: Encoding) -> Source:
    if any(entry.column[0] == field.name and entry.column[1:] for entry in encoding.sources):
        raise _not_made(f"column {field.name}, whose fields come from several parts of it")
    return encoding.source_of((field.name,)) or Source(VALUE, (field.name,))


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """How keys or values are made.

    Attributes:
        name: Which of the two.
        format: Their format.
        binding: The topic.
        key_bytes: How keys that need no schema are written.
        schemas: Where schemas are registered.
        headers: The headers beside them that name their schema, once their maker is there.
    """

    name: str
    format: str
    binding: TopicBinding
    key_bytes: KeyBytes
    schemas: Schemas
    headers: list[tuple[str, bytes | None]] = dataclasses.field(default_factory=list)

    def maker(self, fields: Sequence[Field], sources: Sequence[Source]) -> _Maker | None:
        """Returns a function that makes them from rows, or None if no column is in them."""
        places = [place for place, source in enumerate(sources) if source.part == self.name]
        if not places:
            return None
        first = places[0]
        has_fields = format_of(self.format).fields is not None
        if len(places) == 1 and not (has_fields and sources[first].path):
            return self.whole(first, fields[first])
        if self.format in KINDS:
            return self._with_schema({place: sources[place].path for place in places}, fields)
        tree: dict[str, Any] = {}
        paths = [sources[place].path for place in places]
        if self.format not in JSON or not all(map(functools.partial(_insert, tree), paths, places)):
            raise self._unfit([fields[place] for place in places])
        converters = [_converter(field.type) for field in fields]
        said = self._described()
        kept = frozenset(
            place
            for place in places
            if fields[place].write_default is not None
            or (said is not None and sources[place].path[0] in said.required)
        )
        return _checked(lambda row: _dumped(_object(tree, row, converters, kept)).encode(), said)

    def whole(self, place: int, field: Field) -> _Maker:
        """Returns a function that makes them from one column."""
        if self.format not in KINDS:
            made = _whole(place, field, self.format, self.key_bytes)
            return _checked(made, self._described())
        write = self._writer(field.type, field.name)
        return lambda row: None if row[place] is None else write(row[place])

    def _with_schema(self, paths: Mapping[int, Path], fields: Sequence[Field]) -> _Maker:
        """Returns a function that makes records of a schema from several columns or nested ones."""
        tree: dict[str, Any] = {}
        is_named = self.binding.encoding.names
        leaves = [
            Leaf((fields[p].name,), path, fields[p], by_name=not is_named(fields[p].name))
            for p, path in paths.items()
        ]
        groups = grouped(leaves)
        if len(groups) > 1 or not all(_insert(tree, path, p) for p, path in paths.items()):
            raise self._unfit([fields[place] for place in paths])
        write = self._writer(Row(groups[0][1]), "")
        return lambda row: write(_picked(tree, row))

    @property
    def _setting(self) -> Setting:
        options = dict(self.binding.encoding.options)
        return Setting(self.name, self.schemas, self.binding.schemas.get(self.name), options)

    def _writer(self, type_: Type, path: str) -> Callable[[Any], bytes]:
        try:
            writer = part_writer(self._setting, self.format, self.binding.topic, type_, path)
        except ValueError as error:
            raise _not_made(f"such rows: {error}") from error
        self.headers.extend(writer.headers)
        return writer.write

    def _described(self) -> Described | None:
        """Returns how to write JSON that has a schema; None if it has none."""
        if self.format != "json_schema":
            return None
        try:
            said = described(self._setting, self.binding.topic)
        except ValueError as error:
            raise _not_made(f"such rows: {error}") from error
        self.headers.extend(said.headers)
        return said

    def _unfit(self, fields: Sequence[Field]) -> SeamlineError:
        names = ", ".join(field.name for field in fields)
        return _not_made(
            f"columns {names}: its {self.name} in the format {self.format} cannot hold them"
        )


def _checked(make: _Maker, said: Described | None) -> _Maker:
    """Returns a function that makes JSON and checks it against its schema."""
    if said is None:
        return make

    def checked(row: _Cells) -> bytes | None:
        text = make(row)
        return None if text is None else said.written(text)

    return checked


def _picked(tree: Mapping[str, Any], row: _Cells) -> dict[str, Any]:
    """Returns the values of a row's columns, in their places in a record."""
    return {
        name: _picked(inner, row) if isinstance(inner, dict) else row[inner]
        for name, inner in tree.items()
    }


def _insert(tree: dict[str, Any], path: Path, place: int) -> bool:
    """Puts a column into a tree of objects; returns False if another one is in its place."""
    for name in path[:-1]:
        inner = tree.setdefault(name, {})
        if not isinstance(inner, dict):
            return False
        tree = inner
    return bool(path) and tree.setdefault(path[-1], place) == place


def _object(
    tree: Mapping[str, Any],
    row: _Cells,
    converters: Sequence[Callable[[Any], Any]],
    kept: frozenset[int],
) -> dict[str, Any]:
    """Returns an object for JSON; leaves out nulls, except at the places to keep."""
    return {
        name: _object(inner, row, converters, kept)
        if isinstance(inner, dict)
        else converters[inner](row[inner])
        for name, inner in tree.items()
        if isinstance(inner, dict) or row[inner] is not None or inner in kept
    }


def _whole(place: int, field: Field, format_: str, key_bytes: KeyBytes) -> _Maker:
    """Returns a function that makes a part from one column."""
    convert = _converter(field.type)

    def make(row: _Cells) -> bytes | None:
        value = row[place]
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, str) and format_ in _TEXTS:
            return value.encode()
        if format_ in JSON:
            text = convert(value)
            return (json.dumps(text) if isinstance(text, str) else _dumped(text)).encode()
        content = key_bytes(value, format_)
        if content is None:
            raise SeamlineError(
                INVALID_ARGUMENT,
                f"a record cannot repeat {value!r} of column {field.name} as {format_}",
                hint="Produce it to the topic.",
            )
        return content

    return make


_TEXTS = frozenset({"raw", "bytes", "string"})


def _header(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value, default=str)).encode()


def _not_written(reason: str) -> SeamlineError:
    return SeamlineError(
        INVALID_ARGUMENT, f"a row cannot be written as a record: {reason}", hint=""
    )


def _not_made(what: str) -> SeamlineError:
    return SeamlineError(
        NOT_SUPPORTED, f"{what} cannot become a record", hint="Produce it to the topic."
    )


# --- JSON ----------------------------------------------------------------------------------------


class _Written:
    """JSON text to be written as it is: a value of type json, or all digits of a number."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _dumped(value: Any) -> str:
    match value:
        case _Written():
            return value.text
        case dict():
            pairs = (f"{_dumped(str(name))}:{_dumped(item)}" for name, item in value.items())
            return "{" + ",".join(pairs) + "}"
        case list():
            return "[" + ",".join(map(_dumped, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _converter(type_: Type) -> Callable[[Any], Any]:
    """Returns a function that converts a value to one of JSON's."""
    match type_:
        case Decimal():
            return lambda value: None if value is None else _Written(format(value, "f"))
        case Varbinary():
            return lambda value: None if value is None else base64.b64encode(value).decode()
        case Array(element):
            inner = _converter(element)
            return lambda value: None if value is None else [inner(item) for item in value]
        case Map(key, item):
            keys, items = _converter(key), _converter(item)
            return lambda value: (
                None if value is None else {_key_text(keys(k)): items(v) for k, v in value}
            )
        case Row(fields):
            parts = [(f.name, _converter(f.type), f.type == types.JSON) for f in fields]
            return lambda value: (
                None
                if value is None
                else {
                    name: convert(value[name])
                    for name, convert, is_json in parts
                    if not is_json or value[name] is not None  # else it would be JSON's null
                }
            )
        case types.JSON:
            return lambda value: None if value is None else _Written(value)
        case types.REAL | types.DOUBLE:
            return _floating
    return _scalar


def _key_text(value: Any) -> str:
    if isinstance(value, _Written):
        return value.text
    return value if isinstance(value, str) else json.dumps(value)


def _floating(value: Any) -> Any:
    return value if value is None or math.isfinite(value) else not_finite(value)


def _scalar(value: Any) -> Any:
    match value:
        case datetime.datetime() if value.tzinfo is not None:
            moment = value.astimezone(datetime.UTC).replace(tzinfo=None)
            return moment.isoformat(timespec="microseconds") + "Z"
        case datetime.datetime():
            return value.isoformat(timespec="microseconds")
        case datetime.date():
            return value.isoformat()
    return value
