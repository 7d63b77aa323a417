"""The binding of an Iceberg table to a topic: table properties that make it a unified table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from seamline.errors import INVALID_TABLE_DEFINITION, NOT_A_UNIFIED_TABLE, SeamlineError
from seamline.seam.encoding import (
    KEY,
    ColumnSource,
    Encoding,
    Source,
    digest,
    parse_sources,
)
from seamline.seam.options import AUTO, OPTIONS, TableOptions, whole_number

PROPERTY_PREFIX = "seamline."


@dataclasses.dataclass(frozen=True, slots=True)
class TopicBinding(TableOptions):
    """The topic behind a unified table, as given by the table's properties, its only record.

    The property of an option, or of an attribute below, is its name after `seamline.`, with dashes.

    Attributes:
        key_partitions: The topic's partition count when the owner vouched for the partitioner, or
            when an upsert table was created.
        tombstones: `bad` if a record without a value counts as bad, because the writer of an
            adopted table leaves such records out.
        boundary_provider: If another writer copies the topic into the table, the provider that
            tells how much of the log each snapshot holds; None if Seamline does the copying.
            Properties that begin with `seamline.boundary-` are the provider's options.
        topic_id: Kafka's id of the topic when the table was adopted, because the table's own writer
            does not record it.
        cluster_id: The same for the cluster.
    """

    key_partitions: int | None = None
    tombstones: str | None = None
    boundary_provider: str | None = None
    topic_id: str | None = None
    cluster_id: str | None = None

    @property
    def is_upsert(self) -> bool:
        """Whether the table is the newest record of each key."""
        return self.mode != "append"

    @property
    def evolves(self) -> bool:
        """Whether tiering changes the table's columns when records have a newer schema."""
        return self.evolution == AUTO

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> TopicBinding | None:
        """Returns the binding of a table; None if it is a plain Iceberg table.

        Raises:
            SeamlineError: INVALID_TABLE_DEFINITION for a meaningless value, since reading a table
                in another mode or under another isolation level would give wrong rows.
        """
        own = {
            name.removeprefix(PROPERTY_PREFIX).replace("-", "_"): value
            for name, value in properties.items()
            if name.startswith(PROPERTY_PREFIX)
        }
        if "topic" not in own:
            return None
        values = {
            field.name: _read(field.name, own[field.name])
            for field in dataclasses.fields(cls)
            if field.name in own
        }
        binding = cls(**{"cluster": "default", **values})
        _require_meaning(binding)
        return binding

    @classmethod
    def required(cls, properties: Mapping[str, str], name: str) -> TopicBinding:
        """Returns the binding of the unified table of a name.

        Raises:
            SeamlineError: NOT_A_UNIFIED_TABLE for a plain Iceberg table; as `from_properties`.
        """
        binding = cls.from_properties(properties)
        if binding is None:
            raise SeamlineError(NOT_A_UNIFIED_TABLE, f"table {name} has no topic")
        return binding

    @property
    def encoding(self) -> Encoding:
        """The encoding of the records, including where columns come from."""
        return Encoding(
            self.format,
            self.key_format,
            parse_sources(self.columns_from),
            self.envelope,
            tuple((part, digest(text)) for part, text in self.schemas.items()),
            tuple(self.options.items()),
        )

    @property
    def options(self) -> dict[str, str]:
        """The format options that are set."""
        every = {
            "spellings": ",".join(sorted(self.spellings)),
            "csv_separator": self.csv_separator,
            "csv_quote": self.csv_quote,
            "tombstones": self.tombstones,
            "deleted_by": self.deleted_by,
        }
        return {name: value for name, value in every.items() if value}

    def to_properties(self) -> dict[str, str]:
        """Returns the binding as table properties; None and empty values are left out."""
        return {
            property_of(name): _STORED[name].text(value) if name in _STORED else str(value)
            for name, value in self.settings().items()
        }

    def settings(self) -> dict[str, Any]:
        """Returns the settings that are set, by name."""
        every = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in every.items() if value not in (None, (), "")}

    @property
    def key_encoding(self) -> Encoding:
        """The encoding that finds the primary key in a tombstone, which has only a record key."""
        encoding = self.encoding
        sources = []
        for name in self.primary_key:
            source = encoding.source_of((name,))
            if source is None or source.part != KEY:
                is_whole = self.key is not None and self.key.lower() == name.lower()
                source = Source(KEY, () if is_whole else (name,))
            sources.append(ColumnSource((name,), source))
        return dataclasses.replace(encoding, sources=tuple(sources))


def _require_meaning(binding: TopicBinding) -> None:
    """Requires that the properties of upsert tables and change logs are those of the mode."""
    is_whole = binding.is_upsert == bool(binding.primary_key)
    if binding.deleted_by is not None and binding.mode != "upsert":
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"a table of mode {binding.mode} cannot have deleted_by {binding.deleted_by}",
            hint="Only tables of mode upsert have deleted_by.",
        )
    if not is_whole or (binding.mode == "changelog") != bool(binding.envelope):
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"a table of mode {binding.mode} with the primary key "
            f"{list(binding.primary_key)} and the envelope {binding.envelope!r} has no meaning",
            hint="Upsert tables have a primary key; change logs also have an envelope.",
        )


_STORED = {option.name: option for option in OPTIONS if option.is_stored}


def property_of(name: str) -> str:
    """Returns the table property that holds an option."""
    return PROPERTY_PREFIX + name.replace("_", "-")


def _read(name: str, text: str) -> Any:
    """Returns the value of an option or another attribute, given the text of its property."""
    try:
        if name in _STORED:
            return _STORED[name].read(text)
        return whole_number(text) if name == "key_partitions" else text
    except ValueError as error:
        raise SeamlineError(
            INVALID_TABLE_DEFINITION,
            f"the property {property_of(name)} is {text!r}, which is not {error}",
        ) from error
