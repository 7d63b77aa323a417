"""Goal: the architecture and the taste that the project agreed on hold, and old debts only shrink.

Method: the sources are parsed, never run. Each debt is in a list with its size or reason; a debt
that was paid must leave the list.
"""

from __future__ import annotations

import ast
import importlib
import pathlib
import re
import tomllib
from collections.abc import Iterator

import pytest
from support.sources import (
    PARTS,
    ROOT,
    imports_of,
    module_name,
    modules,
    nodes_of,
    part_of,
    python_files,
)
from tools.shape import formats_by_name, knots

from seamline.errors import ERRORS

MODULES = tuple(modules())
TESTS = tuple(
    path for part in ("tests", "benchmarks", "examples", "docs") for path in python_files(part)
)

IMPORTS = {
    "sql": {"sql"},
    "seam": {"seam", "sql"},
    "planners": {"planners", "seam", "sql"},
    "connectors": {"connectors", "seam", "sql"},
    "gateway": set(PARTS),
    "client": {"client"},
}
"""What a folder may import of ours."""
ERRORS_MODULE = "seamline.errors"
"""What every folder may also import."""
LOADED_WHEN_CALLED = {
    "client/cli.py": "seamline.gateway.cli.",
    "client/dbapi/embedded.py": "seamline.gateway.app.embedded",
    "client/spark/__init__.py": "seamline.connectors.spark.",
}
"""What a module of the client loads by name, only when it is asked for."""
COMMAND_LINE = {
    "client/ending.py",
    "client/commands/completion.py",
    "client/commands/freshness.py",
    "client/commands/query.py",
    "client/terminal/running.py",
    "client/commands/spark_conf.py",
    "client/commands/tail.py",
    "client/shell/prompt.py",
    "client/shell/session.py",
}

FUNCTION_LINES_MAX = 50
"""Lines of a function, its docstring not counted."""


# --- Architecture --------------------------------------------------------------------------------


@pytest.mark.parametrize("part", PARTS)
def test_imports_point_one_way(part: str) -> None:
    wrong = [
        f"{path} imports {name}"
        for path in python_files(part)
        for name in imports_of(path)
        if name.split(".")[0] == "seamline"
        and part_of(name) not in IMPORTS[part]
        and name != ERRORS_MODULE
    ]
    assert not wrong


def test_no_folders_import_each_other() -> None:
    assert knots() == []


def test_a_table_format_is_asked_what_it_can_do_and_not_for_its_name() -> None:
    assert formats_by_name() == []


def test_the_client_loads_other_folders_only_when_asked() -> None:
    named = {
        (str(path), node.value)
        for path in python_files("client")
        for node in nodes_of(path)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"seamline(\.\w+)+", node.value)
        and part_of(node.value) != "client"
    }
    assert {path for path, _ in named} == set(LOADED_WHEN_CALLED)
    for path, module in named:
        assert module in {module_name(path) for path in MODULES}
        assert module.startswith(LOADED_WHEN_CALLED[path])


def test_nobody_imports_a_folder_by_its_bare_name() -> None:
    bare = re.compile(rf"^ *(?:import|from) +(?:{'|'.join(PARTS)})\b.*", re.MULTILINE)
    wrong = [
        f"{path}: {found[0]}"
        for path in (*MODULES, *TESTS)
        if (found := bare.search((ROOT / path).read_text(encoding="utf-8"))) is not None
    ]
    assert not wrong


def test_every_folder_with_an_init_file_is_a_package_of_the_wheel_and_no_other() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {path.parent for path in MODULES}
    assert all((ROOT / folder / "__init__.py").is_file() for folder in folders)
    packages = project["tool"]["setuptools"]["packages"]
    assert sorted(packages) == sorted(module_name(folder / "__init__") for folder in folders)


def test_caches_are_made_in_one_way() -> None:
    by_hand = [
        str(path)
        for path in MODULES
        if str(path) != "connectors/cache.py"
        and re.search(r"\bOrderedDict\b|\bpopitem\b", (ROOT / path).read_text(encoding="utf-8"))
    ]
    assert not by_hand
    importing = {str(path) for path in MODULES if "cachetools" in imports_of(path)}
    assert importing == {"connectors/cache.py"}


PYICEBERG_INTERNALS = "connectors/iceberg/pyiceberg_internals.py"


def _private_uses(path: pathlib.Path) -> Iterator[str]:
    """What a module takes of PyIceberg's that PyIceberg keeps to itself."""
    bases: dict[str, object] = {}
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyiceberg"):
            found = importlib.import_module(str(node.module))
            bases |= {a.asname or a.name: getattr(found, a.name, None) for a in node.names}
            yield from (a.name for a in node.names if _is_private(a.name))
    for node in nodes_of(path):
        match node:
            case ast.Attribute(ast.Name("self" | "cls")):
                pass
            case ast.Attribute(attr=name) if bases and _is_private(name):
                yield name
            case ast.ClassDef():
                own = [bases[b.id] for b in node.bases if isinstance(b, ast.Name) and b.id in bases]
                names = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
                yield from (n for n in names for b in own if _is_private(n) and hasattr(b, n))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_one_module_reaches_into_pyiceberg() -> None:
    reaching = {str(path) for path in MODULES if any(_private_uses(path))}
    assert reaching == {PYICEBERG_INTERNALS}


