"""Upsert tables: the newest record of each key across both tiers, and when it is not known.

Within a partition the greater offset is newer. A snapshot of an upsert table holds the newest
record of each key below its boundary, and nothing for a key whose newest record there is a delete.
Every record of the tail has a greater offset than the snapshot's row for its key, so

    rows(table) = rows(snapshot) without the keys of the tail  ∪  newest(tail) without deletes

provided that all records of a key are in one partition. If that is not certain, readers check it
key by key, and fail if it does not hold. A partitioner makes it certain only where each key is the
same bytes in every record: as text, the key 7 may also be `007`, which is elsewhere.

A truncate removes every row whose record is older. Only in a topic with one partition do offsets
tell which are. With one in the tail, the snapshot counts as empty, and so does the tail before the
last one. It is decoded as a delete without a key, and so reaches every reader as rows do. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from seamline.errors import UPSERT_ORDER_UNKNOWN, SeamlineError
from seamline.seam.binding import TopicBinding
from seamline.seam.records import DecoderSpec
from seamline.sql import columns as names
from seamline.sql.predicates import And, IsNull, Or, Predicate, columns
from seamline.sql.types import VARCHAR, Field, Varbinary


@dataclasses.dataclass(frozen=True, slots=True)
class Newest:
    """Selects the newest row of each key, and no row if the newest one is a delete.

    Attributes:
        key: The columns of the key.
        partition: The column with a row's partition.
        offset: The column with a row's offset.
        is_settled: Whether each key is known to be in one partition only, because the owner vouches
            for the partitioner of keys that have one encoding, or the topic has a single partition;
            otherwise readers check it.
        takes_truncates: Whether there may be truncates. The newest of them is then among the newest
            rows, as the row of no key.
    """

    key: tuple[Field, ...]
    partition: Field
    offset: Field
    is_settled: bool
    takes_truncates: bool = False

    @classmethod
    def of(cls, binding: TopicBinding, decoder: DecoderSpec) -> Newest | None:
        """Returns how to select the newest rows across a table's two tiers; None if all count."""
        if not binding.is_upsert:
            return None
        by_name = {column.name: column for column in decoder.columns}
        key = decoder.key_columns
        is_settled = binding.key_partitions == 1 or _is_placed(binding, key)
        partition, offset = by_name[names.PARTITION], by_name[names.OFFSET]
        return cls(key, partition, offset, is_settled, decoder.takes_truncates)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the key's columns."""
        return tuple(column.name for column in self.key)

    def deciding(self, predicate: Predicate | None) -> Predicate | None:
        """Returns which rows of a tail decide about the rows that satisfy a predicate.

        Either all rows of a key do, or none; a truncate does in any case.
        """
        of_key = over(predicate, self.key_names)
        if of_key is None or not self.takes_truncates:
            return of_key
        return Or((of_key, IsNull(self.key_names[0])))

    @property
    def moved_key(self) -> str:
        """The error text for a key found in two partitions; it starts with the error's name."""
        return (
            f"{UPSERT_ORDER_UNKNOWN.name}: a key ({', '.join(self.key_names)}) has records in "
            "several partitions"
        )


_NUMBERS = frozenset({"int32", "int64"})
_BYTES = frozenset({"string", "raw", "bytes"})


def _is_placed(binding: TopicBinding, key: Sequence[Field]) -> bool:
    """Whether the owner vouches for a partitioner that puts all records of a key into one place.

    It does so only if the key has a single encoding. `crc32` puts an empty key anywhere.
    """
    if binding.key_partitioner is None:
        return False
    if binding.key_format in _NUMBERS:
        return True
    is_one_way = all(c.type == VARCHAR or isinstance(c.type, Varbinary) for c in key)
    return binding.key_format in _BYTES and is_one_way and binding.key_partitioner != "crc32"


def check_partitions(binding: TopicBinding, count: int) -> None:
    """Checks that a topic has as many partitions as when its upsert table was created.

    Raises:
        SeamlineError: UPSERT_ORDER_UNKNOWN.
    """
    if binding.is_upsert and binding.key_partitions != count:
        raise SeamlineError(
            UPSERT_ORDER_UNKNOWN,
            f"topic {binding.topic} has {count} partitions, but had {binding.key_partitions} when "
            "its table was created: a key may have moved from one to another",
        )


def over(predicate: Predicate | None, columns_: Collection[str]) -> Predicate | None:
    """Returns the weakening of a predicate to some columns; None if nothing is left.

    Every row that satisfies the predicate also satisfies the result, which depends only on these
    columns. For the columns of a key, either all records of a key satisfy it or none.
    """
    match predicate:
        case And(parts):
            kept = tuple(part for part in (over(part, columns_) for part in parts) if part)
            return And(kept) if kept else None
        case Or(parts):
            weaker = tuple(over(part, columns_) for part in parts)
            return None if None in weaker else Or(tuple(part for part in weaker if part))
    return predicate if predicate is not None and columns(predicate) <= set(columns_) else None
