"""Goal: whoever installs the wheel without the lock gets versions that were tested.

Method: each requirement of the wheel has an upper bound, which is the release after the one in the
lock. What these bounds allow today is installed from the wheel into an environment of its own. If
that has another version of anything than the lock, the tests that it would break first are run in
it: connectors, functions, and SQL on every route; of another DuckDB alone, its SQL.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from support.locks import locked
from support.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUNTIME = [
    Requirement(text)
    for text in (
        *PROJECT["dependencies"],
        *(t for e in ("arrow", "gateway", "spark") for t in PROJECT["optional-dependencies"][e]),
    )
]
TESTS = ("tests/unit/sql", "tests/unit/connectors", "tests/slt")
OF_DUCKDB = ("tests/slt", "-k", "duckdb")
"""Every function and clause, where another DuckDB alone is to be tried."""
_INSTALL_S, _TESTS_S = 900, 2400


@pytest.mark.parametrize("requirement", RUNTIME, ids=str)
def test_what_is_not_tested_is_not_installed(requirement: Requirement) -> None:
    tested = locked()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(tested)
    assert not requirement.specifier.contains(f"{tested.major + 1}"), "nobody has tested that"


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.timeout(_INSTALL_S + _TESTS_S)
def test_the_newest_that_is_allowed_works(wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "SPARK_"))}

    def run(*command: str | pathlib.Path, seconds: int) -> str:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
        return done.stdout

    run(sys.executable, "-m", "venv", tmp_path / "venv", seconds=_INSTALL_S)
    python = tmp_path / "venv" / "bin" / "python"
    install = (python, "-m", "pip", "install", "--quiet", "--upgrade")
    run(*install, f"seamline[arrow,gateway,spark] @ {wheel.as_uri()}", seconds=_INSTALL_S)
    where = run(python, "-P", "-c", "import seamline; print(seamline.__file__)", seconds=60)
    assert where.startswith(str(tmp_path)), "the wheel is what is tested"
    listed = json.loads(run(python, "-m", "pip", "list", "--format", "json", seconds=60))
    newest = {canonicalize_name(each["name"]): Version(each["version"]) for each in listed}
    tested = locked()
    assert {canonicalize_name(each.name) for each in RUNTIME} <= newest.keys()
    others = {name for name, version in newest.items() if tested.get(name, version) != version}
    if not others:
        return  # the tests of this very checkout are those of the newest
    run(*install, f"seamline[dev] @ {wheel.as_uri()}", seconds=_INSTALL_S)
    chosen = OF_DUCKDB if others == {"duckdb"} else TESTS
    options = ("-m", "not prove", "-q", "-x", "-p", "no:cacheprovider")
    ran = run(python, "-P", "-m", "pytest", *chosen, *options, seconds=_TESTS_S)
    assert " passed" in ran
