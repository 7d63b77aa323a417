"""The provider `kafka-delta-ingest`: transactions in the log say how far each partition is.

Each of its commits writes, with the rows, a `txn` action a partition: the application
`<app id>-<partition>`, whose version is the last offset written. They stay in every later version,
so the boundary of any of them is there, together with its rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from seamline.connectors.delta.versions import Version
from seamline.connectors.iceberg.boundaries.provider import Adopted, Answer, Provider
from seamline.connectors.protocols import NoDeadline
from seamline.errors import (
    BOUNDARY_INVALID,
    BOUNDARY_MISSING,
    INVALID_TABLE_DEFINITION,
    SeamlineError,
)
from seamline.seam.boundary import EXACT
from seamline.seam.offsets import Offsets
from seamline.seam.table import Snapshot

NAME = "kafka-delta-ingest"
APP_ID = "kafka_delta_ingest"
"""What it calls itself unless it is told otherwise."""
TRANSACTION, OPERATION = "delta.txn.", "delta.operation"
"""Keys of summaries: what an application has said, and what a writer calls its commit."""
_RESTORE = "RESTORE"
_FORGETTING = "delta.setTransactionRetentionDuration"


@dataclasses.dataclass(frozen=True, slots=True)
class AdoptedDelta(Adopted):
    """A Delta table that another writer fills.

    Attributes:
        version: Gives the version of a snapshot.
    """

    version: Callable[[int], Version]


class KafkaDeltaIngest(Provider[AdoptedDelta]):
    """Reads the transactions of one application (the option `app-id`)."""

    name = NAME
    trust = EXACT

    def answer(self, snapshot: Snapshot) -> Answer | None:
        """See `Provider.answer`."""
        state = self.adopted.state
        self._require_whole()
        for earlier in state.ancestors(snapshot.snapshot_id):
            if earlier.summary.get(OPERATION) == _RESTORE:
                raise SeamlineError(
                    BOUNDARY_INVALID,
                    f"version {earlier.snapshot_id} of {state.display_name} restores an older one, "
                    "whose transactions are not restored with its rows",
                    hint='"t$cold" reads it. Have it filled again, in a new table.',
                )
        version = self.adopted.version(snapshot.snapshot_id)
        if _FORGETTING in version.configuration:
            raise SeamlineError(
                BOUNDARY_INVALID,
                f"{state.display_name} forgets the transactions of idle partitions: it has the "
                f"property {_FORGETTING}",
                hint="Unset the property.",
            )
        ends = {}
        for partition in self._partitions():
            last = version.transaction(f"{self._application}-{partition}")
            if last is not None:
                ends[partition] = last + 1
        if not ends and version.actions.num_rows:
            raise SeamlineError(
                BOUNDARY_MISSING,
                f"version {snapshot.snapshot_id} of {state.display_name} has rows, and no "
                f"transaction of the application {self._application}",
                hint="Name the one of its writer with boundary_app_id.",
            )
        return Answer(self.adopted.start.raised(Offsets(ends)))

    def wrote(self, snapshot: Snapshot) -> bool:
        """See `BoundaryProvider.wrote`."""
        own = f"{TRANSACTION}{self._application}-"
        return super().wrote(snapshot) and any(key.startswith(own) for key in snapshot.summary)

    @property
    def _application(self) -> str:
        return self.adopted.option("app-id") or APP_ID

    def _partitions(self) -> list[int]:
        """Those of the topic; a version cannot have any that the topic does not have by now."""
        binding = self.adopted.binding
        bounds = self.adopted.log().bounds([binding.topic], binding.isolation, NoDeadline())
        found = bounds[binding.topic]
        if binding.topic_id is None:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"{self.adopted.state.display_name} does not say which topic of the name "
                f"{binding.topic} it is a copy of",
                hint=f"The one that is there now: topic_id: {found.topic_id}",
            )
        return list(found.end)

    def _require_whole(self) -> None:
        binding, state = self.adopted.binding, self.adopted.state
        problem = None
        if binding.boundary_provider != NAME:
            said = binding.boundary_provider
            problem = f"has the boundary provider {said}" if said else "has no boundary_provider"
        elif binding.is_upsert:
            problem = f"has the mode {binding.mode}"
        if problem is not None:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                f"the Delta table {state.display_name} {problem}",
                hint=f"A Delta table over a topic has boundary_provider: {NAME}, and no mode.",
            )
