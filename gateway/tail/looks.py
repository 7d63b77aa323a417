"""Looks at the topics of one cluster for all of its followers, with few requests.

Followers whose look is due are looked at together. One whose topic has an error, or whose log needs
to be read because its leader has changed, is looked at alone by its own reader, and again together
with the others once that has succeeded. So the error of one topic costs the others one look.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from seamline.connectors import supervision
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.errors import SeamlineError
from seamline.gateway.tail.follower import LOOK_EVERY_S, Follower, Look
from seamline.gateway.tail.reader import LOOK_S_MAX, Soon
from seamline.seam.history_checks import doubtful
from seamline.seam.log import LogBounds

TOPICS_MAX = 250
"""How many topics are requested at once."""
_NAME = "tail looks"


class Looks:
    """Looks for followers. For one thread."""

    def __init__(self, log: HotLog, followers: Callable[[], Iterable[Follower]]) -> None:
        self._log = log
        self._followers = followers

    def look(self) -> float:
        """Looks for those whose look is due; returns the seconds until the next time."""
        due: dict[str, list[Follower]] = {}
        for follower in self._followers():
            follower.tick()
            if follower.look_is_due and not follower.looks_alone:
                due.setdefault(follower.table.source.isolation, []).append(follower)
        for isolation, followers in due.items():
            for some in _chunks(followers, TOPICS_MAX):
                supervision.attempt(_NAME, functools.partial(self._look, isolation, some))
        return LOOK_EVERY_S

    def _look(self, isolation: str, followers: Sequence[Follower]) -> None:
        soon = Soon(LOOK_S_MAX)
        begun = [(follower, follower.begin_look()) for follower in followers]
        topics = sorted({follower.table.topic for follower in followers})
        try:
            bounds = self._log.bounds(topics, isolation, soon)
        except SeamlineError as error:
            others = [f for f in followers if f.table.topic != error.subject]
            if not others or len(others) == len(followers):
                others = []
            for follower in set(followers).difference(others):
                follower.look_alone()
            if others:
                self._look(isolation, others)
            return
        for follower, look in begun:
            supervision.attempt(_NAME, functools.partial(_end, follower, look, bounds, soon))


def _end(
    follower: Follower, look: Look, bounds: Mapping[str, LogBounds], deadline: Deadline
) -> None:
    topic = bounds[follower.table.topic]
    if doubtful(topic, look.positions, look.epochs):
        follower.look_alone()
        return
    with contextlib.suppress(SeamlineError):  # which is the follower's own
        follower.end_look(look, lambda: topic, deadline)


def _chunks(followers: Sequence[Follower], size: int) -> Iterable[Sequence[Follower]]:
    for first in range(0, len(followers), size):
        yield followers[first : first + size]
