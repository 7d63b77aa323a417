"""The provider `columns`: the boundary is past the greatest offset that the rows themselves have.

That holds where the writer commits each partition without gaps, and nobody deletes the newest rows:
the table's owner says so by choosing it. It is how tables of Redpanda, AutoMQ, Tableflow, Aiven and
of Flink jobs are read, whose commits say nothing of the topic's offsets.
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

        A commit that takes rows away takes nothing back that was copied: what was there before it
        counts as well. Rows without an offset are somebody else's, of whatever snapshot.
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
        pruner = Pruner(iceberg.metadata, iceberg.io, AlwaysTrue())
        files = [task.file for task in table.tasks(snapshot.snapshot_id, pruner)]
        return self.adopted.positions.ends(iceberg.io, files, columns)
