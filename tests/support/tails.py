"""A table's tail over the in-memory log: seams placed by hand, tails asked for, rows compared."""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fakes.memory import MemoryLog

from seamline.connectors.kafka.tail import Tail, read_tail
from seamline.connectors.protocols.catalogs import Catalog
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.gateway.access.rights import OPERATOR
from seamline.gateway.catalogs.silent import Silent
from seamline.gateway.config.model import Config
from seamline.gateway.tail.followers import Budget, Followers
from seamline.gateway.tail.tails import Tails
from seamline.planners.plan.physical import TailRead
from seamline.seam.log import READ_COMMITTED
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import DecoderSpec
from seamline.seam.seam import ColdPart, LogPart, Seam
from seamline.sql import columns as names
from seamline.sql import types
from seamline.sql.predicates import Predicate
from seamline.sql.types import Field

COLUMNS = (Field("id", types.BIGINT, 1), Field("text", types.VARCHAR, 2))
TOPIC = "t"
NEVER = NoDeadline()


def value(number: int, text: str = "x") -> bytes:
    """A record's value."""
    return json.dumps({"id": number, "text": text}).encode()


def decoder(on_error: str = "fail", columns: Sequence[Field] = COLUMNS) -> DecoderSpec:
    """How the records of the table are decoded."""
    return DecoderSpec(TOPIC, "json", on_error, (*columns, *names.METADATA_FIELDS))


class OneLog:
    """Sources of which only the log of one cluster is ever asked for."""

    rights = OPERATOR
    silent = Silent()

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    @property
    def config(self) -> Config:
        """See `Sources.config`."""
        raise NotImplementedError

    def cold(self, name: str) -> Catalog:
        """See `Sources.cold`."""
        raise NotImplementedError

    def log(self, name: str) -> MemoryLog:
        """See `Sources.log`."""
        assert name == "memory"
        return self._log


class MemoryTail:
    """A topic, and the tails of a table over it.

    Args:
        directory: Where segments are spilled.
        readers: Threads of each follower; with 0, waiting does the work.
        memory_bytes: Budget.
        disk_bytes: Budget.
        partitions: Of the topic.
        on_error: The table's policy.
        follow: Whether there are followers at all.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        *,
        readers: int = 0,
        memory_bytes: int = 1 << 30,
        disk_bytes: int = 1 << 30,
        idle_seconds: float = 600.0,
        partitions: int = 2,
        on_error: str = "fail",
        follow: bool = True,
        log: MemoryLog | None = None,
    ) -> None:
        self.log = log or MemoryLog()
        if log is None:
            self.log.create_topic(TOPIC, partitions)
        self.spec = decoder(on_error)
        self.boundary = Offsets(dict.fromkeys(range(partitions), 0))
        self.schema_id = 0
        budget = Budget(memory_bytes, disk_bytes, idle_seconds)
        self.followers = (
            Followers(lambda _: self.log, budget, directory / "tail", readers=readers)
            if follow
            else None
        )
        self.tails = Tails(
            OneLog(self.log), self.followers, size_bytes_max=1 << 30, offsets_max=1_000_000
        )

    def close(self) -> None:
        """Stops the followers."""
        if self.followers is not None:
            self.followers.close()

    def seam(self, table: str = TOPIC) -> tuple[Seam, float]:
        """The table's present seam, and a moment before it was placed."""
        asked_at = time.monotonic()
        bounds = self.log.bounds([TOPIC], READ_COMMITTED, NEVER)[TOPIC]
        starts = {p: self.boundary.get(p, 0) for p in bounds.end}
        ends = {p: max(starts[p], end) for p, end in bounds.end.items()}
        seam = Seam(
            table=("lake", "default", table),
            table_uuid=f"uuid-{table}",
            schema_id=self.schema_id,
            cold=ColdPart(1),
            log=LogPart(
                cluster="memory",
                topic=TOPIC,
                topic_id=bounds.topic_id,
                isolation=READ_COMMITTED,
                end_epochs=bounds.leader_epochs,
            ),
            boundary=Offsets(starts),
            end=Offsets(ends),
        )
        return seam, asked_at

    def request(
        self,
        seam: Seam | None = None,
        ranges: Sequence[OffsetRange] | None = None,
        predicate: Predicate | None = None,
        wanted: Sequence[str] = ("id", "text", names.PARTITION, names.OFFSET),
        table: str = TOPIC,
    ) -> TailRead:
        """A request for the tail of a seam, the present one unless told otherwise."""
        present, asked_at = self.seam(table)
        used = present if seam is None else seam
        return TailRead(
            seam=used,
            ranges=used.hot_ranges if ranges is None else tuple(ranges),
            decoder=self.spec,
            columns=tuple(wanted),
            predicate=predicate,
            present=seam is None,
            known_at=asked_at,
            asked_at=asked_at,
        )

    def read(self, request: TailRead | None = None) -> Tail:
        """The tail of a request; whoever keeps it releases it."""
        return self.tails.get(request or self.request(), NEVER)

    def rows(self, request: TailRead | None = None) -> list[dict[str, Any]]:
        """The rows of a request, in order."""
        tail = self.read(request)
        try:
            return rows_of(tail)
        finally:
            tail.release()

    def direct(self, request: TailRead) -> Tail:
        """The same read from the log alone."""
        return read_tail(
            self.log,
            request.ranges,
            request.seam.log.isolation,
            request.decoder,
            request.columns,
            NEVER,
            size_bytes_max=1 << 30,
        )


def rows_of(tail: Tail) -> list[dict[str, Any]]:
    """The rows of a tail, those in files too, by partition and offset."""
    tables = [tail.rows, *(_file_rows(tail, number) for number in range(len(tail.files)))]
    rows: list[dict[str, Any]] = pa.concat_tables(tables, promote_options="default").to_pylist()
    return sorted(rows, key=_place)


def _file_rows(tail: Tail, number: int) -> pa.Table:
    file = tail.files[number]
    table = pq.read_table(file.path, partitioning=None)
    offsets = table.column(names.OFFSET)
    inside = pc.and_(pc.greater_equal(offsets, file.start), pc.less(offsets, file.end_exclusive))
    return table.filter(inside).select(tail.rows.column_names)


def _place(row: Mapping[str, Any]) -> tuple[int, int]:
    return row[names.PARTITION], row[names.OFFSET]
