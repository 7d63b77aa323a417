"""Fixtures of the packaging tests."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest
from support.sources import PARTS, ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The wheel, built from a copy so that nothing is left in the sources."""
    copy = tmp_path_factory.mktemp("sources")
    for part in PARTS:
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "out", "."]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = (copy / "out").glob("*.whl")
    return found
