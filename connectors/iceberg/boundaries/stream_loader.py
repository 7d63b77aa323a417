"""The provider `stream-loader`: the table's properties hold the last offset of each partition.

They are written with the rows in one transaction. They describe the table as it is now, so its past
snapshots have no boundary.
"""

from __future__ import annotations

from collections.abc import Iterator

from seamline.connectors.iceberg.boundaries.provider import (
    AdoptedIceberg,
    Answer,
    Provider,
    invalid,
)
from seamline.errors import BOUNDARY_INVALID, SeamlineError
from seamline.seam.boundary import EXACT
from seamline.seam.offsets import Offsets
from seamline.seam.table import Snapshot, TableState

PREFIX = "__consumer_offset:"


class StreamLoader(Provider[AdoptedIceberg]):
    """Reads `__consumer_offset:<group>:<topic>:<partition>` = `<offset>:<milliseconds>`."""

    name = "stream-loader"
    trust = EXACT
    is_lasting = False

    def answer(self, snapshot: Snapshot) -> Answer | None:
        """See `Provider.answer`."""
        state = self.adopted.state
        if snapshot.snapshot_id != state.current_snapshot_id:
            return None
        ends: dict[int, int] = {}
        groups = set()
        for group, topic, partition, end in offsets_of(state):
            if topic == self.adopted.binding.topic and self._is_of(group):
                groups.add(group)
                ends[partition] = end
        if len(groups) > 1:
            raise SeamlineError(
                BOUNDARY_INVALID,
                f"several consumer groups fill {state.display_name}: {', '.join(sorted(groups))}",
                hint="Name one with --option group=….",
            )
        return Answer(self.adopted.start.raised(Offsets(ends))) if ends else None

    def _is_of(self, group: str) -> bool:
        own = self.adopted.option("group")
        return own is None or own == group


def offsets_of(state: TableState) -> Iterator[tuple[str, str, int, int]]:
    """Yields (group, topic, partition, first offset not copied) from a table's properties.

    Raises:
        SeamlineError: BOUNDARY_INVALID.
    """
    for name, value in state.properties.items():
        if name.startswith(PREFIX):
            with invalid(f"the property {name} of {state.display_name}"):
                group, topic, partition = _parts(name)
                end = int(value.partition(":")[0]) + 1
                entry = group, topic, int(partition), end
            yield entry


def _parts(name: str) -> tuple[str, str, str]:
    """Splits a name into group, topic and partition; groups may have colons, topics cannot."""
    group, topic, partition = name.removeprefix(PREFIX).rsplit(":", 2)
    return group, topic, partition
