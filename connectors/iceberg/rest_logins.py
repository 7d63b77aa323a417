"""Logins to REST catalogs: PyIceberg's requests get the tokens that `connectors.logins` keeps.

PyIceberg by itself makes a token for each session, ignores when it expires, makes another one in
each thread whose request was refused, and only for some of the requests.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from pyiceberg.catalog.rest.auth import AuthManager
from requests import Response, Session

from seamline.connectors import http
from seamline.connectors.config import LoginConfig
from seamline.connectors.logins import (
    CONNECT_S,
    READ_S,
    Fetch,
    LoginError,
    LoginRefusedError,
    Token,
    TokenSource,
    token_fetch,
    token_source,
)
from seamline.errors import CATALOG_ACCESS_DENIED, CATALOG_UNAVAILABLE, SeamlineError

_UNSTATED_S = 24 * 3600.0
"""The life of a token that does not say when it expires: a catalog refuses it when it does."""
_REFUSED = (401, 419)
_FORM = "application/x-www-form-urlencoded"


class SharedTokens(AuthManager):
    """The tokens of a login, as PyIceberg takes them.

    Args:
        catalog: Name of the catalog.
        login: What logs in, for messages.
        setting: The setting of the catalog that has the login.
        source: The tokens.
    """

    def __init__(self, catalog: str, login: str, setting: str, source: TokenSource) -> None:
        self._catalog = catalog
        self._login = login
        self._setting = setting
        self._source = source

    def auth_header(self) -> str:
        """Returns the header of a request.

        Raises:
            SeamlineError: CATALOG_UNAVAILABLE, CATALOG_ACCESS_DENIED when there is no token.
        """
        return _header(self._token())

    def replaces(self, header: str) -> bool:
        """Whether there is another token than the one that was refused with this header.

        Raises:
            SeamlineError: as `auth_header`.
        """
        token = self._token()
        if header == _header(token):
            self._source.refuse(token)
            token = self._token()
        return header != _header(token)

    def _token(self) -> Token:
        try:
            return self._source.token()
        except LoginError as error:
            is_refused = isinstance(error, LoginRefusedError)
            raise SeamlineError(
                CATALOG_ACCESS_DENIED if is_refused else CATALOG_UNAVAILABLE,
                f"catalog {self._catalog}: the {self._login} has no token: {error}",
                hint="Check that the identity provider answers, and "
                f"catalogs.{self._catalog}.{self._setting}.",
            ) from error

    def __reduce__(self) -> tuple[type[HeldToken], tuple[str]]:
        """Engines in other processes, which have files signed, get the present token only."""
        return HeldToken, (self.auth_header(),)


class HeldToken(AuthManager):
    """A token that is not renewed."""

    def __init__(self, header: str) -> None:
        self._header = header

    def auth_header(self) -> str:
        """Returns the header of a request."""
        return self._header


def _header(token: Token) -> str:
    return f"Bearer {token.value}"


def tokens_of_login(catalog: str, login: LoginConfig) -> SharedTokens:
    """Returns the tokens of a catalog's `login`.

    Raises:
        SeamlineError: MISSING_EXTRA.
    """
    return SharedTokens(catalog, f"login {login.type}", "login", token_source(login))


def tokens_of_credential(
    catalog: str, session: Session, url: str, credential: str, fields: Mapping[str, str]
) -> SharedTokens:
    """Returns the tokens for PyIceberg's property `credential`.

    Args:
        catalog: Name of the catalog.
        session: A session of PyIceberg, whose headers a request for a token has, too.
        url: Where tokens are issued.
        credential: `id:secret`, or a secret alone.
        fields: Further fields of a request, such as `scope`.
    """
    headers = tuple((name, str(value)) for name, value in session.headers.items())
    source = _source_of(url, credential, tuple(sorted(fields.items())), headers)
    return SharedTokens(catalog, "credential", "properties", source)


@functools.cache
def _source_of(
    url: str,
    credential: str,
    fields: tuple[tuple[str, str], ...],
    headers: tuple[tuple[str, str], ...],
) -> TokenSource:
    """Returns the tokens of a credential; one object per process."""
    secret = credential.partition(":")[2]
    fetch = _fetch_as_pyiceberg(url, credential, dict(fields), dict(headers))
    return TokenSource(fetch, (credential, secret))


def _fetch_as_pyiceberg(
    url: str, credential: str, fields: Mapping[str, str], headers: Mapping[str, str]
) -> Fetch:
    """Requests tokens as PyIceberg does: with the credential in the body."""
    session = Session()  # as PyIceberg's, it heeds the environment's proxies and certificates
    http.bound(session)
    session.headers.update({**headers, "Content-type": _FORM})
    client_id, colon, secret = credential.partition(":")
    pair = {"client_id": client_id, "client_secret": secret}
    form = {
        "grant_type": "client_credentials",
        **(pair if colon else {"client_secret": credential}),
        **fields,
    }

    def post() -> tuple[int, bytes]:
        answer = session.post(url, data=form, timeout=(CONNECT_S, READ_S))
        return answer.status_code, answer.content

    return token_fetch(post, _UNSTATED_S)


def has_other_token(manager: AuthManager | None, answer: Response) -> bool:
    """Whether a request is worth repeating, because its token was refused and there is another.

    Raises:
        SeamlineError: as `SharedTokens.auth_header`.
    """
    if answer.status_code not in _REFUSED or not isinstance(manager, SharedTokens):
        return False
    header = answer.request.headers.get("Authorization")
    return manager.replaces(str(header))
