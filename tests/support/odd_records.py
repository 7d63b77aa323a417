"""Records that Python's client refuses to send: header names of any bytes, also none of UTF-8.

It takes names as text. The library below takes bytes and their length, so it is asked directly.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import pathlib
from collections.abc import Sequence

import confluent_kafka

_TOPIC, _PARTITION, _VALUE, _KEY, _FLAGS, _TIMESTAMP, _HEADERS, _END = 1, 3, 4, 5, 7, 8, 10, 0
_COPY = 2
_PRODUCER = 0
_FLUSH_MS = 30_000


@dataclasses.dataclass(frozen=True)
class OddRecord:
    """A record of any bytes.

    Attributes:
        value: Its value, None for a tombstone.
        key: Its key.
        headers: Names and values.
        timestamp_ms: Its time, which the broker keeps as it is; 0 for now.
    """

    value: bytes | None = None
    key: bytes | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    timestamp_ms: int = 0


def produce(bootstrap_servers: str, topic: str, records: Sequence[OddRecord]) -> None:
    """Sends records to partition 0, in order, and waits until the broker has them."""
    library = librdkafka()
    text = ctypes.create_string_buffer(512)
    settings = ctypes.c_void_p(library.rd_kafka_conf_new())
    properties = {"bootstrap.servers": bootstrap_servers, "linger.ms": "5", "log_level": "0"}
    for name, value in properties.items():
        library.rd_kafka_conf_set(settings, name.encode(), value.encode(), text, 512)
    producer = ctypes.c_void_p(library.rd_kafka_new(_PRODUCER, settings, text, 512))
    assert producer.value, text.value
    try:
        for record in records:
            failed = _send(library, producer, topic, record)
            assert not failed, f"{record}: error {failed}"
        failed = library.rd_kafka_flush(producer, _FLUSH_MS)
        assert not failed, f"not flushed: error {failed}"
    finally:
        library.rd_kafka_destroy(producer)


@functools.cache
def librdkafka() -> ctypes.CDLL:
    """librdkafka, as Python's client has loaded it."""
    beside = pathlib.Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    library = ctypes.CDLL(str(next(beside.glob("librdkafka*.so*"))))
    for name in ("conf_new", "new", "headers_new", "topic_new"):
        getattr(library, f"rd_kafka_{name}").restype = ctypes.c_void_p
    return library


def _send(library: ctypes.CDLL, producer: ctypes.c_void_p, topic: str, record: OddRecord) -> int:
    headers = ctypes.c_void_p(library.rd_kafka_headers_new(ctypes.c_size_t(len(record.headers))))
    for name, value in record.headers:
        library.rd_kafka_header_add(
            headers, name, ctypes.c_ssize_t(len(name)), value, ctypes.c_ssize_t(len(value or b""))
        )
    return int(
        library.rd_kafka_producev(
            producer,
            *(_TOPIC, topic.encode()),
            *(_PARTITION, ctypes.c_int32(0)),
            *(_FLAGS, _COPY),
            *(_VALUE, record.value, ctypes.c_size_t(len(record.value or b""))),
            *(_KEY, record.key, ctypes.c_size_t(len(record.key or b""))),
            *(_TIMESTAMP, ctypes.c_int64(record.timestamp_ms)),
            *(_HEADERS, headers),
            _END,
        )
    )
