"""An upsert table without broker and Spark: a log in memory, a real catalog, DuckDB, and a model.

The model is a dictionary. It knows nothing of tiers: what the table must be at a moment is the
newest of every key among the records below the ends.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
import pathlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from fakes.memory import ManualClock, MemoryLog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import schema_to_pyarrow

from seamline.connectors.duckdb.workers import DuckDBWorkers
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.gateway.catalogs import resolution
from seamline.gateway.commands import tables
from seamline.gateway.query.gather import Gatherer
from seamline.gateway.query.pin import PinnedTable
from seamline.gateway.query.queries import Queries, QueryRequest
from seamline.gateway.query.run import Executor
from seamline.gateway.query.tokens import NOTHING
from seamline.gateway.statements.freshness import LATEST, Freshness
from seamline.gateway.statements.spool import SpoolDirectory
from seamline.gateway.tail.followers import Budget, Followers
from seamline.planners.plan.route import DUCKDB, Limits
from seamline.planners.rules.prune_tail_by_key import PARTITIONERS, key_bytes
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import SUMMARY_KEY, Boundary, boundary_of, encode
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import DecoderSpec
from seamline.seam.seam import Seam
from seamline.sql import columns
from seamline.sql.parsing import parse
from support import offline

TOPIC = "users"
COLUMNS = "id bigint, name varchar, score integer"
NEVER = NoDeadline()
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
_INT64 = 8
"""The size of keys in that format; keys as text are shorter here."""
MARK = "__deleted"
"""The field that marks deletes where a table says so; see `WITHOUT` and `WITH` for its values."""
WITHOUT: tuple[dict[str, Any], ...] = (
    *({}, {MARK: "false"}, {MARK: False}, {MARK: 0}, {MARK: None}),
)
WITH: tuple[dict[str, Any] | None, ...] = (
    *({MARK: "true"}, None, {MARK: True, "name": 5}, {MARK: 1}),
)
"""What a delete may be; its other fields may be anything."""
_BUDGET = Budget(1 << 26, 0, 3600.0)
_LIMITS = Limits(duckdb_cold_bytes_max=2**60, duckdb_tail_rows_max=2**60, spark=False)

Row = tuple[Any, ...]


class Users:
    """A topic of users, and the upsert table over it.

    Args:
        folder: Where catalog and files are.
        partitions: Of the topic.
        is_followed: Whether its tail is kept between statements, and what it hides.
        definition: What else the table's definition says. With an envelope, which is then
            Debezium's, users are written as changes.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        partitions: int = 2,
        *,
        is_followed: bool = False,
        **definition: Any,
    ) -> None:
        self.log = MemoryLog(ManualClock())
        self.log.create_topic(TOPIC, partitions)
        self.partitions = partitions
        self._partitioner = definition.get("key_partitioner")
        is_marked = definition.get("deleted_by") == MARK
        self._rows = itertools.cycle(WITHOUT if is_marked else ({},))
        self._deletes = itertools.cycle(WITH if is_marked else (None,))
        self._key_format = definition.get("key_format", "string")
        self._is_captured = "envelope" in definition
        self.connections = offline.MemoryConnections(offline.config(folder), self.log)
        self.name = resolution.resolve(
            (TOPIC,), resolution.session(self.connections.config), self.connections
        )
        given: dict[str, Any] = {
            "mode": "upsert",
            "primary_key": ("id",),
            "key": "id",
            "columns": tables.parse_fields(COLUMNS),
            **definition,
        }
        made = tables.TableDefinition(name=self.name, topic=TOPIC, cluster="default", **given)
        tables.create(self.connections, made, NEVER)
        self._engine = DuckDBWorkers(
            memory_bytes=1 << 28, threads=1, spill_directory=str(folder / "spill"), spill_bytes=0
        )
        spool = SpoolDirectory(folder / "spool", size_bytes_max=1 << 20)
        executor = Executor(
            self.connections,
            {DUCKDB: self._engine},
            tail_bytes_max=2**60,
            tail_rows_max=2**60,
            spool=spool.open_unnamed,
            followers=Followers(lambda _: self.log, _BUDGET, folder / "tail", readers=0)
            if is_followed
            else None,
        )
        self.gatherer = Gatherer(self.connections, executor.tails)
        self._queries = Queries(self.gatherer, executor, _LIMITS)

    def close(self) -> None:
        """Releases the engine."""
        self._engine.close()

    # --- Records -------------------------------------------------------------------------------

    def put(self, id_: int, name: str | None, score: int | None, partition: int = -1) -> None:
        """A user as they are now."""
        body = {"id": id_, "name": name, "score": score, **next(self._rows)}
        value = json.dumps({"op": "c", "after": body} if self._is_captured else body).encode()
        self._produce(id_, value, partition)

    def delete(self, id_: int, partition: int = -1) -> None:
        """A user is deleted."""
        body = {"op": "d", "before": {"id": id_}} if self._is_captured else next(self._deletes)
        self._produce(id_, None if body is None else json.dumps(body).encode(), partition)

    def truncate(self) -> None:
        """All captured users are deleted."""
        self.produce(None, json.dumps({"op": "t"}).encode(), 0)

    def _produce(self, id_: int, value: bytes | None, partition: int) -> None:
        key = key_bytes(id_, self._key_format)
        assert key is not None
        if partition < 0 and self._partitioner is not None:  # the owner's guarantee holds
            partition = (PARTITIONERS[self._partitioner](key) or 0) % self.partitions
        self.produce(key, value, id_ % self.partitions if partition < 0 else partition)

    def produce(self, key: bytes | None, value: bytes | None, partition: int) -> None:
        """Any record."""
        self.log.clock.advance(1000)
        self.log.produce(TOPIC, partition, value, key=key)

    # --- The table -----------------------------------------------------------------------------

    def table(self) -> IcebergTable:
        """The table as it is now."""
        return self.connections.catalog("lake").load(self.name.path)

    def boundary(self) -> Boundary:
        """The boundary of its head."""
        state = self.table().state
        return boundary_of(state, state.current_snapshot_id)

    def end(self) -> Offsets:
        """The ends of the topic."""
        return self.log.bounds([TOPIC], "read_committed", NEVER)[TOPIC].end

    def tier(self, next_: Mapping[int, int] | None = None) -> None:
        """What the pipeline does, by the definition: the newest of each key below a boundary."""
        table = self.table()
        before = self.boundary()
        ends = Offsets(dict(next_)) if next_ is not None else self.end()
        binding = TopicBinding.from_properties(table.state.properties)
        assert binding is not None
        spec = DecoderSpec.of(binding, table.state.schema.columns)
        newest: dict[int, dict[str, Any]] = {}
        for partition, end in ends.items():
            start = self.log.bounds([TOPIC], "read_committed", NEVER)[TOPIC].start[partition]
            wanted = [OffsetRange(partition, start, end)] if end > start else []
            for raw in self.log.read(TOPIC, wanted, "read_committed", NEVER):
                for row in Decoder(spec).decode(raw, 1).rows.to_pylist():
                    if row["id"] is not None:
                        newest[row["id"]] = row
                    elif row[columns.DELETED]:
                        newest.clear()
        rows = [row for _, row in sorted(newest.items()) if not row.pop(columns.DELETED)]
        schema = schema_to_pyarrow(table.iceberg.schema(), include_field_ids=False)
        summary = {
            SUMMARY_KEY: encode(
                dataclasses.replace(
                    before,
                    start=before.next,
                    next=ends,
                    base_id=table.state.current_snapshot_id,
                    format=spec.format,
                    on_error=spec.on_error,
                    schema_id=table.state.current_schema_id,
                )
            )
        }
        half = len(rows) // 2
        with warnings.catch_warnings(), table.iceberg.transaction() as transaction:
            warnings.simplefilter("ignore")  # PyIceberg leaves no deletes behind, whatever is asked
            transaction.delete(AlwaysTrue(), snapshot_properties=summary)
            for part in (rows[:half], rows[half:]):
                transaction.append(pa.Table.from_pylist(part, schema), summary)

    def pin(self) -> PinnedTable:
        """The table, pinned as it is now."""
        return self.gatherer.pin_table(self.name, NEVER)

    @property
    def head(self) -> int | None:
        """Its newest snapshot."""
        return self.table().state.current_snapshot_id

    def ask(
        self,
        sql: str,
        token: Sequence[Seam] = (),
        now: datetime.datetime = NOW,
        *,
        changed_from: Sequence[Seam] = (),
        freshness: Freshness = LATEST,
    ) -> list[Row]:
        """The rows of a query on DuckDB, sorted."""
        parsed = parse.parse(sql)
        assert isinstance(parsed, parse.Query)
        session = resolution.session(self.connections.config)
        request = QueryRequest(
            parsed.tree,
            session,
            DUCKDB,
            tuple(token),
            NOTHING,
            now,
            freshness,
            read_token=lambda _: changed_from,
        )
        running = self._queries.start(request, NEVER, lambda _: None)
        found = [tuple(row.values()) for batch in running.batches for row in batch.to_pylist()]
        return in_order(found)


def in_order(rows: Iterable[Row]) -> list[Row]:
    """The rows in an order that nulls have a place in."""
    return sorted(rows, key=repr)


def model(log: MemoryLog, ends: Mapping[int, int] | None = None) -> dict[int, Row]:
    """The users below the ends, by their ids: (name, score)."""
    found: dict[int, Row] = {}
    bounds = log.bounds([TOPIC], "read_committed", NEVER)[TOPIC]
    stops = bounds.end if ends is None else ends
    ranges = [
        OffsetRange(p, bounds.start[p], end) for p, end in stops.items() if end > bounds.start[p]
    ]
    for raw in log.read(TOPIC, ranges, "read_committed", NEVER):
        for key, value in zip(raw.keys, raw.values, strict=True):
            body = None if value is None else json.loads(value)
            if key is None:
                assert body == {"op": "t"}
                found.clear()
                continue
            id_ = int.from_bytes(key, "big") if len(key) == _INT64 else int(key)
            body = body.get("after") if body is not None and "op" in body else body
            if body is None or body.get(MARK) in ("true", 1):
                found.pop(id_, None)
            else:
                found[id_] = (body["name"], body["score"])
    return found
