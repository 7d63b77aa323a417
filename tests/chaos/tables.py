"""The tables under attack: what each is based on, and what may be done to it.

Most must stay exact through everything. Some are sacrificed: `doomed`, whose topic is deleted and
recreated, and `trimmed`, whose log loses records that were never tiered, and into which others copy
records, too. `quiet` has a tail that is never tiered, and no new records at all. `states` and
`compacted_states` are upsert tables, and so is `captured`, over changes with heartbeats and bad
ones among them. `adopted` and `handed` are filled by another writer,
`chaos.sink`: the first was made for it, the second began as a table of ours. The columns of
`evolving` follow the schemas of its records; into `unfit` come some that no columns of it can
follow.
"""

from __future__ import annotations

import dataclasses
import time

from chaos.history import EarlierLog, Recorder, TableClosed, TableOpened
from chaos.stack import ChaosStack
from seamline.errors import STATEMENT_NOT_ALLOWED, SeamlineError
from seamline.gateway.catalogs import resolution
from seamline.gateway.commands import adopting, handing_over, resuming, tables
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.dev.local.settings import CATALOG, CLUSTER, SCHEMA
from seamline.gateway.names import TableName
from seamline.seam.boundary import Boundary, boundary_of

COLUMNS = "id bigint, text varchar, price decimal(12, 2)"
_REQUEST_S = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """One table under attack.

    Attributes:
        name: Its name.
        topic: Its topic.
        partitions: Partitions the topic begins with.
        policy: How bad records are handled.
        errors: Errors it may answer at any time.
        compacted: Whether the topic is.
        touched_modulus: See `TableOpened`.
        has_transactions: Whether transactional producers write to it.
        properties: Further table properties.
        is_upsert: Whether it is the newest record of each key.
        envelope: What its records are wrapped in, if they are changes.
        provider: Says how far another writer has filled it; empty where Seamline fills it.
        places: Its columns for partition and offset.
        format: How its values are written; the columns of any but `json` follow their schemas.
    """

    name: str
    topic: str
    partitions: int = 2
    policy: str = "fail"
    errors: tuple[str, ...] = ()
    compacted: bool = False
    touched_modulus: int = 0
    has_transactions: bool = False
    properties: tuple[tuple[str, str], ...] = ()
    is_upsert: bool = False
    envelope: str = ""
    provider: str = ""
    places: tuple[str, str] = ("_kafka_partition", "_kafka_offset")
    format: str = "json"

    @property
    def has_schemas(self) -> bool:
        """Whether its values name schemas."""
        return self.format != "json"


PLAIN = Table("plain", "plain")
TRANSACTIONAL = Table("txn", "txn", has_transactions=True)
SKIPPING = Table("poison_skip", "poison", policy="skip")
NULLING = Table("poison_null", "poison", policy="null")
COMPACTED = Table("compacted", "compacted", policy="null", compacted=True)
FOREIGN = Table(
    "shared",
    "shared",
    errors=("HISTORY_CHANGED",),
    touched_modulus=7,
    properties=(("write.delete.mode", "merge-on-read"), ("write.merge.mode", "merge-on-read")),
)
DOOMED = Table("doomed", "doomed", errors=("HISTORY_CHANGED",))
TRIMMED = Table("trimmed", "trimmed", errors=("HISTORY_CHANGED",))

QUIET = Table("quiet", "quiet")

STATES = Table("states", "states", has_transactions=True, is_upsert=True)
COMPACTED_STATES = Table("compacted_states", "compacted_states", is_upsert=True)
CAPTURED = Table("captured", "captured", policy="skip", is_upsert=True, envelope="debezium")
ADOPTED = Table("adopted", "copied", provider="columns", places=("k_partition", "k_offset"))
HANDED = Table("handed", "copied", provider="fluss")
SINK = (ADOPTED, HANDED)
EVOLVING = Table("evolving", "evolving", format="avro")
UNFIT = Table("unfit", "unfit", errors=("HISTORY_CHANGED", "LOG_TRIMMED"), format="avro")
SACRIFICED = (DOOMED, TRIMMED, UNFIT)
"""Tables that come and go."""

ALL = (
    *(PLAIN, TRANSACTIONAL, SKIPPING, NULLING, COMPACTED, FOREIGN, DOOMED, TRIMMED, QUIET),
    *(STATES, COMPACTED_STATES, CAPTURED, *SINK, EVOLVING, UNFIT),
)
ODD_TIMES = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
"""Of a topic: it takes records of any time, and forgets none for it."""
BY_NAME = {table.name: table for table in ALL}

COMPACTION = {
    "cleanup.policy": "compact",
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "500",
    "delete.retention.ms": "500",
}
STATES_COMPACTION = {
    **COMPACTION,
    "min.compaction.lag.ms": "61000",
    "max.compaction.lag.ms": "62000",
    "delete.retention.ms": "61000",
}
"""A record stays for as long as the longest statement, and a delete until it is tiered."""
_TOPICS = {COMPACTED.topic: COMPACTION, COMPACTED_STATES.topic: STATES_COMPACTION}


