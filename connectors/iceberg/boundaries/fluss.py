"""The provider `fluss`: Fluss writes the offsets of its buckets into each of its commits.

Up to version 0.8 the summary's `fluss-offsets` holds them; from 0.9 on it names a file that does. A
bucket is a partition; each offset is the first one that is not in the lake. A table that Fluss
partitions has one log per partition, so it has no single topic.
"""

from __future__ import annotations

import json
from typing import Any

from seamline.connectors.iceberg.boundaries.progress_files import read_text
from seamline.connectors.iceberg.boundaries.provider import (
    AdoptedIceberg,
    Answer,
    Provider,
    invalid,
)
from seamline.errors import NOT_SUPPORTED, SeamlineError
from seamline.seam.boundary import EXACT
from seamline.seam.offsets import Offsets, whole
from seamline.seam.table import Snapshot

SUMMARY_KEY = "fluss-offsets"
_INLINE = ("[", "{")
_UNKNOWN = -1


class Fluss(Provider[AdoptedIceberg]):
    """Reads the offsets of Fluss's tiering service."""

    name = "fluss"
    trust = EXACT

    def answer(self, snapshot: Snapshot) -> Answer | None:
        """See `Provider.answer`."""
        text = snapshot.summary.get(SUMMARY_KEY)
        if text is None:
            return None
        text = text.strip()
        if not text.startswith(_INLINE):
            text = read_text(self.adopted.table, text)
        with invalid(f"{SUMMARY_KEY} of snapshot {snapshot.snapshot_id}"):
            ends = _offsets(json.loads(text), self.adopted.state.display_name)
        return Answer(self.adopted.start.raised(ends))

    def wrote(self, snapshot: Snapshot) -> bool:
        """See `BoundaryProvider.wrote`."""
        return super().wrote(snapshot) and SUMMARY_KEY in snapshot.summary


def _offsets(body: Any, table: str) -> Offsets:
    if isinstance(body, list):
        if any("partition_id" in entry for entry in body):
            raise _partitioned(table)
        ends = {whole(entry["bucket"]): whole(entry["offset"]) for entry in body}
    else:
        if "partition_offsets" in body:
            raise _partitioned(table)
        if body["version"] != 1:
            raise ValueError(f"version {body['version']} of the file of offsets")
        ends = dict(enumerate(map(whole, body["bucket_offsets"])))
    return Offsets({bucket: end for bucket, end in ends.items() if end != _UNKNOWN})


def _partitioned(table: str) -> SeamlineError:
    return SeamlineError(
        NOT_SUPPORTED,
        f"table {table} is partitioned by Fluss: each of its partitions has its own log",
        hint="Bind a table that Fluss does not partition.",
    )
