"""What is besieged: a gateway over a real broker, with narrow limits and four principals."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import pathlib
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping

import psutil
from support import programs
from support.stack import Stack
from support.waiting import wait_until

import seamline

ROWS = 20_000
MEMORY_BYTES = 128 << 20
RUNNING_MAX = 8
PRINCIPALS = ("honest", "bomber", "greedy")

_LIMITS = f"""
limits:
  memory_bytes: {MEMORY_BYTES >> 20}MiB
  spill_bytes: 256MiB
  result_bytes: 64MiB
  results_bytes: 512MiB
  result_seconds: 30
  statement_seconds_max: 30
  statements_running_max: {RUNNING_MAX}
  principal_running_max: 3
  principal_queued_max: 16
  duckdb_threads: 1
"""


TABLE = "siege"


@dataclasses.dataclass(frozen=True)
class Target:
    """A running gateway, as clients and attackers see it, from any process.

    Attributes:
        url: Its address.
        pid: The process that was started.
        tokens: Access tokens by principal.
    """

    url: str
    pid: int
    tokens: Mapping[str, str]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self.url.removeprefix("http://").split(":")
        return host, int(port)

    def connect(self, principal: str) -> seamline.Connection:
        """A connection of one of the principals."""
        return seamline.connect(self.url, access_token=self.tokens[principal])

    def serving(self) -> list[psutil.Process]:
        """The gateway's own processes."""
        return programs.serving(self.pid)

    def forking(self) -> list[psutil.Process]:
        """The processes that fork those of statements."""
        return [
            child
            for one in self.serving()
            for child in programs.children(one)
            if programs.is_forking(child)
        ]

    def workers(self) -> list[psutil.Process]:
        """The processes of statements."""
        return [child for one in self.forking() for child in programs.children(one)]


class Fortress:
    """What is behind the gateway.

    Args:
        stack: A broker and a catalog.
        folder: Where the gateway keeps what it needs.
    """

    def __init__(self, stack: Stack, folder: pathlib.Path) -> None:
        self._stack = stack
        self._folder = folder
        self._tokens = {name: secrets.token_hex(16) for name in PRINCIPALS}

    def fill(self) -> None:
        """Makes the table, half of it tiered."""
        self._stack.create_topic(TABLE)
        self._stack.create_table(TABLE, "id bigint, text varchar")
        rows = [{"id": n, "text": f"t{n % 100}"} for n in range(ROWS)]
        self._stack.produce(TABLE, rows[: ROWS // 2])
        self._stack.tier(TABLE)
        self._stack.produce(TABLE, rows[ROWS // 2 :])

    @contextlib.contextmanager
    def open(self) -> Iterator[Target]:
        """Runs the gateway, as `seamline serve` does."""
        text = re.sub(r"(?ms)^limits:\n(  .*\n)*", "", self._stack.file.read_text())
        tokens = "".join(
            f"    - name: {name}\n      sha256: {hashlib.sha256(token.encode()).hexdigest()}\n"
            for name, token in self._tokens.items()
        )
        file = self._folder / "seamline.yaml"
        state = self._folder / "state"
        text = re.sub(r"(?m)^state_directory:.*\n", "", text)
        file.write_text(f"{text}\nstate_directory: {state}\nauth:\n  tokens:\n{tokens}{_LIMITS}")
        log = self._folder / "gateway.log"
        command = [sys.executable, "-P", "-m", "seamline.cli", "serve", "--config", str(file)]
        with log.open("wb") as errors:
            process = subprocess.Popen([*command, "--port", "0"], stderr=errors)

        def address() -> str | None:
            found = re.search(r"gateway on (\S+)", log.read_text())
            assert found or process.poll() is None, log.read_text()
            return found[1] if found else None

        try:
            url = wait_until(address, 120, "the gateway to answer") or ""
            yield Target(url, process.pid, self._tokens)
        finally:
            process.terminate()
            try:
                process.wait(60)
            finally:
                process.kill()

    def files(self) -> list[pathlib.Path]:
        """Results and spilled rows that are on disk."""
        kept = (self._folder / "state" / name for name in ("results", "spill"))
        return [path for folder in kept for path in folder.rglob("*") if path.is_file()]
