"""What each client of librdkafka is made with: its cluster's properties, and its login's tokens.

The client requests a token with `oauth_cb` when it is made, and again after four fifths of the
token's life, whether or not anybody uses the client. All clients of a login share its tokens.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from seamline.connectors.config import ClusterConfig, LoginConfig
from seamline.connectors.logins import LOGINS, LoginError, token_source
from seamline.errors import DEADLINE_EXCEEDED, KAFKA_UNAVAILABLE, SeamlineError


def properties_of(config: ClusterConfig) -> dict[str, Any]:
    """Returns the properties that every client of a cluster needs.

    Raises:
        SeamlineError: KAFKA_UNAVAILABLE when there is no token for it; MISSING_EXTRA.
    """
    properties = config.client_properties()
    if not config.login:
        return properties
    require_token(config)  # a client without one fails after a long wait
    return {**properties, "oauth_cb": _TokenCallback(config.login)}


def require_token(config: ClusterConfig) -> None:
    """Requires that the login of a cluster has a token, if there is a login.

    Raises:
        SeamlineError: KAFKA_UNAVAILABLE, MISSING_EXTRA.
    """
    if not config.login:
        return
    try:
        _token(config.login, patient=False)
    except LoginError as error:
        raise SeamlineError(
            KAFKA_UNAVAILABLE,
            f"cluster {config.name}: the login {config.login.type} has no token: {error}",
            hint=f"Check that the identity provider answers, and clusters.{config.name}.login.",
        ) from error


@contextlib.contextmanager
def login_as_cause(config: ClusterConfig) -> Iterator[None]:
    """Replaces errors of an unavailable cluster, and of time that is up, while there is no token.

    Raises:
        SeamlineError: as `require_token`.
    """
    try:
        yield
    except SeamlineError as error:
        if error.code in (KAFKA_UNAVAILABLE, DEADLINE_EXCEEDED):
            require_token(config)
        raise


class _TokenCallback:
    """Hands tokens to a client."""

    def __init__(self, login: LoginConfig) -> None:
        self._login = login

    def __call__(self, _: str) -> tuple[str, float, str, dict[str, str]]:
        value, expires_at = _token(self._login, patient=True)
        return value, expires_at, "", self._login.sent_along


def _token(login: LoginConfig, *, patient: bool) -> tuple[str, float]:
    token = token_source(login).token(patient=patient)
    return LOGINS[login.type].of_kafka(token), token.expires_at
