"""Facts, gathered once: every table a statement names, pinned to one seam, and what its scans read.

The protocol fixes the order: the ends of all topics first, then the tables as they are now, then
the boundary of the snapshot to be read. The pure functions of `seam` decide. A table that is named
several times, however it is spelled, is pinned once. Nothing else in a statement talks to Kafka or
a catalog before its rows are read.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from seamline.connectors.kafka.formats.own_schema import pinned
from seamline.connectors.kafka.formats.schemas import schemas_of
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import (
    INVALID_CONFIG,
    INVALID_TOKEN,
    PERMISSION_DENIED,
    READ_CONFLICT,
    SCHEMA_NOT_FOUND,
    TABLE_NOT_FOUND,
    TOPIC_NOT_FOUND,
    SeamlineError,
)
from seamline.gateway import names
from seamline.gateway.access.rights import Sight, told_as_seen, within
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Sources, as_owner
from seamline.gateway.names import TableName
from seamline.gateway.query.loaded import LoadedTables, is_changed
from seamline.gateway.query.pin import (
    CHANGES,
    EVERY_CHANGE,
    OFFSETS_MAX,
    AskedChanges,
    PinFacts,
    PinnedTable,
    PinRequest,
    TablePinner,
    Target,
    Topic,
    all_remembered,
    is_present,
    topic_of,
)
from seamline.gateway.query.read_your_writes import Floor, wait_until_visible
from seamline.gateway.query.tokens import NOTHING, After
from seamline.gateway.query.views import restriction_of
from seamline.gateway.statements.freshness import LATEST, Freshness
from seamline.gateway.system.request import Statements
from seamline.gateway.tail.requests import CachedEnds
from seamline.gateway.tail.tails import Tails
from seamline.planners.plan.estimate import estimate
from seamline.planners.plan.logical import LogicalPlan, Scan
from seamline.planners.plan.route import Limits, may_need_no_engine, may_run_on_duckdb
from seamline.planners.rules.prune_tail_by_time import moments
from seamline.seam.binding import TopicBinding
from seamline.seam.changes import cold_predicate
from seamline.seam.files import ColdPlan, ScanRequest
from seamline.seam.log import LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.records import DecoderSpec
from seamline.seam.seam import Seam
from seamline.seam.table import TableState
from seamline.sql.binder.qualify import TableReference
from seamline.sql.locations import locate_errors_at
from seamline.sql.parsing.changes import BEGINNING, Changes
from seamline.sql.parsing.changes import NAME as CHANGES_FUNCTION
from seamline.sql.predicates import conjunction

_NAMES_NOTHING = frozenset({TABLE_NOT_FOUND, SCHEMA_NOT_FOUND})
_TOKEN_SHOWN = 8
_BOUND_ANEW = frozenset({READ_CONFLICT, TOPIC_NOT_FOUND, INVALID_CONFIG})
"""Errors that a table may cause at first if it has since been bound to another topic."""

VirtualSeams = Callable[[str, int], Seam | None]
"""Returns the seam behind a virtual snapshot, given the ids of the table and the snapshot."""


ReadToken = Callable[[str], Sequence[Seam]]
"""Returns the seams of a token."""


def no_tokens(_: str) -> Sequence[Seam]:
    """Refuses every token.

    Raises:
        SeamlineError: INVALID_TOKEN.
    """
    raise SeamlineError(INVALID_TOKEN, "tokens cannot be read here")


class Gatherer:
    """Gathers the facts of statements.

    Args:
        connections: Clusters and catalogs.
        tails: Knows how far tables are followed.
        virtual: Knows the virtual snapshots that statements may name by id.
        loaded: Loads tables; by default, a new one with nothing remembered.
        statements: Returns the statements that the caller may see; by default, none.
    """

    def __init__(
        self,
        connections: Sources,
        tails: Tails | None = None,
        virtual: VirtualSeams = lambda _table, _snapshot: None,
        loaded: LoadedTables | None = None,
        statements: Statements = tuple,
    ) -> None:
        self._connections = connections
        self._tails = tails
        self._virtual = virtual
        self._loaded = loaded or LoadedTables(connections)
        self._pinner = TablePinner(connections, tails, statements)

    def session(self, catalog: str | None, schema: str | None) -> resolution.Session:
        """Returns the session of a request; see `resolution.session`.

        Raises:
            SeamlineError: CATALOG_NOT_FOUND.
        """
        connections = self._connections
        return resolution.session(connections.config, catalog, schema, connections.rights)

    def pin(
        self,
        references: Sequence[TableReference],
        session: resolution.Session,
        deadline: Deadline,
        *,
        token: Sequence[Seam] = (),
        after: After = NOTHING,
        freshness: Freshness = LATEST,
        read_token: ReadToken = no_tokens,
        may_lack_records: bool = False,
    ) -> list[PinnedTable]:
        """Pins each reference to its seam, in order.

        Args:
            references: The tables a statement names.
            session: Default catalog and schema of the names.
            deadline: The statement's deadline.
            token: Seams to repeat; tables they do not name are pinned as they are now.
            after: The reads and writes that tables pinned as they are now must not fall behind.
            freshness: How fresh tables pinned as they are now must be.
            read_token: Returns the seams of the tokens between which changes are requested.
            may_lack_records: Whether the log may have lost records of a seam; see
                `TableFacts.log_start`, which the caller must then respect.

        Raises:
            SeamlineError: named after the cause; see `seam`.
        """
        targets = [self._target(reference, session, read_token) for reference in references]
        request = PinRequest(
            targets,
            session,
            deadline,
            token,
            after,
            freshness,
            may_lack_records=may_lack_records,
        )
        try:
            with told_as_seen(lambda: self._sight(targets)):
                return [
                    self._restricted(target, pinned)
                    for target, pinned in zip(targets, self._pin_all(request), strict=True)
                ]
        except SeamlineError as error:
            if error.code in _NAMES_NOTHING and error.location is None:
                named = (t.location for t in targets if t.name.display == error.subject)
                error.location = next(named, None)
            if error.code is TOPIC_NOT_FOUND:
                self._suggest_topic(error, targets)
            raise

    def _sight(self, targets: Sequence[Target]) -> Sight:
        """Returns how much may be seen of tables: by the caller, and by whom they are read for."""
        return Sight.of(
            sources.rights.table(target.name)
            for target in targets
            for sources in (self._connections, as_owner(self._connections, target.owner))
        )

    def _target(
        self, reference: TableReference, session: resolution.Session, read_token: ReadToken
    ) -> Target:
        sources, changes = as_owner(self._connections, reference.owner), reference.changes
        rights = sources.rights
        with locate_errors_at(reference.location):
            if changes is not None:  # before anything about the table is revealed
                unchecked = resolution.resolve(
                    reference.name, session, self._connections, is_new=True
                )
                rights.require_function(unchecked.catalog or unchecked.cluster, CHANGES_FUNCTION)
            name = resolution.resolve(reference.name, session, sources)
            rights.restriction(name)  # an error of reading its files would name them
            asked_changes = None if changes is None else _asked_changes(changes, read_token)
        if asked_changes is None and name.variant == CHANGES:
            asked_changes = EVERY_CHANGE
        equals = reference.equals if name.is_system else ()
        where = reference.location
        target = Target(
            name, reference.version, None, asked_changes, equals, reference.owner, where
        )
        if asked_changes is not None and (asked_changes.offsets_max or OFFSETS_MAX) < OFFSETS_MAX:
            self._check_counts([target], name, f"set offsets_max below {OFFSETS_MAX:,}")
        return target

    def _restricted(self, target: Target, pinned: PinnedTable) -> PinnedTable:
        """Returns a pinned table, restricted to what may be seen of it."""
        pinned = dataclasses.replace(pinned, sight=self._sight([target]))
        restriction = restriction_of(self._connections, target.name, target.owner)
        if not restriction:
            return pinned
        relation = pinned.relation
        restriction = within(restriction, frozenset(name.lower() for name in relation.hidden))
        relation = dataclasses.replace(relation, restriction=restriction)
        return dataclasses.replace(pinned, relation=relation)

    def _suggest_topic(self, error: SeamlineError, targets: Sequence[Target]) -> None:
        """Adds where the statement names the topic that does not exist, and a similar one."""
        for target in targets:
            name = target.name
            if not name.cluster:
                self._hint_at_tiered(error, name)
            elif error.subject == name.table:
                sources = as_owner(self._connections, target.owner)
                error.location = target.location
                error.hint = (
                    resolution.nearest_topic(name.cluster, name.table, sources) or error.hint
                )

    def _hint_at_tiered(self, error: SeamlineError, name: TableName) -> None:
        """Adds what is still readable of a table whose topic does not exist any more."""
        if name.is_system:
            return
        state = self._loaded.now([name])[name].state
        binding = TopicBinding.from_properties(state.properties)
        if binding is not None and error.subject == binding.topic:
            error.hint = (
                f'What was tiered can still be read: "{name.table}$cold", and snapshots of '
                f"{name.display} with FOR VERSION AS OF. A topic that is created again is another "
                "log, which needs a new table."
            )

    def pin_table(self, name: TableName, deadline: Deadline) -> PinnedTable:
        """Pins one table, as it is now.

        Raises:
            SeamlineError: named after the cause; see `seam`.
        """
        session = resolution.Session(name.catalog, "")
        (pinned,) = self._pin_all(PinRequest([Target(name)], session, deadline))
        return pinned

    def scans(
        self,
        logical: LogicalPlan,
        tables: Sequence[PinnedTable],
        *,
        engine: str,
        limits: Limits,
        deadline: Deadline,
    ) -> LogicalPlan:
        """Returns the plan with the files, and the offsets of moments, that its scans ask for.

        Args:
            logical: The plan that says what scans ask for.
            tables: The table of each scan.
            engine: The engine that the request asks for.
            limits: What counts as large.
            deadline: The statement's deadline.

        Raises:
            SeamlineError: named after the cause.
        """
        files = _counts(logical, tables, engine, limits)
        if files is None:
            logical = dataclasses.replace(logical, row=None)
            files = [_files(*each) for each in zip(logical.scans, tables, strict=True)]
        size_bytes = sum(plan.size_bytes for plan in files if plan is not None)
        is_bound = any(plan is not None and plan.only_duckdb for plan in files)
        if is_bound or may_run_on_duckdb(engine, size_bytes, limits):
            files = [
                table.cold.inspect(plan)
                if plan is not None and plan.files and table.cold is not None
                else plan
                for plan, table in zip(files, tables, strict=True)
            ]
        by_moment: dict[tuple[object, int], Offsets] = {}
        scans = tuple(
            dataclasses.replace(
                scan, files=plan, offsets_at=self._moments(scan, by_moment, deadline)
            )
            for scan, plan in zip(logical.scans, files, strict=True)
        )
        return dataclasses.replace(logical, scans=scans)

    def _moments(
        self, scan: Scan, by_moment: dict[tuple[object, int], Offsets], deadline: Deadline
    ) -> dict[int, Offsets]:
        """Returns the offsets of the moments that would narrow a scan's tail."""
        seam = scan.seam
        for moment in moments(scan):
            if (seam.key, moment) not in by_moment:
                log = self._connections.log(seam.log.cluster)
                by_moment[seam.key, moment] = log.offsets_at(
                    seam.log.topic, seam.log.topic_id, seam.end, moment, deadline
                )
        return {moment: by_moment[seam.key, moment] for moment in moments(scan)}

    # --- Tables and logs -----------------------------------------------------------------------

    def _pin_all(self, request: PinRequest) -> list[PinnedTable]:
        tables = {target.name for target in request.targets}
        last = self._loaded.last_seen(tables)
        if last is not None:
            try:
                return self._pin_by(last, request)
            except SeamlineError as error:
                if error.code not in _BOUND_ANEW:
                    raise
        return self._pin_by(self._loaded.now(tables, request.deadline), request)

    def _pin_by(
        self, before: Mapping[TableName, ColdTable], request: PinRequest
    ) -> list[PinnedTable]:
        """Pins the tables, and asks the topics that they were bound to before."""
        targets = [self._with_virtual(target, before) for target in request.targets]
        topics = {target: topic_of(target, before) for target in targets}
        floors = self._floors(topics, before, request)
        known_at = time.monotonic()
        cached_ends: dict[Target, CachedEnds] = {}
        reads_errors = any(target.name.variant == names.ERRORS for target in targets)
        if not request.freshness.asks_log and not reads_errors:  # for these, the log's start counts
            present = [t for t in targets if is_present(t, before, request)]
            cached_ends = self._cached_ends(present, before, topics, floors, request)
        to_ask = {topic for target, topic in topics.items() if target not in cached_ends}
        bounds = self._bounds(to_ask - {None}, floors, request.deadline)
        tables = self._loaded.now({target.name for target in targets}, request.deadline)
        cached_ends = {
            target: ends
            for target, ends in cached_ends.items()
            if self._is_recent(target, ends, tables[target.name])
        }
        to_ask = {topic for target, topic in topics.items() if target not in cached_ends}
        # a commit that landed after the log was asked may hold records of a topic that has been
        # recreated since: asked once more, the log shows which topic the table now belongs to
        moved = {
            topics[target]
            for target in targets
            if target.name in tables and is_changed(before[target.name], tables[target.name])
        }
        moved |= to_ask - bounds.keys()
        bounds |= self._bounds((moved & to_ask) - {None}, {}, request.deadline)
        facts = PinFacts(tables, bounds, cached_ends, request, known_at)
        pinned: dict[object, PinnedTable] = {}
        for target in targets:
            key = _identity(target, tables)
            if key not in pinned:
                with locate_errors_at(target.location):
                    pinned[key] = self._pinner.pin(target, facts)
        return [pinned[_identity(target, tables)] for target in targets]

    def _is_recent(self, target: Target, ends: CachedEnds, table: ColdTable) -> bool:
        """Whether cached ends are compatible with a table's newest snapshot.

        Records that compaction removed before that snapshot was written were replaced below later
        ends.
        """
        binding = TopicBinding.from_properties(table.state.properties)
        is_upsert = binding is not None and binding.is_upsert
        return not is_upsert or ends.complete_at >= self._loaded.seen_since(target.name)

    def _with_virtual(self, target: Target, tables: Mapping[TableName, ColdTable]) -> Target:
        """Returns the target, with the seam behind the virtual snapshot it asks for, if any."""
        table, wanted = tables.get(target.name), target.moment
        if table is None or not isinstance(wanted, int) or wanted in table.state.snapshots:
            return target
        return dataclasses.replace(target, virtual=self._virtual(table.state.uuid, wanted))

    def _floors(
        self,
        topics: Mapping[Target, Topic | None],
        tables: Mapping[TableName, ColdTable],
        request: PinRequest,
    ) -> dict[Topic, Floor]:
        """Returns how far each topic must be readable before its ends are taken.

        Raises:
            SeamlineError: INVALID_TOKEN when a write token does not say which table it is for,
                and the statement reads several.
        """
        floors: dict[Topic, Floor] = {}
        named = {target.name: topic for target, topic in topics.items() if topic is not None}
        for name, topic in named.items():
            begun = [
                seam
                for target in topics
                if target.name == name and target.changes is not None
                for seam in target.changes.earlier or ()
            ]
            seen = all_remembered(name, tables, (*request.after.seen, *begun))
            before = floors.get(topic, Floor())
            floor_seams = (*before.seen, *(seam for seam in seen if seam.log.topic_id))
            if floor_seams:
                floors[topic] = dataclasses.replace(before, seen=floor_seams)
        for write in request.after.writes:
            if write.table is None and len({name.folded for name in named}) > 1:
                raise SeamlineError(
                    INVALID_TOKEN,
                    "the write token names no table, but the statement reads several",
                    hint="seamline.write_token({partition: offset}, table='…')",
                )
            for name, topic in named.items():
                if write.table is None or self._is_name_of(write.table, name, request.session):
                    if not write.is_own:
                        self._check_counts(topics, name, "wait for a write token made elsewhere")
                    before = floors.get(topic, Floor())
                    floors[topic] = dataclasses.replace(
                        before, write=before.write.raised(write.end)
                    )
        return floors

    def _check_counts(self, targets: Iterable[Target], name: TableName, what: str) -> None:
        """Checks that somebody may count the rows of a table, as what they ask for would.

        Raises:
            SeamlineError: PERMISSION_DENIED.
        """
        if not self._sight([target for target in targets if target.name == name]).rows:
            raise SeamlineError(
                PERMISSION_DENIED,
                f"{self._connections.rights.principal.name} may not see all rows of "
                f"{name.display}, and so may not {what}, which would count them",
            )

    def _is_name_of(self, text: str, name: TableName, session: resolution.Session) -> bool:
        resolved = resolution.resolve(names.split(text), session, self._connections)
        return resolved.folded == name.folded

    def _decoder(self, state: TableState, deadline: Deadline) -> DecoderSpec | None:
        """Returns how a table's records are decoded now; None without a topic."""
        binding = TopicBinding.from_properties(state.properties)
        if binding is None:
            return None
        schemas = schemas_of(self._connections.log(binding.cluster), deadline)
        return DecoderSpec.of(pinned(binding, schemas), state.schema.columns)

    def _cached_ends(
        self,
        targets: Sequence[Target],
        tables: Mapping[TableName, ColdTable],
        topics: Mapping[Target, Topic | None],
        floors: Mapping[Topic, Floor],
        request: PinRequest,
    ) -> dict[Target, CachedEnds]:
        """Returns the ends that are cached here, for the targets that need not ask the log."""
        by_target: dict[Target, CachedEnds] = {}
        of_table: dict[str, CachedEnds | None] = {}  # one seam, whichever part of it is read
        for target in targets:
            topic = topics[target]
            table = tables.get(target.name)
            decoder = self._decoder(table.state, request.deadline) if table is not None else None
            if self._tails is None or table is None or topic is None or decoder is None:
                continue
            uuid = table.state.uuid
            if uuid not in of_table:
                age_s_max = request.freshness.age_s_max
                of_table[uuid] = self._tails.cached_ends(table.state, decoder, age_s_max)
            cached = of_table[uuid]
            floor = floors.get(topic, Floor()).end
            if cached is not None and all(
                cached.bounds.end.get(p, 0) >= o for p, o in floor.items()
            ):
                by_target[target] = cached
        return by_target

    def _bounds(
        self, topics: set[Topic | None], floors: Mapping[Topic, Floor], deadline: Deadline
    ) -> dict[Topic, LogBounds]:
        """Returns what each topic's log holds, once it is readable up to its floor.

        Sends one request per cluster and isolation level, and more only while it waits for a floor.
        """
        asks: dict[tuple[str, str], set[str]] = {}
        for topic in topics:
            if topic is not None:
                asks.setdefault((topic.cluster, topic.isolation), set()).add(topic.topic)
        bounds: dict[Topic, LogBounds] = {}
        for (cluster, isolation), names_ in asks.items():
            answers = self._connections.log(cluster).bounds(sorted(names_), isolation, deadline)
            bounds.update({Topic(cluster, t, isolation): a for t, a in answers.items()})
        for topic, floor in floors.items():
            if topic not in bounds:
                continue
            log = self._connections.log(topic.cluster)
            bounds[topic] = wait_until_visible(log, bounds[topic], floor, deadline)
        return bounds


