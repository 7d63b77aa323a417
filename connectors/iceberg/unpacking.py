"""Unpacks compressed metadata of tables, up to more than any honest table has.

Whoever may write to a warehouse may leave a file there that unpacks to a thousand times its size.
"""

from __future__ import annotations

import bz2
import gzip
import io
import zlib

import pyarrow as pa

BYTES_MAX = 256 << 20
"""Bytes that a metadata file, or a block of a manifest, may have once unpacked."""
_RAW = -zlib.MAX_WBITS
"""A stream without zlib's own header and checksum, as Avro has them."""
_SIZE_BYTES_MAX = 5
_CHECKSUM_BYTES = 4


def gunzipped(packed: bytes) -> bytes:
    """Unpacks a metadata file.

    Raises:
        ValueError: when it has too many bytes.
        OSError, EOFError, zlib.error: when it is damaged.
    """
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        return _checked(file.read(BYTES_MAX + 1))


def inflated(packed: bytes) -> bytes:
    """Unpacks a block of an Avro file whose codec is `deflate`.

    Raises:
        ValueError: when it has too many bytes, or is cut off.
        zlib.error: when it is damaged.
    """
    stream = zlib.decompressobj(_RAW)
    return _whole(_checked(stream.decompress(packed, BYTES_MAX + 1)), stream.eof)


def unzipped(packed: bytes) -> bytes:
    """Unpacks a block of an Avro file whose codec is `bzip2`.

    Raises:
        ValueError: when it has too many bytes, or is cut off.
        OSError: when it is damaged.
    """
    stream = bz2.BZ2Decompressor()
    return _whole(_checked(stream.decompress(packed, BYTES_MAX + 1)), stream.eof)


def unpacked_zstandard(packed: bytes) -> bytes:
    """Unpacks a block of an Avro file whose codec is `zstandard`.

    Raises:
        ValueError: when it has too many bytes.
        OSError: when it is damaged, or is cut off.
    """
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        data: bytes = stream.read(BYTES_MAX + 1)
    return _checked(data)


def unpacked_snappy(packed: bytes) -> bytes:
    """Unpacks a block of an Avro file whose codec is `snappy`; its checksum follows it.

    Raises:
        ValueError: when it has too many bytes, or another checksum.
        OSError: when it is damaged, or is cut off.
    """
    size, checksum = 0, int.from_bytes(packed[-_CHECKSUM_BYTES:], "big")
    for index, byte in enumerate(packed[:_SIZE_BYTES_MAX]):  # begins with the size, a varint
        size |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            break
    if size > BYTES_MAX:
        raise _too_large()
    data: bytes = pa.Codec("snappy").decompress(packed[:-_CHECKSUM_BYTES], size, asbytes=True)
    if zlib.crc32(data) != checksum:
        raise ValueError("its checksum differs")
    return data


def packed_snappy(plain: bytes) -> tuple[bytes, int]:
    """Packs a block of an Avro file as `unpacked_snappy` reads it; returns its size, too."""
    checksum = zlib.crc32(plain).to_bytes(_CHECKSUM_BYTES, "big")
    packed: bytes = pa.Codec("snappy").compress(plain, asbytes=True) + checksum
    return packed, len(packed)


def _whole(data: bytes, is_whole: bool) -> bytes:
    if not is_whole:
        raise ValueError("it is truncated")
    return data


def _checked(data: bytes) -> bytes:
    if len(data) > BYTES_MAX:
        raise _too_large()
    return data


def _too_large() -> ValueError:
    return ValueError(f"it unpacks to more than {BYTES_MAX:,} bytes")
