"""What makes an Iceberg table a unified one: its properties name the topic behind it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from seamline.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.seam.log import ISOLATIONS, READ_COMMITTED

PROPERTY_PREFIX = "seamline."


MODES = ("append",)
POLICIES = ("fail", "null", "skip")
"""What a bad record may become."""


@dataclasses.dataclass(frozen=True, slots=True)
class TopicBinding:
    """The topic behind a unified table, as its properties say; they are the only record of it.

    Attributes:
        cluster: Name of the cluster in the configuration (`seamline.cluster`).
        topic: Name of the topic (`seamline.topic`).
        format: How values are encoded (`seamline.format`).
        mode: `append` (`seamline.mode`).
        on_error: What a bad record becomes: `fail`, `null` or `skip` (`seamline.on-error`).
        isolation: What the log is read under (`seamline.isolation`).
        key: Column that the record key repeats, if any (`seamline.key`).
        key_format: How that column's value is written as key bytes: `string`, `json`, `int32`,
            `int64` or `bytes` (`seamline.key-format`).
        key_partitioner: The owner's word that every record lies in the partition this function
            of its key gives: `murmur2` or `crc32`; None when nothing is known
            (`seamline.key-partitioner`).
        key_partitions: How many partitions the topic had when that word was given
            (`seamline.key-partitions`).
    """

    cluster: str
    topic: str
    format: str = "json"
    mode: str = "append"
    on_error: str = "fail"
    isolation: str = READ_COMMITTED
    key: str | None = None
    key_format: str = "string"
    key_partitioner: str | None = None
    key_partitions: int | None = None

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
            ("key_partitions", str.isdecimal, "a whole number"),
        ):
            if name in known and not is_meant(known[name]):
                raise SeamlineError(
                    INVALID_TABLE_DEFINITION,
                    f"the property {PROPERTY_PREFIX}{name.replace('_', '-')} is "
                    f"{known[name]!r}, which is not {wanted}",
                )
        if "key_partitions" in known:
            known["key_partitions"] = int(known["key_partitions"])
        return cls(**{"cluster": "default", **known})

    def to_properties(self) -> dict[str, str]:
        """The properties that say this; what is None is left out."""
        return {
            PROPERTY_PREFIX + field.name.replace("_", "-"): str(value)
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) is not None
        }
