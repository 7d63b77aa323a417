"""One table pinned to its seam, from facts that were gathered: the log first, then the table.

The decisions are in `seam`. Here the log is asked once more if its answer is older than the table's
last commit, or if another leader may have replaced what was seen.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from seamline.connectors.cache import Cache
from seamline.connectors.kafka.continuity import check_not_truncated, settled
from seamline.connectors.kafka.formats.own_schema import pinned
from seamline.connectors.kafka.formats.schemas import schemas_of
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog, TellsCompaction
from seamline.errors import (
    HISTORY_CHANGED,
    INVALID_TOKEN,
    LOG_TRIMMED,
    LOG_TRUNCATED,
    NOT_SUPPORTED,
    OFFSETS_NOT_STORED,
    READ_CONFLICT,
    TOKEN_EXPIRED,
    Location,
    SeamlineError,
)
from seamline.gateway import names
from seamline.gateway.access.rights import WHOLE, Sight
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Sources, as_owner
from seamline.gateway.names import TableName
from seamline.gateway.query.moments import Later, ends_at
from seamline.gateway.query.relations import (
    columns_read,
    relation_of,
    stored_columns,
    with_places,
)
from seamline.gateway.query.tokens import NOTHING, After
from seamline.gateway.statements.freshness import LATEST, Freshness
from seamline.gateway.system import system_tables
from seamline.gateway.system.request import Statements, SystemTableRequest
from seamline.gateway.tail.follower import Follower
from seamline.gateway.tail.requests import CachedEnds
from seamline.gateway.tail.tails import Tails
from seamline.planners.plan.logical import TableFacts
from seamline.seam import now, past, repeat
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import ColdSide, check_columns, cold_side, kept_side
from seamline.seam.changes import as_known_now, between, logged
from seamline.seam.history_checks import dropped, recreated, require, rolled_back, trimmed
from seamline.seam.log import READ_COMMITTED, LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.records import DecoderSpec, Places
from seamline.seam.seam import Seam, cold_only, hot_only
from seamline.seam.table import TableState
from seamline.seam.upserts import check_partitions
from seamline.sql import columns
from seamline.sql.binder.qualify import Relation, TableVersion
from seamline.sql.equalities import Equalities
from seamline.sql.types import Field

_OF_THE_TABLE = frozenset({"cold", *names.METADATA_TABLES})
"""Variants of a table that do not involve its log."""


@dataclasses.dataclass(frozen=True, slots=True)
class PinnedTable:
    """A reference of a statement, pinned: its columns, the facts about its table, and the table.

    Attributes:
        relation: Its columns.
        facts: What is known about its table.
        cold: The loaded table; None without a cold side.
        sight: How much of it the caller may see.
    """

    relation: Relation
    facts: TableFacts
    cold: ColdTable | None = None
    sight: Sight = WHOLE


@dataclasses.dataclass(frozen=True, slots=True)
class AskedChanges:
    """The changes that a reference asks for, with their tokens read.

    Attributes:
        earlier: Seams of the token after which they begin; None to begin with the first record.
        later: Seams of the token with which they end; None to end with the statement's own seam.
        later_name: How that token is displayed.
        offsets_max: Ends them earlier, after this many offsets.
    """

    earlier: tuple[Seam, ...] | None
    later: tuple[Seam, ...] | None = None
    later_name: str = ""
    offsets_max: int | None = None


OFFSETS_MAX = 10_000
"""The number of offsets in a batch of a feed; whoever may not count rows cannot ask for fewer."""
CHANGES = "changes"
"""The variant of an upsert table that shows the raw log of its changes."""
EVERY_CHANGE = AskedChanges(earlier=None)


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A table as one reference asks for it.

    Attributes:
        name: Its name.
        version: The past version that it asks for, if any.
        virtual: The seam behind the virtual snapshot that it asks for, if any.
        changes: The changes that it asks for; None for the whole table.
        equals: The values that it requires of columns of a computed table.
        owner: The owner of the view that names it, if it is read with that user's rights.
        location: Where the statement names it.
    """

    name: TableName
    version: TableVersion | None = None
    virtual: Seam | None = None
    changes: AskedChanges | None = None
    equals: Equalities = ()
    owner: str | None = None
    location: Location | None = dataclasses.field(default=None, compare=False)

    @property
    def moment(self) -> int | str | datetime.datetime | None:
        """A snapshot, a branch or tag, or a time; None for the present."""
        return self.version.value if self.version is not None else None


