"""The checker itself, attacked with mutants.

Goal: a history of right answers has no violation, and every kind of wrong answer is found.
Method: a small model of a log and its table answers reads the way the protocol says; each mutant is
the same model with one mistake in how it reads, run over the same history.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator

import pytest
from chaos.checker import Verdict, check
from chaos.history import (
    BAD_ID,
    NO_ID,
    Acknowledged,
    Event,
    Filter,
    ForeignRow,
    Logged,
    Read,
    Sent,
    TableClosed,
    TableOpened,
    TableSpoiled,
    TransactionEnded,
    from_line,
    pack,
    sorted_rows,
    to_line,
)

TABLE, TOPIC, TOPIC_ID = "t", "t", "log-1"
Row = tuple[int, int, int]


@dataclasses.dataclass(slots=True)
class Model:
    """A log of committed and aborted records, the part of it that is tiered, and readers.

    Attributes:
        mutant: The mistake that reads make; empty for none.
    """

    mutant: str = ""
    seed: int = 7
    events: list[Event] = dataclasses.field(default_factory=list)
    log: dict[int, list[tuple[int, bool]]] = dataclasses.field(
        default_factory=lambda: {0: [], 1: []}
    )
    boundary: dict[int, int] = dataclasses.field(default_factory=dict)
    replayed: bool = False
    now: float = 1.0
    ops: Iterator[int] = dataclasses.field(default_factory=lambda: itertools.count(1))
    ids: Iterator[int] = dataclasses.field(default_factory=lambda: itertools.count(1000))

    def tick(self) -> float:
        self.now += 1.0
        return self.now

    def open(self) -> None:
        now = self.tick()
        self.events.append(
            TableOpened(TABLE, TOPIC_ID, {0: 0, 1: 0}, "fail", now, now, has_transactions=True)
        )

    def send(self, partition: int, *, commit: bool = True) -> int:
        id_, offset = next(self.ids), len(self.log.setdefault(partition, []))
        self.log[partition].append((id_, commit))
        self.events.append(Sent(id_, TOPIC, self.tick(), f"x{id_}"))
        self.events.append(Acknowledged(id_, partition, offset, self.tick()))
        outcome = "commit" if commit else "abort"
        self.events.append(TransactionEnded(f"x{id_}", outcome, self.tick()))
        if commit:
            records = [(offset, id_, "")]
            self.events.append(Logged(TOPIC, TOPIC_ID, partition, records, self.tick()))
        return id_

    def tier(self) -> None:
        self.boundary = {p: len(records) for p, records in self.log.items()}

    @property
    def end(self) -> dict[int, int]:
        return {p: len(records) for p, records in self.log.items()}

    def cold(self, end: dict[int, int]) -> list[Row]:
        rows = self._range(dict.fromkeys(self.log, 0), self.boundary)
        if self.mutant == "batch replayed" and self.boundary:
            rows += self._range({p: e - 2 for p, e in self.boundary.items()}, self.boundary)
        return [row for row in rows if row[1] < end.get(row[0], 0)]

    def hot(self, end: dict[int, int]) -> list[Row]:
        start = {p: min(self.boundary.get(p, 0), end.get(p, 0)) for p in self.log}
        match self.mutant:
            case "boundary one too high":
                start = {p: offset + 1 for p, offset in start.items()}
            case "boundary one too low":
                start = {p: max(0, offset - 1) for p, offset in start.items()}
            case "fallback to earliest":
                start = dict.fromkeys(start, 0)
            case "newest snapshot only":
                start = dict(end)
            case "new partition skipped":
                start = {p: start[p] for p in self.boundary}
        stop = dict(end)
        if self.mutant == "less or equal for less":
            stop = {p: offset + 1 for p, offset in end.items()}
        return self._range(start, stop)

    def _range(self, start: dict[int, int], stop: dict[int, int]) -> list[Row]:
        return [
            (p, offset, id_)
            for p in start
            for offset, (id_, committed) in enumerate(self.log[p])
            if start[p] <= offset < stop.get(p, 0)
            and (committed or self.mutant == "read_uncommitted")
        ]

    def read(self, form: str = "rows", **options: object) -> Read:
        invoked = self.tick()
        end = dict(self.end)
        if self.mutant == "end held back":
            end = dict(self.boundary)
        if self.mutant == "new partition unseen":
            end = {p: offset for p, offset in end.items() if p in self.boundary}
        if self.mutant == "topic id not checked" and self.spoiled:
            end = {p: offset + 2 for p, offset in end.items()}
        self.send(0)  # lands while the statement runs: past its end
        rows = [*self.cold(end), *self.hot(end)]
        read = Read(
            op=next(self.ops),
            client="c",
            session="s",
            table=TABLE,
            form=form,
            filter=Filter(),
            engine="duckdb",
            invoked=invoked,
            ended=self.tick(),
            topic_id=TOPIC_ID,
            end=end,
            boundary=dict(self.boundary),
        )
        if form == "rows":
            read = dataclasses.replace(read, rows=pack(sorted_rows(rows)))
        elif form == "groups":
            read = dataclasses.replace(read, values=groups(rows))
        else:
            second = len(rows) + (self.mutant == "end per reference")
            read = dataclasses.replace(read, values=[[len(rows), second]])
        read = dataclasses.replace(read, **options)  # type: ignore[arg-type]
        self.events.append(read)
        return read

    @property
    def spoiled(self) -> bool:
        return any(isinstance(event, TableSpoiled) for event in self.events)

    def run(self) -> list[Event]:
        """A history in which everything happens; one step is one second."""
        chance = random.Random(self.seed)
        self.open()
        for step in range(30):
            if step == 15:
                self.log[2] = []
            for _ in range(chance.randint(1, 4)):
                self.send(chance.choice(list(self.log)), commit=chance.random() < 0.8)
            if step == 15:
                self.send(2)
            elif chance.random() < 0.3:
                self.tier()
            first = self.read(chance.choice(["rows", "rows", "groups", "twice"]))
            self.repeat(first)
        after = self.send(0)
        offset = next(e.offset for e in reversed(self.events) if isinstance(e, Acknowledged))
        self.read(after={0: offset + (5 if self.mutant == "write token ignored" else 0)})
        assert after
        self.recreate()
        return self.events

    def repeat(self, first: Read) -> None:
        engine = "spark" if self.mutant == "engines differ" else "duckdb"
        rows, values = first.rows, first.values
        if self.mutant in {"token repeat differs", "engines differ"} and rows:
            rows = pack(sorted_rows([(0, 0, 1000)]))
        self.events.append(
            dataclasses.replace(
                first,
                op=next(self.ops),
                invoked=self.tick(),
                ended=self.tick(),
                engine=engine,
                token_of=first.op,
                rows=rows,
                values=values,
            )
        )

    def recreate(self) -> None:
        now = self.tick()
        self.events.append(TableSpoiled(TABLE, "TOPIC_RECREATED", True, now, now))
        if self.mutant == "topic id not checked":
            self.read()
            return
        self.events.append(
            dataclasses.replace(
                self.read("rows"), op=next(self.ops), error="TOPIC_RECREATED", rows={}
            )
        )
        self.events.pop(-2)
        if self.mutant == "wrong error":
            self.events.append(dataclasses.replace(self.read(), error="INTERNAL_ERROR", rows={}))
            self.events.pop(-2)
        self.events.append(TableClosed(TABLE, self.tick(), self.tick()))


def groups(rows: list[Row]) -> list[list[int]]:
    by_partition: dict[int, list[Row]] = {}
    for row in rows:
        by_partition.setdefault(row[0], []).append(row)
    return [
        [p, len(found), sum(r[2] for r in found), len({r[2] for r in found}), found[-1][1]]
        for p, found in by_partition.items()
    ]


MUTANTS = {
    "boundary one too high": {"hole", "lost write"},
    "boundary one too low": {"duplicate"},
    "less or equal for less": {"past the end", "phantom", "duplicate", "conservation"},
    "newest snapshot only": {"lost write"},
    "end held back": {"backward read"},
    "end per reference": {"seam per reference"},
    "read_uncommitted": {"aborted read"},
    "topic id not checked": {"spoiled table read"},
    "new partition skipped": {"lost write", "conservation"},
    "new partition unseen": {"backward read"},
    "batch replayed": {"duplicate"},
    "fallback to earliest": {"duplicate"},
    "token repeat differs": {"token repeat differs"},
    "engines differ": {"engine disagreement"},
    "write token ignored": {"read-your-writes"},
    "wrong error": {"error"},
}


def judge(events: list[Event]) -> Verdict:
    return check(lambda: [from_line(to_line(event)) for event in events])


def kinds(events: list[Event]) -> set[str]:
    return {violation.kind for violation in judge(events).violations}


@pytest.mark.parametrize("seed", range(20))
def test_right_answers_have_no_violation(seed: int) -> None:
    verdict = judge(Model(seed=seed).run())
    assert verdict.violations == []
    assert verdict.kafka_faults == []
    assert verdict.reads["ok"] > 50
    assert verdict.repeats == 30


def test_every_mutant_is_caught(capsys: pytest.CaptureFixture[str]) -> None:
    caught = [name for name, wanted in MUTANTS.items() if kinds(Model(name).run()) & wanted]
    with capsys.disabled():
        print(f"\nchecker mutants caught: {len(caught)}/{len(MUTANTS)}")
    assert caught == list(MUTANTS)


def edited(change: Callable[[list[Event]], None]) -> Verdict:
    events = Model().run()
    change(events)
    return judge(events)


def test_what_the_log_lost_is_the_logs_fault() -> None:
    def lose(events: list[Event]) -> None:
        lost = next(event for event in events if isinstance(event, Logged))
        events.remove(lost)

    verdict = edited(lose)
    assert {fault.kind for fault in verdict.kafka_faults} == {"lost by the log"}


def test_a_changed_offset_is_the_logs_fault() -> None:
    def change(events: list[Event]) -> None:
        first = next(event for event in events if isinstance(event, Logged))
        records = [(offset, id_ + 5_000, key) for offset, id_, key in first.records]
        events.append(dataclasses.replace(first, records=records))

    assert "log changed" in {fault.kind for fault in edited(change).kafka_faults}


def test_policies_and_foreign_rows() -> None:
    """A bad record is a row of nulls or nothing; rows of others count once and may vanish."""
    model = Model()
    opened = TableOpened(TABLE, TOPIC_ID, {0: 0}, "skip", 1, 1, touched_modulus=7)
    bad = Logged(TOPIC, TOPIC_ID, 0, [(0, 1, ""), (1, BAD_ID, ""), (2, 14, "")], 2)
    foreign = ForeignRow(TABLE, -5, 2)
    model.now = 3.0

    def found(rows: list[tuple[int | None, int | None, int | None]], policy: str) -> set[str]:
        model.log = {0: [(0, True)] * 3}
        read = dataclasses.replace(model.read(), rows=pack(sorted_rows(rows)))
        return kinds([dataclasses.replace(opened, policy=policy), bad, foreign, read])

    assert found([(0, 0, 1), (0, 2, 14)], "skip") == set()
    assert found([(0, 0, 1)], "skip") == set()
    assert found([(0, 0, 1), (None, None, -5)], "skip") == set()
    assert found([(0, 0, 1), (None, None, -5), (None, None, -5)], "skip") == {"duplicate"}
    assert found([(0, 0, 1), (None, None, -6)], "skip") == {"phantom"}
    assert found([(0, 0, 1), (0, 1, None)], "skip") == {"inconsistent offset"}
    assert found([(0, 0, 1), (0, 1, None), (0, 2, 14)], "null") == set()
    assert found([(0, 0, 1), (0, 2, 14)], "null") == {"hole"}
    bad = dataclasses.replace(bad, records=[(0, 1, ""), (1, NO_ID, ""), (2, 14, "")])
    assert found([(0, 0, 1), (0, 1, None), (0, 2, 14)], "skip") == set(), "no value is no bad one"
    assert found([(0, 0, 2), (0, 1, None), (0, 2, 14)], "skip") == {"inconsistent offset"}


def test_compaction_may_drop_only_what_was_replaced() -> None:
    opened = TableOpened(TABLE, TOPIC_ID, {0: 0}, "null", 1, 1, compacted=True)
    log = Logged(TOPIC, TOPIC_ID, 0, [(0, 1, "a"), (1, 2, "b"), (2, 3, "a")], 2)
    model = Model(log={0: [(0, True)] * 3}, now=3.0)

    def found(rows: list[tuple[int | None, int | None, int | None]]) -> set[str]:
        return kinds([opened, log, dataclasses.replace(model.read(), rows=pack(sorted_rows(rows)))])

    assert found([(0, 0, 1), (0, 1, 2), (0, 2, 3)]) == set()
    assert found([(0, 1, 2), (0, 2, 3)]) == set()
    assert found([(0, 0, 1), (0, 2, 3)]) == {"hole"}
