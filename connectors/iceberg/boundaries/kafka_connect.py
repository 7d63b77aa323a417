"""The provider `kafka-connect`: the Iceberg sink's control topic says what each commit holds.

The sink's workers report to a control topic which files they have written and, in the same
transaction, up to which source offsets (DATA_COMPLETE). A commit to the table includes all reports
that its coordinator has read, even late ones, and records in its summary how far the coordinator
has read the control topic. So the boundary of a snapshot is exact: the greatest offset reported
below that position. It needs no columns in the table.

Reports that are no longer in the control topic matter only for a partition that has been idle
since; then the boundary is refused, not guessed.
"""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator, Mapping, Sequence

from seamline.connectors.iceberg.boundaries import avro
from seamline.connectors.iceberg.boundaries.provider import (
    Adopted,
    AdoptedIceberg,
    Answer,
    Provider,
    invalid,
    summary_of,
)
from seamline.connectors.kafka.continuity import checked
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.errors import BOUNDARY_INVALID, BOUNDARY_MISSING, SeamlineError
from seamline.seam.boundary import EXACT
from seamline.seam.history_checks import LogRead
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.table import Snapshot

SUMMARY_PREFIX = "kafka.connect.offsets."
COMMIT_ID = "kafka.connect.commit-id"
TASK = "kafka.connect.task-id"
_DATA_COMPLETE = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What one worker reported: the source offsets up to which its files reach.

    Attributes:
        position: Its partition and offset in the control topic.
        group: The sink's consumer group.
        ends: By topic and partition, the first offset that is not in its files.
    """

    position: tuple[int, int]
    group: str
    ends: Mapping[tuple[str, int], int] = dataclasses.field(hash=False)


class KafkaConnect(Provider[AdoptedIceberg]):
    """Joins the sink's commits with its control topic.

    Options: `control-topic` and `group`, for a table that has the summaries of several sinks.
    """

    name = "kafka-connect"
    trust = EXACT

    def answer(self, snapshot: Snapshot) -> Answer | None:
        """See `Provider.answer`."""
        if not any(name.startswith(SUMMARY_PREFIX) for name in snapshot.summary):
            return None
        log = self.adopted.log()
        control, group = sink_of(self.adopted, snapshot, log)
        read, is_whole_line = self._read_by(snapshot, f"{SUMMARY_PREFIX}{control}.{group}")
        reports = self.adopted.reports.of(self.adopted.binding.cluster, control, log, read)
        topic = self.adopted.binding.topic
        ends: dict[int, int] = {}
        for report in reports:
            partition, offset = report.position
            mine = {p: end for (t, p), end in report.ends.items() if t == topic}
            if report.group != group or not mine:
                continue
            if partition not in read and not is_whole_line:
                raise self._unknown(f"its commits of partition {partition} of {control} expired")
            if offset < read.get(partition, 0):
                for source, end in mine.items():
                    ends[source] = max(end, ends.get(source, 0))
        self._require_all(log, control, reports.is_whole, ends)
        return Answer(self.adopted.start.raised(ends))

    def wrote(self, snapshot: Snapshot) -> bool:
        """See `BoundaryProvider.wrote`."""
        return super().wrote(snapshot) and COMMIT_ID in snapshot.summary

    def _read_by(self, snapshot: Snapshot, key: str) -> tuple[Offsets, bool]:
        """Returns how far the control topic had been read, and whether no earlier commit expired.

        A coordinator records only the partitions that it has read since it started.
        """
        read = Offsets()
        last = snapshot
        for last in self.adopted.state.ancestors(snapshot.snapshot_id):
            text = last.summary.get(key)
            if text is not None:
                with invalid(f"{key} of snapshot {last.snapshot_id}"):
                    read = read.raised(Offsets.from_json(json.loads(text)))
        return read, last.parent_id is None

    def _require_all(
        self, log: HotLog, control: str, is_whole: bool, ends: Mapping[int, int]
    ) -> None:
        """Requires the end of each partition that has ever held records to be known."""
        if is_whole:
            return
        binding = self.adopted.binding
        bounds = log.bounds([binding.topic], binding.isolation, NoDeadline())[binding.topic]
        for partition, end in bounds.end.items():
            if end > 0 and partition not in ends and partition not in self.adopted.start:
                raise self._unknown(
                    f"the reports about partition {partition} have left the topic {control}"
                )

    def _unknown(self, why: str) -> SeamlineError:
        return SeamlineError(
            BOUNDARY_MISSING,
            f"it is not known how much of the log {self.adopted.state.display_name} holds: {why}",
            hint="Keep the control topic for longer, or let the sink store offsets in columns and "
            "adopt the table with --boundary columns.",
        )


def sink_of(adopted: Adopted, snapshot: Snapshot, log: HotLog) -> tuple[str, str]:
    """Returns the control topic and the consumer group of the sink that fills a table.

    The summary joins both into one name with a dot, and both may contain dots.

    Raises:
        SeamlineError: BOUNDARY_INVALID if only options can tell them.
    """
    control, group = adopted.option("control-topic"), adopted.option("group")
    names = list(summary_of(snapshot, SUMMARY_PREFIX))
    if control is not None:
        names = [name for name in names if name.startswith(f"{control}.")]
        pairs = {(control, name.removeprefix(f"{control}.")) for name in names}
    else:
        topics = set(log.topics(NoDeadline()))
        pairs = {(c, g) for name in names for c, g in _splits(name) if c in topics}
    named = f"connect-{snapshot.summary.get(TASK, '').rpartition('-')[0]}"
    if group is None and any(pair[1] == named for pair in pairs):
        group = named  # by default a connector's group is named after it
    if group is not None:
        pairs = {pair for pair in pairs if pair[1] == group}
    if len(pairs) != 1:
        candidates = ", ".join(sorted(f"{c} of group {g}" for c, g in pairs)) or "none"
        raise SeamlineError(
            BOUNDARY_INVALID,
            f"the control topic of {adopted.state.display_name}'s sink is ambiguous: {candidates}",
            hint="Set it with --option control-topic=… and --option group=….",
        )
    return pairs.pop()


def _splits(name: str) -> Iterator[tuple[str, str]]:
    parts = name.split(".")
    for length in range(1, len(parts)):
        yield ".".join(parts[:length]), ".".join(parts[length:])


# --- The control topic ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Reports:
    """The reports of a control topic that have been read.

    Attributes:
        reports: The reports.
        is_whole: Whether the topic still holds its first record.
    """

    reports: tuple[Report, ...]
    is_whole: bool

    def __iter__(self) -> Iterator[Report]:
        return iter(self.reports)


class ControlTopics:
    """Reads control topics, and remembers what it has read. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reports: dict[tuple[str, str], tuple[Offsets, Reports]] = {}

    def of(self, cluster: str, topic: str, log: HotLog, committed: Mapping[int, int]) -> Reports:
        """Returns the reports of a control topic up to its current end.

        Args:
            cluster: Name of its cluster.
            topic: Its name.
            log: The cluster's log.
            committed: Offsets up to which a commit says it has read the topic, so the topic must
                reach them.

        Raises:
            SeamlineError: BOUNDARY_INVALID, TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE.
        """
        bounds = log.bounds([topic], READ_COMMITTED, NoDeadline())[topic]
        if any(bounds.end.get(p, 0) < end for p, end in committed.items()):
            raise SeamlineError(
                BOUNDARY_INVALID,
                f"the control topic {topic} ends before the offsets that the table's commits "
                "have read: it is not the one they were written with",
            )
        key = (cluster, bounds.topic_id)
        with self._lock:
            read, earlier = self._reports.get(key, (Offsets(), Reports((), is_whole=True)))
        gap = any(start > read.get(p, 0) for p, start in bounds.start.items())
        ranges = [
            OffsetRange(p, max(read.get(p, 0), bounds.start.get(p, 0)), end)
            for p, end in bounds.end.items()
            if end > max(read.get(p, 0), bounds.start.get(p, 0))
        ]
        with checked(log, LogRead.within(bounds, ranges), NoDeadline()):
            reports = (*earlier.reports, *_read(log, bounds, ranges))
        merged = Reports(reports, earlier.is_whole and not gap)
        with self._lock:  # whoever reads at the same time reads the same records
            self._reports[key] = (bounds.end, merged)
        return merged


def _read(log: HotLog, bounds: LogBounds, ranges: Sequence[OffsetRange]) -> Iterator[Report]:
    for batch in log.read(bounds.topic, ranges, READ_COMMITTED, NoDeadline()) if ranges else ():
        for partition, offset, value in zip(
            batch.partitions, batch.offsets, batch.values, strict=True
        ):
            position = (int(partition), int(offset))
            if value is None:
                continue
            with invalid(f"record {position} of the control topic {bounds.topic}"):
                report = _report(position, value)
            if report is not None:
                yield report


def _report(position: tuple[int, int], value: bytes) -> Report | None:
    event = avro.decode(value)
    if event["type"] != _DATA_COMPLETE:
        return None
    ends = {}
    for entry in event["payload"]["assignments"] or ():
        if entry["offset"] is not None:
            ends[entry["topic"], entry["partition"]] = entry["offset"]
    return Report(position, event["group_id"], ends)
