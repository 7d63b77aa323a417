"""A history run against the product, and judged at every step.

Statements and tiering go through faulty wrappers. At each of their looks at the world the
operations that the history puts there run first, statements and tiering among them, and so on,
deeper and deeper: whatever can happen between two looks does so in some history. Nothing depends on
anything but the history: run again, it does the same.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from fakes.faulty import (
    Fault,
    FaultyCatalog,
    FaultyFollowableLog,
    FaultyLog,
    FaultyTierTable,
)
from fakes.memory import MemoryTable, Row, Untimed, shown

from seamline.connectors.cache import Cache
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import ERRORS, SeamlineError
from seamline.gateway.query import tokens
from seamline.gateway.query.loaded import REMEMBERED_MAX, LastSeen
from seamline.gateway.query.queries import ATTEMPTS_MAX
from seamline.gateway.query.tokens import NOTHING, After, Write
from seamline.seam.boundary import foreign_change, renewed
from seamline.seam.offsets import Offsets
from seamline.seam.resuming import unverified
from seamline.seam.seam import Seam
from seamline.seam.table import TableState
from seamline.seam.tiering import Batch
from simulation import oracle
from simulation.histories import FAULTS, History, Operation
from simulation.oracle import Started, Violation
from simulation.product import REAL, Product, tier_all
from simulation.reading import (
    ALL,
    CHANGES,
    FROM_1,
    ON_1,
    PARTS,
    TIERS,
    TWICE,
    Answer,
    Sources,
    at_moment,
)
from simulation.world import Accepting, World

SESSIONS = 3
TOKENS_MAX = 6
STATEMENTS = (ALL, ALL, ALL, ON_1, TWICE, TIERS, FROM_1, ALL)
GONE_STALE = frozenset(
    {"COLD_FILE_MISSING", "SNAPSHOT_GONE", "LOG_TRIMMED", "LOG_TRUNCATED", "READ_CONFLICT"}
)
AGES_MS = (*[0] * 12, 2, 6, -3, -20, -1_000_000)
"""How much earlier than now a record says it is: late ones, and those of fast clocks."""
UNAVAILABLE = frozenset({"KAFKA_UNAVAILABLE", "CATALOG_UNAVAILABLE", "STORAGE_UNAVAILABLE"})


class Seen(NamedTuple):
    """What somebody was given: a token, and what it stands for.

    Attributes:
        token: The token.
        rows: The rows of the answer, sorted.
        upheavals: How often something had been taken away before.
        hands: How often the table had changed hands before.
    """

    token: Seam
    rows: tuple[Row, ...]
    upheavals: int
    hands: int


@dataclasses.dataclass
class Statement:
    """A statement or a step of tiering under way.

    Attributes:
        operation: What it is.
        begun: The world when it began.
        causes: What was wrong with the world at any moment since.
        changes: How often others came between.
        faults: What went wrong on its way.
        step: Looks at the world so far.
    """

    operation: Operation
    begun: Started
    causes: set[str] = dataclasses.field(default_factory=set)
    changes: int = 0
    faults: set[Fault] = dataclasses.field(default_factory=set)
    step: int = 0


class Simulation:
    """One run of a history.

    Args:
        history: What happens.
        product: What is put to the test.
        counts: Is added to: operations, faults and outcomes by kind.
    """

    def __init__(
        self, history: History, product: Product = REAL, counts: Counter[str] | None = None
    ) -> None:
        self.world = World()
        self.counts: Counter[str] = Counter() if counts is None else counts
        self._history = history
        self._product = product
        self._at = 0
        self._stack: list[Statement] = []
        self._late: list[Callable[[], object]] = []
        self._tokens: list[Seen] = []
        self._sessions: list[Seen | None] = [None] * SESSIONS
        self._last: LastSeen = Cache(REMEMBERED_MAX)
        self._ways: list[_Way] = []
        self._is_polling = False
        self._followers = product.follow(FaultyFollowableLog(self.world.log, _Whose(self)))
        self._acknowledged: tuple[str, int, int] | None = None
        self._checked: TableState | None = None
        self._left_behind: int | None = None
        self._run: dict[str, Callable[[Operation], object]] = {
            "append": self._append,
            "append keyed": self._append_keyed,
            "transact": self._transact,
            "commit": lambda _: self._end_transaction(commit=True),
            "abort": lambda _: self._end_transaction(commit=False),
            "tier": self._tier,
            "read": self._read,
            "repeat": self._repeat,
            "changes": self._changes,
            "read after write": self._read_after_write,
            "travel": self._travel,
            "follow": self._follow,
            "compact": lambda _: self.world.compact_table(),
            "expire": lambda _: self.world.expire(),
            "foreign": lambda _: self.world.append_foreign(),
            "trim to boundary": self._trim_to_boundary,
            "compact log": lambda _: self.world.compact_log(),
            "add partition": self._add_partition,
            "elect": self._elect,
            "clock": lambda o: self.world.clock.advance(1 + o.first % 5),
            "new schema": lambda _: self.world.new_schema(),
            "trim": self._trim,
            "recreate": self._recreate,
            "roll back": self._roll_back,
            "truncate": self._truncate,
            "recreate table": lambda _: self.world.recreate_table(),
            "hand over": lambda _: self.world.hand_over(product.hand_over),
            "take over": self._take_over,
            "copy": self._copy,
            "copier reads": lambda o: self.world.copier_reads(1 + o.first % 4),
            "copier commits": lambda _: self.world.copier_commits(),
            "second writer": self._second_writer,
            "resume": self._resume,
        }

    def run(self) -> None:
        """Runs everything, then lets the world come to rest.

        Raises:
            Violation: an invariant does not hold.
        """
        while self._at < len(self._history):
            self._next()
        while self._late:
            self._arrive()
        self._rest()

    def _next(self) -> None:
        """The next operation, if there is one left."""
        if self._at >= len(self._history):
            return
        operation = self._history[self._at]
        self._at += 1
        self.counts[operation.kind] += 1
        if self._late and operation.second % 4 == 0:
            self._arrive()
        for statement in self._stack:
            statement.changes += 1
        self._run[operation.kind](operation)
        self._check()

    def _arrive(self) -> None:
        effect = self._late.pop(0)
        try:
            effect()
        except SeamlineError as error:
            self.counts[f"late: {error.code.name}"] += 1
        self.world.note_commits()

    def _check(self) -> None:
        """After something has happened: is the table right, and what is wrong with the world?"""
        state = self.world.table.state
        if state is not self._checked:
            oracle.check_table(self.world)
            oracle.check_maintained(self.world)
            is_tiering = any(statement.operation.kind == "tier" for statement in self._stack)
            if not is_tiering and state.current_snapshot_id != self._left_behind:
                oracle.check_progress(self.world)
            self._checked = state
        for statement in self._stack:
            statement.causes |= oracle.problems(self.world)

    def _rest(self) -> None:
        """When nothing happens any more: tiering catches up, and a statement reads everything."""
        world = self.world
        causes = oracle.problems(world)
        while world.is_adopted and world.lags_behind() and not causes:
            world.copier_reads()
            world.copier_commits()
        try:
            if not world.is_adopted:
                tier_all(self._product, world.table, world.log)
        except SeamlineError as error:
            if error.code.name != "LOG_TRUNCATED" or not self._is_cut():
                oracle.check_failure(error.code.name, causes)
        except AssertionError as error:
            raise Violation(f"20 tiering does not get on: {error}") from error
        else:
            if not world.is_adopted and renewed(world.table.state) is not None:
                raise Violation("1 after tiering the head does not carry the boundary")
        world.note_commits()
        self._check()
        for statement in (ALL, *PARTS):
            self._read_alone(statement)

    def _read_alone(self, statement: str) -> None:
        """A statement beside which nothing happens."""
        world = self.world
        begun, causes = oracle.started(world), oracle.problems(world, statement)
        sources = Sources(world.catalog, world.log)
        try:
            answer = self._product.read(sources, world.table.open, statement, deadline=Patience())
        except SeamlineError as error:
            if error.code.name != "LOG_TRUNCATED" or not self._is_cut():
                oracle.check_failure(error.code.name, causes)
            return
        if causes:
            raise Violation(f"12, 14 answered in spite of {sorted(causes)}")
        oracle.check_answer(world, answer, begun, statement)

    # --- The log -------------------------------------------------------------------------------

    def _partition(self, operation: Operation) -> int:
        return operation.first % self.world.partitions

    def _append(self, operation: Operation) -> None:
        partition = self._partition(operation)
        # late, and from clocks that are fast by little or forever
        age_ms = AGES_MS[operation.second % len(AGES_MS)]
        end = self.world.append(partition, age_ms=age_ms)
        self._acknowledged = (self.world.truth.topic_id, partition, end)

    def _append_keyed(self, operation: Operation) -> None:
        key = b"ab"[operation.second % 2 :][:1]
        self.world.append(self._partition(operation), key=key)

    def _transact(self, operation: Operation) -> None:
        self.world.append_in_transaction(self._partition(operation))

    def _end_transaction(self, *, commit: bool) -> None:
        if self.world.truth.open is not None:
            self.world.end_transaction(commit=commit)

    def _trim_to_boundary(self, operation: Operation) -> None:
        """Retention that leaves what has not been tiered."""
        partition = self._partition(operation)
        mark = self.world.head.mark
        if mark.topic_id == self.world.truth.topic_id:
            self.world.trim(partition, dict(mark.next).get(partition, 0))

    def _trim(self, operation: Operation) -> None:
        partition = self._partition(operation)
        end = self.world.ends()[partition]
        self.world.trim(partition, operation.second % (end + 1))

    def _add_partition(self, operation: Operation) -> None:
        if self.world.partitions < 4:
            self.world.add_partition()

    def _elect(self, operation: Operation) -> None:
        """A new leader that has everything."""
        partition = self._partition(operation)
        self.world.truncate(partition, self.world.ends()[partition])

    def _truncate(self, operation: Operation) -> None:
        """A new leader that lacks the newest records, and may have as many others at once."""
        if self.world.truth.hands:
            return  # without other writers' epochs, that is unknown
        partition = self._partition(operation)
        end = self.world.ends()[partition]
        is_tiering = any(statement.operation.kind == "tier" for statement in self._stack)
        lost_from = max(0, end - 1 - operation.second % 3)
        self.world.truncate(partition, lost_from, under_way=is_tiering or bool(self._late))
        while operation.first % 4 and self.world.ends()[partition] < end:
            self.world.append(partition)
        self._acknowledged = None
        for statement in self._stack:
            statement.causes.add("LOG_TRUNCATED")

    def _recreate(self, operation: Operation) -> None:
        ends = self.world.ends()
        self.world.recreate_topic(1 + operation.second % 3)
        if operation.first % 2:
            for partition in range(self.world.partitions):
                for _ in range(max(ends) + operation.first % 3):
                    self.world.append(partition)

    # --- The table -----------------------------------------------------------------------------

    def _take_over(self, operation: Operation) -> None:
        self.world.take_over(self._product.take_over, is_stopped=bool(operation.first % 8))

    def _copy(self, operation: Operation) -> None:
        """The other writer, all at once; it may just have been killed and restarted."""
        if operation.second % 5 == 0 and self.world.is_adopted:
            self.world.truth = self.world.truth._replace(copier=None)
        self.world.copier_reads(1 + operation.first % 4)
        self.world.copier_commits()

    def _second_writer(self, operation: Operation) -> None:
        is_marked = bool(operation.second % 2)
        self.world.double(self._partition(operation), is_marked=is_marked)

    def _roll_back(self, operation: Operation) -> None:
        state = self.world.table.state
        line = [s.snapshot_id for s in state.ancestors(state.current_snapshot_id)][1:]
        if line:
            self.world.roll_back(line[operation.first % len(line)])

    def _tier(self, operation: Operation) -> None:
        """One step of a tierer, at whose looks at the world others may come between."""
        plan = _Way(self, operation)
        table = FaultyTierTable(_InTwo(self.world.table, plan.others), plan)
        log = FaultyLog(self.world.log, plan)
        records_max = (1, 2, 5, 100)[operation.first % 4]
        try:
            step = self._product.tier(table, log, Patience(), records_max=records_max)
        except SeamlineError as error:
            self.counts[f"tier: {error.code.name}"] += 1
            self.world.note_commits()
            self._judge_tiering(plan.end(), error.code.name)
        else:
            plan.end()
            self.counts[f"tier: {step.outcome.value}"] += 1
        finally:
            self.world.note_commits()

    def _resume(self, operation: Operation) -> None:
        """Somebody accepts that records are lost; others may come between."""
        plan = _Way(self, operation)
        accepting = Accepting(self.world)
        table = FaultyTierTable(accepting, plan)
        log = FaultyLog(self.world.log, plan)
        now_ms = self.world.clock.now_ms
        try:
            self._product.resume(table, log, Patience(), now_ms=now_ms, by="me", accept_loss=True)
        except SeamlineError as error:
            self.counts[f"resume: {error.code.name}"] += 1
            way = plan.end()
            self.world.note_commits()
            if error.code.name == "STATEMENT_NOT_ALLOWED":
                if not way.changes and not way.faults and self.world.must_resume():
                    raise Violation("22 what is lost is not found") from error
            elif error.code.name == "COMMIT_CONFLICT" and self._is_built_on_a_doubt():
                pass
            elif error.code.name != "NOT_SUPPORTED" or not self.world.truth.hands:
                self._judge_tiering(way, error.code.name)
        else:
            plan.end()
            self.counts["resume: done"] += 1
        finally:
            self.world.note_commits()
        if accepting.has_lost_nothing:
            raise Violation("22 a loss was accepted, and nothing was lost")

    def _is_built_on_a_doubt(self) -> bool:
        """Whether others have committed after a batch that nobody had checked."""
        state = self.world.table.state
        doubted = unverified(state)
        return doubted is not None and doubted.snapshot_id != state.current_snapshot_id

    def _judge_tiering(self, way: Statement, code: str) -> None:
        if code in UNAVAILABLE and way.faults:
            # what it may have committed it could not take back
            self._left_behind = self.world.table.state.current_snapshot_id
            return
        if code == "COMMIT_CONFLICT" and (way.changes or way.faults):
            return
        if code == "SCHEMA_NOT_EVOLVED" and (way.changes or way.faults):
            return  # the records that it is for are gone, or the answer of a change of columns
        if code == "LOG_TRUNCATED" and "TOPIC_RECREATED" in way.causes:
            return
        if code == "LOG_TRIMMED" and way.changes:  # another tierer was first, and it may go
            return
        if code == "LOG_TRUNCATED" and self._is_cut(way.begun):
            return
        if code == "TABLE_TIERED_ELSEWHERE" and self.world.truth.hands:
            return
        if code == "SECOND_WRITER" and self.world.truth.hands > way.begun.hands:
            return  # handed over while it was at work, and taken back
        oracle.check_failure(code, way.causes | oracle.problems(self.world))

    # --- Statements ----------------------------------------------------------------------------

    def _ask(self, operation: Operation, statement: str, **how: Any) -> tuple[Answer | str, _Way]:
        """A statement: its answer, or the name of the error."""
        plan = _Way(self, operation)
        sources = Sources(FaultyCatalog(self.world.catalog, plan), FaultyLog(self.world.log, plan))

        def open_file(path: str) -> tuple[Row, ...]:
            plan.look("open", "STORAGE_UNAVAILABLE")
            return self.world.table.open(path)

        outcome: Answer | str
        # of a gateway that runs, or a new one
        last = self._last if operation.second % 2 else Cache(REMEMBERED_MAX)
        if self._follows(operation):
            how["followers"] = self._followers
            self.counts["gateway: follows"] += 1
        try:
            outcome = self._product.read(
                sources,
                open_file,
                statement,
                deadline=Patience(plan.others),
                last=last,
                now_ms=plan.statement.begun.now_ms,
                **how,
            )
            self.counts["answered"] += 1
        except SeamlineError as error:
            outcome = error.code.name
            self.counts[f"refused: {outcome}"] += 1
        plan.end()
        return outcome, plan

    def _follows(self, operation: Operation) -> bool:
        """Whether a statement is of the gateway that follows the table.

        Its follower has one reader: while that polls, others do not wait for it.
        """
        return operation.second // 16 % 2 == 1 and not self._is_polling

    def _follow(self, operation: Operation) -> None:
        """The follower continues in the background, and looks at the log or does not."""
        is_polling = self._is_polling
        plan = _Way(self, operation)
        for follower in self._followers.all():
            try:
                if operation.second % 2:
                    follower.look(Patience())
                if not is_polling:
                    follower.wait(dict(enumerate(oracle.stable_ends(self.world))), Patience())
            except SeamlineError as error:
                self.counts[f"follow: {error.code.name}"] += 1
        plan.end()

    def _excused(self, way: Statement, code: str) -> bool:
        """Whether a failure has a reason outside the world's own state."""
        if code in UNAVAILABLE and way.faults:
            return True
        if code == "LOG_TRUNCATED" and self._is_cut(way.begun):
            return True
        return way.changes >= ATTEMPTS_MAX and code in GONE_STALE

    def _is_cut(self, begun: Started | None = None) -> bool:
        """Whether the log has ever lost anything: then any doubt may be refused.

        A statement over a table that was then recreated knows of the old one's losses, too.
        """
        before = begun.cuts if begun is not None else ()
        return any(cut.end < cut.sent for cut in (*before, *self.world.truth.cuts))

    def _read(self, operation: Operation) -> None:
        """A statement of a session that passes on what it has seen, or does not."""
        number = operation.first % SESSIONS
        session = self._sessions[number] if operation.second % 3 else None
        after = After(seen=(session.token,)) if session is not None else NOTHING
        statement = STATEMENTS[operation.second % len(STATEMENTS)]
        outcome, plan = self._ask(operation, statement, after=after)
        way = plan.statement
        if isinstance(outcome, str):
            changed = session is not None and (
                session.upheavals < self.world.truth.upheavals or self._is_untold(session.token)
            )
            if outcome == "HISTORY_CHANGED" and (changed or Fault.STALE in way.faults):
                self._sessions[number] = None
                return
            if not self._excused(way, outcome):
                oracle.check_failure(outcome, way.causes | oracle.problems(self.world))
            return
        if self._is_of_a_former_leader(way):
            return
        self._judge(outcome, way, statement)
        if session is not None:
            self._check_not_behind(outcome, session, statement)
        if statement not in PARTS:
            seen = Seen(
                tokens.decode(tokens.encode(outcome.seam)),
                _sorted(outcome.rows),
                way.begun.upheavals,
                way.begun.hands,
            )
            self._sessions[number] = seen
            self._tokens = [*self._tokens[-TOKENS_MAX + 1 :], seen]

    def _is_of_a_former_leader(self, way: Statement) -> bool:
        """Whether the log may have been said to hold what only a replaced leader held."""
        return Fault.STALE in way.faults and bool(self.world.truth.cuts)

    def _judge(self, answer: Answer, way: Statement, statement: str) -> None:
        truth, begun = self.world.truth, way.begun
        is_replaced = (truth.cuts, truth.began) != (begun.cuts, begun.began)
        if is_replaced or self._is_of_a_former_leader(way):
            return  # what was read was true when it was read
        if Fault.STALE in way.faults:  # exact nevertheless, but of an earlier moment
            oracle.check_exact(self.world, answer, statement)
        else:
            oracle.check_answer(self.world, answer, way.begun, statement)

    def _repeat(self, operation: Operation) -> None:
        """A token gives the same rows again, or says why not."""
        if not self._tokens:
            return
        seen = self._tokens[operation.first % len(self._tokens)]
        outcome, plan = self._ask(operation, ALL, token=(seen.token,))
        if not isinstance(outcome, str):
            self._check_same(outcome.rows, seen.rows)
            return
        if self._excused(plan.statement, outcome):
            return
        if outcome == "HISTORY_CHANGED" and seen.upheavals < self.world.truth.upheavals:
            return
        if outcome == "TOKEN_EXPIRED" and not self._is_told(seen):
            return
        upset = plan.statement.causes | oracle.problems(self.world)
        if outcome in upset and (self.world.truth.hands or self.world.head.is_doubled):
            return
        if seen.upheavals < self.world.truth.upheavals:
            oracle.check_failure(outcome, upset)
        elif outcome not in GONE_STALE or not plan.statement.changes:
            raise Violation(f"7 a token is refused with {outcome}")

    def _check_same(self, rows: tuple[Row, ...], before: tuple[Row, ...]) -> None:
        """The same rows; what compaction of the log takes may be gone, or still be cached."""
        now, then = Counter(_sorted(rows)), Counter(before)
        if any(not self._is_compacted(row) for row in (now - then) + (then - now)):
            raise Violation(f"7 a token gives {sorted(now, key=_place)}, not {before}")

    def _changes(self, operation: Operation) -> None:
        """The changes between two reads are what the later one has more, or say why not."""
        if not self._tokens:
            return
        earlier, later = (
            self._tokens[number % len(self._tokens)]
            for number in (operation.first, operation.second)
        )
        seams = {"earlier": (earlier.token,), "later": (later.token,)}
        outcome, plan = self._ask(operation, CHANGES, read_token=seams.__getitem__)
        if not isinstance(outcome, str):
            known = Counter(map(_in_first, earlier.rows))
            more = []  # in the columns of the later read
            for row in later.rows:
                known[_in_first(row)] -= 1
                more += [row] if known[_in_first(row)] < 0 else []
            self._check_same(outcome.rows, tuple(more))
            return
        one, other = earlier.token, later.token
        if self._excused(plan.statement, outcome):
            return
        if outcome == "INVALID_ARGUMENT" and any(
            end > other.end.get(partition, 0) for partition, end in one.end.items()
        ):
            return
        upset = min(earlier.upheavals, later.upheavals) < self.world.truth.upheavals
        if outcome == "HISTORY_CHANGED" and (
            upset or one.cold.foreign_change_id != other.cold.foreign_change_id
        ):
            return
        if outcome == "TOKEN_EXPIRED" and not self._is_told(later):
            return
        causes = plan.statement.causes | oracle.problems(self.world)
        if outcome in causes and (self.world.truth.hands or self.world.head.is_doubled):
            return
        if upset:
            oracle.check_failure(outcome, causes)
        elif outcome not in GONE_STALE or not plan.statement.changes:
            raise Violation(f"7 changes are refused with {outcome}")

    def _is_compacted(self, row: Row) -> bool:
        partition, offset, value, _ = row
        topic_id = (value or b"").split(b"/")[0].decode()
        return (topic_id, partition, offset) in self.world.truth.compacted

    def _check_not_behind(self, answer: Answer, before: Seen, statement: str) -> None:
        """A later statement of a session shows everything the earlier one showed."""
        seam, token = answer.seam, before.token
        if seam.log.topic_id != token.log.topic_id or seam.table_uuid != token.table_uuid:
            raise Violation("8 a session is given another history")
        for partition, end in token.end.items():
            if seam.end.get(partition, 0) < end:
                raise Violation(f"8 a session goes back from {token.end} to {seam.end}")
        gone = Counter(map(_in_first, before.rows))
        gone -= Counter(map(_in_first, _sorted(answer.rows)))
        past = self.world.past(seam.cold.snapshot_id)
        lost = {place[1:] for place in past.lost} if past is not None else set()
        gone = Counter({row: count for row, count in gone.items() if row[:2] not in lost})
        if statement not in PARTS and any(not self._is_compacted(row) for row in gone):
            raise Violation(f"8 a session no longer sees {sorted(gone, key=_place)}")

    def _is_untold(self, token: Seam) -> bool:
        """Whether what is kept no longer shows if others' later changes build on a token's."""
        state = self.world.table.state
        line = {snapshot.snapshot_id for snapshot in state.ancestors(state.current_snapshot_id)}
        now = foreign_change(state, state.current_snapshot_id)
        return token.cold.snapshot_id not in line and token.cold.foreign_change_id not in (
            None,
            now,
            *line,
        )

    def _is_told(self, seen: Seen) -> bool:
        """Whether the rows of a token are there, and known to whoever fills the table."""
        state, past = self.world.table.state, self.world.past(seen.token.cold.snapshot_id)
        if self.world.is_adopted and past and past.mark.snapshot_id not in state.snapshots:
            return False  # nobody may rewrite another's boundary before its snapshot expires
        return seen.hands == self.world.truth.hands and self._is_kept(seen.token)

    def _is_kept(self, token: Seam) -> bool:
        """Whether the token's snapshot is still there, and the log from its boundary on."""
        state = self.world.table.state
        if token.table_uuid != state.uuid or token.cold.snapshot_id not in state.snapshots:
            return False
        bounds = self.world.log.bounds(["orders"], "read_committed", Untimed())["orders"]
        return bounds.topic_id == token.log.topic_id and all(
            bounds.start.get(partition, 0) <= token.boundary.get(partition, 0)
            for partition, end in token.end.items()
            if end > token.boundary.get(partition, 0)
        )

    def _read_after_write(self, operation: Operation) -> None:
        """A statement that must show a write that was acknowledged."""
        if self._acknowledged is None:
            return
        topic_id, partition, end = self._acknowledged
        after = After(writes=(Write(None, Offsets({partition: end})),))
        outcome, plan = self._ask(operation, ALL, after=after)
        way = plan.statement
        if isinstance(outcome, str):
            hidden = (
                topic_id != self.world.truth.topic_id
                or way.begun.upheavals
                or (
                    oracle.stable_ends(self.world)[partition] < end
                    or way.begun.stable[partition] < end
                )
            )
            if outcome == "WRITE_NOT_VISIBLE" and (hidden or Fault.STALE in way.faults):
                return
            if not self._excused(way, outcome):
                oracle.check_failure(outcome, way.causes | oracle.problems(self.world))
            return
        self._judge(outcome, way, ALL)
        is_kept = way.begun.cuts == self.world.truth.cuts and topic_id == outcome.seam.log.topic_id
        if is_kept and outcome.seam.end.get(partition, 0) < end:
            raise Violation(f"9 a write up to {end} is not in {outcome.seam.end}")

    def _travel(self, operation: Operation) -> None:
        """A statement about a past moment."""
        first_ms = self.world.table.state.snapshot_log[0][0]
        moment_ms = first_ms + operation.first % (self.world.clock.now_ms - first_ms + 1)
        statement = at_moment(moment_ms)
        outcome, plan = self._ask(operation, statement)
        way = plan.statement
        if not isinstance(outcome, str):
            # the table of that time holds what the log has lost since: so it was
            is_cut = any(cut.end < cut.sent for cut in self.world.truth.cuts)
            if way.begun.upheavals == self.world.truth.upheavals and not is_cut:
                oracle.check_past(self.world, outcome, moment_ms, way.begun)
            return
        truth = self.world.truth
        is_calm = not (truth.upheavals or truth.hands or way.changes or way.faults or way.causes)
        if (
            is_calm
            and not truth.pasts[-1].is_doubled
            and oracle.is_past_kept(self.world, moment_ms)
        ):
            raise Violation(f"7 the moment {moment_ms} is refused with {outcome}")


