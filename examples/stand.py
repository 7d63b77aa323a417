"""What all examples need: where gateway and broker are, and topics of their own.

`SEAMLINE_URL` and `BOOTSTRAP_SERVERS` say where they are; without them, they are those of the local
stack. An example's topics and tables begin with `example_`, and are gone when it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import seamline

URL = os.environ.get("SEAMLINE_URL", "http://127.0.0.1:8474")
SERVERS = os.environ.get("BOOTSTRAP_SERVERS", "127.0.0.1:19092")


@contextlib.contextmanager
def fresh_topics(*names: str, partitions: int = 2) -> Iterator[None]:
    """Empty topics, and no tables of their names; both are removed afterwards."""
    admin = AdminClient({"bootstrap.servers": SERVERS})
    try:
        admin.list_topics(timeout=10)
    except KafkaException:
        sys.exit(
            f"no broker answers at {SERVERS}: `seamline local up` starts one and prints its "
            "address; if it is another one, set BOOTSTRAP_SERVERS to it"
        )
    _remove(admin, names)
    for created in admin.create_topics([NewTopic(name, partitions) for name in names]).values():
        created.result()
    try:
        yield
    finally:
        _remove(admin, names)


def _remove(admin: AdminClient, names: Iterable[str]) -> None:
    with seamline.connect(URL) as connection:
        for name in names:
            with contextlib.suppress(seamline.ProgrammingError):  # it exists only after a failure
                connection.execute(f'DROP TABLE "{name}"')
    there = [name for name in names if name in admin.list_topics(timeout=30).topics]
    for deleted in admin.delete_topics(there).values() if there else ():
        deleted.result()
    while any(name in admin.list_topics(timeout=30).topics for name in there):
        time.sleep(0.1)  # the broker answers before it has forgotten them


def produce(topic: str, records: Iterable[tuple[str | None, Any]]) -> None:
    """Produces keys and values, the latter as JSON, and waits until they are acknowledged."""
    producer = Producer({"bootstrap.servers": SERVERS, "enable.idempotence": True})
    refused: list[object] = []
    for key, value in records:
        producer.produce(
            topic,
            None if value is None else json.dumps(value),
            key,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    producer.flush()
    assert not refused, refused[0]
