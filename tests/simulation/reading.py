"""Statements read by the product's own path: `Queries`, `Gatherer`, the planner and `Executor`.

Only the two ends differ. Statements are bound once and then kept, since the schema stays;
and the engine gives the rows it was handed instead of computing with them, so that the oracle sees
exactly what an engine would see: the rows of the planned files and of the tails, per reference.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import pyarrow as pa
from fakes.memory import EXTRA, Row, Untimed, is_within, shown
from sqlglot import exp

from seamline.connectors.config import CatalogConfig, ClusterConfig
from seamline.connectors.kafka.tail import Looked, Tail, read_tail
from seamline.connectors.protocols.catalogs import Catalog
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.engines import Engine, EngineQuery, EngineScan, ResultStream
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.gateway.access.rights import OPERATOR, Rights
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.silent import Silent
from seamline.gateway.config.model import Config
from seamline.gateway.query.gather import Gatherer, ReadToken, no_tokens
from seamline.gateway.query.loaded import LastSeen, LoadedTables
from seamline.gateway.query.queries import Queries, QueryRequest
from seamline.gateway.query.run import Executor
from seamline.gateway.query.tokens import NOTHING, After
from seamline.gateway.statements.freshness import LATEST, Freshness
from seamline.gateway.statements.spool import ResultSpool
from seamline.gateway.tail.followers import Followers
from seamline.gateway.tail.requests import TailReader
from seamline.planners.plan.route import DUCKDB, Limits
from seamline.seam.offsets import OffsetRange
from seamline.seam.records import DecoderSpec
from seamline.seam.seam import Seam
from seamline.sql.binder.qualify import BoundQuery, Relation, qualify
from seamline.sql.parsing import parse
from simulation.following import rows_of
from simulation.world import CATALOG, CLUSTER

CONFIG = Config(
    catalogs={CATALOG: CatalogConfig(name=CATALOG, type="in-memory")},
    clusters={CLUSTER: ClusterConfig(name=CLUSTER, bootstrap_servers="nowhere")},
    default_catalog=CATALOG,
    default_cluster=CLUSTER,
)
SESSION = resolution.session(CONFIG)
LIMITS = Limits(duckdb_cold_bytes_max=2**60, duckdb_tail_rows_max=2**60, spark=False)

_COLUMNS = "_kafka_partition, _kafka_offset, value"
ALL = f"SELECT {_COLUMNS} FROM orders"
TWICE = f"SELECT * FROM ({ALL}) UNION ALL SELECT * FROM ({ALL})"
TIERS = " UNION ALL ".join(
    f'SELECT {_COLUMNS} FROM "{name}"' for name in ("orders", "orders$cold", "orders$hot")
)
FROM_1 = f"{ALL} WHERE _kafka_offset >= 1"
CHANGES = f"SELECT {_COLUMNS} FROM TABLE(changes('orders', 'earlier', 'later'))"
ON_1 = f"{ALL} WHERE _kafka_partition = 1"
STATEMENTS = (ALL, TWICE, TIERS, FROM_1, ON_1)
PARTS: Mapping[str, Callable[[int, int], bool]] = {
    FROM_1: lambda _, offset: offset >= 1,
    ON_1: lambda partition, _: partition == 1,
}
"""Statements that ask for a part of the log, and whether they ask for a partition's offset."""


def at_moment(moment_ms: int, statement: str = ALL) -> str:
    """The statement that reads a table as it was."""
    moment = datetime.datetime.fromtimestamp(moment_ms / 1000, datetime.UTC)
    return f"{statement} FOR TIMESTAMP AS OF TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f} UTC'"


class Sources(NamedTuple):
    """What statements are read from: one catalog, one cluster."""

    own_catalog: Catalog
    own_log: HotLog

    @property
    def config(self) -> Config:
        """See `Sources.config`."""
        return CONFIG

    @property
    def rights(self) -> Rights:
        """See `Sources.rights`."""
        return OPERATOR

    @property
    def silent(self) -> Silent:
        """See `Sources.silent`."""
        return Silent()

    def cold(self, name: str) -> Catalog:
        """See `Sources.cold`."""
        assert name == CATALOG
        return self.own_catalog

    def log(self, name: str) -> HotLog:
        """See `Sources.log`."""
        assert name == CLUSTER
        return self.own_log


