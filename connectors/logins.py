"""Logins with tokens: who makes those of a cluster, a schema registry or a catalog, and when.

    LOGINS        the table of logins: a login is one row
    TokenSource   the tokens of one login; all clients in a process share it
    token_source  returns the source of a login

A token is renewed when two thirds of its life are over, and used until it expires: an identity
provider that is away for a while goes unnoticed while there is a valid token. Requests for tokens
run in the background, one at a time, with pauses after failures.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from seamline.connectors import supervision
from seamline.connectors.supervision import Backoff
from seamline.errors import MISSING_EXTRA, SeamlineError, sentence

if TYPE_CHECKING:
    from seamline.connectors.config import LoginConfig

CONNECT_S, READ_S = 3.0, 10.0
"""The time-outs of a request for a token."""
WAIT_S = 10.0
"""How long to wait for a token."""
_RENEWED_AFTER = 2 / 3
"""The part of a token's life after which it is renewed. Kafka's client asks after four fifths."""
_UNSTATED_S = 300.0
"""The life of a token that does not say when it expires."""
_RETRIES = Backoff(first_s=1.0, max_s=10.0)
_REFUSED_AGAIN_S = 5.0
"""How old a token must be for a refusal to mean that another one may be accepted."""
_ANSWER_BYTES_MAX = 1 << 20
_REFUSALS = (400, 401, 403)
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class LoginError(Exception):
    """No token could be made. The text has no secrets."""


class LoginRefusedError(LoginError):
    """The identity provider does not accept the login."""


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """A bearer token.

    Attributes:
        value: The token.
        expires_at: When it expires, in seconds since 1970.
        subject: Whose it is, where that is known.
    """

    value: str = dataclasses.field(repr=False)
    expires_at: float
    subject: str = ""


Fetch: TypeAlias = Callable[[], Token]
"""Makes a new token; raises any exception."""


@dataclasses.dataclass(frozen=True, slots=True)
class Login:
    """A way to log in with tokens.

    Attributes:
        open: Returns what makes its tokens; raises ImportError without its library.
        needs: Settings that it requires.
        takes: Settings that it has besides.
        extra: The extra that installs its library; None if it has none.
        of_kafka: The form that brokers require a token in.
        is_bearer: Whether schema registries and catalogs take its tokens.
    """

    open: Callable[[LoginConfig], Fetch]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    extra: str | None = None
    of_kafka: Callable[[Token], str] = lambda token: token.value
    is_bearer: bool = True


# --- Client credentials --------------------------------------------------------------------------


def _oidc(config: LoginConfig) -> Fetch:
    """Requests tokens from an identity provider, as RFC 6749 describes (4.4)."""
    import urllib3

    from seamline.connectors import http

    pool = http.bounded(
        urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=CONNECT_S, read=READ_S),
            retries=False,
            ca_certs=config.ca or None,
        )
    )
    headers = {"accept": "application/json", "authorization": f"Basic {_basic(config)}"}
    optional = {"scope": config.scope, "audience": config.audience}
    fields = {
        "grant_type": "client_credentials",
        **{name: value for name, value in optional.items() if value},
    }

    def post() -> tuple[int, bytes]:
        answer = pool.request_encode_body(
            "POST", config.url, fields, headers, encode_multipart=False
        )
        return answer.status, answer.data

    return token_fetch(post)


def _basic(config: LoginConfig) -> str:
    id_and_secret = map(urllib.parse.quote_plus, (config.client_id, config.client_secret))
    return base64.b64encode(":".join(id_and_secret).encode()).decode()


def token_fetch(post: Callable[[], tuple[int, bytes]], unstated_s: float = _UNSTATED_S) -> Fetch:
    """Returns what requests tokens from an identity provider.

    Args:
        post: Sends a request by a client that `http` bounds; gives the answer's status and body.
        unstated_s: The life of a token that does not say when it expires, in seconds.
    """
    from seamline.connectors import http

    def fetch() -> Token:
        asked_at = time.time()
        with http.answered_within(WAIT_S):
            status, data = post()
        return _token_of(status, data, asked_at, unstated_s)

    return fetch


def _token_of(status: int, data: bytes, asked_at: float, unstated_s: float) -> Token:
    """Returns the token that an identity provider answers a request with.

    Args:
        status: The status of the answer.
        data: Its body.
        asked_at: When it was requested, in seconds since 1970.
        unstated_s: The life of a token that does not say when it expires, in seconds.

    Raises:
        LoginError: it is not a token.
    """
    try:
        body = json.loads(data[:_ANSWER_BYTES_MAX])
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise LoginError(f"HTTP {status}, and the answer is not a JSON object")
    if status != 200:
        reasons = (body.get(name) for name in ("error", "error_description"))
        said = ": ".join(str(reason) for reason in reasons if reason)
        kind = LoginRefusedError if status in _REFUSALS else LoginError
        raise kind(f"HTTP {status}{f': {said}' if said else ''}")
    value = body.get("access_token")
    if not isinstance(value, str) or not value:
        raise LoginError("the answer has no access_token")
    life = body.get("expires_in")
    if isinstance(life, str) and life.isdecimal():
        life = int(life)
    if isinstance(life, (int, float)) and life > 0:
        return Token(value, math.floor(asked_at) + life)  # brokers count whole seconds
    return Token(value, _expiry_of_jwt(value) or asked_at + unstated_s)


def _expiry_of_jwt(value: str) -> float | None:
    """Returns when a token expires that says so itself."""
    try:
        payload = value.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


# --- Clouds --------------------------------------------------------------------------------------


def _aws_msk_iam(config: LoginConfig) -> Fetch:
    """Signs tokens with the credentials that Amazon's library finds."""
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Provider

    def fetch() -> Token:
        if config.role:
            value, expires_ms = Provider.generate_auth_token_from_role_arn(
                config.region, config.role
            )
        else:
            value, expires_ms = Provider.generate_auth_token(config.region)
        return Token(value, expires_ms / 1000)

    return fetch


