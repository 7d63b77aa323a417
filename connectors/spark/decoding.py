"""What Spark's Python workers run: it decodes the records of Spark's Kafka source into rows.

It imports no more than that takes, since on a cluster every new worker pays for the imports. Where
we start Spark, `connectors/spark/daemon.py` has already paid.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from seamline.connectors.kafka.formats.bad_records import decoder_of
from seamline.connectors.kafka.formats.registries import registry
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.seam.encoding import KEY, VALUE
from seamline.seam.records import DecoderSpec

if TYPE_CHECKING:
    from seamline.connectors.config import SchemaRegistryConfig


class Decoding:
    """The function that workers run over Arrow batches of records; it is pickled by reference.

    Args:
        spec: How records are decoded.
        batch_id: Value of `_kafka_batch`, when the rows are being tiered.
        schema_registry: Where the schemas of records are registered, if they are.
    """

    def __init__(
        self,
        spec: DecoderSpec,
        batch_id: int | None,
        schema_registry: SchemaRegistryConfig | None,
    ) -> None:
        self._spec = spec
        self._batch_id = batch_id
        self._schema_registry = schema_registry

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of each batch."""
        decoder = decoder_of(self._spec, registry(self._schema_registry))
        for batch in batches:
            if batch.num_rows:
                yield plain(decoder.decode(raw_batch(batch), self._batch_id).rows)


def raw_batch(batch: pa.RecordBatch) -> RawBatch:
    """Converts records from Spark's form to the decoder's; headers come as JSON."""
    return RawBatch(
        partitions=batch.column("partition"),
        offsets=batch.column("offset"),
        timestamps_ms=batch.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()),
        keys=batch.column("key"),
        values=batch.column("value").to_pylist(),
        headers=_headers(batch.column("headers")),
        timestamp_types=batch.column("timestampType").to_pylist(),
        large=_large(batch),
    )


def _large(batch: pa.RecordBatch) -> dict[int, dict[str, int]]:
    """Returns the sizes of parts that Spark left out, by index."""
    by_partition: dict[int, dict[str, int]] = {}
    for part in (VALUE, KEY):
        sizes = batch.column(f"large_{part}")
        if sizes.null_count < len(sizes):
            for index, size in enumerate(sizes.to_pylist()):
                if size is not None:
                    by_partition.setdefault(index, {})[part] = size
    return by_partition


def _headers(column: pa.Array) -> list[list[tuple[str, bytes | None]] | None]:
    if column.null_count == len(column):
        return [None] * len(column)
    return [None if text is None else _header_list(text) for text in column.to_pylist()]


def _header_list(text: str) -> list[tuple[str, bytes | None]]:
    """Parses headers: Spark leaves out a value that is null, and writes others in base64."""
    return [
        (header["key"], base64.b64decode(header["value"]) if "value" in header else None)
        for header in json.loads(text)
    ]


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns rows without field metadata and with every field nullable, as Spark has them."""
    fields = [pa.field(f.name, f.type, nullable=True) for f in batch.schema]
    return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))
