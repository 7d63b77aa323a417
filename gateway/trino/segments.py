"""Segments: rows in an encoding that the client requested.

A client that knows Trino's spooling protocol names the encodings that it reads, the best first. The
`data` of its answers is then an object, with the rows in a segment: JSON, compressed if it is large
enough, in base64. Segments are always inline in the answers; none is stored elsewhere.
"""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa

HEADER = "X-Trino-Query-Data-Encoding"
PLAIN_BYTES = 8 << 10
"""Rows whose JSON is no larger than this are not compressed."""

_CODECS = {"json+zstd": "zstd", "json+lz4": "lz4_raw", "json": None}
"""The encodings, and Arrow's codec for each: one frame of Zstandard, one block of LZ4."""


def chosen(encodings: str) -> str | None:
    """Returns the encoding for a client; None for one that takes only plain rows.

    Args:
        encodings: The encodings that it reads, the best first, separated by commas.
    """
    names = (name.strip() for name in encodings.split(","))
    return next((name for name in names if name in _CODECS), None)


def data(rows: str, count: int, offset: int, encoding: str) -> dict[str, Any]:
    """Returns the `data` of an answer with these rows, JSON-ready.

    Args:
        rows: The rows as a JSON array.
        count: The number of rows.
        offset: The number of rows of the result before them.
        encoding: The encoding that `chosen` returned.
    """
    content = rows.encode()
    metadata = {"rowOffset": offset, "rowsCount": count}
    codec = _CODECS[encoding]
    if codec is not None and len(content) > PLAIN_BYTES:
        metadata["uncompressedSize"] = len(content)
        content = pa.Codec(codec).compress(content, asbytes=True)
    metadata["segmentSize"] = len(content)
    segment = {
        "type": "inline",
        "data": base64.b64encode(content).decode(),
        "metadata": metadata,
    }
    return {"encoding": encoding, "metadata": {}, "segments": [segment]}
