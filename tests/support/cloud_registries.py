"""The registries of AWS Glue and of Azure, in this process, as far as readers need them."""

from __future__ import annotations

import json
import re
import uuid
import zlib

from support.json_server import Answer, JsonServer, Request

_SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=\w+/\d{8}/eu-west-1/glue/aws4_request, "
    r"SignedHeaders=[\w;-]+, Signature=[0-9a-f]{64}"
)


class Glue(JsonServer):
    """AWS Glue's schema registry: `GetSchemaVersion` by the version's id.

    Attributes:
        throttles: How many of the next requests it refuses as too many.
        is_denied: Whether the caller may not read schemas.
    """

    def __init__(self) -> None:
        self.throttles = 0
        self.is_denied = False
        self._versions: dict[str, tuple[str, str]] = {}
        super().__init__()

    def register(self, text: str, kind: str = "AVRO") -> uuid.UUID:
        """Adds a schema; gives the id of its version."""
        version = uuid.uuid4()
        self._versions[str(version)] = kind, text
        return version

    def answer(self, request: Request) -> Answer:
        """See `JsonServer.answer`."""
        if request.headers.get("x-amz-target") != "AWSGlue.GetSchemaVersion":
            return _of_amazon("UnknownOperationException", "")
        if not _SIGNED.fullmatch(request.headers.get("authorization", "")):
            return _of_amazon("MissingAuthenticationTokenException", "Missing Token")
        if self.throttles:
            self.throttles -= 1
            return _of_amazon("ThrottlingException", "Rate exceeded")
        if self.is_denied:
            message = "User: u is not authorized to perform: glue:GetSchemaVersion"
            return _of_amazon("AccessDeniedException", message)
        version = json.loads(request.body)["SchemaVersionId"]
        if version not in self._versions:
            message = f"Schema version is not found. SchemaVersionId: {version}"
            return _of_amazon("EntityNotFoundException", message)
        kind, text = self._versions[version]
        body = {
            "SchemaVersionId": version,
            "SchemaDefinition": text,
            "DataFormat": kind,
            "SchemaArn": "arn:aws:glue:eu-west-1:1:schema/default-registry/orders",
            "VersionNumber": 1,
            "Status": "AVAILABLE",
            "CreatedTime": "2026-01-01T00:00:00Z",
        }
        return Answer(200, body, {"content-type": "application/x-amz-json-1.1"})


def of_glue(version: uuid.UUID, payload: bytes, *, is_compressed: bool = False) -> bytes:
    """A part as AWS Glue's serializers write it."""
    if is_compressed:
        return b"\x03\x05" + version.bytes + zlib.compress(payload)
    return b"\x03\x00" + version.bytes + payload


def _of_amazon(code: str, message: str) -> Answer:
    body = {"__type": code, "Message": message}
    return Answer(400, body, {"content-type": "application/x-amz-json-1.1"})


class AzureRegistry(JsonServer):
    """Azure's schema registry: schemas by id, for whoever has the token.

    Attributes:
        token: The token that it accepts.
        throttles: How many of the next requests it refuses as too many.
    """

    def __init__(self, token: str) -> None:
        self.token = token
        self.throttles = 0
        self._schemas: dict[str, str] = {}
        super().__init__()

    def register(self, text: str) -> str:
        """Adds a schema of Avro; gives its id."""
        schema_id = uuid.uuid4().hex
        self._schemas[schema_id] = text
        return schema_id

    def answer(self, request: Request) -> Answer:
        """See `JsonServer.answer`."""
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return _of_azure(401, "Unauthorized", "Invalid authorization token signature")
        if self.throttles:
            self.throttles -= 1
            return _of_azure(429, "TooManyRequests", "Too many requests")
        match = re.fullmatch(
            r"/\$schemaGroups/\$schemas/([^/?]+)\?api-version=2022-10", request.path
        )
        if match is None:
            return _of_azure(400, "InvalidRequest", "The request is invalid")
        text = self._schemas.get(match[1])
        if text is None:
            return _of_azure(404, "ItemNotFound", f"Schema id {match[1]} does not exist.")
        headers = {
            "content-type": "application/json; serialization=Avro",
            "schema-id": match[1],
            "schema-group-name": "orders",
            "schema-name": "shop.Order",
            "schema-version": "1",
        }
        return Answer(200, text.encode(), headers)


def _of_azure(status: int, code: str, message: str) -> Answer:
    return Answer(status, {"error": {"code": code, "message": message}})