def topic_config(table: Table) -> dict[str, str]:
    """The configuration of a table's topic."""
    return _TOPICS.get(table.topic, ODD_TIMES)


def create(stack: ChaosStack, table: Table, topic_id: str, recorder: Recorder) -> None:
    """Creates a table over its topic, and records that."""
    invoked = time.monotonic()
    definition = tables.TableDefinition(
        name=name_of(stack, table),
        topic=table.topic,
        cluster=CLUSTER,
        columns=tables.parse_fields(COLUMNS),
        on_error=table.policy,
        properties=dict(table.properties),
        format=table.format,
        evolution="auto" if table.has_schemas else None,
    )
    if table.is_upsert:
        definition = dataclasses.replace(
            definition,
            columns=tables.parse_fields(f"k varchar, {COLUMNS}"),
            mode="changelog" if table.envelope else "upsert",
            envelope=table.envelope,
            primary_key=("k",),
            columns_from=("k = key",),
        )
    tables.create(stack.connections, definition, StatementDeadline(_REQUEST_S))
    if table.provider:
        deadline = StatementDeadline(_REQUEST_S)
        name = name_of(stack, table)
        handing_over.hand_over(
            stack.connections, name, deadline, provider=table.provider, options={}
        )
    opened(stack, table, topic_id, recorder, invoked)


def adopt(stack: ChaosStack, table: Table, topic_id: str, recorder: Recorder) -> None:
    """Adopts a table that its writer has begun to fill, and records that."""
    invoked = time.monotonic()
    columns = [f"{p}={c}" for p, c in zip(("partition", "offset"), table.places, strict=True)]
    wanted = adopting.Adoption(
        CLUSTER,
        table.topic,
        name=name_of(stack, table),
        boundary=table.provider,
        columns=tuple(columns),
    )
    deadline = StatementDeadline(_REQUEST_S)
    found = adopting.examine(stack.connections, wanted, deadline)
    adopting.adopt(stack.connections, found)
    opened(stack, table, topic_id, recorder, invoked)


def name_of(stack: ChaosStack, table: Table) -> TableName:
    """The whole name of a table."""
    session = resolution.session(stack.connections.config)
    return resolution.resolve((table.name,), session, stack.connections)


def resume(
    stack: ChaosStack, table: Table, topic_id: str, recorder: Recorder, gaps: list[list[int]]
) -> None:
    """Accepts what a table's log has lost, and records what the table is from then on.

    Args:
        stack: The stack.
        table: The table.
        topic_id: Its topic now.
        recorder: Takes the events.
        gaps: (partition, start, end) of what this topic has lost and the table lacks.
    """
    invoked = time.monotonic()
    try:
        resuming.resume(
            stack.connections,
            name_of(stack, table),
            StatementDeadline(_REQUEST_S),
            by="chaos",
            accept_loss=True,
        )
    except SeamlineError as error:
        if error.code is not STATEMENT_NOT_ALLOWED:  # an earlier attempt has landed after all
            raise
    before, ended = recorder.opened[table.name], time.monotonic()
    now = dataclasses.replace(
        before, topic_id=topic_id, gaps=[*before.gaps, *gaps], invoked=invoked, ended=ended
    )
    if topic_id != before.topic_id:
        end = dict(boundary(stack, table).earlier_logs[-1].next)
        last = EarlierLog(before.topic_id, before.start, end, before.gaps)
        now = dataclasses.replace(now, start={}, gaps=gaps, earlier=[*before.earlier, last])
    recorder.record(TableClosed(table.name, invoked, ended), now)


def opened(
    stack: ChaosStack, table: Table, topic_id: str, recorder: Recorder, invoked: float
) -> None:
    """Records that a table exists."""
    recorder.record(
        TableOpened(
            table=table.name,
            topic_id=topic_id,
            start={} if table is ADOPTED else dict(boundary(stack, table).next),
            policy=table.policy,
            invoked=invoked,
            ended=time.monotonic(),
            errors=table.errors,
            compacted=table.compacted,
            touched_modulus=table.touched_modulus,
            has_transactions=table.has_transactions,
            is_upsert=table.is_upsert,
            changes_hands=table is HANDED,
            has_schemas=table.has_schemas,
        )
    )


def drop(stack: ChaosStack, table: Table, recorder: Recorder) -> None:
    """Drops a table, and records that."""
    invoked = time.monotonic()
    stack.connections.catalog(CATALOG).drop((SCHEMA, table.name), purge=False)
    recorder.record(TableClosed(table.name, invoked, time.monotonic()))


def boundary(stack: ChaosStack, table: Table) -> Boundary:
    """The boundary of a table as it is now."""
    state = stack.connections.catalog(CATALOG).load((SCHEMA, table.name)).state
    return boundary_of(state, state.current_snapshot_id)


def is_tiered(stack: ChaosStack, table: Table) -> bool:
    """Whether anything of a table's topic is in it."""
    return any(boundary(stack, table).next.values())