class _Way:
    """The course of one statement, or one step of tiering: a `FaultPlan`."""

    def __init__(self, simulation: Simulation, operation: Operation) -> None:
        self.statement = Statement(operation, oracle.started(simulation.world))
        self._simulation = simulation
        simulation._stack.append(self.statement)
        simulation._ways.append(self)

    def end(self) -> Statement:
        """The statement has ended."""
        last = self._simulation._stack.pop()
        self._simulation._ways.pop()
        assert last is self.statement
        return last

    def at(self, call: str) -> Fault:
        """See `FaultPlan.at`."""
        step = self.statement.step
        operation = self.statement.operation
        self.others()
        if step >= len(operation.faults) or not operation.faults[step]:
            return Fault.NONE
        fault = FAULTS[operation.faults[step]]
        self.statement.faults.add(fault)
        self._simulation.counts[f"fault: {fault.value}"] += 1
        return fault

    def others(self) -> None:
        """Lets others come between, as often as the history says here."""
        step = self.statement.step
        self.statement.step += 1
        gaps = self.statement.operation.gaps
        if step >= len(gaps) or not gaps[step]:
            return
        simulation = self._simulation
        simulation.world.note_commits()
        simulation._check()
        simulation.counts["fault: delay"] += 1
        for _ in range(gaps[step]):
            simulation._next()

    def look(self, call: str, code: str) -> None:
        """A call that is not one of a Protocol's."""
        if self.at(call) in {Fault.FAIL, Fault.LOST_REPLY, Fault.LATE}:
            raise SeamlineError(ERRORS[code], call)

    def later(self, effect: Callable[[], object]) -> None:
        """See `FaultPlan.later`."""
        self._simulation._late.append(effect)


