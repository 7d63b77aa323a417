"""Who is asking: bearer tokens, compared in constant time with their stored hashes.

Without configured tokens the gateway is open; it then listens on loopback only and answers only
requests addressed to loopback, so that no page in a browser can reach it by another name.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Sequence

from seamline.errors import INVALID_CONFIG, PERMISSION_DENIED, UNAUTHENTICATED, SeamlineError
from seamline.gateway.access.rights import Principal
from seamline.gateway.config.model import AccessToken, Config

ANONYMOUS = "anonymous"


def check_listening(config: Config) -> None:
    """A gateway without tokens may only listen on loopback.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """
    if not config.auth.tokens and not is_loopback(config.http.host):
        raise SeamlineError(
            INVALID_CONFIG,
            f"http.host {config.http.host} is reachable from outside, and auth.tokens is empty",
            hint="Configure auth.tokens, or listen on 127.0.0.1.",
        )


def check_site(site: str | None) -> None:
    """A gateway without tokens answers no page of another site.

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


def principal(config: Config, authorization: str | None, host: str) -> Principal:
    """The principal of a request.

    Args:
        config: The configuration.
        authorization: The Authorization header.
        host: The Host header.

    Raises:
        SeamlineError: UNAUTHENTICATED, PERMISSION_DENIED.
    """
    if not config.auth.tokens:
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if not is_loopback(name.strip("[]")):
            raise SeamlineError(
                PERMISSION_DENIED,
                f"this gateway has no access control and does not answer to the name {name}",
                hint="Use 127.0.0.1 or localhost, or configure auth.tokens.",
            )
        return Principal(ANONYMOUS)
    kind, _, token = (authorization or "").partition(" ")
    if kind.lower() != "bearer" or not token:
        raise SeamlineError(UNAUTHENTICATED, "the request carries no access token")
    found = _find(token.strip(), config.auth.tokens)
    if found is None:
        raise SeamlineError(UNAUTHENTICATED, "the access token is not known")
    return found


def by_name(config: Config, name: str) -> Principal:
    """A principal that was known before.

    Raises:
        SeamlineError: UNAUTHENTICATED when no token of theirs is taken any more.
    """
    for token in config.auth.tokens:
        if token.name == name and not token.has_expired():
            return Principal(name, token.groups)
    raise SeamlineError(UNAUTHENTICATED, f"{name} has no access any more")


def _find(token: str, known: Sequence[AccessToken]) -> Principal | None:
    """The owner of a token; every known one is compared, whichever matches."""
    digest = hashlib.sha256(token.encode()).hexdigest()
    found = None
    for candidate in known:
        if hmac.compare_digest(digest, candidate.sha256.lower()) and not candidate.has_expired():
            found = candidate
    return Principal(found.name, found.groups) if found is not None else None


def is_loopback(host: str) -> bool:
    """Whether a name or address reaches this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
