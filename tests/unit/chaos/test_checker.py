"""The checker itself, attacked with mutants.

Goal: a history of right answers has no violation, and every kind of wrong answer is found.
Method: a small model of a log and its table answers reads the way the protocol says; each mutant is
the same model with one mistake in how it reads, run over the same history.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chaos.checker import Verdict, check
from chaos.history import (
    BAD_ID,
    NO_ID,
    Acknowledged,
    EarlierLog,
    Event,
    Filter,
    ForeignRow,
    Lagged,
    Logged,
    Read,
    RegistryDisturbed,
    SchemaRegistered,
    Sent,
    TableClosed,
    TableOpened,
    TableSpoiled,
    TransactionEnded,
    from_line,
    pack,
    pack_cells,
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
    sent_at: dict[int, float] = dataclasses.field(default_factory=dict)
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
        self.sent_at[id_] = self.tick()
        self.events.append(Sent(id_, TOPIC, self.now, f"x{id_}"))
        self.events.append(Acknowledged(id_, partition, offset, self.tick()))
        outcome = "commit" if commit else "abort"
        self.events.append(TransactionEnded(f"x{id_}", outcome, self.tick()))
        if commit:
            records = [(offset, id_, "")]
            seen = Logged(TOPIC, TOPIC_ID, partition, records, self.tick())
            times = [self.time_of(id_)]
            self.events.append(dataclasses.replace(seen, timestamps_ms=times, headers=[id_ % 3]))
        return id_

    def time_of(self, id_: int) -> int:
        return int(self.sent_at[id_] * 1000)

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

    # --- Other kinds of reads ------------------------------------------------------------------

    def record(self, read: Read, rows: list[Row], **options: object) -> Read:
        """A read that differs from one in some ways, with rows of its own."""
        changed: dict[str, object] = {"op": next(self.ops), "invoked": self.tick(), **options}
        changed["rows"] = pack(sorted_rows(rows))
        new = dataclasses.replace(read, **changed)  # type: ignore[arg-type]
        new = dataclasses.replace(new, ended=self.tick())
        self.events.append(new)
        return new

    def everything(self) -> tuple[Read, list[Row]]:
        """What a read of everything looks like now; it is not in the history."""
        read = dataclasses.replace(self.read(), end=dict(self.end))
        self.events.pop()
        return read, [*self.cold(self.end), *self.hot(self.end)]

    def ask_prices(self) -> None:
        read, rows = self.everything()
        least = "0.02" if self.mutant == "literal rounded" else "0.025"
        for sign, price in ((">=", "0.025"), ("<", "4.5"), ("=", "0.010")):
            asked = Filter(price_sign=sign, price=price)
            used = Filter(price_sign=sign, price=least if price == "0.025" else price)
            kept = [row for row in rows if used.passes(*row) or self.mutant == "price ignored"]
            self.record(read, kept, filter=asked)

    def ask_other_columns(self) -> None:
        read, rows = self.everything()
        values = []
        for p in {row[0] for row in rows}:
            ids = [id_ for q, _, id_ in rows if q == p]
            times = [self.time_of(id_) for id_ in ids]
            prices = [id_ % 1000 for id_ in ids]
            headers = sum(id_ % 3 for id_ in ids) - (self.mutant == "header lost")
            late = 1 if self.mutant == "time shifted" else 0
            found = [len(ids), sum(prices), headers, len(ids), min(times) + late, max(times)]
            values.append([p, len(ids), *found])
        self.record(read, [], form="meta", values=values)

    def ask_past(self) -> None:
        read, rows = self.everything()
        moment = self.now - 30
        slack = {"moment too early": -20.0, "moment too late": 20.0}.get(self.mutant, 0.0)
        ends = {}
        for p, records in self.log.items():
            later = [
                offset
                for offset, (id_, committed) in enumerate(records)
                if committed and self.sent_at[id_] > moment + slack
            ]
            ends[p] = min(later, default=len(records))
        about: dict[str, object] = {"moment": moment, "moment_ms": int(moment * 1000)}
        then = [row for row in rows if row[1] < ends[row[0]]]
        first = self.record(read, then, end=ends, **about)
        if self.mutant == "moment moves back":
            ends = {p: end - 1 for p, end in ends.items()}
        if self.mutant == "moment changes rows":
            then = then[:-1]
        self.record(read, then, end=ends, token_of=first.op, **about)

    def ask_virtual(self) -> None:
        read, rows = self.everything()
        end = self.end
        if self.mutant == "virtual snapshot is old":
            end = {p: offset - 1 for p, offset in end.items()}
        if self.mutant == "virtual snapshot without its tail":
            rows = self.cold(end)
        rows = [row for row in rows if row[1] < end[row[0]]]
        version = {"way": "pyiceberg", "engine": "pyiceberg", "version": 5}
        first = self.record(read, rows, end=end, **version)
        again = rows[1:] if self.mutant == "engines read other files" else rows
        version = {"way": "catalog", "engine": "spark", "version": 5}
        self.record(read, again, end=end, token_of=first.op, **version)

    def ask_stream(self) -> None:
        read, rows = self.everything()
        start = {p: max(0, offset - 3) for p, offset in self.boundary.items()}
        below = 1 if self.mutant == "stream doubles a record" else 0
        batch = [row for row in rows if row[1] >= start.get(row[0], 0) - below]
        if self.mutant == "stream loses what was tiered":
            batch = [row for row in batch if row[1] >= self.boundary.get(row[0], 0)]
        about: dict[str, object] = {"way": "source", "start": start, "end": self.end}
        first = self.record(read, batch, **about)
        again = batch[:-1] if self.mutant == "replayed batch differs" else batch
        self.record(read, again, token_of=first.op, **about)

    def ask_in_threads(self) -> None:
        """Two threads of a session: one asks while the other's read runs, and then after it."""
        read, rows = self.everything()
        shared: dict[str, Any] = {"session": "shared", "freshness": "cached"}
        self.record(read, rows, **shared)
        old = self.end
        self.send(0)
        self.send(1)
        rows = [*self.cold(self.end), *self.hot(self.end)]
        long = self.record(read, rows, end=self.end, invoked=self.now, **shared)
        before = [row for row in rows if row[1] < old[row[0]]]
        early = dataclasses.replace(read, **shared, invoked=long.invoked + 0.5, end=old)
        early = dataclasses.replace(early, op=next(self.ops), rows=pack(sorted_rows(before)))
        self.events.append(dataclasses.replace(early, ended=self.tick()))
        if self.mutant == "threads forget each other":
            self.record(read, before, end=old, **shared)
        else:
            self.record(read, rows, end=self.end, **shared)

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
        for ask in (
            self.ask_prices,
            self.ask_other_columns,
            self.ask_past,
            self.ask_virtual,
            self.ask_stream,
            self.ask_in_threads,
        ):
            ask()
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
    "price ignored": {"not asked for"},
    "literal rounded": {"not asked for"},
    "header lost": {"other columns"},
    "time shifted": {"other columns"},
    "moment too early": {"short of the moment"},
    "moment too late": {"past the moment"},
    "moment moves back": {"the past differs"},
    "moment changes rows": {"the past differs"},
    "virtual snapshot is old": {"backward read"},
    "virtual snapshot without its tail": {"lost write"},
    "engines read other files": {"reader disagreement"},
    "stream doubles a record": {"not asked for"},
    "stream loses what was tiered": {"lost write"},
    "replayed batch differs": {"batch differs"},
    "threads forget each other": {"session went back"},
}


