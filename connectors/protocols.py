"""The Protocols of the outside world, and the values that cross them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import pyarrow as pa

from seamline.connectors.chunks import ResultFile, StoredChunk
from seamline.seam.evolution import Change
from seamline.seam.files import ColdPlan, ScanRequest
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import Places
from seamline.seam.seam import ColdSpan
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
"""Replaces bytes that are not UTF-8 in the name of a header, as Kafka's Java client does."""


@dataclasses.dataclass(frozen=True, slots=True)
class RawBatch:
    """Records as the log holds them, in columns of equal length; offsets ascend per partition.

    Attributes:
        partitions: Partition of each record.
        offsets: Offset of each record.
        timestamps_ms: Record time in milliseconds since the epoch, any 64-bit number; -1 for none.
        keys: Key bytes or None.
        values: Value bytes or None (a tombstone).
        headers: Per record, a list of (name, value), or None when it has none. A name that is not
            UTF-8 contains `NOT_TEXT`; the number of such names, and the rest, may be lost.
        timestamp_types: The type of each record's time, as Kafka numbers it: -1 none, 0 creation
            time, 1 log append time; empty where the log does not say.
        large: The bytes of parts that are too large to become rows, by index and by part, which is
            `value` or `key`; the part itself is None.
    """

    partitions: Sequence[int]
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers | None]
    timestamp_types: Sequence[int] = ()
    large: Mapping[int, Mapping[str, int]] = dataclasses.field(default_factory=dict, hash=False)

    def __len__(self) -> int:
        return len(self.offsets)


class NewRecord(NamedTuple):
    """A record to be written."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Deadline(Protocol):
    """The time limit of a statement, and whether the statement was canceled."""

    def check(self) -> None:
        """Raises DEADLINE_EXCEEDED if time is up, CANCELED if the statement was canceled."""

    def remaining_s(self) -> float:
        """Returns the seconds left; never negative."""

    def pause(self, seconds: float) -> None:
        """Waits, but not past the end of the statement."""

    def on_end(self, stop: Callable[[], None]) -> Callable[[], None]:
        """Calls `stop` when the deadline has passed or the statement was canceled.

        It is called from another thread, repeatedly until it is unregistered. It must return soon.

        Returns:
            A function that unregisters it.
        """


class Compute(Protocol):
    """Runs a pure computation of a statement; `at_once` is one implementation."""

    def __call__(self, compute: Callable[[], T], deadline: Deadline) -> T:
        """Returns the computation's result, or raises the error that ended the statement."""


def at_once(compute: Callable[[], T], deadline: Deadline) -> T:  # noqa: ARG001 - see `Compute`
    """Runs a computation that never needs to be interrupted."""
    return compute()


class NoDeadline:
    """A deadline that never passes."""

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
        """Returns the names of the topics that are not internal to the log, sorted.

        Raises:
            SeamlineError: KAFKA_UNAVAILABLE.
        """

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        """Returns what each topic's log holds now; ends are read before ids and starts.

        Raises:
            SeamlineError: TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE.
        """

    def offsets_at(
        self, topic: str, topic_id: str, ends: Offsets, timestamp_ms: int, deadline: Deadline
    ) -> Offsets:
        """Returns, per partition, the first offset whose record time is at or after a moment.

        Args:
            topic: Name of the topic.
            topic_id: Its id, since the offsets of another topic of that name mean nothing.
            ends: The partitions to look up, and the offset for one without such a record.
            timestamp_ms: The moment.
            deadline: The statement's deadline.

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
        """Yields the records of the ranges that the isolation makes visible, each exactly once.

        Ends by position, never by count: markers, aborted and compacted records leave gaps.

        Args:
            topic: Name of the topic.
            ranges: What to read, at most one of each partition.
            isolation: `read_committed` or `read_uncommitted`.
            deadline: The statement's deadline.
            epochs: Leader epoch under which the record below a range's start was seen. It shows
                whether the log was truncated there since. An empty range with one is only checked.
            max_records: Stops after this many.

        Raises:
            SeamlineError: LOG_TRIMMED when a start is no longer kept; LOG_TRUNCATED when the log
                was truncated below a start, or ends before a range does; KAFKA_UNAVAILABLE.
        """


@runtime_checkable
class TellsCompaction(Protocol):
    """A log that tells how compaction affects its topics."""

    def is_compacted(self, topic: str, deadline: Deadline) -> bool:
        """Whether records of a topic may be removed because newer ones have the same keys.

        Raises:
            SeamlineError: TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE, …
        """

    def untouched_from(
        self, topic: str, topic_id: str, ends: Offsets, deadline: Deadline
    ) -> Offsets:
        """Returns, per partition, an offset that compaction has not reached yet.

        No record at or past it has been removed or has caused another to be removed. It is 0 if
        the topic is not compacted; a partition is absent if its offset cannot be determined.

        Args:
            topic: Name of the topic.
            topic_id: Its id.
            ends: The partitions to look up, and where they end.
            deadline: The statement's deadline.

        Raises:
            SeamlineError: TOPIC_RECREATED, TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE, …
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Polled:
    """What one poll of a subscription returns.

    Attributes:
        batches: The records, each batch of one partition.
        positions: Per partition that advanced, the first offset not read yet. All records below it
            that the isolation makes visible have been returned; markers and gaps are skipped.
        epochs: Leader epochs of the newest records, where the log reports them.
    """

    batches: tuple[RawBatch, ...]
    positions: Mapping[int, int] = dataclasses.field(hash=False)
    epochs: Mapping[int, int] = dataclasses.field(default_factory=dict, hash=False)


