"""What happens to a table without new records: properties change, tags are made, snapshots expire.

Afterwards everybody must read it as before: SQL on both engines, PyIceberg, and Spark through the
catalog, whose reader of metadata checks the order of times in it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from pyiceberg.table import Table as PyTable

from chaos.arena import Arena
from chaos.engine_readers import CatalogReader
from chaos.history import Read
from chaos.iceberg_faults import again, name_head
from chaos.process_faults import Fault, maintain_quiet
from chaos.tables import QUIET


def _set_property(arena: Arena, chance: random.Random) -> None:
    def work(table: PyTable) -> str:
        with table.transaction() as transaction:
            transaction.set_properties({"chaos": str(chance.getrandbits(32))})
        return ""

    again(arena, work, QUIET)


def _tag(arena: Arena, chance: random.Random) -> None:
    again(arena, lambda table: name_head(table, chance, "tag"), QUIET)


def then_read(change: Callable[[Arena, random.Random], None]) -> Fault:
    """The change, and a read of every kind."""

    def fault(arena: Arena, chance: random.Random) -> str:
        change(arena, chance)
        client = arena.client(f"quiet-{chance.getrandbits(16)}")
        for engine in ("duckdb", "spark"):
            client.read(QUIET, engine=engine)
        reader = CatalogReader(client, (), 0, arena.stack.url, arena.stack.other_spark_url)
        done = reader.read(QUIET)
        if not isinstance(done, Read):
            reader.read_on_spark(QUIET, done)
        reader.close()
        return ""

    return fault


LANES: dict[str, dict[str, Fault]] = {
    "quiet": {
        "quiet table: a property is set": then_read(_set_property),
        "quiet table: a tag is made": then_read(_tag),
        "quiet table: maintained, snapshots expire": then_read(maintain_quiet),
    },
}
