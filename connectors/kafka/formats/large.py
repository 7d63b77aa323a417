"""Records that are too large to become rows: one rule for reads and for tiering.

A value or a key of more than `PART_BYTES_MAX` bytes is not decoded. Its record is bad, and the
table's policy decides. Headers whose values take more than that are not text, as other headers are
that no column can hold; no header makes a record bad. The rule depends on the record alone: not on
the engine, on the batch that it was compressed with, or on the memory there is. Whoever reads the
log leaves such parts out at once, which spares memory and the way to Spark's workers.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from seamline.connectors.protocols.raw_records import NOT_TEXT, Headers, RawBatch
from seamline.seam.encoding import KEY, VALUE

PART_BYTES_MAX = 32 << 20
"""Far more than any cluster accepts unless it was set up to."""

_COLUMNS = {VALUE: "values", KEY: "keys"}
_MESSAGES = {VALUE: "the value has", KEY: "key: it has"}


def without_large(batch: RawBatch) -> RawBatch:
    """Returns the batch without parts that are too large; their sizes are in `RawBatch.large`."""
    changed: dict[str, Any] = {}
    large = {index: dict(sizes) for index, sizes in batch.large.items()}
    for part, column in _COLUMNS.items():
        parts = getattr(batch, column)
        found = _large(parts)
        if found:
            listed = parts.to_pylist() if isinstance(parts, pa.Array) else list(parts)
            for index, size in found.items():
                listed[index] = None
                large.setdefault(index, {})[part] = size
            changed |= {column: listed, "large": large}
    if any(map(_are_large, filter(None, batch.headers))):
        is_large = [bool(entry) and _are_large(entry) for entry in batch.headers]
        odd: Headers = [(NOT_TEXT, None)]
        changed["headers"] = [
            odd if large_ else entry for entry, large_ in zip(batch.headers, is_large, strict=True)
        ]
    return dataclasses.replace(batch, **changed) if changed else batch


def reasons(batch: RawBatch) -> dict[int, str]:
    """Returns why the records are bad whose parts were left out, by index."""
    return {
        index: "; ".join(
            f"{_MESSAGES[part]} {sizes[part]:,} bytes, more than {PART_BYTES_MAX:,}"
            for part in _COLUMNS
            if part in sizes
        )
        for index, sizes in batch.large.items()
    }


def _large(parts: Any) -> dict[int, int]:
    """Returns the sizes of parts that are too large, by index."""
    if isinstance(parts, pa.Array):
        if parts.nbytes <= PART_BYTES_MAX:
            return {}
        sizes = pc.fill_null(pc.binary_length(parts), 0).to_pylist()
    elif sum(map(len, filter(None, parts))) <= PART_BYTES_MAX:
        return {}
    else:
        sizes = [0 if part is None else len(part) for part in parts]
    return {index: size for index, size in enumerate(sizes) if size > PART_BYTES_MAX}


def _are_large(headers: Headers | None) -> bool:
    return sum(len(value or b"") for _, value in headers or ()) > PART_BYTES_MAX
