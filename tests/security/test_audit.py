"""Goal: the audit log has everybody's every statement and refused login, and holds up nobody.

Method: a gateway that is asked in every way, and the file that it writes. The file is moved, its
folder taken away, and its writer held up; values that must not be recorded are looked for.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import logging
import pathlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import bcrypt
import confluent_kafka
import pytest
import urllib3
from prometheus_client import CollectorRegistry
from support import offline
from support.gateway import Gateway
from support.stack import Stack
from support.waiting import wait_until

import seamline
from seamline.errors import SeamlineError
from seamline.gateway.access import audit
from seamline.gateway.access.audit import AuditLog
from seamline.gateway.access.audit_sinks import FileSink
from seamline.gateway.metrics import text_of

CANARY = "c4n4ry"
TOKEN = "open sesame"
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()

Event = dict[str, Any]


class World:
    """A gateway that records what is asked of it."""

    def __init__(self, folder: pathlib.Path, literals: str) -> None:
        self.file = folder / "audit.jsonl"
        passwords = folder / "passwords"
        hashed = bcrypt.hashpw(b"apple", bcrypt.gensalt(4)).decode()
        passwords.write_text(f"bob:{hashed}\n", encoding="utf-8")
        lines = (
            "tail: {follow: false}\n"
            f"audit: {{file: '{self.file}', literals: {literals}}}\n"
            f"auth:\n  passwords: {passwords}\n"
            f"  tokens: [{{name: ann, sha256: {DIGEST}, groups: [people]}}]\n"
        )
        self.gateway = Gateway(offline.load_config(folder, lines))

    def events(self) -> list[Event]:
        """What the file says."""
        return [json.loads(line) for line in self.file.read_text("utf-8").splitlines()]

    def event(self, **wanted: Any) -> Event:
        """The one event with these values, once it is there."""

        def found() -> list[Event]:
            return [e for e in self.events() if wanted.items() <= e.items()]

        wait_until(found, 30, f"an event {wanted}")
        (event,) = found()
        return event

    def ask(self, method: str, path: str, **headers: str) -> int:
        """The status of an answer, to ann unless stated otherwise."""
        headers = {"Authorization": f"Bearer {TOKEN}"} | headers
        with urllib3.PoolManager(retries=False, timeout=30.0) as pool:
            url = self.gateway.url + path
            return pool.request(method, url, headers=headers, json={"table": "t"}).status


@pytest.fixture(scope="module", params=["keep", "redact"])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("audit"), request.param)
    with contextlib.closing(made.gateway):
        with made.gateway.connect(access_token=TOKEN) as connection:
            connection.execute(
                f"CREATE TABLE t AS SELECT 1 AS id, '{CANARY}' AS name, 2.5 AS price"
            )
        yield made


def test_a_statement_is_written_down(world: World) -> None:
    sql = f"SELECT   name, count(*) FROM t WHERE id < 7 AND name <> '{CANARY}2' GROUP BY name"
    with world.gateway.connect(user="bob", password="apple") as connection:
        statement = connection.execute(sql)
        assert len(statement.fetchall()) == 1
    found = world.event(event="statement", user="bob")
    is_kept = world.gateway.config.audit.literals == "keep"
    assert found["statement"] == (sql if is_kept else None)
    assert found["normalised"] == (
        "SELECT name, count(*) FROM t WHERE id < ? AND name <> ? GROUP BY name"
    )
    assert found["tables"] == [{"table": "lake.default.t", "columns": ["id", "name"]}]
    assert (found["state"], found["error"], found["engine"]) == ("SUCCEEDED", None, "duckdb")
    assert (found["rows"], found["rows_cold"], found["rows_hot"]) == (1, 1, 0)
    assert (found["method"], found["address"], found["groups"]) == ("password", "127.0.0.1", [])
    assert found["elapsed_s"] > 0
    assert found["submitted_at"] <= found["time"]


def test_what_is_written_and_what_fails_is_written_down(world: World) -> None:
    created = world.event(event="statement", writes="lake.default.t")
    assert (created["user"], created["groups"], created["method"]) == ("ann", ["people"], "token")
    assert DIGEST.startswith(created["credential"])
    assert len(created["credential"]) == 12
    with world.gateway.connect(access_token=TOKEN) as connection:
        for sql, code in (
            (f"SELECT nothing FROM t WHERE name = '{CANARY}3'", "COLUMN_NOT_FOUND"),
            (f"SELECT '{CANARY}4 is not closed", "SYNTAX_ERROR"),
            (f"SELECT CAST('{CANARY}5' AS bigint)", "INVALID_CAST"),
            ("SELECT 1", "INVALID_REQUEST"),
        ):
            engine = "abacus" if sql == "SELECT 1" else None
            with pytest.raises(seamline.Error) as caught:
                connection.execute(sql, engine=engine)
            found = world.event(event="statement", error=caught.value.code.name)
            assert found["state"] == ("REFUSED" if engine else "FAILED"), code
            assert (found["normalised"] is None) == (code == "SYNTAX_ERROR")


def test_a_canceled_statement_is_written_down_once(world: World) -> None:
    digits = ", ".join(f"d d{n}" for n in range(18))
    total = " + ".join(f"d{n}.x" for n in range(18))
    sql = f"WITH d(x) AS (VALUES 0,1,2,3,4,5,6,7,8,9) SELECT sum({total}) FROM {digits}"
    with world.gateway.connect(access_token=TOKEN) as connection:
        cursor = connection.cursor()
        runner = threading.Thread(target=lambda: _quietly(lambda: cursor.execute(sql)))
        runner.start()
        running = world.gateway.running("ann")
        cursor.cancel()
        runner.join()
    assert world.event(statement_id=running.statement_id)["state"] == "CANCELED"
    assert world.event(request=f"POST /api/v1/statements/{running.statement_id}/cancel")


def _quietly(work: Callable[[], object]) -> None:
    with contextlib.suppress(seamline.Error):
        work()


def test_refused_logins_are_written_down_without_secrets(world: World) -> None:
    guess = base64.b64encode(f"bob:{CANARY}6".encode()).decode()
    assert world.ask("GET", "/api/v1/info", Authorization=f"Basic {guess}") == 401
    assert world.ask("GET", "/iceberg/v1/config", Authorization=f"Bearer {CANARY}7") == 401
    by_password = world.event(event="login", request="GET /api/v1/info")
    by_token = world.event(event="login", request="GET /iceberg/v1/config")
    assert (by_password["user"], by_token["user"]) == ("bob", None)
    for found in (by_password, by_token):
        assert (found["error"], found["address"]) == ("UNAUTHENTICATED", "127.0.0.1")


def test_reading_without_a_statement_is_written_down(world: World) -> None:
    table = "/iceberg/v1/lake/namespaces/default/tables/t"
    assert world.ask("GET", table) == 200
    found = world.event(request=f"GET {table}")
    assert (found["user"], found["table"], found["status"]) == ("ann", "lake.default.t", 200)
    assert world.ask("GET", table + "x") == 404
    assert world.event(request=f"GET {table}x")["error"] == "TABLE_NOT_FOUND"
    world.ask("POST", "/api/v1/seams")
    assert world.event(request="POST /api/v1/seams")["table"] == "t"
    world.ask("GET", f"/api/v1/tail/t?where=name='{CANARY}8'")
    found = world.event(request="GET /api/v1/tail/t")
    assert (found["table"], found["user"]) == ("t", "ann")
    batch = world.event(event="statement", normalised="SELECT * FROM t WHERE FALSE AND (name=? )")
    assert (batch["user"], batch["method"]) == ("ann", "token")


def test_what_must_not_be_written_is_not(world: World) -> None:
    text = world.file.read_text("utf-8")
    for secret in (TOKEN, "apple", f"{CANARY}6", f"{CANARY}7"):
        assert secret not in text
    if world.gateway.config.audit.literals == "redact":
        assert CANARY not in text
    ids = [event["id"] for event in world.events()]
    assert len(set(ids)) == len(ids)


# --- Sinks ---------------------------------------------------------------------------------------


class Held:
    """A sink whose writer waits until it is let go."""

    def __init__(self, inner: FileSink) -> None:
        self._inner = inner
        self.let_go = threading.Event()

    def append(self, values: Sequence[bytes]) -> None:
        """Waits."""
        self.let_go.wait()
        self._inner.append(values)


def lines(file: pathlib.Path) -> list[int]:
    """The numbers of the events in a file."""
    found = file.read_text("utf-8").splitlines() if file.exists() else []
    return [json.loads(line)["number"] for line in found]


def metric(log: AuditLog, name: str) -> float:
    registry = CollectorRegistry()
    registry.register(log)
    (line,) = [text for text in text_of(registry).splitlines() if text.startswith(name)]
    return float(line.split()[1])


def test_a_file_that_is_moved_is_begun_anew(tmp_path: pathlib.Path) -> None:
    file, moved = tmp_path / "audit", tmp_path / "audit.1"
    with contextlib.closing(AuditLog(FileSink(str(file)))) as log:
        log.write("test", {"number": 1})
        wait_until(lambda: lines(file) == [1], what="the first")
        file.rename(moved)
        log.write("test", {"number": 2})
        wait_until(lambda: lines(file) == [2], what="the second")
    assert lines(moved) == [1]
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_written_now_is_written_later(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "folder" / "audit"
    file.parent.mkdir()
    with contextlib.closing(AuditLog(FileSink(str(file)))) as log:
        file.parent.rename(tmp_path / "gone")
        for number in range(3):
            log.write("test", {"number": number})
        wait_until(lambda: metric(log, "seamline_audit_waiting") == 3, what="a failure")
        file.parent.mkdir()
        wait_until(lambda: lines(file) == [0, 1, 2], what="all of them")
    assert metric(log, "seamline_audit_lost_total") == 0


def test_a_writer_that_is_held_up_holds_up_nobody_and_losses_are_said(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "_WAITING_MAX", 50)
    held = Held(FileSink(str(tmp_path / "audit")))
    log = AuditLog(held)
    with caplog.at_level(logging.ERROR, "seamline.audit"):
        for number in range(1000):
            log.write("test", {"number": number})
    assert any("audit events were lost" in record.message for record in caplog.records)
    held.let_go.set()
    log.close()
    written = lines(tmp_path / "audit")
    assert written == sorted(written)
    lost = metric(log, "seamline_audit_lost_total")
    assert lost > 0
    assert len(written) + lost == 1000
    assert metric(log, "seamline_audit_events_total") == len(written)


def test_a_file_that_cannot_be_opened_is_refused_at_the_start(tmp_path: pathlib.Path) -> None:
    for lines_ in (
        f"audit: {{file: {tmp_path}/no/folder}}\n",
        "audit: {file: a, topic: b}\n",
        "audit: {file: a, literals: some}\n",
    ):
        with pytest.raises(SeamlineError) as caught:
            Gateway(offline.load_config(tmp_path, lines_)).close()
        assert caught.value.code.name == "INVALID_CONFIG"


@pytest.mark.integration
def test_events_may_go_to_a_topic(stack: Stack, name: str, tmp_path: pathlib.Path) -> None:
    stack.create_topic(name, 1)
    flags = {**stack.flags, "state_directory": str(tmp_path / "state"), "audit.topic": name}
    with contextlib.closing(Gateway(stack.configured(flags))) as gateway:
        assert gateway.rows("SELECT 42") == [(42,)]
        with contextlib.closing(
            confluent_kafka.Consumer(
                {
                    "bootstrap.servers": stack.config.clusters["default"].bootstrap_servers,
                    "group.id": name,
                    "auto.offset.reset": "earliest",
                }
            )
        ) as consumer:
            consumer.assign([confluent_kafka.TopicPartition(name, 0, 0)])
            message = wait_until(lambda: consumer.poll(1.0), 60, "an event")
    assert message is not None
    event = json.loads(message.value() or b"")
    assert (event["normalised"], event["state"], event["rows"]) == ("SELECT ?", "SUCCEEDED", 1)
