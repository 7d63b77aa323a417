"""Facts, read once: every table a statement names, pinned to one seam each.

The order is the protocol's. Ends of all topics first, then the tables as they are now, then the
boundary of the snapshot to be read; the pure functions of `planners.seam` decide. A table that is
named several times is pinned once. Nothing else of a statement talks to Kafka or a catalog before
its rows are read.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence

import pyarrow as pa

from seamline.connectors.base import (
    READ_COMMITTED,
    ColdTable,
    Deadline,
    LogBounds,
    TableState,
    TopicBinding,
)
from seamline.connectors.iceberg.boundary import boundary_of
from seamline.connectors.kafka.decode import DecoderSpec
from seamline.gateway import names, system
from seamline.gateway.connections import Connections
from seamline.gateway.names import TableName
from seamline.gateway.tokens import TokenSeam
from seamline.planners import seam as seams
from seamline.planners.logical import Kind, ScanFacts
from seamline.planners.seam import Seam
from seamline.sql import columns
from seamline.sql.errors import (
    READ_CONFLICT,
    SCHEMA_NOT_FOUND,
    TABLE_NOT_FOUND,
    TOKEN_EXPIRED,
    SeamlineError,
)
from seamline.sql.qualify import Relation, TableReference, TableVersion
from seamline.sql.types import VARBINARY, Field

RAW_COLUMNS: tuple[Field, ...] = (
    Field("value", VARBINARY),
    *(field for field in columns.METADATA_FIELDS if field.name != columns.BATCH),
)
"""Columns of a topic that has no table: its values are not decoded."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pinned:
    """One reference of a statement, with everything known of the table behind it.

    Attributes:
        relation: Its columns.
        facts: Its seam and kind.
        cold: The loaded table, None without a cold side.
        decoder: How its records are decoded, None without a hot side.
        rows: The rows themselves, for tables made of the gateway's own knowledge.
    """

    relation: Relation
    facts: ScanFacts
    cold: ColdTable | None = None
    decoder: DecoderSpec | None = None
    rows: pa.Table | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Target:
    name: TableName
    version: TableVersion | None


