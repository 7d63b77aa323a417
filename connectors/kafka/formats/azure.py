"""Records as Azure's Avro serializers write them, and the registry that has their schemas.

The header `content-type` of the record is `avro/binary+` and the id of the value's schema, which
is a GUID without dashes. Keys name no schema.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from typing import TYPE_CHECKING

from seamline.connectors.kafka.formats.framing import Framing, SchemaId
from seamline.connectors.kafka.formats.schemas import Schema, SchemaRegistry
from seamline.connectors.protocols.raw_records import Headers

if TYPE_CHECKING:
    from seamline.connectors.config import SchemaRegistryConfig

_HEADER = "content-type"
_CONTENT_TYPE = re.compile(rb"avro/binary\+([0-9A-Fa-f-]{32,36})")
_KIND = re.compile(r"serialization=\"?(\w+)", re.IGNORECASE)
_API = "api-version=2022-10"


def _read(
    value: bytes,
    headers: Headers | None,
    part: str,
    kind: str,  # noqa: ARG001 - it is always Avro
) -> tuple[SchemaId, bytes]:
    """See `Framing.read`."""
    for header, content in reversed(headers or ()):
        if part == "value" and header == _HEADER and content is not None:
            match = _CONTENT_TYPE.fullmatch(content)
            if match is not None:
                return match[1].decode(), value
    raise ValueError("no schema id in its header content-type")


def _write(schema_id: SchemaId, part: str, kind: str) -> tuple[bytes, Headers]:
    """See `Framing.write`."""
    if part != "value" or kind != "AVRO":
        raise ValueError("Azure's serializers name only the schemas of values, and only of Avro")
    return b"", [(_HEADER, f"avro/binary+{schema_id}".encode())]


class AzureRegistry(SchemaRegistry):
    """Looks up schemas in the registry of an Event Hubs namespace."""

    framing = Framing(_read, _write)

    def __init__(self, config: SchemaRegistryConfig) -> None:
        super().__init__(config)
        self._group = config.group

    def _find(self, schema_id: SchemaId) -> Schema | None:
        identified = self._schema_at(f"$schemas/{urllib.parse.quote(str(schema_id))}")
        return None if identified is None else identified[1]

    def _latest(self, subject: str) -> tuple[SchemaId, Schema] | None:
        if not self._group:
            return None
        names = (urllib.parse.quote(name, safe="") for name in (self._group, subject))
        path = "{}/schemas/{}/versions".format(*names)
        with self.dependency.call():
            answer = self._request(f"/$schemaGroups/{path}?{_API}")
        if answer.status == 404:
            return None
        try:
            body = {name.lower(): entry for name, entry in json.loads(answer.data).items()}
            newest = max(map(int, body["value"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._failure(f"HTTP {answer.status}, and no versions of a schema") from error
        if body.get("nextlink"):
            raise self._failure(f"it lists the versions of {subject} on several pages")
        return self._schema_at(f"{path}/{newest}")

    def _schema_at(self, path: str) -> tuple[SchemaId, Schema] | None:
        """Returns the schema at a path, preceded by its id; None if there is nothing."""
        with self.dependency.call():
            answer = self._request(f"/$schemaGroups/{path}?{_API}")
        if answer.status == 404 and b"ItemNotFound" in answer.data:
            return None
        kind = _KIND.search(answer.headers.get("content-type", ""))
        schema_id = answer.headers.get("schema-id")
        if answer.status != 200 or kind is None or schema_id is None:
            raise self._failure(f"HTTP {answer.status}, and no schema")
        try:
            return schema_id, Schema(kind[1].upper(), answer.data.decode())
        except UnicodeDecodeError as error:
            raise self._failure("its answer is not text") from error

    def _before(self, schema_id: SchemaId) -> tuple[Schema, ...]:  # noqa: ARG002
        return ()
