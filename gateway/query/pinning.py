"""Facts, read once: every table a statement names, pinned to one seam each.

The order is the protocol's. Ends of all topics first, then the tables as they are now, then the
boundary of the snapshot to be read; the pure functions of `planners.seam` decide. A table that is
named several times is pinned once. Nothing else of a statement talks to Kafka or a catalog before
its rows are read.
"""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from seamline.connectors.kafka.formats.decoder import DecoderSpec
from seamline.connectors.protocols import ColdTable, Deadline
from seamline.errors import (
    INVALID_CONFIG,
    INVALID_TOKEN,
    READ_CONFLICT,
    TOPIC_NOT_FOUND,
    SeamlineError,
)
from seamline.gateway.commands import system
from seamline.gateway.connections import Sources
from seamline.gateway.query import names
from seamline.gateway.query.freshness import LATEST, Freshness
from seamline.gateway.query.loaded import LoadedTables
from seamline.gateway.query.names import TableName
from seamline.gateway.query.placing import (
    Floor,
    check_remembered,
    seam_of_now,
    wait_until_visible,
)
from seamline.gateway.query.tokens import NOTHING, After
from seamline.gateway.tail.requests import HeldCut
from seamline.gateway.tail.tails import Tails
from seamline.planners.logical import Kind, ScanFacts
from seamline.seam import past, repeat
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import check_columns, cold_side, kept_side
from seamline.seam.checks import dropped, require, rolled_back
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.offsets import OffsetRange
from seamline.seam.seam import Seam, cold_only, hot_only
from seamline.seam.table import TableState
from seamline.sql import columns
from seamline.sql.qualify import Relation, TableReference, TableVersion
from seamline.sql.types import Field

_BOUND_ANEW = frozenset({READ_CONFLICT, TOPIC_NOT_FOUND, INVALID_CONFIG})
"""What a table that was bound to another topic meanwhile may look like at first."""

_OF_THE_TABLE = frozenset({"cold", "snapshots", "files"})
"""Variants of a table that its log has no part in."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pinned:
    """One reference of a statement, with everything known of the table behind it.

    Attributes:
        relation: Its columns.
        facts: Its seam and kind.
        cold: The loaded table, None without a cold side.
        decoder: How its records are decoded, None without a hot side.
        rows: The rows themselves, for tables made of the gateway's own knowledge.
        present: Whether the seam is the table's present one.
        pinned_at: On the monotonic clock, a moment before the table was loaded.
        asked_at: A moment before the log was asked for the ends; None when it was not.
    """

    relation: Relation
    facts: ScanFacts
    cold: ColdTable | None = None
    decoder: DecoderSpec | None = None
    rows: pa.Table | None = None
    present: bool = False
    pinned_at: float = 0.0
    asked_at: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Target:
    name: TableName
    version: TableVersion | None
    token: Seam | None = None

    @property
    def moment(self) -> int | str | datetime.datetime | None:
        return self.version.value if self.version is not None else None


@dataclasses.dataclass(frozen=True, slots=True)
class _Wanted:
    """What one call is to pin, and how; see `Pinner.pin`."""

    targets: Sequence[_Target]
    session: names.Session
    deadline: Deadline
    token: Sequence[Seam] = ()
    after: After = NOTHING
    freshness: Freshness = LATEST


@dataclasses.dataclass(frozen=True, slots=True)
class _Topic:
    cluster: str
    topic: str
    isolation: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Pins:
    """What one call pins with: facts, and what was seen before, by full name of the table."""

    tables: Mapping[TableName, ColdTable]
    bounds: Mapping[_Topic, LogBounds]
    cuts: Mapping[_Target, HeldCut]
    token: Mapping[tuple[str, ...], Seam]
    seen: Mapping[tuple[str, ...], Seam]
    pinned_at: float
    deadline: Deadline


VirtualSeams = Callable[[str, int], Seam | None]
"""The seam behind a virtual snapshot, by the table's id and its own."""


