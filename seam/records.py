"""What makes rows of records: their format, the columns, and what becomes of a bad one."""

from __future__ import annotations

import dataclasses

import pyarrow as pa

from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.seam.binding import POLICIES, TopicBinding
from seamline.sql import columns as names
from seamline.sql.types import Field, arrow_field


@dataclasses.dataclass(frozen=True, slots=True)
class DecoderSpec:
    """How the records of a topic become rows of a table; travels to Spark's workers.

    Attributes:
        topic: Name of the topic, for messages.
        format: How their values are encoded.
        on_error: One of `POLICIES`.
        columns: The table's columns in order, metadata columns included, with their ids.
    """

    topic: str
    format: str
    on_error: str
    columns: tuple[Field, ...]

    def __post_init__(self) -> None:
        if self.on_error not in POLICIES:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"on_error {self.on_error!r} is not a policy",
                hint=f"on_error is one of: {', '.join(POLICIES)}",
            )

    @property
    def value_columns(self) -> tuple[Field, ...]:
        """The columns that come from the record's value."""
        return tuple(c for c in self.columns if c.name not in names.METADATA_NAMES)

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of decoded batches: every column, in table order."""
        return pa.schema([arrow_field(column) for column in self.columns])

    @classmethod
    def of(cls, binding: TopicBinding, columns: tuple[Field, ...]) -> DecoderSpec:
        """How the records of a table's topic become rows of one of its schemas."""
        return cls(binding.topic, binding.format, binding.on_error, columns)
