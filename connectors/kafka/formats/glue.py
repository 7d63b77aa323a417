"""Parts as AWS Glue's serializers write them, and the registry that has their schemas.

A part begins with a byte that is three, one that says how the rest is compressed (zero: not at
all, five: zlib), and the UUID of the schema's version in sixteen bytes. A Protobuf message is
preceded by its number, a varint, among all messages of its file, ordered by their full names.
"""

from __future__ import annotations

import functools
import uuid
import zlib
from typing import TYPE_CHECKING, Any

from seamline.connectors.kafka.formats.framing import (
    NO_PATH,
    Framing,
    MessagePath,
    SchemaId,
    varint,
)
from seamline.connectors.kafka.formats.large import PART_BYTES_MAX
from seamline.connectors.kafka.formats.schemas import Schema, SchemaRegistry
from seamline.connectors.protocols.raw_records import Headers
from seamline.errors import MISSING_EXTRA, SeamlineError

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor

    from seamline.connectors.config import SchemaRegistryConfig

_MARK = b"\x03"
_PLAIN, _ZLIB = 0, 5
_PREFIX_BYTES = 18
_CONNECT_S, _READ_S = 3.0, 5.0


# --- Parts ---------------------------------------------------------------------------------------


def _read(
    value: bytes,
    headers: Headers | None,  # noqa: ARG001 - it is all in the part
    part: str,  # noqa: ARG001
    kind: str,  # noqa: ARG001
) -> tuple[SchemaId, bytes]:
    """See `Framing.read`."""
    if not _is_framed(value):
        raise ValueError(f"no schema id before it, but {value[:5].hex(' ') or 'nothing'}")
    return str(uuid.UUID(bytes=value[2:_PREFIX_BYTES])), _bare(value)


def _write(schema_id: SchemaId, part: str, kind: str) -> tuple[bytes, Headers]:  # noqa: ARG001
    """See `Framing.write`."""
    return _MARK + bytes([_PLAIN]) + uuid.UUID(str(schema_id)).bytes, ()


def _is_framed(value: bytes) -> bool:
    return value[:1] == _MARK and len(value) >= _PREFIX_BYTES and value[1] in (_PLAIN, _ZLIB)


def _bare(value: bytes) -> bytes:
    """See `Framing.bare`; the part is decompressed."""
    if not _is_framed(value):
        return value
    if value[1] == _PLAIN:
        return value[_PREFIX_BYTES:]
    decompressor = zlib.decompressobj()
    try:
        whole = decompressor.decompress(value[_PREFIX_BYTES:], PART_BYTES_MAX)
    except zlib.error as error:
        raise ValueError("it cannot be decompressed (zlib)") from error
    if not decompressor.eof:
        raise ValueError(
            "it is compressed (zlib), and incomplete or larger than "
            f"{PART_BYTES_MAX >> 20} MiB once it is decompressed"
        )
    return whole


def _message_path(value: bytes, file: FileDescriptor) -> tuple[MessagePath, int]:
    """See `Framing.message_path`."""
    number, position = varint(value, 0, NO_PATH)
    paths = _paths(file)
    path = paths[number] if number < len(paths) else None
    if path is None:
        raise ValueError(f"the schema has no message of the number {number}")
    return path, position


def _first_message(file: FileDescriptor) -> bytes:
    """See `Framing.first_message`."""
    number, written = _paths(file).index((0,)), bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


@functools.lru_cache(maxsize=64)
def _paths(file: FileDescriptor) -> list[MessagePath | None]:
    """Returns the paths to all messages of a file, by full name; None for the entries of maps."""
    from seamline.connectors.kafka.formats import protobuf_schema

    return [path for _, path in sorted(protobuf_schema.paths(file))]


# --- The registry --------------------------------------------------------------------------------


class GlueRegistry(SchemaRegistry):
    """Looks up schemas in AWS Glue, with the credentials that Amazon's library finds."""

    framing = Framing(
        _read, _write, _message_path, _first_message, _MARK + bytes([_PLAIN]), _PREFIX_BYTES, _bare
    )

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
        self._group = config.group or "default-registry"
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
        body = self._version_of(SchemaVersionId=_version_id(schema_id))
        return None if body is None else _schema_of(body)

    def _latest(self, subject: str) -> tuple[SchemaId, Schema] | None:
        """See `Schemas.latest`: a schema of the subject's name, or of the topic's for values.

        Amazon's serializers for Java name schemas as the topic.
        """
        for name in dict.fromkeys((subject, subject.removesuffix("-value"))):
            body = self._version_of(
                SchemaId={"RegistryName": self._group, "SchemaName": name},
                SchemaVersionNumber={"LatestVersion": True},
            )
            if body is not None:
                return str(body["SchemaVersionId"]), _schema_of(body)
        return None

    def _before(self, schema_id: SchemaId) -> tuple[Schema, ...]:
        body = self._version_of(SchemaVersionId=_version_id(schema_id))
        newest, schemas = (0, []) if body is None else (int(body["VersionNumber"]), [])
        for number in range(newest - 1, 0, -1):
            version = {"VersionNumber": number}
            other = self._version_of(
                SchemaId={"SchemaArn": body["SchemaArn"]}, SchemaVersionNumber=version
            )
            if other is not None:
                schemas.append(_schema_of(other))
        self._earlier[schema_id] = tuple(schemas)
        return self._earlier[schema_id]

    def _version_of(self, **of: Any) -> Any:
        """Returns a version of a schema as Glue describes it; None if there is no such version."""
        from botocore.exceptions import BotoCoreError, ClientError

        with self.dependency.call():
            try:
                return self._client.get_schema_version(**of)
            except ClientError as error:
                if error.response["Error"]["Code"] == "EntityNotFoundException":
                    return None
                raise self._failure(str(error)) from error
            except BotoCoreError as error:
                raise self._failure(str(error)) from error


def _version_id(schema_id: SchemaId) -> str:
    if not isinstance(schema_id, str):
        raise ValueError(f"schema id {schema_id} is not one of AWS Glue")
    return schema_id


def _schema_of(body: Any) -> Schema:
    return Schema(body["DataFormat"], body["SchemaDefinition"])
