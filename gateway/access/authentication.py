"""Identifies callers by one of the configured methods, or refuses them.

A request that carries an Authorization header is judged by it alone; a request without one, by the
client's certificate. Secrets are compared in constant time, tokens by their stored hashes. Callers
that fail often are slowed down; see `logins`.

Without any method, the gateway is open. It then listens on loopback only and answers only requests
addressed to loopback, so that no page in a browser can reach it by another name.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import ipaddress
import pathlib
import urllib.parse

from seamline.connectors.dependencies import Outage
from seamline.errors import INVALID_CONFIG, PERMISSION_DENIED, UNAUTHENTICATED, SeamlineError
from seamline.gateway.access import certificates, revocations
from seamline.gateway.access.access_tokens import AccessTokens
from seamline.gateway.access.identity import CERTIFICATE, JWT, PASSWORD, TOKEN, Identity, Presented
from seamline.gateway.access.json_web_tokens import JsonWebTokens
from seamline.gateway.access.logins import FailedLogins
from seamline.gateway.access.passwords import Passwords
from seamline.gateway.access.revocations import Revocations
from seamline.gateway.access.rights import Principal
from seamline.gateway.config.model import Config

ANONYMOUS = "anonymous"
_PORTS = {"http": 80, "https": 443}


@dataclasses.dataclass(frozen=True, slots=True)
class PageRequest:
    """What a browser says about the page that sends a request.

    Attributes:
        site: The header `Sec-Fetch-Site`.
        origin: The header `Origin`.
        host: The header `Host`.
        is_secure: Whether the gateway itself has been reached over TLS.
    """

    site: str | None
    origin: str | None
    host: str
    is_secure: bool = False


def check_listening(config: Config) -> None:
    """Checks that an open gateway listens on loopback only.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """
    if not config.asks_who and not is_loopback(config.http.host):
        raise SeamlineError(
            INVALID_CONFIG,
            f"http.host {config.http.host} is reachable from outside, and nobody "
            "has to authenticate",
            hint="Configure auth (tokens, passwords or jwt) or http.tls.client_ca, or listen on "
            "127.0.0.1.",
        )


def check_page(request: PageRequest, external_url: str | None) -> None:
    """Refuses pages of other sites, which must send a token themselves.

    Browsers send `Sec-Fetch-Site` where they consider the address secure, and `Origin` with
    whatever may change something. What sends neither is no page.

    Args:
        request: What the browser says about the page that sends a request.
        external_url: The gateway's address for clients; None if it is the one they use.

    Raises:
        SeamlineError: PERMISSION_DENIED.
    """
    if request.site in {"same-origin", "none"}:  # no page can set this header
        return
    is_foreign = request.site in {"cross-site", "same-site"}
    if is_foreign or (request.origin is not None and not _is_own(request, external_url)):
        raise SeamlineError(
            PERMISSION_DENIED,
            "the gateway does not answer pages of other sites",
            hint="Let that page's server send the request, with an access token. Behind a proxy "
            "that changes the Host header, set http.external_url.",
        )


def _is_own(request: PageRequest, external_url: str | None) -> bool:
    """Whether an origin is the gateway's own; a proxy in front may have ended TLS."""
    origin = _origin_of(request.origin or "")
    if origin is None:
        return False
    if external_url is not None and origin == _origin_of(external_url):
        return True
    if request.is_secure and origin[0] != "https":
        return False
    return origin == _origin_of(f"{origin[0]}://{request.host}")