class _Whose:
    """The course of whoever waits for a follower: a `FaultPlan` of what that asks the log."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def at(self, call: str) -> Fault:
        """See `FaultPlan.at`."""
        simulation = self._simulation
        before = simulation._is_polling
        simulation._is_polling |= call in {"poll", "polled"}
        try:
            return simulation._ways[-1].at(call)
        finally:
            simulation._is_polling = before

    def later(self, effect: Callable[[], object]) -> None:
        """Nothing that it asks changes the log."""
        raise AssertionError


class _InTwo:
    """A table whose commits let others come between reading the rows and writing them."""

    def __init__(self, inner: MemoryTable, others: Callable[[], None]) -> None:
        self._inner = inner
        self._others = others
        self.load = inner.load
        self.has_rows = inner.has_rows
        self.evolve = inner.evolve
        self.commit_boundary = inner.commit_boundary
        self.keep = inner.keep
        self.take_back = inner.take_back
        self.require_single_writer = inner.require_single_writer

    def commit_rows(self, batch: Batch) -> None:
        """See `TierTable.commit_rows`."""
        rows = self._inner.read_rows(batch, Untimed())
        self._others()
        self._inner.write_rows(batch, rows)


class Patience:
    """A deadline in its own time: waiting costs none of ours, and lets others continue.

    Args:
        others: Called at each pause.
    """

    def __init__(self, others: Callable[[], None] = lambda: None) -> None:
        self._left_s = 6.0
        self._others = others

    def check(self) -> None:
        """See `Deadline.check`."""

    def remaining_s(self) -> float:
        """See `Deadline.remaining_s`."""
        return self._left_s

    def pause(self, seconds: float) -> None:
        """See `Deadline.pause`: it never waits less than a second."""
        self._left_s = max(0.0, self._left_s - max(1.0, seconds))
        self._others()

    def on_end(self, stop: Callable[[], None]) -> Callable[[], None]:
        """See `Deadline.on_end`."""
        return lambda: None


_: Deadline = Patience()


def _in_first(row: Row) -> Row:
    """A row in the columns of the first schema."""
    partition, offset, value, batch = row
    return partition, offset, shown(value, 0), batch


def _sorted(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows without the batch that wrote them, in one order."""
    return tuple(sorted(((*row[:3], None) for row in rows), key=_place))


def _place(row: Row) -> tuple[int, int, bytes]:
    partition, offset, value, _ = row
    return (-1 if partition is None else partition, -1 if offset is None else offset, value or b"")
