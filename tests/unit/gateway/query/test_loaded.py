"""Goal: statements that wait for the same table share a load that begins after they asked.

Method: a catalog in memory whose first load waits at a gate while others ask.
"""

from __future__ import annotations

import concurrent.futures
import threading
from typing import Any

from fakes.memory import MemoryCatalog
from simulation.reading import Sources
from simulation.world import World
from support.waiting import wait_until

from seamline.connectors.shared_requests import SharedRequests
from seamline.gateway.names import TableName
from seamline.gateway.query.loaded import LoadedTables, Loads

CALLERS = 16


class GatedCatalog:
    """A catalog that counts its loads; the first waits until the gate opens."""

    def __init__(self, inner: MemoryCatalog) -> None:
        self._inner = inner
        self.loads = 0
        self.gate = threading.Event()
        self.namespaces, self.has_namespace = inner.namespaces, inner.has_namespace
        self.name, self.tables = inner.name, inner.tables

    def load(self, identifier: tuple[str, ...]) -> Any:
        """See `Catalog.load`."""
        self.loads += 1
        loaded = self._inner.load(identifier)
        if self.loads == 1:
            assert self.gate.wait(60)
        return loaded


def test_a_commit_is_seen_by_all_who_ask_after_it() -> None:
    world = World(1)
    catalog = GatedCatalog(world.catalog)
    name = TableName(world.table.state.name[0], "", world.table.state.name[1:])
    loads: Loads = SharedRequests()
    sources = Sources(catalog, world.log)
    loaded = LoadedTables(sources, loads=loads)

    def snapshot() -> int | None:
        tables = loaded.given_to(sources).now([name])
        return tables[name].state.current_snapshot_id

    with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
        before = world.table.state.current_snapshot_id
        first = pool.submit(snapshot)
        wait_until(lambda: catalog.loads == 1)
        world.table.append_foreign(b"{}")
        others = [pool.submit(snapshot) for _ in range(CALLERS - 1)]
        (line,) = loads._lines.values()
        wait_until(lambda: line.callers == CALLERS)
        catalog.gate.set()
        assert first.result(60) == before
        assert {other.result(60) for other in others} == {world.table.state.current_snapshot_id}
    assert catalog.loads == 2
