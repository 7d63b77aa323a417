"""Failed logins, slowed by address and by user; nobody who has the right password is.

Failures are counted at a pace: so many at once, and then one in so many seconds. Who is faster is
refused before anything is looked at. An address from which a user has logged in is counted by
itself, so that others who try that user's name do not lock the user out. Memory is bounded.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import threading
import time
from collections.abc import Callable, Hashable

from seamline.connectors.cache import Cache
from seamline.errors import RETRY_AFTER, TOO_MANY_LOGINS, SeamlineError

_KEYS_MAX = 20_000
_KNOWN_S = 24 * 3600.0


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """How often something may happen: so often at once, and then once in so many seconds."""

    at_once: int
    every_s: float


USER = Pace(10, 10.0)
ADDRESS = Pace(50, 2.0)


class FailedLogins:
    """Counts failures. Safe to share between threads.

    Args:
        clock: Seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._paid_until: Cache[Hashable, float] = Cache(_KEYS_MAX)
        self._known: Cache[tuple[str, str], bool] = Cache(_KEYS_MAX, ttl_s=_KNOWN_S, clock=clock)

    def check(self, address: str, user: str | None = None) -> None:
        """Another try is in time.

        Raises:
            SeamlineError: TOO_MANY_LOGINS, with the seconds to wait in its details.
        """
        wait_s = self._wait_s(_network(address), ADDRESS)
        if user is not None:
            wait_s = max(wait_s, self._wait_s(self._of_user(address, user), USER))
        if wait_s > 0:
            seconds = math.ceil(wait_s)
            raise SeamlineError(
                TOO_MANY_LOGINS,
                f"too many logins have failed; the next is looked at in {seconds} s",
                details={RETRY_AFTER: seconds},
            )

    def count_address(self, address: str) -> None:
        """A login from an address has failed."""
        self._count(_network(address), ADDRESS)

    def count_user(self, address: str, user: str) -> None:
        """A login as a user has failed."""
        self._count(self._of_user(address, user), USER)

    def succeeded(self, address: str, user: str) -> None:
        """A user has logged in from an address."""
        self._known.put((_network(address), user), True)

    def _of_user(self, address: str, user: str) -> Hashable:
        """What failures of a user are counted under, from there."""
        network = _network(address)
        is_known = self._known.get((network, user)) is not None
        return (user, network) if is_known else (user,)

    def _count(self, key: Hashable, pace: Pace) -> None:
        now = self._clock()
        with self._lock:
            self._paid_until.put(key, max(now, self._paid_until.get(key) or now) + pace.every_s)

    def _wait_s(self, key: Hashable, pace: Pace) -> float:
        """Each failure is paid with its seconds; so many may be owed."""
        now = self._clock()
        return (self._paid_until.get(key) or now) - now - (pace.at_once - 1) * pace.every_s


def _network(address: str) -> str:
    """What somebody has who has an address: that one, or a network of IPv6."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 6:
        return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
    return address
