"""Batches while others commit all the time.

Goal: a batch lands within a bounded number of foreign commits, holds every record once, and leaves
what others have done as it is.
Method: real Spark writes a batch to its branch. Before it lands, a foreign writer commits: what
must pass lands on top of that commit, made of the files that were already there; what must not pass
starts again. Then a PyIceberg writer commits in a loop of its own, as fast as it can, while records
arrive and are tiered. A dictionary says what the table must be.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.table import Table as PyTable
from support.gateway import Gateway
from support.meddling import Event
from support.stack import Stack
from support.waiting import wait_until

from seamline.connectors.duckdb.tiering import LocalTierTable
from seamline.connectors.iceberg.errors import TAKEN
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.protocols.cold_tables import TierTable
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.connectors.spark.tiering import SparkTierTable
from seamline.errors import COMMIT_CONFLICT, SeamlineError
from seamline.gateway.deadline import no_deadline
from seamline.gateway.names import TableName
from seamline.gateway.tiering.application import TieringApplication
from seamline.gateway.tiering.progress import Progress
from seamline.gateway.tiering.step import tier_once
from seamline.seam.boundary import boundary_of
from seamline.seam.table import TableState
from seamline.seam.tiering import Outcome, Step

pytestmark = [pytest.mark.integration, pytest.mark.spark]

COLUMNS = "id bigint, text varchar"
Model = dict[int, str]
MODES: Mapping[str, Mapping[str, Any]] = {
    "append": {
        "properties": {f"write.{w}.mode": "merge-on-read" for w in ("delete", "update", "merge")}
    },
    "upsert": {"mode": "upsert", "primary_key": ("id",), "key": "id"},
}


class Contended:
    """A topic, the table over it, and what it must be."""

    def __init__(self, stack: Stack, gateway: Gateway, name: str, mode: str, version: int) -> None:
        self.stack, self.gateway, self.name = stack, gateway, name
        self.model: Model = {}
        self.held = set[int]()
        """Snapshots that somebody held when others expired, as a read on Spark does for a while."""
        stack.create_topic(name, 1)
        stack.create_table(name, COLUMNS, format_version=version, **MODES[mode])

    def produce(self, changes: Mapping[int, str | None]) -> None:
        """Writes rows, and deletes those without text."""
        values = [None if t is None else {"id": i, "text": t} for i, t in changes.items()]
        self.stack.produce(self.name, values, keys=[str(i) for i in changes])
        for id_, text in changes.items():
            self.model.pop(id_, None)
            if text is not None:
                self.model[id_] = text

    def sql(self, text: str) -> None:
        """A foreign statement."""
        self.stack.spark.sql(text.format(t=f"lake.default.{self.name}")).collect()

    def insert(self, id_: int) -> None:
        """A row of a foreign writer, which comes from no log."""
        names = [column.name for column in self.stack.load(self.name).state.schema.columns]
        row = {"id": str(id_), "text": "'foreign'"}
        values = ", ".join(row.get(name, "NULL") for name in names)
        self.sql(f"INSERT INTO {{t}} VALUES ({values})")

    def maintain(self) -> None:
        """Merges what can be merged, and expires what nobody holds."""
        refs = self.stack.load(self.name).state.refs
        self.held.update(ref.snapshot_id for ref in refs.values())
        self.stack.maintain(self.name)

    def expect(self) -> None:
        """It is what it must be, to both engines."""
        for engine in ("duckdb", "spark"):
            found = self.gateway.rows(f"SELECT id, text FROM {self.name} ORDER BY id", engine)
            assert found == sorted(self.model.items()), engine

    def tier(self, meddle: Callable[[], None], engine: str = "spark") -> Step:
        """Tiers a batch; something happens once its files are written, by Spark to a branch."""
        event, files = Event(meddle), self.stack.data_files(self.name)

        def is_written(state: TableState) -> bool:
            if engine == "local":
                return self.stack.data_files(self.name) != files
            return has_branch(state)

        catalog: Any = Meddled(self.stack.connections.catalog("lake"), event, is_written)
        log = self.stack.connections.log("default")
        identifier = ("default", self.name)
        table: TierTable = LocalTierTable(catalog, identifier, log)
        if engine == "spark":
            cluster = self.stack.connections.cluster("default").config
            table = SparkTierTable(
                self.stack.sessions, catalog, identifier, log, cluster, tasks_min=2
            )
        try:
            return tier_once(table, log, no_deadline(), records_max=1_000_000)
        finally:
            assert event.happened


def has_branch(state: TableState) -> bool:
    """Whether a batch has been written to a branch."""
    of_batches = [r for n, r in state.refs.items() if n.startswith("seamline_batch_")]
    return any(r.snapshot_id != state.current_snapshot_id for r in of_batches)


class Meddled:
    """A catalog under which something happens as soon as a batch is written."""

    def __init__(self, inner: Any, event: Event, is_written: Callable[[TableState], bool]) -> None:
        self._inner, self._event, self._is_written = inner, event, is_written
        self.name = inner.name

    def load(self, identifier: tuple[str, ...]) -> IcebergTable:
        """See `Catalog.load`."""
        table: IcebergTable = self._inner.load(identifier)
        if not self._is_written(table.state):
            return table
        self._event()
        again: IcebergTable = self._inner.load(identifier)
        return again


PASS: Mapping[str, tuple[str, Mapping[int, str | None]]] = {
    "delete from a file that the batch changes": ("DELETE FROM {t} WHERE id = 1", {1: None}),
    "delete from another file": ("DELETE FROM {t} WHERE id = 99", {99: None}),
    "delete of what the batch deletes": ("DELETE FROM {t} WHERE id = 3", {}),
    "rows": ("", {-1: "foreign"}),
}
AGAIN = {
    "rewritten files": (
        "CALL lake.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))"
    ),
    "another batch": "",
    "changed rows": "UPDATE {t} SET text = 'foreign' WHERE id = 2",
    "rows with keys of the batch": "5",
}


@pytest.fixture(params=[2, 3])
def upserts(stack: Stack, gateway: Gateway, name: str, request: pytest.FixtureRequest) -> Contended:
    """An upsert table with a tail that changes, adds and deletes rows of its first file."""
    table = Contended(stack, gateway, name, "upsert", request.param)
    table.produce({99: "b"})
    stack.tier(name)
    table.produce(dict.fromkeys(range(4), "a"))
    stack.tier(name)
    table.produce({2: "c", 3: None, 5: "c", 4: None})
    return table


@pytest.mark.soak
@pytest.mark.parametrize("case", PASS)
def test_a_batch_lands_on_what_does_not_concern_it(upserts: Contended, case: str) -> None:
    statement, changes = PASS[case]
    step = upserts.tier(lambda: upserts.sql(statement) if statement else upserts.insert(-1))
    assert step.outcome is Outcome.ROWS
    for id_, text in changes.items():
        upserts.model.pop(id_, None)
        if text is not None:
            upserts.model[id_] = text
    state = upserts.stack.load(upserts.name).state
    head = state.snapshots[state.current_snapshot_id]
    assert head.parent_id is not None
    assert "seamline.boundary" not in state.snapshots[head.parent_id].summary  # the foreign commit
    assert_left_clean(upserts)
    upserts.expect()
    upserts.maintain()  # also expires what only the branch had
    upserts.expect()


@pytest.mark.one_in(prove=6)
@pytest.mark.parametrize("case", [*PASS, *(case for case in AGAIN if AGAIN[case])])
def test_a_batch_of_this_process_lands_whatever_others_do(upserts: Contended, case: str) -> None:
    """It is merged again with the table as others have made it."""
    statement, changes = PASS.get(case) or (AGAIN[case], {})

    def meddle() -> None:
        if statement and not statement.isdigit():
            upserts.sql(statement)
        else:
            upserts.insert(int(statement or -1))

    assert upserts.tier(meddle, "local").outcome is Outcome.ROWS
    for id_, text in changes.items():
        upserts.model.pop(id_, None)
        if text is not None:
            upserts.model[id_] = text
    upserts.expect()
    upserts.maintain()
    assert_left_clean(upserts)
    upserts.expect()


@pytest.mark.one_in(prove=9)
@pytest.mark.parametrize("case", AGAIN)
def test_a_batch_starts_again_after_what_concerns_it(upserts: Contended, case: str) -> None:
    def meddle() -> None:
        if AGAIN[case].isdigit():
            upserts.insert(int(AGAIN[case]))
        elif AGAIN[case]:
            upserts.sql(AGAIN[case])
        else:
            upserts.stack.tier(upserts.name)

    with pytest.raises(SeamlineError) as caught:
        upserts.tier(meddle)
    assert caught.value.code is COMMIT_CONFLICT
    upserts.stack.tier(upserts.name)
    upserts.expect()
    upserts.maintain()  # expires what lost
    assert_left_clean(upserts)
    upserts.expect()


@pytest.mark.soak
@pytest.mark.parametrize("version", [2, 3])
def test_deletes_by_position_delay_no_appended_batch(
    stack: Stack, gateway: Gateway, name: str, version: int
) -> None:
    """Iceberg refuses the first attempt; the second lands whatever is deleted meanwhile."""
    table = Contended(stack, gateway, name, "append", version)
    table.produce(dict.fromkeys(range(9), "a"))
    stack.tier(name)
    table.produce(dict.fromkeys(range(10, 20), "a"))
    deleted = iter(range(9))

    class Overtaken:
        """A tierer that a foreign delete overtakes before it writes anything."""

        def __getattr__(self, what: str) -> Any:
            return getattr(inner, what)

        def commit_rows(self, batch: Any) -> None:
            delete()
            inner.commit_rows(batch)

    def delete() -> None:
        id_ = next(deleted)
        table.sql(f"DELETE FROM {{t}} WHERE id = {id_}")
        del table.model[id_]

    inner: Any = SparkTierTable(
        stack.sessions,
        Meddled(stack.connections.catalog("lake"), Event(delete), has_branch),  # type: ignore[arg-type]
        ("default", name),
        stack.connections.log("default"),
        stack.connections.cluster("default").config,
        tasks_min=2,
    )
    overtaken: Any = Overtaken()
    log = stack.connections.log("default")
    step = tier_once(overtaken, log, no_deadline(), records_max=1_000_000)
    assert step.outcome is Outcome.ROWS
    assert next(deleted) == 2  # one before each of the two attempts
    assert_left_clean(table)
    table.expect()


def assert_left_clean(table: Contended) -> None:
    """No branch is left, and no snapshot of one, and the boundary is where the log ends."""
    state = table.stack.load(table.name).state
    assert not [ref for ref in state.refs if ref.startswith("seamline_batch_")]
    line = {snapshot.snapshot_id for snapshot in state.ancestors(state.current_snapshot_id)}
    tagged = {ref.snapshot_id for ref in state.refs.values()}
    others = [state.snapshots[n] for n in set(state.snapshots) - line - tagged - table.held]
    assert not others, (
        [s.snapshot_id for s in others],
        [
            (s.sequence_number, s.snapshot_id, s.parent_id, s.timestamp_ms, s.operation)
            for s in state.snapshots.values()
        ],
        {name: ref.snapshot_id for name, ref in state.refs.items()},
    )
    boundary = boundary_of(state, state.current_snapshot_id)
    assert dict(boundary.next) == dict(table.stack.bounds(table.name).end)


# --- Without a pause -----------------------------------------------------------------------------

COMMITS_MAX = 1000
"""Foreign commits within which a batch has landed: dozens, most of them while Spark writes it."""


class ForeignWriter:
    """Commits to a table in a thread: rows of its own, and then their removal."""

    def __init__(self, stack: Stack, name: str) -> None:
        self._stack, self._name = stack, name
        self._stop = threading.Event()
        self.commits = 0
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string())])
        rows = pa.table({"id": [-1], "text": ["foreign"]}, schema=schema)
        try:
            while not self._stop.is_set():
                self._commit(lambda table: table.append(rows))
                self._commit(lambda table: table.delete("id = -1"))
        except BaseException as error:  # noqa: BLE001 - reported when the thread has ended
            self.failure = error

    def _commit(self, change: Callable[[PyTable], None]) -> None:
        try:
            change(self._stack.load(self._name).iceberg)
        except (CommitFailedException, ValidationException):
            return  # it lost to a batch
        except ValueError as error:  # so PyIceberg reports a commit to another branch
            if not any(text in str(error) for text in TAKEN):
                raise
            return
        self.commits += 1

    def wait_for(self, commits: int) -> None:
        """Waits until it has made that many commits, or has failed."""
        wait_until(
            lambda: self.commits >= commits or self.failure is not None,
            what=f"the other writer's commit {commits}",
        )

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Commits until the block ends."""
        self._thread.start()
        self.wait_for(1)
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()
        assert self.failure is None, self.failure