class Subscription(Protocol):
    """An endless read of a topic. For use by one thread at a time."""

    def poll(self, wait_s: float) -> Polled:
        """Returns what has arrived since the last call; waits at most `wait_s` for the first.

        Raises:
            SeamlineError: LOG_TRIMMED when a position is no longer kept, LOG_TRUNCATED,
                TOPIC_NOT_FOUND, KAFKA_UNAVAILABLE. Each of them ends the subscription.
        """

    def close(self, *, lost: bool = False) -> None:
        """Ends the subscription; if its connections are lost, nothing uses them again."""


class FollowableLog(HotLog, Protocol):
    """A log that can also be followed."""

    def follow(
        self, topic: str, starts: Offsets, isolation: str, epochs: Mapping[int, int], patient: bool
    ) -> Subscription:
        """Returns a subscription to the partitions of `starts`, from those offsets on.

        It identifies the topic by name: the caller must check that it is still the same topic.
        `epochs` are as for `HotLog.read`. A `patient` one costs brokers less, but half a second may
        pass until it knows that only markers follow.
        """


class ColdTable(Protocol):
    """An Iceberg table, or anything that keeps snapshots of files."""

    @property
    def state(self) -> TableState:
        """The metadata this object was loaded with."""

    @property
    def file_access(self) -> Any:
        """Opens files that an engine cannot open: PyIceberg's `FileIO`, or None without one."""

    def plan(self, snapshot_id: int | None, request: ScanRequest) -> ColdPlan:
        """Returns the files to read. Pruning may keep too many, never too few.

        Raises:
            SeamlineError: SNAPSHOT_GONE, STORAGE_UNAVAILABLE, COLD_FILE_MISSING.
        """

    def inspect(self, plan: ColdPlan) -> ColdPlan:
        """Returns the plan with each file's own schema, for DuckDB, and what DuckDB cannot read.

        Raises:
            SeamlineError: COLD_FILE_MISSING, COLD_FILE_INVALID, STORAGE_UNAVAILABLE.
        """

    def require_fit_for_spark(self, snapshot_id: int | None) -> None:
        """Raises unless the table's metadata, which Spark follows by itself, can be trusted.

        Raises:
            SeamlineError: LOCATION_NOT_ALLOWED, PROPERTY_NOT_ALLOWED, SNAPSHOT_GONE,
                STORAGE_UNAVAILABLE, COLD_FILE_MISSING.
        """

    def misleading_columns(self, snapshot_id: int | None) -> frozenset[int]:
        """Returns the ids of columns by whose partition values Spark would leave out rows.

        Some writers compute partition values wrongly. Spark believes them; `plan` does not.

        Raises:
            SeamlineError: SNAPSHOT_GONE, STORAGE_UNAVAILABLE, COLD_FILE_MISSING.
        """

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """Raises if another writer adds the topic's records to a table that Seamline fills.

        Raises:
            SeamlineError: SECOND_WRITER, SNAPSHOT_GONE, STORAGE_UNAVAILABLE, COLD_FILE_MISSING.
        """

    def deleted_rows(self, plan: ColdPlan) -> pa.Table | None:
        """Returns `path` and `position` (from 0) of the rows deleted from the plan's files.

        Returns None when no file has deletes.
        """

    def offsets_at(
        self,
        snapshot_id: int | None,
        first_ms: int,
        ranges: Sequence[OffsetRange],
        first_batch: int = 0,
    ) -> Offsets:
        """Returns, per partition, the first offset in a range with a time at or past a moment.

        The time is the record's. Partitions without one are absent. Rows of batches before
        `first_batch` are of earlier logs, and left out.

        Raises:
            SeamlineError: SNAPSHOT_GONE, STORAGE_UNAVAILABLE, COLD_FILE_MISSING.
        """


