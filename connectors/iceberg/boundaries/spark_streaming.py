"""The provider `spark-streaming`: a streaming query's commits name its batches.

A commit of Spark's `toTable` names the query and the epoch in its summary; the query's checkpoint
says up to which offsets each epoch read. Commits from inside `foreachBatch` name neither.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from seamline.connectors.iceberg.boundaries.progress_files import OwnFiles, read_text
from seamline.connectors.iceberg.boundaries.provider import (
    Adopted,
    AdoptedIceberg,
    Answer,
    Provider,
    invalid,
)
from seamline.errors import (
    BOUNDARY_INVALID,
    INVALID_TABLE_DEFINITION,
    SeamlineError,
)
from seamline.seam.boundary import EXACT
from seamline.seam.offsets import Offsets
from seamline.seam.table import Snapshot

QUERY, EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"


class SparkStreaming(Provider[AdoptedIceberg]):
    """Reads the offsets of an epoch from the query's checkpoint (the option `checkpoint`)."""

    name = "spark-streaming"
    trust = EXACT

    def answer(self, snapshot: Snapshot) -> Answer | None:
        """See `Provider.answer`."""
        epoch = snapshot.summary.get(EPOCH)
        if epoch is None:
            return None
        checkpoint = Checkpoint.of(self.adopted, self.adopted.table)
        query = snapshot.summary.get(QUERY)
        if query is not None and query != checkpoint.query:
            raise SeamlineError(
                BOUNDARY_INVALID,
                f"snapshot {snapshot.snapshot_id} is from the streaming query {query}, but the "
                f"checkpoint is from {checkpoint.query}",
            )
        ends = checkpoint.ends(int(epoch), self.adopted.binding.topic)
        return Answer(self.adopted.start.raised(ends))

    def wrote(self, snapshot: Snapshot) -> bool:
        """See `BoundaryProvider.wrote`."""
        return super().wrote(snapshot) and EPOCH in snapshot.summary


@dataclasses.dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of a streaming query."""

    location: str
    table: OwnFiles

    @classmethod
    def of(cls, adopted: Adopted, table: OwnFiles) -> Checkpoint:
        """Returns the checkpoint that a table's owner names.

        Raises:
            SeamlineError: INVALID_TABLE_DEFINITION if none is named.
        """
        location = adopted.option("checkpoint")
        if location is None:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                "the provider spark-streaming needs the query's checkpoint",
                hint="Set --option checkpoint=<location>; it must be under the table, or under a "
                "location of the catalog's setting data_locations.",
            )
        return cls(location.rstrip("/"), table)

    @property
    def query(self) -> str:
        """The id of the query.

        Raises:
            SeamlineError: BOUNDARY_INVALID, BOUNDARY_MISSING, LOCATION_NOT_ALLOWED, ….
        """
        text = read_text(self.table, f"{self.location}/metadata")
        with invalid("the checkpoint's metadata"):
            return str(json.loads(text)["id"])

    def ends(self, epoch: int, topic: str) -> Offsets:
        """Returns the offsets of a topic up to which an epoch has read.

        Raises:
            SeamlineError: BOUNDARY_INVALID, BOUNDARY_MISSING, LOCATION_NOT_ALLOWED, ….
        """
        text = read_text(self.table, f"{self.location}/offsets/{epoch}")
        with invalid(f"epoch {epoch} of the checkpoint"):
            return _offsets(text, topic)


def _offsets(text: str, topic: str) -> Offsets:
    """Parses a file with a version, metadata, and a line for each source of the query."""
    version, _, *sources = text.splitlines()
    if version != "v1":
        raise ValueError(f"version {version!r}")
    of_topic: list[dict[str, Any]] = [
        body[topic]
        for line in sources
        if line not in ("", "-") and topic in (body := json.loads(line))
    ]
    if len(of_topic) != 1:
        raise ValueError(f"{len(of_topic)} of the query's sources read topic {topic}")
    return Offsets.from_json(of_topic[0])
