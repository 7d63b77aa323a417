"""The one schema of all keys or values, where the table names it instead of each record.

It is a text, or the newest version of a subject in the registry. A statement, a batch and whatever
else must give the same rows again pins the version; others take the newest when they begin.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from seamline.connectors.kafka.formats.parts import Setting
from seamline.connectors.kafka.formats.schemas import Earlier, Schema, Schemas
from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.encoding import KEY, VALUE, LatestSchema

NEWEST_AGE_S = 60.0
"""How long the newest version of a subject may have been replaced before statements follow."""


@dataclasses.dataclass(frozen=True, slots=True)
class OwnSchema:
    """The schema of all parts.

    Attributes:
        schema: The schema.
        earlier: Returns the versions before it.
        message: The full name of the Protobuf message that parts are; empty for the first.
    """

    schema: Schema
    earlier: Earlier = tuple
    message: str = ""


def own_schema(setting: Setting, kind: str) -> OwnSchema | None:
    """Returns the schema of all parts; None if each part names its own.

    Args:
        setting: Keys or values, and where their schemas are.
        kind: The kind of the schema: `AVRO`, `PROTOBUF` or `JSON`.

    Raises:
        ValueError: the registry has no such schema, or one of another kind.
        SeamlineError: SCHEMA_REGISTRY_UNAVAILABLE, DEADLINE_EXCEEDED.
    """
    if setting.schema is None:
        return None
    latest = LatestSchema.parse(setting.schema)
    if latest is None:
        return OwnSchema(Schema(kind, setting.schema))
    schema_id, schema = latest.schema_id, None
    if schema_id is None:
        schema_id, schema = setting.schemas.latest(latest.subject) or (None, None)
    if schema_id is None:
        raise ValueError(f"the schema registry has no subject {latest.subject}")
    schema = schema or setting.schemas.by_id(schema_id)
    if schema.kind != kind:
        raise ValueError(f"schema {schema_id} is of the kind {schema.kind}, not {kind}")
    return OwnSchema(schema, functools.partial(setting.schemas.earlier, schema_id), latest.message)


def pinned(binding: TopicBinding, schemas: Schemas) -> TopicBinding:
    """Returns a binding in which the newest version of each subject that it follows is stated.

    Args:
        binding: The binding, as the table's properties have it.
        schemas: Where the schemas of its records are registered.

    Raises:
        SeamlineError: INVALID_TABLE_DEFINITION when there is no such subject;
            SCHEMA_REGISTRY_UNAVAILABLE, DEADLINE_EXCEEDED.
    """
    versions: dict[str, Any] = {}
    for part, text in binding.schemas.items():
        latest = LatestSchema.parse(text)
        if latest is None or latest.schema_id is not None:
            continue
        newest = schemas.latest(latest.subject, NEWEST_AGE_S)
        if newest is None:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"the {part}s of topic {binding.topic} follow the subject {latest.subject}, which "
                "the schema registry does not have",
                hint="Register its schema.",
            )
        versions[_OPTIONS[part]] = str(dataclasses.replace(latest, subject="", schema_id=newest[0]))
    return dataclasses.replace(binding, **versions) if versions else binding


_OPTIONS = {VALUE: "value_schema", KEY: "key_schema"}
