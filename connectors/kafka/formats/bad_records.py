"""Bad records: those that the decoder of a table cannot decode, as the log holds them, and why.

Whether a record is among them depends on the record alone, and not on the policy for bad records.
A record at which decoding ends whatever the policy, because leaving it out would leave wrong rows
in the table, is one of them. Batches in which there are such records are decoded in parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from seamline.connectors.kafka.formats.decoder import Decoded, Decoder
from seamline.connectors.kafka.formats.large import without_large
from seamline.connectors.kafka.formats.log_columns import own_columns
from seamline.connectors.kafka.formats.schemas import Schemas
from seamline.connectors.protocols.raw_records import NewRecord, RawBatch, part_of
from seamline.errors import (
    BAD_RECORD,
    NOT_SUPPORTED,
    SCHEMA_INCOMPATIBLE,
    SCHEMA_NOT_EVOLVED,
    UPSERT_ORDER_UNKNOWN,
    SeamlineError,
)
from seamline.seam.records import DecoderSpec
from seamline.sql import columns as names

_ENDS = frozenset({NOT_SUPPORTED, SCHEMA_INCOMPATIBLE, SCHEMA_NOT_EVOLVED, UPSERT_ORDER_UNKNOWN})
"""Codes of errors with which a record ends decoding, whatever the policy."""


class BadRecords:
    """Finds the bad records in batches of one table. Not shared between threads.

    Args:
        spec: How a table's bad records become rows; see `DecoderSpec.errors`.
        schemas: Where the schemas of records are registered.
    """

    def __init__(self, spec: DecoderSpec, schemas: Schemas | None = None) -> None:
        assert spec.errors_of is not None
        self._schema = spec.arrow_schema
        self._decoder = Decoder(spec.errors_of, schemas)

    def decode(self, batch: RawBatch, batch_id: int | None = None) -> Decoded:
        """Returns the bad records of a batch.

        Args:
            batch: Records as the log holds them.
            batch_id: Not used; no such rows are tiered.

        Raises:
            SeamlineError: SCHEMA_REGISTRY_UNAVAILABLE, and other errors that no record causes.
        """
        batch = without_large(batch)
        reasons = self.reasons(batch)
        bad = part_of(batch, list(reasons))
        codes, sentences = zip(*reasons.values(), strict=True) if reasons else ((), ())
        own = own_columns(bad, {}, batch_id)
        by_name = {
            "partition": own[names.PARTITION],
            "offset": own[names.OFFSET],
            "timestamp": own[names.TIMESTAMP],
            "code": pa.array(codes, pa.string()),
            "reason": pa.array(sentences, pa.string()),
            "key": own[names.KEY],
            "value": pa.array(bad.values, pa.binary()),
            "headers": own[names.HEADERS],
        }
        arrays = [by_name[name] for name in self._schema.names]
        return Decoded(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def reasons(self, batch: RawBatch) -> Mapping[int, tuple[str, str]]:
        """Returns the code and the reason of each bad record, by its index, in ascending order."""
        return dict(self._reasons(batch, range(len(batch))))

    def _reasons(
        self, batch: RawBatch, indices: Sequence[int]
    ) -> Iterator[tuple[int, tuple[str, str]]]:
        try:
            _, bad = self._decoder.decode_all(part_of(batch, indices))
        except SeamlineError as error:
            if error.code not in _ENDS:
                raise
            if len(indices) == 1:
                yield indices[0], (error.code.name, error.message)
                return
            middle = len(indices) // 2
            yield from self._reasons(batch, indices[:middle])
            yield from self._reasons(batch, indices[middle:])
            return
        for index, reason in sorted(bad.items()):
            yield indices[index], (BAD_RECORD.name, reason)


_HEADERS = "__connect.errors."
"""What the names of headers begin with that Kafka Connect adds to the records of its own queues."""


def dead_letters(bad: pa.RecordBatch, topic: str, table: str) -> list[NewRecord]:
    """Returns bad records as they are written to the table's topic of dead letters.

    Key, value and headers are the record's own; further headers, named as Kafka Connect names them,
    say where it was and why it is bad. What ends decoding whatever the policy is not among them.

    Args:
        bad: Rows of `t$errors`.
        topic: The topic that they are in.
        table: Display name of the table.
    """
    return [
        NewRecord(row["key"], row["value"], [*_own_headers(row), *_reason(row, topic, table)])
        for row in bad.to_pylist()
        if row["code"] == BAD_RECORD.name
    ]


def _own_headers(row: Mapping[str, Any]) -> Iterator[tuple[str, bytes | None]]:
    for header in row["headers"] or ():
        if header["key"] is not None:
            yield header["key"], header["value"]


def _reason(row: Mapping[str, Any], topic: str, table: str) -> Iterator[tuple[str, bytes]]:
    said = {
        "topic": topic,
        "partition": row["partition"],
        "offset": row["offset"],
        "connector.name": table,
        "exception.class.name": row["code"],
        "exception.message": row["reason"],
    }
    for name, value in said.items():
        yield _HEADERS + name, str(value).encode()


def decoder_of(spec: DecoderSpec, schemas: Schemas | None = None) -> Decoder | BadRecords:
    """Returns what makes the rows that a spec describes."""
    return Decoder(spec, schemas) if spec.errors_of is None else BadRecords(spec, schemas)
