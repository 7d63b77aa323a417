"""Audits a table: whether its snapshot holds each record below the boundary exactly once.

Rows are counted in the snapshot's files. Offsets without a row are looked up in the log, as far as
it reaches back. Transaction markers, aborted and compacted records leave no rows, nor do records
that the table's policy leaves out. Anything else that the log shows and the snapshot lacks is a
hole. If the log has such offsets, rows in another writer's table may come from aborted records; as
far back as the log reaches, these are found, too.

In an upsert table, each key must occur once. Records that later ones have replaced leave no rows
either, so holes are not reported.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from seamline.connectors.duckdb.audit import PartitionRows, SnapshotRecords, snapshot_records
from seamline.connectors.iceberg.boundaries.provider import start_of
from seamline.connectors.kafka.continuity import checked
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.kafka.formats.schemas import schemas_of
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.gateway.catalogs.connections import Sources
from seamline.gateway.commands.aborted import aborted_offsets
from seamline.gateway.names import TableName
from seamline.gateway.query.loaded import LoadedTables
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import Boundary, boundary_of, decode
from seamline.seam.gaps import Gap
from seamline.seam.history_checks import LogRead, recreated, require
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.offsets import OffsetRange
from seamline.seam.records import DecoderSpec

MEMORY_BYTES = 1 << 30


class Kind(enum.Enum):
    """The kinds of findings."""

    HOLE = "hole"
    DOUBLE = "double"
    ABORTED = "aborted"
    BEYOND = "beyond"
    KEY = "key"
    GAP = "gap"
    UNKNOWN = "unknown"


_HARMLESS = frozenset({Kind.GAP, Kind.UNKNOWN})


MEANINGS: Mapping[Kind, str] = {
    Kind.HOLE: "records of the log that the snapshot lacks",
    Kind.DOUBLE: "records that the snapshot holds more than once",
    Kind.ABORTED: "records of aborted transactions, which no read of the log returns",
    Kind.BEYOND: "records at or past the boundary, which would be read from the log, too",
    Kind.KEY: "surplus rows of keys that an upsert table holds more than once",
    Kind.GAP: "offsets without a row whose records were lost, which somebody has accepted",
    Kind.UNKNOWN: "offsets without a row that the log can no longer explain",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """One finding.

    Attributes:
        kind: Its kind.
        range: The offsets where it is.
        records: The number of records concerned; for doubles and keys, the number of surplus rows.
    """

    kind: Kind
    range: OffsetRange
    records: int


@dataclasses.dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        table: The table.
        snapshot_id: The snapshot that was audited.
        boundary: The boundary of that snapshot.
        partitions: The rows of each partition.
        others: The number of rows that are not records of the log.
        earlier: The number of rows of earlier logs, from before the topic was recreated. Nothing is
            left to compare them with.
        found: The findings; those of kinds `GAP` and `UNKNOWN` do not mean that something is wrong.
    """

    table: str
    snapshot_id: int
    boundary: Boundary
    partitions: tuple[PartitionRows, ...]
    others: int
    earlier: int
    found: tuple[Found, ...]

    @property
    def is_clean(self) -> bool:
        """Whether each record is there exactly once, as far as the log can tell.

        Records whose loss was accepted are not.
        """
        return all(finding.kind in _HARMLESS for finding in self.found)

    def to_json(self) -> dict[str, Any]:
        """Returns the whole result, JSON-ready."""
        return {
            "table": self.table,
            "snapshot_id": self.snapshot_id,
            "boundary": self.boundary.next.to_json(),
            "boundary_provider": self.boundary.provider or "seamline",
            "boundary_trust": self.boundary.trust,
            "rows": sum(partition.rows for partition in self.partitions),
            "records": sum(partition.records for partition in self.partitions),
            "other_rows": self.others,
            "rows_of_earlier_logs": self.earlier,
            "partitions": [dataclasses.asdict(partition) for partition in self.partitions],
            "found": [
                {
                    "kind": finding.kind.value,
                    "partition": finding.range.partition,
                    "start": finding.range.start,
                    "end_exclusive": finding.range.end_exclusive,
                    "records": finding.records,
                }
                for finding in self.found
            ],
            "gaps": [gap.to_json() for gap in self.boundary.gaps],
            "earlier_logs": [log.to_json() for log in self.boundary.earlier_logs],
            "clean": self.is_clean,
        }