def _identity(target: Target, tables: Mapping[TableName, ColdTable]) -> object:
    """Returns a key that is equal for references that must have the same seam."""
    table = tables.get(target.name)
    identity = target.name.folded if table is None else (table.state.uuid, *target.name.folded)
    reader = target.owner if target.name.variant else None  # what these say depends on who reads
    return identity, target.version, target.changes, target.equals, reader


def _asked_changes(changes: Changes, read_token: ReadToken) -> AskedChanges:
    """Returns the requested changes, with their tokens read."""
    is_all = changes.from_token.lower() == BEGINNING
    later = changes.to_token
    return AskedChanges(
        earlier=None if is_all else tuple(read_token(changes.from_token)),
        later=None if later is None else tuple(read_token(later)),
        later_name="" if later is None else f"token …{later[-_TOKEN_SHOWN:]}",
        offsets_max=changes.offsets_max,
    )


def _counts(
    logical: LogicalPlan, tables: Sequence[PinnedTable], engine: str, limits: Limits
) -> list[ColdPlan | None] | None:
    """Returns the row counts of the snapshots of a plan; None if it needs an engine."""
    if logical.row is None or not may_need_no_engine(engine, estimate(logical), limits):
        return None
    files = [
        _files(scan, table, is_count=True)
        for scan, table in zip(logical.scans, tables, strict=True)
    ]
    return None if any(plan is not None and plan.counted is None for plan in files) else files


def _files(scan: Scan, pinned: PinnedTable, *, is_count: bool = False) -> ColdPlan | None:
    """Returns the files of a snapshot that a scan reads, or how many rows; None without any."""
    table = pinned.cold
    if not scan.facts.reads_cold or table is None:
        return None
    names_ = tuple(column.name for column in scan.columns)
    needed = cold_predicate(scan.seam, scan.facts.places)
    predicate = scan.predicate if needed is None else conjunction(scan.predicate, needed)
    request = ScanRequest(scan.seam.schema_id, names_, predicate, is_count)
    return table.plan(scan.seam.cold.snapshot_id, request)
