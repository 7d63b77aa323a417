"""Identifies callers by bearer token: those that the configuration lists, and those in a file.

The file is watched. Without a restart, an entry that is added is accepted from the next request on,
and one that is gone or has expired is refused.

    tokens:
      - {name: ann, sha256: "…", groups: "analysts", expires: "2027-01-01T00:00:00Z"}
"""

from __future__ import annotations

import hashlib
import hmac
import pathlib
from collections.abc import Iterable, Mapping

from pydantic import ValidationError

from seamline.errors import INVALID_CONFIG, UNAUTHENTICATED, SeamlineError
from seamline.gateway.access.identity import TOKEN, Identity
from seamline.gateway.access.rights import Principal
from seamline.gateway.access.watched import Watched
from seamline.gateway.config import yaml_file
from seamline.gateway.config.model import AccessToken, TokenFile

_ID_DIGITS = 12


class AccessTokens:
    """Knows the owner of each token. Safe to share between threads.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """

    def __init__(self, listed: Iterable[AccessToken], file: pathlib.Path | None) -> None:
        self._listed = _by_digest(listed)
        self._filed = Watched([file], lambda: _read(file), "tokens") if file is not None else None

    def identify(self, given: str) -> Identity | None:
        """Returns the owner of a token; None if it is not known.

        Every known token is compared, whichever one matches.

        Raises:
            SeamlineError: UNAUTHENTICATED when it has expired.
        """
        digest = hashlib.sha256(given.encode()).hexdigest()
        identity = None
        for name, token in self._all().items():
            if hmac.compare_digest(digest, name):
                identity = token
        if identity is None:
            return None
        if identity.has_expired():
            raise SeamlineError(UNAUTHENTICATED, "the access token has expired")
        return _identity(digest, identity)

    def again(self, identity: Identity) -> Identity | None:
        """Returns the current owner of a token identified earlier; None if it is gone."""
        for digest, token in self._all().items():
            if digest.startswith(identity.credential):
                return _identity(digest, token)
        return None

    def _all(self) -> Mapping[str, AccessToken]:
        return self._listed if self._filed is None else {**self._listed, **self._filed.get()}


def _by_digest(tokens: Iterable[AccessToken]) -> Mapping[str, AccessToken]:
    return {token.sha256.lower(): token for token in tokens}


def _identity(digest: str, token: AccessToken) -> Identity:
    expires = token.expires.timestamp() if token.expires is not None else None
    return Identity(Principal(token.name, token.groups), TOKEN, digest[:_ID_DIGITS], expires)


def _read(file: pathlib.Path) -> Mapping[str, AccessToken]:
    """Returns the tokens that a file lists, by digest.

    Raises:
        SeamlineError: INVALID_CONFIG, which contains no value of the file.
    """
    try:
        content = TokenFile.model_validate(yaml_file.read(file))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        path = ".".join(map(str, first["loc"]))
        raise SeamlineError(
            INVALID_CONFIG,
            f"auth.token_file {file}, {path}: {first['msg']}",
            hint="It is YAML: a list `tokens` of the same entries as auth.tokens.",
        ) from error
    return _by_digest(content.tokens)
