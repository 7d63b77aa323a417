"""What an engine runs, and what it returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa

from seamline.connectors.chunks import ResultFile, StoredChunk
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.engine_tails import FollowedTail, SpilledTail, TailSource
from seamline.seam.files import ColdPlan
from seamline.seam.records import Places
from seamline.seam.seam import ColdSpan
from seamline.seam.upserts import Newest
from seamline.sql.columns import DELETED_FIELD
from seamline.sql.predicates import Predicate
from seamline.sql.types import Field


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
        predicate: Rows of the result for which it is not true may be left out.
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
    predicate: Predicate | None = None
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