def judge(events: list[Event]) -> Verdict:
    return check(lambda: [from_line(to_line(event)) for event in events])


def kinds(events: list[Event]) -> set[str]:
    return {violation.kind for violation in judge(events).violations}


@pytest.mark.one_in(test=4)
@pytest.mark.parametrize("seed", range(20))
def test_right_answers_have_no_violation(seed: int) -> None:
    verdict = judge(Model(seed=seed).run())
    assert verdict.violations == []
    assert verdict.kafka_faults == []
    assert verdict.reads["ok"] > 50
    assert verdict.repeats == 33


@pytest.mark.prove
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


def test_an_upsert_table_is_the_newest_record_of_each_key() -> None:
    opened = TableOpened(TABLE, TOPIC_ID, {0: 0}, "fail", 1, 1, is_upsert=True)
    records = [(0, 1, "a"), (1, 2, "b"), (2, 3, "a"), (3, NO_ID, "b"), (4, 4, "b")]
    records += [(5, BAD_ID, "a"), (6, BAD_ID, "")]
    log = Logged(TOPIC, TOPIC_ID, 0, records, 2)

    def found(end: int, *rows: tuple[int, int], key: str = "") -> set[str]:
        model = Model(log={0: [(0, True)] * end}, now=3.0)
        packed = pack(sorted_rows([(0, offset, id_) for offset, id_ in rows]))
        read = dataclasses.replace(model.read(), rows=packed, filter=Filter(key=key))
        return kinds([opened, log, read]) - {"backward read"}

    assert found(2, (0, 1), (1, 2)) == set()
    assert found(3, (1, 2), (2, 3)) == set()
    assert found(4, (2, 3)) == set()
    assert found(5, (2, 3), (4, 4)) == set()
    assert found(5, (2, 3), key="a") == set()
    assert found(7, (2, 3), (4, 4)) == set(), "bad records, and heartbeats"
    assert found(3, (0, 1), (1, 2), (2, 3)) == {"not asked for"}, "what was replaced is gone"
    assert found(3, (0, 1), (1, 2)) == {"not asked for", "hole"}
    assert found(4, (1, 2), (2, 3)) == {"not asked for"}, "a deleted key has come back"
    assert found(5, (2, 3)) == {"hole"}
    assert found(5, (4, 4), key="a") == {"not asked for", "hole"}


