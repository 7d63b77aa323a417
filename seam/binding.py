"""The binding of an Iceberg table to a topic: table properties that make it a unified table."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.seam.encoding import (
    KEY,
    VALUE,
    ColumnSource,
    DeleteMark,
    Encoding,
    Source,
    digest,
    parse_sources,
)
from seamline.seam.log import ISOLATIONS, READ_COMMITTED

PROPERTY_PREFIX = "seamline."


MODES = ("append", "upsert", "changelog")
"""What a record means to its table.

`append`: a row of its own. `upsert`: the newest state of its key. `changelog`: a change to that
state, wrapped in an envelope.
"""
POLICIES = ("fail", "null", "skip")
"""The ways to handle a bad record."""
AUTO, MANUAL = "auto", "manual"
EVOLUTIONS = (AUTO, MANUAL)
"""Who changes the columns when records have a different schema: tiering, or only the owner."""


@dataclasses.dataclass(frozen=True, slots=True)
class TopicBinding:
    """The topic behind a unified table, as given by the table's properties, its only record.

    Attributes:
        cluster: Name of the cluster in the configuration (`seamline.cluster`).
        topic: Name of the topic (`seamline.topic`).
        format: How values are encoded (`seamline.format`).
        mode: `append`, where every record is a row; `upsert`, where the table is the newest record
            of each key; or `changelog`, where records describe how rows changed (`seamline.mode`).
        on_error: How bad records are handled: `fail`, `null` or `skip` (`seamline.on-error`).
        isolation: The isolation level the log is read under (`seamline.isolation`).
        key: Column that the record key repeats, if any (`seamline.key`).
        key_format: How keys are encoded: `string`, `json`, `int32`, `int64`, `bytes` or a value
            format (`seamline.key-format`).
        columns_from: Entries `column = source` for columns that come from another part of the
            record than the value's field of the same name (`seamline.columns-from`).
        value_schema: The schema of all values, if the values do not themselves name a schema in a
            registry (`seamline.value-schema`).
        key_schema: The same for keys (`seamline.key-schema`).
        spellings: Additional spellings of values that are accepted (`seamline.spellings`).
        csv_separator: Field separator for CSV (`seamline.csv-separator`).
        csv_quote: Quote character for CSV (`seamline.csv-quote`).
        key_partitioner: The hash function that, as the owner vouches, maps every record's key to
            its partition: `murmur2` or `crc32`; None if nothing is known
            (`seamline.key-partitioner`).
        key_partitions: The topic's partition count when the owner vouched for the partitioner, or
            when an upsert table was created (`seamline.key-partitions`).
        primary_key: The key columns of an upsert table, as a JSON array (`seamline.primary-key`);
            other tables have none.
        envelope: The envelope that wraps the changes of a change log (`seamline.envelope`).
        deleted_by: The field of a value that says whether the record deletes its key, in an upsert
            table: `field`, or `field = word` (`seamline.deleted-by`).
        evolution: Whether tiering changes the columns when records have a newer schema: `auto`, or
            `manual`, which is also the default (`seamline.evolution`).
        tombstones: `bad` if a record without a value counts as bad, because the writer of an
            adopted table leaves such records out (`seamline.tombstones`).
        boundary_provider: If another writer copies the topic into the table, the provider that
            tells how much of the log each snapshot holds; None if Seamline does the copying
            (`seamline.boundary-provider`). Properties that begin with `seamline.boundary-` are the
            provider's options.
        topic_id: Kafka's id of the topic when the table was adopted, because the table's own writer
            does not record it (`seamline.topic-id`).
        cluster_id: The same for the cluster (`seamline.cluster-id`).
    """

    cluster: str
    topic: str
    format: str = "json"
    mode: str = "append"
    on_error: str = "fail"
    isolation: str = READ_COMMITTED
    key: str | None = None
    key_format: str = "string"
    columns_from: tuple[str, ...] = ()
    value_schema: str | None = None
    key_schema: str | None = None
    spellings: tuple[str, ...] = ()
    csv_separator: str | None = None
    csv_quote: str | None = None
    key_partitioner: str | None = None
    key_partitions: int | None = None
    primary_key: tuple[str, ...] = ()
    envelope: str = ""
    deleted_by: str | None = None
    evolution: str | None = None
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
        known: dict[str, Any] = {
            field.name: own[field.name] for field in dataclasses.fields(cls) if field.name in own
        }
        for name, is_meant, wanted in (
            ("topic", bool, "the name of a topic"),
            ("mode", MODES.__contains__, f"one of {', '.join(MODES)}"),
            ("isolation", ISOLATIONS.__contains__, f"one of {', '.join(ISOLATIONS)}"),
            ("evolution", EVOLUTIONS.__contains__, f"one of {', '.join(EVOLUTIONS)}"),
            ("key_partitions", str.isdecimal, "a whole number"),
            ("primary_key", _is_names, "a JSON array of names"),
        ):
            if name in known and not is_meant(known[name]):
                raise SeamlineError(
                    INVALID_TABLE_DEFINITION,
                    f"the property {PROPERTY_PREFIX}{name.replace('_', '-')} is "
                    f"{known[name]!r}, which is not {wanted}",
                )
        if "key_partitions" in known:
            known["key_partitions"] = int(known["key_partitions"])
        if "spellings" in known:
            words = map(str.strip, known["spellings"].split(","))
            known["spellings"] = tuple(filter(None, words))
        if "columns_from" in known:
            known["columns_from"] = tuple(map(str, parse_sources([known["columns_from"]])))
        if "deleted_by" in known:
            known["deleted_by"] = str(DeleteMark.parse(known["deleted_by"]))
        if "primary_key" in known:
            known["primary_key"] = tuple(json.loads(known["primary_key"]))
        binding = cls(**{"cluster": "default", **known})
        _require_meaning(binding)
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

    @property
    def schemas(self) -> dict[str, str]:
        """The schemas that the table itself specifies, by part of the record."""
        both = {VALUE: self.value_schema, KEY: self.key_schema}
        return {part: text for part, text in both.items() if text is not None}

    def to_properties(self) -> dict[str, str]:
        """Returns the binding as table properties; None and empty values are left out."""
        return {
            PROPERTY_PREFIX + name.replace("_", "-"): _text(name, value)
            for name, value in self.settings().items()
        }

    def settings(self) -> dict[str, Any]:
        """Returns the settings that are set, by name."""
        every = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in every.items() if value not in (None, (), "")}

    @property
    def key_encoding(self) -> Encoding:
        """The encoding that finds the primary key in a tombstone, which has only a record key."""
        said = self.encoding
        sources = []
        for name in self.primary_key:
            source = said.source_of((name,))
            if source is None or source.part != KEY:
                is_whole = self.key is not None and self.key.lower() == name.lower()
                source = Source(KEY, () if is_whole else (name,))
            sources.append(ColumnSource((name,), source))
        return dataclasses.replace(said, sources=tuple(sources))


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


def _text(name: str, value: object) -> str:
    if name == "primary_key":
        return json.dumps(value)
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _is_names(text: str) -> bool:
    try:
        names = json.loads(text)
    except ValueError:
        return False
    return isinstance(names, list) and all(isinstance(name, str) for name in names)
