"""The table of schema registries: how each one's serializers name a schema, and who looks it up.

A new registry is a module and a row here.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from seamline.connectors.kafka.formats import azure, confluent, glue
from seamline.connectors.kafka.formats.schemas import NoRegistry, SchemaId, SchemaRegistry, Schemas
from seamline.connectors.protocols.raw_records import Headers

if TYPE_CHECKING:
    from seamline.connectors.config import SchemaRegistryConfig

Frame: TypeAlias = Callable[[bytes, Headers | None, str, str], tuple[SchemaId, bytes] | None]
"""(part as in the log, headers, `key` or `value`, kind of schema) → schema id and part, or None."""


@dataclasses.dataclass(frozen=True, slots=True)
class RegistryKind:
    """A kind of schema registry.

    Attributes:
        client: Looks up schemas.
        frame: Tells the schema id of a part that its serializers wrote, and the part itself.
        first_byte: The first byte of parts that an id precedes; None if none does.
        bare: Returns such a part without the id; raises ValueError for one that is damaged.
    """

    client: Callable[[SchemaRegistryConfig], SchemaRegistry]
    frame: Frame
    first_byte: int | None = None
    bare: Callable[[bytes], bytes] = lambda value: value


REGISTRIES: Mapping[str, RegistryKind] = {
    "azure": RegistryKind(azure.AzureRegistry, azure.frame),
    "glue": RegistryKind(glue.GlueRegistry, glue.frame, 3, glue.bare),
    "confluent": RegistryKind(SchemaRegistry, confluent.frame, 0, confluent.bare),
}
"""The kinds by `schema_registry.type`; the last one also says why a part names no schema."""

_BARE = {kind.first_byte: kind.bare for kind in REGISTRIES.values() if kind.first_byte is not None}


def frame(
    value: bytes, headers: Headers | None, part: str, kind: str = ""
) -> tuple[SchemaId, bytes]:
    """Returns the schema id of a part, and the part itself.

    Args:
        value: The part as the log holds it.
        headers: The record's headers.
        part: `key` or `value`.
        kind: The kind of its schema, if only that kind will do.

    Raises:
        ValueError: it names no schema, or in an unknown way.
    """
    for registry_kind in REGISTRIES.values():
        named = registry_kind.frame(value, headers, part, kind)
        if named is not None:
            return named
    raise ValueError("it names no schema")


def bare(value: bytes) -> bytes:
    """Returns a self-describing part without the id before it, if there is one.

    No JSON begins with a byte that such an id begins with. A damaged part is returned as it is.
    """
    without = _BARE.get(value[0]) if value else None
    try:
        return value if without is None else without(value)
    except ValueError:
        return value


@functools.lru_cache(maxsize=64)
def registry(config: SchemaRegistryConfig | None) -> Schemas:
    """Returns the registry of a cluster; one object per process, since it remembers answers.

    Raises:
        SeamlineError: MISSING_EXTRA.
    """
    if config is None or not config.address:
        return NoRegistry()
    return REGISTRIES[config.type].client(config)
