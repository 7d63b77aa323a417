"""Goal: a key's partition is the one that Kafka's own clients would have chosen.

Method: hashes as Kafka's Java client computes them, and the bytes that keys are written as.
"""

from __future__ import annotations

import pytest

from seamline.planners.rules.prune_tail_by_key import key_bytes, murmur2, partition_of
from seamline.seam.binding import TopicBinding
from seamline.sql.predicates import Value


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_the_java_client(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("value", "key_format", "raw"),
    [
        ("ü", "string", "ü".encode()),
        (42, "string", b"42"),
        (True, "string", b"true"),
        ("a", "json", b'"a"'),
        ("ü", "json", '"ü"'.encode()),
        (42, "json", b"42"),
        (False, "json", b"false"),
        (-2, "int32", b"\xff\xff\xff\xfe"),
        (2**31, "int32", None),
        (1, "int64", b"\0\0\0\0\0\0\0\1"),
        (2**63, "int64", None),
        (b"\0", "bytes", b"\0"),
        ("a", "bytes", None),
        (1.5, "string", None),
        ("a", "int32", None),
    ],
)
def test_a_key_is_written_in_its_format_or_nothing_is_known(
    value: Value, key_format: str, raw: bytes | None
) -> None:
    assert key_bytes(value, key_format) == raw


@pytest.mark.parametrize(("partitioner", "partition"), [("murmur2", 3), ("crc32", 2)])
def test_the_partition_follows_from_the_partitioner(partitioner: str, partition: int) -> None:
    binding = TopicBinding("c", "t", key="k", key_partitioner=partitioner, key_partitions=4)
    assert partition_of(b"abc", binding) == partition
