"""Who calls: by the headers of the call and by the same proofs as over HTTP, or nobody.

A client may log in once, by `Handshake` with a password: it is given a token that stands for that
proof, which every call looks at again, so that it ends when the password does. A client may as well
send its proof with every call. Where there are several principals, one has half of the calls that
there may be at once. An open gateway listens on loopback, and pages in a browser cannot
speak gRPC without TLS; so nobody else reaches it here.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import threading
import urllib.parse
from collections.abc import Mapping
from typing import Any

import itsdangerous

from seamline.errors import RETRY_AFTER, TOO_MANY_STATEMENTS, UNAUTHENTICATED, SeamlineError
from seamline.gateway.access import authentication
from seamline.gateway.access.audit import AuditLog, Origin
from seamline.gateway.access.authentication import Authentication
from seamline.gateway.access.identity import Identity, Presented
from seamline.gateway.access.rights import Principal

AUTHORIZATION = "authorization"
CALLS_MAX = 256
"""Calls at once."""
OWN_CALLS_MAX = CALLS_MAX // 2
"""Of one principal, where there are several."""
_SALT = "seamline-flight-login"
_PREFIX = "seamline-flight."
_BEARER = "bearer "


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and what else the headers say.

    Attributes:
        identity: Who it is.
        origin: Where the call comes from.
        headers: Its headers, by their names in lower case; the first of a name.
    """

    identity: Identity
    origin: Origin
    headers: Mapping[str, str]

    @property
    def principal(self) -> Principal:
        """Who it is."""
        return self.identity.principal


class Callers:
    """Knows who calls. Safe to share between threads.

    Args:
        known: Says who somebody is.
        secret: Signs the tokens of those who logged in.
        age_seconds_max: Older ones are refused.
        audit: Is told of refused logins.

    Attributes:
        audit: The same.
    """

    def __init__(
        self, known: Authentication, secret: str, age_seconds_max: int, audit: AuditLog
    ) -> None:
        self._known = known
        self._serializer = itsdangerous.URLSafeTimedSerializer(secret, salt=_SALT)
        self._age_seconds_max = age_seconds_max
        self._lock = threading.Lock()
        self._calls: collections.Counter[str] = collections.Counter()
        self.audit = audit

    def identify(self, context: Any, method: str) -> Caller:
        """Who makes a call.

        Args:
            context: The call's.
            method: What is called.

        Raises:
            SeamlineError: UNAUTHENTICATED and what else `Authentication.identify` raises;
                TOO_MANY_STATEMENTS when they have as many calls as they may.
        """
        headers: dict[str, str] = {}
        for name, value in context.invocation_metadata():
            if isinstance(value, str):
                headers.setdefault(name.lower(), value)
        address = _address(context.peer())
        try:
            found = self._identify(headers.get(AUTHORIZATION), address)
        except SeamlineError as error:
            self._refused(headers.get(AUTHORIZATION), address, method, error)
            raise
        self._count(found.principal.name, context)
        return Caller(found, Origin.of(found, address), headers)

    def token(self, caller: Caller) -> str:
        """What somebody who has just proved who it is may send instead of that proof."""
        who = caller.identity
        groups = list(who.principal.groups)
        body = [who.principal.name, groups, who.method, who.credential, who.expires]
        return f"Bearer {_PREFIX}{self._serializer.dumps(body)}"

    def _identify(self, authorization: str | None, address: str) -> Identity:
        given = authorization or ""
        if given.lower().startswith(_BEARER + _PREFIX):
            return self._known.again(self._logged_in(given[len(_BEARER + _PREFIX) :]))
        host = f"[{address}]" if ":" in address else address
        return self._known.identify(Presented(authorization, host, address))

    def _count(self, name: str, context: Any) -> None:
        """Another call of somebody begins, and counts until it ends."""
        own_max = CALLS_MAX if self._known.is_open else OWN_CALLS_MAX
        with self._lock:
            if self._calls[name] >= own_max:
                raise SeamlineError(
                    TOO_MANY_STATEMENTS,
                    f"{name} has {own_max} calls open already",
                    hint="Close those that nobody reads, and come again.",
                    details={RETRY_AFTER: 1},
                )
            self._calls[name] += 1
        give_back = functools.partial(self._give_back, name)
        if not context.add_callback(give_back):
            give_back()

    def _give_back(self, name: str) -> None:
        with self._lock:
            self._calls[name] -= 1
            if not self._calls[name]:
                del self._calls[name]

    def _logged_in(self, token: str) -> Identity:
        try:
            name, groups, *proof = self._serializer.loads(token, max_age=self._age_seconds_max)
            return Identity(Principal(name, tuple(groups)), *proof)
        except (itsdangerous.BadData, ValueError, TypeError) as error:
            raise SeamlineError(
                UNAUTHENTICATED,
                "the login is not known here, or is too old",
                hint="Connect anew, which logs in again.",
            ) from error

    def _refused(
        self, authorization: str | None, address: str, method: str, error: SeamlineError
    ) -> None:
        if self.audit.is_on:
            fields = {
                "user": authentication.claimed_user(authorization),
                "address": address,
                "request": f"Flight {method}",
                "error": error.code.name,
            }
            self.audit.write("login", fields)


def _address(peer: str) -> str:
    """The address of a peer as gRPC writes it: `ipv4:127.0.0.1:52100`, `ipv6:[::1]:52100`."""
    _, _, place = urllib.parse.unquote(peer).partition(":")
    return place.rpartition(":")[0].strip("[]")
