"""Compares the last records below the boundary in both tiers, to find objections to adoption.

If the snapshot lacks a record that the log shows, has it twice or with other values, or holds one
of an aborted transaction, then the table's writer does not copy each committed record once, or a
column does not hold what it is said to hold.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import pyarrow as pa

from seamline.connectors.arrow import conform
from seamline.connectors.duckdb.audit import cold_scan, expression, snapshot_records
from seamline.connectors.duckdb.engine import open_scan
from seamline.connectors.kafka.continuity import checked
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.schemas import schemas_of
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.gateway.commands.aborted import aborted_offsets
from seamline.gateway.commands.auditing import MEMORY_BYTES
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import Boundary
from seamline.seam.history_checks import LogRead
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.offsets import OffsetRange
from seamline.seam.records import DecoderSpec, Places
from seamline.sql import types

SAMPLE_RECORDS = 20
"""The number of last records below the boundary that are compared in each partition."""
_PARTITIONS_MAX = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """A record in both tiers.

    Attributes:
        partition: Its partition.
        offset: Its offset.
        cold: Its row in the snapshot, by column; None when there is none.
        hot: Its row decoded from the log, by column; None when there is none.
    """

    partition: int
    offset: int
    cold: Mapping[str, Any] | None
    hot: Mapping[str, Any] | None

    @property
    def differences(self) -> list[str]:
        """Columns whose values differ; none if either tier lacks the record."""
        if self.cold is None or self.hot is None:
            return []
        return [name for name in self.hot if not _is_same(self.hot[name], self.cold[name])]


def _is_same(one: Any, other: Any) -> bool:
    """Returns whether two values are equal; NaN equals itself here."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_is_same(one[k], other[k]) for k in one)
        case list(), list():
            return len(one) == len(other) and all(map(_is_same, one, other))
        case float(), float():
            return one == other or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """The last records below the boundary, in both tiers.

    Attributes:
        pairs: The records.
        doubled: The positions (partition, offset) with several rows in the snapshot.
        aborted: The positions of rows in the snapshot whose records were aborted.
    """

    pairs: tuple[Pair, ...] = ()
    doubled: tuple[tuple[int, int], ...] = ()
    aborted: tuple[tuple[int, int], ...] = ()


def compare(
    table: ColdTable,
    binding: TopicBinding,
    boundary: Boundary,
    bounds: LogBounds,
    log: HotLog,
    deadline: Deadline,
) -> Comparison:
    """Reads the last records below the boundary from the log and from the snapshot."""
    spec = DecoderSpec.of(binding, table.state.schema.columns)
    aligned = dataclasses.replace(spec, on_error="null")  # a row for each record
    decoder = Decoder(aligned, schemas_of(log, deadline))
    places = Places.of(binding.encoding, table.state.schema.columns)
    ranges = [
        OffsetRange(p, max(bounds.start.get(p, 0), end - SAMPLE_RECORDS), end)
        for p, end in list(boundary.next.items())[:_PARTITIONS_MAX]
        if p in bounds.end and bounds.start.get(p, 0) < end <= bounds.end[p]
    ]
    if places is None or not ranges:
        return Comparison()
    hot: dict[tuple[int, int], Mapping[str, Any]] = {}
    with checked(log, LogRead.within(bounds, ranges), deadline):
        for batch in log.read(binding.topic, ranges, binding.isolation, deadline):
            rows, bad = decoder.decode_all(batch)
            own = rows.select([column.name for column in spec.stored])
            for index, row in enumerate(own.to_pylist()):
                if index not in bad or binding.on_error == "null":
                    hot[int(batch.partitions[index]), int(batch.offsets[index])] = row
    rows = _cold_rows(table, places, ranges)
    cold = dict(rows)
    aborted = _aborted(cold.keys() - hot.keys(), ranges, binding, bounds, log, deadline)
    places_of_pairs = sorted({*hot, *cold} - aborted)
    counted = collections.Counter(place for place, _ in rows)
    return Comparison(
        tuple(Pair(*place, cold.get(place), hot.get(place)) for place in places_of_pairs),
        tuple(sorted(place for place, count in counted.items() if count > 1)),
        tuple(sorted(aborted)),
    )


