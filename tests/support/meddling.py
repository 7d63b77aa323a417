"""A log and an engine under which something happens once, between planning and reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fakes.forwarding import Answer, ForwardingLog

from seamline.connectors.protocols.catalogs import Catalog
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.engines import Engine, EngineQuery, ResultStream
from seamline.connectors.protocols.hot_logs import (
    FollowableLog,
    SharedSubscription,
    SharesSubscriptions,
    Subscription,
    TellsCompaction,
)
from seamline.gateway.access.rights import Rights
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.catalogs.silent import Silent
from seamline.gateway.config.model import Config
from seamline.seam.offsets import Offsets


class Event:
    """What happens, once.

    Args:
        work: Does it.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work

    @property
    def happened(self) -> bool:
        """Whether it has."""
        return self._work is None

    def __call__(self) -> None:
        """Lets it happen, unless it has."""
        work, self._work = self._work, None
        if work is not None:
            work()


class MeddledLog(ForwardingLog[FollowableLog]):
    """`FollowableLog` over another: the event happens before the first record is read."""

    def __init__(self, inner: FollowableLog, event: Event) -> None:
        super().__init__(inner)
        self._event = event

    def _call(self, name: str, work: Callable[[], Answer]) -> Answer:
        if name in {"offsets at", "read"}:
            self._event()
        return work()

    def follow(
        self, topic: str, starts: Offsets, isolation: str, epochs: Mapping[int, int], patient: bool
    ) -> Subscription:
        """See `FollowableLog.follow`."""
        self._event()
        return self._inner.follow(topic, starts, isolation, epochs, patient)

    def share(
        self,
        topic: str,
        starts: Offsets,
        isolation: str,
        epochs: Mapping[int, int],
        wake: Callable[[], None],
        *,
        patient: bool,
    ) -> SharedSubscription:
        """See `SharesSubscriptions.share`."""
        assert isinstance(self._inner, SharesSubscriptions)
        self._event()
        return self._inner.share(topic, starts, isolation, epochs, wake, patient=patient)

    def is_compacted(self, topic: str, deadline: Deadline) -> bool:
        """See `TellsCompaction.is_compacted`."""
        assert isinstance(self._inner, TellsCompaction)
        return self._inner.is_compacted(topic, deadline)

    def untouched_from(
        self, topic: str, topic_id: str, ends: Offsets, deadline: Deadline
    ) -> Offsets:
        """See `TellsCompaction.untouched_from`."""
        assert isinstance(self._inner, TellsCompaction)
        return self._inner.untouched_from(topic, topic_id, ends, deadline)


class MeddledSources:
    """`Sources` whose logs have something happen under them."""

    def __init__(self, inner: Connections, event: Event) -> None:
        self._inner = inner
        self._event = event

    @property
    def config(self) -> Config:
        """See `Sources.config`."""
        return self._inner.config

    @property
    def rights(self) -> Rights:
        """See `Sources.rights`."""
        return self._inner.rights

    @property
    def silent(self) -> Silent:
        """See `Sources.silent`."""
        return self._inner.silent

    def cold(self, name: str) -> Catalog:
        """See `Sources.cold`."""
        return self._inner.cold(name)

    def log(self, name: str) -> MeddledLog:
        """See `Sources.log`."""
        return MeddledLog(self._inner.log(name), self._event)


class MeddledEngine:
    """`Engine` over another: the event happens before it runs."""

    def __init__(self, inner: Engine, event: Event) -> None:
        self.name = inner.name
        self._inner = inner
        self._event = event

    def run(self, query: EngineQuery, deadline: Deadline) -> ResultStream:
        """See `Engine.run`."""
        self._event()
        return self._inner.run(query, deadline)
