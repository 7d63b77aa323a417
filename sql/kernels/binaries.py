"""Kernels of bytes: encodings as text, digests, and numbers as bytes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import struct
import zlib
from collections.abc import Callable

import mmh3
import xxhash

from seamline.sql.kernels.arguments import invalid


def from_hex(text: str | bytes) -> bytes:
    """Decodes pairs of hexadecimal digits to bytes."""
    written = _written(text)
    if not re.fullmatch("([0-9a-fA-F]{2})*", written):
        raise invalid(f"{written[:80]!r} is not hexadecimal")
    return bytes.fromhex(written)


def _written(text: str | bytes) -> str:
    return text.decode("ascii", "replace") if isinstance(text, bytes) else text


def to_base64(value: bytes) -> str:
    """Encodes bytes in base64."""
    return base64.b64encode(value).decode()


def to_base64url(value: bytes) -> str:
    """Encodes bytes in the URL-safe variant of base64."""
    return base64.urlsafe_b64encode(value).decode()


def to_base32(value: bytes) -> str:
    """Encodes bytes in base32."""
    return base64.b32encode(value).decode()


def from_base64(text: str | bytes) -> bytes:
    """Decodes base64, the inverse of `to_base64`; the padding may be missing."""
    written = _written(text)
    try:
        return base64.b64decode(_filled(written, 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(f"{written[:80]!r} is not base64") from error


def from_base64url(text: str | bytes) -> bytes:
    """Decodes URL-safe base64, the inverse of `to_base64url`; the padding may be missing."""
    written = _written(text)
    if "+" in written or "/" in written:
        raise invalid(f"{written[:80]!r} is not URL-safe base64")
    return from_base64(written.replace("-", "+").replace("_", "/"))


def from_base32(text: str | bytes) -> bytes:
    """Decodes base32, the inverse of `to_base32`; the padding may be missing."""
    written = _written(text)
    try:
        return base64.b32decode(_filled(written, 8))
    except (binascii.Error, ValueError) as error:
        raise invalid(f"{written[:80]!r} is not base32") from error


def _filled(text: str, size: int) -> str:
    return text if "=" in text else text + "=" * (-len(text) % size)


def digest(algorithm: str) -> Callable[[bytes], bytes]:
    """Returns a function that computes a digest, by its name in hashlib."""

    def compute(value: bytes) -> bytes:
        return hashlib.new(algorithm, value, usedforsecurity=False).digest()

    return compute


def keyed_digest(algorithm: str) -> Callable[[bytes, bytes], bytes]:
    """Returns a function that computes the HMAC of a value and a key."""

    def compute(value: bytes, key: bytes) -> bytes:
        return hmac.digest(key, value, algorithm)

    return compute


def crc32(value: bytes) -> int:
    """Computes CRC-32, the checksum of ZIP files."""
    return zlib.crc32(value)


def murmur3(value: bytes) -> bytes:
    """Computes the 128-bit MurmurHash3 for 64-bit processors, its words in little-endian order."""
    return mmh3.mmh3_x64_128_digest(value)


def xxhash64(value: bytes) -> bytes:
    """Computes the 64-bit xxHash with seed 0."""
    return xxhash.xxh64_digest(value)


def packer(form: str) -> Callable[[float], bytes]:
    """Returns a function that packs a number into bytes, in a format of `struct`."""

    def pack(value: float) -> bytes:
        return struct.pack(form, value)

    return pack


def unpacker(form: str) -> Callable[[bytes], float]:
    """Returns a function that unpacks a number from bytes: the inverse of `packer`."""
    size = struct.calcsize(form)

    def unpack(value: bytes) -> float:
        if len(value) != size:
            raise invalid(f"a number of {size * 8} bits has {size} bytes, not {len(value)}")
        number: float = struct.unpack(form, value)[0]
        return number

    return unpack
