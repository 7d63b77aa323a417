"""Goal: what is installed is the package and nothing but it, and the base install stays light.

Method: a wheel is built from a copy of the sources and unpacked; interpreters that see nothing else
of ours (`-I -S`, an empty folder to start in) import it, with every library or with those of the
base install alone.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import pathlib
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence

import pytest
from support.sources import ROOT, module_name, modules

from seamline.cli import _COMMANDS

BASE_LIBRARIES = ("click", "urllib3")
EXTRAS = ("client/shell/prompt.py", "client/sqlalchemy/")
"""What of the client needs an extra, and is loaded where that is wanted alone."""
IMPORT_ALL = """
import importlib, importlib.util
for name in {names!r}:
    importlib.import_module(name)
assert importlib.util.find_spec("sql") is None, "a top-level sql would break notebooks"
"""

CONFIG = """
catalogs: {{lake: {{type: sql, uri: 'sqlite:///{folder}/catalog.db', warehouse: '{folder}'}}}}
clusters: {{default: {{bootstrap_servers: '127.0.0.1:1'}}}}
"""
MAKE_TABLE = """
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
catalog = SqlCatalog("lake", uri="sqlite:///{folder}/catalog.db", warehouse="{folder}")
catalog.create_namespace("default")
catalog.create_table("default.t", Schema())
"""


@pytest.fixture(scope="module")
def installed(wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder that holds the unpacked wheel."""
    folder = tmp_path_factory.mktemp("installed")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


@pytest.fixture(scope="module")
def base(installed: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the wheel and the libraries of the base install, and no others."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "seamline").symlink_to(installed / "seamline")
    for name in BASE_LIBRARIES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        (folder / name).symlink_to(spec.submodule_search_locations[0])
    return folder


def run(code: str, path: Sequence[pathlib.Path | str], start: pathlib.Path) -> tuple[int, str]:
    """Exit code and error output of a program that imports from `path` alone."""
    whole = f"import sys; sys.path += {[str(entry) for entry in path]!r}\n{code}"
    command = [sys.executable, "-I", "-S", "-c", whole]
    done = subprocess.run(command, cwd=start, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def site_packages() -> list[pathlib.Path]:
    return [pathlib.Path(entry) for entry in sys.path if entry.endswith("site-packages")]


CONSOLE = {
    f"seamline/gateway/http/console/{name}"
    for name in ("console.css", "console.js", "index.html", "licenses.txt", "sources.sha256")
}
PROTOS = {f"seamline/gateway/flight/{name}.proto" for name in ("flight", "flight_sql")}


def test_the_wheel_holds_the_package_and_nothing_else(wheel: pathlib.Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"seamline"}
    files = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
    found = {name.removesuffix("/__init__.py").removesuffix(".py") for name in files}
    expected = {module_name(path).replace(".", "/") for path in modules()}
    others = {"seamline/py.typed", "seamline/connectors/jvm/jars.sha256", *CONSOLE, *PROTOS}
    assert found == {*expected, *others}


def test_the_command_leads_to_its_module(installed: pathlib.Path) -> None:
    (found,) = importlib.metadata.distributions(name="seamline", path=[str(installed)])
    (command,) = found.entry_points.select(group="console_scripts")
    assert (command.name, command.value) == ("seamline", "seamline.cli:main")


@pytest.mark.soak
def test_every_module_imports_from_an_empty_folder(
    installed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    names = sorted({module_name(path) for path in modules()})
    code = IMPORT_ALL.format(names=names)
    assert run(code, [installed, *site_packages()], tmp_path) == (0, "")


def test_the_client_needs_only_the_base_install(base: pathlib.Path, tmp_path: pathlib.Path) -> None:
    own = (path for path in modules() if path.parts[0] == "client")
    names = sorted({module_name(p) for p in own if not p.as_posix().startswith(EXTRAS)})
    code = IMPORT_ALL.format(names=names) + "seamline.connect('http://127.0.0.1:1').close()"
    assert run("import seamline\n" + code, [base], tmp_path) == (0, "")


NEEDS = {name: extras for name, (_, extras, _) in _COMMANDS.items() if extras}


CALLS = {
    "audit": ["t"],
    "config": ["show"],
    "demo": ["--state", "here"],
    "doctor": [],
    "local": ["up", "--state", "here"],
    "prepare": [],
    "serve": [],
    "table": ["list"],
    "tier": ["t"],
}


@pytest.mark.parametrize("command", NEEDS)
def test_a_command_of_the_gateway_says_what_to_install(
    base: pathlib.Path, tmp_path: pathlib.Path, command: str
) -> None:
    arguments = [command, *CALLS[command]]
    status, said = run(f"from seamline.cli import main; main({arguments!r})", [base], tmp_path)
    assert status == 1
    assert said.startswith(f"error: MISSING_EXTRA: `seamline {command}` needs ")
    assert said.endswith(f"hint: pip install 'seamline[{NEEDS[command]}]'\n")


@pytest.mark.prove
def test_what_a_command_imports_later_is_named_too(
    installed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    libraries = tmp_path / "without_spark"
    libraries.mkdir()
    for entry in {e for path in site_packages() for e in path.iterdir()}:
        if entry.name not in {"seamline", "pyspark"} and entry.suffix != ".pth":
            (libraries / entry.name).symlink_to(entry)
    (tmp_path / "seamline.yaml").write_text(CONFIG.format(folder=tmp_path), encoding="utf-8")
    code = MAKE_TABLE.format(folder=tmp_path)
    arguments = ["tier", "t", "--engine", "spark", "--set", "spark.remote=sc://127.0.0.1:1"]
    code += f"from seamline.cli import main; main({arguments})"
    status, said = run(code, [installed, libraries], tmp_path)
    assert status == 1
    assert said.endswith(
        "error: MISSING_EXTRA: `seamline tier` needs pyspark, which is not installed\n"
        "hint: pip install 'seamline[spark]'\n"
    )


def test_extras_that_are_named_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    known = project["project"]["optional-dependencies"]
    assert {extra for extras in NEEDS.values() for extra in extras.split(",")} <= set(known)
