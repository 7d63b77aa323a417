"""Every interleaving of a few operations, up to budgets: breadth first, equal states once.

A scope says which operations there are and how often each may happen; statements and tiering are
programs that stop at each of their steps. Every state's table, every statement's answer and every
refusal are judged by the oracle; in every state of log and table a statement that runs alone must
succeed, unless the oracle knows why not, and tiering must be able to catch up. The first state
that breaks a rule is reached by a shortest trace, which is the message.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from fakes.memory import SavedTable, Untimed

from seamline.errors import SeamlineError
from seamline.gateway.query.queries import ATTEMPTS_MAX
from seamline.seam.boundary import renewed
from seamline.seam.resuming import unverified
from seamline.seam.table import TableState
from simulation import oracle
from simulation.oracle import Started, Violation
from simulation.product import REAL, Product, tier_all
from simulation.programs import (
    COMMITS,
    AskingCatalog,
    AskingLog,
    AskingTierTable,
    Effect,
    Failed,
    Io,
    Node,
    Programs,
    answer_key,
    opener,
    perform,
)
from simulation.reading import ALL, Answer, Sources
from simulation.world import VERSIONS_MAX, Accepting, Moment, World

READS = frozenset({"read", "repeat"})
"""Budgets of operations that change nothing."""
STOPS = frozenset(
    {"load", "bounds", "read", "open", "evolve", "fetch", "commit", "boundary", "keep", "take back"}
)


@dataclasses.dataclass(frozen=True)
class Scope:
    """What is explored.

    Attributes:
        name: For reports.
        budget: How often each operation may happen; see `Explorer._operations`.
        statements: What readers ask.
        prepare: Brings the world into the state to start from.
        depth_max: Operations in a row at most.
        records_max: Offsets a batch of tiering covers at most.
        tierers: How many may be at work at once.
        readers: How many statements may run at once.
        offsets_max: Records in a partition at most.
        changes_max: Operations of others, of all kinds together, at most.
        is_fine: Whether others may also come between a statement's first look at the table, which
            only tells it the topic, and its look at the log; and before files are planned.
        whole_tiering: Whether a step of tiering is one operation.
    """

    name: str
    budget: Mapping[str, int]
    statements: tuple[str, ...] = (ALL,)
    prepare: Callable[[World], None] = lambda _: None
    depth_max: int = 99
    records_max: int = 100
    tierers: int = 1
    readers: int = 1
    offsets_max: int = 3
    changes_max: int = 99
    is_fine: bool = False
    whole_tiering: bool = False


class Slot(NamedTuple):
    """A program at work, and what must be known when it ends.

    Attributes:
        node: Where it is.
        what: The statement it runs; empty for tiering.
        begun: The world when it began.
        causes: Why it may fail: everything that was wrong at any moment since.
        disruptions: How often the world has changed under it, up to what it puts up with.
    """

    node: Node
    what: str
    begun: Started
    causes: frozenset[str]
    disruptions: int


class State(NamedTuple):
    """A state of everything."""

    moment: Moment
    readers: tuple[Slot | None, ...]
    tierers: tuple[Slot | None, ...]
    spent: tuple[int, ...]
    late: tuple[Effect, ...] = ()


@dataclasses.dataclass
class Report:
    """What an exploration found.

    Attributes:
        states: Different states visited.
        steps: Operations tried.
        depth: Operations in the longest run.
        complete: Whether every run within the budgets was tried.
        answers: Statements answered, and refused by error.
        violation: What is wrong, None when nothing is.
        trace: The operations that lead to it.
    """

    states: int = 0
    steps: int = 0
    depth: int = 0
    complete: bool = True
    answers: Counter[str] = dataclasses.field(default_factory=Counter)
    violation: str | None = None
    trace: tuple[str, ...] = ()

    def text(self) -> str:
        """The counterexample, one operation per line."""
        return "\n".join([f"violated: {self.violation}", *(f"  {line}" for line in self.trace)])


Operation = tuple[str, str, Callable[[], State]]
"""(what it is, whose budget it uses, the state after it)"""


class Explorer:
    """Explores one scope.

    Args:
        scope: What to explore.
        product: What is put to the test.
        states_max: Stops after that many; None never.
    """

    def __init__(
        self, scope: Scope, product: Product = REAL, *, states_max: int | None = None
    ) -> None:
        self._scope = scope
        self._product = product
        self._states_max = states_max
        self._world = World(2, ticks=False)
        self._programs = Programs()
        self._numbers: dict[Hashable, int] = {}
        self._table_keys: dict[int, tuple[TableState, int]] = {}
        self._judged: dict[Hashable, frozenset[str]] = {}
        self._names = tuple(scope.budget)
        self.report = Report()

    def run(self) -> Report:
        """Explores, until the first violation."""
        self._scope.prepare(self._world)
        first = State(
            self._world.save(),
            (None,) * self._scope.readers,
            (None,) * self._scope.tierers,
            (0,) * len(self._names),
        )
        seen = {self._key(first)}
        parents: list[tuple[int, str]] = [(-1, "start")]
        frontier = [(0, first)]
        while frontier and self.report.depth < self._scope.depth_max:
            following = []
            for index, state in frontier:
                for label, name, apply in self._operations(state):
                    self.report.steps += 1
                    try:
                        after = self._spend(apply(), name)
                        key = self._key(after)
                        if key in seen:
                            continue
                        self._judge(after)
                    except Violation as violation:
                        return self._found(violation, label, index, parents)
                    seen.add(key)
                    parents.append((index, label))
                    following.append((len(parents) - 1, after))
                if self._states_max is not None and len(seen) > self._states_max:
                    return self._end(len(seen), complete=False)
            frontier = following
            self.report.depth += bool(following)
        return self._end(len(seen), complete=not frontier)

    def _end(self, states: int, *, complete: bool) -> Report:
        self.report.states, self.report.complete = states, complete
        return self.report

    def _found(
        self, violation: Violation, label: str, index: int, parents: list[tuple[int, str]]
    ) -> Report:
        trace = [label]
        while index > 0:
            index, label = parents[index]
            trace.append(label)
        self.report.violation, self.report.trace = str(violation), tuple(reversed(trace))
        return self._end(len(parents), complete=False)

    # --- Operations ----------------------------------------------------------------------------

    def _left(self, state: State, name: str) -> bool:
        """Whether the budgets allow for one more."""
        if name not in self._names:
            return False
        at = self._names.index(name)
        if name not in READS:
            changes = sum(
                n for n, other in zip(state.spent, self._names, strict=True) if other not in READS
            )
            if changes >= self._scope.changes_max:
                return False
        return state.spent[at] < self._scope.budget[name]

    def _spend(self, state: State, name: str) -> State:
        if not name:
            return state
        at = self._names.index(name)
        spent = (*state.spent[:at], state.spent[at] + 1, *state.spent[at + 1 :])
        return state._replace(spent=spent)

    def _operations(self, state: State) -> Iterator[Operation]:
        """Everything that may happen next."""
        self._world.restore(state.moment)
        changes = [(c, n, f) for c, n, f in self._changes() if self._left(state, n)]
        for label, name, change in changes:
            yield label, name, partial(self._changed, state, change)
        yield from self._reader_operations(state)
        yield from self._tierer_operations(state)
        for number, effect in enumerate(state.late):
            rest = (*state.late[:number], *state.late[number + 1 :])
            yield (
                f"the late {effect.kind} arrives",
                "",
                partial(
                    self._changed,
                    state._replace(late=rest),
                    partial(perform, self._world, effect),
                ),
            )

    def _changes(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        """What others may do to log and table."""
        world = self._world
        ends = world.ends()
        mark = dict(world.head.mark.next)
        for partition, end in enumerate(ends):
            if end < self._scope.offsets_max:
                yield f"append to {partition}", "append", _call(world.append, partition)
                yield (
                    f"append to {partition} in the transaction",
                    "transact",
                    _call(world.append_in_transaction, partition),
                )
            ((_, topic),) = world.log.save().topics
            held = mark.get(partition, 0)
            for before in sorted({held, held + 1, end}):
                if topic.partitions[partition].start < before <= end:
                    yield (
                        f"delete records of {partition} before {before}",
                        "trim",
                        _call(world.trim, partition, before),
                    )
        if world.truth.open is not None:
            yield "commit the transaction", "end", _call(world.end_transaction, commit=True)
            yield "abort the transaction", "end", _call(world.end_transaction, commit=False)
        if world.truth.version < VERSIONS_MAX:
            yield "producers get a newer schema", "schema", world.new_schema
        yield "recreate the topic", "recreate", _call(world.recreate_topic, 2)
        yield "recreate the topic and refill it", "recreate", self._recreate_and_refill
        yield "add a partition", "partition", world.add_partition
        yield "compact the table", "compact", world.compact_table
        yield "expire snapshots", "expire", world.expire
        yield "append a foreign row", "foreign", world.append_foreign
        hand_over, take_over = self._product.hand_over, self._product.take_over
        yield "hand the table over", "hands", _call(world.hand_over, hand_over)
        yield "take the table over", "hands", _call(world.take_over, take_over)
        yield (
            "take the table over from a writer who goes on",
            "hands",
            _call(world.take_over, take_over, is_stopped=False),
        )
        yield "the other writer reads", "copy", world.copier_reads
        yield "the other writer commits", "copy", world.copier_commits
        yield "a second writer by its marks", "second", _call(world.double, 0, is_marked=True)
        yield "a second writer by its columns", "second", _call(world.double, 0, is_marked=False)
        yield "accept what is lost", "resume", self._resume
        state = world.table.state
        for snapshot_id in sorted(state.snapshots):
            if snapshot_id != state.current_snapshot_id:
                yield f"roll back to {snapshot_id}", "rollback", _call(world.roll_back, snapshot_id)

    def _resume(self) -> None:
        """Somebody accepts that records are lost."""
        world = self._world
        may_refuse = {"STATEMENT_NOT_ALLOWED"} if not world.must_resume() else set()
        doubted = unverified(world.table.state)
        if doubted and doubted.snapshot_id != world.table.state.current_snapshot_id:
            may_refuse |= {"COMMIT_CONFLICT"}  # others have committed after it
        causes = oracle.problems(world) | may_refuse
        accepting = Accepting(world)
        try:
            self._product.resume(
                accepting, world.log, Untimed(), now_ms=0, by="me", accept_loss=True
            )
        except SeamlineError as error:
            oracle.check_failure(error.code.name, causes - {"LOG_TRIMMED", "TOPIC_RECREATED"})
        world.note_commits()
        if accepting.has_lost_nothing:
            raise Violation("22 a loss was accepted, and nothing was lost")

    def _recreate_and_refill(self) -> None:
        """A topic of the same name that has grown as long as the old one, and one longer."""
        ends = self._world.ends()
        self._world.recreate_topic(len(ends))
        for partition, end in enumerate(ends):
            for _ in range(end + 1):
                self._world.append(partition)

    def _changed(self, state: State, change: Callable[[], object]) -> State:
        self._world.restore(state.moment)
        change()
        return self._settled(state._replace(moment=self._world.save()))

    def _settled(self, state: State) -> State:
        """The state, with what every statement at work has experienced recorded."""
        if state.readers.count(None) == len(state.readers):
            return state
        readers = tuple(
            slot
            and slot._replace(
                causes=slot.causes | oracle.problems(self._world, slot.what),
                disruptions=min(slot.disruptions + 1, ATTEMPTS_MAX),
            )
            for slot in state.readers
        )
        return state._replace(readers=readers)

    # --- Statements ----------------------------------------------------------------------------

    def _reader_operations(self, state: State) -> Iterator[Operation]:
        for number, slot in enumerate(state.readers):
            if slot is not None:
                label = f"reader {number}: {_text(slot.node.effect)}"
                yield label, "", partial(self._reader_goes_on, state, number, slot)
        number = state.readers.index(None) if None in state.readers else -1
        if number >= 0 and self._left(state, "read"):
            for statement in self._scope.statements:
                yield (
                    f"reader {number} begins: {statement}",
                    "read",
                    partial(self._reader_begins, state, number, statement),
                )

    def _reader_begins(self, state: State, number: int, statement: str) -> State:
        self._world.restore(state.moment)
        slot = Slot(
            self._reader(statement),
            statement,
            oracle.started(self._world),
            oracle.problems(self._world, statement),
            0,
        )
        return self._reader_goes_on(state, number, slot)

    def _reader(self, statement: str) -> Node:
        def run(io: Io) -> Answer:
            sources = Sources(AskingCatalog(io), AskingLog(io))
            return self._product.read(sources, opener(io), statement)

        return self._programs.root(statement, run)

    def _reader_goes_on(self, state: State, number: int, slot: Slot) -> State:
        self._world.restore(state.moment)
        node = self._advance(slot.node)
        after = state._replace(moment=self._world.save())
        if node.outcome is None:
            return after._replace(readers=_with(state.readers, number, slot._replace(node=node)))
        self._judge_outcome(node.outcome, slot)
        return after._replace(readers=_with(state.readers, number, None))

    def _judge_outcome(self, outcome: Any, slot: Slot) -> None:
        if isinstance(outcome, Failed):
            self.report.answers[outcome.code] += 1
            if slot.disruptions < ATTEMPTS_MAX:
                oracle.check_failure(outcome.code, slot.causes)
            return
        self.report.answers["answered"] += 1
        oracle.check_answer(self._world, outcome, slot.begun, slot.what)

    def _advance(self, node: Node) -> Node:
        """One step: effects until one before which others may continue."""
        while True:
            effect = node.effect
            assert effect is not None
            node = self._programs.after(node, *self._answer(effect))
            if node.effect is None or self._stops(effect.kind, node.effect.kind):
                return node

    def _stops(self, done: str, following: str) -> bool:
        if self._scope.is_fine:
            return True
        is_first_look = done == "load" and following == "bounds" and self._scope.whole_tiering
        return following in STOPS and not is_first_look

    def _answer(self, effect: Effect) -> tuple[Hashable, Any]:
        answer = perform(self._world, effect)
        table_key = 0
        if isinstance(answer, TableState):
            table_key, moment = self._table_key(self._world.save())
            answer = moment.table.state
        return answer_key(answer, table_key), answer

    # --- Tiering ---------------------------------------------------------------------------------

    def _tierer_operations(self, state: State) -> Iterator[Operation]:
        for number, slot in enumerate(state.tierers):
            if slot is None:
                continue
            effect = slot.node.effect
            label = f"tierer {number}: {_text(effect)}"
            yield label, "", partial(self._tierer_goes_on, state, number, slot)
            if self._left(state, "crash"):
                yield (
                    f"tierer {number} crashes",
                    "crash",
                    partial(self._tierer_dies, state, number),
                )
            if effect is not None and effect.kind in COMMITS:
                for fault in ("lost reply", "lost request", "late request"):
                    if self._left(state, fault):
                        yield (
                            f"{label}, {fault}",
                            fault,
                            partial(self._tierer_is_hit, state, number, slot, fault),
                        )
        if None in state.tierers and self._left(state, "tier"):
            number = state.tierers.index(None)
            if self._scope.whole_tiering:
                yield "tier", "tier", lambda: self._changed(state, self._tier_whole)
            else:
                yield (
                    f"tierer {number} begins",
                    "tier",
                    lambda: self._tierer_begins(state, number),
                )

    def _tierer_dies(self, state: State, number: int) -> State:
        return state._replace(tierers=_with(state.tierers, number, None))

    def _tier_whole(self) -> None:
        try:
            world = self._world
            self._product.tier(
                world.table, world.log, Untimed(), records_max=self._scope.records_max
            )
        except SeamlineError as error:
            self._world.note_commits()
            if not self._world.is_adopted:
                oracle.check_failure(error.code.name, oracle.problems(self._world))
        self._world.note_commits()

    def _tierer_begins(self, state: State, number: int) -> State:
        def run(io: Io) -> Any:
            return self._product.tier(
                AskingTierTable(io),
                AskingLog(io),
                Untimed(),
                records_max=self._scope.records_max,
            )

        self._world.restore(state.moment)
        slot = Slot(
            self._programs.root("tier", run), "", oracle.started(self._world), frozenset(), 0
        )
        return self._tierer_goes_on(state, number, slot)

    def _tierer_goes_on(self, state: State, number: int, slot: Slot) -> State:
        self._world.restore(state.moment)
        return self._tierer_after(state, number, slot, self._advance(slot.node))

    def _tierer_is_hit(self, state: State, number: int, slot: Slot, fault: str) -> State:
        """A commit that does not arrive, or whose reply does not."""
        self._world.restore(state.moment)
        effect = slot.node.effect
        assert effect is not None
        answer: Any = Failed("CATALOG_UNAVAILABLE", "no answer")
        if fault == "lost reply":
            happened = perform(self._world, effect)
            answer = happened if isinstance(happened, Failed) else answer
        if fault == "late request":
            state = state._replace(late=(*state.late, effect))
        node = self._programs.after(slot.node, answer_key(answer, 0), answer)
        return self._tierer_after(state, number, slot, node)

    def _tierer_after(self, state: State, number: int, slot: Slot, node: Node) -> State:
        ended = node.outcome is not None
        after = state._replace(
            tierers=_with(state.tierers, number, None if ended else slot._replace(node=node))
        )
        moment = self._world.save()
        if moment.table.state is state.moment.table.state:
            return after._replace(moment=moment)
        return self._settled(after._replace(moment=moment))

    # --- States --------------------------------------------------------------------------------

    def _judge(self, state: State) -> None:
        """Compares the state's log and table with the truth, and runs a statement and tiering."""
        table_key, _ = self._table_key(state.moment)
        key = (state.moment.log, table_key, state.moment.truth)
        number = self._number(key)
        if number in self._judged:
            return
        world = self._world
        world.restore(state.moment)
        oracle.check_table(world)
        oracle.check_maintained(world)
        if state.tierers.count(None) == len(state.tierers):
            oracle.check_progress(world)
        causes = oracle.problems(world)
        self._judged[number] = causes
        for statement in self._scope.statements:
            try:
                answer = self._product.read(
                    Sources(world.catalog, world.log), world.table.open, statement
                )
            except SeamlineError as error:
                oracle.check_failure(error.code.name, oracle.problems(world, statement))
            else:
                if problems := oracle.problems(world, statement):
                    raise Violation(f"12, 14 answered in spite of {sorted(problems)}")
                oracle.check_answer(world, answer, oracle.started(world), statement)
        try:
            if not world.is_adopted:
                tier_all(self._product, world.table, world.log)
        except SeamlineError as error:
            oracle.check_failure(error.code.name, causes)
        except AssertionError as error:
            raise Violation(f"20 tiering does not get on: {error}") from error
        else:
            if not world.is_adopted and renewed(world.table.state) is not None:
                raise Violation("1 after tiering the head does not carry the boundary")
        world.note_commits()
        oracle.check_table(world)
        world.restore(state.moment)

    def _key(self, state: State) -> Hashable:
        table_key, moment = self._table_key(state.moment)
        return (
            self._number(moment.log),
            table_key,
            self._number(moment.truth),
            tuple(
                slot and (slot.node.number, slot.begun, slot.causes, slot.disruptions)
                for slot in state.readers
            ),
            tuple(slot and slot.node.number for slot in state.tierers),
            state.spent,
            tuple(self._number(effect) for effect in state.late),
        )

    def _number(self, value: Hashable) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def _table_key(self, moment: Moment) -> tuple[int, Moment]:
        """A number for what the table holds, and the moment with the first such table seen."""
        table = moment.table
        known = self._table_keys.get(id(table.state))
        if known is None or known[0] is not table.state:
            known = (table.state, self._number(_contents(table)))
            self._table_keys[id(table.state)] = known
        return known[1], moment


