"""A producer at a steady rate, until it is stopped: `steady.py SERVERS TOPIC MESSAGES_A_SECOND`.

Says `ready` when it begins.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Producer

TICK_S = 0.01


def main() -> None:
    """Runs it."""
    servers, topic, rate = sys.argv[1], sys.argv[2], int(sys.argv[3])
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 2, "log_level": 0})
    started, sent = time.monotonic(), 0
    print("ready", flush=True)
    while True:
        due = int((time.monotonic() - started) * rate) + 1
        while sent < due:
            producer.produce(topic, b'{"id": -%d}' % (sent + 2))
            sent += 1
        producer.poll(0)
        time.sleep(TICK_S)


if __name__ == "__main__":
    main()