class Pinner:
    """Pins the tables of statements.

    Args:
        connections: Clusters and catalogs.
        tails: Knows how far tables are followed.
        virtual: Knows the virtual snapshots that statements may ask for by their ids.
        loaded: Loads tables; one that remembers none yet when left out.
    """

    def __init__(
        self,
        connections: Sources,
        tails: Tails | None = None,
        virtual: VirtualSeams = lambda _table, _snapshot: None,
        loaded: LoadedTables | None = None,
    ) -> None:
        self._connections = connections
        self._tails = tails
        self._virtual = virtual
        self._loaded = loaded or LoadedTables(connections)

    def pin(
        self,
        references: Sequence[TableReference],
        session: names.Session,
        deadline: Deadline,
        *,
        token: Sequence[Seam] = (),
        after: After = NOTHING,
        freshness: Freshness = LATEST,
    ) -> list[Pinned]:
        """Pins each reference, in order.

        Args:
            references: The tables a statement names.
            session: What the names leave unsaid.
            deadline: The statement's.
            token: Seams to place again; tables they do not name are pinned as they are now.
            after: What tables pinned as they are now must not fall behind.
            freshness: How fresh these must be.

        Raises:
            SeamlineError: named after the cause; see `planners.seam`.
        """
        targets = [self._target(reference, session) for reference in references]
        return self._pin_all(_Wanted(targets, session, deadline, token, after, freshness))

    def pin_table(self, name: TableName, deadline: Deadline) -> Pinned:
        """Pins one table, as it is now.

        Raises:
            SeamlineError: named after the cause; see `planners.seam`.
        """
        session = names.Session(name.catalog, "")
        (pinned,) = self._pin_all(_Wanted([_Target(name, None)], session, deadline))
        return pinned

    def _pin_all(self, wanted: _Wanted) -> list[Pinned]:
        tables = {target.name for target in wanted.targets}
        last = self._loaded.last_seen(tables)
        if last is not None:
            try:
                return self._pin_by(last, wanted)
            except SeamlineError as error:
                if error.code not in _BOUND_ANEW:
                    raise
        return self._pin_by(self._loaded.now(tables), wanted)

    def _pin_by(self, before: Mapping[TableName, ColdTable], wanted: _Wanted) -> list[Pinned]:
        """Pins, asking the topics that the tables were bound to before."""
        after, deadline, freshness = wanted.after, wanted.deadline, wanted.freshness
        targets = [self._with_virtual(target, before) for target in wanted.targets]
        topics = {target: _topic_of(target, before) for target in targets}
        floors = self._floors(topics, wanted.session, after)
        by_token = {entry.table: entry for entry in wanted.token}
        pinned_at = time.monotonic()
        cuts = {}
        if not freshness.asks_log:
            present = [t for t in targets if t.version is None and t.name.full not in by_token]
            cuts = self._cuts(present, before, topics, floors, freshness)
        asked = {topic for target, topic in topics.items() if target not in cuts}
        bounds = self._bounds(asked - {None}, floors, deadline)
        tables = self._loaded.now({target.name for target in targets})
        # a commit that landed after the log was asked may hold records of a topic that was created
        # again since: asked once more, the log says which topic the table now stands on
        moved = {
            topics[target]
            for target in targets
            if _has_moved(before.get(target.name), tables.get(target.name))
        }
        bounds |= self._bounds((moved & asked) - {None}, {}, deadline)
        pins = _Pins(
            tables,
            bounds,
            cuts,
            by_token,
            {entry.table: entry for entry in after.seen},
            pinned_at,
            deadline,
        )
        pinned: dict[_Target, Pinned] = {}
        for target in targets:
            if target not in pinned:
                pinned[target] = self._pin(target, pins)
        return [pinned[target] for target in targets]

    # --- Facts ---------------------------------------------------------------------------------

    def _target(self, reference: TableReference, session: names.Session) -> _Target:
        name = names.resolve(reference.name, session, self._connections)
        return _Target(name, reference.version)

    def _with_virtual(self, target: _Target, tables: Mapping[TableName, ColdTable]) -> _Target:
        """The target; one that asks for a virtual snapshot with the seam behind it."""
        table, wanted = tables.get(target.name), target.moment
        if table is None or not isinstance(wanted, int) or wanted in table.state.snapshots:
            return target
        return dataclasses.replace(target, token=self._virtual(table.state.uuid, wanted))

    def _floors(
        self, asked: Mapping[_Target, _Topic | None], session: names.Session, after: After
    ) -> dict[_Topic, Floor]:
        """How far each topic must be readable before its ends are taken.

        Raises:
            SeamlineError: INVALID_TOKEN when a write token does not say which table it is for,
                and the statement reads several.
        """
        topics = {target.name.full: topic for target, topic in asked.items() if topic is not None}
        floors = {
            topic: Floor(seen=seen)
            for seen in after.seen
            if seen.topic_id and (topic := topics.get(seen.table)) is not None
        }
        for write in after.writes:
            if write.table is None and len(topics) > 1:
                raise SeamlineError(
                    INVALID_TOKEN,
                    "the write token names no table, and the statement reads several",
                    hint="seamline.write_token({partition: offset}, table='…')",
                )
            for full, topic in topics.items():
                if write.table is None or self._is_name_of(write.table, full, session):
                    floors[topic] = floors.get(topic, Floor()).with_write(write.end)
        return floors

    def _is_name_of(self, text: str, full: tuple[str, ...], session: names.Session) -> bool:
        name = names.resolve(names.split(text), session, self._connections)
        return [part.lower() for part in name.full] == [part.lower() for part in full]

    def _cuts(
        self,
        targets: Sequence[_Target],
        tables: Mapping[TableName, ColdTable],
        topics: Mapping[_Target, _Topic | None],
        floors: Mapping[_Topic, Floor],
        freshness: Freshness,
    ) -> dict[_Target, HeldCut]:
        """Ends that need not be asked of the log, for the tables of which enough is held here."""
        found: dict[_Target, HeldCut] = {}
        for target in targets:
            topic = topics[target]
            table = tables.get(target.name)
            decoder = _decoder(table.state) if table is not None else None
            if self._tails is None or table is None or topic is None or decoder is None:
                continue
            cut = self._tails.cut(table.state, decoder, freshness.age_s_max)
            floor = floors.get(topic, Floor()).end
            if cut is not None and all(cut.bounds.end.get(p, 0) >= o for p, o in floor.items()):
                found[target] = cut
        return found

    def _bounds(
        self, topics: set[_Topic | None], floors: Mapping[_Topic, Floor], deadline: Deadline
    ) -> dict[_Topic, LogBounds]:
        """What the log of each topic holds, once it shows what it must: one request a cluster."""
        asks: dict[tuple[str, str], set[str]] = {}
        for topic in topics:
            if topic is not None:
                asks.setdefault((topic.cluster, topic.isolation), set()).add(topic.topic)
        found: dict[_Topic, LogBounds] = {}
        for (cluster, isolation), wanted in asks.items():
            answers = self._connections.log(cluster).bounds(sorted(wanted), isolation, deadline)
            found.update({_Topic(cluster, t, isolation): a for t, a in answers.items()})
        for topic, floor in floors.items():
            if topic not in found:
                continue
            log = self._connections.log(topic.cluster)
            found[topic] = wait_until_visible(log, found[topic], floor, deadline)
        return found

    # --- Seams ---------------------------------------------------------------------------------

    def _pin(self, target: _Target, pins: _Pins) -> Pinned:
        name = target.name
        if name.is_system:
            relation, rows = system.information_schema(name, self._connections, pins.deadline)
            return _system(name, relation, rows)
        if name.cluster:
            return self._pin_topic(name, pins)
        table = pins.tables[name]
        topic = _topic_of(target, pins.tables)
        binding = TopicBinding.from_properties(table.state.properties)
        if topic is None or binding is None:
            return self._pin_cold(target, table, binding, pins)
        cut = pins.cuts.get(target)
        known = cut.bounds if cut is not None else pins.bounds.get(topic)
        if known is None:
            raise SeamlineError(READ_CONFLICT, f"table {name.display} was bound to another topic")
        check_columns(table.state)
        if isinstance(target.moment, datetime.datetime):
            seam = self._seam_then(table, binding, known, target.moment, pins.deadline)
        else:
            seam = self._seam(target, table.state, binding, known, pins)
        if name.variant in system.TABLE_VARIANTS:
            follower = self._tails.follower_of(table.state) if self._tails is not None else None
            relation, rows = system.about_table(name, table, seam, follower)
            return _system(name, relation, rows)
        kind: Kind = "hot" if name.variant == "hot" else "unified"
        schema = table.state.schemas[seam.schema_id]
        decoder = DecoderSpec(binding.topic, binding.format, binding.on_error, schema.columns)
        facts = ScanFacts(kind, seam, binding, as_of=cut.as_of if cut is not None else None)
        if self._tails is not None:
            held, fits = self._tails.held(seam, decoder), self._tails.can_hold(seam)
            facts = dataclasses.replace(facts, held=held, can_be_held=fits)
        return Pinned(
            relation=_relation(schema.columns),
            facts=facts,
            cold=table,
            decoder=decoder,
            present=not seam.as_of and name.full not in pins.token,
            pinned_at=pins.pinned_at,
            asked_at=pins.pinned_at if cut is None else None,
        )

    def _seam(
        self,
        target: _Target,
        state: TableState,
        binding: TopicBinding,
        bounds: LogBounds,
        pins: _Pins,
    ) -> Seam:
        """The seam of now, or of the token."""
        head = cold_side(state, state.current_snapshot_id)
        log = self._connections.log(binding.cluster)
        token = target.token or pins.token.get(target.name.full)
        if token is not None:
            own = kept_side(state, token.snapshot_id)
            # what is in the log alone depends on the snapshot: a later one cannot stand in
            later = () if target.name.variant in {"hot", "seam"} else (head,)
            sides = (*((own,) if own is not None else ()), *later)
            seam = repeat.repeat(state, token, sides, bounds, cluster=binding.cluster)
            check_remembered(log, bounds, token, pins.deadline)
            return dataclasses.replace(seam, as_of=str(target.moment or ""))
        seam = seam_of_now(state, head, bounds, log, binding.cluster, pins.deadline)
        seen = pins.seen.get(target.name.full)
        if seen is not None:
            repeat.check_same_history(state, seen, bounds)
            require(rolled_back(state, seam, seen))
            check_remembered(log, bounds, seen, pins.deadline)
        return seam

    def _seam_then(
        self,
        table: ColdTable,
        binding: TopicBinding,
        bounds: LogBounds,
        moment: datetime.datetime,
        deadline: Deadline,
    ) -> Seam:
        """The seam of a past moment: the snapshot of then, and the log up to then."""
        state = table.state
        own = cold_side(state, past.snapshot_at(state, moment))
        head = cold_side(state, state.current_snapshot_id)
        after_ms = int(moment.timestamp() * 1000) + 1
        log = self._connections.log(binding.cluster)
        ends = log.offsets_at(bounds.topic, bounds.topic_id, bounds.end, after_ms, deadline)
        trimmed = [
            OffsetRange(p, own.boundary.next.get(p, 0), kept_from)
            for p, kept_from in bounds.start.items()
            if own.boundary.next.get(p, 0) < kept_from
        ]
        if trimmed:
            earlier = table.offsets_at(state.current_snapshot_id, after_ms, trimmed)
            ends = ends.replace(earlier)
        return past.travel(
            state, (own, head), ends, bounds, cluster=binding.cluster, as_of=moment.isoformat(" ")
        )

    def _pin_topic(self, name: TableName, pins: _Pins) -> Pinned:
        (topic,) = name.path
        known = pins.bounds[_Topic(name.cluster, topic, READ_COMMITTED)]
        log = self._connections.log(name.cluster)
        token = pins.token.get(name.full)
        if token is not None:
            check_remembered(log, known, token, pins.deadline)
            seam = repeat.repeat_topic(name.full, token, known, cluster=name.cluster)
        else:
            seam = hot_only(name.full, known, cluster=name.cluster)
            seen = pins.seen.get(name.full)
            if seen is not None:
                repeat.check_same_log(seen, known)
                check_remembered(log, known, seen, pins.deadline)
        return Pinned(
            relation=_relation(columns.TOPIC_FIELDS),
            facts=ScanFacts("hot", seam),
            decoder=DecoderSpec(topic, "raw", "fail", columns.TOPIC_FIELDS),
            pinned_at=pins.pinned_at,
            asked_at=pins.pinned_at,
        )

    def _pin_cold(
        self, target: _Target, table: ColdTable, binding: TopicBinding | None, pins: _Pins
    ) -> Pinned:
        state = table.state
        token = None if target.version is not None else pins.token.get(target.name.full)
        seen = None if target.version is not None else pins.seen.get(target.name.full)
        if token is not None:
            seam = repeat.repeat_cold(state, token)
        else:
            snapshot_id, schema_id = past.version_of(state, target.version)
            as_of = str(target.moment) if target.version is not None else ""
            seam = cold_only(state, snapshot_id, schema_id=schema_id, as_of=as_of)
        if seen is not None:
            require(dropped(state, seen.table_uuid))
            if binding is None:
                require(rolled_back(state, seam, seen))
        if target.name.variant in system.TABLE_VARIANTS:
            relation, rows = system.about_table(target.name, table, seam)
            return _system(target.name, relation, rows)
        return Pinned(
            relation=_relation(state.schemas[seam.schema_id].columns),
            facts=ScanFacts("cold", seam, binding),
            cold=table,
        )


