"""The boundary providers of Delta tables: transactions in the log say how far their writers got.

A commit may contain, with its rows, `txn` actions: the name of an application, and a number that
the application chooses. They stay in every later version, so each version has its boundary with its
rows.

kafka-delta-ingest writes one per partition: `<app id>-<partition>`, with the last offset written.
Spark Structured Streaming writes the query's id, with the epoch; the epoch's offsets are in the
query's checkpoint.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import ClassVar

from seamline.connectors.delta.versions import Version
from seamline.connectors.iceberg.boundaries.progress_files import OwnFiles
from seamline.connectors.iceberg.boundaries.provider import Adopted, Answer, Provider
from seamline.connectors.iceberg.boundaries.spark_streaming import Checkpoint, SparkStreaming
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.errors import (
    BOUNDARY_INVALID,
    BOUNDARY_MISSING,
    INVALID_TABLE_DEFINITION,
    SeamlineError,
)
from seamline.seam.boundary import EXACT
from seamline.seam.log import LogBounds
from seamline.seam.offsets import Offsets
from seamline.seam.table import Snapshot

APP_ID = "kafka_delta_ingest"
"""The default application id of kafka-delta-ingest."""
TRANSACTION, OPERATION = "delta.txn.", "delta.operation"
"""Keys of summaries: the prefix for an application's number, and a writer's name for its commit."""
_RESTORE = "RESTORE"
_FORGETTING = "delta.setTransactionRetentionDuration"


@dataclasses.dataclass(frozen=True, slots=True)
class AdoptedDelta(Adopted):
    """A Delta table that another writer fills."""

    table: OwnFiles
    version: Callable[[int], Version]


class DeltaProvider(Provider[AdoptedDelta]):
    """What the providers of Delta tables share: which tables have a boundary at all."""

    trust = EXACT

    @abc.abstractmethod
    def ends(self, version: Version) -> Offsets | None:
        """Returns the first offsets that a version does not hold; None if its writer said nothing.

        Raises:
            SeamlineError: See `BoundaryProvider.boundary`.
        """

    @abc.abstractmethod
    def is_own(self, application: str) -> bool:
        """Whether the transactions of an application are the writer's."""

    def answer(self, snapshot: Snapshot) -> Answer | None:
        """See `Provider.answer`."""
        state = self.adopted.state
        self._require_binding()
        version = self.adopted.version(snapshot.snapshot_id)
        self._require_transactions(snapshot, version)
        ends = self.ends(version)
        if ends is None and version.actions.num_rows:
            raise SeamlineError(
                BOUNDARY_MISSING,
                f"version {snapshot.snapshot_id} of {state.display_name} has rows, but no "
                f"transaction of its writer, according to the provider {self.name}",
                hint=self.remedy,
            )
        return Answer(self.adopted.start.raised(ends or Offsets()))

    remedy: ClassVar[str]
    """What to do if a version has rows but no transaction."""

    def wrote(self, snapshot: Snapshot) -> bool:
        """See `BoundaryProvider.wrote`."""
        applications = (
            k.removeprefix(TRANSACTION) for k in snapshot.summary if k.startswith(TRANSACTION)
        )
        return super().wrote(snapshot) and any(map(self.is_own, applications))

    def bounds(self) -> LogBounds:
        """Returns what the log holds now."""
        binding = self.adopted.binding
        bounds = self.adopted.log().bounds([binding.topic], binding.isolation, NoDeadline())
        return bounds[binding.topic]

    def _require_binding(self) -> None:
        binding, name = self.adopted.binding, self.adopted.state.display_name
        problem = None
        hint = f"A Delta table over a topic needs one of: {', '.join(PROVIDERS)}; and no mode."
        if binding.boundary_provider != self.name:
            provider = binding.boundary_provider
            problem = (
                f"has the boundary provider {provider}" if provider else "has no boundary_provider"
            )
        elif binding.is_upsert:
            problem = f"has the mode {binding.mode}"
        elif binding.topic_id is None:
            problem = f"does not say which topic named {binding.topic} it is a copy of"
            hint = f"The current one is topic_id: {self.bounds().topic_id}"
        if problem is not None:
            message = f"the Delta table {name} {problem}"
            raise SeamlineError(INVALID_TABLE_DEFINITION, message, hint=hint)

    def _require_transactions(self, snapshot: Snapshot, version: Version) -> None:
        """Checks that the transactions of a version belong to its rows."""
        state = self.adopted.state
        for earlier in state.ancestors(snapshot.snapshot_id):
            if earlier.summary.get(OPERATION) == _RESTORE:
                raise SeamlineError(
                    BOUNDARY_INVALID,
                    f"version {earlier.snapshot_id} of {state.display_name} restores an older one, "
                    "but not the transactions of its rows",
                    hint='"t$cold" reads it. Fill a new table instead.',
                )
        if _FORGETTING in version.configuration:
            raise SeamlineError(
                BOUNDARY_INVALID,
                f"{state.display_name} forgets the transactions of idle writers: the property "
                f"{_FORGETTING} is set",
                hint="Unset the property.",
            )


class KafkaDeltaIngest(DeltaProvider):
    """Reads the transactions of one application (the option `app-id`)."""

    name = "kafka-delta-ingest"
    remedy = "Name its writer's application with boundary_app_id."

    def ends(self, version: Version) -> Offsets | None:
        """See `DeltaProvider.ends`.

        A version cannot have a partition that the topic does not have by now.
        """
        last_offsets = {
            p: version.transaction(f"{self._application}-{p}") for p in self.bounds().end
        }
        ends = {partition: last + 1 for partition, last in last_offsets.items() if last is not None}
        return Offsets(ends) if ends else None

    def is_own(self, application: str) -> bool:
        """See `DeltaProvider.is_own`."""
        front, _, partition = application.rpartition("-")
        return front == self._application and partition.isdecimal()

    @property
    def _application(self) -> str:
        return self.adopted.option("app-id") or APP_ID


class SparkStreamingDelta(DeltaProvider):
    """Reads the offsets of an epoch from the query's checkpoint (the option `checkpoint`)."""

    name = SparkStreaming.name
    remedy = "Name the checkpoint of the query that fills it with boundary_checkpoint."

    def ends(self, version: Version) -> Offsets | None:
        """See `DeltaProvider.ends`."""
        checkpoint = self._checkpoint
        epoch = version.transaction(checkpoint.query)
        return None if epoch is None else checkpoint.ends(epoch, self.adopted.binding.topic)

    def is_own(self, application: str) -> bool:
        """See `DeltaProvider.is_own`."""
        return application == self._query

    @functools.cached_property
    def _query(self) -> str:
        """The query that fills the table; cached, since every read asks it for every version."""
        return self._checkpoint.query

    @property
    def _checkpoint(self) -> Checkpoint:
        return Checkpoint.of(self.adopted, self.adopted.table)


PROVIDERS: Mapping[str, type[DeltaProvider]] = {
    provider.name: provider for provider in (KafkaDeltaIngest, SparkStreamingDelta)
}