def _google(config: LoginConfig) -> Fetch:
    """Uses Google's application default credentials."""
    import datetime

    import google.auth
    import urllib3
    from google.auth.transport.urllib3 import Request

    request = Request(urllib3.PoolManager())

    def fetch() -> Token:
        credentials, _ = google.auth.default(
            scopes=[config.scope or _GOOGLE_SCOPE], request=request
        )
        credentials.refresh(request)
        expires = credentials.expiry.replace(tzinfo=datetime.UTC)
        email = config.client_id or getattr(credentials, "service_account_email", "")
        return Token(credentials.token, expires.timestamp(), email)

    return fetch


def _of_google(token: Token) -> str:
    """Returns a token as Managed Service for Apache Kafka takes it: in the form of a JWT."""
    if not token.subject:
        raise LoginError("the credentials name no service account: set client_id to its address")
    header = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    claims = {
        "exp": token.expires_at,
        "iat": time.time(),
        "iss": "Google",
        "scope": "kafka",
        "sub": token.subject,
    }
    parts = json.dumps(header), json.dumps(claims), token.value
    return ".".join(base64.urlsafe_b64encode(p.encode()).decode().rstrip("=") for p in parts)


def _azure(config: LoginConfig) -> Fetch:
    """Uses the identity that Azure's library finds: a workload's, a managed one, …."""
    from azure.identity import DefaultAzureCredential

    credential = DefaultAzureCredential(managed_identity_client_id=config.client_id or None)

    def fetch() -> Token:
        token = credential.get_token(config.scope)
        return Token(token.token, float(token.expires_on))

    return fetch


LOGINS: Mapping[str, Login] = {
    "oidc": Login(
        _oidc,
        needs=("url", "client_id", "client_secret"),
        takes=("scope", "audience", "ca", "extensions"),
    ),
    "aws_msk_iam": Login(
        _aws_msk_iam, needs=("region",), takes=("role",), extra="aws", is_bearer=False
    ),
    "google": Login(_google, takes=("client_id", "scope"), extra="google", of_kafka=_of_google),
    "azure": Login(_azure, needs=("scope",), takes=("client_id", "extensions"), extra="azure"),
}
"""The logins, by `login.type`."""