def test_a_lagging_broker_excuses_only_what_it_cannot_know() -> None:
    """While one lags, a read may miss what became readable after that began, and nothing else."""

    def found(*, lag_began: float, session: str = "other", after: int = 0) -> set[str]:
        model = Model()
        model.open()
        for _ in range(4):
            model.send(0)
        first = model.record(*model.everything())
        known, began = dict(first.end), model.now
        for _ in range(3):
            model.send(0)
        late, rows = model.everything()
        model.record(late, rows)
        stale = [row for row in rows if row[1] < known[row[0]]]
        waited = {0: known[0] + after - 1} if after else {}
        model.record(late, stale, end=known, session=session, after=waited)
        model.events.append(Lagged(2, began + lag_began, model.now))
        return kinds(model.events)

    assert found(lag_began=0.5) == set()
    assert found(lag_began=100.0) == {"backward read"}
    assert found(lag_began=4.5) == {"backward read"}, "some of it was readable before"
    assert found(lag_began=0.5, session="s") == {"session went back"}
    assert found(lag_began=0.5, after=1) == {"read-your-writes"}


def test_a_lagging_broker_excuses_an_old_topic_only_while_it_lags() -> None:
    def found(lag_began: float) -> set[str]:
        model = Model()
        model.open()
        model.send(0)
        began = model.tick()
        model.events.append(TableSpoiled(TABLE, "TOPIC_RECREATED", True, model.tick(), model.now))
        read, rows = model.everything()
        model.record(read, rows)
        model.events.append(Lagged(2, began + lag_began, model.now))
        return kinds(model.events)

    assert found(0.5) == set()
    assert found(1.5) == {"spoiled table read"}


def test_what_was_done_to_a_table_is_not_forgotten_for_what_comes_after() -> None:
    """A table that may be trimmed by one attempt is so after the next, too."""
    model = Model()
    model.open()
    read, _ = model.everything()
    model.events.append(TableSpoiled(TABLE, "LOG_TRIMMED", False, model.tick(), model.tick()))
    model.record(read, [], error="LOG_TRIMMED")
    model.events.append(TableSpoiled(TABLE, "LOG_TRIMMED", False, model.tick(), model.tick()))
    assert kinds(model.events) == set()