@pytest.mark.one_in(prove=2)
@pytest.mark.filterwarnings(
    "ignore:Merge on read is not yet supported", "ignore:Delete operation did"
)
@pytest.mark.usefixtures("tier_engine")
@pytest.mark.parametrize("mode", MODES)
def test_a_batch_lands_while_another_writer_never_pauses(
    stack: Stack, gateway: Gateway, name: str, mode: str
) -> None:
    table = Contended(stack, gateway, name, mode, 2)
    table.produce(dict.fromkeys(range(20), "a"))
    stack.tier(name)
    writer = ForeignWriter(stack, name)
    with writer.writing():
        for round_ in range(4):
            before = writer.commits
            first = 20 * (round_ + 1) if mode == "append" else 10 * round_
            table.produce(dict.fromkeys(range(first, first + 20), f"b{round_}"))
            steps = patiently(stack, name)
            assert steps[-1].lag == 0
            assert writer.commits - before < COMMITS_MAX
            writer.wait_for(before + 2)  # and both kinds of its commits are between two batches
    stack.load(name).iceberg.delete("id = -1")
    stack.tier(name)  # what is younger than a batch that could not be tagged yet is kept
    table.expect()
    for _ in range(2):  # what is younger than the newest boundary expires with the next one
        table.maintain()
    assert_left_clean(table)
    table.expect()


def patiently(stack: Stack, name: str) -> list[Step]:
    """Tiers a table to its end, as the pipeline does: what loses is tried again."""
    application = TieringApplication(Tables(stack), records_max=1_000_000)
    steps: list[Step] = []
    lost: list[SeamlineError] = []

    def report(_: Progress, step: Step | SeamlineError, __: float) -> None:
        (lost if isinstance(step, SeamlineError) else steps).append(step)  # type: ignore[arg-type]

    assert application.run([stack.resolve(name)], interval_s=None, report=report) == []
    assert {error.code for error in lost} <= {COMMIT_CONFLICT}, lost
    return steps


class Tables:
    """`Tables` of the stack."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def open(self, name: TableName) -> tuple[TierTable, HotLog]:
        """See `Tables.open`."""
        return self._stack.tier_table(name.path[-1]), self._stack.connections.log("default")