def _contents(table: SavedTable) -> Hashable:
    state = table.state
    return (
        state.current_snapshot_id,
        state.current_schema_id,
        table.commits,
        state.provider is not None,
        tuple(sorted((name, ref.snapshot_id) for name, ref in state.refs.items())),
        tuple(
            (i, s.parent_id, s.operation, tuple(s.summary.items()), table.contents[i])
            for i, s in sorted(state.snapshots.items())
        ),
    )


def _with(slots: tuple[Slot | None, ...], number: int, slot: Slot | None) -> Any:
    return (*slots[:number], slot, *slots[number + 1 :])


def _call(function: Callable[..., object], *arguments: Any, **named: Any) -> Callable[[], object]:
    return lambda: function(*arguments, **named)


def _text(effect: Effect | None) -> str:
    if effect is None:
        return ""
    match effect.kind, effect.arguments:
        case "read", (_, wanted, *_):
            return f"read {wanted.partition} [{wanted.start}, {wanted.end_exclusive})"
        case ("commit" | "boundary") as kind, (batch, *_):
            return f"{kind} up to {dict(batch.boundary.next)} on snapshot {batch.snapshot_id}"
        case "fetch", (batch,):
            return "fetch " + ", ".join(
                f"{r.partition} [{r.start}, {r.end_exclusive})" for r in batch.ranges
            )
        case kind, arguments:
            return f"{kind} {arguments[0]}" if arguments and kind != "plan" else kind
