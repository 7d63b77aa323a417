"""The tables under attack: what each stands on, and what may be done to it.

Most must stay exact through everything. Two are sacrificed: `doomed`, whose topic is deleted and
created again, and `trimmed`, whose log loses records that were never tiered. `quiet` has a tail
that is never tiered, and no new records at all.
"""

from __future__ import annotations

import dataclasses
import time

from chaos.history import Recorder, TableClosed, TableOpened
from chaos.stack import ChaosStack
from seamline.gateway.commands import tables
from seamline.gateway.dev.local.settings import CATALOG, CLUSTER, SCHEMA
from seamline.gateway.query import names
from seamline.gateway.query.deadline import StatementDeadline
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
        policy: What a bad record becomes.
        errors: Errors it may answer at any time.
        compacted: Whether the topic is.
        touched_modulus: See `TableOpened`.
        has_transactions: Whether transactional producers write to it.
        properties: Further table properties.
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

ALL = (PLAIN, TRANSACTIONAL, SKIPPING, NULLING, COMPACTED, FOREIGN, DOOMED, TRIMMED, QUIET)
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


def create(stack: ChaosStack, table: Table, topic_id: str, recorder: Recorder) -> None:
    """Creates a table over its topic, and says so."""
    invoked = time.monotonic()
    session = names.session(stack.connections.config)
    definition = tables.TableDefinition(
        name=names.resolve((table.name,), session, stack.connections),
        topic=table.topic,
        cluster=CLUSTER,
        columns=tables.parse_fields(COLUMNS),
        on_error=table.policy,
        properties=dict(table.properties),
    )
    tables.create(stack.connections, definition, StatementDeadline(_REQUEST_S))
    recorder.record(
        TableOpened(
            table=table.name,
            topic_id=topic_id,
            start=dict(boundary(stack, table).next),
            policy=table.policy,
            invoked=invoked,
            ended=time.monotonic(),
            errors=table.errors,
            compacted=table.compacted,
            touched_modulus=table.touched_modulus,
            has_transactions=table.has_transactions,
        )
    )


def drop(stack: ChaosStack, table: Table, recorder: Recorder) -> None:
    """Drops a table, and says so."""
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