def _aborted(
    unseen: AbstractSet[tuple[int, int]],
    ranges: Sequence[OffsetRange],
    binding: TopicBinding,
    bounds: LogBounds,
    log: HotLog,
    deadline: Deadline,
) -> set[tuple[int, int]]:
    """Returns which rows that the log does not show are of aborted records.

    Others are of records that have been compacted since, or that cannot be decoded.
    """
    if binding.isolation != READ_COMMITTED:
        return set()
    partitions = {partition for partition, _ in unseen}
    compared = [one for one in ranges if one.partition in partitions]
    with checked(log, LogRead.within(bounds, compared), deadline):
        found = {
            (one.partition, int(offset))
            for one in compared
            for offsets in aborted_offsets(log, bounds.topic, one, deadline)
            for offset in offsets
        }
    return found & unseen


def _cold_rows(
    table: ColdTable, places: Places, ranges: Sequence[OffsetRange]
) -> list[tuple[tuple[int, int], Mapping[str, Any]]]:
    snapshot_id = table.state.current_snapshot_id
    assert snapshot_id is not None
    columns = table.state.schema.columns
    p, o = expression(places.partition), expression(places.offset)
    condition = " OR ".join(
        f"({p} = {r.partition} AND {o} >= {r.start} AND {o} < {r.end_exclusive})" for r in ranges
    )
    scan = cold_scan(table, snapshot_id, columns)
    with open_scan(scan) as (connection, relation):
        cold = connection.sql(
            f"SELECT {p} AS __p, {o} AS __o, * FROM ({relation}) WHERE {condition}"
        ).to_arrow_table()
    found_at = zip(cold.column(0).to_pylist(), cold.column(1).to_pylist(), strict=True)
    schema = pa.schema([types.arrow_field(column) for column in columns])
    rows = [
        row
        for batch in cold.drop_columns(["__p", "__o"]).to_batches()
        for row in conform(batch, schema).to_pylist()
    ]
    return list(zip(found_at, rows, strict=True))


def doubles(positions: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yields an objection if some of the last records have several rows."""
    if positions:
        partition, offset = positions[0]
        yield (
            f"{len(positions):,} of the last records are in the table more than once, such as "
            f"partition {partition}, offset {offset}"
        )


def aborted(positions: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yields an objection if the table has rows of records that were aborted."""
    if positions:
        partition, offset = positions[0]
        yield (
            f"{len(positions):,} of the last rows are of aborted transactions, such as partition "
            f"{partition}, offset {offset}: its writer reads uncommitted records; with "
            "isolation read_uncommitted, they are read from the log, too"
        )


def all_doubles(table: ColdTable, binding: TopicBinding) -> Iterator[str]:
    """Yields an objection for each partition of the whole table that has duplicate rows."""
    snapshot_id = table.state.current_snapshot_id
    assert snapshot_id is not None
    encoding = binding.encoding
    with snapshot_records(table, snapshot_id, encoding, memory_bytes=MEMORY_BYTES) as records:
        for found in records.partitions():
            if found.rows > found.records:
                yield (
                    f"{found.rows - found.records:,} rows of partition {found.partition} "
                    "repeat records that the table already has: its writer may copy records twice"
                )


def missing(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yields an objection if the table lacks records of the log."""
    lacking = [pair for pair in pairs if pair.cold is None]
    if lacking:
        first = lacking[0]
        yield (
            f"{len(lacking)} of {len(pairs)} records of the log are not in the table, such as "
            f"partition {first.partition}, offset {first.offset}: its writer skips records, "
            "or does not commit them in order"
        )


def differences(pairs: Sequence[Pair], columns: Container[str], *, not_in: bool) -> Iterator[str]:
    """Yields the first difference in a column that is, or is not, among `columns`.

    Columns that only repeat what the log knows about a record may differ without spoiling the rows,
    so callers pass those.

    Args:
        pairs: The records in both tiers.
        columns: Column names.
        not_in: Whether to look at the columns that are not among them.
    """
    for pair in pairs:
        for name in pair.differences:
            if (name in columns) is not_in or pair.hot is None or pair.cold is None:
                continue
            yield (
                f"partition {pair.partition}, offset {pair.offset}: column {name} is "
                f"{pair.cold[name]!r} in the table, but {pair.hot[name]!r} in the record"
            )
            return
