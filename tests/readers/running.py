"""A reader at work: its program, started once and asked over and over."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from support.java import SHORT_LIVED_JAVA
from support.live import canonical

from readers.catalogue import Reader

TESTS = pathlib.Path(__file__).parents[1]


class CannotReadError(Exception):
    """What a reader said when it could not read a table."""


class RunningReader:
    """A reader over a gateway.

    Args:
        reader: The reader.
        directory: Where it may put files.
        settings: See `protocol.Settings`.
    """

    def __init__(
        self, reader: Reader, directory: pathlib.Path, settings: Mapping[str, Any]
    ) -> None:
        self.reader = reader
        self._rows = directory / f"{reader}.arrow"
        command = reader.program.command(json.dumps(settings))
        self._log = (directory / f"{reader}.log").open("wb")
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=directory,
            env={
                **plain,
                **SHORT_LIVED_JAVA,
                "PYTHONPATH": str(TESTS),
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            text=True,
        )

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        self._log.close()

    def count(self, table: str) -> int:
        """The number of rows it finds in a table.

        Raises:
            CannotReadError: when it fails.
        """
        return int(self._ask(table)["count"])

    def rows(self, table: str, columns: list[str]) -> list[tuple[Any, ...]]:
        """All rows of a table in canonical form, sorted.

        Raises:
            CannotReadError: when it fails.
        """
        self._ask(table, path=str(self._rows))
        with pa.OSFile(str(self._rows)) as file, pa.ipc.open_stream(file) as stream:
            found = stream.read_all()
        return canonical(list(zip(*(found.column(c).to_pylist() for c in columns), strict=True)))

    def _ask(self, table: str, **more: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"table": table, "catalog": self.reader.catalog, **more}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"{self.reader} has ended; see {self._log.name}"
        answer: dict[str, Any] = json.loads(line)
        if answer.get("error"):
            raise CannotReadError(answer["error"])
        return answer
