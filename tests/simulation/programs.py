"""The product's functions as programs that stop before each look at, or change of, the world.

A program is run from its start with the answers it has had so far, and stops at the first question
that has none. So ordinary blocking code can be interleaved with anything at any of its steps, and
its state is a value: the answers. Runs are kept in a tree: what a program does after the same
answers is computed once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from fakes.memory import Row, Untimed

from seamline.connectors.confirmed_ends import ConfirmedEnds
from seamline.connectors.protocols.cold_tables import ColdTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.raw_records import RawBatch
from seamline.errors import ERRORS, SeamlineError
from seamline.seam.evolution import Change
from seamline.seam.files import ColdPlan, ScanRequest
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.table import TableState
from seamline.seam.tiering import Batch
from simulation.world import World


class Effect(NamedTuple):
    """A question to the world, or a change of it."""

    kind: str
    arguments: tuple[Any, ...] = ()


class Failed(NamedTuple):
    """The answer that is an error."""

    code: str
    message: str = ""

    def error(self) -> SeamlineError:
        """The error, new each time: exceptions remember where they were raised."""
        return SeamlineError(ERRORS[self.code], self.message)


class _Waiting(BaseException):
    """Unwinds a program that has no answer to continue with."""

    def __init__(self, effect: Effect) -> None:
        super().__init__(effect)
        self.effect = effect


class Io:
    """How a program asks the world."""

    def __init__(self, answers: Sequence[Any]) -> None:
        self._answers = iter(answers)

    def ask(self, kind: str, *arguments: Any) -> Any:
        """The answer, if there is one; otherwise the program stops here."""
        effect = Effect(kind, arguments)
        answer = next(self._answers, self)
        if answer is self:
            raise _Waiting(effect)
        if isinstance(answer, Failed):
            raise answer.error()
        return answer


Function = Callable[[Io], Any]


@dataclasses.dataclass(eq=False, slots=True)
class Node:
    """A program after some answers: it waits with an effect, or has ended with an outcome."""

    number: int
    function: Function
    answers: tuple[Any, ...]
    effect: Effect | None = None
    outcome: Any = None
    children: dict[Hashable, Node] = dataclasses.field(default_factory=dict)


class Programs:
    """The trees of all programs."""

    def __init__(self) -> None:
        self._roots: dict[Hashable, Node] = {}
        self._count = 0

    def root(self, key: Hashable, function: Function) -> Node:
        """A program before its first answer; `key` distinguishes it from others."""
        if key not in self._roots:
            self._roots[key] = self._run(function, ())
        return self._roots[key]

    def after(self, node: Node, key: Hashable, answer: Any) -> Node:
        """The program after one more answer; equal keys mean equal answers."""
        child = node.children.get(key)
        if child is None:
            child = node.children[key] = self._run(node.function, (*node.answers, answer))
        return child

    def _run(self, function: Function, answers: tuple[Any, ...]) -> Node:
        self._count += 1
        node = Node(self._count, function, answers)
        try:
            node.outcome = function(Io(answers))
        except _Waiting as waiting:
            node.effect = waiting.effect
        except SeamlineError as error:
            node.outcome = Failed(error.code.name, error.message)
        return node


# --- The outside world, as programs see it -----------------------------------------------------


class AskingLog:
    """`HotLog` over questions; each range is read by one of its own."""

    def __init__(self, io: Io) -> None:
        self._io = io
        self.confirmed_ends = ConfirmedEnds()

    def topics(self, deadline: Deadline) -> list[str]:
        """See `HotLog.topics`."""
        return []

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        """See `HotLog.bounds`."""
        return {topic: self._io.ask("bounds", topic, isolation) for topic in topics}

    def offsets_at(
        self, topic: str, topic_id: str, ends: Offsets, timestamp_ms: int, deadline: Deadline
    ) -> Offsets:
        """See `HotLog.offsets_at`."""
        offsets: Offsets = self._io.ask("offsets at", topic, topic_id, ends, timestamp_ms)
        return offsets

    def read(
        self,
        topic: str,
        ranges: Sequence[OffsetRange],
        isolation: str,
        deadline: Deadline,
        *,
        epochs: Mapping[int, int] | None = None,
        max_records: int | None = None,
    ) -> Iterator[RawBatch]:
        """See `HotLog.read`."""
        for wanted in ranges:
            epoch = (epochs or {}).get(wanted.partition)
            batches: tuple[RawBatch, ...] = self._io.ask("read", topic, wanted, isolation, epoch)
            yield from batches


class AskingCatalog:
    """`Catalog` over questions."""

    name = "lake"

    def __init__(self, io: Io) -> None:
        self._io = io

    def load(self, identifier: tuple[str, ...]) -> ColdTable:
        """See `Catalog.load`."""
        return AskingView(self._io.ask("load"), self._io)

    def namespaces(self) -> list[tuple[str, ...]]:
        """See `Catalog.namespaces`."""
        return []

    def has_namespace(self, namespace: tuple[str, ...]) -> bool:
        """See `Catalog.has_namespace`."""
        return False

    def tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        """See `Catalog.tables`."""
        return []


class AskingView:
    """`ColdTable` over questions."""

    def __init__(self, state: TableState, io: Io) -> None:
        self.state = state
        self.file_access = None
        self._io = io

    def plan(self, snapshot_id: int | None, request: ScanRequest) -> ColdPlan:
        """See `ColdTable.plan`."""
        found: ColdPlan = self._io.ask("plan", snapshot_id, request)
        return found

    def inspect(self, plan: ColdPlan) -> ColdPlan:
        """See `ColdTable.inspect`."""
        return plan

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """See `ColdTable.require_single_writer`."""
        self._io.ask("single writer", self.state, snapshot_id)

    def deleted_rows(self, plan: ColdPlan) -> pa.Table | None:
        """See `ColdTable.deleted_rows`."""
        return None

    def require_fit_for_spark(self, snapshot_id: int | None) -> None:
        """See `ColdTable.require_fit_for_spark`: it has no files."""

    def misleading_columns(self, snapshot_id: int | None) -> frozenset[int]:
        """See `ColdTable.misleading_columns`."""
        return frozenset()

    def offsets_at(
        self,
        snapshot_id: int | None,
        first_ms: int,
        ranges: Sequence[OffsetRange],
        first_batch: int = 0,
    ) -> Offsets:
        """See `ColdTable.offsets_at`."""
        found: Offsets = self._io.ask(
            "cold offsets at", snapshot_id, first_ms, tuple(ranges), first_batch
        )
        return found


class AskingTierTable:
    """`TierTable` over questions; rows are read by one and committed by another."""

    def __init__(self, io: Io) -> None:
        self._io = io

    def load(self) -> TableState:
        """See `TierTable.load`."""
        state: TableState = self._io.ask("load")
        self._state = state
        return state

    def require_single_writer(self, snapshot_id: int | None) -> None:
        """See `TierTable.require_single_writer`."""
        self._io.ask("single writer", self._state, snapshot_id)

    def has_rows(self, batch: Batch, deadline: Deadline) -> bool:
        """See `TierTable.has_rows`."""
        return bool(self._io.ask("fetch", batch))

    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`."""
        self._io.ask("commit", batch, self._io.ask("fetch", batch))

    def evolve(self, batch: Batch, deadline: Deadline) -> tuple[Change, ...]:
        """See `TierTable.evolve`."""
        changes: tuple[Change, ...] = self._io.ask("evolve", batch)
        return changes

    def commit_boundary(self, batch: Batch) -> None:
        """See `TierTable.commit_boundary`."""
        self._io.ask("boundary", batch)

    def keep(self, snapshot_id: int) -> None:
        """See `TierTable.keep`."""
        self._io.ask("keep", snapshot_id)

    def take_back(self, snapshot_id: int, to: int) -> None:
        """See `TierTable.take_back`."""
        self._io.ask("take back", snapshot_id, to)


