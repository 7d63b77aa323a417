"""Records as Azure's Avro serializers write them, and the registry that has their schemas.

The header `content-type` of the record is `avro/binary+` and the id of the value's schema, which
is a GUID without dashes. Keys name no schema.
"""

from __future__ import annotations

import re
import urllib.parse

from seamline.connectors.kafka.formats.schemas import Schema, SchemaId, SchemaRegistry
from seamline.connectors.protocols.raw_records import Headers

_CONTENT_TYPE = re.compile(rb"avro/binary\+([0-9A-Fa-f-]{32,36})")
_KIND = re.compile(r"serialization=\"?(\w+)", re.IGNORECASE)
_API = "api-version=2022-10"


def frame(
    value: bytes,
    headers: Headers | None,
    part: str,
    kind: str,  # noqa: ARG001 - it is always Avro
) -> tuple[SchemaId, bytes] | None:
    """Returns the schema id of a part, and the part itself; None if it is not of this form."""
    if part != "value":
        return None
    for header, content in reversed(headers or ()):
        if header == "content-type" and content is not None:
            match = _CONTENT_TYPE.fullmatch(content)
            if match is not None:
                return match[1].decode(), value
    return None


class AzureRegistry(SchemaRegistry):
    """Looks up schemas in the registry of an Event Hubs namespace."""

    def _find(self, schema_id: SchemaId) -> Schema | None:
        path = f"/$schemaGroups/$schemas/{urllib.parse.quote(str(schema_id))}?{_API}"
        with self.dependency.call():
            answer = self._request(path)
        if answer.status == 404 and b"ItemNotFound" in answer.data:
            return None
        kind = _KIND.search(answer.headers.get("content-type", ""))
        if answer.status != 200 or kind is None:
            raise self._failure(f"HTTP {answer.status}, and no schema")
        try:
            return Schema(kind[1].upper(), answer.data.decode())
        except UnicodeDecodeError as error:
            raise self._failure("its answer is not text") from error

    def _latest(self, subject: str) -> None:  # noqa: ARG002 - its schemas have other names
        return None

    def _before(self, schema_id: SchemaId) -> tuple[Schema, ...]:  # noqa: ARG002
        return ()
