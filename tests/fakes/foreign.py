"""Another writer of a table in memory: the product's own provider and checks, over rows in memory.

It says how far it has copied the topic as Fluss does, in the summary of each commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from seamline.connectors.iceberg.boundaries.fluss import SUMMARY_KEY, Fluss
from seamline.connectors.iceberg.boundaries.provider import AdoptedIceberg, Provider
from seamline.connectors.iceberg.boundaries.registry import PROPERTY
from seamline.connectors.iceberg.boundaries.second_writer import second_writer
from seamline.seam.binding import TopicBinding
from seamline.seam.history_checks import outrun, require
from seamline.seam.table import TableState
from seamline.sql import columns

if TYPE_CHECKING:
    from fakes.memory import MemoryFile


def summary(ends: Mapping[int, int]) -> dict[str, str]:
    """What a commit of that writer says: the first offsets that it has not copied."""
    entries = [{"bucket": partition, "offset": end} for partition, end in sorted(ends.items())]
    return {SUMMARY_KEY: json.dumps(entries)}


def ends_of(said: Mapping[str, str]) -> dict[int, int] | None:
    """The inverse; None where a summary says nothing."""
    text = said.get(SUMMARY_KEY)
    if text is None:
        return None
    return {entry["bucket"]: entry["offset"] for entry in json.loads(text)}


class _Named(NamedTuple):
    """A table as its provider knows it; its snapshots are given to it one by one."""

    state: TableState


class _NoMemory:
    """Ids of snapshots are used again where a search goes back: nothing is remembered of them."""

    def get_or_make(self, _: object, make: Callable[[], Any]) -> Any:
        return make()


def provider_of(
    name: tuple[str, ...], uuid: str, properties: Mapping[str, str]
) -> Provider[Any] | None:
    """Who says how far a table is; None where Seamline fills it."""
    if PROPERTY not in properties:
        return None
    binding = TopicBinding.from_properties(properties)
    assert binding is not None
    nothing: Any = None
    state = TableState(name, uuid, properties, {}, 0, {}, {}, None)
    memory = cast("Any", _NoMemory())
    return Fluss(AdoptedIceberg(state, binding, nothing, memory, nothing, nothing, nothing))


def require_single_writer(
    state: TableState, snapshot_id: int | None, added: Callable[[int], Iterable[MemoryFile]]
) -> None:
    """See `ColdTable.require_single_writer`.

    Args:
        state: The table.
        snapshot_id: The snapshot.
        added: Gives the files that a snapshot has added.
    """
    offset = next((f for f in state.schema.columns if f.name == columns.OFFSET), None)
    if state.provider is not None:
        require(outrun(state, snapshot_id))
    elif offset is not None:

        def has_offsets(snapshot_id: int, _: int) -> bool:
            return any(row[1] is not None for file in added(snapshot_id) for row in file.rows)

        require(second_writer(state, snapshot_id, has_offsets))
