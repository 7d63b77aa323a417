"""Goal: a key's partition is the one that Kafka's own clients would have chosen, or any.

Method: generated keys, empty and large ones among them, are given to librdkafka's partitioners as
Python's client has loaded them, and to Java's; the bytes that keys are written as.
"""

from __future__ import annotations

import ctypes
import functools
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples
from support.java_library import java_library
from support.odd_records import librdkafka

from seamline.connectors.jvm.jars import kafka_jars
from seamline.connectors.kafka.formats.all_formats import format_of
from seamline.planners.rules.prune_tail_by_key import (
    PARTITIONERS,
    key_bytes,
    only_key_bytes,
    partition_of,
)
from seamline.seam.binding import TopicBinding
from seamline.sql.predicates import Value
from seamline.sql.types import BIGINT, BOOLEAN, VARCHAR, Field, Type

KEYS = st.binary(max_size=20) | st.builds(
    lambda size, seed: random.Random(seed).randbytes(size), st.integers(0, 5000), st.integers(0, 99)
)
LARGE = bytes(range(256)) * 4096
CLIENTS = {
    "murmur2": ("murmur2", "murmur2_random"),
    "crc32": ("consistent", "consistent_random"),
}
"""librdkafka's partitioners that each of our words stands for."""


def binding_of(partitioner: str, count: int) -> TopicBinding:
    return TopicBinding("c", "t", key="k", key_partitioner=partitioner, key_partitions=count)


@functools.cache
def topic() -> ctypes.c_void_p:
    """A topic of a producer that has no broker: partitioners ask it which partitions are up."""
    library, text = librdkafka(), ctypes.create_string_buffer(512)
    producer = ctypes.c_void_p(library.rd_kafka_new(0, None, text, 512))
    return ctypes.c_void_p(library.rd_kafka_topic_new(producer, b"t", None))


def chosen_by_librdkafka(name: str, key: bytes, count: int) -> int:
    choose = getattr(librdkafka(), f"rd_kafka_msg_partitioner_{name}")
    return int(choose(topic(), key, ctypes.c_size_t(len(key)), ctypes.c_int32(count), None, None))


def test_every_partitioner_is_held_against_a_client() -> None:
    assert set(CLIENTS) == set(PARTITIONERS)


@pytest.mark.parametrize("partitioner", CLIENTS)
@examples(300)
@given(key=KEYS, count=st.integers(1, 200))
@example(key=b"", count=7)
@example(key=LARGE, count=7)
def test_a_record_lies_where_librdkafka_puts_it(key: bytes, count: int, partitioner: str) -> None:
    expected = partition_of(key, binding_of(partitioner, count))
    for name in CLIENTS[partitioner]:
        found = chosen_by_librdkafka(name, key, count)
        assert expected in (None, found)
    assert (expected is None) == (partitioner == "crc32" and not key), "nothing is given up"


def test_librdkafka_puts_an_empty_key_anywhere() -> None:
    """Else there would be no need to read every partition for it."""
    found = {chosen_by_librdkafka("consistent_random", b"", 50) for _ in range(200)}
    assert len(found) > 1


@pytest.fixture(scope="module")
def java_partition() -> Iterator[Callable[[bytes, int], int]]:
    with java_library(kafka_jars(print) / "*") as jvm:
        internals = jvm.org.apache.kafka.clients.producer.internals
        yield internals.BuiltInPartitioner.partitionForKey


@pytest.mark.integration
def test_a_record_lies_where_java_puts_it(
    java_partition: Callable[[bytes, int], int],
) -> None:
    chance = random.Random(9)
    keys = [b"", LARGE, *(chance.randbytes(chance.randint(0, 40)) for _ in range(300))]
    for key in keys:
        count = chance.randint(1, 200)
        assert java_partition(key, count) == partition_of(key, binding_of("murmur2", count))


@pytest.mark.parametrize(
    ("value", "key_format", "raw"),
    [
        ("ü", "string", "ü".encode()),
        ("", "string", b""),
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
    assert key_bytes(value, key_format) == only_key_bytes(value, key_format) == raw


@pytest.mark.parametrize(
    ("column", "value", "key_format", "keys"),
    [
        (BIGINT, 7, "string", [b"7", b"007", b"+7"]),
        (BOOLEAN, True, "string", [b"true", b"TRUE"]),
        (VARCHAR, "ü", "json", ['"ü"'.encode(), b'"\\u00fc"']),
        (VARCHAR, "a", "json", [b'"a"', b' "a"']),
        (BIGINT, 7, "json", [b"7", b"7 "]),
    ],
)
def test_nothing_is_cut_for_a_value_that_several_keys_encode(
    column: Type, value: Value, key_format: str, keys: list[bytes]
) -> None:
    decoder = format_of(key_format).whole(Field("k", column))
    (found,), bad = decoder.decode(keys)
    assert not bad
    assert found.to_pylist() == [value] * len(keys)
    assert only_key_bytes(value, key_format) is None
