"""Other engines write tables with a topic, in a catalog that is not ours.

Goal: what DuckDB commits to such a table is read with the topic's records as one, on both engines,
before and after the tail is tiered on top of it; a token from before still gives the rows of that
time. Method: Iceberg's own REST server, DuckDB as published in an environment of its own, and a
model of plain rows.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from support.checker import agree
from support.gateway import Gateway, statement_rows
from support.rest_catalog import config_of, rest_catalog
from support.stack import Stack

from readers.catalogue import READERS
from readers.environments import Python

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.timeout(3600),  # the environment is made when DuckDB is first asked for
]

COLD, HOT, LATER = range(40), range(40, 50), range(50, 60)
Rows = dict[int, str]


@pytest.fixture(scope="module")
def catalog(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, str]]:
    """The stack's cluster over that catalog, and the catalog's address."""
    directory = tmp_path_factory.mktemp("rest")
    with (
        rest_catalog(directory) as url,
        stack.over(config_of(url, directory), directory) as other,
    ):
        yield other, url


def duckdb(url: str, *statements: str) -> None:
    """Runs statements in DuckDB, with the catalog attached as `live`."""
    reader = next(reader for reader in READERS if reader.name == "DuckDB")
    assert isinstance(reader.program, Python)
    program = Python(("duckdb_writer",), reader.program.packages)
    tests = str(pathlib.Path(__file__).parents[1])
    done = subprocess.run(
        program.command(json.dumps({"url": url, "path": "", "statements": statements})),
        env={**os.environ, "PYTHONPATH": tests},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def rows_of(ids: range) -> Rows:
    return {i: f"t{i % 5}" for i in ids}


def expect(gateway: Gateway, name: str, rows: Rows) -> None:
    found = statement_rows(agree(gateway, f"SELECT id, text FROM {name}", engine="auto"))
    assert sorted(found) == sorted(rows.items())


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("version", [2, 3])
def test_duckdb(catalog: tuple[Stack, str], name: str, version: int, mode: str) -> None:
    stack, url = catalog
    options: dict[str, Any] = {"mode": mode, "format_version": version}
    if mode == "upsert":
        options |= {"primary_key": ("id",), "key": "id"}
    stack.create_topic(name, 2)
    stack.create_table(name, "id bigint, text varchar", **options)

    def produce(ids: range) -> None:
        values = [{"id": i, "text": f"t{i % 5}"} for i in ids]
        stack.produce(name, values, keys=[str(i) for i in ids])

    with contextlib.closing(Gateway(stack.config)) as gateway:
        produce(COLD)
        stack.tier(name)
        produce(HOT)
        before = gateway.statement(f"SELECT id, text FROM {name}")
        rows = rows_of(COLD)
        table = f"live.default.{name}"
        steps: list[tuple[str, Rows]] = [
            (
                f"INSERT INTO {table} (id, text) VALUES (1000, 'foreign')",
                {**rows, 1000: "foreign"},
            ),
            (
                f"DELETE FROM {table} WHERE id < 10",
                {**{i: t for i, t in rows.items() if i >= 10}, 1000: "foreign"},
            ),
            (
                f"UPDATE {table} SET text = 'changed' WHERE id = 20",
                {**{i: t for i, t in rows.items() if i >= 10}, 1000: "foreign", 20: "changed"},
            ),
        ]
        for statement, rows in steps:
            duckdb(url, statement)
            expect(gateway, name, {**rows, **rows_of(HOT)})
        stack.tier(name)
        expect(gateway, name, {**rows, **rows_of(HOT)})
        produce(LATER)
        expect(gateway, name, {**rows, **rows_of(HOT), **rows_of(LATER)})
        again = gateway.rows(f"SELECT id, text FROM {name}", token=before.receipt["token"])
        assert sorted(again) == sorted(statement_rows(before))
