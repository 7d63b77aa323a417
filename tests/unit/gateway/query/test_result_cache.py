"""Goal: an equal result is given again exactly when computing it anew would give the same rows.

Method: a gateway with rules, over a real catalog, a log in memory and the engine itself; what is
computed is counted. Waiting is tried on the cache alone, whose runs end when the test says so.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import pathlib
import random
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.ruled import Ruled
from support.waiting import wait_until

from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.errors import CANCELED, SeamlineError
from seamline.gateway.access.rights import Principal
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.query.result_cache import (
    CachedResult,
    PlanKey,
    ResultCache,
    RunRequest,
    ScanInput,
    SharedRun,
)
from seamline.gateway.query.tokens import After, Write
from seamline.gateway.statements.statement import Statement, StatementRequest
from seamline.planners.plan.logical import TableFacts
from seamline.seam.offsets import Offsets
from seamline.seam.seam import LogPart, Seam
from seamline.sql import functions
from seamline.sql.expressions import calls

PEOPLE: dict[str, tuple[str, ...]] = dict.fromkeys(("boss", "bea", "ann", "abe", "mia"), ())
RULES = """
tables:
- {user: bo.*|be.*, privileges: [SELECT, INSERT, OWNERSHIP]}
- {user: ann|abe, privileges: [SELECT], filter: id < 2}
- {user: mia, privileges: [SELECT], columns: [{name: name, mask: "'*'"}]}
topics: [{}]
"""
SQL = "SELECT count(*) AS n, min(name) AS name FROM users"


class Users(Ruled):
    """A table `users` of three records, and what statements were answered."""

    def __init__(self, folder: pathlib.Path, more: str = "tail: {follow: false}") -> None:
        super().__init__(folder, RULES, PEOPLE, more)
        self.memory.create_topic("users", 1)
        self.rows("boss", "CREATE TABLE users (id bigint, name varchar) WITH (topic = 'users')")
        for id_, name in enumerate("abc"):
            self.put(id_, name)

    def put(self, id_: int, name: str) -> None:
        """Another record."""
        self.memory.produce("users", 0, f'{{"id": {id_}, "name": "{name}"}}'.encode())

    def statement(self, sql: str = SQL, who: str = "boss", **options: Any) -> Statement:
        """A statement that has ended well."""
        caller = Principal(who, ())
        statement = self.gateway.service.submit(StatementRequest(sql, **options), caller)
        statement.wait(60)
        assert statement.error is None, statement.error
        return statement

    def is_hit(self, sql: str = SQL, who: str = "boss", **options: Any) -> bool:
        """Whether a statement was given another one's result."""
        return bool(self.statement(sql, who, **options).receipt["cache_hit"])

    @property
    def counts(self) -> dict[str, int]:
        """The metrics, by name."""
        text = self.gateway.parts.metrics_text()
        found = re.findall(r"^seamline_result_cache_(\w+) (\S+)$", text, re.MULTILINE)
        return {name: int(float(number)) for name, number in found}


@pytest.fixture
def users(tmp_path: pathlib.Path) -> Iterator[Users]:
    made = Users(tmp_path)
    with contextlib.closing(made.gateway):
        yield made


def test_an_equal_statement_is_computed_once(users: Users) -> None:
    first, second = users.statement(), users.statement()
    assert users.rows("boss", SQL) == [(3, "a")]
    assert (first.receipt["cache_hit"], first.receipt["computed_at"]) == (False, None)
    assert second.receipt["cache_hit"]
    computed_at = datetime.datetime.fromisoformat(second.receipt["computed_at"])
    assert first.submitted_at <= computed_at.timestamp() <= second.submitted_at
    for same in ("rows_hot", "bytes_hot", "engine", "tables", "freshness"):
        assert first.receipt[same] == second.receipt[same], same
    assert first.output == second.output
    counts = users.counts
    assert counts.pop("bytes") > 0
    assert counts == {"hits_total": 2, "misses_total": 1, "results": 1}
    hits = "SELECT cache_hit FROM system.runtime.queries WHERE query = ? ORDER BY created"
    assert users.rows("boss", hits, parameters=[SQL]) == [(False,), (True,), (True,)]
    text = users.gateway.parts.metrics_text()
    assert 'seamline_rows_read_total{tier="hot"} 3.0' in text, "only one statement has read"