@dataclasses.dataclass(frozen=True, slots=True)
class PinRequest:
    """What one call pins, and how; see `Gatherer.pin`."""

    targets: Sequence[Target]
    session: resolution.Session
    deadline: Deadline
    token: Sequence[Seam] = ()
    after: After = NOTHING
    freshness: Freshness = LATEST
    may_lack_records: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Topic:
    """A topic, and the isolation level it is read under."""

    cluster: str
    topic: str
    isolation: str


@dataclasses.dataclass(frozen=True, slots=True)
class PinFacts:
    """The facts with which one call pins its tables.

    Attributes:
        tables: The tables as they are now.
        bounds: What each log holds.
        cached_ends: Ends that are known without asking the log.
        request: What the call is to pin.
        known_at: On the monotonic clock, a moment before any of it was learned.
    """

    tables: Mapping[TableName, ColdTable]
    bounds: Mapping[Topic, LogBounds]
    cached_ends: Mapping[Target, CachedEnds]
    request: PinRequest
    known_at: float


_DecoderKey = tuple[int, TopicBinding, str, str]
_DECODERS_MAX = 256


class _Decoder(NamedTuple):
    """A decoder, kept with the columns it was made from: while they are, no others have their id.

    Columns that are equal may be stored in different ways.
    """

    fields: tuple[Field, ...]
    decoder: DecoderSpec