def _origin_of(url: str) -> tuple[str, str, int] | None:
    """Returns scheme, host and port; None for anything else, such as `null`."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None


def claimed_user(authorization: str | None) -> str | None:
    """Returns the user name in a Basic Authorization header; None for any other header."""
    kind, _, given = (authorization or "").partition(" ")
    if kind.lower() != "basic":
        return None
    with contextlib.suppress(ValueError):
        return base64.b64decode(given).decode().partition(":")[0]
    return None


class Authentication:
    """Identifies the senders of requests. Safe to share between threads."""

    def __init__(self, config: Config) -> None:
        self.is_open = not config.asks_who
        file = config.auth.token_file
        self._tokens = AccessTokens(
            config.auth.tokens, pathlib.Path(file) if file is not None else None
        )
        self._client_name = config.http.tls.client_name
        crl = config.http.tls.client_crl
        self._revocations = Revocations(pathlib.Path(crl)) if crl is not None else None
        self._failed = FailedLogins()
        self._passwords = (
            Passwords(pathlib.Path(config.auth.passwords), self._failed)
            if config.auth.passwords is not None
            else None
        )
        jwt = config.auth.jwt
        self._web_tokens = JsonWebTokens(jwt) if jwt.jwks is not None else None

    def identify(self, presented: Presented) -> Identity:
        """Returns the identity of the sender of a request.

        Raises:
            SeamlineError: UNAUTHENTICATED, TOO_MANY_LOGINS, LOGIN_KEYS_UNAVAILABLE,
                PERMISSION_DENIED.
        """
        if self.is_open:
            return _on_loopback(presented.host)
        if not presented.authorization and not presented.certificate:
            raise SeamlineError(UNAUTHENTICATED, "the request carries no credentials")
        try:
            return self._proved(presented)
        except SeamlineError as error:
            if error.code is UNAUTHENTICATED:
                self._failed.count_address(presented.address)
                self._failed.check(presented.address)
            raise

    def again(self, identity: Identity) -> Identity:
        """Returns the current identity of a caller who was identified earlier.

        Raises:
            SeamlineError: UNAUTHENTICATED when the credential is no longer accepted.
        """
        if self.is_open:
            return identity
        current = None
        if identity.method == TOKEN:
            current = self._tokens.again(identity)
        elif identity.method == PASSWORD and self._passwords is not None:
            current = self._passwords.again(identity)
        elif identity.method in {CERTIFICATE, JWT}:
            current = self._unless_revoked(identity)
        if current is None or current.has_expired:
            raise SeamlineError(UNAUTHENTICATED, f"{identity.principal.name} no longer has access")
        return current

    @property
    def outage(self) -> Outage | None:
        """The outage of the address that keys of tokens come from, if there is one now."""
        return None if self._web_tokens is None else self._web_tokens.outage

    @property
    def challenges(self) -> tuple[str, ...]:
        """The methods open to a client that is not identified, as values of WWW-Authenticate."""
        basic = ('Basic realm="seamline", charset="UTF-8"',) if self._passwords is not None else ()
        return ("Bearer", *basic)

    def _proved(self, presented: Presented) -> Identity:
        if not presented.authorization:
            return self._by_certificate(presented)
        kind, _, given = presented.authorization.partition(" ")
        if kind.lower() == "basic":
            if self._passwords is None:
                raise SeamlineError(UNAUTHENTICATED, "this gateway accepts no passwords")
            return self._passwords.identify(*_user_and_password(given), presented.address)
        if kind.lower() != "bearer":
            raise SeamlineError(UNAUTHENTICATED, "the Authorization header is of no known kind")
        identity = self._tokens.identify(given.strip())
        if identity is None and self._web_tokens is not None:
            return self._web_tokens.identify(given.strip())
        if identity is None:
            raise SeamlineError(UNAUTHENTICATED, "the access token is not known")
        return identity

    def _by_certificate(self, presented: Presented) -> Identity:
        assert presented.certificate is not None
        identity = certificates.identity(presented.certificate, self._client_name)
        if self._revocations is None:
            return identity
        issuer = revocations.issuer_of(presented.encoded)
        return self._unless_revoked(dataclasses.replace(identity, issuer=issuer))

    def _unless_revoked(self, identity: Identity) -> Identity:
        if identity.method == CERTIFICATE and self._revocations is not None:
            self._revocations.check(identity.issuer, identity.credential)
        return identity


def _user_and_password(given: str) -> tuple[str, str]:
    """Returns the user and the password of an HTTP Basic header.

    Raises:
        SeamlineError: UNAUTHENTICATED when it cannot be read or names no user.
    """
    try:
        user, colon, password = base64.b64decode(given, validate=True).decode().partition(":")
    except ValueError as error:
        raise SeamlineError(UNAUTHENTICATED, "the Authorization header cannot be read") from error
    if not user or not colon:
        raise SeamlineError(UNAUTHENTICATED, "the Authorization header names no user")
    return user, password


def _on_loopback(host: str) -> Identity:
    """Returns the identity of whoever calls an open gateway by a name of this machine.

    Raises:
        SeamlineError: PERMISSION_DENIED.
    """
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    if not is_loopback(name.strip("[]")):
        raise SeamlineError(
            PERMISSION_DENIED,
            f"this gateway has no access control and does not answer to the name {name}",
            hint="Use 127.0.0.1 or localhost, or configure auth.tokens.",
        )
    return Identity(Principal(ANONYMOUS))


def is_loopback(host: str) -> bool:
    """Whether a name or address reaches this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
