"""What each client of librdkafka is made with: its cluster's properties, and its login's tokens.

The client requests a token with `oauth_cb` when it is made, and again after four fifths of the
token's life, whether or not anybody uses the client. All clients of a login share its tokens.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from seamline.connectors.cache import Cache
from seamline.connectors.config import ClusterConfig, LoginConfig
from seamline.connectors.logins import LOGINS, LoginError, token_source
from seamline.errors import DEADLINE_EXCEEDED, KAFKA_UNAVAILABLE, SeamlineError


def properties_of(config: ClusterConfig) -> dict[str, Any]:
    """Returns the properties that every client of a cluster needs.

    Raises:
        SeamlineError: KAFKA_UNAVAILABLE when there is no token for it; MISSING_EXTRA.
    """
    properties = {**config.client_properties(), "error_cb": functools.partial(_note, config)}
    if not config.login:
        return properties
    require_token(config)  # a client without one fails after a long wait
    return {**properties, "oauth_cb": _TokenCallback(config.login)}


_REFUSALS: Cache[str, tuple[str, str]] = Cache(100, ttl_s=60.0)
"""What `refusal` says of the last errors, by the addresses of the cluster."""


def _note(config: ClusterConfig, error: Any) -> None:
    refused = refusal(config, error)
    if refused is not None:
        _REFUSALS.put(config.bootstrap_servers, refused)


def refusal(config: ClusterConfig, error: Any) -> tuple[str, str] | None:
    """Returns what an error of a client says against its login or TLS, and what to do about it.

    Args:
        config: The cluster.
        error: A `KafkaError`, as `error_cb` gets it.
    """
    from confluent_kafka import KafkaError

    properties = f"clusters.{config.name}.properties"
    reason = reason_of(error)
    if error.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001 - librdkafka's name
        remedy = f"Correct sasl.mechanism, sasl.username and sasl.password of {properties}."
        if config.login:
            remedy = f"Correct clusters.{config.name}.login, or what its identity may do."
        if "SASL state" in reason:
            remedy = f"That port takes no login: correct it, or security.protocol of {properties}."
        return f"the login is refused: {reason}", remedy
    if error.code() == KafkaError._SSL:  # noqa: SLF001
        remedy = "Correct ssl.ca.location, and ssl.certificate.location where brokers require one."
        return f"TLS fails: {reason}", remedy
    return None


def reason_of(error: Any) -> str:
    """Returns librdkafka's message without the name of its thread."""
    return str(error.str()).rpartition("]: ")[2]


def require_login(config: ClusterConfig) -> None:
    """Requires a token, where the login needs one, and that no broker has just refused the login.

    A client whose login or TLS fails tries again without end, and only `error_cb` gets to know.

    Raises:
        SeamlineError: KAFKA_UNAVAILABLE, MISSING_EXTRA.
    """
    require_token(config)
    refused = _REFUSALS.get(config.bootstrap_servers)
    if refused is not None:
        message, remedy = refused
        raise SeamlineError(KAFKA_UNAVAILABLE, f"cluster {config.name}: {message}", hint=remedy)


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
    """Replaces errors of an unavailable cluster, and of time that is up, while no login works.

    Raises:
        SeamlineError: as `require_login`.
    """
    try:
        yield
    except SeamlineError as error:
        if error.code in (KAFKA_UNAVAILABLE, DEADLINE_EXCEEDED):
            require_login(config)
        raise
    _REFUSALS.pop(config.bootstrap_servers)


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
