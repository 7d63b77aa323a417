"""Goal: gateways are replaced one after another, and no statement fails that was not told to retry.

Method: two gateways over one broker and one catalog, which share the secret of their tokens. Four
clients ask whichever they like, small statements and large results, each with the token of the last
answer, and go to the other gateway when an error says that the same may succeed there. Meanwhile
each gateway is ended by SIGTERM, as a platform ends it, and started again, twice.
"""

from __future__ import annotations

import contextlib
import pathlib
import random
import re
import threading
import time
from collections import Counter
from typing import Any

import pytest
from support import programs
from support.stack import Stack
from support.waiting import wait_until

import seamline

pytestmark = pytest.mark.integration

CLIENTS = 4
ROUNDS = 1
ROWS = 3_000
LARGE = 60_000
"""Rows of a result that comes in several chunks."""
_END_S, _PATIENCE_S = 120.0, 60.0


class Rolling:
    """A gateway that is replaced by another at the same address.

    Args:
        stack: What is behind it.
        folder: Its own folder.
    """

    def __init__(self, stack: Stack, folder: pathlib.Path) -> None:
        self._folder = folder
        self._starts = 0
        self._environment = stack.environment | {
            "SEAMLINE_STATE_DIRECTORY": str(folder / "state"),
            "SEAMLINE_TOKENS__SECRET": "one secret of all gateways",
        }
        self._block = contextlib.ExitStack()
        self._port = 0
        folder.mkdir()
        self.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Starts one, and waits until it answers."""
        self._starts += 1
        log = self._folder / f"{self._starts}.log"
        command = programs.seamline("serve", "--port", str(self._port))
        self._process = self._block.enter_context(programs.running(command, self._environment, log))

        def port() -> str | None:
            found = re.search(r"gateway on http://127.0.0.1:(\d+)", log.read_text())
            assert found or self._process.poll() is None, log.read_text()
            return found[1] if found else None

        self._port = int(wait_until(port, _END_S, "the gateway") or 0)

    def end(self) -> None:
        """Ends it as a platform does, and waits until it has."""
        self._process.terminate()
        assert self._process.wait(_END_S) == 0

    def close(self) -> None:
        """Ends whatever is left."""
        self._block.close()


class Clients:
    """Clients that ask until they are told to stop.

    Attributes:
        answered: Statements by gateway that had their rows.
        retried: What they were told instead.
        failed: What they should not have been told.
    """

    def __init__(self, gateways: list[Rolling], table: str) -> None:
        self._gateways = gateways
        self._table = table
        self._over = threading.Event()
        self.answered: Counter[str] = Counter()
        self.retried: Counter[str] = Counter()
        self.failed: list[str] = []

    @contextlib.contextmanager
    def asking(self) -> Any:
        """Within the block, they ask."""
        threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join(_END_S)

    def wait_for_answers(self, url: str) -> None:
        """Waits until a gateway has given some more."""
        wanted = self.answered[url] + CLIENTS
        wait_until(lambda: self.failed or self.answered[url] > wanted, _END_S, f"answers of {url}")

    def _ask(self, number: int) -> None:
        draw = random.Random(number)
        statements: dict[str, list[Any]] = {
            f"SELECT count(*), sum(id) FROM {self._table}": [(ROWS, ROWS * (ROWS - 1) // 2)],
            "SELECT 6 * a.n + b.n FROM UNNEST(sequence(0, 9999)) AS a(n) "
            "CROSS JOIN UNNEST(sequence(0, 5)) AS b(n) ORDER BY 1": [(n,) for n in range(LARGE)],
        }
        try:
            while not self._over.is_set():
                sql, rows = draw.choice(list(statements.items()))
                self._until_answered(draw, sql, rows)
        except Exception as error:  # noqa: BLE001 - a thread's own failure is the test's
            self.failed.append(repr(error))
            self._over.set()

    def _until_answered(self, draw: random.Random, sql: str, rows: list[Any]) -> None:
        gateways = draw.sample(self._gateways, 2)
        ends = time.monotonic() + _PATIENCE_S
        for turn in range(1_000_000):
            gateway = gateways[turn % 2]
            try:
                with seamline.connect(gateway.url) as connection, connection.cursor() as cursor:
                    cursor.execute(sql, engine="duckdb")
                    assert cursor.fetchall() == rows, sql
            except seamline.Error as error:
                assert error.code.retriable, (sql, error)
                assert time.monotonic() < ends, (sql, error)
                self.retried[error.code.name] += 1
            else:
                self.answered[gateway.url] += 1
                return


@pytest.mark.soak
def test_gateways_are_replaced_one_after_another(
    stack: Stack, tmp_path: pathlib.Path, name: str
) -> None:
    stack.create_topic(name, 2)
    stack.create_table(name, "id bigint")
    stack.produce(name, [{"id": n} for n in range(ROWS // 2)])
    stack.tier(name)
    stack.produce(name, [{"id": n} for n in range(ROWS // 2, ROWS)])
    with contextlib.ExitStack() as block:
        gateways = [
            block.enter_context(contextlib.closing(Rolling(stack, tmp_path / each)))
            for each in ("one", "two")
        ]
        clients = Clients(gateways, name)
        with clients.asking():
            for gateway in gateways * ROUNDS:
                for each in gateways:
                    clients.wait_for_answers(each.url)
                gateway.end()
                gateway.start()
        assert not clients.failed
        assert set(clients.retried) <= {"SHUTTING_DOWN", "GATEWAY_UNAVAILABLE"}, clients.retried
        assert clients.retried, "somebody was sent to the other gateway"
