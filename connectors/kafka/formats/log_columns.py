"""Columns of what the log knows about a record: its place, time, headers, and bytes.

Only a header that a column cannot hold can be bad.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from seamline.connectors.kafka.formats.parts import Bad, PartDecoder
from seamline.connectors.kafka.formats.spelling import PLAIN, Spelling
from seamline.connectors.kafka.formats.text_values import TextValues
from seamline.connectors.protocols.raw_records import NOT_TEXT, Headers, RawBatch
from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.seam.encoding import HEADER, Source
from seamline.sql import columns as names
from seamline.sql import types
from seamline.sql.types import Array, Field, Map, Row, Type, Varbinary, to_arrow

# --- Metadata columns ----------------------------------------------------------------------------


def own_columns(batch: RawBatch, bad: Bad, batch_id: int | None) -> dict[str, pa.Array]:
    """Returns the columns `_kafka_…`."""
    count = len(batch)
    errors = (
        pa.array([bad.get(index) for index in range(count)], pa.string())
        if bad
        else pa.nulls(count, pa.string())
    )
    batch_ids = (
        pa.nulls(count, pa.int64())
        if batch_id is None
        else pa.repeat(pa.scalar(batch_id, pa.int64()), count)
    )
    return {
        names.PARTITION: pa.array(batch.partitions, pa.int32()),
        names.OFFSET: pa.array(batch.offsets, pa.int64()),
        names.TIMESTAMP: _timestamps(batch.timestamps_ms),
        names.KEY: pa.array(batch.keys, pa.binary()),
        names.HEADERS: _headers(batch.headers),
        names.ERROR: errors,
        names.BATCH: batch_ids,
    }


_HEADERS_TYPE = to_arrow(names.METADATA_TYPES[names.HEADERS])


_TIME_MAX_MS = 253_402_300_799_999
"""The end of the year 9999: our calendar, and that of most readers, goes no further."""


def _timestamps(timestamps_ms: Sequence[int]) -> pa.Array:
    """Converts milliseconds to instants; null without a time (-1), and for a time out of range."""
    return _milliseconds(timestamps_ms).cast(pa.timestamp("ms", "UTC")).cast(_INSTANT)


_INSTANT = pa.timestamp("us", "UTC")


def _milliseconds(timestamps_ms: Sequence[int]) -> pa.Array:
    times = pa.array(timestamps_ms, pa.int64())
    is_valid = pc.and_(pc.greater_equal(times, 0), pc.less_equal(times, _TIME_MAX_MS))
    return pc.if_else(is_valid, times, None)


def _headers(headers: Sequence[Headers | None]) -> pa.Array:
    if not any(headers):
        return pa.nulls(len(headers), _HEADERS_TYPE)
    rows = [_named(entry) if entry else None for entry in headers]
    return pa.array(rows, _HEADERS_TYPE)


def _named(headers: Headers) -> list[dict[str, str | bytes | None]]:
    """Returns the headers of a record; a single one without name and value if a name is not UTF-8.

    Kafka's clients differ here: one replaces the bytes, another returns none of the headers. They
    also differ for names with a zero byte, at which librdkafka's names end. All clients can return
    what is returned here.
    """
    names_and_values = [(name.partition("\0")[0], value) for name, value in headers]
    if any(NOT_TEXT in name for name, _ in names_and_values):
        return [{"key": None, "value": None}]
    return [{"key": name, "value": value} for name, value in names_and_values]


# --- Columns that `columns_from` names -----------------------------------------------------------

LogColumn: TypeAlias = Callable[[RawBatch], tuple[pa.Array, Bad]]
"""Returns the array of a column, and why the records that cannot supply it are bad."""


def log_column(topic: str, column: Field, source: Source, spelling: Spelling = PLAIN) -> LogColumn:
    """Returns a function that makes a column of something that the log knows about a record.

    Args:
        topic: The topic.
        column: The column.
        source: What it is made of.
        spelling: Which ways of writing the texts of headers are accepted.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION when the column's type cannot hold it.
    """
    if source.part == HEADER:
        return _header(column, source.path[0], spelling)
    if source.part == "headers":
        return _all_headers(column, spelling)
    makers = _MAKERS[source.part]
    if column.type not in makers:
        raise _unfit(column, source, " or ".join(map(str, makers)))
    make, arrow_type = makers[column.type], to_arrow(column.type)
    return lambda batch: (make(batch, topic).cast(arrow_type), {})


def raw_column(part: str) -> LogColumn:
    """Returns a function for a column of the bytes of `keys` or `values`, whatever their format."""
    return lambda batch: (pa.array(getattr(batch, part), pa.binary()), {})


_Maker: TypeAlias = Callable[[RawBatch, str], pa.Array]

_TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")
"""Kafka's names for its numbers -1, 0 and 1."""


