"""Slows down failed logins, by address and by user.

Failures are rate-limited: a number of them at once, then one per fixed interval. Faster attempts
are refused before anything about them is checked; only a password that is remembered as correct is
accepted without this check (see `passwords`). Failures from an address from which the user has
logged in are counted separately, so that others who try that user's name do not lock the user out.
Memory is bounded.
"""

from __future__ import annotations

import dataclasses
import hashlib
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
    """How often something may happen: `at_once` times, then once every `every_s` seconds."""

    at_once: int
    every_s: float


USER = Pace(10, 10.0)
ADDRESS = Pace(50, 2.0)


class FailedLogins:
    """Counts failed logins. Safe to share between threads.

    Args:
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._paid_until: Cache[Hashable, float] = Cache(_KEYS_MAX)
        self._known: Cache[tuple[str, str], bool] = Cache(_KEYS_MAX, ttl_s=_KNOWN_S, clock=clock)

    def check(self, address: str, user: str | None = None) -> None:
        """Checks that another attempt does not come too early.

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
                f"too many logins have failed; try again in {seconds} s",
                details={RETRY_AFTER: seconds},
            )

    def count_address(self, address: str) -> None:
        """Counts a failed login from an address."""
        self._count(_network(address), ADDRESS)

    def count_user(self, address: str, user: str) -> None:
        """Counts a failed login as a user."""
        self._count(self._of_user(address, user), USER)

    def succeeded(self, address: str, user: str) -> None:
        """Notes that a user has logged in from an address."""
        self._known.put((_network(address), user), True)

    def _of_user(self, address: str, user: str) -> Hashable:
        """Returns the key under which a user's failures from an address are counted."""
        network = _network(address)
        is_known = self._known.get((network, user)) is not None
        name = hashlib.sha256(user.encode(errors="surrogatepass")).digest()  # of any length
        return (name, network) if is_known else (name,)

    def _count(self, key: Hashable, pace: Pace) -> None:
        now = self._clock()
        with self._lock:
            self._paid_until.put(key, max(now, self._paid_until.get(key) or now) + pace.every_s)

    def _wait_s(self, key: Hashable, pace: Pace) -> float:
        """Returns the seconds until the next attempt.

        Each failure costs `every_s` seconds, and may be owed until `at_once` of them have added up.
        """
        now = self._clock()
        return (self._paid_until.get(key) or now) - now - (pace.at_once - 1) * pace.every_s


def _network(address: str) -> str:
    """Returns what the owner of an address controls: that address, or an IPv6 network."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if ip.version == 6:
        return str(ipaddress.ip_network((int(ip) >> 64 << 64, 64)))
    return address
