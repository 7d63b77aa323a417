"""Goal: whatever becomes of a Delta table, reads of it and its topic are what a model says.

Method: histories of records, commits of kafka-delta-ingest, compactions, checkpoints, changes by
the owner's hand, vacuums and clean-ups of the log, over real Delta tables and a log in memory. The
model keeps the rows of each version. Tokens and versions of the past give those rows, or are
refused once a vacuum or a clean-up has come after them; the present is never refused.
"""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support.delta import PLACED, TOPIC, DeltaShop, placed
from support.examples import examples
from support.gateway import Gateway

from seamline.errors import SeamlineError

TABLE, COLD = f"bronze.shop.{TOPIC}", f'bronze.shop."{TOPIC}$cold"'
PLACES = {"columns_from": "k_partition = partition, k_offset = offset"}
GONE = {"TOKEN_EXPIRED", "TABLE_NOT_FOUND"}
QUERY = "SELECT id, item, price, k_partition, k_offset FROM"

Rows = Counter[tuple[Any, ...]]
STEPS = ("compact", "z-order", "checkpoint", "vacuum", "clean up", "delete", "update")


@dataclasses.dataclass
class Token:
    """A token, the rows it stands for, and whether a refusal would be one too many."""

    text: str
    rows: Rows
    may_be_gone: bool = False


class History:
    """A table, and what its versions hold.

    Args:
        folder: Where it is.
        partition_by: Columns that it is partitioned by.
    """

    def __init__(self, folder: pathlib.Path, partition_by: tuple[str, ...]) -> None:
        self.shop = DeltaShop(folder, PLACED, partition_by, PLACES)
        self.cold: Rows = Counter()
        self.versions: list[Rows] = []
        self.kept_from = 0
        self.tokens: list[Token] = []
        self.shop.writer.write([], {})
        self._committed()

    def _committed(self) -> None:
        while len(self.versions) <= self.shop.writer.table.version():
            self.versions.append(self.cold.copy())

    def row(self, partition: int, offset: int) -> tuple[Any, ...]:
        """A record as its row."""
        return tuple(placed(partition, offset, self.shop.records[partition, offset]).values())

    def now(self) -> Rows:
        """Every row of the table and its topic."""
        hot = (place for place in self.shop.records if place[1] >= self.shop.copied(place[0]))
        return self.cold + Counter(self.row(*place) for place in hot)

    def produce(self, count: int) -> None:
        """Records come."""
        self.shop.produce(count)

    def copy(self, counts: tuple[int, int]) -> None:
        """The writer commits some more of each partition."""
        ends = {}
        for partition, count in enumerate(counts):
            there = sum(p == partition for p, _ in self.shop.records)
            end = min(there, self.shop.copied(partition) + count)
            if end > self.shop.copied(partition):
                ends[partition] = end
        if ends:
            before = {p: self.shop.copied(p) for p in ends}
            self.cold += Counter(
                self.row(p, o) for p, end in ends.items() for o in range(before[p], end)
            )
            self.shop.copy(ends, placed)
            self._committed()

    def step(self, name: str) -> None:
        """Something else happens to the table."""
        table = self.shop.writer.table
        match name:
            case "compact":
                table.optimize.compact()
            case "z-order":
                table.optimize.z_order(["id"])
            case "checkpoint":
                table.create_checkpoint()
            case "vacuum":
                table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
            case "clean up":
                table.create_checkpoint()
                folder = self.shop.writer.folder / "_delta_log"
                for version in range(table.version()):
                    (folder / f"{version:020}.json").unlink(missing_ok=True)
            case "delete":
                table.delete("id % 3 = 0")
                self.cold = Counter({row: n for row, n in self.cold.items() if row[0] % 3})
            case "update":
                table.update(updates={"item": "'changed'"}, predicate="id % 5 = 1")
                self.cold = Counter(
                    {
                        (row[0], "changed", *row[2:]) if row[0] % 5 == 1 else row: n
                        for row, n in self.cold.items()
                    }
                )
        self._committed()
        if name in {"vacuum", "clean up"}:
            self.kept_from = self.shop.writer.table.version()
        if name in {"vacuum", "clean up", "delete", "update"}:
            for token in self.tokens:
                token.may_be_gone |= name in {"vacuum", "clean up"}

    def check(self, gateway: Gateway) -> None:
        """All of it is what the model says."""
        statement = gateway.statement(f"{QUERY} {TABLE}")
        assert statement.error is None, statement.error
        assert statement.receipt is not None
        wanted = self.now()
        assert Counter(gateway.rows(f"{QUERY} {TABLE}")) == wanted
        assert Counter(gateway.rows(f"{QUERY} {COLD}")) == self.cold
        half = Counter({row: n for row, n in wanted.items() if row[0] > 7 and row[3] == 1})
        assert Counter(gateway.rows(f"{QUERY} {TABLE} WHERE id > 7 AND k_partition = 1")) == half
        for token in self.tokens:
            self._past(gateway, f"{QUERY} {TABLE}", token.rows, token.may_be_gone, token.text)
        for version, rows in enumerate(self.versions):
            sql = f"{QUERY} {TABLE} FOR VERSION AS OF {version}"
            self._past(gateway, sql, rows, version < self.kept_from)
        self.tokens.append(Token(statement.receipt["token"], wanted))

    def _past(
        self, gateway: Gateway, sql: str, rows: Rows, may_be_gone: bool, token: str | None = None
    ) -> None:
        try:
            assert Counter(gateway.rows(sql, token=token)) == rows, sql
        except SeamlineError as error:
            assert may_be_gone, error
            assert error.code.name in GONE, error


@pytest.fixture(scope="module", autouse=True)
def _parsed_before(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A first statement raises the limit of recursion, which must be as it was after a test."""
    gateway = DeltaShop(tmp_path_factory.mktemp("first")).gateway()
    gateway.rows("SELECT 1")
    gateway.close()


happenings = st.one_of(
    st.tuples(st.just("produce"), st.integers(1, 6)),
    st.tuples(st.just("copy"), st.tuples(st.integers(0, 4), st.integers(0, 4))),
    st.tuples(st.just("step"), st.sampled_from(STEPS)),
)


@pytest.mark.parametrize(
    "partition_by", [(), pytest.param(("k_partition", "item"), marks=pytest.mark.prove)]
)
@examples(5, suppress_health_check=list(HealthCheck))
@given(history=st.lists(happenings, min_size=4, max_size=10), seen=st.booleans())
def test_reads_are_what_the_history_says(
    partition_by: tuple[str, ...], history: list[tuple[str, Any]], seen: bool
) -> None:
    """A gateway that has seen every version, or one that looks at the end, reads the same."""
    with tempfile.TemporaryDirectory() as folder:
        world = History(pathlib.Path(folder), partition_by)
        gateway = world.shop.gateway()
        try:
            world.produce(6)
            world.copy((2, 1))
            for what, how in history:
                getattr(world, what)(how)
                if seen:
                    world.check(gateway)
            world.check(gateway)
        finally:
            gateway.close()
