"""What faults act on, and how they wait: everything that belongs to one run."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from support.registry import Registry

from chaos.brokers import direct_client
from chaos.history import Acknowledged, Recorder, Sent, value_of
from chaos.oracle import LogFollower
from chaos.processes import Process
from chaos.readers import Client, Session
from chaos.stack import ChaosStack
from seamline.errors import SeamlineError
from seamline.gateway.dev.local.settings import CATALOG, SCHEMA

READY_S = 60.0
AT_WORK, RECOVERING = "at work", "not yet at work again"
_ANSWERS = 10
_PROGRESS_S = 6.0
_ONLY_TIERED = ("poison_skip", "poison_null", "compacted")


class NotInjectedError(Exception):
    """A fault that could not be injected, and why."""


@dataclasses.dataclass(slots=True)
class Arena:
    """One run.

    Attributes:
        stack: The stack.
        registry: The registry of schemas.
        recorder: The history.
        oracle: The independent consumer.
        producers: Producer processes.
        sink: The writer that is not ours.
        ops: Generates the numbers of statements.
        ids: Generates ids of records that the nemesis sends.
        ended: Set when no fault may begin any more.
        one_view: Held while a broker lags, and by whoever needs all brokers to agree.
    """

    stack: ChaosStack
    registry: Registry
    recorder: Recorder
    oracle: LogFollower
    producers: list[Process]
    sink: Process
    ops: itertools.count[int]
    ids: itertools.count[int]
    ended: threading.Event = dataclasses.field(default_factory=threading.Event)
    one_view: Any = dataclasses.field(default_factory=threading.RLock)
    foreign_ids: itertools.count[int] = dataclasses.field(
        default_factory=lambda: itertools.count(1)
    )

    def client(self, name: str, session: Session | None = None, url: str = "") -> Client:
        """A client of the gateway, or of the one at an address, in a session of its own or not."""
        return Client(name, url or self.stack.url, self.recorder, self.ops, session)

    def last(self, seconds: float) -> None:
        """Lets a fault last; cut short at the end of the run."""
        self.ended.wait(seconds)

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Waits for a condition; returns whether it came true in time."""
        ends_at = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > ends_at:
                return False
            time.sleep(0.05)
        return True

    def answers(self) -> object:
        """A measure of how far reads have come."""
        return self.recorder.answered // _ANSWERS

    def commits(self) -> object:
        """A measure of how far the pipeline has come; None when it is unknown."""
        catalog = self.stack.connections.catalog(CATALOG)
        try:
            found = [catalog.load((SCHEMA, name)).state for name in _ONLY_TIERED]
        except SeamlineError:
            return None
        return [state.current_snapshot_id for state in found]

    def let_it_work(self, measure: Callable[[], object], last: object) -> str:
        """Waits a while until a measure has changed; returns whether it has.

        Something that is attacked before it has recovered must bear that, too; but not always.
        """

        def has_come_further() -> bool:
            return measure() not in (None, last)

        self.wait(lambda: has_come_further() or self.ended.is_set(), _PROGRESS_S)
        return AT_WORK if has_come_further() else RECOVERING

    def produce(
        self,
        topic: str,
        count: int,
        value: Callable[[int, str], bytes] = value_of,
        partitions: Sequence[int] = (-1,),
    ) -> int:
        """Sends records past the proxy; returns how many were acknowledged."""
        producer = Producer(
            {**direct_client(self.stack.direct_servers), "enable.idempotence": True}
        )
        acknowledged: list[int] = []
        for _, partition in zip(range(count), itertools.cycle(partitions), strict=False):
            id_ = next(self.ids)
            self.recorder.record(Sent(id_, topic, time.monotonic()))
            producer.produce(
                topic,
                value(id_, "n"),
                partition=partition,
                on_delivery=self._delivered(id_, acknowledged),
            )
        producer.flush(10)
        return len(acknowledged)

    def _delivered(
        self, id_: int, acknowledged: list[int]
    ) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                where = message.partition(), message.offset()
                self.recorder.record(Acknowledged(id_, *where, time.monotonic()))
                acknowledged.append(id_)

        return report