def test_a_record_more_is_another_result(users: Users) -> None:
    users.statement()
    users.put(3, "0")
    assert users.rows("boss", SQL) == [(4, "0")]
    assert users.is_hit()


def test_parameters_zones_and_moments_are_part_of_it(users: Users) -> None:
    sql = "SELECT name FROM users WHERE id = ?"
    assert users.rows("boss", sql, parameters=[1]) == [("b",)]
    assert users.rows("boss", sql, parameters=[2]) == [("c",)]
    assert users.is_hit(sql, parameters=[1])
    text = "SELECT format_datetime(from_unixtime(id), 'HH') FROM users WHERE id = 0"
    assert users.rows("boss", text) == [("00",)]
    assert users.rows("boss", text, time_zone="Asia/Tokyo") == [("09",)]
    now = "SELECT id, now() FROM users"
    assert users.rows("boss", now) != users.rows("boss", now)
    who = "SELECT DISTINCT current_user FROM users"
    assert [users.rows(name, who) for name in ("boss", "bea")] == [[("boss",)], [("bea",)]]


def test_names_of_columns_are_part_of_it(users: Users) -> None:
    for name in ("a", "A"):
        (column,) = users.statement(f'SELECT count(*) AS "{name}" FROM users').output
        assert column.name == name


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT random() FROM users",
        "SELECT uuid() FROM users",
        "SELECT shuffle(ARRAY[1, 2, 3]) FROM users",
        "SELECT id FROM users TABLESAMPLE BERNOULLI (50)",
        "SELECT * FROM (SELECT id FROM users WHERE id > rand(2)) WHERE id >= 0",
        "SELECT count(*) FROM information_schema.tables, users",
        "SELECT 1",
        "EXPLAIN ANALYZE SELECT count(*) FROM users",
    ],
)
def test_what_may_differ_is_computed_each_time(users: Users, sql: str) -> None:
    for _ in range(2):
        assert not users.statement(sql).receipt.get("cache_hit")
    assert users.counts["hits_total"] == users.counts["results"] == 0


def test_every_function_that_draws_is_known() -> None:
    """A template that mentions chance or the clock belongs to a function of the list."""
    chance = re.compile(r"\b(random|rand|uuid|now|shuffle|current_\w+|today)\(")
    drawing = {
        overload.name
        for overload in itertools.chain.from_iterable(functions.FUNCTIONS.values())
        if chance.search(f"{overload.duckdb} {overload.spark}")
    }
    assert drawing == calls.UNREPEATABLE


def test_a_result_that_was_cut_off_is_not_given_again(users: Users) -> None:
    sql = "SELECT id FROM users"
    for _ in range(2):
        cut = users.statement(sql, row_limit=2)
        assert cut.truncated
        assert not cut.receipt["cache_hit"]
    whole = users.statement(sql, row_limit=3)
    assert (whole.truncated, whole.receipt["cache_hit"]) == (False, False)
    again = users.statement(sql, row_limit=2)
    assert (again.truncated, again.receipt["cache_hit"]) == (True, True)


def test_a_session_can_do_without(users: Users) -> None:
    off: dict[str, Any] = {"properties": {"result_cache": "off"}}
    assert not users.is_hit()
    assert not users.is_hit(**off)
    assert users.is_hit(properties={"result_cache": "ON"})
    with pytest.raises(SeamlineError, match="cannot be 'no'"):
        users.statement(properties={"result_cache": "no"})


def test_writes_never_take_a_result(users: Users) -> None:
    users.rows("boss", "CREATE TABLE copies (n bigint, name varchar)")
    users.statement()
    for _ in range(2):
        users.rows("boss", f"INSERT INTO copies {SQL}")
    assert users.rows("boss", "SELECT n FROM copies") == [(3,), (3,)]
    assert users.counts["hits_total"] == 0


