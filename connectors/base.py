"""The Protocols of the outside world, and the frozen values that cross them.

Everything the planners know of Kafka and Iceberg is a value defined here, so a plan can be made,
replayed and simulated without either. Ranges of offsets are half-open: the end is exclusive, and
names say so. Times are milliseconds since the epoch unless a name says otherwise.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from seamline.sql.errors import INVALID_TABLE_DEFINITION, SeamlineError
from seamline.sql.predicates import Predicate
from seamline.sql.types import Field, Row

# --- Offsets -----------------------------------------------------------------------------------


class Offsets(Mapping[int, int]):
    """One offset per partition: immutable, hashable, iterated in partition order."""

    __slots__ = ("_by_partition", "_hash")

    def __init__(self, by_partition: Mapping[int, int] | Iterable[tuple[int, int]] = ()) -> None:
        self._by_partition = dict(sorted(dict(by_partition).items()))
        self._hash: int | None = None

    def __getitem__(self, partition: int) -> int:
        return self._by_partition[partition]

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_partition)

    def __len__(self) -> int:
        return len(self._by_partition)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._by_partition.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Offsets):
            return self._by_partition == other._by_partition
        return NotImplemented

    def __repr__(self) -> str:
        return f"Offsets({self._by_partition})"

    def replace(self, changes: Mapping[int, int]) -> Offsets:
        """These offsets with some set or added."""
        return Offsets({**self._by_partition, **changes})

    def to_json(self) -> dict[str, int]:
        """Partitions as decimal strings, the only keys JSON has."""
        return {str(partition): offset for partition, offset in self._by_partition.items()}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Offsets:
        """The inverse of `to_json`.

        Raises:
            ValueError: when a key or a value is not a whole number.
        """
        return cls({int(p): _whole(offset) for p, offset in body.items()})


def _whole(offset: Any) -> int:
    """JSON's 1.5, true and "7" are no offsets, though Python makes integers of them."""
    if type(offset) is not int:
        raise ValueError(f"{offset!r} is not a whole number")
    return offset


