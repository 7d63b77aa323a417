"""Cuts the tail, for equality on the key column, to the partitions the key can hash to.

This applies only if the owner vouches for the partitioner (`seamline.key-partitioner`), and only
while the topic still has the partition count it had at that time. After a change of the count,
older records remain where the old count placed them. A partitioner hashes bytes, so nothing is cut
for a value that more than one key encodes: as text, the number 7 is also `007`, and `U+FFFD` may
stand for other bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

from seamline.planners.plan.logical import LogicalPlan, Scan
from seamline.planners.plan.tail import EVERYTHING, NOTHING, Interval, Leaf, narrow
from seamline.seam.binding import TopicBinding
from seamline.sql.predicates import Comparison, In, Value


def prune_tail_by_key(plan: LogicalPlan) -> LogicalPlan:
    """See the module's docstring."""
    return narrow(plan, _interval, "key")


def _interval(scan: Scan, leaf: Leaf, partition: int) -> Interval:
    binding = scan.facts.binding
    if binding is None or not _is_usable(binding, len(scan.seam.end)):
        return EVERYTHING
    values: tuple[Value, ...]
    match leaf:
        case Comparison(column, "=", value) if column == binding.key:
            values = (value,)
        case In(column, values) if column == binding.key:
            pass
        case _:
            return EVERYTHING
    for value in values:
        key = only_key_bytes(value, binding.key_format)
        if key is None or partition_of(key, binding) in (None, partition):
            return EVERYTHING
    return NOTHING


def _is_usable(binding: TopicBinding, partition_count: int) -> bool:
    return (
        binding.key is not None
        and binding.key_partitioner in PARTITIONERS
        and binding.key_partitions == partition_count
    )


def partition_of(key: bytes, binding: TopicBinding) -> int | None:
    """Returns the partition the topic's partitioner assigns to a key; None if it may be any."""
    assert binding.key_partitioner is not None
    assert binding.key_partitions is not None
    hashed = PARTITIONERS[binding.key_partitioner](key)
    return None if hashed is None else hashed % binding.key_partitions


def only_key_bytes(value: Value, key_format: str) -> bytes | None:
    """Returns the only record key that encodes a value; None if it is not known or not the only."""
    match key_format, value:
        case "string", str() if "\ufffd" in value:
            return None
        case ("string", str()) | ("int32" | "int64", int()) | ("bytes", bytes()):
            return key_bytes(value, key_format)
    return None


def key_bytes(value: Value, key_format: str) -> bytes | None:
    """Returns the record key that a value of the key column is written as; None if it has none."""
    match key_format, value:
        case "string", str():
            return value.encode()
        case "string", bool():
            return str(value).lower().encode()
        case "string", int():
            return str(value).encode()
        case "int32", int() if -(2**31) <= value < 2**31:
            return value.to_bytes(4, "big", signed=True)
        case "int64", int() if -(2**63) <= value < 2**63:
            return value.to_bytes(8, "big", signed=True)
        case "bytes", bytes():
            return value
    return None


def murmur2(key: bytes) -> int:
    """The hash of Kafka's Java client, as a non-negative number."""
    multiplier, length = 0x5BD1E995, len(key)
    mixed = 0x9747B28C ^ length
    whole = length // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * multiplier & 0xFFFFFFFF
        word = (word ^ word >> 24) * multiplier & 0xFFFFFFFF
        mixed = (mixed * multiplier & 0xFFFFFFFF) ^ word
    rest = key[whole:]
    if rest:
        mixed ^= int.from_bytes(rest, "little")
        mixed = mixed * multiplier & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 13) * multiplier & 0xFFFFFFFF
    return (mixed ^ mixed >> 15) & 0x7FFFFFFF


def crc32(key: bytes) -> int | None:
    """The hash of librdkafka's default partitioner; None for an empty key: any partition."""
    return zlib.crc32(key) if key else None


PARTITIONERS: Mapping[str, Callable[[bytes], int | None]] = {"murmur2": murmur2, "crc32": crc32}
"""`murmur2`: Kafka's Java client, and librdkafka's partitioner of the same name.

`crc32`: librdkafka's default for records with a key.
"""