class TablePinner:
    """Pins tables, one reference of a statement at a time.

    Args:
        connections: Clusters and catalogs.
        tails: Knows how far tables are followed.
        statements: Returns the statements that the caller may see.
    """

    def __init__(self, connections: Sources, tails: Tails | None, statements: Statements) -> None:
        self._connections = connections
        self._tails = tails
        self._statements = statements
        self._decoders: Cache[_DecoderKey, _Decoder] = Cache(_DECODERS_MAX)

    def pin(self, target: Target, facts: PinFacts) -> PinnedTable:
        """Pins one reference.

        Raises:
            SeamlineError: named after the cause; see `seam`.
        """
        name = target.name
        asks = target.changes not in {None, EVERY_CHANGE}
        if asks and (name.is_system or name.variant):
            raise _no_changes(name)
        if name.is_system:
            deadline, equals = facts.request.deadline, dict(target.equals)
            request = SystemTableRequest(self._connections, deadline, self._statements, equals)
            relation, rows = system_tables.system_table(name, request)
            return _system(name, relation, rows)
        if name.cluster:
            return self._pin_topic(target, facts)
        table = facts.tables[name]
        topic = topic_of(target, facts.tables)
        binding = TopicBinding.from_properties(table.state.properties)
        if topic is not None and binding is not None:
            schemas = schemas_of(self._connections.log(binding.cluster), facts.request.deadline)
            binding = pinned(binding, schemas)
        if name.variant == names.ERRORS:
            return self._pin_errors(target, table, topic, binding, facts)
        if topic is None or binding is None:
            if target.changes is not None:
                raise _no_changes(name)
            return self._pin_cold(target, table, binding, facts)
        return self._pin_unified(target, table, topic, binding, facts)

    def _pin_unified(
        self,
        target: Target,
        table: ColdTable,
        topic: Topic,
        binding: TopicBinding,
        facts: PinFacts,
    ) -> PinnedTable:
        name, state, tails = target.name, table.state, self._tails
        cached = facts.cached_ends.get(target)
        bounds = cached.bounds if cached is not None else facts.bounds.get(topic)
        if bounds is None:
            raise SeamlineError(READ_CONFLICT, f"table {name.display} now has another topic")
        check_columns(state)
        if name.variant not in system_tables.TABLE_VARIANTS:
            check_partitions(binding, len(bounds.end))
        seam, bounds = self._seam(target, table, binding, bounds, facts)
        seam = seam if cached is None else cached.with_epochs(seam)
        if name.variant in system_tables.TABLE_VARIANTS:
            follower = tails.follower_of(state) if tails is not None else None
            return self._about(target, table, seam, follower)
        if not seam.log.format:
            seam = seam.decoded_by(str(binding.encoding), binding.on_error)
        end = seam.end
        if target.changes is not None:
            seam = self._changes(target, target.changes, state, binding, bounds, seam, facts)
        _require_offsets(state, binding, seam)
        table.require_single_writer(seam.cold.snapshot_id)
        schema = state.schemas[seam.schema_id]
        decoder = self._decoder(binding, schema.columns, seam.log.format, seam.log.on_error)
        present = is_present(target, facts.tables, facts.request) and seam.end == end
        log_start = _log_start(seam, bounds)
        if binding.is_upsert and (not present or seam.is_logged):
            self._check_not_compacted(seam, target, facts.request.deadline)
        table_facts = TableFacts(
            "hot" if name.variant == "hot" else "unified",
            seam,
            binding,
            decoder,
            stored=stored_columns(state, seam),
            cached=tails.cached(seam, decoder) if tails is not None else Offsets(),
            fits_cache=tails is not None and tails.fits(seam),
            as_of=cached.as_of if cached is not None else None,
            present=present and not log_start,  # nobody can follow a log from what it has lost
            known_at=facts.known_at,
            asked_at=facts.known_at if cached is None else None,
            log_start=log_start,
        )
        relation = relation_of(columns_read(schema.columns, seam), state)
        return PinnedTable(relation, table_facts, table)

    def _decoder(
        self, binding: TopicBinding, fields: tuple[Field, ...], format_: str, on_error: str
    ) -> DecoderSpec:
        """Returns `DecoderSpec.of` these, the same object as long as the columns are the same."""
        key = id(fields), binding, format_, on_error
        cached = self._decoders.get(key)
        if cached is None:
            cached = _Decoder(fields, DecoderSpec.of(binding, fields, format_, on_error))
            self._decoders.put(key, cached)
        return cached.decoder

    def _check_not_compacted(self, seam: Seam, target: Target, deadline: Deadline) -> None:
        """Refuses a compacted log, which may have lost what was then the newest record of a key.

        Raises:
            SeamlineError: TOKEN_EXPIRED, or LOG_TRIMMED for a past moment and for changes.
        """
        if not seam.hot_ranges:
            return
        log = self._connections.log(seam.log.cluster)
        if isinstance(log, TellsCompaction) and not log.is_compacted(seam.log.topic, deadline):
            return
        raise SeamlineError(
            LOG_TRIMMED if seam.is_logged or target.version is not None else TOKEN_EXPIRED,
            f"topic {seam.log.topic} is compacted: not every record of {seam.display_name} is kept "
            "between its snapshot and an earlier moment",
            hint="Read the table as it is now, or one of its snapshots with FOR VERSION AS OF.",
        )

    def _changes(
        self,
        target: Target,
        changes: AskedChanges,
        state: TableState,
        binding: TopicBinding,
        bounds: LogBounds,
        seam: Seam,
        facts: PinFacts,
    ) -> Seam:
        """Returns the part of a seam that a reference asks for."""
        if target.name.variant and not binding.is_upsert:
            raise _no_changes(target.name)
        earlier = _earlier(target, changes, facts)
        if earlier is not None:
            repeat.check_same_history(state, earlier, bounds)
            log = self._connections.log(binding.cluster)
            _check_remembered(log, bounds, earlier, facts.request.deadline)
            again = repeated_seam(target, facts.tables, facts.request)
            earlier = as_known_now(state, earlier, seam if again is None else again, seam)
        changed = between(seam, earlier, offsets_max=changes.offsets_max)
        return logged(changed, bounds) if binding.is_upsert else changed

    def _seam(
        self,
        target: Target,
        table: ColdTable,
        binding: TopicBinding,
        bounds: LogBounds,
        facts: PinFacts,
    ) -> tuple[Seam, LogBounds]:
        """Returns the current seam, the token's or a past one, and what the log held by then."""
        state, moment = table.state, target.moment
        if isinstance(moment, datetime.datetime):
            return self._seam_then(table, binding, bounds, moment, facts.request), bounds
        head = cold_side(state, state.current_snapshot_id)
        log, deadline = self._connections.log(binding.cluster), facts.request.deadline
        earlier = repeated_seam(target, facts.tables, facts.request)
        if earlier is not None:
            own = kept_side(state, earlier.cold.snapshot_id)
            bounds = _under((own or head).boundary.isolation, bounds, log, deadline)
            # what only the log holds depends on the snapshot, and a snapshot of an upsert table
            # has lost the rows that were replaced: a later one cannot replace it
            is_own = target.name.variant in {"hot", "seam"} or binding.is_upsert
            later = () if is_own else (head,)
            sides = (*((own,) if own is not None else ()), *later)
            seam = repeat.repeat(state, earlier, sides, bounds, cluster=binding.cluster)
            if binding.is_upsert and seam.cold_end is not None and target.changes is None:
                raise SeamlineError(
                    TOKEN_EXPIRED,
                    f"the token is for changes of {target.name.display}, whose "
                    "rows have since been replaced in its snapshots",
                )
            _check_remembered(log, bounds, earlier, deadline)
            return dataclasses.replace(seam, as_of=_as_of(target)), bounds
        may_lack = facts.request.may_lack_records
        seam, bounds = _seam_of_now(
            state, head, bounds, log, binding.cluster, deadline, may_lack_records=may_lack
        )
        for seen in repeat.of_table(facts.request.after.seen, state):
            repeat.check_same_history(state, seen, bounds)
            require(rolled_back(state, seam, seen))
            _check_remembered(log, bounds, seen, deadline)
        return seam, bounds

    def _seam_then(
        self,
        table: ColdTable,
        binding: TopicBinding,
        bounds: LogBounds,
        moment: datetime.datetime,
        request: PinRequest,
    ) -> Seam:
        """Returns the seam of a past moment: the snapshot of that time, and the log up to it."""
        state = table.state
        own = cold_side(state, past.snapshot_at(state, moment))
        head = cold_side(state, state.current_snapshot_id)
        log = self._connections.log(binding.cluster)
        bounds = _under(own.boundary.isolation, bounds, log, request.deadline)
        require(recreated(bounds.topic, bounds.topic_id, own.boundary.topic_id))
        if binding.is_upsert:  # no later snapshot has the rows that have been replaced since
            starts = {p: own.boundary.next.get(p, 0) for p in bounds.end}
            require(trimmed(bounds, starts))
            head = own
        later = Later(
            past.milliseconds(moment) + 1,
            DecoderSpec.of(binding, state.schema.columns),
        )
        ends = ends_at(table, log, own, head, bounds, later, request.deadline)
        return past.travel(
            state, (own, head), ends, bounds, cluster=binding.cluster, as_of=moment.isoformat(" ")
        )

    def _about(
        self, target: Target, table: ColdTable, seam: Seam, follower: Follower | None = None
    ) -> PinnedTable:
        name, sources = target.name, as_owner(self._connections, target.owner)
        sight = Sight.of([sources.rights.table(name)])
        relation, rows = system_tables.about_table(name, table, seam, follower, sight)
        return _system(name, relation, rows)

    def _pin_topic(self, target: Target, facts: PinFacts) -> PinnedTable:
        name = target.name
        (topic,) = name.path
        bounds = facts.bounds[Topic(name.cluster, topic, READ_COMMITTED)]
        log, deadline = self._connections.log(name.cluster), facts.request.deadline
        earlier = repeated_seam(target, facts.tables, facts.request)
        if earlier is not None:
            _check_remembered(log, bounds, earlier, deadline)
            seam = repeat.repeat_topic(name.full, earlier, bounds, cluster=name.cluster)
            seam = dataclasses.replace(seam, as_of=_as_of(target))
        else:
            seam = hot_only(name.full, bounds, cluster=name.cluster)
            for seen in repeat.of_topic(facts.request.after.seen, name.full):
                repeat.check_same_log(seen, bounds)
                _check_remembered(log, bounds, seen, deadline)
        if target.changes is not None:
            begin = _earlier(target, target.changes, facts)
            if begin is not None:
                repeat.check_same_log(begin, bounds)
                _check_remembered(log, bounds, begin, deadline)
            seam = between(seam, begin, offsets_max=target.changes.offsets_max)
            if begin is not None and seam.since is not None:
                needed = {p: start for p, start in seam.since.items() if start < seam.end[p]}
                repeat.check_kept(bounds, needed)
        table_facts = TableFacts(
            "hot",
            seam,
            decoder=DecoderSpec(topic, "raw", "fail", columns.TOPIC_FIELDS),
            known_at=facts.known_at,
            asked_at=facts.known_at,
        )
        return PinnedTable(relation_of(columns.TOPIC_FIELDS), table_facts)

    def _pin_errors(
        self,
        target: Target,
        table: ColdTable,
        topic: Topic | None,
        binding: TopicBinding | None,
        facts: PinFacts,
    ) -> PinnedTable:
        """Pins the records that a table's decoder cannot decode, of all that its log holds."""
        if target.changes is not None:
            raise _no_changes(target.name)
        if binding is None or target.version is not None:
            raise _no_errors(target)
        state, deadline = table.state, facts.request.deadline
        bounds = facts.bounds.get(topic) if topic is not None else None
        if bounds is None:
            raise SeamlineError(READ_CONFLICT, f"table {target.name.display} now has another topic")
        head = cold_side(state, state.current_snapshot_id)
        log = self._connections.log(binding.cluster)
        bounds = _under(head.boundary.isolation, bounds, log, deadline)
        earlier = repeated_seam(target, facts.tables, facts.request)
        if earlier is not None:
            repeat.check_same_history(state, earlier, bounds)
            _check_remembered(log, bounds, earlier, deadline)
            if earlier.table != _errors_of(state):
                earlier = dataclasses.replace(earlier, boundary=_held_from(earlier, bounds))
            seam = repeat.repeat_errors(earlier, bounds, binding.cluster)
            self._check_not_compacted(seam, target, deadline)
        else:
            seam, bounds = _seam_of_now(
                state, head, bounds, log, binding.cluster, deadline, may_lack_records=True
            )
            for seen in repeat.of_table(facts.request.after.seen, state):
                repeat.check_same_history(state, seen, bounds)
                _check_remembered(log, bounds, seen, deadline)
            seam = seam.decoded_by(str(binding.encoding), binding.on_error)
            seam = dataclasses.replace(seam, boundary=_held_from(seam, bounds))
        seam = dataclasses.replace(seam, table=_errors_of(state))
        fields = state.schemas[seam.schema_id].columns
        decoder = self._decoder(binding, fields, seam.log.format, seam.log.on_error)
        table_facts = TableFacts(
            "hot",
            seam,
            decoder=decoder.errors,
            known_at=facts.known_at,
            asked_at=facts.known_at,
        )
        return PinnedTable(Relation(columns.ERROR_FIELDS), table_facts, table)

    def _pin_cold(
        self, target: Target, table: ColdTable, binding: TopicBinding | None, facts: PinFacts
    ) -> PinnedTable:
        state, request = table.state, facts.request
        earlier: Seam | None = None
        before: tuple[Seam, ...] = ()
        if target.version is None:
            earlier = remembered(target.name, facts.tables, request.token)
            before = repeat.of_table(request.after.seen, state)
        if earlier is not None:
            seam = repeat.repeat_cold(state, earlier)
        else:
            snapshot_id, schema_id = past.version_of(state, target.version)
            as_of = str(target.moment) if target.version is not None else ""
            seam = cold_only(state, snapshot_id, schema_id=schema_id, as_of=as_of)
        for seen in before:
            require(dropped(state, seen.table_uuid))
            if binding is None:
                require(rolled_back(state, seam, seen))
        if target.name.variant in system_tables.TABLE_VARIANTS:
            return self._about(target, table, seam)
        if target.changes is not None:
            raise _no_changes(target.name)
        table_facts = TableFacts("cold", seam, binding, stored=stored_columns(state, seam))
        relation = relation_of(state.schemas[seam.schema_id].columns, state)
        if binding is None:
            relation = with_places(relation)
        return PinnedTable(relation, table_facts, table)