@dataclasses.dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of one partition from `start` up to, not including, `end_exclusive`."""

    partition: int
    start: int
    end_exclusive: int

    def __len__(self) -> int:
        return max(0, self.end_exclusive - self.start)


# --- The hot log ---------------------------------------------------------------------------------

READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"


@dataclasses.dataclass(frozen=True, slots=True)
class LogBounds:
    """What the log of one topic holds at one moment.

    Attributes:
        topic: Name.
        topic_id: Kafka's id of this incarnation of the topic; another log has another id.
        cluster_id: Kafka's id of the cluster.
        start: First offset still kept, per partition.
        end: Exclusive stable end under `isolation`: last stable offset or high watermark.
        high_watermark: Exclusive end of what is replicated, transactions still open included.
        isolation: `read_committed` or `read_uncommitted`.
        append_time: Whether the broker stamps records (LogAppendTime), so that time is monotonic.
        leader_epochs: Leader epoch of each partition at `end`, where the log tells it.
    """

    topic: str
    topic_id: str
    cluster_id: str
    start: Offsets
    end: Offsets
    high_watermark: Offsets
    isolation: str = READ_COMMITTED
    append_time: bool = False
    leader_epochs: Offsets = dataclasses.field(default_factory=Offsets)

    @property
    def pending(self) -> int:
        """Offsets between the stable end and the high watermark: held back by open transactions."""
        return sum(self.high_watermark.get(p, end) - end for p, end in self.end.items())


@dataclasses.dataclass(frozen=True, slots=True)
class RawBatch:
    """Records as the log holds them, in columns of equal length, ascending offsets per partition.

    Attributes:
        partitions: Partition of each record.
        offsets: Offset of each record.
        timestamps_ms: Record time in milliseconds since the epoch; -1 where the record has none.
        keys: Key bytes or None.
        values: Value bytes or None (a tombstone).
        headers: Per record a list of (name, value) or None when it has none.
    """

    partitions: Sequence[int]
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Sequence[tuple[str, bytes | None]] | None]

    def __len__(self) -> int:
        return len(self.offsets)


class Deadline(Protocol):
    """When a statement must have ended, and whether somebody canceled it."""

    def check(self) -> None:
        """Raises DEADLINE_EXCEEDED or CANCELED when the time or the patience is over."""

    def remaining_s(self) -> float:
        """Seconds left; never negative."""

    def pause(self, seconds: float) -> None:
        """Waits, but not past the end of the statement."""

    def on_end(self, stop: Callable[[], None]) -> Callable[[], None]:
        """Calls `stop` when the deadline has passed or the statement was canceled.

        It is called until it is taken back, from another thread, and must return soon.

        Returns:
            A function that takes the registration back.
        """


class NoDeadline:
    """A deadline that never comes."""

    def check(self) -> None:
        """See `Deadline.check`."""

    def remaining_s(self) -> float:
        """See `Deadline.remaining_s`."""
        return 3600.0

    def pause(self, seconds: float) -> None:
        """See `Deadline.pause`."""
        time.sleep(seconds)

    def on_end(self, stop: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002 - never called
        """See `Deadline.on_end`."""
        return lambda: None


class HotLog(Protocol):
    """A Kafka cluster, or anything that keeps records by topic, partition and offset."""

    def topics(self, deadline: Deadline) -> list[str]:
        """Names of the topics that are not the log's own, sorted.

        Raises:
            SeamlineError: KAFKA_UNAVAILABLE.
        """

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        """What each topic's log holds now; ends are read before ids and starts.

        Raises:
            SeamlineError: TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE.
        """

    def offsets_at(
        self, topic: str, topic_id: str, ends: Offsets, timestamp_ms: int, deadline: Deadline
    ) -> Offsets:
        """Per partition the first offset whose record time is at or after a moment.

        Args:
            topic: Name of the topic.
            topic_id: Its id: the offsets of another topic of that name would mean nothing.
            ends: The partitions asked about, and what answers for one without such a record.
            timestamp_ms: The moment.
            deadline: The statement's.

        Raises:
            SeamlineError: TOPIC_RECREATED, TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE.
        """

    def read(
        self,
        topic: str,
        ranges: Sequence[OffsetRange],
        isolation: str,
        deadline: Deadline,
        *,
        epochs: Mapping[int, int] | None = None,
        max_records: int | None = None,
    ) -> Iterator[RawBatch]:
        """The records of the ranges, each once, as far as the isolation shows them.

        Ends by position, never by counting: markers, aborted and compacted records leave gaps.

        Args:
            topic: Name of the topic.
            ranges: What to read, at most one of each partition.
            isolation: `read_committed` or `read_uncommitted`.
            deadline: The statement's.
            epochs: Leader epoch under which the record below a range's start was seen; a log
                that was cut below that start since is told by it. An empty range with one is only
                checked.
            max_records: Stops after so many.

        Raises:
            SeamlineError: LOG_TRIMMED when a start is no longer kept; LOG_TRUNCATED when the log
                was cut below a start, or ends before a range does; KAFKA_UNAVAILABLE.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Polled:
    """What a subscription read in one go.

    Attributes:
        batches: The records, each batch of one partition.
        positions: Per partition that got further, the first offset not read yet: whatever the
            isolation shows below it has been given, markers and gaps passed over.
        epochs: Leader epochs of the newest records, where the log tells them.
    """

    batches: tuple[RawBatch, ...]
    positions: Mapping[int, int] = dataclasses.field(hash=False)
    epochs: Mapping[int, int] = dataclasses.field(default_factory=dict, hash=False)


class Subscription(Protocol):
    """A reading of a topic without an end. For one thread at a time."""

    def poll(self, wait_s: float) -> Polled:
        """What has come since the last call, waiting for the first of it at most so long.

        Raises:
            SeamlineError: LOG_TRIMMED when a position is no longer kept, LOG_TRUNCATED,
                TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE. The subscription is over.
        """

    def close(self) -> None:
        """Ends it."""


class FollowableLog(HotLog, Protocol):
    """A log that can also be followed."""

    def follow(
        self, topic: str, starts: Offsets, isolation: str, epochs: Mapping[int, int]
    ) -> Subscription:
        """A subscription to the partitions named, from those offsets on.

        It goes by the topic's name: whether it is still the same topic must be checked beside it.
        `epochs` are as for `HotLog.read`.
        """