class Catalog(Protocol):
    """An Iceberg catalog. Names are (namespace…, table), without the catalog's own name."""

    name: str

    def load(self, identifier: tuple[str, ...]) -> ColdTable:
        """Returns the table as it is now.

        Raises:
            SeamlineError: TABLE_NOT_FOUND, CATALOG_UNAVAILABLE.
        """

    def namespaces(self) -> list[tuple[str, ...]]:
        """Returns every namespace, at every level, sorted."""

    def has_namespace(self, namespace: tuple[str, ...]) -> bool:
        """Whether the namespace exists."""

    def tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Returns the identifiers of the tables of a namespace, sorted.

        Raises:
            SeamlineError: SCHEMA_NOT_FOUND.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """A view of a catalog.

    Attributes:
        columns: Its columns, as they were when the view was created.
        texts: Its query, by dialect.
        catalog: The default catalog of names in it; None means the catalog that holds it.
        namespace: The default namespace of names in it.
        comment: Its owner's comment.
        owner: The user with whose rights it reads; None if with those of whoever reads it.
    """

    columns: tuple[Field, ...]
    texts: Mapping[str, str] = dataclasses.field(hash=False)
    catalog: str | None = None
    namespace: tuple[str, ...] = ()
    comment: str | None = None
    owner: str | None = None


