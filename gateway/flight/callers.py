"""Identifies callers by the headers of the call, with the same credentials as over HTTP.

A client may log in once with a password, by `Handshake`. It gets a token that stands for that
credential. Every call checks the credential again, so the token becomes invalid when the password
does. A client may also send its credential with every call. If there are several principals, each
may have half of the concurrent calls. An open gateway listens on loopback, and pages in a browser
cannot speak gRPC without TLS, so nobody else reaches it here.
"""

from __future__ import annotations

import dataclasses
import functools
import urllib.parse
from collections.abc import Mapping
from typing import Any

import itsdangerous

from seamline.errors import RETRY_AFTER, TOO_MANY_STATEMENTS, UNAUTHENTICATED, SeamlineError
from seamline.gateway.access.audit import AuditLog, Origin
from seamline.gateway.access.authentication import Authentication, claimed_user
from seamline.gateway.access.identity import Identity, Presented
from seamline.gateway.access.rights import Principal
from seamline.gateway.access.shares import Shares

AUTHORIZATION = "authorization"
CALLS_MAX = 256
"""Maximum number of concurrent calls."""
OWN_CALLS_MAX = CALLS_MAX // 2
"""Maximum number for one principal, if there are several."""
_SALT = "seamline-flight-login"
_PREFIX = "seamline-flight."
_BEARER = "bearer "


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """The caller, and the headers of the call.

    Attributes:
        identity: The caller's identity.
        origin: Where the call comes from.
        headers: The headers by lower-case name; of several with one name, the first.
    """

    identity: Identity
    origin: Origin
    headers: Mapping[str, str]

    @property
    def principal(self) -> Principal:
        """The caller's principal."""
        return self.identity.principal


class Callers:
    """Identifies callers. Safe to share between threads.

    Args:
        authentication: Authenticates callers.
        secret: Signs login tokens.
        age_seconds_max: The age in seconds beyond which login tokens are refused.
        audit: Records refused logins.

    Attributes:
        audit: The same audit log.
    """

    def __init__(
        self, authentication: Authentication, secret: str, age_seconds_max: int, audit: AuditLog
    ) -> None:
        self._authentication = authentication
        self._serializer = itsdangerous.URLSafeTimedSerializer(secret, salt=_SALT)
        self._age_seconds_max = age_seconds_max
        self._calls = Shares(CALLS_MAX if authentication.is_open else OWN_CALLS_MAX)
        self.audit = audit

    def identify(self, context: Any, method: str) -> Caller:
        """Returns who makes a call.

        Args:
            context: The call's gRPC context.
            method: The method's name, for the audit log.

        Raises:
            SeamlineError: UNAUTHENTICATED and whatever else `Authentication.identify` raises;
                TOO_MANY_STATEMENTS when the caller has too many calls open.
        """
        headers: dict[str, str] = {}
        for name, value in context.invocation_metadata():
            if isinstance(value, str):
                headers.setdefault(name.lower(), value)
        address = _address(context.peer())
        try:
            identity = self._identify(headers.get(AUTHORIZATION), address)
        except SeamlineError as error:
            self._record_refusal(headers.get(AUTHORIZATION), address, method, error)
            raise
        self._count(identity.principal.name, context)
        return Caller(identity, Origin.of(identity, address), headers)

    def token(self, caller: Caller) -> str:
        """Returns the token that an authenticated caller may send instead of the credential."""
        identity, principal = caller.identity, caller.principal
        proof = (identity.method, identity.credential, identity.expires)
        body = [principal.name, list(principal.groups), *proof]
        return f"Bearer {_PREFIX}{self._serializer.dumps(body)}"

    def _identify(self, authorization: str | None, address: str) -> Identity:
        header = authorization or ""
        if header.lower().startswith(_BEARER + _PREFIX):
            return self._authentication.again(self._logged_in(header[len(_BEARER + _PREFIX) :]))
        host = f"[{address}]" if ":" in address else address
        return self._authentication.identify(Presented(authorization, host, address))

    def _count(self, name: str, context: Any) -> None:
        """Counts another call of a principal until it ends."""
        if not self._calls.take(name, may_wait=False):
            raise SeamlineError(
                TOO_MANY_STATEMENTS,
                f"{name} already has {self._calls.own_max} open calls",
                hint="Close those that nobody reads, and try again.",
                details={RETRY_AFTER: 1},
            )
        end = functools.partial(self._calls.give_back, name)
        if not context.add_callback(end):
            end()

    def _logged_in(self, token: str) -> Identity:
        try:
            name, groups, *proof = self._serializer.loads(token, max_age=self._age_seconds_max)
            return Identity(Principal(name, tuple(groups)), *proof)
        except (itsdangerous.BadData, ValueError, TypeError) as error:
            raise SeamlineError(
                UNAUTHENTICATED,
                "the login is unknown here, or too old",
                hint="Reconnect to log in again.",
            ) from error

    def _record_refusal(
        self, authorization: str | None, address: str, method: str, error: SeamlineError
    ) -> None:
        if self.audit.is_on:
            fields = {
                "user": claimed_user(authorization),
                "address": address,
                "request": f"Flight {method}",
                "error": error.code.name,
            }
            self.audit.write("login", fields)


def _address(peer: str) -> str:
    """Returns the IP address of a gRPC peer, such as `ipv4:127.0.0.1:52100`, `ipv6:[::1]:52100`."""
    _, _, host_and_port = urllib.parse.unquote(peer).partition(":")
    return host_and_port.rpartition(":")[0].strip("[]")