def _time_types(batch: RawBatch) -> pa.Array:
    return pa.array(batch.timestamp_types or [-1] * len(batch), pa.int32())


def _time_type_names(batch: RawBatch) -> pa.Array:
    return pa.array(_TIMESTAMP_TYPES).take(pc.add(_time_types(batch), 1))


_MAKERS: Mapping[str, Mapping[Type, _Maker]] = {
    "partition": dict.fromkeys(
        (types.INTEGER, types.BIGINT), lambda batch, _: pa.array(batch.partitions, pa.int32())
    ),
    "offset": {types.BIGINT: lambda batch, _: pa.array(batch.offsets, pa.int64())},
    "timestamp": {
        types.TIMESTAMP_TZ: lambda batch, _: _timestamps(batch.timestamps_ms),
        types.TIMESTAMP: lambda batch, _: _timestamps(batch.timestamps_ms),
        types.BIGINT: lambda batch, _: _milliseconds(batch.timestamps_ms),
    },
    "timestamp_type": {
        types.INTEGER: lambda batch, _: _time_types(batch),
        types.VARCHAR: lambda batch, _: _time_type_names(batch),
    },
    "topic": {
        types.VARCHAR: lambda batch, topic: pa.array([topic] * len(batch), pa.string()),
    },
}


def _header(column: Field, name: str, spelling: Spelling) -> LogColumn:
    """Makes a column of the last header of a name, as Kafka's own clients find it; null if none."""
    texts: PartDecoder | None = None
    if not isinstance(column.type, Varbinary):
        texts = TextValues(column, spelling)

    def make(batch: RawBatch) -> tuple[pa.Array, Bad]:
        contents = [_last(_named(entry), name) if entry else None for entry in batch.headers]
        if texts is None:
            return pa.array(contents, pa.binary()), {}
        (array,), bad = texts.decode(contents)
        return array, {index: f"header {name}: {reason}" for index, reason in bad.items()}

    return make


def _last(headers: Sequence[Mapping[str, Any]], name: str) -> bytes | None:
    return next((h["value"] for h in reversed(headers) if h["key"] == name), None)


def _all_headers(column: Field, spelling: Spelling) -> LogColumn:
    """Makes a column of all headers: an array of (name, value) rows, or a map of the last ones."""
    match column.type:
        case Array(Row((Field(type=key), Field(type=value)))) | Map(key, value):
            pass
        case _:
            key = value = types.UNKNOWN
    if key not in _NAMES or value not in _NAMES:
        raise _unfit(column, Source("headers"), "array(row(key varchar, value varbinary))")
    arrow_type, as_ = to_arrow(column.type), functools.partial(_as, spelling)

    def make(batch: RawBatch) -> tuple[pa.Array, Bad]:
        rows, bad = [], {}
        for index, entry in enumerate(batch.headers):
            try:
                named = _named(entry or ())
                pairs = [(as_(key, h["key"]), as_(value, h["value"])) for h in named]
            except UnicodeDecodeError:
                pairs = []
                bad[index] = "headers: a value is not UTF-8"
            rows.append(_shaped(column.type, pairs) if entry else None)
        return pa.array(rows, arrow_type), bad

    return make


_NAMES = (types.VARCHAR, types.VARBINARY)


def _as(spelling: Spelling, type_: Type, value: str | bytes | None) -> str | bytes | None:
    match value:
        case str() if type_ != types.VARCHAR:
            return value.encode()
        case bytes() if type_ == types.VARCHAR:
            return spelling.text_of(value)
    return value


def _shaped(type_: Type, pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
    if isinstance(type_, Map):
        return list({key: value for key, value in pairs if key is not None}.items())
    assert isinstance(type_, Array)
    assert isinstance(type_.element, Row)
    names_ = [field.name for field in type_.element.fields]
    return [dict(zip(names_, pair, strict=True)) for pair in pairs]


def _unfit(column: Field, source: Source, types_text: str) -> SeamlineError:
    return SeamlineError(
        INVALID_TABLE_DEFINITION,
        f"column {column.name} is {column.type}, which cannot hold the {source} of a record",
        hint=f"Declare it {types_text}.",
    )