# --- The boundary ------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    """How far a snapshot holds the log: `next` is `B`, and every range is half-open.

    Guarantee: for each partition p in `next`, the snapshot holds exactly the records that
    `isolation` shows below `next[p]` of the log `topic_id` (from where the table began), and none
    at or above it.

    Attributes:
        snapshot_id: The snapshot that carries the mark; a descendant inherits it.
        cluster_id: Kafka's id of the cluster.
        topic: Name of the topic when the mark was written.
        topic_id: Kafka's id of the topic.
        isolation: What tiering read under; a stitched read must use the same.
        start: Where the batch of this commit began.
        next: First offset not in the snapshot.
        max_timestamp_ms: Greatest record time seen per partition, milliseconds; absent if none.
        skipped: Bad records left out under the policy `skip`, since the table began.
        schema_id: Schema the rows of this commit were decoded with.
        epochs: Leader epoch each partition had when `next` was chosen, where the log tells it: a
            log that has lost records below `next` and grown again has a later one there.
        base_id: The snapshot the batch of this commit started from; None for the first.
        foreign_change_id: The newest snapshot up to `base_id` in which somebody else changed
            rows; None when nobody has. Two snapshots with the same one hold the same rows of the
            log below a common offset.
        trust: `exact` when written with the data; `derived` when computed from the rows.
    """

    snapshot_id: int
    cluster_id: str
    topic: str
    topic_id: str
    isolation: str
    start: Offsets
    next: Offsets
    max_timestamp_ms: Offsets = dataclasses.field(default_factory=Offsets)
    skipped: int = 0
    schema_id: int | None = None
    epochs: Offsets = dataclasses.field(default_factory=Offsets)
    base_id: int | None = None
    foreign_change_id: int | None = None
    trust: str = "exact"


# --- What makes a table unified ------------------------------------------------------------------

PROPERTY_PREFIX = "seamline."
MODES = ("append",)
ISOLATIONS = (READ_COMMITTED, READ_UNCOMMITTED)


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
            SeamlineError: INVALID_TABLE_DEFINITION for a value that nobody could mean; a table of
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


# --- The cold table ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed state of a table, without its files."""

    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int
    operation: str
    summary: Mapping[str, str] = dataclasses.field(hash=False)
    schema_id: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a table in one version of its schema."""

    schema_id: int
    columns: tuple[Field, ...]

    @property
    def row(self) -> Row:
        """The columns as a row type."""
        return Row(self.columns)


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotRef:
    """A branch or a tag."""

    snapshot_id: int
    kind: str


@dataclasses.dataclass(frozen=True, slots=True)
class TableState:
    """The metadata of a cold table at one moment.

    Attributes:
        name: (catalog, namespace…, table).
        uuid: Iceberg's id of the table; a table dropped and created again has another.
        properties: Table properties; Seamline's own start with `seamline.`.
        schemas: Every schema the table has had, by id.
        current_schema_id: The schema new statements see.
        snapshots: The snapshots that have not expired, by id.
        refs: Branches and tags; `main` is the table's own line.
        current_snapshot_id: Head of `main`, None before the first commit.
        snapshot_log: (timestamp_ms, snapshot_id) each time the head of `main` changed, oldest
            first.
        location: Where the table's files lie.
        metadata_location: The file this state was read from; changes with every commit.
        format_version: 1, 2 or 3.
    """

    name: tuple[str, ...]
    uuid: str
    properties: Mapping[str, str] = dataclasses.field(hash=False)
    schemas: Mapping[int, TableSchema] = dataclasses.field(hash=False)
    current_schema_id: int
    snapshots: Mapping[int, Snapshot] = dataclasses.field(hash=False)
    refs: Mapping[str, SnapshotRef] = dataclasses.field(hash=False)
    current_snapshot_id: int | None
    snapshot_log: tuple[tuple[int, int], ...] = ()
    location: str = ""
    metadata_location: str = ""
    format_version: int = 2

    def ancestors(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """The snapshot and its parents, newest first, as far back as they have not expired."""
        while snapshot_id is not None and (snapshot := self.snapshots.get(snapshot_id)):
            yield snapshot
            snapshot_id = snapshot.parent_id

    def schema_of(self, snapshot_id: int) -> TableSchema:
        """The schema a snapshot was written with."""
        schema_id = self.snapshots[snapshot_id].schema_id
        return self.schemas[self.current_schema_id if schema_id is None else schema_id]

    @property
    def schema(self) -> TableSchema:
        """The current schema."""
        return self.schemas[self.current_schema_id]

    @property
    def display_name(self) -> str:
        """Dotted name for messages."""
        return ".".join(self.name)


@dataclasses.dataclass(frozen=True, slots=True)
class ScanRequest:
    """What a scan asks of a tier: which columns, and which rows at least.

    Attributes:
        schema_id: The version of the table's schema that the names belong to.
        columns: Names of the columns that are used.
        predicate: Rows for which it is not true may be left out.
    """

    schema_id: int
    columns: tuple[str, ...]
    predicate: Predicate | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PushdownResult:
    """A tier's answer to a predicate.

    Attributes:
        accepted: What the tier guarantees: no row that fails it comes back.
        residual: What must still be filtered by whoever asked; None means nothing.
    """

    accepted: Predicate | None
    residual: Predicate | None


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file that says which rows of data files are gone.

    Attributes:
        path: Location.
        content: `position`, `vector` (a Puffin deletion vector) or `equality`.
        size_bytes: Length of the file.
        offset: Start of the blob inside a Puffin file.
        length: Length of that blob.
    """

    path: str
    content: str
    size_bytes: int
    offset: int | None = None
    length: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a scan and the deletes that apply to it."""

    path: str
    format: str
    size_bytes: int
    record_count: int
    deletes: tuple[DeleteFile, ...] = ()
    partition: tuple[tuple[int, Any], ...] = ()
    """Identity-partition values by source field id, for files that do not store the column."""
    physical: pa.Schema | None = dataclasses.field(default=None, compare=False)
    """Schema the file itself has, with field ids in its metadata, once `inspect` has read it."""


@dataclasses.dataclass(frozen=True, slots=True)
class ColdPlan:
    """The files a scan of one snapshot must read.

    Attributes:
        snapshot_id: The snapshot, None for a table without one.
        files: What is left after pruning.
        total_files: How many files the snapshot has.
        total_rows: Records in those files, deletes not subtracted.
        unsupported: Why only Spark can read it exactly; None when DuckDB can.
    """

    snapshot_id: int | None
    files: tuple[DataFile, ...]
    total_files: int = 0
    total_rows: int = 0
    unsupported: str | None = None

    @property
    def rows(self) -> int:
        """Records in the files to read, deletes not subtracted."""
        return sum(file.record_count for file in self.files)

    @property
    def size_bytes(self) -> int:
        """Bytes of the files to read."""
        return sum(file.size_bytes for file in self.files)


class ColdTable(Protocol):
    """An Iceberg table, or anything that keeps snapshots of files."""

    @property
    def state(self) -> TableState:
        """The metadata this object was loaded with."""

    @property
    def file_access(self) -> Any:
        """What opens its files where an engine cannot: PyIceberg's `FileIO`; None for neither."""

    def plan(self, snapshot_id: int | None, request: ScanRequest) -> ColdPlan:
        """The files to read. Pruning may keep too many, never too few.

        Raises:
            SeamlineError: SNAPSHOT_GONE, STORAGE_UNAVAILABLE, COLD_FILE_MISSING.
        """

    def inspect(self, plan: ColdPlan) -> ColdPlan:
        """The plan with each file's own schema, as DuckDB needs it; says what it cannot read.

        Raises:
            SeamlineError: COLD_FILE_MISSING, COLD_FILE_INVALID, STORAGE_UNAVAILABLE.
        """

    def deleted_rows(self, plan: ColdPlan) -> pa.Table | None:
        """Columns `path` and `position` (counted from 0) of the rows deleted from the plan's files.

        None when no file has deletes.
        """

    def offsets_at(
        self, snapshot_id: int | None, timestamp_ms: int, ranges: Sequence[OffsetRange]
    ) -> Offsets:
        """Per partition the first offset in a range whose record time is at or after a moment.

        What `HotLog.offsets_at` answers, of records that have left the log; a partition without
        such a row in its range is absent.

        Raises:
            SeamlineError: SNAPSHOT_GONE, STORAGE_UNAVAILABLE, COLD_FILE_MISSING.
        """


