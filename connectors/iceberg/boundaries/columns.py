"""The provider `columns`: the boundary is just past the greatest offset in the rows themselves.

This is correct if the writer commits each partition without gaps and nobody deletes the newest
rows. The table's owner asserts that by choosing this provider. It serves tables of Redpanda,
AutoMQ, Tableflow, Aiven and of Flink jobs, whose commits do not record the topic's offsets.
"""

from __future__ import annotations

from pyiceberg.expressions import AlwaysTrue

from seamline.connectors.iceberg.boundaries.positions import FilePositions, PositionColumns
from seamline.connectors.iceberg.boundaries.provider import APPEND, AdoptedIceberg, Answer, Provider
from seamline.connectors.iceberg.pruning import Pruner
from seamline.seam.boundary import DERIVED, REWRITE
from seamline.seam.table import Snapshot


class Columns(Provider[AdoptedIceberg]):
    """Computes the boundary of a snapshot from its rows, deleted ones included."""

    name = "columns"
    trust = DERIVED

    def answer(self, snapshot: Snapshot) -> Answer | None:
        """See `Provider.answer`.

        A commit that removes rows does not undo that they were copied, so the rows before it count
        as well. Rows without an offset are somebody else's, whichever snapshot they are from.
        """
        state, held = self.adopted.state, self._held(snapshot)
        ends = self.adopted.start.raised(held.ends)
        for earlier in state.ancestors(snapshot.snapshot_id):
            parent = state.snapshots.get(earlier.parent_id) if earlier.parent_id else None
            if earlier.operation not in (APPEND, REWRITE) and parent is not None:
                ends = ends.raised(self._held(parent).ends)
        return Answer(ends, has_others=held.others > 0)

    def _held(self, snapshot: Snapshot) -> FilePositions:
        table = self.adopted.table
        iceberg = table.iceberg
        columns = PositionColumns.of(self.adopted.state, self.adopted.binding.encoding)
        pruner = Pruner(iceberg.metadata, AlwaysTrue())
        files = [task.file for task in table.tasks(snapshot.snapshot_id, pruner)]
        mapping = iceberg.metadata.name_mapping()
        return self.adopted.positions.ends(iceberg.io, files, columns, mapping)
