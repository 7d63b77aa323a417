"""Goal: changes between two reads are what the later one has and the earlier one lacks.

Method: a real topic and table move on step by step (records, transactions committed and aborted,
tiering in pieces, compaction and expiry, new partitions, a trimmed log, another gateway). After
each step the table is read and its token kept; then every two of the reads are subtracted from one
another as multisets and compared with the changes between their tokens, on both engines.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import pathlib
import signal
import urllib.parse
import urllib.request
from collections import Counter
from typing import Any

import pytest
from support import programs
from support.gateway import Gateway, statement_rows
from support.ports import reserved_port
from support.stack import Stack
from support.waiting import wait_until

from seamline.errors import SeamlineError
from seamline.gateway.tail.follower import State

pytestmark = [pytest.mark.integration, pytest.mark.spark]
MANY = 50
"""More clients than are worked for at once."""
COLUMNS = "id bigint, text varchar"
READ = "SELECT id, text, _kafka_partition, _kafka_offset FROM {}"


def rows_of(ids: range) -> list[dict[str, Any]]:
    return [{"id": i, "text": "x"} for i in ids]


def changes(name: str, from_token: str, to_token: str | None = None) -> str:
    to = f", to_token => '{to_token}'" if to_token else ""
    return f"TABLE(changes(table => '{name}', from_token => '{from_token}'{to}))"


class Reads:
    """Reads of one table, with their tokens."""

    def __init__(self, gateway: Gateway, name: str) -> None:
        self.gateway = gateway
        self.name = name
        self.done: list[tuple[str, Counter[Any]]] = []

    def read(self) -> str:
        """Reads the table, and returns the token."""
        statement = self.gateway.statement(READ.format(self.name))
        assert statement.error is None, statement.error
        token = str(statement.receipt["token"])
        rows = self.gateway.rows(READ.format(self.name), token=token)
        self.done.append((token, Counter(rows)))
        return token

    def compare(self, engine: str, gateway: Gateway, *places: int) -> None:
        """Compares the changes between every two reads, or between two at these places."""
        chosen = [self.done[place] for place in places] or self.done
        for (earlier, before), (later, after) in itertools.combinations(chosen, 2):
            sql = READ.format(changes(self.name, earlier, later))
            assert Counter(gateway.rows(sql, engine)) == after - before
            assert not before - after


def failure(gateway: Gateway, sql: str, **options: Any) -> SeamlineError:
    with pytest.raises(SeamlineError) as caught:
        gateway.rows(sql, **options)
    return caught.value


@pytest.mark.prove
def test_changes_are_the_difference_of_two_reads(stack: Stack, gateway: Gateway, name: str) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    reads = Reads(gateway, name)
    reads.read()
    stack.produce(name, rows_of(range(100)))
    reads.read()
    stack.tier(name, records_max=60)
    stack.transact(name, rows_of(range(100, 110)), commit=True, partition=0)
    stack.transact(name, rows_of(range(110, 120)), commit=False, partition=0)
    stack.wait_for_markers(name)
    reads.read()
    stack.tier(name)
    stack.produce(name, rows_of(range(100)))
    reads.read()
    reads.compare("duckdb", gateway.direct)
    reads.compare("spark", gateway, 1, 3)
    first, last = reads.done[0][0], reads.done[-1][0]
    piece = READ.format(f"TABLE(changes('{name}', '{first}', offsets_max => 70))")
    one = gateway.statement(piece)
    for engine in ("duckdb", "spark"):
        again = gateway.rows(piece, engine, token=one.receipt["token"])
        assert Counter(again) == Counter(statement_rows(one))
    assert 0 < len(again) <= 70
    late = gateway.statement(READ.format(changes(name, reads.done[1][0])))
    (read,) = late.receipt["tables"]
    assert 0 < read["files_read"] < read["files_total"], "earlier batches are not opened"
    whole = gateway.rows(f"SELECT count(*), sum(id) FROM {changes(name, first)}")
    assert whole == gateway.rows(f"SELECT count(*), sum(id) FROM {name}")
    assert gateway.rows(f"SELECT * FROM {changes(name, last)}") == []


@pytest.mark.prove
def test_changes_compose_and_their_token_is_where_the_next_ones_begin(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    stack.produce(name, rows_of(range(50)))
    stack.tier(name)
    reads = Reads(gateway, name)
    token = reads.read()
    stack.produce(name, rows_of(range(40, 80)))
    both = (
        f"SELECT t.id, count(*) FROM {changes(name, token)} AS c JOIN {name} AS t ON t.id = c.id "
        "WHERE c.id BETWEEN 45 AND 54 GROUP BY 1"
    )
    assert sorted(gateway.rows(both)) == [(i, 2 if i < 50 else 1) for i in range(45, 55)]
    seen: Counter[Any] = Counter()
    sql = f"SELECT id FROM TABLE(changes('{name}', '{{}}', offsets_max => 9))"
    at = "beginning"
    gateway.rows(f"SELECT count(*) FROM {name}")
    followers = gateway.parts.followers
    assert followers is not None
    (follower,) = (each for each in followers.all() if each.table.name[-1] == name)
    for _ in range(20):
        piece = gateway.statement(sql.format(at))
        assert piece.error is None, piece.error
        seen.update(gateway.rows(sql.format(at), token=piece.receipt["token"]))
        at = piece.receipt["token"]
    assert seen == Counter((i,) for i in (*range(50), *range(40, 80)))
    assert follower.state is State.FOLLOWING, "a piece ends where it was told to, not the log"
    both = (
        f"SELECT (SELECT count(*) FROM {name}), "
        f"(SELECT count(*) FROM TABLE(changes('{name}', 'beginning')))"
    )
    ((whole, part),) = gateway.rows(both, freshness="cached")
    assert whole == part, "one seam, however fresh"
    lines = gateway.rows(f"EXPLAIN SELECT * FROM {changes(name, token)}")
    plan = "\n".join(row[0] for row in lines)
    assert f"changes of lake.default.{name}" in plan
    assert "cold" not in plan, "they are all in the log"
    assert "since" in plan


@pytest.mark.prove
def test_what_is_not_the_difference_has_its_name(stack: Stack, gateway: Gateway, name: str) -> None:
    other = f"{name}_other"
    for table in (name, other):
        stack.create_topic(table, 1)
        stack.create_table(table, COLUMNS)
        stack.produce(table, rows_of(range(10)))
    stack.tier(name)
    reads, others = Reads(gateway, name), Reads(gateway, other)
    first, strange = reads.read(), others.read()
    stack.produce(name, rows_of(range(10, 20)))
    second = reads.read()
    read = "SELECT * FROM {}"
    backwards = failure(gateway, read.format(changes(name, second, first)))
    assert backwards.code.name == "INVALID_ARGUMENT"
    for one, two in ((strange, second), (first, strange), ("nonsense", second)):
        error = failure(gateway, read.format(changes(name, one, two)))
        assert error.code.name == "INVALID_TOKEN"
    snapshot = gateway.statement(f'SELECT * FROM "{name}$cold"').receipt["token"]
    assert failure(gateway, read.format(changes(name, snapshot))).code.name == "INVALID_TOKEN"
    hot = failure(gateway, read.format(changes(f'"{name}$hot"', first)))
    assert hot.code.name == "NOT_SUPPORTED"
    stack.spark.sql(f"DELETE FROM lake.default.{name} WHERE id = 1").collect()
    stack.produce(name, rows_of(range(20, 30)))
    changed = failure(gateway, read.format(changes(name, second)))
    assert changed.code.name == "HISTORY_CHANGED"
    assert "others" in changed.message
    assert gateway.rows(f"SELECT count(*) FROM {changes(name, first, second)}") == [(10,)]
    after = reads.read()
    stack.produce(name, rows_of(range(30, 40)))
    stack.tier(name)
    assert gateway.rows(f"SELECT count(*) FROM {changes(name, after)}") == [(10,)]
    stack.recreate_topic(other, 1)
    assert failure(gateway, read.format(changes(other, strange))).code.name in {
        "TOPIC_RECREATED",
        "HISTORY_CHANGED",
    }


@pytest.mark.prove
def test_a_topic_has_changes_as_long_as_its_log(stack: Stack, gateway: Gateway, name: str) -> None:
    topic = f"default.default.{name}"
    stack.create_topic(name, 1)
    stack.produce(name, rows_of(range(10)))
    token = gateway.statement(f"SELECT * FROM {topic}").receipt["token"]
    stack.produce(name, rows_of(range(10, 15)))
    count = f"SELECT count(*), min(_kafka_offset) FROM {changes(topic, token)}"
    assert gateway.rows(count) == [(5, 10)]
    stack.trim(name, {0: 10})
    assert gateway.rows(count) == [(5, 10)]
    stack.trim(name, {0: 11})
    assert failure(gateway, count).code.name == "TOKEN_EXPIRED"


# --- Following -----------------------------------------------------------------------------------


@pytest.fixture
def followed(stack: Stack, name: str) -> str:
    """A table of one partition with ten records."""
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    stack.produce(name, rows_of(range(10)))
    return name


def ids_in(log: pathlib.Path) -> list[int]:
    lines = log.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["id"] for line in lines if line.startswith("{")]


@pytest.mark.prove
def test_the_command_shows_rows_as_they_arrive_and_goes_on_where_it_was(
    stack: Stack, gateway: Gateway, followed: str, scratch: pathlib.Path
) -> None:
    environment = {**stack.environment, "SEAMLINE_URL": gateway.url}

    def follow(log: pathlib.Path, *arguments: str) -> Any:
        return programs.running(programs.seamline("tail", *arguments), environment, log)

    first, second = scratch / "first", scratch / "second"
    with follow(first, followed, "--from", "beginning", "--where", "id <> 3") as process:
        wait_until(lambda: len(ids_in(first)) == 9, what="what was there")
        stack.tier(followed)
        stack.produce(followed, rows_of(range(10, 15)))
        wait_until(lambda: len(ids_in(first)) == 14, what="what has arrived")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    *_, last = first.read_text(encoding="utf-8").splitlines()
    assert last.startswith("to continue: --from ")
    stack.produce(followed, rows_of(range(15, 20)))
    with follow(second, followed, "--from", last.split()[-1]):
        wait_until(lambda: len(ids_in(second)) == 5, what="what has arrived since")
    assert sorted(ids_in(first) + ids_in(second)) == [i for i in range(20) if i != 3]


def answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/healthz", timeout=5) as found:
        return bool(found.status == 200)
    return False


class Stream:
    """Server-sent events of a table, read one by one."""

    def __init__(self, url: str, path: str, **headers: str) -> None:
        address = urllib.parse.urlsplit(url)
        self.connection = http.client.HTTPConnection(address.netloc, timeout=60)
        self.connection.request("GET", f"/api/v1/tail/{path}", headers=headers)
        self.answer = self.connection.getresponse()
        self.last_id = ""

    def close(self) -> None:
        """Ends it."""
        self.connection.close()

    def event(self, kind: str) -> Any:
        """The data of the next event of a kind; others in front of it are left out."""
        fields: dict[str, str] = {}
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            name, _, value = line.partition(": ")
            fields[name] = value
            self.last_id = fields.get("id", self.last_id)
            if not line and fields.get("event") == kind:
                return json.loads(fields["data"])
            if not line:
                fields = {}

    def rows(self, count: int) -> list[Any]:
        """So many next rows, however many events they come in."""
        found: list[Any] = []
        while len(found) < count:
            found += self.event("rows")["data"]
        return found


@pytest.mark.prove
def test_events_go_on_where_they_were(stack: Stack, gateway: Gateway, followed: str) -> None:
    with contextlib.closing(Stream(gateway.url, f"{followed}?from=beginning")) as stream:
        assert stream.answer.headers["Content-Type"].startswith("text/event-stream")
        columns = stream.event("columns")["columns"]
        assert [column["name"] for column in columns] == ["id", "text"]
        assert stream.rows(10) == [[i, "x"] for i in range(10)]
        stack.tier(followed)
        stack.produce(followed, rows_of(range(10, 12)))
        assert stream.rows(2) == [[10, "x"], [11, "x"]]
        at = stream.last_id
    stack.produce(followed, rows_of(range(12, 14)))
    again = {"Last-Event-ID": at}
    with contextlib.closing(Stream(gateway.url, f"{followed}?where=id<>12", **again)) as stream:
        assert stream.rows(1) == [[13, "x"]]
    with contextlib.closing(Stream(gateway.url, followed)) as stream:
        stack.produce(followed, rows_of(range(14, 15)))
        assert stream.rows(1) == [[14, "x"]]
    count = f"SELECT count(id) FROM TABLE(changes('{followed}', '{at}'))"
    with gateway.connect() as connection:
        assert connection.execute(count).fetchall() == [(3,)], "it is a token like any other"


def test_what_is_wrong_is_the_status_of_the_answer(gateway: Gateway, followed: str) -> None:
    wrong = ((f"{followed}?from=x", 400), ("nothing", 404), (f"{followed}?where=z", 400))
    for path, status in wrong:
        with contextlib.closing(Stream(gateway.url, path)) as stream:
            assert stream.answer.status == status, path
            error = json.load(stream.answer)["error"]
            # the rest of the statement is not the client's
            assert error.get("location") == ({"line": 1, "column": 1} if "where" in path else None)


@pytest.mark.soak
@pytest.mark.prove
def test_followers_survive_a_restart(stack: Stack, followed: str, scratch: pathlib.Path) -> None:
    """A stream is ended by the gateway that stops; the command tries until there is another.

    Many more clients that read nothing hold up nobody, and end with it.
    """
    port = reserved_port()
    url = f"http://127.0.0.1:{port}"
    environment = {**stack.environment, "SEAMLINE_URL": url}
    state = f"state_directory={scratch / 'state'}"
    serve = programs.seamline("serve", "--port", str(port), "--set", state)
    log = scratch / "tail"
    with contextlib.ExitStack() as running:
        gateway = running.enter_context(programs.running(serve, environment, scratch / "one"))
        wait_until(lambda: answers(url), what="the gateway")
        for _ in range(MANY):
            running.callback(Stream(url, followed).close)
        tail = programs.seamline("tail", followed, "--from", "beginning")
        running.enter_context(programs.running(tail, environment, log))
        stream = running.enter_context(
            contextlib.closing(Stream(url, f"{followed}?from=beginning"))
        )
        assert len(stream.rows(10)) == 10
        wait_until(lambda: len(ids_in(log)) == 10, what="what was there")
        gateway.send_signal(signal.SIGTERM)
        stream.answer.read()  # it ends
        assert gateway.wait(60) == 0
        stack.produce(followed, rows_of(range(10, 15)))
        running.enter_context(programs.running(serve, environment, scratch / "two"))
        wait_until(lambda: len(ids_in(log)) == 15, what="what has arrived meanwhile")
        again = {"Last-Event-ID": stream.last_id}
        with contextlib.closing(Stream(url, followed, **again)) as other:
            assert [row[0] for row in other.rows(5)] == list(range(10, 15))
    assert sorted(ids_in(log)) == list(range(15))


@pytest.mark.soak
def test_events_of_an_upsert_table_are_its_changes(
    stack: Stack, gateway: Gateway, name: str
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS, mode="upsert", primary_key=("id",), key="id")
    stack.produce(name, [*rows_of(range(1, 2)), *rows_of(range(1, 2))], keys=["1", "1"])
    stack.tier(name)
    with contextlib.closing(Stream(gateway.url, f"{name}?from=beginning")) as stream:
        columns = stream.event("columns")["columns"]
        assert [column["name"] for column in columns] == ["id", "text", "_kafka_deleted"]
        assert stream.rows(2) == [[1, "x", False], [1, "x", False]]
        stack.produce(name, [None, *rows_of(range(2, 3))], keys=["1", "2"])
        assert stream.rows(2) == [[1, None, True], [2, "x", False]]
    with contextlib.closing(Stream(gateway.url, name)) as stream:
        stream.event("columns")
        stack.produce(name, [None], keys=["2"])
        assert stream.rows(1) == [[2, None, True]]
    sql = f'SELECT id, _kafka_deleted FROM "{name}$changes" ORDER BY _kafka_offset'
    wanted = [(1, False), (1, False), (1, True), (2, False), (2, True)]
    assert [gateway.rows(sql, engine) for engine in ("duckdb", "spark")] == [wanted, wanted]