def test_nobody_gets_the_rows_of_other_rights(users: Users) -> None:
    sql = "SELECT id, name FROM users"
    seen = {who: sorted(users.rows(who, sql)) for who in PEOPLE}
    everything = [(0, "a"), (1, "b"), (2, "c")]
    assert seen == {
        "boss": everything, "bea": everything,
        "ann": everything[:2], "abe": everything[:2],
        "mia": [(0, "*"), (1, "*"), (2, "*")],
    }  # fmt: skip
    for who in PEOPLE:
        assert sorted(users.rows(who, sql)) == seen[who]
    assert users.counts["hits_total"] == 1 + len(PEOPLE)
    assert users.counts["misses_total"] == 4, "who sees less shares with nobody, not even an equal"
    receipts = {who: users.statement(sql, who).receipt for who in ("ann", "mia")}
    assert receipts["ann"]["cache_hit"] is receipts["ann"]["computed_at"] is None, (
        "it would tell when hidden rows arrive"
    )
    assert receipts["mia"]["cache_hit"]


def test_rights_that_change_are_those_of_the_next_statement(users: Users) -> None:
    users.statement("SELECT id FROM users", "boss")
    assert users.is_hit("SELECT id FROM users", "bea")
    users.rules.write_text(RULES.replace("bo.*|be.*", "bo.*"), encoding="utf-8")
    wait_until(lambda: users.do("bea", "SELECT id FROM users") != "done", 30)


def test_a_log_that_lost_records_and_grew_again_is_another(users: Users) -> None:
    assert users.rows("boss", SQL) == [(3, "a")]
    users.memory.truncate("users", 0, 0)
    for name in "xyz":
        users.put(9, name)
    assert users.rows("boss", SQL) == [(3, "x")]
    assert users.counts["hits_total"] == 0


def test_a_topic_of_the_same_name_is_another(users: Users) -> None:
    users.statement()
    users.memory.delete_topic("users")
    users.memory.create_topic("users", 1)
    for id_, name in enumerate("abc"):
        users.put(id_, name)
    assert users.do("boss", SQL) == "TOPIC_RECREATED"


def test_bounded_freshness_takes_a_recent_result(tmp_path: pathlib.Path) -> None:
    users = Users(tmp_path, "")
    with contextlib.closing(users.gateway):
        first = users.statement()
        users.put(3, "0")
        assert users.rows("boss", "SELECT count(*) FROM users") == [(4,)], "the follower has it"
        old = users.statement(freshness="bounded 10m")
        assert old.receipt["cache_hit"]
        assert old.receipt["as_of"] == first.receipt["as_of"]
        assert old.receipt["tables"][0]["end"] == {"0": 3}
        assert users.statement().receipt["tables"][0]["end"] == {"0": 4}


# --- Which results will do -----------------------------------------------------------------------


def a_run(end: int = 5, at: float = 0.0, **options: Any) -> RunRequest:
    """A run over one table whose log ends there, at a moment."""
    log = LogPart(cluster="c", topic="t", topic_id="id", end_epochs=Offsets({0: 1}))
    seam = Seam(("lake", "t"), "uuid", 0, log=log, boundary=Offsets({0: 2}), end=Offsets({0: end}))
    scan = ScanInput("scan_0", TableFacts("unified", seam, present=True), ())
    return RunRequest(PlanKey("SELECT", "duckdb", "UTC", ""), (scan,), {}, (), at, **options)


def moved(run: RunRequest, **changes: Any) -> RunRequest:
    """The same run, with changes to its seam."""
    (scan,) = run.scans
    seam = dataclasses.replace(scan.seam, **changes)
    facts = dataclasses.replace(scan.facts, seam=seam)
    return dataclasses.replace(run, scans=(dataclasses.replace(scan, facts=facts),))


