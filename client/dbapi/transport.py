"""HTTP to one gateway: JSON and Arrow bodies, failures as named errors, retries only where safe.

A request is retried if it never reached the gateway, or if it only reads or releases. A submitted
statement is never sent again once it may have arrived.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seamline.dbapi.credentials import Credentials
from seamline.dbapi.errors import OperationalError, as_client_error
from seamline.dbapi.version import VERSION
from seamline.errors import GATEWAY_UNAVAILABLE, INVALID_ARGUMENT, SeamlineError

if TYPE_CHECKING:
    import urllib3

CONNECT_S = 5.0
ANSWER_S = 90.0
_RETRIES = 3
_OK, _NO_CONTENT = 200, 204
_ARROW_TYPE = "application/vnd.apache.arrow.stream"
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL")
"""What OpenSSL calls an answer that is not TLS."""


class Transport:
    """A gateway's address and the connections to it. Safe to share between threads.

    Args:
        url: Address, such as `http://127.0.0.1:8474`.
        credentials: How the client authenticates, and which certificates it trusts.
    """

    def __init__(self, url: str, credentials: Credentials | None = None) -> None:
        if not _is_address(url):
            raise as_client_error(
                SeamlineError(
                    INVALID_ARGUMENT,
                    f"{url!r} is not the address of a gateway",
                    hint="It looks like http://127.0.0.1:8474.",
                )
            )
        self._base = url.rstrip("/")
        self._credentials = credentials or Credentials()
        self._credentials.authorization()  # rejects credentials that cannot be sent
        import urllib3  # only once there is a gateway to talk to: most commands have none

        self._pool = urllib3.PoolManager(
            maxsize=8,
            timeout=urllib3.Timeout(connect=CONNECT_S, read=ANSWER_S),
            ssl_context=self._credentials.tls(),
        )

    def json(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, key: str = ""
    ) -> dict[str, Any]:
        """Sends a request and returns the JSON of the response.

        Args:
            method: GET, POST or DELETE.
            path: What follows the gateway's address.
            body: JSON to send.
            key: What a gateway's answer has, unless it is an error.

        Raises:
            Error: the gateway's named error, or OperationalError when it cannot be reached.
        """
        answer = self._send(method, path, body)
        document = {} if answer.status == _NO_CONTENT else _parsed(answer.data)
        if answer.status >= 400 or document is None or (key and key not in document):
            raise as_client_error(_error(document, answer))
        return document

    def bytes(self, path: str) -> tuple[int, bytes, Mapping[str, str]]:
        """Sends a GET request for Arrow and returns status, body and headers of the response.

        Raises:
            Error: as for `json`.
        """
        answer = self._send("GET", path, None)
        is_arrow = answer.headers.get("Content-Type") == _ARROW_TYPE
        if answer.status >= 400 or (answer.status == _OK and not is_arrow):
            raise as_client_error(_error(_parsed(answer.data), answer))
        return answer.status, answer.data, answer.headers

    def close(self) -> None:
        """Closes the connections."""
        self._pool.clear()

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> urllib3.BaseHTTPResponse:
        import urllib3

        reads = method in {"GET", "DELETE"}
        retries = urllib3.Retry(
            connect=_RETRIES,
            read=_RETRIES if reads else 0,
            status=0,
            other=0,
            redirect=0,
            backoff_factor=0.1,
            allowed_methods=None,
            respect_retry_after_header=False,  # the caller gets the named error instead
        )
        headers = {"User-Agent": f"seamline-python/{VERSION}"}
        authorization = self._credentials.authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        try:
            answer = self._pool.request(
                method, self._base + path, body=data, headers=headers, retries=retries
            )
            if not _says_its_end(answer):
                raise urllib3.exceptions.ProtocolError("the headers break off")
        except urllib3.exceptions.HTTPError as error:
            raise self._unreachable(error) from error
        return answer

    def _unreachable(self, error: Exception) -> OperationalError:
        from urllib3.exceptions import MaxRetryError

        cause: BaseException = error
        if isinstance(error, MaxRetryError) and error.reason is not None:
            cause = error.reason
        text, hint = _explained(cause)
        return OperationalError(GATEWAY_UNAVAILABLE, f"{self._base}: {text}", hint=hint)


def _explained(cause: BaseException) -> tuple[str, str | None]:
    """Returns why there is no answer, and what to do unless it is what one always does."""
    from urllib3.exceptions import (
        NameResolutionError,
        NewConnectionError,
        ProtocolError,
        ReadTimeoutError,
        SSLError,
    )

    match cause:
        case NameResolutionError():
            return "its name cannot be resolved", "Correct the host, or check the network."
        case NewConnectionError():
            return "nothing listens there", None
        case ReadTimeoutError():
            return f"no answer within {ANSWER_S:g} s", "A statement that was sent may still run."
        case SSLError() if "certificate verify failed" in str(cause):
            return str(cause), "Pass the certificate of who signed it: --ca, SEAMLINE_CA, or ca=."
        case SSLError() if any(sign in str(cause) for sign in _NOT_TLS):
            return "what listens there does not speak TLS", "Does the address begin with http://?"
        case ProtocolError():
            return (
                "the connection was closed without a whole answer",
                "Check that a gateway listens there; with TLS, its address begins with https://. "
                "A statement that was sent may have run: look before you write the same again.",
            )
    return str(cause), None


def _is_address(url: str) -> bool:
    try:
        parsed = urllib.parse.urlsplit(url)
        return parsed.scheme in {"http", "https"} and bool(parsed.hostname) and parsed.port != 0
    except ValueError:
        return False


def _says_its_end(answer: urllib3.BaseHTTPResponse) -> bool:
    """Whether an answer says where it ends, as all of a gateway do: a shorter one is noticed."""
    is_chunked = "chunked" in answer.headers.get("Transfer-Encoding", "")
    return is_chunked or "Content-Length" in answer.headers or answer.status == _NO_CONTENT


def _parsed(data: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(data)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _error(body: Mapping[str, Any] | None, answer: urllib3.BaseHTTPResponse) -> SeamlineError:
    error = (body or {}).get("error")
    if isinstance(error, dict):
        return SeamlineError.from_json(error)
    return SeamlineError(
        GATEWAY_UNAVAILABLE,
        f"the answer has status {answer.status} and does not come from a Seamline gateway",
    )
