"""Goal: the programs in `examples/` run as a reader runs them, and keep their word.

Method: each is a process of its own beside one gateway and one stack; what it claims it checks
itself, so that it ends with an error where that does not hold.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from support.gateway import Gateway
from support.sources import ROOT
from support.stack import Stack

from seamline.gateway.dev.local import ports

pytestmark = [pytest.mark.integration, pytest.mark.spark]

EXAMPLES = {
    "adopt_a_table": "every payment once, whatever the job has copied",
    "change_stream": "the same before and after tiering, and fresh after a change",
    "dashboard": "all tiles agree",
    "orders_service": "everybody saw what they had written",
}
"""The programs, and what each says at its end."""


@pytest.mark.one_in(prove=4)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_keeps_its_word(
    stack: Stack, gateway: Gateway, name: str, tmp_path: pathlib.Path
) -> None:
    tools = pathlib.Path(sys.executable).parent
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / f"{name}.py")],
        cwd=tmp_path,
        env={
            **stack.environment,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "SEAMLINE_URL": gateway.url,
            "BOOTSTRAP_SERVERS": stack.bootstrap_servers,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == EXAMPLES[name]


def test_every_example_is_run_and_described() -> None:
    programs = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"stand"}
    assert programs == set(EXAMPLES)
    readme = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert [name for name in EXAMPLES if f"({name}.py)" not in readme] == []


def test_without_variables_they_use_the_local_stack() -> None:
    """At the port that it takes if it can; so does the program in `docs/python.md`."""
    for file in ("examples/stand.py", "docs/python.md"):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f'"{ports.HOST}:{ports.FIRST}"' in text, file


def test_without_a_broker_they_say_what_to_do(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "dashboard.py")],
        cwd=tmp_path,
        env={**os.environ, "BOOTSTRAP_SERVERS": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1].startswith("no broker answers at 127.0.0.1:1: ")
    assert "Traceback" not in done.stderr
