"""The audit log: who asked for what and when, and the outcome, as one line of JSON per event.

Nothing waits for it: events go through a queue to a thread that writes them. While they cannot be
written, they are kept, as many as the queue holds. Events beyond that are lost; a metric counts
them, and the log reports them. After a failure an event may be written twice, which its `id` shows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import logging
import queue
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from seamline.connectors import supervision
from seamline.connectors.supervision import Backoff, Loop
from seamline.gateway.access.audit_sinks import AuditSink
from seamline.gateway.access.identity import NONE, Identity

_LOG = logging.getLogger("seamline.audit")
_WAITING_MAX = 10_000
_BATCH_MAX = 500
_WAIT_S = 0.2
_SAID_EVERY_S = 10.0
_CLOSE_S = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """Where a request comes from, besides its principal.

    Attributes:
        method: How the sender proved who it is.
        credential: Which credential of that kind it was.
        address: The address it comes from.
    """

    method: str = NONE
    credential: str = ""
    address: str = ""

    @classmethod
    def of(cls, identity: Identity, address: str) -> Origin:
        """Returns the origin of an identified sender's request."""
        return cls(identity.method, identity.credential, address)


NOWHERE = Origin()
"""The origin of the gateway's own requests."""


class AuditLog(Collector):
    """Writes events. Safe to share between threads.

    Args:
        sink: Where events are written; without one, nothing is written.
        hides_literals: Whether the texts of statements are written without their literals.
    """

    def __init__(self, sink: AuditSink | None = None, *, hides_literals: bool = False) -> None:
        self.hides_literals = hides_literals
        self._sink = sink
        self._waiting: queue.Queue[Mapping[str, Any]] = queue.Queue(_WAITING_MAX)
        self._batch: list[Mapping[str, Any]] = []
        self._lock = threading.Lock()
        self._written = 0
        self._lost = 0
        self._said: tuple[int, float] = (0, float("-inf"))
        self._loop = None if sink is None else self._start()

    @property
    def is_on(self) -> bool:
        """Whether events are written."""
        return self._sink is not None

    def write(self, event: str, fields: Mapping[str, Any]) -> None:
        """Queues an event to be written; returns at once.

        Args:
            event: What happened: `statement`, `request` or `login`.
            fields: What is known about it; JSON-ready.
        """
        if self._sink is None:
            return
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        whole = {"event": event, "id": str(uuid.uuid4()), "time": now, **fields}
        try:
            self._waiting.put_nowait(whole)
        except queue.Full:
            self._lose(1)

    def close(self) -> None:
        """Writes the waiting events, if that can be done soon."""
        if self._loop is not None:
            self._loop.stop()
            self._loop.join(_CLOSE_S)
            left = self._waiting.qsize() + len(self._batch)
            if left:
                self._lose(left)

    def collect(self) -> Iterator[Metric]:
        """Yields the log's metrics."""
        yield CounterMetricFamily(
            "seamline_audit_events", "Audit events that were written.", self._written
        )
        yield CounterMetricFamily(
            "seamline_audit_lost", "Audit events that could not be written.", self._lost
        )
        yield GaugeMetricFamily(
            "seamline_audit_waiting",
            "Audit events that wait to be written.",
            self._waiting.qsize() + len(self._batch),
        )

    def _start(self) -> Loop:
        return Loop("audit", self._step, backoff=Backoff(0.5, 5.0), at_end=self._drain)

    def _step(self) -> float:
        """Writes a batch; one that could not be written is tried again next."""
        if not self._batch:
            self._batch = self._take(_WAIT_S)
        if self._batch:
            assert self._sink is not None
            self._sink.append([_line(event) for event in self._batch])
            self._written += len(self._batch)
            self._batch = []
        return 0.0

    def _take(self, wait_s: float) -> list[Mapping[str, Any]]:
        events: list[Mapping[str, Any]] = []
        with contextlib.suppress(queue.Empty):
            events.append(self._waiting.get(timeout=wait_s))
            while len(events) < _BATCH_MAX:
                events.append(self._waiting.get_nowait())
        return events

    def _drain(self) -> None:
        while self._batch or not self._waiting.empty():
            self._step()

    def _lose(self, count: int) -> None:
        with self._lock:
            self._lost += count
            message, at = self._said
            now = time.monotonic()
            if now - at < _SAID_EVERY_S:
                return
            self._said = (self._lost, now)
            new = self._lost - message
        supervision.attempt("audit", lambda: _LOG.error("%d audit events were lost", new))


def _line(event: Mapping[str, Any]) -> bytes:
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode(errors="backslashreplace")
