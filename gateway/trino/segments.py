"""Segments: rows in an encoding that their client has asked for.

A client that knows Trino's spooling protocol names the encodings that it reads, the best first. The
data of its answers are then objects, with the rows as JSON in a segment, compressed where that
saves something, in base64. Segments lie in the answers themselves: none is kept elsewhere.
"""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa

HEADER = "X-Trino-Query-Data-Encoding"
PLAIN_BYTES = 8 << 10
"""Rows of no more JSON than this are not compressed."""

_CODECS = {"json+zstd": "zstd", "json+lz4": "lz4_raw", "json": None}
"""The encodings, and how Arrow calls what compresses: one frame of Zstandard, one block of LZ4."""


def chosen(wanted: str) -> str | None:
    """The encoding for a client; None for one that takes plain rows alone.

    Args:
        wanted: Those that it reads, the best first, with commas between them.
    """
    names = (name.strip() for name in wanted.split(","))
    return next((name for name in names if name in _CODECS), None)


def data(rows: str, count: int, offset: int, encoding: str) -> dict[str, Any]:
    """The data of an answer with these rows, JSON-ready.

    Args:
        rows: The rows, a JSON array.
        count: How many they are.
        offset: How many rows of the result are before them.
        encoding: As it was chosen.
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
