"""Refuses to write keys that a topic's other writers may have put into another partition.

A partitioner hashes the bytes of a key. Where JSON writers encode text differently, and where an
empty key has no partition of its own, writers that share a partitioner still do not share a
partition, and an upsert table over them could no longer determine the newest record of the key.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from seamline.connectors.kafka.formats.all_formats import JSON
from seamline.connectors.protocols.raw_records import NewRecord
from seamline.errors import INVALID_ARGUMENT, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.encoding import KEY, Source
from seamline.sql import types
from seamline.sql.types import Field


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedKeys:
    """The keys of an upsert table whose writers agree on a partitioner.

    Attributes:
        partitioner: The partitioner of all writers, which hashes the bytes of a key.
        texts: The names of the columns whose values JSON keys hold, by their positions.
    """

    partitioner: str
    texts: Mapping[int, str]

    @classmethod
    def of(
        cls, binding: TopicBinding, fields: Sequence[Field], sources: Sequence[Source]
    ) -> PlacedKeys | None:
        """Returns what to refuse; None if the partition of a key is not in question."""
        partitioner = binding.key_partitioner
        if not binding.is_upsert or partitioner is None or binding.key_partitions == 1:
            return None
        repeated = (binding.key or "").lower()
        texts = {
            place: field.name
            for place, (field, source) in enumerate(zip(fields, sources, strict=True))
            if binding.key_format in JSON
            and field.type == types.VARCHAR
            and (source.part == KEY or field.name.lower() == repeated)
        }
        return cls(partitioner, texts)

    def check(self, columns: Sequence[list[Any]], records: Sequence[NewRecord]) -> None:
        """Requires that each record's key has one encoding, and one partition.

        Raises:
            SeamlineError: INVALID_ARGUMENT.
        """
        if self.partitioner == "crc32" and any(record.key == b"" for record in records):
            raise _not_placed("its key is empty, and crc32 puts empty keys into any partition")
        for place, name in self.texts.items():
            for text in columns[place]:
                if text is not None and not _ONE_WAY_IN_JSON.fullmatch(text):
                    raise _not_placed(
                        f"JSON has several spellings for {text!r} of column {name}, and "
                        f"{self.partitioner} may put each into a different partition"
                    )


_ONE_WAY_IN_JSON = re.compile(r"[ !#-%(-.0-;?-\[\]-~]*")
"""Strings that every JSON writer encodes identically; some writers escape other characters.

They are ASCII without control characters, quotes, `\\`, `/`, `&`, `<`, `=` and `>`.
"""


def _not_placed(reason: str) -> SeamlineError:
    return SeamlineError(
        INVALID_ARGUMENT,
        f"a row cannot be written as a record: {reason}, where the key's other records may not be",
        hint="Write it with the producer of the topic's other records.",
    )
