"""The Protocols of the outside world, and the values that cross them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import pyarrow as pa

from seamline.seam.evolution import Change
from seamline.seam.files import ColdPlan, ScanRequest
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import Places
from seamline.seam.table import TableState
from seamline.seam.tiering import Batch
from seamline.seam.upserts import Newest
from seamline.sql.columns import DELETED_FIELD
from seamline.sql.predicates import Predicate
from seamline.sql.types import Field

T = TypeVar("T")

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
"""Names and values of the headers of one record."""

NOT_TEXT = "\ufffd"
"""Replaces bytes that are not UTF-8 in the name of a header, as in Kafka's Java client."""


@dataclasses.dataclass(frozen=True, slots=True)
class RawBatch:
    """Records as the log holds them, in columns of equal length, ascending offsets per partition.

    Attributes:
        partitions: Partition of each record.
        offsets: Offset of each record.
        timestamps_ms: Record time in milliseconds since the epoch, any 64 bits; -1 where the
            record has none.
        keys: Key bytes or None.
        values: Value bytes or None (a tombstone).
        headers: Per record a list of (name, value) or None when it has none. Names that are not
            UTF-8 have `NOT_TEXT` in them; how many of them there are, and the rest, may be lost.
        timestamp_types: What each record's time is, in Kafka's numbers: -1 none, 0 when it was
            created, 1 when the log got it; empty where the log does not say.
    """

    partitions: Sequence[int]
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers | None]
    timestamp_types: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.offsets)


class NewRecord(NamedTuple):
    """A record to be written."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Deadline(Protocol):
    """When a statement must have ended, and whether somebody canceled it."""

    def check(self) -> None:
        """Raises DEADLINE_EXCEEDED when the time is over, CANCELED when somebody canceled."""

    def remaining_s(self) -> float:
        """Seconds left; never negative."""

    def pause(self, seconds: float) -> None:
        """Waits, but not past the end of the statement."""

    def on_end(self, stop: Callable[[], None]) -> Callable[[], None]:
        """Calls `stop` when the deadline has passed or the statement was canceled.

        It is called, from another thread, until it is unregistered, and must return soon.

        Returns:
            A function that unregisters it.
        """


class Compute(Protocol):
    """Runs a computation of a statement, which is pure; `at_once` is one."""

    def __call__(self, compute: Callable[[], T], deadline: Deadline) -> T:
        """What the computation gives, or why the statement has ended."""


def at_once(compute: Callable[[], T], deadline: Deadline) -> T:  # noqa: ARG001 - see `Compute`
    """Runs a computation that nobody has to interrupt."""
    return compute()


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
        """Names of the topics that are not internal to the log, sorted.

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
            topic_id: Its id, as the offsets of another topic of that name would mean nothing.
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
            epochs: Leader epoch under which the record below a range's start was seen: it shows
                whether the log was truncated there since. An empty range with one is only checked.
            max_records: Stops after so many.

        Raises:
            SeamlineError: LOG_TRIMMED when a start is no longer kept; LOG_TRUNCATED when the log
                was truncated below a start, or ends before a range does; KAFKA_UNAVAILABLE.
        """


@runtime_checkable
class TellsCompaction(Protocol):
    """A log that says what compaction does to its topics."""

    def is_compacted(self, topic: str, deadline: Deadline) -> bool:
        """Whether records of a topic may go because newer ones have their keys.

        Raises:
            SeamlineError: TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE, …
        """

    def untouched_from(
        self, topic: str, topic_id: str, ends: Offsets, deadline: Deadline
    ) -> Offsets:
        """Per partition an offset that compaction has not come to yet.

        No record at or past it has been removed, or is why another one was. 0 where the topic is
        not compacted; a partition is absent where it cannot be told.

        Args:
            topic: Name of the topic.
            topic_id: Its id.
            ends: The partitions asked about, and where they end.
            deadline: The statement's.

        Raises:
            SeamlineError: TOPIC_RECREATED, TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE, …
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Polled:
    """What a subscription read in one go.

    Attributes:
        batches: The records, each batch of one partition.
        positions: Per partition that got further, the first offset not read yet: whatever the
            isolation shows below it has been given, markers and gaps passed over.
        epochs: Leader epochs of the newest records, where the log gives them.
    """

    batches: tuple[RawBatch, ...]
    positions: Mapping[int, int] = dataclasses.field(hash=False)
    epochs: Mapping[int, int] = dataclasses.field(default_factory=dict, hash=False)


class Subscription(Protocol):
    """An endless reading of a topic. For one thread at a time."""

    def poll(self, wait_s: float) -> Polled:
        """What has come since the last call, waiting at most that long for the first of it.

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

        It goes by the topic's name: whether that is still the same topic must be checked besides.
        `epochs` are as for `HotLog.read`.
        """