class Views(Protocol):
    """The views of a catalog, by (namespace…, view)."""

    def names(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Returns the names of the views in a namespace, sorted."""

    def find(self, identifier: tuple[str, ...]) -> View | None:
        """Returns the view of that name, or None if there is none."""


@runtime_checkable
class HasViews(Protocol):
    """A catalog that may also hold views."""

    @property
    def view_store(self) -> Views:
        """Its views."""


def views_of(catalog: object) -> Views | None:
    """Returns the views of a catalog, or None if it cannot hold any."""
    return catalog.view_store if isinstance(catalog, HasViews) else None


@dataclasses.dataclass(frozen=True, slots=True)
class TailSource:
    """A tail that has not been read, for an engine whose workers read the log themselves.

    Attributes:
        cluster: Name of the cluster.
        topic: Name of the topic.
        ranges: What to read.
        isolation: The isolation to read with.
        decoder: A `DecoderSpec`, opaque here.
    """

    cluster: str
    topic: str
    ranges: tuple[OffsetRange, ...]
    isolation: str
    decoder: Any


@dataclasses.dataclass(frozen=True, slots=True)
class TailFile:
    """A Parquet file of decoded rows of one partition, in offset order.

    Attributes:
        path: Its path, on this machine.
        start: First offset to read from it.
        end_exclusive: Exclusive end of the offsets to read.
        whole: Whether these are all its rows.
    """

    path: str
    start: int
    end_exclusive: int
    whole: bool


@dataclasses.dataclass(frozen=True, slots=True)
class SpilledTail:
    """A decoded tail that is partly in files.

    Attributes:
        rows: The part in memory, with the requested columns.
        files: The rest, with all columns.
    """

    rows: pa.Table
    files: tuple[TailFile, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class FollowedTail:
    """A tail that a scan reads in full from a followed log, with all of its records cached here.

    Attributes:
        log: The followed log. In the same log, equal offsets are the same records.
        start: First offset of each partition.
        end: Exclusive end of each partition.
    """

    log: object
    start: Offsets
    end: Offsets


@dataclasses.dataclass(frozen=True, slots=True)
class EngineScan:
    """One relation of a query, with everything needed to read it exactly.

    Attributes:
        scan_id: The relation's name in the query's tree.
        table: Full name of the table, catalog first.
        columns: The columns the query uses, as the schema of the seam declares them.
        snapshot_id: The cold snapshot.
        stored: Columns of the schema that the snapshot was written with.
        cold: The snapshot's files; None without a cold side.
        cold_span: Which of the snapshot's rows are read; None for all.
        deletes: `ColdTable.deleted_rows` of the plan.
        file_access: Opens files that the engine cannot open: PyIceberg's `FileIO`, opaque here.
        tail: Key into the query's tails; None without a hot side.
        rows: The rows themselves, for tables that the gateway generates itself.
        tail_predicate: Tail rows for which it is not true may be left out.
        newest: Which of its rows count; None when all do.
        places: The columns that identify a row's record, if the table has any.
        followed: The tail that it reads, if findings about that tail may be reused by other scans.
        misleading: `ColdTable.misleading_columns` of the snapshot, for Spark.
    """

    scan_id: str
    table: tuple[str, ...]
    columns: tuple[Field, ...]
    snapshot_id: int | None = None
    stored: tuple[Field, ...] = ()
    cold: ColdPlan | None = None
    cold_span: ColdSpan | None = None
    deletes: pa.Table | None = None
    file_access: Any = dataclasses.field(default=None, repr=False, compare=False)
    tail: str | None = None
    rows: pa.Table | None = None
    tail_predicate: Predicate | None = None
    newest: Newest | None = None
    places: Places | None = None
    followed: FollowedTail | None = None
    misleading: frozenset[int] = frozenset()

    def own_name(self, what: str) -> str:
        """Returns a name for an object of the scan; no query name begins with the scan's id."""
        return f"{self.scan_id}_{what}"

    def tiers(self) -> tuple[EngineScan, EngineScan]:
        """Returns the cold and the hot side of a scan in which only the newest rows count.

        Each has all of its rows, and the additional columns that determine the newest rows.
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
        schema: Arrow schema of the result; result batches have exactly this schema.
        scans: The relations.
        tails: Decoded tails, or sources of tails for the engine's workers to read, by key.
        owner: Whose query it is; owners share the cores.
        file: Where the engine may write all but the first rows.
    """

    tree: Any
    schema: pa.Schema
    scans: tuple[EngineScan, ...]
    tails: Mapping[str, pa.Table | SpilledTail | TailSource] = dataclasses.field(hash=False)
    owner: str = ""
    file: ResultFile | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ResultStream:
    """A streamed result.

    Attributes:
        schema: Its schema.
        batches: Its rows, or the first of them.
        close: Releases its resources.
        chunks: The other rows, in the query's file; there once the batches have ended.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    close: Callable[[], None] = lambda: None
    chunks: Iterable[StoredChunk] = ()


class Engine(Protocol):
    """Something that computes a query over exact inputs."""

    name: str

    def run(self, query: EngineQuery, deadline: Deadline) -> ResultStream:
        """Starts the query; raises nothing but a SeamlineError, named after the cause."""


class TierTable(Protocol):
    """A table that can be tiered into."""

    def load(self) -> TableState:
        """Returns the table as it is now."""

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """See `ColdTable.require_single_writer`; for a snapshot of the last loaded table."""

    def has_rows(self, batch: Batch, deadline: Deadline) -> bool:
        """Whether the batch holds at least one row to write."""

    def commit_rows(self, batch: Batch) -> None:
        """Writes the batch's rows and boundary in one commit.

        Raises:
            SeamlineError: COMMIT_CONFLICT when another batch from the same boundary was committed;
                SCHEMA_NOT_EVOLVED when records need other columns, and nothing was written.
        """

    def evolve(self, batch: Batch, deadline: Deadline) -> tuple[Change, ...]:
        """Changes the columns to what the batch's records need, in separate commits.

        Returns:
            The changes; none when the table's schema is no longer the batch's.

        Raises:
            SeamlineError: SCHEMA_INCOMPATIBLE, COMMIT_CONFLICT, and what reading raises.
        """

    def commit_boundary(self, batch: Batch) -> None:
        """Commits the boundary without rows, on top of the batch's own snapshot only.

        Raises:
            SeamlineError: COMMIT_CONFLICT when the table has changed.
        """

    def keep(self, snapshot_id: int) -> None:
        """Protects the newest snapshot that has its own boundary from expiry."""

    def take_back(self, snapshot_id: int, to: int) -> None:
        """Moves the table's head from a snapshot back to its parent, if it is still there."""