def _require_offsets(state: TableState, binding: TopicBinding, seam: Seam) -> None:
    """Checks that a column holds the offsets, if rows of the snapshot are selected by offset.

    Raises:
        SeamlineError: OFFSETS_NOT_STORED.
    """
    if seam.is_logged or (seam.cold_end is None and seam.since is None):
        return
    if Places.of(binding.encoding, state.schema.columns) is None:
        what = "its changes" if seam.since is not None else "an earlier moment of it"
        raise SeamlineError(
            OFFSETS_NOT_STORED,
            f"{what} cannot be read from {state.display_name}: no column holds the "
            "offsets of its records",
        )


# --- Asking a log again --------------------------------------------------------------------------


def _under(isolation: str, bounds: LogBounds, log: HotLog, deadline: Deadline) -> LogBounds:
    """Returns what a log holds under the isolation a table was tiered with, whatever is set now."""
    if bounds.isolation == isolation:
        return bounds
    return log.bounds([bounds.topic], isolation, deadline)[bounds.topic]


def _seam_of_now(
    state: TableState,
    head: ColdSide,
    bounds: LogBounds,
    log: HotLog,
    cluster: str,
    deadline: Deadline,
    *,
    may_lack_records: bool,
) -> tuple[Seam, LogBounds]:
    """Returns the current seam, and what the log held then.

    The log is asked again if its ends predate the table's last commit.
    """

    def ask() -> LogBounds:
        return log.bounds([bounds.topic], head.boundary.isolation, deadline)[bounds.topic]

    def pin(held: LogBounds, *, newer: bool) -> Seam | None:
        return now.pin(
            state,
            head,
            held,
            cluster=cluster,
            bounds_are_newer=newer,
            may_lack_records=may_lack_records,
        )

    if head.boundary.isolation != bounds.isolation:
        bounds = ask()
    seam = pin(bounds, newer=False)
    if seam is None:
        seam, bounds = settled(log, ask(), functools.partial(pin, newer=True), deadline)
    assert seam is not None, "bounds read after the table always suffice to pin it"
    check_not_truncated(log, bounds, head.boundary.next, head.boundary.epochs, deadline)
    return seam, bounds


