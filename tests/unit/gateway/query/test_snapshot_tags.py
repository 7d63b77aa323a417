"""Goal: many statements at once neither starve who writes a table nor lose what they read.

Method: a real catalog in which every commit is counted; statements that hold and release its
snapshots from many threads, a snapshot that moves on meanwhile, an expiry, and a pipeline whose own
commits always find that somebody has just tagged something.
"""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from support import offline

from seamline.connectors.config import ClusterConfig
from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog, IcebergTable
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.connectors.spark.tiering import SparkTierTable
from seamline.errors import COMMIT_CONFLICT, SNAPSHOT_GONE, SeamlineError
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.query.snapshot_tags import TAG_PREFIX, SnapshotTags
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import TAG, Boundary
from seamline.seam.offsets import Offsets
from seamline.seam.tiering import Batch

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
NAME = ("lake", "sales", "orders")
STATEMENTS = 50


class Orders:
    """A plain table, and how often it was committed to."""

    def __init__(self, folder: pathlib.Path) -> None:
        config = offline.config(folder)
        self._warehouse = folder / "warehouse"
        self.connections = Connections(config)
        lake = config.catalogs["lake"]
        self.properties = {"uri": lake.uri, "warehouse": lake.warehouse}
        self._own = SqlCatalog("lake", **self.properties)
        self._own.create_namespace("sales")
        self._own.create_table("sales.orders", ROWS.schema)
        self.append()

    @property
    def commits(self) -> int:
        """Every commit rewrites the metadata."""
        return len(list(self._warehouse.rglob("*.metadata.json")))

    @property
    def tags(self) -> list[str]:
        """The tags of gateways."""
        return [ref for ref in self.load().state.refs if ref.startswith(TAG_PREFIX)]

    @property
    def head(self) -> int:
        """The current snapshot."""
        found = self.load().state.current_snapshot_id
        assert found is not None
        return found

    def load(self) -> IcebergTable:
        """The table as it is now."""
        return self.connections.catalog("lake").load(NAME[1:])

    def append(self) -> None:
        """Commits a snapshot."""
        self._own.load_table("sales.orders").append(ROWS)

    def expire(self) -> set[int]:
        """Expires every snapshot that nothing protects; those that are left."""
        with self._own.load_table("sales.orders").maintenance.expire_snapshots() as expire:
            expire.by_ids([s for s in self.load().state.snapshots if s not in self._protected()])
        return set(self.load().state.snapshots)

    def _protected(self) -> set[int]:
        return {ref.snapshot_id for ref in self.load().state.refs.values()}


@pytest.fixture
def orders(tmp_path: pathlib.Path) -> Iterator[Orders]:
    made = Orders(tmp_path)
    yield made
    made.connections.close()