COMMITS = frozenset({"commit", "boundary"})
"""Effects whose reply may be lost, or that may arrive late."""


def perform(world: World, effect: Effect) -> Any:
    """Lets an effect happen, and returns its answer; a `Failed` when it is an error."""
    try:
        return _perform(world, effect)
    except SeamlineError as error:
        return Failed(error.code.name, error.message)
    finally:
        world.note_commits()


def _perform(world: World, effect: Effect) -> Any:
    deadline = Untimed()
    log, table = world.log, world.table
    match effect:
        case Effect("load"):
            return table.state
        case Effect("bounds", (str(topic), str(isolation))):
            return log.bounds([topic], isolation, deadline)[topic]
        case Effect("read", (str(topic), OffsetRange() as wanted, str(isolation), epoch)):
            epochs = None if epoch is None else {wanted.partition: epoch}
            return tuple(log.read(topic, [wanted], isolation, deadline, epochs=epochs))
        case Effect("offsets at", (str(topic), str(topic_id), Offsets() as ends, int(moment))):
            return log.offsets_at(topic, topic_id, ends, moment, deadline)
        case Effect("cold offsets at", (snapshot_id, int(first), tuple(ranges), int(batch))):
            return table.offsets_at(snapshot_id, first, ranges, batch)
        case Effect("plan", (snapshot_id, ScanRequest() as request)):
            return table.plan(snapshot_id, request)
        case Effect("open", (str(path),)):
            return table.open(path)
        case Effect("single writer", (TableState() as state, snapshot_id)):
            return table.require_single_writer(snapshot_id, state)
        case Effect("fetch", (Batch() as batch,)):
            return table.read_rows(batch, deadline)
        case Effect("commit", (Batch() as batch, tuple(rows))):
            return table.write_rows(batch, rows)
        case Effect("evolve", (Batch() as batch,)):
            return table.evolve(batch, deadline)
        case Effect("boundary", (Batch() as batch,)):
            return table.commit_boundary(batch)
        case Effect("keep", (int(snapshot_id),)):
            return table.keep(snapshot_id)
        case Effect("take back", (int(snapshot_id), int(to))):
            return table.take_back(snapshot_id, to)
    raise AssertionError(effect)


def opener(io: Io) -> Callable[[str], tuple[Row, ...]]:
    """How programs open cold files."""

    def open_file(path: str) -> tuple[Row, ...]:
        rows: tuple[Row, ...] = io.ask("open", path)
        return rows

    return open_file


def answer_key(answer: Any, table_key: int) -> Hashable:
    """What distinguishes answers."""
    match answer:
        case TableState():
            return ("state", table_key)
        case tuple() if answer and isinstance(answer[0], RawBatch):
            return tuple((*b.partitions, *b.offsets, *b.values) for b in answer)
        case Failed():
            return answer.code
    key: Hashable = answer
    return key