def _log_start(seam: Seam, bounds: LogBounds) -> Offsets:
    """Returns `TableFacts.log_start` of a seam."""
    begins = seam.begins
    return Offsets({p: start for p, start in bounds.start.items() if start > begins.get(p, start)})


def _held_from(seam: Seam, bounds: LogBounds) -> Offsets:
    """Returns where what the log still holds of a seam begins, per partition."""
    return Offsets({p: min(bounds.start.get(p, end), end) for p, end in seam.end.items()})


def _check_remembered(log: HotLog, bounds: LogBounds, earlier: Seam, deadline: Deadline) -> None:
    """Checks that the log has not lost, and replaced, the records of an earlier seam.

    Raises:
        SeamlineError: HISTORY_CHANGED.
    """
    if bounds.topic_id != earlier.log.topic_id:
        return  # pinning the table reports it
    try:
        check_not_truncated(log, bounds, earlier.end, earlier.log.end_epochs, deadline)
    except SeamlineError as error:
        if error.code is LOG_TRUNCATED:
            message = f"topic {bounds.topic} lost records that a token covers: {error.message}"
            raise SeamlineError(HISTORY_CHANGED, message) from error
        raise


# --- What a reference means -----------------------------------------------------------------


def remembered(
    name: TableName, tables: Mapping[TableName, ColdTable], seams: Sequence[Seam]
) -> Seam | None:
    """Returns the seam that a token has for the table or topic of a name, if any."""
    return next(iter(all_remembered(name, tables, seams)), None)