class Pinner:
    """Pins the tables of statements."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def pin(
        self,
        references: Sequence[TableReference],
        session: names.Session,
        deadline: Deadline,
        *,
        token: Sequence[TokenSeam] = (),
    ) -> list[Pinned]:
        """Pins each reference, in order.

        Args:
            references: The tables a statement names.
            session: What the names leave unsaid.
            deadline: The statement's.
            token: Seams to place again; tables they do not name are pinned as they are now.

        Raises:
            SeamlineError: named after the cause; see `planners.seam`.
        """
        targets = [self._target(reference, session) for reference in references]
        wanted = {target.name for target in targets}
        tables = self._tables(wanted)
        bounds = self._bounds(tables, wanted, deadline)
        tables = self._tables(wanted)
        by_token = {entry.table: entry for entry in token}
        pinned: dict[_Target, Pinned] = {}
        for target in targets:
            if target not in pinned:
                pinned[target] = self._pin(target, tables, bounds, by_token, deadline)
        return [pinned[target] for target in targets]

    # --- Facts ---------------------------------------------------------------------------------

    def _target(self, reference: TableReference, session: names.Session) -> _Target:
        name = names.resolve(reference.name, session, self._connections.config)
        return _Target(name, reference.version)

    def _tables(self, wanted: Sequence[TableName] | set[TableName]) -> dict[TableName, ColdTable]:
        """The tables behind the names, as they are now; a topic's own name has none."""
        found: dict[TableName, ColdTable] = {}
        loaded: dict[tuple[str, ...], ColdTable] = {}
        for name in wanted:
            if name.cluster or system.is_system(name):
                continue
            if name.full not in loaded:
                loaded[name.full] = self._load(name)
            found[name] = loaded[name.full]
        return found

    def _load(self, name: TableName) -> ColdTable:
        catalog = self._connections.catalog(name.catalog)
        try:
            return catalog.load(name.path)
        except SeamlineError as error:
            folded = tuple(part.lower() for part in name.path)
            if error.code not in {TABLE_NOT_FOUND, SCHEMA_NOT_FOUND} or folded == name.path:
                raise
        try:
            return catalog.load(folded)
        except SeamlineError as error:
            if error.code not in {TABLE_NOT_FOUND, SCHEMA_NOT_FOUND}:
                raise
            raise SeamlineError(TABLE_NOT_FOUND, f"table {name.display} does not exist") from error

    def _bounds(
        self,
        tables: Mapping[TableName, ColdTable],
        wanted: set[TableName],
        deadline: Deadline,
    ) -> dict[tuple[str, str], LogBounds]:
        """What the log of each topic holds, by (cluster, topic): one request a cluster."""
        asks: dict[tuple[str, str], set[str]] = {}
        for name in wanted:
            binding = _binding(name, tables)
            if binding is not None:
                asks.setdefault((binding.cluster, binding.isolation), set()).add(binding.topic)
        found: dict[tuple[str, str], LogBounds] = {}
        for (cluster, isolation), topics in asks.items():
            answers = self._connections.log(cluster).bounds(sorted(topics), isolation, deadline)
            found.update({(cluster, topic): answer for topic, answer in answers.items()})
        return found

    # --- Seams ---------------------------------------------------------------------------------

    def _pin(
        self,
        target: _Target,
        tables: Mapping[TableName, ColdTable],
        bounds: Mapping[tuple[str, str], LogBounds],
        token: Mapping[tuple[str, ...], TokenSeam],
        deadline: Deadline,
    ) -> Pinned:
        name = target.name
        if system.is_system(name):
            relation, rows = system.information_schema(name, self._connections)
            return _system(name, relation, rows)
        if name.cluster:
            return self._pin_topic(name, bounds)
        table = tables[name]
        binding = TopicBinding.from_properties(table.state.properties)
        if target.version is not None or binding is None or name.variant == "cold":
            return self._pin_cold(target, table, binding, token.get(name.full))
        known = bounds.get((binding.cluster, binding.topic))
        if known is None:
            raise SeamlineError(READ_CONFLICT, f"table {name.display} was bound to another topic")
        seam = self._seam(table.state, binding, known, token.get(name.full), deadline)
        if name.variant in system.TABLE_VARIANTS:
            relation, rows = system.about_table(name, table, seam)
            return _system(name, relation, rows)
        kind: Kind = "hot" if name.variant == "hot" else "unified"
        schema = table.state.schemas[seam.schema_id]
        return Pinned(
            relation=_relation(schema.columns),
            facts=ScanFacts(kind, seam, binding),
            cold=table,
            decoder=DecoderSpec(binding.topic, binding.format, binding.on_error, schema.columns),
        )

    def _seam(
        self,
        state: TableState,
        binding: TopicBinding,
        bounds: LogBounds,
        token: TokenSeam | None,
        deadline: Deadline,
    ) -> Seam:
        if token is not None:
            return self._seam_of_token(state, binding, bounds, token)
        boundary = boundary_of(state, state.current_snapshot_id)
        for newer in (False, True):
            if newer or boundary.isolation != bounds.isolation:
                log = self._connections.log(binding.cluster)
                bounds = log.bounds([binding.topic], boundary.isolation, deadline)[binding.topic]
            seam = seams.pin(
                state,
                boundary,
                bounds,
                cluster=binding.cluster,
                snapshot_id=state.current_snapshot_id,
                bounds_are_newer=newer,
            )
            if seam is not None:
                return seam
        raise AssertionError("bounds read after the table always place the seam")

    def _seam_of_token(
        self, state: TableState, binding: TopicBinding, bounds: LogBounds, token: TokenSeam
    ) -> Seam:
        boundary = None
        if token.snapshot_id in state.snapshots:
            boundary = boundary_of(state, token.snapshot_id)
        return seams.repeat(
            state,
            boundary,
            bounds,
            cluster=binding.cluster,
            snapshot_id=token.snapshot_id,
            schema_id=token.schema_id,
            table_uuid=token.table_uuid,
            topic_id=token.topic_id,
            end=token.end,
        )

    def _pin_topic(self, name: TableName, bounds: Mapping[tuple[str, str], LogBounds]) -> Pinned:
        (topic,) = name.path
        known = bounds[name.cluster, topic]
        seam = seams.hot_only(name.full, known, cluster=name.cluster)
        return Pinned(
            relation=_relation(RAW_COLUMNS),
            facts=ScanFacts("hot", seam),
            decoder=DecoderSpec(topic, "raw", "fail", RAW_COLUMNS),
        )

    def _pin_cold(
        self,
        target: _Target,
        table: ColdTable,
        binding: TopicBinding | None,
        token: TokenSeam | None,
    ) -> Pinned:
        state = table.state
        snapshot_id, schema_id = _snapshot(state, target.version)
        if token is not None and target.version is None:
            if token.snapshot_id is not None and token.snapshot_id not in state.snapshots:
                raise SeamlineError(
                    TOKEN_EXPIRED, f"snapshot {token.snapshot_id} of {state.display_name} is gone"
                )
            snapshot_id, schema_id = token.snapshot_id, token.schema_id
        seam = seams.cold_only(state, snapshot_id, schema_id=schema_id)
        if target.name.variant in system.TABLE_VARIANTS:
            relation, rows = system.about_table(target.name, table, seam)
            return _system(target.name, relation, rows)
        return Pinned(
            relation=_relation(state.schemas[seam.schema_id].columns),
            facts=ScanFacts("cold", seam, binding),
            cold=table,
        )


