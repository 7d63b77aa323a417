"""Identifies callers by JSON Web Tokens that an identity provider has signed.

Only asymmetric signatures are accepted, by keys of the configured set, for the configured issuer
and audience, within the time that the token allows. Keys come from a file that is watched, or from
an address. From an address, they are fetched again now and then, and immediately for an unknown
key, but at most once a minute. While the address does not answer, the known keys are valid for a
day; after that, nobody can log in.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import pathlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any

import jwt
import urllib3

from seamline.connectors import http, supervision
from seamline.connectors.dependencies import Dependency, Outage, letting_others_run
from seamline.errors import (
    INVALID_CONFIG,
    LOGIN_KEYS_UNAVAILABLE,
    UNAUTHENTICATED,
    SeamlineError,
)
from seamline.gateway.access.identity import JWT, Identity
from seamline.gateway.access.rights import Principal
from seamline.gateway.access.watched import Watched
from seamline.gateway.config.model import JwtConfig

_LOG = logging.getLogger("seamline.access")
_LEEWAY_S = 30
_FETCH_S = urllib3.Timeout(connect=3.0, read=5.0)
_FETCHED_S = 10.0
"""Seconds until the last byte of the keys must be there."""
_FETCHED_BYTES_MAX = 1 << 20
_AGAIN_S = 60.0
_FRESH_S = 600.0
_KEPT_S = 24 * 3600.0
_ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA",),
}
"""Algorithms that a key of a given type, or on a given curve, may have signed with."""


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """A key of the set.

    Attributes:
        key_id: Its id in tokens; None when it has none.
        algorithms: Algorithms that it may have signed with.
        public: The key itself.
    """

    key_id: str | None
    algorithms: tuple[str, ...]
    public: Any


class JsonWebTokens:
    """Verifies tokens. Safe to share between threads.

    Args:
        config: Who issues the tokens, for which audience, and what their claims mean.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """

    def __init__(self, config: JwtConfig) -> None:
        source = config.jwks or ""
        self._config = config
        self._keys: FetchedKeys | FileKeys = (
            FetchedKeys(lambda: _fetched(source)) if "://" in source else FileKeys(source)
        )

    @property
    def outage(self) -> Outage | None:
        """The outage of the address that the keys come from, if there is one now."""
        return self._keys.dependency.outage if isinstance(self._keys, FetchedKeys) else None

    def identify(self, token: str) -> Identity:
        """Returns the identity that a token names.

        Raises:
            SeamlineError: UNAUTHENTICATED; LOGIN_KEYS_UNAVAILABLE when a token cannot be verified
                for lack of keys.
        """
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError as error:
            raise SeamlineError(UNAUTHENTICATED, "the access token is not known") from error
        claims = self._verified(token, header)
        name = _claim(claims, self._config.principal_claim)
        if not isinstance(name, str) or not name:
            raise SeamlineError(
                UNAUTHENTICATED, f"the access token has no claim {self._config.principal_claim}"
            )
        return Identity(
            Principal(name, self._groups(claims)),
            JWT,
            str(claims.get("jti") or claims.get("sub") or ""),
            float(claims["exp"]) + _LEEWAY_S,
        )

    def _verified(self, token: str, header: Mapping[str, Any]) -> Mapping[str, Any]:
        algorithm, key_id = header.get("alg"), header.get("kid")
        verified = [
            key
            for key in self._keys.named(key_id if isinstance(key_id, str) else None)
            if algorithm in key.algorithms
        ]
        problem = "it was not signed by a key of the identity provider"
        for key in verified:
            try:
                claims: Mapping[str, Any] = jwt.decode(
                    token,
                    key.public,
                    algorithms=list(key.algorithms),
                    audience=list(self._config.audience),
                    issuer=self._config.issuer,
                    leeway=_LEEWAY_S,
                    options={"require": ["exp", "iss", "aud"], "strict_aud": False},
                )
            except jwt.InvalidTokenError as error:
                problem = str(error)
            else:
                return claims
        raise SeamlineError(UNAUTHENTICATED, f"the access token is not accepted: {problem}")

    def _groups(self, claims: Mapping[str, Any]) -> tuple[str, ...]:
        if self._config.groups_claim is None:
            return ()
        claim = _claim(claims, self._config.groups_claim)
        if isinstance(claim, str):
            return (claim,)
        listed = claim if isinstance(claim, list) else []
        return tuple(group for group in listed if isinstance(group, str))


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Returns the claim of that name; a name with dots may lead to a claim inside others."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


# --- Keys ----------------------------------------------------------------------------------------


class FileKeys:
    """The keys of a file that is watched."""

    def __init__(self, file: str) -> None:
        path = pathlib.Path(file)
        self._keys = Watched([path], lambda: _keys(_read(path), file), "keys of tokens")

    def named(self, key_id: str | None) -> Sequence[Key]:
        """Returns the keys that may have signed a token with this key id."""
        return _named(self._keys.get(), key_id)


class FetchedKeys:
    """The keys at an address. Safe to share between threads.

    Args:
        fetch: Fetches them, or raises LOGIN_KEYS_UNAVAILABLE.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self, fetch: Callable[[], Sequence[Key]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._fetching: Future[None] | None = None
        self.dependency = Dependency("login keys", "auth.jwt.jwks", LOGIN_KEYS_UNAVAILABLE)
        self._known: tuple[float, Sequence[Key]] | None = None
        self._asked_at: float | None = None
        self._has_failed = False

    def named(self, key_id: str | None) -> Sequence[Key]:
        """Returns the keys that may have signed a token with this key id.

        Raises:
            SeamlineError: LOGIN_KEYS_UNAVAILABLE when no such key is known, and the address has
                failed.
        """
        key, age_s = self._look(key_id)
        if key and (age_s < _FRESH_S or self._has_failed):
            with self._lock:
                is_due = age_s >= _FRESH_S and self._is_due()
            if is_due:
                supervision.start("keys of tokens", self._renew)
            return key
        self._renewed()  # a key that is unknown may be new, and an old one may be gone
        key, _ = self._look(key_id)
        if not key and self._has_failed:  # where they come from is none of a stranger's business
            raise SeamlineError(
                LOGIN_KEYS_UNAVAILABLE, "the keys that verify tokens cannot be fetched"
            )
        return key

    def _renewed(self) -> None:
        """Fetches the keys if that is due; all who need them meanwhile wait for the same answer."""
        with self._lock:
            fetching = self._fetching
            is_first = fetching is None and self._is_due()
            if is_first:
                fetching = self._fetching = Future()
        if fetching is None:
            return
        if not is_first:
            with letting_others_run():
                wait([fetching], _FETCHED_S + 1)
            return
        try:
            self._renew()
        finally:
            self._fetching = None
            fetching.set_result(None)

    def _look(self, key_id: str | None) -> tuple[Sequence[Key], float]:
        """Returns the matching keys that are known and still valid, and their age."""
        if self._known is None:
            return (), 0.0
        known_at, keys = self._known
        age_s = self._clock() - known_at
        return (_named(keys, key_id) if age_s < _KEPT_S else ()), age_s

    def _is_due(self) -> bool:
        """Whether the keys may be fetched again; if so, the caller must fetch them."""
        now = self._clock()
        if self._asked_at is not None and now - self._asked_at < _AGAIN_S:
            return False
        self._asked_at = now
        return True

    def _renew(self) -> None:
        try:
            with self.dependency.call():
                keys = self._fetch()
            self._known = self._clock(), keys
            self._has_failed = False
        except SeamlineError as error:
            self._has_failed = True
            _LOG.error("still using the known keys that verify tokens: %s", error.message)


def _named(keys: Sequence[Key], key_id: str | None) -> Sequence[Key]:
    """Returns the keys with that id; all keys for a token that names none."""
    if key_id is None:
        return keys
    return [key for key in keys if key.key_id == key_id]


def _fetched(url: str) -> Sequence[Key]:
    """Returns the keys at an address.

    Raises:
        SeamlineError: LOGIN_KEYS_UNAVAILABLE.
    """
    try:
        with (
            http.answered_within(_FETCHED_S),
            http.bounded(urllib3.PoolManager(retries=False, timeout=_FETCH_S)) as pool,
        ):
            answer = pool.request("GET", url, preload_content=False, redirect=False)
            body = answer.read(_FETCHED_BYTES_MAX + 1, decode_content=True)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise SeamlineError(LOGIN_KEYS_UNAVAILABLE, f"{url} does not answer: {error}") from error
    if answer.status != 200:
        raise SeamlineError(LOGIN_KEYS_UNAVAILABLE, f"{url} answers with {answer.status}")
    try:
        return _keys(body, url)
    except SeamlineError as error:
        raise SeamlineError(LOGIN_KEYS_UNAVAILABLE, error.message) from error


def _read(file: pathlib.Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SeamlineError(INVALID_CONFIG, f"auth.jwt.jwks {file}: {error.strerror}") from error


def _keys(text: bytes, source: str) -> Sequence[Key]:
    """Returns the keys of a set that verify signatures; skips all others.

    Raises:
        SeamlineError: INVALID_CONFIG when it is not a key set, or has no such key.
    """
    try:
        listed = json.loads(text)["keys"]
        keys = [key for one in listed if (key := _key(one)) is not None]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SeamlineError(INVALID_CONFIG, f"{source} is not a JSON Web Key Set") from error
    if not keys:
        raise SeamlineError(INVALID_CONFIG, f"{source} has no key that verifies signatures")
    return keys


def _key(entry: Mapping[str, Any]) -> Key | None:
    kind = entry.get("crv") if entry.get("kty") in {"EC", "OKP"} else entry.get("kty")
    algorithms = _ALGORITHMS.get(str(kind), ())
    if entry.get("alg") is not None:
        algorithms = tuple(a for a in algorithms if a == entry["alg"])
    if not algorithms or entry.get("use", "sig") != "sig":
        return None
    try:
        public = jwt.PyJWK(dict(entry), algorithms[0]).key
    except (jwt.PyJWTError, ValueError) as error:
        _LOG.warning("a key that verifies tokens cannot be used: %s", error)
        return None
    if not hasattr(public, "public_bytes"):
        public = public.public_key()  # a private key, which does not belong there
    key_id = entry.get("kid")
    return Key(key_id if isinstance(key_id, str) else None, algorithms, public)
