"""Goal: the demos, which a newcomer runs first, say `all exact` and leave nothing behind.

Method: the commands that `make demo` and `make demo-adopt` run, with fewer records, each in a
process of its own with real parts; what they print is read.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import psutil
import pytest
from support import programs

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.prove]

RECORDS = 20_000
QUESTIONS = 6


@pytest.mark.one_in(prove=2)
@pytest.mark.parametrize("options", [(), ("--adopt",)], ids=["tiered", "adopted"])
def test_the_demo_ends_all_exact(tmp_path: pathlib.Path, options: tuple[str, ...]) -> None:
    folder = tmp_path / "state"
    arguments = ["demo", "--records", str(RECORDS), "--state", str(folder), *options]
    done = subprocess.run(
        [sys.executable, "-m", "seamline.cli", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^all exact, in \d+ s$", done.stdout, re.MULTILINE)
    assert "\nNext:\n" in done.stdout
    pattern = r"^   ([\d,]+) cold \+ ([\d,]+) hot rows read, .*: exact$"
    answers = re.findall(pattern, done.stdout, re.MULTILINE)
    is_killed = not options
    assert len(answers) == QUESTIONS + 2 * is_killed  # before and after the restart
    assert ("kill -9 " in done.stdout) == is_killed
    assert any(cold != "0" and hot != "0" for cold, hot in answers)  # both tiers were there
    assert "WRONG" not in done.stdout
    left = [p.pid for p in psutil.process_iter() if str(folder) in programs.command_line(p)]
    assert left == []