def _has_moved(before: ColdTable | None, now: ColdTable | None) -> bool:
    """Whether somebody has committed to a table between two looks at it."""
    if before is None or now is None:
        return False
    return before.state.current_snapshot_id != now.state.current_snapshot_id


def _topic_of(target: _Target, tables: Mapping[TableName, ColdTable]) -> _Topic | None:
    """The topic that must be asked for a target, None when its log is of no interest."""
    name = target.name
    if name.cluster and not name.is_system:
        return _Topic(name.cluster, name.path[-1], READ_COMMITTED)
    table = tables.get(name)
    is_snapshot = target.token is None and isinstance(target.moment, int | str)
    if table is None or is_snapshot or name.variant in _OF_THE_TABLE:
        return None
    binding = TopicBinding.from_properties(table.state.properties)
    return None if binding is None else _Topic(binding.cluster, binding.topic, binding.isolation)


def _decoder(state: TableState) -> DecoderSpec | None:
    """How the records of a table as it is now are decoded; None without a topic."""
    binding = TopicBinding.from_properties(state.properties)
    if binding is None:
        return None
    columns = state.schema.columns
    return DecoderSpec(binding.topic, binding.format, binding.on_error, columns)


def _relation(fields: tuple[Field, ...]) -> Relation:
    return Relation(fields, columns.METADATA_NAMES & {field.name for field in fields})


def _system(name: TableName, relation: Relation, rows: pa.Table) -> Pinned:
    seam = Seam((*name.full[:-1], name.display), "", None, 0)
    return Pinned(relation, ScanFacts("system", seam), rows=rows)
