"""Upsert tables: what of two tiers is the newest record of each key, and when that is not known.

Within a partition the greater offset is newer. A snapshot of an upsert table holds the newest
record of each key below its boundary, and nothing of a key whose newest record there is a delete.
Every record of the tail has a greater offset than the snapshot's row of its key, so

    rows(table) = rows(snapshot) without the keys of the tail  ∪  newest(tail) without deletes

as long as a key has all its records in one partition. Where that is not certain the readers check
it, key by key, and fail. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from seamline.errors import UPSERT_ORDER_UNKNOWN, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.records import DecoderSpec
from seamline.sql import columns as names
from seamline.sql.predicates import And, Or, Predicate, columns
from seamline.sql.types import Field


@dataclasses.dataclass(frozen=True, slots=True)
class Newest:
    """Of rows with the same key only the newest counts, and none of them if that is a delete.

    Attributes:
        key: The columns of the key.
        partition: The column that says a row's partition.
        offset: The column that says its offset.
        is_settled: Whether the owner has given their word that a key is in one partition only;
            else readers check that.
    """

    key: tuple[Field, ...]
    partition: Field
    offset: Field
    is_settled: bool

    @classmethod
    def of(cls, binding: TopicBinding, decoder: DecoderSpec) -> Newest | None:
        """What counts of the rows of a table's two tiers; None when all do."""
        if not binding.is_upsert:
            return None
        known = {column.name: column for column in decoder.columns}
        is_settled = binding.key_partitioner is not None or binding.key_partitions == 1
        partition, offset = known[names.PARTITION], known[names.OFFSET]
        return cls(decoder.key_columns, partition, offset, is_settled)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the key's columns."""
        return tuple(column.name for column in self.key)

    @property
    def moved_key(self) -> str:
        """What a reader fails with who finds a key in two partitions, the error's name first."""
        return (
            f"{UPSERT_ORDER_UNKNOWN.name}: a key ({', '.join(self.key_names)}) has records in "
            "several partitions"
        )


def check_partitions(binding: TopicBinding, count: int) -> None:
    """A topic must have as many partitions as when an upsert table of it was made.

    Raises:
        SeamlineError: UPSERT_ORDER_UNKNOWN.
    """
    if binding.is_upsert and binding.key_partitions != count:
        raise SeamlineError(
            UPSERT_ORDER_UNKNOWN,
            f"topic {binding.topic} has {count} partitions, and had {binding.key_partitions} when "
            "its table was made: a key may have moved from one to another",
        )


def over(predicate: Predicate | None, wanted: Collection[str]) -> Predicate | None:
    """What a predicate says of some columns alone; None when that is nothing.

    Every row for which the predicate is true fulfils it, and whether a row does depends on these
    columns only: with the columns of a key, all records of a key do, or none.
    """
    match predicate:
        case And(parts):
            known = tuple(part for part in (over(part, wanted) for part in parts) if part)
            return And(known) if known else None
        case Or(parts):
            weaker = tuple(over(part, wanted) for part in parts)
            return None if None in weaker else Or(tuple(part for part in weaker if part))
    return predicate if predicate is not None and columns(predicate) <= set(wanted) else None
