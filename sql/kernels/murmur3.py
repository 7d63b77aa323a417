"""MurmurHash3 of 128 bits, in its variant for 64-bit processors."""

from __future__ import annotations

import struct

_ONE, _TWO = 0x87C37B91114253D5, 0x4CF5AD432745937F
_MASK = 2**64 - 1
_BLOCK = 16


def murmur3(value: bytes) -> bytes:
    """Returns the hash with seed 0, its words in little-endian order."""
    high = low = 0
    whole = len(value) // _BLOCK * _BLOCK
    for one, two in struct.iter_unpack("<2Q", value[:whole]):
        high = (_rotated(high ^ _mixed(one, _ONE, 31, _TWO), 27) + low) & _MASK
        high = (high * 5 + 0x52DCE729) & _MASK
        low = (_rotated(low ^ _mixed(two, _TWO, 33, _ONE), 31) + high) & _MASK
        low = (low * 5 + 0x38495AB5) & _MASK
    one, two = struct.unpack("<2Q", value[whole:].ljust(_BLOCK, b"\0"))
    high = high ^ _mixed(one, _ONE, 31, _TWO) ^ len(value)
    low = low ^ _mixed(two, _TWO, 33, _ONE) ^ len(value)
    high = (high + low) & _MASK
    low = (low + high) & _MASK
    high, low = _finished(high), _finished(low)
    high = (high + low) & _MASK
    return struct.pack("<2Q", high, (low + high) & _MASK)


def _mixed(word: int, before: int, bits: int, after: int) -> int:
    return _rotated(word * before & _MASK, bits) * after & _MASK


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & _MASK


def _finished(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _MASK
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return word ^ word >> 33