@pytest.mark.parametrize("form", ["rows", "groups"])
def test_a_table_that_goes_on_lacks_its_gaps_and_keeps_its_earlier_logs(form: str) -> None:
    def logged(topic_id: str, ids: range) -> Logged:
        records = [(offset, id_, f"k{id_}") for offset, id_ in enumerate(ids)]
        return Logged(TOPIC, topic_id, 0, records, 1.0)

    earlier = EarlierLog("log-1", {0: 1}, {0: 5}, [[0, 2, 3]])
    opened = TableOpened(TABLE, "log-2", {}, "fail", 2.0, 3.0, gaps=[[0, 1, 2]], earlier=[earlier])
    events: list[Event] = [logged("log-1", range(10, 20)), logged("log-2", range(20, 24)), opened]
    life = [from_line(to_line(event)) for event in events]
    right = [(0, 1, 11), (0, 3, 13), (0, 4, 14), (0, 0, 20), (0, 2, 22), (0, 3, 23)]

    def found(rows: list[Row]) -> set[str]:
        groups = [[0, len(rows), sum(row[2] for row in rows), len(rows), 4]]
        read = Read(
            *(1, "c", "s", TABLE, form, Filter(), "duckdb", 4.0, 5.0),
            topic_id="log-2",
            end={0: 4},
            rows=pack(sorted_rows(rows)) if form == "rows" else {},
            values=groups if form == "groups" else [],
        )
        return kinds([*life, read])

    assert found(right) == set()
    for wrong in (
        right[1:],  # a row of the earlier log is missing
        right[:-1],
        [*right, (0, 2, 12)],  # of a gap
        [*right, (0, 1, 21)],
        [*right, (0, 5, 15)],  # the earlier log had it, the table did not
        [*right, right[0]],
    ):
        assert found(wrong), wrong


def test_only_the_past_of_a_table_that_changes_hands_has_no_boundary() -> None:
    for changes_hands, moment, wanted in (
        (True, 1.0, set()),
        (True, None, {"error"}),
        (False, 1.0, {"error"}),
    ):
        model = Model()
        model.open()
        opened = model.events.pop()
        assert isinstance(opened, TableOpened)
        model.events.append(dataclasses.replace(opened, changes_hands=changes_hands))
        read, _ = model.everything()
        model.record(dataclasses.replace(read, moment=moment), [], error="BOUNDARY_MISSING")
        assert kinds(model.events) == wanted


