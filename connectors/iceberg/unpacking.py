"""Unpacks compressed metadata of tables, up to more than any honest table has.

Whoever may write to a warehouse may leave a file there that unpacks to a thousand times its size.
"""

from __future__ import annotations

import gzip
import io
import zlib

BYTES_MAX = 256 << 20
"""Bytes that a metadata file, or a block of a manifest, may have once unpacked."""
_RAW = -zlib.MAX_WBITS
"""A stream without zlib's own header and checksum, as Avro has them."""


def gunzipped(packed: bytes) -> bytes:
    """Unpacks a metadata file.

    Raises:
        ValueError: when it has too many bytes.
        OSError, EOFError, zlib.error: when it is damaged.
    """
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        return _checked(file.read(BYTES_MAX + 1))


def inflated(packed: bytes) -> bytes:
    """Unpacks a block of an Avro file.

    Raises:
        ValueError: when it has too many bytes, or is cut off.
        zlib.error: when it is damaged.
    """
    stream = zlib.decompressobj(_RAW)
    found = _checked(stream.decompress(packed, BYTES_MAX + 1))
    if not stream.eof:
        raise ValueError("it is cut off")
    return found


def _checked(found: bytes) -> bytes:
    if len(found) > BYTES_MAX:
        raise ValueError(f"it unpacks to more than {BYTES_MAX:,} bytes")
    return found