class Answer(NamedTuple):
    """What a statement gave.

    Attributes:
        scans: The rows of each reference.
        seams: The seam of each table, once.
        retries: How often everything was read again.
    """

    scans: tuple[tuple[Row, ...], ...]
    seams: tuple[Seam, ...]
    retries: int

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the first reference."""
        return self.scans[0]

    @property
    def seam(self) -> Seam:
        """The seam of the first table."""
        return self.seams[0]


ValueOf = Callable[[bytes | None, bytes | None], Any]
Open = Callable[[str], tuple[Row, ...]]
"""Gives the rows of a cold file."""


class RowsEngine:
    """An engine whose result is its input, reference by reference."""

    name = DUCKDB

    def __init__(self, open_file: Open) -> None:
        self.open = open_file

    def run(self, query: EngineQuery, deadline: Deadline) -> ResultStream:
        """See `Engine.run`."""
        scans = [tuple(self.rows(scan, query.tails)) for scan in query.scans]
        return ResultStream(query.schema, cast("Any", iter([tuple(scans)])))

    def rows(self, scan: EngineScan, tails: Mapping[str, Any]) -> list[Row]:
        """The rows of a reference."""
        rows = self.cold_rows(scan)
        if scan.tail is not None:
            rows += rows_of(tails[scan.tail])
        return rows

    def cold_rows(self, scan: EngineScan) -> list[Row]:
        """Those of them that are in files."""
        rows: list[Row] = []
        for file in scan.cold.files if scan.cold is not None else ():
            rows += self.open(file.path)
        span = scan.cold_span
        return rows if span is None else [row for row in rows if is_within(row, span)]


def read(
    sources: Sources,
    open_file: Open,
    statement: str = ALL,
    *,
    token: Sequence[Seam] = (),
    after: After = NOTHING,
    deadline: Deadline | None = None,
    last: LastSeen | None = None,
    now_ms: int = 0,
    read_token: ReadToken = no_tokens,
    engine: Engine | None = None,
    value_of: ValueOf = lambda _, value: value,
    sees_gaps: bool = True,
    followers: Followers | None = None,
    freshness: Freshness = LATEST,
) -> Answer:
    """Runs a statement as the gateway does.

    Args:
        sources: Catalog and log.
        open_file: Gives the rows of a cold file.
        statement: Its text.
        token: Seams to repeat.
        after: What it must not fall behind.
        deadline: Its deadline.
        last: What the gateway has seen of its tables.
        now_ms: The time it is asked.
        read_token: Gives the seams of the tokens in its text.
        engine: Runs it; one that gives its input, if left out.
        value_of: What a record of a key and a value is in the rows of a tail.
        sees_gaps: Whether it is noted which offsets of a tail have records.
        followers: Those of the gateway, if it has any.
        freshness: How fresh the answer must be.

    Raises:
        SeamlineError: as the gateway would.
    """
    executor = Executor(
        sources,
        {DUCKDB: engine or RowsEngine(open_file)},
        tail_bytes_max=2**60,
        tail_rows_max=2**60,
        spool=_no_spool,
        followers=followers,
        read_tail=_tail_reader(value_of, sees_gaps=sees_gaps, is_arrow=followers is not None),
    )
    loaded = LoadedTables(sources, last) if last is not None else None
    gatherer = Gatherer(sources, executor.tails, loaded=loaded)
    queries = Queries(gatherer, executor, LIMITS, qualify=_qualify)
    now = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
    request = QueryRequest(
        _tree(statement), SESSION, DUCKDB, token, after, now, freshness, read_token=read_token
    )
    running = queries.start(request, deadline or Untimed(), lambda _: None)
    (scans,) = cast("list[tuple[tuple[Row, ...], ...]]", list(running.batches))
    seams = running.planned.plan.seams
    return Answer(_in_columns(scans, seams[0].schema_id), seams, running.retries)


def _in_columns(scans: tuple[tuple[Row, ...], ...], version: int) -> tuple[tuple[Row, ...], ...]:
    """The rows in the columns of a schema, as files of later ones are read."""
    if not any(isinstance(r[2], bytes) and r[2].endswith(b"+") for scan in scans for r in scan):
        return scans
    return tuple(tuple((p, o, shown(v, version), b) for p, o, v, b in scan) for scan in scans)


def _no_spool(schema: pa.Schema) -> ResultSpool:
    raise AssertionError("every tail is read here")


def _tail_reader(value_of: ValueOf, *, sees_gaps: bool, is_arrow: bool) -> TailReader:
    """`read_tail` with rows for Arrow, except where followers may have the rest of a tail."""

    def read_rows(
        log: HotLog,
        ranges: Sequence[OffsetRange],
        isolation: str,
        spec: DecoderSpec,
        names: Sequence[str],
        deadline: Deadline,
        *,
        size_bytes_max: int,
        add_bytes: Callable[[int], None],
        epochs: Mapping[int, int] | None = None,
    ) -> Tail:
        version = sum(column.name.startswith(EXTRA) for column in spec.columns)
        if is_arrow and not version:
            return read_tail(
                *(log, ranges, isolation, spec, names, deadline),
                size_bytes_max=size_bytes_max,
                add_bytes=add_bytes,
                epochs=epochs,
            )
        looked = Looked(ranges if spec.primary_key and sees_gaps else ())
        rows: list[Row] = []
        for raw in log.read(spec.topic, ranges, isolation, deadline, epochs=epochs):
            looked.at(raw)
            rows += [
                (partition, offset, value_of(key, shown(value, version)), None)
                for partition, offset, key, value in zip(
                    raw.partitions, raw.offsets, raw.keys, raw.values, strict=True
                )
            ]
        return Tail(cast("Any", rows), len(rows), 0, 0, seen=looked.seen)

    return read_rows


@functools.lru_cache(maxsize=1024)
def _tree(statement: str) -> exp.Expr:
    parsed = parse.parse(statement)
    assert isinstance(parsed, parse.Query)
    return parsed.tree


_bound: dict[tuple[int, ...], tuple[Any, BoundQuery]] = {}


def _qualify(
    tree: exp.Expr,
    relations: Sequence[Relation],
    *,
    now: datetime.datetime,
    user: str = "",
    session: tuple[str, str] = ("", ""),
    zone: str = "UTC",
    groups: Sequence[str] = (),
) -> BoundQuery:
    """`qualify`, once for each statement and schema."""
    key = (id(tree), *(id(relation.columns) for relation in relations))
    found = _bound.get(key)
    if found is None:
        kept_alive = (tree, tuple(relation.columns for relation in relations))
        bound = qualify(tree, relations, now=now, user=user, session=session, zone=zone)
        found = _bound[key] = (kept_alive, bound)
    return found[1]
