"""Goal: a command loads the libraries that it uses, and none that only others use.

Method: every command runs in a process of its own, to its end or to the error that stops it without
a broker; what it has loaded by then of the libraries of all extras is held against a table. A new
command fails until it is in the table, a new library until somebody has said who may load it.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import click
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from support import offline
from support.sources import ROOT

from seamline.cli import root

NOTHING: set[str] = set()
CLIENT = {"urllib3"}
CONFIG = {"pydantic", "yaml"}
CATALOG = {
    *(CONFIG | CLIENT),
    *("cachetools", "fsspec", "numpy", "pyarrow", "pyiceberg", "pyroaring", "sqlglot", "zstandard"),
    *("mmh3", "xxhash"),
}
"""What PyIceberg brings along is not ours to choose."""
KAFKA = {"confluent_kafka"}
HTTP = {"flask", "gunicorn"}

COMMANDS: dict[str, tuple[str, set[str]]] = {
    "audit": ("nowhere", CATALOG | {"duckdb"}),
    "completion": ("bash", NOTHING),
    "config show": ("", CONFIG),
    "doctor": ("--timeout 1", CATALOG | KAFKA),
    "demo": ("--state {folder}/no#where", CATALOG | KAFKA),
    "freshness": ("t --url http://127.0.0.1:1", CLIENT),
    "local down": ("--state {folder}", NOTHING),
    "local produce": ("- --topic t --state {folder}", NOTHING),
    "local status": ("--state {folder}", NOTHING),
    "local topic": ("t --state {folder}", NOTHING),
    "local up": ("--state {folder}/no#where", NOTHING),
    "prepare": ("--store nowhere", NOTHING),
    "query": ("SELECT --url http://127.0.0.1:1", CLIENT),
    "serve": ("--port 65536", CONFIG),
    "spark-conf": ("", NOTHING),
    "table adopt": ("plain --topic t", CATALOG | {"duckdb"}),
    "table alter": ("plain --on-error skip --evolution manual", CATALOG),
    "table audit": ("nowhere", CATALOG | {"duckdb"}),
    "table create": ("t --topic t --schema @nowhere", CATALOG),
    "table describe": ("plain", CATALOG),
    "table drop": ("plain --yes", CATALOG),
    "table hand-over": ("plain --yes", CATALOG | {"duckdb"}),
    "table list": ("", CATALOG),
    "table maintain": ("nowhere", CATALOG),
    "table resume": ("nowhere --accept-loss", CATALOG),
    "table take-over": ("plain --yes", CATALOG | {"duckdb"}),
    "table unadopt": ("plain", CATALOG | {"duckdb"}),
    "tail": ("t --url http://127.0.0.1:1", CLIENT),
    "tier": ("nowhere", CATALOG),
}
"""Command to arguments, and the libraries that it may have loaded when it ends with them."""

RUN = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from seamline.cli import main
for command in sys.argv[1:]:
    try:
        main(json.loads(command))
    except SystemExit as ended:
        status = ended.code
sys.exit(status)
"""


def libraries() -> set[str]:
    """What can be imported of the libraries that the project itself depends on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = {
        re.split(r"[^\w-]", requirement)[0]
        for requirement in (
            *project["dependencies"],
            *extras["cli"],
            *extras["gateway"],
            *extras["spark"],
        )
    }
    modules = importlib.metadata.packages_distributions().items()
    return {name for name, found in modules if wanted & {d.lower() for d in found}} - {"click"}


def leaves(command: click.Command, path: str = "") -> Iterator[str]:
    """The paths of all commands that are not groups."""
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, f"{path} {name}".strip())


def loaded(folder: pathlib.Path, *commands: list[str]) -> set[str]:
    """The libraries that one process has loaded when the last of the commands ends."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SEAMLINE_")}
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(json.dumps, commands)],
        cwd=folder,
        env={**environment, "SEAMLINE_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    *said, modules = done.stderr.splitlines()
    assert not any("Traceback" in line for line in said), done.stderr
    return {module.split(".")[0] for module in json.loads(modules)} & libraries()


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A configuration whose catalog has one table, without a topic; its cluster is away."""
    offline.write(tmp_path)
    address = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    catalog = SqlCatalog("lake", **address)
    catalog.create_namespace("default")
    catalog.create_table("default.plain", Schema())
    catalog.close()
    return tmp_path


def test_every_command_is_in_the_table() -> None:
    assert sorted(leaves(root)) == sorted(COMMANDS)
    assert set().union(*(allowed for _, allowed in COMMANDS.values())) <= libraries()


@pytest.mark.one_in(test=54, prove=18)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_loads_what_it_uses(command: str, folder: pathlib.Path) -> None:
    arguments, allowed = COMMANDS[command]
    given = arguments.format(folder=folder).split()
    assert loaded(folder, [*command.split(), *given]) <= allowed


def test_help_loads_nothing(tmp_path: pathlib.Path) -> None:
    commands = ["", "local", "table", "config", *COMMANDS]
    assert loaded(tmp_path, *([*command.split(), "--help"] for command in commands)) == NOTHING


def test_compiled_sqlglot_is_refused_by_name() -> None:
    code = (
        "import sqlglot, sys\n"
        "sqlglot.Parser.parse = len\n"  # what mypyc compiles is no Python function either
        "from seamline.cli import main\n"
        "main(['serve'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    message, hint = done.stderr.splitlines()
    assert message.startswith("error: PACKAGE_CONFLICT: sqlglotc is installed: ")
    assert hint == "hint: pip uninstall sqlglotc"
