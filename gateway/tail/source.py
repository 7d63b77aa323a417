"""What is followed: a table's topic, and what determines the rows of its offsets."""

from __future__ import annotations

import dataclasses
import hashlib

from seamline.seam.records import DecoderSpec


@dataclasses.dataclass(frozen=True, slots=True)
class RowSource:
    """What determines the rows of a range of offsets.

    Attributes:
        topic_id: Kafka's id of the topic.
        isolation: The isolation level it is read under.
        decoder: How records are decoded.
        schema_id: Schema of the table the decoder was made from.
    """

    topic_id: str
    isolation: str
    decoder: DecoderSpec
    schema_id: int
    digest: str = dataclasses.field(init=False)
    """A short name for all of it, including field ids, aliases and defaults."""

    def __post_init__(self) -> None:
        text = repr((self.topic_id, self.isolation, self.decoder, self.schema_id))
        object.__setattr__(self, "digest", hashlib.sha256(text.encode()).hexdigest()[:16])


@dataclasses.dataclass(frozen=True, slots=True)
class FollowedTable:
    """A table that is followed."""

    name: tuple[str, ...]
    uuid: str
    source: RowSource

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self.source.decoder.topic