def all_remembered(
    name: TableName, tables: Mapping[TableName, ColdTable], seams: Sequence[Seam]
) -> tuple[Seam, ...]:
    """Returns the seams that a session has seen of the table or topic of a name."""
    table = tables.get(name)
    if table is None:
        return repeat.of_topic(seams, name.full)
    seams = repeat.of_table(seams, table.state)
    if name.variant == names.ERRORS:
        own = _errors_of(table.state)
        seams = tuple(sorted(seams, key=lambda seam: seam.table != own))
    return seams


def repeated_seam(
    target: Target, tables: Mapping[TableName, ColdTable], request: PinRequest
) -> Seam | None:
    """Returns the seam that a reference is to be pinned to again; None if it gets a new one.

    Raises:
        SeamlineError: INVALID_TOKEN when `to_token` does not cover the table.
    """
    if target.changes is not None and target.changes.later is not None:
        return _of_token(target.name, tables, target.changes.later, "to_token")
    return target.virtual or remembered(target.name, tables, request.token)


def is_present(target: Target, tables: Mapping[TableName, ColdTable], request: PinRequest) -> bool:
    """Whether a reference reads a table as it is now."""
    return target.version is None and repeated_seam(target, tables, request) is None


def _earlier(target: Target, changes: AskedChanges, facts: PinFacts) -> Seam | None:
    """Returns the seam after which changes begin; None to begin with the first record."""
    if changes.earlier is None:
        return None
    return _of_token(target.name, facts.tables, changes.earlier, "from_token")