def _binding(name: TableName, tables: Mapping[TableName, ColdTable]) -> TopicBinding | None:
    """The topic behind a name, None when its log is of no interest."""
    if name.cluster:
        return TopicBinding(name.cluster, name.path[-1], isolation=READ_COMMITTED)
    table = tables.get(name)
    if table is None or name.variant == "cold":
        return None
    return TopicBinding.from_properties(table.state.properties)


def _relation(fields: tuple[Field, ...]) -> Relation:
    return Relation(fields, columns.METADATA_NAMES & {field.name for field in fields})


def _system(name: TableName, relation: Relation, rows: pa.Table) -> Pinned:
    seam = Seam((*name.full[:-1], name.display), "", None, 0)
    return Pinned(relation, ScanFacts("system", seam), rows=rows)


def _snapshot(state: TableState, version: TableVersion | None) -> tuple[int | None, int | None]:
    """The snapshot a version means, and its schema."""
    if version is None:
        return state.current_snapshot_id, None
    snapshot_id = _version_id(state, version)
    snapshot = state.snapshots.get(snapshot_id)
    if snapshot is None:
        raise SeamlineError(
            TABLE_NOT_FOUND,
            f"table {state.display_name} has no snapshot {snapshot_id}",
            hint="`t$snapshots` lists the snapshots that are kept.",
        )
    is_branch_head = any(
        ref.kind == "branch" and ref.snapshot_id == snapshot_id and name == version.value
        for name, ref in state.refs.items()
    )
    return snapshot_id, None if is_branch_head else snapshot.schema_id


def _version_id(state: TableState, version: TableVersion) -> int:
    match version.value:
        case int():
            return version.value
        case str():
            ref = state.refs.get(version.value)
            if ref is None:
                known = ", ".join(sorted(state.refs)) or "none"
                raise SeamlineError(
                    TABLE_NOT_FOUND,
                    f"table {state.display_name} has no tag or branch {version.value!r}",
                    hint=f"It has: {known}.",
                )
            return ref.snapshot_id
        case datetime.datetime():
            moment = int(version.value.timestamp() * 1000)
            earlier = [s for at, s in state.snapshot_log if at <= moment]
            if not earlier:
                raise SeamlineError(
                    TABLE_NOT_FOUND,
                    f"table {state.display_name} has no snapshot as old as {version.value}",
                    hint="`t$snapshots` lists the snapshots that are kept.",
                )
            return earlier[-1]
