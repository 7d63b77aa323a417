"""Notes the schemas that a follower's records name but their registry does not know.

A record of an unknown schema is bad, and what is cached says so. The registry may come to know the
schema later, as one that replicates does, and the same record is then a row. So what was unknown is
asked for again, and what is cached is discarded once it is known.
"""

from __future__ import annotations

import contextlib

from seamline.connectors.kafka.formats.framing import Framing, SchemaId
from seamline.connectors.kafka.formats.schemas import Schema, Schemas
from seamline.connectors.protocols.deadlines import Deadline


class NotedSchemas:
    """Schemas, and the ids for which there were none. Safe to share between threads."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._unknown: dict[SchemaId, None] = {}

    @property
    def has_unknown(self) -> bool:
        """Whether there was none for some id."""
        return bool(self._unknown)

    @property
    def framing(self) -> Framing:
        """See `Schemas.framing`."""
        return self._schemas.framing

    def by_id(self, schema_id: SchemaId) -> Schema:
        """See `Schemas.by_id`."""
        try:
            return self._schemas.by_id(schema_id)
        except ValueError:
            self._unknown[schema_id] = None
            raise

    def latest(self, subject: str, age_s_max: float = 0.0) -> tuple[SchemaId, Schema] | None:
        """See `Schemas.latest`."""
        return self._schemas.latest(subject, age_s_max)

    def earlier(self, schema_id: SchemaId) -> tuple[Schema, ...]:
        """See `Schemas.earlier`."""
        return self._schemas.earlier(schema_id)

    def within(self, deadline: Deadline) -> Schemas:
        """See `Schemas.within`."""
        return self._schemas.within(deadline)

    def found(self, deadline: Deadline) -> SchemaId | None:
        """Returns an id that was unknown and no longer is; asks for one, in turn, at each call.

        Raises:
            SeamlineError: SCHEMA_REGISTRY_UNAVAILABLE; the deadline's error.
        """
        for schema_id in list(self._unknown)[:1]:
            del self._unknown[schema_id]  # to the end of the queue
            self._unknown[schema_id] = None
            with contextlib.suppress(ValueError):
                self._schemas.within(deadline).by_id(schema_id)
                return schema_id
        return None