def test_an_earlier_result_will_do_only_within_the_bound() -> None:
    earlier = a_run(5, at=10.0)
    assert a_run(5).accepts(earlier, 1000.0), "the same seams are as new as it gets"
    assert not a_run(6).accepts(earlier, 10.5), "the newest is asked for"
    bounded = a_run(6, age_s_max=1.0)
    assert bounded.accepts(earlier, 11.0)
    assert not bounded.accepts(earlier, 11.1)
    assert not a_run(4, age_s_max=1.0).accepts(earlier, 10.5), "that is a later one"


def test_an_earlier_result_of_anything_else_will_not_do() -> None:
    earlier, bounded = a_run(5), a_run(6, age_s_max=1.0)
    log = bounded.scans[0].seam.log
    for other in (
        {"table_uuid": "another"},
        {"schema_id": 1},
        {"boundary": Offsets({0: 3})},
        {"end": Offsets({0: 6, 1: 0})},
        {"log": dataclasses.replace(log, topic_id="another")},
        {"log": dataclasses.replace(log, end_epochs=Offsets({0: 2}))},
        {"log": dataclasses.replace(log, end_epochs=Offsets())},
    ):
        assert not moved(bounded, **other).accepts(earlier, 0.0), other
        assert not moved(earlier, **other).accepts(earlier, 0.0), other


def test_a_session_never_goes_back() -> None:
    earlier = a_run(5)
    seen = After(seen=(a_run(6).scans[0].seam,))
    assert not a_run(7, age_s_max=1.0, after=seen).accepts(earlier, 0.0)
    seen = After(seen=(a_run(5).scans[0].seam,))
    assert a_run(7, age_s_max=1.0, after=seen).accepts(earlier, 0.0)
    written = After(writes=(Write(None, Offsets({0: 1})),))
    assert not a_run(7, age_s_max=1.0, after=written).accepts(earlier, 0.0)


# --- Waiting -------------------------------------------------------------------------------------


class Waiters:
    """Statements that want one result, each in a thread."""

    def __init__(self, results: ResultCache, count: int) -> None:
        self.results = results
        self.deadlines = [StatementDeadline(60.0) for _ in range(count)]
        self.got: dict[int, object] = {}
        self.threads = [threading.Thread(target=self._join, args=(n,)) for n in range(count)]
        for thread in self.threads:
            thread.start()
        wait_until(lambda: results.waiting == count, 30)

    def _join(self, number: int) -> None:
        try:
            self.got[number] = self.results.join(a_run(), self.deadlines[number])
        except SeamlineError as error:
            self.got[number] = error.code

    def end(self) -> dict[int, object]:
        """What each of them got."""
        for thread in self.threads:
            thread.join(60)
        for deadline in self.deadlines:
            deadline.close()
        return self.got


def publish(run: SharedRun) -> None:
    run.publish(PLAN, datetime.datetime.now(datetime.UTC), {}, [b"rows"])


class _Plan:
    class logical:  # noqa: N801 - stands for a plan without files
        files: dict[str, Any] = {}  # noqa: RUF012


PLAN: Any = _Plan()


def leading(results: ResultCache) -> SharedRun:
    run = results.join(a_run(), NoDeadline())
    assert isinstance(run, SharedRun)
    return run


def test_those_who_wait_get_the_result_of_one_run() -> None:
    results = ResultCache()
    run = leading(results)
    waiters = Waiters(results, 3)
    publish(run)
    got = waiters.end()
    assert [type(each) for each in got.values()] == [CachedResult] * 3
    assert (results.misses, results.hits) == (1, 3)
    assert isinstance(results.join(a_run(), NoDeadline()), CachedResult)


def test_a_run_without_a_result_leaves_everybody_their_own() -> None:
    results = ResultCache()
    run = leading(results)
    waiters = Waiters(results, 3)
    run.abandon()
    got = waiters.end()
    assert len({id(each) for each in got.values() if isinstance(each, SharedRun)}) == 3
    publish(run)
    assert results.count == 0, "it had ended before"
    leading(results)


