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

from seamline.errors import INVALID_ARGUMENT, SeamlineError


def _invalid(message: str) -> SeamlineError:
    return SeamlineError(INVALID_ARGUMENT, message, hint="")


def from_hex(text: str | bytes) -> bytes:
    """Decodes pairs of hexadecimal digits to bytes."""
    written = _written(text)
    if not re.fullmatch("([0-9a-fA-F]{2})*", written):
        raise _invalid(f"{written[:80]!r} is not hexadecimal")
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
        raise _invalid(f"{written[:80]!r} is not base64") from error


def from_base64url(text: str | bytes) -> bytes:
    """Decodes URL-safe base64, the inverse of `to_base64url`; the padding may be missing."""
    written = _written(text)
    if "+" in written or "/" in written:
        raise _invalid(f"{written[:80]!r} is not URL-safe base64")
    return from_base64(written.replace("-", "+").replace("_", "/"))


def from_base32(text: str | bytes) -> bytes:
    """Decodes base32, the inverse of `to_base32`; the padding may be missing."""
    written = _written(text)
    try:
        return base64.b32decode(_filled(written, 8))
    except (binascii.Error, ValueError) as error:
        raise _invalid(f"{written[:80]!r} is not base32") from error


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
            raise _invalid(f"a number of {size * 8} bits has {size} bytes, not {len(value)}")
        number: float = struct.unpack(form, value)[0]
        return number

    return unpack


# --- xxHash64 ------------------------------------------------------------------------------------

_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_MASK = 2**64 - 1


def xxhash64(value: bytes) -> bytes:
    """Computes the 64-bit xxHash with seed 0."""
    one, two, three, four, five = _PRIMES
    at, size = 0, len(value)
    if size < 32:
        hashed = five
    else:
        lanes = [(one + two) & _MASK, two, 0, -one & _MASK]
        while size - at >= 32:
            words = struct.unpack_from("<4Q", value, at)
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        turned = zip(lanes, (1, 7, 12, 18), strict=True)
        hashed = sum(_rotated(lane, bits) for lane, bits in turned) & _MASK
        for lane in lanes:
            hashed = ((hashed ^ _round(0, lane)) * one + four) & _MASK
    hashed = (hashed + size) & _MASK
    while size - at >= 8:
        word = _round(0, struct.unpack_from("<Q", value, at)[0])
        hashed = (_rotated(hashed ^ word, 27) * one + four) & _MASK
        at += 8
    if size - at >= 4:
        half = struct.unpack_from("<I", value, at)[0]
        hashed = (_rotated(hashed ^ half * one & _MASK, 23) * two + three) & _MASK
        at += 4
    for byte in value[at:]:
        hashed = _rotated(hashed ^ byte * five & _MASK, 11) * one & _MASK
    hashed = (hashed ^ hashed >> 33) * two & _MASK
    hashed = (hashed ^ hashed >> 29) * three & _MASK
    return struct.pack(">Q", hashed ^ hashed >> 32)


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _PRIMES[1]) & _MASK, 31) * _PRIMES[0] & _MASK
