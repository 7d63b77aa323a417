"""Parts as AWS Glue's serializers write them, and the registry that has their schemas.

A part begins with a byte that is three, one that says how the rest is compressed (zero: not at
all, five: zlib), and the UUID of the schema's version in sixteen bytes.
"""

from __future__ import annotations

import uuid
import zlib
from typing import TYPE_CHECKING, Any

from seamline.connectors.kafka.formats.large import PART_BYTES_MAX
from seamline.connectors.kafka.formats.schemas import Schema, SchemaId, SchemaRegistry
from seamline.connectors.protocols.raw_records import Headers
from seamline.errors import MISSING_EXTRA, SeamlineError

if TYPE_CHECKING:
    from seamline.connectors.config import SchemaRegistryConfig

_VERSION = 3
_PLAIN, _ZLIB = 0, 5
_HEADER_BYTES = 18
_CONNECT_S, _READ_S = 3.0, 5.0


def frame(
    value: bytes,
    headers: Headers | None,  # noqa: ARG001 - it is all in the part
    part: str,  # noqa: ARG001
    kind: str,
) -> tuple[SchemaId, bytes] | None:
    """Returns the schema id of a part, and the part itself; None if it is not of this form.

    Raises:
        ValueError: it cannot be decompressed, or only Amazon's own deserializer can read it.
    """
    if value[:1] != b"\x03" or len(value) < _HEADER_BYTES or value[1] not in (_PLAIN, _ZLIB):
        return None
    if kind == "PROTOBUF":
        raise ValueError("its message can be read only by AWS Glue's own deserializer")
    return str(uuid.UUID(bytes=value[2:_HEADER_BYTES])), bare(value)


def bare(value: bytes) -> bytes:
    """Returns a part without what precedes it, decompressed.

    Raises:
        ValueError: it cannot be decompressed.
    """
    if len(value) < _HEADER_BYTES or value[1] not in (_PLAIN, _ZLIB):
        return value
    if value[1] == _PLAIN:
        return value[_HEADER_BYTES:]
    decompressor = zlib.decompressobj()
    try:
        whole = decompressor.decompress(value[_HEADER_BYTES:], PART_BYTES_MAX)
    except zlib.error as error:
        raise ValueError("it cannot be decompressed (zlib)") from error
    if not decompressor.eof:
        raise ValueError(
            "it is compressed (zlib), and incomplete or larger than "
            f"{PART_BYTES_MAX >> 20} MiB once it is decompressed"
        )
    return whole


class GlueRegistry(SchemaRegistry):
    """Looks up schemas in AWS Glue, with the credentials that Amazon's library finds."""

    def __init__(self, config: SchemaRegistryConfig) -> None:
        super().__init__(config)
        try:
            import boto3
            from botocore.config import Config
        except ImportError as error:
            raise SeamlineError(
                MISSING_EXTRA,
                f"the schema registry {config.address} needs the package {error.name}",
                hint="pip install 'seamline[gateway,aws]'",
            ) from error
        self._client: Any = boto3.client(
            "glue",
            region_name=config.region,
            endpoint_url=config.address,
            config=Config(
                connect_timeout=_CONNECT_S,
                read_timeout=_READ_S,
                retries={"mode": "standard", "total_max_attempts": 4},
            ),
            verify=config.ca or None,
        )

    def _find(self, schema_id: SchemaId) -> Schema | None:
        from botocore.exceptions import BotoCoreError, ClientError

        if not isinstance(schema_id, str):
            raise ValueError(f"schema id {schema_id} is not one of AWS Glue")
        with self.dependency.call():
            try:
                body = self._client.get_schema_version(SchemaVersionId=schema_id)
            except ClientError as error:
                if error.response["Error"]["Code"] == "EntityNotFoundException":
                    return None
                raise self._failure(str(error)) from error
            except BotoCoreError as error:
                raise self._failure(str(error)) from error
        return Schema(body["DataFormat"], body["SchemaDefinition"])

    def _latest(self, subject: str) -> None:  # noqa: ARG002 - its schemas have other names
        return None

    def _before(self, schema_id: SchemaId) -> tuple[Schema, ...]:  # noqa: ARG002
        return ()
