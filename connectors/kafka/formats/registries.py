"""The table of schema registries: a new one is a module, with its `Framing`, and a row here."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from seamline.connectors.kafka.formats.azure import AzureRegistry
from seamline.connectors.kafka.formats.framing import SchemaId
from seamline.connectors.kafka.formats.glue import GlueRegistry
from seamline.connectors.kafka.formats.schemas import NoRegistry, SchemaRegistry, Schemas
from seamline.connectors.protocols.raw_records import Headers

if TYPE_CHECKING:
    from seamline.connectors.config import SchemaRegistryConfig

REGISTRIES: Mapping[str, type[SchemaRegistry]] = {
    "azure": AzureRegistry,
    "glue": GlueRegistry,
    "confluent": SchemaRegistry,
}
"""The registries by `schema_registry.type`."""


def _read_any(
    value: bytes, headers: Headers | None, part: str, kind: str
) -> tuple[SchemaId, bytes]:
    for kind_of_registry in REGISTRIES.values():
        with contextlib.suppress(ValueError):
            return kind_of_registry.framing.read(value, headers, part, kind)
    raise ValueError(f"no schema id before it, but {value[:5].hex(' ') or 'nothing'}")


ANY = dataclasses.replace(SchemaRegistry.framing, read=_read_any, mark=b"")
"""The framing where no registry is configured: it tells whether a part needs one."""

_BARE = {
    kind.framing.mark[0]: kind.framing.bare for kind in REGISTRIES.values() if kind.framing.mark
}


def bare(value: bytes) -> bytes:
    """Returns a self-describing part without the id before it, if there is one.

    No JSON begins with a byte that such an id begins with, so no registry needs to be configured. A
    damaged part is returned as it is.
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
    return REGISTRIES[config.type](config)
