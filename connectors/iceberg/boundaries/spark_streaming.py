"""The provider `spark-streaming`: a streaming query's commits name its batches.

A commit of Spark's `toTable` names the query and the epoch in its summary; the query's checkpoint
says to which offsets each epoch read. Commits from inside of `foreachBatch` say neither.
"""

from __future__ import annotations

import json
from typing import Any

from seamline.connectors.iceberg.boundaries.files import read_text
from seamline.connectors.iceberg.boundaries.provider import (
    AdoptedIceberg,
    Answer,
    Provider,
    invalid,
    whole,
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
        checkpoint = self.adopted.option("checkpoint")
        if checkpoint is None:
            raise SeamlineError(
                INVALID_TABLE_DEFINITION,
                "the provider spark-streaming needs the query's checkpoint",
                hint="Give --option checkpoint=<location>; it must lie under the table, or under a "
                "location of the catalog's setting data_locations.",
            )
        checkpoint = checkpoint.rstrip("/")
        self._require_query(checkpoint, snapshot)
        text = read_text(self.adopted.table, f"{checkpoint}/offsets/{int(epoch)}")
        with invalid(f"epoch {epoch} of the checkpoint"):
            ends = _offsets(text, self.adopted.binding.topic)
        return Answer(self.adopted.start.raised(ends))

    def wrote(self, snapshot: Snapshot) -> bool:
        """See `BoundaryProvider.wrote`."""
        return super().wrote(snapshot) and EPOCH in snapshot.summary

    def _require_query(self, checkpoint: str, snapshot: Snapshot) -> None:
        text = read_text(self.adopted.table, f"{checkpoint}/metadata")
        with invalid("the checkpoint's metadata"):
            known = json.loads(text)["id"]
        wanted = snapshot.summary.get(QUERY)
        if wanted is not None and wanted != known:
            raise SeamlineError(
                BOUNDARY_INVALID,
                f"snapshot {snapshot.snapshot_id} is of the streaming query {wanted}, and the "
                f"checkpoint is of {known}",
            )


def _offsets(text: str, topic: str) -> Offsets:
    """The file has a version, metadata, and a line for each source of the query."""
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
    return Offsets({int(partition): whole(end) for partition, end in of_topic[0].items()})