def audit(
    sources: Sources, name: TableName, deadline: Deadline, report: Callable[[str], None]
) -> Audit:
    """Audits the current snapshot of a unified table.

    Raises:
        SeamlineError: NOT_A_UNIFIED_TABLE, OFFSETS_NOT_STORED, TOPIC_RECREATED, BOUNDARY_MISSING, …
    """
    table = LoadedTables(sources).now([name])[name]
    state = table.state
    binding = TopicBinding.required(state.properties, name.display)
    log = sources.log(binding.cluster)
    boundary = boundary_of(state, state.current_snapshot_id)
    bounds = log.bounds([binding.topic], boundary.isolation, deadline)[binding.topic]
    require(recreated(binding.topic, bounds.topic_id, boundary.topic_id))
    assert state.current_snapshot_id is not None
    return _Auditor(table, binding, boundary, bounds, log, deadline, report).run(
        state.current_snapshot_id
    )


class _Auditor:
    """One audit."""

    def __init__(
        self,
        table: ColdTable,
        binding: TopicBinding,
        boundary: Boundary,
        bounds: LogBounds,
        log: HotLog,
        deadline: Deadline,
        report: Callable[[str], None],
    ) -> None:
        self._table = table
        self._binding = binding
        self._boundary = boundary
        self._bounds = bounds
        self._log = log
        self._deadline = deadline
        self._report = report
        self._start = start_of(table.state)
        columns = table.state.schema.columns
        spec = dataclasses.replace(DecoderSpec.of(binding, columns), on_error="null")
        leaves_out = binding.on_error == "skip" or table.state.provider is not None
        self._decoder = Decoder(spec, schemas_of(log, deadline)) if leaves_out else None

    def run(self, snapshot_id: int) -> Audit:
        findings: list[Found] = []
        self._report("counting rows")
        with snapshot_records(
            self._table,
            snapshot_id,
            self._binding.encoding,
            self._binding.primary_key,
            first_batch=self._boundary.first_batch,
            memory_bytes=MEMORY_BYTES,
        ) as records:
            partitions = records.partitions()
            others, earlier = records.others(), records.earlier()
            for partition, rows in records.keys_again():
                here = next((p for p in partitions if p.partition == partition), None)
                among = OffsetRange(partition, *((here.first, here.last + 1) if here else (0, 0)))
                findings.append(Found(Kind.KEY, among, rows))
            for partition in {*(p.partition for p in partitions), *self._boundary.next}:
                here = next((p for p in partitions if p.partition == partition), None)
                self._report(f"partition {partition}")
                findings += self._partition(records, partition, here)
        return Audit(
            self._table.state.display_name,
            snapshot_id,
            self._boundary,
            tuple(partitions),
            others,
            earlier,
            tuple(findings),
        )

    def _partition(
        self, records: SnapshotRecords, partition: int, here: PartitionRows | None
    ) -> Iterator[Found]:
        end = self._boundary.next.get(partition, 0)
        began = self._began(partition, here)
        if here is None:
            if began < end and not self._binding.is_upsert:
                yield from self._without_rows([OffsetRange(partition, began, end)])
            return
        if here.rows > here.records:
            for double in records.doubles(partition):
                yield Found(Kind.DOUBLE, double.range, double.rows)
        if here.last >= end:
            beyond = OffsetRange(partition, max(end, here.first), here.last + 1)
            yield Found(Kind.BEYOND, beyond, len(beyond))
        if self._binding.is_upsert:
            return
        holes = [OffsetRange(partition, began, here.first)] if here.first > began else []
        if here.last - here.first + 1 > here.records:
            holes += records.holes(partition)
        if here.last + 1 < end:
            holes.append(OffsetRange(partition, here.last + 1, end))
        if holes and self._may_have_aborted:
            yield from self._aborted(records, partition, here)
        yield from self._without_rows(
            [
                OffsetRange(partition, hole.start, min(hole.end_exclusive, end))
                for hole in holes
                if hole.start < end
            ]
        )

    def _began(self, partition: int, here: PartitionRows | None) -> int:
        """Returns a partition's first offset in the table.

        Seamline's first commit records it; for a table of another writer, its owner states it.
        """
        state = self._table.state
        if state.provider is not None:
            return self._start.get(partition, 0)
        if self._boundary.earlier_logs:
            return 0  # what the log had lost by then is a gap
        *_, oldest = state.ancestors(state.current_snapshot_id)
        first = decode(oldest) if oldest.parent_id is None else None
        if first is not None:
            return first.start.get(partition, 0)
        return here.first if here is not None else self._boundary.next.get(partition, 0)

    def _without_rows(self, holes: Sequence[OffsetRange]) -> Iterator[Found]:
        """Yields the gaps among offsets without a row, and what the log shows about the others."""
        kept_from = self._bounds.start
        kept = []
        for gap, lost in self._gaps(holes):
            yield Found(Kind.GAP, lost, min(gap.offsets, len(lost)))
        for hole in self._outside_gaps(holes):
            start = max(hole.start, kept_from.get(hole.partition, hole.end_exclusive))
            if hole.start < min(start, hole.end_exclusive):
                gone = OffsetRange(hole.partition, hole.start, min(start, hole.end_exclusive))
                yield Found(Kind.UNKNOWN, gone, len(gone))
            if start < hole.end_exclusive:
                kept.append(OffsetRange(hole.partition, start, hole.end_exclusive))
        if kept:
            span = dataclasses.replace(kept[0], end_exclusive=kept[-1].end_exclusive)
            with checked(self._log, LogRead.within(self._bounds, [span]), self._deadline):
                records = [one for hole in kept for one in self._in_log(hole)]
            yield from records

    def _gaps(self, holes: Sequence[OffsetRange]) -> Iterator[tuple[Gap, OffsetRange]]:
        """Yields the part of each gap that is in a hole."""
        for hole in holes:
            for gap in self._boundary.gaps:
                start = max(hole.start, gap.start)
                end = min(hole.end_exclusive, gap.end_exclusive)
                is_of_log = gap.topic_id == self._boundary.topic_id
                if is_of_log and gap.partition == hole.partition and start < end:
                    yield gap, OffsetRange(hole.partition, start, end)

    def _outside_gaps(self, holes: Sequence[OffsetRange]) -> Iterator[OffsetRange]:
        """Yields the parts of holes that no gap accounts for."""
        for hole in holes:
            start = hole.start
            for _, lost in self._gaps([hole]):
                if start < lost.start:
                    yield OffsetRange(hole.partition, start, lost.start)
                start = lost.end_exclusive
            if start < hole.end_exclusive:
                yield OffsetRange(hole.partition, start, hole.end_exclusive)

    @property
    def _may_have_aborted(self) -> bool:
        is_foreign = self._table.state.provider is not None
        return is_foreign and self._boundary.isolation == READ_COMMITTED

    def _aborted(
        self, records: SnapshotRecords, partition: int, here: PartitionRows
    ) -> Iterator[Found]:
        """Yields the rows of a partition whose records were aborted, as far as the log reaches."""
        start = max(here.first, self._bounds.start.get(partition, 0))
        end = min(here.last + 1, self._bounds.end.get(partition, 0))
        if start >= end:
            return
        span, topic = OffsetRange(partition, start, end), self._binding.topic
        with checked(self._log, LogRead.within(self._bounds, [span]), self._deadline):
            aborted = [
                offset
                for offsets in aborted_offsets(self._log, topic, span, self._deadline)
                if len(offsets)
                for offset in records.among(partition, offsets)
            ]
        for first, after in _runs(aborted):
            yield Found(Kind.ABORTED, OffsetRange(partition, first, after), after - first)

    def _in_log(self, hole: OffsetRange) -> Iterator[Found]:
        offsets: list[int] = []
        for batch in self._log.read(
            self._binding.topic, [hole], self._boundary.isolation, self._deadline
        ):
            bad: Mapping[int, str] = {}
            if self._decoder is not None:
                _, bad = self._decoder.decode_all(batch)
            offsets += [int(o) for index, o in enumerate(batch.offsets) if index not in bad]
        for start, end in _runs(offsets):
            yield Found(Kind.HOLE, OffsetRange(hole.partition, start, end), end - start)


def _runs(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields runs of consecutive offsets as half-open ranges."""
    start = end = None
    for offset in offsets:
        if offset != end:
            if start is not None and end is not None:
                yield start, end
            start = offset
        end = offset + 1
    if start is not None and end is not None:
        yield start, end
