"""Goal: the commands over tables that other writers fill show, ask and write what they say.

Method: the real commands over real Iceberg tables and a log in memory; only where connections come
from is another place.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import pathlib
from typing import Any

import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner, Result
from support.adopting import FLAT, NAMESPACE, TOPIC, Shop

from seamline.errors import SeamlineError
from seamline.gateway.cli import adopting as commands
from seamline.gateway.cli.table import describe

pytestmark = pytest.mark.filterwarnings("ignore:No preferred file implementation:UserWarning")

TABLE = f"lake.{NAMESPACE}.{TOPIC}"
COLUMNS = "partition=k_partition,offset=k_offset"


@pytest.fixture
def shop(tmp_path: pathlib.Path) -> Shop:
    """A table that another writer has begun to fill."""
    made = Shop(tmp_path)
    made.create(FLAT)
    made.produce(20)
    made.copy({0: 6, 1: 7})
    return made


def run(shop: Shop, command: Any, *arguments: str, answer: str = "") -> Result:
    """What a command says and ends with."""
    config = ["--config", str(shop.folder / "seamline.yaml")]
    return CliRunner().invoke(
        command,
        [*arguments, *config],
        input=answer,
        obj=lambda _: contextlib.nullcontext(shop.connections),
    )


def adopt(shop: Shop, *arguments: str, answer: str = "") -> Result:
    return run(shop, commands.adopt, TABLE, "--topic", TOPIC, *arguments, answer=answer)


def is_adopted(shop: Shop) -> bool:
    return shop.state.provider is not None


def test_it_shows_what_it_found_and_asks(shop: Shop) -> None:
    done = adopt(shop, "--columns", COLUMNS, answer="n\n")
    assert (done.exit_code, is_adopted(shop)) == (1, False)
    for said in (
        f"table      {TABLE}, 2 snapshots",
        "filled by  a writer that leaves no mark",
        "boundary   0:6, 1:7 by columns (derived)",
        "7 offsets are hot",
        "13 of 13 records are the same in both tiers",
        f"adopt {TABLE}? [y/N]:",
    ):
        assert said in done.output
    done = adopt(shop, "--columns", COLUMNS, answer="y\n")
    assert (done.exit_code, is_adopted(shop)) == (0, True)
    assert f"adopted {TABLE} over topic {TOPIC}" in done.stdout


@pytest.mark.parametrize("how", ["--dry-run", "--configuration"])
def test_it_only_looks(shop: Shop, how: str) -> None:
    before = dict(shop.table.properties)
    done = adopt(shop, "--columns", COLUMNS, how)
    assert done.exit_code == 0, done.output
    assert dict(shop.table.properties) == before
    if how == "--configuration":
        entry = yaml.safe_load(done.stdout)["tables"][TABLE]
        assert (entry["topic"], entry["boundary_provider"]) == (TOPIC, "columns")
    else:
        assert done.stdout == ""


def test_what_the_writer_renames_is_said(shop: Shop) -> None:
    with shop.table.update_schema() as change:
        change.rename_column("item", "article")
    done = adopt(shop, "--columns", COLUMNS, "--yes")
    assert isinstance(done.exception, SeamlineError)
    assert (done.exception.code.name, is_adopted(shop)) == ("ADOPTION_REFUSED", False)
    done = adopt(shop, "--columns", COLUMNS, "--map", "article = value.item", "--yes")
    assert (done.exit_code, is_adopted(shop)) == (0, True)
    gateway = shop.gateway()
    try:
        assert gateway.rows(f"SELECT id, article, price FROM {TABLE} ORDER BY id") == shop.rows
    finally:
        gateway.close()


def test_describe_says_how_far_the_boundary_can_be_trusted(shop: Shop) -> None:
    adopt(shop, "--columns", COLUMNS, "--yes")
    said = run(shop, describe, TABLE)
    assert "boundary_provider: columns\nboundary_trust: derived\n" in said.output


def test_an_audit_is_for_people_and_for_programs(shop: Shop) -> None:
    adopt(shop, "--columns", COLUMNS, "--yes")
    done = run(shop, commands.audit, TABLE)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "clean")
    assert f"{TABLE}: partition 1 …" in done.stderr
    row = {"k_partition": 1, "k_offset": 2, **shop.records[1, 2]}
    shop.table.append(pa.Table.from_pylist([row], schema=FLAT))
    shop.table.delete("k_partition = 0 and k_offset = 1")
    done = run(shop, commands.audit, TABLE)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (1, "NOT clean")
    assert "  partition 1, offsets [2, 3): 1" in done.stdout
    done = run(shop, commands.audit, TABLE, "--format", "json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["clean"], found["rows"]) == (1, False, 13)
    done = run(shop, commands.audit, TABLE, "--format", "csv")
    rows = [tuple(row.values()) for row in csv.DictReader(io.StringIO(done.stdout))]
    assert done.exit_code == 1
    assert sorted(rows) == [("double", "1", "2", "3", "1"), ("hole", "0", "1", "2", "1")]


def test_a_table_changes_hands(shop: Shop) -> None:
    adopt(shop, "--columns", COLUMNS, "--yes")
    assert run(shop, commands.take_over, TABLE, answer="n\n").exit_code == 1
    assert is_adopted(shop)
    done = run(shop, commands.take_over, TABLE, answer="y\n")
    assert (done.exit_code, is_adopted(shop)) == (0, False)
    assert f"{TABLE} has been taken over at 0:6, 1:7" in done.stdout
    done = run(shop, commands.hand_over, TABLE, "--yes")
    assert (done.exit_code, is_adopted(shop)) == (0, True)
    assert f"{TABLE} has been handed over: begin at 0:6, 1:7" in done.stdout


def test_it_lets_go(shop: Shop) -> None:
    before = dict(shop.table.properties)
    adopt(shop, "--columns", COLUMNS, "--yes")
    done = run(shop, commands.unadopt, TABLE)
    assert (done.exit_code, dict(shop.table.properties)) == (0, before)
    assert f"{TABLE} is a plain table again" in done.stdout