def test_one_of_those_who_wait_is_killed() -> None:
    results = ResultCache()
    run = leading(results)
    waiters = Waiters(results, 2)
    waiters.deadlines[0].cancel()
    waiters.threads[0].join(60)
    assert waiters.got == {0: CANCELED}
    assert not run.has_ended
    publish(run)
    assert isinstance(waiters.end()[1], CachedResult)


def test_other_seams_do_not_wait() -> None:
    results = ResultCache()
    older = leading(results)
    newer = results.join(a_run(6, at=1.0), NoDeadline())
    assert isinstance(newer, SharedRun)
    publish(newer)
    publish(older)
    assert isinstance(results.join(a_run(6), NoDeadline()), CachedResult), "the newest is kept"


def test_the_least_recently_used_results_are_evicted() -> None:
    results = ResultCache(bytes_max=2_000)
    for number in range(5):
        key = PlanKey(str(number), "duckdb", "UTC", "")
        run = results.join(dataclasses.replace(a_run(), key=key), NoDeadline())
        assert isinstance(run, SharedRun)
        run.publish(PLAN, datetime.datetime.now(datetime.UTC), {}, [bytes(700)])
    assert results.count == 2
    assert results.size_bytes <= 2_000


# --- Whatever happens ----------------------------------------------------------------------------


QUERIES = (
    SQL,
    "SELECT id, name FROM users ORDER BY id, name",
    "SELECT a.id, count(*) FROM users a JOIN users b ON a.id = b.id GROUP BY a.id ORDER BY a.id",
    "SELECT * FROM users ORDER BY _kafka_offset LIMIT 3",
    "SELECT count(*) FROM users WHERE id > 1 AND name <> 'b'",
    "SELECT * FROM latest ORDER BY id",
)


class Happening:
    """What may happen to the table between two statements, drawn from a seed."""

    def __init__(self, users: Users, seed: int) -> None:
        self.users = users
        self.dice = random.Random(seed)
        self.columns = 0
        users.memory.create_topic("latest", 1)
        users.rows(
            "boss",
            "CREATE TABLE latest (id bigint, name varchar) WITH (topic = 'latest', mode = 'upsert',"
            " key = 'id', primary_key = ARRAY['id'])",
        )

    def once(self) -> None:
        """Something."""
        log, dice = self.users.memory, self.dice
        match dice.randrange(12):
            case 0:
                end = log.bounds(["users"], "read_committed", NoDeadline())["users"].end[0]
                lost = dice.randint(1, 3)
                log.truncate("users", 0, max(0, end - lost))
                for _ in range(lost):  # so that it ends where it did
                    self.users.put(dice.randrange(5), "new")
            case 1:
                transaction = log.begin()
                log.produce("users", 0, b'{"id": 7, "name": "open"}', transaction=transaction)
                log.end_transaction("users", transaction, commit=dice.random() < 0.5)
            case 2 if self.columns < 3:
                self.columns += 1
                self.users.rows("boss", f"ALTER TABLE users ADD COLUMN c{self.columns} bigint")
            case 3:
                log.compact("latest")
            case 4 | 5 | 6:
                id_ = dice.randrange(4)
                value = f'{{"id": {id_}, "name": "{dice.choice("abc")}"}}'.encode()
                log.produce("latest", 0, dice.choice([value, value, None]), key=b"%d" % id_)
            case _:
                self.users.put(dice.randrange(5), dice.choice("abc"))


@pytest.mark.parametrize("seed", range(3))
def test_what_is_given_again_is_what_would_be_computed(users: Users, seed: int) -> None:
    """A statement with the cache, and the same without, at the same moment."""
    happening = Happening(users, seed)
    dice = happening.dice
    for _ in range(12):
        if dice.random() < 0.7:
            happening.once()
        for _ in range(6):
            who, sql = dice.choice(list(PEOPLE)), dice.choice(QUERIES)
            given = users.said(who, sql)
            assert given == users.said(who, sql, properties={"result_cache": "off"}), (who, sql)
    assert users.counts["hits_total"] > 3
