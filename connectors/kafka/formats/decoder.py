"""The one decoder: bytes of the log to Arrow rows.

The hot read and the tiering pipeline run this same code, so a row cannot change when it is tiered.
What a record becomes depends on the record alone, never on the batch it arrives in, on the columns
a query uses, or on which of a format's code paths handled it. A bad record follows the table's
policy: `fail` stops with its partition, offset and reason; `null` gives a row of nulls with the
reason in `_kafka_error`; `skip` leaves it out and counts it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from seamline.connectors.kafka.formats.json_values import JsonValues
from seamline.connectors.kafka.formats.raw_values import RawValues
from seamline.connectors.protocols import NOT_TEXT, Headers, RawBatch
from seamline.errors import BAD_RECORD, INVALID_TABLE_DEFINITION, SeamlineError
from seamline.seam.records import DecoderSpec
from seamline.sql import columns as names
from seamline.sql.types import to_arrow


class ValueDecoder(Protocol):
    """Decodes the values of records in one format into the table's own columns."""

    def decode(self, values: Sequence[bytes | None]) -> tuple[list[pa.Array], Mapping[int, str]]:
        """One array per column, a slot per value, and why each bad value (by index) is bad.

        A bad value has nulls in its slots.
        """


FORMATS: Mapping[str, type[JsonValues | RawValues]] = {"json": JsonValues, "raw": RawValues}
"""Formats of record values by the name `WITH (format = …)` uses."""


@dataclasses.dataclass(frozen=True, slots=True)
class Decoded:
    """Decoded rows, and how many records were left out under the policy `skip`."""

    rows: pa.RecordBatch
    skipped: int = 0


class Decoder:
    """Decodes batches of one table. Not shared between threads.

    Args:
        spec: What makes rows of the records.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION when the format is not known, or does not fit the
            columns.
    """

    def __init__(self, spec: DecoderSpec) -> None:
        self.spec = spec
        self._schema = spec.arrow_schema
        if spec.format not in FORMATS:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"format {spec.format!r} is not known",
                hint=f"format is one of: {', '.join(sorted(FORMATS))}",
            )
        self._values: ValueDecoder = FORMATS[spec.format](spec.value_columns)
        self._value_names = tuple(column.name for column in spec.value_columns)

    def decode(self, batch: RawBatch, batch_id: int | None = None) -> Decoded:
        """The rows of a batch.

        Args:
            batch: Records as the log holds them.
            batch_id: Value of `_kafka_batch`, when the rows are being tiered.

        Raises:
            SeamlineError: BAD_RECORD under the policy `fail`.
        """
        rows, bad = self.decode_all(batch, batch_id)
        if bad and self.spec.on_error == "fail":
            first = min(bad)
            partition, offset = int(batch.partitions[first]), int(batch.offsets[first])
            raise bad_record(self.spec.topic, partition, offset, bad[first])
        if bad and self.spec.on_error == "skip":
            return Decoded(without(rows, bad), len(bad))
        return Decoded(rows)

    def decode_all(
        self, batch: RawBatch, batch_id: int | None = None
    ) -> tuple[pa.RecordBatch, Mapping[int, str]]:
        """A row for every record whatever the policy, and why each bad one (by index) is bad.

        A bad record is a row of nulls with the reason in `_kafka_error`.
        """
        arrays, bad = self._values.decode(batch.values)
        by_name = dict(zip(self._value_names, arrays, strict=True))
        by_name.update(_metadata_arrays(batch, bad, batch_id))
        rows = pa.RecordBatch.from_arrays(
            [by_name[field.name] for field in self._schema], schema=self._schema
        )
        return rows, bad


def without(rows: pa.RecordBatch, bad: Mapping[int, str]) -> pa.RecordBatch:
    """The rows without the bad ones."""
    keep = [index for index in range(rows.num_rows) if index not in bad]
    return rows.take(pa.array(keep, pa.int64()))


def bad_record(topic: str, partition: int, offset: int, reason: str) -> SeamlineError:
    """The error a bad record is under the policy `fail`."""
    return SeamlineError(
        BAD_RECORD,
        f"record at topic {topic}, partition {partition}, offset {offset}: {reason}",
        details={"topic": topic, "partition": partition, "offset": offset},
    )


def _metadata_arrays(
    batch: RawBatch, bad: Mapping[int, str], batch_id: int | None
) -> dict[str, pa.Array]:
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


_HEADERS_TYPE = next(to_arrow(f.type) for f in names.METADATA_FIELDS if f.name == names.HEADERS)


_TIME_MAX_MS = 253_402_300_799_999
"""The end of the year 9999: our calendar, and that of most readers, goes no further."""


def _timestamps(timestamps_ms: Sequence[int]) -> pa.Array:
    """Milliseconds to instants; null without a time (-1), and for a time out of range."""
    times = pa.array(timestamps_ms, pa.int64())
    known = pc.and_(pc.greater_equal(times, 0), pc.less_equal(times, _TIME_MAX_MS))
    times = pc.if_else(known, times, None)
    return times.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))


def _headers(headers: Sequence[Headers | None]) -> pa.Array:
    if not any(headers):
        return pa.nulls(len(headers), _HEADERS_TYPE)
    rows = [_named(entry) if entry else None for entry in headers]
    return pa.array(rows, _HEADERS_TYPE)


def _named(headers: Headers) -> list[dict[str, str | bytes | None]]:
    """The headers of a record; one without name and value where a name is not UTF-8.

    Kafka's clients differ here: one replaces the bytes, the other gives none of the headers. They
    differ in names with a zero byte, too, where librdkafka's end. This is what all can give alike.
    """
    names_and_values = [(name.partition("\0")[0], value) for name, value in headers]
    if any(NOT_TEXT in name for name, _ in names_and_values):
        return [{"key": None, "value": None}]
    return [{"key": name, "value": value} for name, value in names_and_values]
