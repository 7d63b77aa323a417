"""The product broken on purpose, one mistake each: the checks must notice every one.

A mutant is a `Product` with one function replaced by the real one behind something that bends what
goes in or comes out of a Protocol. The list opens with the mistakes that are made most often.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fakes.forwarding import ForwardingLog
from fakes.memory import Row, Untimed

from seamline.connectors.confirmed_ends import ConfirmedEnds
from seamline.connectors.protocols.cold_tables import TierTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.gateway.query.tokens import NOTHING, After
from seamline.gateway.tail.follower import Follower
from seamline.gateway.tail.source import FollowedTable
from seamline.gateway.tiering.step import resume, tier_once
from seamline.seam.boundary import SUMMARY_KEY, TAG, Boundary, boundary_of, decode, encode, own_of
from seamline.seam.hands import handed_over, taken_over
from seamline.seam.log import READ_UNCOMMITTED, LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.seam import Seam
from seamline.seam.table import Snapshot, SnapshotRef, TableState
from seamline.seam.tiering import Batch, Step
from simulation.following import OneThread
from simulation.product import Product
from simulation.reading import ALL, CHANGES, TWICE, Answer, Open, Sources, read
from simulation.world import TOPIC


class BentLog(ForwardingLog[HotLog]):
    """`HotLog` over another, with its answers bent."""

    def __init__(
        self,
        inner: HotLog,
        *,
        bounds: Callable[[LogBounds], LogBounds] = lambda b: b,
        wanted: Callable[[OffsetRange, HotLog], OffsetRange] = lambda r, _: r,
        isolation: str | None = None,
    ) -> None:
        super().__init__(inner)
        self._bend = bounds
        self._wanted = wanted
        self._isolation = isolation
        self._confirmed_ends = ConfirmedEnds()

    @property
    def confirmed_ends(self) -> ConfirmedEnds:
        """See `HotLog.confirmed_ends`; those of the log say nothing of bent answers."""
        return self._confirmed_ends

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        """See `HotLog.bounds`."""
        found = self._inner.bounds(topics, self._isolation or isolation, deadline)
        return {
            topic: dataclasses.replace(self._bend(answer), isolation=isolation)
            for topic, answer in found.items()
        }

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
        """See `HotLog.read`."""
        bent = [self._wanted(r, self._inner) for r in ranges]
        yield from self._inner.read(
            topic, bent, self._isolation or isolation, deadline, max_records=max_records
        )


class BentCatalog:
    """`Catalog` whose tables have bent metadata."""

    def __init__(self, inner: Any, bend: Callable[[TableState, Any], TableState]) -> None:
        self.name = inner.name
        self._inner = inner
        self._bend = bend
        self.namespaces, self.tables = inner.namespaces, inner.tables

    def load(self, identifier: tuple[str, ...]) -> Any:
        """See `Catalog.load`."""
        table = self._inner.load(identifier)
        table.state = self._bend(table.state, table)
        return table


def _reads(
    log: Callable[[HotLog], Any] | None = None,
    catalog: Callable[[Any], Any] | None = None,
) -> Product:
    def bent(sources: Sources, open_file: Open, statement: str, **how: Any) -> Answer:
        own = Sources(
            catalog(sources.own_catalog) if catalog else sources.own_catalog,
            log(sources.own_log) if log else sources.own_log,
        )
        return read(own, open_file, statement, **how)

    return Product(read=bent)


def _bounds(bend: Callable[[LogBounds], LogBounds]) -> Product:
    return _reads(lambda inner: BentLog(inner, bounds=bend))


def _with_boundary(
    state: TableState, bend: Callable[[Offsets], Offsets], *, only_unmarked: bool = False
) -> TableState:
    """The state with another boundary on its head."""
    head = state.snapshots[state.current_snapshot_id or 0]
    if only_unmarked and SUMMARY_KEY in head.summary:
        return state
    boundary = boundary_of(state, head.snapshot_id)
    text = encode(dataclasses.replace(boundary, next=bend(boundary.next)))
    marked: Snapshot = dataclasses.replace(head, summary={**head.summary, SUMMARY_KEY: text})
    return dataclasses.replace(state, snapshots={**state.snapshots, head.snapshot_id: marked})


def _boundary(bend: Callable[[Offsets], Offsets], *, only_unmarked: bool = False) -> Product:
    def bent(state: TableState, _: Any) -> TableState:
        return _with_boundary(state, bend, only_unmarked=only_unmarked)

    return _reads(catalog=lambda inner: BentCatalog(inner, bent))


def _added(number: int) -> Callable[[Offsets], Offsets]:
    return lambda offsets: Offsets({p: max(0, o + number) for p, o in offsets.items()})


def _per_reference(sources: Sources, open_file: Open, statement: str, **how: Any) -> Answer:
    if statement != TWICE:
        return read(sources, open_file, statement, **how)
    first = read(sources, open_file, ALL, **how)
    second = read(sources, open_file, ALL, **how)
    return Answer((first.rows, second.rows), first.seams, 0)


def _counted(wanted: OffsetRange, inner: HotLog) -> OffsetRange:
    """A range that ends when as many records have come as it has offsets."""
    bounds = inner.bounds([TOPIC], "read_committed", Untimed())[TOPIC]
    end = bounds.end.get(wanted.partition, wanted.end_exclusive)
    left, last = len(wanted), wanted.end_exclusive
    whole = OffsetRange(wanted.partition, wanted.start, end)
    for raw in inner.read(TOPIC, [whole], "read_committed", Untimed()):
        for offset in raw.offsets:
            if left > 0:
                left, last = left - 1, offset + 1
    return OffsetRange(wanted.partition, wanted.start, max(last, wanted.end_exclusive))


def _earliest(wanted: OffsetRange, inner: HotLog) -> OffsetRange:
    start = inner.bounds([TOPIC], "read_committed", Untimed())[TOPIC].start
    first = max(wanted.start, start.get(wanted.partition, 0))
    return OffsetRange(wanted.partition, first, max(first, wanted.end_exclusive))


def _from_rows(state: TableState, table: Any) -> TableState:
    """The boundary taken from the rows of the files that are planned for `_kafka_offset >= 1`."""
    inner = table
    while not hasattr(inner, "table"):
        inner = inner._inner
    found: dict[int, int] = {}
    for partition, offset, *_ in inner.table.records(state.current_snapshot_id):
        if partition is not None and offset:
            found[partition] = max(found.get(partition, 0), offset + 1)
    return _with_boundary(state, lambda offsets: Offsets(found))


def _frozen() -> Callable[[Any], Any]:
    def first_state(inner: Any) -> Any:
        seen: list[TableState] = []

        def bend(state: TableState, _: Any) -> TableState:
            seen.append(state)
            return seen[0]

        return BentCatalog(inner, bend)

    return first_state


def _without(name: str) -> Product:
    def bent(sources: Sources, open_file: Open, statement: str, **how: Any) -> Answer:
        after: After = how.get("after", NOTHING)
        if name == "token":
            how["token"] = ()
        elif name == "writes":
            how["after"] = dataclasses.replace(after, writes=())
        else:
            how["after"] = dataclasses.replace(after, seen=())
        return read(sources, open_file, statement, **how)

    return Product(read=bent)


class BentTierTable:
    """`TierTable` over another, whose commits are the mutant's."""

    def __init__(
        self,
        inner: Any,
        *,
        rows: Callable[[Any, Batch], None] | None = None,
        boundary: Callable[[Any, Batch], None] | None = None,
    ) -> None:
        self._inner = inner
        self._rows, self._boundary = rows, boundary
        self.load, self.has_rows = inner.load, inner.has_rows
        self.keep, self.take_back, self.evolve = inner.keep, inner.take_back, inner.evolve
        self.require_single_writer = inner.require_single_writer

    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`."""
        if self._rows is None:
            self._inner.commit_rows(batch)
        else:
            self._rows(_memory_table(self._inner), batch)

    def commit_boundary(self, batch: Batch) -> None:
        """See `TierTable.commit_boundary`."""
        if self._boundary is None:
            self._inner.commit_boundary(batch)
        else:
            self._boundary(_memory_table(self._inner), batch)


def _memory_table(inner: Any) -> Any:
    while hasattr(inner, "_inner"):
        inner = inner._inner
    return inner


def _append(table: Any, batch: Batch, *, marked: bool = True) -> None:
    """Rows appended without asking whether another batch has landed."""
    rows = table.read_rows(batch, Untimed())
    summary = {SUMMARY_KEY: encode(batch.boundary)} if marked else {}
    table._commit("append", table._files(table.state.current_snapshot_id), rows, summary)


def _tiers(
    *,
    rows: Callable[[Any, Batch], None] | None = None,
    boundary: Callable[[Any, Batch], None] | None = None,
    bend: Callable[[HotLog], Any] | None = None,
) -> Product:
    def bent(table: TierTable, log: HotLog, deadline: Deadline, *, records_max: int) -> Step:
        return tier_once(
            BentTierTable(table, rows=rows, boundary=boundary),
            bend(log) if bend else log,
            deadline,
            records_max=records_max,
        )

    return Product(tier=bent)


def _resumes(
    *,
    boundary: Callable[[Any, Batch], None] | None = None,
    bend: Callable[[HotLog], Any] = lambda inner: inner,
) -> Product:
    def bent(table: TierTable, log: HotLog, deadline: Deadline, **how: Any) -> Boundary:
        return resume(BentTierTable(table, boundary=boundary), bend(log), deadline, **how)

    return Product(resume=bent)


def _without_gaps(table: Any, batch: Batch) -> None:
    """A loss that is accepted, and not written down."""
    boundary = dataclasses.replace(batch.boundary, gaps=())
    table.commit_boundary(dataclasses.replace(batch, boundary=boundary))


def _from_batch_0(table: Any, batch: Batch) -> None:
    """Another log whose batches count from 0 again, like those of the earlier one."""
    boundary = dataclasses.replace(batch.boundary, first_batch=0)
    table.commit_boundary(dataclasses.replace(batch, boundary=boundary))


def _trusting_the_newest(table: TierTable, log: HotLog, deadline: Deadline, **how: Any) -> Boundary:
    """Goes on with another log after a batch that nobody may have checked."""
    bent = BentTierTable(table)

    def load() -> TableState:
        state = table.load()
        head = SnapshotRef(state.current_snapshot_id or 0, "tag")
        return dataclasses.replace(state, refs={**state.refs, TAG: head})

    bent.load = load
    return resume(bent, log, deadline, **how)


def _of_one_log(state: TableState, _: Any) -> TableState:
    """The state as if all of its rows were of one log."""

    def bent(snapshot: Snapshot) -> Snapshot:
        boundary = decode(snapshot)
        if boundary is None or not boundary.first_batch:
            return snapshot
        text = encode(dataclasses.replace(boundary, first_batch=0))
        return dataclasses.replace(snapshot, summary={**snapshot.summary, SUMMARY_KEY: text})

    return dataclasses.replace(state, snapshots={i: bent(s) for i, s in state.snapshots.items()})


def _one_past_the_start(bounds: LogBounds) -> LogBounds:
    start = {p: min(o + 1, bounds.end[p]) for p, o in bounds.start.items()}
    return dataclasses.replace(bounds, start=Offsets(start))


def _before_columns(table: TierTable, log: HotLog, deadline: Deadline, *, records_max: int) -> Step:
    """Batches whose records have columns that the table lacks, which are left out."""

    def cut(inner: Any, batch: Batch) -> tuple[Row, ...]:
        found: tuple[Row, ...] = inner.read_rows(batch, Untimed(), is_cut=True)
        return found

    bent = BentTierTable(
        table, rows=lambda inner, batch: inner.write_rows(batch, cut(inner, batch))
    )
    bent.has_rows = lambda batch, _: bool(cut(_memory_table(table), batch))
    return tier_once(bent, log, deadline, records_max=records_max)


def _known_partitions(bounds: LogBounds) -> LogBounds:
    def first_two(offsets: Offsets) -> Offsets:
        return Offsets({p: o for p, o in offsets.items() if p < 2})

    return dataclasses.replace(
        bounds,
        start=first_two(bounds.start),
        end=first_two(bounds.end),
        high_watermark=first_two(bounds.high_watermark),
    )


def _to_high_watermark(bounds: LogBounds) -> LogBounds:
    return dataclasses.replace(bounds, end=bounds.high_watermark)


def _never_trimmed(bounds: LogBounds) -> LogBounds:
    return dataclasses.replace(bounds, start=Offsets(dict.fromkeys(bounds.start, 0)))


class _Trusting(BentCatalog):
    """A catalog whose tables treat every writer as their only one."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner, lambda state, _: state)

    def load(self, identifier: tuple[str, ...]) -> Any:
        """See `Catalog.load`."""
        table = super().load(identifier)
        table.require_single_writer = lambda _: None
        return table


def _without_provider(state: TableState, _: Any) -> TableState:
    return dataclasses.replace(state, provider=None)


class _SpeakingOfAll:
    """A provider that does not say where its writer has begun."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.start = Offsets()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _speaking_of_all(state: TableState, _: Any) -> TableState:
    if state.provider is None:
        return state
    return dataclasses.replace(state, provider=_SpeakingOfAll(state.provider))


class _OursAlone(BentTierTable):
    """A table that is tiered whoever fills it."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.load = lambda: dataclasses.replace(inner.load(), provider=None)
        self.require_single_writer = lambda _: None


def _tier_anything(table: TierTable, log: HotLog, deadline: Deadline, *, records_max: int) -> Step:
    return tier_once(_OursAlone(table), log, deadline, records_max=records_max)


def _where_we_had_stopped(state: TableState, bounds: LogBounds) -> Boundary:
    own = own_of(state, state.current_snapshot_id)
    taken = taken_over(state, bounds)
    return taken if own is None else dataclasses.replace(taken, next=own.next)


def _one_too_high(state: TableState, bounds: LogBounds) -> Boundary:
    taken = taken_over(state, bounds)
    return dataclasses.replace(taken, next=_added(1)(taken.next))


def _forgetful(state: TableState, bounds: LogBounds) -> Boundary:
    return dataclasses.replace(taken_over(state, bounds), taken_id=None)


def _silent(state: TableState, bounds: LogBounds, provider: str) -> Boundary:
    return dataclasses.replace(handed_over(state, bounds, provider), handed_to="")


def _begins_one_earlier(sources: Sources, open_file: Open, statement: str, **how: Any) -> Answer:
    """Changes that begin with the last record of the earlier read."""
    if statement != CHANGES:
        return read(sources, open_file, statement, **how)

    def bent(text: str) -> list[Seam]:
        seams = how["read_token"](text)
        if text != "earlier":
            return list(seams)
        return [dataclasses.replace(seam, end=_added(-1)(seam.end)) for seam in seams]

    return read(sources, open_file, statement, **{**how, "read_token": bent})


def _follows(bend: Callable[[Any], None]) -> Product:
    """A gateway whose followers are bent."""

    class Bent(OneThread):
        def follow(self, table: FollowedTable, *how: Any) -> Follower | None:
            before = self.find(table.uuid)
            found = super().follow(table, *how)
            if found is not None and found is not before:
                bend(found)
            return found

    return Product(follow=Bent)


def _never_confirmed(follower: Any) -> None:
    follower.confirm = lambda *_: None


def _confirmed_for_ever(follower: Any) -> None:
    partitions = follower._partitions
    partitions.confirmed_under = lambda _: partitions.confirmed()


def _only_rows_confirmed(follower: Any) -> None:
    take, confirm = follower.take, follower.confirm
    taken: list[Any] = []

    def taking(ranges: Sequence[OffsetRange]) -> Any:
        taken.append(take(ranges))
        return taken[-1]

    follower.take = taking
    follower.confirm = lambda *how: confirm(*how) if taken[-1].slices else None


def _published_as(bend: Callable[[Any, Any], Any]) -> Callable[[Any], None]:
    def bent(follower: Any) -> None:
        publish = follower.publish
        follower.publish = lambda read: publish(bend(follower, read))

    return bent


def _of_the_newest_record(_: Any, read: Any) -> Any:
    return dataclasses.replace(read, gaps=None)


def _of_the_present_leader(follower: Any, read: Any) -> Any:
    return dataclasses.replace(read, leader=follower.leaders.get(read.covers.partition))


def _of_whoever_wrote_it(follower: Any, read: Any) -> Any:
    cached = follower._partitions._by_number.get(read.covers.partition)
    if cached is None or read.leader is None or (read.record_epoch or 0) <= read.leader:
        return read
    cached.leader = read.record_epoch
    return dataclasses.replace(read, leader=read.record_epoch)


MUTANTS: Mapping[str, Product] = {
    "boundary one too high": _boundary(_added(1)),
    "boundary one too low": _boundary(_added(-1)),
    "end included (<= for <)": _reads(
        lambda inner: BentLog(
            inner, wanted=lambda r, _: OffsetRange(r.partition, r.start, r.end_exclusive + 1)
        )
    ),
    "boundary of the newest snapshot only": _boundary(lambda _: Offsets(), only_unmarked=True),
    "one seam per reference": Product(read=_per_reference),
    "read uncommitted": _reads(lambda inner: BentLog(inner, isolation=READ_UNCOMMITTED)),
    "no check of the topic id": _bounds(lambda b: dataclasses.replace(b, topic_id="topic-1")),
    "new partitions skipped": _bounds(_known_partitions),
    "batch replayed": _tiers(rows=_append),
    "fallback to earliest": _reads(
        lambda inner: BentLog(inner, bounds=_never_trimmed, wanted=_earliest)
    ),
    "records counted instead of positions": _reads(lambda inner: BentLog(inner, wanted=_counted)),
    "boundary from the planned files": _reads(catalog=lambda inner: BentCatalog(inner, _from_rows)),
    "table never loaded afresh": _reads(catalog=_frozen()),
    "high watermark for the stable end": _bounds(_to_high_watermark),
    "token ignored": _without("token"),
    "changes with the last record before them": Product(read=_begins_one_earlier),
    "session ignored": _without("seen"),
    "write token ignored": _without("writes"),
    "rows committed without the boundary": _tiers(
        rows=lambda table, batch: _append(table, batch, marked=False)
    ),
    "progress without rows not published": _tiers(boundary=lambda _table, _batch: None),
    "boundary committed without the rows": _tiers(
        rows=lambda table, batch: table.commit_without_rows({SUMMARY_KEY: encode(batch.boundary)})
    ),
    "a batch is committed before its columns": Product(tier=_before_columns),
    "tiering reads past the stable end": _tiers(
        bend=lambda inner: BentLog(inner, bounds=_to_high_watermark)
    ),
    "a second writer is not noticed": _reads(catalog=_Trusting),
    "another writer is not asked how far he is": _reads(
        catalog=lambda inner: BentCatalog(inner, _without_provider)
    ),
    "tables of others are tiered": Product(tier=_tier_anything),
    "taken over where we had stopped": Product(take_over=_where_we_had_stopped),
    "taken over one too high": Product(take_over=_one_too_high),
    "taken over, and his commits are called a second writer's": Product(take_over=_forgetful),
    "handed over without saying so": Product(hand_over=_silent),
    "what is cached is not confirmed": _follows(_never_confirmed),
    "markers are of the newest record's leader": _follows(_published_as(_of_the_newest_record)),
}
"""Every mutant by its mistake."""

RARE_MUTANTS: Mapping[str, Product] = {
    "the writer of now speaks of all snapshots": _reads(
        catalog=lambda inner: BentCatalog(inner, _speaking_of_all)
    ),
    "what was confirmed is so under another leader": _follows(_confirmed_for_ever),
    "where no rows are cached nothing is confirmed": _follows(_only_rows_confirmed),
    "what a former leader was asked for is the present one's": _follows(
        _published_as(_of_the_present_leader)
    ),
    "records of a newer leader continue those of a former one": _follows(
        _published_as(_of_whoever_wrote_it)
    ),
    "a loss is accepted and not recorded": _resumes(boundary=_without_gaps),
    "the boundary is raised past the start of the log": _resumes(
        bend=lambda inner: BentLog(inner, bounds=_one_past_the_start)
    ),
    "batches of another log count from 0 again": _resumes(boundary=_from_batch_0),
    "offsets of an earlier log are taken for this one's": _reads(
        catalog=lambda inner: BentCatalog(inner, _of_one_log)
    ),
    "another log begins after a batch that nobody checked": Product(resume=_trusting_the_newest),
    "a loss is accepted without a compare-and-swap": _resumes(
        boundary=lambda table, batch: table.commit_without_rows(
            {SUMMARY_KEY: encode(batch.boundary)}
        )
    ),
}
"""Those that few of the drawn histories notice, each with one that failed once."""