class ColdTable(Protocol):
    """An Iceberg table, or anything that keeps snapshots of files."""

    @property
    def state(self) -> TableState:
        """The metadata this object was loaded with."""

    @property
    def file_access(self) -> Any:
        """What opens its files where an engine cannot: PyIceberg's `FileIO`; None if none does."""

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

    def require_fit_for_spark(self, snapshot_id: int | None) -> None:
        """Raises unless Spark, which follows the table's metadata by itself, can trust it.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED, PROPERTY_NOT_ALLOWED, SNAPSHOT_GONE,
                STORAGE_UNAVAILABLE, COLD_FILE_MISSING.
        """

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """Raises when somebody else adds records of the topic to a table that Seamline fills.

        Raises:
            SeamlineError: SECOND_WRITER, SNAPSHOT_GONE, STORAGE_UNAVAILABLE, COLD_FILE_MISSING.
        """

    def deleted_rows(self, plan: ColdPlan) -> pa.Table | None:
        """Columns `path` and `position` (counted from 0) of the rows deleted from the plan's files.

        None when no file has deletes.
        """

    def offsets_at(
        self, snapshot_id: int | None, first_ms: int, ranges: Sequence[OffsetRange], last_ms: int
    ) -> Offsets:
        """Per partition the first offset in a range whose record time lies between two moments.

        Both moments included. A partition without such a row in its range is absent.

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


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """A view of a catalog.

    Attributes:
        columns: Its columns, as they were when it was made.
        texts: Its query by dialect.
        catalog: What names in it leave out; None means the catalog that holds it.
        namespace: The namespace that names in it leave out.
        comment: What its owner says of it.
    """

    columns: tuple[Field, ...]
    texts: Mapping[str, str] = dataclasses.field(hash=False)
    catalog: str | None = None
    namespace: tuple[str, ...] = ()
    comment: str | None = None


class Views(Protocol):
    """The views of a catalog, by (namespace…, view)."""

    def names(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Those of a namespace, sorted."""

    def find(self, identifier: tuple[str, ...]) -> View | None:
        """One of them; None when there is none of that name."""


@runtime_checkable
class HasViews(Protocol):
    """A catalog that may hold views, too."""

    @property
    def view_store(self) -> Views:
        """Its views."""


def views_of(catalog: object) -> Views | None:
    """The views of a catalog that may hold some."""
    return catalog.view_store if isinstance(catalog, HasViews) else None


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
        start: First offset to be read from it.
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
class FollowedTail:
    """Which tail of a log that is followed here a scan reads: every record of it, and all cached.

    Attributes:
        log: What is followed. Of one of these, equal offsets are the same records.
        start: First offset of each partition.
        end: Their exclusive ends.
    """

    log: object
    start: Offsets
    end: Offsets


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
        cold_start: When set, only cold rows at or past these offsets are read, and of partitions
            that are among them.
        deletes: `ColdTable.deleted_rows` of the plan.
        file_access: What opens its files where the engine cannot: PyIceberg's `FileIO`, opaque
            here.
        tail: Key into the query's tails, None without a hot side.
        rows: The rows themselves, for tables made of the gateway's own knowledge.
        tail_predicate: Rows of the tail for which it is not true may be left out.
        newest: What of its rows counts; None when all do.
        places: The columns that say which record a row is, if the table has any.
        followed: Which tail it reads, where what is found out about that may serve others.
    """

    scan_id: str
    table: tuple[str, ...]
    columns: tuple[Field, ...]
    snapshot_id: int | None = None
    stored: tuple[Field, ...] = ()
    cold: ColdPlan | None = None
    cold_end: Offsets | None = None
    cold_start: Offsets | None = None
    deletes: pa.Table | None = None
    file_access: Any = dataclasses.field(default=None, repr=False, compare=False)
    tail: str | None = None
    rows: pa.Table | None = None
    tail_predicate: Predicate | None = None
    newest: Newest | None = None
    places: Places | None = None
    followed: FollowedTail | None = None

    def own_name(self, what: str) -> str:
        """A name for something of the scan; no name in the query begins with the scan's id."""
        return f"{self.scan_id}_{what}"

    def tiers(self) -> tuple[EngineScan, EngineScan]:
        """The cold and the hot side of a scan of which only the newest rows count.

        Each has the columns besides that tell which rows those are, and all of its rows.
        """
        newest = self.newest
        assert newest is not None
        cold = newest.key if newest.is_settled else (*newest.key, newest.partition)
        hot = (*newest.key, newest.partition, newest.offset, DELETED_FIELD)
        own = {column.name for column in self.columns}
        wider = [
            (*self.columns, *(column for column in side if column.name not in own))
            for side in (cold, hot)
        ]
        return (
            dataclasses.replace(self, columns=wider[0], tail=None, rows=None, newest=None),
            dataclasses.replace(self, columns=wider[1], cold=None, newest=None),
        )


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


class TierTable(Protocol):
    """A table that can be tiered into."""

    def load(self) -> TableState:
        """The table as it is now."""

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """See `ColdTable.require_single_writer`, for a snapshot of the table last loaded."""

    def has_rows(self, batch: Batch, deadline: Deadline) -> bool:
        """Whether the batch holds at least one row to write."""

    def commit_rows(self, batch: Batch) -> None:
        """Writes the batch's rows and boundary in one commit.

        Raises:
            SeamlineError: COMMIT_CONFLICT when another batch from the same boundary has landed;
                SCHEMA_NOT_EVOLVED when records need other columns, and nothing was written.
        """

    def evolve(self, batch: Batch, deadline: Deadline) -> tuple[Change, ...]:
        """Changes the columns to what records of the batch need, in commits of their own.

        Returns:
            What has been changed; nothing when the table's schema is not the batch's any more.

        Raises:
            SeamlineError: SCHEMA_INCOMPATIBLE, COMMIT_CONFLICT, and what reading raises.
        """

    def commit_boundary(self, batch: Batch) -> None:
        """Commits the boundary without rows, only on top of the batch's own snapshot.

        Raises:
            SeamlineError: COMMIT_CONFLICT when the table has changed.
        """

    def keep(self, snapshot_id: int) -> None:
        """Protects the newest snapshot with a boundary of its own from expiry."""

    def take_back(self, snapshot_id: int, to: int) -> None:
        """Moves the head of the table from a snapshot back to its parent, if it is still there."""