# --- Sources -------------------------------------------------------------------------------------


class TokenSource:
    """The tokens of one login. Safe to share between threads.

    Args:
        fetch: Makes a token.
        secrets: Texts that errors must not contain.
        clock: Returns seconds since 1970.
    """

    def __init__(
        self,
        fetch: Fetch,
        secrets: tuple[str, ...] = (),
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fetch = fetch
        self._secrets = tuple(secret for secret in secrets if secret)
        self._clock = clock
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._made_at = self._renew_at = self._retry_at = 0.0
        self._failures = 0
        self._error: LoginError | None = None
        self._fetching: threading.Event | None = None

    def token(self, *, patient: bool = False) -> Token:
        """Returns a valid token.

        Args:
            patient: Whether to wait for a new token although the present one is still valid.

        Raises:
            LoginError: there is none.
        """
        with self._lock:
            now = self._clock()
            if self._token is not None and now < self._renew_at:
                return self._token
            if self._fetching is None and not (self._error and now < self._retry_at):
                self._start()
            fetching, valid = self._fetching, self._valid()
        if fetching is not None and (patient or valid is None):
            fetching.wait(WAIT_S)
        with self._lock:
            valid = self._valid()
            if valid is not None:
                return valid
            error = self._error or LoginError(f"no answer within {WAIT_S:.0f} s")
            raise type(error)(str(error))

    def refuse(self, token: Token) -> None:
        """Makes the next call of `token` return another one: this one was not accepted.

        A token that is new stays, because another one would not be accepted either.
        """
        with self._lock:
            if self._token is token and self._clock() >= self._made_at + _REFUSED_AGAIN_S:
                self._token = None

    def _valid(self) -> Token | None:
        token = self._token
        return token if token is not None and self._clock() < token.expires_at else None

    def _start(self) -> None:
        fetching = self._fetching = threading.Event()

        def run() -> None:
            try:
                self._done(self._fetch(), None)
            except BaseException as error:  # noqa: BLE001 - kept for those who wait
                self._done(None, error)
            finally:
                fetching.set()

        if not supervision.start("login", run):
            self._fetching = None
            self._error = LoginError("no thread could be started for it")

    def _done(self, token: Token | None, error: BaseException | None) -> None:
        with self._lock:
            self._fetching = None
            now = self._clock()
            if token is not None and token.expires_at <= now:
                token, error = None, LoginError("the new token has expired; check the clocks")
            if token is not None:
                self._token, self._error, self._failures = token, None, 0
                self._made_at = now
                self._renew_at = now + _RENEWED_AFTER * (token.expires_at - now)
            elif error is not None:
                self._failures += 1
                self._retry_at = now + _RETRIES.pause_s(self._failures)
                kind = LoginRefusedError if isinstance(error, LoginRefusedError) else LoginError
                self._error = kind(self._without_secrets(error))

    def _without_secrets(self, error: BaseException) -> str:
        text = " ".join(sentence(str(error)).split()) or type(error).__name__
        for secret in self._secrets:
            text = text.replace(secret, "******")
        return text[:300]


_sources: dict[LoginConfig, TokenSource] = {}
_lock = threading.Lock()


def token_source(config: LoginConfig, *, clock: Callable[[], float] = time.time) -> TokenSource:
    """Returns the tokens of a login; one object per process.

    Args:
        config: The login.
        clock: What the first caller measures their lives by: seconds since 1970.

    Raises:
        SeamlineError: MISSING_EXTRA.
    """
    with _lock:
        source = _sources.get(config)
        if source is None:
            secrets = config.client_secret, urllib.parse.quote_plus(config.client_secret)
            fetch = _opened(config)
            source = _sources[config] = TokenSource(fetch, (*secrets, _basic(config)), clock=clock)
        return source


def _opened(config: LoginConfig) -> Fetch:
    login = LOGINS[config.type]
    try:
        return login.open(config)
    except ImportError as error:
        raise SeamlineError(
            MISSING_EXTRA,
            f"the login {config.type} needs the package {error.name}",
            hint=f"pip install 'seamline[gateway,{login.extra}]'",
        ) from error