IN_THE_BACKGROUND = {
    "client/aio.py": "what the thread raises is raised again by whoever awaits it",
    "client/dbapi/statement.py": "what the thread raises is raised again by whoever waits for it",
    "connectors/supervision.py": "the mechanism itself",
    "connectors/delta/log.py": "its futures are asked for what they raised",
    "connectors/duckdb/instances.py": "a queue of work, each piece of it an `attempt`",
    "connectors/iceberg/boundaries/positions.py": "its futures are asked for what they raised",
    "connectors/iceberg/file_contents.py": "its futures are asked for what they raised",
    "connectors/iceberg/tables/scan.py": "its futures are asked for what they raised",
    "gateway/query/run.py": "its futures are asked for what they raised",
    "gateway/iceberg_rest/scan_plans.py": "its futures are asked for what they raised",
    "gateway/flight/server.py": "a call ends with a named error, and gRPC asks its futures",
    "gateway/app/server.py": "gunicorn asks its futures for what they raised",
    "gateway/statements/service.py": "a queue of statements, each of them an `attempt`",
}
"""Modules that start threads themselves, and why nothing that is raised there is lost."""
STARTS = re.compile(
    r"(threading\.)?(Thread|Timer)|(concurrent\.futures\.)?(Thread|Process)PoolExecutor"
    r"|_?thread\.start_new_thread|(multiprocessing\.)?Process|asyncio\.\w*create_task"
)


def test_what_runs_in_the_background_is_supervised() -> None:
    starters = {
        str(path)
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and STARTS.fullmatch(ast.unparse(node.func))
    }
    assert starters == set(IN_THE_BACKGROUND)


# --- Taste ---------------------------------------------------------------------------------------


def test_every_module_opens_with_what_it_promises() -> None:
    opening = re.compile(r'(?:#[^\n]*\n|\n)*r?"""(?:(?!""").){15,}?[.:]', re.DOTALL)
    silent = [
        str(path)
        for path in (*MODULES, *TESTS)
        if not opening.match((ROOT / path).read_text(encoding="utf-8"))
    ]
    assert not silent


def test_only_commands_write_to_the_terminal() -> None:
    writers = {
        str(path)
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"print", "click.echo"}
    }
    loud = {path for path in writers if not path.startswith("gateway/cli/")}
    assert loud == COMMAND_LINE


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function but for its docstring."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def test_functions_are_short() -> None:
    lines = {
        f"{path}:{node.name}": _length(node)
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not {name: count for name, count in lines.items() if count > FUNCTION_LINES_MAX}


# --- Text ----------------------------------------------------------------------------------------

TEXT_FOLDERS = (*PARTS, "tests", "docs", "helm", "benchmarks", "examples", ".ci", ".github")
TEXT_SUFFIXES = {"", ".py", ".md", ".toml", ".yaml", ".yml", ".tpl", ".txt", ".slt", ".cfg", ".sh"}
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.>}*])/(?:home|root|work|farm|Users)/\w"),
    "the host of a package registry": re.compile(
        r"pypi\.org|pythonhosted\.org|maven\.org|maven\.apache\.org|npmjs\.(?:org|com)|index[-]url"
    ),
}


MADE = {"__pycache__", "node_modules"}


def text_files() -> Iterator[pathlib.Path]:
    for folder in TEXT_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            is_text = path.suffix in TEXT_SUFFIXES or path.name == "Makefile"
            if path.is_file() and is_text and MADE.isdisjoint(path.parts):
                yield path
    own = (p for p in ROOT.iterdir() if p.is_file() and p.name != ".git")
    yield from (p for p in own if p.suffix in TEXT_SUFFIXES)


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(what: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in text_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if FORBIDDEN[what].search(line)
    ]
    assert not wrong


def test_workflows_run_what_everybody_runs_with_actions_of_a_known_version() -> None:
    folder = ROOT / ".github" / "workflows"
    texts = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.yml")}
    for name in ("ci.yml", "release.yml"):
        assert re.search(r"run: \.ci/run\b", texts[name]), name
    used = [line for text in texts.values() for line in text.splitlines() if "uses:" in line]
    pinned = re.compile(r"uses: [\w./-]+@(?:v|release/v)(\d+) # major version \1\b")
    assert used
    assert [line for line in used if not pinned.search(line)] == []


# --- Errors and marks ----------------------------------------------------------------------------


def codes_used() -> set[str]:
    """Codes that a module names outside its imports, in a text that becomes an error, too."""
    used = set()
    for path in MODULES:
        if str(path) in {"client/errors/__init__.py", "gateway/trino/errors.py"}:
            continue
        for node in nodes_of(path):
            match node:
                case ast.Name(name, ast.Load()):
                    used.add(name)
                case ast.Constant(str(text)):
                    used.update(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", text))
    return used & set(ERRORS)


def test_every_error_is_raised_somewhere() -> None:
    assert set(ERRORS) - codes_used() == set()


def test_every_error_says_what_to_do() -> None:
    silent = [name for name, code in ERRORS.items() if not re.search(r"\w.*\.$", code.hint)]
    assert not silent
