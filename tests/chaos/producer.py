"""A producer as a process of its own: `python -m chaos.producer JSON`, events on standard output.

A record is announced before it is sent, so that one whose acknowledgement was lost with the process
is known of. Plain producers are idempotent; transactional ones commit, abort, and leave
transactions hanging until the broker ends them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from chaos.history import Acknowledged, Event, Sent, TransactionEnded, to_line, value_of
from chaos.schemas import Climber

KEYS = 24
_DELETES = 0.15
_IN_FLIGHT_MAX = 300
_HANG_MS = 2_500


_BESIDE_CHANGES: tuple[tuple[bytes, bytes | None], ...] = (
    (b'{"ts_ms": 1700000000000}', b'{"serverName": "chaos"}'),
    (b'{"status": "BEGIN", "id": "571:1", "ts_ms": 1}', None),
    (b'{"status": "END", "id": "571:1", "event_count": 2, "ts_ms": 1}', b'{"id": "571:1"}'),
    (b'{"source": {}, "databaseName": "chaos", "ddl": "CREATE TABLE t", "ts_ms": 1}', None),
    (b'{"op": "u", "before": null, "after": null, "ts_ms": 1}', b"k1"),
    (b'{"op": "c", "after": {"id": "none"}, "ts_ms": 1}', b"k2"),
    (b"{", b"k3"),
)
"""Values and keys of what is not a change that a table can show: beside changes, or bad."""


def say(*events: Event) -> None:
    """Writes events out, at once."""
    sys.stdout.write("".join(to_line(event) for event in events))
    sys.stdout.flush()


class Sender:
    """Sends records with unique ids, and says so.

    Args:
        servers: The broker.
        ids: Gives ids.
        states: Topics in which a record without a value deletes its key.
        captured: Topics of changes, in which other records are, too.
        value: Makes the value of an id, with a text in it.
        settings: Further settings of the client.
    """

    def __init__(
        self,
        servers: str,
        ids: Iterator[int],
        states: Collection[str] = (),
        value: Callable[[int, str], bytes] = value_of,
        captured: Collection[str] = (),
        **settings: Any,
    ) -> None:
        self._ids = ids
        self._states = states
        self._value = value
        self._captured = captured
        self.client = Producer(
            {
                "bootstrap.servers": servers,
                "log_level": 0,
                "acks": "all",
                "enable.idempotence": True,
                "max.in.flight": 1,  # with more, librdkafka polls without a pause while they wait
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 5000,
                **settings,
            }
        )

    def send(self, topics: list[str], chance: random.Random, transaction: str = "") -> None:
        """Sends one record to each topic, and sometimes a delete of another key before it."""
        now = time.monotonic()
        sent = [Sent(next(self._ids), topic, now, transaction) for topic in topics]
        say(*sent)
        for record in sent:
            if record.topic in self._states and chance.random() < _DELETES:
                self.client.produce(record.topic, None, key=f"k{chance.randrange(KEYS)}")
            value = self._value(record.id, f"r{record.id % 97}")
            if record.topic in self._captured:
                value = b'{"op": "c", "before": null, "after": %s, "ts_ms": 1}' % value
                if chance.random() < _DELETES:
                    self.client.produce(record.topic, *chance.choice(_BESIDE_CHANGES))
            self.client.produce(
                record.topic,
                value,
                key=f"k{chance.randrange(KEYS)}",
                on_delivery=_delivered(record.id),
            )


def _delivered(id_: int) -> Any:
    def report(error: KafkaError | None, message: Message) -> None:
        if error is None:
            say(Acknowledged(id_, message.partition(), message.offset(), time.monotonic()))

    return report


def run_plain(spec: dict[str, Any], ids: Iterator[int], chance: random.Random) -> None:
    """Sends until it is stopped; with a new client after an error that is final for the old one.

    A broker that lost its log, or a recreated topic, leaves an idempotent client out of sequence.
    """
    value = value_of
    if spec["registry"]:
        (topic,) = spec["topics"]
        value = Climber(spec["registry"], topic, spec["ladder"], chance).value
    while True:
        sender = Sender(spec["servers"], ids, spec["states"], value, spec["captured"])
        try:
            _send(sender, spec, chance)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._FATAL:
                raise


def _send(sender: Sender, spec: dict[str, Any], chance: random.Random) -> None:
    while True:
        for _ in range(chance.randint(1, 3)):
            sender.send(spec["topics"], chance)
        sender.client.poll(0)
        time.sleep(spec["pause_s"])
        while len(sender.client) > _IN_FLIGHT_MAX:
            sender.client.poll(0.1)


def run_transactional(spec: dict[str, Any], ids: Iterator[int], chance: random.Random) -> None:
    """Transactions until it is stopped; with a new client after an error that is not transient."""
    for number in itertools.count():
        settings: dict[str, Any] = {
            "transactional.id": spec["name"],
            "transaction.timeout.ms": 5_000,
        }
        sender = Sender(spec["servers"], ids, spec["states"], **settings)
        with contextlib.suppress(KafkaException):
            sender.client.init_transactions(20)
            for turn in itertools.count():
                name = f"{spec['name']}-{spec['first_id']}-{number}-{turn}"
                if chance.random() < 0.08:
                    leave_hanging(spec, ids, chance, f"{name}-hanging")
                _transact(sender, spec["topics"], chance, name)
                time.sleep(spec["pause_s"])
        time.sleep(0.2)


def _transact(sender: Sender, topics: list[str], chance: random.Random, name: str) -> None:
    sender.client.begin_transaction()
    for _ in range(chance.randint(1, 6)):
        sender.send(topics, chance, name)
    sender.client.poll(0)
    time.sleep(chance.random() * 0.05)
    commits = chance.random() < 0.75
    outcome = "unknown"
    try:
        if commits:
            sender.client.commit_transaction(15)
            outcome = "commit"
        else:
            sender.client.abort_transaction(15)
            outcome = "abort"
    except KafkaException as error:
        if error.args[0].txn_requires_abort():
            sender.client.abort_transaction(15)
            outcome = "abort"
        else:
            raise
    finally:
        say(TransactionEnded(name, outcome, time.monotonic()))


def leave_hanging(
    spec: dict[str, Any], ids: Iterator[int], chance: random.Random, name: str
) -> None:
    """A transaction nobody ends: the broker aborts it when it times out."""
    settings: dict[str, Any] = {"transactional.id": name, "transaction.timeout.ms": _HANG_MS}
    sender = Sender(spec["servers"], ids, spec["states"], **settings)
    with contextlib.suppress(KafkaException):
        sender.client.init_transactions(10)
        sender.client.begin_transaction()
        for _ in range(3):
            sender.send(spec["topics"], chance, name)
        sender.client.flush(2)
    say(TransactionEnded(name, "unknown", time.monotonic()))


def main() -> None:
    """Runs what the argument says."""
    spec = json.loads(sys.argv[1])
    chance = random.Random(spec["seed"])
    ids = itertools.count(spec["first_id"])
    (run_transactional if spec["mode"] == "transactional" else run_plain)(spec, ids, chance)


if __name__ == "__main__":
    main()
