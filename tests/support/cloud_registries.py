"""The registries of AWS Glue and of Azure, in this process, as far as records need them."""

from __future__ import annotations

import dataclasses
import json
import re
import uuid
import zlib
from collections.abc import Callable
from typing import Any

from support.json_server import Answer, JsonServer, Request

_SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=\w+/\d{8}/eu-west-1/glue/aws4_request, "
    r"SignedHeaders=[\w;-]+, Signature=[0-9a-f]{64}"
)


@dataclasses.dataclass(frozen=True)
class _Version:
    """A version of a schema in Glue."""

    id: str
    name: str
    number: int
    kind: str
    text: str

    @property
    def described(self) -> dict[str, Any]:
        """As `GetSchemaVersion` describes it."""
        return {
            "SchemaVersionId": self.id,
            "SchemaDefinition": self.text,
            "DataFormat": self.kind,
            "SchemaArn": f"{_ARN}{self.name}",
            "VersionNumber": self.number,
            "Status": "AVAILABLE",
            "CreatedTime": "2026-01-01T00:00:00Z",
        }


_ARN = "arn:aws:glue:eu-west-1:1:schema/default-registry/"


class Glue(JsonServer):
    """AWS Glue's schema registry: versions by id, by number, the latest, and by definition.

    Attributes:
        throttles: How many of the next requests it refuses as too many.
        is_denied: Whether the caller may not read schemas.
    """

    def __init__(self) -> None:
        self.throttles = 0
        self.is_denied = False
        self._versions: list[_Version] = []
        super().__init__()

    def register(self, text: str, kind: str = "AVRO", name: str = "orders-value") -> uuid.UUID:
        """Adds a version of a schema; gives its id."""
        version = uuid.uuid4()
        number = 1 + sum(other.name == name for other in self._versions)
        self._versions.append(_Version(str(version), name, number, kind, text))
        return version

    def answer(self, request: Request) -> Answer:
        """See `JsonServer.answer`."""
        action = request.headers.get("x-amz-target", "").removeprefix("AWSGlue.")
        if action not in ("GetSchemaVersion", "GetSchemaByDefinition"):
            return _of_amazon("UnknownOperationException", "")
        if not _SIGNED.fullmatch(request.headers.get("authorization", "")):
            return _of_amazon("MissingAuthenticationTokenException", "Missing Token")
        if self.throttles:
            self.throttles -= 1
            return _of_amazon("ThrottlingException", "Rate exceeded")
        if self.is_denied:
            message = f"User: u is not authorized to perform: glue:{action}"
            return _of_amazon("AccessDeniedException", message)
        version = self._version(json.loads(request.body))
        if version is None:
            return _of_amazon("EntityNotFoundException", "Schema version is not found.")
        return Answer(200, version.described, {"content-type": "application/x-amz-json-1.1"})

    def _version(self, asked: dict[str, Any]) -> _Version | None:
        if "SchemaVersionId" in asked:
            return next((v for v in self._versions if v.id == asked["SchemaVersionId"]), None)
        schema = asked["SchemaId"]
        if schema.get("RegistryName", "default-registry") != "default-registry":
            return None
        name = schema.get("SchemaName") or schema["SchemaArn"].removeprefix(_ARN)
        own = [version for version in self._versions if version.name == name]
        if "SchemaDefinition" in asked:
            return next((v for v in own if v.text == asked["SchemaDefinition"]), None)
        number = asked["SchemaVersionNumber"].get("VersionNumber", len(own))
        return next((version for version in own if version.number == number), None)


def of_glue(version: uuid.UUID, payload: bytes, *, is_compressed: bool = False) -> bytes:
    """A part as AWS Glue's serializers write it."""
    if is_compressed:
        return b"\x03\x05" + version.bytes + zlib.compress(payload)
    return b"\x03\x00" + version.bytes + payload


def _of_amazon(code: str, message: str) -> Answer:
    body = {"__type": code, "Message": message}
    return Answer(400, body, {"content-type": "application/x-amz-json-1.1"})


class AzureRegistry(JsonServer):
    """Azure's schema registry: schemas by id, and those of the group `shop` by name and version.

    Args:
        accepts: Whether it accepts a token.

    Attributes:
        throttles: How many of the next requests it refuses as too many.
    """

    def __init__(self, accepts: Callable[[str], bool]) -> None:
        self._accepts = accepts
        self.throttles = 0
        self._schemas: dict[str, str] = {}
        self._ids: dict[str, list[str]] = {}
        super().__init__()

    def register(self, text: str, name: str = "orders-value") -> str:
        """Adds a version of a schema of Avro; gives its id."""
        schema_id = uuid.uuid4().hex
        self._schemas[schema_id] = text
        self._ids.setdefault(name, []).append(schema_id)
        return schema_id

    def answer(self, request: Request) -> Answer:
        """See `JsonServer.answer`."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not self._accepts(token):
            return _of_azure(401, "Unauthorized", "Invalid authorization token signature")
        if self.throttles:
            self.throttles -= 1
            return _of_azure(429, "TooManyRequests", "Too many requests")
        path = request.path.removesuffix("?api-version=2022-10").split("/")
        match path[1:]:
            case ["$schemaGroups", "$schemas", schema_id]:
                return self._schema(schema_id)
            case ["$schemaGroups", "shop", "schemas", name, "versions"] if name in self._ids:
                return Answer(200, {"Value": list(range(1, len(self._ids[name]) + 1))})
            case ["$schemaGroups", "shop", "schemas", name, "versions", number]:
                return self._schema(self._ids[name][int(number) - 1])
            case ["$schemaGroups", _, "schemas", name, "versions"]:
                return _of_azure(404, "ItemNotFound", f"Schema {name} does not exist.")
        return _of_azure(400, "InvalidRequest", "The request is invalid")

    def _schema(self, schema_id: str) -> Answer:
        text = self._schemas.get(schema_id)
        if text is None:
            return _of_azure(404, "ItemNotFound", f"Schema id {schema_id} does not exist.")
        headers = {
            "content-type": "application/json; serialization=Avro",
            "schema-id": schema_id,
            "schema-group-name": "orders",
            "schema-name": "shop.Order",
            "schema-version": "1",
        }
        return Answer(200, text.encode(), headers)


def _of_azure(status: int, code: str, message: str) -> Answer:
    return Answer(status, {"error": {"code": code, "message": message}})