def avro(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


def inner(*names: str) -> Any:
    fields = [{"name": name, "type": "int"} for name in names]
    return {"name": "f1", "type": ["null", {"type": "record", "name": "I", "fields": fields}]}


OPENED = TableOpened(TABLE, TOPIC_ID, {0: 0}, "fail", 1, 1, has_schemas=True)
OLD = avro({"name": "f0", "type": "int"}, inner("f2"))
NEW = avro({"name": "f3", "type": "long", "aliases": ["f0"]}, inner("f2", "f4"))
BODIES = [{"id": 1, "f0": 5, "f1": {"f2": 1}}, {"id": 2, "f3": 6, "f1": {"f2": 2, "f4": 7}}]
RECORDS: list[Event] = [
    SchemaRegistered("t-value", 1, OLD, 1.0),
    SchemaRegistered("t-value", 2, NEW, 1.0),
    Logged(TOPIC, TOPIC_ID, 0, [(0, 1, ""), (1, 2, "")], 2.0, bodies=BODIES),
]
BEFORE = (["id", "f0", "f1"], [1, 5, {"f2": 1}], [2, 6, {"f2": 2}])
AFTER = (["id", "f3", "f1"], [1, 5, {"f2": 1, "f4": None}], [2, 6, {"f2": 2, "f4": 7}])
"""The rows in the columns from before the second schema, and from after it."""


def read_of(names: list[str], *cells: list[Any], boundary: int = 0, **about: Any) -> Read:
    read = Model(log={0: [(0, True)] * 2}, now=3.0).read()
    found = [(offset, row[0]) for offset, row in enumerate(cells)]
    rows = pack(sorted_rows((0, offset, id_) for offset, id_ in found))
    packed = pack_cells({0: list(enumerate(cells))})
    about = {"form": "columns", "boundary": {0: boundary}, **about}
    return dataclasses.replace(read, names=names, rows=rows, cells=packed, **about)


def test_columns_hold_what_records_say() -> None:
    def found(names: list[str], *cells: list[Any], boundary: int) -> set[str]:
        return kinds([OPENED, *RECORDS, read_of(names, *cells, boundary=boundary)])

    names, first, second = AFTER
    assert found(*BEFORE, boundary=0) == set(), "a new field is not visible yet"
    assert found(*BEFORE, boundary=1) == set()
    assert found(*BEFORE, boundary=2) == {"wrong value"}, "tiered without its column"
    for boundary in (0, 1, 2):
        assert found(*AFTER, boundary=boundary) == set()
        for wrong in ([1, None, first[2]], [1, 6, first[2]], [1, 5, None], [1, 5, {"f2": 2}]):
            assert found(names, wrong, second, boundary=boundary) == {"wrong value"}
        for value in ({"f2": 2, "f4": None}, {"f2": 7, "f4": 2}):
            assert found(names, first, [2, 6, value], boundary=boundary) == {"wrong value"}
    assert found(names, first, [2, 6, {"f2": 2}], boundary=2) == {"wrong value"}


def test_a_token_keeps_its_columns() -> None:
    first = read_of(*BEFORE)
    again = dataclasses.replace(first, op=2, token_of=first.op, invoked=first.ended + 1)
    again = dataclasses.replace(again, ended=again.invoked + 1, boundary={0: 2})
    assert kinds([OPENED, *RECORDS, first, again]) == set()
    other = read_of(*AFTER)
    later = dataclasses.replace(again, names=other.names, cells=other.cells)
    assert kinds([OPENED, *RECORDS, first, later]) == {"token repeat differs"}
    cells = pack_cells({0: [(0, BEFORE[1]), (1, [2, 6, {"f2": 3}])]})
    later = dataclasses.replace(again, cells=cells)
    assert "token repeat differs" in kinds([OPENED, *RECORDS, first, later])


def test_errors_of_schemas_are_of_tables_with_schemas() -> None:
    read = Model(log={0: [(0, True)]}, now=3.0).read()
    plain = dataclasses.replace(OPENED, has_schemas=False)
    disturbed = RegistryDisturbed(read.invoked - 1, read.invoked + 0.5)
    long_ago = RegistryDisturbed(read.invoked - 2, read.invoked - 1)
    for opened, disturbance, error, wanted in (
        (OPENED, long_ago, "SCHEMA_NOT_EVOLVED", set()),
        (plain, long_ago, "SCHEMA_NOT_EVOLVED", {"error"}),
        (OPENED, disturbed, "SCHEMA_REGISTRY_UNAVAILABLE", set()),
        (OPENED, long_ago, "SCHEMA_REGISTRY_UNAVAILABLE", {"error"}),
        (plain, disturbed, "SCHEMA_REGISTRY_UNAVAILABLE", {"error"}),
        (OPENED, disturbed, "SCHEMA_INCOMPATIBLE", {"error"}),
        (OPENED, disturbed, "BAD_RECORD", {"error"}),
    ):
        failed = dataclasses.replace(read, error=error, rows={})
        assert kinds([opened, disturbance, failed]) == wanted, (opened, error)


def test_what_is_wrong_in_the_tail_is_met_by_who_reads_all_of_it() -> None:
    spoiled = TableSpoiled(TABLE, "SCHEMA_INCOMPATIBLE", True, 2.0, 2.5, is_in_tail=True)
    read = read_of(*AFTER)
    assert kinds([OPENED, *RECORDS, spoiled, read]) == {"spoiled table read"}
    failed = dataclasses.replace(read, error="SCHEMA_INCOMPATIBLE", rows={}, cells={})
    assert kinds([OPENED, *RECORDS, spoiled, failed]) == set()
    part = dataclasses.replace(read, filter=Filter(offset_to=5))
    assert kinds([OPENED, *RECORDS, spoiled, part]) == set()
