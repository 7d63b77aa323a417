"""An identity provider in this process: a token endpoint for client credentials, and its keys.

It answers as RFC 6749 says (2.3.1, 4.4, 5.1, 5.2): one grant, scopes, the client's id and secret by
basic authentication and form-encoded, or in the body. Tokens are JWTs signed with RS256; `/keys`
has the key.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.parse
import uuid
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from support.json_server import Answer, JsonServer, Request

CLIENT = "seam line"
SECRET = "p%s/w+rd: ü"
ISSUER = "https://identity.example.com/"
AUDIENCE = "kafka"
_FORM = "application/x-www-form-urlencoded"


class IdentityProvider(JsonServer):
    """An identity provider.

    Args:
        life_s: How long its tokens live, in seconds.

    Attributes:
        throttles: How many of the next requests it answers with 429.
        issued: The tokens that it issued to those who asked.
    """

    def __init__(self, life_s: float = 60.0) -> None:
        self.life_s = life_s
        self.throttles = 0
        self.issued: list[str] = []
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        super().__init__()

    @property
    def login(self) -> dict[str, str]:
        """The settings of a login with it."""
        return {
            "type": "oidc",
            "url": f"{self.url}/token",
            "client_id": CLIENT,
            "client_secret": SECRET,
        }

    def token(self, scope: str = "") -> str:
        """Issues a token."""
        now = time.time()
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "seamline",
            "jti": uuid.uuid4().hex,
            "iat": int(now),
            "exp": int(now + self.life_s),
            **({"scope": scope} if scope else {}),
        }
        return jwt.encode(claims, self._key, "RS256", headers={"kid": "one"})

    def is_valid(self, token: str) -> bool:
        """Whether a token is its own, and has not expired."""
        try:
            jwt.decode(token, self._key.public_key(), ["RS256"], audience=AUDIENCE, issuer=ISSUER)
        except jwt.InvalidTokenError:
            return False
        return True

    def answer(self, request: Request) -> Answer:
        """See `JsonServer.answer`."""
        match request.method, request.path:
            case "GET", "/keys":
                return Answer(200, self._keys())
            case "POST", "/token":
                status, body = self._token(request)
                challenge = {"www-authenticate": "Basic"} if status == 401 else {}
                return Answer(status, body, {"cache-control": "no-store", **challenge})
        return Answer(404, {"error": "not_found"})

    def _keys(self) -> dict[str, Any]:
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        return {"keys": [{**key, "kid": "one", "use": "sig", "alg": "RS256"}]}

    def _token(self, request: Request) -> tuple[int, dict[str, Any]]:
        if self.throttles:
            self.throttles -= 1
            return 429, {"error": "temporarily_unavailable"}
        if request.headers.get("content-type") != _FORM:
            return 400, {"error": "invalid_request"}
        authorization = request.headers.get("authorization", "")
        fields = dict(urllib.parse.parse_qsl(request.body.decode(), strict_parsing=True))
        in_body = fields.get("client_id"), fields.get("client_secret")
        if in_body != (CLIENT, SECRET) and not _is_client(authorization):
            body = {"error": "invalid_client", "error_description": f"not {authorization}"}
            return 401, body
        if fields.get("grant_type") != "client_credentials":
            return 400, {"error": "unsupported_grant_type"}
        scope = fields.get("scope", "")
        if scope not in ("", "kafka", "registry", "catalog"):
            return 400, {"error": "invalid_scope", "error_description": "no such scope"}
        self.issued.append(self.token(scope))
        own = {"access_token": self.issued[-1], "token_type": "Bearer"}
        return 200, {**own, "expires_in": int(self.life_s)}


def _is_client(authorization: str) -> bool:
    kind, _, encoded = authorization.partition(" ")
    try:
        name, _, secret = base64.b64decode(encoded).decode().partition(":")
    except ValueError:
        return False
    sent = urllib.parse.unquote_plus(name), urllib.parse.unquote_plus(secret)
    return kind == "Basic" and sent == (CLIENT, SECRET)