class Catalog(Protocol):
    """An Iceberg catalog. Names are (namespace…, table), without the catalog's own."""

    name: str

    def load(self, identifier: tuple[str, ...]) -> ColdTable:
        """The table as it is now.

        Raises:
            SeamlineError: TABLE_NOT_FOUND, CATALOG_UNAVAILABLE.
        """

    def namespaces(self) -> list[tuple[str, ...]]:
        """Every namespace, of every level, sorted."""

    def has_namespace(self, namespace: tuple[str, ...]) -> bool:
        """Whether there is such a namespace."""

    def tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Identifiers of the tables of a namespace, sorted.

        Raises:
            SeamlineError: SCHEMA_NOT_FOUND.
        """


# --- Engines -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class TailSource:
    """A tail that has not been read: for an engine whose workers read the log themselves.

    Attributes:
        cluster: Name of the cluster.
        topic: Name of the topic.
        ranges: What to read.
        isolation: What to read it under.
        decoder: A `DecoderSpec`, opaque here.
    """

    cluster: str
    topic: str
    ranges: tuple[OffsetRange, ...]
    isolation: str
    decoder: Any


@dataclasses.dataclass(frozen=True, slots=True)
class TailFile:
    """A Parquet file of decoded rows of one partition, in the order of their offsets.

    Attributes:
        path: Where it lies, on this machine.
        start: First offset to be read of it.
        end_exclusive: Exclusive end of what is to be read.
        whole: Whether these are all its rows.
    """

    path: str
    start: int
    end_exclusive: int
    whole: bool


@dataclasses.dataclass(frozen=True, slots=True)
class SpilledTail:
    """A decoded tail of which a part is in files.

    Attributes:
        rows: The part in memory, with the columns asked for.
        files: The rest, with all columns.
    """

    rows: pa.Table
    files: tuple[TailFile, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class EngineScan:
    """One relation of a query, with everything that is needed to read it exactly.

    Attributes:
        scan_id: The relation's name in the query's tree.
        table: Full name of the table, catalog first.
        columns: The columns the query uses, as the schema of the seam declares them.
        snapshot_id: The cold snapshot.
        stored: Columns of the schema that snapshot was written with.
        cold: Its files, None without a cold side.
        cold_end: When set, cold rows at or past these offsets, and of partitions that are not
            among them, are left out.
        deletes: `ColdTable.deleted_rows` of the plan.
        file_access: What opens its files where the engine cannot: PyIceberg's `FileIO`, opaque
            here.
        tail: Key into the query's tails, None without a hot side.
        rows: The rows themselves, for tables made of the gateway's own knowledge.
    """

    scan_id: str
    table: tuple[str, ...]
    columns: tuple[Field, ...]
    snapshot_id: int | None = None
    stored: tuple[Field, ...] = ()
    cold: ColdPlan | None = None
    cold_end: Offsets | None = None
    deletes: pa.Table | None = None
    file_access: Any = dataclasses.field(default=None, repr=False, compare=False)
    tail: str | None = None
    rows: pa.Table | None = None

    def own_name(self, what: str) -> str:
        """A name for something of the scan's; no name in the query begins with the scan's id."""
        return f"{self.scan_id}_{what}"


@dataclasses.dataclass(frozen=True, slots=True)
class EngineQuery:
    """What an engine runs.

    Attributes:
        tree: The bound tree; its tables are scan ids.
        schema: Arrow schema of the result; batches come back in it exactly.
        scans: The relations.
        tails: Decoded tails, or sources of tails to be read by the engine's workers, by key.
    """

    tree: Any
    schema: pa.Schema
    scans: tuple[EngineScan, ...]
    tails: Mapping[str, pa.Table | SpilledTail | TailSource] = dataclasses.field(hash=False)


@dataclasses.dataclass(frozen=True, slots=True)
class ResultStream:
    """A result as it arrives: its schema, then batches, then whatever must be released."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    close: Callable[[], None] = lambda: None


class Engine(Protocol):
    """Something that computes a query over exact inputs."""

    name: str

    def run(self, query: EngineQuery, deadline: Deadline) -> ResultStream:
        """Starts the query.

        Raises:
            SeamlineError: named after the cause; nothing else leaves an engine.
        """
