"""Who is asking: one of the ways to prove it that the configuration has, or nobody.

A request that carries an Authorization header is judged by it alone; without one, by the client's
certificate. Secrets are compared in constant time, tokens with their stored hashes.

Without any of these ways the gateway is open; it then listens on loopback only and answers only
requests addressed to loopback, so that no page in a browser can reach it by another name.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress

from seamline.errors import INVALID_CONFIG, PERMISSION_DENIED, UNAUTHENTICATED, SeamlineError
from seamline.gateway.access import certificates
from seamline.gateway.access.identity import CERTIFICATE, TOKEN, Identity, Presented
from seamline.gateway.access.rights import Principal
from seamline.gateway.config.model import AccessToken, Config

ANONYMOUS = "anonymous"
_ID_DIGITS = 12


def check_listening(config: Config) -> None:
    """An open gateway may only listen on loopback.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """
    if not config.asks_who and not is_loopback(config.http.host):
        raise SeamlineError(
            INVALID_CONFIG,
            f"http.host {config.http.host} is reachable from outside, and nobody has to say who "
            "they are",
            hint="Configure auth.tokens or http.tls.client_ca, or listen on 127.0.0.1.",
        )


def check_site(site: str | None) -> None:
    """An open gateway answers no page of another site.

    Args:
        site: What the browser says of the page that sends a request.

    Raises:
        SeamlineError: PERMISSION_DENIED.
    """
    if site in {"cross-site", "same-site"}:
        raise SeamlineError(
            PERMISSION_DENIED,
            "this gateway has no access control and answers no page of another site",
            hint="Configure auth.tokens.",
        )


class Authentication:
    """Knows who asks. Safe to share between threads.

    Args:
        config: The ways to prove it.
    """

    def __init__(self, config: Config) -> None:
        self.is_open = not config.asks_who
        self._tokens = {token.sha256.lower(): token for token in config.auth.tokens}
        self._client_name = config.http.tls.client_name

    def identify(self, presented: Presented) -> Identity:
        """Who sends a request.

        Raises:
            SeamlineError: UNAUTHENTICATED, PERMISSION_DENIED.
        """
        if self.is_open:
            return _on_loopback(presented.host)
        if presented.authorization:
            return self._by_header(presented.authorization)
        if presented.certificate:
            return certificates.identity(presented.certificate, self._client_name)
        raise SeamlineError(UNAUTHENTICATED, "the request carries no access token")

    def again(self, known: Identity) -> Identity:
        """Somebody who was identified before, as they are now.

        Raises:
            SeamlineError: UNAUTHENTICATED when what proved it is not taken any more.
        """
        if self.is_open:
            return known
        if known.method == TOKEN:
            for digest, token in self._tokens.items():
                if digest.startswith(known.credential) and not token.has_expired():
                    return _of_token(digest, token)
        elif known.method == CERTIFICATE and not known.has_expired:
            return known
        raise SeamlineError(UNAUTHENTICATED, f"{known.principal.name} has no access any more")

    def _by_header(self, authorization: str) -> Identity:
        kind, _, given = authorization.partition(" ")
        if kind.lower() != "bearer" or not given.strip():
            raise SeamlineError(UNAUTHENTICATED, "the request carries no access token")
        found = self._by_token(given.strip())
        if found is None:
            raise SeamlineError(UNAUTHENTICATED, "the access token is not known")
        return found

    def _by_token(self, given: str) -> Identity | None:
        """The owner of a token; every known one is compared, whichever matches."""
        digest = hashlib.sha256(given.encode()).hexdigest()
        found = None
        for known, token in self._tokens.items():
            if hmac.compare_digest(digest, known) and not token.has_expired():
                found = _of_token(known, token)
        return found


def _of_token(digest: str, token: AccessToken) -> Identity:
    expires = token.expires.timestamp() if token.expires is not None else None
    return Identity(Principal(token.name, token.groups), TOKEN, digest[:_ID_DIGITS], expires)


def _on_loopback(host: str) -> Identity:
    """Whoever asks an open gateway, by a name of this machine.

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