def _of_token(
    name: TableName, tables: Mapping[TableName, ColdTable], seams: Sequence[Seam], argument: str
) -> Seam:
    """Returns the seam that an argument's token has for the table or topic of a name."""
    from_token = remembered(name, tables, seams)
    if from_token is not None:
        return from_token
    read = ", ".join(seam.display_name for seam in seams) or "no table"
    raise SeamlineError(
        INVALID_TOKEN,
        f"{argument} comes from a read of {read}, not of {name.display}",
        hint="Give the token of a statement that has read the table.",
    )


def _no_changes(name: TableName) -> SeamlineError:
    return SeamlineError(
        NOT_SUPPORTED,
        f"{name.display} has no changes to read",
        hint='Unified tables and topics do; "t$changes" exists for upsert tables.',
    )


def _errors_of(state: TableState) -> tuple[str, ...]:
    """Returns the full name of `t$errors` of a table."""
    return (*state.name[:-1], f"{state.name[-1]}${names.ERRORS}")


def _no_errors(target: Target) -> SeamlineError:
    reason = "is not kept for earlier versions" if target.version else "has no topic to read"
    return SeamlineError(
        NOT_SUPPORTED,
        f"{target.name.display} {reason}",
        hint='"t$errors" shows the bad records in the topic of a table, as the log is now.',
    )


def _as_of(target: Target) -> str:
    """Returns what a reference calls its version or `to_token`; empty if it names neither."""
    if target.changes is not None:
        return target.changes.later_name
    return str(target.moment or "")


def topic_of(target: Target, tables: Mapping[TableName, ColdTable]) -> Topic | None:
    """Returns the topic that must be asked for a target; None when its log does not matter."""
    name = target.name
    if name.cluster and not name.is_system:
        return Topic(name.cluster, name.path[-1], READ_COMMITTED)
    table = tables.get(name)
    is_snapshot = target.virtual is None and isinstance(target.moment, int | str)
    if table is None or is_snapshot or name.variant in _OF_THE_TABLE:
        return None
    binding = TopicBinding.from_properties(table.state.properties)
    return None if binding is None else Topic(binding.cluster, binding.topic, binding.isolation)


def _system(name: TableName, relation: Relation, rows: pa.Table) -> PinnedTable:
    seam = Seam((*name.full[:-1], name.display), "", 0)
    return PinnedTable(relation, TableFacts("system", seam, rows=rows))