def at_once(work: Callable[[], object]) -> list[Any]:
    """What fifty threads get, or what each of them fails with."""
    found: list[Any] = []
    ready = threading.Barrier(STATEMENTS)

    def run() -> None:
        ready.wait()
        try:
            found.append(work())
        except SeamlineError as error:
            found.append(error.code)

    threads = [threading.Thread(target=run) for _ in range(STATEMENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_fifty_statements_commit_once_and_not_each(orders: Orders) -> None:
    tags = SnapshotTags(orders.connections)
    before, pin = orders.commits, (NAME, orders.head)
    held = at_once(lambda: tags.hold([pin], NoDeadline()))
    assert len({one.held[pin].tag for one in held}) == 1
    assert orders.tags == [held[0].held[pin].tag]
    for one in held:
        one.release()
    tags.hold([pin], NoDeadline()).release()
    tags.sweep()
    assert orders.commits == before + 1, "the next statement uses it, too"
    tags.close()
    assert orders.tags == []
    assert orders.commits == before + 2


def test_a_new_snapshots_tag_takes_the_place_of_idle_ones(orders: Orders) -> None:
    tags = SnapshotTags(orders.connections, idle_s=0.0)
    running = tags.hold([(NAME, orders.head)], NoDeadline())
    first = orders.tags
    before = orders.commits
    for _ in range(3):
        orders.append()
        tags.hold([(NAME, orders.head)], NoDeadline()).release()
    assert orders.commits == before + 6, "of each round one is the append"
    assert set(first) < set(orders.tags)
    assert len(orders.tags) == 2, "that of the statement that runs, and the last one"
    running.release()
    tags.sweep()
    assert orders.tags == []


def test_what_is_held_outlives_an_expiry_and_a_renewal(orders: Orders) -> None:
    tags = SnapshotTags(orders.connections, idle_s=0.0)
    pin = (NAME, orders.head)
    with contextlib.closing(StatementDeadline(10)) as short:
        held = tags.hold([pin], short)
        first = orders.tags
        with contextlib.closing(StatementDeadline(100_000)) as long:
            renewed = tags.hold([pin], long)
            assert orders.tags == [renewed.held[pin].tag] != first, "one, and it lasts longer"
            orders.append()
            assert pin[1] in orders.expire()
            renewed.release()
            tags.sweep()
            assert pin[1] in orders.expire(), "another statement still reads it"
        held.release()
    tags.sweep()
    assert pin[1] not in orders.expire()


def test_a_snapshot_that_is_gone_is_gone_for_all_of_them(orders: Orders) -> None:
    gone = orders.head
    orders.append()
    assert gone not in orders.expire()
    tags = SnapshotTags(orders.connections)
    pins = [(NAME, orders.head), (NAME, gone)]
    assert set(at_once(lambda: tags.hold(pins, NoDeadline()))) == {SNAPSHOT_GONE}
    tags.close()
    assert orders.tags == []


def test_a_canceled_statement_takes_nothing_from_the_others(orders: Orders) -> None:
    pin, tags = (NAME, orders.head), SnapshotTags(orders.connections, idle_s=0.0)
    with contextlib.closing(StatementDeadline(10)) as canceled:
        canceled.cancel()
        with pytest.raises(SeamlineError):
            tags.hold([pin], canceled)
    held = tags.hold([pin], NoDeadline())
    assert orders.tags == [held.held[pin].tag]


# --- Who writes the table -------------------------------------------------------------------------


class RacingCatalog(SqlCatalog):
    """A catalog in which somebody else commits while a commit is being made.

    Args:
        properties: Where it is.
        meddle: The other commit, for each of ours; none when they are used up.
    """

    def __init__(self, properties: dict[str, str], meddle: Iterator[Callable[[], object]]) -> None:
        super().__init__("lake", **properties)
        self._meddle = meddle

    def load_table(self, identifier: str | tuple[str, ...]) -> Table:
        """The table, which is not as it is now: a commit of it is refused."""
        found = super().load_table(identifier)
        next(self._meddle, lambda: None)()
        return found


class Meddled:
    """A catalog whose tables are committed to by others whenever one commits.

    Args:
        orders: The table.
        meddle: Gives what the others do.
    """

    def __init__(self, orders: Orders, meddle: Iterator[Callable[[], object]]) -> None:
        self.name = "lake"
        self._orders = orders
        self._racing = RacingCatalog(orders.properties, meddle)

    def load(self, _identifier: tuple[str, ...]) -> IcebergTable:
        """The table."""
        table = self._orders.load()
        table.iceberg.catalog = self._racing
        return table


def popped(waiting: list[Callable[[], object]]) -> Iterator[Callable[[], object]]:
    """What waits, one by one; nothing while nothing waits."""
    while True:
        yield waiting.pop() if waiting else lambda: None


def pipeline(orders: Orders, catalog: Meddled) -> tuple[SparkTierTable, Batch]:
    """A pipeline, and a batch without rows on top of the head: neither needs Spark."""
    made = SparkTierTable(
        None,
        cast("IcebergCatalog", catalog),
        NAME[1:],
        cast("HotLog", None),
        cast("ClusterConfig", None),
        tasks_min=1,
    )
    boundary = Boundary(0, "c", "t", "t-1", "read_committed", Offsets({0: 0}), Offsets({0: 5}))
    return made, Batch(TopicBinding("default", "t"), orders.head, 0, (), boundary)


@pytest.mark.parametrize("times", [0, 1, 5])
def test_tags_of_others_do_not_refuse_a_boundary(orders: Orders, times: int) -> None:
    names = (f"{TAG_PREFIX}{number}" for number in itertools.count())
    meddling: list[Callable[[], object]] = []
    table, batch = pipeline(orders, Meddled(orders, popped(meddling)))
    before = orders.head

    def meddle() -> None:
        commits.create_tag(orders.load(), next(names), before, 60_000)

    steps: list[Callable[[], None]] = [
        lambda: table.commit_boundary(batch),
        lambda: table.keep(after),
        lambda: table.take_back(after, before),
    ]
    for number, step in enumerate(steps, start=1):
        meddling += [meddle] * times
        step()
        assert len(orders.tags) == times * number, "each of them was refused so often"
        if number == 1:
            after = orders.head
            assert after != before
    assert orders.load().state.refs[TAG].snapshot_id == after
    assert orders.head == before


def test_another_head_does(orders: Orders) -> None:
    table, batch = pipeline(orders, Meddled(orders, iter([orders.append])))
    with pytest.raises(SeamlineError) as caught:
        table.commit_boundary(batch)
    assert caught.value.code is COMMIT_CONFLICT
    with pytest.raises(SeamlineError) as caught:
        table.take_back(batch.snapshot_id, batch.snapshot_id)
    assert caught.value.code is COMMIT_CONFLICT
