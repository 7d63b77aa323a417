"""What makes an Iceberg table a unified one: its properties name the topic behind it."""

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
    Encoding,
    Source,
    digest,
    parse_sources,
)
from seamline.seam.log import ISOLATIONS, READ_COMMITTED

PROPERTY_PREFIX = "seamline."


MODES = ("append", "upsert", "changelog")
"""What a record is to its table: a row of its own, the newest state of its key, or a change of that
in an envelope."""
POLICIES = ("fail", "null", "skip")
"""What a bad record may become."""
AUTO, MANUAL = "auto", "manual"
EVOLUTIONS = (AUTO, MANUAL)
"""Who changes the columns when records have another schema: tiering, or the owner alone."""


@dataclasses.dataclass(frozen=True, slots=True)
class TopicBinding:
    """The topic behind a unified table, as its properties say; they are the only record of it.

    Attributes:
        cluster: Name of the cluster in the configuration (`seamline.cluster`).
        topic: Name of the topic (`seamline.topic`).
        format: How values are encoded (`seamline.format`).
        mode: `append`, where every record is a row; `upsert`, where the table is the newest record
            of each key; or `changelog`, where records say how rows changed (`seamline.mode`).
        on_error: What a bad record becomes: `fail`, `null` or `skip` (`seamline.on-error`).
        isolation: What the log is read under (`seamline.isolation`).
        key: Column that the record key repeats, if any (`seamline.key`).
        key_format: How keys are encoded: `string`, `json`, `int32`, `int64`, `bytes` or a format of
            values (`seamline.key-format`).
        columns_from: Which columns do not come from the value's field of their name, but from the
            part of the record that an entry `column = source` says (`seamline.columns-from`).
        value_schema: The schema of all values, where they do not say which one of a registry they
            have (`seamline.value-schema`).
        key_schema: The same for keys (`seamline.key-schema`).
        spellings: Ways to write values that are taken besides (`seamline.spellings`).
        csv_separator: What stands between the fields of CSV (`seamline.csv-separator`).
        csv_quote: What its fields are quoted with (`seamline.csv-quote`).
        key_partitioner: The owner's word that every record lies in the partition this function
            of its key gives: `murmur2` or `crc32`; None when nothing is known
            (`seamline.key-partitioner`).
        key_partitions: How many partitions the topic had when that word was given, or when an
            upsert table was made (`seamline.key-partitions`).
        primary_key: The columns that are the key of an upsert table, as a JSON array
            (`seamline.primary-key`); no other table has any.
        envelope: What the changes of a change log are wrapped in (`seamline.envelope`).
        evolution: Whether tiering changes the columns when records have a newer schema: `auto`, or
            `manual`, as where it is not set (`seamline.evolution`).
        tombstones: `bad` where a record without a value is a bad one, since the writer of an
            adopted table leaves such records out (`seamline.tombstones`).
        boundary_provider: Who says how far a snapshot has the log, where another writer copies the
            topic into the table; None where Seamline does (`seamline.boundary-provider`). Its
            options are properties that begin with `seamline.boundary-`, too.
        topic_id: Kafka's id of the topic when the table was adopted, as its own writer records
            none (`seamline.topic-id`).
        cluster_id: The same of the cluster (`seamline.cluster-id`).
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
        """The binding of a table, None when the table is a plain one.

        Raises:
            SeamlineError: INVALID_TABLE_DEFINITION for a value that has no meaning; a table of
                another mode, or read under another isolation, would be read wrongly.
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
            known["spellings"] = tuple(word.strip() for word in known["spellings"].split(","))
        if "columns_from" in known:
            known["columns_from"] = tuple(map(str, parse_sources([known["columns_from"]])))
        if "primary_key" in known:
            known["primary_key"] = tuple(json.loads(known["primary_key"]))
        binding = cls(**{"cluster": "default", **known})
        is_whole = binding.is_upsert == bool(binding.primary_key)
        if not is_whole or (binding.mode == "changelog") != bool(binding.envelope):
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"a table of mode {binding.mode} with the primary key "
                f"{list(binding.primary_key)} and the envelope {binding.envelope!r} has no meaning",
                hint="Upsert tables have a primary key; change logs an envelope besides.",
            )
        return binding

    @property
    def encoding(self) -> Encoding:
        """How records are encoded, and where columns come from."""
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
        """Options of formats that are set."""
        every = {
            "spellings": ",".join(sorted(self.spellings)),
            "csv_separator": self.csv_separator,
            "csv_quote": self.csv_quote,
            "tombstones": self.tombstones,
        }
        return {name: value for name, value in every.items() if value}

    @property
    def schemas(self) -> dict[str, str]:
        """The schemas of the parts whose schema the table names itself."""
        both = {VALUE: self.value_schema, KEY: self.key_schema}
        return {part: text for part, text in both.items() if text is not None}

    def to_properties(self) -> dict[str, str]:
        """The properties that say this; what is None or empty is left out."""
        return {
            PROPERTY_PREFIX + name.replace("_", "-"): _text(name, value)
            for name, value in self.settings().items()
        }

    def settings(self) -> dict[str, Any]:
        """What is set, by name."""
        every = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in every.items() if value not in (None, (), "")}

    @property
    def key_encoding(self) -> Encoding:
        """Where the columns of the primary key are in a tombstone, which has a record key alone."""
        said = self.encoding
        sources = []
        for name in self.primary_key:
            source = said.source_of((name,))
            if source is None or source.part != KEY:
                is_whole = self.key is not None and self.key.lower() == name.lower()
                source = Source(KEY, () if is_whole else (name,))
            sources.append(ColumnSource((name,), source))
        return dataclasses.replace(said, sources=tuple(sources))


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
