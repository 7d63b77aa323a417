"""The token endpoints that Google's and Azure's own libraries ask, in this process."""

from __future__ import annotations

import json
import time
import urllib.parse

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from support.json_server import Answer, JsonServer, Request

GOOGLE_TOKEN = "ya29.secret"
AZURE_TOKEN = "eyJ.azure"
_EMAIL = "seamline@project.iam.gserviceaccount.com"
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class GoogleTokens(JsonServer):
    """Google's token endpoint for service accounts: it takes an assertion that the account signed.

    Attributes:
        scopes: The scopes that were asked for.
    """

    def __init__(self) -> None:
        self.scopes: list[str] = []
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        super().__init__()

    @property
    def account(self) -> str:
        """The file with an account's key, as Google hands it out."""
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        key = self._key.private_bytes(*form, serialization.NoEncryption()).decode()
        return json.dumps(
            {
                "type": "service_account",
                "project_id": "project",
                "private_key_id": "one",
                "private_key": key,
                "client_email": _EMAIL,
                "token_uri": f"{self.url}/token",
            }
        )

    def answer(self, request: Request) -> Answer:
        """See `JsonServer.answer`."""
        fields = dict(urllib.parse.parse_qsl(request.body.decode()))
        if request.path != "/token" or fields.get("grant_type") != _GRANT:
            return Answer(400, {"error": "invalid_request"})
        try:
            assertion = jwt.decode(
                fields["assertion"],
                self._key.public_key(),
                ["RS256"],
                audience="https://oauth2.googleapis.com/token",
                issuer=_EMAIL,
            )
        except jwt.InvalidTokenError as error:
            return Answer(400, {"error": "invalid_grant", "error_description": str(error)})
        self.scopes.append(assertion["scope"])
        body = {"access_token": GOOGLE_TOKEN, "expires_in": 3599, "token_type": "Bearer"}
        return Answer(200, body)


class ManagedIdentity(JsonServer):
    """Where applications on Azure App Service get their managed identity's tokens.

    Attributes:
        resources: The resources that tokens were asked for.
    """

    header = "header-secret"

    def __init__(self) -> None:
        self.resources: list[str] = []
        super().__init__()

    def answer(self, request: Request) -> Answer:
        """See `JsonServer.answer`."""
        path, _, query = request.path.partition("?")
        fields = dict(urllib.parse.parse_qsl(query))
        if path != "/msi/token" or "resource" not in fields or "api-version" not in fields:
            return Answer(400, {"statusCode": 400, "message": "Bad Request"})
        if request.headers.get("x-identity-header") != self.header:
            return Answer(401, {"statusCode": 401, "message": "Unauthorized"})
        self.resources.append(fields["resource"])
        own = {"access_token": AZURE_TOKEN, "resource": fields["resource"], "token_type": "Bearer"}
        return Answer(200, {**own, "expires_on": str(int(time.time()) + 3600)})
