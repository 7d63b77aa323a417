"""Goal: a kind of statement is declared in one place.

Method: a statement that nobody has, `ECHO 'text'`, is given a grammar and an entry in `KINDS`, and
nothing else. Clients of HTTP and of Trino's protocol then run it, prepare it, and learn what it
did.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args
from urllib.parse import urlsplit

import pytest
import trino
from support import offline
from support.clients import refused, rows
from support.gateway import Gateway
from trino.exceptions import TrinoUserError
from trino.transaction import IsolationLevel

import seamline
from seamline.gateway.commands.context import Context
from seamline.gateway.commands.kinds import KINDS, Kind
from seamline.gateway.commands.rows import NOTES, Rows
from seamline.sql import types
from seamline.sql.binder.scope import Output
from seamline.sql.parsing.grammar import GRAMMAR
from seamline.sql.parsing.statements import Execute, Statement


@dataclasses.dataclass(frozen=True, slots=True)
class Echo:
    """ECHO 'text'."""

    text: str


def echo(context: Context[Echo]) -> Rows:
    return Rows((Output("echo", types.VARCHAR),), [(context.parsed.text,)])


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    running = Gateway(offline.config(tmp_path_factory.mktemp("kinds")))
    yield running
    running.close()


@pytest.fixture(autouse=True)
def grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GRAMMAR, "ECHO", lambda words: Echo(words.string()))


def declare(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    monkeypatch.setitem(KINDS, Echo, kind)


def via_trino(gateway: Gateway, **options: Any) -> Any:
    address = urlsplit(gateway.url)
    connect: Any = trino.dbapi.connect
    return connect(host=address.hostname, port=address.port, user="ann", **options).cursor()


def test_every_statement_has_its_kind() -> None:
    assert set(get_args(Statement)) - {Execute} == set(KINDS)


def test_a_kind_that_returns_rows(
    gateway: Gateway, connection: seamline.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, Kind(echo))
    assert rows(connection, "ECHO 'it''s'") == [("it's",)]
    assert refused(connection, "ECHO 1").code.name == "SYNTAX_ERROR"
    connection.execute("PREPARE p FROM ECHO 'later'")
    assert rows(connection, "EXECUTE p") == [("later",)]
    assert rows(connection, "DESCRIBE INPUT p") == []
    assert rows(connection, "DESCRIBE OUTPUT p") == []
    cursor = via_trino(gateway, isolation_level=IsolationLevel.READ_COMMITTED)
    assert cursor.execute("ECHO 'x'").fetchall() == [["x"]], "in a transaction"
    assert cursor.update_type is None


def test_a_kind_that_changes_something(
    gateway: Gateway, connection: seamline.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = Rows(NOTES, [("done",)])
    declare(monkeypatch, Kind(lambda _: notes, lambda parsed: parsed.text, is_write=True))
    cursor = via_trino(gateway)
    cursor.execute("ECHO 'GREET'").fetchall()
    assert cursor.update_type == "GREET"
    cursor = via_trino(gateway, isolation_level=IsolationLevel.READ_COMMITTED)
    with pytest.raises(TrinoUserError, match="inside a transaction"):
        cursor.execute("ECHO 'GREET'").fetchall()
    assert rows(connection, "ECHO 'GREET'") == [("done",)], "notes are shown"
